"""comms-link: conformance, the documents' SQL, identity, fresh reads, life and death."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types
import protocol
import pytest
from conftest import PLUGIN
from entry.speaker import Speaker, command, environment, everything, official, said, text_of
from mcp import MCPError
from store.seeds_sql import ME, OTHER, SEEDS, Block, filled
from store.test_seeds import CONDUCTOR, arrange, same

from podium.entry import comms_link
from podium.services import raw_sql
from podium.store import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp import Client

COUNT = "SELECT count(*) AS n FROM orchestration_tasks"
HEARTBEAT = "UPDATE orchestration_tasks SET last_heartbeat = datetime('now') WHERE task_id = ?"
MOVE = "UPDATE orchestration_tasks SET state = ? WHERE task_id = ?"
MAIL = "INSERT INTO orchestration_messages (task_id, from_session, message_type, message)"
SEND = f"{MAIL} VALUES (?, ?, ?, ?)"
TAKE = "UPDATE orchestration_tasks SET state = 'watching', session_id = ? WHERE task_id = 'task-00'"


@pytest.fixture
def run(raw: sqlite3.Connection) -> sqlite3.Connection:
    """A run with a conductor, a task of ME, one of OTHER and one that is free."""
    protocol.own(raw, "task-00", "watching", CONDUCTOR)
    protocol.own(raw, "task-01", "working", ME)
    protocol.own(raw, "task-02", "working", OTHER)
    protocol.add(raw, "task-03")
    return raw


@pytest.fixture
def play(run: sqlite3.Connection, project: Path) -> Iterator[Callable[..., Speaker]]:
    """Starts servers in the project of that run."""
    assert run
    with ExitStack() as stack:
        yield lambda *session: stack.enter_context(Speaker(project, *session))


@pytest.fixture
def me(play: Callable[..., Speaker]) -> Speaker:
    return play(ME)


@pytest.fixture
def conductor(play: Callable[..., Speaker]) -> Speaker:
    return play(CONDUCTOR)


@pytest.fixture
def stranger(play: Callable[..., Speaker]) -> Speaker:
    return play("stranger")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database that is not in the project yet."""
    path = tmp_path / "elsewhere" / "comms.db"
    path.parent.mkdir()
    migrate.create(str(path)).close()
    return path


# The official client


@pytest.mark.filterwarnings("ignore:ping is removed")  # from revisions that we do not speak
def test_the_official_client_sees_a_server_that_conforms(db: Path) -> None:
    async def talk() -> None:
        async with official(db.parent, ME) as client:
            assert client.server_info.name == "comms-link"
            assert client.server_capabilities.tools.list_changed is True
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"query", "execute"}
            assert tools["query"].annotations.read_only_hint is True
            await client.send_ping()
            found = await client.call_tool("query", {"sql": COUNT})
            assert (found.is_error, json.loads(said(found))) == (False, [{"n": 0}])
            wrong = await client.call_tool("query", {"sql": "SELECT * FROM nowhere"})
            assert wrong.is_error
            assert "no such table: nowhere" in said(wrong)
            with pytest.raises(MCPError):
                await client.call_tool("drop", {})
            assert await client.list_tools()

    anyio.run(talk)


def test_every_version_with_a_handshake_is_spoken() -> None:
    assert set(comms_link.VERSIONS) == set(mcp_types.version.HANDSHAKE_PROTOCOL_VERSIONS)
    assert comms_link.VERSIONS[0] == mcp_types.version.LATEST_HANDSHAKE_VERSION


@pytest.mark.parametrize("version", [*comms_link.VERSIONS, "1999-01-01", "zzz"])
def test_the_version_asked_for_is_spoken_or_the_newest_offered(db: Path, version: str) -> None:
    with Speaker(db.parent) as speaker:
        spoken = speaker.start(version)["protocolVersion"]
    assert spoken == (version if version in comms_link.VERSIONS else comms_link.VERSIONS[0])


def _speaks(sql: str) -> str:
    """Whose statement of the documents this is."""
    marks = ("'task-00',\n", "SET state = 'fix_proposed'", "-fix', 'watching'", "DELETE FROM")
    return CONDUCTOR if any(mark in sql for mark in marks) else ME


async def _run_step(client: Client, sql: str) -> tuple[list[tuple[Any, ...]] | int, str]:
    tool = "query" if "SELECT" in sql.split(None, 1)[0] else "execute"
    result = await client.call_tool(tool, {"sql": sql})
    if result.is_error:
        return -1, said(result)
    answer = json.loads(said(result))
    return ([tuple(r.values()) for r in answer] if tool == "query" else answer["rows_affected"]), ""


