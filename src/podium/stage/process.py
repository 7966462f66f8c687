"""A process is who it was only if its pid *and* its start time agree. Hook-reachable."""

from __future__ import annotations

import os

from podium.domain.records import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def started(pid: int) -> str | None:
    """When this process started, as the system writes it; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None if os.path.isdir("/proc/self") else _started_by_ps(pid)
    state, start = fields[0], fields[19]
    return None if state in "ZX" else start


def _started_by_ps(pid: int) -> str | None:
    import subprocess

    done = subprocess.run(
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=5,
        check=False,
        env={"LC_ALL": "C", "TZ": "UTC0"},
    )
    state, _, start = done.stdout.strip().partition(" ")
    return start.strip() or None if state and not state.startswith("Z") else None


def identify(pid: int) -> Process | None:
    """The process with this pid now, or None."""
    start = started(pid)
    return Process(pid, start, os.uname().nodename) if start else None


def is_alive(process: Process) -> bool | None:
    """Whether this very process still runs; None when it is on another host."""
    if process.host != os.uname().nodename:
        return None
    return started(process.pid) == process.started


def client(env: Mapping[str, str]) -> Process | None:
    """The client that runs this hook: what it says of itself, else our parent."""
    told = env.get("CLAUDE_PID", "")
    return identify(int(told) if told.isdigit() else os.getppid())
