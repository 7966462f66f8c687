from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from podium.domain.errors import PodiumError, WrongUsage
from podium.domain.records import Task
from podium.domain.rules import wants_escalation
from podium.services.scratch import Handoff, Notes, Scratch, epoch, read_deviations

SRC = Path(__file__).parents[2] / "src"
TASK = "task-03"
PLAYER = Task(
    {
        "task_id": TASK,
        "state": "working",
        "session_id": "abc123-def456-789",
        "worked_by": "musician-task-03",
        "started_at": "2026-02-07 16:00:00",
        "claims": 1,
    }
)

WRITER = """
import sys
from podium.services.scratch import Scratch
scratch = Scratch(sys.argv[1])
for number in range(200):
    text = f"writer {sys.argv[2]} line {number} " + "x" * (number * 7)
    scratch.log("task-03", text, number % 100)
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(str(tmp_path / "temp"))


def written(scratch: Scratch, status: str, deviations: str = "") -> Notes:
    """The notes that these files hold."""
    os.makedirs(scratch.folder, exist_ok=True)
    Path(scratch.status_path(TASK)).write_text(status, encoding="utf-8")
    Path(scratch.deviations_path(TASK)).write_text(deviations, encoding="utf-8")
    return scratch.notes(TASK)


def test_an_entry_ends_with_the_measured_context(scratch: Scratch) -> None:
    assert scratch.log(TASK, "step 1 started", 12) == "step 1 started [ctx: 12%]"
    assert scratch.log(TASK, "step 1 completed", None) == "step 1 completed [ctx: unknown]"
    text = Path(scratch.status_path(TASK)).read_text()
    assert text == "step 1 started [ctx: 12%]\nstep 1 completed [ctx: unknown]\n"


def test_the_first_entry_makes_both_files(scratch: Scratch) -> None:
    scratch.log(TASK, "task claimed", 7)
    assert scratch.names() == ["task-03-deviations", "task-03-status"]
    assert scratch.notes(TASK).has_deviations


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "a\r\nb",
        "ansi \x1b[31mred\x1b[0m",
        "nul \0 byte",
        "sep\u2028a\x85b",
        "half \udc80",
    ],
)
def test_whatever_is_logged_stays_one_line_without_control_characters(
    scratch: Scratch, text: str
) -> None:
    line = scratch.log(TASK, text, 5)
    assert line.isprintable()
    assert Path(scratch.status_path(TASK)).read_text() == line + "\n"


def test_a_very_long_text_is_cut_and_keeps_its_mark(scratch: Scratch) -> None:
    line = scratch.log(TASK, "x" * 5_000_000, 41)
    assert len(line) < 2100
    assert line.endswith("… [ctx: 41%]")


@pytest.mark.parametrize("text", ["", "  \n\t", "\0\x1b"])
def test_an_empty_text_is_refused_and_writes_nothing(scratch: Scratch, text: str) -> None:
    for write in (
        lambda: scratch.log(TASK, text, 5),
        lambda: scratch.deviate(TASK, text, "low", 5),
    ):
        with pytest.raises(WrongUsage):
            write()
    assert scratch.names() == []


@pytest.mark.parametrize("task_id", ["../x", "task-03/../../x", "task 3", "", "task-03\n"])
def test_a_task_id_that_would_be_a_path_is_refused(scratch: Scratch, task_id: str) -> None:
    with pytest.raises(WrongUsage):
        scratch.log(task_id, "text", 5)
    assert not os.path.exists(scratch.folder)


def test_a_folder_that_is_a_link_to_one_that_was_cleared_is_made_again(tmp_path: Path) -> None:
    target = tmp_path / "cleared" / "temp"
    (tmp_path / "temp").symlink_to(target)
    scratch = Scratch(str(tmp_path / "temp"))
    scratch.log(TASK, "task claimed", 7)
    assert target.stat().st_mode & 0o777 == 0o700

    shutil.rmtree(target)
    scratch.write_handoff(PLAYER, "the context is full", 80)
    assert os.listdir(target) == [os.path.basename(scratch.handoff_path(TASK))]


def test_a_line_that_was_left_unended_is_ended_first(scratch: Scratch) -> None:
    written(scratch, "step 1 started [ctx: 9%]\ncut off")
    scratch.log(TASK, "step 2 started", 10)
    texts = [entry.text for entry in scratch.notes(TASK).entries]
    assert texts == ["step 1 started", "cut off", "step 2 started"]


@pytest.mark.parametrize("in_the_way", ["a folder", "a file for the folder"])
def test_what_cannot_be_written_is_one_line_that_names_it(
    scratch: Scratch, in_the_way: str
) -> None:
    if in_the_way == "a folder":
        os.makedirs(scratch.status_path(TASK))
    else:
        Path(scratch.folder).touch()
    with pytest.raises(PodiumError, match="task-03-status cannot be written"):
        scratch.log(TASK, "text", 5)


def test_eight_processes_never_tear_or_mix_their_lines(scratch: Scratch) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, scratch.folder, str(number)],
            env={**os.environ, "PYTHONPATH": str(SRC)},
        )
        for number in range(8)
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 8
    lines = Path(scratch.status_path(TASK)).read_text().splitlines()
    wanted = {
        f"writer {w} line {n}{' ' + 'x' * (n * 7) if n else ''} [ctx: {n % 100}%]"
        for w in range(8)
        for n in range(200)
    }
    assert len(lines) == 1600
    assert set(lines) == wanted


def test_the_seeds_entries_are_read_by_their_form(scratch: Scratch) -> None:
    notes = written(
        scratch,
        "bootstrap started [ctx: 5%]\n"
        "task claimed, session: abc123-def456-789 [ctx: 7%]\n"
        "instructions loaded: docs/tasks/task-03.md [ctx: 12%]\n"
        "step 1 of 5 started [ctx: 13%]\n"
        "step 1 agent 1 launched [ctx: 15%]\n"
        "step 1 agent 1 returned [ctx: 17%]\n"
        "step 1 of 5 completed [ctx: 18%]\n"
        "step 2 started [ctx: 19%]\n"
        "step 2 agent 1 launched [ctx: 21%]\n"
        "step 2 agent 1 retry 1 launched [ctx: 23%]\n"
        "step 2 agent 1 FAILED: HTML table parsing error [ctx: 29%]\n"
        "step 2 self-correction: test failure in parser, rewrote tokenizer [ctx: 34%]\n"
        "checkpoint 2 approved [ctx: unknown]\n",
    )
    assert notes.context == [5, 7, 12, 13, 15, 17, 18, 19, 21, 23, 29, 34]
    assert notes.last_percent == 34
    assert (notes.steps_started, notes.steps_completed) == ([1, 2], [1])
    assert (notes.total_steps, notes.current_step) == (5, 2)
    assert notes.last_completed == "step 1 of 5 completed"
    assert (notes.agents_launched, notes.agents_returned, notes.agents_in_flight) == (3, 2, 1)
    assert len(notes.self_corrections) == 1
    assert notes.checkpoint == 2


def test_a_step_that_is_begun_again_is_in_progress_and_counted_once(scratch: Scratch) -> None:
    notes = written(scratch, "step 1 started\nstep 1 completed\nstep 2 started\nstep 1 started\n")
    assert (notes.steps_started, notes.steps_completed, notes.current_step) == ([2, 1], [], 1)


@pytest.mark.parametrize(
    ("line", "launched", "returned"),
    [
        ("step 2 agents 1-3 launched", 3, 0),
        ("launched 2 agents", 2, 0),
        ("agent launched", 1, 0),
        ("step 2 agents 1-2 integrated successfully", 0, 0),
        ("told the user that an agent was launched", 0, 0),
        ("step 3 agent 1 completed by musician (after 2 failed retries)", 0, 1),
    ],
)
def test_agents_are_counted_as_they_come_and_go(
    scratch: Scratch, line: str, launched: int, returned: int
) -> None:
    notes = written(scratch, line + " [ctx: 20%]\n")
    assert (notes.agents_launched, notes.agents_returned) == (launched, returned)
    assert notes.steps_completed == []


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("step 2 self-correction: test failure in parser, rewrote tokenizer", True),
        ("self-correction: true (step 3, agent 2 — test failure, rewrote auth module)", True),
        ("step 3, agent 2 self-correction: rewrote auth", True),
        ("Self-Correction: YES (step 2)", True),
        ("self-correction: no test covered it, rewrote the parser", True),
        ("self-correction: false", False),
        ("self-correction: none", False),
        ("Self-Correction: NO", False),
        ("self-correction: NO (clean run)", False),
        ("step 4 completed, no self-correction needed", False),
        ("read the chapter on self-correction: it is long", False),
        ("Self-correction in previous session: YES (parser)", False),
    ],
)
def test_a_self_correction_is_an_entry_of_that_kind_and_not_a_word(
    scratch: Scratch, line: str, *, counts: bool
) -> None:
    notes = written(scratch, line + " [ctx: 34%]\n")
    assert bool(notes.self_corrections) is counts


def test_a_context_mark_inside_a_text_is_not_a_measurement(scratch: Scratch) -> None:
    scratch.log(TASK, "the log said [ctx: 99%] yesterday", 12)
    scratch.log(TASK, "it says [ctx: 98%]", None)
    assert scratch.notes(TASK).context == [12]


def test_a_deviation_is_one_line_in_both_files(scratch: Scratch) -> None:
    line = scratch.deviate(TASK, "step 2: switched parser", "medium", 41)
    assert line == "step 2: switched parser (Medium) [ctx: 41%]"
    assert Path(scratch.deviations_path(TASK)).read_text() == line + "\n"
    status = Path(scratch.status_path(TASK)).read_text()
    assert status == "step 2 deviation: switched parser (Medium) [ctx: 41%]\n"
    notes = scratch.notes(TASK)
    assert notes.deviations == [("medium", "step 2: switched parser")]
    assert notes.deviations_logged == 1


def test_a_severity_is_its_mark_and_not_a_word(scratch: Scratch) -> None:
    scratch.deviate(TASK, "followed the low-level API, high risk (High) of medium size", "low", 41)
    scratch.deviate(TASK, "allowed below the threshold", "low", None)
    severities = [severity for severity, _ in scratch.notes(TASK).deviations]
    assert severities == ["low", "low"]
    assert not wants_escalation(severities)


def test_an_unknown_severity_is_refused_with_those_there_are(scratch: Scratch) -> None:
    with pytest.raises(WrongUsage, match="low, medium, high"):
        scratch.deviate(TASK, "text", "severe", 41)
    assert scratch.names() == []


def test_the_seeds_deviations_are_read() -> None:
    found = read_deviations(
        "checkpoint 2: review_failed (Smoothness 6/9) [Medium]\n"
        "step 5 agent 3 skipped per conductor [Low — instructed scope reduction]\n"
        "step 3 agent 1: HTML tables preserved (Low — formatting choice, content intact)\n"
        "checkpoint 2: review_failed (Smoothness 6/9)\n"
        "Issues: 3 (cross-ref error, broad assertions, high cost)\n"
        "Complexity: Medium (required additional testing work)\n"
        "\n"
        "no mark at all, high stakes\n"
    )
    assert [severity for severity, _ in found] == ["medium", "low", "low", "medium", "unrated"]


def test_a_block_is_one_entry_with_indented_lines(scratch: Scratch) -> None:
    block = scratch.log_block(
        TASK, "RESUMPTION: S2 taking over\n  HANDOFF: \x1b[1mpresent\n    x", 18
    )
    assert block.splitlines()[0] == "RESUMPTION: S2 taking over [ctx: 18%]"
    assert all(line.startswith("  ") and line.isprintable() for line in block.splitlines()[1:])
    assert [e.text for e in scratch.notes(TASK).entries] == ["RESUMPTION: S2 taking over"]


def test_what_a_session_logged_itself_is_not_what_it_found(scratch: Scratch) -> None:
    scratch.log(TASK, "task claimed by musician-task-03, session: one", 7)
    scratch.log(TASK, "step 1 started", 10)
    scratch.log(TASK, "task claimed by musician-task-03-S2, session: two", 6)
    scratch.log(TASK, "step 2 started", 8)
    notes = scratch.notes(TASK)
    assert notes.before("two").current_step == 1
    assert notes.before("stranger").current_step == 2


def test_no_files_are_empty_notes(scratch: Scratch) -> None:
    notes = scratch.notes(TASK)
    assert (notes.has_status, notes.has_deviations, notes.handoff) == (False, False, None)
    assert (notes.last_percent, notes.current_step, notes.handoff_pending) == (None, None, [])


HANDOFF = """# HANDOFF: task-03

