"""What somebody else's statement may do, asked by SQLite, and what it did, told by triggers."""

from __future__ import annotations

import sqlite3

from podium.domain.rights import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .sqlite import SqliteStore

ROWS, CHARACTERS = 1000, 1_000_000
TASKS, MESSAGES = "orchestration_tasks", "orchestration_messages"
# Who a row belongs to and what the log says of it is for the triggers to write.
COLUMNS = frozenset(
    {
        *("state", "instruction_path", "session_id", "worked_by", "started_at", "completed_at"),
        *("report_path", "retry_count", "last_heartbeat", "last_error"),
    }
)
READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
WRITING = {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
}
OTHERS = {
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "a transaction of its own",
    sqlite3.SQLITE_SAVEPOINT: "a savepoint",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
}
WATCH = "podium_watch"
FORBIDDEN = frozenset({"load_extension", "fts3_tokenizer", WATCH})
WATCHERS = ("watch_new_rows", "watch_changed_rows", "watch_deleted_rows", "watch_mail")


class Guard:
    """SQLite's authorizer: what a statement may do, and what it was denied."""

    def __init__(self, *, writes: bool = False, trusted: frozenset[str] = frozenset()) -> None:
        self.writes, self.trusted = writes, trusted
        self.verb = self.denied = ""
        self.on = True

    def __call__(  # noqa: D102
        self,
        action: int,
        first: str | None,
        second: str | None,
        base: str | None,
        inside: str | None,
    ) -> int:
        if not self.on:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and second in FORBIDDEN:
            ours = second == WATCH and inside in self.trusted
            return sqlite3.SQLITE_OK if ours else self._deny(f"the function {second}")
        if action in READING:
            return sqlite3.SQLITE_OK
        if action in WRITING and self.writes:
            if inside in self.trusted:
                return sqlite3.SQLITE_OK
            return self._ask(WRITING[action], first or "", second or "", base)
        return self._deny(_name(action, first or ""))

    def _ask(self, verb: str, table: str, column: str, base: str | None) -> int:
        if base != "main" or table not in (TASKS, MESSAGES):
            return self._deny(_name_of_write(verb, table))
        if verb == "UPDATE" and table == TASKS and column not in COLUMNS:
            return self._deny(f"writing the column {column}")
        self.verb = verb
        return sqlite3.SQLITE_OK

    def _deny(self, what: str) -> int:
        self.denied = self.denied or what
        return sqlite3.SQLITE_DENY

    def refusal(self) -> str:
        """Why the statement was denied."""
        if self.writes:
            return (
                f"{self.denied} is refused: execute changes rows of {TASKS} and {MESSAGES} only; "
                "for everything else, run: podium --help"
            )
        return (
            f"{self.denied} is refused: query runs one SELECT; "
            f"to change rows of {TASKS} or {MESSAGES}, use execute"
        )


def _name(action: int, first: str) -> str:
    if action in WRITING:
        return _name_of_write(WRITING[action], first)
    return OTHERS.get(action, "changing the schema")


def _name_of_write(verb: str, table: str) -> str:
    return "changing the schema" if table.startswith("sqlite_") else f"{verb} on {table}"


class Touch:
    """One row that a statement wrote: a task's before and after, or a message."""

    def __init__(self, facts: tuple[Any, ...]) -> None:
        self.verb, self.task_id, *old, state, session_id, self.mark, self.ahead, self.size = facts
        self.state, self.session_id = state, session_id  # of a message: its type and its sender
        self.old = Row(*old) if old[0] else None
        self.new = Row(state, session_id) if state and self.verb != "mail" else None

    @property
    def is_news(self) -> bool:
        """Whether anybody but the writer has reason to look."""
        if self.old and self.new:
            return (self.old.state, self.old.session_id) != (self.new.state, self.new.session_id)
        return bool(self.verb != "delete")


class Watcher:
    """Every row that a statement touches on this connection, in order."""

    def __init__(self, store: SqliteStore) -> None:
        self.touched: list[Touch] = []
        self.excess, self._room = "", CHARACTERS
        store.db.create_function(WATCH, -1, self._see)
        for name in WATCHERS:
            store.run(name)

    def _see(self, *facts: Any) -> None:
        touch = Touch(facts)
        self.touched.append(touch)
        self._room -= touch.size or 0
        if touch.ahead:
            self.excess = "last_heartbeat would lie in the future; write datetime('now')"
        elif len(self.touched) > 2 * ROWS or self._room < 0:
            self.excess = (
                f"it writes more than {ROWS:,} rows or {CHARACTERS:,} characters; write less"
            )
        if self.excess:
            raise ValueError(self.excess)  # ends the statement
