"""Refusals. Each says what was found, what was wanted and what to type next, in one line."""

from __future__ import annotations

from .states import CONDUCTOR_ROW, Role, State, kind_of, moves_from

REFUSED, USAGE, NOT_SET_UP, NOTHING_CAME, OTHER_SIDE_STALE = 1, 2, 3, 4, 5


class PodiumError(Exception):
    """Something podium will not or cannot do. `exit_code` is the command line's answer."""

    exit_code = REFUSED


class WrongUsage(PodiumError):
    """An argument that can never be right."""

    exit_code = USAGE


class NotSetUp(PodiumError):
    """There is no usable database."""

    exit_code = NOT_SET_UP


class StoreBusy(PodiumError):
    """Another process kept the database locked for too long. Nothing was written."""


class StoreBroken(PodiumError):
    """The database is there and cannot be used: corrupt, read-only, full. Nothing was written."""

    exit_code = NOT_SET_UP


class RuleRefused(PodiumError):
    """The database itself refused a write that breaks the protocol."""


class TaskNotFound(PodiumError):
    """No row has this id."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        run = "init" if task_id == CONDUCTOR_ROW else "status"
        super().__init__(f"there is no {task_id}; run: podium {run}")


class MoveRefused(PodiumError):
    """The row is not in a state that this move may leave."""

    def __init__(self, task_id: str, found: State, to: State, role: Role) -> None:
        self.task_id, self.found, self.to = task_id, found, to
        ends = moves_from(kind_of(task_id), found, role)
        may = f"a {role.value} may make it {', '.join(ends)}" if ends else "it stays there"
        super().__init__(
            f"{task_id} is {found.value}, so it cannot become {to.value} ({may}); "
            f"run: podium why {task_id}"
        )


class NotOwner(PodiumError):
    """The session does not own the row that it wants to write."""


class TakenOver(NotOwner):
    """The session owned the row once; a successor owns it now."""

    def __init__(self, task_id: str, successor: str | None, session_id: str | None) -> None:
        self.task_id = task_id
        by = f"{successor or 'another session'} (session {session_id})"
        super().__init__(
            f"{task_id} was taken over by {by}, so nothing of yours is written any more; "
            "end your turn"
        )


class ClaimBlocked(PodiumError):
    """The row could not be claimed; a fallback row lets the session end."""


class WrongRole(PodiumError):
    """A musician's session used a conductor's verb, or the other way round."""

    def __init__(self, wanted: Role, owns: str) -> None:
        self.wanted = wanted
        verb = "conductor" if wanted is Role.CONDUCTOR else "musician"
        how = (
            f"only the session that owns {CONDUCTOR_ROW} or a person without a session may"
            if wanted is Role.CONDUCTOR
            else "only a session that claimed a task may"
        )
        super().__init__(f"podium {verb} … refused: {owns}; {how}; run: podium status")
