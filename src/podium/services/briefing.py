"""Who am I, and what is next? Told at every start, resume, clear and compaction. Hook-reachable."""

from __future__ import annotations

from podium.domain.advice import advice
from podium.domain.quotes import one_line
from podium.domain.records import Message, Task
from podium.domain.states import CONDUCTOR_ROW, ENDED, Kind, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from podium.store.base import Store

MAIL_SHOWN, MAIL_CHARACTERS = 5, 1200


def mail_for(store: Store, session_id: str, task_id: str, most: int = 50) -> list[Message]:
    """The mail of this row that the session has not been shown, oldest first."""
    if task_id == CONDUCTOR_ROW:
        rows = store.all(
            "unread_of_conductor", session_id=session_id, conductor=CONDUCTOR_ROW, most=most
        )
    else:
        rows = store.all(
            "unread", session_id=session_id, task_id=task_id, sender=CONDUCTOR_ROW, most=most
        )
    return [Message(row) for row in rows]


def brief(store: Store, session_id: str, *, remind: bool = True) -> str:
    """The role, rows, mail and next command of this session; empty for a stranger.

    `remind`: say which skill has the rules, as they may have been compacted away.
    """
    tasks = [Task(row) for row in store.all("tasks_of_session", session_id=session_id)]
    tasks = [t for t in tasks if kind_of(t.task_id) is not Kind.FALLBACK]
    live = [t for t in tasks if t.state not in ENDED]
    if not live:
        known = store.one("session", session_id=session_id)
        task_id = str(known["task_id"] or "") if known else ""
        # A session resumed for a repair still owns what it completed.
        if task_id and task_id not in [t.task_id for t in tasks]:
            return (
                f"podium: this session was launched as the musician of {task_id}. "
                f"Next: podium musician claim {task_id}"
            )
    return "\n".join(_row(store, session_id, task, remind=remind) for task in live or tasks)


def _row(store: Store, session_id: str, task: Task, *, remind: bool) -> str:
    conductor = task.task_id == CONDUCTOR_ROW
    role = "the conductor of this run" if conductor else f"the musician of {task.task_id}"
    skill = "conductor" if conductor else "musician"
    lines = [
        f"podium: you are {role} ({task.worked_by or task.task_id}); it is {task.state.value}.",
        f"Next: {advice(task.task_id, task.state, task.instruction_path)}",
    ]
    if remind and task.state not in ENDED:
        lines.append(f"If you no longer know your rules, invoke the skill /{skill} again.")
    mail = mail_for(store, session_id, task.task_id)
    if mail:
        lines.append(
            f"Unread mail: {len(mail)} (podium {skill} " + ("next" if conductor else "inbox") + ")"
        )
        lines += [
            f"  {m.id} {m.message_type}: {one_line(m.message, MAIL_CHARACTERS // MAIL_SHOWN)}"
            for m in mail[-MAIL_SHOWN:]
        ]
    return "\n".join(lines)
