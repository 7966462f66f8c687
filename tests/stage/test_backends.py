"""Which window a session gets, and what exactly is run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from podium.domain.errors import NotSetUp, PodiumError, WrongUsage
from podium.stage import client, player, worktree
from podium.stage.base import Facts, Play
from podium.stage.client import Config
from podium.stage.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, name: str, says: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with a client of the newest kind, and nothing else."""
    program(tmp_path / "bin", "claude", "2.1.327 (Claude Code)")
    return tmp_path / "bin"


def stage(
    path: Path, project: Path, *, platform: str = "linux", env: Any = (), **launch: Any
) -> Stage:
    facts = Facts({"PATH": str(path), "HOME": str(project), **dict(env)}, platform)
    temp = str(project / "temp")
    return Stage(
        Config(launch), facts, root=str(project), temp=temp, database=str(project / "comms.db")
    )


def prepared(made: Stage, backend: str = "headless", **more: Any) -> Play:
    wanted, _ = made.choose(backend)
    options = {"cwd": made.root, "session_id": str(uuid.uuid4()), **more}
    return made.prepare(
        wanted, "task-03", "Musician: task-03 (S2)", "/podium:musician task-03", **options
    )


X = {"DISPLAY": ":1"}
WAYLAND = {"WAYLAND_DISPLAY": "wayland-0"}
TMUX = {"TMUX": "/tmp/tmux-0/default,1,0", "TMUX_PANE": "%1"}


@pytest.mark.parametrize(
    ("programs", "env", "platform", "chosen"),
    [
        ("kitty tmux", X, "linux", "kitty"),
        ("kitty tmux", WAYLAND, "linux", "kitty"),
        ("kitty tmux", {}, "linux", "tmux"),
        ("kitty tmux", {**X, **TMUX}, "linux", "tmux"),
        ("kitty tmux", {}, "darwin", "kitty"),
        ("kitty tmux", {"SSH_CONNECTION": "a b"}, "darwin", "tmux"),
        ("tmux", X, "linux", "tmux"),
        ("", X, "linux", "background"),
    ],
)
def test_auto_takes_the_first_that_works_and_says_why_not_the_others(
    path: Path, project: Path, programs: str, env: dict[str, str], platform: str, chosen: str
) -> None:
    for name in programs.split():
        program(path, name)

    backend, why = stage(path, project, platform=platform, env=env).choose(None)

    assert backend.name == chosen
    assert ("podium runs in it" in why) == ("TMUX" in env)
    if chosen == "background":
        assert "not kitty: kitty is not on PATH" in why
        assert "not tmux: tmux is not on PATH" in why


@pytest.mark.parametrize("version", ["2.1.197 (Claude Code)", "", "no number"])
def test_an_older_client_gets_no_background_sessions(
    path: Path, project: Path, version: str
) -> None:
    program(path, "claude", version)

    backend, why = stage(path, project).choose("auto")

    assert backend.name == "headless"
    assert "not background: the client is" in why
    with pytest.raises(PodiumError, match="background cannot be used"):
        stage(path, project).choose("background")


def test_a_backend_that_was_asked_for_and_does_not_work_is_refused_with_the_reason(
    path: Path, project: Path
) -> None:
    with pytest.raises(PodiumError, match="tmux cannot be used: tmux is not on PATH; try"):
        stage(path, project).choose("tmux")


def test_without_a_client_the_refusal_says_how_to_name_one(tmp_path: Path, project: Path) -> None:
    with pytest.raises(NotSetUp, match=r"launch\.client"):
        prepared(stage(tmp_path / "nothing", project))


def test_the_client_that_podium_runs_under_is_used_where_none_is_on_path(
    path: Path, project: Path, tmp_path: Path
) -> None:
    running = path / "claude"

    made = stage(tmp_path / "nothing", project, env={"CLAUDE_CODE_EXECPATH": str(running)})

    assert made.client == str(running)


def test_a_session_gets_its_options_from_the_settings_and_podiums_own_commands_never_ask(
    path: Path, project: Path
) -> None:
    made = stage(
        path, project, model="opus", permission_mode="plan", args=["--verbose"],
        allowed_tools=["Bash(git commit:*)", "Edit"], env={}, plugin_dir="none",
    )  # fmt: skip

    play = prepared(made, session_id="an-id")

    words = play.argv[1:]
    assert words[:5] == ["-p", "--name", "Musician: task-03 (S2)", "--permission-mode", "plan"]
    assert words[5:9] == ["--model", "opus", "--session-id", "an-id"]
    assert words[-1] == "--verbose"
    allowed = json.loads(words[words.index("--settings") + 1])["permissions"]["allow"]
    assert allowed[0] == "Bash(podium:*)"
    assert allowed[-2:] == ["Bash(git commit:*)", "Edit"]
    assert "env" not in json.loads(words[words.index("--settings") + 1])


def test_a_background_session_gets_its_variables_as_settings_since_its_service_has_its_own(
    path: Path, project: Path
) -> None:
    made = stage(path, project)

    play = prepared(made, "background")

    assert play.argv[1] == "--bg"
    assert "--session-id" not in play.argv
    settings = json.loads(play.argv[play.argv.index("--settings") + 1])
    assert settings["env"]["PODIUM_DB"] == str(project / "comms.db")
    assert settings["env"]["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"] == "0"


