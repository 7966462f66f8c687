"""The real client, run apart from its user: own home, dummy key, only 127.0.0.1.

Whatever a Client starts ends with its `close()`: processes are known by a mark in their environment
(read from /proc; elsewhere only what was started directly is ended).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self, Unpack

    from client.model import Model

T = TypeVar("T")
MARK = "PODIUM_TEST_RUN"
SWITCHED_ON = (
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",  # asked for by the interactive client
)
# The model stands in for every proxy, so that it sees, and refuses, what would leave the machine.
PROXIES = {"HTTP_PROXY": "", "HTTPS_PROXY": "", "NO_PROXY": "127.0.0.1,localhost"}
PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


class Options(TypedDict, total=False):
    """What a session may be started with, in any mode."""

    plugin_dirs: Iterable[Path]
    env: Mapping[str, str]
    session_id: str
    resume: str
    permission_mode: str  # acceptEdits unless said
    actor: str  # part of the API key, by which a Play finds its session
    extra_args: Iterable[str]


def until(condition: Callable[[], T], timeout: float = 30, what: str = "") -> T:
    """The first true value of the condition; AssertionError after the timeout."""
    end = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what or condition}")
        time.sleep(0.05)
    return found


@dataclass(frozen=True)
class Result:
    """How a run of the client ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The result object of `-p`; with stream-json, its last line."""
        try:
            return dict(json.loads(self.stdout.strip().splitlines()[-1]))
        except (IndexError, ValueError):
            raise AssertionError(f"no JSON from the client: {self}") from None

    @property
    def text(self) -> str:
        """What the session said last."""
        return str(self.json["result"])


class Run:
    """One client without a terminal, running."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str], log: Path) -> None:
        # Files, not pipes: whatever the client leaves behind must not keep the reader waiting.
        self._out, self._err = log.with_suffix(".out"), log.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: float = 60) -> Result:
        """The result. Past the timeout the client is killed; AssertionError shows what it said."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s: {self.wait()}") from None
        texts = (path.read_text(errors="replace") for path in (self._out, self._err))
        return Result(code, *texts)

    def kill(self, sign: int = signal.SIGKILL) -> None:
        """Send the signal; SIGKILL is waited for."""
        if self.alive:
            self._process.send_signal(sign)
        if sign == signal.SIGKILL:
            self._process.wait()


class Terminal:
    """One interactive client in a tmux server of its own."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._env, self._name = env, f"podium-{uuid.uuid4().hex[:8]}"
        # The pane stays when the client ends, so that a failure can show its last words.
        self._tmux(
            "set-option", "-g", "remain-on-exit", "on", ";",
            "new-session", "-d", "-x", "160", "-y", "50", "-c", str(cwd), *command,
        )  # fmt: skip
        self.pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def _tmux(self, *args: str) -> str:
        command = ["tmux", "-L", self._name, "-f", "/dev/null", *args]
        done = subprocess.run(command, env=self._env, text=True, capture_output=True, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    @property
    def alive(self) -> bool:
        return self._tmux("display-message", "-p", "#{pane_dead}").strip() == "0"

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def key(self, *keys: str) -> None:
        """Press keys by their tmux names: Enter, Escape, C-c."""
        self._tmux("send-keys", *keys)

    def type(self, text: str, *, enter: bool = True) -> None:
        """Type one line and, once it stands there, Enter: sent together they would be a paste."""
        before = self._shows(text[-20:])
        self._tmux("send-keys", "-l", "--", text)
        if enter:
            self._wait(lambda: self._shows(text[-20:]) > before, text, 10)
            self.key("Enter")

    def wait_for(self, text: str, timeout: float = 30) -> str:
        """The screen, once it shows the text (line breaks and spaces aside)."""
        self._wait(lambda: self._shows(text) > 0, text, timeout)
        return self.screen()

    def _shows(self, text: str) -> int:
        return "".join(self.screen().split()).count("".join(text.split()))

    def _wait(self, condition: Callable[[], bool], text: str, timeout: float) -> None:
        try:
            until(condition, timeout)
        except AssertionError:
            raise AssertionError(f"not shown in {timeout} s: {text!r}\n{self.screen()}") from None

    def close(self) -> None:
        """Hang up, as a closed window does, and end the server."""
        with contextlib.suppress(AssertionError):  # no server any more
            if self.alive:
                os.kill(self.pid, signal.SIGHUP)
                with contextlib.suppress(AssertionError):
                    until(lambda: not self.alive, 5)
            self._tmux("kill-server")


class Client:
    """One installed client and a private world for its sessions; a context manager."""

    def __init__(self, program: Path, folder: Path, model: Model) -> None:
        self.program, self.folder, self.model = program, folder, model
        self.home, self.config, self.tmp = folder / "home", folder / "config", folder / "tmp"
        for path in (self.home, self.config, self.tmp):
            path.mkdir(parents=True)
        self._sockets = tempfile.mkdtemp(prefix="podium-")  # short, as a socket's path must be
        self._mark = str(uuid.uuid4())
        self._open: list[Run | Terminal] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def headless(
        self, prompt: str, *, project: Path, timeout: float = 60, **options: Unpack[Options]
    ) -> Result:
        """Run `claude -p` to its end."""
        return self.start(prompt, project=project, **options).wait(timeout)

    def start(self, prompt: str, *, project: Path, **options: Unpack[Options]) -> Run:
        """Start `claude -p`; its output is JSON unless the extra arguments choose otherwise."""
        command = self._command(options, "-p", prompt)
        if "--output-format" not in command:
            command += ["--output-format", "json"]
        return self._run(command, project, self._env(project, options))

    def terminal(self, *, project: Path, **options: Unpack[Options]) -> Terminal:
        """Start the interactive client and wait for its prompt."""
        terminal = Terminal(self._command(options), project, self._env(project, options))
        self._open.append(terminal)
        terminal.wait_for(PROMPT)
        return terminal

    def plugin(self, *args: str | Path, project: Path, timeout: float = 60) -> Result:
        """Run `claude plugin ...`: validate, marketplace add, install, uninstall."""
        command = [str(self.program), "plugin", *map(str, args)]
        return self._run(command, project, self._env(project, {})).wait(timeout)

    def _run(self, command: list[str], cwd: Path, env: dict[str, str]) -> Run:
        run = Run(command, cwd, env, self.folder / f"run-{len(self._open)}")
        self._open.append(run)
        return run

    def _command(self, options: Options, *first: str) -> list[str]:
        # The prompt stands first: after an option with several values it would be one of them.
        command = [str(self.program), *first]
        command += ["--permission-mode", options.get("permission_mode", "acceptEdits")]
        for plugin in options.get("plugin_dirs", ()):
            command += ["--plugin-dir", str(plugin)]
        for flag, value in (("--session-id", "session_id"), ("--resume", "resume")):
            if value in options:
                command += [flag, str(options.get(value))]
        return [*command, *options.get("extra_args", ())]

    def _env(self, project: Path, options: Options) -> dict[str, str]:
        """The whole environment of a session, whose first questions are answered with it."""
        key = f"dummy-{options.get('actor', '')}"
        self._accept(project, key)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "TMPDIR": str(self.tmp),
            "CLAUDE_CODE_TMPDIR": str(self.tmp),
            "TMUX_TMPDIR": self._sockets,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": shutil.which("bash") or "/bin/sh",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": key,
            MARK: self._mark,
        }
        env |= dict.fromkeys(SWITCHED_ON, "1")
        for name, value in PROXIES.items():
            env |= {name: value or self.model.url, name.lower(): value or self.model.url}
        if options.get("permission_mode") == "bypassPermissions":
            env["IS_SANDBOX"] = "1"  # without it root may not
        return {**env, **options.get("env", {})}

    def _accept(self, project: Path, key: str) -> None:
        """Answer beforehand what a person is asked the first time: theme, key, trust."""
        path = self.config / ".claude.json"
        before = path.read_text() if path.exists() else "{}"
        known = json.loads(before)
        for flag in ("hasCompletedOnboarding", "bypassPermissionsModeAccepted"):
            known[flag] = True
        known.setdefault("theme", "dark")
        keys = known.setdefault("customApiKeyResponses", {}).setdefault("approved", [])
        keys += {key[-20:]} - set(keys)
        trusted = known.setdefault("projects", {}).setdefault(os.path.realpath(project), {})
        trusted["hasTrustDialogAccepted"] = True
        if known != json.loads(before):  # else leave it to the clients that may be running
            aside = path.with_suffix(".new")
            aside.write_text(json.dumps(known))
            aside.replace(path)

    def processes(self) -> dict[int, str]:
        """All processes that came from this client and still run, by pid."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self._mark}".encode() in (entry / "environ").read_bytes():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = command.decode(errors="replace").strip()
        return found

    def close(self) -> None:
        """End everything that was started here, whatever it has become."""
        while self._open:
            one = self._open.pop()
            one.close() if isinstance(one, Terminal) else one.kill()
        end = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self._sockets, ignore_errors=True)
        if left:
            raise AssertionError(f"cannot be ended: {left}")
