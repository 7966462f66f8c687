"""The MCP server as the client's pulse: it beats, it notices deaths, it leaves nothing behind."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import pytest
from protocol import add, age, claim, row, send

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from conftest import Answer

    Hook = Callable[..., Answer]

PLUGIN = Path(__file__).parents[2]
# Stands for a client: starts the server on a pipe of its own, and sleeps until it is killed.
CLIENT = (
    "import subprocess, sys, time\n"
    "pipe, null = subprocess.PIPE, subprocess.DEVNULL\n"
    "p = subprocess.Popen(['/bin/sh', sys.argv[1]], stdin=pipe, stdout=null)\n"
    "print(p.pid, flush=True)\n"
    "time.sleep(600)\n"
)


class Client:
    """A process that owns a session and runs the plugin's server, as the real one does."""

    def __init__(self, project: Path, session: str) -> None:
        self.session = session
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(PLUGIN / "bin" / "comms-link")],
            cwd=project,
            env={
                **os.environ,
                "CLAUDE_PROJECT_DIR": str(project),
                "CLAUDE_CODE_SESSION_ID": session,
                "PODIUM_PYTHON": sys.executable,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.server = int(self.process.stdout.readline())

    def kill(self) -> None:
        """Without a word."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def clients(
    raw: sqlite3.Connection, project: Path, hook: Hook
) -> Iterator[Callable[[int], list[Client]]]:
    """Starts so many clients, each with a task that it plays."""
    add(raw, "task-00")
    made: list[Client] = []

    def start(count: int) -> list[Client]:
        for number in range(1, count + 1):
            client = Client(project, f"player-{number}")
            made.append(client)
            add(raw, f"task-{number:02}")
            claim(raw, f"task-{number:02}", client.session)
            hook(
                "session_start",
                {"session_id": client.session, "source": "startup"},
                CLAUDE_PID=str(client.process.pid),
            )
        return made

    yield start
    for client in made:
        client.kill()


def until(condition: Callable[[], object], timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_the_server_beats_for_its_client(
    raw: sqlite3.Connection, clients: Callable[[int], list[Client]]
) -> None:
    clients(1)
    age(raw, "task-01", 500)

    fresh = "SELECT owner_seen > datetime('now', '-60 seconds') FROM orchestration_tasks"
    until(lambda: raw.execute(fresh + " WHERE task_id = 'task-01'").fetchone()[0])


def test_every_killed_client_is_noticed_and_no_process_of_ours_stays(
    raw: sqlite3.Connection, clients: Callable[[int], list[Client]]
) -> None:
    players = clients(10)
    chance = random.Random(3)
    time.sleep(3)
    for player in chance.sample(players, len(players)):
        time.sleep(chance.uniform(0, 0.3))
        player.kill()

    ended = "SELECT count(*) FROM podium_sessions WHERE ended_at IS NOT NULL"
    until(lambda: raw.execute(ended).fetchone()[0] == len(players))
    assert row(raw, "task-01")["owner_seen"] is None
    assert "session ended" in str(row(raw, "task-01")["last_error"])
    until(lambda: not any(alive(player.server) for player in players))


def test_the_conductors_server_finds_who_died_together_with_its_own(
    raw: sqlite3.Connection, clients: Callable[[int], list[Client]]
) -> None:
    boss, player = clients(2)
    taken = "UPDATE orchestration_tasks SET session_id = ? WHERE task_id = 'task-00'"
    assert raw.execute(taken, (boss.session,)).rowcount == 1
    os.kill(player.server, 9)
    player.kill()

    until(lambda: row(raw, "task-02")["owner_seen"] is None)


def test_a_conductors_server_sweeps_by_itself(
    raw: sqlite3.Connection, clients: Callable[[int], list[Client]]
) -> None:
    (boss,) = clients(1)
    taken = "UPDATE orchestration_tasks SET session_id = ? WHERE task_id = 'task-00'"
    raw.execute(
        "INSERT INTO orchestration_tasks (task_id, state, session_id, last_heartbeat)"
        " VALUES ('fallback-late', 'exited', 'late', datetime('now', '-300 seconds'))"
    )
    send(raw, "task-01", "late", "claim_blocked", "CLAIM BLOCKED: task-01")
    assert raw.execute(taken, (boss.session,)).rowcount == 1

    left = "SELECT count(*) FROM orchestration_tasks WHERE task_id = 'fallback-late'"
    until(lambda: raw.execute(left).fetchone()[0] == 0)


def test_news_that_nobody_rang_for_rings_the_bell_of_their_receiver(
    raw: sqlite3.Connection, clients: Callable[[int], list[Client]]
) -> None:
    (player,) = clients(1)
    known = "SELECT bell FROM podium_sessions WHERE session_id = ?"
    bell = raw.execute(known, (player.session,)).fetchone()[0]
    os.utime(bell, (0, 0))
    time.sleep(4)
    assert os.path.getmtime(bell) == 0
    send(raw, "task-01", "task-00", "emergency", "by hand")

    until(lambda: os.path.getmtime(bell) > 0)
