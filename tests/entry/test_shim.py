"""bin/podium and provision.py, run for real: own home, own PATH, real packages, one build for most.

The command line is a stand-in that tells what it was given, so these tests hold without it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = (ROOT / "requirements.lock", ROOT / "tests" / "requirements.lock")
BASE_PYTHON = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
PREPARING, WAITING = "preparing its Python environment", "waiting for its Python environment"

STAND_IN = """
import json, os, sys, click

@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
def main(words):
    click.echo(json.dumps({
        "words": words, "stdin": sys.stdin.read(), "prefix": sys.prefix, "click": click.__file__,
        "source": __file__, "PYTHONPATH": os.environ.get("PYTHONPATH"),
    }))
"""

# What a real build may need from the environment of the test run.
NETWORK = {
    name: value
    for name, value in os.environ.items()
    if re.match(r"PIP_|UV_|SSL_|REQUESTS_CA|CURL_CA|(?i:https?_proxy|no_proxy|all_proxy)", name)
}
NO_NETWORK = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
    "PIP_RETRIES": "0",
    "UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple",
    "UV_HTTP_RETRIES": "0",
    "UV_NO_CACHE": "1",
    "UV_NO_CONFIG": "1",
}


def plugin(folder: Path) -> Path:
    """A copy of what the shim needs, with the stand-in for the command line."""
    source, package = ROOT / "src" / "podium", folder / "src" / "podium"
    (package / "entry" / "cli").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "entry/provision.py"):
        shutil.copy(source / name, package / name)
    (package / "entry" / "cli" / "__init__.py").write_text(STAND_IN)
    shutil.copytree(ROOT / "bin", folder / "bin")
    shutil.copy(ROOT / "requirements.lock", folder)
    return folder


def toolbox(folder: Path, python3: str | None = BASE_PYTHON, *, uv: bool = False) -> str:
    """A PATH of one folder, with no more than the shim may count on."""
    folder.mkdir()
    for name in ("sh", "cksum", "readlink", "id", "mkdir", "chmod"):
        (folder / name).symlink_to(str(shutil.which(name)))
    if python3:
        script(folder / "python3", f'exec {shlex.quote(python3)} "$@"')
    if uv:
        find_uv_bin = pytest.importorskip("uv").find_uv_bin
        (folder / "uv").symlink_to(find_uv_bin())
    return str(folder)


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def start(*command: str | Path, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def call(
    *command: str | Path, env: dict[str, str], stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=env, cwd=cwd, input=stdin, capture_output=True, encoding="utf-8", check=False
    )


def serves(made: Path, *modules: str) -> bool:
    """Whether the environment has these modules."""
    python = made / "bin" / "python"
    return call(python, "-I", "-c", f"import {', '.join(modules)}", env={}).returncode == 0


def told(done: subprocess.CompletedProcess[str]) -> Any:
    """What the stand-in was given; a start that made no noise on the way."""
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a start that failed, apart from the line that says it tries."""
    lines = [line for line in done.stderr.splitlines() if PREPARING not in line]
    assert (done.returncode, done.stdout, len(lines)) == (3, "", 1), done
    assert lines[0].startswith("podium: ")
    return lines[0]


class Prepared:
    """A plugin and a home whose environment was built by ten starts at once."""

    def __init__(self, folder: Path) -> None:
        self.root = plugin(folder / "plugin")
        self.shim = self.root / "bin" / "podium"
        self.env = {"HOME": str(folder / "home"), "PATH": toolbox(folder / "tools")}
        self.folder = folder / "home" / ".local" / "share" / "podium"
        starts = [start(self.shim, str(n), env={**NETWORK, **self.env}) for n in range(10)]
        ends = [(process.communicate(f"stdin {n}"), process) for n, process in enumerate(starts)]
        self.codes = [process.returncode for _, process in ends]
        self.answers = [json.loads(stdout) for (stdout, _), _ in ends if stdout]
        self.noise = [line for (_, stderr), _ in ends for line in stderr.splitlines()]

    @property
    def venv(self) -> Path:
        (found,) = (path for path in self.folder.iterdir() if path.is_dir())
        return found


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def lent(prepared: Prepared, tmp_path: Path) -> dict[str, str]:
    """An environment to run in: the prepared venv, and no Python at all on PATH."""
    return {**prepared.env, "PATH": toolbox(tmp_path / "bare", python3=None)}


@pytest.fixture
def small_lock(tmp_path: Path) -> Path:
    """The lock file cut to one package without dependencies, for builds of their own."""
    block = re.search(r"^attrs==.*\n(?:    --hash.*\n)+", LOCKS[0].read_text(), re.MULTILINE)
    assert block
    (tmp_path / "small.lock").write_text(block[0].rstrip(" \\\n") + "\n")
    return tmp_path / "small.lock"


