"""Fail open: whatever is wrong, a hook exits 0 in time, says nothing wrong, and traps no stranger.

That a hook exits 0, keeps stderr empty and prints nothing or one JSON object is asserted by the
`hook` fixture, for every call.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest
from conftest import PATH, PLUGIN
from protocol import connect, everything, own

from podium.store import migrate, sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Answer

    Hook = Callable[..., Answer]

OWNER, STRANGER = "owner", "stranger"
HOOKS = ["stop", "session_start"]


def event(name: str, session: Any, **more: Any) -> dict[str, Any]:
    """The input of a hook, as the client would write it for this session."""
    title = {"stop": "Stop", "session_start": "SessionStart"}[name]
    return {"session_id": session, "hook_event_name": title, "source": "resume", **more}


def text(name: str, session: Any, **more: Any) -> bytes:
    return json.dumps(event(name, session, **more)).encode()


@pytest.fixture
def run(raw: sqlite3.Connection) -> sqlite3.Connection:
    """A database in which OWNER works on task-03."""
    own(raw, "task-03", "working", OWNER)
    return raw


# What arrives on stdin

NOTHING = {
    "empty": b"",
    "blank": b" \n\t\n",
    "nul": b"\0" * 100,
    "not UTF-8": b'{"session_id": "\xff\xfe\xfd", "hook_event_name": "Stop"}',
    "UTF-16": json.dumps({"session_id": OWNER}).encode("utf-16"),
    "a list": json.dumps([{"session_id": OWNER}]).encode(),
    "a list of words": b'["session_id", "owner"]',
    "a text": b'"session_id"',
    "a text with a key in it": json.dumps('"session_id": "owner"').encode(),
    "a number": b"42",
    "null": b"null",
    "no JSON": b"session_id=owner",
    "a shell": b"$(touch pwned); `touch pwned`",
    "deep": b'{"session_id": ' + b"[" * 100_000,
    "no session_id": b'{"hook_event_name": "Stop"}',
    "an id further in": json.dumps({"tool_input": {"session_id": OWNER}}).encode(),
    "an id in a text": json.dumps({"last_assistant_message": '{"session_id": "owner"}'}).encode(),
    "id null": b'{"session_id": null}',
    "id a number": b'{"session_id": 7}',
    "id a list": b'{"session_id": ["owner"]}',
    "id an object": b'{"session_id": {"session_id": "owner"}}',
    "id true": b'{"session_id": true}',
    "id empty": b'{"session_id": ""}',
    "half a surrogate": b'{"session_id": "\\ud800"}',
}


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("what", NOTHING)
def test_input_that_names_no_session_is_answered_with_nothing(
    hook: Hook, run: sqlite3.Connection, name: str, what: str
) -> None:
    before = everything(run)
    assert hook(name, NOTHING[what]).said is None
    assert everything(run) == before


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("session", [OWNER, STRANGER])
def test_input_may_be_cut_anywhere(hook: Hook, name: str, session: str) -> None:
    whole = text(name, session)
    for end in range(0, len(whole), 7):
        answer = hook(name, whole[:end])
        assert session == OWNER or not (name == "stop" and answer.held)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("session", [OWNER, STRANGER])
@pytest.mark.parametrize("ballast_first", [False, True])
def test_ten_megabytes_are_read(
    hook: Hook, name: str, session: str, *, ballast_first: bool
) -> None:
    ballast = {"last_assistant_message": 'x" \\ é' * 1_700_000}
    facts = event(name, session)
    merged = {**ballast, **facts} if ballast_first else {**facts, **ballast}
    answer = hook(name, json.dumps(merged).encode())
    if name == "stop":
        assert answer.held == (session == OWNER)
    else:
        assert answer.context.startswith(f"CLAUDE_SESSION_ID={session}")


IDS = [
    "o'brien",
    '"quoted"',
    "back\\slash",
    "../../etc/passwd",
    "/etc/passwd",
    "line\nbreak",
    "tab\tand\rreturn",
    "nul\0byte",
    "x" * 10_000,
    "' OR '1'='1",
    "owner'; DROP TABLE orchestration_tasks; --",
    "%owner%",
    "owner ",
    "OWNER",
    "é漢🎻",
    "{task}",
    "task-00",
    "-rf",
]


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("session", IDS)
def test_a_strangers_odd_id_is_a_strangers(
    hook: Hook, run: sqlite3.Connection, project: Path, name: str, session: str
) -> None:
    rows = run.execute("SELECT * FROM orchestration_tasks").fetchall()
    answer = hook(name, event(name, session))
    assert answer.notice == ""
    if name == "stop":
        assert answer.said is None
    else:
        assert answer.context in ("", f"CLAUDE_SESSION_ID={session}")
    assert run.execute("SELECT * FROM orchestration_tasks").fetchall() == rows
    assert sorted(p.name for p in project.iterdir() if p.suffix != ".db") in (
        [],
        ["comms.db-shm", "comms.db-wal"],
    )


@pytest.mark.parametrize("session", [i for i in IDS if "\0" not in i])
def test_an_owners_odd_id_is_the_owners(hook: Hook, raw: sqlite3.Connection, session: str) -> None:
    own(raw, "task-03", "working", session)
    assert hook("stop", event("stop", session)).held


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize(
    "more",
    [
        {"hook_event_name": "NeverHeardOf"},
        {"hook_event_name": None},
        {"hook_event_name": ["Stop"]},
        {"source": "teleport"},
        {"source": {"clear": True}},
        {"transcript_path": 7, "model": ["x"], "cwd": None},
        {"stop_hook_active": "yes"},
    ],
)
def test_unknown_events_and_odd_fields_change_nothing_for_a_stranger(
    hook: Hook, name: str, more: dict[str, Any]
) -> None:
    answer = hook(name, event(name, STRANGER, **more))
    assert answer.context == ("" if name == "stop" else f"CLAUDE_SESSION_ID={STRANGER}")
    assert hook(name, event(name, OWNER, **more)).context


def test_an_unknown_hook_name_is_answered_with_nothing_but_an_exit(project: Path) -> None:
    """hooks.json and the scripts beside it are of one version, but it must hold nobody."""
    done = subprocess.run(
        ["/bin/sh", PLUGIN / "hooks" / "hook.sh", "never_heard_of"],
        input=b"{}",
        capture_output=True,
        check=False,
        cwd=project,
        env={"PATH": PATH},
        timeout=20,
    )
    assert done.stdout == b""
    assert done.returncode != 2 or not (project / "comms.db").exists()


# What is found where the database should be


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("This is not a database.\n" * 100)


def _folder(path: Path) -> None:
    path.mkdir()


def _truncated(path: Path) -> None:
    _run_at(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])


def _cut_header(path: Path) -> None:
    _run_at(path)
    path.write_bytes(path.read_bytes()[:50])


def _garbled(path: Path) -> None:
    _run_at(path)
    content = bytearray(path.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    path.write_bytes(content)


def _newer(path: Path) -> None:
    _run_at(path)
    with closing(connect(path)) as db:
        db.execute(f"PRAGMA user_version = {sqlite.SCHEMA + 1}")


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE accounts (id)")


def _foreign_with_a_number(path: Path) -> None:
    _foreign(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {sqlite.SCHEMA}")


def _foreign_with_our_names(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE orchestration_tasks (task_id, state, session_id)")
        db.execute(f"INSERT INTO orchestration_tasks VALUES ('task-03', 'working', '{STRANGER}')")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere.db")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    path.symlink_to(os.devnull)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _missing(path: Path) -> None:
    (path.parent / "podium.json").write_text("{}")


def _run_at(path: Path) -> None:
    migrate.create(str(path)).close()
    with closing(connect(path)) as db:
        own(db, "task-03", "working", OWNER)


UNUSABLE = {
    make.__name__.strip("_"): make
    for make in (
        *(_missing, _empty, _text, _folder, _truncated, _cut_header, _garbled, _newer, _foreign),
        *(_foreign_with_a_number, _foreign_with_our_names, _dangling, _loop, _device, _pipe),
    )
}


def _content(folder: Path, *, ours: bool) -> dict[str, bytes | None]:
    """What lies there; beside a database of podium's, its journals do not count."""
    journals = ("-wal", "-shm") if ours else ()
    found = [p for p in folder.iterdir() if not p.name.endswith(journals)]
    return {p.name: p.read_bytes() if p.is_file() else None for p in found}