def _wait_for_a_beat(db: sqlite3.Connection) -> None:
    end, seen = time.monotonic() + 30, "SELECT 1 FROM podium_sessions WHERE last_seen IS NOT NULL"
    while not db.execute(seen).fetchone():
        assert time.monotonic() < end
        time.sleep(0.01)


# An UPDATE of every row is nobody's to make: the documents abbreviated it.
ABBREVIATED = "UPDATE orchestration_tasks SET state = 'complete'"


@pytest.mark.parametrize(
    "block", SEEDS, ids=[f"{b.document}, {b.section}, {b.given}" for b in SEEDS]
)
def test_a_statement_of_the_documents_does_what_they_say(
    raw: sqlite3.Connection, project: Path, block: Block
) -> None:
    arrange(raw, block.given)

    async def play() -> None:
        async with official(project, ME) as me, official(project, CONDUCTOR) as conductor:
            if block.given.endswith("silent for 10 minutes"):
                # Its server has just given a sign of life, and gives the next in half a minute.
                _wait_for_a_beat(raw)
                protocol.age(raw, "task-03", 600)
            for step in block.steps:
                sql = filled(step.sql)
                speaker = conductor if _speaks(sql) == CONDUCTOR else me
                found, why = await _run_step(speaker, sql)
                if sql == ABBREVIATED:
                    assert found == -1
                    assert "belongs to" in why or "this row is" in why
                    continue
                assert (len(found) if isinstance(found, list) else found) == step.rows, why
                if step.returns is not None and isinstance(found, list):
                    pairs = zip(sum(found, ()), sum(step.returns, ()))
                    assert all(same(value, wanted) for value, wanted in pairs), found
                row = protocol.row(raw, step.row) if step.then else {}
                assert all(same(row[name], value) for name, value in step.then.items()), row
                if step.mail:
                    newest = "SELECT * FROM orchestration_messages ORDER BY id DESC LIMIT 1"
                    mail = raw.execute(newest).fetchone()
                    assert (
                        mail["task_id"],
                        mail["from_session"],
                        mail["message_type"],
                    ) == step.mail

    anyio.run(play)


# The protocol


def test_tool_descriptions_and_instructions_are_short(db: Path) -> None:
    for tool in raw_sql.TOOLS:
        assert len(str(tool["description"]).split()) * 1.35 <= 120
    with Speaker(db.parent) as speaker:
        assert len(speaker.start()["instructions"].split()) <= 20


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe{}", -32700, None),
        (b'"\\ud800"', -32600, None),
        (b"[" * 100_000, -32700, None),
        (b'{"a":' * 50_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":%s}' % (b"9" * 10_000), -32700, None),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, None),
        (b"[]", -32600, None),
        (b"17", -32600, None),
        (b"null", -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":"a","method":"resources/list"}', -32601, "a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":[]}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop"}}', -32602, 1),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query","arguments":[]}}',
            -32602,
            1,
        ),
    ],
)  # fmt: skip
def test_a_wrong_message_is_answered_with_its_code(
    db: Path, line: bytes, code: int, number: object
) -> None:
    with Speaker(db.parent) as speaker:
        speaker.write(line + b"\n")
        answer = speaker.read()
        assert (answer["error"]["code"], answer["id"]) == (code, number)
        assert answer["error"]["message"]
        assert speaker.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   \r",
        b'{"jsonrpc":"2.0","method":"notifications/unheard_of","params":{"a":1}}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"query"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","id":5,"result":{}}',
        b'{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"no"}}',
        b'[{"jsonrpc":"2.0","method":"notifications/initialized"}]',
    ],
)
def test_what_needs_no_answer_gets_none(db: Path, line: bytes) -> None:
    with Speaker(db.parent) as speaker:
        speaker.write(line + b"\n")
        assert speaker.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("head", "tail", "number"),
    [
        ('{"method":"tools/call","params":{"name":"', '"},"jsonrpc":"2.0","id":7}', 7),
        ('{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"sql":"', '"}}', "b"),
        ("", "", None),
        ('{"x":"', '"id":3}"', None),
    ],
)
def test_a_line_beyond_all_bounds_is_refused_by_its_id(
    db: Path, head: str, tail: str, number: object
) -> None:
    with Speaker(db.parent) as speaker:
        block = b"x" * (1 << 20)
        speaker.write(head.encode())
        for _ in range(50):
            speaker.write(block)
        speaker.write(tail.encode() + b"\n")
        answer = speaker.read()
        assert (answer["id"], answer["error"]["code"]) == (number, -32600)
        assert speaker.ask("ping")["result"] == {}
        assert _resident(speaker.process.pid) < 60_000_000


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    line = next(li for li in status.read_text().splitlines() if li.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_a_batch_is_answered_in_one_message(me: Speaker) -> None:
    sql = {"name": "query", "arguments": {"sql": COUNT}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sql},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "nothing"},
        7,
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
    ]
    me.start("2025-03-26")
    me.write(json.dumps(messages).encode() + b"\n")

    answers = {answer["id"]: answer for answer in me.read()}

    assert set(answers) == {1, 2, 3, None}
    assert json.loads(text_of(answers[1]["result"])) == [{"n": 4}]


