"""All of it, one part after the other, and the table that comes of it."""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import fence, figures, fuzz, kill, walk
from .child import warm

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    Tick = Callable[[str, float], None]

WAITERS = 5


class Amounts(NamedTuple):
    """How much of everything, and after how many seconds a part has done enough."""

    steps: int = 10_000
    kills: int = 123
    takeovers: int = 40
    inputs: int = 2000
    runners: int = 8
    tasks: int = 300
    wakes: int = 10  # rounds of WAITERS each
    starts: int = 15
    enough: float = 7.0


class Line(NamedTuple):
    """One line of the table. `wanted` is None where a figure is shown and nothing is judged."""

    what: str
    found: float | str
    of: str = ""
    wanted: int | None = None
    detail: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether it is not what it must be."""
        return self.wanted is not None and self.found != self.wanted


def prove(
    folder: str,
    chance: random.Random,
    amounts: Amounts,
    tick: Tick,
    names: Iterable[str] | None = None,
) -> Iterator[Line]:
    """Every line, as soon as it is known. `tick` hears the part's name and how much is done."""
    warm()
    chosen = PARTS if names is None else {name: PARTS[name] for name in names}
    whole, before = sum(part.weight for part in chosen.values()), 0
    for name, part in chosen.items():
        place = os.path.join(folder, name.replace(" ", "-"))
        os.makedirs(place)
        trials, end = part.trials(amounts), time.monotonic() + amounts.enough
        done = 0

        def watched(some: Iterable[Any]) -> Iterator[Any]:
            nonlocal done
            for trial in some:
                yield trial
                done += 1
                tick(name, (before + part.weight * min(1, done / trials)) / whole)  # noqa: B023
                if time.monotonic() > end:  # noqa: B023
                    return

        yield from part.run(place, chance, amounts, watched)
        before += part.weight


Watched = Callable[["Iterable[Any]"], "Iterator[Any]"]


def _walk(folder: str, chance: random.Random, amounts: Amounts, watched: Watched) -> Iterator[Line]:
    done, detail = 0, ""
    try:
        for _ in watched(walk.stroll(folder, chance, amounts.steps)):
            done += 1
    except walk.Differs as differs:
        detail = str(differs)
    what = "random steps after which database, log and model differ"
    yield Line(what, int(bool(detail)), f"{done:,} steps", 0, detail)


def _race(folder: str, _: random.Random, amounts: Amounts, watched: Watched) -> Iterator[Line]:
    (found,) = watched([figures.race(folder, amounts.runners, amounts.tasks)])
    of = f"{amounts.tasks:,} tasks, {amounts.runners} processes"
    yield Line("tasks claimed twice, or by nobody", found.double + found.missed, of, 0)
    yield Line("errors seen in that race", found.errors, of, 0)


def _kill(folder: str, chance: random.Random, amounts: Amounts, watched: Watched) -> Iterator[Line]:
    rounds = list(watched(kill.spree(folder, chance, amounts.kills)))
    wrong = [f"{r.deed.words}: {r.wrong}" for r in rounds if r.wrong]
    lost = [r.deed.words for r in rounds if r.lost]
    of = f"{sum(r.killed for r in rounds):,} kill -9"
    yield Line("half-written steps", len(wrong), of, 0, "\n".join(wrong[:3]))
    yield Line("lost messages", len(lost), of, 0, "\n".join(lost[:3]))


def _fence(
    folder: str, chance: random.Random, amounts: Amounts, watched: Watched
) -> Iterator[Line]:
    rounds = list(watched(fence.rounds(folder, chance, amounts.takeovers)))
    of = f"{sum(r.tried for r in rounds):,} writes, {len(rounds)} takeovers"
    yield Line("late writes accepted", sum(r.accepted for r in rounds), of, 0)


def _fuzz(folder: str, chance: random.Random, amounts: Amounts, watched: Watched) -> Iterator[Line]:
    trials = {
        "hook": list(watched(fuzz.hooks(folder, chance, amounts.inputs))),
        "comms-link": list(watched(fuzz.comms_link(folder + "-mcp", chance, amounts.inputs))),
    }
    held = [bad for bad in trials["hook"] if bad and bad.why == fuzz.HELD]
    of = f"{len(trials['hook']):,} hook inputs"
    yield Line("strangers held", len(held), of, 0, "\n".join(map(repr, held[:3])))
    broken = [bad for some in trials.values() for bad in some if bad and bad not in held]
    of += f", {len(trials['comms-link']):,} MCP lines"
    yield Line("inputs that broke something", len(broken), of, 0, "\n".join(map(repr, broken[:3])))


def _wake(folder: str, _: random.Random, amounts: Amounts, watched: Watched) -> Iterator[Line]:
    took = sorted(watched(figures.wakes(folder, amounts.wakes, WAITERS)))
    of = f"{len(took)} waits"
    yield Line(
        "an answer reaches who waits, p50", round(statistics.median(took) * 1e3), of + ", ms"
    )
    last = took[min(len(took) - 1, int(len(took) * 0.99))]
    yield Line("an answer reaches who waits, p99", round(last * 1e3), of + ", ms")


def _cost(folder: str, chance: random.Random, amounts: Amounts, watched: Watched) -> Iterator[Line]:
    *_, cost = watched(figures.hooks(folder, chance, amounts.starts))
    of = "times a start of Python with SQLite"
    yield Line("Stop hook of a player", round(cost.player, 2), of)
    yield Line("Stop hook of a stranger", round(cost.stranger, 2), of)
    yield Line("model requests while idle", "not measured here", "needs a client: docs/waiting.md")


class Part(NamedTuple):
    """How it is run, how many trials it makes, and how long it takes beside the others."""

    run: Callable[[str, random.Random, Amounts, Watched], Iterator[Line]]
    trials: Callable[[Amounts], int]
    weight: int


PARTS = {
    "random steps": Part(_walk, lambda a: a.steps, 2),
    "claim race": Part(_race, lambda _: 1, 1),
    "kill -9": Part(_kill, lambda a: a.kills, 6),
    "takeovers": Part(_fence, lambda a: a.takeovers, 4),
    "mutated inputs": Part(_fuzz, lambda a: 2 * a.inputs, 2),
    "waking": Part(_wake, lambda a: a.wakes * WAITERS, 5),
    "hook costs": Part(_cost, lambda a: a.starts, 1),
}


def table(lines: Iterable[Line]) -> list[str]:
    """The lines as README shows them: a table in Markdown that a terminal can show too."""
    cells = [("What", "Found", "Wanted", "Of"), ("", "", "", "")]
    for line in lines:
        wanted = "" if line.wanted is None else str(line.wanted)
        cells.append((line.what, str(line.found), wanted, line.of))
    widths = [max(len(row[n]) for row in cells) for n in range(4)]
    shown = [" | ".join(cell.ljust(w) for cell, w in zip(row, widths)) for row in cells]
    shown[1] = "-|-".join("-" * width for width in widths)
    return [f"| {row} |" if n != 1 else f"|-{row}-|" for n, row in enumerate(shown)]
