"""The rules live in the database: every pair of states, on every kind of row, from raw sqlite3."""

from __future__ import annotations

import re
import sqlite3
from itertools import product
from typing import TYPE_CHECKING

import pytest
from protocol import (
    CONDUCTOR_MOVES,
    FALLBACK_MOVES,
    STATES,
    TASK_MOVES,
    add,
    everything,
    move,
    own,
    row,
    send,
)

from podium.domain.errors import RuleRefused

if TYPE_CHECKING:
    from podium.store.base import Store

KINDS = {"task-03": TASK_MOVES, "task-00": CONDUCTOR_MOVES, "fallback-s": FALLBACK_MOVES}
LONG_AGO = "2001-01-01 00:00:00"


def ends(task: str, found: str) -> set[str]:
    """Where either role may move it."""
    return set(" ".join(KINDS[task].get(found, ())).split())


def bring(db: sqlite3.Connection, task: str, state: str) -> None:
    """A row in this state: by a legal walk, or past the rules where no walk leads there."""
    if task == "fallback-s":
        sql = "INSERT INTO orchestration_tasks (task_id, state) VALUES (?, 'exited')"
        db.execute(sql, (task,))
    else:
        own(db, task, state if state in KINDS[task] else next(iter(KINDS[task])), "a")
    if state not in KINDS[task]:
        rules = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in rules:
            db.execute(f"DROP TRIGGER {name}")
        move(db, task, state)
        for _, sql in rules:
            db.execute(sql)
    assert row(db, task)["state"] == state


PAIRS = [(task, *pair) for task in KINDS for pair in product(STATES, STATES)]
LEGAL = [pair for pair in PAIRS if pair[2] in ends(*pair[:2])]
REFUSED = [pair for pair in PAIRS if pair not in LEGAL and pair[1] != pair[2]]


def test_the_pairs_are_all_there() -> None:
    assert len(PAIRS) == 3 * 11 * 11
    assert {task: sum(t == task for t, *_ in LEGAL) for task in KINDS} == {
        "task-03": 4 + 6 + 6 + 7 + 6 + 5 + 6 + 4 + 1,
        "task-00": 7,
        "fallback-s": 0,
    }


@pytest.mark.parametrize(("task", "found", "to"), [pair for pair in LEGAL if pair[1] != pair[2]])
def test_a_listed_move_is_made_refreshes_the_heartbeat_and_is_logged_once(
    raw: sqlite3.Connection, task: str, found: str, to: str
) -> None:
    bring(raw, task, found)
    raw.execute("UPDATE orchestration_tasks SET last_heartbeat = ?", (LONG_AGO,))
    (last,) = raw.execute("SELECT max(id) FROM podium_events").fetchone()

    assert move(raw, task, to) == 1

    assert row(raw, task)["state"] == to
    assert str(row(raw, task)["last_heartbeat"]) > LONG_AGO
    (event,) = raw.execute("SELECT * FROM podium_events WHERE id > ?", (last,)).fetchall()
    assert (event["task_id"], event["from_state"], event["to_state"]) == (task, found, to)
    assert event["at"] == row(raw, task)["last_heartbeat"]
    musician, conductor = (to in moves.split() for moves in KINDS[task][found])
    by = {"a"} if musician or task == "task-00" else set()
    assert event["actor"] in by | ({"task-00"} if conductor and task != "task-00" else set())


@pytest.mark.parametrize(("task", "found", "to"), REFUSED)
def test_an_unlisted_move_is_refused_and_changes_nothing(
    raw: sqlite3.Connection, task: str, found: str, to: str
) -> None:
    bring(raw, task, found)
    before = everything(raw)
    for extra in ("", ", session_id = 'a'", ", last_heartbeat = datetime('now')"):
        sql = f"UPDATE orchestration_tasks SET state = ?{extra} WHERE task_id = ?"
        for verb in ("UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE"):
            with pytest.raises(sqlite3.IntegrityError) as refused:
                raw.execute(sql.replace("UPDATE", verb, 1), (to, task))
    words = re.findall(r"[a-z_]+", str(refused.value))
    assert found in words
    assert ends(task, found) <= set(words)
    assert not (set(STATES) - ends(task, found) - {found}) & set(words)
    assert everything(raw) == before