## Session Info
- Session ID: abc123-def456-789
- worked_by: musician-task-03
- **Exit reason:** context exhaustion (conductor-approved scope reduction)
- Context at exit: 72%
- Timestamp: 2026-02-07 16:45:00

## Completed Steps
- Step 1: Testing pattern extraction ✅
- Step 2: Quality assurance content ✅

## Pending Steps
- Step 5 agent 3: Generate table of contents
- Final verification and completion

## Deviations
- none

## Self-Correction
- YES (step 3, agent 2 — parser rewrite)

## Pending Proposals
- docs/implementation/proposals/parser.md (ANTI_PATTERN)
"""


def test_the_seeds_handoff_is_read() -> None:
    found = Handoff(HANDOFF, 0.0)
    assert found.is_by("abc123-def456-789", "musician-task-03")
    assert found.exit_reason == "context exhaustion (conductor-approved scope reduction)"
    assert found.context == 72
    assert len(found.completed) == 2
    assert found.pending[0] == "Step 5 agent 3: Generate table of contents"
    assert found.deviations == []
    assert found.self_correction.startswith("YES")
    assert found.proposals == ["docs/implementation/proposals/parser.md (ANTI_PATTERN)"]
    assert found.unfilled == 0


def test_a_skeleton_holds_what_is_known_and_marks_what_is_not(scratch: Scratch) -> None:
    for text in ("step 1 of 4 started", "step 1 of 4 completed", "step 2 started"):
        scratch.log(TASK, text, 60)
    scratch.log(TASK, "self-correction: true (rewrote the lexer)", 70)
    scratch.deviate(TASK, "step 1: kept HTML", "low", 71)
    path = scratch.write_handoff(PLAYER, "context\nat 76%", 76)
    text = Path(path).read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        "Session Info",
        "Completed Steps",
        "Pending Steps",
        "Deviations",
        "Self-Correction",
        "Pending Proposals",
        "Next Session Instructions",
    ]
    found = scratch.handoff(TASK)
    assert found is not None
    assert found.is_by("abc123-def456-789", "musician-task-03")
    assert (found.exit_reason, found.context) == ("context at 76%", 76)
    assert epoch(found.fields["timestamp"]) == int(found.mtime)
    assert found.completed == ["Step 1 ✅"]
    assert found.pending == ["Step 2", "Step 3", "Step 4"]
    assert found.deviations == ["step 1: kept HTML (Low)"]
    assert "rewrote the lexer" in found.self_correction
    assert "musician-task-03-S2" in text
    assert found.unfilled >= 5


def test_a_handoff_that_is_there_is_never_overwritten(scratch: Scratch) -> None:
    os.makedirs(scratch.folder)
    Path(scratch.handoff_path(TASK)).write_text("mine")
    scratch.write_handoff(PLAYER, "reason", 76)
    assert Path(scratch.handoff_path(TASK)).read_text() == "mine"


def test_a_handoff_is_fresh_when_written_since_the_claim_or_by_the_owner(scratch: Scratch) -> None:
    assert not scratch.has_fresh_handoff(PLAYER)
    claimed = epoch("2026-02-07 16:00:00") or 0
    path = Path(scratch.write_handoff(PLAYER, "reason", 76))
    os.utime(path, (claimed - 9000, claimed - 9000))  # the clock was set back
    assert scratch.has_fresh_handoff(PLAYER)
    path.write_text("written by hand")
    os.utime(path, (claimed, claimed))
    assert scratch.has_fresh_handoff(PLAYER)
    os.utime(path, (claimed - 1, claimed - 1))
    assert not scratch.has_fresh_handoff(PLAYER)


def test_a_former_handoff_is_kept_under_another_name(scratch: Scratch) -> None:
    assert scratch.set_handoff_aside(PLAYER) is None
    os.makedirs(scratch.folder)
    for text in ("first", "second"):
        Path(scratch.handoff_path(TASK)).write_text(text)
        kept = scratch.set_handoff_aside(PLAYER)
        assert kept
        assert Path(kept).read_text() == text
    assert scratch.names() == ["task-03-HANDOFF.1", "task-03-HANDOFF.2"]
