"""Who gets a row: exactly one session, never against a living owner, and never by accident."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from protocol import CLAIMABLE, add, age, claim, connect, everything, move, own, row, send

if TYPE_CHECKING:
    from collections.abc import Callable

RACER = Path(__file__).with_name("racer.py")
SRC = Path(__file__).parents[2] / "src"


def race(path: Path, what: str, runners: int) -> list[dict[str, Any]]:
    """What each of so many processes got that began at the same moment."""
    started = [
        subprocess.Popen(
            [sys.executable, "-I", RACER, SRC, path, f"{number:02}", what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(1, runners + 1)
    ]
    for runner in started:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "ready\n"
    for runner in started:
        assert runner.stdin is not None
        runner.stdin.write("go\n")
        runner.stdin.flush()
    return [json.loads(runner.communicate(timeout=120)[0]) for runner in started]


def test_twenty_processes_race_for_500_tasks_and_each_is_claimed_once(db: Path) -> None:
    raw = connect(db)
    tasks = [f"task-{number:03}" for number in range(1, 501)]
    with raw:
        raw.execute("BEGIN")
        for task in tasks:
            add(raw, task)

    results = race(db, "claim", 20)

    assert [r["seen"] for r in results if r["seen"]] == []
    assert Counter(task for r in results for task in r["won"]) == dict.fromkeys(tasks, 1)
    winners = {task: f"{n:02}" for n, r in enumerate(results, 1) for task in r["won"]}
    owners = raw.execute("SELECT task_id, session_id FROM orchestration_tasks").fetchall()
    assert dict(map(tuple, owners)) == winners
    log = raw.execute("SELECT task_id FROM podium_events WHERE to_state = 'working'").fetchall()
    assert sorted(task for (task,) in log) == tasks
    raw.close()


def outcome(db: sqlite3.Connection, sql: str, *params: str | None) -> str:
    """How many rows the statement changed, or the first half of what the database said."""
    try:
        return f"{db.execute(sql, params).rowcount} rows"
    except sqlite3.IntegrityError as refusal:
        return str(refusal).removeprefix("podium: ").split(";")[0]


@pytest.mark.parametrize("state", CLAIMABLE)
def test_a_second_session_claims_nothing_while_the_owner_is_alive(
    raw: sqlite3.Connection, state: str
) -> None:
    own(raw, "task-03", state, "a")
    before = everything(raw)
    assert claim(raw, "task-03", "b") == 0
    assert everything(raw) == before
    assert claim(raw, "task-03", "a") == 1  # its own is not taken from it
    assert row(raw, "task-03")["worked_by"] == "musician-task-03"


def _exits(db: sqlite3.Connection) -> None:
    move(db, "task-03", "exited")
    move(db, "task-03", "fix_proposed")


def _is_handed_off(db: sqlite3.Connection) -> None:
    move(db, "task-03", "fix_proposed")
    send(db, "task-03", "task-00", "handoff")


def _is_handed_off_message_first(db: sqlite3.Connection) -> None:
    send(db, "task-03", "task-00", "handoff")
    move(db, "task-03", "fix_proposed")


def _falls_silent(db: sqlite3.Connection) -> None:
    move(db, "task-03", "fix_proposed")
    age(db, "task-03", 541)


def _falls_silent_in_a_claim_state(db: sqlite3.Connection) -> None:
    age(db, "task-03", 541)
    move(db, "task-03", "exit_requested")


def _falls_silent_before_the_verdict(db: sqlite3.Connection) -> None:
    age(db, "task-03", 541)
    db.execute(
        "UPDATE orchestration_tasks SET state = 'fix_proposed', last_heartbeat = datetime('now')"
    )


ENDS = [
    _exits,
    _is_handed_off,
    _is_handed_off_message_first,
    _falls_silent,
    _falls_silent_in_a_claim_state,
    _falls_silent_before_the_verdict,
]


@pytest.mark.parametrize("the_owner", ENDS)
def test_a_second_session_succeeds_once_the_owner(
    raw: sqlite3.Connection, the_owner: Callable[[sqlite3.Connection], None]
) -> None:
    own(raw, "task-03", "working", "a")
    send(raw, "task-03", "a", "review_request")
    the_owner(raw)
    assert claim(raw, "task-03", "b") == 1
    taken = row(raw, "task-03")
    assert (taken["session_id"], taken["worked_by"]) == ("b", "musician-task-03-S2")

    with pytest.raises(sqlite3.IntegrityError, match="another session has taken over"):
        send(raw, "task-03", "a", "review_request")
    assert claim(raw, "task-03", "a") == 0
    send(raw, "task-03", "a", "claim_blocked")  # that it was blocked, it may say
    send(raw, "task-03", "b", "review_request")


def test_a_letter_of_its_own_does_not_end_an_owner(raw: sqlite3.Connection) -> None:
    own(raw, "task-03", "working", "a")
    send(raw, "task-03", "a", "handoff")
    move(raw, "task-03", "fix_proposed")
    assert claim(raw, "task-03", "b") == 0


def test_an_owner_that_was_handed_off_is_not_the_owner_again_by_its_next_step(
    raw: sqlite3.Connection,
) -> None:
    own(raw, "task-03", "fix_proposed", "a")
    send(raw, "task-03", "task-00", "handoff")
    move(raw, "task-03", "needs_review")  # by one who has not heard of it
    move(raw, "task-03", "fix_proposed")
    assert claim(raw, "task-03", "b") == 1


SIGNS: dict[str, Callable[[sqlite3.Connection], object]] = {
    "a heartbeat": lambda db: age(db, "task-03", 0),
    "a message": lambda db: send(db, "task-03", "a", "review_request"),
    "a message about another task": lambda db: send(db, "task-09", "a", "error"),
    "a step of its own": lambda db: move(db, "task-03", "needs_review"),
    "a claim of its own": lambda db: claim(db, "task-03", "a"),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_what_the_owner_does_is_a_sign_of_life(raw: sqlite3.Connection, sign: str) -> None:
    own(raw, "task-03", "fix_proposed", "a")
    age(raw, "task-03", 600)
    SIGNS[sign](raw)
    if row(raw, "task-03")["state"] != "fix_proposed":
        move(raw, "task-03", "fix_proposed")
    assert claim(raw, "task-03", "b") == 0


NO_SIGNS = {
    "a verdict": "UPDATE orchestration_tasks SET state = 'exit_requested',"
    " last_heartbeat = datetime('now')",
    "mail for it": "INSERT INTO orchestration_messages (task_id, from_session, message,"
    " message_type) VALUES ('task-03', 'task-00', '…', 'emergency')",
    "a stranger's mail": "INSERT INTO orchestration_messages (task_id, from_session, message,"
    " message_type) VALUES ('task-03', 'b', '…', 'claim_blocked')",
    "a note of the conductor": "UPDATE orchestration_tasks SET last_error = 'silent'",
}


@pytest.mark.parametrize("what", NO_SIGNS)
def test_what_others_do_is_no_sign_of_life_of_the_owner(raw: sqlite3.Connection, what: str) -> None:
    own(raw, "task-03", "fix_proposed", "a")
    age(raw, "task-03", 600)
    raw.execute(NO_SIGNS[what])
    assert claim(raw, "task-03", "b") == 1


@pytest.mark.parametrize(("silence", "taken"), [(530, 0), (541, 1)])
def test_an_owner_is_alive_for_540_seconds(
    raw: sqlite3.Connection, silence: int, taken: int
) -> None:
    own(raw, "task-03", "fix_proposed", "a")
    age(raw, "task-03", silence)
    assert claim(raw, "task-03", "b") == taken


@pytest.mark.parametrize(
    "state", ["working", "review_approved", "review_failed", "complete", "exited", "needs_review"]
)
def test_a_silent_owner_keeps_a_row_that_nobody_may_claim(
    raw: sqlite3.Connection, state: str
) -> None:
    own(raw, "task-03", state, "a")
    if state not in ("complete", "exited"):
        age(raw, "task-03", 9999)
    before = everything(raw)
    assert claim(raw, "task-03", "b") == 0
    bare = "UPDATE orchestration_tasks SET state = 'working', session_id = 'b'"
    assert outcome(raw, bare) in ("0 rows", f"this row is {state}")
    assert everything(raw) == before


@pytest.mark.parametrize("state", ["watching", "working", "needs_review", "fix_proposed", "exited"])
@pytest.mark.parametrize("session", ["b", None])
def test_a_row_changes_its_session_only_by_being_claimed(
    raw: sqlite3.Connection, state: str, session: str | None
) -> None:
    own(raw, "task-03", state, "a")
    before = everything(raw)
    said = outcome(raw, "UPDATE orchestration_tasks SET session_id = ?", session)
    assert said in ("0 rows", "a row changes its session only by being claimed")
    assert everything(raw) == before


@pytest.mark.parametrize("continues", [None, "somebody else"])
def test_a_session_that_podium_knows_takes_nothing_but_what_it_continues(
    raw: sqlite3.Connection, continues: str | None
) -> None:
    own(raw, "task-03", "working", "a")
    raw.execute("INSERT INTO podium_sessions (session_id, continues) VALUES ('b', ?)", (continues,))
    before = everything(raw)
    said = outcome(raw, "UPDATE orchestration_tasks SET session_id = 'b'")
    assert said in ("0 rows", "a row changes its session only by being claimed")
    assert everything(raw) == before


def test_a_claim_without_a_session_changes_nothing(raw: sqlite3.Connection) -> None:
    add(raw, "task-03")
    before = everything(raw)
    assert raw.execute("UPDATE orchestration_tasks SET state = 'working'").rowcount == 0
    assert everything(raw) == before


def test_a_task_is_claimed_only_when_all_it_needs_is_complete(raw: sqlite3.Connection) -> None:
    for task in ("task-01", "task-02", "task-03"):
        add(raw, task)
    raw.executemany(
        "INSERT INTO podium_needs (task_id, needs) VALUES ('task-03', ?)",
        [("task-01",), ("task-02",), ("task-09",)],
    )
    for need in ("task-01", "task-02"):
        assert claim(raw, "task-03", "c") == 0
        claim(raw, need, f"owner of {need}")
        move(raw, need, "complete")
    assert claim(raw, "task-03", "c") == 0  # task-09 does not even exist
    own(raw, "task-09", "exited", "owner of task-09")
    assert claim(raw, "task-03", "c") == 0
    raw.execute("DELETE FROM podium_needs WHERE needs = 'task-09'")
    assert claim(raw, "task-03", "c") == 1


@pytest.mark.parametrize("says", ["musician-task-03", "musician-task-03-S9", "nobody", None])
def test_succession_is_counted_whatever_the_statement_says(
    raw: sqlite3.Connection, says: str | None
) -> None:
    add(raw, "task-03")
    names = []
    for session in ("a", "b", "a", "c"):
        sql = "UPDATE orchestration_tasks SET state = 'working', session_id = ?, worked_by = ?"
        assert raw.execute(sql, (session, says)).rowcount == 1
        assert claim(raw, "task-03", session) == 0  # it works already
        names.append(row(raw, "task-03")["worked_by"])
        move(raw, "task-03", "exited")
        move(raw, "task-03", "fix_proposed")
    assert names == ["musician-task-03", *(f"musician-task-03-S{n}" for n in (2, 3, 4))]


def test_a_session_that_let_go_and_takes_its_row_again_is_its_own_successor(
    raw: sqlite3.Connection,
) -> None:
    own(raw, "task-03", "exited", "a")
    move(raw, "task-03", "fix_proposed")
    assert claim(raw, "task-03", "a") == 1
    assert row(raw, "task-03")["worked_by"] == "musician-task-03-S2"


def start(db: sqlite3.Connection, session: str) -> int:
    """How many rows a conductor's session changes that takes task-00."""
    sql = (
        "UPDATE orchestration_tasks SET state = 'watching', session_id = ?,"
        " started_at = datetime('now') WHERE task_id = 'task-00'"
    )
    return db.execute(sql, (session,)).rowcount


