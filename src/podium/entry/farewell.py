"""A signal that ends a command lets it clear up first, as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from podium.stage import process

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_signal(*, with_children: bool = False) -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise SystemExit; what is ignored, as by nohup, stays ignored.

    `with_children`: whoever came from this process is killed first, so that nobody is waited for.
    """
    me = os.getpid()

    def leave(number: int, _: object) -> None:
        if os.getpid() != me:  # a fork: what there is to clear up is its parent's
            os._exit(128 + number)
        for other in ENDING:  # a terminal that closes sends several
            signal.signal(other, signal.SIG_IGN)
        known = process.identify(me) if with_children else None
        for child in process.descendants(known) if known else ():
            if process.is_alive(child):
                os.kill(child.pid, signal.SIGKILL)
        raise SystemExit(128 + number)

    former = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in former:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in former:
            signal.signal(number, signal.SIG_DFL)
