"""podium musician …: claim, log, submit, finish, leave. For the session that plays the task."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable

import click

from podium.domain.advice import advice
from podium.domain.errors import PodiumError, WrongUsage
from podium.domain.quotes import excerpt
from podium.domain.rules import ERROR_RETRIES, LEAVE_AT, PREPARE_AT, check_task_id, wants_escalation
from podium.domain.states import ENDED, Kind, MessageType, State, kind_of
from podium.services import briefing, context, forms, life, messages, tasks
from podium.services.callers import own_task, require_session
from podium.services.resumption import assess
from podium.services.scratch import Scratch

from .app import App, storable, verb

if TYPE_CHECKING:
    from podium.domain.records import Message, Task

M = MessageType
MAIL_SHOWN = SIBLINGS_SHOWN = 8


@click.group("musician")
def group() -> None:
    """Claim a task, play it, submit it, leave."""


task_option = click.option(
    "--task", "task_id", metavar="TASK", help="Which task, when the session plays several."
)


def mine(app: App, task_id: str | None) -> Task:
    """The task that this session plays."""
    return own_task(app.store, app.caller, check_task_id(task_id) if task_id else None)


def scratch(app: App) -> Scratch:
    """The project's scratch files."""
    return Scratch(app.settings.path("temp"))


def measured(app: App) -> context.Usage | None:
    """The session's context as its transcript shows it."""
    window = app.settings.section("context").get("window")
    configured = window if isinstance(window, int) else None
    return context.of_session(app.store, app.caller.session_id, configured)


def percent(app: App) -> int | None:
    """Measured context in percent, None when it cannot be measured."""
    usage = measured(app)
    return usage.percent if usage else None


@verb(group, "claim", "podium musician claim task-03")
@click.argument("task_id", metavar="TASK")
def claim(app: App, task_id: str) -> None:
    """Take a task that waits for a musician; print its instructions and the mail.

    A claim that is blocked tells the conductor, lets this session end, and exits 1.
    """
    caller = app.caller
    task = tasks.claim(app.store, caller, check_task_id(task_id))
    app.arm(str(task.session_id))
    notes = scratch(app)
    notes.log(
        task_id, f"task claimed by {task.worked_by}, session: {task.session_id}", percent(app)
    )
    mail = _unread(app, task)
    lines = [
        f"You are {task.worked_by}; {task_id} is {task.state.value}.",
        f"Instructions: {task.instruction_path or f'podium messages {task_id}'}",
    ]
    if task.claims > 1:
        lines.append("Somebody worked on it before you. First: podium musician resume")
    app.show(
        {
            "task_id": task_id,
            "state": task.state.value,
            "worked_by": task.worked_by,
            "instructions": task.instruction_path,
            "mail": [_facts(m) for m in mail],
        },
        lines + _mail_lines(task_id, [m for m in mail if m.message_type != M.INSTRUCTION.value]),
    )
    _mark_read(app, task, mail)


def _facts(message: Message) -> dict[str, Any]:
    return dict(vars(message))


def _unread(app: App, task: Task) -> list[Message]:
    """The mail of a task that this session has not been shown."""
    return briefing.mail_for(app.store, str(task.session_id), task.task_id, most=1000)


def _mark_read(app: App, task: Task, mail: list[Message]) -> None:
    """Remember mail as shown. To be called when it is printed: rather shown again than lost."""
    if mail:
        whose = {"session_id": task.session_id, "task_id": task.task_id}
        app.store.run("mark_read", up_to=mail[-1].id, **whose)


def _mail_lines(task_id: str, mail: list[Message]) -> list[str]:
    """The mail as it is read: the newest in full, marked as the conductor's."""
    if not mail:
        return []
    lines = []
    if len(mail) > MAIL_SHOWN:
        lines.append(f"{len(mail) - MAIL_SHOWN} older messages: podium messages {task_id} --all")
    for m in mail[-MAIL_SHOWN:]:
        lines.append(f"[{m.id}] {m.message_type} from the conductor, {m.timestamp}:")
        lines += excerpt(m.message, f"podium messages {task_id} --id {m.id}")
    return lines


@verb(group, "inbox", "podium musician inbox")
@task_option
def inbox(app: App, task_id: str | None) -> None:
    """Print the conductor's mail that this session has not seen, oldest first."""
    task = mine(app, task_id)
    mail = _unread(app, task)
    app.show(
        {"task_id": task.task_id, "state": task.state.value, "mail": [_facts(m) for m in mail]},
        _mail_lines(task.task_id, mail)
        or [f"No unread mail; {task.task_id} is {task.state.value}."],
    )
    _mark_read(app, task, mail)


