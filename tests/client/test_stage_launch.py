"""Launching with the real client: one window for a task, what a failure says, repairs."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.conftest import VERSIONS, _missing
from client.driver import until
from client.model import Bash, Play, Say, When
from client.stagehand import FINISH, Hall, finishes, windows

if TYPE_CHECKING:
    from client.driver import Client
    from client.model import Model

newest = pytest.mark.parametrize("program", VERSIONS[-1:], indirect=True)


def environment(pid: int) -> dict[str, str]:
    """What a process was started with."""
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


@newest
def test_many_launches_at_once_make_one_session_that_takes_itself_for_nobodys_child(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    hall = Hall(client, plugin, project, backend="headless", env={"HALL": "großer Saal"})
    hall.env |= {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}
    model.perform(finishes("task-01", "musician-task-01"))

    with ThreadPoolExecutor(4) as pool:
        tried = list(pool.map(lambda _: hall.attempt("conductor", "launch", "task-01"), range(4)))

    assert sorted(done.returncode for done in tried) == [0, 1, 1, 1]
    assert all("live process" in d.stderr or "working" in d.stderr for d in tried if d.returncode)
    hall.until_state("needs_review")
    (session,) = {request.session for request in model.main()}
    assert hall.look("why", "task-01")["session_id"] == session
    pid = int((project / "temp" / "musician-task-01.pid").read_text().splitlines()[0])
    given = environment(pid)
    assert not {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"} & set(given)
    assert given["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"] == "0"
    assert given["PODIUM_DB"] == str(project / "comms.db")
    assert given["HALL"] == "großer Saal"
    hall.podium("conductor", "close", "task-01", "--now")
    until(lambda: not hall.leftovers(), 15)


@newest
@pytest.mark.parametrize("backend", ["tmux", "headless"])
def test_a_session_that_cannot_start_is_reported_with_what_its_window_says(
    client: Client, model: Model, plugin: Path, project: Path, backend: str
) -> None:
    hall = Hall(client, plugin, project, backend=backend, args=["--no-such-option"])

    failed = hall.attempt("conductor", "launch", "task-01")

    assert failed.returncode == 1
    assert "no-such-option" in failed.stderr
    assert hall.state() == "watching"
    assert model.main() == []
    assert hall.leftovers() == {}
    if backend == "tmux":
        assert windows(hall.env) == []


@newest
def test_a_window_that_waits_for_a_person_is_left_open_and_named(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    if shutil.which("tmux") is None:
        _missing("tmux is not on PATH")
    hall = Hall(client, plugin, project, backend="tmux", wait=4)
    known = json.loads((client.config / ".claude.json").read_text())
    known["projects"] = {}  # so that it asks whether the folder can be trusted
    (client.config / ".claude.json").write_text(json.dumps(known))

    asks = hall.attempt("conductor", "launch", "task-01")

    assert asks.returncode == 1
    assert "trust" in asks.stderr
    assert "tmux attach -t %" in asks.stderr
    assert windows(hall.env) == ["Musician: task-01"]
    again = hall.attempt("conductor", "launch", "task-01")
    assert "live process already" in again.stderr
    hall.podium("conductor", "close", "task-01", "--now")
    assert windows(hall.env) == []
    assert model.main() == []


@newest
def test_a_completed_task_is_repaired_by_its_own_session_and_else_by_a_fresh_one(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    hall = Hall(client, plugin, project, tasks=2, backend="headless")
    fresh = finishes("task-01", "musician-task-01")
    model.perform(
        Play(
            When("You are resumed to correct", Bash("podium musician claim task-01-fix"), times=1),
            When("You are musician-task-01-fix;", Bash(FINISH)),
            *fresh.rules[:-1],
            When("task-01-fix is needs_review (", Say("I wait")),
            *fresh.rules[-1:],
            actor=fresh.actor,
        ),
        finishes("task-01-fix2", "musician-task-01-fix2"),
    )
    session = hall.launched()["session_id"]
    hall.approve()
    hall.until_state("complete")
    until(lambda: not hall.leftovers(), 15, "the end of the first turn")
    found = ("--found-by", "task-02", "--error", "it rings `hollow`", "--fix", "tune $(it)")

    first = hall.look("conductor", "repair", "task-01", *found)

    assert (first["task_id"], first["session_id"]) == ("task-01-fix", session)
    hall.approve("task-01-fix")
    hall.until_state("complete", "task-01-fix")
    (letter,) = hall.mail("instruction", "task-01-fix")
    assert "FIX TASK: Integration error found by task-02." in letter
    assert "it rings `hollow`" in letter
    assert "tune $(it)" in letter
    told = next(r for r in model.main(session) if "You are resumed" in r.news())
    assert "good night" in told.text()  # it remembers

    until(lambda: not hall.leftovers(), 15)
    for transcript in client.config.glob(f"projects/*/{session}.jsonl"):
        transcript.unlink()
    second = hall.look("conductor", "repair", "task-01", *found)

    assert second["task_id"] == "task-01-fix2"
    assert second["session_id"] != session
    hall.approve("task-01-fix2")
    hall.until_state("complete", "task-01-fix2")
