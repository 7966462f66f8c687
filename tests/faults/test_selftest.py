"""podium selftest: the short form of all this, with the packages that users have."""

from __future__ import annotations

import ast
import json
import random
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from podium.entry.cli import main, selftest
from podium.entry.proof import report
from podium.entry.proof.child import PLUGIN
from podium.entry.proof.report import Amounts, Line, prove, table

if TYPE_CHECKING:
    from collections.abc import Callable

FEW = Amounts(
    steps=60, kills=3, takeovers=2, inputs=40, runners=2, tasks=20, wakes=1, starts=2, enough=30
)
PROOF = Path(report.__file__).parent
README = Path(PLUGIN, "README.md")


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str]]:
    """Runs the command with little of everything; exit code and output."""
    monkeypatch.setattr(selftest, "Amounts", lambda: FEW)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def call(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(["selftest", *words], prog_name="podium")
        return int(left.value.code or 0), capfd.readouterr().out

    return call


def test_selftest_finds_nothing_wrong_and_leaves_nothing_behind(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    code, out = run("--json", "--seed", "3")

    said: dict[str, Any] = json.loads(out)
    assert (code, said["broken"], said["seed"]) == (0, 0, 3)
    judged = {line["what"]: line["found"] for line in said["lines"] if line["wanted"] == 0}
    assert len(judged) >= 8
    assert set(judged.values()) == {0}
    assert {p.name for p in tmp_path.iterdir()} <= {"home", "project"}


def test_a_count_that_must_be_0_and_is_not_is_exit_1_with_its_detail(
    run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [Line("lost messages", 1, "9 kill -9", 0, "the hook of task-02"), Line("p50", 12)]
    monkeypatch.setattr(selftest, "prove", lambda *_: lines)

    code, out = run()

    assert code == 1
    assert "| lost messages | 1 " in out
    assert "the hook of task-02" in out


def test_the_parts_stop_when_they_have_done_enough(tmp_path: Path) -> None:
    seen: list[float] = []
    amounts = Amounts(steps=10**9, kills=0, inputs=1, tasks=4, runners=2, enough=0.05)
    first = next(prove(str(tmp_path), random.Random(1), amounts, lambda _, done: seen.append(done)))

    assert (first.found, first.is_wrong) == (0, False)
    assert 0 < len(seen) < 10**6
    assert seen == sorted(seen)


def test_the_table_is_one_in_markdown() -> None:
    rows = table([Line("half-written steps", 0, "100 kill -9", 0), Line("p50", 12, "40 waits")])

    assert len({len(row) for row in rows}) == 1
    assert all(row.count("|") == 5 for row in rows)


def test_the_readme_shows_the_table_that_selftest_prints(tmp_path: Path) -> None:
    least = Amounts(*[1] * (len(Amounts._fields) - 1), enough=30)
    printed = table(prove(str(tmp_path), random.Random(1), least, lambda *_: None))
    shown = README.read_text().split("`bin/podium selftest`", 1)[1]
    shown = [line for line in shown.split("\n## ")[0].splitlines() if line.startswith("|")]

    assert [_frame(row) for row in shown] == [_frame(row) for row in printed]
    for _, found, wanted, _ in map(_cells, shown[2:]):
        assert found == wanted or not wanted, shown


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _frame(row: str) -> list[str]:
    """A row of the table without what differs from run to run."""
    what, _, wanted, of = _cells(row)
    return [what.strip("-"), wanted.strip("-"), re.sub(r"[\d,]*\d", "n", of).strip("-")]


@pytest.mark.parametrize("path", sorted(PROOF.glob("*.py")), ids=lambda path: path.name)
def test_the_proof_needs_only_what_users_have(path: Path) -> None:
    tree = ast.walk(ast.parse(path.read_text()))
    named = {
        name.split(".")[0]
        for node in tree
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        if not getattr(node, "level", 0)
    }
    assert named <= {"podium", "click", "jsonschema", "filelock", *sys.stdlib_module_names}
