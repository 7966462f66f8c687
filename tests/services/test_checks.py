from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import protocol
import pytest

from podium.domain.errors import WrongUsage
from podium.services.checks import Report, headroom, no_database, temp_files, validate
from podium.services.context import Usage
from podium.services.scratch import Scratch

if TYPE_CHECKING:
    import sqlite3

    from podium.store.base import Store

TASK, ME = "task-03", "session-1"


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(str(tmp_path / "temp"))


def write(scratch: Scratch, what: str, text: str) -> None:
    os.makedirs(scratch.folder, exist_ok=True)
    Path(scratch.folder, f"{TASK}-{what}").write_text(text, encoding="utf-8")


def result(report: Report) -> str:
    assert all(line.isprintable() for line in report.lines)
    assert report.facts["result"] in report.lines[-1]
    return report.lines[-1]


def line(report: Report, label: str) -> str:
    (found,) = [text for text in report.lines if text.strip().startswith(label)]
    return found.strip()[len(label) :].strip()


def read(raw: sqlite3.Connection, number: int, session: str = ME) -> None:
    """The session was shown its mail up to this message."""
    raw.execute("INSERT INTO podium_reads VALUES (?, ?, ?)", (session, TASK, number))


def ahead(raw: sqlite3.Connection, seconds: int) -> None:
    """The clock was set back so far since the last heartbeat."""
    sql = "UPDATE orchestration_tasks SET last_heartbeat = datetime('now', ?)"
    raw.execute(sql, (f"+{seconds} seconds",))


# validate


def test_a_task_in_order_is_healthy(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, TASK, "working", ME)
    report = validate(store, TASK, ME)
    assert report.lines[0] == "=== Musician State Validation: task-03 ==="
    assert line(report, "Session:") == "session-1 [MATCH]"
    assert line(report, "Worked By:") == "musician-task-03"
    assert line(report, "Retry:") == "0/5"
    assert line(report, "Messages:") == "0 pending"
    assert line(report, "Fallbacks:") == "none"
    assert result(report) == "=== RESULT: HEALTHY ==="
    assert report.exit_code == 0


def test_without_a_session_nothing_is_compared(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, TASK, "working", ME)
    report = validate(store, TASK)
    assert line(report, "Session:") == "session-1 (no session_id provided to compare)"
    assert line(report, "Fallbacks:") == "(skipped — no session_id)"
    assert report.exit_code == 0


def test_another_session_is_a_mismatch(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, TASK, "working", ME)
    report = validate(store, TASK, "session-2")
    assert line(report, "Session:") == "session-2 [MISMATCH — task has session-1]"
    assert (result(report), report.exit_code) == ("=== RESULT: ISSUES FOUND (1) ===", 1)


@pytest.mark.parametrize(
    ("seconds", "verdict", "code"),
    [(0, "OK", 0), (470, "OK", 0), (490, "STALE", 1), (530, "STALE", 1), (545, "ALARM", 1)],
)
@pytest.mark.parametrize("state", ["working", "needs_review", "error", "review_approved"])
def test_a_heartbeat_is_judged_in_every_live_state(
    store: Store, raw: sqlite3.Connection, state: str, seconds: int, verdict: str, code: int
) -> None:
    protocol.own(raw, TASK, state, ME)
    protocol.age(raw, TASK, seconds)
    report = validate(store, TASK, ME)
    assert line(report, "Heartbeat:").endswith(f"[{verdict}]")
    assert report.exit_code == code


@pytest.mark.parametrize("state", ["complete", "exited"])
def test_a_task_that_is_over_owes_no_sign_of_life(
    store: Store, raw: sqlite3.Connection, state: str
) -> None:
    protocol.own(raw, TASK, state, ME)
    protocol.age(raw, TASK, 9000)
    report = validate(store, TASK, ME)
    assert line(report, "Heartbeat:").endswith("[ENDED]")
    assert report.exit_code == 0


