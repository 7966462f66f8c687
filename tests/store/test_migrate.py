"""How a database comes to be, grows and is set aside. Nothing that is there is ever lost."""

from __future__ import annotations

import inspect
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from protocol import add, connect, own, send
from store.test_claims import race

from podium.domain import records
from podium.domain.errors import NotSetUp, PodiumError, StoreBroken, StoreBusy
from podium.domain.states import MessageType, State
from podium.store import migrate, open_store, sqlite
from podium.store.triggers import triggers

if TYPE_CHECKING:
    from podium.store.base import Store

# The contract's columns, in its order.
TASKS = (
    "task_id state instruction_path session_id worked_by started_at completed_at report_path"
    " retry_count last_heartbeat last_error"
)
MESSAGES = "id task_id from_session message message_type timestamp"


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]


def allowed(db: sqlite3.Connection, table: str, column: str) -> set[str]:
    """The values that a column's CHECK lists."""
    (sql,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    listed = re.search(rf"CHECK \({column} IN \((.*?)\)\)", sql)
    assert listed
    return set(re.findall(r"'(\w+)'", listed[1]))


def test_the_steps_build_the_tables_of_the_contract(raw: sqlite3.Connection) -> None:
    assert " ".join(columns(raw, "orchestration_tasks")).startswith(TASKS)
    assert " ".join(columns(raw, "orchestration_messages")) == MESSAGES
    assert allowed(raw, "orchestration_tasks", "state") == {s.value for s in State}
    assert allowed(raw, "orchestration_messages", "message_type") == {t.value for t in MessageType}


@pytest.mark.parametrize(
    ("record", "table", "computed"),
    [
        (records.Task, "orchestration_tasks", {"owner_age"}),
        (records.Message, "orchestration_messages", set()),
        (records.Event, "podium_events", set()),
        (records.Session, "podium_sessions", set()),
    ],
)
def test_the_steps_build_the_columns_that_the_code_reads(
    raw: sqlite3.Connection, record: type, table: str, computed: set[str]
) -> None:
    assert set(inspect.get_annotations(record)) - computed <= set(columns(raw, table))


@pytest.mark.parametrize("name", sorted(sqlite.queries()))
def test_a_named_statement_fits_the_schema(raw: sqlite3.Connection, name: str) -> None:
    sql = sqlite.queries()[name]
    wanted = dict.fromkeys(re.findall(r"(?<!:):(\w+)", re.sub(r"--.*|'[^']*'", "", sql)))
    assert raw.execute(f"EXPLAIN {sql}", wanted).fetchall()


def test_the_rules_of_a_new_database_are_those_of_the_domain(raw: sqlite3.Connection) -> None:
    found = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    assert dict(map(tuple, found)) == triggers()


def test_the_steps_are_numbered_without_a_gap() -> None:
    assert list(migrate.steps()) == list(range(1, sqlite.SCHEMA + 1))


def test_a_new_database_is_private_and_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "comms.db"
    store = migrate.create(str(path))
    store.run("add_need", task_id="task-02", needs="task-01")
    modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.glob("comms.db*")}
    assert modes == dict.fromkeys(("comms.db", "comms.db-wal", "comms.db-shm"), 0o600)
    store.close()


def _files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def _newer(path: Path) -> None:
    with closing(migrate.create(str(path))) as store:
        store.command(f"PRAGMA user_version = {sqlite.SCHEMA + 1}")


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE accounts (id)")


