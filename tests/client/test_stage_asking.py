"""A session that stands at a permission prompt is known in seconds, and until it is answered."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import _missing
from client.driver import until
from client.model import Bash, Play, Say, When
from client.stagehand import Hall, tmux

if TYPE_CHECKING:
    from pathlib import Path

    from client.driver import Client
    from client.model import Model

ASKS = "python3 -c 'print(6 * 7)' > answer && cat answer"
MUSICIAN = Play(
    When(
        "You are launched as musician-task-01 for", Bash("podium musician claim task-01"), times=1
    ),
    When("You are musician-task-01;", Bash(ASKS)),
    When("42", Bash("podium musician log 'step 1 of 1: completed'")),
    When("step 1 of 1", Bash("podium musician error --error stuck")),
    When("task-01 is error", Say("I wait")),
)


def asking(hall: Hall) -> list[dict[str, Any]]:
    items = hall.look("conductor", "next")["items"]
    return [item for item in items if item["kind"] == "asking"]


@pytest.mark.parametrize("backend", ["tmux", "background"])
def test_a_permission_prompt_is_shown_with_what_it_asks_and_how_to_answer_until_it_is_answered(
    client: Client, model: Model, plugin: Path, project: Path, backend: str
) -> None:
    if backend == "background" and "2.1.197" in str(client.program):
        pytest.skip("this client's background sessions do not start offline")
    if shutil.which("tmux") is None:
        _missing("tmux is not on PATH")
    hall = Hall(client, plugin, project, backend=backend)
    model.perform(MUSICIAN)
    begun = hall.launched()
    until(lambda: any(ASKS in str(r.turn) for r in model.main()), what="the question")
    asked = time.time()

    (item,) = until(lambda: asking(hall), 20, "the question in `conductor next`")

    # How long the client itself takes to put the question up is not ours to answer for.
    assert time.time() - asked < 5
    assert "python3 -c 'print(6 * 7)'" in item["what"]
    assert item["command"] == begun["reach"]
    assert "asking" in hall.podium("conductor", "sweep")
    assert [i["kind"] for i in hall.look("status")["attention"]] == ["asking"]
    if backend == "background":
        # As its hint says, but in a terminal that a test can type into.
        tmux(hall.env, "new-session", "-d", "-s", "person", "-x", "120", "-y", "40",
             str(client.program), "attach", begun["reach"].split()[-1])  # fmt: skip
        where = "person"
        until(lambda: "Do you want to proceed" in tmux(hall.env, "capture-pane", "-p", "-t", where))
    else:
        where = begun["reach"].split()[-1]
    tmux(hall.env, "send-keys", "-t", where, "Enter")

    hall.until_state("error")
    assert asking(hall) == []
    hall.podium("conductor", "close", "task-01", "--now")
