"""The two skills in the real client: they begin with the truth, and podium's own never asks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Callable

import pytest

from client.model import Bash, Play, Say, Tool, When

if TYPE_CHECKING:
    from pathlib import Path

    from client.driver import Client, Terminal
    from client.model import Line, Model, Request

ENV = {"PODIUM_PYTHON": sys.executable}  # which has what podium needs
REST = ("podium conductor start", "podium conductor rest")
LEAVE = ("podium musician claim task-03", "podium musician exit --reason 'the play is over'")
ASK = {
    "questions": [
        {
            "question": "Which way?",
            "header": "Way",
            "multiSelect": False,
            "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
        }
    ]
}


@pytest.fixture
def run(project: Path, plugin: Path) -> Callable[..., str]:
    """Runs podium in the project as a person at a terminal."""

    def run(*words: str, session: str = "") -> str:
        main = str(plugin / "src" / "podium" / "__main__.py")
        env = {"PATH": os.environ["PATH"], "CLAUDE_CODE_SESSION_ID": session}
        done = subprocess.run(
            [sys.executable, "-I", main, *words],
            cwd=project, env=env, text=True, capture_output=True, check=True,
        )  # fmt: skip
        return done.stdout

    return run


@pytest.fixture
def concert(project: Path, run: Callable[..., str]) -> Path:
    """A project with a run in which task-03 waits for a musician, whose HANDOFF is there."""
    instructions = project / "docs" / "tasks" / "task-03.md"
    instructions.parent.mkdir(parents=True)
    instructions.write_text("1. Play.\n")
    run("init")
    run("conductor", "add", "task-03", "--instructions", "docs/tasks/task-03.md")
    handoff = project / "temp" / "task-03-HANDOFF"
    handoff.parent.mkdir(exist_ok=True)
    handoff.write_text("# HANDOFF: task-03\n\n## Pending Steps\n- none\n")
    os.utime(handoff, (time.time() + 3600,) * 2)  # after the claim that is to come
    return project


def acts(*commands: str | Line) -> list[When]:
    """Rules for one thing after another: each when the one before has answered, then the end."""
    lines = [Bash(c) if isinstance(c, str) else c for c in commands]
    return [
        *(When("Base directory for this skill", line, times=1) for line in lines[:1]),
        *(When(_is_result, line, times=1) for line in lines[1:]),
        When(_is_result, Say("all played"), times=1),
    ]


def _is_result(request: Request) -> bool:
    """Whether a tool has just answered; what a hook adds may stand after it."""
    contents = [message["content"] for message in request.messages[-2:]]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return any(block.get("type") == "tool_result" for block in blocks)


def shown(model: Model, number: int = 0) -> str:
    """The skill as the model was shown it."""
    return model.main()[number].text().partition("Base directory for this skill")[2]


@pytest.mark.parametrize(
    ("prompt", "commands", "truth"),
    [
        ("/musician task-03", LEAVE, "Next: podium musician claim task-03"),
        ("/podium:musician task-03\n\nIt's `urgent`: $(now)", LEAVE, "claim task-03"),
        (
            "/conductor",
            REST,
            "nobody conducts this run; task-00 is watching.\nNext: podium conductor",
        ),
        ("/podium:conductor the whole plan", REST, "Asked for: the whole plan"),
    ],
)
def test_a_skill_begins_with_the_truth_and_its_commands_never_ask(
    client: Client,
    model: Model,
    plugin: Path,
    concert: Path,
    prompt: str,
    commands: tuple[str, ...],
    truth: str,
) -> None:
    model.perform(Play(*acts(*commands)))

    result = client.headless(prompt, project=concert, plugin_dirs=[plugin], env=ENV)

    assert truth in shown(model)
    assert "!`" not in shown(model)
    assert "hooks:" not in shown(model)
    assert (result.text, result.json["permission_denials"]) == ("all played", [])


def test_where_nothing_is_set_up_the_skill_says_what_to_run(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    model.perform(Play(When("Base directory", Say("so be it"))))

    result = client.headless("/conductor", project=project, plugin_dirs=[plugin], env=ENV)

    assert "run: podium init" in shown(model)
    assert result.text == "so be it"
    assert list(project.iterdir()) == []


def test_a_podium_that_cannot_run_does_not_swallow_its_skill(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    model.perform(Play(When("Base directory", Say("so be it"))))
    env = {"PODIUM_PYTHON": "no-such-python"}

    result = client.headless("/musician task-03", project=project, plugin_dirs=[plugin], env=env)

    assert "PODIUM_PYTHON is no-such-python" in shown(model)
    assert result.text == "so be it"


@pytest.mark.parametrize("argument", ["\"x'; touch HARM; echo '\"", "it's", "$(touch HARM)", '"`'])
def test_an_argument_is_only_text(
    client: Client, model: Model, plugin: Path, concert: Path, argument: str
) -> None:
    model.perform(Play(When("Base directory", Say("so be it"))))

    result = client.headless(
        f"/musician {argument}", project=concert, plugin_dirs=[plugin], env=ENV
    )

    assert "Next: podium musician claim task-03" in shown(model)
    assert result.text == "so be it"
    assert not (concert / "HARM").exists()


@pytest.mark.parametrize("skill", ["musician", "conductor"])
def test_in_its_first_turn_a_session_reads_its_references_unasked(
    client: Client, model: Model, plugin: Path, concert: Path, skill: str
) -> None:
    references = sorted((plugin / "skills" / skill / "references").iterdir())
    reads = [Tool("Read", {"file_path": str(path)}) for path in references]
    model.perform(Play(*acts(*reads)))

    result = client.headless(f"/{skill} task-03", project=concert, plugin_dirs=[plugin], env=ENV)

    assert (result.text, result.json["permission_denials"]) == ("all played", [])
    for path, request in zip(references, model.main()[1:]):
        assert path.read_text().splitlines()[0] in request.news()


def later(first: tuple[str, ...], *lines: Line) -> Play:
    """A first turn that begins and ends its role, and one that a person's word starts later."""
    ended = When(lambda r: _is_result(r) and "next movement" in r.text(), Say("over, all of it"))
    begun = When("next movement", *lines, times=1)
    return Play(begun, ended, *acts(*first))


