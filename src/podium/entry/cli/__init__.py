"""The command line: `podium GROUP VERB`. Its help is the manual that the skills point to."""

from __future__ import annotations

import click

from .app import Lazy

VERBS = {
    "init": "setup",
    "doctor": "doctor",
    "demo": "demo",
    "selftest": "selftest",
    "brief": "brief",
    "status": "look",
    "messages": "look",
    "timeline": "timeline",
    "why": "look",
    "wait": "wait",
    "validate": "checks",
    "temp": "checks",
    "headroom": "checks",
    "conductor": "conductor",
    "musician": "musician",
}


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from podium import version

        click.echo(f"podium {version()}")
        ctx.exit()


@click.command(cls=Lazy, modules=VERBS)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version)
@click.option("--session", metavar="ID", help="Speak as this session.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@click.pass_context
def main(ctx: click.Context, session: str | None, *, as_json: bool) -> None:
    """Several Claude Code sessions as one orchestra: a conductor, musicians, a shared database."""
    ctx.obj.given_session, ctx.obj.as_json = session, as_json
