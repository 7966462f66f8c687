"""Limits, and the questions that need nothing but a row."""

from __future__ import annotations

import re

from .errors import MoveRefused, WrongUsage
from .states import Kind, Role, State, kind_of, moves_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .records import Task

# Seconds.
BEAT_EVERY = 60
STALE_AFTER = 540
WAIT_AT_MOST = 900

ERROR_RETRIES = 5
SMOOTHNESS = range(10)
APPROVE_UP_TO, LOOK_CLOSER_AT, REVISE_UP_TO = 4, 5, 7

# Percent of the context window.
ESTIMATE_ABOVE, PREPARE_AT, LEAVE_AT, DIRTY_ABOVE = 50, 65, 75, 80
AGENT_COST = 8  # what one subagent takes, until the session's own figures say otherwise
SELF_CORRECTION_FACTOR = 6

MEDIUM_DEVIATIONS, HIGH_DEVIATIONS = 2, 1

TASK_ID = re.compile(r"task-[0-9]{2,3}(-fix[0-9]{0,3})?\Z")


def check_task_id(task_id: str) -> str:
    """The id itself; refuses what could not be a task, or would be a path."""
    if not TASK_ID.match(task_id):
        shown = task_id if len(task_id) <= 40 else task_id[:40] + "…"
        raise WrongUsage(
            f"{shown!r} is not a task id; wanted task-03, task-103 or task-03-fix; "
            "run: podium status"
        )
    return task_id


def check_move(task: Task, to: State, role: Role) -> None:
    """Nothing, or MoveRefused naming where the row is and what this role may do from there."""
    if to is not task.state and to not in moves_from(kind_of(task.task_id), task.state, role):
        raise MoveRefused(task.task_id, task.state, to, role)


def wants_escalation(severities: Iterable[str]) -> bool:
    """Whether the deviations logged so far must go to the conductor."""
    seen = list(severities)
    return seen.count("medium") >= MEDIUM_DEVIATIONS or seen.count("high") >= HIGH_DEVIATIONS


def age(seconds: int | None) -> str:
    """A duration as a person says it."""
    if seconds is None:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(0, seconds)} s"


def successor_name(task_id: str, claims: int) -> str:
    """`worked_by` of the n-th session that takes the task."""
    return f"musician-{task_id}" + (f"-S{claims}" if claims > 1 else "")


class Preset:
    """When a session that owns such a row may stop, and what it is told when it may not."""

    def __init__(self, may_stop: tuple[State, ...], iterations: int, prompt: str) -> None:
        self.may_stop, self.iterations, self.prompt = may_stop, iterations, prompt


PRESETS = {
    "orchestration": Preset(
        (State.EXIT_REQUESTED, State.COMPLETE),
        1000,
        "You are the conductor of this run and {task} is {state}, so the session goes on.\n"
        "{advice}",
    ),
    "execution": Preset(
        (State.COMPLETE, State.EXITED),
        500,
        "You are the musician of {task} and it is {state}, so the session goes on.\n{advice}",
    ),
}


def preset_name(task_id: str) -> str:
    """The preset that guards this row."""
    return "orchestration" if kind_of(task_id) is Kind.CONDUCTOR else "execution"