def test_calls_are_made_one_after_another_and_the_rest_is_answered_meanwhile(me: Speaker) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)"
    first = me.send("tools/call", name="query", arguments={"sql": f"{slow} SELECT max(i) FROM n"})
    write = {"sql": SEND, "params": ["task-01", ME, "error", "…"]}
    second = me.send("tools/call", name="execute", arguments=write)
    third = me.send(
        "tools/call", name="query", arguments={"sql": "SELECT * FROM orchestration_messages"}
    )
    ping = me.send("ping")

    answers = [me.read() for _ in range(4)]

    assert [answer["id"] for answer in answers] == [ping, first, second, third]
    assert len(json.loads(text_of(answers[3]["result"]))) == 1


def test_a_cancelled_call_ends_at_once_and_is_not_answered(
    me: Speaker, run: sqlite3.Connection
) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    sql = f"{MAIL} {endless} SELECT 'task-01', '{ME}', 'error', i FROM n WHERE i < 0"
    began = time.monotonic()
    running = me.send("tools/call", name="execute", arguments={"sql": sql})
    waiting = me.send("tools/call", name="execute", arguments={"sql": sql})
    time.sleep(0.3)
    me.note("notifications/cancelled", requestId=waiting, reason="no need")
    me.note("notifications/cancelled", requestId=running)

    assert me.rows(COUNT) == [{"n": 4}]
    assert me.done(HEARTBEAT, ["task-01"]) == 1
    assert time.monotonic() - began < 5
    assert run.execute("SELECT count(*) FROM orchestration_messages").fetchone()[0] == 0


def test_too_many_calls_at_once_are_refused(me: Speaker) -> None:
    for _ in range(comms_link.MOST_WAITING + 20):
        me.send("tools/call", name="query", arguments={"sql": "SELECT 1"})

    answers = [me.read() for _ in range(comms_link.MOST_WAITING + 20)]

    assert sum("result" in answer for answer in answers) >= comms_link.MOST_WAITING
    assert all(answer["error"]["code"] == -32600 for answer in answers if "error" in answer)


# Reading


@pytest.mark.parametrize(
    ("sql", "params", "rows"),
    [
        ("SELECT 1 AS a, 2 AS a, 3 AS b", None, [{"a": 1, "a:1": 2, "b": 3}]),
        ("SELECT x'00ff' AS v", None, [{"v": "x'00ff'"}]),
        ("SELECT CAST(x'c3a9ff' AS TEXT) AS v", None, [{"v": "é\ufffd"}]),
        ("SELECT 9e999 AS v, -9e999 AS w", None, [{"v": "Infinity", "w": "-Infinity"}]),
        ("SELECT 9223372036854775807 AS v, 0.5 AS f", None, [{"v": 9223372036854775807, "f": 0.5}]),
        ("SELECT ? AS a, ? AS b", ["x", 2], [{"a": "x", "b": 2}]),
        ("SELECT :a AS a, @b AS b", {"a": None, "b": True}, [{"a": None, "b": 1}]),
        ("SELECT $c AS c", {"c": "é"}, [{"c": "é"}]),
        ("SELECT :a AS a", {":a": 1.5}, [{"a": 1.5}]),
        ("VALUES (1), (2)", [], [{"column1": 1}, {"column1": 2}]),
        ("-- why not\nSELECT 1 AS a; -- done", None, [{"a": 1}]),
        ("WITH t(a) AS (SELECT 1) SELECT a FROM t;", None, [{"a": 1}]),
        ("SELECT a FROM (SELECT 1 AS a) WHERE a > 1", None, []),
        ("SELECT '\U0001f3bb\u2028' AS v", None, [{"v": "\U0001f3bb\u2028"}]),
    ],
)  # fmt: skip
def test_rows_come_as_objects(db: Path, sql: str, params: Any, rows: list[dict[str, Any]]) -> None:
    with Speaker(db.parent) as speaker:
        assert speaker.rows(sql, params) == rows


