"""The sign of life of a client, given by the MCP server that lives exactly as long as it does.

No model and no further process: it follows the client's pid, since /clear changes the session's id.
A stranger's session costs one look at a counter every few seconds.
"""

from __future__ import annotations

import os
import time

from podium.domain.rules import BEAT_EVERY
from podium.domain.states import CONDUCTOR_ROW
from podium.entry.waiting import Clock
from podium.services import bells, inbox, life
from podium.stage import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from podium.domain.records import Process
    from podium.store.base import Store

PODIUM = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "bin", "podium")
EVERY = 3.0  # seconds between two looks
RING_AGAIN = 60.0  # when news stayed unheard
SWEEP_EVERY = 30.0
LINGER = 3.0  # how long a client may take to vanish after it closed our input


class Pulse:
    """Beats for the session that the client is, and notices who has died."""

    def __init__(self, database: Callable[[], str], session_id: str | None, client: int) -> None:
        self.database, self.told_id = database, session_id
        self.client: Process | None = process.identify(client)
        self.clock = Clock()
        self.store: Store | None = None
        self.inode = 0
        self.looked = self.beaten = self.rung = 0.0
        self.news = ""
        self.swept = 0.0
        self.sweeper: subprocess.Popen[bytes] | None = None
        self.plays = True  # until a look says otherwise

    def tick(self) -> None:
        """To be called often; does its work every few seconds, and never raises."""
        if time.monotonic() - self.looked < EVERY:
            return
        self.looked = time.monotonic()
        try:
            if self._open():
                self._look()
        except Exception:  # noqa: BLE001  # a locked or broken database: the next look may succeed
            self._close()

    def _open(self) -> bool:
        """Whether there is a database; one that was moved aside is let go."""
        path = self.database()
        inode = os.stat(path).st_ino if path else 0
        if inode != self.inode:
            self._close()
        if path and self.store is None:
            from podium.store import open_store

            self.store, self.inode = open_store(path, wait=1.0), inode
        return self.store is not None

    def _close(self) -> None:
        if self.store is not None:
            self.store.close()
        self.store, self.inode = None, 0

    def _session(self, store: Store) -> str | None:
        """The session that the client is now."""
        if self.client is not None:
            where = {"pid": self.client.pid, "pid_started": self.client.started}
            row = store.one("sessions_of_process", host=self.client.host, **where)
            if row is not None:
                return str(row["session_id"])
            if self.told_id:  # its SessionStart came before podium did
                store.run("adopt", session_id=self.told_id, host=self.client.host, **where)
        return self.told_id

    def _look(self) -> None:
        store = self.store
        session_id = self._session(store) if store else None
        if store is None or session_id is None:
            return
        rows = store.all("tasks_of_session", session_id=session_id)
        self.plays = any(row["owner_seen"] for row in rows)
        if not self.plays:
            return
        # The wall clock: after the machine slept, the next look beats at once.
        if abs(time.time() - self.beaten) >= BEAT_EVERY / 2:
            life.beat(store, session_id)
            self.beaten = time.time()
        conducts = any(row["task_id"] == CONDUCTOR_ROW for row in rows)
        self._find_dead(store, session_id, conducts=conducts)
        if conducts:
            self._sweep(session_id)
        self._ring(store, session_id)

    def _sweep(self, session_id: str) -> None:
        """What takes longer than a look is settled by a command of its own, one at a time."""
        if self.sweeper is not None and self.sweeper.poll() is None:
            return
        if self.swept and time.monotonic() - self.swept < SWEEP_EVERY:
            return
        import subprocess

        self.swept = time.monotonic()
        self.sweeper = subprocess.Popen(
            [PODIUM, "conductor", "sweep", "--session", session_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _find_dead(self, store: Store, session_id: str, *, conducts: bool) -> None:
        """The conductor looks after everybody on this host, the others after the conductor."""
        host = os.uname().nodename
        for dead in life.find_dead(store, host, process.is_alive):
            owned = {str(r["task_id"]) for r in store.all("tasks_of_session", session_id=dead)}
            if dead != session_id and (conducts or CONDUCTOR_ROW in owned):
                bells.ring_for(store, life.bury(store, dead, "its process is gone"))

    def _ring(self, store: Store, session_id: str) -> None:
        """News by time alone, or written by somebody who rings no bell, wake the session too."""
        news = inbox.gather(store, session_id, self.clock.stale_after()).text
        known = store.one("session", session_id=session_id)
        unheard = time.monotonic() - self.rung >= RING_AGAIN
        if news and known and known["bell"] and (news != self.news or unheard):
            bells.ring(str(known["bell"]))
            self.rung = time.monotonic()
        self.news = news

    def farewell(self) -> None:
        """The client closed our input: if its process is gone too, its session has ended."""
        if not self.plays:
            return
        end = time.monotonic() + LINGER
        while self.client is not None and process.is_alive(self.client):
            if time.monotonic() > end:
                return  # it only let go of us
            time.sleep(0.05)
        try:
            session_id = self._session(self.store) if self._open() and self.store else None
            if self.store and session_id:
                bells.ring_for(self.store, life.bury(self.store, session_id, "its client is gone"))
        except Exception:  # noqa: BLE001, S110  # the conductor's own pulse will find it
            pass
