"""Each message once: marked after it is out, by whoever came first, and never unmarked."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from protocol import own, send

from podium.services import inbox
from podium.store import open_store

if TYPE_CHECKING:
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

    from podium.store.base import Store

ME = "me"


@pytest.fixture
def mailed(raw: sqlite3.Connection) -> sqlite3.Connection:
    """`me` plays task-03 and has one unread message."""
    own(raw, "task-03", "working", ME)
    send(raw, "task-03", "task-00", "emergency", "first")
    return raw


def marks(db: sqlite3.Connection) -> list[int]:
    return [up_to for (up_to,) in db.execute("SELECT up_to FROM podium_reads")]


def test_the_cursor_moves_when_the_news_is_out_and_not_before(
    mailed: sqlite3.Connection, store: Store
) -> None:
    seen = []
    assert inbox.deliver(store, ME, lambda text: seen.append((text, marks(mailed))))
    ((text, then),) = seen
    assert "first" in text
    assert then == []
    assert marks(mailed) == [1]


def test_news_that_could_not_be_written_out_is_still_news(
    mailed: sqlite3.Connection, store: Store
) -> None:
    def deaf(_: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        inbox.deliver(store, ME, deaf)
    assert marks(mailed) == []
    shown: list[str] = []
    assert inbox.deliver(store, ME, shown.append)
    assert not inbox.deliver(store, ME, shown.append)
    assert len(shown) == 1


@pytest.mark.usefixtures("mailed")
def test_of_two_that_saw_the_same_news_one_shows_it(
    db: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    begin = store.transaction
    with closing(open_store(str(db))) as other:

        def late() -> AbstractContextManager[None]:
            assert inbox.deliver(other, ME, shown.append)
            return begin()

        monkeypatch.setattr(store, "transaction", late)
        assert not inbox.deliver(store, ME, shown.append)
    assert len(shown) == 1


def test_who_marks_late_moves_nothing_back(mailed: sqlite3.Connection, store: Store) -> None:
    early = inbox.gather(store, ME)
    send(mailed, "task-03", "task-00", "emergency", "second")
    assert inbox.deliver(store, ME, lambda _: None)
    inbox.mark(store, ME, early)
    assert not inbox.gather(store, ME)


def letters(db: sqlite3.Connection, task: str, count: int, length: int) -> None:
    for number in range(count):
        send(db, task, "task-00", "emergency", f"<letter {number}> " + "x" * length)


def told(store: Store, session: str) -> list[str]:
    """Everything that a session is shown until there is nothing more."""
    texts: list[str] = []
    while inbox.deliver(store, session, texts.append):
        assert len(texts) < 50, "the same news for ever"
    return texts


def test_what_does_not_fit_is_shown_the_next_time(raw: sqlite3.Connection, store: Store) -> None:
    own(raw, "task-03", "working", ME)
    letters(raw, "task-03", 7, 3_500)
    texts = told(store, ME)
    assert len(texts) == 4
    assert all(len(text) < 10_000 for text in texts)
    for number in range(7):
        assert [f"<letter {number}>" in text for text in texts].count(True) == 1


def test_a_letter_that_grows_when_it_is_marked_is_shown_all_the_same(
    raw: sqlite3.Connection, store: Store
) -> None:
    own(raw, "task-03", "working", ME)
    send(raw, "task-03", "task-00", "emergency", "<first>" + "\n" * 50_000)
    send(raw, "task-03", "task-00", "emergency", "<second>")
    (text,) = told(store, ME)
    assert len(text) < 10_000
    assert "<first>" in text
    assert "--id 1" in text
    assert "<second>" in text


def test_a_conductor_too_is_told_the_rest_the_next_time(
    raw: sqlite3.Connection, store: Store
) -> None:
    own(raw, "task-00", "watching", "boss")
    for number in range(100, 150):
        own(raw, f"task-{number}", "error", f"s{number}")
        raw.execute("UPDATE orchestration_tasks SET last_error = printf('%.200c', 'x')")
        if number % 10 == 0:
            send(raw, f"task-{number}", f"s{number}", "error", f"LET GO: {number} " + "x" * 3_000)
    texts = told(store, "boss")
    assert len(texts) > 2
    for number in range(100, 150):
        item = f"podium conductor review task-{number}"
        assert [item in text for text in texts].count(True) == 1
    for number in range(100, 150, 10):
        assert [f"LET GO: {number}" in text for text in texts].count(True) == 1


@pytest.mark.parametrize("conductor", ["boss", "its successor"])
def test_a_conductor_hears_of_a_cap_whatever_came_before(
    raw: sqlite3.Connection, store: Store, conductor: str
) -> None:
    own(raw, "task-00", "watching", "boss")
    own(raw, "task-03", "working", ME)
    for _ in range(60):
        send(raw, "task-03", ME, "review_request")
    send(raw, "task-03", ME, "error", "not a letter about a cap")
    send(raw, "task-03", ME, "error", "LET GO: the session of task-03 stopped in working.")
    if conductor != "boss":
        assert len(told(store, "boss")) == 1
        raw.execute("UPDATE orchestration_tasks SET owner_seen = NULL WHERE task_id = 'task-00'")
        sql = "UPDATE orchestration_tasks SET session_id = ? WHERE task_id = 'task-00'"
        raw.execute(sql, (conductor,))
    (text,) = told(store, conductor)
    assert text.count("LET GO") == 1
    assert "not a letter" not in text


@pytest.mark.parametrize(
    ("kind", "item"), [("review_request", "review"), ("completion", "completion")]
)
def test_a_letter_about_a_cap_does_not_hide_the_submission(
    raw: sqlite3.Connection, store: Store, kind: str, item: str
) -> None:
    own(raw, "task-03", "needs_review", ME)
    asked = send(raw, "task-03", ME, kind, "see step 3")
    send(raw, "task-03", ME, "error", "LET GO: the session of task-03 stopped in needs_review.")
    letter = inbox.overview.submission(store, "task-03")
    assert letter is not None
    assert (letter.id, letter.message) == (asked, "see step 3")
    (found,) = inbox.overview.urgent(inbox.overview.attention(store))
    assert (found.kind, found.what) == (item, "see step 3")