@verb(group, "beat", "podium musician beat")
def beat(app: App) -> None:
    """Give a sign of life for every task of this session."""
    caller = app.caller
    rows = life.beat(app.store, require_session(caller))
    if not rows:
        own_task(app.store, caller)  # says who took it over
    app.show({"rows": rows}, f"{rows} rows refreshed")


@verb(group, "siblings", "podium musician siblings")
@click.option("--all", "everything", is_flag=True, help="Show every task.")
def siblings(app: App, everything: bool) -> None:
    """Show the states of the other tasks, and whether the conductor is alive."""
    own = {t.task_id for t in app.caller.rows}
    rows = [
        t
        for t in tasks.every(app.store)
        if t.task_id not in own and kind_of(t.task_id) is not Kind.FALLBACK
    ]
    facts = [
        {"task_id": t.task_id, "state": t.state.value, "seconds_since_life": t.owner_age}
        for t in rows
    ]
    lines = [
        f"{t.task_id:<12} {t.state.value:<16} "
        + (f"seen {t.owner_age} s ago" if t.owner_age is not None else "nobody")
        for t in sorted(rows, key=lambda t: t.state in ENDED)
    ]
    if len(lines) > SIBLINGS_SHOWN + 1 and not everything:
        more = len(lines) - SIBLINGS_SHOWN
        lines[SIBLINGS_SHOWN:] = [f"{more} more: podium musician siblings --all"]
    app.show({"siblings": facts}, lines or ["There are no other tasks."])


@verb(group, "log", "podium musician log 'step 2 completed'")
@click.argument("text")
@task_option
def log(app: App, text: str, task_id: str | None) -> None:
    """Add a line to the task's status log; measured context is appended."""
    task = mine(app, task_id)
    line = scratch(app).log(task.task_id, _not_empty(text), percent(app))
    _progress(app)
    app.show({"task_id": task.task_id, "line": line}, line)


def _not_empty(text: str) -> str:
    if not text.strip():
        raise WrongUsage("the text is empty; give it as one argument")
    return storable(text)


def _progress(app: App) -> None:
    life.beat(app.store, require_session(app.caller), progress=True)


@verb(group, "deviation", "podium musician deviation 'kept the HTML tables' --severity low")
@click.argument("text")
@click.option(
    "--severity",
    type=click.Choice(["low", "medium", "high"]),
    required=True,
    help="low: no delay; medium: under an hour; high: over an hour, or scope or architecture.",
)
@task_option
def deviation(app: App, text: str, severity: str, task_id: str | None) -> None:
    """Log a deviation from the plan; says when the conductor must hear of it."""
    task, notes = mine(app, task_id), scratch(app)
    line = notes.deviate(task.task_id, _not_empty(text), severity, percent(app))
    _progress(app)
    escalate = wants_escalation(s for s, _ in notes.notes(task.task_id).deviations)
    lines = [line]
    if escalate:
        lines.append("Escalate: podium musician error --error 'deviations: …'")
    app.show({"task_id": task.task_id, "line": line, "escalate": escalate}, lines)


@verb(group, "context", "podium musician context")
def context_(app: App) -> None:
    """Measured context of this session: tokens, window, percent, and what it means."""
    usage = measured(app)
    if usage is None:
        app.show({"percent": None}, "unknown: this session has no readable transcript yet")
        return
    meaning = (
        "leave now: podium musician exit --reason 'context'"
        if usage.percent >= LEAVE_AT
        else "prepare the handoff, finish this step only"
        if usage.percent >= PREPARE_AT
        else "go on"
    )
    app.show(
        {
            "tokens": usage.tokens,
            "window": usage.window,
            "percent": usage.percent,
            "model": usage.model,
        },
        f"{usage.percent}% ({usage.tokens} of {usage.window} tokens): {meaning}",
    )


FIELDS: dict[str, tuple[str, type, str]] = {
    "checkpoint": ("--checkpoint", str, "Which of how many, as in 2/5."),
    "smoothness": ("--smoothness", int, "0 perfect … 9 failed."),
    "summary": ("--summary", str, "What was done."),
    "files": ("--files", int, "How many files were changed."),
    "tests": ("--tests", str, "How the tests stand."),
    "report": ("--report", str, "Path of the report."),
    "reason": ("--reason", str, "Why it needs a review."),
    "error": ("--error", str, "What went wrong."),
    "suggest": ("--suggest", str, "What to look at."),
    "recommend": ("--recommend", str, "What you propose to do."),
    "self_correction": ("--self-correction", str, "You corrected your own code: what and where."),
    "agents_remaining": ("--agents-remaining", int, "Subagents still needed."),
    "proposal": ("--proposal", str, "Path of a proposal."),
    "output": ("--output", str, "path:created, path:modified or path:rag-addition; repeatable."),
}
FORMS = {
    "submit": "checkpoint smoothness summary files tests reason self_correction agents_remaining "
    "proposal output",
    "finish": "smoothness summary files tests report self_correction agents_remaining proposal "
    "output",
    "error": "error report suggest self_correction output",
    "warn": "recommend agents_remaining self_correction",
}