PROVISION = (BASE_PYTHON, "-I", ROOT / "src" / "podium" / "entry" / "provision.py")


def test_ten_first_starts_at_once_make_one_environment_and_all_succeed(prepared: Prepared) -> None:
    assert prepared.codes == [0] * 10, prepared.noise
    assert sorted(answer["words"] for answer in prepared.answers) == [[str(n)] for n in range(10)]
    assert {answer["stdin"] for answer in prepared.answers} == {f"stdin {n}" for n in range(10)}
    assert sum(PREPARING in line for line in prepared.noise) == 1, prepared.noise
    assert all(PREPARING in line or WAITING in line for line in prepared.noise), prepared.noise
    assert {answer["prefix"] for answer in prepared.answers} == {str(prepared.venv)}
    name = prepared.venv.name
    assert sorted(os.listdir(prepared.folder)) == [name, f"{name}.lock"]


def test_the_prepared_environment_serves_every_dependency(prepared: Prepared) -> None:
    names = re.findall(r'^    "(\w+)>=', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(names) >= 3
    assert serves(prepared.venv, *names)


def test_a_later_start_needs_no_python_on_the_path_and_says_nothing(
    prepared: Prepared, lent: dict[str, str]
) -> None:
    answer = told(call(prepared.shim, "--json", "a b", "*", stdin="é", env=lent))
    assert answer["words"] == ["--json", "a b", "*"]
    assert answer["stdin"] == "é"


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_shim_runs_in_every_shell(prepared: Prepared, lent: dict[str, str], shell: str) -> None:
    found = shutil.which(shell)
    if not found:
        pytest.skip(f"{shell} is not installed")
    command = [found, "sh"] if shell == "busybox" else [found]
    assert told(call(*command, prepared.shim, "x", env=lent))["words"] == ["x"]
    beside = told(call(*command, "podium", "x", cwd=prepared.root / "bin", env=lent))
    assert beside["words"] == ["x"]


@pytest.mark.parametrize("name", ["with space", "quote ' and \" and $HOME", "é ü 漢", "-dash", "*"])
def test_the_plugin_may_stand_in_any_folder(
    lent: dict[str, str], tmp_path: Path, name: str
) -> None:
    root = plugin(tmp_path / name)
    answer = told(call(root / "bin" / "podium", "x", env=lent))
    assert Path(answer["source"]).is_relative_to(root)
    assert told(call("./bin/podium", "x", cwd=root, env=lent))["words"] == ["x"]


@pytest.mark.parametrize("relative", [False, True])
def test_the_shim_finds_its_plugin_through_symlinks(
    prepared: Prepared, lent: dict[str, str], tmp_path: Path, *, relative: bool
) -> None:
    shim = prepared.shim
    first, second = tmp_path / "one" / "podium", tmp_path / "two" / "other name"
    for link, target in ((first, shim), (second, first)):
        link.parent.mkdir()
        link.symlink_to(os.path.relpath(target, link.parent) if relative else target)
    (tmp_path / "folder").symlink_to(second.parent)
    for path in (first, second, tmp_path / "folder" / "other name"):
        answer = told(call(path, "x", env=lent))
        assert Path(answer["source"]).is_relative_to(prepared.root)


def test_modules_of_the_user_do_not_stand_in_for_podiums(
    prepared: Prepared, lent: dict[str, str], tmp_path: Path
) -> None:
    for name in ("click", "json", "podium", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    theirs = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": str(tmp_path), "PYTHONSTARTUP": "/x"}
    answer = told(call(prepared.shim, cwd=tmp_path, env={**lent, **theirs}))
    assert Path(answer["click"]).is_relative_to(prepared.venv)
    assert answer["PYTHONPATH"] == str(tmp_path)  # what podium starts keeps the user's own


def test_the_users_python_settings_do_not_divert_a_build(small_lock: Path, tmp_path: Path) -> None:
    (tmp_path / "venv.py").write_text("raise SystemExit('the wrong module')\n")
    theirs = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": str(tmp_path),
        "PIP_TARGET": str(tmp_path / "target"),
        "PIP_USER": "1",
        "VIRTUAL_ENV": str(tmp_path),
    }
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": toolbox(tmp_path / "tools"), **theirs}
    done = call(*PROVISION, small_lock, "made", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "target").exists()
    assert serves(tmp_path / "made", "attrs")


def test_uv_builds_where_it_is_installed(small_lock: Path, tmp_path: Path) -> None:
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": toolbox(tmp_path / "tools", uv=True)}
    env["UV_SYSTEM_PYTHON"] = "1"
    done = call(*PROVISION, small_lock, tmp_path / "made", env=env)
    assert done.returncode == 0, done.stderr
    assert "uv = " in (tmp_path / "made" / "pyvenv.cfg").read_text()
    assert serves(tmp_path / "made", "attrs")


def test_pip_builds_where_uv_fails(small_lock: Path, tmp_path: Path) -> None:
    tools = Path(toolbox(tmp_path / "tools"))
    script(tools / "uv", "echo 'error: no index for you' >&2; exit 2")
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": str(tools)}
    done = call(*PROVISION, small_lock, tmp_path / "made", env=env)
    assert done.returncode == 0, done.stderr
    assert serves(tmp_path / "made", "attrs")


@pytest.mark.parametrize("signalled", ["the builder alone", "its whole group"])
def test_a_killed_build_does_not_break_the_next(
    small_lock: Path, tmp_path: Path, signalled: str
) -> None:
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": toolbox(tmp_path / "tools")}
    made, draft = tmp_path / "made", tmp_path / "made.building"
    first = subprocess.Popen(
        [*PROVISION, small_lock, made], env=env, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (draft / "bin").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    if signalled == "the builder alone":
        first.kill()
    else:
        os.killpg(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert draft.exists()
    assert not made.exists()

    done = call(*PROVISION, small_lock, made, env=env)
    assert done.returncode == 0, done.stderr
    assert not draft.exists()
    assert serves(made, "attrs")


def test_an_environment_whose_interpreter_is_gone_is_built_again(
    small_lock: Path, tmp_path: Path
) -> None:
    (tmp_path / "made" / "bin").mkdir(parents=True)
    (tmp_path / "made" / "bin" / "python").symlink_to(tmp_path / "removed")
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": toolbox(tmp_path / "tools", uv=True)}
    done = call(*PROVISION, small_lock, tmp_path / "made", env=env)
    assert done.returncode == 0, done.stderr
    assert serves(tmp_path / "made", "attrs")


@pytest.mark.parametrize("uv", [False, True], ids=["pip", "uv"])
def test_no_network_is_one_line_and_leaves_nothing(
    prepared: Prepared, tmp_path: Path, *, uv: bool
) -> None:
    env = {**NO_NETWORK, "HOME": str(tmp_path), "PATH": toolbox(tmp_path / "tools", uv=uv)}
    line = refusal(call(prepared.shim, "x", env=env))
    assert "network" in line
    left = os.listdir(tmp_path / ".local" / "share" / "podium")
    assert [name for name in left if not name.endswith(".lock")] == []


def test_a_package_that_differs_from_its_hash_is_refused(small_lock: Path, tmp_path: Path) -> None:
    small_lock.write_text(re.sub(r"sha256:\w+", f"sha256:{0:064}", small_lock.read_text()))
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": toolbox(tmp_path / "tools")}
    assert "hash" in refusal(call(*PROVISION, small_lock, tmp_path / "made", env=env))
    assert not (tmp_path / "made").exists()


def test_a_python_without_venv_is_one_line_with_the_package_to_install(
    prepared: Prepared, tmp_path: Path
) -> None:
    venv.create(tmp_path / "lame", with_pip=False, symlinks=True)
    (site_packages,) = (tmp_path / "lame").glob("lib/python3*/site-packages")
    (site_packages / "lame.pth").write_text("import lame\n")
    (site_packages / "lame.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, *a: None if name == 'ensurepip' else find(name, *a)\n"
    )
    path = toolbox(tmp_path / "tools", str(tmp_path / "lame" / "bin" / "python"))
    line = refusal(call(prepared.shim, "x", env={"HOME": str(tmp_path), "PATH": path}))
    assert "apt install python3-venv" in line
    assert "uv" in line


@pytest.mark.parametrize(
    ("python3", "found"), [("echo 3.9", "Python 3.9"), ("exit 127", "no python3")]
)
def test_too_old_a_python_or_none_is_one_line(
    prepared: Prepared, tmp_path: Path, python3: str, found: str
) -> None:
    tools = Path(toolbox(tmp_path / "tools", None))
    script(tools / "python3", python3)
    line = refusal(call(prepared.shim, env={"HOME": str(tmp_path), "PATH": str(tools)}))
    assert found in line
    assert "3.10" in line
    assert "PODIUM_PYTHON" in line


def test_a_newer_python_under_another_name_is_found(prepared: Prepared, tmp_path: Path) -> None:
    tools = Path(toolbox(tmp_path / "tools", None, uv=True))
    script(tools / "python3", "echo 3.9")
    script(tools / "python3.12", f'exec {shlex.quote(BASE_PYTHON)} "$@"')
    env = {**NETWORK, "HOME": str(tmp_path), "PATH": str(tools)}
    done = call(prepared.shim, env=env)
    assert done.returncode == 0, done.stderr


def test_an_unwritable_folder_is_one_line_that_names_it(prepared: Prepared, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = toolbox(tmp_path / "tools")
    env = {"XDG_DATA_HOME": str(tmp_path / "file"), "PATH": path}
    line = refusal(call(prepared.shim, env=env))
    assert str(tmp_path / "file" / "podium") in line
    assert "XDG_DATA_HOME" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only folder")
def test_a_read_only_folder_is_one_line_that_names_it(prepared: Prepared, tmp_path: Path) -> None:
    path = toolbox(tmp_path / "tools")
    (tmp_path / "read-only").mkdir(mode=0o500)
    line = refusal(call(prepared.shim, env={"HOME": str(tmp_path / "read-only"), "PATH": path}))
    assert "Permission denied" in line


def test_the_data_folder_of_the_user_is_respected(
    prepared: Prepared, lent: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "chosen" / "podium").mkdir(parents=True)
    (tmp_path / "chosen" / "podium" / prepared.venv.name).symlink_to(prepared.venv)
    chosen = {**lent, "XDG_DATA_HOME": str(tmp_path / "chosen"), "HOME": "/nowhere"}
    assert told(call(prepared.shim, "x", env=chosen))["words"] == ["x"]
    relative = {**lent, "XDG_DATA_HOME": "not/absolute"}
    assert told(call(prepared.shim, "x", env=relative))["words"] == ["x"]


def test_without_a_home_the_environment_is_private_in_the_temporary_folder(
    prepared: Prepared, tmp_path: Path
) -> None:
    private = tmp_path / f"podium-{os.getuid()}"
    env = {**NETWORK, "TMPDIR": str(tmp_path), "PATH": toolbox(tmp_path / "tools", uv=True)}
    first = call(prepared.shim, "x", env=env)
    assert first.returncode == 0, first.stderr
    assert private.stat().st_mode & 0o777 == 0o700

    private.chmod(0o777)
    answer = told(call(prepared.shim, "x", env=env))
    assert Path(answer["prefix"]).parent == private
    assert private.stat().st_mode & 0o777 == 0o700


def test_without_a_home_a_folder_that_others_may_have_filled_is_refused(
    prepared: Prepared, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / prepared.venv.name).symlink_to(prepared.venv)
    (tmp_path / f"podium-{os.getuid()}").symlink_to(tmp_path / "theirs")
    env = {"TMPDIR": str(tmp_path), "PATH": toolbox(tmp_path / "tools")}
    assert "HOME" in refusal(call(prepared.shim, "x", env=env))


def test_a_chosen_python_is_used_as_it_is(prepared: Prepared, tmp_path: Path) -> None:
    chosen = str(prepared.venv / "bin" / "python")
    env = {
        "PATH": toolbox(tmp_path / "tools", None),
        "HOME": str(tmp_path),
        "PODIUM_PYTHON": chosen,
    }
    assert told(call(prepared.shim, "x", env=env))["words"] == ["x"]
    assert not (tmp_path / ".local").exists()


@pytest.mark.parametrize("chosen", ["/nowhere/python", "lacking"])
def test_a_chosen_python_that_will_not_do_is_one_line(
    prepared: Prepared, tmp_path: Path, chosen: str
) -> None:
    if chosen == "lacking":
        venv.create(tmp_path / "lacking", with_pip=False, symlinks=True)
        chosen = str(tmp_path / "lacking" / "bin" / "python")
    env = {"PATH": toolbox(tmp_path / "tools"), "HOME": str(tmp_path), "PODIUM_PYTHON": chosen}
    line = refusal(call(prepared.shim, "x", env=env))
    assert chosen in line
    assert "PODIUM_PYTHON" in line


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_a_lock_pins_every_package_by_hash_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    entries = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    assert len(entries) >= 8
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==\S+( ; .+?)?( +--hash=sha256:[0-9a-f]{64})+$", entry), entry
    assert not re.search(r"://|index-url|find-links|trusted-host| @ ", text)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_a_lock_says_how_to_make_it_again_without_a_path_of_any_machine(lock: Path) -> None:
    header = [line for line in lock.read_text().splitlines() if line.startswith("#")]
    assert header[-1].split()[1:4] == ["uv", "pip", "compile"]
    assert header[-1].endswith(f" -o {lock.relative_to(ROOT)}")
    assert not re.search(r"(^|\s)[/~]", header[-1])


def test_the_tests_run_on_the_versions_that_users_get() -> None:
    runtime, testing = (
        set(re.findall(r"^[a-z].*", lock.read_text(), re.MULTILINE)) for lock in LOCKS
    )
    pins = {line.split()[0] for line in testing}
    assert {line.split()[0] for line in runtime} <= pins
