"""Fifty musicians for three hours, without the pauses: tool calls, reviews, errors, handoffs, mail.

Every event of the three hours is there, in its number; only the time between them is left out.
Hooks are answered in four processes at once, while fifty sessions wait in their Stop hooks.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
import traceback
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from podium.domain.states import CONDUCTOR_ROW, MessageType, State
from podium.entry.proof.child import PLUGIN, answer_here, warm
from podium.entry.proof.report import Line
from podium.services import callers, life, recovery, tasks
from podium.services.scratch import Scratch
from podium.store import migrate, open_store

if TYPE_CHECKING:
    from podium.store.base import Store

S, M = State, MessageType
SEATS, HOURS, WORKERS = 50, 3, 4
EVERY = {"tool": 20, "beat": 30, "mail": 600, "review": 900, "error": 1800, "handoff": 3600}
ROUNDS = 150  # below 500, after which a Stop hook lets go
HOOK = os.path.join(PLUGIN, "hooks", "hook.sh")
SLOWER_AT_MOST, WAL_AT_MOST = 1.2, 16 * 1024 * 1024


class Seat:
    """One musician's place: a task after the other, a session after the other."""

    def __init__(self, project: str, number: int) -> None:
        self.project, self.number = project, number
        self.task, self.takes, self.tokens = f"task-{number:02}", 0, 20_000
        self.transcript = os.path.join(project, f"{number}.jsonl")

    @property
    def session(self) -> str:
        return f"player-{self.number}-{self.takes}"

    def hook(self, name: str, **more: object) -> None:
        given = {"session_id": self.session, "transcript_path": self.transcript, **more}
        ended = answer_here(name, json.dumps(given).encode())
        assert ended.code in (0, 2), ended
        assert b"Traceback" not in ended.err, ended

    def sit_down(self, store: Store) -> None:
        self.takes, self.tokens = self.takes + 1, 20_000
        self.hook("session_start", source="startup")
        tasks.claim(store, callers.identify(store, self.session), self.task)

    def tool(self, _: Store) -> None:
        self.tokens += 150
        usage = {"input_tokens": self.tokens, "output_tokens": 1}
        message = {"model": "m", "usage": usage}
        line = {"type": "assistant", "isSidechain": False, "message": message}
        Path(self.transcript).write_text(json.dumps(line) + "\n")
        self.hook("participant tool", tool_name="Bash")

    def beat(self, store: Store) -> None:
        life.beat(store, self.session)

    def mail(self, store: Store) -> None:
        tasks.send(store, self.task, CONDUCTOR_ROW, M.EMERGENCY, "EMERGENCY: mind the tempo")

    def review(self, store: Store) -> None:
        self._play(store, S.NEEDS_REVIEW, M.REVIEW_REQUEST)
        self.hook("stop", hook_event_name="Stop")
        self._answer(store, S.REVIEW_APPROVED, M.APPROVAL)
        self.hook("participant bell", file_path=self.session)
        tasks.claim(store, callers.identify(store, self.session), self.task)

    def error(self, store: Store) -> None:
        me = callers.identify(store, self.session)
        tasks.fail(store, me, callers.own_task(store, me), "broken", "ERROR", warning=True)
        self._answer(store, S.FIX_PROPOSED, M.FIX_PROPOSAL)
        tasks.claim(store, callers.identify(store, self.session), self.task)

    def handoff(self, store: Store) -> None:
        scratch = Scratch(os.path.join(self.project, "temp"))
        self._play(store, S.EXITED, M.HANDOFF)
        self.hook("participant end", reason="other")
        row = tasks.get(store, self.task)
        evidence = recovery.Evidence(store, scratch, row, alive=False, window=None)
        recovery.hand_off(store, scratch, callers.identify(store, None), evidence, "")
        self.sit_down(store)

    def _play(self, store: Store, to: State, kind: MessageType) -> None:
        me = callers.identify(store, self.session)
        tasks.play(store, me, callers.own_task(store, me), to, kind, "letter " * 40)

    def _answer(self, store: Store, to: State, kind: MessageType) -> None:
        tasks.judge(store, callers.identify(store, None), self.task, to, kind, "text " * 40)


