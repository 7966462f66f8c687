"""What works on this machine and what does not, each with the command that repairs it.

Nothing is changed: databases are read, programs are asked for their version, hooks are fired in a
folder that is removed again.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from podium.domain.errors import NotSetUp, PodiumError, StoreBroken, StoreBusy
from podium.services import forms
from podium.stage import background, client, headless, kitty, pidfile, tmux
from podium.stage.base import Facts
from podium.store.health import LARGE_LOG, Health
from podium.store.migrate import SWITCH
from podium.store.sqlite import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from podium.entry.settings import Settings

OK, WARNING, BROKEN = "ok", "warning", "broken"
PATIENCE = 20  # seconds for any program that is asked
OLDEST_PYTHON, OLDEST_CLIENT = (3, 9), (2, 1, 197)
FOREIGN_EYES = 0o077
AHEAD = -5  # seconds; more, and what is written comes from the future
CAP = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
SESSION = "podium-doctor"
FAILURES = (PodiumError, OSError, ValueError, KeyError, subprocess.SubprocessError)


class Finding(NamedTuple):
    """One line of the report; `repair` is what to type, empty where nothing is wrong."""

    name: str
    level: str
    text: str
    repair: str = ""

    @property
    def line(self) -> str:
        """As a person reads it."""
        return f"{self.level:<8} {self.name:<11} {self.text}" + (
            f" → {self.repair}" if self.repair else ""
        )


class Place:
    """Where the doctor looks: a project and the environment of whoever asks."""

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self.settings, self.env, self.facts = settings, env, Facts(env)
        section = settings.section("launch")
        sound = not forms.faults({"launch": section}, "settings")
        self.config = client.Config(section if sound else {})

    def client(self) -> str:
        """The client's program, empty where there is none."""
        try:
            return client.find(self.config, self.facts)
        except NotSetUp:
            return ""


def examine(place: Place) -> Iterator[Finding]:
    """Every finding, in the order in which a person would look."""
    for name, check in CHECKS.items():
        try:
            yield from check(place)
        except FAILURES as error:  # noqa: PERF203
            yield Finding(name, BROKEN, f"could not look: {error}", "mend that and run it again")


def _run(command: list[str], place: Place, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE,
        check=False,
        **{
            "env": dict(place.env),
            "stdin": None if "input" in more else subprocess.DEVNULL,
            **more,
        },
    )


def python_of_hooks(place: Place) -> Iterator[Finding]:
    """The python3 that the hooks are run by."""
    name, repair = "hooks", "install Python 3.9 or newer as python3"
    found = place.facts.program("python3")
    if not found:
        yield Finding(name, BROKEN, "there is no python3 on PATH, so no hook does anything", repair)
        return
    ask = "import sys, json, sqlite3; print(*sys.version_info[:3], sqlite3.sqlite_version)"
    done = _run([found, "-I", "-S", "-c", ask], place)
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2]
        yield Finding(name, BROKEN, f"{found} does not work: {why}", repair)
        return
    *numbers, sqlite = done.stdout.split()
    version = ".".join(numbers)
    if tuple(map(int, numbers)) < OLDEST_PYTHON:
        yield Finding(name, BROKEN, f"python3 is {version}, wanted 3.9 or newer", repair)
    else:
        yield Finding(name, OK, f"python3 is {version} with SQLite {sqlite}")


def hooks_answer(place: Place) -> Iterator[Finding]:
    """A SessionStart fired by hand, in a project that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="podium-doctor-") as folder:
        began = time.monotonic()
        env = {
            **{k: v for k, v in place.env.items() if not k.startswith(("CLAUDE", "PODIUM_"))},
            "CLAUDE_PROJECT_DIR": folder,
            "HOME": folder,
            "XDG_DATA_HOME": folder,
        }
        done = _run(
            ["/bin/sh", os.path.join(client.PLUGIN, "hooks", "hook.sh"), "session_start"],
            place,
            input=json.dumps({"session_id": SESSION, "source": "startup"}),
            env=env,
            cwd=folder,
        )
        spent = (time.monotonic() - began) * 1000
    if f"CLAUDE_SESSION_ID={SESSION}" in done.stdout:
        yield Finding("hooks", OK, f"SessionStart answers in {spent:.0f} ms")
        return
    said = (done.stdout or done.stderr).strip() or "nothing"
    yield Finding("hooks", BROKEN, f"SessionStart said {said}", "install the plugin again")


def command_line(_: Place) -> Iterator[Finding]:
    """The environment that this command runs in."""
    packages = ("click", "filelock", "jsonschema")
    found = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("command", OK, f"Python {version}, {', '.join(found)}")


def server(place: Place) -> Iterator[Finding]:
    """comms-link, asked to introduce itself."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": SESSION}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with tempfile.TemporaryDirectory(prefix="podium-doctor-") as folder:
        done = _run(
            ["/bin/sh", os.path.join(client.PLUGIN, "bin", "comms-link")],
            place,
            input=json.dumps(asked) + "\n",
            env={**place.env, "CLAUDE_PROJECT_DIR": folder},
            cwd=folder,
        )
    if '"comms-link"' in done.stdout:
        yield Finding("comms-link", OK, "answers")
    else:
        said = (done.stderr or done.stdout).strip() or "nothing"
        yield Finding("comms-link", BROKEN, f"it said {said}", "install the plugin again")


