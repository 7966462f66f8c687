"""podium conductor launch, replace, close, handoff, repair, sweep: sessions and their windows."""

from __future__ import annotations

import os
import shlex
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from podium.domain.errors import PodiumError, WrongUsage
from podium.domain.states import ENDED, State
from podium.services import forms, launches, recovery, tasks
from podium.services.callers import require_conductor
from podium.services.scratch import Scratch

from .app import App, read_text, storable, verb
from .conductor import group, task_argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from podium.domain.records import Task
    from podium.stage.stage import Stage

LOCK_WAIT = 90  # seconds; a launch that waits for its session holds the lock

BACKENDS = ("auto", "kitty", "tmux", "background", "headless")

backend_option = click.option(
    "--backend", type=click.Choice(BACKENDS), help="The window it gets; else as podium.json says."
)
words_option = click.option(
    "-m", "--message", "words", default="", metavar="TEXT",
    help="More for the musician, at the end of its prompt; - reads standard input.",
)  # fmt: skip
dry_option = click.option("--dry-run", is_flag=True, help="Show what would run; start nothing.")
retry_option = click.option("--retry", is_flag=True, help="Although three launches failed.")


def stage_of(app: App) -> Stage:
    """The project's stage, set up as podium.json says."""
    from podium.stage.base import Facts
    from podium.stage.client import Config
    from podium.stage.stage import Stage

    section = app.settings.section("launch")
    wrong = forms.faults(section, "settings", "launch")
    if wrong:
        raise WrongUsage(f"podium.json, launch: {'; '.join(wrong)}; correct it and run this again")
    return Stage(
        Config(section),
        Facts(app.env),
        root=app.settings.root,
        temp=app.settings.path("temp"),
        database=app.settings.database,
    )


