from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import protocol
import pytest

from podium.services import tasks
from podium.services.resumption import (
    BENIGN,
    CLEAN,
    CONTRADICTORY,
    GUIDANCE,
    SUSPICIOUS,
    VERIFY,
    Assessment,
    assess,
)
from podium.services.scratch import Scratch

if TYPE_CHECKING:
    import sqlite3

    from podium.store.base import Store

TASK, ONE, TWO = "task-03", "session-1", "session-2"

HANDOFF = """# HANDOFF: task-03

## Session Info
- Session ID: session-1
- worked_by: musician-task-03
- Exit reason: context exhaustion
- Context at exit: {context}%

## Completed Steps
{completed}

## Pending Steps
- Step 3 agent 3: Generate table of contents
- Step 4: Final verification

## Deviations
{deviations}

## Self-Correction
- {correction}

## Pending Proposals
- {proposal}
"""


def handoff(
    context: int = 72,
    steps: int = 2,
    deviations: str = "- none",
    correction: str = "NO",
    proposal: str = "none",
) -> str:
    completed = "\n".join(f"- Step {n}: done ✅" for n in range(1, steps + 1))
    return HANDOFF.format(
        context=context,
        completed=completed,
        deviations=deviations,
        correction=correction,
        proposal=proposal,
    )


class Stage:
    """Session 1 has worked and gone; session 2 takes over."""

    def __init__(self, store: Store, raw: sqlite3.Connection, scratch: Scratch) -> None:
        self.store, self.raw, self.scratch = store, raw, scratch
        protocol.add(raw, TASK)
        protocol.claim(raw, TASK, ONE)
        scratch.log(TASK, f"task claimed, session: {ONE}", 7)

    def log(self, *texts: str, percent: int = 40) -> None:
        for text in texts:
            self.scratch.log(TASK, text, percent)

    def two_steps(self) -> None:
        self.log("step 1 started", "step 1 completed", "step 2 started", "step 2 completed")

    def write_handoff(self, text: str, age: int = 0) -> None:
        path = Path(self.scratch.handoff_path(TASK))
        path.write_text(text)
        at = time.time() - age
        os.utime(path, (at, at))

    def leave(self, *states: str) -> None:
        """Session 1 goes through these states; then the conductor hands off."""
        for state in states or ("exited",):
            assert protocol.move(self.raw, TASK, state) == 1
        protocol.send(self.raw, TASK, "task-00", "handoff", "Go on with step 3.")
        protocol.move(self.raw, TASK, "fix_proposed")

    def take_over(self) -> Assessment:
        assert protocol.claim(self.raw, TASK, TWO) == 1
        self.scratch.log(TASK, f"task claimed, session: {TWO}", 6)
        return self.look()

    def look(self, session: str = TWO) -> Assessment:
        return assess(self.store, self.scratch, tasks.get(self.store, TASK), session)


@pytest.fixture
def stage(store: Store, raw: sqlite3.Connection, tmp_path: Path) -> Stage:
    return Stage(store, raw, Scratch(str(tmp_path / "temp")))


def rules(found: Assessment, kind: str) -> list[str]:
    return [m.rule for m in found.mismatches if m.kind == kind]


def test_a_clean_handoff_is_told_in_the_seeds_form(stage: Stage) -> None:
    stage.two_steps()
    stage.scratch.deviate(TASK, "checkpoint 2 review_failed", "medium", 60)
    stage.scratch.deviate(TASK, "step 3 agent 3 skipped", "low", 65)
    deviations = "- Checkpoint 2 (Medium)\n- Step 3 agent 3 skipped (Low)"
    stage.write_handoff(handoff(deviations=deviations, correction="YES (step 2, parser rewrite)"))
    stage.leave()
    found = stage.take_over()
    assert found.text(18).splitlines() == [
        "RESUMPTION: musician-task-03-S2 taking over",
        "  Previous session: session-1",
        "  HANDOFF: present (clean exit at 72% context)",
        "  Context Usage: 18% (fresh session)",
        "  Deviations found: 2 (1 Medium, 1 Low)",
        "  Status/comms mismatches: none",
        "  Pending conductor messages: 1",
        "  Self-correction in previous session: YES (step 2, parser rewrite)",
        "  Assessment: clean handoff",
        "  Resuming from: Step 3 agent 3: Generate table of contents",
    ]
    assert found.verdict == CLEAN
    assert found.facts["handoff"] == "present"


