"""Whole lives of musicians that podium starts, in every kind of window, with the real client."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import _missing
from client.driver import until
from client.model import Bash, Play, Say, When
from client.stagehand import FILL_IN, LEAVE, Hall, finishes, windows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from client.driver import Client
    from client.model import Model

SMALL = "claude-haiku-4-5"  # with the usual window, whatever the client prefers
FULL = 170_000  # tokens: 85 % of it
HOSTILE = (
    "Read `touch bad1` and $(touch bad2) and \"quotes\" 'single' \\ \\n !`touch bad3`; touch bad4\n"
    "\ttab, ${HOME} $1 $ARGUMENTS #{pane_id} %s é € \N{VIOLIN}\n\n"
    + "0123456789" * 10_000
    + " end."
)


@pytest.fixture
def display(tmp_path: Path) -> Iterator[str]:
    """An X display of the test's own."""
    for tool in ("kitty", "Xvfb"):
        if shutil.which(tool) is None:
            _missing(f"{tool} is not on PATH; it is needed for kitty's windows")
    read, write = os.pipe()
    with (tmp_path / "xvfb.log").open("wb") as log:
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"],
            pass_fds=[write], stdout=log, stderr=log,
        )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read) as told:
            number = told.readline().strip()
        assert number, (tmp_path / "xvfb.log").read_text()
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(params=["tmux", "kitty", "background", "headless"])
def hall(request: pytest.FixtureRequest, client: Client, plugin: Path, project: Path) -> Hall:
    """A run whose sessions get one kind of window."""
    backend = request.param
    old = "2.1.197" in str(client.program)
    if backend == "background" and old:
        pytest.skip("this client's background sessions do not start offline")
    if backend == "tmux" and shutil.which("tmux") is None:
        _missing("tmux is not on PATH")
    rules = ["Bash(sed:*)"]
    made = Hall(client, plugin, project, backend=backend, allowed_tools=rules, model=SMALL)
    if backend == "kitty":
        made.env["DISPLAY"] = request.getfixturevalue("display")
        made.env["LIBGL_ALWAYS_SOFTWARE"] = "1"
    made.backend = backend
    return made


def test_a_task_is_launched_played_left_at_high_context_replaced_completed_and_closed(
    hall: Any, model: Model
) -> None:
    first = Play(
        When(
            "You are launched as musician-task-01 for",
            Bash("podium musician claim task-01"),
            times=1,
        ),
        When("You are musician-task-01;", Bash("podium musician log 'step 1 of 2: completed'")),
        When("step 1 of 2: completed", Bash(LEAVE), usage=FULL),
        When(
            "a HANDOFF is wanted", Bash(f"{FILL_IN.format(task='task-01')} && {LEAVE}"), usage=FULL
        ),
        When("task-01 is exited", Say("good night"), usage=FULL),
        actor="You are launched as musician-task-01 for",
    )
    model.perform(first, finishes("task-01", "musician-task-01-S2"))

    begun = hall.launched("task-01", "-m", HOSTILE)
    assert (begun["backend"], begun["title"]) == (hall.backend, "Musician: task-01")
    hall.until_state("exited")
    asked = model.main(begun["session_id"])[0]
    assert HOSTILE in asked.text()
    assert sorted(p.name for p in hall.project.glob("bad*")) == []
    again = hall.attempt("conductor", "launch", "task-01")
    assert again.returncode == 1

    taken = hall.replaced()
    assert taken["title"] == "Musician: task-01 (S2)"
    assert "dirty" in hall.mail("handoff")[-1]
    assert "85%" in hall.mail("handoff")[-1]
    assert begun["pid"] not in hall.client.processes()
    hall.approve()
    hall.until_state("complete")
    assert hall.look("why", "task-01")["worked_by"] == "musician-task-01-S2"

    hall.podium("conductor", "close", "task-01")
    until(lambda: not hall.leftovers(), 15, "no process left")
    if hall.backend == "tmux":
        assert windows(hall.env) == []
    assert not (hall.project / "temp" / "musician-task-01.pid").exists()
    assert "Nothing was open" in hall.podium("conductor", "close", "task-01")
