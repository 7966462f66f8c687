"""The concert: a conductor and its musicians, all real clients, from plan to last window."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any, Callable

import pytest

from client.driver import Client, Terminal, until
from client.model import Bash, Model, Play, Say, When
from client.orchestra import BASH
from client.stagehand import COMPLETE, FILL_IN, FINISH, LEAVE, Hall, finishes, windows

DOCS = Path(__file__).parents[2] / "docs" / "concert.md"
SMALL = "claude-haiku-4-5"  # with the usual window of 200,000 tokens
SUBMIT = (
    "podium musician submit --checkpoint 1/2 --smoothness 2 --summary done --files 2 --tests pass"
)
PLAN = {
    "tasks": [
        {"id": "task-01", "instructions": "docs/tasks/task-01.md", "parallel": True},
        {"id": "task-02", "instructions": "docs/tasks/task-02.md", "parallel": True},
        {
            "id": "task-03",
            "instructions": "docs/tasks/task-03.md",
            "phase": 2,
            "after": ["task-01", "task-02"],
        },
    ]
}


def item(kind: str, task_id: str) -> re.Pattern[str]:
    """A line of the conductor's digest."""
    return re.compile(rf"^{kind} +{task_id} ", re.MULTILINE)


def approve(task_id: str) -> Bash:
    return Bash(f"podium conductor approve {task_id} -m 'THE VERDICT: good, go on.'")


CONDUCTOR = Play(
    When("# Conductor", Bash("podium conductor start")),
    When("You are the conductor", Bash("podium conductor plan plan.json"), times=1),
    When("3 tasks added", Bash("podium conductor launch task-01")),
    When("Musician: task-01 plays", Bash("podium conductor launch task-02")),
    # Everything else it does because it was told so; two tellings may cross, as with people.
    When("so it cannot become", Bash("podium conductor next")),
    When("Told 2 tasks", Bash("podium conductor next")),
    When(
        "task-01 is review_approved",
        Bash(
            "until [ -e busy ]; do sleep 0.2; done; "
            "podium conductor broadcast -m 'THE HALL IS ON FIRE'; touch rung"
        ),
        times=1,
    ),
    When(item("review", "task-01"), approve("task-01")),
    When(
        item("review", "task-02"),
        Bash("podium conductor reject task-02 -m 'Empty input!'"),
        times=1,
    ),
    When(item("review", "task-02"), approve("task-02")),
    *(When(item("completion", f"task-0{n}"), approve(f"task-0{n}")) for n in (1, 2, 3)),
    When(item("exit", "task-02"), Bash("podium conductor replace task-02")),
    When(
        item("free", "task-03"),
        Bash("podium conductor close --phase 1; podium conductor launch task-03"),
    ),
    When(
        item("ended", "task-00"), Bash("podium conductor close --phase 2; podium conductor finish")
    ),
    When("Nothing needs you", Say("I listen")),
    When("The run is finished", Say("good night, all")),
    When("podium conductor next", Bash("podium conductor next")),
    actor="# Conductor",
)
FIRST = Play(
    When("You are launched as", Bash("podium musician claim task-01"), times=1),
    When("You are musician-task-01;", Bash("podium musician log 'step 1 of 2 completed'"), times=1),
    When("step 1 of 2 completed", Bash(SUBMIT)),
    When("THE VERDICT", Bash("podium musician claim task-01"), times=1),
    When("You are musician-task-01;", Bash("touch busy; until [ -e rung ]; do sleep 0.2; done")),
    When("THE HALL IS ON FIRE", Bash(FINISH)),
    When("THE VERDICT", Bash(COMPLETE)),
    When("task-01 is needs_review (message", Say("I wait")),
    When("It is finished", Say("good night")),
    actor="You are launched as musician-task-01 for",
)
SECOND = Play(
    When("You are launched as", Bash("podium musician claim task-02"), times=1),
    When("You are musician-task-02;", Bash(SUBMIT), times=1),
    When("Empty input!", Bash("podium musician claim task-02")),
    When("You are musician-task-02;", Bash(SUBMIT), times=1),
    When("THE VERDICT", Bash("podium musician claim task-02"), usage=150_000),
    When("Stop working now", Bash(LEAVE), usage=150_000),
    When(
        "a HANDOFF is wanted", Bash(f"{FILL_IN.format(task='task-02')} && {LEAVE}"), usage=150_000
    ),
    When("task-02 is exited", Say("good night"), usage=150_000),
    When("task-02 is needs_review (message", Say("I wait")),
    When("THE HALL IS ON FIRE", Say("I wait all the same")),
    actor="You are launched as musician-task-02 for",
)
LATER = Play(
    When("You are launched as", Bash("podium musician claim task-02"), times=1),
    When("You are musician-task-02-S2;", Bash("podium musician resume")),
    When("RESUMPTION: musician-task-02-S2 taking over", Bash(FINISH)),
    When("THE VERDICT", Bash(COMPLETE)),
    When("task-02 is needs_review (message", Say("I wait")),
    When("It is finished", Say("good night")),
    actor="You are launched as musician-task-02-S2 for",
)


@pytest.fixture
def hall(client: Client, plugin: Path, project: Path) -> Hall:
    """A project with a plan, whose sessions get tmux windows."""
    rules = ["Bash(sed:*)", "Bash(touch:*)", "Bash(until:*)", "Bash([:*)", "Bash(sleep:*)"]
    hall = Hall(client, plugin, project, tasks=0, backend="tmux", allowed_tools=rules, model=SMALL)
    (project / "docs" / "tasks").mkdir()
    for task in PLAN["tasks"]:
        (project / str(task["instructions"])).write_text(f"# {task['id']}\nPlay it.\n")
    (project / "plan.json").write_text(json.dumps(PLAN))
    return hall


