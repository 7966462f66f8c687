"""After a takeover nothing of the old session is written any more, and it learns who took over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import pytest
from protocol import everything, move, own, send

from podium.domain.errors import ClaimBlocked, TakenOver
from podium.domain.states import MessageType, State
from podium.services import callers, tasks

if TYPE_CHECKING:
    import sqlite3

    from podium.domain.records import Task
    from podium.services.callers import Caller
    from podium.store.base import Store

WRITES: dict[str, Callable[[Store, Caller, Task], object]] = {
    "submits": lambda store, me, task: tasks.play(
        store, me, task, State.NEEDS_REVIEW, MessageType.REVIEW_REQUEST, "look"
    ),
    "reports an error": lambda store, me, task: tasks.fail(
        store, me, task, "broken", "it is broken", warning=False
    ),
    "completes": lambda store, me, task: tasks.complete(store, me, task, "report.md"),
    "exits": lambda store, me, task: tasks.play(
        store, me, task, State.EXITED, MessageType.HANDOFF, "bye"
    ),
    "tells something": lambda store, me, task: tasks.tell(
        store, me, task, MessageType.RESUMPTION_STATUS, "here"
    ),
}


@pytest.fixture
def run(raw: sqlite3.Connection) -> sqlite3.Connection:
    """`old` has finished task-03 and was approved; the conductor may hand it off at any moment."""
    own(raw, "task-00", "watching", "conductor")
    own(raw, "task-03", "working", "old")
    send(raw, "task-03", "old", "completion")
    move(raw, "task-03", "needs_review")
    move(raw, "task-03", "review_approved")
    return raw


def take_over(raw: sqlite3.Connection, store: Store) -> None:
    send(raw, "task-03", "task-00", "handoff")
    move(raw, "task-03", "fix_proposed")
    tasks.claim(store, callers.identify(store, "new"), "task-03")
    move(raw, "task-03", "needs_review")
    move(raw, "task-03", "review_approved")


@pytest.mark.parametrize("what", WRITES)
def test_the_old_sessions_next_write_is_refused_and_names_its_successor(
    store: Store, run: sqlite3.Connection, what: str
) -> None:
    take_over(run, store)
    before = everything(run)
    old = callers.identify(store, "old")
    with pytest.raises(TakenOver, match=r"musician-task-03-S2 \(session new\)"):
        WRITES[what](store, old, callers.own_task(store, old))
    assert everything(run) == before


@pytest.mark.parametrize("what", WRITES)
def test_a_takeover_between_looking_and_writing_is_noticed(
    store: Store, run: sqlite3.Connection, what: str
) -> None:
    old = callers.identify(store, "old")
    mine = callers.own_task(store, old)
    take_over(run, store)
    before = everything(run)
    with pytest.raises(TakenOver, match=r"musician-task-03-S2 \(session new\)"):
        WRITES[what](store, old, mine)
    assert everything(run) == before


def test_a_blocked_claim_leaves_the_fallback_row_and_a_message(
    store: Store, run: sqlite3.Connection
) -> None:
    move(run, "task-03", "fix_proposed")
    with pytest.raises(ClaimBlocked, match=r"musician-task-03 \(session old\) is alive"):
        tasks.claim(store, callers.identify(store, "new"), "task-03")
    fallback = tasks.get(store, "fallback-new")
    assert (fallback.state, fallback.session_id) == (State.EXITED, "new")
    newest = "SELECT * FROM orchestration_messages ORDER BY id DESC LIMIT 1"
    mail = run.execute(newest).fetchone()
    assert (mail["task_id"], mail["from_session"]) == ("task-03", "new")
    assert mail["message_type"] == "claim_blocked"
