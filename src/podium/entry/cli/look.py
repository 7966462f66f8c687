"""podium status, messages, why: looking without touching."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from podium.domain.advice import advice
from podium.domain.errors import PodiumError
from podium.domain.quotes import marked
from podium.domain.records import Message, Session, Task
from podium.domain.rules import age, check_task_id, preset_name
from podium.domain.states import CONDUCTOR_ROW, ENDED, Kind, MessageType, State, kind_of
from podium.services import gate, overview, tasks

from .app import App, clean, verb

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = 8
COLOURS = {
    State.ERROR: "red",
    State.REVIEW_FAILED: "red",
    State.NEEDS_REVIEW: "yellow",
    State.FIX_PROPOSED: "yellow",
    State.EXIT_REQUESTED: "magenta",
    State.EXITED: "magenta",
    State.COMPLETE: "green",
    State.REVIEW_APPROVED: "green",
    State.WORKING: "cyan",
    State.REVIEWING: "cyan",
}


@click.group("look")
def group() -> None:
    """Looking."""


def _facts(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "state": task.state.value,
        "phase": task.phase,
        "parallel": bool(task.parallel),
        "session_id": task.session_id,
        "worked_by": task.worked_by,
        "retry_count": task.retry_count,
        "last_heartbeat": task.last_heartbeat,
        "seconds_since_life": task.owner_age,
        "stale": tasks.is_stale(task),
        "last_error": task.last_error,
        "instruction_path": task.instruction_path,
        "report_path": task.report_path,
    }


def _status_lines(
    rows: list[Task], items: list[overview.Item], width: int, most: int
) -> Iterator[str]:
    """Warnings on top, then the rows by phase, cut to the width of the screen."""
    colour = sys.stdout.isatty()
    ended = sum(t.state in ENDED for t in rows if kind_of(t.task_id) is Kind.TASK)
    count = sum(kind_of(t.task_id) is Kind.TASK for t in rows)
    urgent = overview.urgent(items)
    yield f"{ended} of {count} tasks ended" + (
        f"; the conductor is needed ({len(urgent)}): podium conductor next" if urgent else ""
    )
    live_first = sorted(rows, key=lambda t: t.state in ENDED and t.task_id != CONDUCTOR_ROW)
    for task in live_first[:most]:
        who = task.worked_by or ("nobody" if task.task_id != CONDUCTOR_ROW else "conductor")
        life = "" if task.owner_age is None else "stale" if tasks.is_stale(task) else "seen"
        note = task.last_error if task.state is State.ERROR and task.last_error else ""
        line = f"{task.task_id:<13}{task.state.value:<17}{life:<6}"
        line += f"{age(task.owner_age):<8}phase {task.phase:<4}{who}  {' '.join(note.split())}"
        line = clean(line)[:width].rstrip()
        yield click.style(line, fg=COLOURS.get(task.state)) if colour else line
    if len(rows) > most:
        yield f"{len(rows) - most} more: podium status --all"


@verb(group, "status", "podium status")
@click.option("--all", "everything", is_flag=True, help="Show every row.")
@click.option("--watch", is_flag=True, help="Refresh in place until Ctrl-C.")
def status(app: App, everything: bool, watch: bool) -> None:
    """Show the tasks: states, signs of life, who plays them.

    With --watch, the screen to leave open: also work, context, mail, and who waits for whom.
    """
    if watch and not app.as_json:
        from . import night

        night.watch(app)
        return
    rows, items = tasks.every(app.store), overview.attention(app.store)
    facts = {"tasks": [_facts(t) for t in rows], "attention": [i.facts() for i in items]}
    if app.as_json:
        app.show(facts, "")
        return
    width = shutil.get_terminal_size().columns
    for line in _status_lines(rows, items, width, len(rows) if everything else SHOWN):
        click.echo(line)


@verb(group, "messages", "podium messages task-03")
@click.argument("task_id", metavar="[TASK]", required=False)
@click.option("--id", "number", type=click.IntRange(1, 2**63 - 1), help="One message, whole.")
@click.option(
    "--type", "kind", type=click.Choice([m.value for m in MessageType]), help="Only these."
)
@click.option("--all", "everything", is_flag=True, help="Every message, whole.")
def messages(
    app: App, task_id: str | None, number: int | None, kind: str | None, everything: bool
) -> None:
    """Show the mail, oldest first: of one task or of all, one line each."""
    if number is not None:
        row = app.store.one("message", id=number)
        if row is None:
            raise PodiumError(f"there is no message {number}; run: podium messages")
        found = [Message(row)]
    else:
        if task_id is not None:
            tasks.get(app.store, check_task_id(task_id))
        most = 1_000_000 if everything or app.as_json else SHOWN
        rows = app.store.all("messages", task_id=task_id, message_type=kind, most=most)
        found = [Message(row) for row in rows]
    whole = everything or number is not None
    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for m in found:
        head = f"{m.id:>5} {m.timestamp[5:16]} {m.task_id:<12} {m.message_type:<17}"
        lines += (
            [head, *marked(m.message)]
            if whole
            else [clean(head + " ".join(m.message[:400].split()))[:width]]
        )
    app.show({"messages": [vars(m) for m in found]}, lines or ["No messages."])


@verb(group, "why", "podium why task-03")
@click.argument("task_id", metavar="TASK")
def why(app: App, task_id: str) -> None:
    """Say why a task's session is held or was let go, and what to type next."""
    task = tasks.get(app.store, check_task_id(task_id))
    row = app.store.one("session", session_id=task.session_id) if task.session_id else None
    session = Session(row) if row else None
    events = tasks.history(app.store, task_id, 3)
    preset = gate.override(app.settings.section("presets"))[0][preset_name(task_id)]
    held = task.session_id is not None and task.state not in preset.may_stop
    stops = ", ".join(s.value for s in preset.may_stop)
    unmet = app.store.all("unmet_needs", task_id=task_id, complete=State.COMPLETE.value)
    lines = [
        f"{task_id} is {task.state.value}"
        + (
            f", owned by {task.worked_by} (session {task.session_id})"
            if task.session_id
            else ", owned by nobody"
        )
        + (f", last sign of life {age(task.owner_age)} ago" if task.owner_age is not None else ""),
        *(f"{e.at} {e.from_state or '(new)'} → {e.to_state} by {e.who}" for e in events),
        f"Its session {'is held' if held else 'may stop'}: it may stop in {stops}.",
    ]
    if session and session.last_stop:
        lines.append(
            f"Last stop {session.last_stop_at}: {session.last_stop} "
            f"({session.continuations} of {preset.iterations} continuations)"
        )
    if unmet:
        lines.append(f"It needs {', '.join(str(r['needs']) for r in unmet)} to be complete.")
    lines.append(f"Next: {advice(task_id, task.state, task.instruction_path)}")
    app.show(
        {
            **_facts(task),
            "held": held,
            "may_stop": [s.value for s in preset.may_stop],
            "continuations": session.continuations if session else 0,
            "last_stop": session and session.last_stop,
            "needs": [r["needs"] for r in unmet],
            "events": [vars(e) for e in events],
        },
        lines,
    )