def test_unmeasured_context_is_unknown(stage: Stage) -> None:
    stage.leave()
    assert "  Context Usage: unknown" in stage.take_over().text(None).splitlines()


def test_a_first_session_has_nothing_to_doubt(stage: Stage) -> None:
    found = stage.look(ONE)
    assert (found.verdict, found.mismatches) == (CLEAN, [])
    assert "  HANDOFF: missing (first session)" in found.text(5).splitlines()
    assert found.facts["previous_session"] is None


def test_looking_again_later_finds_the_same_and_where_the_session_is_now(stage: Stage) -> None:
    stage.two_steps()
    stage.write_handoff(handoff())
    stage.leave()
    first = stage.take_over()
    stage.scratch.log_block(TASK, first.text(18), 18)
    stage.log("step 3 started", "step 3 agent 1 launched", "self-correction: true (x)")
    *same, last = stage.look().text(30).splitlines()
    assert same == first.text(30).splitlines()[:-1]
    assert last == "  Resuming from: step 3, in progress in the status log"


def test_a_missing_handoff_wants_verification(stage: Stage) -> None:
    stage.two_steps()
    stage.leave()
    found = stage.take_over()
    assert (found.verdict, found.handoff) == (VERIFY, "missing")
    assert found.text(18).splitlines()[-2] == "  Assessment: needs verification (HANDOFF missing)"
    assert found.resume_from == "step 3, after: step 2 completed"


def test_a_handoff_older_than_the_former_sessions_claim_is_stale(stage: Stage) -> None:
    stage.two_steps()
    stage.write_handoff(handoff().replace(ONE, "session-0"), age=3600)
    stage.leave()
    found = stage.take_over()
    assert (found.verdict, found.handoff) == (VERIFY, "stale")
    assert found.resume_from.startswith("step 3")
    assert "stale (older than the claim of musician-task-03)" in found.text(18)


def test_a_clock_set_back_does_not_make_the_former_sessions_handoff_stale(stage: Stage) -> None:
    stage.two_steps()
    stage.write_handoff(handoff(), age=3600)
    stage.leave()
    assert (stage.take_over().handoff, stage.look().verdict) == ("present", CLEAN)


def test_an_exit_above_the_limit_is_dirty(stage: Stage) -> None:
    stage.two_steps()
    stage.write_handoff(handoff(context=84))
    stage.leave()
    found = stage.take_over()
    assert (found.verdict, found.reasons) == (VERIFY, ["context was 84% at exit"])
    assert "present (dirty exit at 84% context)" in found.text(18)


@pytest.mark.parametrize(("steps", "kind"), [(3, BENIGN), (1, BENIGN), (4, SUSPICIOUS)])
def test_a_step_count_off_by_one_is_benign_and_more_is_suspicious(
    stage: Stage, steps: int, kind: str
) -> None:
    stage.two_steps()
    stage.write_handoff(handoff(steps=steps))
    stage.leave()
    found = stage.take_over()
    assert rules(found, kind) == ["step count"]
    assert found.verdict == (CLEAN if kind == BENIGN else VERIFY)


@pytest.mark.parametrize(("step", "kind"), [(2, BENIGN), (4, BENIGN), (7, SUSPICIOUS)])
def test_a_current_step_off_by_one_is_benign_and_more_is_suspicious(
    stage: Stage, step: int, kind: str
) -> None:
    stage.log(f"step {step} started")
    stage.write_handoff(handoff())
    stage.leave()
    assert rules(stage.take_over(), kind) == ["current step"]


@pytest.mark.parametrize(("number", "kind"), [(2, BENIGN), (4, BENIGN), (5, SUSPICIOUS)])
def test_a_checkpoint_off_by_one_is_benign_and_more_is_suspicious(
    stage: Stage, number: int, kind: str
) -> None:
    stage.log("checkpoint 3/5 submitted")
    text = f"REVIEW REQUEST (Smoothness: 3/9):\n  Checkpoint: {number} of 5\n  Summary: x"
    protocol.send(stage.raw, TASK, ONE, "review_request", text)
    stage.write_handoff(handoff())
    stage.leave()
    assert rules(stage.take_over(), kind) == ["last checkpoint"]


