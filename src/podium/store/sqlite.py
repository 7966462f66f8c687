"""SQLite behind the store's interface: the only connect(), WAL, bounded waiting, clear refusals.

Hooks run through here, so nothing is imported before it is needed.
"""

from __future__ import annotations

import os
import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from podium.domain.errors import PodiumError

    from .base import Row

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = 1  # the newest numbered step in sql/
APPLICATION = 0x706F6469  # "podi"
KEPT = "what this command wrote before that stands; look first: podium status"


def queries() -> dict[str, str]:
    """The statements of queries.sql by name."""
    with open(os.path.join(HERE, "sql", "queries.sql"), encoding="utf-8") as file:
        blocks = file.read().split("-- name: ")[1:]
    return dict(block.split("\n", 1) for block in blocks)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def connect(path: str, wait: float, mode: str = "rw") -> sqlite3.Connection:
    """A connection that waits before anything else and never creates a file."""
    # urllib.parse.quote would cost every hook 3 ms; SQLite reads nothing but these three.
    plain = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    uri = f"file:{plain}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None)
    db.row_factory = sqlite3.Row
    # SQL can make a text of any bytes: one such must not make a whole run unreadable.
    db.text_factory = _text
    # In WAL a commit then needs no fsync: a killed process loses nothing, a power cut at most the
    # last steps, and never half of one.
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def refusal(error: sqlite3.Error, path: str, *, wrote: bool = False) -> PodiumError:
    """What a database error means for the person at the terminal.

    `wrote`: an earlier step of the same command stands.
    """
    from podium.domain.errors import RuleRefused, StoreBroken, StoreBusy

    text = str(error)
    if text.startswith("podium: "):
        return RuleRefused(text[len("podium: ") :])
    if isinstance(error, sqlite3.IntegrityError):  # its text may quote a list with any word in it
        return RuleRefused(f"the database refused it: {text}")
    if "locked" in text or "busy" in text:
        kept = KEPT if wrote else "nothing was written; try again"
        return StoreBusy(f"{path} stayed locked by another process; {kept}")
    repair = {
        "readonly": "is read-only; make it and its folder writable",
        "disk is full": "cannot grow, the disk is full; free some space",
        "unable to open": "cannot be opened; check that it is a readable file",
    }
    for sign, what in repair.items():
        if sign in text:
            kept = KEPT if wrote else "nothing was written; run: podium doctor"
            return StoreBroken(f"{path} {what}; {kept}")
    kept = KEPT if wrote else "nothing was written"
    return StoreBroken(
        f"{path} cannot be used ({text}); {kept}; "
        "run: podium init --archive to set it aside and start anew"
    )


class _Transaction:
    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    def __enter__(self) -> None:
        if self.store.depth == 0:
            self.store.command("BEGIN IMMEDIATE")
        self.store.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.store.depth -= 1
        if self.store.depth == 0:
            if kind is None:
                self.store.command("COMMIT")
                self.store.wrote = True
            elif self.store.db.in_transaction:
                self.store.command("ROLLBACK")


class SqliteStore:
    """One connection to one file. See podium.store.base.Store for the contract."""

    def __init__(self, path: str, wait: float, mode: str = "rw") -> None:
        self.path, self.depth, self.wrote = path, 0, False
        self.touched: set[str] = set()
        self.sql = queries()
        try:
            self.db = connect(path, wait, mode)
        except sqlite3.Error as error:
            raise refusal(error, path) from error

    @classmethod
    def open(cls, path: str, wait: float) -> SqliteStore:
        """The store, brought up to this code's schema. Refuses what is not podium's."""
        if not os.path.isfile(path):
            from podium.domain.errors import NotSetUp

            raise NotSetUp(f"there is no database at {path}; run: podium init")
        store = cls(path, wait)
        try:
            if store.version() != SCHEMA:
                from .migrate import upgrade

                upgrade(store)
        except BaseException:
            store.close()
            raise
        return store

    def version(self) -> int:
        """The numbered step the database is at; 0 for one that is not podium's."""
        if self.command("PRAGMA application_id").fetchone()[0] != APPLICATION:
            return 0  # others number their schemas too
        return int(self.command("PRAGMA user_version").fetchone()[0])

    def command(self, sql: str, params: dict[str, object] | None = None) -> sqlite3.Cursor:
        """Run one statement; every database error becomes a refusal."""
        try:
            return self.db.execute(sql, params or {})
        except sqlite3.Error as error:
            raise refusal(error, self.path, wrote=self.wrote) from error

    def one(self, name: str, **params: object) -> Row | None:
        """The first row of a named query, or None."""
        rows = self.all(name, **params)
        return rows[0] if rows else None

    def all(self, name: str, **params: object) -> list[Row]:
        """Every row of a named query."""
        try:
            return [dict(row) for row in self.db.execute(self.sql[name], params)]
        except sqlite3.Error as error:
            raise refusal(error, self.path, wrote=self.wrote) from error

    def run(self, name: str, **params: object) -> int:
        """How many rows a named statement changed."""
        count = self.command(self.sql[name], params).rowcount
        if count > 0 and isinstance(params.get("task_id"), str):
            self.touched.add(str(params["task_id"]))
        return count

    def transaction(self) -> _Transaction:
        """All or nothing, and nobody else writes meanwhile. One inside another joins it."""
        return _Transaction(self)

    def change(self) -> int:
        """A number that differs once anybody else has committed."""
        return int(self.command("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Let go of the database."""
        self.db.close()
