"""The musician's three checks: its row, its scratch files, its headroom. They only look.

Each gives the lines, the result line and the exit code that the shell scripts of old gave.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from podium.domain.quotes import one_line
from podium.domain.rules import (
    DIRTY_ABOVE,
    ERROR_RETRIES,
    LEAVE_AT,
    SELF_CORRECTION_FACTOR,
    STALE_AFTER,
    check_task_id,
)
from podium.domain.states import CONDUCTOR_ROW, ENDED, Kind, State, kind_of

from .scratch import UNRATED

if TYPE_CHECKING:
    from podium.store.base import Row, Store

    from .context import Usage
    from .scratch import Notes, Scratch

OLD_AFTER = 480  # seconds without a heartbeat; after STALE_AFTER it is an alarm
CAUTION_AT = 60  # percent of the context window; critical at LEAVE_AT, the ceiling is DIRTY_ABOVE
FALL = 10  # points that context falls by when it begins anew, rather than is rounded
SHOWN, WIDTH = 5, 160
UNSET = "<unset>"
_OF_TASK = re.compile(r"(task-\d{2,3}(?:-fix\d{0,3})?)(?![\w])")


class Report:
    """What a check found: lines to print, facts for --json, and the exit code."""

    def __init__(self, title: str) -> None:
        self.lines = [f"=== {title} ==="]
        self.facts: dict[str, Any] = {}
        self.exit_code = 0
        self.issues = 0

    def say(self, label: str, text: str, *, issue: bool = False) -> None:
        """Add a line; an issue is counted."""
        self.lines.append(label + one_line(text, WIDTH))
        self.issues += issue

    def end(self, result: str, exit_code: int) -> Report:
        """Add the result line."""
        self.lines.append(f"=== RESULT: {result} ===")
        self.exit_code = exit_code
        self.facts.update(result=result, issues=self.issues)
        return self


def _musician(task_id: str) -> Report:
    report = Report(f"Musician State Validation: {check_task_id(task_id)}")
    report.facts["task_id"] = task_id
    return report


def no_database(task_id: str, path: str) -> Report:
    """The validation of a task in a project that has no database."""
    report = _musician(task_id)
    report.say("ERROR: ", f"Database not found at {path}; run: podium init", issue=True)
    return report.end("DB MISSING", 1)


def validate(store: Store, task_id: str, session_id: str | None = None) -> Report:
    """Whether the row is consistent, its owner alive and its mail read. 0 healthy, 1 issues."""
    report = _musician(task_id)
    row = store.one("task", task_id=task_id)
    if row is None:
        report.say("ERROR: ", f"No task found with task_id={task_id}", issue=True)
        return report.end("TASK NOT FOUND", 1)
    owner, state = row["session_id"], str(row["state"])
    # A row that nobody plays, or that is over, has neither signs of life nor mail to answer for.
    live = owner is not None and state not in ENDED
    _session(report, owner, session_id)
    report.say("State:      ", state)
    report.say("Worked By:  ", str(row["worked_by"] or UNSET))
    age = _heartbeat(report, store, row, live=live)
    if state not in {s.value for s in State}:
        report.say("State:      ", f"WARNING — '{state}' is not a recognized state", issue=True)
    report.say("Retry:      ", f"{row['retry_count'] or 0}/{ERROR_RETRIES}")
    pending = pending_mail(store, task_id, owner or session_id)
    report.say("Messages:   ", f"{pending} pending", issue=live and pending > 0)
    fallbacks = _fallbacks(report, store, session_id)
    report.facts.update(
        state=state,
        session_id=owner,
        session_match=None if session_id is None else owner == session_id,
        worked_by=row["worked_by"],
        last_heartbeat=row["last_heartbeat"],
        heartbeat_age=age,
        retry_count=row["retry_count"],
        pending_messages=pending,
        fallbacks=fallbacks,
    )
    if report.issues:
        return report.end(f"ISSUES FOUND ({report.issues})", 1)
    return report.end("HEALTHY", 0)


def pending_mail(store: Store, task_id: str, session_id: str | None, since: int = 0) -> int:
    """How many messages for this row, newer than message `since`, the session was not shown."""
    found = store.one(
        "unread_count",
        task_id=task_id,
        session_id=session_id or "",
        conductor=CONDUCTOR_ROW,
        since=since,
    )
    return int(found["pending"]) if found else 0


def _session(report: Report, owner: str | None, session_id: str | None) -> None:
    shown = owner or UNSET
    if session_id is None:
        report.say("Session:    ", f"{shown} (no session_id provided to compare)")
    elif session_id == owner:
        report.say("Session:    ", f"{shown} [MATCH]")
    else:
        report.say("Session:    ", f"{session_id} [MISMATCH — task has {shown}]", issue=True)


def _heartbeat(report: Report, store: Store, row: Row, *, live: bool) -> int | None:
    """Judge the last heartbeat by the database's own clock; its age, None when there is none."""
    at = row["last_heartbeat"]
    if at is None:
        report.say("Heartbeat:  ", "<never set>", issue=live)
        return None
    found = store.one("heartbeat_age", task_id=row["task_id"])
    age = found["seconds"] if found else None
    if age is None:
        report.say("Heartbeat:  ", f"{at} (not a time) [ALARM]", issue=live)
        return None
    age = max(0, int(age))  # the clock may have been set back
    verdict = "OK" if age < OLD_AFTER else "STALE" if age < STALE_AFTER else "ALARM"
    if not live and verdict != "OK":
        verdict = "NO OWNER" if row["session_id"] is None else "ENDED"
    report.say("Heartbeat:  ", f"{at} ({age}s ago) [{verdict}]", issue=live and verdict != "OK")
    return age


