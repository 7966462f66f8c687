"""podium doctor --live: one round trip of the real client, out of its user's sight."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def live(plugin: Path, program: Path, tmp_path: Path, project: Path) -> dict[str, Any]:
    """The last finding; fails when the user's home was touched."""
    home, programs = tmp_path / "home", tmp_path / "programs"
    home.mkdir()
    programs.mkdir()
    (programs / "claude").symlink_to(program)
    done = subprocess.run(
        [plugin / "bin" / "podium", "doctor", "--live", "--json"],
        cwd=project,
        env={
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TMPDIR": str(tmp_path),
            "PODIUM_PYTHON": sys.executable,
            "ANTHROPIC_API_KEY": "the user's own",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = json.loads(done.stdout)["findings"][-1]
    assert found["name"] == "live", done
    assert done.returncode == (1 if found["level"] == "broken" else 0)
    assert list(home.rglob("*")) == []
    assert sorted(p.name for p in tmp_path.glob("podium-doctor-*")) == []
    return dict(found)


def test_both_hooks_are_proved_with_the_real_client(
    program: Path, plugin: Path, tmp_path: Path, project: Path
) -> None:
    found = live(plugin, program, tmp_path, project)
    assert found["level"] == "ok", found
    assert "SessionStart and Stop did their work" in found["text"]


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("stop", "Stop did not hold a session with a live task"),
        ("session_start", "SessionStart did not reach the model"),
    ],
)
def test_a_hook_that_does_not_fire_is_found(
    program: Path, plugin: Path, tmp_path: Path, project: Path, hook: str, said: str
) -> None:
    broken = tmp_path / "plugin"
    for name in ("bin", "hooks", "src", "skills", ".claude-plugin"):
        shutil.copytree(plugin / name, broken / name)
    shutil.copy(plugin / "requirements.lock", broken)
    (broken / "hooks" / f"{hook}.py").write_text("")
    found = live(broken, program, tmp_path, project)
    assert (found["level"], found["text"]) == ("broken", said)