@pytest.mark.parametrize(
    ("where", "settings", "loads"),
    [
        (None, {}, True),
        ("home/.claude/settings.json", {"enabledPlugins": {"podium@podium": True}}, False),
        ("home/.claude/settings.json", {"enabledPlugins": {"other@podium": True}}, True),
        ("home/.claude/settings.json", {"enabledPlugins": {"podium@x": False}}, True),
        ("project/.claude/settings.json", {"enabledPlugins": {"podium@x": True}}, False),
        ("project/.claude/settings.local.json", {"enabledPlugins": {"podium@x": True}}, False),
        ("home/.claude/settings.json", {"enabledPlugins": ["podium"]}, True),
        ("home/.claude/settings.json", [], True),
    ],
)
def test_the_plugin_is_loaded_from_here_unless_an_installed_one_is_enabled(
    path: Path, tmp_path: Path, project: Path, where: str | None, settings: Any, *, loads: bool
) -> None:
    if where:
        (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / where).write_text(json.dumps(settings))

    play = prepared(stage(path, project, env={"HOME": str(tmp_path / "home")}))

    assert ("--plugin-dir" in play.argv) == loads
    if loads:
        assert play.argv[play.argv.index("--plugin-dir") + 1] == client.PLUGIN


@pytest.mark.parametrize(("prompt", "fault"), [("x" * 120_001, "120001 bytes"), ("a\0b", "NUL")])
def test_a_prompt_that_no_command_line_carries_is_refused(
    path: Path, project: Path, prompt: str, fault: str
) -> None:
    made = stage(path, project)
    backend, _ = made.choose("headless")

    with pytest.raises(WrongUsage, match=fault):
        made.prepare(backend, "task-03", "t", prompt, cwd=str(project), session_id=None)


def test_the_player_becomes_the_program_and_hands_the_prompt_over_unread(
    path: Path, project: Path
) -> None:
    hostile = (
        "/podium:musician task-03\n\n`touch bad` $(touch bad) 'q' \"q\" \\ \r\n é \N{VIOLIN}\t%s "
    )
    tell = (
        "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ), os.getpid()], sys.stdout)"
    )
    (path / "tell.py").write_text(f"#!{sys.executable} -I\n{tell}\n")
    (path / "tell.py").chmod(0o755)
    play = Play(
        "task-03", "t", [str(path / "tell.py"), "--flag"], hostile,
        cwd=str(project), folder=str(project / "temp"), changes={"PODIUM_DB": "/db"},
    )  # fmt: skip
    given = {"HOME": "/h", "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "old", "TERM": "dumb",
             "CLAUDE_CODE_USE_BEDROCK": "1"}  # fmt: skip
    play.write(environment=given)
    assert os.stat(play.file("json")).st_mode & 0o077 == 0

    done = subprocess.run(
        play.command(),
        env={"TERM": "here", "SECRET": "no"},
        capture_output=True,
        text=True,
        check=True,
    )

    words, env, pid = json.loads(done.stdout)
    assert words == [hostile, "--flag"]
    assert {k: env[k] for k in env if k != "LC_CTYPE"} == {
        "HOME": "/h", "TERM": "here", "PODIUM_DB": "/db", "CLAUDE_CODE_USE_BEDROCK": "1",
    }  # fmt: skip
    with open(play.file("pid"), encoding="utf-8") as file:
        assert file.readline() == f"{pid}\n"
    assert not os.path.exists(play.file("json"))
    assert not (project / "bad").exists()


def test_a_program_that_is_not_there_says_so_in_its_window(project: Path) -> None:
    play = Play(
        "task-03", "t", ["/no/such/client"], "p",
        cwd=str(project), folder=str(project / "temp"), changes={},
    )  # fmt: skip
    play.write()

    done = subprocess.run(play.command(), capture_output=True, text=True, check=False)

    assert done.returncode == 127
    assert "/no/such/client cannot be started" in done.stderr


def test_the_player_removes_every_variable_of_the_present_session() -> None:
    kept = {"CLAUDE_CONFIG_DIR": "c", "CLAUDE_CODE_OAUTH_TOKEN": "t", "PATH": "p"}
    given = dict.fromkeys(player.SESSION_VARIABLES, "x") | kept

    assert player.environment(given, {}, {}) == kept


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=n", "-c", "user.email=e@example.invalid"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_each_task_gets_a_worktree_once_and_a_successor_finds_it(project: Path) -> None:
    git(project, "init", "-q")
    (project / "score").write_text("A\n")
    git(project, "add", "score")
    git(project, "commit", "-q", "-m", "score")
    temp = str(project / "temp")

    first = worktree.make(str(project), temp, "task-03")
    with open(os.path.join(first, "score"), "a", encoding="utf-8") as file:
        file.write("B\n")

    assert worktree.make(str(project), temp, "task-03") == first
    assert "podium/task-03" in git(project, "branch", "--list", "--all")
    git(project, "worktree", "remove", "--force", first)
    again = worktree.make(str(project), temp, "task-03")
    assert (again, os.listdir(again)) == (first, [".git", "score"])


def test_outside_of_git_a_worktree_is_refused_with_the_setting_to_change(project: Path) -> None:
    with pytest.raises(PodiumError, match=r"launch\.worktree"):
        worktree.make(str(project), str(project / "temp"), "task-03")
