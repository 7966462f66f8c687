"""Who speaks, and what it may touch."""

from __future__ import annotations

from podium.domain.errors import NotOwner, TakenOver, TaskNotFound, WrongRole
from podium.domain.records import Task
from podium.domain.states import CONDUCTOR_ROW, ENDED, Kind, Role, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from podium.store.base import Store

OPERATOR = "operator"


class Caller:
    """A session with the rows it owns; without an id, a person at a terminal."""

    def __init__(self, session_id: str | None, rows: list[Task]) -> None:
        self.session_id, self.rows = session_id, rows

    @property
    def is_conductor(self) -> bool:
        """Whether it may use the conductor's verbs."""
        return self.session_id is None or any(t.task_id == CONDUCTOR_ROW for t in self.rows)

    @property
    def actor(self) -> str:
        """Its name in the event log."""
        return self.session_id or OPERATOR

    @property
    def live(self) -> list[Task]:
        """The tasks it still plays."""
        return [t for t in self.rows if kind_of(t.task_id) is Kind.TASK and t.state not in ENDED]

    def owns(self) -> str:
        """What it owns, for a refusal."""
        if self.session_id is None:
            return "no session id is set (pass --session ID)"
        names = ", ".join(t.task_id for t in self.rows) or "nothing"
        return f"session {self.session_id} owns {names}"


def identify(store: Store, session_id: str | None) -> Caller:
    """The caller behind an id; an id from before /clear is the session it became."""
    if session_id is None:
        return Caller(None, [])
    seen = {session_id}
    while True:
        later = store.one("continued_by", session_id=session_id)
        if later is None or later["session_id"] in seen:
            break
        session_id = str(later["session_id"])
        seen.add(session_id)
    rows = [Task(row) for row in store.all("tasks_of_session", session_id=session_id)]
    return Caller(session_id, rows)


def require_conductor(caller: Caller) -> Caller:
    """The caller, if it may conduct: the owner of task-00 or a person."""
    if not caller.is_conductor:
        raise WrongRole(Role.CONDUCTOR, caller.owns())
    return caller


def still_conducts(store: Store, caller: Caller) -> None:
    """Nothing, or who took the podium over since the caller was identified. In the transaction."""
    if caller.session_id is None:
        return
    row = store.one("task", task_id=CONDUCTOR_ROW) or {}
    if row.get("session_id") != caller.session_id:
        raise TakenOver(CONDUCTOR_ROW, row.get("worked_by"), row.get("session_id"))


def require_session(caller: Caller) -> str:
    """The caller's session id; a person has none and cannot play."""
    if caller.session_id is None:
        raise WrongRole(Role.MUSICIAN, caller.owns())
    return caller.session_id


def own_task(store: Store, caller: Caller, task_id: str | None = None) -> Task:
    """The task that this musician plays; refuses another's, and names who took over."""
    session_id = require_session(caller)
    if task_id is None:
        mine = caller.live or [t for t in caller.rows if kind_of(t.task_id) is Kind.TASK]
        if len(mine) == 1 or (mine and not caller.live):
            return mine[-1]
        if mine:
            names = ", ".join(t.task_id for t in mine)
            raise NotOwner(f"this session plays {names}; say which: --task {mine[0].task_id}")
        lost = store.one("lost_task", session_id=session_id)
        if lost is None:
            raise NotOwner(f"session {session_id} owns no task; run: podium musician claim TASK")
        task_id = str(lost["task_id"])
    row = store.one("task", task_id=task_id)
    if row is None:
        raise TaskNotFound(task_id)
    task = Task(row)
    if task.session_id == session_id:
        return task
    if store.one("former_owner", task_id=task_id, session_id=session_id):
        raise TakenOver(task_id, task.worked_by, task.session_id)
    owner = f"session {task.session_id}" if task.session_id else "nobody"
    raise NotOwner(f"{task_id} belongs to {owner}, and {caller.owns()}; run: podium status")
