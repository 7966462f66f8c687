"""Handing a task on, repairing a finished one, and sweeping up after sessions that are gone.

What happened is decided by evidence, never by asking: the HANDOFF, the measured context, the
process, the retry count, the event log. Standard library only; windows and processes are given.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

from podium.domain.errors import PodiumError
from podium.domain.quotes import flat, one_line
from podium.domain.records import Event, Message, Task
from podium.domain.rules import (
    DIRTY_ABOVE,
    ERROR_RETRIES,
    PREPARE_AT,
    STALE_AFTER,
    successor_name,
)
from podium.domain.states import (
    AWAITING,
    CLAIMABLE,
    CONDUCTOR_ROW,
    ENDED,
    FIRST,
    Kind,
    MessageType,
    Role,
    State,
    kind_of,
)

from . import context, launches, life, messages, overview, tasks
from .callers import still_conducts
from .resumption import tenures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from podium.services.callers import Caller
    from podium.services.launches import IsAlive, Stage
    from podium.services.messages import Letter
    from podium.services.scratch import Notes, Scratch
    from podium.store.base import Row, Store

    Hold = Callable[[str], AbstractContextManager[bool]]

CLEAN, DIRTY, CRASH, RETRY, CONTEXT = "clean", "dirty", "crash", "retry exhaustion", "context exit"
FROZEN, DEAD, UNSEEN = "frozen", "dead", "unseen"
NO_PROGRESS = 1800  # seconds without a sign of work after which a living session is looked at
REPORTED = ("dead", "stale", "asking", "halted", "exit")  # of what needs the conductor
LINGER = 10  # seconds that a session may take to say good-bye after its last write
FIX = "-fix"

FIELDS = (
    ("Handoff type", "kind"),
    ("Previous session", "previous"),
    ("HANDOFF", "handoff"),
    ("Exit reason", "reason"),
    ("Left in", "left_in"),
    ("Last known state", "status"),
    ("Last completed", "last_completed"),
    ("Context usage", "context"),
    ("Deviations logged", "deviations"),
    ("Root cause", "root_cause"),
    ("Last error", "last_error"),
    ("Correction attempts", "attempts"),
    ("Next musician", "next"),
    ("Action", "action"),
    ("Before proceeding", "before"),
)
VERIFY = (
    "Re-run ALL verification tests from the last completed checkpoint. If any fail, do NOT trust "
    "the test results in the HANDOFF; use your own judgment."
)
LETTERS: dict[str, Letter] = {
    CLEAN: ("HANDOFF RECEIVED: Musician session exited cleanly.", FIELDS, ""),
    CONTEXT: (
        "HANDOFF RECEIVED: Musician session exited cleanly due to context exhaustion.",
        FIELDS,
        "",
    ),
    DIRTY: (
        "HANDOFF RECEIVED: {doubt} (potential hallucination risk).",
        FIELDS,
        "",
    ),
    CRASH: (
        "CRASH DETECTED: No HANDOFF doc. Previous session lost context or crashed ({how}).",
        FIELDS,
        "",
    ),
    RETRY: (f"RETRY EXHAUSTION: Musician failed after {ERROR_RETRIES} attempts.", FIELDS, ""),
}


class Evidence:
    """Everything that decides how a session left its task."""

    def __init__(
        self, store: Store, scratch: Scratch, task: Task, *, alive: bool | None, window: int | None
    ) -> None:
        self.task, self.alive = task, alive
        self.notes: Notes = scratch.notes(task.task_id)
        events = [Event(row) for row in store.all("events", task_id=task.task_id, most=1)]
        self.exited_itself = (
            bool(events)
            and events[0].to_state == State.EXITED.value
            and events[0].actor == task.session_id
        )
        written = scratch.has_fresh_handoff(task) and self.notes.handoff is not None
        self.gaps = self.notes.handoff.gaps if self.notes.handoff else ""
        # A skeleton that nobody filled in is no HANDOFF, unless its session left with it.
        self.has_handoff = written and (self.exited_itself or not self.gaps)
        self.reason = self._reason(store)
        self.percent = self._percent(store, window)

    def _percent(self, store: Store, window: int | None) -> int | None:
        """Context at exit: measured, else as last kept, else as the session wrote it."""
        usage = context.of_session(store, self.task.session_id, window)
        if usage:
            return usage.percent
        kept = store.one("latest_context", session_id=self.task.session_id)
        if kept:
            return int(kept["percent"])
        handoff = self.notes.handoff if self.has_handoff else None
        said = handoff.context if handoff else None
        return said if said is not None else self.notes.last_percent

    def _reason(self, store: Store) -> str:
        if not self.exited_itself:
            return ""
        sent = store.one(
            "latest_of_type", task_id=self.task.task_id, message_type=MessageType.HANDOFF.value
        )
        if sent and sent["from_session"] == self.task.session_id:
            return str(sent["message"]).splitlines()[0].partition(": ")[2]
        return self.notes.handoff.exit_reason if self.notes.handoff and self.has_handoff else ""

    @property
    def how(self) -> str:
        """How a session that wrote no HANDOFF was found."""
        return {True: FROZEN, False: DEAD, None: UNSEEN}[self.alive]

    @property
    def is_living(self) -> bool:
        """Whether its owner still plays: nothing may be taken from it."""
        age = self.task.owner_age
        fresh = age is not None and age < STALE_AFTER
        return self.task.state not in ENDED and fresh and self.alive is not False


def judge(e: Evidence) -> str:
    """The type of a handoff."""
    if e.task.retry_count >= ERROR_RETRIES:
        return RETRY
    if not e.has_handoff:
        return CRASH
    if e.gaps or (e.percent is not None and e.percent > DIRTY_ABOVE):
        return DIRTY
    full = e.percent is not None and e.percent >= PREPARE_AT
    return CONTEXT if full or "context" in e.reason.lower() else CLEAN


class Handed:
    """A task that waits for a successor."""

    def __init__(self, kind: str, e: Evidence, message_id: int, handoff: str) -> None:
        self.kind, self.message_id, self.handoff = kind, message_id, handoff
        self.how = e.how if kind == CRASH else ""
        self.task, self.percent = e.task, e.percent
        self.last_completed = e.notes.last_completed
        self.next = successor_name(e.task.task_id, e.task.claims + 1)

    def lines(self) -> list[str]:
        """What the conductor is told."""
        kind = self.kind + (f", {self.how}" if self.how else "")
        used = f"Context usage: {messages.percent(self.percent)}."
        head = f"{self.task.task_id}: {self.task.worked_by} handed off ({kind})"
        return [
            f"{head}, message {self.message_id}.",
            f"{used} Last completed step: {self.last_completed or 'none logged'}",
        ]


def handed_off(store: Store, task: Task) -> Message | None:
    """The handoff message that made this task free for a successor, if it is."""
    if task.state is not State.FIX_PROPOSED or task.owner_age is not None:
        return None
    kind = MessageType.HANDOFF.value
    sent = store.one("latest_of_type", task_id=task.task_id, message_type=kind)
    had = tenures(store, task.task_id)
    if sent is None or sent["from_session"] != CONDUCTOR_ROW:
        return None
    return Message(sent) if not had or sent["id"] > had[-1].claimed_after else None


def check_handoff(e: Evidence, *, force: bool) -> None:
    """Nothing, or why this task cannot be handed on."""
    name = e.task.task_id
    if e.task.state is State.COMPLETE:
        raise PodiumError(
            f"{name} is complete; correct it with: podium conductor repair {name} --help"
        )
    if not e.task.claims:
        raise PodiumError(f"nobody has played {name} yet; run: podium conductor launch {name}")
    if e.is_living and not force:
        raise PodiumError(
            f"{e.task.worked_by} is alive ({e.task.state.value}, seen {e.task.owner_age} s ago); "
            f"ask it to leave: podium conductor recall {name}, or run this with --force"
        )


def hand_off(store: Store, scratch: Scratch, caller: Caller, e: Evidence, handoff: str) -> Handed:
    """Message and fix_proposed in one transaction; `handoff` is its path as messages show it."""
    kind = judge(e)
    path = handoff if e.has_handoff else ""
    letter = messages.compose(LETTERS[kind], _fields(store, scratch, e, kind, path))
    with store.transaction():
        still_conducts(store, caller)
        task = tasks.get(store, e.task.task_id)
        if (task.state, task.session_id) != (e.task.state, e.task.session_id):
            raise PodiumError(f"{task.task_id} changed meanwhile; run: podium why {task.task_id}")
        number = tasks.send(store, task.task_id, CONDUCTOR_ROW, MessageType.HANDOFF, letter)
        tasks.move(store, task, State.FIX_PROPOSED, Role.CONDUCTOR, caller.actor)
        # Whoever comes back under the old id must not find itself the owner again.
        error = overview.HANDED_OFF + kind + (f" ({e.how})" if kind == CRASH else "")
        store.run("set_error", task_id=task.task_id, last_error=error, counted=0)
    return Handed(kind, e, number, path)


def _fields(store: Store, scratch: Scratch, e: Evidence, kind: str, path: str) -> dict[str, object]:
    task, notes = e.task, e.notes
    fields: dict[str, object] = {
        "kind": f"{kind} ({e.how})" if kind == CRASH else kind,
        "how": e.how,
        "previous": f"{task.worked_by} ({task.session_id})",
        "handoff": path,
        "reason": e.reason,
        "left_in": _left_in(store, task),
        "context": messages.percent(e.percent),
        "next": successor_name(task.task_id, task.claims + 1),
        "action": "A replacement session takes over.",
    }
    if kind == DIRTY:
        used = f"Previous session context was {messages.percent(e.percent)}"
        fields["doubt"] = f"HANDOFF has {e.gaps}" if e.gaps else used
        fields["before"] = VERIFY
    elif kind == CRASH:
        last, step = notes.last_completed, max(notes.steps_completed, default=0)
        following = notes.current_step if notes.current_step is not None else step + 1
        verify = (
            f"Verify step {step} results before resuming step {following}."
            if step
            else ("Nothing is logged as completed: verify everything that is there.")
        )
        rerun = f" Re-run: the tests from step {step}." if step else ""
        fields |= {
            "status": scratch.status_path(task.task_id) if notes.has_status else "no status log",
            "last_completed": one_line(last, 200) if last else "nothing is logged as completed",
            "deviations": messages.deviations(notes.deviations),
            "action": f"A replacement session takes over. {verify}{rerun}",
            "before": f"Do NOT trust results from step {following} (may be partial/broken).",
        }
    elif kind == RETRY:
        fields |= {
            "root_cause": e.reason or "see the HANDOFF" if path else e.reason or "unknown",
            "last_error": task.last_error,
            "attempts": _attempts(store, task),
            "action": "The conductor decides what must change before a replacement takes over.",
        }
    return fields


def _left_in(store: Store, task: Task) -> str:
    """Where the row was when its session left: an open question must not be lost."""
    state = str(task.state.value)
    asked = task.state in AWAITING
    letter = overview.submission(store, task.task_id) if asked else None
    return state + (f", message {letter.id} is not answered" if letter else "")


def _attempts(store: Store, task: Task) -> list[str]:
    """The fixes that were tried, as the conductor proposed them."""
    had = tenures(store, task.task_id)
    since = had[-1].claimed_after if had else 0
    kind = MessageType.FIX_PROPOSAL.value
    rows = store.all("messages", task_id=task.task_id, message_type=kind, most=ERROR_RETRIES)
    return [one_line(str(row["message"]), 200) for row in rows if row["id"] > since]


REPAIR: Letter = (
    "FIX TASK: Integration error found by {found_by}.",
    (
        ("Error", "error"),
        ("Fix required", "fix"),
        ("Original task", "task"),
        ("Original session", "session"),
        ("Original report", "report"),
    ),
    "",
)


def add_repair(
    store: Store, caller: Caller, task_id: str, *, found_by: str, error: str, fix: str
) -> Task:
    """The row of a correction to a completed task, and its instruction: task-03-fix, then -fix2."""
    name = launches.original_of(task_id)
    with store.transaction():
        original = tasks.get(store, name)
        if original.state is not State.COMPLETE:
            raise PodiumError(
                f"{name} is {original.state.value}, and only a complete task is repaired; "
                f"run: podium why {name}"
            )
        taken = {t.task_id: t for t in tasks.every(store) if t.task_id.startswith(name + FIX)}
        live = [t for t in taken.values() if t.state not in ENDED]
        if live:
            raise PodiumError(
                f"{live[0].task_id} is {live[0].state.value}, so {name} is being repaired already; "
                f"run: podium why {live[0].task_id}"
            )
        numbers = ["", *map(str, range(2, 1000))]
        free = next(name + FIX + n for n in numbers if name + FIX + n not in taken)
        letter = messages.compose(
            REPAIR,
            {
                "found_by": found_by,
                "error": error,
                "fix": fix,
                "task": name,
                "session": original.session_id,
                "report": original.report_path,
            },
        )
        tasks.add(store, caller, free, None, letter, phase=original.phase)
    return tasks.get(store, free)


class Finding:
    """One thing that a sweep found: settled, or with the command that settles it."""

    def __init__(
        self, kind: str, task_id: str, what: str, command: str = "", *, settled: bool = False
    ) -> None:
        self.kind, self.task_id, self.what = kind, task_id, what
        self.command, self.settled = command, settled

    def line(self) -> str:
        """The finding as the conductor reads it."""
        then = "settled" if self.settled else f"→ {self.command}"
        return flat(f"{self.kind:<10} {self.task_id:<12} {one_line(self.what, 90)}  {then}")


def bury_dead(store: Store, host: str, is_alive: IsAlive) -> list[str]:
    """Note every session of this host whose process is gone; the rows they left behind."""
    return [
        task_id
        for session_id in life.find_dead(store, host, is_alive)
        for task_id in life.bury(store, session_id, "its process is gone")
    ]


def _nobody_else(_: str) -> AbstractContextManager[bool]:
    return nullcontext(True)  # noqa: FBT003


def sweep(
    store: Store, stage: Stage, stale_after: int = STALE_AFTER, hold: Hold = _nobody_else
) -> list[Finding]:
    """Settle what can be settled, report the rest. Doing it twice changes nothing more.

    A musician that lives is never ended here: a machine that slept makes everybody look stale.
    `hold` takes a task's lock without waiting: a task with which another command is busy is passed
    over, for that may just have started its next session.
    """
    bury_dead(store, stage.host, stage.is_alive)
    found = [*_collisions(store, stage, hold), *_windows(store, stage, hold)]
    found += _asking(store, stage)
    items = overview.attention(store, stale_after)
    found += [_finding(store, stage, item) for item in items if item.kind in REPORTED]
    stuck = store.all("idle_sessions", state=State.WORKING.value, seconds=NO_PROGRESS)
    known = {f.task_id for f in found if not f.settled}
    for row in stuck:
        if row["task_id"] not in known:
            what = f"alive, but no sign of work for {row['age'] // 60} min"
            found.append(Finding("stuck", row["task_id"], what, f"podium why {row['task_id']}"))
    return found


def _finding(store: Store, stage: Stage, item: overview.Item) -> Finding:
    if item.kind == "stale":
        task = tasks.get(store, item.task_id)
        if launches.player_of(store, task, stage.is_alive) is True:
            what = f"{task.state.value}, runs but gave no sign of life for {task.owner_age} s"
            return Finding(FROZEN, item.task_id, what, item.command)
    return Finding(item.kind, item.task_id, item.what, item.command)


def _collisions(store: Store, stage: Stage, hold: Hold) -> Iterator[Finding]:
    kind = MessageType.CLAIM_BLOCKED.value
    for row in tasks.every(store):
        if kind_of(row.task_id) is not Kind.FALLBACK:
            continue
        blocked = store.one("blocked_claim", session_id=row.session_id, message_type=kind)
        name = str(blocked["task_id"]) if blocked else None
        with hold(name) if name else nullcontext(True) as free:  # noqa: FBT003
            if free:
                yield from _collision(store, stage, row, name)


def _collision(store: Store, stage: Stage, fallback: Task, name: str | None) -> Iterator[Finding]:
    """A blocked claim: over when somebody played the task after it, else somebody must look."""
    kind = MessageType.CLAIM_BLOCKED.value
    original = store.one("task", task_id=name) if name else None
    if original and original["session_id"] == fallback.session_id:
        store.run("delete_fallback", task_id=fallback.task_id)
        what = f"session {fallback.session_id} was blocked and has claimed it since"
        yield Finding("collision", str(name), what, settled=True)
        return
    for launch in launches.all_open(store, name):
        if launch.session_id == fallback.session_id:
            stage.end(launch.process)
            if launch.window:
                stage.close_window(launch.backend, json.loads(launch.window))
            store.run("close_launch", id=launch.id)
            what = f"the window of the blocked session {fallback.session_id} is closed"
            yield Finding("collision", launch.task_id, what, settled=True)
    if original is None:
        store.run("delete_fallback", task_id=fallback.task_id)
        what = f"session {fallback.session_id} was blocked from a task that is not there"
        yield Finding("collision", fallback.task_id, what, settled=True)
        return
    task = Task(original)
    played = str(task.last_heartbeat or "") > str(fallback.last_heartbeat or "")
    alive = task.owner_age is not None and task.owner_age < STALE_AFTER
    if played or alive or task.state in ENDED:
        store.run("delete_fallback", task_id=fallback.task_id)
        what = f"session {fallback.session_id} was blocked; {task.worked_by} played it since"
        yield Finding("collision", task.task_id, what, settled=True)
        return
    had = tenures(store, task.task_id)
    since = had[-1].claimed_after if had else 0
    count = store.one("blocked_claims", task_id=task.task_id, message_type=kind, since=since)
    if count and count["count"] > 1:
        what = f"{count['count']} claims were blocked and nobody plays it; a person must look"
        yield Finding("person", task.task_id, what, f"podium why {task.task_id}")
    else:
        verb = "launch" if task.state in CLAIMABLE[Kind.TASK] else "replace"
        what = f"session {fallback.session_id} was blocked and nobody plays it"
        yield Finding("collision", task.task_id, what, f"podium conductor {verb} {task.task_id}")


def _windows(store: Store, stage: Stage, hold: Hold) -> Iterator[Finding]:
    """Windows of tasks that ended, sessions that ended before they claimed, stale PID files."""
    for launch in launches.note_failures(store, stage):
        what = f"its session ended before it claimed {launch.task_id}"
        yield Finding("launch", launch.task_id, what, f"podium conductor launch {launch.task_id}")
    for task in tasks.every(store):
        if kind_of(task.task_id) is Kind.TASK and _is_over(store, task.task_id):
            with hold(task.task_id) as free:
                lines = (
                    launches.close(store, stage, task.task_id)
                    if free and _is_over(store, task.task_id)
                    else []
                )
            for line in lines:
                yield Finding("window", task.task_id, line, settled=True)
    for task_id, note in stage.clear_all_stale().items():
        yield Finding("pid", task_id, note, settled=True)


def _is_over(store: Store, task_id: str) -> bool:
    """Whether a task has ended and a window of it is left that may be closed, as of now."""
    if not launches.all_open(store, task_id):
        return False
    task = tasks.get(store, task_id)
    return not launches.may_close(tasks.every(store), task) and _has_left(store, task)


def _has_left(store: Store, task: Task) -> bool:
    """Whether a task ended long enough ago for its session to have said its last words."""
    row = store.one("heartbeat_age", task_id=task.task_id)
    return row is not None and row["seconds"] is not None and row["seconds"] >= LINGER


def _asking(store: Store, stage: Stage) -> Iterator[Finding]:
    """The client itself knows who still waits: a question answered by Esc makes no sound."""
    rows: list[Row] = store.all("asking", ended=json.dumps([s.value for s in ENDED]))
    waiting = stage.waiting_for() if rows else {}
    for row in rows:
        if waiting.get(row["session_id"], "?") == "":
            store.run("stop_asking", session_id=row["session_id"])
            what = "its question has been answered"
            yield Finding("asking", row["task_id"], what, settled=True)


def windows(store: Store, is_alive: IsAlive) -> list[launches.Launch]:
    """The launches whose process runs now."""
    return [one for one in launches.all_open(store) if launches.is_playing(store, one, is_alive)]


def score(store: Store) -> list[str]:
    """The run at a glance for a conductor that takes over: phases, states, who plays."""
    lines = []
    rows = [t for t in tasks.every(store) if kind_of(t.task_id) is Kind.TASK]
    for phase in sorted({t.phase for t in rows}):
        of = [t for t in rows if t.phase == phase]
        ended = sum(t.state in ENDED for t in of)
        shown = [f"{t.task_id} {_standing(t)}" for t in of if t.state not in ENDED]
        more = f" (+{len(shown) - 8} more)" if len(shown) > 8 else ""
        rest = "; ".join(shown[:8]) + more
        lines.append(f"Phase {phase}: {ended} of {len(of)} ended{'; ' + rest if rest else ''}")
    return lines


def _standing(task: Task) -> str:
    if task.state is FIRST[Kind.TASK] or task.owner_age is None:
        return task.state.value
    return f"{task.state.value} ({task.worked_by}, seen {task.owner_age} s ago)"
