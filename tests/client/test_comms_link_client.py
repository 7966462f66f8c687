"""comms-link in the real client: its tools under the plugin's name, used by a scripted model."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any, Callable

from client.driver import until
from client.model import Play, Say, Tool, When
from client.orchestra import ENV, Run

if TYPE_CHECKING:
    from pathlib import Path

    from client.driver import Client, Terminal
    from client.model import Line, Model, Request

PREFIX = "mcp__plugin_podium_comms-link__"
NAMES = {f"{PREFIX}query", f"{PREFIX}execute"}
ALLOWED = [f"--allowedTools={','.join(sorted(NAMES))}"]
CLAIM = """
UPDATE orchestration_tasks
SET state = 'working', session_id = :me, worked_by = 'musician-task-01',
    started_at = datetime('now'), last_heartbeat = datetime('now'), retry_count = 0
WHERE task_id = 'task-01' AND state IN ('watching', 'fix_proposed', 'exit_requested')
"""
MOVE = "UPDATE orchestration_tasks SET state = :to WHERE task_id = 'task-01'"
MAIL = (
    "INSERT INTO orchestration_messages (task_id, from_session, message_type, message)"
    " VALUES ('task-01', :me, 'review_request', 'look')"
)


class Lines:
    """A rule: one line for each turn. What the client names but has not loaded is loaded first."""

    def __init__(self, *lines: Line | Callable[[Request], Line]) -> None:
        self.lines = list(lines)

    def __call__(self, request: Request) -> Line | None:
        if offered(request) - given(request):
            return Tool("ToolSearch", {"query": f"select:{','.join(sorted(NAMES))}"})
        line = self.lines.pop(0) if self.lines else None
        return line(request) if callable(line) else line


def given(request: Request) -> set[str]:
    return {tool["name"] for tool in request.body["tools"]} & NAMES


def offered(request: Request) -> set[str]:
    """The tools of comms-link that the model has, or may load by name."""
    return given(request) | {name for name in NAMES if name in request.text()}


def execute(sql: str, **params: Any) -> Tool:
    return Tool(f"{PREFIX}execute", {"sql": sql, "params": params})


def owner(project: Path) -> tuple[str, str, str]:
    """State, session and worker of the task."""
    with closing(sqlite3.connect(project / "comms.db")) as db:
        sql = (
            "SELECT state, session_id, worked_by FROM orchestration_tasks WHERE task_id = 'task-01'"
        )
        return tuple(db.execute(sql).fetchone())


def test_a_model_claims_a_task_through_the_tools(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    Run(plugin, project)
    me = str(uuid.uuid4())
    model.perform(
        Play(
            Lines(
                execute(CLAIM, me="somebody-else"),
                execute(CLAIM, me=me),
                Tool(f"{PREFIX}query", {"sql": "SELECT state, worked_by FROM orchestration_tasks"}),
                execute(MOVE, to="exited"),
                Say("left"),
            )
        )
    )

    result = client.headless(
        "play", project=project, plugin_dirs=[plugin], session_id=me, env=ENV, extra_args=ALLOWED
    )

    assert result.text == "left", result
    assert offered(model.main()[0]) == NAMES
    other, own, look, left = (request.news() for request in model.main()[-4:])
    assert f"claim it for yourself: set session_id to {me}" in other
    assert '{"rows_affected": 1, "last_id": null}' in own
    assert '{"state": "working", "worked_by": "musician-task-01"}' in look
    assert '{"rows_affected": 1, "last_id": null}' in left
    assert owner(project) == ("exited", me, "musician-task-01")


def test_without_a_database_the_model_hears_nothing_of_it(
    client: Client, model: Model, plugin: Path, project: Path
) -> None:
    model.perform(Play(Lines(Say("bye"))))

    client.headless("hello", project=project, plugin_dirs=[plugin], env=ENV)

    (request,) = model.main()
    assert offered(request) == set()
    assert "comms-link" not in request.text()


TUNE = When("tune", Say("in tune"))


def tune(screen: Terminal, model: Model) -> None:
    """Wait until the session has the tools: its server may still be starting."""

    def heard() -> bool:
        turns = len(model.main())
        screen.type(f"tune {turns}")
        until(lambda: len(model.main()) > turns)
        screen.wait_for(f"tune {turns} ● in tune")
        return offered(model.main()[-1]) == NAMES

    until(heard)


def test_the_tools_come_with_the_database(
    terminal: Callable[..., Terminal], model: Model, plugin: Path, project: Path
) -> None:
    model.perform(Play(When("hello", Say("hello")), TUNE))
    screen = terminal(project=project, plugin_dirs=[plugin], env=ENV)
    screen.type("hello")
    until(model.main)
    assert offered(model.main()[0]) == set()

    Run(plugin, project)

    tune(screen, model)


def test_after_clear_the_tools_are_those_of_the_same_session(
    terminal: Callable[..., Terminal], model: Model, plugin: Path, project: Path
) -> None:
    Run(plugin, project)
    me, mail = str(uuid.uuid4()), When("news from the conductor", Say("I read it"))
    play = Lines(execute(CLAIM, me=me), execute(MOVE, to="needs_review"), Say("I wait"))
    again = Lines(lambda request: execute(MAIL, me=request.session), Say("still me"))
    model.perform(Play(TUNE, mail, play, actor="tune"), Play(mail, again, actor="again"))
    screen = terminal(
        project=project, plugin_dirs=[plugin], session_id=me, env=ENV, extra_args=ALLOWED
    )
    tune(screen, model)
    screen.type("play")
    screen.wait_for("I wait")
    assert owner(project) == ("needs_review", me, "musician-task-01")

    screen.type("/clear")
    until(lambda: owner(project)[1] != me)
    screen.type("again")
    screen.wait_for("still me")

    answer = next(r for r in reversed(model.main(owner(project)[1])) if "affected" in r.news())
    assert '"rows_affected": 1' in answer.news()
