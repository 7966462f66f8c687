"""What the two skills say is true: commands, states, limits, links, budgets, every example.

An example's blocks are played again. ```console WHO NN%``` is what WHO types with so much context
used, `woken` and `told` are what a hook says to it, ```markdown PATH``` is a file that it writes.
PODIUM_REWRITE_EXAMPLES=1 writes the real output into the examples instead of comparing it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest
from click.testing import CliRunner
from protocol import add, age, connect, own, send

from podium.domain import rules
from podium.domain.states import MOVES, Kind, MessageType, State
from podium.entry.cli import main
from podium.entry.cli.app import App
from podium.services import overview
from podium.stage import pidfile, process

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from podium.domain.records import Process

PLUGIN = Path(__file__).parents[2]
SKILLS = {name: PLUGIN / "skills" / name for name in ("musician", "conductor")}
TEXTS = {str(p.relative_to(PLUGIN / "skills")): p for p in PLUGIN.glob("skills/**/*.md")}
REFERENCES = {name: path for name, path in TEXTS.items() if "/references/" in name}
EXAMPLES = {name: path for name, path in TEXTS.items() if "/examples/" in name}
COVERAGE = PLUGIN / "docs" / "seeds-coverage.md"
DATABASE = TEXTS["musician/references/database.md"]

# What an ordinary run reads beside SKILL.md.
ORDINARY = {
    "musician": ("verifying", "delegating"),
    "conductor": ("planning", "launching", "reviewing"),
}
TOKENS = {"musician": 2_500, "conductor": 4_000}
FOLDER_WORDS = {"musician": 6_000, "conductor": 8_000}
TOKENS_PER_WORD = 1.35

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
TO = "\N{EN DASH}"
LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def words(*paths: Path) -> int:
    return sum(len(text_of(path).split()) for path in paths)


def frontmatter(skill: str) -> str:
    return text_of(SKILLS[skill] / "SKILL.md").split("---\n")[1]


def body(skill: str) -> str:
    return text_of(SKILLS[skill] / "SKILL.md").split("---\n", 2)[2]


def section(text: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title}"
    return found[1]


def first_column(text: str) -> list[str]:
    """The first cells of the table rows in a text, without heads."""
    rows = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    return [row.strip().strip("|").split("|")[0].strip() for row in rows[2:]]


# Size


@pytest.mark.parametrize("skill", SKILLS)
def test_a_skill_fits_on_two_screens(skill: str) -> None:
    path = SKILLS[skill] / "SKILL.md"

    assert words(path) <= 900
    assert len(text_of(path).splitlines()) <= 120


@pytest.mark.parametrize("skill", SKILLS)
def test_an_ordinary_run_reads_little(skill: str) -> None:
    references = [SKILLS[skill] / "references" / f"{name}.md" for name in ORDINARY[skill]]
    loop = section(body(skill), "The loop")

    assert all(f"(references/{path.name})" in loop for path in references)
    assert words(SKILLS[skill] / "SKILL.md", *references) * TOKENS_PER_WORD <= TOKENS[skill]


@pytest.mark.parametrize("skill", SKILLS)
def test_the_whole_of_a_skill_stays_within_its_budget(skill: str) -> None:
    assert words(*SKILLS[skill].rglob("*.md")) <= FOLDER_WORDS[skill]


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_is_short_and_begins_with_when_to_read_it(name: str) -> None:
    _, _, opening, *_ = text_of(REFERENCES[name]).splitlines()

    assert 300 <= words(REFERENCES[name]) <= 800
    assert opening.startswith("Read when ")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_fits_on_a_screen(name: str) -> None:
    assert len(text_of(EXAMPLES[name]).splitlines()) <= 60


# Links and manners


@pytest.mark.parametrize("path", [*TEXTS.values(), COVERAGE], ids=[*TEXTS, COVERAGE.name])
def test_every_link_leads_somewhere(path: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(text_of(path))]

    assert [t for t in targets if not (path.parent / t).is_file()] == []


@pytest.mark.parametrize("skill", SKILLS)
def test_everything_in_a_skill_is_one_link_away_from_it(skill: str) -> None:
    linked = {(SKILLS[skill] / target).resolve() for target in LINK.findall(body(skill))}
    parts = {p.resolve() for p in SKILLS[skill].rglob("*.md")} - {SKILLS[skill] / "SKILL.md"}

    assert parts <= linked
    assert [n for n, p in TEXTS.items() if p.resolve() in parts and LINK.search(text_of(p))] == []


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_names_no_place_of_one_machine_and_no_model(name: str) -> None:
    text = text_of(TEXTS[name])

    assert re.findall(r"(?<![\w.}/])/(?:home|Users|root|tmp|usr|etc|var|opt|mnt)\b", text) == []
    assert re.findall(r"~/|file://|localhost", text) == []
    assert re.findall(r"(?i)\b(?:opus|sonnet|haiku|fable|claude-\d|gpt)\b", text) == []


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_neither_shouts_nor_uses_markup_of_its_own(name: str) -> None:
    plain = FENCE.sub("", text_of(TEXTS[name]))

    assert re.findall(r"\b(?:MUST|NEVER|ALWAYS|NOT|CRITICAL|IMPORTANT|MANDATORY)\b", plain) == []
    assert re.findall(r"</?[a-z][a-z-]*>", plain) == []


@pytest.mark.parametrize("name", TEXTS)
def test_tools_that_may_be_missing_are_called_optional(name: str) -> None:
    paragraphs = re.split(r"\n\s*\n", FENCE.sub("", text_of(TEXTS[name])))
    named = re.compile(r"\b(?:serena|local-rag|(?:through|tool|,) comms-link)\b")

    assert [p for p in paragraphs if named.search(p) and "optional" not in p.lower()] == []


@pytest.mark.parametrize("skill", SKILLS)
def test_the_frontmatter_is_what_the_client_honours(skill: str) -> None:
    front = frontmatter(skill)
    keys = re.findall(r"^([a-z-]+):", front, re.MULTILINE)
    known = "name description argument-hint disable-model-invocation allowed-tools disallowed-tools"

    assert set(keys) <= {*known.split(), "hooks"}
    assert f"name: {skill}\n" in front
    assert "disable-model-invocation: false" in front  # a cleared session invokes it by itself
    assert "Bash(podium:*)" in front
    for file in re.findall(r"\$\{CLAUDE_PLUGIN_ROOT\}/([\w./-]+\w)", front):
        assert (PLUGIN / file).exists()
    assert ("AskUserQuestion" in front) == (skill == "musician")


@pytest.mark.parametrize("skill", SKILLS)
def test_the_truth_is_injected_by_a_command_that_no_argument_can_change(skill: str) -> None:
    injected = re.findall(r"^!`([^`]+)`$", body(skill), re.MULTILINE)

    assert len(injected) == 1
    assert re.fullmatch(r"podium brief(?: task-00)? \|\| true", injected[0])
    assert not re.search(r"\$", injected[0])  # $0 would be pasted into a shell line


# Commands


def commands(text: str) -> Iterator[str]:
    """Every podium command of a text, wherever it stands as code."""
    for info, block in FENCE.findall(text):
        if info.startswith("console"):
            yield from (line[2:] for line in block.splitlines() if line.startswith("$ podium"))
    for code in INLINE.findall(FENCE.sub("", text)):
        if code == "podium" or code.startswith("podium "):
            yield code.removesuffix(" || true")


def parse(command: str) -> None:
    """Let click read the command as it would before running it."""
    _, *rest = shlex.split(command)
    node: click.Command = main
    context = click.Context(main, info_name="podium", obj=App({}, os.getcwd()))
    while isinstance(node, click.Group) and rest and not rest[0].startswith("-"):
        name, found, rest = node.resolve_command(context, rest)
        assert name is not None
        assert found is not None
        node, context = found, click.Context(found, parent=context, info_name=name)
    if isinstance(node, click.Group) and not rest:
        return
    with CliRunner().isolation(), contextlib.suppress(click.exceptions.Exit):
        node.make_context(str(context.info_name), rest, parent=context.parent)


ALL_COMMANDS = sorted({(name, c) for name, path in TEXTS.items() for c in commands(text_of(path))})


@pytest.mark.parametrize(("name", "command"), ALL_COMMANDS, ids=lambda value: str(value)[:60])
def test_every_command_is_one_that_podium_reads(name: str, command: str) -> None:
    try:
        parse(command)
    except click.ClickException as wrong:
        pytest.fail(f"{name}: {command}: {wrong.format_message()}", pytrace=False)


def test_the_loops_show_every_step_of_a_task() -> None:
    musician, conductor = body("musician"), body("conductor")
    played = "claim log deviation submit error finish complete warn exit siblings".split()
    conducted = (
        "start plan launch next close finish review approve fix reject recall broadcast abandon "
        "repair replace sweep rest"
    ).split()

    assert [v for v in played if f"`podium musician {v}" not in musician] == []
    assert [v for v in conducted if f"`podium conductor {v}" not in conductor] == []


# States, messages, limits


def named(text: str) -> set[str]:
    """What a text sets as code and spells like a state or a message type."""
    return {code for code in INLINE.findall(text) if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", code)}


COLUMNS = (
    "task_id instruction_path session_id worked_by started_at completed_at report_path retry_count "
    "last_heartbeat last_error from_session message_type"
).split()
OTHER_NAMES = {
    *COLUMNS,
    *(
        "orchestration_tasks",
        "orchestration_messages",
        "allowed_tools",
        "ingest_data",
        "ingest_file",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_name_is_one_of_the_protocol(name: str) -> None:
    known = {s.value for s in State} | {m.value for m in MessageType} | OTHER_NAMES

    assert named(text_of(TEXTS[name])) - known == set()


def test_the_musicians_table_has_every_state_of_a_task() -> None:
    column = first_column(section(body("musician"), "States"))
    states = {state for cell in column for state in INLINE.findall(cell)}

    assert states == {s.value for s in MOVES[Kind.TASK]}


def test_the_conductor_is_told_every_state() -> None:
    assert {s.value for s in State} <= set(INLINE.findall(body("conductor")))


def test_the_conductors_table_has_everything_that_can_need_it() -> None:
    column = first_column(section(body("conductor"), "What needs you"))

    assert {kind for cell in column for kind in INLINE.findall(cell)} == set(overview.ORDER)


def test_the_references_name_every_message_type() -> None:
    for name in ("musician/references/database.md", "musician/references/messages.md"):
        assert {m.value for m in MessageType} <= set(INLINE.findall(text_of(TEXTS[name])))


def test_the_columns_are_those_of_the_database(raw: sqlite3.Connection) -> None:
    found = {
        row["name"]
        for table in ("orchestration_tasks", "orchestration_messages")
        for row in raw.execute(f"PRAGMA table_info({table})")
    }

    assert set(COLUMNS) <= found
    assert all(f"`{column}`" in text_of(DATABASE) for column in COLUMNS)


def test_the_context_lines_are_those_that_the_hook_tells() -> None:
    column = first_column(section(body("musician"), "Context"))

    assert column == [f"{n} %" for n in (rules.ESTIMATE_ABOVE, rules.PREPARE_AT, rules.LEAVE_AT)]


def test_smoothness_is_judged_as_the_rules_say() -> None:
    up_to, look, revise = rules.APPROVE_UP_TO, rules.LOOK_CLOSER_AT, rules.REVISE_UP_TO
    last = rules.SMOOTHNESS[-1]
    judged = first_column(text_of(TEXTS["conductor/references/reviewing.md"]))[:4]
    scored = section(text_of(TEXTS["musician/references/messages.md"]), "Smoothness")
    ends = [cell.split(TO) for cell in first_column(scored)]

    ranges = ((0, up_to), (look,), (look + 1, revise), (revise + 1, last))
    assert judged == [TO.join(map(str, pair)) for pair in ranges]
    assert [int(pair[0]) for pair in ends] == [0, *(int(pair[-1]) + 1 for pair in ends[:-1])]
    assert int(ends[-1][-1]) == last


# Every number with such a unit is this limit, in every text: pattern → the values that it may have.
LIMITS: dict[str, set[int]] = {
    r"\b(\d+) s\b": {rules.STALE_AFTER, rules.BEAT_EVERY},
    r"\b(\d+) errors\b": {rules.ERROR_RETRIES},
    r"of the (\d+) retries": {rules.ERROR_RETRIES},
    r"about (\d+) times (?:too low|as dear)": {rules.SELF_CORRECTION_FACTOR},
    r"[Aa]bove (\d+) %": {rules.DIRTY_ABOVE},
    r"below (\d+) %(?! \|)": {rules.PREPARE_AT, 70},  # 70: what the next checkpoint may cost
    r"(?:result about|each \()(\d+) %": {rules.AGENT_COST},
    r"\((\d+) \N{MINUS SIGN} context now\)": {rules.PREPARE_AT},
    r"context at (\d+) %,": {rules.LEAVE_AT},
    r"from (\d+) % begin": {rules.PREPARE_AT},
    r"approves up to (\d)": {rules.APPROVE_UP_TO},
}


@pytest.mark.parametrize("pattern", LIMITS)
def test_every_limit_is_the_one_of_the_rules(pattern: str) -> None:
    prose = {name: FENCE.sub("", text_of(path)) for name, path in TEXTS.items()}
    found = {(n, int(v)) for n, text in prose.items() for v in re.findall(pattern, text)}

    assert found, "no text states this limit any more"
    assert {(n, v) for n, v in found if v not in LIMITS[pattern]} == set()


@pytest.mark.parametrize(
    "name",
    [
        "musician/SKILL.md",
        "conductor/references/recovering.md",
        "conductor/references/reviewing.md",
    ],
)
def test_the_deviations_that_go_to_the_conductor_are_those_of_the_rules(name: str) -> None:
    numbers = {1: "one", 2: "two"}
    medium, high = numbers[rules.MEDIUM_DEVIATIONS], numbers[rules.HIGH_DEVIATIONS]

    assert f"{medium} medium or {high} high" in text_of(TEXTS[name]).lower().replace("\n", " ")


# SQL


def test_sql_stands_in_the_database_reference_alone() -> None:
    pattern = re.compile(r"\b(?:SELECT .*FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM)\b", re.DOTALL)

    assert [n for n, path in TEXTS.items() if pattern.search(text_of(path))] == [
        "musician/references/database.md"
    ]


SQL = [(info, block) for info, block in FENCE.findall(text_of(DATABASE)) if info.startswith("sql")]
ME, OTHER = "the-session", "another-session"


@pytest.mark.parametrize(("given", "block"), SQL, ids=[f"{n} {i}" for n, (i, _) in enumerate(SQL)])
def test_every_statement_does_its_work_in_the_situation_it_is_for(
    raw: sqlite3.Connection, given: str, block: str
) -> None:
    state, *rest = given.split()[1:]
    own(raw, "task-00", "watching", "the-conductor")
    if state == "watching":
        add(raw, "task-03")
    else:
        own(raw, "task-03", state, OTHER if {"another", "conductor"} & {*rest} else ME)
    send(raw, "task-03", "task-00", "instruction", "docs/tasks/task-03.md")
    if "stale" in rest:
        age(raw, "task-03", rules.STALE_AFTER + 1)
    if "conductor" in rest and state == "working":
        raw.execute(
            "INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES (?, 'exited', ?)",
            (f"fallback-{ME}", ME),
        )
    values = {"task": "task-03", "session": ME, "seen": 0, "text": "…"}

    for statement in filter(str.strip, block.split(";")):
        done = raw.execute(statement, values)
        assert len(done.fetchall()) >= 1 if done.description else done.rowcount == 1


# Examples


# Other players are called after the task that they were launched for.
WHO = {
    "conductor": "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
    "musician": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "successor": "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
    "latecomer": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
}
WRITTEN = (
    *(f"docs/tasks/task-0{n}.md" for n in range(1, 6)),
    "docs/reports/task-01.md",
    "docs/implementation/reports/task-03-completion.md",
    "docs/implementation/reports/task-05-error-1.md",
)
PLANS = {
    "musician": [
        {"id": f"task-0{n}", "instructions": f"docs/tasks/task-0{n}.md", "parallel": True}
        for n in (3, 4, 5)
    ],
    "conductor": [
        {"id": "task-01", "instructions": "docs/tasks/task-01.md"},
        {
            "id": "task-02",
            "instructions": "docs/tasks/task-02.md",
            "phase": 2,
            "after": ["task-01"],
        },
    ],
}
# Stands in for the client: comes through its SessionStart, then lives until it is ended.
CLIENT = """#!/bin/sh
while [ "$1" != --session-id ]; do shift; done
printf '{"session_id": "%s", "transcript_path": "%s"}' "$2" "$HOME/$2.jsonl" |
    CLAUDE_PID=$$ /bin/sh HOOK session_start
