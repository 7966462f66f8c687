"""The command line: `podium GROUP VERB`. Its help is the manual that the skills point to."""

from __future__ import annotations

import click

from .app import Lazy

VERBS = {
    "init": "setup",
    "status": "look",
    "messages": "look",
    "timeline": "look",
    "why": "look",
    "validate": "checks",
    "temp": "checks",
    "headroom": "checks",
    "conductor": "conductor",
    "musician": "musician",
}


@click.command(cls=Lazy, modules=VERBS)
@click.version_option(message="%(prog)s %(version)s", package_name=None, version="")
@click.option("--session", metavar="ID", help="Speak as this session.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@click.pass_context
def main(ctx: click.Context, session: str | None, *, as_json: bool) -> None:
    """Several Claude Code sessions as one orchestra: a conductor, musicians, a shared database."""
    ctx.obj.given_session, ctx.obj.as_json = session, as_json