@pytest.mark.parametrize(("seconds", "kind"), [(-30, BENIGN), (-300, SUSPICIOUS)])
def test_a_handoff_changed_after_the_exit_is_judged_by_how_long(
    stage: Stage, seconds: int, kind: str
) -> None:
    stage.two_steps()
    stage.write_handoff(handoff(), age=seconds)
    stage.leave()
    assert rules(stage.take_over(), kind) == ["timestamps"]


def test_deviations_that_are_not_in_all_files_are_suspicious(stage: Stage) -> None:
    stage.scratch.deviate(TASK, "kept HTML", "low", 40)
    stage.log("step 2 deviation: never written to the file (Low)")
    stage.write_handoff(handoff())
    stage.leave()
    found = stage.take_over()
    assert rules(found, SUSPICIOUS) == ["deviation count", "deviation count"]
    assert found.verdict == VERIFY


def test_a_proposal_that_no_message_names_is_suspicious(stage: Stage) -> None:
    path = "docs/implementation/proposals/parser.md"
    stage.write_handoff(handoff(proposal=f"{path} (ANTI_PATTERN)"))
    stage.leave()
    assert rules(stage.take_over(), SUSPICIOUS) == ["files"]


def test_a_proposal_that_a_message_names_is_not(stage: Stage) -> None:
    path = "docs/implementation/proposals/parser.md"
    protocol.send(stage.raw, TASK, ONE, "handoff", f"EXITED\nKey Outputs:\n  - {path} (created)")
    stage.write_handoff(handoff(proposal=f"{path} (ANTI_PATTERN)"))
    stage.leave()
    assert stage.take_over().mismatches == []


def test_a_handoff_of_another_session_is_suspicious(stage: Stage) -> None:
    stage.write_handoff(handoff().replace(ONE, "session-9"))
    stage.leave()
    assert rules(stage.take_over(), SUSPICIOUS) == ["HANDOFF of another session"]


def test_a_skeleton_that_nobody_filled_in_is_suspicious(stage: Stage) -> None:
    stage.scratch.write_handoff(tasks.get(stage.store, TASK), "context", 76)
    stage.leave()
    found = stage.take_over()
    assert rules(found, SUSPICIOUS) == ["HANDOFF not filled in"]
    assert found.verdict == VERIFY


def test_a_crash_in_the_middle_of_a_step_shows(stage: Stage) -> None:
    stage.log("step 2 started", "step 2 agent 1 launched")
    stage.leave("fix_proposed")
    protocol.age(stage.raw, TASK, 600)
    found = stage.take_over()
    assert rules(found, SUSPICIOUS) == ["agents in flight", "step in progress without HANDOFF"]
    assert found.verdict == VERIFY
    assert found.resume_from == "step 2, in progress in the status log"


def test_a_log_that_claims_a_clean_exit_without_a_handoff_is_suspicious(stage: Stage) -> None:
    stage.log("clean exit: context")
    stage.leave()
    assert rules(stage.take_over(), SUSPICIOUS) == ["clean exit without HANDOFF"]


def test_lost_scratch_files_are_suspicious(stage: Stage) -> None:
    stage.leave()
    os.remove(stage.scratch.status_path(TASK))
    found = stage.take_over()
    assert rules(found, SUSPICIOUS) == ["status log missing"]
    assert found.resume_from == "step 1, nothing is logged as done"


def test_complete_in_the_row_against_work_in_the_log_is_contradictory(stage: Stage) -> None:
    stage.log("step 2 started")
    protocol.move(stage.raw, TASK, "complete")
    found = stage.look(ONE)
    assert rules(found, CONTRADICTORY) == ["complete against work in progress"]
    assert found.verdict == GUIDANCE


def test_error_in_the_row_against_a_checkpoint_passed_is_contradictory(stage: Stage) -> None:
    stage.log("checkpoint 2 approved")
    stage.write_handoff(handoff())
    stage.leave("error")
    found = stage.take_over()
    assert rules(found, CONTRADICTORY) == ["error against checkpoint passed"]
    assert found.verdict == GUIDANCE


