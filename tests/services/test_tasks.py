"""Steps: who may make them, what they leave behind, and in what order they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import pytest
from protocol import AFTER_CLAIM, add, everything, move, own, row, send

from podium.domain.errors import NotOwner, PodiumError, TakenOver
from podium.domain.states import MessageType, State
from podium.services import callers, tasks

if TYPE_CHECKING:
    import sqlite3

    from podium.services.callers import Caller
    from podium.store.base import Store

T = "task-03"


def me(store: Store, session: str = "a") -> Caller:
    return callers.identify(store, session)


@pytest.fixture
def run(raw: sqlite3.Connection) -> sqlite3.Connection:
    """A run that `boss` conducts and in which `a` plays task-03."""
    own(raw, "task-00", "watching", "boss")
    own(raw, T, "working", "a")
    return raw


@pytest.mark.parametrize("session", ["a", "b"])
def test_who_takes_a_task_anew_has_all_retries(
    run: sqlite3.Connection, store: Store, session: str
) -> None:
    run.execute("UPDATE orchestration_tasks SET retry_count = 4 WHERE task_id = ?", (T,))
    move(run, T, "exited")
    move(run, T, "fix_proposed")

    taken = tasks.claim(store, me(store, session), T)

    assert (taken.session_id, taken.worked_by) == (session, "musician-task-03-S2")
    assert taken.retry_count == 0


def test_who_goes_on_after_a_fix_keeps_its_count(run: sqlite3.Connection, store: Store) -> None:
    tasks.fail(store, me(store), tasks.get(store, T), "E1", "it broke", warning=False)
    move(run, T, "fix_proposed")

    taken = tasks.claim(store, me(store), T)

    assert (taken.worked_by, taken.retry_count) == ("musician-task-03", 1)


def test_a_session_plays_one_task_at_a_time(run: sqlite3.Connection, store: Store) -> None:
    add(run, "task-04")
    with pytest.raises(NotOwner, match="this session plays task-03"):
        tasks.claim(store, me(store), "task-04")
    assert row(run, "task-04")["session_id"] is None
    move(run, T, "exited")
    assert tasks.claim(store, me(store), "task-04").session_id == "a"


def test_who_is_asked_to_leave_cannot_play_on(run: sqlite3.Connection, store: Store) -> None:
    move(run, T, "exit_requested")
    with pytest.raises(PodiumError, match="task-03 is exit_requested"):
        tasks.claim(store, me(store), T)
    assert row(run, T)["state"] == "exit_requested"


CONDUCTS: dict[str, Callable[[Store, Caller], object]] = {
    "adds": lambda store, boss: tasks.add(store, boss, "task-04", None, "do it"),
    "approves": lambda store, boss: tasks.judge(
        store, boss, T, State.REVIEW_APPROVED, MessageType.APPROVAL, "good"
    ),
    "reviews": lambda store, boss: tasks.review(store, boss, T),
    "broadcasts": lambda store, boss: tasks.broadcast(store, boss, "stop"),
    "finishes": tasks.finish,
    "rests": tasks.rest,
}


@pytest.mark.parametrize("what", CONDUCTS)
def test_a_conductor_that_was_replaced_since_it_looked_changes_nothing(
    run: sqlite3.Connection, store: Store, what: str
) -> None:
    boss = me(store, "boss")
    move(run, "task-00", "exit_requested")
    tasks.conduct(store, me(store, "heir"))
    before = everything(run)
    with pytest.raises(TakenOver, match="session heir"):
        CONDUCTS[what](store, boss)
    assert everything(run) == before


def test_the_message_of_a_step_is_written_before_its_state(
    run: sqlite3.Connection, store: Store
) -> None:
    asked = tasks.play(
        store,
        me(store),
        tasks.get(store, T),
        State.NEEDS_REVIEW,
        MessageType.REVIEW_REQUEST,
        "look",
    )
    answered = tasks.judge(
        store, me(store, "boss"), T, State.REVIEW_APPROVED, MessageType.APPROVAL, "good"
    )

    log = run.execute(
        "SELECT to_state, last_message FROM podium_events WHERE task_id = ? ORDER BY id DESC", (T,)
    )
    assert [tuple(line) for line in log][:2] == [
        ("review_approved", answered),
        ("needs_review", asked),
    ]


def test_an_approval_written_by_hand_without_a_message_is_one(
    run: sqlite3.Connection, store: Store
) -> None:
    send(run, T, "a", "completion")
    move(run, T, "needs_review")
    assert not tasks.approved_since_completion(store, T)
    move(run, T, "review_approved")
    assert tasks.approved_since_completion(store, T)


def test_an_approval_of_something_before_the_report_is_none_of_the_report(
    run: sqlite3.Connection, store: Store
) -> None:
    send(run, T, "a", "review_request")
    move(run, T, "needs_review")
    move(run, T, "review_approved")
    send(run, T, "a", "completion")
    assert not tasks.approved_since_completion(store, T)


@pytest.mark.parametrize("state", AFTER_CLAIM)
def test_a_run_is_finished_only_when_every_task_has_ended(
    raw: sqlite3.Connection, store: Store, state: str
) -> None:
    own(raw, "task-00", "watching", "boss")
    own(raw, T, state, "a")
    if state in ("complete", "exited"):
        tasks.finish(store, me(store, "boss"))
        assert row(raw, "task-00")["state"] == "complete"
    else:
        with pytest.raises(PodiumError, match=f"task-03 {state}"):
            tasks.finish(store, me(store, "boss"))


def test_an_emergency_goes_to_those_who_play(run: sqlite3.Connection, store: Store) -> None:
    add(run, "task-04")
    own(run, "task-05", "needs_review", "b")
    own(run, "task-06", "complete", "c")
    own(run, "task-07", "fix_proposed", "d")
    send(run, "task-07", "task-00", "handoff")

    told = tasks.broadcast(store, me(store, "boss"), "stop everything")

    assert told == [T, "task-05"]
    mail = "SELECT task_id FROM orchestration_messages WHERE message_type = 'emergency'"
    assert [task for (task,) in run.execute(mail)] == told
