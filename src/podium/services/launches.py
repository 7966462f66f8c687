"""Sessions that podium starts and ends: at most one process for a task, known before it runs.

The stage is given: windows and processes are its business, rows and refusals are ours.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Protocol

from podium.domain.errors import PodiumError
from podium.domain.quotes import one_line
from podium.domain.records import Process, Record, Task
from podium.domain.rules import STALE_AFTER, successor_name
from podium.domain.states import CLAIMABLE, ENDED, Kind, State, kind_of

from . import tasks
from .resumption import tenures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Optional

    from podium.store.base import Store

    IsAlive = Callable[[Process], Optional[bool]]

FAILURES, WITHIN = 3, 600  # so many failed launches within so many seconds go to a person
NOTE_CHARACTERS = 300


class Stage(Protocol):
    """What of podium.stage.stage.Stage is used here; what it opens and starts is opaque to us."""

    root: str
    host: str

    def choose(self, wanted: str | None) -> tuple[Any, str]:
        """The backend to use, and why."""

    def place(self, task_id: str) -> str:
        """Where the session of a task works."""

    def prepare(
        self,
        backend: Any,
        task_id: str,
        title: str,
        prompt: str,
        *,
        cwd: str,
        session_id: str | None,
        resume: str | None = None,
    ) -> Any:
        """A session as it would be started."""

    def start(self, backend: Any, play: Any) -> tuple[dict[str, Any], Process | None]:
        """Its window, and the process in it."""

    def watch(self, who: Process | None, came: Callable[[], bool]) -> str:
        """Whether it came, ended first, or kept silent."""

    def screen(self, name: str, window: Mapping[str, object]) -> str:
        """What a window says."""

    def end(self, who: Process | None) -> str:
        """End a process, if it is the one."""

    def close_window(self, name: str, window: Mapping[str, object]) -> None:
        """Take down what is left of a window."""

    def is_alive(self, who: Process) -> bool | None:
        """Whether this very process runs."""

    def descends(self, pid: int, who: Process) -> bool:
        """Whether the process with this pid came from that one."""

    def player(self, task_id: str) -> Process | None:
        """The process that a PID file names."""

    def clear_stale(self, task_id: str) -> str:
        """Remove a PID file that names nobody."""

    def clear_all_stale(self) -> dict[str, str]:
        """Remove every such file, of whatever run; task id → what it was."""

    def waiting_for(self) -> dict[str, str]:
        """What each session that the client lists waits for."""


class Launch(Record):
    """One row of podium_launches."""

    id: int
    task_id: str
    session_id: str | None
    backend: str
    cwd: str
    state: str
    window: str | None
    reach: str | None
    pid: int | None
    pid_started: str | None
    host: str | None
    at: str
    age: int
    closed_at: str | None
    note: str | None

    @property
    def process(self) -> Process | None:
        """The process that was started; None when it never came up."""
        if self.pid is None or not self.pid_started or not self.host:
            return None
        return Process(self.pid, self.pid_started, self.host)


class Order:
    """What is asked for: which task, in what window, with what besides the usual words."""

    def __init__(
        self,
        task_id: str,
        session_id: str,
        *,
        backend: str | None = None,
        words: str = "",
        retry: bool = False,
    ) -> None:
        self.task_id, self.session_id, self.backend = task_id, session_id, backend
        self.words, self.retry = words, retry


class Started:
    """A session that has come through its SessionStart."""

    def __init__(self, launch: Launch, why: str, title: str, notes: list[str]) -> None:
        self.launch, self.why, self.title, self.notes = launch, why, title, notes


def all_open(store: Store, task_id: str | None = None) -> list[Launch]:
    """The launches of which a window or a process may be left, oldest first."""
    return [Launch(row) for row in store.all("open_launches", task_id=task_id)]


def latest(store: Store, task_id: str) -> Launch | None:
    """The newest launch of a task."""
    rows = store.all("launches", task_id=task_id)
    return Launch(rows[0]) if rows else None


def is_playing(store: Store, launch: Launch, is_alive: IsAlive) -> bool:
    """Whether its process runs; one on another host is believed to."""
    if launch.process and is_alive(launch.process) is not False:
        return True
    if launch.backend != "background" or not launch.session_id:
        return False
    # The client's supervisor may have started the same session in another process.
    known = store.one("session", session_id=launch.session_id) or {}
    if not known.get("pid"):
        return False
    registered = Process(known["pid"], str(known["pid_started"]), str(known["host"]))
    return is_alive(registered) is True


def player_of(store: Store, task: Task, is_alive: IsAlive) -> bool | None:
    """Whether the process of a task's owner runs; None when that cannot be told."""
    known = store.one("session", session_id=task.session_id) if task.session_id else None
    if known and known["ended"]:
        return False
    if not known or known["pid"] is None:
        return None
    return is_alive(Process(known["pid"], str(known["pid_started"]), str(known["host"])))