def the_client(place: Place) -> Iterator[Finding]:
    """Claude Code: its version and what that version can do."""
    found = place.client()
    if not found:
        yield Finding(
            "client",
            WARNING,
            "there is no claude on PATH, so nobody can be launched",
            "install Claude Code, or name it as launch.client in podium.json",
        )
        return
    number = background.version(found, place.facts)
    version = ".".join(map(str, number))
    if not number:
        yield Finding(
            "client", BROKEN, f"{found} does not tell its version", shlex.join([found, "--version"])
        )
    elif number < OLDEST_CLIENT:
        oldest = ".".join(map(str, OLDEST_CLIENT))
        text = f"{version} is older than {oldest}, the oldest that podium is tested with"
        yield Finding("client", WARNING, text, "claude update")
    else:
        sessions = (
            "background sessions" if number >= background.OLDEST else "no background sessions"
        )
        cap = place.env.get(CAP, "8")
        limit = "no stop cap" if cap == "0" else f"stop cap {cap}, lifted in launched sessions"
        yield Finding("client", OK, f"{version}: async hooks, {sessions}, {limit}")


def plugin(place: Place) -> Iterator[Finding]:
    """Whether sessions that a person starts have the plugin, and whether hooks may run."""
    root = place.settings.root
    for path in _client_settings(place):
        if _without_hooks(path):
            yield Finding(
                "plugin", BROKEN, f"{path} disables all hooks", "remove disableAllHooks there"
            )
            return
    with open(os.path.join(client.PLUGIN, "hooks", "hooks.json"), encoding="utf-8") as file:
        registered = ", ".join(json.load(file)["hooks"])
    if client.is_enabled(place.facts, root):
        yield Finding("plugin", OK, f"enabled, with hooks for {registered}")
        return
    add = shlex.join(["claude", "plugin", "marketplace", "add", client.PLUGIN])
    add += " && claude plugin install podium@podium"
    yield Finding("plugin", WARNING, "not enabled in the client; launched sessions have it", add)


def _client_settings(place: Place) -> Iterator[str]:
    """The client's own settings files that may concern this project."""
    own = os.path.join(place.env.get("HOME", ""), ".claude")
    yield os.path.join(place.env.get("CLAUDE_CONFIG_DIR") or own, "settings.json")
    for name in ("settings.json", "settings.local.json"):
        yield os.path.join(place.settings.root, ".claude", name)


def _without_hooks(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file).get("disableAllHooks") is True
    except (OSError, ValueError, AttributeError):
        return False


def settings(place: Place) -> Iterator[Finding]:
    """podium.json, by its schema."""
    if not os.path.exists(place.settings.file):
        yield Finding("settings", OK, "no podium.json, so the built-in values")
        return
    values = place.settings.values
    wrong = [place.settings.complaint] if not values and place.settings.complaint else []
    wrong += forms.faults(values, "settings")
    if wrong:
        text = f"podium.json: {'; '.join(wrong)}"
        yield Finding("settings", BROKEN, text, f"correct {place.settings.file}")
    else:
        yield Finding("settings", OK, "podium.json is sound")


def database(place: Place) -> Iterator[Finding]:
    """The database, and what it knows of hooks that fired and of the clock."""
    name, path = "database", place.settings.database
    if "://" in path:
        yield Finding(
            name, BROKEN, "it is on a server, which this version cannot use", "podium init"
        )
        return
    if not os.path.exists(path):
        yield Finding(name, WARNING, f"there is none at {path}", "podium init")
        return
    shown = os.path.relpath(path, place.settings.root)
    hidden = _hidden(path, shown)
    if hidden:
        yield hidden
        return
    try:
        health = Health(path)
    except StoreBusy as error:
        yield Finding(name, BROKEN, str(error), shlex.join(["fuser", "-v", path]))
        return
    except StoreBroken as error:
        if "--archive" not in str(error):  # a full disk, say: the run itself may be sound
            raise
        text = f"{shown} cannot be used ({error.__cause__})"
        yield Finding(name, BROKEN, text, "podium init --archive")
        return
    yield _judged(health, path, shown)
    yield from _kept(health, path)
    if health.newest:
        yield from _signs(health.newest)


