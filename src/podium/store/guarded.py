"""One statement that somebody else wrote, run so that it cannot do harm.

SQLite itself keeps it to what it may do: an authorizer asked while the statement is prepared, and
for reading a read-only connection. Which rows a write touched is told by temporary triggers, and
held against podium.domain.rights before anything is committed.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from podium.domain import rights
from podium.domain.errors import PodiumError, RuleRefused, TakenOver, WrongUsage
from podium.domain.states import CONDUCTOR_ROW, State

from .guard import CHARACTERS, ROWS, WATCH, Guard, Touch, Watcher
from .sqlite import SCHEMA, SqliteStore, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    Params = Union[list[Any], dict[str, Any]]

SECONDS = 5.0  # for a statement to run
LOCK_WAIT = 5.0  # and before that, for its turn to write

LEARN = "for the tables and columns: SELECT sql FROM sqlite_master"
# A database that cannot be used, rather than a statement that is wrong.
UNUSABLE = (
    "database is locked",
    "database table is locked",
    "database disk image is malformed",
    "malformed database schema",
    "file is not a database",
    "disk I/O error",
    "database or disk is full",
    "attempt to write a readonly database",
    "unable to open database file",
)


class Found:
    """The rows of a query, ready for JSON, and what was left out of them."""

    def __init__(self, rows: list[dict[str, Any]], note: str) -> None:
        self.rows, self.note = rows, note


def query(path: str, sql: str, params: Params) -> Found:
    """The rows of one read-only statement; refuses everything else with a PodiumError."""
    _check_size(sql, params)
    with closing(_open_to_read(path)) as store:
        db, guard = store.db, Guard()
        db.row_factory = None
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for command in ("PRAGMA query_only = ON", "PRAGMA temp_store = MEMORY", "BEGIN"):
            store.command(command)
        db.set_authorizer(guard)
        _limit_time(db)
        try:
            return _fetch(db.execute(sql, params))
        except Exception as error:
            raise _explain(error, guard, path) from error


def _open_to_read(path: str) -> SqliteStore:
    store = SqliteStore(path, LOCK_WAIT, "ro")
    try:
        if store.version() != SCHEMA:
            SqliteStore.open(path, LOCK_WAIT).close()  # upgrades it, or refuses what it is
    except BaseException:
        store.close()
        raise
    return store


def _fetch(cursor: sqlite3.Cursor) -> Found:
    if cursor.description is None:
        raise WrongUsage("there is no statement to run; give one SELECT")
    names: list[str] = []
    for name, *_ in cursor.description:
        names.append(name if name not in names else f"{name}:{len(names)}")
    rows: list[dict[str, Any]] = []
    room = CHARACTERS
    for row in cursor:
        values = [_plain(value) for value in row]
        room -= sum(len(str(value)) + len(name) for value, name in zip(values, names))
        if not rows and room < 0:
            raise WrongUsage(
                f"a row has more than {CHARACTERS:,} characters; select fewer columns, or substr()"
            )
        if len(rows) == ROWS or room < 0:
            return Found(rows, f"Cut after {len(rows):,} rows; narrow it, or page with OFFSET")
        rows.append(dict(zip(names, values)))
    return Found(rows, "")


def _plain(value: object) -> object:
    """The value as JSON can hold it: a blob as SQL writes it, an infinite number by name."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


class Done:
    """What a write did. `last_id` is that of the last row inserted, else None.

    `news` are the tasks that have a message, a state or an owner more, written by `session_id`.
    """

    def __init__(self, rows_affected: int, last_id: int | None) -> None:
        self.rows_affected, self.last_id = rows_affected, last_id
        self.session_id: str | None = None
        self.news: set[str] = set()


def execute(path: str, sql: str, params: Params, session_id: str | None) -> Done:
    """Run one INSERT, UPDATE or DELETE as this session, None being the operator.

    All or nothing; refuses with a PodiumError. A claim that must not succeed changes 0 rows.
    """
    _check_size(sql, params)
    # A subquery may bear the name of a trigger, and the authorizer cannot tell it from one.
    if WATCH in sql.lower():
        raise RuleRefused(
            f"{WATCH} is refused: it is podium's own; if it stands in a text, give that as a param"
        )
    with closing(SqliteStore.open(path, LOCK_WAIT)) as store, store.transaction():
        caller = _caller(store, session_id)
        last_message = store.all("last_message_id")[0]["id"]
        if caller.conducts:
            store.run("sign_moves", session_id=caller.session_id, conductor=CONDUCTOR_ROW)
        watcher = Watcher(store)
        guard = Guard(writes=True, trusted=_names_of_triggers(store))
        try:
            done = _run(store, sql, params, guard, watcher)
            _check_rights(caller, watcher, last_message)
        except PodiumError as error:
            raise _taken_over(store, caller, error) from error
        if caller.conducts:
            store.run("unsign_moves")
        done.session_id = caller.session_id
        done.news = {touch.task_id for touch in watcher.touched if touch.is_news}
        return done


