"""What needs the conductor, in the order in which it hurts. Hook-reachable."""

from __future__ import annotations

import json

from podium.domain.quotes import flat, one_line
from podium.domain.records import Event, Message, Task
from podium.domain.rules import ERROR_RETRIES, STALE_AFTER, age
from podium.domain.states import (
    AWAITING,
    CLAIMABLE,
    CONDUCTOR_ROW,
    ENDED,
    FALLBACK_PREFIX,
    Kind,
    MessageType,
    State,
    kind_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from podium.store.base import Row, Store

# The order of section 6 of the protocol; what stalls a session without an error stands with stale.
ORDER = (
    "error",
    "review",
    "completion",
    "complete",
    "exit",
    "collision",
    "dead",
    "asking",
    "halted",
    "stale",
    "ended",
    "free",
)
FREE, ASKING = "free", "asking"
FREE_SHOWN = 50
UNOWNED = (*ENDED, *CLAIMABLE[Kind.TASK])  # where a row may be without an owner
HANDED_OFF = "handed off: "  # how last_error begins once a successor may come
LET_GO = "LET GO"  # how the letter begins that tells the conductor of a cap


class Item:
    """One thing for the conductor: what it is, and the command that settles it.

    `mark` differs whenever the same thing happens anew, so each is told once.
    """

    def __init__(self, kind: str, row: Row, what: str, command: str) -> None:
        self.kind, self.task_id = kind, str(row["task_id"])
        self.what, self.command = what, command
        self.mark = f"{kind}:{self.task_id}:{row['moves']}:{row['newest'] or 0}"

    def line(self, width: int = 0) -> str:
        """The item as the conductor reads it; on a wide screen more of what it says."""
        room = max(70, width - len(self.command) - 28)
        what = one_line(self.what, room)
        return flat(f"{self.kind:<10} {self.task_id:<12} {what}  → {self.command}")

    def facts(self) -> dict[str, str]:
        """The item for --json."""
        return {
            "kind": self.kind,
            "task_id": self.task_id,
            "what": self.what,
            "command": self.command,
        }


def _names(states: Iterable[State]) -> str:
    return json.dumps([s.value for s in states])


def attention(store: Store, stale_after: int = STALE_AFTER) -> list[Item]:
    """Errors, reviews, completions, exits, claim collisions, stale sessions, then free tasks."""
    rows = store.all(
        "urgent",
        conductor=CONDUCTOR_ROW,
        states=_names((*AWAITING, State.EXITED)),
        stale=stale_after,
        ended=_names(ENDED),
        unowned=_names(UNOWNED),
    )
    items = [item for row in rows for item in _of(store, row, stale_after)]
    items += map(_question, store.all("asking", ended=_names(ENDED)))
    total, live, _ = counts(store)
    podium = store.one("task", task_id=CONDUCTOR_ROW) or {}
    finished = podium.get("state") == State.COMPLETE.value
    if total and not live and not finished and not any(i.kind == "exit" for i in items):
        run = {"task_id": CONDUCTOR_ROW, "moves": total, "newest": None}
        items.append(Item("ended", run, "every task has ended", "podium conductor finish"))
    free = store.all(
        "free",
        claimable=_names(CLAIMABLE[Kind.TASK]),
        complete=State.COMPLETE.value,
        skipped=json.dumps([CONDUCTOR_ROW, *(i.task_id for i in items)]),
        stale=STALE_AFTER,
        most=FREE_SHOWN,
    )
    items += [
        Item(
            FREE,
            row,
            f"{row['state']}, ready to be played",
            f"podium conductor launch {row['task_id']}",
        )
        for row in free
    ]
    return in_order(items)


def in_order(items: list[Item]) -> list[Item]:
    """The items, what hurts most first."""
    return sorted(items, key=lambda item: ORDER.index(item.kind))


def completed(store: Store, session_id: str) -> list[Item]:
    """Tasks that were completed since this session was last told: a window to close, no trouble."""
    rows = store.all(
        "completed", session_id=session_id, complete=State.COMPLETE.value, conductor=CONDUCTOR_ROW
    )
    return [
        Item(
            "complete",
            row,
            f"{row['worked_by']} completed it",
            f"podium conductor close {row['task_id']}",
        )
        for row in rows
    ]


def _of(store: Store, row: Row, stale_after: int) -> Iterator[Item]:
    task = Task(row)
    name = task.task_id
    if kind_of(name) is Kind.FALLBACK:
        what = f"session {task.session_id} could not claim its task"
        yield Item("collision", row, what, "podium conductor sweep")
        return
    if task.state not in ENDED:
        yield from _life(row, task, stale_after)
    if task.state is State.ERROR:
        what = f"{task.last_error} (retry {task.retry_count}/{ERROR_RETRIES})"
        yield Item("error", row, what, f"podium conductor review {name}")
    elif task.state is State.NEEDS_REVIEW:
        letter = submission(store, name)
        done = letter is not None and letter.message_type == MessageType.COMPLETION.value
        what = letter.message.splitlines()[0] if letter else "submitted without a message"
        kind = "completion" if done else "review"
        yield Item(kind, row, what, f"podium conductor review {name}")
    elif task.state is State.EXITED and not _given_up(store, task):
        what = f"{task.worked_by or 'its musician'} exited"
        yield Item("exit", row, what, f"podium conductor replace {name}")


def _life(row: Row, task: Task, stale_after: int) -> Iterator[Item]:
    replace = f"podium conductor replace {task.task_id}"
    handed_off = task.owner_age is None and str(task.last_error).startswith(HANDED_OFF)
    if row["ended"] and handed_off and task.state in UNOWNED:
        return  # it waits for a successor, not for its dead session
    if row["ended"]:
        yield Item("dead", row, f"{task.state.value}, its session ended: {row['ended']}", replace)
    elif task.owner_age is not None and task.owner_age >= stale_after:
        what = f"{task.state.value}, no sign of life of {task.worked_by} for {age(task.owner_age)}"
        yield Item("stale", row, what, replace)
    elif task.owner_age is None and task.state not in UNOWNED:  # half of a handoff by hand
        what = f"{task.state.value}, but {task.worked_by} has been released and nobody plays it"
        yield Item("stale", row, what, replace)
    elif row["halted"]:
        what = f"{task.state.value}, alive but halted by {row['halted']}"
        yield Item("halted", row, what, f"podium why {task.task_id}")


def _question(row: Row) -> Item:
    """A session that stands at a question to a person, and how the person gets to it."""
    what = f"{row['state']}, asks for {age(row['age'])}: {row['asking']}"
    return Item(ASKING, row, what, row["reach"] or "answer it in the window of its session")


def _given_up(store: Store, task: Task) -> bool:
    """Whether the conductor itself ended the task: nobody waits for a handoff."""
    last = [Event(row) for row in store.all("events", task_id=task.task_id, most=1)]
    return bool(last) and last[0].actor != task.session_id


def submission(store: Store, task_id: str) -> Message | None:
    """The newest message of the task that asks for the conductor's word."""
    asked = (
        MessageType.REVIEW_REQUEST,
        MessageType.COMPLETION,
        MessageType.ERROR,
        MessageType.CONTEXT_WARNING,
    )
    row = store.one(
        "latest_submission",
        task_id=task_id,
        types=json.dumps([kind.value for kind in asked]),
        error=MessageType.ERROR.value,
        let_go=LET_GO,
    )
    return Message(row) if row else None


def counts(store: Store) -> tuple[int, int, int]:
    """How many tasks there are, how many are live, and how many of these somebody plays."""
    row = store.one(
        "counts",
        conductor=CONDUCTOR_ROW,
        ended=_names(ENDED),
        fallback=FALLBACK_PREFIX,
        stale=STALE_AFTER,
    )
    return (row["total"], row["live"], row["played"]) if row else (0, 0, 0)


def urgent(items: list[Item]) -> list[Item]:
    """What cannot wait: everything but tasks that might be launched."""
    return [i for i in items if i.kind != FREE]


def is_idle(store: Store) -> bool:
    """Whether the conductor has nothing to do but wait for those who play or are on their way."""
    items = urgent(attention(store))
    asked = [i for i in items if i.kind == ASKING]  # for a person; the conductor can only wait
    busy = counts(store)[2] > 0 or bool(asked) or store.one("on_the_way") is not None
    return len(items) == len(asked) and busy


def untold(store: Store, session_id: str, items: list[Item]) -> list[Item]:
    """Of these, what the session has not been told."""
    return [i for i in items if not store.one("told", session_id=session_id, what=i.mark)]


def mark_told(store: Store, session_id: str, items: list[Item]) -> None:
    """Remember that the session has been told."""
    for item in items:
        store.run("tell", session_id=session_id, what=item.mark)
