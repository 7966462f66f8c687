"""Hook events in, one JSON object or nothing out, always exit 0.

Standard library only, on any Python from 3.9. A stranger's session is recognised before json is
even imported; whatever goes wrong, the session goes on as if podium were not there.
"""

from __future__ import annotations

import os
import sys

from podium.entry.settings import Settings, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.store.base import Store

    Payload = dict[str, object]

LOCK_WAIT = 2.0  # seconds; a hook must be done in three
SHORT_LOCK_WAIT = 0.3  # for writes that only make podium wiser


class Event:
    """One hook call: its input, and the project it happened in."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        try:
            cwd = os.getcwd()
        except OSError:  # deleted under our feet
            cwd = os.sep
        self.settings = Settings(find_root(os.environ, cwd), os.environ)
        self._payload: Payload | None = None

    @property
    def has_database(self) -> bool:
        """Whether there is anything to look at."""
        database = self.settings.database
        return "://" in database or os.path.exists(database)

    @property
    def payload(self) -> Payload:
        """The input as an object; ValueError when it is none."""
        if self._payload is None:
            import json

            found = json.loads(self.raw.decode("utf-8"))
            if not isinstance(found, dict):
                message = f"hook input is a {type(found).__name__}, not an object"
                raise ValueError(message)
            self._payload = found
        return self._payload

    @property
    def session_id(self) -> str:
        """The session that the event is about; empty when it names none."""
        # Inside a JSON string a quote is escaped, so one bare key is the real one.
        if self.raw.count(b'"session_id"') == 1:
            tail = self.raw.split(b'"session_id"', 1)[1].lstrip()
            if tail[:1] == b":" and tail[1:].lstrip()[:1] == b'"':
                value = tail[1:].lstrip()[1:].split(b'"', 1)[0]
                if b"\\" not in value and value.isascii():
                    return value.decode()
        found = self.payload.get("session_id")
        return found if isinstance(found, str) else ""

    def text(self, key: str) -> str | None:
        """A string of the input, or None."""
        found = self.payload.get(key)
        return found if isinstance(found, str) else None


def run(handle: Callable[[Event], Payload | None]) -> int:
    """Answer one hook event. A failure never traps the session."""
    try:
        reply = handle(Event(sys.stdin.buffer.read()))
        if reply:
            import json

            text = json.dumps(reply) + "\n"
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
    except Exception:  # noqa: BLE001, S110  # whatever it was, the session must go on
        pass
    return 0


def _open(event: Event, wait: float) -> Store:
    from podium.store import open_store

    return open_store(event.settings.database, wait)


def answer_stop(event: Event) -> Payload | None:
    """Hold a session that owns a live row; let everybody else go."""
    session_id = event.has_database and event.session_id
    if not session_id:
        return None
    store = _open(event, LOCK_WAIT)
    try:
        if store.one("owns_rows", session_id=session_id) is None:
            return None
        return _guard(event, store, session_id)
    finally:
        store.close()


def _guard(event: Event, store: Store, session_id: str) -> Payload | None:
    from podium.domain.errors import PodiumError
    from podium.services import gate

    presets, wrong = gate.override(event.settings.section("presets"))
    complaint = event.settings.complaint or (wrong and f"podium.json: {wrong}; built-in used")
    reply: Payload = {"systemMessage": complaint} if complaint else {}
    try:
        prompt = gate.answer(store, session_id, presets).prompt
    except PodiumError as error:
        # It could look but can never count: holding the session would hold it for ever.
        return {"systemMessage": f"podium let this session stop: {error}"}
    if prompt:
        reply["hookSpecificOutput"] = {"hookEventName": "Stop", "additionalContext": prompt}
    return reply


def answer_session_start(event: Event) -> Payload | None:
    """Tell the session its id; tell a participant its role, rows, mail and next command."""
    session_id = event.session_id
    if not session_id or not session_id.isprintable() or len(session_id) > 200:
        return None
    _export(session_id)
    lines = [f"CLAUDE_SESSION_ID={session_id}"]
    reply: Payload = {}
    if event.has_database:
        try:
            lines.append(_introduce(event, session_id))
        except Exception as error:  # noqa: BLE001  # a session must start, whatever podium's state
            reply["systemMessage"] = f"podium could not look: {error}"
    if event.settings.complaint and len(lines) > 1 and lines[1]:
        reply["systemMessage"] = event.settings.complaint
    reply["hookSpecificOutput"] = {
        "hookEventName": "SessionStart",
        "additionalContext": "\n".join(line for line in lines if line),
    }
    return reply


def _export(session_id: str) -> None:
    """Give later shell commands the id, if the client offers a way."""
    path = os.environ.get("CLAUDE_ENV_FILE")
    if path:
        quoted = "'" + session_id.replace("'", "'\\''") + "'"
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"export CLAUDE_SESSION_ID={quoted}\n")
        except OSError:
            pass  # the client's own CLAUDE_CODE_SESSION_ID is still there


def _introduce(event: Event, session_id: str) -> str:
    from podium.services import briefing, sessions
    from podium.stage import process

    store = _open(event, SHORT_LOCK_WAIT)
    try:
        source = event.text("source") or "startup"
        if source == "fork":  # the client still gives the id of the session it was forked from
            return ""
        sessions.register(
            store,
            session_id,
            cleared=source == "clear",
            process=process.client(os.environ),
            facts={
                "transcript_path": event.text("transcript_path"),
                "mode": os.environ.get("CLAUDE_CODE_ENTRYPOINT"),
                "model": event.text("model"),
            },
        )
        return briefing.brief(store, session_id)
    finally:
        store.close()
