"""Who may write what by raw SQL: a session its own row and in its own name, the conductor more."""

from __future__ import annotations

from .errors import MoveRefused, NotOwner
from .rules import check_task_id
from .states import (
    CONDUCTOR_ROW,
    ENDED,
    FALLBACK_PREFIX,
    Kind,
    MessageType,
    Role,
    State,
    kind_of,
    moves_from,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

M = MessageType
SHOWN = 80  # characters of somebody's value in a refusal
CONDUCTORS_MAIL = frozenset({M.APPROVAL, M.REJECTION, M.FIX_PROPOSAL, M.EMERGENCY})


class NotYours(NotOwner):
    """Another session owns the row. `task_id` tells whether it was the caller's once."""

    def __init__(self, task_id: str, text: str) -> None:
        self.task_id = task_id
        super().__init__(text)


class Row:
    """What of a task's row decides who may write it."""

    def __init__(self, state: str, session_id: str | None, worked_by: str | None = None) -> None:
        self.state, self.session_id, self.worked_by = State(state), session_id, worked_by


class Caller:
    """A session, or without an id the operator, and the states of the rows it owns."""

    def __init__(self, session_id: str | None, rows: Mapping[str, State]) -> None:
        self.session_id, self.rows = session_id, rows
        self.conducts = session_id is None or CONDUCTOR_ROW in rows
        self.plays = any(
            kind_of(task) is Kind.TASK and state not in ENDED for task, state in rows.items()
        )
        self.name = f"session {session_id}" if session_id else "a person without a session"


def check_insert(caller: Caller, task_id: str, new: Row) -> None:
    """Nothing, or why this caller may not add the row."""
    if kind_of(task_id) is Kind.FALLBACK:
        if caller.session_id is None or task_id != FALLBACK_PREFIX + caller.session_id:
            raise NotOwner(
                f"{task_id} is not the fallback row of {caller.name}; "
                f"a blocked session adds {FALLBACK_PREFIX}{caller.session_id or 'ID'} for itself"
            )
        if new.session_id != caller.session_id:
            raise _not_in_this_name(caller, task_id, new)
        return
    if not caller.conducts:
        raise NotYours(
            CONDUCTOR_ROW,
            f"only the conductor adds tasks, and this is {caller.name}; "
            f"ask it with a message to {CONDUCTOR_ROW}",
        )
    if kind_of(task_id) is Kind.TASK:
        check_task_id(task_id)
    if new.session_id not in (None, caller.session_id):
        raise _not_in_this_name(caller, task_id, new)


def check_update(caller: Caller, task_id: str, old: Row, new: Row) -> None:
    """Nothing, or why this caller may not make this change."""
    if new.session_id != old.session_id:
        _check_claim(caller, task_id, new)
        return
    roles = _roles(caller, task_id, old)
    if new.state is old.state:
        return
    kind = kind_of(task_id)
    if not any(new.state in moves_from(kind, old.state, role) for role in roles):
        raise MoveRefused(task_id, old.state, new.state, roles[0])


def check_delete(caller: Caller, task_id: str, old: Row) -> None:
    """Nothing, or why this caller may not delete the row; only fallback rows ever get here."""
    _roles(caller, task_id, old)


def check_mail(caller: Caller, task_id: str, sender: str, message_type: str) -> None:
    """Nothing, or why this caller may not send this message."""
    if sender == CONDUCTOR_ROW and not caller.conducts:
        raise NotYours(
            CONDUCTOR_ROW,
            f"only the conductor speaks as {CONDUCTOR_ROW}, and this is {caller.name}; "
            f"set from_session to {caller.session_id}",
        )
    if sender not in (CONDUCTOR_ROW, caller.session_id):
        raise not_the_sender(caller)
    if caller.conducts or message_type == M.CLAIM_BLOCKED.value:
        return
    if message_type in {kind.value for kind in CONDUCTORS_MAIL}:
        raise NotYours(
            CONDUCTOR_ROW,
            f"only the conductor sends {message_type}; send review_request, completion or error",
        )
    if task_id not in caller.rows or kind_of(task_id) is not Kind.TASK:
        raise NotYours(
            task_id,
            f"{caller.name} does not play {_short(task_id)}, so it sends no {message_type} for it; "
            "claim the task first, or run: podium status",
        )


def not_the_sender(caller: Caller) -> NotOwner:
    """The refusal of mail in another's name."""
    return NotOwner(
        f"from_session names another, but this is {caller.name}; nobody speaks for another: "
        f"set it to {caller.session_id or CONDUCTOR_ROW}"
    )


def _check_claim(caller: Caller, task_id: str, new: Row) -> None:
    if caller.session_id is None or new.session_id != caller.session_id:
        raise _not_in_this_name(caller, task_id, new)
    if task_id == CONDUCTOR_ROW and caller.plays:
        raise NotOwner(
            f"{caller.name} plays a task, so it cannot conduct too; "
            "start a session of its own for: podium conductor start"
        )


def _roles(caller: Caller, task_id: str, old: Row) -> list[Role]:
    """In what roles the caller may write this row."""
    owns = caller.session_id is not None and old.session_id == caller.session_id
    conducts = caller.conducts or (owns and task_id == CONDUCTOR_ROW)
    roles = [Role.MUSICIAN] * (owns and task_id != CONDUCTOR_ROW) + [Role.CONDUCTOR] * conducts
    if roles:
        return roles
    if old.session_id is None:
        take = "conductor start" if task_id == CONDUCTOR_ROW else f"musician claim {task_id}"
        raise NotYours(task_id, f"nobody owns {task_id}; take it first: podium {take}")
    raise NotYours(
        task_id,
        f"{task_id} belongs to {old.worked_by or 'another'} (session {old.session_id}), "
        f"and this is {caller.name}; write your own rows only; to see them, run: podium status",
    )


def _not_in_this_name(caller: Caller, task_id: str, new: Row) -> NotOwner:
    own = caller.session_id
    return NotOwner(
        f"{task_id} cannot be given to session {_short(str(new.session_id))}, as this is "
        f"{caller.name}; "
        + (
            f"claim it for yourself: set session_id to {own}"
            if own
            else f"claim it from the session that shall play: podium musician claim {task_id}"
        )
    )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
