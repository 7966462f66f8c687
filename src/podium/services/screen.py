"""The screen to leave open during a night: one line a task, and who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from podium.domain.quotes import one_line
from podium.domain.records import Task
from podium.domain.rules import STALE_AFTER
from podium.domain.states import (
    AWAITING,
    CLAIMABLE,
    CONDUCTOR_ROW,
    ENDED,
    FALLBACK_PREFIX,
    Kind,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from podium.store.base import Row, Store

S = State
NAMED = 4  # tasks that the conductor's line names


class Line(NamedTuple):
    """A task as it is shown. Ages are in seconds; None where nobody is there to be old."""

    task_id: str
    phase: int
    state: State
    who: str
    life: int | None
    work: int | None
    context: int | None
    unread: int
    note: str  # what is wrong, or for whom it waits; empty while it goes on
    alarming: bool


def lines(store: Store) -> list[Line]:
    """Every row but the fallback ones, by phase."""
    rows = store.all(
        "screen", conductor=CONDUCTOR_ROW, complete=S.COMPLETE.value, fallback=FALLBACK_PREFIX
    )
    return [_line(row, rows) for row in rows]


def _line(row: Row, rows: Sequence[Row]) -> Line:
    task = Task(row)
    ended = task.state in ENDED
    stale = task.owner_age is not None and task.owner_age >= STALE_AFTER
    return Line(
        task.task_id,
        task.phase,
        task.state,
        task.worked_by or ("conductor" if task.task_id == CONDUCTOR_ROW else "nobody"),
        task.owner_age,
        row["work_age"] if task.owner_age is not None else None,
        None if ended else row["percent"],
        0 if ended else row["unread"],
        _note(task, row, rows),
        task.state is S.ERROR or (not ended and bool(stale or row["halted"] or row["asking"])),
    )


def _note(task: Task, row: Row, rows: Sequence[Row]) -> str:
    """What is wrong with it, else for whom or what it waits; the first that holds."""
    error = f": {task.last_error}" if task.state is S.ERROR and task.last_error else ""
    nobody = task.owner_age is None and task.state in CLAIMABLE[Kind.TASK]
    silent = (task.owner_age or 0) >= STALE_AFTER
    notes = (
        (task.state in ENDED, ""),
        (row["ended"], f"its session is gone: {row['ended']}"),
        (row["asking"], f"asks a person: {row['asking']}"),
        (row["halted"], f"halted by {row['halted']}"),
        (silent, "no sign of life"),
        (task.task_id == CONDUCTOR_ROW, _conductor(task, rows)),
        (task.state in AWAITING, f"waits for the conductor{error}"),
        (row["unmet"], f"waits for {row['unmet']}"),
        (nobody, "waits for a musician"),
    )
    return one_line(next((text for holds, text in notes if holds), ""), 120)


def _conductor(task: Task, rows: Sequence[Row]) -> str:
    """Whom the conductor waits for: those who play, unless one of them waits for it."""
    others = [row for row in rows if row["task_id"] != CONDUCTOR_ROW]
    asking = {s.value for s in AWAITING}
    if task.state is not S.WATCHING or any(row["state"] in asking for row in others):
        return ""
    playing = [str(row["task_id"]) for row in others if row["owner_seen"] is not None]
    more = f" and {len(playing) - NAMED} more" if len(playing) > NAMED else ""
    return f"waits for {', '.join(playing[:NAMED])}{more}" if playing else ""