def test_of_many_rows_a_thousand_are_shown_and_it_is_said(db: Path) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    with Speaker(db.parent) as speaker:
        exact = speaker.call("query", numbers.format(1000) + " SELECT i FROM n")
        more = speaker.call("query", numbers.format(1001) + " SELECT i FROM n")
        wide = speaker.call("query", numbers.format(30) + " SELECT hex(zeroblob(50000)) FROM n")
        vast = speaker.refusal("query", "SELECT hex(zeroblob(1000000))")

    assert (len(json.loads(exact["content"][0]["text"])), len(exact["content"])) == (1000, 1)
    assert len(json.loads(more["content"][0]["text"])) == 1000
    assert "1,000 rows" in more["content"][1]["text"]
    assert len(json.loads(wide["content"][0]["text"])) == 9
    assert "9 rows" in wide["content"][1]["text"]
    assert "substr" in vast


def test_what_anybody_commits_is_seen_by_the_next_query(
    me: Speaker, run: sqlite3.Connection
) -> None:
    for number in range(10, 40):
        protocol.add(run, f"task-{number}")
        assert me.rows(COUNT) == [{"n": 4 + number - 9}]
    assert me.done(MOVE, ["needs_review", "task-01"]) == 1
    assert protocol.row(run, "task-01")["state"] == "needs_review"


def test_no_read_transaction_stays_open(me: Speaker, run: sqlite3.Connection) -> None:
    me.rows("SELECT * FROM orchestration_tasks")
    protocol.add(run, "task-09")
    busy, pages, moved = run.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, pages, moved) == (0, 0, 0)


def test_a_query_does_not_wait_for_a_writer(me: Speaker, run: sqlite3.Connection) -> None:
    run.execute("BEGIN IMMEDIATE")
    protocol.add(run, "task-09")
    assert me.rows(COUNT) == [{"n": 4}]
    run.execute("COMMIT")
    assert me.rows(COUNT) == [{"n": 5}]


# Writing


def test_a_write_waits_for_another_writer_and_both_count(
    me: Speaker, run: sqlite3.Connection, db: Path
) -> None:
    def write_elsewhere() -> None:
        other = protocol.connect(db)
        for number in range(50):
            protocol.send(other, "task-02", OTHER, "error", str(number))
        other.close()

    thread = threading.Thread(target=write_elsewhere)
    thread.start()
    for number in range(20):
        assert me.done(SEND, ["task-01", ME, "error", str(number)]) == 1
    thread.join()

    sent = run.execute("SELECT from_session, count(*) FROM orchestration_messages GROUP BY 1")
    assert dict(map(tuple, sent.fetchall())) == {ME: 20, OTHER: 50}


def test_a_database_that_stays_locked_is_a_sentence_and_nothing_is_written(
    me: Speaker, run: sqlite3.Connection
) -> None:
    run.execute("BEGIN IMMEDIATE")
    why = me.refusal("execute", HEARTBEAT, ["task-01"])
    run.execute("ROLLBACK")
    assert "locked" in why
    assert me.done(HEARTBEAT, ["task-01"]) == 1


def test_the_id_of_a_message_comes_back(me: Speaker) -> None:
    for wanted in (1, 2):
        result = me.call("execute", SEND, ["task-01", ME, "error", "…"])
        assert json.loads(text_of(result)) == {"rows_affected": 1, "last_id": wanted}
    result = me.call("execute", HEARTBEAT, ["task-01"])
    assert json.loads(text_of(result)) == {"rows_affected": 1, "last_id": None}


@pytest.mark.parametrize("lead", ["", "-- a note\n", "/* a note */ ", "WITH t AS (SELECT 1) "])
def test_rows_are_counted_however_the_statement_begins(me: Speaker, lead: str) -> None:
    assert me.done(lead + HEARTBEAT, ["task-01"]) == 1
    assert me.done(lead + HEARTBEAT, ["task-99"]) == 0


def test_a_refused_write_leaves_everything_as_it_was(me: Speaker, run: sqlite3.Connection) -> None:
    before = everything(run)
    me.refusal("execute", "UPDATE orchestration_tasks SET last_heartbeat = datetime('now')")
    me.refusal(
        "execute", "UPDATE orchestration_tasks SET state = 'exited' WHERE task_id > 'task-00'"
    )
    me.refusal("execute", SEND, ["task-01", "task-00", "approval", "well done"])
    assert everything(run) == before


def test_the_database_refusal_names_the_states_and_what_to_run(me: Speaker) -> None:
    assert me.done(MOVE, ["complete", "task-01"]) == 1
    why = me.refusal("execute", MOVE, ["working", "task-01"])
    assert "complete" in why
    assert "run: podium" in why


def test_mail_and_log_cannot_be_changed(conductor: Speaker, run: sqlite3.Connection) -> None:
    protocol.send(run, "task-01", "task-00", "instruction")
    for sql in (
        "UPDATE orchestration_messages SET message = ''",
        "DELETE FROM orchestration_messages",
    ):
        assert "append-only" in conductor.refusal("execute", sql)
    assert "refused" in conductor.refusal("execute", "DELETE FROM podium_events")


