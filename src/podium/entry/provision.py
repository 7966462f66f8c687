"""Makes a Python environment from a lock file: `python3 -I provision.py LOCKFILE VENVDIR`.

Standard library only. Any number may run at once: one builds, the others wait for it. The
environment appears whole, by one rename, or not at all. Exit 3 with one line if it cannot be made.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_SET_UP, INTERRUPTED = 3, 130
WANTED = (3, 10)

NO_INDEX = (
    "the pinned packages cannot be fetched; check the network, or name a package index that has "
    "them in PIP_INDEX_URL (for uv: UV_DEFAULT_INDEX)"
)
NO_VENV = "this Python has no venv; run: apt install python3-venv (Debian, Ubuntu), or install uv"

# What a builder's output shows, and the line it becomes. The first match wins.
REASONS = (
    ("No space left|quota exceeded", "the disk is full; free some space and run it again"),
    (
        "(?i)do not match the hashes|hash mismatch",
        "a package differs from its pinned hash, so nothing was installed; try another mirror",
    ),
    ("Failed to fetch|No solution found|No matching distribution|Connection|timed out", NO_INDEX),
    ("(?im)^ *error: (.+)", r"\1"),
)

# Settings that would lead the packages elsewhere. Mirrors, proxies and certificates stay.
DIVERTING = re.compile(
    "PYTHON.*|__PYVENV_LAUNCHER__|VIRTUAL_ENV|CONDA_PREFIX"
    "|PIP_(USER|TARGET|PREFIX|ROOT|PYTHON|CONSTRAINT|NO_BINARY|REQUIREMENT)"
    "|UV_(PYTHON|SYSTEM_PYTHON|CONSTRAINT|OVERRIDE|NO_BINARY|NO_VERIFY_HASHES|PROJECT)"
)


class NotPrepared(Exception):
    """The environment cannot be made; the text says why and what to do."""


def main(lockfile: str, venv: str) -> int:
    """0 when `venv` is ready, whoever built it; 3 after one line when it cannot be."""
    venv = os.path.abspath(venv)
    try:
        prepare(os.path.abspath(lockfile), venv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        say(
            f"cannot write its Python environment to {os.path.dirname(venv)}: {error.strerror}; "
            "make room there, or set XDG_DATA_HOME to a folder you can write to"
        )
        return NOT_SET_UP
    except Exception as error:  # noqa: BLE001 - whoever waits for a command gets a line, whatever fails
        say(f"cannot prepare its Python environment: {error}")
        return NOT_SET_UP
    return 0


def say(line: str) -> None:
    """One line for whoever waits; stdout belongs to the command."""
    print(f"podium: {line}", file=sys.stderr, flush=True)


def prepare(lockfile: str, venv: str) -> None:
    """Leave a ready environment at `venv`, or raise."""
    if sys.version_info < WANTED:
        found = ".".join(map(str, sys.version_info[:3]))
        raise NotPrepared(f"found Python {found}, 3.10 or newer is wanted; install one")
    os.makedirs(os.path.dirname(venv), mode=0o700, exist_ok=True)
    with exclusive(f"{venv}.lock") as lock:
        if not os.access(python_of(venv), os.X_OK):
            say("preparing its Python environment, once …")
            build(lockfile, venv, lock)


@contextmanager
def exclusive(path: str) -> Iterator[int]:
    """Hold a lock that ends with the last process to inherit it, waiting as long as it takes."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for its Python environment, which another start prepares …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def build(lockfile: str, venv: str, lock: int) -> None:
    """Build beside `venv`, then move it into place; nothing is left of a failure."""
    draft = f"{venv}.building"
    try:
        fill(draft, lockfile, lock)
        shutil.rmtree(venv, ignore_errors=True)  # there, but its interpreter was removed
        os.rename(draft, venv)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def fill(draft: str, lockfile: str, lock: int) -> None:
    """Install the lock file's packages into a new environment; raises the first failure."""
    failures = []
    # Where uv fails pip may not: a mirror is often set up for pip alone.
    for builder in (with_uv, with_pip) if shutil.which("uv") else (with_pip,):
        shutil.rmtree(draft, ignore_errors=True)  # left by a killed build, or by uv
        try:
            for command in builder(draft, lockfile):
                run(command, os.path.dirname(draft), lock)
        except NotPrepared as failure:
            failures.append(failure)
        else:
            return
    raise failures[0]


def with_uv(draft: str, lockfile: str) -> list[list[str]]:
    """The commands, with uv."""
    install = ["uv", "pip", "install", "--quiet", "--compile-bytecode"]
    return [
        ["uv", "venv", "--quiet", "--no-project", "--python", base_python(), draft],
        [*install, "--python", python_of(draft), *pinned(lockfile)],
    ]


def with_pip(draft: str, lockfile: str) -> list[list[str]]:
    """The commands, with nothing but Python; refuses one that comes without venv."""
    if not (find_spec("venv") and find_spec("ensurepip")):
        raise NotPrepared(NO_VENV)
    module = [python_of(draft), "-I", "-m"]
    install = [*module, "pip", "install", "--quiet", "--no-user", "--disable-pip-version-check"]
    return [
        [base_python(), "-I", "-m", "venv", "--without-pip", draft],
        [*module, "ensurepip"],  # apart, because venv would keep its reason to itself
        [*install, *pinned(lockfile)],
    ]


def pinned(lockfile: str) -> list[str]:
    """What pip and uv share: every package by its hash, none by running its build."""
    return ["--require-hashes", "--only-binary", ":all:", "-r", lockfile]


def python_of(venv: str) -> str:
    """The interpreter of an environment."""
    return os.path.join(venv, "bin", "python")


def base_python() -> str:
    """The running interpreter outside any environment, by a name that keeps its version."""
    # An environment on plain `python3` loses its packages when that becomes the next version.
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    name = "python{}.{}".format(*sys.version_info)
    versioned = os.path.join(os.path.dirname(base), name)
    return versioned if os.access(versioned, os.X_OK) else os.path.realpath(base)


def run(command: list[str], folder: str, lock: int) -> None:
    """Run to the end, or raise with the reason."""
    done = subprocess.run(
        command,
        cwd=folder,  # out of reach of a project's own uv.toml or pyproject.toml
        env={name: value for name, value in os.environ.items() if not DIVERTING.fullmatch(name)},
        pass_fds=[lock],  # if this process is killed, the next waits until the builder is gone
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise NotPrepared(reason(done.stdout) or f"{command[0]} ended with {done.returncode}")


def reason(output: str) -> str:
    """The line that says why; the output's last one if nothing is known about it."""
    for pattern, line in REASONS:
        if found := re.search(pattern, output):
            return found.expand(line)
    return output.strip().rpartition("\n")[2]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