def form(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a letter, and --from for the same fields as JSON."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for field in reversed(FORMS[name].split()):
            flag, kind, text = FIELDS[field]
            function = click.option(flag, field, type=kind, multiple=field == "output", help=text)(
                function
            )
        return click.option(
            "--from", "source", metavar="FILE.json", help="The fields as JSON; - is standard input."
        )(task_option(function))

    return add


def filled(name: str, source: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a letter from options or --from, checked by the schema, all faults at once."""
    fields = {k: v for k, v in given.items() if v not in (None, ())}
    if source is not None:
        if fields:
            raise WrongUsage("give the fields as options or with --from, not both")
        fields = forms.read_json(_source(source), source)
    if isinstance(fields, dict):
        fields = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
    forms.check(fields, "messages", name, f"musician {name}")
    return {k: storable(v) if isinstance(v, str) else v for k, v in fields.items()}


def _source(source: str) -> str:
    if source == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        with open(source, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{source} cannot be read ({error}); give a JSON file") from error


def measured_fields(app: App, task: Task, fields: dict[str, Any]) -> dict[str, Any]:
    """What the program knows better than the model: context, deviations, self-correction."""
    notes, used = scratch(app).notes(task.task_id), percent(app)
    more: dict[str, Any] = {
        "context": messages.percent(used),
        "deviations": messages.deviations(notes.deviations),
        "self_correction": messages.self_correction(
            fields.get("self_correction"), notes.self_corrections
        ),
        "agents_remaining": messages.agents_remaining(fields.get("agents_remaining", 0)),
        "agents_fit": messages.agents_fit(used),
        "outputs": [_output(text) for text in fields.get("output", [])],
    }
    if "checkpoint" in fields:
        more["checkpoint"] = fields["checkpoint"].replace("/", " of ")
    return {**fields, **more}


def _output(text: str) -> str:
    path, _, how = text.rpartition(":")
    return f"{' '.join(path.split())} ({how})"


def _hand_in(app: App, task: Task, kind: MessageType, fields: dict[str, Any], said: str) -> None:
    letter = messages.write(kind, fields)
    number = tasks.play(app.store, app.caller, task, State.NEEDS_REVIEW, kind, letter)
    scratch(app).log(task.task_id, said, percent(app))
    app.show(
        {"task_id": task.task_id, "state": State.NEEDS_REVIEW.value, "message_id": number},
        f"{task.task_id} is {State.NEEDS_REVIEW.value} (message {number}). "
        "End your turn; the verdict wakes you.",
    )


@verb(
    group,
    "submit",
    "podium musician submit --checkpoint 2/5 --smoothness 3 --summary 'Auth moved' "
    "--files 8 --tests '14 pass, 2 new' --output src/auth.py:modified",
)
@form("submit")
def submit(app: App, task_id: str | None, source: str | None, **given: Any) -> None:
    """Ask for a review of a checkpoint. Context and deviations are filled in from measurement."""
    task = mine(app, task_id)
    fields = {
        "reason": "checkpoint reached",
        "proposal": "N/A",
        **filled("submit", source, given),
    }
    _hand_in(
        app,
        task,
        M.REVIEW_REQUEST,
        measured_fields(app, task, fields),
        f"checkpoint {fields['checkpoint']} submitted",
    )


@verb(
    group,
    "finish",
    "podium musician finish --smoothness 1 --summary 'All steps done' --files 14 "
    "--tests '28 pass' --report docs/implementation/reports/task-03-completion.md",
)
@form("finish")
def finish(app: App, task_id: str | None, source: str | None, **given: Any) -> None:
    """Hand in the finished task for the last review; then: podium musician complete."""
    task = mine(app, task_id)
    fields = filled("finish", source, given)
    fields["report"] = app.path(fields["report"])
    _hand_in(app, task, M.COMPLETION, measured_fields(app, task, fields), "completion submitted")


@verb(
    group,
    "error",
    "podium musician error --error 'test_auth times out' --suggest 'the new fixture'",
)
@form("error")
def error(app: App, task_id: str | None, source: str | None, **given: Any) -> None:
    """Report an error that you cannot solve; the conductor answers with a fix. At most five."""
    task = mine(app, task_id)
    fields = filled("error", source, given)
    if "report" in fields:
        fields["report"] = app.path(fields["report"])
    retry = task.retry_count + 1
    letter = messages.write(M.ERROR, {**measured_fields(app, task, fields), "retry": retry})
    number = tasks.fail(app.store, app.caller, task, fields["error"], letter, warning=False)
    scratch(app).log(
        task.task_id, f"error {retry}/{ERROR_RETRIES}: {fields['error']}", percent(app)
    )
    last = retry >= ERROR_RETRIES
    app.show(
        {"task_id": task.task_id, "state": State.ERROR.value, "retry": retry, "message_id": number},
        f"{task.task_id} is {State.ERROR.value}, retry {retry}/{ERROR_RETRIES} (message {number}). "
        + (
            "It was the last. Write the HANDOFF: podium musician exit --reason 'no retry left'"
            if last
            else "End your turn; the fix wakes you."
        ),
    )


CONTEXT_WARNING = "context_exhaustion_warning"


@verb(group, "warn", "podium musician warn --recommend 'Finish step 4, then hand over'")
@form("warn")
def warn(app: App, task_id: str | None, source: str | None, **given: Any) -> None:
    """Warn that the context will not last; the conductor answers how to go on."""
    task = mine(app, task_id)
    fields = measured_fields(app, task, filled("warn", source, given))
    letter = messages.write(M.CONTEXT_WARNING, fields)
    number = tasks.fail(app.store, app.caller, task, CONTEXT_WARNING, letter, warning=True)
    scratch(app).log(task.task_id, "context warning sent", percent(app))
    app.show(
        {"task_id": task.task_id, "state": State.ERROR.value, "message_id": number},
        f"{task.task_id} is {State.ERROR.value} (message {number}). "
        "End your turn; the answer wakes you.",
    )


@verb(group, "complete", "podium musician complete --report docs/implementation/reports/task-03.md")
@click.option("--report", required=True, metavar="PATH", help="The completion report.")
@task_option
def complete(app: App, report: str, task_id: str | None) -> None:
    """End an approved task: its last write. Refused until the completion report is approved."""
    task = mine(app, task_id)
    path = app.path(storable(report))
    tasks.complete(app.store, app.caller, task, path)
    scratch(app).log(task.task_id, "task complete", percent(app))
    app.show(
        {"task_id": task.task_id, "state": State.COMPLETE.value, "report": path},
        f"{task.task_id}: {advice(task.task_id, State.COMPLETE)}",
    )


@verb(group, "exit", "podium musician exit --reason 'context at 76%'")
@click.option("--reason", required=True, metavar="TEXT", help="Why the session leaves.")
@task_option
def leave(app: App, reason: str, task_id: str | None) -> None:
    """Leave the task to a successor. Wants a HANDOFF that is filled in; writes its skeleton."""
    task, used = mine(app, task_id), percent(app)
    reason = _not_empty(reason)
    notes = scratch(app)
    path = notes.handoff_path(task.task_id)
    if not notes.has_fresh_handoff(task):
        kept = notes.set_handoff_aside(task)
        notes.write_handoff(task, reason, used)
        aside = f" (the former session's is kept as {os.path.basename(kept)})" if kept else ""
        raise PodiumError(
            f"a HANDOFF is wanted before you leave; its skeleton is {app.path(path)}{aside}: "
            "fill it in, then run the same command again"
        )
    facts = notes.notes(task.task_id)
    if facts.handoff and facts.handoff.gaps:
        raise PodiumError(
            f"{app.path(path)} has {facts.handoff.gaps}, marked <fill in: …>; "
            "fill them in, then run the same command again"
        )
    letter = messages.write(
        M.HANDOFF,
        {
            "reason": reason,
            "handoff": app.path(path),
            "context": messages.percent(used),
            "self_correction": messages.self_correction(None, facts.self_corrections),
            "last_step": facts.last_completed,
            "remaining": "; ".join(facts.handoff_pending),
            "deviations": messages.deviations(facts.deviations),
        },
    )
    number = tasks.play(app.store, app.caller, task, State.EXITED, M.HANDOFF, letter)
    notes.log(task.task_id, f"clean exit: {reason}", used)
    app.show(
        {"task_id": task.task_id, "state": State.EXITED.value, "message_id": number},
        f"{task.task_id} is {State.EXITED.value} (message {number}). End your turn.",
    )


@verb(group, "resume", "podium musician resume")
@task_option
def resume(app: App, task_id: str | None) -> None:
    """Assess what the session before you left behind; writes the takeover to log and mail."""
    task, used = mine(app, task_id), percent(app)
    notes = scratch(app)
    found = assess(app.store, notes, task, require_session(app.caller))
    text = found.text(used)
    number = tasks.tell(app.store, app.caller, task, M.RESUMPTION_STATUS, text)
    notes.log_block(task.task_id, text, used)
    app.show({"task_id": task.task_id, "message_id": number, **found.facts}, text.splitlines())