exec sleep 120
"""
NOW = "2026-02-07 16:45:00"
LAUNCHED = ("f47ac10b-58cc-4372-a567-0e02b2c3d479", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
HOOK = PLUGIN / "hooks" / "hook.sh"
REWRITE = os.environ.get("PODIUM_REWRITE_EXAMPLES") == "1"

PODIUM = """
        person podium init
        conductor podium conductor start
"""
PRELUDE = f"""
        {PODIUM}
        conductor podium conductor plan docs/plan.json
"""
REJECTED = (
    "1. checkpoint-pattern.md links a deleted file. 2. Two assertions in kb_test.py only test "
    "truthiness. 3. Empty input of extract() is untested."
)
STEPS = "\n".join(
    f"musician 30 podium musician log 'step {n} of 5 {verb}'"
    for n in range(1, 5)
    for verb in ("started", "completed")
)
SUBMIT = (
    "podium musician submit --smoothness {} --summary 'Patterns extracted' --files 3 "
    "--tests '44 pass' --checkpoint {}"
)
# What has happened when an example begins: WHO, perhaps the context, and a command; `=` writes a
# file of an example, `!` kills the process of a task.
BEFORE = {
    "conductor/examples/phase.md": PODIUM,
    "conductor/examples/rejection.md": f"""
        {PODIUM}
        conductor podium conductor add task-03 --instructions docs/tasks/task-03.md
        musician 5 podium musician claim task-03
        musician 54 {SUBMIT.format(6, "2/4")} --output kb/checkpoint.md:created
    """,
    "conductor/examples/crash.md": f"""
        {PODIUM}
        conductor podium conductor plan docs/plan.json
        conductor podium conductor launch task-01
        task-01 5 podium musician claim task-01
        task-01 20 podium musician log 'step 2 of 4 completed'
        task-01 30 podium musician log 'step 3 of 4 started'
        ! task-01
    """,
    "musician/examples/subagents.md": PRELUDE
    + """
        musician 5 podium musician claim task-03
        musician 15 podium musician log 'step 1 of 5 completed'
    """,
    "musician/examples/checkpoint.md": PRELUDE
    + """
        musician 5 podium musician claim task-03
        musician 33 podium musician log 'step 2 of 5 completed'
    """,
    "musician/examples/rejection.md": f"""
        {PRELUDE}
        musician 5 podium musician claim task-03
        musician 54 {SUBMIT.format(6, "2/4")}
        conductor podium conductor reject task-03 -m '{REJECTED}'
    """,
    "musician/examples/context.md": PRELUDE
    + """
        musician 5 podium musician claim task-03
        musician 40 podium musician log 'step 3 self-correction: parser rewritten'
        musician 52 podium musician log 'step 4 agent 1 returned'
    """,
    "musician/examples/resumption.md": f"""
        {PRELUDE}
        musician 5 podium musician claim task-03
        {STEPS}
        musician 50 podium musician log 'step 3 self-correction: parser rewritten'
        musician 60 podium musician deviation 'step 5 agent 3 left out, as decided' --severity low
        musician 69 {SUBMIT.format(2, "3/4")}
        conductor podium conductor approve task-03 -m Good.
        = musician/examples/exit.md temp/task-03-HANDOFF
        musician 72 podium musician exit --reason 'context exhaustion'
        conductor podium conductor handoff task-03
    """,
    "musician/examples/error.md": PRELUDE
    + """
        musician 5 podium musician claim task-05
        musician 30 podium musician log 'step 3 of 6 started'
    """,
    "musician/examples/exit.md": f"""
        {PRELUDE}
        musician 5 podium musician claim task-03
        {STEPS}
        musician 50 podium musician log 'step 3 self-correction: parser rewritten'
        musician 60 podium musician deviation 'step 5 agent 3 left out, as decided' --severity low
        musician 69 {SUBMIT.format(2, "3/4")}
        conductor podium conductor approve task-03 -m Good.
    """,
}


class Block(NamedTuple):
    info: str
    text: str
    span: tuple[int, int]


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], m.span(2)) for m in FENCE.finditer(text)]


def _run(words: list[str]) -> str:
    """What podium says; in this process unless it starts another, which must not be our child."""
    if {"launch", "replace"} & {*words}:
        program = [sys.executable, "-I", str(PLUGIN / "src" / "podium" / "__main__.py"), *words]
        done = subprocess.run(program, text=True, capture_output=True, check=False)
        return done.stdout + done.stderr
    shown = io.StringIO()
    with (
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
        contextlib.suppress(SystemExit),
    ):
        main.main(words)
    return shown.getvalue()


class Scene:
    """A project in which examples are played."""

    def __init__(self, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.home, self.patch = root, home, monkeypatch
        self.who = dict(WHO)
        self.temp = str(root / "temp")
        self.known: set[str] = set()
        self.launched: list[str] = []
        self.started: list[Process] = []
        for name in WRITTEN:
            self.write(name, "…\n")
        self.write("podium.json", json.dumps({"launch": {"backend": "headless"}}))
        client = home / "bin" / "claude"
        client.parent.mkdir()
        client.write_text(CLIENT.replace("HOOK", f"'{HOOK}'"))
        client.chmod(0o755)
        monkeypatch.chdir(root)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("XDG_DATA_HOME")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def enter(self, who: str, percent: int | None) -> str:
        """The session id of this player, whose context is now so full."""
        session = self.who.get(who, "")
        transcript = self.home / f"{session}.jsonl"
        if percent is not None:
            usage = {"input_tokens": percent * 2000}
            line = {"type": "assistant", "message": {"model": "m", "usage": usage}}
            transcript.write_text(json.dumps(line) + "\n")
        if who in WHO and who not in self.known and (self.root / "comms.db").exists():
            self.known.add(who)
            self.hook("session_start", who, source="startup", transcript_path=str(transcript))
        return session

    def hook(self, *words: str, **payload: str) -> str:
        """What a hook says to a player, as the client would hear it."""
        *name, who = words
        done = subprocess.run(
            ["/bin/sh", str(HOOK), *name],
            input=json.dumps({"session_id": self.who[who], **payload}),
            env={**os.environ, "CLAUDE_CODE_ENTRYPOINT": "cli"},
            text=True, capture_output=True, check=False,
        )  # fmt: skip
        said = json.loads(done.stdout) if done.stdout else {}
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", "")) or done.stderr

    def type(self, who: str, percent: int | None, command: str) -> str:
        """What the terminal shows after the command."""
        self.patch.setenv("CLAUDE_CODE_SESSION_ID", self.enter(who, percent))
        said = _run(shlex.split(command)[1:])
        if "launch" in command or "replace" in command:
            self._meet()
        return self.normal(said)

    def _meet(self) -> None:
        """Learn who was launched."""
        with contextlib.closing(connect(self.root / "comms.db")) as db:
            rows = db.execute("SELECT task_id, session_id FROM podium_launches ORDER BY id")
            for task, session in rows.fetchall()[len(self.launched) :]:
                self.who[task] = session
                self.launched.append(session)
                self.started += filter(None, [pidfile.read(pidfile.path(self.temp, task))])

    def close(self) -> None:
        """End the sessions that were launched and still run."""
        left = [pidfile.read(str(path)) for path in Path(self.temp).glob("*.pid")]
        for one in filter(None, [*self.started, *left]):
            process.end(one)

    def normal(self, text: str) -> str:
        """The text without what differs from run to run."""
        text = text.replace(f"{self.root}/", "").replace(str(self.root), "PROJECT")
        for session, shown in zip(self.launched, LAUNCHED):
            text = text.replace(session, shown)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", NOW, text)
        text = re.sub(r"(?<=\d )\d\d-\d\d \d\d:\d\d", NOW[5:16], text)
        text = re.sub(r"\bpid \d+", "pid 4711", text)
        text = re.sub(r" +$", "", text, flags=re.MULTILINE)
        return re.sub(r"\b\d+ s ago", "2 s ago", text)

    def prepare(self, script: str) -> None:
        for line in filter(str.strip, script.splitlines()):
            who, rest = line.strip().split(maxsplit=1)
            if who == "=":
                name, path = rest.split()
                given = [b for b in blocks(text_of(EXAMPLES[name])) if b.info.endswith(path)]
                self.write(path, given[0].text)
                continue
            if who == "!":
                process.end(self.started[-1])
                continue
            percent = re.match(r"(\d+) ", rest)
            said = self.type(
                who, int(percent[1]) if percent else None, rest[rest.index("podium") :]
            )
            assert not said.startswith("podium:"), f"{line.strip()}\n{said}"

    def play(self, block: Block) -> str:
        """The block as it really is."""
        kind, *words = block.info.split()
        percent = int(words[-1][:-1]) if words and words[-1].endswith("%") else None
        if kind == "console":
            typed = [line for line in block.text.splitlines() if line.startswith("$ ")]
            return "".join(f"{line}\n{self.type(words[0], percent, line[2:])}" for line in typed)
        if kind == "markdown":
            self.write(words[0], block.text)
        elif words[:1] == ["woken"]:
            self.enter(words[1], percent)
            bell = self.home / ".local" / "share" / "podium" / "bells" / self.who[words[1]]
            return self.normal(self.hook("participant", "bell", words[1], file_path=str(bell)))
        elif words[:1] == ["told"]:
            self.enter(words[1], percent)
            said = self.hook("participant", "tool", words[1], hook_event_name="PostToolUse")
            return self.normal(said + "\n")
        return block.text


@pytest.fixture
def scene(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(project, tmp_path / "home", monkeypatch)
    yield scene
    scene.close()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_happens_as_it_is_told(scene: Scene, name: str) -> None:
    text = text_of(EXAMPLES[name])
    scene.write("docs/plan.json", json.dumps({"tasks": PLANS[name.partition("/")[0]]}))
    scene.prepare(BEFORE.get(name, PRELUDE))
    real = [(block, scene.play(block)) for block in blocks(text)]

    if REWRITE:
        for block, said in reversed(real):
            text = text[: block.span[0]] + said + text[block.span[1] :]
        EXAMPLES[name].write_text(text, encoding="utf-8")
    else:
        assert [scene.normal(block.text) for block, _ in real] == [said for _, said in real]


# The briefing


@pytest.mark.parametrize("words", [["brief"], ["brief", "task-00"], ["brief", "$0"]])
def test_the_briefing_never_fails(scene: Scene, words: list[str]) -> None:
    (scene.root / "podium.json").unlink()

    with pytest.raises(SystemExit) as ended:
        main.main(words)

    assert ended.value.code == 0
    assert "run: podium init" in _run(words)


def test_the_briefing_has_ten_lines_at_most(scene: Scene) -> None:
    scene.write("docs/plan.json", json.dumps({"tasks": PLANS["musician"]}))
    scene.prepare(PRELUDE + "musician podium musician claim task-03")
    for number in range(12):
        scene.type("conductor", None, f"podium conductor broadcast -m 'word {number}\n\nand more'")

    said = scene.type("musician", None, "podium brief")

    assert "Unread mail: 12" in said
    assert len(said.splitlines()) <= 10


def test_a_session_resumed_for_a_repair_is_told_of_the_repair(
    project: Path, raw: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(raw, "task-03", "complete", ME)
    add(raw, "task-03-fix")
    raw.execute(
        "INSERT INTO podium_sessions (session_id, task_id) VALUES (?, 'task-03-fix')", (ME,)
    )
    monkeypatch.chdir(project)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", ME)

    assert "Next: podium musician claim task-03-fix" in _run(["brief"])
