"""The client under test, fetched by npm once per version and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGE = "@anthropic-ai/claude-code"


class NoClient(Exception):
    """The client cannot be had; the text says why."""


def client_path(version: str) -> Path:
    """The `claude` program of that version (`latest`: the newest), installed if need be.

    Raises NoClient. Several processes may ask at once: each builds aside, the first rename counts.
    """
    if not version[:1].isdigit():
        version = _npm("view", f"{PACKAGE}@{version}", "version").split()[-1]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "podium-tests" / "clients" / version
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=home.parent))
        try:
            # The install script only copies the native program, which is used where it is.
            _npm("install", f"{PACKAGE}@{version}", "--prefix", str(aside), "--ignore-scripts")
            _program(aside, version)
            aside.rename(home)
        except OSError:
            if not home.is_dir():
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return _program(home, version)


def _program(home: Path, version: str) -> Path:
    """The native program in an installation, or NoClient if it is not the version wanted."""
    for program in sorted(home.glob("node_modules/@anthropic-ai/claude-code-*/claude")):
        said = subprocess.run([program, "--version"], text=True, capture_output=True, check=False)
        if said.stdout.split()[:1] == [version]:
            return program
    raise NoClient(f"{home} holds no claude {version} that runs here; remove it and try again")


def _npm(*args: str) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise NoClient("npm is not on PATH; it is needed to install the client")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    done = subprocess.run([npm, *args, *quiet], text=True, capture_output=True, check=False)
    if done.returncode:
        raise NoClient(f"npm {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