def _foreign_with_a_number(path: Path) -> None:
    _foreign(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {sqlite.SCHEMA}")


def _foreign_with_our_names(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE orchestration_tasks (task_id TEXT, state TEXT)")


UNUSABLE = {
    "newer": (_newer, NotSetUp, r"newer podium.*left untouched"),
    "foreign": (_foreign, NotSetUp, r"not podium's.*left untouched"),
    "foreign, numbered": (_foreign_with_a_number, NotSetUp, r"not podium's.*left untouched"),
    "foreign, same names": (_foreign_with_our_names, NotSetUp, r"not podium's.*left untouched"),
    "text": (lambda path: path.write_text("comms are down"), StoreBroken, "cannot be used"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_database_that_cannot_be_used_is_refused_and_left_untouched(
    tmp_path: Path, what: str
) -> None:
    make, refusal, says = UNUSABLE[what]
    path = tmp_path / "project" / "comms.db"
    path.parent.mkdir()
    make(path)
    before = _files(path.parent)
    for attempt in (open_store, migrate.create):
        with pytest.raises(refusal, match=says):
            attempt(str(path))
        assert _files(path.parent) == before


@pytest.mark.parametrize("content", [None, b""])
def test_opening_never_makes_a_database(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "project" / "comms.db"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)  # what another program's first connect() leaves
    before = _files(path.parent)
    with pytest.raises(NotSetUp, match="run: podium init"):
        open_store(str(path))
    assert _files(path.parent) == before


def test_making_a_database_that_exists_keeps_every_row(db: Path) -> None:
    with closing(connect(db)) as raw:
        own(raw, "task-03", "working", "a")
    with closing(migrate.create(str(db))) as store:
        assert [task["session_id"] for task in store.all("tasks")] == ["a"]


def test_rules_that_were_lost_are_made_anew_and_only_then(db: Path) -> None:
    with closing(migrate.create(str(db))) as store:
        dropped, changed, *_ = sorted(triggers())
        before = store.change()
        assert migrate.restore_rules(store) == []
        text = store.command("SELECT sql FROM sqlite_master WHERE name = :n", {"n": changed})
        (kept,) = text.fetchone()
        for name in (dropped, changed):
            store.command(f"DROP TRIGGER {name}")
        store.command(kept + " ")
        assert migrate.restore_rules(store) == [dropped]
        store.command(f"DROP TRIGGER {changed}")
        store.command(kept.replace("BEGIN", "WHEN 0 BEGIN" if "WHEN" not in kept else "BEGIN "))
        assert migrate.lost_rules(store) == [changed]
        assert migrate.restore_rules(store) == [changed]
        assert migrate.lost_rules(store) == []
        assert store.change() == before


def test_ten_processes_make_one_database(project: Path) -> None:
    path = project / "comms.db"
    results = race(path, "make", 10)
    assert [r["seen"] for r in results if r["seen"]] == []
    with closing(open_store(str(path))) as store:
        assert len(store.all("tasks")) == 10
        assert len(store.all("events", task_id=None, most=99)) == 10


@pytest.mark.parametrize("system", ["nfs4", "cifs", "fuse.sshfs", "smbfs"])
def test_a_network_file_system_is_refused_with_a_reason(
    project: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    mounts = [("/", "ext4"), (str(project.parent), system), (str(project) + "-other", "xfs")]
    monkeypatch.setattr(migrate, "_mounts", lambda: mounts)
    with pytest.raises(StoreBroken, match=rf"network file system \({system}\).*PODIUM_DB"):
        migrate.create(str(project / "comms.db"))
    assert not list(project.iterdir())


@pytest.mark.parametrize("above", ["nfs", "ext4"])
def test_the_nearest_mount_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch, above: str
) -> None:
    mounts = [("/", above), (str(project), "ext4")]
    monkeypatch.setattr(migrate, "_mounts", lambda: mounts)
    migrate.create(str(project / "comms.db")).close()


def test_this_machine_says_what_its_file_systems_are(tmp_path: Path) -> None:
    assert migrate.file_system(str(tmp_path))


def test_a_database_that_cannot_be_made_says_what_to_do(project: Path) -> None:
    with pytest.raises(StoreBroken, match="run: podium init"):
        migrate.create(str(project / "missing" / "comms.db"))


def _run_in(path: Path) -> None:
    with closing(migrate.create(str(path))), closing(connect(path)) as raw:
        own(raw, "task-03", "needs_review", "a")
        send(raw, "task-03", "a", "review_request")


def test_an_archive_keeps_everything(project: Path) -> None:
    path = project / "comms.db"
    _run_in(path)
    with closing(connect(path)) as raw:
        before = list(raw.iterdump())
    target = migrate.archive(str(path), "2026-01-02")
    assert target == str(project / "comms-2026-01-02.db")
    assert [p.name for p in project.iterdir()] == ["comms-2026-01-02.db"]
    with closing(connect(Path(target))) as raw:
        assert list(raw.iterdump()) == before
    with closing(open_store(target)) as store:
        assert len(store.all("tasks")) == 1


def test_an_archive_keeps_what_a_killed_process_left_in_the_journal(project: Path) -> None:
    path, alive = project / "comms.db", project / "alive.db"
    _run_in(alive)
    raw = connect(alive)
    add(raw, "task-04")
    for tail in ("", "-wal"):  # as a kill leaves them: the journal not folded in
        shutil.copy(f"{alive}{tail}", f"{path}{tail}")
    raw.close()
    target = migrate.archive(str(path), "now")
    assert target
    with closing(open_store(target)) as store:
        assert [task["task_id"] for task in store.all("tasks")] == ["task-03", "task-04"]


@pytest.mark.parametrize("content", [b"", b"not a database", None])
def test_an_archive_takes_whatever_is_there(project: Path, content: bytes | None) -> None:
    path = project / "comms.db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    target = migrate.archive(str(path), "now")
    assert target
    assert not path.exists()
    assert content is None or Path(target).read_bytes() == content


def test_an_archive_never_overwrites(project: Path) -> None:
    path = project / "comms.db"
    names = []
    for content in (b"first", b"second", b"third"):
        path.write_bytes(content)
        target = migrate.archive(str(path), "today")
        assert target
        names.append(Path(target).name)
        assert Path(target).read_bytes() == content
    assert names == ["comms-today.db", "comms-today-2.db", "comms-today-3.db"]
    assert migrate.archive(str(path), "today") is None


def test_a_database_in_use_is_not_archived_under_the_feet_of_its_users(
    db: Path, raw: sqlite3.Connection
) -> None:
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        migrate.archive(str(db), "now", wait=0.1)
    assert [p.name for p in db.parent.glob("*.db")] == ["comms.db"]


def test_a_locked_database_is_a_clear_end(store: Store, raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN IMMEDIATE")
    store.db.execute("PRAGMA busy_timeout = 50")  # type: ignore[attr-defined]
    with pytest.raises(StoreBusy, match="nothing was written; try again"), store.transaction():
        pass
    raw.execute("ROLLBACK")
    with store.transaction():
        store.run("add_need", task_id="task-02", needs="task-01")
    assert len(store.all("needs")) == 1


def test_a_transaction_is_all_or_nothing_and_one_inside_another_joins_it(store: Store) -> None:
    def two(*, fail: bool) -> None:
        with store.transaction():
            store.run("add_need", task_id="task-02", needs="task-01")
            with store.transaction():
                store.run("add_need", task_id="task-03", needs="task-01")
            if fail:
                raise PodiumError("changed my mind")

    with pytest.raises(PodiumError, match="changed my mind"):
        two(fail=True)
    assert store.all("needs") == []
    two(fail=False)
    assert len(store.all("needs")) == 2


def test_a_commit_of_others_changes_the_number(store: Store, raw: sqlite3.Connection) -> None:
    before = store.change()
    store.run("add_need", task_id="task-02", needs="task-01")
    assert store.change() == before
    add(raw, "task-03")
    assert store.change() != before


def test_a_path_with_odd_characters_is_opened_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "100% of? #1 'é\"" / "comms.db"
    path.parent.mkdir()
    migrate.create(str(path)).close()
    open_store(str(path)).close()
    assert [p.name for p in path.parent.iterdir()] == ["comms.db"]