# Who may write what


def test_a_musician_makes_its_own_moves_and_no_others(me: Speaker, run: sqlite3.Connection) -> None:
    assert me.done(MOVE, ["needs_review", "task-01"]) == 1
    why = me.refusal("execute", MOVE, ["review_approved", "task-01"])
    assert "a musician may make it error, exited" in why
    assert protocol.row(run, "task-01")["state"] == "needs_review"


@pytest.mark.parametrize("state", sorted(protocol.TASK_MOVES))
@pytest.mark.parametrize("role", ["musician", "conductor"])
def test_the_moves_of_each_role_are_those_of_the_protocol(
    raw: sqlite3.Connection, project: Path, role: str, state: str
) -> None:
    protocol.own(raw, "task-00", "watching", CONDUCTOR)
    musician = role == "musician"
    allowed = protocol.TASK_MOVES[state][not musician].split()
    with Speaker(project, ME if musician else CONDUCTOR) as speaker:
        for number, to in enumerate(protocol.STATES, 10):
            task = f"task-{number}"
            protocol.own(raw, task, state, ME)
            if state == "watching" and to == "working" and musician:
                assert speaker.call("execute", MOVE, [to, task])["isError"] is False
            elif to in allowed or to == state:
                assert speaker.done(MOVE, [to, task]) == 1
            else:
                speaker.refusal("execute", MOVE, [to, task])
                assert protocol.row(raw, task)["state"] == state


def test_a_row_of_another_session_is_not_to_be_written(me: Speaker, stranger: Speaker) -> None:
    for speaker in (me, stranger):
        for sql, params in (
            (HEARTBEAT, ["task-02"]),
            (MOVE, ["needs_review", "task-02"]),
            ("UPDATE orchestration_tasks SET last_error = 'x' WHERE task_id = 'task-02'", None),
            ("UPDATE orchestration_tasks SET retry_count = 5 WHERE session_id = ?", [OTHER]),
        ):
            why = speaker.refusal("execute", sql, params)
            assert f"belongs to musician-task-02 (session {OTHER})" in why
        assert "nobody owns task-03" in speaker.refusal("execute", HEARTBEAT, ["task-03"])


def test_nobody_claims_in_the_name_of_another(
    play: Callable[..., Speaker], run: sqlite3.Connection
) -> None:
    claim = protocol.CLAIM.replace(":task", "'task-03'")
    for session in (ME, "stranger", CONDUCTOR, None):
        why = play(session).refusal("execute", claim, {"session": "victim"})
        assert "victim" in why
    assert protocol.row(run, "task-03")["session_id"] is None
    add = "INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES (?, 'watching', ?)"
    assert "by claiming" in play(CONDUCTOR).refusal("execute", add, ["task-04", "victim"])


def test_a_stranger_claims_for_itself_and_is_a_musician_then(
    stranger: Speaker, run: sqlite3.Connection
) -> None:
    claim = protocol.CLAIM.replace(":task", "'task-03'")
    assert stranger.done(claim, {"session": "stranger"}) == 1
    assert stranger.done(claim, {"session": "stranger"}) == 0
    assert protocol.row(run, "task-03")["worked_by"] == "musician-task-03"
    assert stranger.done(SEND, ["task-03", "stranger", "review_request", "…"]) == 1
    assert stranger.done(MOVE, ["needs_review", "task-03"]) == 1


def test_a_blocked_session_says_so_and_does_nothing_else(
    stranger: Speaker,
) -> None:
    claim = protocol.CLAIM.replace(":task", "'task-02'")
    assert stranger.done(claim, {"session": "stranger"}) == 0
    fallback = (
        "INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES (?, 'exited', ?)"
    )
    assert "fallback-stranger" in stranger.refusal("execute", fallback, ["fallback-x", "stranger"])
    assert "x" in stranger.refusal("execute", fallback, ["fallback-stranger", "x"])
    assert stranger.done(fallback, ["fallback-stranger", "stranger"]) == 1
    assert stranger.done(SEND, ["task-02", "stranger", "claim_blocked", "…"]) == 1
    assert "does not play task-02" in stranger.refusal(
        "execute", SEND, ["task-02", "stranger", "error", "…"]
    )


def test_only_the_conductor_adds_tasks(me: Speaker, stranger: Speaker, conductor: Speaker) -> None:
    add = "INSERT INTO orchestration_tasks (task_id, state) VALUES (?, 'watching')"
    for speaker in (me, stranger):
        assert "only the conductor" in speaker.refusal("execute", add, ["task-04"])
    assert conductor.done(add, ["task-04"]) == 1
    assert "not a task id" in conductor.refusal("execute", add, ["../../etc"])


