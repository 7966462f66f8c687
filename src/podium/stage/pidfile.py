"""temp/musician-task-03.pid: who plays a task. Its first line is the pid, as scripts expect."""

from __future__ import annotations

import os

from podium.domain.records import Process
from podium.stage import process


def path(folder: str, task_id: str) -> str:
    """The PID file of a task."""
    return os.path.join(folder, f"musician-{task_id}.pid")


def write(file: str, who: Process) -> None:
    """Name a process: pid, start time, host, one line each; whole or not at all."""
    aside = f"{file}.{os.getpid()}"
    with open(aside, "w", encoding="utf-8") as out:
        out.write(f"{who.pid}\n{who.started}\n{who.host}\n")
    os.replace(aside, file)


def read(file: str) -> Process | None:
    """The process that the file names; None without a file, or when it proves nobody."""
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            pid, started, host = [line.strip() for line in lines][:3]
    except (OSError, ValueError):
        return None
    return Process(int(pid), started, host) if pid.isdigit() and started and host else None


def clear_stale(file: str) -> str:
    """Remove a file that names nobody who plays any more; what it was, empty when it may stay."""
    who = read(file)
    if not os.path.lexists(file) or (who and process.is_alive(who) is not False):
        return ""
    os.unlink(file)
    name = os.path.basename(file)
    if who is None:
        return (
            f"{name} proved nobody (no pid with start time) and was removed; nobody was signalled"
        )
    now = process.started(who.pid)
    whom = "a stranger has now" if now else "nobody has any more"
    return f"{name} named pid {who.pid}, which {whom}; it was removed, nobody was signalled"