@pytest.mark.parametrize("session", [OWNER, STRANGER])
@pytest.mark.parametrize("what", UNUSABLE)
def test_a_database_that_cannot_be_used_is_as_if_podium_were_not_there(
    hook: Hook, project: Path, what: str, session: str
) -> None:
    UNUSABLE[what](project / "comms.db")
    ours = what in ("truncated", "cut_header", "garbled")
    before = _content(project, ours=ours)
    assert not hook("stop", event("stop", session)).held
    answer = hook("session_start", event("session_start", session))
    assert answer.context == f"CLAUDE_SESSION_ID={session}"
    if session == STRANGER:
        assert answer.notice == ""
        assert hook("stop", event("stop", session)).said is None
    assert _content(project, ours=ours) == before


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Somebody else keeps the database locked: for writing, or altogether."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if how == "altogether":
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE in_the_way (x)")
        yield
        db.execute("ROLLBACK")


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("how", ["for writing", "altogether"])
def test_a_hook_returns_while_the_database_is_still_locked(
    hook: Hook, run: sqlite3.Connection, db: Path, name: str, how: str
) -> None:
    run.close()
    with locked(db, how):
        stranger = hook(name, event(name, STRANGER))
        owner = hook(name, event(name, OWNER))
    assert stranger.context == ("" if name == "stop" else f"CLAUDE_SESSION_ID={STRANGER}")
    assert stranger.notice == ""
    # A row that can be read still counts: neither the guard nor the role is lost to a long write.
    assert ("task-03" in owner.context) == (how == "for writing")