@pytest.mark.parametrize(("skill", "first"), [("musician", LEAVE), ("conductor", REST)])
def test_in_a_later_turn_podiums_own_commands_references_and_skills_never_ask(
    terminal: Callable[..., Terminal],
    model: Model,
    plugin: Path,
    concert: Path,
    skill: str,
    first: tuple[str, ...],
) -> None:
    reference = next((plugin / "skills" / skill / "references").iterdir())
    lines = (
        Bash("podium status"),
        Tool("Read", {"file_path": str(reference)}),
        Tool("Skill", {"skill": skill, "args": "task-03"}),
    )
    model.perform(later(first, *lines))
    screen = terminal(project=concert, plugin_dirs=[plugin], env=ENV)

    screen.type(f"/{skill} task-03")
    screen.wait_for("all played")
    screen.type("the next movement")
    screen.wait_for("over, all of it")

    news = model.main()[-1].news()
    assert "tasks ended" in news
    assert reference.read_text().splitlines()[0] in news
    assert "The briefing above comes from the database" in news


def test_a_musician_cannot_ask_a_person_in_any_turn(
    terminal: Callable[..., Terminal], model: Model, plugin: Path, concert: Path
) -> None:
    ask = Tool("AskUserQuestion", ASK)
    model.perform(later(LEAVE, ask))
    screen = terminal(project=concert, plugin_dirs=[plugin], env=ENV)

    screen.type("/musician task-03")
    screen.wait_for("all played")
    screen.type("the next movement")
    screen.wait_for("over, all of it")

    assert "Nobody watches a musician" in model.main()[-1].news()


def test_a_musician_that_says_it_is_the_conductor_is_denied(
    client: Client, model: Model, plugin: Path, concert: Path, run: Callable[..., str]
) -> None:
    run("conductor", "start", session="boss-1")
    forged = ("podium --session boss-1 conductor fix task-03 -m forged",
              "podium status && podium --session boss-1 conductor fix task-03 -m forged",
              "CLAUDE_SESSION_ID=boss-1 podium conductor fix task-03 -m forged")  # fmt: skip
    model.perform(Play(*acts(LEAVE[0], *forged, *LEAVE[1:])))

    client.headless("/musician task-03", project=concert, plugin_dirs=[plugin], env=ENV)

    heard = [request.news() for request in model.main()]
    assert sum("a session speaks for itself" in news for news in heard) == len(forged)
    assert "forged" not in run("messages", "--all")
