"""Every command of the command line, by its words; and words that several tests type."""

from __future__ import annotations

import click

from podium.entry.cli import main

BOSS, S1, S2 = "boss-1", "player-1", "player-2"
SUBMIT = "--checkpoint 1/2 --smoothness 2 --summary done --files 3 --tests pass".split()
FINISH = "--smoothness 1 --summary all --files 3 --tests pass --report report.md".split()


def leaves(group: click.Group = main, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command by its words."""
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = isinstance(command, click.Group)
        found += leaves(command, (*path, name)) if inner else [(*path, name)]  # type: ignore[arg-type]
    return found


def command_of(path: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command
