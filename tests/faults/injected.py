"""In a forked child: a database that fails, or a process that is stopped, at the n-th call."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol import connect

from podium.entry.proof.child import Child, Ended, work_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from podium.entry.proof.scene import Deed, Scene

FAULTS: dict[str, type[sqlite3.Error]] = {
    "database is locked": sqlite3.OperationalError,
    "database or disk is full": sqlite3.OperationalError,
    "disk I/O error": sqlite3.OperationalError,
    "database disk image is malformed": sqlite3.DatabaseError,
    "attempt to write a readonly database": sqlite3.OperationalError,
}
LOCKED, FULL, IO, CORRUPT, READ_ONLY = FAULTS
ROLLS_BACK = (FULL, IO, CORRUPT)  # where SQLite itself ends the transaction
STOP = "stop"
SEVERAL = ("init", "init --archive", "conductor sweep")  # several steps, each of its own
FEW = 24  # calls that are enough for the tests


class Injection:
    """What happens at which call: a fault, once or from then on, or SIGSTOP."""

    def __init__(self, what: str, at: int, *, lasting: bool = False, tell: str = "") -> None:
        self.what, self.at, self.lasting, self.tell = what, at, lasting, tell
        self.calls = 0
        self.connect = sqlite3.connect

    def install(self) -> None:
        """From now on every connection of this process goes through here."""
        injection = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
                injection.before(sql, self)
                return super().execute(sql, *params)

        def connect(*args: Any, **options: Any) -> sqlite3.Connection:
            self.before("", None)
            return self.connect(*args, factory=Connection, **options)

        sqlite3.connect = connect  # type: ignore[assignment]

    def before(self, sql: str, db: sqlite3.Connection | None) -> None:
        """Count a call; let it fail, or stop the process, if its time has come."""
        reads = sql.lstrip().startswith(("SELECT", "PRAGMA", "WITH", "--", "ROLLBACK"))
        if sql == "ROLLBACK" or (self.what == READ_ONLY and (reads or not sql)):
            return
        if self.what == STOP and db is not None and db.in_transaction:
            return  # it would hold the lock, and nobody could take over
        self.calls += 1
        if self.tell:
            with open(self.tell, "w", encoding="ascii") as file:
                file.write(str(self.calls))
        if self.calls != self.at and not (self.lasting and self.calls > self.at):
            return
        if self.what == STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if db is not None and db.in_transaction and self.what in ROLLS_BACK:
            sqlite3.Connection.execute(db, "ROLLBACK")
        raise FAULTS[self.what](self.what)


def start(scene: Scene, project: str, deed: Deed, injection: Injection) -> Child:
    """The deed in a child with this injection."""

    def work() -> int:
        injection.install()
        return work_of(deed)()

    return Child(work, deed.stdin, scene.env(project), project)


def run(scene: Scene, project: str, deed: Deed, injection: Injection) -> tuple[Ended, int]:
    """How it ended, and how many calls it made."""
    injection.tell = os.path.join(scene.folder, "calls")
    if os.path.exists(injection.tell):
        os.remove(injection.tell)
    ended = start(scene, project, deed, injection).wait()
    if not os.path.exists(injection.tell):
        return ended, 0
    with open(injection.tell, encoding="ascii") as file:
        return ended, int(file.read() or 0)


class Trial(NamedTuple):
    """One fault: at which call, of which kind, and what was wrong afterwards, if anything."""

    call: int
    kind: str
    wrong: str


def trials(scene: Scene, deed: Deed, *, thorough: bool = False) -> Iterator[Trial]:
    """A fault at each call of the deed, the kinds in turn; of very many the first and the last.

    `thorough`: every kind at every call, which takes minutes for all deeds.
    """
    project = scene.restore(deed.project)
    before = scene.look(project)
    whole, calls = run(scene, project, deed, Injection(LOCKED, 0))
    after = scene.look(project)
    every = range(1, calls + 1)
    few = calls <= FEW or thorough
    for call in every if few else (*every[: FEW // 2], *every[-FEW // 2 :]):
        for kind in FAULTS if thorough else [list(FAULTS)[call % len(FAULTS)]]:
            project = scene.restore(deed.project)
            ended, _ = run(scene, project, deed, Injection(kind, call, lasting=call % 2 == 0))
            found, wrong = scene.look(project), _answered(deed, ended)
            if deed.words not in SEVERAL and found not in (before, after):
                wrong = "half a step"
            elif ended.code == whole.code == 0 and not deed.is_hook and found != after:
                wrong = "it says that it is done"
            elif kind != LOCKED and _held_uncounted(project, deed, ended):
                wrong = "held and not counted"
            yield Trial(call, kind, wrong)


def _answered(deed: Deed, ended: Ended) -> str:
    """What is wrong with how a hook or command that met a fault ended; empty when nothing is."""
    said = ended.out.decode() + ended.err.decode()
    if "Traceback" in said or "a bug in podium" in said:
        return said
    if deed.is_hook:
        fine = ended.code == 0 or (ended.code == 2 and deed.words.endswith("bell"))
        return "" if fine and len(ended.out.splitlines()) <= 1 else f"{ended.code}: {said}"
    lines = ended.err.decode().splitlines()
    refused = len(lines) == 1 and lines[0].startswith("podium: ")
    if ended.code not in (0, 1, 3) or (ended.code != 0 and not refused):
        return f"{ended.code}: {said}"
    return ""


def _held_uncounted(project: str, deed: Deed, ended: Ended) -> bool:
    """Whether a Stop went on without being counted: that could hold a session for ever."""
    if deed.words != "hook stop" or b"hookSpecificOutput" not in ended.out:
        return False
    with closing(connect(Path(project, "comms.db"))) as db:
        sql = "SELECT continuations FROM podium_sessions WHERE session_id = ?"
        return db.execute(sql, (deed.session,)).fetchone()[0] == 0