def check(store: Store, stage: Stage, task: Task, *, retry: bool) -> None:
    """Nothing, or why no session may be started for this task now."""
    name = task.task_id
    if task.state not in CLAIMABLE[Kind.TASK]:
        by = f" by {task.worked_by}" if task.worked_by and task.state not in ENDED else ""
        what = {
            State.COMPLETE: f"correct it with: podium conductor repair {name} --help",
            State.EXITED: f"run: podium conductor replace {name}",
        }.get(task.state, f"if its session is gone, run: podium conductor replace {name}")
        raise PodiumError(f"{name} is {task.state.value}{by}, so nobody can claim it; {what}")
    if task.owner_age is not None and task.owner_age < STALE_AFTER:
        raise PodiumError(
            f"{name} is {task.state.value} and {task.worked_by} is alive (seen {task.owner_age} s "
            f"ago), so nobody else can claim it; run: podium conductor handoff {name}"
        )
    unmet = store.all("unmet_needs", task_id=name, complete=State.COMPLETE.value)
    if unmet:
        names = ", ".join(str(row["needs"]) for row in unmet)
        raise PodiumError(f"{name} needs {names}, not complete yet; run: podium conductor next")
    for launch in all_open(store, name):
        if is_playing(store, launch, stage.is_alive):
            raise PodiumError(
                f"{name} has a live process already (pid {launch.pid}, started {launch.age} s ago; "
                f"{launch.reach}); to end it: podium conductor close {name} --now"
            )
    who = stage.player(name)
    if who and stage.is_alive(who) is not False:
        raise PodiumError(
            f"{name} has a live process already (pid {who.pid} by its PID file); "
            f"to end it: podium conductor close {name} --now"
        )
    note_failures(store, stage, name)
    failed = [Launch(row) for row in store.all("failed_launches", task_id=name, within=WITHIN)]
    if len(failed) >= FAILURES and not retry:
        why = one_line(failed[0].note or "no reason was seen", NOTE_CHARACTERS)
        raise PodiumError(
            f"{len(failed)} launches of {name} failed within {WITHIN // 60} minutes, so a person "
            f"must look; the last: {why}; then run: podium conductor launch {name} --retry"
        )


def note_failures(store: Store, stage: Stage, task_id: str | None = None) -> list[Launch]:
    """Mark the launches whose session ended before it claimed its task; those found now."""
    found = []
    for launch in all_open(store, task_id):
        playing = is_playing(store, launch, stage.is_alive)
        if launch.state == "failed" and playing and has_come(store, stage, launch):
            store.run(
                "judge_launch", id=launch.id, state="playing", note=None
            )  # somebody helped it
        if launch.state == "failed" or playing:
            continue
        if launch.state == "starting" and launch.pid is None and launch.age < STALE_AFTER:
            continue  # another command is about to start it
        owned = store.one("former_owner", task_id=launch.task_id, session_id=launch.session_id)
        if not owned:
            said = stage.screen(launch.backend, json.loads(launch.window)) if launch.window else ""
            note = (
                f"it ended before it claimed {launch.task_id}: {said or 'its window says nothing'}"
            )
            store.run("judge_launch", id=launch.id, state="failed", note=note)
            found.append(launch)
    return found


