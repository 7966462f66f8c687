"""Signs of life and death. A beat is the client's process speaking, never a model."""

from __future__ import annotations

import json

from podium.domain.records import Process
from podium.domain.states import RELEASED, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.store.base import Store

LET_GO = json.dumps([state.value for state in RELEASED[Kind.TASK]])


def beat(store: Store, session_id: str, *, progress: bool = False) -> int:
    """A sign of life of the session, and of work if it is one; how many rows it owns alive."""
    with store.transaction():
        rows = store.run("beat", session_id=session_id)
        if rows or progress:
            store.run("seen", session_id=session_id, progress=int(progress))
    return rows


def bury(store: Store, session_id: str, how: str) -> list[str]:
    """Note that a session's process is gone; the rows that it leaves behind."""
    with store.transaction():
        if not store.run("end_session", session_id=session_id, ended=how):
            return []
        left = [
            str(row["task_id"])
            for row in store.all("tasks_of_session", session_id=session_id)
            if row["owner_seen"] is not None
        ]
        store.run("orphan_rows", session_id=session_id, ended=how, released=LET_GO)
    return left


def find_dead(store: Store, host: str, is_alive: Callable[[Process], bool | None]) -> list[str]:
    """The sessions of this host that own a live row, or shall, and whose process is gone."""
    return [
        str(row["session_id"])
        for row in store.all("watched", host=host)
        if is_alive(Process(row["pid"], str(row["pid_started"]), host)) is False
    ]
