"""podium doctor: what it finds, what it advises, and that it changes nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import click
import protocol
import pytest
from conftest import PLUGIN

from podium.entry.cli import main

if TYPE_CHECKING:
    from conftest import Said

    Podium = Callable[..., Said]

VERSION = "2.1.300"


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that tells a client's version, and a PATH with nothing else of the kind."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(f"#!/bin/sh\necho '{VERSION} (Claude Code)'\n")
    program.chmod(0o755)
    (folder / "python3").symlink_to(shutil.which("python3") or "")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return program


@pytest.fixture
def ready(podium: Podium) -> Podium:
    podium("init")
    return podium


def findings(podium: Podium, *, expect: int = 0) -> dict[str, list[tuple[str, str, str]]]:
    """Level, text and repair by name."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for one in podium("doctor", "--json", expect=expect).json["findings"]:
        found.setdefault(one["name"], []).append((one["level"], one["text"], one["repair"]))
    return found


def test_a_set_up_project_is_looked_through_and_nothing_is_broken(ready: Podium) -> None:
    found = findings(ready)
    assert {level for lines in found.values() for level, _, _ in lines} == {"ok", "warning"}
    assert VERSION in found["client"][0][1]
    assert "background sessions" in found["client"][0][1]
    assert "is whole: schema" in found["database"][0][1]
    assert found["hooks"][1][1].startswith("SessionStart answers in")
    assert found["hooks"][2][1] == "no session has started in this project yet"


def test_what_is_not_well_has_a_repair_and_what_is_well_has_none(podium: Podium) -> None:
    for lines in findings(podium).values():
        for level, _, repair in lines:
            assert bool(repair) == (level != "ok")


def test_people_read_one_line_for_each(ready: Podium) -> None:
    out = ready("doctor").out
    assert all(re.match(r"(ok|warning|broken) +[a-z-]+ ", line) for line in out.splitlines())
    assert "\x1b" not in out


def test_every_podium_command_it_advises_exists() -> None:
    code = (Path(__file__).parents[2] / "src" / "podium" / "entry" / "diagnosis.py").read_text()
    named = re.findall(r'"podium ([a-z]+)(?: ([a-z]+))?', code)
    assert named
    context = click.Context(main)
    for group, verb in named:
        command = main.get_command(context, group)
        assert command is not None, group
        if isinstance(command, click.Group):
            assert command.get_command(context, verb) is not None, verb


def test_it_changes_nothing(ready: Podium, project: Path) -> None:
    def everything() -> dict[str, bytes]:
        files = [f for f in project.rglob("*") if f.is_file()]
        return {str(f): f.read_bytes() for f in files if not f.name.endswith(("-wal", "-shm"))}

    before = everything()
    home = sorted(Path(os.environ["HOME"]).rglob("*"))
    ready("doctor")
    assert everything() == before
    assert sorted(Path(os.environ["HOME"]).rglob("*")) == home


def test_the_last_session_that_started_is_seen(ready: Podium, hook: Callable[..., object]) -> None:
    hook("session_start", {"session_id": "s-1", "source": "startup"})
    assert findings(ready)["hooks"][2][1].startswith("the last SessionStart here was")


# What can be broken


def corrupt(project: Path) -> None:
    path = project / "comms.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 2 + 2000] = b"\xff" * 2000
    path.write_bytes(content)


def no_database(project: Path) -> None:
    (project / "comms.db").write_bytes(b"this is no database at all, not by far" * 50)


def newer(project: Path) -> None:
    with closing(sqlite3.connect(project / "comms.db")) as db:
        db.execute("PRAGMA user_version = 999")


def foreign(project: Path) -> None:
    (project / "comms.db").unlink()
    with closing(sqlite3.connect(project / "comms.db")) as db:
        db.execute("CREATE TABLE theirs (x)")


def ahead(project: Path) -> None:
    with closing(protocol.connect(project / "comms.db")) as db:
        later = "datetime('now', '+5000 seconds')"
        db.execute(f"UPDATE orchestration_tasks SET last_heartbeat = {later}")


