"""The registry of client sessions: who runs where, and which id a session had before /clear."""

from __future__ import annotations

from .life import LET_GO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.domain.records import Process
    from podium.store.base import Store


def register(
    store: Store,
    session_id: str,
    *,
    cleared: bool,
    process: Process | None,
    facts: Mapping[str, str | None],
) -> None:
    """Note that a session started; after /clear, the rows of its former id follow it."""
    where = {
        "pid": process and process.pid,
        "pid_started": process and process.started,
        "host": process and process.host,
    }
    with store.transaction():
        former = cleared and store.one("session_of_process", session_id=session_id, **where)
        continues = former["session_id"] if former else None
        store.run("register", session_id=session_id, continues=continues, **where, **facts)
        if continues:
            store.run("follow_clear", session_id=session_id, continues=continues)
        store.run("revive", session_id=session_id, released=LET_GO)
