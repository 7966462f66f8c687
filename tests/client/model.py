"""A model that plays a script: the Messages API on 127.0.0.1, every request kept.

    model.perform(Play(
        When("CLAUDE_SESSION_ID=", Bash("podium musician claim task-01")),
        When("is working", Say("on it"), Bash("make test"), usage=120_000),
        When("review_approved", Say("done")),
    ))

A rule is asked with what the session was told since the model last spoke; the first rule that
answers makes the next turn. A request that fits no rule is answered with plain text, so that the
client ends, and `check()` raises. The first request of a session also lists the client's skills and
agents: give it a cue that is not a common word.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import TYPE_CHECKING, Any, Callable, Union

if TYPE_CHECKING:
    from typing_extensions import Self

Json = dict[str, Any]
KINDS = {
    "main": "a turn of a session's main chain",
    "agent": "a turn of a subagent",
    "compact": "the summary of a conversation",
    "schema": "an object of a given shape: session title, prompt hook",
    "bare": "a question without tools",
    "count": "a count of tokens",
    "probe": "anything else that was asked of this server",
    "foreign": "a connection to another host, sent here as to a proxy and refused",
}
PLAYED = ("main", "agent")  # the rest is answered harmlessly
_numbers = count(1)


@dataclass(frozen=True)
class Say:
    """The model says this."""

    text: str

    def block(self) -> Json:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True)
class Tool:
    """The model calls a tool of the client."""

    name: str
    input: Json

    def block(self) -> Json:
        call = f"toolu_{next(_numbers):08d}"
        return {"type": "tool_use", "id": call, "name": self.name, "input": self.input}


class Bash(Tool):
    """The model runs a shell command; options such as `timeout` are the tool's own."""

    def __init__(self, command: str, **options: Any) -> None:
        super().__init__("Bash", {"command": command, "description": "by the play", **options})


@dataclass(frozen=True)
class Fail:
    """The server refuses: 429 and 529 are retried by the client, 400 is not."""

    status: int
    message: str = "by the play"


@dataclass(frozen=True)
class Turn:
    """One answer: its lines, and the tokens it reports (a number: the input side)."""

    lines: tuple[Line, ...]
    usage: int | Json = 1000

    def reply(self, model: str) -> Json:
        blocks = [line.block() for line in self.lines if not isinstance(line, Fail)]
        tools = any(block["type"] == "tool_use" for block in blocks)
        given = {"input_tokens": self.usage} if isinstance(self.usage, int) else self.usage
        usage = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 9}
        return {
            "id": f"msg_{next(_numbers):08d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": blocks,
            "stop_reason": "tool_use" if tools else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, **usage, **given},
        }


@dataclass
class Request:
    """What the client sent; `kind` is one of KINDS."""

    method: str
    path: str
    headers: dict[str, str]
    body: Json
    time: float
    kind: str
    turn: Turn | None = field(default=None, repr=False)

    @property
    def session(self) -> str:
        return self.headers.get("x-claude-code-session-id", "")

    @property
    def messages(self) -> list[Json]:
        return list(self.body.get("messages", []))

    def text(self) -> str:
        """All that the model is shown but the tools."""
        return "\n".join([_text(self.body.get("system", "")), *map(_text, self.messages)])

    def news(self) -> str:
        """What was added since the model last spoke."""
        spoken = [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]
        return "\n".join(map(_text, self.messages[spoken[-1] + 1 if spoken else 0 :]))


Line = Union[Say, Tool, Fail]
Cue = Union[str, "re.Pattern[str]", Callable[[Request], bool]]
Rule = Callable[[Request], Union[Turn, Line, None]]


class When:
    """A rule: when the news hold the cue, these lines together are the turn.

    The cue is a text, a compiled pattern or a question about the request; a line may be made from
    the request. With `times` the rule is used up, in each session, after so many turns.
    """

    def __init__(
        self,
        cue: Cue,
        *lines: Line | Callable[[Request], Line],
        usage: int | Json = 1000,
        times: int | None = None,
    ) -> None:
        self.cue, self.lines, self.usage, self.times = cue, lines, usage, times
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Turn | None:
        if not self._fits(request):
            return None
        with self._lock:
            if self._used[request.session] == self.times:
                return None
            self._used[request.session] += 1
        lines = (line(request) if callable(line) else line for line in self.lines)
        return Turn(tuple(lines), self.usage)

    def _fits(self, request: Request) -> bool:
        if isinstance(self.cue, str):
            return self.cue in request.news()
        if isinstance(self.cue, re.Pattern):
            return bool(self.cue.search(request.news()))
        return self.cue(request)


class Play:
    """Rules for the sessions whose API key or first message names the actor, or for all."""

    def __init__(self, *rules: Rule, actor: str = "") -> None:
        self.rules, self.actor = rules, actor

    def is_for(self, request: Request) -> bool:
        first = _text(request.messages[0]) if request.messages else ""
        return self.actor in request.headers.get("x-api-key", "") or self.actor in first

    def next_turn(self, request: Request) -> Turn | None:
        for rule in self.rules:
            answer = rule(request)
            if answer is not None:
                return answer if isinstance(answer, Turn) else Turn((answer,))
        return None


