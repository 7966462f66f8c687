"""comms-link: the shared database for models, an MCP server on stdin and stdout.

Standard library only, on any Python from 3.9. Every call of a tool is made by a child process with
limits of time and memory, one after the other, so no statement can hold or break the server. It
answers whatever line it is given, and ends with its client.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections import deque

from podium.entry import jsonrpc
from podium.entry.jsonrpc import Refused
from podium.entry.settings import Settings, find_root, session_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any, Optional

    from podium.entry.pulse import Pulse
    from podium.stage.confined import Confined

    Json = dict[str, Any]
    Reply = Callable[[Optional[Json]], None]

NAME = "comms-link"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
POLL = 2.0  # seconds until a new database is noticed
MOST_WAITING = 100
WORK = "from podium.services import raw_sql; confined.run(raw_sql.answer_bytes)"

INSTRUCTIONS = (
    "SQL on this project's podium run; prefer the podium command, which does whole steps."
)


class Call:
    """A tool call that waits for its turn or runs."""

    def __init__(self, number: object, name: str, arguments: Json, reply: Reply) -> None:
        self.number, self.name, self.arguments, self.reply = number, name, arguments, reply
        self.child: Confined | None = None


class Link:
    """One client's server. `send` takes its messages; `tick` is to be called every POLL seconds."""

    def __init__(self, env: Mapping[str, str], cwd: str, send: Callable[[object], None]) -> None:
        self.env, self.cwd, self.send = env, cwd, send
        self.calls: deque[Call] = deque()  # the first one runs
        self.initialized = self.offered = False
        self.client_pid = os.getppid()
        self.pulse: Pulse | None = None
        self.answers: dict[str, Callable[[Json], Json]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": self._list_tools,
        }

    def database(self) -> str:
        """Where the project's database is; empty while there is none."""
        path = Settings(find_root(self.env, self.cwd), self.env).database
        return path if os.path.isfile(path) else ""

    def tick(self) -> None:
        """Tell the client when a database has come or gone; give its session's sign of life."""
        database = self.database()
        if self.initialized and bool(database) != self.offered:
            self.offered = not self.offered
            self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        if database and self.pulse is None:
            from podium.entry.pulse import Pulse

            self.pulse = Pulse(self.database, session_id(self.env), self.client_pid)
        if self.pulse is not None:
            self.pulse.tick()

    def receive(self, line: bytes, *, cut: bool) -> None:
        """Answer one line, now or when its call has ended."""
        if not line.strip():
            return
        try:
            found = jsonrpc.parse(line, cut=cut)
        except Refused as refused:
            self.send(jsonrpc.error(refused))
            return
        if isinstance(found, list) and found:
            self._receive_batch(found)
        else:
            self._handle(found, self._reply)

    def _reply(self, answer: Json | None) -> None:
        if answer:
            self.send(answer)

    def _receive_batch(self, messages: list[Any]) -> None:
        """Answer all in one message, as revision 2025-03-26 wants it."""
        answers: list[Json | None] = []

        def collect(answer: Json | None) -> None:
            answers.append(answer)
            if len(answers) == len(messages) and any(answers):
                self.send([answer for answer in answers if answer])

        for message in messages:
            self._handle(message, collect)

    def _handle(self, found: Any, reply: Reply) -> None:
        """Have `reply` called once: with the answer or, where none is due, with None."""
        if jsonrpc.is_answer(found):
            reply(None)
            return
        number = None
        try:
            message = jsonrpc.Message(found)
            number = message.number
            if not message.asks:
                self._note(message)
                answer = None
            elif message.method == "tools/call":
                self._call(message, reply)
                return
            else:
                answer = jsonrpc.result(number, self._answer_to(message))
        except Refused as refused:
            refused.number = number if refused.number is None else refused.number
            answer = jsonrpc.error(refused)
        except Exception as error:  # noqa: BLE001  # the server outlives whatever it is asked
            answer = jsonrpc.error(Refused(jsonrpc.INTERNAL_ERROR, f"failed: {error!r}", number))
        reply(answer)

    def _answer_to(self, message: jsonrpc.Message) -> Json:
        answer = self.answers.get(message.method)
        if answer is None:
            raise Refused(jsonrpc.NO_METHOD, f"there is no method {message.method[:100]}")
        return answer(message.params)

    def _note(self, message: jsonrpc.Message) -> None:
        if message.method == "notifications/initialized":
            self.initialized = True
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))

    def _initialize(self, params: Json) -> Json:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise Refused(jsonrpc.INVALID_PARAMS, "protocolVersion must be a string")
        self.offered = bool(self.database())
        answer = {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": NAME, "version": _version()},
        }
        return {**answer, "instructions": INSTRUCTIONS} if self.offered else answer

    def _list_tools(self, params: Json) -> Json:
        if params.get("cursor"):
            raise Refused(jsonrpc.INVALID_PARAMS, "there is one page only")
        self.offered = bool(self.database())
        return {"tools": _tools().TOOLS if self.offered else []}

    def _call(self, message: jsonrpc.Message, reply: Reply) -> None:
        name, arguments = message.params.get("name"), message.params.get("arguments")
        if not isinstance(name, str) or name not in _tools().PATIENCE:
            raise Refused(jsonrpc.INVALID_PARAMS, "no such tool; there are query and execute")
        if not isinstance(arguments, (dict, type(None))):
            raise Refused(jsonrpc.INVALID_PARAMS, "arguments must be an object")
        if len(self.calls) >= MOST_WAITING:
            raise Refused(jsonrpc.INVALID_REQUEST, f"{MOST_WAITING} calls wait already; try later")
        self.calls.append(Call(message.number, name, arguments or {}, reply))
        self._go_on()

    def _cancel(self, number: object) -> None:
        for call in [call for call in self.calls if call.number == number]:
            if call.child:
                call.child.end()
            self.calls.remove(call)
            call.reply(None)
        self._go_on()

    def _go_on(self) -> None:
        """Start the first call unless it runs."""
        if not self.calls or self.calls[0].child:
            return
        from podium.stage.confined import Confined

        call = self.calls[0]
        asked = [self.database(), session_id(self.env), call.name, call.arguments]
        try:
            call.child = Confined(WORK, json.dumps(asked).encode(), _tools().PATIENCE[call.name])
        except OSError as error:  # no process to be had
            self._end_call(_tools().failure(f"there is no process to be had ({error}); try again"))

    @property
    def pipes(self) -> list[int]:
        """What the running call speaks through, if one runs."""
        return [call.child.pipe for call in self.calls if call.child]

    def hear(self) -> None:
        """Take what the running call says; answer once it has ended."""
        child = self.calls[0].child
        said = child.hear() if child else None
        if said is None:
            return
        try:
            self._end_call(json.loads(said))
        except ValueError:
            self._end_call(
                _tools().failure(
                    "it took too much time or memory and was ended; make the statement simpler, "
                    "and look with query whether anything was written"
                )
            )

    def _end_call(self, result: Json) -> None:
        call = self.calls.popleft()
        call.reply(jsonrpc.result(call.number, result))
        self._go_on()

    def close(self) -> None:
        """Leave nothing running; if the client is gone, say so."""
        for call in self.calls:
            if call.child:
                call.child.end()
        self.calls.clear()
        if self.pulse is not None:
            self.pulse.farewell()


