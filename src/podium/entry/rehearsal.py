"""One hook round trip with the real client: free, offline, and out of sight of the user's own.

The client runs in a folder of its own, with a dummy key, against a server on loopback that stands
in for the model and, as its proxy, for the rest of the world. The session owns a task, so a Stop
hook that works holds it once; then the task ends, and the hook must let it go.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from podium.domain.states import MessageType, State
from podium.entry.diagnosis import BROKEN, OK, WARNING, Finding
from podium.services import tasks
from podium.services.callers import Caller, identify
from podium.stage import client, process
from podium.store import migrate, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.entry.diagnosis import Place

PATIENCE = 25.0  # seconds
TASK, KEY = "task-01", "dummy-key-of-podium-doctor"
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
SWITCHED_ON = (
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",
)


def prove(place: Place) -> Finding:
    """Run the client once; whether SessionStart and Stop did what they are for."""
    program = place.client()
    if not program:
        return Finding("live", WARNING, "there is no claude on PATH", "install Claude Code")
    folder = os.path.realpath(tempfile.mkdtemp(prefix="podium-doctor-"))
    try:
        return _Rehearsal(folder, program, place).play()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Rehearsal:
    def __init__(self, folder: str, program: str, place: Place) -> None:
        self.folder, self.program, self.place = folder, program, place
        self.session = str(uuid.uuid4())
        self.project = os.path.join(folder, "project")
        self.heard: list[str] = []
        for name in ("home", "config", "tmp", "project"):
            os.mkdir(os.path.join(folder, name))

    def play(self) -> Finding:
        """From an empty project to the client's end."""
        path = os.path.join(self.project, "comms.db")
        migrate.create(path).close()
        store = open_store(path)
        try:
            letter = "INSTRUCTION: say that you are done."
            tasks.add(store, Caller(None, []), TASK, None, letter)
            tasks.claim(store, identify(store, self.session), TASK)
        finally:
            store.close()
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Model, self.answer)) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                began = time.monotonic()
                code, said = self._run(f"http://127.0.0.1:{server.server_port}")
                spent = time.monotonic() - began
            finally:
                server.shutdown()
                thread.join()
        return self._judge(code, said, spent)

    def answer(self, request: str) -> str:
        """A turn of the model: it says that it is done; told to go on, it gives the task up."""
        self.heard.append(request)
        if len(self.heard) > 1:
            store = open_store(os.path.join(self.project, "comms.db"))
            try:
                caller = identify(store, self.session)
                task = tasks.get(store, TASK)
                if task.state is not State.EXITED:
                    tasks.play(
                        store, caller, task, State.EXITED, MessageType.HANDOFF, "EXITED: done"
                    )
            finally:
                store.close()
        return "I am done."

    def _judge(self, code: int | None, said: str, spent: float) -> Finding:
        again = "podium doctor; then claude --debug, in a project"
        if code is None:
            return Finding("live", BROKEN, f"the client did not end in {PATIENCE:g} s", again)
        if not self.heard:
            why = said.strip().rpartition("\n")[2][:200] or "nothing"
            return Finding("live", BROKEN, f"the client asked no model; it said: {why}", again)
        if f"CLAUDE_SESSION_ID={self.session}" not in self.heard[0]:
            return Finding("live", BROKEN, "SessionStart did not reach the model", again)
        if len(self.heard) == 1:
            return Finding("live", BROKEN, "Stop did not hold a session with a live task", again)
        if code or len(self.heard) > 2:  # held once, then let go
            text = f"Stop held the session {len(self.heard) - 1} times, exit code {code}"
            return Finding("live", BROKEN, text, again)
        return Finding(
            "live", OK, f"SessionStart and Stop did their work in {spent:.1f} s, offline"
        )

    def _run(self, url: str) -> tuple[int | None, str]:
        """The client's exit code and output; no code when it had to be ended."""
        command = [
            *(self.program, "-p", "podium doctor: say that you are done."),
            *("--session-id", self.session, "--plugin-dir", client.PLUGIN),
        ]
        with open(
            os.path.join(self.folder, "said"), "w+", encoding="utf-8", errors="replace"
        ) as out:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.project,
                env=self._env(url),
                start_new_session=True,
            )
            who = process.identify(started.pid)
            try:
                code: int | None = started.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if who:
                    process.end(who, grace=1.0)
                started.wait()
            out.seek(0)
            return code, out.read()

    def _env(self, url: str) -> dict[str, str]:
        own = {
            "HOME": "home",
            "CLAUDE_CONFIG_DIR": "config",
            "TMPDIR": "tmp",
            "CLAUDE_CODE_TMPDIR": "tmp",
            "XDG_DATA_HOME": "home",
        }
        proxies = {name: url for kind in ("HTTP", "HTTPS") for name in _cases(f"{kind}_PROXY")}
        return {
            **{name: self.place.env[name] for name in KEPT if name in self.place.env},
            **{name: os.path.join(self.folder, part) for name, part in own.items()},
            **dict.fromkeys(SWITCHED_ON, "1"),
            **proxies,
            **dict.fromkeys(_cases("NO_PROXY"), "127.0.0.1,localhost"),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
        }


def _cases(name: str) -> tuple[str, str]:
    return name, name.lower()


class _Model(BaseHTTPRequestHandler):
    """The Messages API, as far as one short session needs it; everything else is refused."""

    protocol_version = "HTTP/1.1"

    def __init__(self, answer: Callable[[str], str], *args: Any) -> None:
        self.answer = answer
        super().__init__(*args)

    def log_message(self, *_: object) -> None:
        """Nothing: standard error is the doctor's."""

    def do_HEAD(self) -> None:
        """The client asks whether anybody is there."""
        self._send(200, "text/plain", "")

    def do_CONNECT(self) -> None:
        """Somebody wants to leave the machine."""
        self._send(403, "text/plain", "the doctor stays on this machine")

    do_GET = do_CONNECT  # noqa: N815

    def do_POST(self) -> None:
        """A turn, or a question beside it."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/v1/messages/count_tokens"):
            self._send(200, "application/json", json.dumps({"input_tokens": 1000}))
            return
        if not self.path.startswith("/v1/messages"):
            self.do_CONNECT()
            return
        asked = json.loads(body)
        shown = json.dumps(asked.get("messages", []), ensure_ascii=False)
        text = self.answer(shown) if asked.get("tools") else "podium"
        reply = _reply(str(asked.get("model")), text)
        if asked.get("stream"):
            self._send(200, "text/event-stream", "".join(map(_event, _stream(reply))))
        else:
            self._send(200, "application/json", json.dumps(reply))

    def _send(self, status: int, kind: str, text: str) -> None:
        sent = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def _reply(model: str, text: str) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 9},
    }


def _stream(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The reply as the events of a stream."""
    block = reply["content"][0]
    delta = {"type": "text_delta", "text": block["text"]}
    end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": reply["usage"]},
        {"type": "message_stop"},
    ]


def _event(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
