"""A question to a person is noted for participants, told to the conductor, and cleared."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Callable

import pytest
from conftest import PLUGIN
from protocol import add, claim, everything, move, send

from podium.services import overview

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from conftest import Answer

    from podium.store.base import Store

ASK = {"hook_event_name": "PermissionRequest", "tool_name": "Bash"}
COMMAND = {"command": "rm -rf build\nmake", "description": "d"}


def asking(raw: sqlite3.Connection, session: str = "m1") -> str | None:
    sql = "SELECT asking FROM podium_sessions WHERE session_id = ?"
    found = raw.execute(sql, (session,)).fetchone()
    return found and found[0]


def attention(project: Path, home: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [PLUGIN / "bin" / "podium", "--json", "conductor", "next"], cwd=project, check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PODIUM_PYTHON": sys.executable},
        capture_output=True, text=True,
    )  # fmt: skip
    return [i for i in json.loads(done.stdout)["items"] if i["kind"] == "asking"]


@pytest.fixture
def played(raw: sqlite3.Connection) -> sqlite3.Connection:
    """A task that session m1 plays and a session that was launched for another."""
    add(raw, "task-00")
    for task in ("task-01", "task-02"):
        add(raw, task)
    claim(raw, "task-01", "m1")
    raw.execute("INSERT INTO podium_sessions (session_id) VALUES ('m1')")
    raw.execute("INSERT INTO podium_sessions (session_id, task_id) VALUES ('m2', 'task-02')")
    return raw


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({**ASK, "tool_input": COMMAND}, "Bash: rm -rf build make"),
        ({**ASK, "tool_name": "Edit", "tool_input": {"file_path": "/a/b"}}, "Edit: /a/b"),
        ({**ASK, "tool_name": "X", "tool_input": {"odd": 1}}, "X: {'odd': 1}"),
        ({**ASK, "tool_input": None}, "Bash:"),
        ({"notification_type": "permission_prompt", "message": "needs you"}, "needs you"),
        ({"notification_type": "elicitation_dialog"}, "a question"),
        ({"notification_type": "idle_prompt", "message": "Claude is waiting"}, None),
        ({"notification_type": "auth_success", "message": "in"}, None),
    ],
)
def test_what_a_session_asks_is_noted(
    played: sqlite3.Connection,
    hook: Callable[..., Answer],
    payload: dict[str, object],
    text: str | None,
) -> None:
    assert hook("notification", {"session_id": "m1", **payload}).said is None

    assert asking(played) == text


def test_a_question_is_told_with_its_task_before_and_after_the_claim(
    played: sqlite3.Connection, hook: Callable[..., Answer], project: Path, tmp_path: Path
) -> None:
    played.execute(
        "INSERT INTO podium_launches (task_id, session_id, backend, cwd, reach)"
        " VALUES ('task-01', 'm1', 'tmux', '.', 'tmux attach -t %7')"
    )
    for session in ("m1", "m2"):
        hook("notification", {"session_id": session, **ASK, "tool_input": COMMAND})

    first, second = attention(project, tmp_path)

    assert (first["task_id"], first["command"]) == ("task-01", "tmux attach -t %7")
    assert (second["task_id"], second["command"]) == (
        "task-02", "answer it in the window of its session",
    )  # fmt: skip
    assert "rm -rf build make" in second["what"]


def test_the_later_notice_does_not_overwrite_what_is_asked_but_the_next_question_does(
    played: sqlite3.Connection, hook: Callable[..., Answer]
) -> None:
    late = {"notification_type": "permission_prompt", "message": "Claude needs your permission"}
    for payload in ({**ASK, "tool_input": COMMAND}, late):
        hook("notification", {"session_id": "m1", **payload})
    assert asking(played) == "Bash: rm -rf build make"

    hook("notification", {"session_id": "m1", **ASK, "tool_input": {"command": "ls"}})

    assert asking(played) == "Bash: ls"


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("participant tool", {"hook_event_name": "PostToolUse", "tool_name": "Bash"}),
        ("stop", {"hook_event_name": "Stop", "stop_hook_active": False}),
        ("session_start", {"hook_event_name": "SessionStart", "source": "resume"}),
    ],
)
def test_a_question_is_over_with_the_next_tool_call_stop_or_start(
    played: sqlite3.Connection,
    project: Path,
    hook: Callable[..., Answer],
    event: str,
    payload: dict[str, object],
) -> None:
    hook("notification", {"session_id": "m1", **ASK, "tool_input": COMMAND})

    subprocess.run(
        ["/bin/sh", str(PLUGIN / "hooks" / "hook.sh"), *event.split()],
        input=json.dumps({"session_id": "m1", **payload}).encode(), check=True, cwd=project,
        env={"PATH": "/usr/bin:/bin", "CLAUDE_PROJECT_DIR": str(project)}, capture_output=True,
    )  # fmt: skip

    assert asking(played) is None


@pytest.mark.parametrize(
    ("session", "env"), [("stranger", {}), ("m1", {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}), ("", {})]
)
def test_a_stranger_and_a_session_that_nobody_can_answer_change_nothing(
    played: sqlite3.Connection, hook: Callable[..., Answer], session: str, env: dict[str, str]
) -> None:
    before = everything(played)

    hook("notification", {"session_id": session, **ASK, "tool_input": COMMAND}, **env)

    assert everything(played) == before


def test_a_conductor_can_only_wait_while_a_person_is_asked_or_somebody_is_on_the_way(
    played: sqlite3.Connection, store: Store, hook: Callable[..., Answer]
) -> None:
    assert overview.is_idle(store)
    hook("notification", {"session_id": "m1", **ASK, "tool_input": COMMAND})
    assert overview.is_idle(store)
    move(played, "task-01", "error")
    assert not overview.is_idle(store)
    move(played, "task-01", "exited")
    played.execute("UPDATE podium_sessions SET asking = NULL")
    send(played, "task-01", "task-00", "handoff")
    move(played, "task-01", "fix_proposed")
    assert not overview.is_idle(store)

    played.execute(
        "INSERT INTO podium_launches (task_id, backend, cwd) VALUES ('task-01', 'tmux', '.')"
    )

    assert overview.is_idle(store)
    assert [i.task_id for i in overview.attention(store)] == ["task-02"]
