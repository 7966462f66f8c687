"""The shared database. `open_store` is the one place that chooses a backend."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Store


def open_store(url: str, wait: float = 15.0) -> Store:
    """The store behind a path or URL, upgraded to the schema this code knows.

    Refuses with NotSetUp, StoreBroken or StoreBusy; `wait` bounds how long a lock is waited for.
    """
    if url.startswith(("postgresql://", "postgres://")):
        from podium.domain.errors import NotSetUp

        raise NotSetUp(
            "PODIUM_DB names a PostgreSQL server, which this version cannot use yet; "
            "unset it or give a path to a local file, then run: podium init"
        )
    from .sqlite import SqliteStore

    return SqliteStore.open(url, wait)
