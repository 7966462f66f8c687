"""podium timeline: who worked on what, when; in the terminal, or as a file to look at."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from podium.domain.errors import PodiumError, WrongUsage
from podium.domain.records import Event, Message
from podium.domain.rules import check_task_id
from podium.domain.states import CONDUCTOR_ROW, ENDED
from podium.services import tasks, timeline, timeline_text

from .app import App, clean, verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from podium.services.timeline import Lane, Timeline
    from podium.store.base import Store

EVERYTHING = 1_000_000
OURS = "<title>podium: "  # near the beginning of every file that is written here
LANES, EVENTS = 7, 6  # ten lines, with the axis, the legend and the rest's count
NAME = 12


@click.group("past")
def group() -> None:
    """Looking back."""


@verb(group, "timeline", "podium timeline --html run.html")
@click.argument("task_id", metavar="[TASK]", required=False)
@click.option("--all", "everything", is_flag=True, help="Every task and, of one task, every event.")
@click.option("--html", metavar="FILE", help="Write one page that needs nothing else.")
@click.option("--svg", metavar="FILE", help="Write the picture alone.")
def show(
    app: App, task_id: str | None, everything: bool, html: str | None, svg: str | None
) -> None:
    """Show who worked on what, when: states, sessions, reviews, errors, waits, context."""
    if task_id is not None:
        tasks.get(app.store, check_task_id(task_id))
    line, events = look_back(app.store, task_id)
    if html or svg:
        _write(app, line, events, html, svg)
        return
    facts = {
        "start": timeline_text.stamp(line.start),
        "end": timeline_text.stamp(line.end),
        "lanes": [_facts(lane) for lane in line.lanes],
        "events": [vars(e) for e in events],
    }
    if app.as_json:
        app.show(facts, "")
        return
    most = EVERYTHING if everything else LANES if task_id is None else EVENTS
    for text in draw(line, events if task_id else [], most):
        click.echo(text)


def look_back(store: Store, task_id: str | None = None) -> tuple[Timeline, list[Event]]:
    """The timeline of one task or of all, and the log that it was made from."""
    conductors = {e.session_id for e in tasks.history(store, CONDUCTOR_ROW, EVERYTHING)} - {None}
    events = tasks.history(store, task_id, EVERYTHING)
    rows = [t for t in tasks.every(store) if task_id in (None, t.task_id)]
    sessions = {str(e.session_id) for e in events if e.session_id}
    mail = store.all("messages", task_id=task_id, message_type=None, most=EVERYTHING)
    context = {name: store.all("context_series", session_id=name) for name in sessions}
    known = [row for row in store.all("sessions") if row["session_id"] in sessions]
    letters = [Message(m) for m in mail]
    line = timeline.build(rows, events, letters, known, context, time.time())
    return line, [_named(e, conductors) for e in events]


def _named(event: Event, conductors: set[str | None]) -> Event:
    """The event, told of the conductor by that name."""
    return Event({**vars(event), "actor": "conductor"}) if event.actor in conductors else event


def _facts(lane: Lane) -> dict[str, Any]:
    stamp = timeline_text.stamp
    return {
        **lane.facts,
        "bars": [
            {
                "state": b.state.value,
                "start": stamp(b.start),
                "end": stamp(b.end),
                "session": b.session,
            }
            for b in lane.bars
        ],
        "marks": [{"at": stamp(m.at), "kind": m.kind, "text": m.text} for m in lane.marks],
        "curves": [[[stamp(at), percent] for at, percent in curve] for curve in lane.context],
    }


def _write(
    app: App, line: Timeline, events: list[Event], html: str | None, svg: str | None
) -> None:
    from podium.services import timeline_html, timeline_svg

    title = f"podium: {os.path.basename(app.settings.root) or app.settings.root}"
    files = {}
    if html:
        files[html] = timeline_html.page(line, events, title)
    if svg:
        files[svg] = timeline_svg.render(line, title)
    for path, text in files.items():
        _save(path, text, ".html" if path == html else ".svg")
    app.show({"written": list(files)}, [f"Wrote {path}: open it in a browser." for path in files])


def _save(path: str, text: str, ending: str) -> None:
    # Sessions type this unasked: it must not be a way to write over whatever the user has.
    if not path.endswith(ending):
        raise WrongUsage(f"{path} does not end in {ending}; name a file that does")
    try:
        with open(path, "a+", encoding="utf-8", errors="replace") as file:
            file.seek(0)
            begin = file.read(1000)
            if begin and OURS not in begin:
                raise PodiumError(f"{path} is there and no timeline of podium; name another file")
            file.truncate(0)
            file.write(text)
    except OSError as error:
        raise PodiumError(
            f"{path} cannot be written ({error.strerror}); name another file"
        ) from error


def draw(line: Timeline, events: list[Event], most: int) -> Iterator[str]:
    """Axis, lanes, what the signs mean; of one task also its newest events."""
    plain = not _can_encode("".join(look.sign for look in timeline_text.LOOKS.values()))
    lanes = list(line.lanes) if events else _chosen(line, most)
    remarks = [timeline_text.remark(lane) for lane in lanes]
    screen = shutil.get_terminal_size().columns
    width = max(10, screen - NAME - max(map(len, remarks), default=0) - 2)
    yield " " * NAME + timeline_text.axis(line, width)
    for lane, remark in zip(lanes, remarks):
        drawn = _coloured(timeline_text.cells(lane, line.start, line.end, width, plain=plain))
        yield f"{clean(lane.task_id)[: NAME - 1]:<{NAME}}{drawn}  {remark}"
    named = (
        f"{look.ascii if plain else look.sign} {name}" for look, name in timeline_text.legend(lanes)
    )
    yield "  ".join(named)
    if len(line.lanes) > len(lanes):
        yield f"{len(line.lanes) - len(lanes)} more: podium timeline --all"
    for e in events[-most:]:
        who = clean(e.who)
        yield f"{e.at} {e.from_state or '(new)'} → {e.to_state} {who}"[:screen]


def _chosen(line: Timeline, most: int) -> list[Lane]:
    """The lanes that fit: the conductor's, then who plays, then who has ended, in their order."""
    urgent = sorted(
        line.lanes, key=lambda lane: (lane.task_id != CONDUCTOR_ROW, lane.state in ENDED)
    )[:most]
    return [lane for lane in line.lanes if lane in urgent]


def _coloured(cells: list[timeline_text.Cell | None]) -> str:
    if not sys.stdout.isatty():
        return "".join(cell.sign if cell else " " for cell in cells)
    drawn = ""
    for cell in cells:
        drawn += click.style(cell.sign, fg=cell.colour) if cell else " "
    return drawn


def _can_encode(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