def test_a_task_that_nobody_plays_is_healthy(store: Store, raw: sqlite3.Connection) -> None:
    protocol.add(raw, TASK)
    protocol.send(raw, TASK, "task-00", "instruction")
    protocol.age(raw, TASK, 9000)
    report = validate(store, TASK)
    assert line(report, "Session:").startswith("<unset>")
    assert line(report, "Worked By:") == "<unset>"
    assert report.exit_code == 0


@pytest.mark.parametrize("value", [None, "soon", "\x1b[2Jnever"])
def test_a_heartbeat_that_is_no_time_is_an_issue(
    store: Store, raw: sqlite3.Connection, value: str | None
) -> None:
    protocol.own(raw, TASK, "working", ME)
    raw.execute("UPDATE orchestration_tasks SET last_heartbeat = ?", (value,))
    assert result(validate(store, TASK, ME)) == "=== RESULT: ISSUES FOUND (1) ==="


def test_a_clock_set_back_is_no_alarm(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, TASK, "working", ME)
    ahead(raw, 7200)
    report = validate(store, TASK, ME)
    assert line(report, "Heartbeat:").endswith("(0s ago) [OK]")


@pytest.mark.parametrize("state", protocol.CONDUCTOR_MOVES)
def test_reviewing_and_the_other_conductor_states_are_recognised(
    store: Store, raw: sqlite3.Connection, state: str
) -> None:
    """The shell version did not know `reviewing`."""
    protocol.own(raw, "task-00", state, ME)
    report = validate(store, "task-00", ME)
    assert line(report, "State:") == state
    assert result(report) == "=== RESULT: HEALTHY ==="


def test_a_state_outside_the_protocol_is_an_issue(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, TASK, "working", ME)
    for (trigger,) in raw.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall():
        raw.execute(f"DROP TRIGGER {trigger}")
    raw.execute("PRAGMA ignore_check_constraints = ON")
    raw.execute("UPDATE orchestration_tasks SET state = 'asleep'")
    report = validate(store, TASK, ME)
    assert "State:      WARNING — 'asleep' is not a recognized state" in report.lines
    assert report.exit_code == 1


def test_mail_is_pending_until_it_was_shown_however_young_the_heartbeat(
    store: Store, raw: sqlite3.Connection
) -> None:
    """The shell version compared timestamps: a heartbeat hid the mail."""
    protocol.own(raw, TASK, "working", ME)
    first = protocol.send(raw, TASK, "task-00", "approval")
    ahead(raw, 60)
    report = validate(store, TASK, ME)
    assert line(report, "Messages:") == "1 pending"
    assert report.exit_code == 1
    read(raw, first)
    assert line(validate(store, TASK, ME), "Messages:") == "0 pending"


def test_mail_that_was_shown_is_not_pending_however_old_the_heartbeat(
    store: Store, raw: sqlite3.Connection
) -> None:
    protocol.own(raw, TASK, "working", ME)
    protocol.age(raw, TASK, 300)
    shown = protocol.send(raw, TASK, "task-00", "approval")
    protocol.send(raw, TASK, ME, "review_request")
    protocol.send(raw, "task-04", "task-00", "instruction")
    read(raw, shown)
    assert line(validate(store, TASK, ME), "Messages:") == "0 pending"


def test_the_conductors_mail_is_what_musicians_wrote(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, "task-00", "watching", ME)
    protocol.send(raw, TASK, "session-2", "review_request")
    protocol.send(raw, TASK, "task-00", "approval")
    assert line(validate(store, "task-00", ME), "Messages:") == "1 pending"


def test_a_fallback_row_of_the_session_is_an_issue(store: Store, raw: sqlite3.Connection) -> None:
    protocol.own(raw, TASK, "working", ME)
    raw.execute(
        "INSERT INTO orchestration_tasks (task_id, state, session_id)"
        " VALUES ('fallback-session-1', 'exited', 'session-1')"
    )
    report = validate(store, TASK, ME)
    assert line(report, "Fallbacks:") == "WARNING — fallback row exists (fallback-session-1)"
    assert report.exit_code == 1


