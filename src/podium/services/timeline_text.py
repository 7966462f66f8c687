"""The timeline for a terminal: one line a task, one character a moment. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from podium.domain.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .timeline import Lane, Timeline

S = State


class Look(NamedTuple):
    """How a state is drawn: a character, the same in ASCII, and a colour of the terminal."""

    sign: str
    ascii: str
    colour: str


# What is short and matters stands first: of several states in one moment, the first is drawn.
LOOKS = {
    S.ERROR: Look("!", "!", "red"),
    S.REVIEW_FAILED: Look("✗", "x", "red"),
    S.FIX_PROPOSED: Look("?", "?", "yellow"),
    S.EXIT_REQUESTED: Look("◁", "<", "magenta"),
    S.REVIEW_APPROVED: Look("✓", "v", "green"),
    S.COMPLETE: Look("●", "*", "green"),
    S.EXITED: Look("○", "o", "magenta"),
    S.NEEDS_REVIEW: Look("▒", "%", "yellow"),
    S.REVIEWING: Look("▓", "&", "cyan"),
    S.WORKING: Look("█", "#", "cyan"),
    S.WATCHING: Look("·", ".", "bright_black"),
}
BRIEF = (
    *(S.ERROR, S.REVIEW_FAILED, S.FIX_PROPOSED, S.EXIT_REQUESTED, S.COMPLETE),
    S.REVIEW_APPROVED,
)
DEATH = Look("†", "+", "red")
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Cell(NamedTuple):
    """One character of a lane."""

    sign: str
    colour: str


def duration(seconds: float) -> str:
    """A length of time as a person says it."""
    whole = int(seconds)
    for size, unit, less, part in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // less
            return f"{whole // size} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{max(whole, 0)} s"


def clock(at: float, step: float = 1) -> str:
    """A time of day, UTC, as exact as the steps of its axis; with the day where these are days."""
    form = "%d %b" if step >= STEPS[-1] else "%H:%M" if step >= 60 else "%H:%M:%S"
    return datetime.fromtimestamp(at, timezone.utc).strftime(form)


def stamp(at: float) -> str:
    """A moment as the database writes it."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def ticks(start: float, end: float, most: int) -> tuple[list[float], int]:
    """Round moments between two, at most so many, and the seconds between them."""
    step = next((s for s in STEPS if (end - start) / s <= most), None)
    if step is None:
        days = int((end - start) / STEPS[-1] / most) + 1
        step = days * STEPS[-1]
    first = -int(-start // step) * step
    return [float(t) for t in range(first, int(end) + 1, step) if start <= t <= end], step


def cells(lane: Lane, start: float, end: float, width: int, *, plain: bool) -> list[Cell | None]:
    """The lane as so many characters; None where there is nothing yet, or nothing any more."""
    row: list[Cell | None] = [None] * width
    places: list[list[tuple[float, State]]] = [[] for _ in range(width)]
    scale = width / (end - start)
    for bar in lane.bars:
        first = min(width - 1, int((bar.start - start) * scale))
        last = min(width - 1, int((bar.end - start) * scale))
        if bar.state is S.COMPLETE:  # an end, not a time
            last = first
        for place in range(first, last + 1):
            begin, stop = start + place / scale, start + (place + 1) / scale
            places[place].append((min(stop, bar.end) - max(begin, bar.start), bar.state))
    for place, found in enumerate(places):
        state = _most_telling(found)
        if state:
            row[place] = Cell(
                LOOKS[state].ascii if plain else LOOKS[state].sign, LOOKS[state].colour
            )
    for mark in lane.marks:
        if mark.kind == "death":
            place = min(width - 1, int((mark.at - start) * scale))
            row[place] = Cell(DEATH.ascii if plain else DEATH.sign, DEATH.colour)
    return row


def _most_telling(found: Iterable[tuple[float, State]]) -> State | None:
    """Of the states of one moment a brief one that matters, else the longest."""
    seen = list(found)
    brief = [state for state in BRIEF if state in {s for _, s in seen}]
    return brief[0] if brief else max(seen, key=lambda pair: pair[0])[1] if seen else None


def axis(timeline: Timeline, width: int) -> str:
    """The times of day above the lanes."""
    line = [" "] * width
    marks, step = ticks(timeline.start, timeline.end, max(1, width // 14))
    for at in marks:
        text = clock(at, step)
        place = int((at - timeline.start) * width / (timeline.end - timeline.start))
        if place + len(text) <= width:
            line[place : place + len(text)] = text
    return "".join(line).rstrip()


def remark(lane: Lane) -> str:
    """What stands behind a lane: its state, its sessions, its context."""
    facts = lane.facts
    parts = [lane.state.value]
    if facts["sessions"] > 1:
        parts.append(f"S{facts['sessions']}")
    if facts["context"] is not None:
        parts.append(f"{facts['context']}%")
    return " ".join(parts)


def legend(lanes: Sequence[Lane]) -> list[tuple[Look, str]]:
    """The signs that were used, and what they mean."""
    used = {bar.state for lane in lanes for bar in lane.bars}
    found = [(look, state.value) for state, look in reversed(LOOKS.items()) if state in used]
    if any(lane.count("death") for lane in lanes):
        found.append((DEATH, "session died"))
    return found
