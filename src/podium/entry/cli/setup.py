"""podium init: everything a project needs, safe to repeat."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime, timezone

import click

from podium.domain.errors import NotSetUp, PodiumError
from podium.domain.states import CONDUCTOR_ROW, FIRST, Kind

from .app import App, verb

IGNORED = ("comms.db", "comms.db-*", "comms-*.db*", "temp/")


@click.group("setup")
def group() -> None:
    """Setting a project up."""


@verb(group, "init", "podium init")
@click.option("--archive", is_flag=True, help="Move the present database aside first.")
def init(app: App, archive: bool) -> None:
    """Set the project up: database, temp/, .gitignore lines, row task-00. Keeps what is there.

    Rules that an existing database has lost are made anew.
    No session but its conductor can move a run aside that has live tasks.
    """
    from podium.store import migrate

    database, root = app.settings.database, app.settings.root
    if "://" in database:
        _ = app.store
    if archive and app.session_id is not None:
        _check_archive(app)
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    try:
        moved = migrate.archive(database, stamp) if archive else None
        os.makedirs(os.path.dirname(database), exist_ok=True)
        os.makedirs(os.path.realpath(app.settings.path("temp")), mode=0o700, exist_ok=True)
        store = migrate.create(database)
    except OSError as error:
        raise NotSetUp(
            f"{root} cannot be set up ({error.strerror}: {error.filename}); make it writable, "
            "then run: podium init"
        ) from error
    try:
        with store.transaction():
            restored = migrate.restore_rules(store)
            fresh = store.one("task", task_id=CONDUCTOR_ROW) is None
            if fresh:
                store.run(
                    "add_task",
                    task_id=CONDUCTOR_ROW,
                    state=FIRST[Kind.CONDUCTOR].value,
                    instruction_path=None,
                    phase=0,
                    parallel=0,
                    actor=app.session_id or "operator",
                )
    finally:
        store.close()
    ignored = _ignore(root)
    shown = os.path.relpath(database, root)
    lines = [f"{'Made' if fresh else 'Kept'} {shown} in {root}."]
    if moved:
        lines.insert(0, f"Moved the old database to {os.path.relpath(moved, root)}.")
    if restored:
        lines.append(f"Made {len(restored)} rules anew that it had lost.")
    lines.append("Next: podium conductor start, in the session that conducts.")
    app.show(
        {
            "root": root,
            "database": database,
            "made": fresh,
            "archived": moved,
            "ignored": ignored,
            "restored": restored,
        },
        lines,
    )


def _check_archive(app: App) -> None:
    """Nothing, or why this session may not take the run from everybody in it."""
    from podium.services import overview
    from podium.services.callers import require_conductor
    from podium.store import open_store

    try:
        store = open_store(app.settings.database)
    except PodiumError:
        return  # nobody plays in what cannot be read
    with closing(store):
        if overview.counts(store)[1]:
            require_conductor(app.speaker(store))


def _ignore(root: str) -> list[str]:
    """The lines added to .gitignore."""
    path = os.path.join(root, ".gitignore")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    missing = [line for line in IGNORED if line not in text.splitlines()]
    if missing:
        with open(path, "a", encoding="utf-8") as file:
            file.write(
                ("" if not text or text.endswith("\n") else "\n") + "\n".join(missing) + "\n"
            )
    return missing
