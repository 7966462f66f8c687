"""What the documents promise exists: commands, outputs, links, files, states, settings, texts."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
from conftest import PATH, PLUGIN

from podium.domain import errors
from podium.domain.states import MOVES, Kind, moves_from
from podium.domain.tables import page
from podium.entry.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

README = PLUGIN / "README.md"
DOCUMENTS = [
    *(README, PLUGIN / "CHANGELOG.md", PLUGIN / "CONTRIBUTING.md"),
    *sorted((PLUGIN / "docs").rglob("*.md")),
]
FOLDERS = "src|bin|tests|docs|hooks|benchmarks|skills|.ci|.claude-plugin".replace(".", r"\.")


def name_of(path: Path) -> str:
    return str(path.relative_to(PLUGIN))


def section(path: Path, title: str) -> str:
    """The text under a heading."""
    return path.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def inline(text: str) -> list[str]:
    """What stands in backticks outside fenced blocks."""
    return re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    )


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def commands(path: Path) -> Iterator[list[str]]:
    """The words of every podium command that a document names."""
    text = path.read_text()
    fenced = [line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
              for line in block.splitlines()]  # fmt: skip
    for line in [*inline(text), *fenced]:
        found = re.match(r"(?:\w*\$ |bin/)?podium (.*)", line)
        if found:
            yield shlex.split(found[1], comments=True)


def resolve(words: list[str]) -> click.Command:
    """The command that these words name; fails when a word or an option does not exist."""
    command: click.Command = main
    context = click.Context(main)
    for place, word in enumerate(words):
        if isinstance(command, click.Group) and not word.startswith("-"):
            if word in ("COMMAND", "…"):
                return command
            found = command.get_command(context, word)
            assert found is not None, f"there is no podium {' '.join(words[: place + 1])}"
            command = found
        elif word.startswith("--"):
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
            assert word.split("=")[0] in known, f"podium {' '.join(words)} has no {word}"
    return command


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_that_is_named_exists(path: Path) -> None:
    for words in commands(path):
        resolve(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if not re.match(r"https?://", target):
            assert (path.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_file_that_is_named_exists(path: Path) -> None:
    for span in inline(path.read_text()):
        for name in re.findall(rf"(?:^|(?<=\s))(?:{FOLDERS})/[\w./*-]*", span):
            if not name.startswith(("docs/tasks/", "docs/implementation/")):  # a user's project
                assert list(PLUGIN.glob(name.rstrip("/"))), name


def named_tests(text: str) -> list[tuple[str, str]]:
    """The tests that a text names, as file and function."""
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_test_that_is_named_exists(path: Path) -> None:
    for file, name in named_tests(path.read_text()):
        assert re.search(rf"^(?:async )?def {name}\(", (PLUGIN / file).read_text(), re.MULTILINE), (
            f"there is no {file}::{name}"
        )


def test_every_claim_of_the_security_page_names_its_test() -> None:
    text = (PLUGIN / "docs" / "security.md").read_text()
    claims = [row for part in text.split("\n## ")[1:] for row in rows(part)]

    assert len(claims) > 40
    assert [row[0] for row in claims if not named_tests(row[-1])] == []
    assert text.count("::") == len(named_tests(text)), "a name that is not a test's"


def source() -> str:
    folders = ("src", "bin", "hooks", "skills")
    files = [f for name in folders for f in (PLUGIN / name).rglob("*") if f.is_file()]
    return "\n".join(f.read_text(errors="replace") for f in files if f.suffix != ".pyc")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_name_in_code_letters_is_a_name_of_the_code(path: Path) -> None:
    code = source()
    names = {s for s in inline(path.read_text()) if re.fullmatch(r"[a-z]+(_[a-z]+)+", s)}
    assert {name for name in names if name not in code} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_exit_codes_are_those_of_the_protocol(path: Path) -> None:
    known = {0, *(v for k, v in vars(errors).items() if k.isupper() and isinstance(v, int))}
    named = re.findall(r"[Ee]xit(?:s with| code)?s?:? (\d+)", path.read_text())
    assert {int(code) for code in named} <= known


def test_the_exit_codes_of_the_readme_are_all_of_them() -> None:
    told = re.search(r"Exit codes: (.*?)\.", section(README, "Commands"), re.DOTALL)
    assert told
    known = {0, *(v for k, v in vars(errors).items() if k.isupper() and isinstance(v, int))}
    assert {int(code) for code in re.findall(r"\b(\d) ", told[1])} == known


def test_the_table_of_moves_is_the_one_of_the_code() -> None:
    assert (PLUGIN / "docs" / "states.md").read_text() == page(), (
        "write it anew: PYTHONPATH=src python3 -c "
        "'from podium.domain.tables import page; print(page(), end=\"\")' > docs/states.md"
    )


def test_the_picture_of_the_readme_shows_only_moves_that_exist_and_every_state() -> None:
    (picture,) = blocks(README.read_text(), "mermaid")
    edges = re.findall(r"^ *(\w+|\[\*\]) --> (\w+|\[\*\])", picture, re.MULTILINE)
    task = {state.value: state for state in MOVES[Kind.TASK]}
    drawn = [(a, b) for a, b in edges if "[*]" not in (a, b)]
    for a, b in drawn:
        assert task[b] in moves_from(Kind.TASK, task[a]), (a, b)
    assert {name for edge in drawn for name in edge} == set(task)
    assert ("[*]", "watching") in edges


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, (*path, name))
    else:
        yield path


def test_the_readmes_table_of_commands_is_the_command_line() -> None:
    told = set()
    for what, names in rows(section(README, "Commands")):
        group = re.search(r"`(\w+) …`", what)
        prefix = (group[1],) if group else ()
        told |= {(*prefix, name) for name in re.findall(r"`([\w-]+)`", names)}
    assert told == set(leaves(main))


def schema() -> dict[str, Any]:
    path = PLUGIN / "src" / "podium" / "schemas" / "settings.json"
    return dict(json.loads(path.read_text()))


def test_the_readmes_settings_are_those_of_the_schema() -> None:
    parts = schema()["properties"]
    table = {cells[0].strip("`"): cells[1] for cells in rows(section(README, "Settings"))}
    assert set(table) == set(parts) - {"$schema"}
    for name, text in table.items():
        part = parts[name]
        part = schema()["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        inner = part.get("properties", {})
        values = {v for rule in inner.values() for v in rule.get("enum", ())}
        spans = set(re.findall(r"`([a-z_]+)`", text))
        assert spans <= {*inner, *values}, name


def test_the_readmes_errors_are_what_podium_says() -> None:
    code = re.sub(r'"\s*\n\s*f?"', "", source())  # a text may be written in pieces
    for said, _ in rows(section(README, "Troubleshooting")):
        assert said.strip("`") in code, said


def test_every_figure_has_a_command_that_prints_it() -> None:
    for cells in rows(section(README, "Figures")):
        program, *words = shlex.split(cells[2].strip("`"))
        assert os.access(PLUGIN / program, os.X_OK), program
        assert all((PLUGIN / word).exists() for word in words), cells[2]


def test_the_readme_is_short() -> None:
    assert len(re.findall(r"\S*\w\S*", README.read_text())) <= 1200


def test_contributing_fits_a_page() -> None:
    assert len(re.findall(r"\S*\w\S*", (PLUGIN / "CONTRIBUTING.md").read_text())) <= 450


def test_the_changelog_begins_with_what_is_not_released() -> None:
    heads = re.findall(r"^## (.*)", (PLUGIN / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "[Unreleased]"


def test_the_first_screen_names_what_it_is_and_the_two_commands() -> None:
    first = README.read_text().splitlines()[:14]
    assert first[0] == "# podium"
    named = [line.split("#")[0].split() for line in blocks("\n".join(first), "sh")[0].splitlines()]
    assert named == [["bin/podium", "demo"], ["tests/run"]]
    for program, *_ in named:
        assert os.access(PLUGIN / program, os.X_OK)


def turns() -> list[tuple[str, str, list[str]]]:
    """The README's transcript: who typed what, and what was answered."""
    (transcript,) = blocks(README.read_text(), "console")
    found: list[tuple[str, str, list[str]]] = []
    for line in transcript.splitlines():
        typed = re.match(r"(\w+)\$ (.*)", line)
        if typed:
            found.append((typed[1], typed[2], []))
        else:
            found[-1][2].append(line)
    return found


