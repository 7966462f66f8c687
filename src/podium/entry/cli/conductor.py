"""podium conductor …: plan, review, answer, end. For the owner of task-00, or a person."""

from __future__ import annotations

import os
import shutil
import sys

import click

from podium.domain.advice import advice
from podium.domain.errors import PodiumError, WrongUsage
from podium.domain.quotes import excerpt
from podium.domain.rules import check_task_id
from podium.domain.states import CONDUCTOR_ROW, Kind, MessageType, State, kind_of
from podium.services import overview, plans, tasks
from podium.services.callers import require_conductor
from podium.services.forms import read_json

from .app import App, read_text, storable, verb

SHOWN = 9
COLOURS = {
    **dict.fromkeys(("error", "dead", "stale"), "red"),
    **dict.fromkeys(("review", "completion", "asking", "halted", "exit", "collision"), "yellow"),
    **dict.fromkeys(("ended", "free"), "green"),
}


@click.group("conductor")
def group() -> None:
    """Plan, review, answer, recover, finish."""


def task_argument(value: str) -> str:
    """A task's id, checked; the conductor's own row is not a task."""
    if kind_of(check_task_id(value)) is not Kind.TASK:
        raise WrongUsage(f"{value} is the conductor's own row, wanted a task; run: podium status")
    return value


text_option = click.option(
    "-m",
    "--message",
    "text",
    required=True,
    metavar="TEXT",
    help="The text; - reads standard input.",
)


@verb(group, "start", "podium conductor start")
def start(app: App) -> None:
    """Take task-00 for this session, or take it over from a conductor that rests or died.

    Refused while another conductor lives. Prints what a new conductor must know: the plan and its
    states, what waits for an answer, and the windows that run.
    """
    from podium.services import briefing, recovery
    from podium.stage import process

    caller = app.caller
    recovery.bury_dead(app.store, os.uname().nodename, process.is_alive)
    row = tasks.conduct(app.store, caller)
    app.arm(str(row.session_id))
    items = overview.attention(app.store)
    live = overview.counts(app.store)[1]
    windows = recovery.windows(app.store, process.is_alive)
    mail = briefing.mail_for(app.store, str(row.session_id), CONDUCTOR_ROW)
    shown = items[:SHOWN]
    app.show(
        {
            "task_id": row.task_id,
            "state": row.state.value,
            "session_id": row.session_id,
            "live": live,
            "attention": len(items),
            "items": [i.facts() for i in items],
            "unread": len(mail),
            "windows": [
                {"task_id": w.task_id, "backend": w.backend, "pid": w.pid, "reach": w.reach}
                for w in windows
            ],
        },
        [
            f"You are the conductor, session {row.session_id}; {row.task_id} is {row.state.value}.",
            *recovery.score(app.store),
            f"Live tasks: {live}. Things that need you: {len(items)}.",
            *(item.line() for item in shown),
            *(
                [f"{len(items) - len(shown)} more: podium conductor next --all"]
                if items[SHOWN:]
                else []
            ),
            f"Mail that you have not seen: {len(mail)}" + (" (podium messages)" if mail else ""),
            *(f"Window: {w.task_id} in {w.backend}, pid {w.pid}: {w.reach}" for w in windows),
            "Next: podium conductor next" if items or live else "Next: podium conductor plan FILE",
        ],
    )


@verb(group, "add", "podium conductor add task-03 --instructions docs/tasks/task-03.md --phase 2")
@click.argument("task_id", metavar="TASK")
@click.option("--instructions", required=True, metavar="PATH", help="The task's instruction file.")
@click.option("--phase", type=click.IntRange(1, 999), default=1, show_default=True)
@click.option("--parallel", is_flag=True, help="It may run beside the other tasks of its phase.")
@click.option("--after", multiple=True, metavar="TASK", help="What must be complete first.")
def add(
    app: App, task_id: str, instructions: str, phase: int, parallel: bool, after: tuple[str, ...]
) -> None:
    """Add one task: its row and its instruction message."""
    caller = require_conductor(app.caller)
    item = {
        "id": task_argument(task_id),
        "instructions": app.path(storable(instructions)),
        "phase": phase,
        "parallel": parallel,
        "after": [task_argument(need) for need in after],
    }
    number = tasks.add(
        app.store,
        caller,
        task_id,
        str(item["instructions"]),
        plans.letter(item),
        phase=phase,
        parallel=parallel,
        needs=after,
    )
    app.show(
        {"task_id": task_id, "state": State.WATCHING.value, "message_id": number},
        f"{task_id} added to phase {phase}. Next: podium conductor launch {task_id}",
    )


@verb(group, "plan", "podium conductor plan docs/plan.json")
@click.argument("file", metavar="FILE")
@click.option("--check", is_flag=True, help="Only check the plan; write nothing.")
def plan(app: App, file: str, check: bool) -> None:
    """Add many tasks from a JSON file (- is standard input): all of them, or all that is wrong.

    The file is {"tasks": [{"id", "instructions", "phase", "parallel", "after", "danger_files"}]}.
    """
    caller = require_conductor(app.caller)
    value = read_json(_read(app, file), file)
    existing = {t.task_id for t in tasks.every(app.store)}
    wrong = plans.wrong_with(value, app.settings.root, existing)
    if wrong:
        if app.as_json:
            app.show({"errors": wrong}, "")
            sys.exit(PodiumError.exit_code)
        raise PodiumError(
            f"{file} has {len(wrong)} faults, nothing was written: " + "; ".join(wrong)
        )
    added = (
        [item["id"] for item in value["tasks"]] if check else plans.write(app.store, caller, value)
    )
    app.show(
        {"added": [] if check else added, "checked": added},
        f"{len(added)} tasks {'are sound' if check else 'added'}: {', '.join(added[:20])}"
        + (" …" if len(added) > 20 else "")
        + ". Next: podium conductor next",
    )