def test_only_the_conductor_speaks_as_the_conductor(
    me: Speaker, stranger: Speaker, conductor: Speaker
) -> None:
    for speaker in (me, stranger):
        why = speaker.refusal("execute", SEND, ["task-01", "task-00", "approval", "…"])
        assert "only the conductor speaks as task-00" in why
    for kind in ("approval", "rejection", "fix_proposal", "emergency"):
        assert "only the conductor" in me.refusal("execute", SEND, ["task-01", ME, kind, "…"])
        assert conductor.done(SEND, ["task-01", "task-00", kind, "…"]) == 1


def test_nobody_speaks_for_another(play: Callable[..., Speaker]) -> None:
    me, conductor, operator = play(ME), play(CONDUCTOR), play()
    for speaker in (me, conductor, operator):
        why = speaker.refusal("execute", SEND, ["task-02", OTHER, "error", "…"])
        assert "nobody speaks for another" in why
    assert operator.done(SEND, ["task-02", "task-00", "emergency", "…"]) == 1
    assert "does not play task-02" in me.refusal("execute", SEND, ["task-02", ME, "error", "…"])


def test_the_operator_may_do_what_the_conductor_may(play: Callable[..., Speaker]) -> None:
    operator = play()
    assert operator.done(MOVE, ["exit_requested", "task-01"]) == 1
    assert "conductor may make it" in operator.refusal("execute", MOVE, ["complete", "task-02"])


def test_a_musician_does_not_become_the_conductor(
    me: Speaker, stranger: Speaker, run: sqlite3.Connection
) -> None:
    assert stranger.done(TAKE, ["stranger"]) == 0  # there is one
    protocol.move(run, "task-00", "exit_requested")
    assert "cannot conduct too" in me.refusal("execute", TAKE, [ME])
    assert stranger.done(TAKE, ["stranger"]) == 1


def test_after_a_takeover_the_old_session_is_told_by_whom(
    me: Speaker, run: sqlite3.Connection
) -> None:
    protocol.move(run, "task-01", "exited")
    protocol.move(run, "task-01", "fix_proposed")
    assert protocol.claim(run, "task-01", "heir") == 1
    for sql, params in (
        (HEARTBEAT, ["task-01"]),
        (MOVE, ["needs_review", "task-01"]),
        (SEND, ["task-01", ME, "error", "…"]),
    ):
        why = me.refusal("execute", sql, params)
        assert "taken over by musician-task-01-S2 (session heir)" in why


def test_a_conductor_that_was_replaced_is_told_by_whom(
    conductor: Speaker, run: sqlite3.Connection
) -> None:
    protocol.move(run, "task-00", "exit_requested")
    run.execute(TAKE, ("heir",))
    for sql, params in (
        (SEND, ["task-01", "task-00", "emergency", "…"]),
        ("INSERT INTO orchestration_tasks (task_id, state) VALUES ('task-04', 'watching')", None),
        (HEARTBEAT, ["task-00"]),
    ):
        assert "session heir" in conductor.refusal("execute", sql, params)


def test_after_clear_the_session_is_still_itself(me: Speaker, run: sqlite3.Connection) -> None:
    for old, new in ((ME, "second"), ("second", "third")):
        run.execute("INSERT INTO podium_sessions (session_id, continues) VALUES (?, ?)", (new, old))
        run.execute(
            "UPDATE orchestration_tasks SET session_id = ? WHERE session_id = ?", (new, old)
        )
    assert me.done(HEARTBEAT, ["task-01"]) == 1
    assert me.done(SEND, ["task-01", "third", "error", "…"]) == 1
    assert "third" in me.refusal("execute", SEND, ["task-01", ME, "error", "…"])
    assert me.done(MOVE, ["needs_review", "task-01"]) == 1


def test_the_log_names_who_did_it(me: Speaker, conductor: Speaker, run: sqlite3.Connection) -> None:
    assert me.done(MOVE, ["needs_review", "task-01"]) == 1
    assert conductor.done(MOVE, ["exited", "task-02"]) == 1
    newest = "SELECT actor FROM podium_events ORDER BY id DESC LIMIT 2"
    assert [actor for (actor,) in run.execute(newest)] == ["task-00", ME]
    assert not run.execute("SELECT 1 FROM orchestration_tasks WHERE actor IS NOT NULL").fetchone()