def test_a_lock_that_is_let_go_in_time_is_waited_for(
    hook: Hook, run: sqlite3.Connection, db: Path
) -> None:
    run.close()
    answers: list[Answer] = []
    with locked(db, "for writing"):
        held = event("stop", OWNER)
        waiting = threading.Thread(target=lambda: answers.append(hook("stop", held)))
        waiting.start()
        waiting.join(0.5)
    waiting.join()
    assert answers[0].held
    with closing(connect(db)) as raw:
        assert raw.execute("SELECT continuations FROM podium_sessions").fetchone()[0] == 1


def test_rows_follow_a_clear_although_the_database_is_locked_at_first(
    hook: Hook, run: sqlite3.Connection, db: Path
) -> None:
    run.close()
    hook("session_start", event("session_start", OWNER))
    clear = event("session_start", "cleared", source="clear")
    answers: list[Answer] = []
    with locked(db, "for writing"):
        waiting = threading.Thread(target=lambda: answers.append(hook("session_start", clear)))
        waiting.start()
        waiting.join(0.8)
    waiting.join()
    assert "musician of task-03" in answers[0].context


def _read_only_by_mode(path: Path) -> None:
    path.chmod(0o444)


def _read_only_by_folder(path: Path) -> None:
    path.parent.chmod(0o555)


def _read_only_by_both(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)


def _read_only_by_header(path: Path) -> None:
    """A write version that this SQLite does not know makes it read-only, for root too."""
    content = bytearray(path.read_bytes())
    content[18] = 3
    path.write_bytes(content)


def _unreadable(path: Path) -> None:
    path.chmod(0)


def _unreadable_folder(path: Path) -> None:
    path.parent.chmod(0)


READ_ONLY = {
    make.__name__.strip("_"): make
    for make in (
        *(_read_only_by_mode, _read_only_by_folder, _read_only_by_both, _read_only_by_header),
        *(_unreadable, _unreadable_folder),
    )
}


@pytest.mark.parametrize("what", READ_ONLY)
def test_a_database_that_cannot_be_written_holds_nobody_for_ever(
    hook: Hook, project: Path, tmp_path: Path, what: str
) -> None:
    path = project / "comms.db"
    _run_at(path)
    READ_ONLY[what](path)
    try:
        for session in (STRANGER, OWNER):
            answer = hook("stop", event("stop", session), cwd=tmp_path)
            started = hook("session_start", event("session_start", session), cwd=tmp_path)
            assert started.context.startswith(f"CLAUDE_SESSION_ID={session}")
            if session == STRANGER:
                assert answer.said is None
                assert started.context == f"CLAUDE_SESSION_ID={session}"
                assert started.notice == ""
            else:
                assert not answer.held  # it could not be counted
    finally:
        project.chmod(0o755)
        path.chmod(0o600)


# Where it happens


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("variables", [("HOME",), ("HOME", "LANG", "CLAUDECODE")])
def test_no_home_is_needed(hook: Hook, name: str, variables: tuple[str, ...]) -> None:
    unset = dict.fromkeys(variables)
    assert "task-03" in hook(name, event(name, OWNER), **unset).context
    assert "task-03" not in hook(name, event(name, STRANGER), **unset).context


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
def test_variables_that_steer_python_or_the_shell_do_not_steer_a_hook(
    hook: Hook, tmp_path: Path, name: str
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "sqlite3.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "podium").mkdir()
    (tmp_path / "podium" / "__init__.py").write_text("raise SystemExit('shadowed')")
    env = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": str(tmp_path / "json.py"),
        "PYTHONHOME": str(tmp_path),
        "PYTHONWARNINGS": "error",
        "PYTHONVERBOSE": "1",
        "ENV": str(tmp_path / "json.py"),
        "CDPATH": "/",
        "IFS": "/o",
    }
    assert "task-03" in hook(name, event(name, OWNER), cwd=tmp_path, **env).context