def title(task: Task) -> str:
    """What its window is called."""
    return f"Musician: {task.task_id}" + (f" (S{task.claims + 1})" if task.claims else "")


def original_of(task_id: str) -> str:
    """The task that a repair corrects; a task itself is its own."""
    return task_id.partition("-fix")[0]


def resumable(store: Store, stage: Stage, task: Task) -> tuple[str, str]:
    """The session to resume for a repair and where it worked; empty when a fresh one must do."""
    if original_of(task.task_id) == task.task_id or task.claims:
        return "", ""
    original = tasks.get(store, original_of(task.task_id))
    found = original.session_id and store.one("current_session", session_id=original.session_id)
    session_id = str(found["id"]) if found else ""
    known = store.one("session", session_id=session_id) or {}
    transcript = str(known.get("transcript_path") or "")
    if not os.path.isfile(transcript) or player_of(store, original, stage.is_alive) is True:
        return "", ""
    launched = [Launch(row) for row in store.all("launches", task_id=original.task_id)]
    places = [one.cwd for one in launched if one.session_id == original.session_id]
    return session_id, places[0] if places else stage.root


def prompt(
    store: Store, task: Task, handoff: str, *, resumed: bool, words: str, base: str = ""
) -> str:
    """The first words of a session: its skill and task, who was before it, what to read.

    `base` is the project's root for a session that works elsewhere, in a worktree.
    """
    name = task.task_id
    lines = [f"/podium:musician {name}", ""]
    if resumed:
        done = f"You are resumed to correct an integration error in {original_of(name)}"
        lines.append(f"{done}, which you completed. You know what you built.")
        lines.append(f"The error and the fix wanted are in the instruction message of {name}.")
    else:
        who = successor_name(name, task.claims + 1)
        lines.append(f"You are launched as {who} for {name} (phase {task.phase}).")
        path = task.instruction_path and os.path.join(base, task.instruction_path)
        lines.append(f"Instructions: {path or f'podium messages {name} --all'}")
    if task.claims:
        left = tenures(store, name)
        lines.append(
            f"Previous session: {task.worked_by or (left[-1].name if left else 'unknown')}"
        )
        path = handoff and os.path.join(base, handoff)
        lines.append(f"HANDOFF: {path or 'none, the previous session left without one'}")
    lines.append(f"First: podium musician claim {name}")
    if task.claims:
        lines.append("Then: podium musician resume")
    return "\n".join(lines) + (f"\n\n{words}" if words.strip() else "")


class Plan:
    """A launch as it would be made."""

    def __init__(self, task: Task, backend: Any, why: str, play: Any, resume: str) -> None:
        self.task, self.backend, self.why, self.play, self.resume = task, backend, why, play, resume


def plan(store: Store, stage: Stage, order: Order, handoff: str) -> Plan:
    """What would be started for an order, checked; nothing is written."""
    task = tasks.get(store, order.task_id)
    check(store, stage, task, retry=order.retry)
    backend, why = stage.choose(order.backend)
    resume, cwd = resumable(store, stage, task)
    cwd = cwd or stage.place(task.task_id)
    base = "" if cwd == stage.root else stage.root
    text = prompt(store, task, handoff, resumed=bool(resume), words=order.words, base=base)
    play = stage.prepare(
        backend,
        task.task_id,
        title(task),
        text,
        cwd=cwd,
        session_id=order.session_id,
        resume=resume or None,
    )
    return Plan(task, backend, why, play, resume)