def _read(app: App, file: str) -> str:
    if file == "-":
        return storable(sys.stdin.buffer.read().decode("utf-8", "replace"))
    try:
        with open(app.find(file), encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{file} cannot be read ({error}); give a JSON file") from error


@verb(group, "next", "podium conductor next")
@click.option("--all", "everything", is_flag=True, help="Show every item.")
def next_(app: App, everything: bool) -> None:
    """What needs attention: errors, reviews, completions, exits, collisions, stale sessions."""
    caller = require_conductor(app.caller)
    items = overview.attention(app.store)
    _, live, played = overview.counts(app.store)
    shown = items if everything else items[:SHOWN]
    lines = [item.line(shutil.get_terminal_size().columns) for item in shown]
    if len(items) > len(shown):
        lines.append(f"{len(items) - len(shown)} more: podium conductor next --all")
    if not items:
        lines = [
            f"Nothing needs you; {played} of {live} live tasks are being played. End your turn."
            if live
            else "There are no tasks yet. Next: podium conductor plan FILE"
        ]
    if caller.session_id is not None:
        overview.mark_told(app.store, caller.session_id, shown)
    app.show(
        {"items": [i.facts() for i in items], "live": live, "played": played},
        lines,
        colour=lambda line: COLOURS.get(line.split(" ", 1)[0]),
    )


@verb(group, "review", "podium conductor review task-03")
@click.argument("task_id", metavar="TASK")
def review(app: App, task_id: str) -> None:
    """Show a task's submission; task-00 is reviewing until the verdict."""
    caller = require_conductor(app.caller)
    task = tasks.review(app.store, caller, task_argument(task_id))
    letter = overview.submission(app.store, task_id)
    app.show(
        {
            "task_id": task_id,
            "state": task.state.value,
            "worked_by": task.worked_by,
            "retry_count": task.retry_count,
            "message_id": letter and letter.id,
            "message": letter and letter.message,
        },
        [
            f"{task_id} is {task.state.value}, played by {task.worked_by or 'nobody'}",
            *(
                excerpt(letter.message, f"podium messages {task_id} --id {letter.id}")
                if letter
                else ["It has submitted nothing."]
            ),
            f"Next: podium conductor approve|reject|fix {task_id} -m TEXT",
        ],
    )


VERDICTS = {
    "approve": (
        State.REVIEW_APPROVED,
        MessageType.APPROVAL,
        "Approve a submission; the musician goes on with the next step.",
        "podium conductor approve task-03 -m 'Good. Go on with step 4.'",
    ),
    "reject": (
        State.REVIEW_FAILED,
        MessageType.REJECTION,
        "Reject a submission; the musician changes what the text asks for and submits again.",
        "podium conductor reject task-03 -m 'The empty input is not tested.'",
    ),
    "fix": (
        State.FIX_PROPOSED,
        MessageType.FIX_PROPOSAL,
        "Propose a fix or a change of scope; the musician applies it.",
        "podium conductor fix task-03 -m 'Read the file as UTF-8.'",
    ),
    "recall": (
        State.EXIT_REQUESTED,
        MessageType.EMERGENCY,
        "Ask the musician to write its HANDOFF and leave.",
        "podium conductor recall task-03 -m 'The plan changed.'",
    ),
    "abandon": (
        State.EXITED,
        MessageType.EMERGENCY,
        "Give a task up; nothing waits for it any more.",
        "podium conductor abandon task-03 -m 'Covered by task-05.'",
    ),
}


def _verdict(name: str) -> None:
    to, kind, what, example = VERDICTS[name]
    option = (
        text_option
        if name != "recall"
        else click.option(
            "-m",
            "--message",
            "text",
            default="the conductor asks you to hand over and leave.",
            metavar="TEXT",
            help="The text; - reads standard input.",
        )
    )

    @verb(group, name, example)
    @click.argument("task_id", metavar="TASK")
    @option
    def command(app: App, task_id: str, text: str) -> None:
        caller = require_conductor(app.caller)
        number = tasks.judge(app.store, caller, task_argument(task_id), to, kind, read_text(text))
        app.show(
            {"task_id": task_id, "state": to.value, "message_id": number},
            f"{task_id} is {to.value}. Next: podium conductor next",
        )

    group.commands[name].help = what


for _name in VERDICTS:
    _verdict(_name)


@verb(group, "broadcast", "podium conductor broadcast -m 'The API key moved to the vault.'")
@text_option
def broadcast(app: App, text: str) -> None:
    """Send one emergency message to every task that somebody plays."""
    caller = require_conductor(app.caller)
    told = tasks.broadcast(app.store, caller, read_text(text))
    app.show({"told": told}, f"Told {len(told)} tasks: {', '.join(told) or 'none is being played'}")


@verb(group, "finish", "podium conductor finish")
def finish(app: App) -> None:
    """End the run: task-00 is complete. Refused while any task is live."""
    tasks.finish(app.store, require_conductor(app.caller))
    app.show(
        {"task_id": CONDUCTOR_ROW, "state": State.COMPLETE.value},
        advice(CONDUCTOR_ROW, State.COMPLETE),
    )


@verb(group, "rest", "podium conductor rest")
def rest(app: App) -> None:
    """Leave the run to another session: task-00 is exit_requested, this session may end."""
    tasks.rest(app.store, require_conductor(app.caller))
    app.show(
        {"task_id": CONDUCTOR_ROW, "state": State.EXIT_REQUESTED.value},
        "task-00 is exit_requested; this session may end. Take over with: podium conductor start",
    )


from . import stage as _stage  # noqa: E402, F401  # launch, replace, close … join this group
