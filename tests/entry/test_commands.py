"""Roles, bad input and the manual: what every command owes to whoever types it."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Callable

import click
import pytest
from manual import BOSS, S1, S2, SUBMIT, command_of, leaves
from protocol import age, connect, everything, move

from podium.domain.rules import TASK_ID

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Said

    Podium = Callable[..., Said]


@pytest.fixture
def run(podium: Podium, project: Path) -> Podium:
    """A run with a conductor and two tasks, each with its player."""
    (project / "task.md").write_text("Do it.\n")
    (project / "report.md").write_text("Done.\n")
    podium("init")
    podium("conductor", "start", session=BOSS)
    for number, player in ((1, S1), (2, S2)):
        podium("conductor", "add", f"task-0{number}", "--instructions", "task.md")
        podium("musician", "claim", f"task-0{number}", session=player)
    return podium


def content(project: Path) -> object:
    """Everything in the database but the signs of life."""
    with closing(connect(project / "comms.db")) as db:
        return everything(db)


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_every_command_says_what_it_does_shows_an_example_and_its_exit_codes(
    path: tuple[str, ...],
) -> None:
    command = command_of(path)
    help_text = command.get_help(click.Context(command, info_name="podium " + " ".join(path)))

    assert command.help
    assert "Example: podium" in help_text
    assert "Exit code" in help_text
    assert "--json" in help_text


CONDUCTS = [
    ("add", "task-03", "--instructions", "task.md"),
    ("plan", "plan.json"),
    ("next",),
    ("review", "task-01"),
    ("approve", "task-01", "-m", "x"),
    ("reject", "task-01", "-m", "x"),
    ("fix", "task-01", "-m", "x"),
    ("recall", "task-01"),
    ("abandon", "task-01", "-m", "x"),
    ("broadcast", "-m", "x"),
    ("finish",),
    ("rest",),
    ("start",),
]


@pytest.mark.parametrize("words", CONDUCTS, ids=lambda words: words[0])
def test_a_musician_cannot_conduct_and_the_refusal_says_who_owns_what(
    run: Podium, project: Path, words: tuple[str, ...]
) -> None:
    before = content(project)

    said = run("conductor", *words, session=S1, expect=1)

    assert "task-01" in said.err
    assert content(project) == before


@pytest.mark.parametrize(
    "words",
    [("submit", *SUBMIT), ("error", "--error", "x"), ("log", "x"), ("exit", "--reason", "x")],
)
def test_nobody_touches_anothers_task(run: Podium, project: Path, words: tuple[str, ...]) -> None:
    before = content(project)
    for session in (S1, "a-stranger", BOSS):
        said = run("musician", *words, "--task", "task-02", session=session, expect=1)
        assert S2 in said.err or "owns no task" in said.err or "owns" in said.err
    assert content(project) == before


def test_a_person_without_a_session_may_conduct_but_not_play(run: Podium) -> None:
    run("conductor", "broadcast", "-m", "hello")

    assert "--session" in run("musician", "submit", *SUBMIT, expect=1).err


BAD_IDS = [
    "../x",
    "task-1",
    "task-01/x",
    "task 01",
    "task-01-fixx",
    "task-" + "1" * 300,
    "",
    "TASK-01",
]


@pytest.mark.parametrize("task_id", BAD_IDS)
def test_a_bad_task_id_is_wrong_usage(run: Podium, task_id: str) -> None:
    for words in (("why",), ("musician", "claim"), ("conductor", "review")):
        run(*words, task_id, session=S1 if words[0] == "musician" else None, expect=2)


@pytest.mark.parametrize("good", ["task-01", "task-103", "task-03-fix", "task-03-fix2"])
def test_good_task_ids_are_these(good: str) -> None:
    assert TASK_ID.match(good)


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("why", "task-77"), 1, "there is no task-77"),
        (("conductor", "approve", "task-01", "-m", "x"), 1, "task-01 is working"),
        (("conductor", "approve", "task-01", "-m", "  "), 2, "empty"),
        (("conductor", "approve", "task-01"), 2, "-m"),
        (("conductor", "add", "task-01", "--instructions", "task.md"), 1, "exists already"),
        (("conductor", "add", "task-05", "--instructions", "nope.md"), 1, "no file nope.md"),
        (("conductor", "plan", "nope.json"), 2, "cannot be read"),
        (("conductor", "finish"), 1, "2 tasks are live"),
        (("messages", "--id", "999"), 1, "no message 999"),
        (("nonsense",), 2, "podium --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_done_is_said_in_one_line_with_the_right_code(
    run: Podium, project: Path, words: tuple[str, ...], code: int, part: str
) -> None:
    before = content(project)

    assert part in run(*words, expect=code).err
    assert content(project) == before


def test_every_wrong_field_of_a_letter_is_named_with_what_is_allowed(
    run: Podium, project: Path
) -> None:
    bad = {
        "checkpoint": "two",
        "smoothness": 10,
        "files": -1,
        "tests": " ",
        "extra": 1,
        "output": ["x"],
    }
    (project / "letter.json").write_text(json.dumps(bad))

    said = run("musician", "submit", "--from", "letter.json", session=S1, expect=2).err

    for part in (
        "checkpoint",
        "2/5",
        "smoothness",
        "0 to 9",
        "files",
        "tests",
        "summary",
        "extra",
        "output[0]",
    ):
        assert part in said, part


def test_a_letter_from_json_is_the_same_as_from_options(run: Podium, project: Path) -> None:
    fields = {"checkpoint": "1/2", "smoothness": 2, "summary": "done", "files": 3, "tests": "pass"}
    (project / "letter.json").write_text(json.dumps(fields))
    run("musician", "submit", *SUBMIT, session=S1)
    run("musician", "submit", "--from", "-", session=S2, stdin=json.dumps(fields).encode())

    one, two = (
        run("--json", "messages", task, "--type", "review_request").json["messages"][-1]["message"]
        for task in ("task-01", "task-02")
    )
    assert one == two


def test_a_huge_message_is_stored_whole_and_shown_cut(run: Podium) -> None:
    text = "x" * 5_000_000
    run("conductor", "fix", "task-01", "-m", "-", stdin=text.encode())

    kept = run("--json", "messages", "task-01", "--type", "fix_proposal").json["messages"][-1]
    assert text in kept["message"]
    assert len(run("musician", "inbox", session=S1).out) < 10_000
    assert len(run("messages").out) < 2_000


HOSTILE = "it's; DROP TABLE orchestration_tasks; -- \x1b[2J\x1b]0;evil\x07 \x9b1m\u202e $(x) `y`"


def test_hostile_text_is_kept_as_text_and_never_steers_a_terminal(run: Podium) -> None:
    run("conductor", "fix", "task-01", "-m", HOSTILE)
    run("conductor", "fix", "task-02", "-m", "-", stdin=b"nul \0 and half \xff\xfe")

    for words in (("messages",), ("messages", "--all"), ("messages", "task-01", "--id", "3")):
        shown = run(*words).out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert not {"\x1b", "\x07"} & set(run("musician", "inbox", session=S1).out)
    assert len(run("--json", "status").json["tasks"]) == 3


def test_smoothness_stays_in_its_range(run: Podium) -> None:
    for score in ("-1", "10", "x"):
        words = [score if word == "2" else word for word in SUBMIT]
        run("musician", "submit", *words, session=S1, expect=2)


def test_a_missing_report_is_asked_for(run: Podium) -> None:
    words = [
        "--smoothness",
        "1",
        "--summary",
        "all",
        "--files",
        "3",
        "--tests",
        "pass",
        "--report",
        "nope.md",
    ]
    assert "nope.md" in run("musician", "finish", *words, session=S1, expect=1).err


def test_without_a_database_every_command_says_what_to_type(podium: Podium) -> None:
    for words in (("status",), ("conductor", "next"), ("why", "task-01"), ("wait",), ("messages",)):
        assert "podium init" in podium(*words, expect=3).err


def test_a_broken_database_is_left_alone_and_named(podium: Podium, project: Path) -> None:
    (project / "comms.db").write_text("not a database, but somebody's text\n" * 100)

    said = podium("status", expect=3).err

    assert "podium init --archive" in said
    assert (project / "comms.db").read_text().startswith("not a database")
    podium("init", "--archive")
    podium("status")
    assert len(list(project.glob("comms-*.db"))) == 1


def test_init_keeps_what_is_there(run: Podium, project: Path) -> None:
    run("init")

    assert len(run("--json", "status").json["tasks"]) == 3
    assert (project / ".gitignore").read_text().count("comms.db\n") == 1
    assert (project / "temp").is_dir()


def test_archive_moves_the_run_aside_and_loses_nothing(run: Podium, project: Path) -> None:
    run("init", "--archive")

    assert len(run("--json", "status").json["tasks"]) == 1
    (old,) = project.glob("comms-*.db")
    (project / "old").mkdir()
    old.rename(project / "old" / "comms.db")


def test_plain_output_is_short(run: Podium) -> None:
    for number in range(3, 40):
        run("conductor", "add", f"task-{number:02}", "--instructions", "task.md")
    for words in (
        ("status",),
        ("conductor", "next"),
        ("messages",),
        ("timeline",),
        ("why", "task-01"),
    ):
        assert len(run(*words).out.splitlines()) <= 10, words
    assert len(run("musician", "siblings", session=S1).out.splitlines()) <= 10
    assert len(run("musician", "siblings", "--all", session=S1).out.splitlines()) == 39


def test_a_long_submission_is_shown_by_its_beginning(run: Podium) -> None:
    for text in ("x" * 100_000, "x\n" * 1000):
        form = {"checkpoint": "1/2", "smoothness": 2, "summary": text, "files": 3, "tests": "ok"}
        run("musician", "submit", "--from", "-", session=S1, stdin=json.dumps(form).encode())
        told = run("conductor", "review", "task-01", session=BOSS).out
        assert len(told) < 6000
        assert len(told.splitlines()) < 70
        assert "podium messages task-01 --id" in told
        run("conductor", "reject", "task-01", "-m", "shorter", session=BOSS)


def test_why_knows_the_projects_own_presets(run: Podium, project: Path) -> None:
    assert "is held" in run("why", "task-01").out
    presets = {"execution": {"may_stop": ["working", "complete", "exited"]}}
    (project / "podium.json").write_text(json.dumps({"presets": presets}))
    assert "may stop: it may stop in working" in run("why", "task-01").out


def test_a_session_that_let_its_task_go_claims_it_before_it_goes_on(
    run: Podium, project: Path
) -> None:
    with closing(connect(project / "comms.db")) as db:
        move(db, "task-01", "exited")
    run("conductor", "fix", "task-01", "-m", "go on", session=BOSS)

    refused = run("musician", "submit", *SUBMIT, session=S1, expect=1)

    assert "podium musician claim task-01" in refused.err
    run("musician", "claim", "task-01", session=S1)
    run("musician", "submit", *SUBMIT, session=S1)


def test_a_sign_of_life_of_a_session_that_was_replaced_is_refused(
    run: Podium, project: Path
) -> None:
    with closing(connect(project / "comms.db")) as db:
        age(db, "task-01", 600)
    run("conductor", "recall", "task-01", session=BOSS)
    run("musician", "claim", "task-01", session="another")

    assert "was taken over by" in run("musician", "beat", session=S1, expect=1).err


def test_a_report_is_found_where_its_writer_is(run: Podium, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "mine.md").write_text("Done.\n")
    words = "musician finish --smoothness 1 --summary all --files 3 --tests pass --report"
    run(*words.split(), "mine.md", session=S1, expect=1)
    run(*words.split(), "src/mine.md", session=S1)


def test_everything_wrong_with_a_plan_is_said_at_once(run: Podium, project: Path) -> None:
    def item(number: int, **more: object) -> dict[str, object]:
        return {"id": f"task-{number}", "instructions": "task.md", **more}

    plan = {"tasks": [item(10, phase=0), item(11, after=["task-12"]), item(12, after=["task-11"]),
                      item(13, instructions="nowhere.md"), item(14), item(14)]}  # fmt: skip
    (project / "plan.json").write_text(json.dumps(plan))
    said = run("conductor", "plan", "plan.json", session=BOSS, expect=1).err
    for part in ("tasks[0].phase", "cycle task-1", "no file nowhere.md", "task-14 stands 2 times"):
        assert part in said

    long = [item(n, after=[f"task-{n - 1}"] if n > 100 else []) for n in range(100, 1000)]
    (project / "plan.json").write_text(json.dumps({"tasks": long}))
    assert "900 tasks added" in run("conductor", "plan", "plan.json", session=BOSS).out


@pytest.mark.parametrize(
    "words",
    [
        "messages --id 99999999999999999999999",
        "conductor add task-09 --instructions task.md --phase 99999999999999999999",
        "wait --timeout nan",
        "wait --timeout inf",
    ],
)
def test_numbers_beyond_reason_are_wrong_usage(run: Podium, words: str) -> None:
    run(*words.split(), expect=2)
