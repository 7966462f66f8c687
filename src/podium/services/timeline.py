"""Who worked on what, when: the log, the mail and the measured context as bars. Pure.

Times are seconds since 1970, UTC. The log counts whole seconds: what happened within one second is
spread over it, in its order.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from podium.domain.states import (
    AWAITING,
    CLAIMED,
    CONDUCTOR_ROW,
    ENDED,
    RELEASED,
    Kind,
    MessageType,
    State,
    kind_of,
)

from .callers import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from podium.domain.records import Event, Message, Task

# States in which somebody is at work, and the verdicts and troubles that are marked.
AT_WORK = (State.WORKING, State.REVIEWING)
MARKED = {
    State.REVIEW_APPROVED: "approved",
    State.REVIEW_FAILED: "failed",
    State.ERROR: "error",
    State.FIX_PROPOSED: "fix",
}
# Marks that mail makes, as no state tells of them.
MARKING_MAIL = {MessageType.CONTEXT_WARNING.value: "warning", MessageType.EMERGENCY.value: "word"}


class Bar(NamedTuple):
    """A task in one state, from one moment to another, in the hands of one session."""

    state: State
    start: float
    end: float
    session: int  # 1 is S1; 0: nobody has it


class Span(NamedTuple):
    """A session's part in a task."""

    number: int
    name: str
    start: float
    end: float

    @property
    def label(self) -> str:
        """What the session is called in a picture."""
        return f"S{self.number}"


class Mark(NamedTuple):
    """Something that happened at one moment: a verdict, an error, a death."""

    at: float
    kind: str
    text: str


class Lane(NamedTuple):
    """One task from its first moment to its last."""

    task_id: str
    phase: int
    state: State
    bars: Sequence[Bar]
    spans: Sequence[Span]
    marks: Sequence[Mark]
    context: Sequence[Sequence[tuple[float, int]]]  # measured, one curve a session

    def seconds(self, states: Iterable[State]) -> float:
        """How long the task was in any of these."""
        wanted = set(states)
        return sum(bar.end - bar.start for bar in self.bars if bar.state in wanted)

    def count(self, kind: str) -> int:
        """How many marks of this kind there are."""
        return sum(mark.kind == kind for mark in self.marks)

    @property
    def facts(self) -> dict[str, Any]:
        """The lane in figures."""
        return {
            "task_id": self.task_id,
            "phase": self.phase,
            "state": self.state.value,
            "sessions": len(self.spans),
            "worked": round(self.seconds(AT_WORK)),
            "waited": round(self.seconds(AWAITING)),
            "approved": self.count("approved"),
            "failed": self.count("failed"),
            "errors": self.count("error"),
            "deaths": self.count("death"),
            "context": max((p for curve in self.context for _, p in curve), default=None),
        }


class Timeline(NamedTuple):
    """All lanes, and the time they share."""

    start: float
    end: float
    lanes: Sequence[Lane]


