from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import protocol
import pytest

from podium.services.scratch import Scratch

if TYPE_CHECKING:
    import sqlite3

ROOT = Path(__file__).parents[2]
TASK, ME = "task-03", "session-1"
NAMES = {
    "validate": "validate-musician-state",
    "temp": "verify-temp-files",
    "headroom": "check-context-headroom",
}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(project: Path) -> Run:
    """Runs a program of bin/ in the project, with the interpreter that runs this test."""

    def call(program: str | Path, *words: str) -> subprocess.CompletedProcess[str]:
        path = program if isinstance(program, Path) else ROOT / "bin" / program
        env = {"PATH": os.defpath, "PODIUM_PYTHON": sys.executable, "LANG": "C.UTF-8"}
        return subprocess.run(
            [path, *words], cwd=project, env=env, capture_output=True, text=True, check=False
        )

    return call


@pytest.fixture
def scratch(project: Path) -> Scratch:
    return Scratch(str(project / "temp"))


def ended(done: subprocess.CompletedProcess[str]) -> tuple[str, int]:
    """The result line and the exit code."""
    assert done.stderr == ""
    return done.stdout.splitlines()[-1], done.returncode


def test_a_healthy_task_passes_all_three_checks(
    run: Run, raw: sqlite3.Connection, scratch: Scratch
) -> None:
    protocol.own(raw, TASK, "working", ME)
    scratch.log(TASK, "step 1 started", 12)
    assert ended(run("podium", "validate", TASK, ME)) == ("=== RESULT: HEALTHY ===", 0)
    assert ended(run("podium", "temp", TASK)) == ("=== RESULT: OK ===", 0)
    assert ended(run("podium", "headroom", TASK)) == ("=== RESULT: HEALTHY ===", 0)


def test_problems_end_with_their_exit_codes(
    run: Run, raw: sqlite3.Connection, scratch: Scratch
) -> None:
    protocol.own(raw, TASK, "working", ME)
    assert ended(run("podium", "validate", TASK, "x")) == ("=== RESULT: ISSUES FOUND (1) ===", 1)
    assert ended(run("podium", "validate", "task-09"))[1] == 1
    assert ended(run("podium", "temp", TASK))[1] == 1
    assert ended(run("podium", "headroom", TASK)) == ("=== RESULT: FILE MISSING ===", 1)
    scratch.log(TASK, "step 1 started", 76)
    assert ended(run("podium", "headroom", TASK))[1] == 2


def test_without_a_database_the_files_can_still_be_checked(run: Run, scratch: Scratch) -> None:
    scratch.log(TASK, "step 1 started", 12)
    assert ended(run("podium", "validate", TASK)) == ("=== RESULT: DB MISSING ===", 1)
    assert ended(run("podium", "temp", TASK))[1] == 0
    assert ended(run("podium", "headroom", TASK))[1] == 0


def test_a_database_that_cannot_be_used_is_one_line(run: Run, project: Path) -> None:
    (project / "comms.db").write_text("this is no database, and long enough to be looked at " * 30)
    done = run("podium", "validate", TASK)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1


def test_headroom_measures_the_session_of_the_task(
    run: Run, raw: sqlite3.Connection, scratch: Scratch, project: Path
) -> None:
    protocol.own(raw, TASK, "working", ME)
    scratch.log(TASK, "step 1 started", 12)
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 64990}
    turn = {"type": "assistant", "isSidechain": False, "message": {"model": "m", "usage": usage}}
    (project / "transcript.jsonl").write_text(json.dumps(turn) + "\n")
    raw.execute(
        "INSERT INTO podium_sessions (session_id, transcript_path) VALUES (?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET transcript_path = excluded.transcript_path",
        (ME, str(project / "transcript.jsonl")),
    )
    assert "Measured:    33% (65000 of 200000 tokens)" in run("podium", "headroom", TASK).stdout
    (project / "podium.json").write_text('{"context": {"window": 100000}}')
    assert ended(run("podium", "headroom", TASK)) == ("=== RESULT: CAUTION (context at 65%) ===", 1)


@pytest.mark.parametrize("verb", NAMES)
def test_json_is_one_object_with_the_result_and_the_same_exit_code(
    run: Run, raw: sqlite3.Connection, scratch: Scratch, verb: str
) -> None:
    protocol.own(raw, TASK, "working", ME)
    scratch.log(TASK, "step 1 started", 80)
    plain, answer = run("podium", verb, TASK), run("podium", verb, TASK, "--json")
    facts = json.loads(answer.stdout)
    assert facts["task_id"] == TASK
    assert facts["result"] in plain.stdout
    assert answer.returncode == plain.returncode


@pytest.mark.parametrize("verb", NAMES)
@pytest.mark.parametrize("words", [[], ["../task-03"], ["task 03"], [TASK, "a", "b"], ["x" * 300]])
def test_wrong_usage_is_one_line(run: Run, db: Path, verb: str, words: list[str]) -> None:
    done = run("podium", verb, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert db.exists()


@pytest.mark.parametrize(("verb", "name"), NAMES.items())
def test_the_old_names_run_the_same_checks(
    run: Run, raw: sqlite3.Connection, scratch: Scratch, tmp_path: Path, verb: str, name: str
) -> None:
    protocol.own(raw, TASK, "needs_review", ME)
    protocol.age(raw, TASK, 900)
    scratch.log(TASK, "step 1 started", 66)
    (tmp_path / "else where").mkdir()
    link = tmp_path / "else where" / name
    link.symlink_to(ROOT / "bin" / name)
    wanted = ended(run("podium", verb, TASK))
    assert ended(run(name, TASK)) == wanted
    assert ended(run(link, TASK)) == wanted


@pytest.mark.skipif(not shutil.which("busybox"), reason="busybox is not installed")
def test_the_old_names_run_in_a_small_shell(run: Run, scratch: Scratch) -> None:
    scratch.log(TASK, "step 1 started", 12)
    script = str(ROOT / "bin" / NAMES["temp"])
    assert ended(run(Path(str(shutil.which("busybox"))), "sh", script, TASK))[1] == 0
