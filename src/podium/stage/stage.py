"""The stage of one project: which window a session gets, its start, its watch, its end."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from podium.domain.errors import PodiumError
from podium.stage import background, client, pidfile, process, worktree
from podium.stage.base import Play
from podium.stage.headless import Headless
from podium.stage.kitty import Kitty
from podium.stage.tmux import Tmux

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from podium.domain.records import Process
    from podium.stage.base import Backend, Facts, Window

AUTO = "auto"
ORDER = ("kitty", "tmux", "background", "headless")
CAME, ENDED, SILENT = "came", "ended", "silent"
PLAYER_PATIENCE = 15.0  # seconds until the player has written who it is
SHOWN = 12  # lines of a window


class Stage:
    """What podium can start, find again and end here. It never touches the database."""

    def __init__(
        self, config: client.Config, facts: Facts, *, root: str, temp: str, database: str
    ) -> None:
        self.config, self.facts = config, facts
        self.root, self.temp, self.database = root, temp, database
        self.host = os.uname().nodename
        self._client = ""

    @property
    def client(self) -> str:
        """The client's program; NotSetUp when there is none."""
        self._client = self._client or client.find(self.config, self.facts)
        return self._client

    def backend(self, name: str) -> Backend:
        """The backend of this name."""
        if name == "background":
            return background.Background(self.client)
        kinds: dict[str, type[Backend]] = {"kitty": Kitty, "tmux": Tmux, "headless": Headless}
        return kinds[name]()

    def choose(self, wanted: str | None) -> tuple[Backend, str]:
        """The backend to use and why; of `auto`, the first that works here."""
        wanted = wanted or self.config.backend
        if wanted != AUTO:
            backend = self.backend(wanted)
            fault = backend.works(self.facts)
            if fault:
                raise PodiumError(f"{wanted} cannot be used: {fault}; try --backend auto")
            return backend, "as asked"
        inside = self.facts.env.get("TMUX")
        names = sorted(ORDER, key=lambda name: name != "tmux") if inside else ORDER
        passed: list[str] = []
        for name in names:
            backend = self.backend(name)
            fault = backend.works(self.facts)
            if not fault:
                here = "podium runs in it" if inside and name == "tmux" else "the first that works"
                return backend, "; ".join([here, *passed])
            passed.append(f"not {name}: {fault}")
        raise PodiumError("no backend works here: " + "; ".join(passed))

    def changes(self) -> dict[str, str]:
        """The variables that a session is started with."""
        return {**client.NO_STOP_CAP, "PODIUM_DB": self.database, **self.config.env}

    def place(self, task_id: str) -> str:
        """Where the session of a task works."""
        return worktree.place(self.temp, task_id) if self.config.worktree else self.root

    def prepare(
        self,
        backend: Backend,
        task_id: str,
        title: str,
        prompt: str,
        *,
        cwd: str,
        session_id: str | None,
        resume: str | None = None,
    ) -> Play:
        """A session as it would be started; nothing is written yet."""
        options = client.arguments(
            self.config,
            backend,
            title=title,
            session_id=session_id if backend.chooses_id else None,
            resume=resume,
            changes=self.changes(),
            plugin_dir=client.plugin_dir(self.config, self.facts, self.root),
        )
        return Play(
            task_id,
            title,
            [self.client, *options],
            client.check_prompt(prompt),
            cwd=cwd,
            folder=self.temp,
            changes=self.changes(),
            project=os.path.basename(self.root),
        )

    def start(self, backend: Backend, play: Play) -> tuple[Window, Process | None]:
        """Open the window; it, and the process in it if that could be told. Raises CannotStart."""
        if self.config.worktree and play.cwd == worktree.place(self.temp, play.task_id):
            worktree.make(self.root, self.temp, play.task_id)
        file = play.file("pid")
        if os.path.lexists(file):
            os.unlink(file)
        window = backend.start(play, self.facts)
        end = time.monotonic() + PLAYER_PATIENCE
        while not os.path.exists(file) and time.monotonic() < end:
            time.sleep(0.05)
        return window, pidfile.read(file)

    def watch(self, who: Process | None, came: Callable[[], bool]) -> str:
        """CAME as soon as the session has come, ENDED when its process did first, else SILENT."""
        end = time.monotonic() + self.config.wait
        while time.monotonic() < end:
            alive = who is not None and process.is_alive(who) is not False
            if came():
                return CAME
            if not alive:
                return ENDED
            time.sleep(0.1)
        return SILENT

    def screen(self, name: str, window: Mapping[str, object]) -> str:
        """The last lines that a window shows, without blank ones."""
        lines = self.backend(name).screen(dict(window), self.facts).splitlines()
        return "\n".join([line.rstrip() for line in lines if line.strip()][-SHOWN:])

    def end(self, who: Process | None) -> str:
        """End a process that podium started; see podium.stage.process.end."""
        return process.end(who) if who else "gone"

    def close_window(self, name: str, window: Mapping[str, object]) -> None:
        """Take down what is left of a window."""
        self.backend(name).close(dict(window), self.facts)

    def is_alive(self, who: Process) -> bool | None:
        """Whether this very process still runs; None when it is on another host."""
        return process.is_alive(who)

    def descends(self, pid: int, who: Process) -> bool:
        """Whether the process with this pid came from that one, and both run."""
        return any(child.pid == pid for child in process.descendants(who))

    def player(self, task_id: str) -> Process | None:
        """The process that the PID file of a task names."""
        return pidfile.read(pidfile.path(self.temp, task_id))

    def clear_stale(self, task_id: str) -> str:
        """Remove a PID file that names nobody who plays; what it was, empty when it may stay."""
        return pidfile.clear_stale(pidfile.path(self.temp, task_id))

    def clear_all_stale(self) -> dict[str, str]:
        """The same for every PID file, of whatever run: task id → what it was."""
        notes = {t: pidfile.clear_stale(file) for t, file in pidfile.every(self.temp).items()}
        return {task_id: note for task_id, note in notes.items() if note}

    def waiting_for(self) -> dict[str, str]:
        """Session id → what it waits for, for all sessions that the client itself lists."""
        found = background.roll(self.client, self.facts)
        return {str(one.get("sessionId")): str(one.get("waitingFor") or "") for one in found}

    def shown(self, backend: Backend, play: Play) -> dict[str, object]:
        """Everything that would run, for --dry-run."""
        return {
            "backend": backend.name,
            "window": backend.shown(play, self.facts),
            "client": [play.argv[0], "PROMPT", *play.argv[1:]],
            "cwd": play.cwd,
            "set": play.changes,
            "prompt": play.prompt,
        }
