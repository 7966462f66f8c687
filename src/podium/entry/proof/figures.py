"""What is measured: a race for tasks, the way from an answer to who waits for it, a hook's cost."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from podium.domain.errors import PodiumError
from podium.domain.states import CLAIMABLE, CONDUCTOR_ROW, FIRST, Kind, MessageType, State
from podium.services import callers, tasks
from podium.store import migrate, open_store
from podium.store.sqlite import connect

from .child import PLUGIN
from .scene import Scene
from .walk import statements

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

    from podium.store.base import Store

HOOK = os.path.join(PLUGIN, "hooks", "hook.sh")
SETTLED = 0.4  # seconds after which a waiter waits


def _task(number: int) -> str:
    return f"task-{number:03}"


def _plan(path: str, count: int) -> None:
    """A database with the conductor's row and so many tasks."""
    row = {"state": FIRST[Kind.TASK].value, "instruction_path": None, "parallel": 0, "phase": 1}
    with closing(migrate.create(path)) as store, store.transaction():
        for name in (CONDUCTOR_ROW, *map(_task, range(1, count + 1))):
            store.run("add_task", task_id=name, actor="init", **row)


class Race(NamedTuple):
    """What came of a race: claims won by two, tasks won by nobody, errors seen, who won any."""

    double: int
    missed: int
    errors: int
    winners: int


def race(folder: str, runners: int, count: int) -> Race:
    """So many processes claim so many tasks at once, half through podium and half by raw SQL."""
    path = os.path.join(folder, "comms.db")
    _plan(path, count)
    start, started = os.pipe()
    results = []
    for number in range(runners):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.close(started)
            os.read(start, 1)  # returns for all when nobody can write any more
            with os.fdopen(theirs, "w") as out:
                json.dump(_run(path, f"runner-{number}", count), out)
            os._exit(0)
        os.close(theirs)
        results.append(os.fdopen(ours))
    os.close(start)
    os.close(started)
    won: dict[str, int] = {}
    errors = winners = 0
    for result in results:
        with result:
            names, seen = json.load(result)
        errors, winners = errors + seen, winners + bool(names)
        for name in names:
            won[name] = won.get(name, 0) + 1
        os.wait()
    return Race(sum(won.values()) - len(won), count - len(won), errors, winners)


def _run(path: str, session: str, count: int) -> tuple[list[str], int]:
    import random

    chance, names = random.Random(session), list(map(_task, range(1, count + 1)))  # noqa: S311
    chance.shuffle(names)
    claim = {"session_id": session, "to_state": State.WORKING.value}
    claimable = json.dumps([state.value for state in CLAIMABLE[Kind.TASK]])
    won, errors = [], 0
    sql = statements()["claim"]
    with closing(open_store(path)) as store, closing(connect(path, 15.0)) as db:
        for number, name in enumerate(names):
            time.sleep(chance.random() / 500)  # or the first to run has them all
            try:
                if number % 2:
                    done = store.run("claim", task_id=name, claimable=claimable, **claim)
                else:
                    done = db.execute(sql, {"task": name, "session": session}).rowcount
                won += [name] * done
            except Exception:  # noqa: BLE001  # whatever it is, somebody saw it
                errors += 1
    return won, errors


def wakes(folder: str, rounds: int, waiters: int) -> Iterator[float]:
    """Seconds from the commit of an answer until a waiting Stop hook has written it out.

    Several headless sessions wait at the same time; their answers are written one by one.
    """
    path = os.path.join(folder, "comms.db")
    _plan(path, waiters)
    env = _environment(folder, folder)
    players = {_task(n): f"player-{n}" for n in range(1, waiters + 1)}
    with closing(open_store(path)) as store:
        for task, session in players.items():
            tasks.claim(store, callers.identify(store, session), task)
            _hook("session_start", session, folder, env).communicate()
        for _ in range(rounds):
            waiting = {}
            for task, session in players.items():
                me = callers.identify(store, session)
                mine = callers.own_task(store, me, task)
                tasks.play(store, me, mine, State.NEEDS_REVIEW, MessageType.REVIEW_REQUEST, "…")
                waiting[task] = _hook("stop", session, folder, env)
            time.sleep(SETTLED)
            for task, waiter in waiting.items():
                yield _answer(store, task, waiter)


def _answer(store: Store, task: str, waiter: subprocess.Popen[bytes]) -> float:
    if waiter.poll() is not None or waiter.stdout is None:
        raise PodiumError("a Stop hook did not wait")
    person = callers.identify(store, None)
    tasks.judge(store, person, task, State.REVIEW_APPROVED, MessageType.APPROVAL, "go on")
    committed = time.perf_counter()
    waiter.stdout.readline()
    took = time.perf_counter() - committed
    waiter.communicate()
    return took


def _environment(folder: str, project: str) -> dict[str, str]:
    python = os.path.dirname(os.path.realpath(sys.executable))
    return {
        "PATH": os.pathsep.join((python, os.defpath)),
        "HOME": folder,
        "CLAUDE_PROJECT_DIR": project,
        "CLAUDE_CODE_ENTRYPOINT": "sdk-cli",
    }


def _hook(name: str, session: str, cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["/bin/sh", HOOK, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env=env,
    )
    if process.stdin:
        process.stdin.write(json.dumps({"session_id": session, "source": "startup"}).encode())
        process.stdin.close()
        process.stdin = None
    return process


class Cost(NamedTuple):
    """Medians as ratios to `python3 -I -S -c "import json, sqlite3"` in the same run."""

    player: float
    stranger: float


def hooks(folder: str, chance: random.Random, rounds: int) -> Iterator[Cost]:
    """What a Stop hook costs, after each round."""
    project = Scene(folder).restore("run")
    env = {**_environment(folder, project), "CLAUDE_CODE_ENTRYPOINT": "cli"}
    floor = [shutil.which("python3", path=env["PATH"]) or sys.executable]
    commands = {
        "floor": ("", [*floor, "-I", "-S", "-c", "import json, sqlite3"]),
        "player": ("m-04", ["/bin/sh", HOOK, "stop"]),
        "stranger": ("stranger", ["/bin/sh", HOOK, "stop"]),
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name in chance.sample(list(commands), len(commands)):
            session, command = commands[name]
            took[name].append(_time(command, session, project, env))
        half = {name: statistics.median(times) for name, times in took.items()}
        yield Cost(half["player"] / half["floor"], half["stranger"] / half["floor"])


def _time(command: list[str], session: str, cwd: str, env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command,
        input=json.dumps({"session_id": session}).encode(),
        stdout=subprocess.DEVNULL,
        cwd=cwd,
        env=env,
        check=True,
    )
    return time.perf_counter() - began