@pytest.mark.parametrize(
    ("task", "state"), [(task, state) for task in KINDS for state in KINDS[task]]
)
def test_staying_in_a_state_is_allowed_and_is_no_event(
    raw: sqlite3.Connection, task: str, state: str
) -> None:
    bring(raw, task, state)
    before = raw.execute("SELECT count(*) FROM podium_events").fetchone()[0]
    assert move(raw, task, state) == 1
    assert raw.execute("SELECT count(*) FROM podium_events").fetchone()[0] == before


@pytest.mark.parametrize("task", ["task-03", "task-00"])
def test_every_state_of_a_row_is_reached_by_listed_moves_alone(task: str) -> None:
    reached, todo = set(), ["watching"]
    while todo:
        state = todo.pop()
        reached.add(state)
        todo += ends(task, state) - reached
    assert reached == set(KINDS[task])


@pytest.mark.parametrize(
    ("task", "state"),
    [(task, state) for task in KINDS for state in STATES]
    + [("task-03", "WATCHING"), ("task-03", ""), ("task-03", None)],
)
def test_a_new_row_starts_as_watching_and_a_fallback_row_as_exited(
    raw: sqlite3.Connection, task: str, state: str | None
) -> None:
    sql = "INSERT INTO orchestration_tasks (task_id, state) VALUES (?, ?)"
    if state == ("exited" if task == "fallback-s" else "watching"):
        assert raw.execute(sql, (task, state)).rowcount == 1
        assert row(raw, task)["last_heartbeat"]
        (event,) = raw.execute("SELECT from_state, to_state FROM podium_events").fetchall()
        assert tuple(event) == (None, state)
    else:
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute(sql, (task, state))
        assert not raw.execute("SELECT count(*) FROM orchestration_tasks").fetchone()[0]


TASK_COLUMNS = "orchestration_tasks (task_id, state) VALUES ('task-03', 'watching')"
MESSAGE = (
    "(id, task_id, from_session, message, message_type) VALUES ({}, 'task-03', 'x', 'y', 'error')"
)
EVENT = "(id, task_id, to_state, last_message) VALUES ({}, 'task-03', 'complete', 0)"
NEVER = {
    "insert twice": f"INSERT INTO {TASK_COLUMNS}",
    "replace": f"REPLACE INTO {TASK_COLUMNS}",
    "insert or ignore": f"INSERT OR IGNORE INTO {TASK_COLUMNS}",
    "upsert": f"INSERT INTO {TASK_COLUMNS} ON CONFLICT DO UPDATE SET state = 'complete'",
    "replace by rowid": "REPLACE INTO orchestration_tasks (rowid, task_id, state)"
    " SELECT rowid, 'task-77', 'watching' FROM orchestration_tasks WHERE task_id = 'task-03'",
    "push out by rowid": "UPDATE OR REPLACE orchestration_tasks SET rowid ="
    " (SELECT rowid FROM orchestration_tasks WHERE task_id = 'task-03') WHERE task_id = 'task-04'",
    "delete a task": "DELETE FROM orchestration_tasks WHERE task_id = 'task-03'",
    "delete all": "DELETE FROM orchestration_tasks",
    "rename": "UPDATE orchestration_tasks SET task_id = 'task-33' WHERE task_id = 'task-03'",
    "rename to a fallback": "UPDATE orchestration_tasks SET task_id = 'fallback-x'"
    " WHERE task_id = 'task-03'",
    "push out by name": "UPDATE OR REPLACE orchestration_tasks SET task_id = 'task-03'"
    " WHERE task_id = 'task-04'",
    "no state": "UPDATE orchestration_tasks SET state = NULL",
    "an unknown state": "UPDATE orchestration_tasks SET state = 'Working'",
    "a sixth retry": "UPDATE orchestration_tasks SET retry_count = 6",
    "a negative retry": "UPDATE orchestration_tasks SET retry_count = -1",
    "edit mail": "UPDATE orchestration_messages SET message = 'z'",
    "delete mail": "DELETE FROM orchestration_messages",
    "replace mail": f"REPLACE INTO orchestration_messages {MESSAGE.format(1)}",
    "mail from the past": f"INSERT INTO orchestration_messages {MESSAGE.format(0)}",
    "mail before all": f"INSERT INTO orchestration_messages {MESSAGE.format(-1)}",
    "edit the log": "UPDATE podium_events SET actor = 'z'",
    "delete the log": "DELETE FROM podium_events",
    "replace the log": f"REPLACE INTO podium_events {EVENT.format(1)}",
    "a log of the past": f"INSERT INTO podium_events {EVENT.format(0)}",
}