def begin(project: str) -> None:
    """A run in which fifty musicians have begun, and fifty more sessions wait for their verdict."""
    os.makedirs(os.path.join(project, "temp"))
    with closing(migrate.create(os.path.join(project, "comms.db"))) as store:
        row = {"state": S.WATCHING.value, "instruction_path": None, "parallel": 0, "phase": 1}
        store.run("add_task", task_id=CONDUCTOR_ROW, actor="init", **row)
        tasks.conduct(store, callers.identify(store, "maestro"))
        for number in range(1, 2 * SEATS + 1):
            store.run("add_task", task_id=f"task-{number:02}", actor="init", **row)
        for number in range(1, SEATS + 1):
            Seat(project, number).sit_down(store)


def play(project: str, worker: int, hours: float) -> int:
    """One worker's seats for so many hours; how many events it played."""
    chance, played = random.Random(worker), 0
    with closing(open_store(os.path.join(project, "comms.db"))) as store:
        seats = [Seat(project, n) for n in range(1 + worker, SEATS + 1, WORKERS)]
        for seat in seats:
            seat.takes = 1
        for second in range(10, int(hours * 3600), 10):
            for seat in seats:
                for name, every in EVERY.items():
                    if (second + 10 * seat.number) % every == 0:
                        getattr(seat, name)(store)
                        played += 1
            chance.shuffle(seats)
    return played


def environment(project: str, mode: str) -> dict[str, str]:
    python = os.path.dirname(os.path.realpath(sys.executable))
    return {
        "PATH": os.pathsep.join((python, os.defpath)),
        "HOME": os.path.join(project, "home"),
        "CLAUDE_PROJECT_DIR": project,
        "CLAUDE_CODE_ENTRYPOINT": mode,
    }


