"""podium demo: a whole concert on this machine, without a model and without touching anything."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import click

from podium.domain.quotes import one_line
from podium.domain.rules import age
from podium.domain.states import CONDUCTOR_ROW, State
from podium.entry import farewell
from podium.entry.demo import player, score
from podium.entry.demo.concert import EVERYTHING, Concert, WentWrong, newest_mail
from podium.services import tasks

from .app import App, clean, verb
from .look import COLOURS
from .timeline import draw, look_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from podium.domain.records import Event
    from podium.store.base import Store

PACE = 2.4  # seconds that a step of work takes, where somebody watches
OVER = (
    "{tasks} tasks complete in {seconds} s: {sessions} sessions, {rejected} review rejected, "
    "{killed} session killed and replaced, 0 model turns."
)


@click.group("demonstration")
def group() -> None:
    """Showing what podium does."""


class Screen:
    """The live view: a table that is redrawn on a terminal, a line for each event elsewhere."""

    def __init__(self, concert: Concert, store: Store, *, quiet: bool) -> None:
        self.concert, self.store, self.quiet = concert, store, quiet
        self.live = sys.stdout.isatty() and not quiet
        self.drawn = self.told = self.seen = 0
        self.mourned = False

    def show(self) -> None:
        """Draw what is new."""
        if self.quiet:
            return
        if self.live:
            frame = list(self._frame())
            up = f"\x1b[{self.drawn}A" if self.drawn else ""
            click.echo(up + "".join(f"\x1b[2K{line}\n" for line in frame), nl=False)
            self.drawn = len(frame)
            return
        if self.concert.killed and not self.mourned:
            self.mourned = True
            click.echo(f"{self.concert.seconds:5.1f} s  {self._death()}")
        change = self.store.change()
        if change == self.seen:
            return
        self.seen = change
        events = tasks.history(self.store, None, EVERYTHING)
        for event in events[self.told :]:
            click.echo(f"{self.concert.seconds:5.1f} s  {_line(event)}")
        self.told = len(events)

    def _death(self) -> str:
        return f"{score.KILLED}  its session was killed (kill -9 {self.concert.killed})"

    def _frame(self) -> Iterator[str]:
        width = shutil.get_terminal_size().columns - 1
        mail = newest_mail(self.store)
        head = f"podium demo  {self.concert.seconds:4.1f} s"
        yield (
            click.style(head, bold=True)
            + "  real hooks, commands and database; no model"[: width - 20]
        )
        for task in tasks.every(self.store):
            who = task.worked_by or ("conductor" if task.task_id == CONDUCTOR_ROW else "nobody yet")
            last = mail.get(task.task_id)
            text = one_line(last.message, 200) if last else ""
            row = (
                f"{task.task_id:<9}{task.state.value:<17}{who:<21}{age(task.owner_age):>6}  {text}"
            )
            yield click.style(clean(row)[:width], fg=COLOURS.get(task.state))
        yield click.style(self._death(), fg="red") if self.concert.killed else ""


def _line(event: Event) -> str:
    move = f"{event.from_state or '(new)'} → {event.to_state}"
    by = event.worked_by if event.actor == event.session_id else None
    return f"{event.task_id}  {move:<33} {by or 'conductor'}"


@verb(
    group,
    "demo",
    "podium demo --fast",
    "Exit codes: 0 it went as scripted, 1 it did not, 2 wrong usage.",
)
@click.option("--fast", is_flag=True, help="Without pauses to watch it.")
@click.option("--keep", is_flag=True, help="Keep the project, to look around in it.")
def demo(app: App, fast: bool, keep: bool) -> None:
    """Play a concert without a model: real hooks, commands and database, scripted players.

    Two parallel tasks and one after them; a review is rejected, a musician killed and replaced.
    """
    with farewell.on_signal():
        folder = os.path.realpath(tempfile.mkdtemp(prefix="podium-demo-"))
        concert = Concert(folder, app.env, 0.0 if fast else PACE)
        try:
            facts, past = _play(app, concert)
        finally:
            concert.end()
            if not keep:
                _remove(folder)
    kept = concert.project if keep else None
    if app.as_json:
        app.show({**facts, "kept": kept}, "")
        return
    for line in ["", OVER.format(**facts), "", *past, "", *_next(kept, _name(app))]:
        click.echo(line)


def _remove(folder: str) -> None:
    """Remove the folder, also from under a server that is just saying its farewell."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.05)


def _play(app: App, concert: Concert) -> tuple[dict[str, object], list[str]]:
    """The concert in figures, and its timeline; WentWrong when it did not go as scripted."""
    store = None
    try:
        store = concert.start()
        screen = Screen(concert, store, quiet=app.as_json)
        while concert.go_on():
            screen.show()
        screen.show()
        events = concert.check(store)
        past = list(draw(look_back(store)[0], [], EVERYTHING))
    except WentWrong as wrong:
        raise WentWrong(f"the demo did not go as scripted: {wrong}; run: podium doctor") from wrong
    finally:
        if store is not None:
            store.close()
    facts: dict[str, object] = {
        "tasks": len(score.TASKS),
        "sessions": len({e.session_id for e in events if e.session_id}),
        "rejected": sum(e.to_state == State.REVIEW_FAILED.value for e in events),
        "killed": int(bool(concert.killed)),
        "events": len(events),
        "seconds": round(concert.seconds, 1),
    }
    return facts, past


def _name(app: App) -> str:
    """What a person types for podium here: the client has it on the path, a shell may not."""
    if shutil.which("podium", path=app.env.get("PATH")):
        return "podium"
    return shlex.quote(os.path.join(os.path.realpath(player.ROOT), "bin", "podium"))


def _next(kept: str | None, name: str) -> list[str]:
    here = (
        [f"Kept: {kept}", f"There: {name} status, {name} messages, {name} why task-02"]
        if kept
        else [f"To look around in it: {name} demo --keep"]
    )
    return [*here, "With the real client: README.md, Install"]
