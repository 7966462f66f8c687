"""podium status --watch: the screen to leave open, redrawn in place."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from podium.domain.rules import age
from podium.domain.states import CONDUCTOR_ROW, ENDED
from podium.services import overview, screen

from .app import App, clean
from .look import COLOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from podium.services.screen import Line

REFRESH = 10  # seconds; ages are refreshed that often, changes at once
WARNINGS = 6
COLUMNS = f"{'task':<13}{'state':<16}{'life':>7}{'work':>7}{'ctx':>6}{'mail':>6}  who and what for"


def watch(app: App) -> None:
    """Show the screen until Ctrl-C."""
    while True:
        size = shutil.get_terminal_size()
        shown = list(frame(app, size.columns, size.lines - 1))
        # Without a terminal each screen follows the one before.
        start, end = ("\x1b[H", "\x1b[K\n") if sys.stdout.isatty() else ("", "\n")
        tail = "\x1b[J" if sys.stdout.isatty() else ""
        click.echo(start + "".join(line + end for line in shown) + tail, nl=False)
        seen = app.store.change()
        for _ in range(REFRESH):
            time.sleep(1)
            if app.store.change() != seen:
                break


def frame(app: App, width: int, height: int) -> Iterator[str]:
    """One screen: what is wrong, then the conductor, then the tasks by phase."""
    rows = screen.lines(app.store)
    urgent = overview.urgent(overview.attention(app.store))
    tasks = [line for line in rows if line.task_id != CONDUCTOR_ROW]
    ended = [line for line in tasks if line.state in ENDED]
    name = os.path.basename(app.settings.root)
    clock = time.strftime("%H:%M:%S", time.gmtime())
    head = f"podium: {name}  {clock} UTC  {len(ended)} of {len(tasks)} tasks ended"
    yield _styled(head, width, bold=True)
    for item in urgent[:WARNINGS]:
        yield _styled(item.line(), width, fg="yellow" if item.kind != "error" else "red")
    if len(urgent) > WARNINGS:
        yield _styled(f"{len(urgent) - WARNINGS} more: podium conductor next", width, fg="yellow")
    left = height - 2 - min(len(urgent), WARNINGS + 1)
    yield _styled(COLUMNS, width, dim=True)
    yield from _body(rows, ended, width, left)


def _body(rows: Sequence[Line], ended: Sequence[Line], width: int, left: int) -> Iterator[str]:
    """As many rows as fit; when not all do, those that have ended are only counted."""
    phases = len({line.phase for line in rows if line.task_id != CONDUCTOR_ROW})
    fits = len(rows) + phases <= left
    shown = list(rows) if fits else [line for line in rows if line not in ended]
    phase = None
    for line in shown[: left if fits else max(1, left - phases - 1)]:
        if line.task_id != CONDUCTOR_ROW and line.phase != phase:
            phase = line.phase
            yield _styled(f"Phase {phase}", width, dim=True)
        yield _row(line, width)
    if not fits:
        hidden = len(shown) - max(1, left - phases - 1)
        more = f"{hidden} more live, " if hidden > 0 else ""
        yield _styled(f"{more}{len(ended)} ended: podium status --all", width, dim=True)


def _row(line: Line, width: int) -> str:
    context = "" if line.context is None else f"{line.context}%"
    life, work = (age(n) if n is not None else "" for n in (line.life, line.work))
    text = f"{line.task_id:<13}{line.state.value:<16}{life:>7}{work:>7}{context:>6}"
    text += f"{line.unread or '':>6}  {line.who}  {line.note}"
    return _styled(text, width, fg="red" if line.alarming else COLOURS.get(line.state))


def _styled(
    text: str, width: int, *, fg: str | None = None, bold: bool = False, dim: bool = False
) -> str:
    cut = clean(text)[: max(20, width - 1)].rstrip()
    return (
        click.style(cut, fg=fg, bold=bold or None, dim=dim or None) if sys.stdout.isatty() else cut
    )