def test_no_task_and_no_database_are_results(store: Store) -> None:
    report = validate(store, TASK, ME)
    assert (result(report), report.exit_code) == ("=== RESULT: TASK NOT FOUND ===", 1)
    report = no_database(TASK, "/nowhere/comms.db")
    assert (result(report), report.exit_code) == ("=== RESULT: DB MISSING ===", 1)


def test_a_session_with_control_characters_cannot_steer_a_terminal(
    store: Store, raw: sqlite3.Connection
) -> None:
    protocol.own(raw, TASK, "working", "evil\x1b[2J\n=== RESULT: HEALTHY ===")
    report = validate(store, TASK, "x\r\x1b[31m")
    assert all(text.isprintable() for text in report.lines)
    assert report.lines[-1] == "=== RESULT: ISSUES FOUND (1) ==="


@pytest.mark.parametrize("task_id", ["task-03'; DROP TABLE x", "../task-03", "task-03/x"])
def test_what_is_no_task_id_is_wrong_usage(store: Store, scratch: Scratch, task_id: str) -> None:
    for check in (
        lambda: validate(store, task_id),
        lambda: temp_files(scratch, task_id),
        lambda: headroom(scratch, task_id),
    ):
        with pytest.raises(WrongUsage):
            check()


# temp


def test_files_in_order_are_ok(scratch: Scratch) -> None:
    scratch.log(TASK, "step 1 started", 12)
    scratch.deviate(TASK, "kept HTML", "low", 41)
    report = temp_files(scratch, TASK)
    assert report.lines[0] == "=== temp/ File Verification: task-03 ==="
    assert line(report, "Status File:") == "task-03-status (2 lines)"
    assert line(report, "Last Entry:") == "deviation: kept HTML (Low) [ctx: 41%]"
    assert line(report, "Last Context:") == "41%"
    assert line(report, "Deviations:") == "task-03-deviations (1 entries)"
    assert line(report, "Breakdown:") == "0 High, 0 Medium, 1 Low"
    assert line(report, "Self-Correction:") == "none"
    assert line(report, "HANDOFF:") == "not present (expected if session still active)"
    assert (result(report), report.exit_code) == ("=== RESULT: OK ===", 0)


def test_missing_files_are_counted(scratch: Scratch) -> None:
    report = temp_files(scratch, TASK)
    assert line(report, "Status File:") == "MISSING — task-03-status"
    assert line(report, "Deviations:") == "MISSING — task-03-deviations"
    assert result(report) == "=== RESULT: MISSING FILES (2 required file(s) absent) ==="
    assert report.exit_code == 1


def test_an_empty_status_file_is_an_issue_and_one_without_a_newline_is_not(
    scratch: Scratch,
) -> None:
    """The shell version counted newlines: a line that was not ended was no line."""
    write(scratch, "deviations", "")
    write(scratch, "status", "")
    assert temp_files(scratch, TASK).exit_code == 1
    write(scratch, "status", "bootstrap started [ctx: 5%]")
    assert temp_files(scratch, TASK).exit_code == 0


def test_no_match_at_all_is_zero_and_not_two_lines(scratch: Scratch) -> None:
    """`grep -c … || echo 0` gave "0\\n0" and broke the arithmetic."""
    write(scratch, "status", "bootstrap started\n")
    write(scratch, "deviations", "")
    write(scratch, "HANDOFF", "# HANDOFF\nnothing of the kind\n")
    report = temp_files(scratch, TASK)
    assert line(report, "Self-Correction:") == "none"
    assert line(report, "Last Context:") == "(no [ctx: XX%] tag found)"
    assert line(report, "Pending refs:") == "0 lines mentioning pending/remaining"
    assert report.exit_code == 0


def test_severities_are_marks_and_not_words(scratch: Scratch) -> None:
    """The shell version found low in followed, and counted a line once per word."""
    write(scratch, "status", "x\n")
    write(
        scratch,
        "deviations",
        "step 1: followed the high-level plan below medium risk (Low) [ctx: 20%]\n"
        "step 2: switched parser (Medium) [ctx: 41%]\n",
    )
    report = temp_files(scratch, TASK)
    assert line(report, "Breakdown:") == "0 High, 1 Medium, 1 Low"
    assert report.facts["deviations"] == {"high": 0, "medium": 1, "low": 1, "unrated": 0}


