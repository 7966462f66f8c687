"""What can be done to a task. Each step is one transaction: the message first, then the state."""

from __future__ import annotations

import json

from podium.domain.advice import advice
from podium.domain.errors import ClaimBlocked, NotOwner, PodiumError, TaskNotFound, WrongRole
from podium.domain.records import Event, Task
from podium.domain.rules import ERROR_RETRIES, STALE_AFTER, check_move
from podium.domain.states import (
    CLAIMABLE,
    CLAIMED,
    CONDUCTOR_ROW,
    ENDED,
    FALLBACK_PREFIX,
    FIRST,
    VERDICTS,
    Kind,
    MessageType,
    Role,
    State,
    kind_of,
)
from podium.services import life, messages

from .callers import Caller, own_task, require_session, still_conducts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from podium.store.base import Store


def get(store: Store, task_id: str) -> Task:
    """The row, or TaskNotFound."""
    row = store.one("task", task_id=task_id)
    if row is None:
        raise TaskNotFound(task_id)
    return Task(row)


def every(store: Store) -> list[Task]:
    """All rows, by phase."""
    return [Task(row) for row in store.all("tasks")]


def is_stale(task: Task) -> bool:
    """Whether a live row's owner has shown no sign of life for too long."""
    return task.owner_age is not None and task.owner_age >= STALE_AFTER


def move(store: Store, task: Task, to: State, role: Role, actor: str) -> None:
    """Put the row in a state. Call it in a transaction, with the row as read there."""
    check_move(task, to, role)
    done = store.run(
        "move",
        task_id=task.task_id,
        found=task.state.value,
        to_state=to.value,
        session_id=task.session_id,
        actor=actor,
    )
    if not done:
        raise PodiumError(f"{task.task_id} changed meanwhile; run: podium why {task.task_id}")


def send(store: Store, task_id: str, sender: str, kind: MessageType, text: str) -> int:
    """Write a message; its id."""
    store.run("send", task_id=task_id, from_session=sender, message=text, message_type=kind.value)
    sent = store.one("last_sent")
    return int(sent["id"]) if sent else 0


def add(
    store: Store,
    caller: Caller,
    task_id: str,
    instructions: str | None,
    letter: str,
    *,
    phase: int = 1,
    parallel: bool = False,
    needs: Iterable[str] = (),
) -> int:
    """Make the row and its instruction message; the message's id. Refuses an id that exists."""
    with store.transaction():
        still_conducts(store, caller)
        if store.one("task", task_id=task_id):
            raise PodiumError(f"{task_id} exists already; run: podium why {task_id}")
        store.run(
            "add_task",
            task_id=task_id,
            state=FIRST[Kind.TASK].value,
            instruction_path=instructions,
            phase=phase,
            parallel=int(parallel),
            actor=caller.actor,
        )
        for need in needs:
            get(store, need)
            store.run("add_need", task_id=task_id, needs=need)
        return send(store, task_id, CONDUCTOR_ROW, MessageType.INSTRUCTION, letter)


def claim(store: Store, caller: Caller, task_id: str) -> Task:
    """Take the task for this session. A blocked claim writes the fallback, then ClaimBlocked."""
    session_id = require_session(caller)
    with store.transaction():
        task = get(store, task_id)
        if kind_of(task_id) is not Kind.TASK or caller.is_conductor:
            raise WrongRole(Role.MUSICIAN, caller.owns())
        busy = [t.task_id for t in caller.live if t.task_id != task_id]
        if busy:
            raise NotOwner(f"this session plays {busy[0]}; end it before it claims {task_id}")
        if task.session_id == session_id and task.owner_age is not None:
            _play_on(store, task, session_id)
            return get(store, task_id)
        won = store.run(
            "claim",
            task_id=task_id,
            to_state=CLAIMED[Kind.TASK].value,
            session_id=session_id,
            claimable=json.dumps([s.value for s in CLAIMABLE[Kind.TASK]]),
        )
        if won:
            store.run("seen", session_id=session_id, progress=1)
            return get(store, task_id)
        reason = _why_blocked(store, task)
        store.run(
            "add_fallback",
            task_id=FALLBACK_PREFIX + session_id,
            state=FIRST[Kind.FALLBACK].value,
            session_id=session_id,
        )
        letter = messages.write(MessageType.CLAIM_BLOCKED, {"task": task_id, "reason": reason})
        send(store, task_id, session_id, MessageType.CLAIM_BLOCKED, letter)
    raise ClaimBlocked(
        f"{task_id} cannot be claimed: {reason}; the conductor was told and this session may end; "
        "end your turn"
    )


