"""The shape of the bundle and of the code, tested like behaviour."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest
from conftest import PATH, PLUGIN, REAL_HOME
from protocol import add, own, send

from podium.domain.states import State

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from conftest import Answer

PACKAGE = PLUGIN / "src" / "podium"
MODULES = sorted(PACKAGE.rglob("*.py"))
HOOK_FILES = sorted((PLUGIN / "hooks").glob("*.py"))


def name_of(path: Path) -> str:
    """A file of the bundle, as its tests are called."""
    return str(path.relative_to(PLUGIN))


# The bundle


@pytest.mark.parametrize(
    ("link", "target"),
    [("plugin.json", ".claude-plugin/plugin.json"), ("hooks.json", "hooks/hooks.json")],
)
def test_the_top_level_files_are_relative_links_to_the_real_ones(link: str, target: str) -> None:
    assert os.readlink(PLUGIN / link) == target
    assert (PLUGIN / link).read_bytes() == (PLUGIN / target).read_bytes()


def test_the_manifest_does_not_name_the_hooks_that_the_client_finds_by_itself() -> None:
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    named = manifest.get("hooks", [])
    real = (PLUGIN / "hooks" / "hooks.json").resolve()
    for path in [named] if isinstance(named, str) else named:
        assert (PLUGIN / path).resolve() != real
        assert (PLUGIN / path).is_file()


def hook_commands() -> Iterator[dict[str, Any]]:
    """Every hook that a hooks file registers."""
    for file in sorted((PLUGIN / "hooks").glob("*.json")):
        for matchers in json.loads(file.read_text())["hooks"].values():
            for matcher in matchers:
                yield from matcher["hooks"]


def test_hooks_are_run_without_a_shell_reading_their_command_line() -> None:
    for hook in hook_commands():
        assert hook["type"] == "command"
        assert hook["command"] == "/bin/sh"
        script, name, *_ = hook["args"]
        assert script == "${CLAUDE_PLUGIN_ROOT}/hooks/hook.sh"
        assert (PLUGIN / "hooks" / f"{name}.py").is_file()
        assert 0 < hook["timeout"] < 2_147_483  # more, and the client's timer overflows


def test_what_is_run_has_its_run_bit() -> None:
    programs = [PLUGIN / "hooks" / "hook.sh", *(PLUGIN / "bin").iterdir(), PLUGIN / "tests" / "run"]
    assert [name_of(p) for p in programs if p.is_file() and not os.access(p, os.X_OK)] == []


@pytest.mark.parametrize("path", HOOK_FILES, ids=name_of)
def test_a_hook_file_is_wiring(path: Path) -> None:
    text = path.read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 10
    found = {type(node) for node in ast.walk(ast.parse(text))}
    assert not found & {ast.FunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.Try}


def test_no_file_beside_the_hooks_shadows_a_module_of_python() -> None:
    assert not {p.stem for p in HOOK_FILES} & set(sys.stdlib_module_names)


SKIPPED = {"__pycache__", "node_modules", "temp"}
LEAKS = re.compile(  # written so that it does not find itself
    r"/(?:hom[e]|User[s])/[A-Za-z]|/roo[t]\b|\bpyp[i]\.org|pythonhoste[d]\.|npmj[s]\."
)


def bundle() -> Iterator[Path]:
    """Every file of the repository that is not made by running it."""
    for folder, folders, files in os.walk(PLUGIN):
        folders[:] = [f for f in folders if f not in SKIPPED and f not in (".git", ".venv")]
        folders[:] = [f for f in folders if not f.endswith("_cache") and f != ".hypothesis"]
        yield from (Path(folder, file) for file in files if not file.startswith("comms.db"))


def test_no_file_names_a_home_or_a_package_registry() -> None:
    leaks = {}
    for path in bundle():
        found = LEAKS.search(path.read_text(encoding="utf-8", errors="replace"))
        if found:
            leaks[name_of(path)] = found[0]
    assert leaks == {}


# Layers

MAY_IMPORT = {
    "domain": {"domain"},
    "store": {"store", "domain"},
    "services": {"services", "store", "domain"},
    "stage": {"stage", "domain"},
    "entry": {"entry", "services", "stage", "store", "domain"},
    "__init__.py": set(),
    "__main__.py": {"entry"},
}


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a module imports anywhere in it, relative ones resolved."""
    package = ["podium", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_its_own_layer_and_those_below(path: Path) -> None:
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("podium.")}
    assert ours & set(MAY_IMPORT) <= MAY_IMPORT[layer(path)]


@pytest.mark.parametrize("path", sorted((PACKAGE / "domain").glob("*.py")), ids=name_of)
def test_the_domain_is_pure(path: Path) -> None:
    names = {name.split(".")[0] for name in imports(path)} - {"podium"}
    assert names <= set(sys.stdlib_module_names)
    assert not names & {"os", "io", "time", "datetime", "sqlite3", "subprocess", "socket", "random"}


def texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|PRAGMA|BEGIN|WITH)\s")


@pytest.mark.parametrize("path", [p for p in MODULES if layer(p) != "store"], ids=name_of)
def test_no_statement_stands_outside_the_store(path: Path) -> None:
    assert [text for text in texts(path) if SQL.match(text)] == []


