"""The timeline as one SVG: nothing outside it is needed, light and dark follow the reader. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium.domain.rules import ESTIMATE_ABOVE, LEAVE_AT, PREPARE_AT
from podium.domain.states import AWAITING, CONDUCTOR_ROW, State

from .timeline import MARKED
from .timeline_text import clock, duration, ticks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .timeline import Bar, Lane, Timeline

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1280, 120, 170, 92, 30
LANE, BAR_Y, BAR, CURVE_Y, CURVE = 43, 13, 12, 28, 10
PHASE = 26
CHARACTER = 6.2  # width of a legend's character, about

S = State
# state: colour on light, colour on dark
COLOURS = {
    S.WATCHING: ("#b8bfca", "#59616e"),
    S.WORKING: ("#3572d8", "#5b94f5"),
    S.NEEDS_REVIEW: ("#d99a00", "#e5b13a"),
    S.REVIEWING: ("#0f8ea3", "#35b6c9"),
    S.REVIEW_APPROVED: ("#3ba55d", "#54c278"),
    S.REVIEW_FAILED: ("#dd5f26", "#f0834f"),
    S.ERROR: ("#cf3440", "#f0626c"),
    S.FIX_PROPOSED: ("#8a58d0", "#ab83ea"),
    S.EXIT_REQUESTED: ("#bd4f95", "#dd7fb9"),
    S.EXITED: ("#7d838d", "#8f97a3"),
    S.COMPLETE: ("#1d8648", "#3fb36d"),
}
PAPER = {
    "paper": ("#ffffff", "#14171c"),
    "band": ("#f5f7f9", "#1b1f26"),
    "ink": ("#1d2128", "#e6e9ee"),
    "faint": ("#667080", "#98a2b0"),
    "grid": ("#e2e6eb", "#2b313a"),
    "curve": ("#8a94a3", "#7c8796"),
    "on": ("#ffffff", "#14171c"),
}
LINES = (S.WATCHING, S.EXITED)  # nobody is at it: a line, no bar
# What a mark shows, and the state that lends it its colour.
MARKS = {
    "approved": ("M-3 0 L-1 2.3 L3 -2.3", S.REVIEW_APPROVED),
    "failed": ("M-2.3 -2.3 L2.3 2.3 M2.3 -2.3 L-2.3 2.3", S.REVIEW_FAILED),
    "error": ("M0 -3.2 V0.8 M0 2.8 V3.2", S.ERROR),
    "fix": ("M-2.6 -0.6 L0 -3 L2.6 -0.6 M0 -3 V3.2", S.FIX_PROPOSED),
    "death": ("M0 -3.4 V3.6 M-2.2 -1.2 H2.2", S.ERROR),
    "warning": ("M-3 1.6 L0 -2.4 L3 1.6", S.NEEDS_REVIEW),
    "word": ("M-3 -1.2 H3 M-3 1.4 H1", S.EXIT_REQUESTED),
}
MARK_NAMES = {
    "approved": "review approved",
    "failed": "review failed",
    "error": "error",
    "fix": "fix proposed or handed off",
    "death": "session died",
    "warning": "context warning",
    "word": "word from the conductor",
}


def escape(text: str) -> str:
    """Text that is nothing but text in XML and HTML, in or out of quotes."""
    shown = "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
    pairs = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))
    for sign, safe in pairs:
        shown = shown.replace(sign, safe)
    return shown


def style() -> str:
    """Colours and type, for the SVG alone and for a page around it."""

    def variables(shade: int) -> str:
        pairs = {**{f"s-{s.value}": c for s, c in COLOURS.items()}, **PAPER}
        return ";".join(f"--{name}:{colour[shade]}" for name, colour in pairs.items())

    states = "".join(
        f".s-{s.value}{{fill:var(--s-{s.value})}}.l-{s.value}{{stroke:var(--s-{s.value})}}"
        for s in COLOURS
    )
    return (
        f":root{{color-scheme:light dark;{variables(0)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{variables(1)}}}}}"
        f"{states}"
        "svg.podium{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
        "svg.podium text{fill:var(--ink)}"
        "svg.podium .faint{fill:var(--faint);font-size:11px}"
        "svg.podium .tiny{fill:var(--faint);font-size:10px}"
        "svg.podium .task{font-weight:600}svg.podium .time{text-anchor:middle}"
        "svg.podium .title{font-size:15px;font-weight:600}"
        ".paper{fill:var(--paper)}.band{fill:var(--band)}.grid{stroke:var(--grid)}"
        ".span{fill:none;stroke:var(--faint)}.line{stroke-width:2;stroke-dasharray:1 4}"
        ".line,.mark path{stroke-linecap:round}"
        ".mark circle{stroke:var(--paper);stroke-width:1.5}"
        ".mark path{stroke:var(--on);stroke-width:1.6;fill:none}"
        ".curve{fill:none;stroke:url(#level);stroke-width:1.4;stroke-linejoin:round}"
        ".under{fill:url(#level);opacity:.16}"
    )


def _definitions() -> str:
    hatches = "".join(
        f'<pattern id="wait-{s.value}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="6" height="6" class="s-{s.value}" '
        f'opacity=".3"/><rect width="2.6" height="6" class="s-{s.value}"/></pattern>'
        for s in AWAITING
    )
    marks = "".join(
        f'<g id="m-{kind}" class="mark"><circle r="6.5" class="s-{state.value}"/>'
        f'<path d="{shape}"/></g>'
        for kind, (shape, state) in MARKS.items()
    )
    bottom, top = CURVE_Y + CURVE, CURVE_Y
    stops = (
        (0, "var(--curve)"),
        (ESTIMATE_ABOVE, "var(--curve)"),
        (PREPARE_AT, "var(--s-needs_review)"),
        (LEAVE_AT, "var(--s-error)"),
        (100, "var(--s-error)"),
    )
    level = "".join(f'<stop offset="{at}%" style="stop-color:{colour}"/>' for at, colour in stops)
    return (
        f'<defs>{hatches}{marks}<linearGradient id="level" gradientUnits="userSpaceOnUse" '
        f'x1="0" x2="0" y1="{bottom}" y2="{top}">{level}</linearGradient></defs>'
    )


class _Drawing:
    """One SVG in the making: where a moment stands, and what has been drawn."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.scale = (WIDTH - LEFT - RIGHT) / (timeline.end - timeline.start)

    def x(self, at: float) -> float:
        """Where a moment stands."""
        inside = min(max(at, self.timeline.start), self.timeline.end)
        return round(LEFT + (inside - self.timeline.start) * self.scale, 1)

    def lane(self, lane: Lane, y: int) -> Iterator[str]:
        """One task, in coordinates of its own."""
        yield f'<g transform="translate(0 {y})">'
        yield f'<text class="task" x="16" y="{BAR_Y + 10}">{escape(lane.task_id)}</text>'
        for span in lane.spans:
            left, right = self.x(span.start), self.x(span.end)
            tip = f"{span.label}: {span.name}, {clock(span.start)} to {clock(span.end)} UTC"
            yield f"<g><title>{escape(tip)}</title>"
            yield f'<path class="span" d="M{left} 11 V8.5 H{max(right, left + 3)} V11"/>'
            if len(lane.spans) > 1 or lane.task_id != CONDUCTOR_ROW:
                yield f'<text class="tiny" x="{left + 1}" y="6.5">{span.label}</text>'
            yield "</g>"
        for bar in lane.bars:
            yield self.bar(lane, bar)
        yield from self.curves(lane)
        for mark in lane.marks:
            tip = f"{clock(mark.at)} UTC {MARK_NAMES[mark.kind]}: {mark.text}"
            place = f"translate({self.x(mark.at)} {BAR_Y + BAR / 2:g})"
            yield f'<g transform="{place}"><title>{escape(tip)}</title>'
            yield f'<use href="#m-{mark.kind}"/></g>'
        x = WIDTH - RIGHT + 18
        facts = lane.facts
        yield f'<circle class="s-{lane.state.value}" cx="{x}" cy="{BAR_Y + 3}" r="4"/>'
        yield f'<text x="{x + 11}" y="{BAR_Y + 7}">{lane.state.value}</text>'
        sessions = f", {facts['sessions']} sessions" if facts["sessions"] > 1 else ""
        worked = f"{duration(facts['worked'])}{sessions}" if lane.spans else "nobody yet"
        yield f'<text class="tiny" x="{x + 11}" y="{BAR_Y + 19}">{worked}</text></g>'

    def bar(self, lane: Lane, bar: Bar) -> str:
        """One state of a task."""
        left, right = self.x(bar.start), self.x(bar.end)
        who = f" S{bar.session}" if bar.session else ""
        tip = (
            f"{lane.task_id}{who} {bar.state.value}, {clock(bar.start)} to {clock(bar.end)} UTC "
            f"({duration(bar.end - bar.start)})"
        )
        title = f"<title>{escape(tip)}</title>"
        middle = BAR_Y + BAR / 2
        if bar.state is S.COMPLETE:
            return f'<circle class="s-complete" cx="{left}" cy="{middle:g}" r="6">{title}</circle>'
        if bar.state in LINES:
            return (
                f'<path class="line l-{bar.state.value}" d="M{left} {middle:g} '
                f'H{max(right, left + 1)}">{title}</path>'
            )
        fill = (
            f'fill="url(#wait-{bar.state.value})"'
            if bar.state in AWAITING
            else f'class="s-{bar.state.value}"'
        )
        wide = max(round(right - left, 1), 1.5)
        return (
            f'<rect {fill} x="{left}" y="{BAR_Y}" width="{wide}" height="{BAR}" '
            f'rx="{min(3, wide / 3):g}">{title}</rect>'
        )

    def curves(self, lane: Lane) -> Iterator[str]:
        """The measured context of each session, from empty to full."""
        for curve in lane.context:
            points = [
                (self.x(at), round(CURVE_Y + CURVE * (1 - min(p, 100) / 100), 1)) for at, p in curve
            ]
            first, last = points[0][0], max(points[-1][0], points[0][0] + 2)
            line = " L".join(f"{x} {y}" for x, y in [*points, (last, points[-1][1])])
            base = CURVE_Y + CURVE
            tip = ", ".join(f"{clock(at)} {p}%" for at, p in curve[-8:])
            yield f"<g><title>{escape(f'{lane.task_id} context: {tip}')}</title>"
            yield f'<path class="under" d="M{first} {base} L{line} V{base} Z"/>'
            yield f'<path class="curve" d="M{line}"/>'
            yield f'<text class="tiny" x="{last + 3}" y="{base}">{curve[-1][1]}%</text></g>'

    def axis(self, height: int) -> Iterator[str]:
        """Times of day, above and below."""
        marks, step = ticks(self.timeline.start, self.timeline.end, 12)
        for at in marks:
            x = self.x(at)
            yield f'<path class="grid" d="M{x} {TOP - 8} V{height - BOTTOM}"/>'
            for y in (TOP - 14, height - BOTTOM + 16):
                yield f'<text class="faint time" x="{x}" y="{y}">{clock(at, step)}</text>'

    def legend(self) -> Iterator[str]:
        """What the colours and marks mean, as far as they occur."""
        x, y = 16.0, 46
        used = {bar.state for lane in self.timeline.lanes for bar in lane.bars}
        kinds = {mark.kind for lane in self.timeline.lanes for mark in lane.marks}
        entries = [(_sample(s), s.value) for s in COLOURS if s in used and s not in MARKED]
        entries += [
            ('<use href="#m-' + kind + '" x="7" y="-4"/>', MARK_NAMES[kind])
            for kind in MARKS
            if kind in kinds
        ]
        for sample, name in entries:
            wide = 22 + len(name) * CHARACTER + 14
            if x + wide > WIDTH - 16:
                x, y = 16.0, y + 18
            yield f'<g transform="translate({x:g} {y})">{sample}'
            yield f'<text class="faint" x="20" y="0">{name}</text></g>'
            x += wide


