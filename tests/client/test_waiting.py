"""Waiting costs no model turn, the answer arrives by itself, and the person can type meanwhile."""

from __future__ import annotations

import os
import time
from typing import Callable

from client.driver import Client, Terminal, until
from client.model import Bash, Model, Play, Say, When
from client.orchestra import Run, part
from client.stagehand import EXIT

# The record in docs/waiting.md was made with 180.
WAIT = float(os.environ.get("PODIUM_TEST_WAIT", "8"))
SUBMIT = (
    "podium musician submit --checkpoint 1/1 --smoothness 1 --summary done --files 1 --tests pass"
)
MUSICIAN = Play(
    When("play", Bash("podium musician claim task-01")),
    When("You are musician-task-01", Bash(SUBMIT)),
    When("task-01 is needs_review (message", Say("I wait")),
    When("are you there", Say("yes, I am")),
    When("THE VERDICT", Bash(EXIT)),
    When("task-01 is exited", Say("good night")),
)


def quiet(model: Model, seconds: float) -> None:
    """Let the time pass, and see that nobody asks the model anything."""
    start = time.time()
    time.sleep(seconds)
    assert model.between(start, time.time()) == 0


def test_a_headless_musician_waits_in_its_stop_hook_and_goes_on_with_the_verdict(
    client: Client, model: Model, run: Run
) -> None:
    model.perform(MUSICIAN)
    player = client.start("play", **part(run))
    until(lambda: len(model.main()) == 3, what="the submission")

    quiet(model, WAIT)
    assert player.alive
    run.podium("conductor", "approve", "task-01", "-m", "THE VERDICT")

    assert player.wait().text == "good night"
    told = model.main()[3].news()
    assert "approval from the conductor" in told
    assert "review_approved" in told


def test_an_interactive_musician_ends_its_turn_and_is_woken_by_the_verdict(
    terminal: Callable[..., Terminal], model: Model, run: Run
) -> None:
    model.perform(MUSICIAN)
    screen = terminal(**part(run))
    screen.type("play")
    screen.wait_for("I wait")

    quiet(model, WAIT / 2)
    screen.type("are you there")
    screen.wait_for("yes, I am", timeout=10)
    quiet(model, WAIT / 2)
    run.podium("conductor", "approve", "task-01", "-m", "THE VERDICT")

    screen.wait_for("good night")
    told = next(r.news() for r in model.main() if "THE VERDICT" in r.news())
    assert "approval from the conductor" in told
    assert "review_approved" in told
    assert run.state() == "exited"


def test_an_idle_conductor_is_woken_with_a_digest_of_what_is_new(
    terminal: Callable[..., Terminal], model: Model, run: Run
) -> None:
    run.add("task-02")
    for number in ("1", "2"):
        run.podium("musician", "claim", f"task-0{number}", session=f"m{number}")
    model.perform(
        Play(
            When("raise the baton", Bash("podium conductor start && podium conductor next")),
            When("Nothing needs you", Say("all is quiet")),
            When(
                "review     task-01",
                Bash("podium conductor approve task-01 -m fine && podium conductor next"),
            ),
            When(
                "error      task-02",
                Bash("podium conductor fix task-02 -m try && podium conductor rest"),
            ),
            When("Take over with", Say("good night")),
        )
    )
    screen = terminal(**part(run))
    screen.type("raise the baton")
    screen.wait_for("all is quiet")
    quiet(model, WAIT / 2)
    run.podium(*SUBMIT.split()[1:], session="m1")
    until(lambda: sum("Nothing needs you" in r.news() for r in model.main()) == 2)

    quiet(model, 2)
    run.podium("musician", "error", "--error", "it broke", session="m2")

    screen.wait_for("good night")
    digests = [r.news() for r in model.main() if "news for the conductor" in r.news()]
    assert "it broke" in digests[-1]
    assert "task-01" not in digests[-1]


def test_mail_reaches_a_working_musician_at_its_next_tool_call_once(
    client: Client, model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("You play one task", Bash("podium musician claim task-01")),
            When(
                "Instructions: docs",
                Bash("touch started; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; done"),
            ),
            When("STOP THE PRESS", Bash("echo second call")),
            When("second call", Bash(EXIT)),
            When("task-01 is exited", Say("good night")),
        )
    )
    player = client.start("/podium:musician task-01", **part(run))
    until((run.project / "started").exists)
    run.podium("conductor", "broadcast", "-m", "STOP THE PRESS")

    assert player.wait().text == "good night"
    told = [r for r in model.main() if "STOP THE PRESS" in r.news()]
    assert len(told) == 1
    assert "emergency from the conductor" in told[0].news()
