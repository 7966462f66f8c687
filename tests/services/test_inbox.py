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
