"""Waiting without a model and almost without a processor: for a change, a death, or a deadline."""

from __future__ import annotations

import os
import time

from podium.domain.rules import BEAT_EVERY, STALE_AFTER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.store.base import Store

GLANCE = 0.03  # between two looks at the database's change counter
CHECK_EVERY = 5.0  # for what comes by time alone: silence, dead processes, our own client
SLEPT = 30.0  # the wall clock ran ahead of ours by more: the machine slept
GRACE = 60.0  # then nobody is called stale until all had time for a sign of life


SECOND_HALF = 0.3  # who writes by hand changes the state first and sends the message after it


class Clock:
    """Tells sleep of the machine from the passing of time."""

    def __init__(self) -> None:
        self.wall, self.own = time.time(), time.monotonic()
        self.grace_until = 0.0

    def stale_after(self) -> int:
        """After how many seconds of silence a session is stale just now."""
        wall, own = time.time(), time.monotonic()
        if (wall - self.wall) - (own - self.own) > SLEPT:
            self.grace_until = own + GRACE
        self.wall, self.own = wall, own
        return STALE_AFTER if own >= self.grace_until else 10**9


def after_second_half(*, moved: bool) -> bool:
    """The answer itself, given when the message that goes with a move has had time to come."""
    if moved:
        time.sleep(SECOND_HALF)
    return moved


def wait(
    store: Store,
    ready: Callable[[int], bool],
    *,
    beat: Callable[[], object],
    abandoned: Callable[[], bool],
    timeout: float | None = None,
) -> bool:
    """True when `ready(stale_after)` says so, False at the deadline or when `abandoned` does.

    It looks again when somebody commits, and every few seconds for what comes by time alone.
    """
    clock, start = Clock(), time.monotonic()
    beaten = 0.0
    while True:
        change, looked = store.change(), time.monotonic()
        if ready(clock.stale_after()):
            return True
        if looked - beaten >= BEAT_EVERY / 2:
            beat()
            beaten = looked
        while store.change() == change and time.monotonic() - looked < CHECK_EVERY:
            if timeout is not None and time.monotonic() - start >= timeout:
                return False
            time.sleep(GLANCE)
        if abandoned():
            return False


class Alone:
    """The right to be a session's only waiter, held until closed or until the process ends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: int | None = None

    def __enter__(self) -> bool:
        try:
            self.file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return True  # no lock to be had here; two waiters are better than none
        return self._lock(self.file)

    @staticmethod
    def _lock(file: int) -> bool:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def outlast(self, abandoned: Callable[[], bool]) -> bool:
        """True when the other waiter has ended, False when `abandoned` says so before."""
        while self.file is not None and not self._lock(self.file):
            if abandoned():
                return False
            time.sleep(SECOND_HALF)
        return True

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            os.close(self.file)