def _fallbacks(report: Report, store: Store, session_id: str | None) -> list[str]:
    if session_id is None:
        report.say("Fallbacks:  ", "(skipped — no session_id)")
        return []
    rows = [str(r["task_id"]) for r in store.all("tasks_of_session", session_id=session_id)]
    found = [name for name in rows if kind_of(name) is Kind.FALLBACK]
    if found:
        names = ", ".join(found)
        report.say("Fallbacks:  ", f"WARNING — fallback row exists ({names})", issue=True)
    else:
        report.say("Fallbacks:  ", "none")
    return found


def temp_files(scratch: Scratch, task_id: str) -> Report:
    """Whether the scratch files are there and well formed. 0 they are, 1 required ones missing."""
    report = Report(f"temp/ File Verification: {check_task_id(task_id)}")
    notes = scratch.notes(task_id)
    _status_file(report, task_id, notes)
    _deviations_file(report, task_id, notes)
    others = [n for n in scratch.names() if (of := _OF_TASK.match(n)) and of[1] != task_id]
    if others:
        report.lines.append("Other Tasks:    files for other task IDs found in temp/")
        _list(report, others)
    if notes.has_status:
        events = len(notes.self_corrections)
        report.lines.append(f"Self-Correction: {f'{events} event(s)' if events else 'none'}")
        _list(report, notes.self_corrections)
    _handoff_file(report, scratch, task_id, notes)
    report.facts.update(
        task_id=task_id,
        status_lines=len(notes.entries) if notes.has_status else None,
        last_context=notes.last_percent,
        deviations=notes.severities() if notes.has_deviations else None,
        other_files=others,
        self_corrections=notes.self_corrections,
        handoff=notes.handoff is not None,
        handoff_pending=notes.handoff_pending,
    )
    if report.issues:
        return report.end(f"MISSING FILES ({report.issues} required file(s) absent)", 1)
    return report.end("OK", 0)


def _list(report: Report, items: list[str]) -> None:
    for item in items[:SHOWN]:
        report.say("  - ", item)
    if len(items) > SHOWN:
        report.lines.append(f"  … and {len(items) - SHOWN} more")


def _status_file(report: Report, task_id: str, notes: Notes) -> None:
    if not notes.has_status:
        report.say("Status File:    ", f"MISSING — {task_id}-status", issue=True)
        return
    report.say("Status File:    ", f"{task_id}-status ({len(notes.entries)} lines)")
    if not notes.entries:
        report.say("  WARNING: ", "status file is empty", issue=True)
        return
    last = notes.last_percent
    report.say("  Last Entry:   ", notes.entries[-1].line)
    report.say("  Last Context:  ", "(no [ctx: XX%] tag found)" if last is None else f"{last}%")


def _deviations_file(report: Report, task_id: str, notes: Notes) -> None:
    if not notes.has_deviations:
        report.say("Deviations:     ", f"MISSING — {task_id}-deviations", issue=True)
        return
    report.say("Deviations:     ", f"{task_id}-deviations ({len(notes.deviations)} entries)")
    report.say("  Breakdown:    ", breakdown(notes, every=True))


def breakdown(notes: Notes, *, every: bool = False) -> str:
    """The deviations by severity: `0 High, 1 Medium, 1 Low`; `every` names those without any."""
    counts = notes.severities().items()
    shown = [(name, n) for name, n in counts if n or (every and name != UNRATED)]
    return ", ".join(f"{n} {name.capitalize()}" for name, n in shown)


def _handoff_file(report: Report, scratch: Scratch, task_id: str, notes: Notes) -> None:
    handoff = notes.handoff
    if handoff is None:
        report.say("HANDOFF:        ", "not present (expected if session still active)")
        return
    report.say("HANDOFF:        ", f"present ({scratch.handoff_path(task_id)})")
    if handoff.exit_reason:
        report.say("  Exit Reason:  ", handoff.exit_reason)
    mentions = sum(
        any(word in line.lower() for word in ("pending", "remaining"))
        for line in handoff.text.split("\n")
    )
    report.say("  Pending refs: ", f"{mentions} lines mentioning pending/remaining")
    if handoff.gaps:
        report.say("  WARNING: ", handoff.gaps)