def moment(text: str) -> float:
    """The seconds of a time as the database writes it."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def build(
    tasks: Iterable[Task],
    events: Sequence[Event],
    mail: Sequence[Message],
    sessions: Iterable[Mapping[str, Any]],
    context: Mapping[str, Sequence[Mapping[str, Any]]],
    now: float,
) -> Timeline:
    """The lanes of these tasks: what is over ends with its last event, the rest goes on to now."""
    times = _times(events, mail)
    last = max(times.values(), default=now)
    rows = [task for task in tasks if kind_of(task.task_id) is not Kind.FALLBACK]
    # A conductor that has finished has ended the run; of one task alone, its own end counts.
    leading = [task for task in rows if task.task_id == CONDUCTOR_ROW] or rows
    over = all(task.state in ENDED for task in leading)
    end = last if over else max(now, last)
    deaths = {
        str(row["session_id"]): (moment(str(row["ended_at"])), str(row["ended"]))
        for row in sessions
        if row["ended_at"]
    }
    of_task: dict[str, list[tuple[float, Event]]] = defaultdict(list)
    for event in events:
        of_task[event.task_id].append((times[event], event))
    letters: dict[str, list[tuple[float, Message]]] = defaultdict(list)
    for message in mail:
        letters[message.task_id].append((times[message], message))
    lanes = [
        _lane(task, of_task[task.task_id], letters[task.task_id], deaths, context, end)
        for task in rows
    ]
    start = min((at for at in times.values()), default=end)
    return Timeline(start, max(end, start + 1), lanes)


class _ByIdentity(dict[Any, float]):
    """Rows are compared by value and cannot be keys; each of these is one object."""

    def __setitem__(self, row: object, at: float) -> None:
        super().__setitem__(id(row), at)

    def __getitem__(self, row: object) -> float:
        return super().__getitem__(id(row))


def _times(events: Sequence[Event], mail: Sequence[Message]) -> _ByIdentity:
    """When each happened, in the order of the log: a second is shared out among its events."""
    order: list[tuple[float, object]] = []
    waiting = list(reversed(mail))
    for event in events:
        while waiting and waiting[-1].id <= event.last_message:
            order.append((moment(waiting[-1].timestamp), waiting.pop()))
        order.append((moment(event.at), event))
    order += [(moment(message.timestamp), message) for message in reversed(waiting)]

    times, clock = _ByIdentity(), 0.0
    seconds: dict[float, list[object]] = defaultdict(list)
    for at, row in order:
        clock = max(clock, at)  # a clock that was set back does not turn the order round
        seconds[clock].append(row)
    for second, rows in seconds.items():
        for place, row in enumerate(rows):
            times[row] = second + place / len(rows)
    return times


def _lane(
    task: Task,
    events: Sequence[tuple[float, Event]],
    mail: Sequence[tuple[float, Message]],
    deaths: Mapping[str, tuple[float, str]],
    context: Mapping[str, Sequence[Mapping[str, Any]]],
    end: float,
) -> Lane:
    owners = _owners(events)
    bars: list[Bar] = []
    marks: list[Mark] = []
    for place, (at, event) in enumerate(events):
        until = events[place + 1][0] if place + 1 < len(events) else end
        state, session = State(event.to_state), owners[place]
        if bars and (bars[-1].state, bars[-1].session) == (state, session):
            bars[-1] = bars[-1]._replace(end=until)
        else:
            bars.append(Bar(state, at, until, session))
        if state in MARKED and event.from_state != event.to_state:
            own = event.actor in (event.session_id, OPERATOR)
            by = event.who if own else "the conductor"
            marks.append(Mark(at, MARKED[state], f"{state.value} by {by}"))
    spans, died = _spans(events, owners, deaths, end)
    marks += [Mark(at, "death", f"session {deaths[name][1]}") for name, at in died.items()]
    marks += [
        Mark(at, MARKING_MAIL[m.message_type], m.message.partition("\n")[0])
        for at, m in mail
        if m.message_type in MARKING_MAIL
    ]
    names = {e.session_id: at for at, e in reversed(events) if e.session_id}  # since when
    curves = [
        [(max(moment(str(row["at"])), first), int(row["percent"])) for row in context[name]]
        for name, first in names.items()
        if context.get(name)
    ]
    return Lane(task.task_id, task.phase, task.state, bars, spans, sorted(marks), curves)


def _owners(events: Sequence[tuple[float, Event]]) -> list[int]:
    """The number of the session that has the task after each event; 0 while nobody ever had it.

    A session that got a new id by /clear keeps its number: its name stays.
    """
    seen: dict[str, int] = {}
    numbers = []
    for _, event in events:
        name = event.worked_by if event.task_id != CONDUCTOR_ROW else None
        name = name or event.session_id
        numbers.append(seen.setdefault(name, len(seen) + 1) if name else 0)
    return numbers


def _spans(
    events: Sequence[tuple[float, Event]],
    owners: Sequence[int],
    deaths: Mapping[str, tuple[float, str]],
    end: float,
) -> tuple[list[Span], dict[str, float]]:
    """The sessions' parts, and when one of them died while it had the task."""
    spans: dict[int, Span] = {}
    gone: set[int] = set()
    died: dict[str, float] = {}
    kind = kind_of(events[0][1].task_id) if events else Kind.TASK
    acted = {event.actor: place for place, (_, event) in enumerate(events)}
    for place, ((at, event), number) in enumerate(zip(events, owners)):
        name, state = event.session_id, State(event.to_state)
        # Who let go or died is still named in the row; only by playing does it come back.
        if not number or not name or (number in gone and state is not CLAIMED[kind]):
            continue
        gone.discard(number)
        until = events[place + 1][0] if place + 1 < len(events) else end
        death = deaths.get(name, (until, ""))[0]
        if state in RELEASED[kind]:
            until = at
            gone.add(number)
        elif death < until and death + 1 > at and place >= acted.get(name, 0):
            until = min(until, max(at, death + 0.99))
            died[name] = until
            gone.add(number)
        first = spans.get(number, Span(number, event.worked_by or name, at, at))
        spans[number] = first._replace(end=max(first.end, until))
    return list(spans.values()), died
