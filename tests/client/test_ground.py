"""The ground in the real client: the id, the guard, the strangers."""

from __future__ import annotations

import os
import shutil
import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from client.model import Bash, Play, Say, When
from client.orchestra import BASH, ENV, Run, part
from client.stagehand import EXIT

if TYPE_CHECKING:
    from client.driver import Client
    from client.model import Model


def set_state(project: Path, state: str) -> None:
    with sqlite3.connect(project / "comms.db") as db:
        db.execute("UPDATE orchestration_tasks SET state = ? WHERE task_id = 'task-01'", (state,))


def test_the_first_request_begins_with_the_session_id(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    session = str(uuid.uuid4())
    model.perform(
        Play(
            When(
                f"CLAUDE_SESSION_ID={session}",
                Bash("echo id=$CLAUDE_SESSION_ID; command -v podium"),
            ),
            When(f"id={session}", Say("done")),
        )
    )

    client.headless(
        "hello", project=project, plugin_dirs=[plugin], session_id=session, env=ENV, extra_args=BASH
    )

    assert str(plugin / "bin" / "podium") in model.main()[1].news()


def test_a_stop_in_working_comes_back_with_the_state_and_the_next_command(
    client: Client, model: Model, plugin: Path, run: Run
) -> None:
    session = str(uuid.uuid4())
    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01")),
            When("You are musician-task-01", Say("I am done, I think")),
            When("it is working, so the session goes on", Bash(EXIT)),
            When("task-01 is exited", Say("now I am")),
        )
    )

    result = client.headless(
        "play",
        project=run.project,
        plugin_dirs=[plugin],
        session_id=session,
        env=ENV,
        extra_args=BASH,
    )

    assert result.text == "now I am"
    held = model.main()[2].news()
    assert "podium musician submit" in held
    assert "docs/tasks/task-01.md" in held
    why = run.look("why", "task-01")
    assert (why["continuations"], why["state"]) == (1, "exited")


def test_a_stop_in_complete_ends(client: Client, model: Model, plugin: Path, run: Run) -> None:
    session = str(uuid.uuid4())
    run.podium("musician", "claim", "task-01", session=session)
    set_state(run.project, "complete")
    model.perform(Play(When("hello", Say("bye"))))

    result = client.headless(
        "hello", project=run.project, plugin_dirs=[plugin], session_id=session, env=ENV
    )

    assert result.text == "bye"
    assert len(model.main()) == 1


def test_a_stranger_ends_at_once_and_hears_nothing_but_its_id(
    client: Client, model: Model, plugin: Path, run: Run
) -> None:
    session = str(uuid.uuid4())
    run.podium("musician", "claim", "task-01", session="somebody-else")
    model.perform(Play(When("hello", Say("bye"))))

    client.headless("hello", project=run.project, plugin_dirs=[plugin], session_id=session, env=ENV)

    (request,) = model.main()
    told = [line for line in request.text().splitlines() if "SessionStart hook" in line]
    assert [line.partition("context: ")[2] for line in told] == [f"CLAUDE_SESSION_ID={session}"]
    assert "task-01" not in request.text()


def test_the_plugin_is_valid_and_installs_from_its_own_repository(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    for words in (
        ("validate", str(plugin), "--strict"),
        ("validate", str(plugin / ".claude-plugin" / "plugin.json"), "--strict"),
        ("marketplace", "add", str(plugin)),
        ("install", "podium@podium"),
    ):
        done = client.plugin(*words, project=project)
        assert done.code == 0, done
    session = str(uuid.uuid4())
    model.perform(
        Play(
            When(f"CLAUDE_SESSION_ID={session}", Bash("podium --version")),
            When("podium 0.", Say("done")),
        )
    )

    result = client.headless("hello", project=project, session_id=session, env=ENV, extra_args=BASH)

    assert result.text == "done"


def test_a_stranger_starts_no_process_per_tool_call_and_one_per_stop(
    client: Client, model: Model, plugin: Path, run: Run, tmp_path: Path
) -> None:
    log, spy = tmp_path / "started", tmp_path / "spy" / "python3"
    spy.parent.mkdir()
    real = shutil.which("python3")
    spy.write_text(f'#!/bin/sh\necho "$*" >>"{log}"\nexec "{real}" "$@"\n')
    spy.chmod(0o755)
    model.perform(
        Play(
            When("hello", Bash("echo one")),
            When("one", Bash("echo two")),
            When("two", Bash("echo three")),
            When("three", Say("bye")),
        )
    )

    client.headless(
        "hello",
        project=run.project,
        plugin_dirs=[plugin],
        session_id=str(uuid.uuid4()),
        env={**ENV, "PATH": f"{spy.parent}:{os.environ['PATH']}"},
        extra_args=BASH,
    )

    names = [Path(word).name for line in log.read_text().splitlines() for word in line.split()]
    hooks = [name for name in names if name.endswith(".py")]
    assert sorted(hooks) == [
        "participant.py",
        "session_start.py",
        "stop.py",
    ]  # the first: SessionEnd


def test_a_musician_that_only_talks_is_let_go_by_the_client_and_that_is_noticed(
    client: Client, model: Model, run: Run
) -> None:
    model.perform(
        Play(
            When("play", Bash("podium musician claim task-01")),
            When(lambda _: True, Say("I am thinking about it")),
        )
    )

    client.headless("play", **part(run))

    why = run.look("why", "task-01")
    assert "the client ends the turn all the same" in why["last_stop"]
    assert why["continuations"] == 9
    letters = [m["message"] for m in run.look("messages", "task-01", "--type", "error")["messages"]]
    assert len(letters) == 1
    assert letters[0].startswith("LET GO")
