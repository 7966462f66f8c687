"""What needs attention, in the order in which it hurts."""

from __future__ import annotations

from podium.domain.records import Event, Message, Task
from podium.domain.rules import ERROR_RETRIES
from podium.domain.states import CLAIMABLE, ENDED, Kind, MessageType, State, kind_of

from .tasks import every, is_stale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from podium.store.base import Store

class Item:
    """One thing for the conductor: what it is, and the command that settles it."""

    def __init__(self, kind: str, task_id: str, what: str, command: str) -> None:
        self.kind, self.task_id, self.what, self.command = kind, task_id, what, command

ORDER = ("error", "review", "completion", "exit", "collision", "stale", "free")

def attention(store: Store) -> list[Item]:
    """Errors, reviews, completions, exits, claim collisions, stale sessions, then free tasks."""
    rows = every(store)
    items = [item for task in rows for item in _of(store, task)]
    return sorted(items, key=lambda item: ORDER.index(item.kind))

def _of(store: Store, task: Task) -> Iterator[Item]:
    name, kind = task.task_id, kind_of(task.task_id)
    if kind is Kind.FALLBACK:
        yield Item(
            "collision",
            name,
            f"session {task.session_id} could not claim its task",
            "podium conductor sweep",
        )
    if kind is not Kind.TASK:
        return
    if is_stale(task):
        yield Item(
            "stale",
            name,
            f"{task.state.value}, no sign of life of {task.worked_by} for {task.owner_age} s",
            f"podium conductor replace {name}",
        )
    if task.state is State.ERROR:
        tries = f"retry {task.retry_count}/{ERROR_RETRIES}"
        yield Item("error", name, f"{task.last_error} ({tries})", f"podium conductor review {name}")
    elif task.state is State.NEEDS_REVIEW:
        letter = submission(store, name)
        done = letter is not None and letter.message_type == MessageType.COMPLETION.value
        what = letter.message.splitlines()[0] if letter else "submitted without a message"
        yield Item(
            "completion" if done else "review", name, what, f"podium conductor review {name}"
        )
    elif task.state is State.EXITED and not _given_up(store, task):
        yield Item(
            "exit", name, f"{task.worked_by or 'its musician'} exited", f"podium conductor replace {name}"
        )
    elif task.state in CLAIMABLE[Kind.TASK] and task.owner_age is None:
        unmet = store.all("unmet_needs", task_id=name, complete=State.COMPLETE.value)
        if not unmet:
            yield Item("free", name, f"{task.state.value}, ready to be played", f"podium conductor launch {name}")

def _given_up(store: Store, task: Task) -> bool:
    """Whether the conductor itself ended the task: nobody waits for a handoff."""
    last = [Event(row) for row in store.all("events", task_id=task.task_id, most=1)]
    return bool(last) and last[0].actor != task.session_id

def submission(store: Store, task_id: str) -> Message | None:
    """The newest message of the task that asks for the conductor's word."""
    asked = (MessageType.REVIEW_REQUEST, MessageType.COMPLETION, MessageType.ERROR, MessageType.CONTEXT_WARNING)
    found = [
        row
        for kind in asked
        if (row := store.one("latest_of_type", task_id=task_id, message_type=kind.value))
    ]
    return Message(max(found, key=lambda row: row["id"])) if found else None

def live(rows: list[Task]) -> list[Task]:
    """The tasks that have not ended."""
    return [t for t in rows if kind_of(t.task_id) is Kind.TASK and t.state not in ENDED]