def launch(store: Store, stage: Stage, order: Order, handoff: str) -> Started:
    """Start a session for a task, and see it come through its SessionStart.

    Call it alone (under the task's lock). The session is recorded before it starts; one that does
    not come is recorded as failed, and the refusal says what its window says.
    """
    made = plan(store, stage, order, handoff)
    note = stage.clear_stale(order.task_id)
    chosen = made.resume or (order.session_id if made.backend.chooses_id else None)
    with store.transaction():
        store.run("add_launch", task_id=order.task_id, session_id=chosen,
                  backend=made.backend.name, cwd=made.play.cwd)  # fmt: skip
        number = int(store.all("launches", task_id=order.task_id)[0]["id"])
        if chosen:
            store.run("expect_session", session_id=chosen, task_id=order.task_id)
    try:
        window, who = stage.start(made.backend, made.play)
    except PodiumError as error:
        store.run("judge_launch", id=number, state="failed", note=str(error))
        store.run("close_launch", id=number)
        raise PodiumError(
            f"{order.task_id} was not launched: {error}; "
            f"run: podium conductor launch {order.task_id} --dry-run"
        ) from error
    session_id = chosen or window.get("session_id")
    reach = made.backend.reach(window)
    with store.transaction():
        store.run("set_launch", id=number, session_id=session_id, reach=reach,
                  window=json.dumps(window, ensure_ascii=False), pid=who and who.pid,
                  pid_started=who and who.started, host=who and who.host)  # fmt: skip
        if not chosen and session_id:
            store.run("expect_session", session_id=session_id, task_id=order.task_id)
    found = Launch(store.all("launches", task_id=order.task_id)[0])
    outcome = stage.watch(who, lambda: has_come(store, stage, found))
    if outcome == "came" or has_come(store, stage, found):
        store.run("judge_launch", id=number, state="playing", note=None)
        return Started(found, made.why, made.play.title, [note] if note else [])
    said = stage.screen(made.backend.name, window)
    store.run("judge_launch", id=number, state="failed", note=said or outcome)
    raise PodiumError(_never_came(store, stage, found, outcome, said))


def has_come(store: Store, stage: Stage, launch: Launch) -> bool:
    """Whether the session has registered itself at its SessionStart, as the process started.

    A wrapper script that stays is the process started, and the client is one that came from it.
    """
    known = store.one("session", session_id=launch.session_id) or {}
    pid = known.get("pid")
    if not pid or launch.process is None:
        return False
    return bool(pid == launch.pid or stage.descends(pid, launch.process))


def _never_came(store: Store, stage: Stage, launch: Launch, outcome: str, said: str) -> str:
    name = launch.task_id
    says = f"its window says: {one_line(said, 600)}" if said else "its window says nothing"
    if outcome == "ended":
        close(store, stage, name)
        return f"the session of {name} ended before its SessionStart; {says}"
    return (
        f"the session of {name} runs (pid {launch.pid}) but has not come through its SessionStart; "
        f"{says}; answer it there ({launch.reach}), or run: podium conductor close {name} --now"
    )


def close(store: Store, stage: Stage, task_id: str) -> list[str]:
    """End every process and window that podium started for a task; what was done, line by line."""
    done = []
    who = stage.player(task_id)  # read first: it must not name somebody who comes meanwhile
    for launch in all_open(store, task_id):
        outcome = stage.end(launch.process)
        if outcome in ("survived", "elsewhere"):
            where = f" on {launch.host}" if outcome == "elsewhere" else ""
            raise PodiumError(
                f"pid {launch.pid}{where} of {task_id} cannot be ended from here; end it by hand "
                f"({launch.reach}), then run this again"
            )
        if launch.window:
            stage.close_window(launch.backend, json.loads(launch.window))
        store.run("close_launch", id=launch.id)
        if outcome != "gone":
            done.append(
                f"{task_id}: pid {launch.pid} {outcome}, its {launch.backend} window is closed"
            )
    if who and stage.is_alive(who):  # left by a run whose database was moved aside
        done.append(f"{task_id}: pid {who.pid} {stage.end(who)}")
    note = stage.clear_stale(task_id)
    return done + ([note] if note and "stranger" in note else [])


def may_close(rows: list[Task], task: Task) -> str:
    """Why its window must stay; empty when it may be closed now.

    A sequential task's goes as soon as the task has ended, a parallel one's with its siblings'.
    """
    if task.state not in ENDED:
        return f"{task.task_id} is {task.state.value}"
    siblings = [
        t for t in rows if kind_of(t.task_id) is Kind.TASK and t.phase == task.phase and t.parallel
    ]
    live = [t.task_id for t in siblings if t.state not in ENDED] if task.parallel else []
    return f"its parallel siblings still play: {', '.join(live)}" if live else ""