def _names_of_triggers(store: SqliteStore) -> frozenset[str]:
    return frozenset(row["name"] for row in store.all("trigger_names"))


def _caller(store: SqliteStore, session_id: str | None) -> rights.Caller:
    if session_id is None:
        return rights.Caller(None, {})
    now = str(store.all("current_session", session_id=session_id)[0]["id"])
    rows = store.all("tasks_of_session", session_id=now)
    return rights.Caller(now, {row["task_id"]: State(row["state"]) for row in rows})


def _run(store: SqliteStore, sql: str, params: Params, guard: Guard, watcher: Watcher) -> Done:
    db = store.db
    db.set_authorizer(guard)
    _limit_time(db)
    try:
        reads = db.execute(sql, params).description is not None
    except Exception as error:
        if watcher.excess:
            raise RuleRefused(f"refused: {watcher.excess}") from error
        raise _explain(error, guard, store.path) from error
    finally:
        guard.on = False
        db.set_progress_handler(None, 0)
    if reads or not guard.verb:
        raise WrongUsage(
            "execute runs one INSERT, UPDATE or DELETE without RETURNING; to read, use query"
        )
    done = store.all("outcome")[0]
    inserted = guard.verb == "INSERT" and done["rows_affected"]
    return Done(done["rows_affected"], done["last_id"] if inserted else None)


def _check_rights(caller: rights.Caller, watcher: Watcher, last_message: int) -> None:
    """Hold every row that was touched against what this caller may write."""
    for touch in watcher.touched:
        last_message += touch.verb == "mail"
        _check_touch(caller, touch, last_message)


def _check_touch(caller: rights.Caller, touch: Touch, last_message: int) -> None:
    if touch.verb == "mail":
        rights.check_mail(caller, touch.task_id, touch.session_id, touch.state)
        if touch.mark > last_message:
            raise RuleRefused("the database numbers the messages; leave the id out")
    elif touch.old and touch.new:
        rights.check_update(caller, touch.task_id, touch.old, touch.new)
    elif touch.old:
        rights.check_delete(caller, touch.task_id, touch.old)
    elif touch.new:
        rights.check_insert(caller, touch.task_id, touch.new)
        if touch.mark is not None:
            raise RuleRefused("the database notes the actor; leave that column out")


def _taken_over(store: SqliteStore, caller: rights.Caller, error: PodiumError) -> PodiumError:
    """The same refusal, or who took over where the caller once owned what it wants to write."""
    me, task_id = caller.session_id, getattr(error, "task_id", None)
    if isinstance(error, RuleRefused) and "taken over" in str(error):
        lost = store.one("lost_task", session_id=me)
        if not lost:  # then it was the sender who lost it
            return rights.not_the_sender(caller)
        task_id = lost["task_id"]
    elif not isinstance(error, rights.NotYours):
        return error
    now = store.one("task", task_id=task_id)
    owned = store.one("former_owner", task_id=task_id, session_id=me)
    if now and now["session_id"] and owned:
        return TakenOver(str(task_id), now["worked_by"], now["session_id"])
    return error


def _check_size(sql: str, params: Params) -> None:
    values = list(params.values()) if isinstance(params, dict) else params
    size = len(sql) + sum(len(value) if isinstance(value, str) else 1 for value in values)
    if size > CHARACTERS:
        raise WrongUsage(
            f"the statement and its params have {size:,} characters, {CHARACTERS:,} are the most; "
            "put long text into a file and write its path"
        )


def _limit_time(db: sqlite3.Connection) -> None:
    end = time.monotonic() + SECONDS
    db.set_progress_handler(lambda: time.monotonic() > end, 10_000)


def _explain(error: Exception, guard: Guard, path: str) -> PodiumError:
    """What went wrong with somebody's statement, in one sentence with what to do next."""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, PodiumError):
        return error
    if guard.denied:
        return RuleRefused(guard.refusal())
    if isinstance(error, sqlite3.IntegrityError):
        broken = str(refusal(error, path))
        return RuleRefused(broken if "run: " in broken else f"{broken}; run: podium status")
    if isinstance(error, sqlite3.Error) and text.startswith(UNUSABLE):
        return refusal(error, path)
    known = {
        "interrupted": f"it ran for {SECONDS:g} s and was stopped; nothing was written; narrow it",
        "MemoryError": "it needs too much memory; nothing was written; narrow it",
        "You can only execute one statement at a time.": "several statements; give one at a time",
    }
    return WrongUsage(known.get(text, f"SQLite cannot run it: {text}; {LEARN}"))
