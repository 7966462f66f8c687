"""Hook events in, one JSON object or nothing out, always exit 0.

Standard library only, on any Python from 3.9. A stranger's session is recognised before json is
even imported; whatever goes wrong, the session goes on as if podium were not there.
"""

from __future__ import annotations

import os
import sys

from podium.entry.settings import Settings, bells_folder, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.services import gate
    from podium.services.context import Usage
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
        # The client writes it first; a second bare key could be the one that counts.
        key = b'{"session_id"'
        if self.raw.startswith(key) and self.raw.count(key[1:]) == 1:
            tail = self.raw[len(key) :].lstrip()
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

    def open(self, wait: float = LOCK_WAIT) -> Store:
        """The project's store."""
        from podium.store import open_store

        return open_store(self.settings.database, wait)

    def owner(self) -> tuple[Store, str] | None:
        """The store and the session, if that session owns a row; None for a stranger."""
        session_id = self.has_database and self.session_id
        if not session_id:
            return None
        store = self.open()
        owns = store.one("owns_rows", session_id=session_id) is not None
        return (store, session_id) if owns else None


def say(reply: Payload) -> None:
    """Write the answer out; when this returns, the client can read it."""
    import json

    sys.stdout.buffer.write((json.dumps(reply) + "\n").encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def context(event_name: str, text: str) -> Payload:
    """An answer that puts text before the model."""
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": text}}


def run(handle: Callable[[Event], int | None]) -> int:
    """Answer one hook event; the exit code. A failure never traps the session.

    The caller leaves by os._exit: taking Python down costs 2 ms, and closing the last connection
    would make every hook fold the database's journal.
    """
    try:
        return handle(Event(sys.stdin.buffer.read())) or 0
    except Exception:  # noqa: BLE001  # whatever it was, the session must go on
        return 0


def answer_session_start(event: Event) -> None:
    """Tell the session its id; tell a participant its role, rows, mail and next command."""
    session_id = event.session_id
    if not session_id or not session_id.isprintable() or len(session_id) > 200:
        return
    _export(session_id)
    bell = _hang_bell(session_id)
    lines, complaint = [f"CLAUDE_SESSION_ID={session_id}"], ""
    if event.has_database:
        try:
            lines.append(_introduce(event, session_id, bell))
        except Exception:  # noqa: BLE001, S110  # it could not look, so it knows nobody to tell
            pass
    if event.settings.complaint and lines[1:] and lines[1]:
        complaint = event.settings.complaint
    reply = context("SessionStart", "\n".join(line for line in lines if line))
    if bell:
        reply["hookSpecificOutput"]["watchPaths"] = [bell]  # type: ignore[index]
    if complaint:
        reply["systemMessage"] = complaint
    say(reply)


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


def _hang_bell(session_id: str) -> str | None:
    """The session's bell, if it can be hung. Also a stranger's: it may become a participant."""
    from podium.services import bells

    folder = bells_folder(os.environ)
    bell = bells.path(folder, session_id) if folder else ""
    return bell if bell and bells.hang(bell) else None


def _introduce(event: Event, session_id: str, bell: str | None) -> str:
    from podium.domain.errors import PodiumError
    from podium.services import briefing, sessions
    from podium.stage import process

    source = event.text("source") or "startup"
    if source == "fork":  # the client still gives the id of the session it was forked from
        return ""
    cleared = source == "clear"  # its rows would be lost to it, so that is worth a wait
    store = event.open(LOCK_WAIT if cleared else SHORT_LOCK_WAIT)
    try:
        sessions.register(
            store,
            session_id,
            cleared=cleared,
            process=process.client(os.environ),
            facts={
                "transcript_path": event.text("transcript_path"),
                "mode": os.environ.get("CLAUDE_CODE_ENTRYPOINT"),
                "model": event.text("model"),
                "bell": bell,
            },
        )
    except PodiumError:
        pass  # locked or read-only: the role can be read all the same
    return briefing.brief(store, session_id)


def answer_stop(event: Event) -> None:
    """Hold a session that owns a live row, or let it wait for its answer; let everybody else go."""
    owner = event.owner()
    if owner is None:
        return
    from podium.domain.errors import PodiumError

    try:
        _guard(event, *owner)
    except PodiumError as error:
        # It could look but never count: holding the session would hold it for ever.
        say({"systemMessage": f"podium let this session stop: {error}"})


def _guard(event: Event, store: Store, session_id: str) -> None:
    from podium.services import gate, inbox

    presets, wrong = gate.override(event.settings.section("presets"))
    complaint = event.settings.complaint or (wrong and f"podium.json: {wrong}; built-in used")

    warning = ""

    def go_on(text: str) -> None:
        reply = context("Stop", f"{text}\n\n{warning}" if warning else text)
        if complaint:
            reply["systemMessage"] = complaint
        say(reply)

    stop = gate.Stop(store, session_id, presets)
    decision = stop.decide()
    usage = _measured(event, session_id)
    if decision.waits and not inbox.gather(store, session_id):
        bell = str(stop.known.get("bell") or "")
        if bell and is_headless():
            decision = _wait(store, session_id, stop, bell)
        elif bell:
            decision = gate.Decision("", "waits for an answer; its bell wakes it")
    cap = os.environ.get("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "")
    # Before anything is said: what can never be counted must not hold, and one answer is all.
    counted = stop.settle(
        decision,
        first=event.payload.get("stop_hook_active") is not True,
        client_cap=int(cap) if cap.isdigit() else gate.CLIENT_CAP,
    )
    if decision.prompt:
        if usage and counted:
            warning = _warn(store, stop, usage)
        if not (counted and inbox.deliver(store, session_id, go_on)):
            go_on(decision.prompt)


def _measured(event: Event, session_id: str) -> Usage | None:
    """The context at this stop, kept; None when it cannot be known."""
    from podium.entry import signals

    try:
        return signals.measure(event, event.open(SHORT_LOCK_WAIT), session_id)
    except Exception:  # noqa: BLE001  # the guard does not depend on it
        return None


def _warn(store: Store, stop: gate.Stop, usage: Usage) -> str:
    """What to say of a threshold that was crossed; nothing when that cannot be remembered."""
    from podium.domain.errors import PodiumError
    from podium.domain.states import CONDUCTOR_ROW
    from podium.entry import signals

    conducts = any(task.task_id == CONDUCTOR_ROW for task in stop.tasks)
    try:
        return signals.warn(store, stop.session_id, usage, conducts=conducts)
    except PodiumError:
        return ""


def is_headless() -> bool:
    """Whether the client runs without an interactive engine (`-p`): it cannot be woken."""
    return os.environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") != "cli"


def _wait(store: Store, session_id: str, stop: gate.Stop, bell: str) -> gate.Decision:
    """Sit in the Stop hook until there is something to say to the model. Costs no turn."""
    from podium.entry import waiting
    from podium.services import gate, inbox, life

    client = os.getppid()

    def abandoned() -> bool:
        return os.getppid() != client

    def ready(stale_after: int) -> bool:
        return bool(inbox.gather(store, session_id, stale_after)) or waiting.after_second_half(
            moved=not stop.decide().waits
        )

    stop.settle(gate.Decision("", "waits in the Stop hook for an answer"), first=False)
    lock = waiting.Alone(bell + ".wait")
    with lock as alone:
        if alone:
            came = waiting.wait(
                store,
                ready,
                beat=lambda: life.beat(store, session_id),
                abandoned=abandoned,
            )
        else:  # `podium wait` has what came; the model must have a turn to read it
            came = lock.outlast(abandoned)
    return stop.decide() if came else gate.Decision("", "let go: its client is gone")
