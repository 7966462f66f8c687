"""Work in a process of its own that can take no more time and memory than it is given.

A program of its own, not a fork: SQLite forbids to fork a process that has a database open.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMORY = 256 * 1024 * 1024
START = """import sys
sys.path.insert(0, sys.argv[1])
from podium.stage import confined
confined.limit(float(sys.argv[2]))
"""


class Confined:
    """Python at work. `pipe` becomes readable when it has something to say or has ended."""

    def __init__(self, program: str, given: bytes, seconds: float) -> None:
        """Start a program that calls `run`; OSError when there is no process to be had."""
        stdin, ours = os.pipe()
        self.pipe, stdout = os.pipe()
        self._said = bytearray()
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", START + program, SOURCE, str(seconds)],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin, 0),
                    (os.POSIX_SPAWN_DUP2, stdout, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
            )
            _write(ours, given)
        except BrokenPipeError:
            pass  # it ended early; reading will tell
        except OSError:
            os.close(self.pipe)
            raise
        finally:
            for end in (stdin, ours, stdout):
                os.close(end)

    def hear(self) -> bytes | None:
        """All that it said, once it has ended; None while it has not."""
        chunk = os.read(self.pipe, 1 << 16)
        if chunk:
            self._said += chunk
            return None
        self._forget()
        return bytes(self._said)

    def end(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)
        self._forget()

    def _forget(self) -> None:
        os.close(self.pipe)
        os.waitpid(self.pid, 0)


def _write(pipe: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def limit(seconds: float) -> None:
    """Bound this process; it ends itself even when whoever started it is gone."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):
        pass  # a system without such limits, or with a lower one


def run(answer: Callable[[bytes], bytes]) -> None:
    """Be the process: answer what is given, and end without ceremony."""
    _write(1, answer(sys.stdin.buffer.read()))
    os._exit(0)
