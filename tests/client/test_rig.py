"""The rig proves itself with a throw-away plugin, before it is trusted with podium."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Callable

import pytest

from client.driver import Client, Terminal, until
from client.install import NoClient, client_path
from client.model import Bash, Fail, Model, Play, Say, Tool, When

if TYPE_CHECKING:
    from pathlib import Path

    from client.model import Request

START = {"hookEventName": "SessionStart", "additionalContext": "THE HALL IS OPEN"}
SAY_START = f"echo '{json.dumps({'hookSpecificOutput': START})}'"
ENCORE = '{"decision": "block", "reason": "ENCORE"}'
BLOCK_ONCE = f"""mkdir "$CLAUDE_PROJECT_DIR/stopped" 2>/dev/null && echo '{ENCORE}'; true"""
SKILL = "---\nname: solo\ndescription: One plays alone.\n---\nPlay alone: $0!\n"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A marketplace that is its one plugin: context at the start, an encore at the end, a skill."""
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in (("SessionStart", SAY_START), ("Stop", BLOCK_ONCE))
    }
    about = {"name": "toy", "version": "1.0.0", "description": "A toy", "author": {"name": "N"}}
    market = {"name": "toys", "owner": {"name": "N"}, "plugins": [{"name": "toy", "source": "./"}]}
    root = tmp_path / "a toy"
    for name, content in (
        (".claude-plugin/plugin.json", about),
        (".claude-plugin/marketplace.json", market),
        ("hooks/hooks.json", {"hooks": hooks}),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    (root / "skills" / "solo").mkdir(parents=True)
    (root / "skills" / "solo" / "SKILL.md").write_text(SKILL)
    return root


def test_a_plugin_is_heard_in_the_first_request_and_at_the_stop(
    client: Client, model: Model, project: Path, toy: Path
) -> None:
    model.perform(
        Play(
            When("THE HALL IS OPEN", Say("good evening")),
            When("ENCORE", Say("good night")),
        )
    )
    session = str(uuid.uuid4())

    result = client.headless("begin", project=project, plugin_dirs=[toy], session_id=session)

    assert (result.code, result.text) == (0, "good night")
    first, second = model.main(session)
    assert "THE HALL IS OPEN" in first.text()
    assert "good evening" in second.text()
    assert "good evening" not in second.news()


def test_a_shell_command_runs_and_its_result_comes_back(
    client: Client, model: Model, project: Path
) -> None:
    model.perform(
        Play(
            When("count to five", Say("I count"), Bash("pwd; expr 2 + 3 > sum; cat sum")),
            When(
                re.compile(r"^5$", re.MULTILINE), Tool("Read", {"file_path": str(project / "sum")})
            ),
            When(re.compile(r"^1\s+5$", re.MULTILINE), lambda request: Say(request.session)),
        )
    )

    result = client.headless("count to five", project=project, extra_args=["--allowedTools=Bash"])

    assert result.text == result.json["session_id"]
    assert str(project) in model.main()[1].news()


def test_permissions_can_be_bypassed_by_root_and_by_anyone(
    client: Client, model: Model, project: Path
) -> None:
    model.perform(Play(When("touch it", Bash("touch it")), When(lambda _: True, Say("touched"))))

    client.headless("touch it", project=project, permission_mode="bypassPermissions")

    assert (project / "it").exists()


def test_the_usage_of_a_turn_is_what_the_client_counts(
    client: Client, model: Model, project: Path
) -> None:
    cached = {"input_tokens": 7, "cache_read_input_tokens": 150_000, "output_tokens": 3}
    model.perform(
        Play(
            When("how full", Bash("echo half"), usage=100_000),
            When("half", Say("fuller"), usage=cached),
        )
    )

    usage = client.headless("how full", project=project).json["usage"]

    assert usage["input_tokens"] == 100_007
    assert usage["cache_read_input_tokens"] == 150_000


def test_typed_text_is_answered_on_the_screen(
    terminal: Callable[..., Terminal], model: Model, project: Path, toy: Path
) -> None:
    model.perform(
        Play(
            When("ENCORE", Say("for you, again")),
            When("play the waltz", Say("one two three")),
            When("Play alone: flute!", Say("tralala")),
        )
    )
    screen = terminal(project=project, plugin_dirs=[toy])

    screen.type("play the waltz")
    screen.wait_for("for you, again")
    screen.type("/solo flute")
    screen.wait_for("tralala")
    began = time.time()
    screen.type("not sent", enter=False)
    screen.wait_for("not sent")

    assert [request.text().count("one two three") for request in model.main()] == [0, 1, 1]
    assert model.between(0, began) == 3
    assert model.between(began, time.time()) == 0
    screen.key("C-c")
    screen.type("/exit")
    until(lambda: not screen.alive)


def test_compaction_is_no_turn_of_the_play(
    terminal: Callable[..., Terminal], model: Model, project: Path
) -> None:
    model.perform(
        Play(
            When("listen", Say("I listen"), times=3),
            When("still there", Say("yes, still")),
            actor="listen",
        )
    )
    screen = terminal(project=project)
    for number in ("one", "two", "three"):  # the older client compacts only some length
        screen.type(f"listen {number}")
        until(lambda: len(model.main()) == ["one", "two", "three"].index(number) + 1)  # noqa: B023
        screen.wait_for(f"listen {number} ● I listen")

    screen.type("/compact")
    screen.wait_for("Compacted")
    screen.type("still there")
    screen.wait_for("yes, still")

    assert "compact" in {request.kind for request in model.requests}
    assert len(model.main()) == 4
    assert "The play so far." in model.main()[-1].text()


def test_a_subagent_plays_but_is_not_the_main_chain(
    client: Client, model: Model, project: Path
) -> None:
    task = {"description": "solo", "prompt": "VIOLIN, please", "subagent_type": "general-purpose"}
    model.perform(
        Play(
            When("VIOLIN", Say("tralala")),
            When("send someone", Tool("Agent", task)),
            When("tralala", Say("bravo")),
            When("", Say("waiting")),  # the newer client lets its subagents run in the background
        )
    )

    assert client.headless("send someone", project=project).text == "bravo"

    assert [r.kind for r in model.requests].count("agent") == 1
    assert not any("VIOLIN" in request.news() for request in model.main())


def test_each_session_has_its_actor(client: Client, model: Model, project: Path) -> None:
    model.perform(
        Play(When("play", Say("low")), actor="cello"),
        Play(When("play", Say("high")), actor="please, flute"),
        Play(When("play", Say("as all do"))),
    )

    runs = [
        client.start("play", project=project, actor="cello"),
        client.start("play, please, flute", project=project),
        client.start("play", project=project),
    ]

    assert [run.wait().text for run in runs] == ["low", "high", "as all do"]


def test_a_request_that_fits_no_rule_is_a_clear_failure(
    client: Client, model: Model, project: Path
) -> None:
    def stumble(request: Request) -> None:
        if "stumble" in request.news():
            raise LookupError("lost my sheet")

    model.perform(Play(stumble, When("a waltz", Say("one two three"))))

    assert client.headless("a tango, if you can", project=project).code == 0
    assert client.headless("stumble", project=project).code == 0

    with pytest.raises(AssertionError, match=r"(?s)no rule fits.*a tango, if.*lost my sheet"):
        model.check()
    model.check()


def test_an_overloaded_model_is_asked_again(client: Client, model: Model, project: Path) -> None:
    model.perform(
        Play(
            When("are you there", Fail(529), times=1),
            When("are you there", Fail(429), times=1),
            When("are you there", Say("now I am")),
        )
    )

    assert client.headless("are you there", project=project).text == "now I am"

    assert len(model.main()) == 3


def test_a_session_goes_on_where_it_was_left(client: Client, model: Model, project: Path) -> None:
    model.perform(Play(When("remember", Say("A flat")), When("which note", Say("that one"))))
    session = client.headless("remember", project=project).json["session_id"]

    result = client.headless("which note", project=project, resume=session)

    assert result.json["session_id"] == session
    assert "A flat" in model.main(session)[-1].text()


def test_a_connection_to_elsewhere_is_refused_and_told(
    client: Client, model: Model, project: Path
) -> None:
    fetch = "import urllib.request as u; u.urlopen('https://elsewhere.invalid/')"
    model.perform(Play(When("go out", Bash(f'python3 -c "{fetch}"')), When("403", Say("stayed"))))

    result = client.headless("go out", project=project, extra_args=["--allowedTools=Bash"])

    assert result.text == "stayed"
    with pytest.raises(AssertionError, match=r"elsewhere\.invalid:443"):
        model.check()


def test_a_plugin_is_validated_installed_and_removed(
    client: Client, model: Model, project: Path, toy: Path
) -> None:
    model.perform(Play(When("HALL", Say("open")), When("ENCORE|begin", Say("no"))))

    for command in (
        ("validate", toy / ".claude-plugin" / "plugin.json"),
        ("marketplace", "add", toy),
        ("install", "toy@toys"),
    ):
        done = client.plugin(*command, project=project)
        assert done.code == 0, done
    (project / "stopped").mkdir()
    assert client.headless("begin", project=project).text == "open"
    assert client.plugin("uninstall", "toy@toys", project=project).code == 0

    (toy / ".claude-plugin" / "plugin.json").write_text("{}")
    assert client.plugin("validate", toy / ".claude-plugin" / "plugin.json", project=project).code


def test_nothing_is_left_running(
    terminal: Callable[..., Terminal], client: Client, model: Model, project: Path
) -> None:
    asleep = Bash("setsid sleep 300 & echo $! > pid; sleep 300")
    model.perform(Play(When("sleep well", asleep)))
    run = client.start("sleep well", project=project, permission_mode="bypassPermissions")
    screen = terminal(project=project)
    until((project / "pid").exists)
    run.kill()
    assert not run.alive
    assert any("sleep 300" in command for command in client.processes().values())
    assert screen.pid in client.processes()

    client.close()

    assert client.processes() == {}


def test_a_run_that_takes_too_long_is_ended_and_shown(
    client: Client, model: Model, project: Path
) -> None:
    model.perform(Play(When("take your time", Bash("tail -f /dev/null"))))

    with pytest.raises(AssertionError, match="still running after 2 s"):
        client.headless(
            "take your time", project=project, timeout=2, extra_args=["--allowedTools=Bash"]
        )


def test_the_model_answers_plainly_where_no_stream_is_asked_for(model: Model) -> None:
    model.perform(Play(When("hello", Say("hello"), usage=5)))
    tools = [{"name": "Bash"}]
    hello = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "tools": tools}
    server = http.client.HTTPConnection(model.url.partition("//")[2])

    def ask(method: str, path: str) -> bytes:
        server.request(method, path, json.dumps(hello))
        return server.getresponse().read()

    try:
        reply = json.loads(ask("POST", "/v1/messages?beta=true"))
        assert (reply["content"][0]["text"], reply["usage"]["input_tokens"]) == ("hello", 5)
        assert json.loads(ask("POST", "/v1/messages/count_tokens"))["input_tokens"]
        assert ask("HEAD", "/") == b""
    finally:
        server.close()
    assert [request.kind for request in model.requests] == ["main", "count", "probe"]


