"""A git worktree for each task: its musician works on a branch of its own."""

from __future__ import annotations

import os
import subprocess

from podium.domain.errors import PodiumError

FOLDER = "worktrees"


def place(folder: str, task_id: str) -> str:
    """Where the worktree of a task is or would be."""
    return os.path.join(folder, FOLDER, task_id)


def make(root: str, folder: str, task_id: str) -> str:
    """The worktree of a task, made on branch podium/TASK if there is none yet; its path."""
    path = place(folder, task_id)
    if os.path.exists(os.path.join(path, ".git")):
        return path
    os.makedirs(os.path.realpath(os.path.dirname(path)), mode=0o700, exist_ok=True)
    branch = f"podium/{task_id}"
    known = _git(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}").returncode == 0
    _git(root, "worktree", "prune")
    done = _git(
        root, "worktree", "add", *(() if known else ("-b", branch)), path, *([branch] * known)
    )
    if done.returncode:
        raise PodiumError(
            f"git made no worktree for {task_id} ({done.stderr.strip()}); "
            "set launch.worktree to false in podium.json, or repair it and run this again"
        )
    return path


def _git(root: str, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-C", root, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))
