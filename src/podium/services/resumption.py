"""What a session finds that takes over a task: whether scratch files, row and mail agree.

Every mismatch is benign (the scratch files are right), suspicious (run the tests again) or
contradictory (ask the conductor), and names the rule that found it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from podium.domain.quotes import one_line
from podium.domain.records import Event
from podium.domain.rules import DIRTY_ABOVE, wants_escalation
from podium.domain.states import CONDUCTOR_ROW, ENDED, PLAYED, MessageType, State

from .checks import breakdown, pending_mail
from .scratch import CHECKPOINT_FORM, Notes, epoch, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from podium.domain.records import Task
    from podium.store.base import Store

    from .scratch import Scratch

BENIGN, SUSPICIOUS, CONTRADICTORY = "benign", "suspicious", "contradictory"
CLEAN, VERIFY, GUIDANCE = "clean handoff", "needs verification", "needs guidance"
PRESENT, MISSING, STALE = "present", "missing", "stale"
TOO_MANY = 2  # more deviations or suspicious mismatches than this go to the conductor
CLOSE = 60  # seconds between two times that may stand for one moment
EVENTS = 10_000
WIDTH = 160

_CHECKPOINT_SENT = re.compile(r"^\s*Checkpoint: (\d{1,4})\b", re.MULTILINE)
_PASSED = re.compile(r"approved|passed|completed?\Z", re.IGNORECASE)
_LEFT_CLEANLY = re.compile(r"clean exit|HANDOFF (?:created|written)", re.IGNORECASE)


class Mismatch:
    """Two sources that disagree, how bad that is, and the rule that found it."""

    def __init__(self, kind: str, rule: str, text: str) -> None:
        self.kind, self.rule, self.text = kind, rule, one_line(text, WIDTH)


class Tenure:
    """One session's time with the task, from the event log."""

    def __init__(self, events: list[Event]) -> None:
        self.name = events[0].worked_by
        self.claimed_at, self.claimed_after = epoch(events[0].at), events[0].last_message
        self.sessions = [e.session_id for e in events if e.session_id]
        own = [e for e in events if e.to_state in (*PLAYED, *ENDED)]
        self.left_in = State(own[-1].to_state) if own else None
        exits = [e.at for e in events if e.to_state == State.EXITED.value]
        self.exited_at = epoch(exits[-1]) if exits else None


def tenures(store: Store, task_id: str) -> list[Tenure]:
    """Who had the task, one after another."""
    rows = [Event(row) for row in store.all("events", task_id=task_id, most=EVENTS)]
    names = dict.fromkeys(e.worked_by for e in rows if e.worked_by)
    return [Tenure([e for e in rows if e.worked_by == name]) for name in names]


class Evidence:
    """Everything the rules look at."""

    def __init__(self, store: Store, scratch: Scratch, task: Task, session_id: str) -> None:
        self.store, self.task, self.session_id = store, task, session_id
        had = tenures(store, task.task_id)
        names = [t.name for t in had]
        here = names.index(task.worked_by) if task.worked_by in names else len(names)
        self.present = had[here] if here < len(had) else None
        self.previous = had[here - 1] if here else None
        self.now = scratch.notes(task.task_id)  # with what this session logged itself
        self.notes: Notes = self.now.before(session_id) if self.previous else self.now
        self.handoff = self.notes.handoff
        self.handoff_state = self._handoff_state()

    def _handoff_state(self) -> str:
        handoff, before = self.handoff, self.previous
        if handoff is None:
            return MISSING
        if before is None or before.claimed_at is None or int(handoff.mtime) >= before.claimed_at:
            return PRESENT
        # The clock may have been set back since; then what the file says decides.
        by_it = any(handoff.is_by(session, before.name) for session in before.sessions)
        return PRESENT if by_it else STALE

    @property
    def is_own_handoff(self) -> bool:
        """Whether the session that looks wrote the HANDOFF itself."""
        return self.handoff is not None and self.handoff.is_by(self.session_id, self.task.worked_by)


def mismatches(e: Evidence) -> list[Mismatch]:
    """Everything that disagrees, the gravest first."""
    found = [*_contradictions(e), *_between_log_and_row(e), *_between_log_and_mail(e)]
    if e.handoff_state == PRESENT and e.previous and not e.is_own_handoff:
        found += _about_handoff(e)
    order = (CONTRADICTORY, SUSPICIOUS, BENIGN)
    return sorted(found, key=lambda m: order.index(m.kind))


