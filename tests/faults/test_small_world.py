"""A small orchestra, exhaustively: no dead end, and nobody's death goes unnoticed.

All interleavings are walked in the model, which test_machine.py holds against the database at
random; here the shortest way to every condition of a task is replayed on the real one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from podium.domain.states import (
    CONDUCTOR_ROW,
    ENDED,
    MOVES,
    Kind,
    MessageType,
    State,
    kind_of,
)
from podium.entry.proof.model import Refused, World
from podium.entry.proof.walk import ACTIONS, TASKS, WORDS, WORK, Step, Walk
from podium.services import overview, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONDUCTOR, MUSICIAN, SECOND, SUCCESSOR, FRESH = "anna", "bela", "clara", "dvorak", "elgar"
ONE, TWO = TASKS[:2]
Key = tuple[Any, ...]


def steps(players: dict[str, tuple[str, ...]]) -> list[Step]:
    """Everything that anybody may try. A person's word stands for the conductor's: same effect."""
    found = [
        Step("conduct", (CONDUCTOR,)),
        Step("rest", (CONDUCTOR,)),
        Step("finish", (CONDUCTOR,)),
    ]
    found.append(Step("fall_silent", (CONDUCTOR_ROW,)))
    for task, sessions in players.items():
        found += [Step("judge", (None, task, word)) for word in WORDS]
        found += [Step("hand_off", (None, task)), Step("review", (CONDUCTOR, task))]
        for session in sessions:
            found += [Step("claim", (session, task)), Step("complete", (session, task))]
            found += [Step("play", (session, task, work)) for work in WORK]
        # By hand: half a handoff, every move, four errors, silence.
        found.append(Step("raw_send", (task, CONDUCTOR_ROW, MessageType.HANDOFF)))
        found += [Step("raw_move", (task, state)) for state in MOVES[Kind.TASK]]
        found += [Step("raw_retries", (task, 4)), Step("fall_silent", (task,))]
    for session in sorted({CONDUCTOR, *(s for some in players.values() for s in some)}):
        found += [Step("die", (session,)), Step("start", (session,))]
    return found


def beginning(names: tuple[str, ...]) -> list[Step]:
    return [Step("add", (None, task, None)) for task in names]


def take(world: World, step: Step) -> World | None:
    """The world after this step; None when it is refused."""
    after = world.copy()
    try:
        ACTIONS[step.action].must(after, *step.given)
    except Refused:
        return None
    return after


def essence(world: World) -> Key:
    """What of a world decides what can come of it; makes the world forget the rest."""
    world.mail, world.log, world.owned = [], [], set()
    world.rows = {t: r for t, r in world.rows.items() if kind_of(t) is not Kind.FALLBACK}
    for task, row in world.rows.items():
        told = row.reported and row.state not in ENDED
        world.rows[task] = row._replace(
            claims=min(row.claims, 1),
            name=None,
            retries=row.retries if row.retries > 3 else 0,  # one to three are like none
            reported=told,
            verdict=row.verdict if told else None,
        )
    owners = {row.session for row in world.rows.values()}
    gone = sorted(s for s, ended in world.known.items() if ended and s in owners)
    return (*sorted(world.rows.items()), *gone)


class Explored:
    """Every world that can be reached, and the shortest way to each."""

    def __init__(self, players: dict[str, tuple[str, ...]], depth: int = 1000) -> None:
        world = World()
        world.insert(CONDUCTOR_ROW, State.WATCHING, actor="init")
        for step in beginning(tuple(players)):
            world = take(world, step) or world
        self.start = essence(world)
        self.worlds: dict[Key, World] = {self.start: world}
        self.came: dict[Key, tuple[Key, Step]] = {}
        self.depth, frontier = 0, [self.start]
        every = steps(players)
        while frontier and self.depth < depth:
            frontier = [new for key in frontier for new in self._from(key, every)]
            self.depth += bool(frontier)

    def _from(self, key: Key, every: list[Step]) -> Iterator[Key]:
        for step in every:
            after = take(self.worlds[key], step)
            if after is not None and (new := essence(after)) not in self.worlds:
                self.worlds[new], self.came[new] = after, (key, step)
                yield new

    def way(self, key: Key) -> list[Step]:
        found = []
        while key != self.start:
            key, step = self.came[key]
            found.append(step)
        return found[::-1]


def rescued(world: World, names: tuple[str, ...]) -> World:
    """The same run after silence, with a new player for each task and a new conductor."""
    script = [Step("fall_silent", (row,)) for row in (CONDUCTOR_ROW, *names)]
    for number, task in enumerate(names):
        player = f"fresh-{number}"
        script += [Step("hand_off", (None, task)), Step("judge", (None, task, "fix"))]
        script.append(Step("claim", (player, task)))
        script += [Step("play", (player, task, "finish")), Step("judge", (None, task, "approve"))]
        script.append(Step("complete", (player, task)))
    script += [Step("conduct", (FRESH,)), Step("finish", (FRESH,))]
    for step in script:
        world = take(world, step) or world
    return world


@pytest.fixture(scope="module")
def one_task() -> Explored:
    """One conductor, a musician and a successor on one task: everything there is."""
    return Explored({ONE: (MUSICIAN, SUCCESSOR)})


@pytest.fixture(scope="module")
def two_tasks() -> Explored:
    """One conductor, two musicians and a successor for either: everything to this depth."""
    return Explored({ONE: (MUSICIAN, SUCCESSOR), TWO: (SECOND, SUCCESSOR)}, depth=4)


def test_the_small_world_is_explored_to_its_end(one_task: Explored) -> None:
    assert len(one_task.worlds) > 10_000
    reached = {dict(key[:2])[ONE].state for key in one_task.worlds}  # type: ignore[misc]
    assert reached == set(MOVES[Kind.TASK])


@pytest.mark.parametrize("world", ["one_task", "two_tasks"])
def test_there_is_no_dead_end_even_if_everybody_who_plays_is_dead(
    request: pytest.FixtureRequest, world: str
) -> None:
    explored: Explored = request.getfixturevalue(world)
    names = (ONE,) if world == "one_task" else (ONE, TWO)
    for key, state in explored.worlds.items():
        rows = rescued(state, names).rows
        ended = {rows[name].state for name in names} == {State.COMPLETE}
        assert ended, (key, explored.way(key))
        assert rows[CONDUCTOR_ROW].state is State.COMPLETE, (key, explored.way(key))


def conditions(explored: Explored) -> dict[Key, Key]:
    """Each condition that a task can be in, with one world in which it is."""
    found: dict[Key, Key] = {}
    for key in explored.worlds:
        row = dict(key[:2])[ONE]
        found.setdefault((row._replace(verdict=None, reported=False), key[2:]), key)
    return found


def test_the_database_goes_every_way_that_the_model_goes_and_notices_every_death(
    one_task: Explored, tmp_path: Path
) -> None:
    unnoticed: Counter[str] = Counter()
    for condition, key in conditions(one_task).items():
        walk = Walk(str(tmp_path))
        for step in [*beginning((ONE,)), *one_task.way(key)]:
            walk.step(step)
        unnoticed.update(f"{condition[0]}: {what}" for what in deaths(walk))
        walk.close()
    assert not unnoticed


def deaths(walk: Walk) -> Iterator[str]:
    """What nobody would notice if everybody fell silent now, and if every process ended."""
    for how in ("fall_silent", "die"):
        for row, owner in ((ONE, walk.world.rows[ONE].session), (CONDUCTOR_ROW, CONDUCTOR)):
            walk.step(Step(how, (row if how == "fall_silent" else owner or FRESH,)))
        if walk.world.rows[ONE].state not in ENDED:
            items = [i.task_id for i in overview.attention(walk.store)]
            if ONE not in items:
                yield f"the musician, {how}"
        podium = tasks.get(walk.store, CONDUCTOR_ROW)
        if podium.owner_age is not None and not tasks.is_stale(podium):
            yield f"the conductor, {how}"
