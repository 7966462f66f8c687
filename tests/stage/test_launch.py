"""podium conductor launch and close as commands, with a stand-in that starts as the client does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Callable

import pytest
from conftest import PLUGIN
from filelock import FileLock
from protocol import add, age, claim, everything, move, row

from podium.stage import pidfile, process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Looks whether it is expected, runs the real SessionStart hook, and stays until it is ended.
STAND_IN = """#!{python} -I
import json, os, sqlite3, subprocess, sys, time
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("2.1.327 (Claude Code)"))
session = words[words.index("--resume" if "--resume" in words else "--session-id") + 1]
db = sqlite3.connect(os.environ["PODIUM_DB"])
ask = "SELECT task_id FROM podium_sessions WHERE session_id = ?"
known = db.execute(ask, (session,)).fetchone()
db.close()
with open("expected", "a") as file:
    file.write(f"{{session}} {{known and known[0]}}\\n")
start = {{"session_id": session, "hook_event_name": "SessionStart", "source": "startup"}}
env = {{**os.environ, "CLAUDE_PROJECT_DIR": os.getcwd(), "CLAUDE_CODE_ENTRYPOINT": "cli"}}
subprocess.run(["/bin/sh", "{hook}", "session_start"], input=json.dumps(start).encode(), env=env,
               stdout=subprocess.DEVNULL)