def _judged(health: Health, path: str, shown: str) -> Finding:
    """What the file is."""
    name = "database"
    if health.version == 0:
        return Finding(name, BROKEN, f"{shown} is not podium's", "podium init --archive")
    if health.version > SCHEMA:
        text = f"{shown} has schema {health.version}, this podium knows {SCHEMA}"
        return Finding(name, BROKEN, text, "claude plugin update podium@podium")
    if not health.is_whole:
        return Finding(name, BROKEN, f"{shown}: {health.faults[0]}", "podium init --archive")
    if health.lost_rules:
        text = f"{shown} lost {len(health.lost_rules)} of its rules ({health.lost_rules[0]})"
        return Finding(name, BROKEN, text, "podium init")
    if health.is_networked:
        text = f"{shown} is on {health.system}, where SQLite loses data"
        return Finding(
            name, BROKEN, text, "set PODIUM_DB to a path on a local disk, then podium init"
        )
    size = os.path.getsize(path) // 1024
    text = f"{shown} is whole: schema {health.version}, {health.journal}, {size} kB"
    return Finding(name, OK, text + (f" on {health.system}" if health.system else ""))


def _hidden(path: str, shown: str) -> Finding | None:
    """Why the file cannot even be opened; None when it can."""
    if not os.path.isfile(path):
        return Finding("database", BROKEN, f"{shown} is no file", "podium init --archive")
    for what, mode in ((os.path.dirname(path), "u+rwx"), (path, "600")):
        if not os.access(what, os.R_OK | os.W_OK):
            repair = shlex.join(["chmod", mode, what])
            return Finding("database", BROKEN, f"{what} cannot be read and written", repair)
    return None


def _kept(health: Health, path: str) -> Iterator[Finding]:
    """How the file is kept."""
    if health.mode & FOREIGN_EYES:
        text = f"others may read {path} (mode {health.mode:o})"
        yield Finding("database", WARNING, text, shlex.join(["chmod", "600", path]))
    if health.version and health.journal != "wal":
        text = f"its journal is {health.journal}, so readers and writers wait for each other"
        switch = shlex.join(["sqlite3", path, SWITCH])
        yield Finding("database", WARNING, text, switch)
    if health.is_locked:
        text = "another process has kept it locked for 2 s, so nothing can be written; end it"
        yield Finding("database", BROKEN, text, shlex.join(["fuser", "-v", path]))
    if health.log > LARGE_LOG:
        text = f"{health.log // 2**20} MB of log wait for a reader that does not end"
        yield Finding("database", WARNING, text, "end what reads the database: podium status")


def _signs(newest: Mapping[str, Any]) -> Iterator[Finding]:
    seen, written = newest["session"], newest["written"]
    if seen is None:
        text = "no session has started in this project yet"
        yield Finding(
            "hooks", WARNING, text, "start claude here, or prove it: podium doctor --live"
        )
    else:
        yield Finding("hooks", OK, f"the last SessionStart here was {_ago(seen)}")
    if written is not None and written < AHEAD:
        text = f"the database was written {-written} s in the future"
        yield Finding("clock", BROKEN, text, "set this machine's clock")
    else:
        yield Finding("clock", OK, "agrees with the database")


def _ago(seconds: int) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{max(seconds, 0)} s ago"


def scratch(place: Place) -> Iterator[Finding]:
    """temp/, and PID files that name nobody any more."""
    folder = place.settings.path("temp")
    if not os.path.isdir(folder):
        if os.path.exists(folder):
            aside = shlex.join(["mv", folder, f"{folder}.old"])
            text = f"{folder} is no folder, something else is in its place"
            yield Finding("temp", BROKEN, text, f"{aside} && podium init")
        elif os.path.exists(place.settings.database):
            yield Finding("temp", WARNING, f"there is no {folder}", "podium init")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "temp", BROKEN, f"{folder} cannot be written", shlex.join(["chmod", "u+rwx", folder])
        )
        return
    mode = os.stat(folder).st_mode & 0o777
    if mode & FOREIGN_EYES:
        text = f"others may read {folder} (mode {mode:o}): prompts, logs, handoffs"
        yield Finding("temp", WARNING, text, shlex.join(["chmod", "700", folder]))
    files = pidfile.every(folder).values()
    stale = [os.path.basename(file) for file in files if pidfile.is_nobody(pidfile.read(file))]
    if stale:
        text = f"{len(stale)} PID files name nobody any more ({', '.join(stale[:3])})"
        yield Finding("temp", WARNING, text, "podium conductor sweep")
    else:
        yield Finding("temp", OK, f"writable, {len(files)} sessions launched from here are running")


def backends(place: Place) -> Iterator[Finding]:
    """What can hold a session that the conductor launches."""
    program = place.client()
    kinds = (tmux.Tmux(), kitty.Kitty(), background.Background(program), headless.Headless())
    why = {b.name: b.works(place.facts) if program else "there is no client" for b in kinds}
    good = [name for name, reason in why.items() if not reason]
    rest = [f"not {name}: {reason}" for name, reason in why.items() if reason]
    if good:
        yield Finding("launch", OK, "; ".join([f"by {', '.join(good)}", *rest]))
    else:
        yield Finding("launch", WARNING, "; ".join(rest), "install Claude Code")


CHECKS: dict[str, Callable[[Place], Iterator[Finding]]] = {
    "python": python_of_hooks,
    "hooks": hooks_answer,
    "command": command_line,
    "comms-link": server,
    "client": the_client,
    "plugin": plugin,
    "launch": backends,
    "settings": settings,
    "database": database,
    "temp": scratch,
}