def _contradictions(e: Evidence) -> Iterator[Mismatch]:
    notes, task, before = e.notes, e.task, e.previous
    if task.session_id != e.session_id:
        owner = f"the row belongs to session {task.session_id}, this one is {e.session_id}"
        yield Mismatch(CONTRADICTORY, "another owner", owner)
    left_in = before.left_in if before else None
    going_on = e.now.current_step is not None or e.now.agents_in_flight > 0
    if going_on and task.state is State.COMPLETE:
        doing = f"step {e.now.current_step}" if e.now.current_step is not None else "agents"
        text = f"the row says {State.COMPLETE.value}, the status log has {doing} in progress"
        yield Mismatch(CONTRADICTORY, "complete against work in progress", text)
    last = notes.entries[-1].text if notes.entries else ""
    checkpoint = CHECKPOINT_FORM.match(last)
    if left_in is State.ERROR and checkpoint and _PASSED.match(checkpoint["verb"]):
        text = f"the row was left in {State.ERROR.value}, the status log ends with: {last}"
        yield Mismatch(CONTRADICTORY, "error against checkpoint passed", text)
    if e.present:
        late = pending_mail(e.store, task.task_id, e.session_id, e.present.claimed_after)
        if late:
            text = f"the conductor wrote {late} message(s) after this session claimed the task"
            yield Mismatch(CONTRADICTORY, "conductor message after session start", text)


def _between_log_and_row(e: Evidence) -> Iterator[Mismatch]:
    notes = e.notes
    if e.previous is None:
        return
    if not notes.entries:
        text = f"{e.previous.name} had the task, the status log is empty or missing"
        yield Mismatch(SUSPICIOUS, "status log missing", text)
    if notes.agents_in_flight:
        text = f"{notes.agents_in_flight} agent(s) launched and not returned in the status log"
        yield Mismatch(SUSPICIOUS, "agents in flight", text)
    if e.handoff_state != PRESENT:
        if notes.current_step is not None:
            text = f"step {notes.current_step} was in progress and no HANDOFF says how far it is"
            yield Mismatch(SUSPICIOUS, "step in progress without HANDOFF", text)
        if notes.entries and _LEFT_CLEANLY.match(notes.entries[-1].text):
            text = f"the status log ends with: {notes.entries[-1].text}"
            yield Mismatch(SUSPICIOUS, "clean exit without HANDOFF", text)
    listed, logged = len(notes.deviations), notes.deviations_logged
    if logged and listed != logged:  # a log kept by hand need not name them
        text = f"{listed} in the deviations file, {logged} in the status log"
        yield Mismatch(SUSPICIOUS, "deviation count", text)


def _between_log_and_mail(e: Evidence) -> Iterator[Mismatch]:
    kind = MessageType.REVIEW_REQUEST.value
    sent = e.store.one("latest_of_type", task_id=e.task.task_id, message_type=kind)
    number = _CHECKPOINT_SENT.search(str(sent["message"])) if sent else None
    if number and e.notes.checkpoint is not None:
        text = f"{number[1]} in the mail, {e.notes.checkpoint} in the status log"
        yield from _off_by("last checkpoint", int(number[1]) - e.notes.checkpoint, text)


def _about_handoff(e: Evidence) -> Iterator[Mismatch]:
    handoff, before, notes = e.handoff, e.previous, e.notes
    if handoff is None or before is None:
        return
    if handoff.session_id and handoff.session_id not in before.sessions:
        text = f"it names {handoff.session_id}, the session before was {before.sessions[-1]}"
        yield Mismatch(SUSPICIOUS, "HANDOFF of another session", text)
    if handoff.gaps:
        yield Mismatch(SUSPICIOUS, "HANDOFF not filled in", handoff.gaps)
    late = int(handoff.mtime) - before.exited_at if before.exited_at is not None else 0
    if late > 0:
        grave = BENIGN if late < CLOSE else SUSPICIOUS
        yield Mismatch(grave, "timestamps", f"the HANDOFF was changed {late} s after the exit")
    done, logged = len(set(steps_of(handoff.completed))), len(notes.steps_completed)
    if done and logged:
        text = f"{done} completed in the HANDOFF, {logged} in the status log"
        yield from _off_by("step count", done - logged, text)
    following, current = steps_of(handoff.pending[:1]), notes.current_step
    if following and current is not None:
        text = f"{following[0]} in the HANDOFF, {current} in the status log"
        yield from _off_by("current step", following[0] - current, text)
    if len(handoff.deviations) != len(notes.deviations):
        text = f"{len(handoff.deviations)} in the HANDOFF, {len(notes.deviations)} in the file"
        yield Mismatch(SUSPICIOUS, "deviation count", text)
    for proposal in handoff.proposals:
        path = proposal.split()[0].strip("`*")
        ask = {"task_id": e.task.task_id, "conductor": CONDUCTOR_ROW, "text": path}
        if "/" in path and not e.store.one("named_in_mail", **ask):
            yield Mismatch(SUSPICIOUS, "files", f"{path} is in the HANDOFF and in no message")


def _off_by(rule: str, difference: int, text: str) -> Iterator[Mismatch]:
    if difference:
        yield Mismatch(BENIGN if abs(difference) == 1 else SUSPICIOUS, rule, text)


def _progress(notes: Notes) -> str:
    if notes.current_step is not None:
        return f"step {notes.current_step}, in progress in the status log"
    if notes.steps_completed:
        last = one_line(notes.last_completed, WIDTH)
        return f"step {max(notes.steps_completed) + 1}, after: {last}"
    return ""