class Model:
    """The server; a context manager. `requests` is the record, in order of arrival."""

    def __init__(self, *plays: Play) -> None:
        self.requests: list[Request] = []
        self._misfits: list[str] = []
        self._plays = plays
        self._cast: dict[str, Play] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def perform(self, *plays: Play) -> None:
        """Play these from now on; of several that are for a session, it gets the first."""
        with self._lock:
            self._plays, self._cast = plays, {}

    def check(self) -> None:
        """Raise what did not fit the play since the last check."""
        misfits, self._misfits = self._misfits, []
        if misfits:
            raise AssertionError("\n\n".join(misfits))

    def main(self, session: str = "") -> list[Request]:
        """The turns of the main chain, of one session or of all."""
        kept = [request for request in self.requests if request.kind == "main"]
        return [request for request in kept if session in ("", request.session)]

    def between(self, start: float, end: float, session: str = "") -> int:
        """How many turns of the main chain were asked for in that time (of `time.time()`)."""
        return sum(start <= request.time <= end for request in self.main(session))

    def answer(self, request: Request) -> Turn:
        """The next turn for this request, which is put on record first."""
        self.requests.append(request)
        if request.kind in PLAYED:
            request.turn = self._play(request)
        else:
            request.turn = Turn((_harmless(request),))
        if request.kind == "foreign":
            self._misfits.append(f"another host was asked for: {request.method} {request.path}")
        return request.turn

    def _play(self, request: Request) -> Turn:
        with self._lock:
            # Once cast, always cast: compaction drops the first message.
            if request.session not in self._cast:
                fitting = (play for play in self._plays if play.is_for(request))
                self._cast[request.session] = next(fitting, Play())
            play = self._cast[request.session]
        problem = "no rule fits"
        try:
            turn = play.next_turn(request)
        except Exception:  # noqa: BLE001 - a rule is the test's own code, and the test shall see it
            turn, problem = None, traceback.format_exc()
        if turn is None:
            told = request.news()
            if len(told) > 4000:
                told = f"{told[:2000]}\n[...]\n{told[-2000:]}"
            self._misfits.append(f"{problem}; session {request.session} was told:\n{told}")
        return turn or Turn((Say("The play has no line for this."),))


def _text(content: object) -> str:
    """The readable text of a message, a content block or a list of them."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if isinstance(content, dict):
        if content.get("type") == "tool_use":
            return f"{content['name']} {json.dumps(content['input'], ensure_ascii=False)}"
        return _text(content.get("text") or content.get("content") or "")
    return ""


def _kind(method: str, path: str, headers: dict[str, str], body: Json) -> str:
    kinds = {
        "foreign": method == "CONNECT" or "://" in path,
        "probe": method != "POST" or not path.startswith("/v1/messages"),
        "count": "count_tokens" in path,
        "schema": _schema(body),
        "bare": not body.get("tools"),
        "compact": "<summary> block" in _text(body.get("messages", [])[-1:]),
        "agent": "x-claude-code-agent-id" in headers,
    }
    return next((kind for kind, fits in kinds.items() if fits), "main")


def _schema(body: Json) -> Json:
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return dict(wanted.get("schema") or {})


def _harmless(request: Request) -> Line:
    """An answer that the client accepts without being moved by it."""
    if request.kind == "foreign":
        return Fail(403, "tests stay on this machine")
    if request.kind == "compact":
        return Say("<analysis>-</analysis>\n<summary>The play so far.</summary>")
    fillers = {"string": "podium", "boolean": True, "integer": 0, "number": 0, "array": []}
    properties = _schema(request.body).get("properties", {})
    filled = {name: fillers.get(kind.get("type"), {}) for name, kind in properties.items()}
    return Say(json.dumps(filled) if filled else "podium")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, model: Model, *args: Any) -> None:
        self.model = model
        super().__init__(*args)

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client was killed: the test's business
            super().handle()

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        kind = _kind(self.command, self.path, headers, body)
        request = Request(self.command, self.path, headers, body, time.time(), kind)
        turn = self.model.answer(request)
        fail = next((line for line in turn.lines if isinstance(line, Fail)), None)
        if fail:
            error = {"type": "api_error", "message": fail.message}
            self._send(json.dumps({"type": "error", "error": error}), fail.status)
        elif kind == "count":
            self._send(json.dumps({"input_tokens": 1000}))
        elif kind == "probe":
            self._send("{}")
        elif body.get("stream"):
            self._send("".join(_events(turn.reply(body["model"]))), kind="text/event-stream")
        else:
            self._send(json.dumps(turn.reply(body["model"])))

    do_GET = do_HEAD = do_POST = do_CONNECT = answer  # noqa: N815 - http.server's names

    def _send(self, text: str, status: int = 200, kind: str = "application/json") -> None:
        sent = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)


def _events(reply: Json) -> list[str]:
    """The reply as the server-sent events of the Messages API."""
    start = {**reply, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(reply["content"]):
        if block["type"] == "text":
            opened: Json = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            opened = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": opened},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": ended, "usage": reply["usage"]},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
