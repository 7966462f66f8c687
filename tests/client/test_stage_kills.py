"""`kill -9` at any point of a session's life: the task completes all the same."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from client.conftest import VERSIONS
from client.driver import until
from client.model import Bash, Play, Say, When
from client.orchestra import BASH, ENV
from client.stagehand import FILL_IN, LEAVE, Hall, finishes

if TYPE_CHECKING:
    from pathlib import Path

    from client.driver import Client
    from client.model import Line, Model, Request, Rule

SUBMIT = (
    "podium musician submit --checkpoint 1/1 --smoothness 1 --summary done --files 1 --tests pass"
)
ERROR = "podium musician error --error stuck"
FOREVER = "python3 -c 'import time; time.sleep(600)'"
LOG = "podium musician log 'step 1 of 3: completed'"
newest = pytest.mark.parametrize("program", VERSIONS[-1:], indirect=True)


class Killer:
    """Ends the session of a task at once: when the model is asked, or a moment later."""

    def __init__(self, hall: Hall, task_id: str) -> None:
        self.pid_file = hall.project / "temp" / f"musician-{task_id}.pid"

    def __call__(self) -> None:
        os.kill(int(self.pid_file.read_text().split()[0]), signal.SIGKILL)

    def now(self, _: Request) -> Line:
        self()
        return Say("nobody hears this")

    def in_the_middle_of(self, command: str) -> Line:
        threading.Timer(1.0, self).start()
        return Bash(command)


def lives(hall: Hall) -> dict[str, tuple[list[Rule], str, str]]:
    """By task: what its first session does after its first request, what kind of handoff its death
    makes, and what the message must say besides."""

    def killer(number: int) -> Killer:
        return Killer(hall, f"task-{number:02}")

    def begun(number: int, *lines: object) -> When:
        return When(f"You are musician-task-{number:02};", *lines)  # type: ignore[arg-type]

    leave = "a HANDOFF is wanted"
    return {
        "task-01": ([], "", ""),  # before it claims: nothing is to be handed off
        "task-02": ([begun(2, killer(2).now)], "crash (dead)", "nothing is logged"),
        "task-03": (
            [begun(3, lambda _: killer(3).in_the_middle_of(FOREVER))],
            "crash (dead)",
            "Left in: working",
        ),
        "task-04": (
            [begun(4, Bash(LOG)), When("step 1 of 3", killer(4).now)],
            "crash (dead)",
            "Do NOT trust results from step 2",
        ),
        "task-05": (
            [begun(5, Bash(SUBMIT)), When("task-05 is needs_review (", killer(5).now)],
            "crash (dead)",
            "is not answered",
        ),
        "task-06": (
            [
                begun(6, Bash(SUBMIT)),
                When("TO THE FIRST", killer(6).now),
                When("(message", Say("…")),
            ],
            "crash (dead)",
            "Left in: review_approved",
        ),
        "task-07": (
            [begun(7, Bash(ERROR)), When("task-07 is error, retry 1", killer(7).now)],
            "crash (dead)",
            "Left in: error",
        ),
        "task-08": (
            [
                begun(8, Bash(ERROR)),
                When("TO THE FIRST", killer(8).now),
                When("(message", Say("…")),
            ],
            "crash (dead)",
            "Left in: fix_proposed",
        ),
        "task-09": ([begun(9, Bash(LEAVE)), When(leave, killer(9).now)], "crash (dead)", ""),
        "task-10": (
            [
                begun(10, Bash(LEAVE)),
                When(leave, Bash(FILL_IN.format(task="task-10"))),
                When("", killer(10).now),
            ],
            "clean",
            "HANDOFF: temp/task-10-HANDOFF",
        ),
        "task-11": (
            [
                begun(11, Bash(LEAVE)),
                When(leave, Bash(f"{FILL_IN.format(task='task-11')} && {LEAVE}")),
                When("task-11 is exited", killer(11).now),
            ],
            "context exit",
            "HANDOFF: temp/task-11-HANDOFF",
        ),
    }


@newest
def test_a_musician_killed_at_any_point_is_found_and_replaced_and_its_task_completes(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    rules = ["Bash(python3:*)", "Bash(sed:*)"]
    hall = Hall(client, plugin, project, tasks=11, backend="headless", allowed_tools=rules)
    plays = lives(hall)
    first = [
        Play(
            When(
                f"You are launched as musician-{task} for",
                Bash(f"podium musician claim {task}") if after else Killer(hall, task).now,
                times=1,
            ),
            *after,
            actor=f"You are launched as musician-{task} for",
        )
        for task, (after, *_) in plays.items()
    ]
    model.perform(*first, *(finishes(task, f"musician-{task}-S2") for task in plays))
    pids = {task: hall.launched(task)["pid"] for task in plays}
    for task, verdict in (("task-06", "approve"), ("task-08", "fix")):
        hall.until_state("needs_review" if verdict == "approve" else "error", task)
        hall.podium("conductor", verdict, task, "-m", "TO THE FIRST")
    until(lambda: not {*pids.values()} & {*client.processes()}, 60, "all have died")

    swept = hall.look("conductor", "sweep")["findings"]
    found = {f["task_id"]: f["kind"] for f in swept if not f["settled"]}
    assert found == {
        task: {"task-01": "launch", "task-11": "exit"}.get(task, "dead") for task in plays
    }
    again = hall.look("conductor", "sweep")["findings"]
    assert [f for f in again if f["settled"]] == []

    # The first was never claimed, so its next session is again the first.
    model.perform(finishes("task-01", "musician-task-01"),
                  *(finishes(task, f"musician-{task}-S2") for task in plays))  # fmt: skip
    for task, (_, kind, besides) in plays.items():
        hall.replaced(task)
        told = hall.mail("handoff", task)[-1:]
        if kind:
            assert f"Handoff type: {kind}\n" in told[0], told
            assert besides in told[0], told
    for task in plays:
        hall.approve(task)
    for task in plays:
        hall.until_state("complete", task)
    closed = hall.look("conductor", "close", "--phase", "1")
    assert closed["kept"] == []


@newest
def test_a_conductor_killed_in_the_middle_is_followed_by_one_that_finishes_the_concert(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    hall = Hall(client, plugin, project, tasks=2, backend="headless")
    model.perform(
        Play(
            When("raise the baton", Bash("podium conductor start"), times=1),
            When("You are the conductor, session", Bash("podium conductor launch task-01")),
            When("Musician: task-01 plays", Bash("podium conductor launch task-02")),
            When("", Say("I listen")),
            actor="raise the baton",
        ),
        Play(
            When("take the baton", Bash("podium conductor start"), times=1),
            When(
                "You are the conductor, session",
                Bash("podium conductor approve task-01 -m 'THE VERDICT'"),
            ),
            When(
                "task-01 is review_approved",
                Bash("podium conductor approve task-02 -m 'THE VERDICT'"),
            ),
            When("every task has ended", Bash("podium conductor finish")),
            When("The run is finished", Say("applause")),
            When("", Say("I listen")),
            actor="take the baton",
        ),
        finishes("task-01", "musician-task-01"),
        finishes("task-02", "musician-task-02"),
    )
    options = {"project": project, "plugin_dirs": [plugin], "extra_args": BASH, "env": ENV}
    first = client.start("raise the baton", **options)
    for task in ("task-01", "task-02"):
        hall.until_state("needs_review", task)
    refused = hall.attempt("conductor", "start", session="somebody-else")
    assert (refused.returncode, "is alive" in refused.stderr) == (1, True)

    first.kill()
    second = client.start("take the baton", **options)

    assert second.wait(90).text == "applause"
    assert hall.state("task-00") == "complete"
    brief = [r.news() for r in model.main() if "Phase 1: 0 of 2 ended" in r.news()][-1]
    assert "task-02 needs_review (musician-task-02" in brief
    assert "completion task-01" in brief
    assert "Window: task-01 in headless" in brief
