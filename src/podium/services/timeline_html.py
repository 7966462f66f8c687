"""The timeline as one page: the picture, the figures, the log. No script, no network. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import timeline_svg
from .timeline_svg import escape
from .timeline_text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from podium.domain.records import Event

    from .timeline import Timeline

COLUMNS = {
    "task_id": "Task",
    "phase": "Phase",
    "state": "State",
    "sessions": "Sessions",
    "worked": "At work",
    "waited": "Waited",
    "approved": "Approved",
    "failed": "Rejected",
    "errors": "Errors",
    "deaths": "Deaths",
    "context": "Context",
}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = (
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:14px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "main{max-width:1280px;margin:0 auto;padding:8px 0 40px}"
    "svg.podium{display:block;width:100%;height:auto;min-width:960px}"
    "section{padding:0 16px;overflow-x:auto}h2{font-size:15px;margin:28px 0 8px}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th,td{text-align:right;padding:3px 10px;white-space:nowrap}"
    "th,td{border-bottom:1px solid var(--grid)}"
    "th{color:var(--faint);font-weight:500}"
    "th:first-child,td:first-child,.text{text-align:left}"
    "summary{cursor:pointer;color:var(--faint);margin:20px 0 8px}"
)


def _shown(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name in ("worked", "waited") and isinstance(value, int):
        return duration(value) if value else "-"
    if name == "context":
        return f"{value}%"
    return escape(str(value)) if value else "-"


def _row(tag: str, values: Iterable[tuple[str, str]]) -> str:
    text = ("task_id", "state", "what")
    cells = (
        f"<{tag}{' class=text' if name in text else ''}>{value}</{tag}>" for name, value in values
    )
    return f"<tr>{''.join(cells)}</tr>"


def page(timeline: Timeline, events: Sequence[Event], title: str) -> str:
    """One self-contained document; `title` is the run's name."""
    heads = _row("th", ((name, text) for name, text in COLUMNS.items()))
    rows = "".join(
        _row("td", ((name, _shown(name, lane.facts[name])) for name in COLUMNS))
        for lane in timeline.lanes
    )
    log = "".join(
        _row("td", (("what", escape(text)) for text in (e.at, e.task_id, _move(e), e.who)))
        for e in events
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"{timeline_svg.render(timeline, title)}"
        f"<section><h2>Figures</h2><table>{heads}{rows}</table>"
        f"<details><summary>The log: {len(events)} events, times in UTC</summary>"
        f"<table>{log}</table></details></section></main></body></html>\n"
    )


def _move(event: Event) -> str:
    return f"{event.from_state or '(new)'} → {event.to_state}"