# Words that mean something else too: verbs, a message type, a field of JSON-RPC.
HOMONYMS = {State.ERROR.value, State.COMPLETE.value}


def compared_states(path: Path) -> Iterator[str]:
    """Homonyms that stand where only a state can."""
    for node in ast.walk(ast.parse(path.read_text())):
        pair: tuple[ast.expr, ...] = ()
        if isinstance(node, ast.Compare):
            pair = (node.left, *node.comparators)
        elif isinstance(node, ast.keyword) and node.arg in ("state", "to_state", "found"):
            pair = (ast.Name("state"), node.value)
        words = {c.value for part in pair for c in ast.walk(part) if isinstance(c, ast.Constant)}
        if words & HOMONYMS and any("state" in ast.dump(part).lower() for part in pair):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", [p for p in MODULES if layer(p) != "domain"], ids=name_of)
def test_no_state_is_spelled_by_hand_outside_the_domain(path: Path) -> None:
    spelled = {state.value for state in State} - HOMONYMS
    assert [text for text in texts(path) if text in spelled] == []
    assert list(compared_states(path)) == []


# What hooks reach

TRACE = """
import os, sys
leave = os._exit
def report(code):
    files = {n: getattr(m, "__file__", None) for n, m in sys.modules.items()}
    sys.stderr.write("\\n".join(f"{n}\\t{f or ''}" for n, f in files.items()))
    sys.stderr.flush()
    leave(code)
os._exit = report
hook = sys.argv[1]
exec(compile(open(hook).read(), hook, "exec"), {"__file__": hook, "__name__": "__main__"})
"""


def reached(project: Path, session: str, name: str, **more: str) -> tuple[str, dict[str, str]]:
    """What a hook printed, and every module that it had loaded in the end, with its file."""
    done = subprocess.run(
        ["python3", "-I", "-S", "-c", TRACE, PLUGIN / "hooks" / f"{name}.py"],
        input=json.dumps({"session_id": session, **more}),
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": PATH, "CLAUDE_PROJECT_DIR": str(project), "HOME": os.environ["HOME"]},
    )
    lines = (line.split("\t") for line in done.stderr.splitlines())
    return done.stdout, {name: file for name, file in lines if name != "__main__"}


@pytest.fixture
def participant(raw: sqlite3.Connection) -> str:
    """A session with a row, mail, a sibling and a task to come."""
    own(raw, "task-00", "watching", "conductor")
    own(raw, "task-03", "review_failed", "owner")
    send(raw, "task-03", "task-00", "rejection", "again")
    add(raw, "task-04")
    return "owner"


SAYS = {"stop": "task-03", "session_start": "musician of task-03"}


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.parametrize("session", ["owner", "conductor", "stranger"])
def test_hooks_need_only_the_standard_library(
    project: Path, participant: str, name: str, session: str
) -> None:
    said, modules = reached(project, session, name)
    assert session != participant or SAYS[name] in said
    assert {module.split(".")[0] for module in modules} <= {"podium", *sys.stdlib_module_names}


HEAVY = {
    *("dataclasses", "pathlib", "typing", "inspect"),
    *("subprocess", "logging", "urllib", "asyncio"),
}


@pytest.mark.parametrize("name", SAYS)
def test_hooks_load_nothing_that_doubles_their_start(
    project: Path, participant: str, name: str
) -> None:
    _, modules = reached(project, participant, name)
    assert sorted(HEAVY & set(modules)) == []


def test_a_stranger_is_recognised_before_json_is_loaded(project: Path, participant: str) -> None:
    said, modules = reached(project, "stranger", "stop")
    assert said == ""
    assert "json" not in modules
    assert participant


def _python39() -> str | None:
    """The folder of a python3 that is 3.9, where this machine has one."""
    found = shutil.which("python3.9")
    pyenv = Path(os.environ.get("PYENV_ROOT") or REAL_HOME / ".pyenv")
    homes = sorted(pyenv.glob("versions/3.9.*/bin"))
    return os.path.dirname(found) if found and not homes else str(homes[0]) if homes else None


PYTHON39 = _python39()


@pytest.mark.skipif(PYTHON39 is None, reason="there is no Python 3.9 here")
@pytest.mark.parametrize("session", ["owner", "conductor", "stranger"])
@pytest.mark.parametrize("source", ["startup", "clear"])
def test_hooks_run_on_python_3_9(
    hook: Callable[..., Answer], participant: str, session: str, source: str
) -> None:
    version = subprocess.run(
        ["python3", "--version"], env={"PATH": str(PYTHON39)}, capture_output=True, check=True
    )
    assert version.stdout.startswith(b"Python 3.9")
    for name, says in SAYS.items():
        answer = hook(name, {"session_id": session, "source": source}, python=PYTHON39)
        assert (says in answer.context) == (session == participant)


def test_what_hooks_reach_is_written_in_python_3_9(project: Path, participant: str) -> None:
    files = {
        file
        for name in SAYS
        for session in (participant, "conductor")
        for module, file in reached(project, session, name)[1].items()
        if module.startswith("podium")
    }
    assert len(files) > 10
    for file in [*map(Path, files), *HOOK_FILES]:
        ast.parse(file.read_text(), feature_version=(3, 9))
