"""The concert as data: the plan, what each player does when it is told what, how it must end.

A player's part is a list of turns. A turn begins when the session is told its cue, by SessionStart
or by a Stop hook, and ends with the next Stop. `podium …` are commands; the other words are below.
"""

from __future__ import annotations

from typing import NamedTuple

from podium.domain.states import State

S = State
CONDUCTOR, KILLED = "conductor", "task-02"
START_COSTS, TURN_COSTS = 14_000, 9_000  # tokens, so that there is a context to measure


class Turn(NamedTuple):
    """What a player does from its cue to its next Stop."""

    cue: str
    steps: tuple[tuple[str, ...], ...]


def podium(*words: str) -> tuple[str, ...]:
    """A command of podium."""
    return ("podium", *words)


def write(path: str, text: str) -> tuple[str, ...]:
    """A file of the project."""
    return ("write", path, text)


WORK = ("work",)  # a second or so at the instrument, none with --fast
HANG = ("hang",)  # until somebody kills the player
FOLLOW = ("follow",)  # the conductor: do what the lines that it was told ask for

TASKS = {
    "task-01": "Write the melody to melody.txt.",
    "task-02": "Write the bass to bass.txt.",
    "task-03": "Put melody.txt and bass.txt together in score.txt.",
}
PLAN = {
    "tasks": [
        {"id": "task-01", "instructions": "docs/tasks/task-01.md", "parallel": True},
        {"id": "task-02", "instructions": "docs/tasks/task-02.md", "parallel": True},
        {
            "id": "task-03",
            "instructions": "docs/tasks/task-03.md",
            "phase": 2,
            "after": ["task-01", "task-02"],
        },
    ]
}


def report(task: str, text: str) -> tuple[str, ...]:
    """A completion report."""
    return write(f"docs/implementation/reports/{task}.md", f"# {task}\n\n{text}\n")


def finish(task: str, smoothness: int, summary: str) -> tuple[str, ...]:
    """The last submission of a task."""
    path = f"docs/implementation/reports/{task}.md"
    figures = ("--smoothness", str(smoothness), "--files", "2", "--tests", "3 pass")
    return podium("musician", "finish", *figures, "--summary", summary, "--report", path)


def complete(task: str) -> tuple[str, ...]:
    """The last command of a task."""
    path = f"docs/implementation/reports/{task}.md"
    return podium("musician", "complete", "--report", path)


def submit(smoothness: int, summary: str) -> tuple[str, ...]:
    """A checkpoint."""
    figures = ("--smoothness", str(smoothness), "--files", "1", "--tests", "2 pass")
    return podium("musician", "submit", "--checkpoint", "1/2", *figures, "--summary", summary)


def log(text: str) -> tuple[str, ...]:
    """A line of the status log."""
    return podium("musician", "log", text)


HALF_DONE = "step 1 completed: half of the bass is written"
APPROVED, REJECTED = "REVIEW APPROVED", "REVIEW FAILED"

# By the name that a claim gives: the second session of task-02 has a part of its own.
PARTS: dict[str, tuple[Turn, ...]] = {
    "musician-task-01": (
        Turn(
            "musician claim task-01",
            (WORK, write("melody.txt", "c d e f g\n"), submit(3, "The melody stands.")),
        ),
        Turn(
            REJECTED,
            (
                WORK,
                write("melody.txt", "c d e f g a b c\n"),
                submit(1, "It goes up to the octave."),
            ),
        ),
        Turn(
            APPROVED,
            (WORK, report("task-01", "Eight notes."), finish("task-01", 1, "The melody is done.")),
        ),
        Turn(APPROVED, (complete("task-01"),)),
    ),
    "musician-task-02": (
        Turn("musician claim task-02", (write("bass.txt", "c g\n"), log(HALF_DONE), HANG)),
    ),
    "musician-task-02-S2": (
        Turn(
            "musician claim task-02",
            (
                podium("musician", "resume"),
                WORK,
                write("bass.txt", "c g c g\n"),
                report("task-02", "Four notes."),
                finish("task-02", 2, "The bass is done."),
            ),
        ),
        Turn(APPROVED, (complete("task-02"),)),
    ),
    "musician-task-03": (
        Turn(
            "musician claim task-03",
            (
                WORK,
                write("score.txt", "c d e f g a b c\nc g c g\n"),
                report("task-03", "Two voices."),
                finish("task-03", 0, "The score is done."),
            ),
        ),
        Turn(APPROVED, (complete("task-03"),)),
    ),
}

OPENING = (
    podium("conductor", "start"),
    podium("conductor", "plan", "docs/plan.json"),
    podium("conductor", "next"),
    FOLLOW,
)
# The verdicts that each task gets, one after the other.
VERDICTS = {
    "task-01": (
        ("reject", "Five notes are no melody: go up to the octave."),
        ("approve", "Good. Write the report."),
        ("approve", "Thank you."),
    ),
    "task-02": (("approve", "The successor saved it."),),
    "task-03": (("approve", "Bravo."),),
}

_REVIEWED = (S.NEEDS_REVIEW, S.REVIEW_APPROVED)
ENDED_WELL = {
    "task-01": (
        *(S.WATCHING, S.WORKING, S.NEEDS_REVIEW, S.REVIEW_FAILED),
        *(*_REVIEWED, *_REVIEWED, S.COMPLETE),
    ),
    "task-02": (S.WATCHING, S.WORKING, S.FIX_PROPOSED, S.WORKING, *_REVIEWED, S.COMPLETE),
    "task-03": (S.WATCHING, S.WORKING, *_REVIEWED, S.COMPLETE),
}
