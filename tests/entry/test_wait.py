"""podium wait and the waiting Stop hook: woken by change, once, and gone with their parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from protocol import add, age, claim, move, send

from podium.entry import waiting

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

PLUGIN = Path(__file__).parents[2]
ME = "me-1"


@pytest.fixture
def waits(raw: sqlite3.Connection) -> sqlite3.Connection:
    """A run in which `me` waits for a verdict on task-01."""
    add(raw, "task-00", "boss-1")
    add(raw, "task-01")
    claim(raw, "task-01", ME)
    move(raw, "task-01", "needs_review")
    return raw


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended after the test."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def podium(project: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", str(PLUGIN / "src" / "podium" / "__main__.py"), *words],
        cwd=project,
        env={**os.environ, "CLAUDE_PROJECT_DIR": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def approve(db: sqlite3.Connection) -> None:
    move(db, "task-01", "review_approved")
    send(db, "task-01", "task-00", "approval", "well done")


def test_a_wait_ends_with_the_verdict(
    waits: sqlite3.Connection, project: Path, started: list[subprocess.Popen[str]]
) -> None:
    waiter = podium(project, "wait", "--session", ME)
    started.append(waiter)
    time.sleep(1)
    assert waiter.poll() is None
    approve(waits)

    out, _ = waiter.communicate(timeout=20)

    assert waiter.returncode == 0
    assert "well done" in out


def test_a_verdict_without_a_message_ends_the_wait_too(
    waits: sqlite3.Connection, project: Path, started: list[subprocess.Popen[str]]
) -> None:
    waiter = podium(project, "wait", "--session", ME)
    started.append(waiter)
    time.sleep(1)
    move(waits, "task-01", "review_failed")

    out, _ = waiter.communicate(timeout=20)

    assert (waiter.returncode, "review_failed" in out) == (0, True)


def test_the_exit_code_says_whether_the_other_side_lives(
    waits: sqlite3.Connection, project: Path
) -> None:
    alive = podium(project, "wait", "--session", ME, "--timeout", "0.2")
    alive.communicate()
    waits.execute(
        "UPDATE orchestration_tasks SET last_heartbeat = datetime('now', '-541 seconds')"
        " WHERE task_id = 'task-00'"
    )
    stale = podium(project, "wait", "--session", ME, "--timeout", "0.2")
    stale.communicate()

    assert (alive.returncode, stale.returncode) == (4, 5)


@pytest.mark.parametrize("who", [[], ["--session", "boss-1"]])
def test_who_waits_for_a_task_is_told_whether_that_one_is_played(
    waits: sqlite3.Connection, project: Path, who: list[str]
) -> None:
    add(waits, "task-02")
    codes = []
    for task in ("task-01", "task-02", "task-00"):
        waiter = podium(project, "wait", "--task", task, *who, "--timeout", "0.2")
        waiter.communicate()
        codes.append(waiter.returncode)
    assert codes == [4, 5, 4]
    age(waits, "task-01", 541)
    waiter = podium(project, "wait", "--task", "task-01", *who, "--timeout", "0.2")
    said, _ = waiter.communicate()
    assert (waiter.returncode, "who plays task-01 shows no sign" in said) == (5, True)


def test_a_task_can_be_waited_for_by_a_person(
    waits: sqlite3.Connection, project: Path, started: list[subprocess.Popen[str]]
) -> None:
    waiter = podium(project, "wait", "--task", "task-01")
    started.append(waiter)
    time.sleep(1)
    approve(waits)

    out, _ = waiter.communicate(timeout=20)

    assert (waiter.returncode, "task-01 is review_approved" in out) == (0, True)


@pytest.mark.usefixtures("waits")
def test_a_session_never_waits_twice(project: Path, started: list[subprocess.Popen[str]]) -> None:
    first = podium(project, "wait", "--session", ME)
    started.append(first)
    time.sleep(1)
    second = podium(project, "wait", "--session", ME)
    _, said = second.communicate(timeout=20)

    assert second.returncode == 1
    assert "waits already" in said
    assert first.poll() is None


def headless_stop(project: Path, parent: str) -> subprocess.Popen[str]:
    """A waiting Stop hook under a shell that stands for the client."""
    payload = json.dumps({"session_id": ME, "hook_event_name": "Stop", "stop_hook_active": False})
    hook = f"/bin/sh {PLUGIN}/hooks/hook.sh"
    start = json.dumps({"session_id": ME, "source": "startup"})
    begin = f"echo '{start}' | {hook} session_start >/dev/null"
    script = f"{begin}; echo '{payload}' | {hook} stop; {parent}"
    return subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=project,
        env={
            **os.environ,
            "CLAUDE_PROJECT_DIR": str(project),
            "CLAUDE_CODE_ENTRYPOINT": "sdk-cli",
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_headless_session_waits_in_its_stop_hook_and_goes_on_with_the_verdict(
    waits: sqlite3.Connection, project: Path, started: list[subprocess.Popen[str]]
) -> None:
    waiter = headless_stop(project, "true")
    started.append(waiter)
    time.sleep(1.5)
    assert waiter.poll() is None
    approve(waits)

    out, _ = waiter.communicate(timeout=20)

    told = json.loads(out)["hookSpecificOutput"]["additionalContext"]
    assert "well done" in told
    assert "review_approved" in told


def test_a_headless_session_that_has_another_waiter_is_not_let_go(
    waits: sqlite3.Connection, project: Path, started: list[subprocess.Popen[str]]
) -> None:
    first = podium(project, "wait", "--session", ME)
    started.append(first)
    time.sleep(1)
    hook = headless_stop(project, "true")
    started.append(hook)
    time.sleep(1.5)
    assert (first.poll(), hook.poll()) == (None, None)
    approve(waits)

    first.communicate(timeout=20)
    out, _ = hook.communicate(timeout=20)

    assert first.returncode == 0
    assert "review_approved" in json.loads(out)["hookSpecificOutput"]["additionalContext"]
    (why,) = waits.execute("SELECT last_stop FROM podium_sessions WHERE session_id = ?", (ME,))
    assert why[0].startswith("held: ")


def _children(pid: int) -> set[int]:
    done = subprocess.run(["pgrep", "-g", str(pid)], capture_output=True, text=True, check=False)
    return {int(line) for line in done.stdout.split()}


@pytest.mark.usefixtures("waits")
def test_a_waiting_hook_ends_with_its_client_even_when_that_is_killed(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    waiter = headless_stop(project, "true")
    started.append(waiter)
    time.sleep(1.5)
    assert len(_children(waiter.pid)) > 1
    os.kill(waiter.pid, signal.SIGKILL)
    waiter.wait()

    end = time.monotonic() + 60
    while _children(waiter.pid) and time.monotonic() < end:
        time.sleep(0.2)
    assert not _children(waiter.pid)


def test_waiting_keeps_the_sign_of_life(waits: sqlite3.Connection, project: Path) -> None:
    waits.execute(
        "UPDATE orchestration_tasks SET last_heartbeat = datetime('now', '-500 seconds')"
        " WHERE task_id = 'task-01'"
    )
    podium(project, "wait", "--session", ME, "--timeout", "0.3").communicate()

    age = waits.execute(
        "SELECT strftime('%s', 'now') - strftime('%s', owner_seen) FROM orchestration_tasks"
        " WHERE task_id = 'task-01'"
    ).fetchone()[0]
    assert age < 60


def test_sleep_of_the_machine_makes_nobody_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, own = 1000.0, 50.0
    monkeypatch.setattr(waiting.time, "time", lambda: wall)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: own)
    clock = waiting.Clock()
    wall, own = wall + 10, own + 10
    assert clock.stale_after() == 540
    wall, own = wall + 3600, own + 5
    assert clock.stale_after() > 10**6
    wall, own = wall + 59, own + 59
    assert clock.stale_after() > 10**6
    wall, own = wall + 2, own + 2
    assert clock.stale_after() == 540
