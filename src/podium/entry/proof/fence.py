"""An owner sleeps past its lease and a successor takes over: every late write is refused.

The owner is a process of its own that writes without pause. It is stopped with SIGSTOP at a random
instant, loses its task, and goes on where it stopped.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Callable, NamedTuple

from podium.domain.errors import PodiumError, StoreBusy
from podium.domain.states import AWAITING, CONDUCTOR_ROW, FIRST, Kind, MessageType, State
from podium.services import callers, life, tasks
from podium.store import guarded, migrate, open_store
from podium.store.sqlite import connect

from .walk import statements

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from podium.store.base import Store

S, M = State, MessageType
TASK = "task-01"
TRIES = 2  # of each write, once it knows that the task is lost
BRIEF = 0.05  # seconds that a lock is waited for: a stopped process may hold it


def _play(to: State, kind: MessageType) -> Callable[[Store, str, str], object]:
    def write(store: Store, session: str, _: str) -> object:
        me = callers.identify(store, session)
        return tasks.play(store, me, callers.own_task(store, me, TASK), to, kind, "late?")

    return write


def _fail(store: Store, session: str, _: str) -> object:
    me = callers.identify(store, session)
    mine = callers.own_task(store, me, TASK)
    return tasks.fail(store, me, mine, "late?", "late?", warning=True)


def _complete(store: Store, session: str, _: str) -> None:
    me = callers.identify(store, session)
    tasks.complete(store, me, callers.own_task(store, me, TASK), "late.md")


def _tell(store: Store, session: str, _: str) -> object:
    me = callers.identify(store, session)
    mine = callers.own_task(store, me, TASK)
    return tasks.tell(store, me, mine, M.RESUMPTION_STATUS, "late?")


def _claim(store: Store, session: str, _: str) -> object:
    return tasks.claim(store, callers.identify(store, session), TASK)


def _beat(store: Store, session: str, _: str) -> None:
    if not life.beat(store, session):
        raise PodiumError("it owns nothing")


def _by_hand(name: str, **params: str) -> Callable[[Store, str, str], object]:
    def write(_: Store, session: str, path: str) -> object:
        sql, mine = statements()[name], {"session": session} if name == "send" else {}
        return guarded.execute(path, sql, {"task": TASK, **params, **mine}, session)

    return write


# What an owner may write, each in its turn. The last leaves the state in which most are allowed.
WRITES = {
    "warn": _fail,
    "claim": _claim,
    "finish": _play(S.NEEDS_REVIEW, M.COMPLETION),
    "tell": _tell,
    "complete": _complete,
    "beat": _beat,
    "comms-link message": _by_hand("send", kind=M.ERROR.value),
    "comms-link move": _by_hand("move", state=S.NEEDS_REVIEW.value),
    "exit": _play(S.EXITED, M.HANDOFF),
}
LEAVING = "exit"  # only tried when the task is lost: it would end the round


class Round(NamedTuple):
    """One takeover: how many late writes were tried, and how many were accepted."""

    tried: int
    accepted: int
    waited: int  # how often the sleeper held the lock


def owner(path: str) -> int:
    """Be the owner: a session's name comes in by line, the number of refused writes goes out."""
    with closing(open_store(path)) as store:
        while session := sys.stdin.readline().strip():
            tasks.claim(store, callers.identify(store, session), TASK)
            print("playing", flush=True)
            lost = refused = 0
            while lost <= TRIES:
                gone = tasks.get(store, TASK).session_id != session
                lost += gone
                for name, write in WRITES.items():
                    if gone or name != LEAVING:
                        refused += _refused(write, store, session, path) and gone
            print(refused, flush=True)
    return 0


def _refused(write: Callable[[Store, str, str], object], store: Store, me: str, path: str) -> bool:
    try:
        write(store, me, path)
    except PodiumError:
        return True
    return False


class Fence:
    """One database, one sleeper, and the conductor who replaces it again and again. Close it."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "comms.db")
        with closing(migrate.create(self.path)) as store:
            row = {"state": FIRST[Kind.TASK].value, "instruction_path": None, "parallel": 0}
            for name in (CONDUCTOR_ROW, TASK):
                store.run("add_task", task_id=name, phase=1, actor="init", **row)
        ours, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ours[1])
            os.dup2(ours[0], 0)
            os.dup2(theirs[1], 1)
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            os._exit(owner(self.path))
        os.close(ours[0])
        os.close(theirs[1])
        self.say, self.hear = os.fdopen(ours[1], "w"), os.fdopen(theirs[0])
        self.store = open_store(self.path, wait=BRIEF)
        self.db = connect(self.path, BRIEF)
        self.sql = statements()
        self.number = 0

    def close(self) -> None:
        """End the sleeper by closing its input."""
        self.store.close()
        self.db.close()
        self.say.close()
        self.hear.close()
        os.kill(self.pid, signal.SIGCONT)
        os.waitpid(self.pid, 0)

    def once(self, chance: random.Random) -> Round:
        """A takeover while the owner is stopped at a random instant of its work."""
        self.number += 1
        sleeper, successor = f"sleeper-{self.number}", f"successor-{self.number}"
        print(sleeper, file=self.say, flush=True)
        if self.hear.readline() != "playing\n":
            raise AssertionError("the owner could not claim")
        waited = 0
        while True:
            time.sleep(chance.uniform(0, 0.02))
            os.kill(self.pid, signal.SIGSTOP)
            os.waitpid(self.pid, os.WUNTRACED)
            try:
                event, message = self._take_over(successor)
                break
            except StoreBusy:  # stopped in the middle of a write: that one still counts
                waited += 1
                os.kill(self.pid, signal.SIGCONT)
        os.kill(self.pid, signal.SIGCONT)
        tried = int(self.hear.readline())
        since = {"event": event, "message": message, "session": sleeper, "task": TASK}
        (accepted,) = self.db.execute(self.sql["late"], since).fetchone()
        self._free(successor)
        return Round(tried, accepted, waited)

    def _take_over(self, successor: str) -> tuple[int, int]:
        """The conductor's word, silence for longer than a lease, then the claim."""
        person, state = callers.identify(self.store, None), tasks.get(self.store, TASK).state
        if self.number % 2:
            self._word(person, S.FIX_PROPOSED, M.FIX_PROPOSAL)
        else:  # approved, then recalled: whoever owns it now might complete it
            if state in AWAITING:
                self._word(person, S.REVIEW_APPROVED, M.APPROVAL)
            self._word(person, S.EXIT_REQUESTED, M.EMERGENCY)
        self.db.execute(self.sql["fall_silent"], {"task": TASK})
        tasks.claim(self.store, callers.identify(self.store, successor), TASK)
        event, message = self.db.execute(self.sql["newest"]).fetchone()
        return event, message

    def _word(self, person: callers.Caller, to: State, kind: MessageType) -> None:
        tasks.judge(self.store, person, TASK, to, kind, "hand over")

    def _free(self, successor: str) -> None:
        """The successor leaves, and the next may come."""
        me = callers.identify(self.store, successor)
        mine = callers.own_task(self.store, me, TASK)
        tasks.play(self.store, me, mine, S.EXITED, M.HANDOFF, "done")
        self._word(callers.identify(self.store, None), S.FIX_PROPOSED, M.FIX_PROPOSAL)


def rounds(folder: str, chance: random.Random, count: int) -> Iterator[Round]:
    """So many takeovers."""
    with closing(Fence(folder)) as fence:
        for _ in range(count):
            yield fence.once(chance)
