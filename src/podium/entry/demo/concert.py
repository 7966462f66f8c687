"""Runs the score in a folder of its own: players in their processes, one of them killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING

from podium.domain.errors import PodiumError
from podium.domain.records import Event, Message
from podium.domain.states import Kind, State, kind_of
from podium.entry.demo import player, score
from podium.stage import pidfile, process
from podium.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.store.base import Store

LONGEST = 90.0  # seconds; a loaded machine plays slowly, a stuck one not at all
GLANCE = 0.05
EVERYTHING = 100_000
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "SYSTEMROOT")


class WentWrong(PodiumError):
    """The concert did not go as scripted."""


class Concert:
    """One concert in `folder`: `start`, `go_on` until it is over, `check`, and always `end`."""

    def __init__(self, folder: str, env: Mapping[str, str], pace: float) -> None:
        self.folder, self.project = folder, os.path.join(folder, "concert")
        self.temp = os.path.join(self.project, "temp")
        python = os.path.dirname(os.path.realpath(sys.executable))
        self.env = {
            **{name: env[name] for name in KEPT if name in env},
            "PATH": os.pathsep.join((python, env.get("PATH", os.defpath))),
            "HOME": os.path.join(folder, "home"),
            "PODIUM_PYTHON": sys.executable,
            "DEMO_PACE": str(pace),
        }
        self.conductor: subprocess.Popen[str] | None = None
        self.killed = 0
        self.began = time.monotonic()

    def podium(self, *words: str, **more: str) -> str:
        """Run a command of podium as a person would; its output."""
        done = subprocess.run(
            [os.path.join(player.ROOT, "bin", "podium"), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.project,
            env={**self.env, **more},
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise WentWrong(f"podium {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def start(self) -> Store:
        """Set the project up and let the conductor begin; the store, to look on."""
        os.makedirs(self.env["HOME"])
        os.makedirs(os.path.join(self.project, "docs", "tasks"))
        client = os.path.join(self.folder, "claude")
        script = shlex.join([sys.executable, "-I", player.__file__])
        _write(client, f'#!/bin/sh\nexec {script} "$@"\n')
        os.chmod(client, 0o700)
        launch = {"client": client, "backend": "headless", "plugin_dir": "none"}
        _write(os.path.join(self.project, "podium.json"), json.dumps({"launch": launch}))
        _write(os.path.join(self.project, "docs", "plan.json"), json.dumps(score.PLAN))
        for task, text in score.TASKS.items():
            _write(
                os.path.join(self.project, "docs", "tasks", f"{task}.md"), f"# {task}\n\n{text}\n"
            )
        self.podium("init")
        self.began = time.monotonic()
        with open(os.path.join(self.temp, "conductor.log"), "wb") as out:
            self.conductor = subprocess.Popen(
                [client, score.CONDUCTOR, "--session-id", str(uuid.uuid4())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                text=True,
                cwd=self.project,
                env=self.env,
                start_new_session=True,
            )
        return open_store(os.path.join(self.project, "comms.db"))

    @property
    def seconds(self) -> float:
        """How long it has been playing."""
        return time.monotonic() - self.began

    def go_on(self) -> bool:
        """Wait a moment, kill whom the score wants dead; False when it is over."""
        if not self.killed and self._says(f"{score.KILLED}-status", score.HALF_DONE):
            victim = pidfile.read(pidfile.path(self.temp, score.KILLED))
            if victim and process.is_alive(victim):
                os.kill(victim.pid, signal.SIGKILL)
                self.killed = victim.pid
        if self.seconds > LONGEST:
            raise WentWrong(f"it was not over after {LONGEST:g} s{self._last_words()}")
        time.sleep(GLANCE)
        return self.conductor is not None and self.conductor.poll() is None

    def check(self, store: Store) -> list[Event]:
        """The log, when it is the one that the score wants; else WentWrong says what was not."""
        if self.conductor and self.conductor.returncode:
            raise WentWrong(f"the conductor stopped{self._last_words()}")
        events = [Event(row) for row in store.all("events", task_id=None, most=EVERYTHING)]
        played: dict[str, list[State]] = {}
        for event in events:
            if kind_of(event.task_id) is Kind.TASK and event.from_state != event.to_state:
                played.setdefault(event.task_id, []).append(State(event.to_state))
        for task, wanted in score.ENDED_WELL.items():
            if played.get(task) != list(wanted):
                seen = ", ".join(state.value for state in played.get(task, []))
                raise WentWrong(f"{task} was {seen or 'never there'}{self._last_words()}")
        if not self.killed:
            raise WentWrong("nobody was killed")
        return events

    def end(self) -> None:
        """Leave nobody running who was started here."""
        if self.conductor is not None:
            known = process.identify(self.conductor.pid)
            if known:
                process.end(known, grace=1.0)
            self.conductor.wait()
        for task in score.TASKS:
            left = pidfile.read(pidfile.path(self.temp, task))
            if left:
                process.end(left, grace=1.0)

    def _says(self, name: str, text: str) -> bool:
        try:
            with open(os.path.join(self.temp, name), encoding="utf-8") as file:
                return text in file.read()
        except OSError:
            return False

    def _last_words(self) -> str:
        """What the players said of it, for a person."""
        found = []
        for name in sorted(os.listdir(self.temp)) if os.path.isdir(self.temp) else []:
            if name.endswith(".log"):
                with open(
                    os.path.join(self.temp, name), encoding="utf-8", errors="replace"
                ) as file:
                    found += [f"{name[:-4]}: {line.strip()}" for line in file if line.strip()][-1:]
        return "; " + "; ".join(found) if found else ""


def newest_mail(store: Store) -> dict[str, Message]:
    """The last message of each task."""
    rows = store.all("messages", task_id=None, message_type=None, most=EVERYTHING)
    return {str(row["task_id"]): Message(row) for row in rows}


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
