"""Random actions on a real database, each held against the model: rows, mail and log never differ.

Podium's own services and raw SQL take turns, as conductors, musicians, successors and strangers do.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from podium.domain.errors import ClaimBlocked, PodiumError, StoreBroken, StoreBusy
from podium.domain.records import Process
from podium.domain.states import (
    CLAIMABLE,
    CONDUCTOR_ROW,
    FALLBACK_PREFIX,
    FIRST,
    MOVES,
    Kind,
    MessageType,
    State,
)
from podium.services import callers, life, recovery, sessions, tasks
from podium.services.scratch import Scratch
from podium.store import migrate, open_store
from podium.store.sqlite import connect

from .model import Refused, World

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from podium.services.callers import Caller
    from podium.store.base import Store

    from .model import Moves

S, M = State, MessageType
HERE = os.path.dirname(os.path.abspath(__file__))
OWNER, CONDUCTOR = "the owner", "the conductor"  # whoever it is at that moment
SESSIONS = ("anna", "bela", "clara", "dvorak", "elgar")
TASKS = ("task-01", "task-02", "task-03")
FALLBACKS = tuple(FALLBACK_PREFIX + name for name in SESSIONS[:2])
EPISODE = 150  # steps with one database
WORK = {
    "submit": (S.NEEDS_REVIEW, M.REVIEW_REQUEST),
    "finish": (S.NEEDS_REVIEW, M.COMPLETION),
    "exit": (S.EXITED, M.HANDOFF),
    "error": (S.ERROR, M.ERROR),
    "warn": (S.ERROR, M.CONTEXT_WARNING),
}
WORDS = {
    "approve": (S.REVIEW_APPROVED, M.APPROVAL),
    "reject": (S.REVIEW_FAILED, M.REJECTION),
    "fix": (S.FIX_PROPOSED, M.FIX_PROPOSAL),
    "recall": (S.EXIT_REQUESTED, M.EMERGENCY),
    "abandon": (S.EXITED, M.EMERGENCY),
}
# What an argument is drawn from. A conductor may also be a person, who has no session.
CHOICES: dict[str, tuple[Any, ...]] = {
    "who": (OWNER, OWNER, OWNER, *SESSIONS),
    "conductor": (CONDUCTOR, CONDUCTOR, CONDUCTOR, None, *SESSIONS),
    "somebody": (OWNER, None, *SESSIONS),
    "sender": (OWNER, CONDUCTOR_ROW, CONDUCTOR_ROW, *SESSIONS),
    "session": SESSIONS,
    "task": TASKS,
    "row": (*TASKS, *TASKS, CONDUCTOR_ROW, *FALLBACKS),
    "need": (None, None, None, *TASKS),
    "work": ("finish",) * 4 + tuple(WORK),
    "word": ("approve",) * 5 + tuple(WORDS),
    "state": tuple(State),
    "kind": tuple(MessageType),
    "number": (-1, 0, 4, 5, 6),
}


class Action(NamedTuple):
    """What an action needs, how often it comes up, how it is done, and what must come of it."""

    needs: str
    often: int
    do: Callable[..., object]
    must: Callable[..., object]


class Differs(AssertionError):
    """The database is not as the model says."""


class Step(NamedTuple):
    """One action with its arguments."""

    action: str
    given: tuple[Any, ...]


def draw(chance: random.Random) -> Step:
    """A step at random."""
    (name,) = chance.choices(list(ACTIONS), [action.often for action in ACTIONS.values()])
    needs = ACTIONS[name].needs.split()
    return Step(name, tuple(chance.choice(CHOICES[need]) for need in needs))


def statements() -> dict[str, str]:
    """What raw.sql holds, by name."""
    with open(os.path.join(HERE, "raw.sql"), encoding="utf-8") as file:
        blocks = file.read().split("-- name: ")[1:]
    return dict(block.split("\n", 1) for block in blocks)


class Walk:
    """One database, the model of it, and a step at a time. Close it."""

    def __init__(self, folder: str, moves: Moves = MOVES) -> None:
        path, pristine = (os.path.join(folder, name) for name in ("comms.db", "pristine.db"))
        if not os.path.exists(pristine):
            migrate.create(pristine).close()
        shutil.copyfile(pristine, path)
        self.store: Store = open_store(path)
        self.db = connect(path, 15.0)
        self.sql = statements()
        self.scratch = Scratch(os.path.join(folder, "temp"))
        self.world = World(moves)
        self.read: dict[str, int] = {}
        self.path: list[tuple[Step, str]] = []
        podium = {"task_id": CONDUCTOR_ROW, "state": FIRST[Kind.CONDUCTOR].value, "phase": 0}
        self.store.run("add_task", instruction_path=None, parallel=0, actor="init", **podium)
        self.world.insert(CONDUCTOR_ROW, FIRST[Kind.CONDUCTOR], actor="init")
        self.check()

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()
        self.db.close()

    def step(self, step: Step) -> str:
        """Take it in both worlds; what came of it. Raises Differs."""
        action, given = ACTIONS[step.action], self._resolved(step)
        said = self._do(action, given)
        after = self.world.copy()
        try:
            wanted = _came(action.must(after, *given))
            self.world = after
        except Refused:
            wanted = REFUSED
        self.path.append((Step(step.action, given), said))
        if said != wanted:
            raise Differs(f"the model says {wanted}, the database {said}{self}")
        self.check()
        return said

    def _resolved(self, step: Step) -> tuple[Any, ...]:
        rows = self.world.rows
        row = next((rows[g] for g in step.given if g in rows and g != CONDUCTOR_ROW), None)
        now = {OWNER: (row and row.session) or SESSIONS[0], CONDUCTOR: rows[CONDUCTOR_ROW].session}
        given = tuple(now.get(g, g) for g in step.given)
        if step.action in ("start", "clear", "die"):  # what a process does, it does as it is now
            return (self.world.me(given[0]),)
        return given

    def _do(self, action: Action, given: tuple[Any, ...]) -> str:
        try:
            return _came(action.do(self, *given))
        except ClaimBlocked:
            return BLOCKED
        except (StoreBusy, StoreBroken):
            raise
        except (PodiumError, sqlite3.IntegrityError):
            return REFUSED

    def raw(self, name: str, **params: object) -> int:
        """Run one statement of raw.sql as any program would; the rows it changed."""
        return self.db.execute(self.sql[name], params).rowcount

    def check(self) -> None:
        """Compare rows, and what is new in mail and log. Raises Differs."""
        world = self.world
        wanted: list[tuple[object, ...]] = [
            (task, r.state, r.session, r.life, r.claims, r.name, r.retries)
            for task, r in sorted(world.rows.items())
        ]
        self._compare("rows", wanted, [tuple(r) for r in self.db.execute(self.sql["rows"])])
        self._compare_new("mail", world.mail)
        self._compare_new("log", world.log)

    def _compare_new(self, name: str, lines: Sequence[tuple[object, ...]]) -> None:
        after = self.read.get(name, 0)
        self.read[name] = len(lines)
        found = self.db.execute(self.sql[name], {"after": after})
        wanted = [(after + n, *line) for n, line in enumerate(lines[after:], 1)]
        self._compare(name, wanted, [tuple(line) for line in found])

    def _compare(self, what: str, wanted: list[Any], found: list[Any]) -> None:
        if wanted != found:
            lines = "".join(
                f"\n  model {a}\n  database {b}" for a, b in zip_longest(wanted, found) if a != b
            )
            raise Differs(f"{what}:{lines}{self}")

    def __str__(self) -> str:
        shown = (f"\n  {s.action} {' '.join(map(_word, s.given))}: {said}" for s, said in self.path)
        return "\nafter" + "".join(shown)


DONE, BLOCKED, REFUSED = "done", "blocked", "refused"


def _came(outcome: object) -> str:
    if isinstance(outcome, str):
        return outcome
    return f"{outcome} rows" if isinstance(outcome, int) else DONE


def _word(value: object) -> str:
    return str(value.value if isinstance(value, (State, MessageType)) else value)


def _conducting(walk: Walk, session: str | None) -> Caller:
    return callers.require_conductor(callers.identify(walk.store, session))


def _add(walk: Walk, who: str | None, task: str, need: str | None) -> None:
    caller = _conducting(walk, who)
    tasks.add(walk.store, caller, task, None, "INSTRUCTION", needs=[need] if need else [])


def _claim(walk: Walk, who: str, task: str) -> None:
    tasks.claim(walk.store, callers.identify(walk.store, who), task)


def _play(walk: Walk, who: str, task: str, work: str) -> None:
    store, me = walk.store, callers.identify(walk.store, who)
    mine, (to, kind) = callers.own_task(walk.store, me, task), WORK[work]
    if to is S.ERROR:
        tasks.fail(store, me, mine, "broken", "ERROR", warning=kind is M.CONTEXT_WARNING)
    else:
        tasks.play(store, me, mine, to, kind, "letter")


def _tell(walk: Walk, who: str, task: str) -> None:
    me = callers.identify(walk.store, who)
    mine = callers.own_task(walk.store, me, task)
    tasks.tell(walk.store, me, mine, M.RESUMPTION_STATUS, "here")


def _complete(walk: Walk, who: str, task: str) -> None:
    me = callers.identify(walk.store, who)
    tasks.complete(walk.store, me, callers.own_task(walk.store, me, task), "report.md")


def _judge(walk: Walk, who: str | None, task: str, word: str) -> None:
    tasks.judge(walk.store, _conducting(walk, who), task, *WORDS[word], "text")


def _review(walk: Walk, who: str | None, task: str) -> None:
    tasks.review(walk.store, _conducting(walk, who), task)


def _hand_off(walk: Walk, who: str | None, task: str) -> None:
    caller, row = _conducting(walk, who), tasks.get(walk.store, task)
    evidence = recovery.Evidence(walk.store, walk.scratch, row, alive=None, window=None)
    recovery.check_handoff(evidence, force=False)
    recovery.hand_off(walk.store, walk.scratch, caller, evidence, "")


def _broadcast(walk: Walk, who: str | None) -> None:
    tasks.broadcast(walk.store, _conducting(walk, who), "text")


def _conduct(walk: Walk, who: str) -> None:
    tasks.conduct(walk.store, callers.identify(walk.store, who))


def _start(walk: Walk, session: str, *, cleared: bool = False) -> None:
    process = Process(1 + SESSIONS.index(session.rstrip("'")), "boot", "here")
    facts = dict.fromkeys(("transcript_path", "mode", "model", "bell"))
    sessions.register(walk.store, session, cleared=cleared, process=process, facts=facts)


def _clear(walk: Walk, session: str) -> None:
    known = walk.store.one("session", session_id=session)
    if not known or known["pid"] is None:
        raise PodiumError("podium has not seen it start")
    _start(walk, session + "'", cleared=True)


def _claimed(world: World, who: str, task: str) -> int:
    """What a claim by hand must do: the state it may come from is in its own WHERE."""
    row = world.rows.get(task)
    if row is None or row.state not in CLAIMABLE[Kind.TASK]:
        return 0
    done = world.update(task, S.WORKING, who)
    return done and world.set_retries(task, 0)


def _sealed(lines: Callable[[World], list[Any]]) -> Callable[[World], int]:
    """What nobody may change, once there is any of it."""

    def must(world: World) -> int:
        if lines(world):
            raise Refused
        return 0

    return must


def _by_hand(name: str, *params: str) -> Callable[..., int]:
    return lambda walk, *given: walk.raw(name, **dict(zip(params, given)))


ACTIONS = {
    "add": Action("conductor task need", 4, _add, World.add),
    "claim": Action("who task", 10, _claim, World.claim),
    "play": Action("who task work", 12, _play, lambda w, s, t, what: w.play(s, t, *WORK[what])),
    "tell": Action("who task", 1, _tell, World.tell),
    "complete": Action("who task", 5, _complete, World.complete),
    "beat": Action("session", 2, lambda walk, s: life.beat(walk.store, s), World.live),
    "judge": Action(
        "conductor task word", 12, _judge, lambda w, s, t, word: w.judge(s, t, *WORDS[word])
    ),
    "review": Action("conductor task", 2, _review, World.review),
    "hand_off": Action("conductor task", 4, _hand_off, World.hand_off),
    "broadcast": Action("conductor", 1, _broadcast, World.broadcast),
    "conduct": Action("session", 3, _conduct, World.conduct),
    "finish": Action(
        "conductor", 1, lambda walk, s: tasks.finish(walk.store, _conducting(walk, s)), World.finish
    ),
    "rest": Action(
        "conductor", 1, lambda walk, s: tasks.rest(walk.store, _conducting(walk, s)), World.rest
    ),
    "start": Action("who task", 3, _start, World.start),
    "clear": Action("who task", 2, _clear, lambda w, s: w.clear(s, s + "'")),
    "die": Action(
        "who task", 3, lambda walk, s: len(life.bury(walk.store, s, "killed")), World.die
    ),
    "fall_silent": Action("row", 4, _by_hand("fall_silent", "task"), World.fall_silent),
    "raw_move": Action("row state", 6, _by_hand("move", "task", "state"), World.update),
    "raw_claim": Action("who task", 4, _by_hand("claim", "session", "task"), _claimed),
    "raw_seize": Action(
        "somebody row state",
        3,
        _by_hand("seize", "session", "task", "state"),
        lambda w, session, task, to: w.update(task, to, session),
    ),
    "raw_send": Action(
        "row sender kind", 4, _by_hand("send", "task", "session", "kind"), World.send
    ),
    "raw_insert": Action(
        "row state somebody", 2, _by_hand("insert", "task", "state", "session"), World.insert
    ),
    "raw_delete": Action("row", 1, _by_hand("delete", "task"), World.delete),
    "raw_retries": Action(
        "row number", 1, _by_hand("set_retries", "task", "number"), World.set_retries
    ),
    "raw_rewrite": Action("", 1, _by_hand("rewrite"), _sealed(lambda w: w.log)),
    "raw_forget": Action("", 1, _by_hand("forget"), _sealed(lambda w: w.mail)),
}


def stroll(folder: str, chance: random.Random, steps: int) -> Iterator[int]:
    """So many steps, yielding the number of each, with a new database now and then."""
    walk: Walk | None = None
    try:
        for number in range(steps):
            if walk is None or number % EPISODE == 0:
                if walk:
                    walk.close()
                walk = Walk(folder)
                for task in TASKS:
                    walk.step(Step("add", (None, task, None)))
            walk.step(draw(chance))
            yield number + 1
    finally:
        if walk:
            walk.close()