@pytest.mark.parametrize("sql", NEVER.values(), ids=NEVER)
def test_no_statement_loses_or_rewrites_a_run(raw: sqlite3.Connection, sql: str) -> None:
    own(raw, "task-03", "working", "a")
    own(raw, "task-04", "working", "b")
    send(raw, "task-03", "a", "error")
    before = everything(raw)
    with pytest.raises(sqlite3.Error):
        raw.execute(sql)
    assert everything(raw) == before


def test_no_first_message_can_keep_the_next_ones_out(raw: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(f"INSERT INTO orchestration_messages {MESSAGE.format(-1)}")
    assert send(raw, "task-03", "task-00", "instruction") == 1


def test_only_fallback_rows_are_deleted(raw: sqlite3.Connection) -> None:
    bring(raw, "fallback-s", "exited")
    sql = "DELETE FROM orchestration_tasks WHERE task_id = 'fallback-s'"
    assert raw.execute(sql).rowcount == 1


def test_message_ids_grow_and_are_never_reused(raw: sqlite3.Connection) -> None:
    ids = [send(raw, "task-03", "task-00", "instruction") for _ in range(3)]
    raw.execute("BEGIN")
    send(raw, "task-03", "task-00", "instruction")
    raw.execute("ROLLBACK")
    raw.execute(f"INSERT INTO orchestration_messages {MESSAGE.format(40)}")
    ids += [40, send(raw, "task-03", "task-00", "instruction")]
    assert ids == sorted(set(ids))
    assert ids[-1] == 41


TYPES = {
    *("instruction", "review_request", "completion", "error", "context_warning", "handoff"),
    *("claim_blocked", "resumption_status", "approval", "rejection", "fix_proposal", "emergency"),
}


@pytest.mark.parametrize("kind", [*sorted(TYPES), None, "", "Error", "note", 7])
def test_a_message_has_one_of_twelve_types(raw: sqlite3.Connection, kind: str | None) -> None:
    if kind in TYPES:
        assert send(raw, "task-03", "task-00", kind)
    else:
        with pytest.raises(sqlite3.IntegrityError):
            send(raw, "task-03", "task-00", kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["task_id", "from_session", "message", "message_type"])
def test_no_part_of_a_message_is_null(raw: sqlite3.Connection, missing: str) -> None:
    values = {"task_id": "task-03", "from_session": "a", "message": "m", "message_type": "error"}
    values[missing] = None  # type: ignore[assignment]
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(
            "INSERT INTO orchestration_messages (task_id, from_session, message, message_type)"
            " VALUES (:task_id, :from_session, :message, :message_type)",
            values,
        )


def test_a_message_has_a_time_of_its_own(raw: sqlite3.Connection) -> None:
    send(raw, "task-03", "task-00", "instruction")
    (timestamp,) = raw.execute("SELECT timestamp FROM orchestration_messages").fetchone()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", timestamp)


def test_the_sixth_retry_is_refused_with_the_state_that_came_with_it(
    raw: sqlite3.Connection,
) -> None:
    own(raw, "task-03", "working", "a")
    sql = (
        "UPDATE orchestration_tasks SET state = 'error', retry_count = retry_count + 1"
        " WHERE task_id = 'task-03'"
    )
    for _ in range(5):
        assert raw.execute(sql).rowcount == 1
        move(raw, "task-03", "fix_proposed")
    with pytest.raises(sqlite3.IntegrityError, match="retry_count"):
        raw.execute(sql)
    assert (row(raw, "task-03")["state"], row(raw, "task-03")["retry_count"]) == ("fix_proposed", 5)


def test_one_statement_over_many_rows_is_refused_whole(raw: sqlite3.Connection) -> None:
    own(raw, "task-03", "review_approved", "a")
    add(raw, "task-04")
    before = everything(raw)
    with pytest.raises(sqlite3.IntegrityError, match="this row is watching"):
        raw.execute("UPDATE orchestration_tasks SET state = 'complete'")
    assert everything(raw) == before


def test_a_message_cannot_use_up_the_ids(raw: sqlite3.Connection) -> None:
    add(raw, "task-03")
    with pytest.raises(sqlite3.IntegrityError, match="small steps"):
        raw.execute(
            "INSERT INTO orchestration_messages (id, task_id, from_session, message, message_type)"
            " VALUES (9223372036854775807, 'task-03', 'task-00', 'x', 'emergency')"
        )
    assert send(raw, "task-03", "task-00", "emergency") == 1


def test_a_heartbeat_from_the_future_does_not_make_an_owner_immortal(
    raw: sqlite3.Connection,
) -> None:
    own(raw, "task-03", "working", "s1")
    raw.execute("UPDATE orchestration_tasks SET last_heartbeat = '9999-01-01 00:00:00'")
    assert raw.execute("SELECT owner_seen <= datetime('now') FROM orchestration_tasks").fetchone()[
        0
    ]


def test_a_new_task_belongs_to_nobody(raw: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="by claiming"):
        add(raw, "task-03", "victim")


TASK_TEXTS = ("instruction_path", "report_path", "last_error", "worked_by", "completed_at")


@pytest.mark.parametrize("column", TASK_TEXTS)
def test_a_blob_is_no_text_of_a_task(raw: sqlite3.Connection, column: str) -> None:
    add(raw, "task-03")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        raw.execute(f"UPDATE orchestration_tasks SET {column} = x'6869'")


def test_a_blob_is_no_message(raw: sqlite3.Connection) -> None:
    add(raw, "task-03")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        raw.execute(
            "INSERT INTO orchestration_messages (task_id, from_session, message, message_type) "
            "VALUES ('task-03', 'task-00', x'6869', 'emergency')"
        )


def test_a_text_that_is_not_utf_8_is_shown_as_well_as_it_can_be(
    raw: sqlite3.Connection, store: Store
) -> None:
    add(raw, "task-03")
    raw.execute(
        "INSERT INTO orchestration_messages (task_id, from_session, message, message_type) "
        "VALUES ('task-03', 'task-00', CAST(x'6869ff' AS TEXT), 'emergency')"
    )
    (letter,) = store.all("messages", task_id="task-03", message_type=None, most=5)
    assert letter["message"] == "hi\ufffd"


def test_a_message_type_that_is_not_known_is_a_refusal_with_the_list(
    raw: sqlite3.Connection, store: Store
) -> None:
    add(raw, "task-03")
    row_of = {"task_id": "task-03", "from_session": "task-00", "message": "x"}
    with pytest.raises(RuleRefused, match="claim_blocked"):
        store.run("send", message_type="bogus", **row_of)
