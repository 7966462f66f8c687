"""The seeds' flows through the commands alone, and the event log that each must leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Callable

import pytest
from conftest import PLUGIN
from manual import BOSS, FINISH, S1, S2, SUBMIT

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Said

    Podium = Callable[..., Said]


@pytest.fixture
def run(podium: Podium, project: Path) -> Podium:
    """A run with a conductor and one task that S1 plays."""
    (project / "task.md").write_text("Do it.\n")
    (project / "report.md").write_text("Done.\n")
    podium("init")
    podium("conductor", "start", session=BOSS)
    podium("conductor", "add", "task-01", "--instructions", "task.md", session=BOSS)
    podium("musician", "claim", "task-01", session=S1)
    return podium


def log(podium: Podium, task_id: str = "task-01") -> list[str]:
    """The states of a task, one after the other."""
    return [e["to_state"] for e in podium("--json", "timeline", task_id).json["events"]]


def mail(podium: Podium, task_id: str = "task-01") -> list[str]:
    """The types of its messages, one after the other."""
    return [m["message_type"] for m in podium("--json", "messages", task_id).json["messages"]]


def latest(podium: Podium, kind: str, task_id: str = "task-01") -> str:
    found = podium("--json", "messages", task_id, "--type", kind).json["messages"]
    return str(found[-1]["message"])


def test_the_happy_path(run: Podium) -> None:
    run("musician", "submit", *SUBMIT, session=S1)
    run("conductor", "review", "task-01", session=BOSS)
    run("conductor", "approve", "task-01", "-m", "go on", session=BOSS)
    run("musician", "claim", "task-01", session=S1)
    run("musician", "finish", *FINISH, session=S1)
    run("conductor", "approve", "task-01", "-m", "well done", session=BOSS)
    run("musician", "complete", "--report", "report.md", session=S1)
    run("conductor", "finish", session=BOSS)

    assert log(run) == [
        *("watching", "working", "needs_review", "review_approved", "working"),
        *("needs_review", "review_approved", "complete"),
    ]
    assert mail(run) == ["instruction", "review_request", "approval", "completion", "approval"]
    assert log(run, "task-00") == ["watching", "watching", "reviewing", "watching", "complete"]


def test_a_rejection_and_a_resubmission(run: Podium) -> None:
    run("musician", "submit", *SUBMIT, session=S1)
    run("conductor", "reject", "task-01", "-m", "the empty input is not tested", session=BOSS)
    assert "the empty input" in run("musician", "inbox", session=S1).out
    run("musician", "submit", *SUBMIT, session=S1)
    run("conductor", "approve", "task-01", "-m", "good", session=BOSS)

    assert log(run)[2:] == ["needs_review", "review_failed", "needs_review", "review_approved"]


@pytest.mark.parametrize("words", [("inbox",), ("claim", "task-01")])
def test_mail_that_could_not_be_printed_is_still_unread(
    run: Podium, project: Path, words: tuple[str, ...]
) -> None:
    run("conductor", "broadcast", "-m", "mind the tempo", session=BOSS)
    unheard, deaf = os.pipe()
    os.close(unheard)
    command = [str(PLUGIN / "src" / "podium" / "__main__.py"), "--session", S1, "musician", *words]
    done = subprocess.run(
        [sys.executable, "-I", *command],
        stdout=deaf,
        stderr=subprocess.DEVNULL,
        check=False,
        cwd=project,
    )
    os.close(deaf)

    assert done.returncode != 0
    assert "mind the tempo" in run("musician", "inbox", session=S1).out
    assert "No unread mail" in run("musician", "inbox", session=S1).out


def fill_in(project: Path) -> None:
    """What only the musician knows goes into the HANDOFF of task-01."""
    path = project / "temp" / "task-01-HANDOFF"
    path.write_text(re.sub("<fill in: [^>]*>", "done", path.read_text()))


def test_an_error_with_a_fix_and_the_fifth_error(run: Podium, project: Path) -> None:
    for number in range(1, 6):
        said = run("musician", "error", "--error", f"it broke {number}", session=S1).out
        assert f"retry {number}/5" in said
        assert latest(run, "error").startswith(f"ERROR (Retry {number}/5):")
        if number < 5:
            run("conductor", "fix", "task-01", "-m", "try this", session=BOSS)
            run("musician", "claim", "task-01", session=S1)
    assert "HANDOFF" in said
    assert "HANDOFF" in run("musician", "error", "--error", "six", session=S1, expect=1).err
    run("musician", "exit", "--reason", "retries exhausted", session=S1, expect=1)
    fill_in(project)
    run("musician", "exit", "--reason", "retries exhausted", session=S1)

    assert log(run)[2:] == [*(["error", "fix_proposed", "working"] * 4), "error", "exited"]
    assert latest(run, "error").startswith("ERROR (Retry 5/5):")


@pytest.mark.parametrize(
    ("verb", "state"),
    [("approve", "review_approved"), ("fix", "fix_proposed"), ("reject", "review_failed")],
)
def test_a_context_warning_and_each_of_the_three_answers(
    run: Podium, verb: str, state: str
) -> None:
    run("musician", "warn", "--recommend", "finish step 2", "--agents-remaining", "4", session=S1)
    letter = latest(run, "context_warning")
    run("conductor", verb, "task-01", "-m", "do that", session=BOSS)

    assert letter.startswith("CONTEXT WARNING: unknown usage")
    assert "Agents Remaining: 4 (~8% context each, ~32% total)" in letter
    assert "Agents That Fit in 65% Budget: unknown" in letter
    assert log(run)[2:] == ["error", state]
    assert run("--json", "why", "task-01").json["retry_count"] == 0


def test_a_recall_a_clean_exit_and_a_resumption_as_s2(run: Podium, project: Path) -> None:
    run("musician", "log", "step 1 completed", session=S1)
    run("conductor", "recall", "task-01", session=BOSS)
    run("musician", "exit", "--reason", "recalled", session=S1, expect=1)
    assert "Step 1" in (project / "temp" / "task-01-HANDOFF").read_text()
    fill_in(project)
    run("musician", "exit", "--reason", "recalled", session=S1)
    assert latest(run, "handoff").startswith("EXITED: recalled")
    assert "(clean)" in run("conductor", "handoff", "task-01", session=BOSS).out
    claimed = run("musician", "claim", "task-01", session=S2).out
    resumed = run("musician", "resume", session=S2).out

    assert "musician-task-01-S2" in claimed
    assert resumed.startswith("RESUMPTION: musician-task-01-S2 taking over")
    assert log(run)[2:] == ["exit_requested", "exited", "fix_proposed", "working"]
    assert mail(run)[-1] == "resumption_status"
    assert "taking over" in (project / "temp" / "task-01-status").read_text()


def test_nobody_leaves_with_a_handoff_that_is_not_filled_in(run: Podium, project: Path) -> None:
    leave = ("musician", "exit", "--reason", "recalled")
    run(*leave, session=S1, expect=1)
    path = project / "temp" / "task-01-HANDOFF"
    marks = path.read_text().count("<fill in: ")
    for left in (marks, marks, 1):
        if left == 1:
            path.write_text(re.sub("<fill in: [^>]*>", "done", path.read_text(), count=marks - 1))
        said = run(*leave, session=S1, expect=1).err
        assert f"temp/task-01-HANDOFF has {left} place{'s' * (left > 1)} not filled in" in said
        assert len(said.splitlines()) == 1
    assert log(run)[-1] == "working"

    fill_in(project)
    run(*leave, session=S1)

    assert log(run)[-1] == "exited"


def test_a_collision_lets_the_loser_go_and_tells_the_conductor(run: Podium) -> None:
    said = run("musician", "claim", "task-01", session=S2, expect=1)

    assert "musician-task-01" in said.err
    assert mail(run)[-1] == "claim_blocked"
    assert "fallback-player-2" in run("conductor", "next", session=BOSS).out
    assert run("musician", "log", "x", session=S2, expect=1).err


def test_after_a_takeover_every_write_of_the_old_session_is_refused_by_name(
    run: Podium, project: Path
) -> None:
    run("musician", "exit", "--reason", "x", session=S1, expect=1)
    fill_in(project)
    run("musician", "exit", "--reason", "x", session=S1)
    run("conductor", "handoff", "task-01", session=BOSS)
    run("musician", "claim", "task-01", session=S2)
    before = log(run), mail(run)

    for words in (
        ("submit", *SUBMIT),
        ("finish", *FINISH),
        ("error", "--error", "x"),
        ("warn",),
        ("log", "x"),
        ("deviation", "x", "--severity", "low"),
        ("complete", "--report", "report.md"),
        ("exit", "--reason", "x"),
        ("inbox",),
        ("resume",),
    ):
        refused = run("musician", *words, session=S1, expect=1).err
        assert "musician-task-01-S2" in refused, words
        assert S2 in refused
    assert (log(run), mail(run)) == before


def test_completion_wants_the_newest_verdict_to_be_an_approval(run: Podium) -> None:
    run("musician", "submit", *SUBMIT, session=S1)
    run("conductor", "approve", "task-01", "-m", "ok", session=BOSS)
    run("musician", "complete", "--report", "report.md", session=S1, expect=1)
    run("musician", "finish", *FINISH, session=S1)
    run("musician", "complete", "--report", "report.md", session=S1, expect=1)
    run("conductor", "approve", "task-01", "-m", "ok", session=BOSS)
    run("conductor", "fix", "task-01", "-m", "no, wait", session=BOSS)
    run("musician", "claim", "task-01", session=S1)
    run("musician", "complete", "--report", "report.md", session=S1, expect=1)
    run("musician", "finish", *FINISH, session=S1)
    run("conductor", "approve", "task-01", "-m", "ok", session=BOSS)
    run("musician", "complete", "--report", "report.md", session=S1)

    assert log(run)[-1] == "complete"


def test_dependencies_hold_for_everybody_and_next_says_what_became_free(
    run: Podium, project: Path
) -> None:
    plan = {"tasks": [{"id": "task-02", "instructions": "task.md", "after": ["task-01"]}]}
    (project / "plan.json").write_text(json.dumps(plan))
    run("conductor", "plan", "plan.json", session=BOSS)
    assert "needs task-01" in run("musician", "claim", "task-02", session=S2, expect=1).err
    assert "free" not in run("conductor", "next", session=BOSS).out

    run("musician", "finish", *FINISH, session=S1)
    run("conductor", "approve", "task-01", "-m", "ok", session=BOSS)
    run("musician", "complete", "--report", "report.md", session=S1)

    assert "free       task-02" in run("conductor", "next", session=BOSS).out
    run("musician", "claim", "task-02", session=S2)


def faults_of(podium: Podium, project: Path, plan: object) -> list[str]:
    (project / "plan.json").write_text(json.dumps(plan))
    said = podium("--json", "conductor", "plan", "plan.json", session=BOSS, expect=1)
    return list(json.loads(said.out)["errors"])


@pytest.mark.parametrize(
    ("tasks", "wrong"),
    [
        ([{"id": "task-02"}, {"id": "x", "instructions": "task.md"}], ["tasks[0]", "tasks[1].id"]),
        (
            [
                {"id": "task-02", "instructions": "nope.md", "after": ["task-03", "task-77"]},
                {"id": "task-03", "instructions": "task.md", "after": ["task-02"]},
                {"id": "task-03", "instructions": "task.md"},
                {"id": "task-01", "instructions": "task.md"},
            ],
            [
                "nope.md",
                "task-77",
                "cycle task-02 → task-03 → task-02",
                "stands 2 times",
                "exists already",
            ],
        ),
        (
            [
                {
                    "id": f"task-0{n}",
                    "instructions": "task.md",
                    "parallel": True,
                    "danger_files": [f],
                }
                for n, f in ((2, "a/b.py"), (3, "a/../a/b.py"))
            ],
            ["a/b.py is also task-02's"],
        ),
    ],
)
def test_everything_wrong_with_a_plan_is_said_at_once_and_nothing_is_written(
    run: Podium, project: Path, tasks: Any, wrong: list[str]
) -> None:
    errors = faults_of(run, project, {"tasks": tasks})

    for part in wrong:
        assert any(part in error for error in errors), (part, errors)
    assert len(run("--json", "status").json["tasks"]) == 2


def test_the_conductors_seat_is_taken_over_only_from_one_who_rests_or_is_gone(run: Podium) -> None:
    assert BOSS in run("conductor", "start", session="boss-2", expect=1).err
    run("conductor", "rest", session=BOSS)
    run("conductor", "start", session="boss-2")

    assert "owns" in run("conductor", "next", session=BOSS, expect=1).err
    assert run("--json", "why", "task-00").json["session_id"] == "boss-2"
