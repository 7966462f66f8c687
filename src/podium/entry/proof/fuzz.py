"""Mutated inputs for hooks and comms-link: never a traceback, and no stranger is held."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from podium.domain.states import State
from podium.entry.comms_link import Link
from podium.services import raw_sql

from .child import Child, answer_here
from .scene import CONDUCTOR, Scene
from .walk import statements

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    Json = dict[str, Any]

OWNERS = (CONDUCTOR, *(f"m-{number:02}" for number in range(2, 8)))
STRANGERS = ("stranger", "4f1c0a52-9f5e-4c1c-8a53-0d8f3c1e9b77", "")
COMMON = {"transcript_path": "/nowhere.jsonl", "cwd": "/work", "permission_mode": "default"}
# hook: what the client gives it, besides the session and what is common to all
EVENTS: dict[str, Json] = {
    "session_start": {"hook_event_name": "SessionStart", "source": "startup", "model": "m"},
    "stop": {"hook_event_name": "Stop", "stop_hook_active": False},
    "participant tool": {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "ok", "stderr": "", "interrupted": False},
    },
    "participant permission": {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "podium status", "description": "look"},
    },
    "participant bell": {"hook_event_name": "FileChanged", "file_path": "m-02", "event": "change"},
    "participant moved": {"hook_event_name": "CwdChanged", "old_cwd": "/a", "new_cwd": "/b"},
    "participant halt": {"hook_event_name": "StopFailure", "error": "rate_limit"},
    "participant compaction": {"hook_event_name": "PreCompact", "trigger": "auto"},
    "participant end": {"hook_event_name": "SessionEnd", "reason": "other"},
    "notification": {
        "hook_event_name": "Notification",
        "notification_type": "permission_prompt",
        "message": "Claude needs your permission",
    },
}
# Inputs that a person might fear. Ids and texts alike.
NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**70, 1e308, [], {}, "", " ", "\0", "\ud800", "\x1b[2J", "é" * 300),
    *("' OR '1'='1", "'; DROP TABLE orchestration_tasks; --", "$(touch pwned)", "`touch pwned`"),
    *("../../etc/passwd", "x'\ntouch pwned\n'", "CLAUDE_SESSION_ID=m-02", "a" * 5000, *OWNERS[:3]),
)
WAKE = 2
HELD = "a stranger was held"


def mutate(chance: random.Random, given: Json) -> bytes:
    """The same input with something wrong in it: in its values, its keys or its bytes."""
    value: Any = json.loads(json.dumps(given))
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        value = _mutate_value(chance, value)
    raw = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        raw = _mutate_bytes(chance, raw)
    return raw


def _mutate_value(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        how = chance.random()
        if how < 0.15:
            del value[key]
        elif how < 0.25:
            value[str(chance.choice(NASTY))] = value.pop(key)
        else:
            value[key] = _mutate_value(chance, value[key])
        return value
    if isinstance(value, list) and value and chance.random() < 0.5:
        value[chance.randrange(len(value))] = chance.choice(NASTY)
        return value
    if chance.random() < 0.05:
        return json.loads("[" * 900 + "]" * 900)
    return chance.choice(NASTY)


def _mutate_bytes(chance: random.Random, raw: bytes) -> bytes:
    at, to = sorted((chance.randrange(len(raw) + 1), chance.randrange(len(raw) + 1)))
    return chance.choice(
        (
            raw[:at],
            raw[:at] + bytes([chance.randrange(256)]) + raw[at + 1 :],
            raw[:at] + raw[min(to, at + 20) :],
            raw[:to] + raw[at:to] + raw[to:],
            raw[:at] + bytes(chance.randrange(256) for _ in range(8)) + raw[at:],
            raw + raw,
        )
    )


class Bad(NamedTuple):
    """An input that was answered wrongly."""

    what: str
    given: bytes
    why: str


def owner_in(raw: bytes) -> bool:
    """Whether this input may be taken for one of a session that owns a row."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        start = raw[:60]  # a broken input still names its session, where the client writes it
        return start.startswith(b'{"session_id"') and any(o.encode() in start for o in OWNERS)
    return isinstance(found, dict) and found.get("session_id") in OWNERS


def judge_hook(name: str, raw: bytes, code: int, out: bytes, err: bytes) -> str:
    """What is wrong with a hook's answer; empty when nothing is."""
    owner = owner_in(raw)
    if code != 0 and not (code == WAKE and name == "participant bell" and owner):
        return f"exit code {code}"
    if b"Traceback" in out + err or (err and code != WAKE):
        return f"it said {err[-300:]!r}"
    try:
        said = json.loads(out) if out else {}
    except ValueError:
        return f"it printed {out[:200]!r}"
    if not isinstance(said, dict):
        return f"it printed {out[:200]!r}"
    told = said.get("hookSpecificOutput") or {}
    if name == "stop" and not owner and (told or said.get("decision")):
        return HELD
    return ""


