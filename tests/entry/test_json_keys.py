"""docs/json.md lists what every command answers with --json; here each is asked, and compared."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from manual import leaves

if TYPE_CHECKING:
    import pytest
    from conftest import Said

    Podium = Callable[..., Said]

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
WRITE = os.environ.get("PODIUM_WRITE_DOCS")  # beside the page, to be read and taken over
BOSS, S1, S2, S3 = "boss-1", "player-1", "player-2", "player-3"
SUBMIT = "musician submit --checkpoint 1/2 --smoothness 2 --summary s --files 3 --tests ok"
FINISH = "musician finish --smoothness 1 --summary s --files 3 --tests ok --report report.md"

# In this order; each leaves the run where the next one needs it. (command, who says it, exit code)
SCRIPT: list[tuple[str, str | None, int]] = [
    ("init", None, 0),
    ("conductor start", BOSS, 0),
    ("conductor add task-01 --instructions task.md", BOSS, 0),
    ("conductor plan plan.json", BOSS, 0),
    ("conductor next", BOSS, 0),
    ("conductor launch task-02 --dry-run --backend headless", BOSS, 0),
    ("musician claim task-01", S1, 0),
    ("musician claim task-02", S2, 0),
    ("brief", S1, 0),
    ("musician log started", S1, 0),
    ("musician deviation other --severity low", S1, 0),
    ("musician context", S1, 0),
    ("musician beat", S1, 0),
    ("musician siblings", S1, 0),
    (SUBMIT, S1, 0),
    ("conductor review task-01", BOSS, 0),
    ("conductor reject task-01 -m no", BOSS, 0),
    ("musician inbox", S1, 0),
    ("musician warn", S1, 0),
    ("conductor fix task-01 -m so", BOSS, 0),
    ("musician error --error broken", S1, 0),
    ("conductor broadcast -m hear", BOSS, 0),
    ("conductor approve task-01 -m go", BOSS, 0),
    (FINISH, S1, 0),
    ("conductor approve task-01 -m good", BOSS, 0),
    ("musician complete --report report.md", S1, 0),
    ("conductor recall task-02", BOSS, 0),
    ("musician exit --reason recalled", S2, 1),
    ("musician exit --reason recalled", S2, 0),
    ("conductor handoff task-02", BOSS, 0),
    ("musician claim task-02", S3, 0),
    ("musician resume", S3, 0),
    ("conductor sweep", BOSS, 0),
    ("conductor close task-01", BOSS, 0),
    ("status", None, 0),
    ("messages", None, 0),
    ("timeline", None, 0),
    ("why task-01", None, 0),
    ("wait --task task-02 --timeout 0", None, 4),
    ("validate task-01", None, 0),
    ("temp task-01", None, 0),
    ("headroom task-01", None, 1),
    ("conductor abandon task-02 -m over", BOSS, 0),
    ("conductor rest", BOSS, 0),
    ("conductor start", BOSS, 0),
    ("conductor finish", BOSS, 0),
]


def shape(value: Any) -> str:
    """The keys of an answer; of a list of objects, its objects' keys."""
    if isinstance(value, dict):
        return ", ".join(
            f"{name} [{shape(inner[0])}]"
            if isinstance(inner, list) and inner and isinstance(inner[0], dict)
            else name
            for name, inner in value.items()
        )
    return ""


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: keys.replace("`", "") for name, keys in rows}


def _quoted(keys: str) -> str:
    return re.sub(r"[a-z_]+", lambda word: f"`{word.group()}`", keys)


def verb(command: str) -> str:
    words = command.split()
    return " ".join(words[:2]) if words[0] in ("conductor", "musician") else words[0]


def test_every_key_is_documented_and_every_documented_key_is_there(
    podium: Podium, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("task.md", "report.md"):
        (project / name).write_text("…\n")
    plan = '{"tasks": [{"id": "task-02", "instructions": "task.md"}]}'
    (project / "plan.json").write_text(plan)
    (project / "podium.json").write_text('{"launch": {"client": "/bin/true"}}')
    monkeypatch.chdir(project)
    found: dict[str, str] = {}
    handoff = project / "temp" / "task-02-HANDOFF"
    for command, session, code in SCRIPT:
        said = podium("--json", *command.split(), session=session, expect=code)
        keys = shape(said.json) if said.out else ""
        if handoff.exists():  # filled in, with a deviation that is logged nowhere
            text = handoff.read_text().replace("<fill in", "<filled in")
            handoff.write_text(text.replace("- none\n", "- another tempo (Low)\n"))
        if len(keys) > len(found.get(verb(command), "")):
            found[verb(command)] = keys

    if WRITE:
        rows = "".join(f"| `{name}` | {_quoted(keys)} |\n" for name, keys in found.items())
        PAGE.with_suffix(".new").write_text(rows, encoding="utf-8")
    page = documented()
    assert {name: page.get(name) for name in found} == found


def test_every_command_has_its_line() -> None:
    assert set(documented()) == {" ".join(path) for path in leaves()}