def _play_on(store: Store, task: Task, session_id: str) -> None:
    """The owner takes its own task up again after a verdict."""
    if task.state is State.EXIT_REQUESTED:
        raise PodiumError(
            f"{task.task_id} is {task.state.value}: {advice(task.task_id, task.state)}"
        )
    move(store, task, State.WORKING, Role.MUSICIAN, session_id)
    life.beat(store, session_id, progress=True)


def _why_blocked(store: Store, task: Task) -> str:
    if task.state not in CLAIMABLE[Kind.TASK]:
        by = f" by {task.worked_by}" if task.worked_by else ""
        return f"it is {task.state.value}{by}"
    unmet = store.all("unmet_needs", task_id=task.task_id, complete=State.COMPLETE.value)
    if unmet:
        return f"it needs {', '.join(str(row['needs']) for row in unmet)}, not complete yet"
    return (
        f"its owner {task.worked_by} (session {task.session_id}) is alive, "
        f"seen {task.owner_age} s ago"
    )


def play(
    store: Store, caller: Caller, task: Task, to: State, kind: MessageType, letter: str
) -> int:
    """A musician's step: its message, then its state; the message's id."""
    session_id = require_session(caller)
    with store.transaction():
        task = own_task(store, caller, task.task_id)
        if task.state is State.FIX_PROPOSED and task.owner_age is None:
            raise NotOwner(
                f"{task.task_id} was let go by this session and anybody may claim it; "
                f"run: podium musician claim {task.task_id}"
            )
        number = send(store, task.task_id, session_id, kind, letter)
        move(store, task, to, Role.MUSICIAN, session_id)
        life.beat(store, session_id, progress=True)
    return number


def fail(
    store: Store, caller: Caller, task: Task, error: str, letter: str, *, warning: bool
) -> int:
    """Report an error, counted, or a context warning, not counted. Refuses the sixth error."""
    with store.transaction():
        task = own_task(store, caller, task.task_id)
        if not warning and task.retry_count >= ERROR_RETRIES:
            raise PodiumError(
                f"{task.task_id} has used its {ERROR_RETRIES} error retries; write the HANDOFF, "
                "then run: podium musician exit --reason 'retries exhausted'"
            )
        kind = MessageType.CONTEXT_WARNING if warning else MessageType.ERROR
        number = play(store, caller, task, State.ERROR, kind, letter)
        store.run("set_error", task_id=task.task_id, last_error=error, counted=int(not warning))
    return number


def approved_since_completion(store: Store, task_id: str) -> bool:
    """Whether the newest verdict since the newest completion report is an approval."""
    report = store.one("latest_of_type", task_id=task_id, message_type=MessageType.COMPLETION.value)
    if report is None:
        return False
    verdict = store.one(
        "latest_verdict",
        task_id=task_id,
        since=report["id"],
        verdicts=json.dumps([s.value for s in VERDICTS]),
    )
    return verdict is not None and verdict["to_state"] == State.REVIEW_APPROVED.value


def complete(store: Store, caller: Caller, task: Task, report: str) -> None:
    """The last write of a task; refused until its completion report is approved."""
    session_id = require_session(caller)
    with store.transaction():
        task = own_task(store, caller, task.task_id)
        if not approved_since_completion(store, task.task_id):
            raise PodiumError(
                f"{task.task_id} is {task.state.value} and its completion is not approved; "
                "submit it with: podium musician finish --help, and wait for the verdict"
            )
        move(store, task, State.COMPLETE, Role.MUSICIAN, session_id)
        store.run("set_completed", task_id=task.task_id, report_path=report)


