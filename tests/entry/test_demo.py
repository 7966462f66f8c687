"""podium demo: the concert that a new user sees first, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from conftest import PATH, PLUGIN

from podium.domain.states import Kind, moves_from
from podium.entry.cli import main
from podium.entry.demo import score

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """What a new user has: an empty home, and nothing set."""
    for name in ("empty", "tmp"):
        (tmp_path / name).mkdir()
    return {
        "PATH": PATH,
        "HOME": str(tmp_path / "empty"),
        "TMPDIR": str(tmp_path / "tmp"),
        "LANG": "C.UTF-8",
        "PODIUM_PYTHON": sys.executable,
    }


def run(
    env: dict[str, str], tmp_path: Path, *words: str, plugin: Path = PLUGIN
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [plugin / "bin" / "podium", "demo", "--fast", *words],
        cwd=tmp_path / "empty",
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def running(env: dict[str, str]) -> list[str]:
    """The processes that were started in this test's world."""
    mark, found = f"TMPDIR={env['TMPDIR']}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
    return found


def left_running(env: dict[str, str]) -> list[str]:
    """The processes that stay: a server may take a moment to notice that its client is gone."""
    end = time.monotonic() + 20
    while running(env) and time.monotonic() < end:
        time.sleep(0.1)
    return running(env)


def test_a_concert_is_played_and_nothing_is_left_behind(
    env: dict[str, str], tmp_path: Path
) -> None:
    done = run(env, tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    moves = re.findall(r"task-02  \S+ → (\w+)", done.stdout)
    assert moves == [state.value for state in score.ENDED_WELL["task-02"]]
    assert "task-02  its session was killed" in done.stdout
    assert "1 review rejected, 1 session killed and replaced, 0 model turns." in done.stdout
    assert re.search(r"task-02 .*†.* complete S2", done.stdout)
    assert "\x1b" not in done.stdout
    assert list(Path(env["HOME"]).iterdir()) == []
    assert list(Path(env["TMPDIR"]).iterdir()) == []
    assert left_running(env) == []


def test_what_is_kept_is_a_real_project(env: dict[str, str], tmp_path: Path) -> None:
    facts: dict[str, Any] = json.loads(run(env, tmp_path, "--keep", "--json").stdout)
    assert (facts["tasks"], facts["sessions"]) == (3, 5)
    assert (facts["rejected"], facts["killed"]) == (1, 1)
    project = Path(facts["kept"])
    assert (project / "score.txt").read_text() == "c d e f g a b c\nc g c g\n"
    with closing(sqlite3.connect(project / "comms.db")) as db:
        rows = dict(db.execute("SELECT task_id, worked_by FROM orchestration_tasks").fetchall())
        handoff = db.execute(
            "SELECT message FROM orchestration_messages"
            " WHERE message_type = 'handoff' AND from_session = 'task-00'"
        ).fetchall()
        context = db.execute("SELECT count(*) FROM podium_context").fetchone()[0]
    assert rows["task-02"] == "musician-task-02-S2"
    assert len(handoff) == 1
    assert score.HALF_DONE in handoff[0][0]  # the successor is told how far the dead one came
    assert context > 3
    look = [PLUGIN / "bin" / "podium", "timeline", "--json"]
    past = subprocess.run(look, cwd=project, env=env, capture_output=True, check=True).stdout
    deaths = {lane["task_id"]: lane["deaths"] for lane in json.loads(past)["lanes"]}
    assert deaths == {"task-00": 0, "task-01": 0, "task-02": 1, "task-03": 0}
    assert left_running(env) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("command", "seen"), [("demo", "task-02-"), ("selftest", "")])
