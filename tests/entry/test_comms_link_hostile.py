"""comms-link against statements that mean harm: refused or bounded, and nothing has changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from typing import TYPE_CHECKING, Any

import protocol
import pytest
from entry.speaker import Speaker, everything
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podium.services import raw_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

BOTH = ("query", "execute")
ME, OTHER, CONDUCTOR = "me", "other", "conductor-session"
TASKS, MESSAGES = "orchestration_tasks", "orchestration_messages"
PRIVATE = ("podium_events", "podium_sessions", "podium_reads", "podium_needs")
SYSTEM = ("sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_temp_master")
RULES = ("podium_rule_changed", "podium_watch_mail")  # the guard trusts what these triggers do

HARM = (
    f"DROP TABLE {TASKS}",
    "DELETE FROM podium_events",
    f"UPDATE {TASKS} SET state = 'complete'",
    "PRAGMA writable_schema = ON",
    "ATTACH 'stolen.db' AS stolen",
    f"INSERT INTO {MESSAGES} (task_id, from_session, message_type, message) VALUES (1, 2, 3, 4)",
)
SEVERAL = (
    "SELECT 1; {}",
    "SELECT 1;--\n{}",
    "SELECT 1;/**/{}",
    "SELECT 1 /* ; */; {};",
    "SELECT ';' ; {}",
    "SELECT 1;\n\t\r\f{}",
    "UPDATE orchestration_tasks SET last_heartbeat = datetime('now') WHERE 0; {}",
    "; {}",
    "-- {0}\n; {0}",
    "EXPLAIN SELECT 1; {}",
    "BEGIN; {}; COMMIT",
)
COMMANDS = """
CREATE TABLE x (a)
CREATE TABLE x AS SELECT * FROM orchestration_tasks
CREATE TEMP TABLE x (a)
CREATE TEMP TABLE orchestration_tasks (task_id)
CREATE TABLE temp.orchestration_tasks AS SELECT 1
CREATE VIRTUAL TABLE x USING fts5(a)
CREATE INDEX x ON orchestration_tasks (state)
CREATE VIEW x AS SELECT 1
CREATE TEMP VIEW orchestration_messages AS SELECT 1
CREATE TRIGGER podium_rule_x AFTER INSERT ON orchestration_messages BEGIN DELETE FROM podium_events; END
CREATE TEMP TRIGGER x AFTER INSERT ON orchestration_messages BEGIN DELETE FROM podium_events; END
DROP TABLE orchestration_tasks
DROP TABLE IF EXISTS orchestration_messages
DROP TABLE podium_events
DROP TRIGGER podium_rule_no_delete
DROP TRIGGER podium_rule_changed
DROP INDEX orchestration_tasks_by_session
ALTER TABLE orchestration_tasks RENAME TO x
ALTER TABLE orchestration_tasks ADD COLUMN x
ALTER TABLE orchestration_tasks DROP COLUMN last_error
ALTER TABLE orchestration_tasks RENAME COLUMN state TO x
PRAGMA writable_schema = ON
PRAGMA user_version = 9
PRAGMA user_version
PRAGMA application_id = 1
PRAGMA schema_version = 1
PRAGMA journal_mode = DELETE
PRAGMA journal_mode = OFF
PRAGMA query_only = OFF
PRAGMA recursive_triggers = ON
PRAGMA trusted_schema = OFF
PRAGMA ignore_check_constraints = ON
PRAGMA locking_mode = EXCLUSIVE
PRAGMA wal_checkpoint(TRUNCATE)
PRAGMA max_page_count = 1
PRAGMA temp_store_directory = '/'
PRAGMA optimize
PRAGMA incremental_vacuum
PRAGMA main.foreign_keys = ON
PRAGMA table_info(orchestration_tasks)
SELECT * FROM pragma_table_info('orchestration_tasks')
SELECT * FROM pragma_database_list
SELECT * FROM pragma_user_version
SELECT * FROM pragma_wal_checkpoint
ATTACH 'stolen.db' AS stolen
ATTACH DATABASE ':memory:' AS stolen
ATTACH 'file:comms.db?mode=rw' AS stolen
ATTACH '' AS stolen
DETACH main
DETACH temp
VACUUM
VACUUM INTO 'stolen.db'
VACUUM main INTO 'file:stolen.db'
REINDEX
REINDEX orchestration_tasks
ANALYZE
ANALYZE orchestration_tasks
BEGIN
BEGIN EXCLUSIVE
BEGIN IMMEDIATE
COMMIT
END
ROLLBACK
SAVEPOINT x
RELEASE x
ROLLBACK TO x
SELECT load_extension('stolen')
SELECT load_extension('stolen', 'main')
SELECT LOAD_EXTENSION('stolen')
SELECT (SELECT load_extension('stolen')) FROM orchestration_tasks
SELECT * FROM orchestration_tasks WHERE load_extension('x') OR 1
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('simple', x'00')
SELECT podium_watch('update', 'task-01')
SELECT readfile('comms.db')
SELECT writefile('stolen', 'x')
SELECT edit('x')
SELECT RAISE(ROLLBACK, 'x')
SELECT * INTO x FROM orchestration_tasks
SELECT * FROM sqlite_dbpage('main')
WITH x AS (DELETE FROM orchestration_tasks RETURNING *) SELECT * FROM x
WITH x AS (INSERT INTO orchestration_messages DEFAULT VALUES RETURNING *) SELECT * FROM x
WITH x AS (SELECT 1) DELETE FROM podium_events
WITH x AS (SELECT 1) UPDATE podium_sessions SET pid = 1
WITH x AS (SELECT 1) INSERT INTO podium_reads SELECT 'a', 'b', 1 FROM x
WITH podium_rule_changed AS MATERIALIZED (SELECT load_extension('x') AS a) SELECT * FROM podium_rule_changed
SELECT * FROM (SELECT load_extension('x') AS a) AS podium_rule_changed
WITH podium_rule_changed AS (SELECT 1) INSERT INTO podium_reads SELECT 'a', 'b', 1 FROM podium_rule_changed
WITH podium_rule_changed AS MATERIALIZED (SELECT 1 AS a) UPDATE podium_events SET actor = 1 FROM podium_rule_changed
WITH podium_watch_mail AS (SELECT podium_watch('mail') AS a) SELECT * FROM podium_watch_mail
EXPLAIN DELETE FROM podium_events
EXPLAIN QUERY PLAN DROP TABLE orchestration_tasks
.dump
.shell id
GRANT ALL ON orchestration_tasks TO me
COPY orchestration_tasks TO '/tmp/x'
EXEC xp_cmdshell 'id'
TRUNCATE orchestration_tasks
SET x = 1
CALL x()
""".strip().splitlines()  # noqa: E501
# Which row, which column: nobody's to write by hand, and nobody's to write for all rows at once.
ROWS = """
DELETE FROM orchestration_tasks
DELETE FROM orchestration_tasks WHERE task_id = 'task-01'
DELETE FROM orchestration_tasks WHERE task_id = 'task-00'
DELETE FROM orchestration_messages
DELETE FROM orchestration_messages WHERE id = 1
DELETE FROM orchestration_messages WHERE 1 RETURNING *
UPDATE orchestration_messages SET message = 'x'
UPDATE orchestration_messages SET from_session = 'task-00' WHERE id = 1
UPDATE orchestration_tasks SET state = 'complete'
UPDATE orchestration_tasks SET state = 'exited'
UPDATE orchestration_tasks SET state = 'working'
UPDATE orchestration_tasks SET state = 'nonsense'
UPDATE orchestration_tasks SET state = NULL
UPDATE orchestration_tasks SET session_id = NULL
UPDATE orchestration_tasks SET session_id = 'me'
UPDATE orchestration_tasks SET session_id = 'victim'
UPDATE orchestration_tasks SET session_id = 'victim', state = 'watching' WHERE task_id = 'task-00'
UPDATE orchestration_tasks SET session_id = 'victim' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET task_id = 'x' || task_id
UPDATE orchestration_tasks SET task_id = 'task-09' WHERE task_id = 'task-01'
UPDATE OR REPLACE orchestration_tasks SET task_id = 'task-02' WHERE task_id = 'task-01'
UPDATE OR REPLACE orchestration_tasks SET rowid = 2 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET retry_count = -1 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET retry_count = 6 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET retry_count = 'x' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET retry_count = NULL WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET owner_seen = NULL WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET owner_seen = '9999-01-01 00:00:00' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET moves = 0 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET claims = 0 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET phase = 9 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET parallel = 1 WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET actor = 'task-00' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET actor = 'task-00', state = 'exited' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_heartbeat = '9999-12-31 23:59:59' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_heartbeat = 'zzz' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_heartbeat = x'ff' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_error = hex(zeroblob(1000000)) WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_error = zeroblob(100000000) WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET report_path = x'00' WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_error = load_extension('x') WHERE task_id = 'task-01'
UPDATE orchestration_tasks SET last_error = 'x' WHERE task_id = 'task-01' RETURNING *
UPDATE main.sqlite_master SET sql = '' WHERE name = 'orchestration_tasks'
UPDATE orchestration_tasks SET (state, session_id) = (SELECT 'working', 'victim') WHERE task_id = 'task-03'
UPDATE orchestration_tasks SET state = 'working', session_id = 'victim' FROM podium_events WHERE 1
INSERT INTO orchestration_tasks DEFAULT VALUES
INSERT INTO orchestration_tasks (task_id, state) VALUES ('task-01', 'watching')
INSERT INTO orchestration_tasks (task_id, state) VALUES (NULL, 'watching')
INSERT INTO orchestration_tasks (task_id, state) VALUES (x'00', 'watching')
INSERT INTO orchestration_tasks (task_id, state) VALUES ('task-09', 'complete')
INSERT INTO orchestration_tasks (task_id, state) VALUES ('../../task', 'watching')
INSERT INTO orchestration_tasks (task_id, state) VALUES ('task-9', 'watching')
INSERT INTO orchestration_tasks (task_id, state) VALUES ('TASK-00', 'watching')
INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES ('task-09', 'watching', 'victim')
INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES ('fallback-victim', 'exited', 'victim')
INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES ('fallback-x', 'exited', 'me')
INSERT INTO orchestration_tasks (task_id, state, actor) VALUES ('task-09', 'watching', 'victim')
INSERT OR REPLACE INTO orchestration_tasks (task_id, state) VALUES ('task-01', 'watching')
INSERT OR REPLACE INTO orchestration_tasks (rowid, task_id, state) VALUES (1, 'task-09', 'complete')
REPLACE INTO orchestration_tasks (task_id, state, session_id) VALUES ('task-01', 'watching', 'me')
REPLACE INTO orchestration_messages (id, task_id, from_session, message_type, message) VALUES (1, 'a', 'b', 'error', 'c')
INSERT INTO orchestration_tasks (task_id, state) VALUES ('task-01', 'watching') ON CONFLICT DO UPDATE SET state = 'complete'
INSERT INTO orchestration_tasks (task_id, state) SELECT 'x' || task_id, 'watching' FROM orchestration_tasks
INSERT INTO orchestration_messages DEFAULT VALUES
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', 'victim', 'error', 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', '', 'error', 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', x'00', 'error', 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', 'TASK-00', 'error', 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', 'me', 'nonsense', 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', 'me', NULL, 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) SELECT task_id, session_id, 'error', 'x' FROM orchestration_tasks
INSERT INTO orchestration_messages (id, task_id, from_session, message_type, message) VALUES (9223372036854775807, 'task-01', 'me', 'error', 'x')
INSERT INTO orchestration_messages (id, task_id, from_session, message_type, message) VALUES (-1, 'task-01', 'me', 'error', 'x')
INSERT INTO orchestration_messages (rowid, task_id, from_session, message_type, message) VALUES (1000000, 'task-01', 'me', 'error', 'x')
INSERT INTO orchestration_messages (task_id, from_session, message_type, message) VALUES ('task-01', 'me', 'error', zeroblob(10))
""".strip().splitlines()  # noqa: E501
OTHERS = [
    text.format(table)
    for table, text in product(
        (*PRIVATE, *SYSTEM),
        ("DELETE FROM {}", "UPDATE {} SET rowid = 7", "INSERT INTO {} DEFAULT VALUES"),
    )
]
TEXTS: list[Any] = [
    *("", " ", ";", ";;;", "--", "/*", "-- only a note", "/* only */ -- notes", "\ufeff", "\x00"),
    *("SELECT 1\x00; DROP TABLE orchestration_tasks", "SELECT '", 'SELECT "', "SELECT [", "SELECT"),
    *("SELEKT 1", "SELECT 1,", "\ud800", "SELECT '\ud800'", "\u037e DROP TABLE x", "'" * 1000),
    *(None, 7, [], {}, True, ["SELECT 1"]),
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "-" * 900_000 + "1",
    "SELECT " + "1+" * 50_000 + "1",
    "SELECT " + ",".join(["1"] * 5000),
    "SELECT * FROM " + ",".join(f"{TASKS} t{n}" for n in range(70)),
    "WITH " + ",".join(f"c{n} AS (SELECT * FROM c{n - 1}, c{n - 1} x)" for n in range(1, 40))
    + " SELECT * FROM c39",
    "SELECT '" + "x" * 2_000_000 + "'",
    f"SELECT * FROM {TASKS} WHERE task_id IN ({','.join(['?'] * 40_000)})",
]  # fmt: skip
PARAMS: list[tuple[str, Any]] = [
    ("SELECT ?", []),
    ("SELECT ?", [1, 2]),
    ("SELECT :a", {}),
    ("SELECT ?", ["x" * 2_000_000]),
    ("SELECT ?", [[1]]),
    ("SELECT ?", [{"a": 1}]),
    ("SELECT ?", [2**70]),
    ("SELECT ?", "SELECT"),
    ("SELECT ?", 7),
    ("SELECT ?", ["\ud800"]),
    ("SELECT 1; SELECT ?", ["x"]),
    (f"DROP TABLE {TASKS} -- ?", ["x"]),
    ("SELECT load_extension(?)", ["x"]),
    (f"UPDATE {TASKS} SET session_id = ? WHERE task_id = ?", ["victim", "task-03"]),
]
REFUSED = [
    *((tool, form.format(harm), None) for tool, form, harm in product(BOTH, SEVERAL, HARM)),
    *((tool, sql, None) for tool, sql in product(BOTH, COMMANDS)),
    *(("execute", sql, None) for sql in chain(ROWS, OTHERS)),
    *(("query", sql, None) for sql in chain(ROWS, OTHERS)),
    *((tool, sql, None) for tool, sql in product(BOTH, TEXTS)),
    *((tool, sql, params) for tool, (sql, params) in product(BOTH, PARAMS)),
]  # fmt: skip
SERVED = REFUSED[::3]  # by the server itself, which starts a process for each
# What `query` may answer, for it only looks.
ONLY_LOOKS = ("EXPLAIN DELETE FROM podium_events",)

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
PILE = "WITH RECURSIVE n(x) AS (SELECT 'aaaaaaaa' UNION ALL SELECT x || x FROM n) "
MAIL = f"INSERT INTO {MESSAGES} (task_id, from_session, message_type, message) "
# One step of SQLite's machine, in which it asks nobody: only the end of its process can end it.
SLOW_STEP = "instr(hex(zeroblob(10000000)), hex(zeroblob(5000000)) || '1')"
ENDLESS = [
    ("query", NUMBERS + "SELECT count(*) FROM n"),
    ("query", NUMBERS + "SELECT i FROM n ORDER BY i"),
    ("query", NUMBERS + "SELECT group_concat(hex(randomblob(1000))) FROM n"),
    ("query", NUMBERS + "SELECT i FROM n WHERE i < 0"),
    ("query", "SELECT count(*) FROM " + ",".join(f"sqlite_master t{n}" for n in range(20))),
    ("query", PILE + "SELECT max(length(x)) FROM n"),
    ("query", "SELECT zeroblob(1000000000)"),
    ("query", "SELECT hex(zeroblob(500000000))"),
    ("query", "SELECT length(printf('%.*c', 1000000000, 'x'))"),
    ("query", "SELECT replace(hex(zeroblob(100000)), '0', hex(zeroblob(10000)))"),
    ("query", f"SELECT {SLOW_STEP}"),
    ("execute", MAIL + NUMBERS + f"SELECT 'task-01', '{ME}', 'error', i FROM n"),
    ("execute", MAIL + NUMBERS + f"SELECT 'task-01', '{ME}', 'error', i FROM n WHERE i < 0"),
    ("execute", MAIL + NUMBERS + f"SELECT 'task-01', '{ME}', 'error', 'x' FROM n LIMIT 5000"),
    ("execute", MAIL + f"VALUES ('task-01', '{ME}', 'error', hex(zeroblob(1000000)))"),
    ("execute", MAIL + f"VALUES ('task-01', '{ME}', 'error', zeroblob(900000000))"),
    ("execute", MAIL + PILE + f"SELECT 'task-01', '{ME}', 'error', x FROM n"),
    (
        "execute",
        f"UPDATE {TASKS} SET last_error = {SLOW_STEP} WHERE task_id = 'task-01'",
    ),
]  # fmt: skip


@pytest.fixture
def unharmed(raw: sqlite3.Connection, project: Path) -> Iterator[None]:
    """A run that is, to the last row and file, the same afterwards."""
    protocol.own(raw, "task-00", "watching", CONDUCTOR)
    protocol.own(raw, "task-01", "working", ME)
    protocol.own(raw, "task-02", "working", OTHER)
    protocol.add(raw, "task-03")
    protocol.send(raw, "task-01", "task-00", "instruction")
    before, files = everything(raw), {path.name for path in project.iterdir()}

    yield

    assert everything(raw) == before
    signs = f"SELECT count(*) FROM {TASKS} WHERE owner_seen > datetime('now', '+5 seconds')"
    assert raw.execute(signs).fetchone()[0] == 0
    assert [row[0] for row in raw.execute("PRAGMA integrity_check")] == ["ok"]
    assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert {path.name for path in project.iterdir()} == files


def test_there_are_enough_hostile_statements() -> None:
    assert len({str(sql) for _, sql, _ in REFUSED}) >= 200
    assert len(SERVED) >= 200


def _unrefused(
    cases: list[tuple[str, Any, Any]], answer: Callable[..., dict[str, Any]]
) -> list[tuple[object, ...]]:
    wrong = []
    for tool, sql, params in cases:
        result = answer(tool, sql, params)
        reason = result["content"][0]["text"]
        harmless = sql in ONLY_LOOKS if tool == "query" else '"rows_affected": 0,' in reason
        if not (result["isError"] or harmless) or not reason or "Traceback" in reason:
            wrong.append((tool, str(sql)[:200], params, reason[:200]))
    return wrong


@pytest.mark.usefixtures("unharmed")
def test_hostile_statements_are_refused_with_a_reason(project: Path) -> None:
    with Speaker(project, ME) as speaker:
        assert _unrefused(SERVED, speaker.call) == []
        assert speaker.ask("ping")["result"] == {}


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("session", [ME, "stranger", CONDUCTOR, None])
def test_hostile_statements_are_refused_whoever_makes_them(db: Path, session: str | None) -> None:
    def answer(tool: str, sql: Any, params: Any) -> dict[str, Any]:
        return raw_sql.answer(str(db), session, tool, {"sql": sql, "params": params})

    assert _unrefused(REFUSED, answer) == []


@pytest.mark.usefixtures("unharmed")
def test_statements_without_end_are_bounded(project: Path) -> None:
    def run(case: tuple[str, str]) -> str:
        with Speaker(project, ME) as speaker:
            return speaker.refusal(*case)

    with ThreadPoolExecutor(6) as pool:
        reasons = list(pool.map(run, ENDLESS))

    assert all("; " in reason for reason in reasons), reasons


@pytest.mark.usefixtures("unharmed")
def test_a_literal_of_50_megabytes_is_refused(project: Path) -> None:
    with Speaker(project, ME) as speaker:
        for tool in ("query", "execute"):
            arguments = {"sql": "SELECT '" + "x" * 50_000_000 + "'"}
            answer = speaker.ask("tools/call", name=tool, arguments=arguments)
            assert answer["error"]["code"] == -32600


@pytest.mark.usefixtures("unharmed")
def test_garbage_between_the_lines_does_no_harm(project: Path) -> None:
    garbage = [bytes(range(256)) * 1000, b"\x00" * 10_000_000, b"{" * 1_000_000, b"\n" * 10_000]
    with Speaker(project, ME) as speaker, ThreadPoolExecutor(1) as pool:
        speaker.start()
        # From a thread of its own: every line is answered, and the answers must be read meanwhile.
        pool.submit(speaker.write, b"\n".join([*garbage, b""])).add_done_callback(
            lambda _: speaker.send("ping", number="after")
        )
        answers = []
        while not answers or answers[-1].get("id") != "after":
            answers.append(speaker.read())
    assert len(answers) > 1000
    assert all("error" in answer for answer in answers[:-1])


WORDS = f"""
{TASKS} {MESSAGES} {" ".join(PRIVATE)} sqlite_master state task_id session_id actor owner_seen
SELECT FROM WHERE UPDATE SET DELETE INSERT INTO VALUES OR REPLACE WITH RECURSIVE AS UNION ALL
ATTACH DETACH PRAGMA DROP TABLE TRIGGER CREATE TEMP BEGIN COMMIT VACUUM ON CONFLICT DO RETURNING
; -- /* */ ' " ( ) , * = 'task-02' 'other' 'victim' NULL 1 0 :a ?
""".split()


@pytest.mark.usefixtures("unharmed")
def test_no_mixture_of_words_does_harm(project: Path) -> None:
    with Speaker(project, "stranger") as speaker:

        @settings(max_examples=150, deadline=None, derandomize=True, database=None,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join),
            st.sampled_from(["query", "execute"]),
        )
        def mix(sql: str, tool: str) -> None:
            result = speaker.call(tool, sql)
            if tool == "execute" and not result["isError"]:
                assert json.loads(result["content"][0]["text"])["rows_affected"] == 0

        mix()
