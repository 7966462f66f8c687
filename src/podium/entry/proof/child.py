"""A command or hook in a process of its own that is already warm: what is measured is its work."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Callable, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .scene import Deed


PLUGIN = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))


class Ended(NamedTuple):
    """How a child ended: exit code or minus the signal, and what it said."""

    code: int
    out: bytes
    err: bytes


class Child:
    """A fork that runs `work` with streams, environment and folder of its own.

    Nobody may hold a database open when it is made: SQLite forbids to take one through a fork.
    """

    def __init__(
        self, work: Callable[[], int], stdin: bytes, env: Mapping[str, str], cwd: str
    ) -> None:
        self.files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115  # closed at its end
        self.files[0].write(stdin)
        self.files[0].seek(0)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.began = time.perf_counter()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(work, env, cwd)

    def _be(self, work: Callable[[], int], env: Mapping[str, str], cwd: str) -> None:
        code = 70
        try:
            for number, file in enumerate(self.files):
                os.dup2(file.fileno(), number)
            sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
            sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)))
            os.environ.clear()
            os.environ.update(env)
            os.chdir(cwd)
            code = work()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:  # noqa: BLE001  # the parent shall see what it was
            import traceback

            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

    def kill(self, after: float) -> None:
        """End it by SIGKILL so many seconds after it began."""
        time.sleep(max(0.0, after - (time.perf_counter() - self.began)))
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        """Its end."""
        _, status = os.waitpid(self.pid, 0)
        self.took = time.perf_counter() - self.began
        said = []
        for file in self.files[1:]:
            file.seek(0)
            said.append(file.read())
        for file in self.files:
            file.close()
        return Ended(os.waitstatus_to_exitcode(status), *said)


def work_of(deed: Deed, *, real: bool = False) -> Callable[[], int]:
    """What a child does for this deed: the command line's main, or the hook's.

    `real`: as the user's shell and the client start it, cold.
    """
    name, *words = deed.argv
    if real:
        shell = [os.path.join(PLUGIN, "hooks", "hook.sh"), *deed.argv]
        program = shell if deed.is_hook else [os.path.join(PLUGIN, "bin", "podium"), *deed.argv]
        return lambda: os.execv("/bin/sh", ["/bin/sh", *program])  # noqa: S606
    if not deed.is_hook:
        return lambda: _command(deed.argv)
    return lambda: run_hook(name, words)


def _command(argv: list[str]) -> int:
    from podium.entry.cli import main

    main(argv, prog_name="podium")
    return 0


def run_hook(name: str, words: list[str]) -> int:
    """Answer what is on standard input, as hooks/*.py do; the exit code."""
    from podium.entry import hooks, notice, signals

    answers = {
        "session_start": hooks.answer_session_start,
        "stop": hooks.answer_stop,
        "notification": notice.answer_notification,
    }
    return hooks.run(answers[name] if name in answers else getattr(signals, f"answer_{words[0]}"))


def answer_here(name: str, raw: bytes) -> Ended:
    """A hook's answer, given in this very process."""
    streams, out, err = (sys.stdin, sys.stdout, sys.stderr), io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(raw))
    sys.stdout, sys.stderr = io.TextIOWrapper(out), io.TextIOWrapper(err)
    first, *words = name.split()
    try:
        code = run_hook(first, words)
    except BaseException as error:  # noqa: BLE001  # a hook raises nothing, whatever it is given
        code = 70
        err.write(f"Traceback {error!r}".encode())
    finally:
        ours = sys.stdout, sys.stderr
        for stream in ours:
            stream.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
    return Ended(code, out.getvalue(), err.getvalue())


def warm() -> None:
    """Import what the children will need, once."""
    import importlib

    from podium.entry.cli import VERBS

    for module in {*VERBS.values(), "conductor"}:
        importlib.import_module(f"podium.entry.cli.{module}")
    for module in ("hooks", "notice", "signals", "waiting"):
        importlib.import_module(f"podium.entry.{module}")
    for module in ("jsonschema", "podium.store.migrate", "podium.services.inbox"):
        importlib.import_module(module)
