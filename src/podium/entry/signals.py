"""Hook events of participants: the bell, tool calls, permissions, compaction, halts, the end.

Reached through the skills' frontmatter and hooks/participants.json; a stranger's session meets
them rarely and is let go at the first look. Standard library only.
"""

from __future__ import annotations

import os
import sys

from podium.domain.rules import ESTIMATE_ABOVE, LEAVE_AT, PREPARE_AT
from podium.entry.hooks import Event, context, is_headless, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from podium.store.base import Store

WAKE = 2  # the exit code by which an asyncRewake hook wakes its session

# Percent of context, highest first, and what to do from there on. Each is told once.
THRESHOLDS = (
    (
        LEAVE_AT,
        "Stop working now. Complete the HANDOFF, then: podium musician exit --reason 'context'",
    ),
    (
        PREPARE_AT,
        (
            "Finish only the current step, write the HANDOFF, start nothing new; "
            "tell the conductor: podium musician warn --recommend TEXT"
        ),
    ),
    (
        ESTIMATE_ABOVE,
        (
            "From now on estimate the cost before you read a file; read nothing on speculation. "
            "If you will not reach the next checkpoint: podium musician warn --recommend TEXT"
        ),
    ),
)


def answer_bell(event: Event) -> int:
    """The session's bell was rung: wake it with the news, if there is any."""
    owner = None if is_headless() else event.owner()
    if owner is None:
        return 0
    store, session_id = owner
    known = store.one("session", session_id=session_id)
    rung = event.text("file_path") or ""
    if known is None or os.path.basename(rung) != os.path.basename(str(known["bell"])):
        return 0
    from podium.services import inbox

    return WAKE if inbox.deliver(store, session_id, _shout) else 0


def _shout(text: str) -> None:
    """What an asyncRewake hook tells the model goes to standard error."""
    sys.stderr.buffer.write((text + "\n").encode("utf-8", "replace"))
    sys.stderr.buffer.flush()


def answer_tool(event: Event) -> None:
    """After a tool call: a sign of work, the mail, a context threshold that was crossed."""
    owner = event.owner()
    if owner is None:
        return
    store, session_id = owner
    from podium.services import inbox, life

    life.beat(store, session_id, progress=True)
    if event.text("agent_id"):
        return  # a subagent's call: what it is told never reaches the musician
    name = event.text("hook_event_name") or "PostToolUse"
    warning = _measure(event, store, session_id)

    def show(text: str) -> None:
        say(context(name, f"{text}\n\n{warning}" if warning else text))

    if not inbox.deliver(store, session_id, show) and warning:
        say(context(name, warning))


def _measure(event: Event, store: Store, session_id: str) -> str:
    """Keep the measured context; what to say of a threshold that it crossed for the first time."""
    from podium.services import context as transcript

    window = event.settings.section("context").get("window")
    configured = window if isinstance(window, int) else None
    usage = transcript.of_session(store, session_id, configured)
    if usage is None:
        return ""
    store.run("measure", session_id=session_id, tokens=usage.tokens, percent=usage.percent)
    crossed = [(level, what) for level, what in THRESHOLDS if usage.percent >= level]
    if not crossed or store.one("told", session_id=session_id, what=f"context:{crossed[0][0]}"):
        return ""
    for level, _ in crossed:
        store.run("tell", session_id=session_id, what=f"context:{level}")
    return f"podium: your context is at {usage.percent}%. {crossed[0][1]}"


def answer_permission(event: Event) -> None:
    """Before a Bash call: podium's own commands never ask; everything else is not our business."""
    from podium.domain.shell import is_plain_podium

    asked = event.payload.get("tool_input")
    command = asked.get("command") if isinstance(asked, dict) else None
    if isinstance(command, str) and is_plain_podium(command):
        say(
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "allow",
                    "permissionDecisionReason": "podium's own command",
                }
            }
        )


def answer_halt(event: Event) -> None:
    """The turn ended by an API error: the session lives, but nothing moves until it is woken."""
    owner = event.owner()
    if owner is not None:
        store, session_id = owner
        store.run("halt", session_id=session_id, halted=event.text("error") or "an API error")
        _ring_conductor(store, session_id)


def answer_compaction(event: Event) -> None:
    """Before compaction: leave a line in the status log of every task that the session plays."""
    owner = event.owner()
    if owner is None:
        return
    from podium.domain.records import Task
    from podium.domain.states import ENDED, Kind, kind_of
    from podium.services.scratch import Scratch

    store, session_id = owner
    trigger = event.text("trigger") or "unknown"
    notes = Scratch(event.settings.path("temp"))
    for task in map(Task, store.all("tasks_of_session", session_id=session_id)):
        if kind_of(task.task_id) is Kind.TASK and task.state not in ENDED:
            last = store.one("latest_context", session_id=session_id)
            notes.log(
                task.task_id,
                f"compaction ({trigger}) while {task.state.value}",
                int(last["percent"]) if last else None,
            )


def answer_end(event: Event) -> None:
    """The session ended. A hint only: the client's process may also just vanish."""
    owner = event.owner()
    reason = event.text("reason") or "other"
    if owner is not None and reason != "clear":  # /clear goes on under a new id
        store, session_id = owner
        from podium.services import bells, life

        left = life.bury(store, session_id, f"ended ({reason})")
        bells.ring_for(store, left, but=session_id)


def answer_moved(event: Event) -> None:
    """The working directory changed, which may have emptied the client's watch list."""
    from podium.entry.settings import bells_folder
    from podium.services import bells

    folder = bells_folder(os.environ)
    if folder and event.session_id:
        bell = bells.path(folder, event.session_id)
        if os.path.exists(bell):
            say({"hookSpecificOutput": {"hookEventName": "CwdChanged", "watchPaths": [bell]}})


def _ring_conductor(store: Store, session_id: str) -> None:
    from podium.domain.states import CONDUCTOR_ROW
    from podium.services import bells

    bells.ring_for(store, [CONDUCTOR_ROW], but=session_id)