def test_self_corrections_are_entries_and_not_words(scratch: Scratch) -> None:
    write(scratch, "deviations", "")
    write(
        scratch,
        "status",
        "step 1 completed, no self-correction needed [ctx: 20%]\n"
        "self-correction: false [ctx: 21%]\n"
        "step 2 self-correction: rewrote tokenizer [ctx: 34%]\n",
    )
    report = temp_files(scratch, TASK)
    assert line(report, "Self-Correction:") == "1 event(s)"
    assert "  - step 2 self-correction: rewrote tokenizer" in report.lines


def test_files_of_other_tasks_are_named_also_those_of_the_correction(scratch: Scratch) -> None:
    scratch.log(TASK, "x", 1)
    for name in ("task-03-fix-status", "task-04-status", "task-03-prompt", "musician-task-03.pid"):
        Path(scratch.folder, name).touch()
    assert temp_files(scratch, TASK).facts["other_files"] == [
        "task-03-fix-status",
        "task-04-status",
    ]


def test_a_crowd_of_other_files_is_cut(scratch: Scratch) -> None:
    scratch.log(TASK, "x", 1)
    for number in range(10, 99):
        Path(scratch.folder, f"task-{number}-status").touch()
    report = temp_files(scratch, TASK)
    assert "  … and 84 more" in report.lines
    assert len(report.lines) < 20


def test_a_handoff_shows_its_reason(scratch: Scratch) -> None:
    scratch.log(TASK, "x", 1)
    write(
        scratch,
        "HANDOFF",
        "- Exit reason: context\x1b[31m exhaustion\n## Pending Steps\n- Step 3\n",
    )
    report = temp_files(scratch, TASK)
    assert line(report, "Exit Reason:") == "context [31m exhaustion"
    assert line(report, "Pending refs:").startswith("1 ")
    result(report)


# headroom


def log(scratch: Scratch, *percents: int, text: str = "working") -> None:
    for percent in percents:
        scratch.log(TASK, text, percent)


@pytest.mark.parametrize(
    ("percent", "wanted", "code"),
    [
        (41, "HEALTHY", 0),
        (59, "HEALTHY", 0),
        (60, "CAUTION (context at 60%)", 1),
        (74, "CAUTION (context at 74%)", 1),
        (75, "CRITICAL (context at 75%)", 2),
        (97, "CRITICAL (context at 97%)", 2),
    ],
)
def test_headroom_is_judged_by_the_last_entry(
    scratch: Scratch, percent: int, wanted: str, code: int
) -> None:
    log(scratch, 5, percent)
    report = headroom(scratch, TASK)
    assert report.lines[0] == "=== Context Headroom: task-03 ==="
    assert line(report, "Current:") == f"{percent}% (entry 2 of status file)"
    assert line(report, "Headroom:") == f"{max(0, 80 - percent)}% remaining to 80% ceiling"
    assert (result(report), report.exit_code) == (f"=== RESULT: {wanted} ===", code)


def test_no_file_and_no_entries_are_results(scratch: Scratch) -> None:
    report = headroom(scratch, TASK)
    assert (result(report), report.exit_code) == ("=== RESULT: FILE MISSING ===", 1)
    scratch.log(TASK, "bootstrap started", None)
    report = headroom(scratch, TASK)
    assert line(report, "Current:") == "(no context entries found in status file)"
    assert (result(report), report.exit_code) == ("=== RESULT: NO DATA ===", 1)


def test_a_log_without_agents_steps_or_corrections_is_zero_and_not_two_lines(
    scratch: Scratch,
) -> None:
    """`grep -c … || echo 0` gave "0\\n0" and broke the arithmetic."""
    log(scratch, 12)
    report = headroom(scratch, TASK)
    assert line(report, "Trajectory:") == "(only 1 entry — insufficient data)"
    assert line(report, "Agents:") == "no agent entries found"
    assert line(report, "Steps:") == "no step entries found"
    assert line(report, "Self-Correction:") == "NO"
    assert report.exit_code == 0