ODD_NAMES = [
    "with space",
    "quote ' and \" both",
    "é ü 漢 🎻",
    "$(touch pwned) `touch pwned`",
    "per%20cent %",
    "what? #1 &c=d",
    "-dash",
    "star * [a]",
    "back\\slash",
    "new\nline",
    "trailing ",
]


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("folder", ODD_NAMES)
def test_a_project_may_be_called_anything(
    hook: Hook, tmp_path: Path, name: str, folder: str
) -> None:
    project = tmp_path / "odd" / folder
    project.mkdir(parents=True)
    _run_at(project / "comms.db")
    here = {"CLAUDE_PROJECT_DIR": str(project), "cwd": project}
    assert "task-03" in hook(name, event(name, OWNER), **here).context
    assert "task-03" not in hook(name, event(name, STRANGER), **here).context
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("name", HOOKS)
def test_a_project_whose_name_is_not_utf8_holds_no_stranger(
    hook: Hook, tmp_path: Path, name: str
) -> None:
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        project.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    _run_at(tmp_path / "comms.db")
    (tmp_path / "comms.db").rename(project / "comms.db")
    here = {"CLAUDE_PROJECT_DIR": str(project), "cwd": project}
    hook(name, event(name, OWNER), **here)
    answer = hook(name, event(name, STRANGER), **here)
    assert answer.context == ("" if name == "stop" else f"CLAUDE_SESSION_ID={STRANGER}")


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("named", [True, False])
def test_a_working_directory_that_was_deleted_is_no_matter(
    project: Path, tmp_path: Path, name: str, *, named: bool
) -> None:
    """The shell deletes it under its own feet, then runs the hook."""
    gone, script = tmp_path / "gone", PLUGIN / "hooks" / "hook.sh"
    gone.mkdir()
    env = {"PATH": PATH, "PWD": str(gone), "HOME": str(tmp_path)}
    if named:
        env["CLAUDE_PROJECT_DIR"] = str(project)
    for session in (STRANGER, OWNER):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            ["/bin/sh", "-c", 'rmdir "$PWD"; exec /bin/sh "$0" "$1"', script, name],
            input=text(name, session),
            capture_output=True,
            check=False,
            cwd=gone,
            env=env,
            timeout=20,
        )
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr  # that it lost its folder, the shell itself says
        assert (b"task-03" in done.stdout) == (named and session == OWNER)


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("where", ["/nowhere/at/all", "", "relative", ".", "/", "//", "/dev/null"])
def test_a_project_that_is_nowhere_is_nobodys(
    hook: Hook, tmp_path: Path, name: str, where: str
) -> None:
    answer = hook(name, event(name, OWNER), CLAUDE_PROJECT_DIR=where, cwd=tmp_path)
    assert answer.context == ("" if name == "stop" else f"CLAUDE_SESSION_ID={OWNER}")


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"gitdir: /nowhere/.git/worktrees/x\n",
        b"gitdir: /nowhere/.git/worktrees/x",
        b"gitdir: \xff\xfe/.git/worktrees/\n",
        b"/.git/worktrees/",
        b"x" * 1_000_000,
        b"gitdir: ../.git/modules/x\n",
    ],
)
def test_a_git_file_that_leads_nowhere_makes_no_project(
    hook: Hook, project: Path, name: str, content: bytes
) -> None:
    (project / ".git").write_bytes(content)
    answer = hook(name, event(name, OWNER))
    assert answer.context == ("" if name == "stop" else f"CLAUDE_SESSION_ID={OWNER}")
    (project / ".git").chmod(0)
    answer = hook(name, event(name, OWNER))
    assert answer.context == ("" if name == "stop" else f"CLAUDE_SESSION_ID={OWNER}")


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_nobody_listens_to_ends_quietly(project: Path, name: str) -> None:
    """The client was killed: stdin at its end, stdout closed."""
    env = {"PATH": PATH, "CLAUDE_PROJECT_DIR": str(project)}
    with subprocess.Popen(
        ["/bin/sh", PLUGIN / "hooks" / "hook.sh", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as started:
        assert started.stdin
        assert started.stdout
        assert started.stderr
        started.stdout.close()
        started.stdin.write(text(name, OWNER))
        started.stdin.close()
        assert started.wait(20) == 0
        assert started.stderr.read() == b""