def hooks(folder: str, chance: random.Random, count: int) -> Iterator[Bad | None]:
    """So many inputs of hooks, each answered by the hook's own code in one forked process."""
    scene = Scene(folder)
    project = scene.restore("run")
    env = {**scene.env(project), "CLAUDE_ENV_FILE": os.path.join(folder, "environment")}
    cases = []
    for _ in range(count):
        name = chance.choice(list(EVENTS))
        who = chance.choice((*STRANGERS, *STRANGERS, *OWNERS))
        cases.append((name, mutate(chance, {"session_id": who, **COMMON, **EVENTS[name]})))
    child = Child(lambda: _answer_all(cases), b"", env, project)
    ended = child.wait()
    lines = ended.out.splitlines()
    for (name, raw), line in zip(cases, lines):
        code, out, err = json.loads(line)
        why = judge_hook(name, raw, code, out.encode("latin-1"), err.encode("latin-1"))
        yield Bad(name, raw, why) if why else None
    if len(lines) != count:
        yield Bad("worker", cases[len(lines)][1] if len(lines) < count else b"", repr(ended)[-500:])


def _answer_all(cases: list[tuple[str, bytes]]) -> int:
    answers = sys.stdout
    for name, raw in cases:
        code, *said = answer_here(name, raw)
        answers.write(json.dumps([code, *(text.decode("latin-1") for text in said)]) + "\n")
    answers.flush()
    return 0


# comms-link

CALLS: tuple[tuple[str, Json], ...] = (
    ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "query", "arguments": {"sql": statements()["rows"]}}),
    ("tools/call", {"name": "query", "arguments": {"sql": statements()["log"], "params": [0]}}),
    (
        "tools/call",
        {
            "name": "execute",
            "arguments": {
                "sql": statements()["send"],
                "params": {"task": "task-02", "session": "stranger", "kind": "error"},
            },
        },
    ),
    (
        "tools/call",
        {
            "name": "execute",
            "arguments": {
                "sql": statements()["move"],
                "params": {"task": "task-02", "state": State.EXITED.value},
            },
        },
    ),
    ("notifications/cancelled", {"requestId": 7}),
    ("notifications/initialized", {}),
)


class Direct(Link):
    """The server without its child processes: a call is answered at once."""

    def _go_on(self) -> None:
        if self.calls:
            call = self.calls[0]
            self._end_call(raw_sql.answer(self.database(), "stranger", call.name, call.arguments))


# What somebody might put into a statement.
FEARED = (
    *(";", "--", "/*", "*/", "'", '"', "?", ":task", "NULL", "1 OR 1", "x'00'", "(", ")", "\0"),
    *("ATTACH 'other.db' AS o", "; PRAGMA writable_schema=1", "load_extension('x')", "RETURNING *"),
    *("podium_events", "podium_sessions", "sqlite_master", "actor", "owner_seen", "OR REPLACE"),
    *("; DROP TABLE orchestration_tasks", "UNION", "WHERE", "FROM", "datetime('now', '+1 year')"),
)


def request(chance: random.Random, number: int) -> bytes:
    """A mutated line for comms-link: its message, or the statement in it."""
    method, params = chance.choice(CALLS)
    params = json.loads(json.dumps(params))
    message: Json = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    if method.startswith("notifications/"):
        del message["id"]
    if "arguments" not in params or chance.random() < 0.4:
        return mutate(chance, message).replace(b"\n", b" ")
    words = params["arguments"]["sql"].split()
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(words))
        words[at : at + chance.choice((0, 1))] = [chance.choice((*FEARED, chance.choice(words)))]
    params["arguments"]["sql"] = " ".join(words)
    if chance.random() < 0.3:
        params["arguments"] = _mutate_value(chance, params["arguments"])
    return json.dumps(message).encode()


def judge_answer(answer: object) -> str:
    """What is wrong with a message of the server; empty when nothing is."""
    for one in answer if isinstance(answer, list) and answer else [answer]:
        if not isinstance(one, dict) or one.get("jsonrpc") != "2.0":
            return f"not JSON-RPC: {str(one)[:200]}"
        if not {"result", "error", "method"} & one.keys():
            return f"no answer: {str(one)[:200]}"
        if "Traceback" in json.dumps(one) or "comms-link failed" in json.dumps(one):
            return f"it failed: {str(one)[:300]}"
    return ""


def comms_link(folder: str, chance: random.Random, count: int) -> Iterator[Bad | None]:
    """So many lines for comms-link, asked by a stranger, who may change no row."""
    scene = Scene(folder)
    project = scene.restore("run")
    before = scene.look(project)
    said: list[object] = []
    link = Direct({**scene.env(project), "CLAUDE_SESSION_ID": "stranger"}, project, said.append)
    for number in range(count):
        raw = request(chance, number)
        said.clear()
        try:
            link.receive(raw, cut=False)
            why = next(filter(None, map(judge_answer, said)), "")
        except Exception as error:  # noqa: BLE001  # the server must outlive everything
            why = f"it raised {error!r}"
        yield Bad("comms-link", raw, why) if why else None
    rows = [row for row in scene.look(project)["rows"] if row[0] != "fallback-stranger"]
    if rows != before["rows"]:
        yield Bad("comms-link", b"", f"a stranger changed rows: {rows}")