def headroom(scratch: Scratch, task_id: str, usage: Usage | None = None) -> Report:
    """How much context is left, measured and as logged. 0 healthy, 1 caution, 2 critical."""
    report = Report(f"Context Headroom: {check_task_id(task_id)}")
    notes = scratch.notes(task_id)
    measured = usage and {"tokens": usage.tokens, "window": usage.window, "percent": usage.percent}
    report.facts.update(
        task_id=task_id,
        measured=measured,
        logged=notes.context,
        agents={"returned": notes.agents_returned, "in_flight": notes.agents_in_flight},
        steps={"completed": len(notes.steps_completed), "total": notes.total_steps},
        current_step=notes.current_step,
        self_corrections=notes.self_corrections,
    )
    if not notes.has_status:
        path = scratch.status_path(task_id)
        report.say("ERROR: ", f"Status file not found at {path}", issue=True)
        return report.end("FILE MISSING", 1)
    if notes.context:
        entry = f"{notes.context[-1]}% (entry {len(notes.context)} of status file)"
        report.say("Current:     ", entry)
    else:
        report.say("Current:     ", "(no context entries found in status file)")
    if usage:
        tokens = f"({usage.tokens} of {usage.window} tokens)"
        report.say("Measured:    ", f"{usage.percent}% {tokens}")
    # What was measured is this session's; the last line of the log may be a former session's.
    current = usage.percent if usage else notes.last_percent
    if current is None:
        report.issues += 1
        return report.end("NO DATA", 1)
    left = max(0, DIRTY_ABOVE - current)
    report.facts.update(current=current, headroom=left)
    _trajectory(report, notes, left)
    _steps(report, notes)
    return _judge(report, notes, current)


def _tenths(amount: int, parts: int) -> int:
    return int(amount * 10 / parts)


def _trajectory(report: Report, notes: Notes, left: int) -> None:
    """What an entry and an agent cost, since context last began anew."""
    recent = notes.since_fall(FALL)
    consumed = recent.context[-1] - recent.context[0] if recent.context else 0
    if len(recent.context) > 1:
        each = _tenths(consumed, len(recent.context) - 1)
        sign = "-" if each < 0 else "+"
        text = f"{sign}{abs(each) // 10}.{abs(each) % 10}% per entry avg"
    else:
        text = "(only 1 entry — insufficient data)" if recent.context else "(no entries yet)"
    report.say("Trajectory:  ", text)
    report.say("Headroom:    ", f"{left}% remaining to {DIRTY_ABOVE}% ceiling")
    back, out = notes.agents_returned, notes.agents_in_flight
    cost = _tenths(consumed, recent.agents_returned) if recent.agents_returned else 0
    if cost > 0:
        average = f"(~{cost // 10}.{cost % 10}% per agent avg)"
        report.say("Agents:      ", f"{back} completed, {out} in-flight {average}")
        fit = left * 10 // cost
        worst = f" (~{fit // SELF_CORRECTION_FACTOR} at {SELF_CORRECTION_FACTOR}x)"
        report.say(
            "Est. Agents Left: ",
            f"~{fit} agents fit in remaining budget" + (worst if notes.self_corrections else ""),
        )
        report.facts["agents_fit"] = fit
    elif notes.agents_launched or back:
        report.say("Agents:      ", f"{back} completed, {out} in-flight (no avg yet)")
    else:
        report.say("Agents:      ", "no agent entries found")


def _steps(report: Report, notes: Notes) -> None:
    if not notes.steps_started and not notes.steps_completed:
        report.say("Steps:       ", "no step entries found")
        return
    done, total, current = len(notes.steps_completed), notes.total_steps, notes.current_step
    progress = f"step {current} in progress" if current is not None else "none in progress"
    report.say("Steps:       ", f"{done}{f' of {total}' if total else ''} completed, {progress}")


def _judge(report: Report, notes: Notes, current: int) -> Report:
    corrected = bool(notes.self_corrections)
    risk = f"YES — estimates unreliable ({SELF_CORRECTION_FACTOR}x risk)"
    report.say("Self-Correction: ", risk if corrected else "NO", issue=corrected)
    report.issues += current >= CAUTION_AT
    if current >= LEAVE_AT:
        return report.end(f"CRITICAL (context at {current}%)", 2)
    if current >= CAUTION_AT:
        return report.end(f"CAUTION (context at {current}%)", 1)
    if corrected:
        return report.end("CAUTION (self-correction detected)", 1)
    return report.end("HEALTHY", 0)
