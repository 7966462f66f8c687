"""The protocol in small: what each action does to rows, mail and log. Pure, and knows no SQL.

A refused action raises Refused and must leave no trace; whoever calls keeps the world from before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from podium.domain.rules import ERROR_RETRIES, successor_name
from podium.domain.states import (
    CLAIMABLE,
    CLAIMED,
    CONDUCTOR_ROW,
    ENDED,
    FALLBACK_PREFIX,
    FIRST,
    MOVES,
    PLAYED,
    RELEASED,
    VERDICTS,
    Kind,
    MessageType,
    Role,
    State,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Moves = Mapping[Kind, Mapping[State, Mapping[Role, tuple[State, ...]]]]

OPERATOR = "operator"
KEEP = "the session it has"
S, M = State, MessageType


class Refused(Exception):
    """The action must be refused, and change nothing."""


class Row(NamedTuple):
    """`life`: True for an owner that gave a sign of it, False for a silent one, None for nobody."""

    state: State
    session: str | None = None
    life: bool | None = None
    claims: int = 0
    name: str | None = None
    retries: int = 0
    gone: bool = False  # its owner's process ended; it may come back
    verdict: State | None = None  # since its newest completion report
    reported: bool = False


class World:
    """Rows, mail, log, and what is known of the sessions."""

    def __init__(self, moves: Moves = MOVES) -> None:
        self.moves = moves
        self.rows: dict[str, Row] = {}
        self.needs: dict[str, tuple[str, ...]] = {}
        self.owned: set[tuple[str, str]] = set()  # who ever had which row
        self.former: dict[str, str] = {}  # a session's id before /clear
        self.known: dict[str, bool] = {}  # sessions, and whether they have ended
        self.started: set[str] = set()  # those whose process podium has seen
        self.mail: list[tuple[str, str, str]] = []
        self.log: list[tuple[object, ...]] = []

    def copy(self) -> World:
        """A world of its own that is equal to this one."""
        new = World.__new__(World)
        for name, value in vars(self).items():
            new.__dict__[name] = value if name == "moves" else value.copy()
        return new

    # What the database does, whoever writes

    def may(self, task: str, to: State, role: Role | None = None) -> bool:
        """Whether the table lists the move, or it is none."""
        row = self.rows[task]
        by_role = self.moves[kind_of(task)].get(row.state, {})
        ends = [by_role.get(role, ())] if role else by_role.values()
        return to is row.state or any(to in some for some in ends)

    def insert(
        self, task: str, state: State, session: str | None = None, actor: str | None = None
    ) -> int:
        """A new row; how many there are of it now: 1."""
        if task in self.rows or state is not FIRST[kind_of(task)]:
            raise Refused
        alive = True if session and state not in RELEASED[kind_of(task)] else None
        self.rows[task] = Row(state, session, alive)
        self._note(task, actor or session or CONDUCTOR_ROW, None)
        return 1

    def update(
        self,
        task: str,
        to: State | None = None,
        session: str | None = KEEP,
        *,
        actor: str | None = None,
        name: str | None = None,
    ) -> int:
        """A change of state and session; how many rows it changed."""
        if task not in self.rows:
            return 0
        old, kind = self.rows[task], kind_of(task)
        to = to or old.state
        session = old.session if session == KEEP else session
        other = session != old.session
        follows = (
            other and old.session is not None and self.former.get(session or "") == old.session
        )
        if not self.may(task, to):
            raise Refused
        stranger = other and not follows
        itself = actor in (None, session)
        free = old.life is None and (
            itself if kind is Kind.CONDUCTOR else old.state in CLAIMABLE[Kind.TASK]
        )
        takes = (stranger or free) and kind in CLAIMED and to is CLAIMED[kind]
        if takes and kind is Kind.TASK and (session is None or self._blocked(task, other=other)):
            return 0
        takes = takes and session is not None
        if takes and other and old.life:
            return 0
        if stranger and not takes:
            raise Refused
        if to is old.state and not other:
            return 1
        mine = self._makes(task, to, other=other)
        own = itself if kind is Kind.CONDUCTOR else to in PLAYED
        # A conductor's name is what the statement says, a musician's is counted.
        row = old._replace(state=to, session=session, name=name or old.name)
        if takes:
            name = successor_name(task, old.claims + 1) if kind is Kind.TASK else row.name
            row = row._replace(claims=old.claims + 1, life=True, gone=False, name=name)
        elif old.life is not None and (own or other):
            row = row._replace(life=True)
        if to in RELEASED[kind]:
            row = row._replace(life=None, gone=False)
        self.rows[task] = row._replace(verdict=to) if to in VERDICTS else row
        self._note(task, actor or (session if mine else None) or CONDUCTOR_ROW, old.state)
        return 1

    def _blocked(self, task: str, *, other: bool) -> bool:
        row = self.rows[task]
        unmet = any(
            need not in self.rows or self.rows[need].state is not S.COMPLETE
            for need in self.needs.get(task, ())
        )
        return row.state not in CLAIMABLE[Kind.TASK] or (other and bool(row.life)) or unmet

    def _makes(self, task: str, to: State, *, other: bool) -> bool:
        """Whether a change that names nobody is its owner's."""
        by_role = self.moves[Kind.TASK].get(self.rows[task].state, {})
        return other or task == CONDUCTOR_ROW or to in by_role.get(Role.MUSICIAN, ())

    def _note(self, task: str, actor: str, before: State | None) -> None:
        row = self.rows[task]
        if row.session:
            self.owned.add((task, row.session))
        self.log.append(
            (task, actor, before, row.state, row.session, before and row.name, len(self.mail))
        )

    def send(self, task: str, sender: str, kind: MessageType) -> int:
        """A message."""
        row = self.rows.get(task)
        lost = row and (task, sender) in self.owned and row.session != sender
        if lost and kind is not M.CLAIM_BLOCKED:
            raise Refused
        self.mail.append((task, sender, kind.value))
        if row and kind is M.HANDOFF and sender == CONDUCTOR_ROW:
            self.rows[task] = row._replace(life=None, gone=False)
        elif row and kind is M.COMPLETION:
            self.rows[task] = row._replace(reported=True, verdict=None)
        self.beat(sender)
        return 1

    def beat(self, session: str) -> int:
        """A sign of life; for how many rows."""
        mine = {t: r for t, r in self.rows.items() if r.session == session and r.life is not None}
        self.rows.update({t: r._replace(life=True) for t, r in mine.items()})
        return len(mine)

    def fall_silent(self, task: str) -> int:
        """Time goes by without a sign of life of the row's owner."""
        if task not in self.rows:
            return 0
        row = self.rows[task]
        self.rows[task] = row if row.life is None else row._replace(life=False)
        return 1

    def set_retries(self, task: str, number: int) -> int:
        """The retry count written by hand."""
        if task not in self.rows:
            return 0
        if not 0 <= number <= ERROR_RETRIES:
            raise Refused
        self.rows[task] = self.rows[task]._replace(retries=number)
        return 1

    def delete(self, task: str) -> int:
        """A row deleted by hand."""
        if task in self.rows and kind_of(task) is not Kind.FALLBACK:
            raise Refused
        return int(self.rows.pop(task, None) is not None)

    # What podium's commands do

    def me(self, session: str) -> str:
        """The id that a session goes by now."""
        later = [new for new, old in self.former.items() if old == session]
        return self.me(later[-1]) if later else session

    def _live(self, me: str) -> list[str]:
        mine = [t for t, r in self.rows.items() if r.session == me and r.state not in ENDED]
        return [t for t in mine if kind_of(t) is Kind.TASK]

    def _conducts(self, session: str | None) -> str:
        """The name of a caller that may conduct."""
        me = session and self.me(session)
        if me and (CONDUCTOR_ROW not in self.rows or self.rows[CONDUCTOR_ROW].session != me):
            raise Refused
        return me or OPERATOR

    def _own(self, session: str, task: str) -> str:
        me = self.me(session)
        if task not in self.rows or self.rows[task].session != me:
            raise Refused
        return me

    def _move(self, task: str, to: State, role: Role, actor: str) -> None:
        if task not in self.rows or not self.may(task, to, role):
            raise Refused
        self.update(task, to, actor=actor)

    def add(self, session: str | None, task: str, need: str | None) -> None:
        """`conductor add`."""
        actor = self._conducts(session)
        if need is not None and need not in {*self.rows, task}:
            raise Refused
        self.insert(task, FIRST[Kind.TASK], actor=actor)
        self.needs[task] = (need,) if need else ()
        self.send(task, CONDUCTOR_ROW, M.INSTRUCTION)

    def claim(self, session: str, task: str) -> str:
        """`musician claim`: done, or blocked with the fallback row."""
        me, row = self.me(session), self.rows.get(task)
        podium = self.rows.get(CONDUCTOR_ROW)
        if row is None or (podium and podium.session == me):
            raise Refused
        if any(live != task for live in self._live(me)):
            raise Refused
        if row.session == me and row.life is not None:
            if row.state is S.EXIT_REQUESTED:
                raise Refused
            self._move(task, S.WORKING, Role.MUSICIAN, me)
            self.beat(me)
        elif row.state in CLAIMABLE[Kind.TASK] and self.update(task, S.WORKING, me, actor=me):
            self.rows[task] = self.rows[task]._replace(retries=0)
        else:
            if FALLBACK_PREFIX + me not in self.rows:
                self.insert(FALLBACK_PREFIX + me, S.EXITED, me)
            self.send(task, me, M.CLAIM_BLOCKED)
            return "blocked"
        self.known.setdefault(me, False)
        return "done"

    def play(self, session: str, task: str, to: State, kind: MessageType) -> None:
        """`musician submit`, finish, exit, error, warn."""
        me = self._own(session, task)
        counted, row = kind is M.ERROR, self.rows[task]
        if row.state is S.FIX_PROPOSED and row.life is None:
            raise Refused  # it has let go of it
        if counted and self.rows[task].retries >= ERROR_RETRIES:
            raise Refused
        self.send(task, me, kind)
        self._move(task, to, Role.MUSICIAN, me)
        row = self.rows[task]
        gone = row.gone and to is not S.ERROR  # last_error tells of the error now
        self.rows[task] = row._replace(retries=row.retries + counted, gone=gone)
        self.known.setdefault(me, False)

    def tell(self, session: str, task: str) -> None:
        """`musician resume`: a message that moves nothing."""
        me = self._own(session, task)
        self.send(task, me, M.RESUMPTION_STATUS)
        self.known.setdefault(me, False)

    def complete(self, session: str, task: str) -> None:
        """`musician complete`."""
        me = self._own(session, task)
        row = self.rows[task]
        if not row.reported or row.verdict is not S.REVIEW_APPROVED:
            raise Refused
        self._move(task, S.COMPLETE, Role.MUSICIAN, me)

    def judge(self, session: str | None, task: str, to: State, kind: MessageType) -> None:
        """`conductor approve`, reject, fix, recall, abandon."""
        actor = self._conducts(session)
        if task not in self.rows:
            raise Refused
        self.send(task, CONDUCTOR_ROW, kind)
        self._move(task, to, Role.CONDUCTOR, actor)
        if self.rows[CONDUCTOR_ROW].state is S.REVIEWING:
            self._move(CONDUCTOR_ROW, S.WATCHING, Role.CONDUCTOR, actor)

    def review(self, session: str | None, task: str) -> None:
        """`conductor review`."""
        actor = self._conducts(session)
        if task not in self.rows:
            raise Refused
        if self.rows[CONDUCTOR_ROW].state is S.WATCHING:
            self._move(CONDUCTOR_ROW, S.REVIEWING, Role.CONDUCTOR, actor)

    def hand_off(self, session: str | None, task: str) -> None:
        """`conductor handoff`."""
        actor, row = self._conducts(session), self.rows.get(task)
        if row is None or row.state is S.COMPLETE or not row.claims:
            raise Refused
        if row.state not in ENDED and row.life:
            raise Refused
        self.send(task, CONDUCTOR_ROW, M.HANDOFF)
        self._move(task, S.FIX_PROPOSED, Role.CONDUCTOR, actor)

    def broadcast(self, session: str | None) -> None:
        """`conductor broadcast`."""
        self._conducts(session)
        for task, row in sorted(self.rows.items()):
            if kind_of(task) is Kind.TASK and row.state not in ENDED and row.life is not None:
                self.send(task, CONDUCTOR_ROW, M.EMERGENCY)

    def conduct(self, session: str) -> None:
        """`conductor start`."""
        me, podium = self.me(session), self.rows[CONDUCTOR_ROW]
        if self._live(me) or podium.state is S.COMPLETE:
            raise Refused
        if podium.session == me and podium.life is not None:
            return
        if podium.session == me and podium.state is S.WATCHING:  # it comes back from the dead
            self.rows[CONDUCTOR_ROW] = podium._replace(life=True, gone=False, name="conductor")
        elif not self.update(CONDUCTOR_ROW, S.WATCHING, me, actor=me, name="conductor"):
            raise Refused
        self.known.setdefault(me, False)

    def finish(self, session: str | None) -> None:
        """`conductor finish`."""
        actor = self._conducts(session)
        if any(kind_of(t) is Kind.TASK and r.state not in ENDED for t, r in self.rows.items()):
            raise Refused
        self._move(CONDUCTOR_ROW, S.COMPLETE, Role.CONDUCTOR, actor)

    def rest(self, session: str | None) -> None:
        """`conductor rest`."""
        self._move(CONDUCTOR_ROW, S.EXIT_REQUESTED, Role.CONDUCTOR, self._conducts(session))

    # What becomes of sessions

    def start(self, session: str) -> None:
        """A session starts, or comes back: it is the living owner of what it had not let go."""
        self.known[session] = False
        self.started.add(session)
        for task, row in self.rows.items():
            if row.session == session and (row.gone or row.life is not None):
                self.rows[task] = row._replace(life=True, gone=False)

    def clear(self, session: str, new: str) -> None:
        """/clear: the same session under a new id."""
        if session not in self.started:
            raise Refused
        self.former[new] = session
        for task, row in sorted(self.rows.items()):
            if row.session == session:
                self.update(task, session=new, actor=new)
        self.start(new)

    def live(self, session: str) -> int:
        """The client's process gives a sign of life."""
        rows = self.beat(session)
        if rows:
            self.known.setdefault(session, False)
        return rows

    def die(self, session: str) -> int:
        """Its process ended, and somebody noticed; how many rows it leaves behind."""
        if self.known.get(session, True):
            return 0
        self.known[session] = True
        left = {t: r for t, r in self.rows.items() if r.session == session and r.life is not None}
        self.rows.update({t: r._replace(life=None, gone=True) for t, r in left.items()})
        return len(left)
