"""temp/musician-task-03.pid: who plays a task. Its first line is the pid, as scripts expect."""

from __future__ import annotations

import os
from contextlib import suppress

from podium.domain.records import Process
from podium.stage import process

BEFORE, AFTER = "musician-", ".pid"


def path(folder: str, task_id: str) -> str:
    """The PID file of a task."""
    return os.path.join(folder, f"{BEFORE}{task_id}{AFTER}")


def every(folder: str) -> dict[str, str]:
    """Task id → PID file, for all in the folder; other programs' files are none of them."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    found = {
        name[len(BEFORE) : -len(AFTER)]: os.path.join(folder, name)
        for name in names
        if name.startswith(BEFORE) and name.endswith(AFTER)
    }
    return {task_id: file for task_id, file in found.items() if not os.path.isdir(file)}


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
        number = int(pid) if pid.isdecimal() else 0
    except (OSError, ValueError):
        return None
    return Process(number, started, host) if number and started and host else None


def is_nobody(who: Process | None) -> bool:
    """Whether what a file names plays no more; who is on another host may."""
    return who is None or process.is_alive(who) is False


def clear_stale(file: str) -> str:
    """Remove a file that names nobody who plays any more; what it was, empty when it may stay."""
    who = read(file)
    if not os.path.lexists(file) or not is_nobody(who):
        return ""
    with suppress(FileNotFoundError):  # another sweep was faster
        os.unlink(file)
    name = os.path.basename(file)
    if who is None:
        return (
            f"{name} proved nobody (no pid with start time) and was removed; nobody was signalled"
        )
    named = f"{name} named pid {who.pid}, which"
    if process.started(who.pid):
        return f"{named} a stranger has now; it was removed, nobody was signalled"
    return f"{named} nobody has any more; it was removed"