print("the hall is open", flush=True)
time.sleep(300)
"""
BROKEN = "#!/bin/sh\necho 'no credit left'\nexit 1\n"


class House:
    """A project with one task, and the command line in it."""

    def __init__(self, project: Path, home: Path) -> None:
        self.project = project
        self.env = {
            "PATH": f"{project}/bin:/usr/bin:/bin",
            "HOME": str(home),
            "PODIUM_PYTHON": sys.executable,
            "LANG": "C.UTF-8",
        }
        (project / "bin").mkdir()
        self.client(STAND_IN.format(python=sys.executable, hook=PLUGIN / "hooks" / "hook.sh"))
        self.settings(backend="headless", wait=20)
        (project / "task-01.md").write_text("Do it.\n")
        self.podium("init")
        self.podium("conductor", "add", "task-01", "--instructions", "task-01.md")

    def client(self, text: str) -> None:
        (self.project / "bin" / "claude").write_text(text)
        (self.project / "bin" / "claude").chmod(0o755)

    def settings(self, **launch: Any) -> None:
        (self.project / "podium.json").write_text(json.dumps({"launch": launch}))

    def attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PLUGIN / "bin" / "podium", *words], cwd=self.project, env=self.env, text=True,
            capture_output=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def podium(self, *words: str) -> str:
        done = self.attempt(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *words: str, code: int = 1) -> str:
        done = self.attempt(*words)
        assert done.returncode == code, done
        assert done.stderr.count("\n") == 1
        return done.stderr

    @property
    def db(self) -> sqlite3.Connection:
        opened = sqlite3.connect(self.project / "comms.db", isolation_level=None)
        opened.row_factory = sqlite3.Row
        return opened

    @property
    def pid_file(self) -> Path:
        return self.project / "temp" / "musician-task-01.pid"


@pytest.fixture
def house(project: Path, tmp_path: Path) -> Iterator[House]:
    made = House(project, tmp_path / "home")
    yield made
    with made.db as db:
        for pid, started, host in db.execute("SELECT pid, pid_started, host FROM podium_launches"):
            if pid and started:
                process.end(process.Process(pid, started, host), grace=2)


def test_a_session_is_recorded_and_committed_before_it_starts(house: House) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))

    expected = (house.project / "expected").read_text().split()
    assert expected == [begun["session_id"], "task-01"]
    assert house.pid_file.read_text().splitlines()[0] == str(begun["pid"])
    assert "to end it: podium conductor close" in house.refused("conductor", "launch", "task-01")


def test_a_dry_run_shows_everything_and_does_nothing(house: House) -> None:
    before, files = everything(house.db), sorted(house.project.rglob("*"))

    shown = house.podium("conductor", "launch", "task-01", "--dry-run", "-m", "mind `the` gap")

    assert "Backend: headless (as asked)" in shown
    assert f"{house.project}/bin/claude PROMPT -p --name 'Musician: task-01'" in shown
    assert "--permission-mode acceptEdits" in shown
    assert f"PODIUM_DB={house.project}/comms.db" in shown
    assert "  /podium:musician task-01\n" in shown
    assert "  mind `the` gap\n" in shown
    assert everything(house.db) == before
    assert sorted(house.project.rglob("*")) == files


def test_three_failed_launches_stop_with_a_reason_for_a_person(house: House) -> None:
    house.client(BROKEN)
    for _ in range(3):
        assert "its window says: no credit left" in house.refused("conductor", "launch", "task-01")

    stopped = house.refused("conductor", "launch", "task-01")

    assert "3 launches of task-01 failed within 10 minutes" in stopped
    assert "no credit left" in stopped
    assert "no credit left" in house.refused("conductor", "launch", "task-01", "--retry")
    with house.db as db:
        assert db.execute("SELECT count(*) FROM podium_launches").fetchone()[0] == 4
        db.execute("UPDATE podium_launches SET at = datetime('now', '-11 minutes')")
    house.client(STAND_IN.format(python=sys.executable, hook=PLUGIN / "hooks" / "hook.sh"))
    house.podium("conductor", "launch", "task-01")


def test_sessions_that_end_before_they_claim_are_failed_launches_too(house: House) -> None:
    for _ in range(3):
        begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
        os.kill(begun["pid"], signal.SIGKILL)

    assert "must look" in house.refused("conductor", "launch", "task-01")


def test_a_pid_file_that_names_a_stranger_is_removed_with_a_note_and_nobody_is_signalled(
    house: House,
) -> None:
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        who = process.identify(stranger.pid)
        assert who
        former = process.Process(who.pid, str(int(who.started) - 1), who.host)
        pidfile.write(str(house.pid_file), former)
        told = house.podium("conductor", "close", "task-01", "--now")
        assert "which a stranger has now" in told
        assert not house.pid_file.exists()

        pidfile.write(str(house.pid_file), former)
        told = house.podium("conductor", "launch", "task-01")
        assert "which a stranger has now" in told

        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_live_process_is_ended_by_its_pid_file_when_its_database_was_moved_aside(
    house: House,
) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
    house.podium("init", "--archive")
    house.podium("conductor", "add", "task-01", "--instructions", "task-01.md")

    assert "live process already" in house.refused("conductor", "launch", "task-01")
    house.podium("conductor", "close", "task-01", "--now")

    assert process.started(begun["pid"]) is None
    assert not house.pid_file.exists()


@pytest.mark.parametrize("worktree", [False, True])
def test_a_temp_folder_that_is_a_link_to_one_that_was_cleared_is_made_again(
    house: House, *, worktree: bool
) -> None:
    temp, target = house.project / "temp", house.project.parent / "cleared" / "temp"
    shutil.rmtree(temp)
    temp.symlink_to(target)
    if worktree:
        house.settings(backend="headless", wait=20, worktree=True)
        git = ("git", "-c", "user.name=x", "-c", "user.email=x@y")
        for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "begin")):
            subprocess.run([*git, *words], cwd=house.project, check=True)

    house.podium("conductor", "launch", "task-01")

    assert house.pid_file.exists()
    assert (target / "worktrees").exists() == worktree


def test_a_sweep_removes_the_pid_files_of_former_runs_and_signals_nobody(house: House) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        who = process.identify(stranger.pid)
        assert who
        former = process.Process(who.pid, str(int(who.started) - 1), who.host)
        left = house.project / "temp" / "musician-task-77.pid"
        pidfile.write(str(left), former)

        told = house.podium("conductor", "sweep")

        assert "musician-task-77.pid named pid" in told
        assert not left.exists()
        assert stranger.poll() is None
        assert house.pid_file.exists()
        assert process.started(begun["pid"])
    finally:
        stranger.kill()
        stranger.wait()


def test_wrong_launch_settings_are_named_all_at_once(house: House) -> None:
    house.settings(backend="xterm", worktree="yes", shout=True)

    wrong = house.refused("conductor", "launch", "task-01", code=2)

    for part in ("backend", "xterm", "worktree", "shout"):
        assert part in wrong


Prepare = Callable[[sqlite3.Connection], object]


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda db: claim(db, "task-01", "s"), "task-01 is working by musician-task-01"),
        (lambda db: (claim(db, "task-01", "s"), move(db, "task-01", "complete")), "repair task-01"),
        (lambda db: (claim(db, "task-01", "s"), move(db, "task-01", "exited")), "replace task-01"),
        (
            lambda db: (claim(db, "task-01", "s"), move(db, "task-01", "error"),
                        move(db, "task-01", "fix_proposed")),
            "musician-task-01 is alive",
        ),
        (
            lambda db: (add(db, "task-02"),
                        db.execute("INSERT INTO podium_needs VALUES ('task-01', 'task-02')")),
            "needs task-02",
        ),
    ],
)  # fmt: skip
def test_a_task_that_nobody_can_claim_is_not_launched(
    house: House, prepare: Prepare, reason: str
) -> None:
    prepare(house.db)

    assert reason in house.refused("conductor", "launch", "task-01")

    assert not (house.project / "expected").exists()


def test_a_stale_owner_does_not_keep_a_task_from_being_launched(house: House) -> None:
    claim(house.db, "task-01", "s")
    move(house.db, "task-01", "error")
    move(house.db, "task-01", "fix_proposed")
    age(house.db, "task-01", 600)

    house.podium("conductor", "launch", "task-01")


def test_a_window_of_a_live_task_stays_unless_it_is_told_to_go_now(house: House) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
    claim(house.db, "task-01", begun["session_id"])

    assert "task-01 is working" in house.refused("conductor", "close", "task-01")
    assert process.started(begun["pid"])
    house.podium("conductor", "close", "task-01", "--now")

    assert process.started(begun["pid"]) is None
    assert row(house.db, "task-01")["state"] == "working"


def test_a_sweep_closes_the_window_of_a_task_that_ended_a_while_ago(house: House) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
    claim(house.db, "task-01", begun["session_id"])
    move(house.db, "task-01", "complete")
    house.podium("conductor", "sweep")
    assert process.started(begun["pid"])  # it may still say its last words
    age(house.db, "task-01", 60)

    assert "settled" in house.podium("conductor", "sweep")

    assert process.started(begun["pid"]) is None
    assert "settled" not in house.podium("conductor", "sweep")


def test_a_sweep_passes_over_a_task_whose_lock_another_command_has(house: House) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
    claim(house.db, "task-01", begun["session_id"])
    move(house.db, "task-01", "complete")
    age(house.db, "task-01", 60)

    with FileLock(str(house.pid_file.with_suffix(".lock"))):
        assert "settled" not in house.podium("conductor", "sweep")
        assert process.started(begun["pid"])

    assert "settled" in house.podium("conductor", "sweep")


def test_a_client_behind_a_wrapper_that_stays_has_come_and_ends_with_it(house: House) -> None:
    shutil.move(house.project / "bin" / "claude", house.project / "bin" / "inner")
    house.client(f'#!/bin/sh\n"{house.project}/bin/inner" "$@"\nexit $?\n')

    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))

    with house.db as db:
        inner = db.execute("SELECT pid FROM podium_sessions").fetchone()[0]
    assert inner != begun["pid"]
    house.podium("conductor", "close", "task-01", "--now")
    assert process.started(inner) is None


def test_a_second_repair_resumes_the_session_out_of_the_window_of_the_first(house: House) -> None:
    begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))
    claim(house.db, "task-01", begun["session_id"])
    move(house.db, "task-01", "complete")
    transcript = house.project / "transcript.jsonl"
    transcript.touch()
    house.db.execute("UPDATE podium_sessions SET transcript_path = ?", (str(transcript),))
    words = ("repair", "task-01", "--found-by", "task-02", "--error", "e", "--fix", "f")
    pids = []

    for name in ("task-01-fix", "task-01-fix2"):
        found = json.loads(house.podium("--json", "conductor", *words))
        assert (found["task_id"], found["session_id"]) == (name, begun["session_id"])
        pids.append(found["pid"])
        claim(house.db, name, begun["session_id"])
        move(house.db, name, "complete")

    assert process.started(pids[0]) is None


def test_in_a_tmux_session_the_musician_gets_a_window_there_and_nothing_else_is_touched(
    house: House,
) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not on PATH")
    folder = tempfile.mkdtemp(prefix="podium-")  # short, as a socket's path must be
    env = {**house.env, "TMUX_TMPDIR": folder, "TERM": "xterm"}

    def tmux(*words: str) -> str:
        command = ["tmux", "-f", "/dev/null", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    try:
        tmux("new-session", "-d", "-s", "mine", "-n", "editor", "-x", "90", "-y", "30", "sleep 300")
        tmux("new-session", "-d", "-s", "other", "-n", "mail", "sleep 300")
        house.env |= {
            "TMUX": tmux("display-message", "-p", "-t", "mine", "#{socket_path},#{pid},0").strip(),
            "TMUX_PANE": "%0",
        }
        house.settings(wait=20)

        begun = json.loads(house.podium("--json", "conductor", "launch", "task-01"))

        names = "#{session_name}:#{window_name}"
        assert (begun["backend"], begun["reach"]) == ("tmux", "tmux switch-client -t %2")
        assert tmux("list-windows", "-a", "-F", names).splitlines() == [
            "mine:editor", "mine:Musician: task-01", "other:mail",
        ]  # fmt: skip
        house.podium("conductor", "close", "task-01", "--now")
        assert tmux("list-windows", "-a", "-F", names).splitlines() == ["mine:editor", "other:mail"]
    finally:
        tmux("kill-server")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_task_can_have_a_worktree_whose_session_finds_the_run_and_its_instructions(
    house: House,
) -> None:
    house.settings(backend="headless", wait=20, worktree=True)
    who = {f"GIT_{role}_{what}": "x@example.invalid" for role in ("AUTHOR", "COMMITTER")
           for what in ("NAME", "EMAIL")}  # fmt: skip
    for words in (
        ["init", "-q"],
        ["add", "task-01.md", "podium.json"],
        ["commit", "-q", "-m", "score"],
    ):
        subprocess.run(["git", *words], cwd=house.project, env={**house.env, **who}, check=True)

    house.podium("conductor", "launch", "task-01")

    tree = house.project / "temp" / "worktrees" / "task-01"
    assert (tree / "podium.json").exists()
    assert (tree / "expected").read_text().endswith(" task-01\n")
    prompt = (house.project / "temp" / "musician-task-01.prompt").read_text()
    assert f"Instructions: {house.project}/task-01.md\n" in prompt


def test_a_conductor_that_died_is_followed_at_once_and_a_living_one_is_not(house: House) -> None:
    one = subprocess.Popen(["sleep", "300"])
    try:
        house.podium("--session", "first", "conductor", "start")
        who = process.identify(one.pid)
        assert who
        with house.db as db:
            db.execute(
                "UPDATE podium_sessions SET pid = ?, pid_started = ?, host = ?",
                (who.pid, who.started, who.host),
            )
        assert "is alive" in house.refused("--session", "second", "conductor", "start")
    finally:
        one.kill()
        one.wait()

    told = house.podium("--session", "second", "conductor", "start")

    assert "You are the conductor, session second" in told
    assert "Phase 1: 0 of 1 ended; task-01 watching" in told