class Assessment:
    """The judgement: a verdict with its reasons, and the message that the successor sends."""

    def __init__(self, evidence: Evidence) -> None:
        e = self._evidence = evidence
        self.previous = e.previous.sessions[-1] if e.previous and e.previous.sessions else None
        self.handoff = e.handoff_state
        self.mismatches = mismatches(e)
        self.pending = pending_mail(e.store, e.task.task_id, e.session_id)
        self.self_correction = self._self_correction()
        self.guidance, self.verification = self._reasons()
        self.reasons = self.guidance + self.verification
        self.verdict = GUIDANCE if self.guidance else VERIFY if self.verification else CLEAN
        self.resume_from = self._resume_from()

    def _of(self, kind: str) -> list[Mismatch]:
        return [m for m in self.mismatches if m.kind == kind]

    def _reasons(self) -> tuple[list[str], list[str]]:
        """Why the conductor must be asked, and why the tests must be trusted alone."""
        e = self._evidence
        deviations, suspicious = e.notes.deviations, self._of(SUSPICIOUS)
        guidance = [m.rule for m in self._of(CONTRADICTORY)]
        if len(deviations) > TOO_MANY or wants_escalation(s for s, _ in deviations):
            guidance.append(f"deviations: {breakdown(e.notes)}")
        if len(suspicious) > TOO_MANY:
            guidance.append(f"{len(suspicious)} suspicious mismatches")
        verification = [m.rule for m in suspicious]
        if e.previous and self.handoff != PRESENT:
            verification.insert(0, f"HANDOFF {self.handoff}")
        if e.previous and self._left_at is not None and self._left_at > DIRTY_ABOVE:
            verification.append(f"context was {self._left_at}% at exit")
        return guidance, list(dict.fromkeys(verification))

    @property
    def _left_at(self) -> int | None:
        """How full the former session's context was."""
        e = self._evidence
        if self.handoff == PRESENT and e.handoff and e.handoff.context is not None:
            return e.handoff.context
        return e.notes.last_percent

    def _self_correction(self) -> str:
        """What the former sessions corrected of their own; empty when nothing is known."""
        e = self._evidence
        if e.notes.self_corrections:
            return one_line(e.notes.self_corrections[-1], WIDTH)
        said = e.handoff.self_correction if e.handoff and self.handoff == PRESENT else ""
        if not said.upper().startswith("YES"):
            return ""
        return one_line(said[len("YES") :].strip(" :()"), WIDTH) or "see HANDOFF"

    def _resume_from(self) -> str:
        """Where this session stands by its own log, else where the former ones left off."""
        e = self._evidence
        mine = Notes(e.now.entries[len(e.notes.entries) :])
        if self.handoff == PRESENT and e.handoff and e.handoff.pending and not _progress(mine):
            return one_line(e.handoff.pending[0], WIDTH)
        return _progress(e.now) or "step 1, nothing is logged as done"

    def text(self, percent: int | None) -> str:
        """The resumption status for the log and the conductor."""
        e = self._evidence
        used = "unknown" if percent is None else f"{percent}% (fresh session)"
        corrected = f"YES ({self.self_correction})" if self.self_correction else "NO"
        count = len(e.notes.deviations)
        why = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        lines = (
            f"RESUMPTION: {e.task.worked_by} taking over",
            f"  Previous session: {one_line(self.previous or 'none', WIDTH)}",
            f"  HANDOFF: {self._handoff_text()}",
            f"  Context Usage: {used}",
            f"  Deviations found: {count}" + (f" ({breakdown(e.notes)})" if count else ""),
            f"  Status/comms mismatches: {len(self.mismatches) or 'none'}",
            *(f"    {m.kind}: {m.text} (rule: {m.rule})" for m in self.mismatches),
            f"  Pending conductor messages: {self.pending}",
            f"  Self-correction in previous session: {corrected}",
            f"  Assessment: {self.verdict}{why}",
            f"  Resuming from: {self.resume_from}",
        )
        return "\n".join(lines)

    def _handoff_text(self) -> str:
        e = self._evidence
        if self.handoff == PRESENT and e.handoff and e.handoff.context is not None:
            dirty = e.handoff.gaps or e.handoff.context > DIRTY_ABOVE
            kind = "dirty" if dirty else "clean"
            return f"{self.handoff} ({kind} exit at {e.handoff.context}% context)"
        if self.handoff == STALE and e.previous:
            return f"{self.handoff} (older than the claim of {e.previous.name})"
        first = e.previous is None and self.handoff == MISSING
        return self.handoff + (" (first session)" if first else "")

    @property
    def facts(self) -> dict[str, Any]:
        """The same for --json."""
        e = self._evidence
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "handoff": self.handoff,
            "previous_session": self.previous,
            "deviations": e.notes.severities(),
            "mismatches": [vars(m) for m in self.mismatches],
            "pending_messages": self.pending,
            "self_correction": self.self_correction or None,
            "resume_from": self.resume_from,
        }


def assess(store: Store, scratch: Scratch, task: Task, session_id: str) -> Assessment:
    """What this session, having claimed the task, finds of those before it. Writes nothing."""
    return Assessment(Evidence(store, scratch, task, session_id))
