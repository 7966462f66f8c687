"""A process is who it was only if its pid *and* its start time agree. Hook-reachable."""

from __future__ import annotations

import os

from podium.domain.records import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GRACE = 6.0  # seconds between SIGTERM and SIGKILL; the client's own end takes up to two
POLL = 0.05


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
    return identify(int(told) if told.isdecimal() else os.getppid())


def end(process: Process, grace: float = GRACE) -> str:
    """End this very process, its group and its descendants; what was found or done.

    Nobody is signalled who is not proven by pid *and* start time at that moment: `gone` when the
    process is not there any more (whoever has its pid now), `elsewhere` on another host, `ended`
    after SIGTERM, `killed` after SIGKILL, `survived` when even that did not help.
    """
    import signal
    import time

    alive = is_alive(process)
    if alive is not True:
        return "elsewhere" if alive is None else "gone"
    left = descendants(process)
    for number, outcome in ((signal.SIGTERM, "ended"), (signal.SIGKILL, "killed")):
        _signal(process, number)
        until = time.monotonic() + grace
        while is_alive(process) and time.monotonic() < until:
            time.sleep(POLL)
        if not is_alive(process):
            # The client leaves a running shell command behind, in a group of its own.
            for child in left:
                _signal(child, signal.SIGKILL)
            return outcome
    return "survived"


def _signal(process: Process, number: int) -> None:
    """To its group where it leads one, else to itself alone; to nobody who is not it."""
    try:
        leads = os.getpgid(process.pid) == process.pid
        if is_alive(process):
            (os.killpg if leads else os.kill)(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it ended meanwhile, or has become another user's


def descendants(process: Process) -> list[Process]:
    """The processes that came from this one and still hang on it, each proven."""
    parents = _parents()
    found, families = [], [process.pid]
    while families:
        parent = families.pop()
        children = [pid for pid, ppid in parents.items() if ppid == parent]
        families += children
        found += [child for pid in children if (child := identify(pid))]
    return found if is_alive(process) else []


def _parents() -> dict[int, int]:
    """Every process and its parent."""
    found = {}
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                        found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
                except (OSError, IndexError):
                    continue  # ended while we looked
        return found
    import subprocess

    command = ["/bin/ps", "-axo", "pid=,ppid="]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    return {int(pid): int(ppid) for pid, ppid in map(str.split, done.stdout.splitlines())}
