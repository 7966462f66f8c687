"""Fixtures for every test: a home and a database of its own, hooks run as the client runs them."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import protocol
import pytest

from podium.store import migrate, open_store

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from podium.store.base import Store

PLUGIN = Path(__file__).parents[1]
REAL_HOME = Path.home()
# A python3 without a version manager's script before it, then the system's own tools.
PATH = os.pathsep.join((os.path.dirname(os.path.realpath(sys.executable)), "/usr/bin", "/bin"))
HOOK_TIMEOUT = 20


class _HomeGuard:
    """Makes every file that this process opens in the user's real home an error."""

    EVENTS = (
        *("open", "sqlite3.connect", "os.listdir", "os.scandir"),
        *("os.mkdir", "os.rename", "os.remove", "os.rmdir"),
    )

    def __init__(self) -> None:
        self.armed = False
        # Interpreter, tests and temporary files may live in the home of whoever runs the tests.
        mine = (PLUGIN, sys.prefix, sys.base_prefix, tempfile.gettempdir())
        self.fine = tuple(os.path.realpath(folder) + os.sep for folder in mine)
        self.home = os.path.realpath(REAL_HOME) + os.sep

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if not self.armed or event not in self.EVENTS or not isinstance(args[0], (str, bytes)):
            return
        path = os.path.abspath(os.fsdecode(args[0])) + os.sep
        if path.startswith(self.home) and not path.startswith(self.fine):
            self.armed = False  # pytest itself may look there to report this
            pytest.fail(f"{event} touched the real home: {path}")


_guard = _HomeGuard()
sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    if "client" in request.path.relative_to(PLUGIN).parts:
        yield  # isolates the client itself, and keeps its program in the real cache
        return
    for name in [n for n in os.environ if n.startswith(("CLAUDE", "PODIUM_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    _guard.armed = True
    yield
    _guard.armed = False


@pytest.fixture(scope="session")
def _new_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new") / "comms.db"
    migrate.create(str(path)).close()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project."""
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def db(project: Path, _new_database: Path) -> Path:
    """A database as `podium init` leaves it, but without a row."""
    return Path(shutil.copy(_new_database, project))


@pytest.fixture
def raw(db: Path) -> Iterator[sqlite3.Connection]:
    """The database opened as any program would open it."""
    connection = protocol.connect(db)
    yield connection
    connection.close()


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    """The database opened as podium opens it."""
    opened = open_store(str(db))
    yield opened
    opened.close()


@dataclass(frozen=True)
class Answer:
    """What a hook said: its JSON object, None when it printed nothing."""

    said: dict[str, Any] | None

    @property
    def context(self) -> str:
        """What the model is told: at Stop, this makes the turn go on."""
        return str(((self.said or {}).get("hookSpecificOutput") or {}).get("additionalContext", ""))

    @property
    def held(self) -> bool:
        """Whether a Stop was answered with a reason to go on, in either form."""
        return bool(self.context) or (self.said or {}).get("decision") == "block"

    @property
    def notice(self) -> str:
        """What the person is told."""
        return str((self.said or {}).get("systemMessage", ""))


def _unprivileged() -> None:
    """Make file modes count for root too, from the next exec on."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.fixture
def hook(project: Path, tmp_path: Path) -> Callable[..., Answer]:
    """Runs a hook as the client does: `hook("stop", {"session_id": …}, CLAUDE_PROJECT_DIR=…)`.

    A payload may be bytes; an environment variable that is None is not set. Fails unless the hook
    exits 0, keeps stderr empty and prints nothing or one JSON object: that holds for every call.
    """

    def run(
        name: str,
        payload: dict[str, Any] | bytes,
        *,
        cwd: Path | None = None,
        python: str | None = None,
        **changes: str | None,
    ) -> Answer:
        stdin = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        env: dict[str, str | None] = {
            "PATH": f"{python}{os.pathsep}{PATH}" if python else PATH,
            "HOME": str(tmp_path / "home"),
            "LANG": "C.UTF-8",
            "CLAUDECODE": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_PLUGIN_ROOT": str(PLUGIN),
            "CLAUDE_PROJECT_DIR": str(project),
            **changes,
        }
        done = subprocess.run(
            ["/bin/sh", str(PLUGIN / "hooks" / "hook.sh"), *name.split()],
            input=stdin,
            capture_output=True,
            timeout=HOOK_TIMEOUT,
            check=False,
            cwd=cwd or project,
            env={k: v for k, v in env.items() if v is not None},
            preexec_fn=_unprivileged,  # one thread, and only libc is called
        )
        assert (done.returncode, done.stderr) == (0, b""), done
        said = json.loads(done.stdout) if done.stdout else None
        assert said is None or isinstance(said, dict)
        return Answer(said)

    return run


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its answer to --json."""
        return json.loads(self.out)


@pytest.fixture
def podium(project: Path) -> Callable[..., Said]:
    """Runs a command in the project: `podium("musician", "claim", "task-01", session="s1")`.

    An exit code that is neither 0 nor expected fails; an error is one line on stderr, always.
    """

    def run(*words: str, session: str | None = None, expect: int = 0, stdin: bytes = b"") -> Said:
        as_session = ["--session", session] if session else []
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                str(PLUGIN / "src" / "podium" / "__main__.py"),
                *as_session,
                *words,
            ],
            input=stdin,
            capture_output=True,
            check=False,
            cwd=project,
        )
        said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert said.code == expect, said
        assert "Traceback" not in said.err
        assert len(said.err.splitlines()) == (1 if said.err else 0), said.err
        return said

    return run
