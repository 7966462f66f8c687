"""Hook events of participants: the bell, tool calls, permissions, compaction, halts, the end.

Reached through the skills' frontmatter and hooks/participants.json; a stranger's session meets
them rarely and is let go at the first look. Standard library only.
"""

from __future__ import annotations

import os
import sys

from podium.domain.rules import ESTIMATE_ABOVE, LEAVE_AT, PREPARE_AT
from podium.domain.states import CONDUCTOR_ROW
from podium.entry.hooks import Event, context, is_headless, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from podium.services.context import Usage
    from podium.store.base import Store

SKILLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "skills")
OWN_SKILLS = ("musician", "conductor", "podium:musician", "podium:conductor")
NAMED_BY = {"Bash": "command", "Read": "file_path", "Skill": "skill"}  # what a call is judged by
WAKE = 2  # the exit code by which an asyncRewake hook wakes its session

# Percent of context, highest first: what a musician does from there on, and what a conductor.
# Each is told once.
THRESHOLDS = (
    (
        LEAVE_AT,
        "Stop working now. Complete the HANDOFF, then: podium musician exit --reason 'context'",
        "Leave the run to a new session now: podium conductor rest",
    ),
    (
        PREPARE_AT,
        (
            "Finish only the current step, write the HANDOFF, start nothing new; "
            "tell the conductor: podium musician warn --recommend TEXT --agents-remaining N"
        ),
        (
            "Begin nothing new; settle what is open, write down what only you know, then: "
            "podium conductor rest"
        ),
    ),
    (
        ESTIMATE_ABOVE,
        (
            "From now on estimate the cost before you read a file; read nothing on speculation. "
            "If you will not reach the next checkpoint: "
            "podium musician warn --recommend TEXT --agents-remaining N"
        ),
        "From now on estimate the cost before you read a file, and let subagents read for you",
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
    podium = store.one("task", task_id=CONDUCTOR_ROW) or {}
    conducts = podium.get("session_id") == session_id
    name = event.text("hook_event_name") or "PostToolUse"
    usage = measure(event, store, session_id)
    warning = warn(store, session_id, usage, conducts=conducts) if usage else ""

    def show(text: str) -> None:
        say(context(name, f"{text}\n\n{warning}" if warning else text))

    # A conductor is told at the end of its turn: what is new is often what it just did.
    told = not conducts and inbox.deliver(store, session_id, show)
    if warning and not told:
        say(context(name, warning))


def measure(event: Event, store: Store, session_id: str) -> Usage | None:
    """The context of this session as measured now, kept."""
    from podium.services import context as transcript

    window = event.settings.section("context").get("window")
    configured = window if isinstance(window, int) else None
    usage = transcript.of_session(store, session_id, configured)
    if usage is not None:
        store.run("measure", session_id=session_id, tokens=usage.tokens, percent=usage.percent)
    return usage


def warn(store: Store, session_id: str, usage: Usage, *, conducts: bool) -> str:
    """What to say of a threshold that was crossed for the first time. Only for who will say it."""
    crossed = [line for line in THRESHOLDS if usage.percent >= line[0]]
    if not crossed or store.one("told", session_id=session_id, what=f"context:{crossed[0][0]}"):
        return ""
    for level, _, _ in crossed:
        store.run("tell", session_id=session_id, what=f"context:{level}")
    return f"podium: your context is at {usage.percent}%. {crossed[0][2 if conducts else 1]}"


def answer_permission(event: Event) -> None:
    """Before a tool call: podium's own commands, texts and skills never ask.

    A session speaks for itself: with another's id it would be the conductor by saying so.
    """
    tool, asked = event.text("tool_name"), event.payload.get("tool_input")
    if not isinstance(asked, dict):
        return
    command = asked.get("command")
    if tool == "Bash" and isinstance(command, str) and "podium" in command:
        from podium.domain.shell import speaks_as

        if speaks_as(command) - {event.session_id}:
            _permit("deny", "a session speaks for itself; run it again without --session")
            return
    if _is_ours(tool, asked):
        _permit("allow", "podium's own")


def _permit(decision: str, reason: str) -> None:
    answer = {"permissionDecision": decision, "permissionDecisionReason": reason}
    say({"hookSpecificOutput": {"hookEventName": "PreToolUse", **answer}})


def _is_ours(tool: str | None, asked: dict[str, object]) -> bool:
    """Whether a call runs podium, reads what its skills refer to, or invokes one of them again."""
    value = asked.get(NAMED_BY.get(tool or "", ""))
    if not isinstance(value, str):
        return False
    if tool == "Bash":
        from podium.domain.shell import is_plain_podium

        return is_plain_podium(value)
    if tool == "Read":
        return os.path.realpath(value).startswith(os.path.realpath(SKILLS) + os.sep)
    return value in OWN_SKILLS


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
    from podium.services import bells

    bells.ring_for(store, [CONDUCTOR_ROW], but=session_id)
