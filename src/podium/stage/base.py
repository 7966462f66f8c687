"""What a terminal must be able to do to hold a session. Another terminal is one more file."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from podium.domain.errors import PodiumError

if TYPE_CHECKING:
    from collections.abc import Mapping

Window = dict[str, Any]  # how a backend finds its window again; kept as JSON in the database

PLAYER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "player.py")


class CannotStart(PodiumError):
    """The window did not come up; the text says what was seen of it."""


def private(path: str) -> BinaryIO:
    """A file for this user's eyes only, emptied; a link that waits in its place is not followed."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.fchmod(handle, 0o600)  # it may be left from an earlier launch
    except OSError as error:
        raise CannotStart(f"{path} cannot be written ({error.strerror})") from error
    return os.fdopen(handle, "wb")


class Facts:
    """Where podium runs: its environment and the programs on its PATH."""

    def __init__(self, env: Mapping[str, str], platform: str = sys.platform) -> None:
        self.env, self.platform = env, platform

    def program(self, name: str) -> str:
        """The full path of a program, empty when there is none."""
        return shutil.which(name, path=self.env.get("PATH")) or ""


class Play:
    """One session that is to be started: what runs where, and what it is told.

    `argv` is the client with its options, without the prompt; `changes` are variables to set;
    `project` is what people call the project.
    """

    def __init__(
        self,
        task_id: str,
        title: str,
        argv: list[str],
        prompt: str,
        *,
        cwd: str,
        folder: str,
        changes: Mapping[str, str],
        project: str = "",
    ) -> None:
        self.task_id, self.title, self.argv, self.prompt = task_id, title, argv, prompt
        self.cwd, self.folder, self.changes = cwd, folder, dict(changes)
        self.project = project or os.path.basename(cwd)

    def file(self, ending: str) -> str:
        """A scratch file of this play: prompt, pid, log."""
        return os.path.join(self.folder, f"musician-{self.task_id}.{ending}")

    def command(self) -> list[str]:
        """What a window runs: the program that becomes the client."""
        return [sys.executable, "-I", PLAYER, self.file("json")]

    def write(self, **more: object) -> None:
        """Write what the player reads. The specification is for its eyes only; it removes it."""
        os.makedirs(os.path.realpath(self.folder), mode=0o700, exist_ok=True)
        with private(self.file("prompt")) as file:
            file.write(self.prompt.encode("utf-8"))
        spec = {
            "argv": self.argv,
            "cwd": self.cwd,
            "changes": self.changes,
            "prompt_file": self.file("prompt"),
            "pid_file": self.file("pid"),
            "before": [],
            **more,
        }
        self.withdraw()
        handle = os.open(self.file("json"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(spec, file)

    def withdraw(self) -> None:
        """Remove a specification that no player has taken."""
        if os.path.lexists(self.file("json")):
            os.unlink(self.file("json"))


class Backend(Protocol):
    """A kind of window. None of its methods signals a process; that is podium.stage.process."""

    name: str
    flags: tuple[str, ...]  # what the client is told besides its options
    chooses_id: bool  # whether the session id can be chosen beforehand
    by_settings: bool  # whether variables reach the session only through its settings

    def works(self, facts: Facts) -> str:
        """Why it cannot be used here; empty when it can."""

    def shown(self, play: Play, facts: Facts) -> list[str]:
        """The command that opens the window, for people."""

    def start(self, play: Play, facts: Facts) -> Window:
        """Open the window; raises CannotStart."""

    def screen(self, window: Window, facts: Facts) -> str:
        """What the window says now; empty when that cannot be told."""

    def close(self, window: Window, facts: Facts) -> None:
        """Take down what is left of the window once its process has ended."""

    def reach(self, window: Window) -> str:
        """How a person gets to the window, to read it or to answer a question in it."""