def wrong_settings(project: Path) -> None:
    (project / "podium.json").write_text('{"paths": {"temp": 3}, "launch": {"wait": "long"}}')


def no_json(project: Path) -> None:
    (project / "podium.json").write_text("{")


def without_hooks(project: Path) -> None:
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')


@pytest.mark.parametrize(
    ("spoil", "name", "text"),
    [
        (corrupt, "database", ""),
        (no_database, "database", "file is not a database"),
        (newer, "database", "has schema 999"),
        (foreign, "database", "is not podium's"),
        (ahead, "clock", "in the future"),
        (wrong_settings, "settings", "paths.temp: found 3"),
        (no_json, "settings", "it is not JSON"),
        (without_hooks, "plugin", "disables all hooks"),
    ],
)
def test_what_is_broken_is_named_and_ends_with_1(
    ready: Podium, project: Path, spoil: Callable[[Path], None], name: str, text: str
) -> None:
    spoil(project)
    lines = findings(ready, expect=1)[name]
    broken = [(said, repair) for level, said, repair in lines if level == "broken"]
    assert any(text in said and repair for said, repair in broken), lines


def a_folder(project: Path) -> None:
    (project / "comms.db").unlink()
    (project / "comms.db").mkdir()


def no_rules(project: Path) -> None:
    with closing(sqlite3.connect(project / "comms.db")) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            db.execute(f"DROP TRIGGER {name}")


def a_changed_rule(project: Path) -> None:
    with closing(sqlite3.connect(project / "comms.db")) as db:
        rules = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        name, text = next(rule for rule in rules if "RAISE" in rule[1])
        db.execute(f"DROP TRIGGER {name}")
        db.execute(text.replace("podium: ", "podium:  ", 1))


def no_journal(project: Path) -> None:
    with closing(sqlite3.connect(project / "comms.db")) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def open_to_all(project: Path) -> None:
    (project / "comms.db").chmod(0o644)
    (project / "temp").chmod(0o755)


def no_temp(project: Path) -> None:
    (project / "temp").rmdir()


def temp_leads_nowhere(project: Path) -> None:
    (project / "temp").rmdir()
    (project / "temp").symlink_to(project / "cleared at reboot" / "temp")


def temp_is_a_file(project: Path) -> None:
    (project / "temp").rmdir()
    (project / "temp").write_text("mine")


def a_former_run(project: Path) -> None:
    file = project / "temp" / "musician-task-77.pid"
    file.write_text(f"{2**22 - 7}\n1\n{os.uname().nodename}\n")


@pytest.mark.parametrize(
    ("spoil", "name", "repair"),
    [
        (corrupt, "database", "podium init --archive"),
        (no_database, "database", "podium init --archive"),
        (a_folder, "database", "podium init --archive"),
        (foreign, "database", "podium init --archive"),
        (no_rules, "database", "podium init"),
        (a_changed_rule, "database", "podium init"),
        (no_journal, "database", "sqlite3 "),
        (open_to_all, "database", "chmod 600 "),
        (open_to_all, "temp", "chmod 700 "),
        (no_temp, "temp", "podium init"),
        (temp_leads_nowhere, "temp", "podium init"),
        (temp_is_a_file, "temp", "mv "),
        (a_former_run, "temp", "podium conductor sweep"),
    ],
)
def test_a_repair_works_as_it_is_printed(
    tmp_path: Path, spoil: Callable[[Path], None], name: str, repair: str
) -> None:
    project = tmp_path / "the project's own"  # a path that a shell would take apart
    project.mkdir()
    shell = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(sys.argv[2])"
    programs = {
        "podium": [str(PLUGIN / "src" / "podium" / "__main__.py")],
        "sqlite3": ["-c", shell],
    }
    for program, words in programs.items():
        script = tmp_path / "programs" / program
        script.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-I", *words])} "$@"\n')
        script.chmod(0o755)

    def type_in(line: str) -> str:
        return subprocess.run(
            ["/bin/sh", "-c", line], cwd=project, capture_output=True, text=True, check=False
        ).stdout

    def complaints() -> list[str]:
        found = json.loads(type_in("podium doctor --json"))["findings"]
        return [f["repair"] for f in found if f["name"] == name and f["repair"]]

    type_in("podium init")
    spoil(project)

    typed, *_ = complaints()
    assert typed.startswith(repair)
    assert ("--archive" in typed) == ("--archive" in repair)
    type_in(typed)
    assert complaints() == []