def judge(
    store: Store, caller: Caller, task_id: str, to: State, kind: MessageType, text: str
) -> int:
    """A conductor's word to a task: message, state, and task-00 watching again."""
    with store.transaction():
        still_conducts(store, caller)
        task = get(store, task_id)
        check_move(task, to, Role.CONDUCTOR)
        letter = messages.write(kind, {"text": text})
        number = send(store, task_id, CONDUCTOR_ROW, kind, letter)
        move(store, task, to, Role.CONDUCTOR, caller.actor)
        watch(store, caller)
    return number


def watch(store: Store, caller: Caller) -> None:
    """task-00 is watching again after a review."""
    podium = get(store, CONDUCTOR_ROW)
    if podium.state is State.REVIEWING:
        move(store, podium, State.WATCHING, Role.CONDUCTOR, caller.actor)


def review(store: Store, caller: Caller, task_id: str) -> Task:
    """task-00 is reviewing while the conductor reads this submission."""
    with store.transaction():
        still_conducts(store, caller)
        task = get(store, task_id)
        podium = get(store, CONDUCTOR_ROW)
        if podium.state is State.WATCHING:
            move(store, podium, State.REVIEWING, Role.CONDUCTOR, caller.actor)
    return task


def broadcast(store: Store, caller: Caller, text: str) -> list[str]:
    """One emergency message to every task that somebody plays; their ids."""
    with store.transaction():
        still_conducts(store, caller)
        told = [
            t.task_id
            for t in every(store)
            if kind_of(t.task_id) is Kind.TASK and t.state not in ENDED and t.owner_age is not None
        ]
        letter = messages.write(MessageType.EMERGENCY, {"text": text})
        for task_id in told:
            send(store, task_id, CONDUCTOR_ROW, MessageType.EMERGENCY, letter)
    return told


def conduct(store: Store, caller: Caller) -> Task:
    """Take task-00 for this session: when it is free, its owner rests, or shows no sign of life."""
    session_id = require_session(caller)
    if caller.live:
        raise WrongRole(Role.CONDUCTOR, caller.owns())
    with store.transaction():
        podium = get(store, CONDUCTOR_ROW)
        if podium.state is State.COMPLETE:
            raise PodiumError("this run is complete; start a new one with: podium init --archive")
        if podium.session_id == session_id and podium.owner_age is not None:
            return podium
        # A rested conductor that comes back is let in by the state, a new one by the claim.
        won = store.run(
            "take_podium",
            task_id=CONDUCTOR_ROW,
            to_state=CLAIMED[Kind.CONDUCTOR].value,
            session_id=session_id,
            claimable=json.dumps([s.value for s in CLAIMABLE[Kind.CONDUCTOR]]),
        )
        if not won:
            raise PodiumError(
                f"the conductor's session {podium.session_id} is alive (seen {podium.owner_age} s "
                "ago); it must rest first: podium conductor rest"
            )
        store.run("seen", session_id=session_id, progress=1)
        return get(store, CONDUCTOR_ROW)


def finish(store: Store, caller: Caller) -> None:
    """The run is complete. Refused while any task is live."""
    with store.transaction():
        still_conducts(store, caller)
        live = [
            f"{t.task_id} {t.state.value}"
            for t in every(store)
            if kind_of(t.task_id) is Kind.TASK and t.state not in ENDED
        ]
        if live:
            some = ", ".join(live[:5]) + (", …" if len(live) > 5 else "")
            raise PodiumError(f"{len(live)} tasks are live ({some}); run: podium conductor next")
        move(store, get(store, CONDUCTOR_ROW), State.COMPLETE, Role.CONDUCTOR, caller.actor)


def rest(store: Store, caller: Caller) -> None:
    """The conductor leaves the run to another session."""
    with store.transaction():
        still_conducts(store, caller)
        podium = get(store, CONDUCTOR_ROW)
        move(store, podium, State.EXIT_REQUESTED, Role.CONDUCTOR, caller.actor)


def history(store: Store, task_id: str | None, most: int) -> list[Event]:
    """The newest events, oldest first."""
    return [Event(row) for row in store.all("events", task_id=task_id, most=most)]


def tell(store: Store, caller: Caller, task: Task, kind: MessageType, letter: str) -> int:
    """A musician's message that moves nothing; its id."""
    session_id = require_session(caller)
    with store.transaction():
        task = own_task(store, caller, task.task_id)
        life.beat(store, session_id, progress=True)
        return send(store, task.task_id, session_id, kind, letter)