@contextmanager
def alone(app: App, task_id: str, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Be the only command that starts or ends a session of this task."""
    from filelock import FileLock, Timeout

    folder = app.settings.path("temp")
    lock = FileLock(os.path.join(folder, f"musician-{task_id}.lock"), timeout=wait)
    try:
        os.makedirs(os.path.realpath(folder), mode=0o700, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise PodiumError(
            f"another command is busy with the session of {task_id}; wait, then run this again"
        ) from None
    except OSError as error:
        raise PodiumError(f"{folder} cannot be written ({error}); run: podium doctor") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def alone_at_once(app: App, task_id: str) -> Iterator[bool]:
    """The same without waiting: False when another command has it, or it cannot be had."""
    with ExitStack() as held:
        try:
            held.enter_context(alone(app, task_id, wait=0))
            free = True
        except PodiumError:
            free = False
        yield free


def _words(given: str) -> str:
    return read_text(given) if given else ""


def _handoff_path(app: App, task: Task) -> str:
    """The HANDOFF that a successor shall read, as messages show it; empty without one."""
    scratch = Scratch(app.settings.path("temp"))
    path = scratch.handoff_path(task.task_id)
    return app.path(path) if scratch.has_fresh_handoff(task) else ""


def _order(task_id: str, backend: str | None, words: str, *, retry: bool) -> launches.Order:
    return launches.Order(task_id, str(uuid.uuid4()), backend=backend, words=words, retry=retry)


@verb(group, "launch", "podium conductor launch task-03 --backend tmux")
@click.argument("task_id", metavar="TASK")
@backend_option
@words_option
@retry_option
@dry_option
def launch(
    app: App, task_id: str, backend: str | None, words: str, retry: bool, dry_run: bool
) -> None:
    """Start a session for a task that waits for a musician, and see that it lives.

    Refused while the task cannot be claimed, needs another, or has a live process. The session is
    recorded before it starts. After three failed launches within ten minutes a person must look.
    A task-NN-fix that nobody has played resumes the session that completed the original.
    """
    require_conductor(app.caller)
    stage, task = stage_of(app), tasks.get(app.store, task_argument(task_id))
    order = _order(task_id, backend, _words(words), retry=retry)
    if dry_run:
        _show_plan(app, stage, order, _handoff_path(app, task))
        return
    with alone(app, task_id):
        _launch(app, stage, order)


def _show_plan(app: App, stage: Stage, order: launches.Order, handoff: str) -> None:
    made = launches.plan(app.store, stage, order, handoff)
    facts = stage.shown(made.backend, made.play)
    lines = [
        f"Backend: {made.backend.name} ({made.why})",
        f"Window:  {shlex.join(map(str, facts['window']))}",  # type: ignore[call-overload]
        f"Client:  {shlex.join(map(str, facts['client']))}",  # type: ignore[call-overload]
        f"In:      {facts['cwd']}",
        *(f"Set:     {name}={value}" for name, value in made.play.changes.items()),
        "Unset:   CLAUDECODE and the other variables of the present session",
        f"Prompt:  {made.play.file('prompt')}, as one argument:",
        *("  " + line for line in made.play.prompt.splitlines()),
    ]
    app.show({**facts, "why": made.why, "task_id": order.task_id}, lines)


def _launch(app: App, stage: Stage, order: launches.Order, before: list[str] | None = None) -> None:
    task = tasks.get(app.store, order.task_id)
    done = launches.launch(app.store, stage, order, _handoff_path(app, task))
    one = done.launch
    plays = f"{done.title} plays in {one.backend} ({done.why})"
    app.show(
        {
            "task_id": one.task_id,
            "session_id": one.session_id,
            "backend": one.backend,
            "why": done.why,
            "pid": one.pid,
            "title": done.title,
            "reach": one.reach,
            "notes": [*(before or []), *done.notes],
        },
        [
            *(before or []),
            *done.notes,
            f"{plays}: session {one.session_id}, pid {one.pid}.",
            f"To see it: {one.reach}",
            "Next: podium conductor next",
        ],
    )


def _evidence(app: App, stage: Stage, task_id: str) -> recovery.Evidence:
    """What is known of how the session of a task left it; the dead are noted first."""
    recovery.bury_dead(app.store, stage.host, stage.is_alive)
    task = tasks.get(app.store, task_id)
    window = app.settings.section("context").get("window")
    return recovery.Evidence(
        app.store,
        Scratch(app.settings.path("temp")),
        task,
        alive=launches.player_of(app.store, task, stage.is_alive),
        window=window if isinstance(window, int) else None,
    )


def _hand_off(app: App, evidence: recovery.Evidence) -> recovery.Handed:
    scratch = Scratch(app.settings.path("temp"))
    path = app.path(scratch.handoff_path(evidence.task.task_id), must_exist=False)
    return recovery.hand_off(app.store, scratch, require_conductor(app.caller), evidence, path)


force_option = click.option("--force", is_flag=True, help="Also when its musician is alive.")


@verb(group, "handoff", "podium conductor handoff task-03")
@click.argument("task_id", metavar="TASK")
@force_option
def handoff(app: App, task_id: str, force: bool) -> None:
    """Free a task for a successor: decides how its session left, writes the message, fix_proposed.

    By evidence: clean, context exit, dirty (context above 80 % at exit, or a HANDOFF not filled
    in), crash (no HANDOFF; its process dead or frozen), retry exhaustion. Refused while its
    musician is alive.
    """
    require_conductor(app.caller)
    evidence = _evidence(app, stage_of(app), task_argument(task_id))
    already = recovery.handed_off(app.store, evidence.task)
    if already:
        app.show(
            {"task_id": task_id, "state": State.FIX_PROPOSED.value, "message_id": already.id},
            f"{task_id} was handed off already (message {already.id}). "
            f"Next: podium conductor launch {task_id}",
        )
        return
    recovery.check_handoff(evidence, force=force)
    done = _hand_off(app, evidence)
    app.show(
        {
            "task_id": task_id,
            "state": State.FIX_PROPOSED.value,
            "type": done.kind,
            "how": done.how or None,
            "context": done.percent,
            "handoff": done.handoff or None,
            "next": done.next,
            "message_id": done.message_id,
        },
        [*done.lines(), f"Next: podium conductor launch {task_id}"],
    )


@verb(group, "replace", "podium conductor replace task-03")
@click.argument("task_id", metavar="TASK")
@backend_option
@words_option
@force_option
@retry_option
def replace(
    app: App, task_id: str, backend: str | None, words: str, force: bool, retry: bool
) -> None:
    """Close the old session, hand the task off, launch the successor. Always in that order.

    After five failed attempts -m must say what is to change.
    """
    require_conductor(app.caller)
    stage, text = stage_of(app), _words(words)
    with alone(app, task_argument(task_id)):
        evidence = _evidence(app, stage, task_id)
        owed = evidence.task.claims > 0 and not recovery.handed_off(app.store, evidence.task)
        if owed:
            recovery.check_handoff(evidence, force=force)
            if recovery.judge(evidence) == recovery.RETRY and not text:
                raise PodiumError(
                    f"{task_id} failed after five attempts (last: {evidence.task.last_error}); say "
                    f"what must change: podium conductor replace {task_id} -m TEXT"
                )
        stage.choose(backend)  # refuse before anything is closed
        lines = launches.close(app.store, stage, task_id)
        lines += _hand_off(app, evidence).lines() if owed else []
        _launch(app, stage, _order(task_id, backend, text, retry=retry), lines)


@verb(group, "close", "podium conductor close --phase 2")
@click.argument("task_id", metavar="[TASK]", required=False)
@click.option("--phase", type=int, metavar="N", help="All windows of a phase that may be closed.")
@click.option("--now", is_flag=True, help="Also while the task is live: end its session.")
def close(app: App, task_id: str | None, phase: int | None, now: bool) -> None:
    """Close the window of a task that has ended; of a parallel one, when all its siblings have.

    Only a process that podium started, proven by pid and start time, is ever signalled: SIGTERM,
    then SIGKILL.
    """
    require_conductor(app.caller)
    if (task_id is None) == (phase is None):
        raise WrongUsage("name one task or one phase: podium conductor close TASK, or --phase N")
    stage, rows = stage_of(app), tasks.every(app.store)
    if task_id is not None:
        wanted = [tasks.get(app.store, task_argument(task_id))]
    else:
        wanted = [t for t in rows if t.phase == phase and launches.all_open(app.store, t.task_id)]
    lines, kept = [], []
    for task in wanted:
        why = "" if now else launches.may_close(rows, task)
        if why and task_id is not None:
            raise PodiumError(
                f"the window of {task_id} stays: {why}; to end its session all the same: "
                f"podium conductor close {task_id} --now"
            )
        if why:
            kept.append(f"{task.task_id} stays: {why}")
            continue
        with alone(app, task.task_id):
            lines += launches.close(app.store, stage, task.task_id)
    app.show(
        {"closed": lines, "kept": kept},
        [*lines, *kept] or ["Nothing was open. Next: podium conductor next"],
    )


@verb(
    group, "repair",
    "podium conductor repair task-03 --found-by task-07 --error 'login fails' --fix 'hash first'",
)  # fmt: skip
@click.argument("task_id", metavar="TASK")
@click.option("--found-by", required=True, metavar="TASK", help="The task that met the error.")
@click.option("--error", required=True, metavar="TEXT", help="What is wrong with it.")
@click.option("--fix", required=True, metavar="TEXT", help="What must be corrected.")
@backend_option
def repair(
    app: App, task_id: str, found_by: str, error: str, fix: str, backend: str | None
) -> None:
    """Correct a completed task: a new row task-NN-fix, its instruction, the original session.

    The session that completed it is resumed with all it knows; where its transcript is gone, a
    fresh one gets the same briefing. A second repair is task-NN-fix2.
    """
    caller = require_conductor(app.caller)
    stage = stage_of(app)
    stage.choose(backend)  # refuse before anything is written
    texts = {"found_by": found_by, "error": read_text(error), "fix": read_text(fix)}
    row = recovery.add_repair(app.store, caller, task_argument(task_id), **texts)
    original = launches.original_of(task_id)
    family = [t for t in tasks.every(app.store) if launches.original_of(t.task_id) == original]
    before = [t.task_id for t in family if t.state in ENDED]  # each may be the session's window
    with ExitStack() as held:
        for name in (*before, row.task_id):
            held.enter_context(alone(app, name))
        lines = [line for name in before for line in launches.close(app.store, stage, name)]
        recovery.bury_dead(app.store, stage.host, stage.is_alive)
        _launch(app, stage, _order(row.task_id, backend, "", retry=False), lines)


@verb(group, "sweep", "podium conductor sweep")
def sweep(app: App) -> None:
    """Look for sessions that are gone, stale or stuck, and for what they left; settle it.

    Settled: dead processes are noted, windows of ended tasks closed, collisions that are over and
    PID files that name nobody removed. The rest comes with the command that settles it.
    """
    require_conductor(app.caller)
    found = recovery.sweep(
        app.store, stage_of(app), hold=lambda task_id: alone_at_once(app, task_id)
    )
    app.show(
        {"findings": [storable_facts(f) for f in found]},
        [f.line() for f in found] or ["Nothing to sweep up. Next: podium conductor next"],
    )


def storable_facts(found: recovery.Finding) -> dict[str, object]:
    """A finding for --json."""
    return {k: storable(v) if isinstance(v, str) else v for k, v in vars(found).items()}
