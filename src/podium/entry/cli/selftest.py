"""podium selftest: what podium promises, tried out on this machine in a folder that is removed."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from podium.domain.errors import REFUSED
from podium.entry import farewell
from podium.entry.proof.report import Amounts, prove, table

from .app import App, verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH = 1000  # parts of the bar


@click.group("proof")
def group() -> None:
    """Trying podium's promises out."""


@verb(
    group,
    "selftest",
    "podium selftest",
    "Exit codes: 0 every count that must be 0 is, 1 one is not, 2 wrong usage.",
)
@click.option("--seed", type=int, help="Repeat the run that had this seed.")
def selftest(app: App, seed: int | None) -> None:
    """Try to break podium on this machine for less than a minute; print what was found.

    Random steps against a model, a race for tasks, kill -9, sessions that sleep through a
    takeover, mutated input; then how long a wake and a hook take. Your projects are not touched.
    """
    seed = int(time.time()) if seed is None else seed
    amounts, began = Amounts(), time.monotonic()
    with farewell.on_signal(with_children=True):
        folder = tempfile.mkdtemp(prefix="podium-selftest-")
        try:
            with _bar(shown=sys.stderr.isatty() and not app.as_json) as tick:
                lines = list(prove(folder, random.Random(seed), amounts, tick))  # noqa: S311
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    wrong = [line for line in lines if line.is_wrong]
    seconds = round(time.monotonic() - began, 1)
    rows = [{**line._asdict(), "wrong": line.is_wrong} for line in lines]
    details = [detail for line in wrong for detail in line.detail.splitlines()[-40:]]
    verdict = f"{len(wrong)} of these must be 0 and are not" if wrong else "Nothing broke"
    app.show(
        {"broken": len(wrong), "seconds": seconds, "seed": seed, "lines": rows},
        [*table(lines), *details, f"{verdict}. {seconds:g} s, seed {seed}."],
    )
    click.get_current_context().exit(REFUSED if wrong else 0)


@contextmanager
def _bar(*, shown: bool) -> Iterator[Callable[[str, float], None]]:
    """What is to be told how far it is; a bar, where somebody watches."""
    if not shown:
        yield lambda _, __: None
        return
    with click.progressbar(
        length=WIDTH, file=sys.stderr, show_eta=False, item_show_func=lambda name: name
    ) as bar:
        yield lambda name, done: bar.update(round(done * WIDTH) - bar.pos, name)
