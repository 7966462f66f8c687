"""The protocol as a raw sqlite3 client meets it.

The tables are typed from the contract and imported from nowhere: what they are compared with is
generated from podium.domain.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# from: (where a musician may move it, where the conductor may move it)
TASK_MOVES = {
    "watching": ("working", "watching exit_requested exited"),
    "working": ("needs_review error complete exited", "exit_requested fix_proposed exited"),
    "needs_review": (
        "error exited",
        "review_approved review_failed fix_proposed exit_requested exited",
    ),
    "review_approved": (
        "working needs_review error complete exited",
        "exit_requested fix_proposed exited",
    ),
    "review_failed": ("working needs_review error exited", "exit_requested fix_proposed exited"),
    "error": ("exited", "fix_proposed review_approved review_failed exit_requested exited"),
    "fix_proposed": ("working needs_review error exited", "watching exit_requested exited"),
    "exit_requested": ("working exited", "watching fix_proposed exited"),
    "exited": ("", "fix_proposed"),
    "complete": ("", ""),
}
CONDUCTOR_MOVES = {
    "watching": ("", "reviewing exit_requested complete"),
    "reviewing": ("", "watching exit_requested complete"),
    "exit_requested": ("", "watching"),
    "complete": ("", ""),
}
FALLBACK_MOVES = {"exited": ("", "")}
STATES = sorted({*TASK_MOVES, *CONDUCTOR_MOVES})
CLAIMABLE = ("watching", "fix_proposed", "exit_requested")

# What happens to a claimed task until it is in this state, its session still written in it.
AFTER_CLAIM = {
    "working": "",
    "needs_review": "needs_review",
    "review_approved": "needs_review review_approved",
    "review_failed": "needs_review review_failed",
    "error": "error",
    "fix_proposed": "error fix_proposed",
    "exit_requested": "exit_requested",
    "watching": "error fix_proposed watching",
    "complete": "complete",
    "exited": "exited",
}
AFTER_START = {
    "watching": "",
    "reviewing": "reviewing",
    "exit_requested": "exit_requested",
    "complete": "complete",
}

CLAIM = """
UPDATE orchestration_tasks
SET state = 'working', session_id = :session, worked_by = 'musician-' || :task,
    started_at = datetime('now'), last_heartbeat = datetime('now'), retry_count = 0
WHERE task_id = :task AND state IN ('watching', 'fix_proposed', 'exit_requested')
"""


def connect(path: Path) -> sqlite3.Connection:
    """What any program would open: autocommit, and patient with the others."""
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")  # no test pulls the plug, and disks are slow
    db.row_factory = sqlite3.Row
    return db


def add(db: sqlite3.Connection, task: str, session: str | None = None) -> None:
    db.execute(
        "INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES (?, 'watching', ?)",
        (task, session),
    )


def claim(db: sqlite3.Connection, task: str, session: str) -> int:
    """How many rows the seeds' claim changes."""
    return db.execute(CLAIM, {"task": task, "session": session}).rowcount


def move(db: sqlite3.Connection, task: str, state: str) -> int:
    """How many rows a bare state change changes."""
    sql = "UPDATE orchestration_tasks SET state = ? WHERE task_id = ?"
    return db.execute(sql, (state, task)).rowcount


def own(db: sqlite3.Connection, task: str, state: str, session: str) -> None:
    """A new row that this session took, and that has come to this state since."""
    conductor = task == "task-00"
    add(db, task, session if conductor else None)
    if not conductor:
        assert claim(db, task, session) == 1
    for step in (AFTER_START if conductor else AFTER_CLAIM)[state].split():
        assert move(db, task, step) == 1


def send(db: sqlite3.Connection, task: str, sender: str, kind: str, text: str = "…") -> int:
    """The id of the message."""
    sql = (
        "INSERT INTO orchestration_messages (task_id, from_session, message_type, message)"
        " VALUES (?, ?, ?, ?)"
    )
    return int(db.execute(sql, (task, sender, kind, text)).lastrowid or 0)


def age(db: sqlite3.Connection, task: str, seconds: int) -> None:
    """Make the last sign of life of this row's owner so old."""
    db.execute(
        "UPDATE orchestration_tasks SET last_heartbeat = datetime('now', ?) WHERE task_id = ?",
        (f"-{seconds} seconds", task),
    )


def row(db: sqlite3.Connection, task: str) -> dict[str, object]:
    found = db.execute("SELECT * FROM orchestration_tasks WHERE task_id = ?", (task,)).fetchone()
    return dict(found)


def everything(db: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables: what must be equal when nothing was changed."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [tuple(r) for r in db.execute(f"SELECT * FROM {name}")] for name in tables}
