"""What goes wrong during a concert, and that it goes on. Killed sessions: test_stage_kills.py."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Callable

import pytest

from client.driver import Client, Terminal, until
from client.model import Bash, Fail, Model, Play, Say, When
from client.orchestra import Run, part
from client.stagehand import EXIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUBMIT = "podium musician submit --checkpoint 1/1 --smoothness 1 --summary s --files 1 --tests ok"
FINISH = (
    "podium musician finish --smoothness 1 --summary s --files 1 --tests ok --report docs/report.md"
)
COMPLETE = "podium musician complete --report docs/report.md"


@pytest.fixture
def run(plugin: Path, project: Path) -> Run:
    """A project with a run of one task."""
    run = Run(plugin, project)
    (project / "docs" / "report.md").write_text("Done.\n")
    return run


def ends(client: Client, run: Run) -> str:
    """Play task-01 headless to its end, with a hand that approves; the last word."""
    player = client.start("play", **part(run))
    until(lambda: run.state() == "needs_review", 90, "the submission")
    run.podium("conductor", "approve", "task-01", "-m", "THE VERDICT")
    return player.wait(90).text


def test_a_database_locked_for_twenty_seconds_delays_and_loses_nothing(
    client: Client, model: Model, run: Run
) -> None:
    locked = threading.Event()

    def hold() -> None:
        with closing(sqlite3.connect(run.project / "comms.db", isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            locked.set()
            time.sleep(20)
            db.execute("ROLLBACK")

    holder = threading.Thread(target=hold)

    def lock(_: object) -> Bash:
        holder.start()
        locked.wait()
        return Bash(FINISH)

    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01")),
            When("Instructions: docs", lock),
            When("stayed locked by another process", Bash(FINISH)),
            When("THE VERDICT", Bash(COMPLETE)),
            When("task-01 is needs_review (message", Say("I wait")),
            When("so the session goes on", Bash(FINISH)),
            When("It is finished", Say("good night")),
        )
    )

    assert ends(client, run) == "good night"
    holder.join()
    assert any("stayed locked" in r.news() for r in model.main())
    completions = run.look("messages", "task-01", "--type", "completion")["messages"]
    assert len(completions) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"only root may mount a small disk: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_refuses_the_step_whole_and_the_next_try_succeeds(
    client: Client, model: Model, plugin: Path, project: Path, small_disk: Path
) -> None:
    database = {"PODIUM_DB": str(small_disk / "comms.db")}
    run = Run(plugin, project, env=database)
    filler = small_disk / "filler"

    def fill(_: object) -> Bash:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        long = "x" * 100_000  # a hundred pages that do not fit
        return Bash(f"podium musician error --error {long} | tail -c 300; true")

    def free(_: object) -> Bash:
        filler.unlink()
        return Bash("podium musician error --error 'the disk was full'")

    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01")),
            When("Instructions: docs", fill),
            When("disk is full", free),
            When("retry 1/5", Say("I wait")),
            When("THE VERDICT", Bash(EXIT)),
            When("task-01 is exited", Say("good night")),
        )
    )
    player = client.start("play", **part(run, **database))
    until(lambda: run.state() == "error", 60, "the report")
    run.podium("conductor", "fix", "task-01", "-m", "THE VERDICT")

    assert player.wait().text == "good night"
    errors = run.look("messages", "task-01", "--type", "error")["messages"]
    assert ["the disk was full" in m["message"] for m in errors] == [True]
    with closing(sqlite3.connect(small_disk / "comms.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_overloaded_model_delays_and_loses_nothing(
    client: Client, model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("Instructions: docs", Fail(529), times=2),
            When("Instructions: docs", Fail(429), times=1),
            When("play", Bash("podium musician claim task-01"), times=1),
            When("Instructions: docs", Bash(FINISH)),
            When("THE VERDICT", Bash(COMPLETE)),
            When("task-01 is needs_review (message", Say("I wait")),
            When("It is finished", Say("good night")),
        )
    )

    assert ends(client, run) == "good night"


def test_a_session_halted_by_its_model_is_shown_as_alive_and_goes_on_when_woken(
    terminal: Callable[..., Terminal], model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01"), times=1),
            When("please go on", Bash("podium musician log 'going on'"), times=1),
            When("Instructions: docs", Fail(400)),
            When("going on", Say("I go on")),
            When(lambda _: True, Say("…")),
        )
    )
    screen = terminal(**part(run))
    screen.type("play")

    def kinds() -> list[str]:
        return [item["kind"] for item in run.look("conductor", "next")["items"]]

    until(lambda: kinds() == ["halted"], what="the halt")
    screen.type("please go on")
    until(lambda: kinds() == [], what="its end")


def test_a_role_survives_compaction_in_the_middle_of_a_task(
    terminal: Callable[..., Terminal], model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01"), times=1),
            When("Instructions: docs", Bash(SUBMIT)),
            When("task-01 is needs_review (message", Say("I wait")),
            When("who are you", Say("I know")),
            When(lambda _: True, Say("…")),
        )
    )
    screen = terminal(**part(run))
    screen.type("play")
    screen.wait_for("I wait")
    screen.type("/compact")
    status = run.project / "temp" / "task-01-status"
    until(lambda: "compaction (manual) while needs_review" in status.read_text())
    time.sleep(2)
    screen.type("who are you")
    screen.wait_for("I know")

    asked = next(r.text() for r in reversed(model.main()) if "who are you" in r.text())
    assert "you are the musician of task-01" in asked
    assert "it is needs_review" in asked
    run.podium("conductor", "approve", "task-01", "-m", "THE VERDICT")
    until(lambda: any("THE VERDICT" in r.news() for r in model.main()), what="the wake")


def test_of_two_musicians_for_one_task_one_plays_and_the_other_ends_in_peace(
    client: Client, model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01")),
            When("Instructions: docs", Bash(FINISH)),
            When("cannot be claimed", Say("then I go")),
            When("THE VERDICT", Bash(COMPLETE)),
            When("task-01 is needs_review (message", Say("I wait")),
            When("It is finished", Say("good night")),
        )
    )
    players = [
        client.start("play", **part(run))
        for _ in range(2)
    ]  # fmt: skip
    until(lambda: run.state() == "needs_review", 60)
    run.podium("conductor", "approve", "task-01", "-m", "THE VERDICT")

    assert sorted(p.wait(60).text for p in players) == ["good night", "then I go"]
    kinds = [m["message_type"] for m in run.look("messages", "task-01")["messages"]]
    assert kinds.count("claim_blocked") == 1
    assert run.state() == "complete"
