"""Speaks with comms-link as it is started by .mcp.json: line by line, or by the official client."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import protocol
from conftest import PATH, PLUGIN
from mcp import Client, StdioServerParameters
from mcp.client import stdio

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp import types
    from typing_extensions import Self

CLIENT = {"name": "tests", "version": "1"}


def command() -> list[str]:
    """What the client runs, with the plugin's place filled in."""
    server = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"]["comms-link"]
    line = [server["command"], *server["args"]]
    return [part.replace("${CLAUDE_PLUGIN_ROOT}", str(PLUGIN)) for part in line]


def environment(project: Path, session: str | None = None, **more: str) -> dict[str, str]:
    env = {"PATH": PATH, "LANG": "C.UTF-8", "CLAUDE_PROJECT_DIR": str(project), **more}
    return {**env, "CLAUDE_CODE_SESSION_ID": session} if session else env


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in result["content"])


def everything(db: sqlite3.Connection) -> object:
    """Every row and the schema, but for the signs of life that a server gives by itself."""
    tables = protocol.everything(db)
    del tables["podium_sessions"]
    columns = "task_id, state, instruction_path, session_id, worked_by, started_at, completed_at"
    columns += ", report_path, retry_count, last_error, phase, parallel, claims, moves, actor"
    rows = db.execute(f"SELECT {columns} FROM orchestration_tasks")
    tables["orchestration_tasks"] = [tuple(row) for row in rows]
    return tables, [tuple(row) for row in db.execute("SELECT type, name, sql FROM sqlite_master")]


class Speaker:
    """One server and its pipes; a context manager. Every answer must come within `patience`."""

    patience = 30.0

    def __init__(self, project: Path, session: str | None = None, **env: str) -> None:
        self.numbers, self._heard = count(1), b""
        self.process = subprocess.Popen(
            command(),
            cwd=project,
            env=environment(project, session, **env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Go as MCP's clients go: close its stdin, then tell it to end. It must, in silence."""
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdin = None
        end = time.monotonic() + self.patience
        while self.process.poll() is None and time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
                break
            self.process.terminate()  # it waits for the end of its client, which is ours
        _, complaint = self.process.communicate(timeout=self.patience)
        assert (self.process.returncode, complaint) == (0, b"")

    def write(self, raw: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def read(self, patience: float | None = None) -> Any:
        """The next message; None when none comes in that time."""
        assert self.process.stdout
        pipe, end = self.process.stdout.fileno(), time.monotonic() + (patience or self.patience)
        while b"\n" not in self._heard:
            if not select.select([pipe], [], [], max(0, end - time.monotonic()))[0]:
                assert patience, "no answer"
                return None
            chunk = os.read(pipe, 1 << 16)
            assert chunk, f"it ended: {self.process.stderr and self.process.stderr.read()!r}"
            self._heard += chunk
        line, self._heard = self._heard.split(b"\n", 1)
        return json.loads(line.decode("utf-8", "strict"))

    def send(self, method: str, *, number: object = None, **params: Any) -> Any:
        """Ask and do not wait; the id of the request."""
        number = number or next(self.numbers)
        self.write(_line({"id": number, "method": method, "params": params}))
        return number

    def note(self, method: str, **params: Any) -> None:
        self.write(_line({"method": method, "params": params}))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer to one request."""
        number = self.send(method, **params)
        answer = self.read()
        assert answer["id"] == number, answer
        return dict(answer)

    def start(self, version: str = "2025-06-18") -> dict[str, Any]:
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT)
        self.note("notifications/initialized")
        return dict(answer["result"])

    def call(self, tool: str, sql: str, params: Any = None) -> dict[str, Any]:
        """The result of a tool."""
        arguments = {"sql": sql} if params is None else {"sql": sql, "params": params}
        return dict(self.ask("tools/call", name=tool, arguments=arguments)["result"])

    def rows(self, sql: str, params: Any = None) -> list[dict[str, Any]]:
        result = self.call("query", sql, params)
        assert not result["isError"], result
        return list(json.loads(result["content"][0]["text"]))

    def done(self, sql: str, params: Any = None) -> int:
        """How many rows a write affected; it must not be refused."""
        result = self.call("execute", sql, params)
        assert not result["isError"], result
        return int(json.loads(text_of(result))["rows_affected"])

    def refusal(self, tool: str, sql: str, params: Any = None) -> str:
        """Why a call was refused: one sentence."""
        result = self.call(tool, sql, params)
        assert result["isError"], result
        said = text_of(result)
        assert said, result
        assert "\n" not in said
        assert "Traceback" not in said
        return said


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


# The server waits for the end of its client, which is ours: do not wait for it in turn.
stdio.PROCESS_TERMINATION_TIMEOUT = 0.1


@asynccontextmanager
async def official(
    project: Path, session: str | None = None, **options: Any
) -> AsyncIterator[Client]:
    """The official client, connected."""
    program, *args = command()
    server = StdioServerParameters(
        command=program, args=args, env=environment(project, session), cwd=project
    )
    async with Client(server, read_timeout_seconds=30, **options) as client:
        yield client


def said(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")
