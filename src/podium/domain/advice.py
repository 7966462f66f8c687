"""What to type next, by state: the same sentence for a held session, `podium why` and a refusal."""

from __future__ import annotations

from .states import Kind, State, kind_of

S = State
ADVICE: dict[Kind, dict[State, str]] = {
    Kind.TASK: {
        S.WATCHING: "Nobody plays it yet. Take it: podium musician claim {task}",
        S.WORKING: (
            "Go on with its instructions ({instructions}). At a checkpoint, when its tests pass: "
            "podium musician submit --help. When all is done: podium musician finish --help. "
            "If you cannot go on: podium musician error --error TEXT. "
            "To hand over: podium musician exit --reason TEXT."
        ),
        S.NEEDS_REVIEW: (
            "Your submission waits for the conductor; do nothing more on it. "
            "To wait for the answer: podium wait"
        ),
        S.REVIEW_APPROVED: (
            "The conductor approved; its words: podium messages {task}. Go on with the next step: "
            "podium musician claim {task}. If your completion was approved: "
            "podium musician complete --report PATH"
        ),
        S.REVIEW_FAILED: (
            "The conductor wants changes; its words: podium messages {task}. "
            "Make them, run the tests again, then: podium musician submit --help"
        ),
        S.ERROR: (
            "The conductor has your error; do nothing more on it. "
            "To wait for the answer: podium wait"
        ),
        S.FIX_PROPOSED: (
            "The conductor proposes a fix; its words: podium messages {task}. Apply it: "
            "podium musician claim {task}, then work, then: podium musician submit --help"
        ),
        S.EXIT_REQUESTED: (
            "The conductor asks you to leave. Write the HANDOFF, then: "
            "podium musician exit --reason TEXT"
        ),
        S.COMPLETE: "It is finished; there is nothing left to do. End your turn.",
        S.EXITED: ("It was given up and waits for the conductor: podium conductor handoff {task}"),
    },
    Kind.CONDUCTOR: {
        S.WATCHING: (
            "See what needs you: podium conductor next. When every task has ended: "
            "podium conductor finish. To leave the run to another session: podium conductor rest"
        ),
        S.REVIEWING: (
            "Give the verdict: podium conductor approve|reject|fix TASK -m TEXT. "
            "Then: podium conductor next"
        ),
        S.EXIT_REQUESTED: "The conductor rests. Take over: podium conductor start",
        S.COMPLETE: "The run is finished. End your turn.",
    },
    Kind.FALLBACK: {S.EXITED: "This session's claim was blocked; it may end. End your turn."},
}


def advice(task_id: str, state: State, instructions: str | None = None) -> str:
    """One or two sentences with the next command for the owner of this row."""
    text = ADVICE[kind_of(task_id)].get(state, "Run: podium status")
    where = instructions or f"podium messages {task_id}"
    return text.replace("{task}", task_id).replace("{instructions}", where)
