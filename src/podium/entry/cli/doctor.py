"""podium doctor: what works on this machine and what does not, each with its repair."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from podium.domain.errors import REFUSED
from podium.entry import diagnosis
from podium.entry.diagnosis import BROKEN, OK, WARNING

from .app import App, clean, verb

if TYPE_CHECKING:
    from collections.abc import Iterator

COLOURS = {OK: "green", WARNING: "yellow", BROKEN: "red"}


@click.group("examination")
def group() -> None:
    """Looking after podium itself."""


@verb(
    group,
    "doctor",
    "podium doctor --live",
    "Exit codes: 0 nothing is broken, 1 something is, 2 wrong usage.",
)
@click.option("--live", is_flag=True, help="Also run the client once, offline, against a script.")
def doctor(app: App, live: bool) -> None:
    """Say what works and what does not: Python, client, plugin, hooks, database, windows, clock."""
    findings = []
    for finding in _examine(app, live=live):
        findings.append(finding)
        if not app.as_json:
            word = click.style(f"{finding.level:<8}", fg=COLOURS[finding.level])
            rest = clean(finding.line)[8:]
            click.echo((word if sys.stdout.isatty() else f"{finding.level:<8}") + rest)
    broken = sum(f.level == BROKEN for f in findings)
    if app.as_json:
        app.show({"broken": broken, "findings": [f._asdict() for f in findings]}, "")
    click.get_current_context().exit(REFUSED if broken else 0)


def _examine(app: App, *, live: bool) -> Iterator[diagnosis.Finding]:
    place = diagnosis.Place(app.settings, app.env)
    yield from diagnosis.examine(place)
    if live:
        from podium.entry import rehearsal

        yield rehearsal.prove(place)