def test_an_installed_client_is_found_again(program: Path) -> None:
    version = subprocess.run([program, "--version"], text=True, capture_output=True, check=True)

    assert client_path(version.stdout.split()[0]) == program


@pytest.mark.parametrize("npm", ["missing", "failing"])
def test_a_client_that_cannot_be_had_says_why_and_leaves_nothing(
    npm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_offline", "true")  # it fails at once, network or not
    if npm == "missing":
        monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoClient, match="npm"):
        client_path("0.0.0-never")

    assert list(tmp_path.rglob("*never*")) == []


@pytest.mark.parametrize(("required", "outcome"), [("0", "1 skipped"), ("1", "1 error")])
def test_without_a_client_tests_are_skipped_unless_it_is_required(
    required: str, outcome: str, tmp_path: Path
) -> None:
    env = {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "PODIUM_TEST_CLIENTS": "latest",
        "PODIUM_REQUIRE_CLIENT": required,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    test = f"{__file__}::{test_an_installed_client_is_found_again.__name__}"
    options = ["-rs", "-p", "no:cacheprovider", "--import-mode=importlib"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, test],
        env=env, cwd=tmp_path, text=True, capture_output=True, check=False,
    )  # fmt: skip

    assert outcome in done.stdout
    assert "npm is not on PATH" in done.stdout