def test_trajectory_agents_and_steps_are_estimated(scratch: Scratch) -> None:
    for text, percent in (
        ("step 1 of 5 started", 10),
        ("step 1 agent 1 launched", 12),
        ("step 1 agent 1 returned", 16),
        ("step 1 of 5 completed", 18),
        ("step 2 of 5 started", 19),
        ("step 2 agent 1 launched", 20),
        ("step 2 agent 1 returned", 25),
        ("step 2 agent 2 launched", 27),
    ):
        scratch.log(TASK, text, percent)
    report = headroom(scratch, TASK)
    assert line(report, "Trajectory:") == "+2.4% per entry avg"
    assert line(report, "Agents:") == "2 completed, 1 in-flight (~8.5% per agent avg)"
    assert line(report, "Est. Agents Left:") == "~6 agents fit in remaining budget"
    assert line(report, "Steps:") == "1 of 5 completed, step 2 in progress"


def test_words_in_other_text_are_neither_steps_nor_agents(scratch: Scratch) -> None:
    log(scratch, 10, text="explained that every step is completed by an agent that was launched")
    report = headroom(scratch, TASK)
    assert line(report, "Agents:") == "no agent entries found"
    assert line(report, "Steps:") == "no step entries found"


def test_a_self_correction_warns_that_estimates_are_six_times_off(scratch: Scratch) -> None:
    log(scratch, 10)
    scratch.log(TASK, "step 1 agent 1 launched", 12)
    scratch.log(TASK, "step 1 agent 1 returned", 20)
    scratch.log(TASK, "step 1 self-correction: rewrote tokenizer", 20)
    report = headroom(scratch, TASK)
    assert line(report, "Self-Correction:") == "YES — estimates unreliable (6x risk)"
    assert line(report, "Est. Agents Left:") == "~6 agents fit in remaining budget (~1 at 6x)"
    assert result(report) == "=== RESULT: CAUTION (self-correction detected) ==="
    assert report.exit_code == 1


def test_a_denied_self_correction_is_none(scratch: Scratch) -> None:
    log(scratch, 10, text="self-correction: false")
    assert headroom(scratch, TASK).exit_code == 0


def test_what_was_measured_decides_over_what_was_logged(scratch: Scratch) -> None:
    log(scratch, 5, 72)
    report = headroom(scratch, TASK, Usage(36_000, 200_000, "m"))
    assert line(report, "Current:") == "72% (entry 2 of status file)"
    assert line(report, "Measured:") == "18% (36000 of 200000 tokens)"
    assert line(report, "Headroom:").startswith("62%")
    assert report.exit_code == 0
    report = headroom(scratch, TASK, Usage(160_000, 200_000, "m"))
    assert (result(report), report.exit_code) == ("=== RESULT: CRITICAL (context at 80%) ===", 2)


def test_measured_context_is_enough_for_a_result(scratch: Scratch) -> None:
    scratch.log(TASK, "bootstrap started", None)
    report = headroom(scratch, TASK, Usage(36_000, 200_000, "m"))
    assert result(report) == "=== RESULT: HEALTHY ==="


def test_a_successors_trajectory_begins_anew(scratch: Scratch) -> None:
    """The shell version took the first entry of the first session, and could go negative."""
    log(scratch, 5, 40, 72, 8, 10, 12)
    assert line(headroom(scratch, TASK), "Trajectory:") == "+2.0% per entry avg"


def test_a_small_fall_is_no_new_session(scratch: Scratch) -> None:
    log(scratch, 10, 12, 11)
    assert line(headroom(scratch, TASK), "Trajectory:") == "+0.5% per entry avg"
    log(scratch, 9)
    assert line(headroom(scratch, TASK), "Trajectory:") == "-0.3% per entry avg"
