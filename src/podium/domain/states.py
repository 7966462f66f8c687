"""States, roles, moves and message types: the tables that everything else is generated from.

A move that is not in MOVES does not exist. The database's triggers, the checks of the command
line and the table in the documentation all come from here.
"""

from __future__ import annotations

from enum import Enum


class State(str, Enum):
    """The condition of a row."""

    WATCHING = "watching"  # a task that waits for a musician; a conductor on duty
    REVIEWING = "reviewing"  # the conductor reads a submission
    EXIT_REQUESTED = "exit_requested"  # a musician is asked to leave; a conductor rests
    COMPLETE = "complete"
    WORKING = "working"
    NEEDS_REVIEW = "needs_review"
    REVIEW_APPROVED = "review_approved"
    REVIEW_FAILED = "review_failed"
    ERROR = "error"
    FIX_PROPOSED = "fix_proposed"  # an answer to a living musician, or ready for a successor
    EXITED = "exited"


class Role(str, Enum):
    """Who makes a move."""

    MUSICIAN = "musician"
    CONDUCTOR = "conductor"


class Kind(str, Enum):
    """What a row is, told by its id alone."""

    CONDUCTOR = "conductor"
    TASK = "task"
    FALLBACK = "fallback"  # lets a session whose claim was blocked end in peace


CONDUCTOR_ROW = "task-00"
FALLBACK_PREFIX = "fallback-"


def kind_of(task_id: str) -> Kind:
    """The kind of row that this id names."""
    if task_id == CONDUCTOR_ROW:
        return Kind.CONDUCTOR
    return Kind.FALLBACK if task_id.startswith(FALLBACK_PREFIX) else Kind.TASK


S = State
FIRST = {Kind.CONDUCTOR: S.WATCHING, Kind.TASK: S.WATCHING, Kind.FALLBACK: S.EXITED}

# kind → from → who → where to. Staying in the same state is always allowed.
MOVES: dict[Kind, dict[State, dict[Role, tuple[State, ...]]]] = {
    Kind.CONDUCTOR: {
        S.WATCHING: {Role.CONDUCTOR: (S.REVIEWING, S.EXIT_REQUESTED, S.COMPLETE)},
        S.REVIEWING: {Role.CONDUCTOR: (S.WATCHING, S.EXIT_REQUESTED, S.COMPLETE)},
        S.EXIT_REQUESTED: {Role.CONDUCTOR: (S.WATCHING,)},
        S.COMPLETE: {},
    },
    Kind.TASK: {
        S.WATCHING: {
            Role.MUSICIAN: (S.WORKING,),
            Role.CONDUCTOR: (S.WATCHING, S.EXIT_REQUESTED, S.EXITED),
        },
        S.WORKING: {
            Role.MUSICIAN: (S.NEEDS_REVIEW, S.ERROR, S.COMPLETE, S.EXITED),
            Role.CONDUCTOR: (S.EXIT_REQUESTED, S.FIX_PROPOSED, S.EXITED),
        },
        S.NEEDS_REVIEW: {
            Role.MUSICIAN: (S.ERROR, S.EXITED),
            Role.CONDUCTOR: (
                *(S.REVIEW_APPROVED, S.REVIEW_FAILED, S.FIX_PROPOSED),
                *(S.EXIT_REQUESTED, S.EXITED),
            ),
        },
        S.REVIEW_APPROVED: {
            Role.MUSICIAN: (S.WORKING, S.NEEDS_REVIEW, S.ERROR, S.COMPLETE, S.EXITED),
            Role.CONDUCTOR: (S.EXIT_REQUESTED, S.FIX_PROPOSED, S.EXITED),
        },
        S.REVIEW_FAILED: {
            Role.MUSICIAN: (S.WORKING, S.NEEDS_REVIEW, S.ERROR, S.EXITED),
            Role.CONDUCTOR: (S.EXIT_REQUESTED, S.FIX_PROPOSED, S.EXITED),
        },
        S.ERROR: {
            Role.MUSICIAN: (S.EXITED,),
            Role.CONDUCTOR: (
                *(S.FIX_PROPOSED, S.REVIEW_APPROVED, S.REVIEW_FAILED),
                *(S.EXIT_REQUESTED, S.EXITED),
            ),
        },
        S.FIX_PROPOSED: {
            Role.MUSICIAN: (S.WORKING, S.NEEDS_REVIEW, S.ERROR, S.EXITED),
            Role.CONDUCTOR: (S.WATCHING, S.EXIT_REQUESTED, S.EXITED),
        },
        S.EXIT_REQUESTED: {
            Role.MUSICIAN: (S.WORKING, S.EXITED),
            Role.CONDUCTOR: (S.WATCHING, S.FIX_PROPOSED, S.EXITED),
        },
        # A musician never leaves `exited`; the conductor reopens it by handing off.
        S.EXITED: {Role.CONDUCTOR: (S.FIX_PROPOSED,)},
        # A correction is a new row, task-03-fix.
        S.COMPLETE: {},
    },
    Kind.FALLBACK: {S.EXITED: {}},
}

# Where a new owner may come from, and the state that taking the row puts it in.
CLAIMABLE = {
    Kind.TASK: (S.WATCHING, S.FIX_PROPOSED, S.EXIT_REQUESTED),
    Kind.CONDUCTOR: (S.WATCHING, S.REVIEWING, S.EXIT_REQUESTED),
}
CLAIMED = {Kind.TASK: S.WORKING, Kind.CONDUCTOR: S.WATCHING}

# A row in one of these needs nobody: its owner has let go of it.
RELEASED = {
    Kind.TASK: (S.COMPLETE, S.EXITED),
    Kind.CONDUCTOR: (S.EXIT_REQUESTED, S.COMPLETE),
    Kind.FALLBACK: (S.EXITED,),
}
ENDED = (S.COMPLETE, S.EXITED)

# States in which a musician waits for the conductor's word, and the conductor's words for it.
AWAITING = (S.NEEDS_REVIEW, S.ERROR)
VERDICTS = (S.REVIEW_APPROVED, S.REVIEW_FAILED, S.FIX_PROPOSED)

# States that only the owner of a task puts it in: a sign that the owner lives.
PLAYED = (S.WORKING, S.NEEDS_REVIEW, S.ERROR)


class MessageType(str, Enum):
    """What a message is; the first eight come from musicians or about tasks."""

    INSTRUCTION = "instruction"
    REVIEW_REQUEST = "review_request"
    COMPLETION = "completion"
    ERROR = "error"
    CONTEXT_WARNING = "context_warning"
    HANDOFF = "handoff"
    CLAIM_BLOCKED = "claim_blocked"
    RESUMPTION_STATUS = "resumption_status"
    APPROVAL = "approval"
    REJECTION = "rejection"
    FIX_PROPOSAL = "fix_proposal"
    EMERGENCY = "emergency"


def moves_from(kind: Kind, state: State, role: Role | None = None) -> tuple[State, ...]:
    """The states that this row may become, by one role or by anybody."""
    by_role = MOVES[kind].get(state, {})
    if role is not None:
        return by_role.get(role, ())
    return tuple(dict.fromkeys(to for ends in by_role.values() for to in ends))