def test_the_transcript_of_the_readme_is_what_happens(project: Path, tmp_path: Path) -> None:
    (project / "docs" / "tasks").mkdir(parents=True)
    (project / "docs" / "tasks" / "task-01.md").write_text("Move the login.\n")
    (project / "report.md").write_text("Moved.\n")

    def run(command: str, session: str) -> list[str]:
        done = subprocess.run(
            [PLUGIN / "bin" / "podium", *shlex.split(command)[1:]],
            cwd=project,
            env={
                "PATH": PATH,
                "HOME": str(tmp_path),
                "PODIUM_PYTHON": sys.executable,
                "LANG": "C.UTF-8",
                "CLAUDE_CODE_SESSION_ID": session,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout.splitlines()

    run("podium init", "conductor")
    run("podium conductor start", "conductor")
    played = turns()
    for who, command, answer in played:
        assert run(command, who) == answer, command
    assert 10 <= sum(1 + len(answer) for _, _, answer in played) <= 12


def test_every_line_of_shell_in_the_readme_is_run_by_a_test() -> None:
    run_by = {
        "bin/podium demo": "tests/entry/test_demo.py",
        "tests/run": "tests/run",
        "claude plugin marketplace add ./podium": "tests/client/test_install_client.py",
        "claude plugin install podium@podium": "tests/client/test_install_client.py",
    }
    for block in blocks(README.read_text(), "sh"):
        for line in block.splitlines():
            command = line.split("#")[0].strip()
            if not command.startswith("benchmarks/"):
                assert (PLUGIN / run_by[command]).is_file(), command
            else:
                assert os.access(PLUGIN / command.split()[0], os.X_OK), command