def _tools() -> ModuleType:
    """What only a project with a database needs; a stranger's session does without."""
    from podium.services import raw_sql

    return raw_sql


def _version() -> str:
    import podium

    try:
        return podium.version()
    except (OSError, ValueError, KeyError):
        return "0"


def send(message: object) -> None:
    """Write one line to the client."""
    line = memoryview((json.dumps(message, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    while line:
        select.select([], [1], [])  # somebody may have made the channel one that does not wait
        line = line[os.write(1, line) :]


def serve(link: Link) -> None:
    """Answer until the client is gone, and what it asked before it left."""
    lines, reading = jsonrpc.Lines(), True
    while reading or link.calls:
        ready = select.select([0] * reading + link.pipes, [], [], POLL)[0]
        if any(pipe in ready for pipe in link.pipes):
            link.hear()
        if 0 in ready:
            chunk = os.read(0, 1 << 16)
            reading = bool(chunk)
            for line, cut in lines.feed(chunk or b"\n"):  # what it left unfinished counts
                link.receive(line, cut=cut)
        link.tick()


def main() -> int:
    """Serve one client; 0 however it leaves."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        cwd = os.getcwd()
    except OSError:  # deleted under our feet
        cwd = os.sep
    link = Link(os.environ, cwd, send)
    try:
        serve(link)
    except ConnectionError:
        pass  # nobody listens any more
    finally:
        link.close()
    return 0
