"""Bars, sessions and marks from the log; the pictures made of them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from long_run import HOSTILE, Run

from podium.domain.records import Event, Message, Task
from podium.domain.states import State
from podium.services import timeline, timeline_html, timeline_svg, timeline_text
from podium.services.timeline import Timeline, moment

NOON = "2026-03-01 12:00:"
VERDICTS = ("review_approved", "review_failed", "fix_proposed")


def events(*moves: tuple[int, str, str | None, str | None], task: str = "task-01") -> list[Event]:
    """A log of (second, state, session, name)."""
    found, state = [], None
    for number, (second, to, session, name) in enumerate(moves, 1):
        row = {
            "id": number,
            "task_id": task,
            "at": f"{NOON}{second:02}",
            "actor": "task-00" if to in VERDICTS else session or "task-00",
            "from_state": state,
            "to_state": to,
            "session_id": session,
            "worked_by": name,
            "last_message": 0,
        }
        found.append(Event(row))
        state = to
    return found


def build(
    log: list[Event],
    mail: list[Message] | None = None,
    deaths: dict[str, int] | None = None,
    context: dict[str, list[dict[str, Any]]] | None = None,
    now: int = 59,
) -> Timeline:
    tasks = {e.task_id: Task({"task_id": e.task_id, "state": e.to_state, "phase": 1}) for e in log}
    sessions = [
        {"session_id": name, "ended_at": f"{NOON}{at:02}", "ended": "killed"}
        for name, at in (deaths or {}).items()
    ]
    now_at = moment(f"{NOON}{now:02}")
    return timeline.build(tasks.values(), log, mail or [], sessions, context or {}, now_at)


def seconds(at: float) -> float:
    return round(at - moment(f"{NOON}00"), 2)


PLAYED = (
    (0, "watching", None, None),
    (5, "working", "a", "musician-task-01"),
    (20, "needs_review", "a", "musician-task-01"),
)


def test_states_become_bars_that_touch() -> None:
    (lane,) = build(events(*PLAYED)).lanes
    assert [(b.state.value, seconds(b.start), seconds(b.end), b.session) for b in lane.bars] == [
        ("watching", 0, 5, 0),
        ("working", 5, 20, 1),
        ("needs_review", 20, 59, 1),
    ]
    assert lane.facts["worked"] == 15
    assert lane.facts["waited"] == 39


def test_what_happened_within_a_second_shares_it_in_its_order() -> None:
    log = events(
        (3, "watching", None, None), (3, "working", "a", "m"), (3, "error", "a", "m"),
        (3, "fix_proposed", "a", "m"),
    )  # fmt: skip
    (lane,) = build(log, now=10).lanes
    assert [seconds(b.start) for b in lane.bars] == [3, 3.25, 3.5, 3.75]


def test_a_clock_that_was_set_back_turns_no_order_round() -> None:
    log = events((30, "watching", None, None), (5, "working", "a", "m"), (40, "error", "a", "m"))
    (lane,) = build(log).lanes
    assert all(a.end <= b.start or a.end == b.start for a, b in pairwise(lane.bars))
    assert all(bar.end >= bar.start for bar in lane.bars)


def test_a_successor_is_the_second_session() -> None:
    log = events(
        *PLAYED,
        (25, "exited", "a", "musician-task-01"),
        (30, "fix_proposed", "a", "musician-task-01"),
        (35, "working", "b", "musician-task-01-S2"),
    )
    (lane,) = build(log).lanes
    assert [(s.label, s.name, seconds(s.start), seconds(s.end)) for s in lane.spans] == [
        ("S1", "musician-task-01", 5, 25),
        ("S2", "musician-task-01-S2", 35, 59),
    ]


def test_a_session_that_was_cleared_keeps_its_number() -> None:
    log = events(*PLAYED, (25, "needs_review", "a2", "musician-task-01"))
    (lane,) = build(log).lanes
    assert [s.label for s in lane.spans] == ["S1"]
    assert {b.session for b in lane.bars if b.state is State.NEEDS_REVIEW} == {1}


@pytest.mark.parametrize("died", [5, 12])
def test_a_death_is_marked_where_it_ended_a_part(died: int) -> None:
    log = events(
        *PLAYED[:2],
        (30, "fix_proposed", "a", "musician-task-01"),
        (35, "working", "b", "musician-task-01-S2"),
    )
    (lane,) = build(log, deaths={"a": died}).lanes
    assert [(m.kind, m.text) for m in lane.marks if m.kind == "death"] == [
        ("death", "session killed")
    ]
    assert seconds(lane.spans[0].end) == died + 0.99
    assert seconds(lane.spans[1].start) == 35


def test_a_session_that_ends_after_its_task_has_not_died_at_work() -> None:
    (lane,) = build(events(*PLAYED, (30, "complete", "a", "m")), deaths={"a": 31}).lanes
    assert lane.facts["deaths"] == 0


def test_verdicts_and_errors_are_marked_and_counted() -> None:
    log = events(
        *PLAYED,
        (22, "review_failed", "a", "m"),
        (30, "needs_review", "a", "m"),
        (31, "review_approved", "a", "m"),
        (40, "error", "a", "m"),
    )
    (lane,) = build(log).lanes
    assert [m.kind for m in lane.marks] == ["failed", "approved", "error"]
    counted = {name: lane.facts[name] for name in ("approved", "failed", "errors")}
    assert counted == {"approved": 1, "failed": 1, "errors": 1}


def test_a_finished_run_ends_with_its_last_event_and_a_running_one_now() -> None:
    log = events((0, "watching", "boss", None), (9, "complete", "boss", None), task="task-00")
    assert seconds(build(log).end) == 9
    assert seconds(build(log[:1]).end) == 59


def test_each_session_has_its_own_curve() -> None:
    curve = [{"at": f"{NOON}{s:02}", "percent": p, "tokens": 1} for s, p in ((6, 20), (12, 41))]
    (lane,) = build(events(*PLAYED), context={"a": curve, "stranger": curve}).lanes
    assert [[(seconds(at), p) for at, p in c] for c in lane.context] == [[(6, 20), (12, 41)]]
    assert lane.facts["context"] == 41


def test_nothing_that_has_happened_is_no_error() -> None:
    empty = build([])
    assert timeline_svg.render(empty, "x")
    assert timeline_html.page(empty, [], "x")
    assert timeline_text.axis(empty, 20) is not None


# The terminal


def test_a_moment_of_trouble_is_never_drawn_over() -> None:
    log = events(*PLAYED, (21, "review_failed", "a", "m"), (22, "working", "a", "m"))
    line = build(log)
    row = timeline_text.cells(line.lanes[0], line.start, line.end, 10, plain=True)
    drawn = "".join(cell.sign if cell else " " for cell in row)
    assert len(drawn) == 10
    assert "x" in drawn


@pytest.mark.parametrize("hours", [0.001, 0.1, 1, 9, 100, 5000])
def test_ticks_are_few_and_inside(hours: float) -> None:
    start = moment(f"{NOON}07")
    marks, step = timeline_text.ticks(start, start + hours * 3600, 8)
    assert len(marks) <= 9
    assert all(start <= at <= start + hours * 3600 for at in marks)
    assert step >= 1


@pytest.mark.parametrize(
    ("given", "shown"), [(0, "0 s"), (61, "1 min 1 s"), (3600, "1 h"), (90_000, "1 d 1 h")]
)
def test_a_duration_is_said_as_people_say_it(given: int, shown: str) -> None:
    assert timeline_text.duration(given) == shown


# The pictures


@pytest.fixture(scope="module")
def night() -> tuple[Timeline, list[Event]]:
    run = Run(50)
    log = run.events
    return timeline.build(run.tasks, log, run.mail, run.sessions, run.context, run.now), log


def test_the_picture_is_sound_and_needs_nothing_else(night: tuple[Timeline, list[Event]]) -> None:
    text = timeline_svg.render(night[0], f"podium: {HOSTILE}")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    outside = [
        value
        for element in root.iter()
        for name, value in element.attrib.items()
        if name.endswith("href") and not value.startswith("#")
    ]
    assert outside == []
    assert not re.search(r"url\((?!#)|@import|<script", text)
    shown = "".join(root.itertext())
    assert all(lane.task_id in shown for lane in night[0].lanes)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for name, v in attrs if name in ("src", "href", "action")]


def test_the_page_holds_no_script_and_no_link_to_elsewhere(
    night: tuple[Timeline, list[Event]],
) -> None:
    page = Page()
    page.feed(timeline_html.page(*night, f"podium: {HOSTILE}"))
    assert not {"script", "img", "iframe", "link", "object"} & set(page.tags)
    assert all(link.startswith("#") for link in page.links)


@pytest.mark.parametrize("sign", [HOSTILE, "\ud800", "\u202e", "]]>", "&amp;"], ids=ascii)
def test_no_text_can_become_markup_or_steer_anything(sign: str) -> None:
    safe = timeline_svg.escape(sign)
    assert not set(safe) & set("<>\"'")
    assert safe.isprintable()
    ET.fromstring(f"<a b='{safe}'>{safe}</a>")


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("shade", [0, 1], ids=["light", "dark"])
def test_text_is_legible_and_bars_stand_out_on_both_papers(shade: int) -> None:
    paper = timeline_svg.PAPER["paper"][shade]
    for name in ("ink", "faint"):
        assert contrast(timeline_svg.PAPER[name][shade], paper) >= 4.5, name
    for state, colours in timeline_svg.COLOURS.items():
        assert contrast(colours[shade], paper) >= (1.5 if state is State.WATCHING else 2.3), state
    assert set(timeline_svg.COLOURS) == set(timeline_text.LOOKS) == set(State)