def test_a_heartbeat_cannot_lie_in_the_future(me: Speaker) -> None:
    sql = "UPDATE orchestration_tasks SET last_heartbeat = {} WHERE task_id = 'task-01'"
    for value in ("'9999-01-01 00:00:00'", "'zzz'", "datetime('now', '+1 hour')"):
        assert "future" in me.refusal("execute", sql.format(value))
    me.refusal("execute", sql.format("x'ff'"))


def test_the_database_numbers_the_messages(me: Speaker) -> None:
    sql = SEND.replace("(task_id,", "(id, task_id,").replace("(?,", "({}, ?,")
    values = ["task-01", ME, "error", "…"]
    assert "small steps" in me.refusal("execute", sql.format("9223372036854775807"), values)
    for number in ("500000", "2"):
        assert "leave the id out" in me.refusal("execute", sql.format(number), values)
    assert me.done(SEND, values) == 1


@pytest.mark.parametrize("function", ["podium_watch", "PODIUM_WATCH", '"Podium_Watch" '])
def test_a_statement_cannot_lie_to_what_watches_it(
    me: Speaker, run: sqlite3.Connection, function: str
) -> None:
    """A subquery may be called like one of the triggers that alone may call this function."""
    lie = f"{function}('mail', 'task-01', NULL, NULL, NULL, 'error', '{ME}', 1, 0, -9e9)"
    cte = f"WITH podium_rule_changed AS MATERIALIZED (SELECT {lie} UNION ALL SELECT {lie})"
    mail = MAIL.replace("(task_id,", "(id, task_id,")
    sql = f"{cte} {mail} SELECT 3, 'task-01', ?, 'error', '…' FROM podium_rule_changed LIMIT 1"
    before = everything(run)
    assert "podium's own" in me.refusal("execute", sql, [ME])
    assert everything(run) == before
    assert me.done(SEND, ["task-01", ME, "error", f"what is {lie}?"]) == 1


def test_a_fallback_row_is_deleted_by_its_session_or_the_conductor(
    me: Speaker, conductor: Speaker, run: sqlite3.Connection
) -> None:
    delete = "DELETE FROM orchestration_tasks WHERE task_id = ?"
    for session in (ME, OTHER):
        run.execute(
            "INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES (?, 'exited', ?)",
            (f"fallback-{session}", session),
        )
    assert f"session {OTHER}" in me.refusal("execute", delete, [f"fallback-{OTHER}"])
    assert me.done(delete, [f"fallback-{ME}"]) == 1
    assert conductor.done(delete, [f"fallback-{OTHER}"]) == 1


def test_a_write_rings_the_bells_of_whom_it_concerns(
    me: Speaker, run: sqlite3.Connection, tmp_path: Path
) -> None:
    bells = {session: tmp_path / session for session in (ME, OTHER, CONDUCTOR)}
    for session, bell in bells.items():
        bell.touch()
        sql = (
            "INSERT INTO podium_sessions (session_id, bell) VALUES (:id, :bell)"
            " ON CONFLICT DO UPDATE SET bell = :bell"
        )
        run.execute(sql, {"id": session, "bell": str(bell)})

    def rung() -> set[str]:
        heard = {session for session, bell in bells.items() if bell.stat().st_mtime > 1}
        for bell in bells.values():
            os.utime(bell, (1, 1))
        return heard

    rung()
    assert me.done(SEND, ["task-01", ME, "review_request", "…"]) == 1
    assert rung() == {CONDUCTOR}
    assert me.done(MOVE, ["needs_review", "task-01"]) == 1
    assert rung() == {CONDUCTOR}
    assert me.done(HEARTBEAT, ["task-01"]) == 1
    assert rung() == set()


# Where there is no database, or none to be used


def test_without_a_database_no_tool_is_offered_and_the_list_follows_it(
    project: Path, database: Path
) -> None:
    with Speaker(project, ME) as speaker:
        assert "instructions" not in speaker.start()
        assert speaker.ask("tools/list")["result"] == {"tools": []}
        assert "podium init" in speaker.refusal("query", "SELECT 1")

        db = shutil.copy(database, project)

        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert speaker.read() == changed
        assert len(speaker.ask("tools/list")["result"]["tools"]) == 2
        assert speaker.rows(COUNT) == [{"n": 0}]
        os.remove(db)
        assert speaker.read() == changed
        assert speaker.ask("tools/list")["result"] == {"tools": []}
        assert speaker.read(patience=3) is None


