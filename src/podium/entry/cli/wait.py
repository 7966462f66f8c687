"""podium wait: the same waiting that the hooks do, for a shell or a background task."""

from __future__ import annotations

import os
import sys

import click

from podium.domain.errors import NOTHING_CAME, OTHER_SIDE_STALE, PodiumError, WrongUsage
from podium.domain.records import Message
from podium.domain.rules import STALE_AFTER, WAIT_AT_MOST, check_task_id
from podium.domain.states import CONDUCTOR_ROW
from podium.entry import waiting
from podium.entry.settings import bells_folder
from podium.services import bells, inbox, life, overview, tasks

from .app import App, verb

LONGEST = 30 * 24 * 3600  # seconds


@click.group("waits")
def group() -> None:
    """Waiting."""


class Watch:
    """What one caller waits for: a task's changes, or the news of its role."""

    def __init__(self, app: App, task_id: str | None) -> None:
        self.app, self.caller = app, app.caller
        self.task_id = task_id
        self.before = self._newest()
        self.states = self._states()

    def _newest(self) -> tuple[int, int]:
        if self.task_id is None:
            return 0, 0
        row = self.app.store.one("newest", task_id=self.task_id)
        return (row["event"], row["message"]) if row else (0, 0)

    def _states(self) -> list[str]:
        """The states of the caller's tasks: a verdict may come without a message."""
        session_id = self.caller.session_id
        rows = self.app.store.all("tasks_of_session", session_id=session_id)
        return [row["state"] for row in rows if row["task_id"] != CONDUCTOR_ROW]

    def has_come(self, stale_after: int) -> bool:
        """Whether there is something to print."""
        store = self.app.store
        if self.task_id is not None:
            return self._newest() > self.before
        if self.caller.session_id is not None:
            news = inbox.gather(store, self.caller.session_id, stale_after)
            return bool(news) or waiting.after_second_half(moved=self._states() != self.states)
        return bool(overview.urgent(overview.attention(store, stale_after)))

    def show(self) -> None:
        """Print what came; a session is shown it once."""
        store, session_id = self.app.store, self.caller.session_id
        if self.task_id is not None:
            task = tasks.get(store, self.task_id)
            rows = store.all("messages", task_id=self.task_id, message_type=None, most=5)
            new = [Message(row) for row in rows if row["id"] > self.before[1]]
            news = "\n".join([f"{self.task_id} is {task.state.value}", *map(inbox.quote, new)])
            facts = {"state": task.state.value, "messages": [vars(m) for m in new]}
            self.app.show({"task_id": self.task_id, **facts}, news.splitlines())
        elif session_id is not None:
            if not inbox.deliver(
                store, session_id, lambda text: self.app.show({"news": text}, text.splitlines())
            ):
                states = ", ".join(self._states())
                self.app.show({"states": self._states()}, f"Now {states}. Next: podium brief")
        else:
            items = overview.urgent(overview.attention(store))
            self.app.show({"items": [i.facts() for i in items]}, [i.line() for i in items[:9]])

    def other_side(self) -> tuple[str, bool]:
        """Who could have answered, and whether nobody is there to do so.

        For another's task who plays it, for a musician the conductor, for it all who play.
        """
        store = self.app.store
        waited = self.task_id if self.task_id not in [t.task_id for t in self.caller.rows] else None
        if waited is None and self.caller.is_conductor:
            side = "who plays"
            rows = [t for t in tasks.every(store) if t.task_id != CONDUCTOR_ROW]
        elif waited in (None, CONDUCTOR_ROW):
            side, rows = "the conductor", [tasks.get(store, CONDUCTOR_ROW)]
        else:
            side, rows = f"who plays {waited}", [tasks.get(store, str(waited))]
        ages = [t.owner_age for t in rows if t.owner_age is not None]
        return side, not any(age < STALE_AFTER for age in ages)

    def beat(self) -> None:
        """The sign of life of a session that waits in a shell."""
        if self.caller.session_id is not None:
            life.beat(self.app.store, self.caller.session_id)


@verb(
    group,
    "wait",
    "podium wait --timeout 600",
    "Exit codes: 0 something came, 1 refused, 2 wrong usage, 3 not set up, "
    "4 nothing came and the other side is alive, 5 nothing came and the other side is stale.",
)
@click.option("--task", "task_id", metavar="TASK", help="Wait for any change of this task.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, LONGEST),
    default=WAIT_AT_MOST,
    show_default=True,
    metavar="SECONDS",
)
def wait(app: App, task_id: str | None, timeout: float) -> None:
    """Block until something for this role happens, then print it. Costs no model turn."""
    if timeout != timeout:  # noqa: PLR0124  # nan, which is in every range
        raise WrongUsage("--timeout nan is no number of seconds; say how many")
    if task_id is not None:
        tasks.get(app.store, check_task_id(task_id))
    watch = Watch(app, task_id)
    parent = os.getppid()
    with waiting.Alone(_lock(app, watch)) as alone:
        if not alone:
            raise PodiumError("this session waits already; end your turn, or stop the other wait")
        came = waiting.wait(
            app.store,
            watch.has_come,
            beat=watch.beat,
            abandoned=lambda: os.getppid() != parent,
            timeout=timeout,
        )
    if came:
        watch.show()
        return
    side, stale = watch.other_side()
    life = "shows no sign of life" if stale else "is alive"
    text = f"Nothing came in {timeout:g} s; {side} {life}."
    app.show({"came": False, "other_side_stale": stale}, text)
    sys.exit(OTHER_SIDE_STALE if stale else NOTHING_CAME)


def _lock(app: App, watch: Watch) -> str:
    folder = bells_folder(app.env)
    if watch.caller.session_id is None or folder is None:
        return os.devnull
    bell = bells.path(folder, watch.caller.session_id)
    bells.hang(bell)
    return bell + ".wait"
