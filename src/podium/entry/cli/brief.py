"""podium brief: the truth that a skill begins with. It looks, and never refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from podium.domain.errors import PodiumError
from podium.domain.rules import STALE_AFTER, TASK_ID
from podium.domain.states import CLAIMABLE, CONDUCTOR_ROW, Kind, State
from podium.services import briefing, overview, tasks

from .app import App, verb

if TYPE_CHECKING:
    from podium.domain.records import Task

MOST = 10  # lines; a skill shows them at every invocation
NAMED = 5  # tasks that wait for a musician


@click.group("briefs")
def group() -> None:
    """Being told."""


@verb(
    group,
    "brief",
    "podium brief",
    "Exit code: always 0, also where podium is not set up; then the answer says what to run.",
)
@click.argument("task_id", metavar="[TASK]", required=False)
def brief(app: App, task_id: str | None) -> None:
    """Say who this session is: role, task, state, mail and next command, in ten lines.

    To a session that has no role yet it says which task waits for a musician, or how TASK stands;
    task-00 asks how to conduct.
    """
    # A failing command would make the client drop the skill that asked, without a word.
    try:
        lines = _lines(app, task_id if task_id and TASK_ID.match(task_id) else None)
    except PodiumError as refused:
        lines = [f"podium: {refused}"]
    if len(lines) > MOST:
        lines = [*lines[: MOST - 1], "More: podium status"]
    app.show({"session_id": app.session_id, "brief": lines}, lines)


def _lines(app: App, task_id: str | None) -> list[str]:
    session_id = app.caller.session_id
    if session_id is None:
        return ["podium: no session speaks here, so it has no role. Look around: podium status"]
    known = briefing.brief(app.store, session_id, remind=False).splitlines()
    has_role = app.caller.live or app.caller.is_conductor
    if known and (has_role or (task_id is None and not app.caller.rows)):
        return known
    if task_id is None:
        return [*known, *_any_task(app)]
    task = tasks.get(app.store, task_id)
    return [*known, *(_podium(task) if task_id == CONDUCTOR_ROW else _one_task(task))]


def _any_task(app: App) -> list[str]:
    items = overview.attention(app.store)
    free = [item.task_id for item in items if item.kind == overview.FREE][:NAMED]
    if not free:
        return ["podium: this session plays no task, and none waits for a musician: podium status"]
    which = free[0] if len(free) == 1 else "TASK, the one you were called for"
    return [
        f"podium: this session plays no task yet. Waiting for a musician: {', '.join(free)}.",
        f"Next: podium musician claim {which}",
    ]


def _one_task(task: Task) -> list[str]:
    by = f", last played by {task.worked_by}" if task.worked_by else ", played by nobody yet"
    head = f"podium: this session does not play {task.task_id}; it is {task.state.value}{by}."
    if task.state in CLAIMABLE[Kind.TASK] and not _is_alive(task):
        return [head, f"Next: podium musician claim {task.task_id}"]
    return [head, f"It cannot be claimed now. Next: podium why {task.task_id}"]


def _podium(task: Task) -> list[str]:
    if task.state is State.COMPLETE:
        return ["podium: this run is complete. For a new one: podium init --archive"]
    if task.state is not State.EXIT_REQUESTED and _is_alive(task):
        return [
            f"podium: session {task.session_id} conducts this run, seen {task.owner_age} s ago.",
            "Only one session conducts; that one lets go with: podium conductor rest",
        ]
    return [
        f"podium: nobody conducts this run; {task.task_id} is {task.state.value}.",
        "Next: podium conductor start",
    ]


def _is_alive(task: Task) -> bool:
    return task.owner_age is not None and task.owner_age < STALE_AFTER
