"""README's Install section, typed word for word into the real client."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.model import Model, Play, Say, When

if TYPE_CHECKING:
    from client.driver import Client

README = (Path(__file__).parents[2] / "README.md").read_text()
INSTALL = README.split("\n## Install\n")[1].split("\n## ")[0]
LOCAL = "./podium"
NOT_SHIPPED = (".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")


def commands() -> list[list[str]]:
    """The lines of the section's one block."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", INSTALL, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def way_out() -> list[str]:
    (command,) = re.findall(r"`(claude plugin uninstall [^`]+)`", INSTALL)
    return shlex.split(command)


def snapshot(project: Path) -> dict[str, bytes]:
    return {str(f.relative_to(project)): f.read_bytes() for f in project.rglob("*") if f.is_file()}


@pytest.fixture
def clone(plugin: Path, tmp_path: Path) -> Path:
    """What a user has after cloning; the commands are typed in the folder above."""
    there = tmp_path / "clones" / LOCAL
    shutil.copytree(plugin, there, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    return there


def git(*words: str, cwd: Path, home: Path) -> None:
    identity = ["-c", "user.name=N", "-c", "user.email=n@example.invalid"]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, *words], cwd=cwd, env=env, check=True, capture_output=True)


@pytest.fixture(params=["folder", "repository"])
def source(request: pytest.FixtureRequest, clone: Path, client: Client) -> str:
    """The word that stands for the marketplace: the folder as written, or a repository's URL."""
    if request.param == "folder":
        return LOCAL
    git("init", "-q", "-b", "main", cwd=clone, home=client.home)
    git("add", "-A", cwd=clone, home=client.home)
    git("commit", "-q", "-m", "all", cwd=clone, home=client.home)
    (client.home / ".gitconfig").write_text(
        f'[url "file://{clone}"]\n\tinsteadOf = https://git.example.invalid/podium.git\n'
    )
    return "https://git.example.invalid/podium.git"


def test_the_install_section_installs_and_the_way_out_leaves_the_project_alone(
    client: Client, model: Model, project: Path, plugin: Path, clone: Path, source: str
) -> None:
    model.perform(
        Play(When("CLAUDE_SESSION_ID=", Say("it told me who I am")), When("", Say("nobody did")))
    )
    subprocess.run(
        [plugin / "bin" / "podium", "init"],
        cwd=project,
        env={"PATH": os.environ["PATH"], "PODIUM_PYTHON": sys.executable},
        check=True,
        capture_output=True,
    )
    before = snapshot(project)

    for program, kind, *words in commands():
        assert (program, kind) == ("claude", "plugin")
        typed = [source if word == LOCAL else word for word in words]
        done = client.plugin(*typed, project=clone.parent)
        assert done.code == 0, done
    assert client.headless("hello", project=project).text == "it told me who I am"
    said = client.headless("/musician", project=project, env={"PODIUM_PYTHON": sys.executable})
    assert "Unknown command" not in said.stdout

    assert client.plugin(*way_out()[2:], project=clone.parent).code == 0
    assert client.headless("hello", project=project).text == "nobody did"
    after = snapshot(project)
    changed = {name for name in before if before[name] != after.get(name)}
    assert {name for name in changed if not name.startswith("comms.db")} == set()
    assert set(after) - set(before) <= {"comms.db-wal", "comms.db-shm"}


def test_the_manifest_passes_the_clients_own_validation(
    client: Client, project: Path, plugin: Path
) -> None:
    for name in ("plugin.json", "marketplace.json"):
        path = plugin / ".claude-plugin" / name
        done = client.plugin("validate", path, project=project)
        assert done.code == 0, done
