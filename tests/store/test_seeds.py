"""Every SQL statement of the founding documents does what its document says."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta, timezone

import pytest
from protocol import add, age, move, own, row, send
from store.seeds_sql import ME, NOW, OTHER, SEEDS, Block, Step, filled

CONDUCTOR = "conductor-session"


def arrange(db: sqlite3.Connection, given: str) -> None:
    """The database in the situation that the words describe."""
    own(db, "task-00", "watching", CONDUCTOR)
    send(db, "task-03", "task-00", "instruction", "docs/tasks/task-03.md")
    send(db, "task-03", "task-00", "emergency", "mind the tempo")
    state = given.split(maxsplit=1)[0].rstrip(",")
    if given == "watching for a musician":
        add(db, "task-03")
    elif given == "approved at last, all others complete":
        own(db, "task-03", "review_approved", ME)
        own(db, "task-04", "complete", OTHER)
        return
    elif given.endswith(" of a session that is gone"):
        own(db, "task-03", state, OTHER)
        age(db, "task-03", 600)
    else:
        own(db, "task-03", state, OTHER if given.endswith(" for another session") else ME)
    if given.endswith(", silent for 10 minutes"):
        age(db, "task-03", 600)
    add(db, "task-04")


def same(found: object, wanted: object) -> bool:
    if wanted is not NOW:
        return found == wanted
    then = datetime.strptime(str(found), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return abs(datetime.now(timezone.utc) - then) < timedelta(minutes=1)


def run(db: sqlite3.Connection, step: Step) -> None:
    sql = filled(step.sql)
    if step.refused:
        with pytest.raises(sqlite3.IntegrityError, match=step.refused):
            db.execute(sql)
    else:
        cursor = db.execute(sql)
        returned = [tuple(r) for r in cursor.fetchall()]
        assert (len(returned) if cursor.description else cursor.rowcount) == step.rows
        if step.returns is not None:
            pairs = zip(sum(returned, ()), sum(step.returns, ()))
            assert all(same(found, wanted) for found, wanted in pairs), returned
    found = row(db, step.row) if step.then else {}
    assert all(same(found[name], wanted) for name, wanted in step.then.items()), found
    if step.mail:
        newest = "SELECT * FROM orchestration_messages ORDER BY id DESC LIMIT 1"
        mail = db.execute(newest).fetchone()
        assert (mail["task_id"], mail["from_session"], mail["message_type"]) == step.mail
        assert same(mail["timestamp"], NOW)


@pytest.mark.parametrize(
    "block", SEEDS, ids=[f"{b.document}, {b.section}, {b.given}" for b in SEEDS]
)
def test_a_statement_of_the_documents_has_the_effect_they_state(
    raw: sqlite3.Connection, block: Block
) -> None:
    arrange(raw, block.given)
    for step in block.steps:
        run(raw, step)


def test_no_placeholder_is_left_in_a_statement() -> None:
    statements = [filled(step.sql) for block in SEEDS for step in block.steps]
    assert not [sql for sql in statements if "{" in sql or "$" in sql]


def test_after_a_handoff_of_the_documents_the_old_session_is_out(raw: sqlite3.Connection) -> None:
    arrange(raw, "working for another session")
    crash = next(b for b in SEEDS if b.section.startswith("crash-handoff"))
    for step in crash.steps:
        run(raw, step)
    with pytest.raises(sqlite3.IntegrityError, match="taken over"):
        send(raw, "task-03", OTHER, "review_request")
    assert move(raw, "task-03", "needs_review") == 1  # the successor's
