"""A look at a database that changes nothing: what it is, whether it is whole, how it is kept."""

from __future__ import annotations

import os

from podium.domain.errors import StoreBusy

from .migrate import NETWORKED, file_system, lost_rules
from .sqlite import SCHEMA, SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Row

LARGE_LOG = 64 * 1024 * 1024  # bytes that nobody has folded into the database


class Health:
    """What was found. `version` is 0 for a database that is not podium's."""

    def __init__(self, path: str) -> None:
        """Raises StoreBroken or StoreBusy when the file cannot be read at all."""
        self.path = path
        self.mode = os.stat(path).st_mode & 0o777
        self.system = file_system(os.path.dirname(os.path.abspath(path)))
        log = f"{path}-wal"
        self.log = os.path.getsize(log) if os.path.exists(log) else 0
        store = SqliteStore(path, wait=2.0)
        try:
            self.version = store.version()
            self.journal = str(store.command("PRAGMA journal_mode").fetchone()[0])
            self.faults = [str(row[0]) for row in store.command("PRAGMA quick_check(5)")]
            self.is_locked = _is_locked(store)
            self.newest: Row = {}
            self.lost_rules: list[str] = []
            if self.version == SCHEMA:
                self.newest = store.one("newest_signs") or {}
                self.lost_rules = lost_rules(store)
        finally:
            store.close()

    @property
    def is_whole(self) -> bool:
        """Whether SQLite finds nothing wrong in it."""
        return self.faults == ["ok"]

    @property
    def is_networked(self) -> bool:
        """Whether it lies where SQLite loses data."""
        return self.system in NETWORKED


def _is_locked(store: SqliteStore) -> bool:
    """Whether somebody else keeps everybody from writing, for longer than a step takes."""
    try:
        store.command("BEGIN IMMEDIATE")
    except StoreBusy:
        return True
    store.command("ROLLBACK")
    return False