def test_an_error_that_the_log_knows_of_is_no_contradiction(stage: Stage) -> None:
    stage.log("checkpoint 2 approved", "error 1/5: test_auth times out")
    stage.write_handoff(handoff())
    stage.leave("error")
    assert rules(stage.take_over(), CONTRADICTORY) == []


def test_the_conductors_word_after_the_claim_is_contradictory_until_it_was_read(
    stage: Stage,
) -> None:
    stage.two_steps()
    stage.write_handoff(handoff())
    stage.leave()
    stage.take_over()
    number = protocol.send(stage.raw, TASK, "task-00", "emergency", "Stop step 3.")
    found = stage.look()
    assert rules(found, CONTRADICTORY) == ["conductor message after session start"]
    assert (found.verdict, found.pending) == (GUIDANCE, 2)
    stage.raw.execute("INSERT INTO podium_reads VALUES (?, ?, ?)", (TWO, TASK, number))
    assert (stage.look().verdict, stage.look().pending) == (CLEAN, 0)


def test_a_session_that_does_not_own_the_row_must_ask(stage: Stage) -> None:
    assert rules(stage.look("stranger"), CONTRADICTORY) == ["another owner"]


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [
        (["low", "low"], CLEAN),
        (["low", "medium"], CLEAN),
        (["low", "low", "low"], GUIDANCE),
        (["medium", "medium"], GUIDANCE),
        (["high"], GUIDANCE),
    ],
)
def test_many_or_grave_deviations_go_to_the_conductor(
    stage: Stage, severities: list[str], verdict: str
) -> None:
    for severity in severities:
        stage.scratch.deviate(TASK, "another way", severity, 40)
    listed = "\n".join(f"- another way ({s})" for s in severities)
    stage.write_handoff(handoff(deviations=listed))
    stage.leave()
    found = stage.take_over()
    assert (found.verdict, found.mismatches) == (verdict, [])


def test_more_than_two_suspicions_go_to_the_conductor(stage: Stage) -> None:
    stage.log("step 2 started", "step 2 agent 1 launched", "deviation: x (Low)")
    stage.leave()
    found = stage.take_over()
    assert len(rules(found, SUSPICIOUS)) == 3
    assert found.verdict == GUIDANCE


def test_every_mismatch_names_its_rule_in_the_text(stage: Stage) -> None:
    stage.log("step 2 started", "step 2 agent 1 launched")
    stage.leave()
    found = stage.take_over()
    lines = re.findall(r"^    (\w+): .* \(rule: (.*)\)$", found.text(18), re.MULTILINE)
    assert lines == [(m.kind, m.rule) for m in found.mismatches]
    assert "  Status/comms mismatches: 2" in found.text(18).splitlines()


def test_a_third_session_is_compared_with_the_second(stage: Stage) -> None:
    stage.two_steps()
    stage.write_handoff(handoff(), age=3600)
    stage.leave()
    stage.take_over()
    protocol.move(stage.raw, TASK, "exited")
    protocol.move(stage.raw, TASK, "fix_proposed")
    protocol.claim(stage.raw, TASK, "session-3")
    found = stage.look("session-3")
    assert found.text(5).startswith("RESUMPTION: musician-task-03-S3 taking over")
    assert found.facts["previous_session"] == TWO
    assert found.handoff == "stale"


def test_files_full_of_control_characters_cannot_steer_a_terminal(stage: Stage) -> None:
    stage.log("step 2 started")
    evil = handoff(deviations="- \x1b[2J (High)", correction="YES \x1b]0;x\x07\r")
    stage.write_handoff(evil.replace("Step 3 agent 3", "Step 3 \x1b[31m"))
    Path(stage.scratch.deviations_path(TASK)).write_text("\x1b[2J (High)\n")
    stage.leave()
    assert all(line.isprintable() for line in stage.take_over().text(18).splitlines())


def test_assessing_writes_nothing(stage: Stage) -> None:
    stage.two_steps()
    stage.leave()
    stage.take_over()
    before = protocol.everything(stage.raw), Path(stage.scratch.status_path(TASK)).read_text()
    stage.look().text(18)
    after = protocol.everything(stage.raw), Path(stage.scratch.status_path(TASK)).read_text()
    assert after == before