def _sample(state: State) -> str:
    if state is S.COMPLETE:
        return '<circle class="s-complete" cx="7" cy="-4" r="5"/>'
    if state in LINES:
        return f'<path class="line l-{state.value}" d="M0 -4 H14"/>'
    fill = f'fill="url(#wait-{state.value})"' if state in AWAITING else f'class="s-{state.value}"'
    return f'<rect {fill} y="-9" width="14" height="10" rx="2"/>'


def render(timeline: Timeline, title: str) -> str:
    """The whole picture; `title` is the run's name."""
    drawing, body = _Drawing(timeline), []
    y, phase = TOP, None
    for lane in timeline.lanes:
        if lane.task_id != CONDUCTOR_ROW and lane.phase != phase:
            phase = lane.phase
            body.append(
                f'<rect class="band" x="0" y="{y + 4}" width="{WIDTH}" height="{PHASE - 8}"/>'
            )
            body.append(f'<text class="faint" x="16" y="{y + 17}">Phase {phase}</text>')
            y += PHASE
        body += drawing.lane(lane, y)
        y += LANE
    height = y + BOTTOM
    length = duration(timeline.end - timeline.start)
    span = f"{clock(timeline.start)} to {clock(timeline.end)} UTC, {length}"
    head = 'xmlns="http://www.w3.org/2000/svg" class="podium" role="img"'
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "".join(
        (
            f"<svg {head} {size}>",
            f"<title>{escape(title)}</title><style>{style()}</style>{_definitions()}",
            f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
            f'<text class="title" x="16" y="25">{escape(title)}</text>',
            f'<text class="faint" x="{WIDTH - 16}" y="25" text-anchor="end">{span}</text>',
            *drawing.legend(),
            *drawing.axis(height),
            *body,
            "</svg>\n",
        )
    )