class Waiters:
    """Fifty headless sessions that wait in their Stop hooks, real processes all."""

    def __init__(self, project: str) -> None:
        self.project, self.env = project, environment(project, "sdk-cli")
        self.tasks = [f"task-{n:02}" for n in range(SEATS + 1, 2 * SEATS + 1)]
        self.processes = {}
        with closing(open_store(os.path.join(project, "comms.db"))) as store:
            for task in self.tasks:
                self._hook("session_start", task).communicate()
                tasks.claim(store, callers.identify(store, f"waiter-{task}"), task)
                me = callers.identify(store, f"waiter-{task}")
                mine = callers.own_task(store, me)
                tasks.play(store, me, mine, S.NEEDS_REVIEW, M.REVIEW_REQUEST, "…")
                self.processes[task] = self._hook("stop", task)
        time.sleep(1.0)

    def _hook(self, name: str, task: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["/bin/sh", HOOK, name],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        given = {"session_id": f"waiter-{task}", "source": "startup"}
        if process.stdin:
            process.stdin.write(json.dumps(given).encode())
            process.stdin.close()
            process.stdin = None
        return process

    @property
    def alive(self) -> int:
        return sum(p.poll() is None for p in self.processes.values())

    def memory(self) -> list[int]:
        """Kilobytes that each adds to the machine's use: its own pages and its share of others'."""
        found = []
        for process in self.processes.values():
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            found.append(int(text.split("\nPss:", 1)[1].split()[0]))
        return found

    def cpu(self) -> float:
        """Seconds of processor that all have used so far."""
        used = 0
        for process in self.processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
        return used / os.sysconf("SC_CLK_TCK")

    def answer(self) -> tuple[int, float]:
        """Approve all; how many had their answer, and how long after that the last one had it."""
        with closing(open_store(os.path.join(self.project, "comms.db"))) as store:
            person = callers.identify(store, None)
            for task in self.tasks:
                tasks.judge(store, person, task, S.REVIEW_APPROVED, M.APPROVAL, f"good, {task}")
        began, told = time.monotonic(), 0
        for task, process in self.processes.items():
            out, _ = process.communicate(timeout=60)
            told += f"good, {task}".encode() in out
        return told, time.monotonic() - began


class Watch(threading.Thread):
    """The largest size that the journal has had."""

    def __init__(self, project: str) -> None:
        super().__init__(daemon=True)
        self.path, self.largest, self.done = os.path.join(project, "comms.db-wal"), 0, False

    def run(self) -> None:
        while not self.done:
            if os.path.exists(self.path):
                self.largest = max(self.largest, os.path.getsize(self.path))
            time.sleep(0.02)


HOOKS = ("participant tool", "stop", "session_start")
SPEAKS = ("stop", "session_start")


def latency(projects: dict[str, str]) -> dict[str, dict[str, float]]:
    """Medians of real hooks in each project, in random order, in one run."""
    cases = [(name, hook) for name in projects for hook in HOOKS]
    took: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    given = {
        name: json.dumps({"session_id": owner(path), "source": "resume"}).encode()
        for name, path in projects.items()
    }
    for _ in range(ROUNDS):
        random.shuffle(cases)
        for name, hook in cases:
            began = time.perf_counter()
            said = subprocess.run(
                ["/bin/sh", HOOK, *hook.split()],
                input=given[name],
                stdout=subprocess.PIPE,
                cwd=projects[name],
                env=environment(projects[name], "cli"),
                check=True,
            ).stdout
            took[name, hook].append(time.perf_counter() - began)
            # Mail, if any, comes with the first call; else its time would mean nothing.
            assert (b"task-01" in said) == (hook in SPEAKS) or not took[name, hook][1:], said
    return {
        hook: {name: statistics.median(took[name, hook]) for name in projects} for hook in HOOKS
    }


def owner(project: str) -> str:
    with closing(open_store(os.path.join(project, "comms.db"))) as store:
        return str(tasks.get(store, "task-01").session_id)


def left(project: str) -> list[int]:
    """Processes that still have this project in their environment, or for their folder."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes()
                folder = os.readlink(f"/proc/{name}/cwd")
            except OSError:
                continue
            if project.encode() in environ or folder.startswith(project):
                found.append(int(name))
    return found


def load(folder: str, _: random.Random, hours: float = HOURS) -> list[Line]:
    """Three hours of fifty musicians; what became of hooks, journal, processes and memory."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        return [Line("load of 50 musicians", "not measured here", "needs Linux")]
    warm()
    project = os.path.join(folder, "run")
    os.makedirs(project)
    before, cwd = dict(os.environ), os.getcwd()
    os.environ.update(environment(project, "cli"), CLAUDE_PID="0")
    os.chdir(project)
    try:
        return _load(folder, project, hours)
    finally:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(before)


def _load(folder: str, project: str, hours: float) -> list[Line]:
    start = os.path.join(folder, "start")
    begin(project)
    shutil.copytree(project, start)
    waiters = Waiters(project)
    before, began = waiters.cpu(), time.monotonic()
    time.sleep(5.0)
    idle = (waiters.cpu() - before) / (time.monotonic() - began)
    began, children = time.monotonic(), []
    for worker in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            try:
                played = play(project, worker, hours)
                Path(folder, f"played-{worker}").write_text(str(played))
                os._exit(0)
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
                os._exit(1)
        children.append(pid)
    watch = Watch(project)
    watch.start()
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    seconds = time.monotonic() - began
    watch.done = True
    watch.join()
    events = sum(int(p.read_text()) for p in Path(folder).glob("played-*"))
    memory, waiting = waiters.memory(), waiters.alive
    told, last = waiters.answer()
    times = latency({"start": start, "end": project})
    of = f"{events:,} events of {SEATS} musicians in {hours} h, played in {seconds:.0f} s"
    size = os.path.getsize(os.path.join(project, "comms.db")) / 1e6
    lines = [
        Line("workers that failed", sum(map(bool, codes)), of, 0),
        Line("waiters that did not wait to the end", SEATS - waiting, f"{SEATS} Stop hooks", 0),
        Line(
            "waiters without their answer",
            SEATS - told,
            f"the last {last * 1e3:.0f} ms after all were written",
            0,
        ),
        Line("processes left", len(left(project)), "after all that", 0),
        Line(
            "journal larger than 16 MB",
            int(watch.largest > WAL_AT_MOST),
            f"{watch.largest / 1e6:.1f} MB at most; database {size:.1f} MB",
            0,
        ),
        Line("memory of a waiter, MB", round(statistics.median(memory) / 1024, 1), "median of Pss"),
        Line(
            f"processor for {SEATS} waiters, %",
            round(idle * 100, 1),
            "of one core, nothing happening",
        ),
    ]
    for hook, medians in times.items():
        ratio = medians["end"] / medians["start"]
        shown = f"{medians['start'] * 1e3:.1f} → {medians['end'] * 1e3:.1f} ms, ratio {ratio:.2f}"
        slow = int(ratio > SLOWER_AT_MOST)
        lines.append(Line(f"{hook} slower than 1.2 times its start", slow, shown, 0))
    return lines
