"""podium validate, temp, headroom: a musician's three checks. They only look."""

from __future__ import annotations

import os

import click

from podium.domain.errors import NotSetUp, StoreBroken
from podium.domain.rules import check_task_id
from podium.services import checks, context
from podium.services.scratch import Scratch

from .app import App, verb

CODES = "Exit codes: 0 {0}, 1 {1}, 2 {2}, 3 not set up."


@click.group("checks")
def group() -> None:
    """The checks of a musician's row, files and context."""


def _answer(app: App, report: checks.Report) -> None:
    app.show(report.facts, report.lines)
    click.get_current_context().exit(report.exit_code)


@verb(
    group,
    "validate",
    "podium validate task-03",
    CODES.format("healthy", "issues found, or no task or database", "wrong usage"),
)
@click.argument("task_id", metavar="TASK")
@click.argument("session_id", metavar="[SESSION]", required=False)
def validate(app: App, task_id: str, session_id: str | None) -> None:
    """Check a task's row: owner, sign of life, state, retries, unread mail, fallback rows.

    With SESSION, also whether that session owns the task.
    """
    try:
        report = checks.validate(app.store, check_task_id(task_id), session_id or None)
    except NotSetUp:
        path = app.settings.database
        if "://" in path or os.path.exists(path):
            raise
        report = checks.no_database(task_id, path)
    _answer(app, report)


@verb(
    group,
    "temp",
    "podium temp task-03",
    CODES.format("all there", "required files missing", "wrong usage"),
)
@click.argument("task_id", metavar="TASK")
def temp(app: App, task_id: str) -> None:
    """Check a task's scratch files: status log, deviations, HANDOFF."""
    _answer(app, checks.temp_files(Scratch(app.settings.path("temp")), task_id))


@verb(
    group,
    "headroom",
    "podium headroom task-03",
    CODES.format("healthy", "caution, or nothing to judge by", "critical or wrong usage"),
)
@click.argument("task_id", metavar="TASK")
def headroom(app: App, task_id: str) -> None:
    """Estimate the context a task's session has left: measured, logged, per agent, by steps."""
    usage = _measured(app, check_task_id(task_id))
    _answer(app, checks.headroom(Scratch(app.settings.path("temp")), task_id, usage))


def _measured(app: App, task_id: str) -> context.Usage | None:
    """The context of the task's session, if its transcript can be found."""
    window = app.settings.section("context").get("window")
    try:
        row = app.store.one("task", task_id=task_id)
    except (NotSetUp, StoreBroken):
        return None  # the log alone can be judged
    owner = row["session_id"] if row else None
    return context.of_session(app.store, owner, window if isinstance(window, int) else None)