def test_the_official_client_hears_of_a_new_database(project: Path, database: Path) -> None:
    async def talk() -> None:
        heard = anyio.Event()

        async def listen(message: object) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                heard.set()

        async with official(project, message_handler=listen) as client:
            assert (await client.list_tools()).tools == []
            shutil.copy(database, project)
            with anyio.fail_after(20):
                await heard.wait()
            assert len((await client.list_tools()).tools) == 2

    anyio.run(talk)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("PRAGMA user_version = 999", "newer podium"),
        ("PRAGMA user_version = 0", "not podium's"),
        ("garbage", "podium"),
        ("empty", "podium"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_sentence_and_stays_as_it_is(
    project: Path, db: Path, spoil: str, says: str
) -> None:
    if spoil.startswith("PRAGMA"):
        raw = sqlite3.connect(db)
        raw.execute(spoil)
        raw.execute("PRAGMA journal_mode = DELETE")
        raw.close()
    else:
        db.write_bytes(b"not a database at all" * 500 if spoil == "garbage" else b"")
    before = db.read_bytes()
    with Speaker(project, ME) as speaker:
        for tool, sql in (("query", COUNT), ("execute", "DELETE FROM orchestration_tasks")):
            if spoil != "empty":
                assert says in speaker.refusal(tool, sql)
    if spoil != "empty":
        assert db.read_bytes() == before


@pytest.mark.parametrize("where", ["PODIUM_DB", "podium.json", "below", "worktree"])
def test_the_database_is_where_the_settings_say(
    project: Path, db: Path, tmp_path: Path, where: str
) -> None:
    cwd, env = project, {}
    if where == "PODIUM_DB":
        env = {"PODIUM_DB": str(db.rename(tmp_path / "a b?#%.db"))}
    elif where == "podium.json":
        db.rename(project / "other.db")
        (project / "podium.json").write_text('{"database": "other.db"}')
    elif where == "below":
        cwd = project / "deep" / "down"
        cwd.mkdir(parents=True)
    else:
        cwd = tmp_path / "tree"
        cwd.mkdir()
        (cwd / ".git").write_text(f"gitdir: {project}/.git/worktrees/tree\n")
    with Speaker(cwd, **env) as speaker:
        assert speaker.rows(COUNT) == [{"n": 0}]


# Life and death


def test_it_answers_what_was_asked_before_the_client_left(db: Path) -> None:
    with Speaker(db.parent) as speaker:
        asked = [speaker.send("tools/call", name="query", arguments={"sql": COUNT}) for _ in "12"]
        assert speaker.process.stdin
        speaker.process.stdin.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
        speaker.process.stdin.close()
        speaker.process.stdin = None
        answers = [speaker.read() for _ in range(3)]
        assert {answer["id"] for answer in answers} == {*asked, "last"}
        assert speaker.process.wait(30) == 0


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [True, False])
def test_a_signal_ends_it_and_what_it_runs_in_silence(db: Path, sign: int, *, busy: bool) -> None:
    with Speaker(db.parent, ME) as speaker:
        speaker.start()
        if busy:
            endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            sql = f"{endless} SELECT sum(i) FROM n"
            speaker.send("tools/call", name="query", arguments={"sql": sql})
            assert speaker.ask("ping")["result"] == {}
        children = _children(speaker.process.pid)
        assert len(children) == busy or not Path("/proc/self").exists()
        speaker.process.send_signal(sign)
        assert speaker.process.wait(30) == 0
        assert speaker.process.stdout
        assert speaker.process.stdout.read() == b""
        assert not any(Path(f"/proc/{child}").exists() for child in children)


def _children(pid: int) -> list[str]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return path.read_text().split() if path.exists() else []


def test_it_ends_when_nobody_listens_any_more(db: Path) -> None:
    with Speaker(db.parent) as speaker:
        assert speaker.process.stdout
        speaker.process.stdout.close()
        speaker.process.stdout = None
        speaker.send("ping")
        assert speaker.process.wait(30) == 0


def test_an_idle_server_hardly_wakes(db: Path) -> None:
    with Speaker(db.parent) as speaker:
        speaker.start()
        speaker.ask("ping")
        before = _cpu(speaker.process.pid)
        time.sleep(3)
        assert _cpu(speaker.process.pid) - before <= 2  # hundredths of a second


def _cpu(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_without_python_it_says_so_in_one_line(project: Path, tmp_path: Path) -> None:
    env = {**environment(project), "PATH": str(tmp_path)}
    done = subprocess.run(command(), env=env, input=b"", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"python3" in done.stderr


def test_it_needs_only_the_standard_library_and_a_stranger_not_even_sqlite() -> None:
    loaded = (
        "import sys; sys.path.insert(0, 'src'); import podium.entry.comms_link;"
        " print(' '.join(m for m in sys.modules if m in ('sqlite3', 'click', 'dataclasses')))"
    )
    run = [shutil.which("python3") or "python3", "-I", "-S", "-c", loaded]
    assert subprocess.run(run, cwd=PLUGIN, capture_output=True, check=True).stdout.strip() == b""
