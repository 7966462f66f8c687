"""Signs of life without a model, and deaths that are noticed, also by kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from typing import Callable

from client.driver import Client, Terminal, until
from client.model import Bash, Model, Play, Say, When
from client.orchestra import Run, part


def age_owner(run: Run, seconds: int) -> None:
    with closing(sqlite3.connect(run.project / "comms.db", isolation_level=None)) as db:
        db.execute(
            "UPDATE orchestration_tasks SET last_heartbeat = datetime('now', ?)"
            " WHERE task_id = 'task-01'",
            (f"-{seconds} seconds",),
        )


def life(run: Run) -> int:
    return int(run.look("why", "task-01")["seconds_since_life"])


PLAYER = Play(
    When("play", Bash("podium musician claim task-01")),
    When("You are musician-task-01", Bash("touch busy; while [ -e busy ]; do sleep 0.2; done")),
    When(lambda _: True, Say("…")),
)


def test_a_long_tool_call_keeps_the_sign_of_life_and_a_kill_is_noticed(
    client: Client, model: Model, run: Run
) -> None:
    model.perform(PLAYER)
    player = client.start("play", **part(run))
    until((run.project / "busy").exists)
    until(lambda: life(run) < 5)
    age_owner(run, 500)

    until(lambda: life(run) < 60, timeout=45, what="a beat during the tool call")
    player.kill()
    killed = time.monotonic()

    items = until(lambda: run.look("conductor", "next")["items"], what="the death notice")
    assert time.monotonic() - killed < 30
    assert items[0]["kind"] == "dead"
    (run.project / "busy").unlink()
    until(lambda: not client.processes(), what="every process gone")


def test_a_waiting_conductor_is_woken_by_a_death(
    terminal: Callable[..., Terminal], client: Client, model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("raise the baton", Bash("podium conductor start && podium conductor next")),
            When("Nothing needs you", Say("all is quiet")),
            When("dead       task-01", Say("alas")),
            When(lambda _: True, Say("…")),
            actor="conductor",
        ),
        PLAYER,
    )
    player = client.start("play", **part(run))
    until((run.project / "busy").exists)
    screen = terminal(actor="conductor", **part(run))
    screen.type("raise the baton")
    screen.wait_for("all is quiet")

    os.kill(player.pid, signal.SIGKILL)

    screen.wait_for("alas")
    (run.project / "busy").unlink()


def test_a_row_follows_its_session_through_clear(
    terminal: Callable[..., Terminal], model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01")),
            When("Instructions: docs", Say("claimed")),
            When("it is working, so the session goes on", Say("claimed, still")),
            When("who are you", Say("I am told")),
            When(lambda _: True, Say("…")),
        )
    )
    mine = part(run)
    session = mine["session_id"]
    screen = terminal(**mine)
    screen.type("play")
    until(lambda: run.state() == "working")
    until(lambda: run.look("why", "task-01")["continuations"] > 0)
    screen.key("Escape")
    time.sleep(1)
    screen.type("/clear")
    until(lambda: run.look("why", "task-01")["session_id"] != session, what="the row to follow")
    screen.type("who are you")
    screen.wait_for("I am told")

    told = next(r.text() for r in reversed(model.main()) if "who are you" in r.text())
    assert "you are the musician of task-01" in told
    assert "invoke the skill /musician again" in told
