"""What tests of the stage share: a run whose sessions podium itself starts, real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from client.driver import until
from client.model import Bash, Play, Say, When
from client.orchestra import Run

if TYPE_CHECKING:
    from pathlib import Path

    from client.driver import Client

FINISH = (
    "podium musician finish --smoothness 1 --summary done --files 1 --tests pass "
    "--report docs/report.md"
)
COMPLETE = "podium musician complete --report docs/report.md"
FILL_IN = "sed -i 's/<fill in: [^>]*>/done/' temp/{task}-HANDOFF"
LEAVE = "podium musician exit --reason context"
EXIT = f"{LEAVE} || {FILL_IN.format(task='task-01')} && {LEAVE}"


class Hall(Run):
    """A run in a world of its own, conducted by a person; its musicians are real sessions."""

    def __init__(
        self, client: Client, plugin: Path, project: Path, tasks: int = 1, **launch: Any
    ) -> None:
        self.client = client
        settings = {"client": str(client.program), "wait": 60, **launch}
        (project / "podium.json").write_text(json.dumps({"launch": settings}))
        (project / "docs").mkdir()
        (project / "docs" / "report.md").write_text("Done.\n")
        world = {**client._env(project, {}), "PODIUM_PYTHON": sys.executable}
        super().__init__(plugin, project, tasks, env=world)

    def attempt(self, *words: str, session: str | None = None) -> subprocess.CompletedProcess[str]:
        as_session = ["--session", session] if session else []
        return subprocess.run(
            [self.plugin / "bin" / "podium", *as_session, *words],
            cwd=self.project, env=self.env, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def launched(self, task_id: str = "task-01", *options: str) -> dict[str, Any]:
        """A session that was started for the task."""
        return dict(self.look("conductor", "launch", task_id, *options))

    def replaced(self, task_id: str = "task-01", *options: str) -> dict[str, Any]:
        """A session that took the task over."""
        return dict(self.look("conductor", "replace", task_id, *options))

    def until_state(self, state: str, task_id: str = "task-01") -> None:
        until(lambda: self.state(task_id) == state, 60, f"{task_id} {state}")

    def approve(self, task_id: str = "task-01") -> None:
        """Wait for its submission and say yes."""
        self.until_state("needs_review", task_id)
        self.podium("conductor", "approve", task_id, "-m", "THE VERDICT")

    def mail(self, kind: str, task_id: str = "task-01") -> list[str]:
        """The messages of a type about a task."""
        found = self.look("messages", task_id, "--type", kind)["messages"]
        return [str(m["message"]) for m in found]

    def leftovers(self) -> dict[int, str]:
        """Processes of this world, without the client's own background service and its spares."""
        return {
            pid: command
            for pid, command in self.client.processes().items()
            if not any(
                word in command for word in (" daemon run ", "bg-spare", "bg-pty-host", "tmux")
            )
        }


def finishes(task_id: str, name: str) -> Play:
    """A musician that claims, hands in at once, and completes when it is approved."""
    return Play(
        When(f"You are launched as {name} for", Bash(f"podium musician claim {task_id}"), times=1),
        When(f"You are {name};", Bash(FINISH)),
        When("THE VERDICT", Bash(COMPLETE)),  # it may come with the answer to the submission
        When(f"{task_id} is needs_review (message", Say("I wait")),
        When("It is finished", Say("good night")),
        actor=f"You are launched as {name} for",
    )


def tmux(env: dict[str, str], *words: str) -> str:
    """What tmux says in this world."""
    done = subprocess.run(["tmux", *words], env=env, text=True, capture_output=True, check=False)
    return done.stdout


def windows(env: dict[str, str]) -> list[str]:
    """The names of all windows of all tmux sessions of this world."""
    return tmux(env, "list-windows", "-a", "-F", "#{window_name}").splitlines()