@pytest.mark.parametrize("state", ["watching", "reviewing"])
def test_a_living_conductor_keeps_its_row(raw: sqlite3.Connection, state: str) -> None:
    own(raw, "task-00", state, "a")
    before = everything(raw)
    assert start(raw, "b") == 0
    assert everything(raw) == before
    age(raw, "task-00", 541)
    assert start(raw, "b") == 1
    taken = row(raw, "task-00")
    assert (taken["state"], taken["session_id"]) == ("watching", "b")


def test_a_conductor_at_rest_is_followed_by_any_session(raw: sqlite3.Connection) -> None:
    own(raw, "task-00", "exit_requested", "a")
    assert start(raw, "b") == 1


def test_a_row_that_nobody_conducts_is_taken_by_the_first(raw: sqlite3.Connection) -> None:
    add(raw, "task-00")
    assert start(raw, "a") == 1
    assert start(raw, "b") == 0


def test_a_finished_run_is_conducted_by_nobody(raw: sqlite3.Connection) -> None:
    own(raw, "task-00", "complete", "a")
    before = everything(raw)
    for sql in ("state = 'watching', session_id = 'b'", "session_id = 'b'"):
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute(f"UPDATE orchestration_tasks SET {sql}")
    assert everything(raw) == before


def test_a_session_that_was_cleared_keeps_its_rows_and_is_no_successor(
    raw: sqlite3.Connection,
) -> None:
    own(raw, "task-03", "working", "a")
    own(raw, "task-00", "watching", "a")
    raw.execute("INSERT INTO podium_sessions (session_id, continues) VALUES ('a2', 'a')")
    follow = "UPDATE orchestration_tasks SET session_id = 'a2' WHERE session_id = 'a'"
    assert raw.execute(follow).rowcount == 2
    kept = row(raw, "task-03")
    assert (kept["session_id"], kept["worked_by"]) == ("a2", "musician-task-03")
    send(raw, "task-03", "a2", "review_request")
    move(raw, "task-03", "fix_proposed")
    assert claim(raw, "task-03", "b") == 0  # it lives