def test_a_signal_that_ends_it_leaves_nothing_behind(
    env: dict[str, str], tmp_path: Path, command: str, seen: str, number: signal.Signals
) -> None:
    started = subprocess.Popen(
        [PLUGIN / "bin" / "podium", command],
        cwd=tmp_path / "empty",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not any(seen in path.name for path in Path(env["TMPDIR"]).glob("podium-*/**/*")):
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    started.send_signal(number)
    started.send_signal(number)  # as from a terminal that closes

    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (128 + number, "")
    assert left_running(env) == []
    assert list(Path(env["TMPDIR"]).iterdir()) == []


@pytest.mark.parametrize("on_path", [True, False])
def test_what_is_kept_is_looked_at_by_a_name_that_can_be_typed(
    env: dict[str, str], tmp_path: Path, *, on_path: bool
) -> None:
    if on_path:
        env["PATH"] = os.pathsep.join((str(PLUGIN / "bin"), env["PATH"]))
    lines = run(env, tmp_path, "--keep").stdout.splitlines()
    (project,) = (line.removeprefix("Kept: ") for line in lines if line.startswith("Kept: "))
    (there,) = (line.removeprefix("There: ") for line in lines if line.startswith("There: "))
    name = shlex.split(there)[0]
    assert name == ("podium" if on_path else str(PLUGIN / "bin" / "podium"))
    for command in there.split(", "):
        subprocess.run(command, shell=True, cwd=project, env=env, check=True, capture_output=True)


def copy_of_the_plugin(folder: Path) -> Path:
    for name in ("bin", "hooks", "src", ".claude-plugin"):
        shutil.copytree(PLUGIN / name, folder / name, symlinks=True)
    shutil.copy(PLUGIN / "requirements.lock", folder)
    return folder


@pytest.mark.parametrize(
    ("hook", "said"),
    [("stop", "the conductor stopped"), ("session_start", "SessionStart named no task")],
)
def test_a_hook_that_does_not_work_is_named_in_one_line(
    env: dict[str, str], tmp_path: Path, hook: str, said: str
) -> None:
    plugin = copy_of_the_plugin(tmp_path / "plugin")
    (plugin / "hooks" / f"{hook}.py").write_text(
        "import os, sys\nsys.stdin.read()\n" + ("" if hook == "session_start" else "os.abort()\n")
    )
    done = run(env, tmp_path, plugin=plugin)
    assert done.returncode == 1, done
    assert done.stderr.startswith("podium: the demo did not go as scripted: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(Path(env["TMPDIR"]).iterdir()) == []
    assert left_running(env) == []


def test_on_a_terminal_the_table_is_redrawn_in_place(env: dict[str, str], tmp_path: Path) -> None:
    pid, handle = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        sized = {**env, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
        os.execve(PLUGIN / "bin" / "podium", ["podium", "demo", "--fast"], sized)
    shown = b""
    try:
        while chunk := os.read(handle, 1 << 16):
            shown += chunk
    except OSError:
        pass  # the end of a terminal
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(handle)
    text = shown.decode()
    frames = text.split("\x1b[6A")
    assert len(frames) > 5
    last = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", frames[-1])
    assert re.search(r"task-03  complete +musician-task-03 ", last)
    assert max(len(line.rstrip()) for line in last.split("\n\r")[0].splitlines()[:6]) < 100
    assert "\x1b[3" in frames[-1]  # the timeline is coloured too


# The score


def steps() -> Iterator[tuple[str, ...]]:
    yield from score.OPENING
    for part in score.PARTS.values():
        for turn in part:
            yield from turn.steps


def test_the_score_names_only_commands_that_exist() -> None:
    context = click.Context(main)
    for kind, *words in steps():
        if kind == "podium":
            group = main.get_command(context, words[0])
            assert isinstance(group, click.Group)
            assert group.get_command(context, words[1]) is not None, words


@pytest.mark.parametrize("task", score.ENDED_WELL)
def test_the_score_asks_for_moves_that_exist(task: str) -> None:
    states = score.ENDED_WELL[task]
    for found, to in zip(states, states[1:]):
        assert to in moves_from(Kind.TASK, found)


def test_the_score_gives_every_verdict_that_a_part_waits_for() -> None:
    for task, verdicts in score.VERDICTS.items():
        cues = [t.cue for name, part in score.PARTS.items() if task in name for t in part]
        waited = [cue for cue in cues if cue in (score.APPROVED, score.REJECTED)]
        given = {"approve": score.APPROVED, "reject": score.REJECTED}
        assert waited == [given[verdict] for verdict, _ in verdicts]
