"""What tests with the real client share: a project with tasks, and a hand that conducts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

ENV = {"PODIUM_PYTHON": sys.executable}
BASH = ["--allowedTools=Bash"]


class Run:
    """A run in a project, seen by a person at a terminal."""

    def __init__(
        self, plugin: Path, project: Path, tasks: int = 1, env: dict[str, str] | None = None
    ) -> None:
        self.plugin, self.project = plugin, project
        self.env = {"PATH": os.environ["PATH"], "HOME": str(project), **ENV, **(env or {})}
        self.podium("init")
        for number in range(1, tasks + 1):
            self.add(f"task-{number:02}")

    def podium(self, *words: str, session: str | None = None) -> str:
        """What a command prints, said by a person or as a session."""
        done = self.attempt(*words, session=session)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def attempt(self, *words: str, session: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command that may fail."""
        as_session = ["--session", session] if session else []
        return subprocess.run(
            [self.plugin / "bin" / "podium", *as_session, *words],
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )

    def add(self, task_id: str, *options: str) -> None:
        """A task with instructions."""
        path = self.project / "docs" / "tasks" / f"{task_id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Do it.\n")
        instructions = str(path.relative_to(self.project))
        self.podium("conductor", "add", task_id, "--instructions", instructions, *options)

    def look(self, *words: str) -> Any:
        """What a command says as JSON."""
        return json.loads(self.podium("--json", *words))

    def state(self, task_id: str = "task-01") -> str:
        """The state of a task."""
        return str(self.look("why", task_id)["state"])


def part(run: Run, **env: str) -> Any:
    """How a session of the run is started: with podium, its own id, and any shell command."""
    return {
        "project": run.project,
        "plugin_dirs": [run.plugin],
        "session_id": str(uuid.uuid4()),
        "env": {**ENV, **env},
        "extra_args": BASH,
    }