def test_a_run_outlives_the_loss_of_its_rules(ready: Podium, project: Path) -> None:
    ready("conductor", "start", session="s-1")
    no_rules(project)
    assert "rules anew that it had lost" in ready("init").out
    assert "rules anew" not in ready("init").out
    with closing(sqlite3.connect(project / "comms.db")) as db:
        assert db.execute("SELECT session_id FROM orchestration_tasks").fetchall() == [("s-1",)]
        with pytest.raises(sqlite3.DatabaseError, match="podium: "):
            db.execute("UPDATE orchestration_tasks SET state = 'working'")


def test_a_pid_file_of_another_program_is_none_of_podiums(ready: Podium, project: Path) -> None:
    (project / "temp" / "server.pid").write_text("1\n")
    assert findings(ready)["temp"][0][0] == "ok"
    ready("conductor", "sweep")
    assert (project / "temp" / "server.pid").exists()


def test_without_python_the_hooks_are_broken(
    ready: Podium, client: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sh").mkdir()
    for name in ("sh", "dirname", "cat"):
        (tmp_path / "sh" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "sh"))
    found = findings(ready, expect=1)
    assert found["hooks"][0][1] == "there is no python3 on PATH, so no hook does anything"
    assert found["client"][0][0] == "warning"
    assert client.exists()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])  # without WAL nobody can even read
def test_a_lock_that_nobody_lets_go_is_broken(ready: Podium, project: Path, journal: str) -> None:
    with closing(protocol.connect(project / "comms.db")) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.execute("BEGIN EXCLUSIVE")
        lines = findings(ready, expect=1)["database"]
        assert any("locked" in text and "fuser -v " in repair for _, text, repair in lines)
        db.execute("ROLLBACK")


@pytest.mark.parametrize(("version", "level"), [("2.1.100", "warning"), ("nonsense", "broken")])
def test_a_client_that_is_old_or_mute_is_told_of(
    podium: Podium, client: Path, version: str, level: str
) -> None:
    client.write_text(f"#!/bin/sh\necho '{version}'\n")
    assert findings(podium, expect=int(level == "broken"))["client"][0][0] == level


def test_a_database_that_others_may_read_is_a_warning(ready: Podium, project: Path) -> None:
    (project / "comms.db").chmod(0o644)
    assert "others may read" in findings(ready)["database"][1][1]


def test_a_pid_file_that_names_nobody_is_told_of(ready: Podium, project: Path) -> None:
    (project / "temp" / "musician-task-01.pid").write_text(
        f"{2**22 - 7}\n1\n{os.uname().nodename}\n"
    )
    level, text, repair = findings(ready)["temp"][0]
    assert (level, repair) == ("warning", "podium conductor sweep")
    assert "musician-task-01.pid" in text


def test_an_enabled_plugin_is_seen(ready: Podium, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Path(os.environ["HOME"]) / "client"
    config.mkdir()
    (config / "settings.json").write_text(json.dumps({"enabledPlugins": {"podium@podium": True}}))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    assert findings(ready)["plugin"][0][0] == "ok"


def test_live_without_a_client_is_no_proof(ready: Podium, client: Path) -> None:
    client.unlink()
    found = ready("doctor", "--live", "--json").json["findings"]
    assert [one["text"] for one in found if one["name"] == "live"] == ["there is no claude on PATH"]