def log(hall: Hall, task_id: str) -> list[str]:
    return [e["to_state"] for e in hall.look("timeline", task_id)["events"]]


def letters(hall: Hall, task_id: str) -> list[str]:
    return [m["message_type"] for m in hall.look("messages", task_id)["messages"]]


def test_a_concert_from_the_plan_to_the_last_window(
    hall: Hall, terminal: Callable[..., Terminal], model: Model, plugin: Path
) -> None:
    model.perform(CONDUCTOR, LATER, FIRST, SECOND, finishes("task-03", "musician-task-03"))
    screen = terminal(
        project=hall.project,
        plugin_dirs=[plugin],
        session_id=str(uuid.uuid4()),
        env={"PODIUM_PYTHON": hall.env["PODIUM_PYTHON"]},
        extra_args=BASH,
    )
    screen.type("/podium:conductor plan.json")
    until(lambda: model.check() or hall.state("task-00") == "complete", 240, "the end")
    screen.wait_for("good night, all")

    assert log(hall, "task-01") == [
        *("watching", "working", "needs_review", "review_approved", "working"),
        *("needs_review", "review_approved", "complete"),
    ]
    assert log(hall, "task-02") == [
        *("watching", "working", "needs_review", "review_failed", "working", "needs_review"),
        *("review_approved", "working", "exited", "fix_proposed", "working"),
        *("needs_review", "review_approved", "complete"),
    ]
    assert log(hall, "task-03") == [
        *("watching", "working", "needs_review", "review_approved", "complete"),
    ]
    assert letters(hall, "task-01") == [
        *("instruction", "review_request", "approval", "emergency", "completion", "approval"),
    ]
    second = letters(hall, "task-02")
    assert [kind for kind in second if kind != "emergency"] == [
        *("instruction", "review_request", "rejection", "review_request", "approval"),
        *("handoff", "handoff", "resumption_status", "completion", "approval"),
    ]
    events = hall.look("timeline")["events"]
    ends = {e["task_id"]: e["id"] for e in events if e["to_state"] == "complete"}
    begun = next(
        e["id"] for e in events if e["task_id"] == "task-03" and e["to_state"] == "working"
    )
    assert begun > max(ends["task-01"], ends["task-02"])
    assert hall.look("why", "task-02")["worked_by"] == "musician-task-02-S2"

    burning = [r for r in model.main() if "THE HALL IS ON FIRE" in r.news() and "busy" in r.text()]
    assert any("emergency from the conductor" in r.news() for r in burning)
    # Nobody who waits is asked to go on; at most news and the end of a turn cross.
    held = [r.news() for r in model.main() if "so the session goes on" in r.news()]
    assert not [text for text in held if "musician" in text]
    assert len(held) <= 3

    names = {path.name for path in (hall.project / "temp").iterdir()}
    assert {"task-01-status", "task-02-HANDOFF", "task-02-status", "task-03-status"} <= names
    assert not [name for name in names if name.endswith(".pid")]
    screen.close()
    until(lambda: not hall.leftovers(), 20, "no process left")
    assert windows(hall.env) == []
    if os.environ.get("PODIUM_WRITE_DOCS"):
        DOCS.write_text(transcript(hall, model))


def transcript(hall: Hall, model: Model) -> str:
    """docs/concert.md: what was typed, what was written, what happened."""
    names = _names(hall)
    typed = []
    for request in model.main():
        for command in _commands(request.body):
            line = f"{names.get(request.session, 'somebody'):<22} $ {command}"
            if line not in typed:
                typed.append(line)
    mail = hall.podium("messages", "--all")
    return _plain(
        "# A concert\n\n"
        "One run of `tests/client/test_concert.py`: the real client plays a conductor and four\n"
        "musician sessions, only the model is scripted. `PODIUM_WRITE_DOCS=1 tests/run\n"
        "tests/client/test_concert.py` writes this page anew.\n\n"
        "The plan: task-01 and task-02 side by side, task-03 after both. The second submission of\n"
        "task-02 follows a rejection; its first musician leaves at 75 % context and a successor\n"
        "goes on from its HANDOFF; an emergency reaches task-01 in the middle of its work.\n\n"
        "## What the sessions typed, in order\n\n```console\n" + "\n".join(typed) + "\n```\n\n"
        "## The mail\n\n```text\n" + mail + "```\n\n"
        "## What happened\n\n```text\n" + hall.podium("timeline", "--all") + "```\n",
        hall,
    )


def _names(hall: Hall) -> dict[str, str]:
    events = hall.look("timeline")["events"]
    return {e["session_id"]: e["worked_by"] for e in events if e["session_id"] and e["worked_by"]}


def _commands(body: dict[str, Any]) -> list[str]:
    last = next((m for m in reversed(body["messages"]) if m["role"] == "assistant"), None)
    blocks = last["content"] if last and isinstance(last["content"], list) else []
    return [
        b["input"]["command"]
        for b in blocks
        if b.get("type") == "tool_use" and "command" in b["input"]
    ]


def _plain(text: str, hall: Hall) -> str:
    """Without this machine's paths and the session's ids."""
    text = text.replace(str(hall.project), "project")
    ids = dict.fromkeys(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text))
    for number, session in enumerate(ids, 1):
        text = text.replace(session, f"session-{number}")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
