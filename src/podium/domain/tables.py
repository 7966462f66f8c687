"""The table of moves as people read it: docs/states.md is what `page` returns. Pure."""

from __future__ import annotations

from .rules import PRESETS
from .states import CLAIMABLE, FIRST, MOVES, Kind, Role, State, moves_from

TITLES = {
    Kind.TASK: "Task rows: `task-01` …, `task-01-fix`",
    Kind.CONDUCTOR: "The conductor's row: `task-00`",
    Kind.FALLBACK: "Fallback rows: a session whose claim was blocked",
}
HEAD = """# States and moves

Generated from `podium.domain.states` by `podium.domain.tables`; `tests/run` compares the two.
The database's triggers come from the same table, so a raw SQL statement meets the same rules.
Staying in the same state is always allowed. A session may stop when every row it owns is in one
of the states marked with ●.
"""


def _listed(states: tuple[State, ...]) -> str:
    return " ".join(f"`{state.value}`" for state in states) or "-"


def table(kind: Kind) -> str:
    """The moves of one kind of row, in Markdown."""
    preset = PRESETS["orchestration" if kind is Kind.CONDUCTOR else "execution"]
    lines = ["| From | A musician may make it | The conductor may make it |", "|---|---|---|"]
    lines.append(f"| (new row) | - | `{FIRST[kind].value}` |")
    if kind is Kind.FALLBACK:
        lines[-1] = f"| (new row) | `{FIRST[kind].value}` | - |"
    for state in MOVES[kind]:
        ends = (_listed(moves_from(kind, state, role)) for role in (Role.MUSICIAN, Role.CONDUCTOR))
        mark = " ●" if state in preset.may_stop else ""
        lines.append(f"| `{state.value}`{mark} | " + " | ".join(ends) + " |")
    if kind in CLAIMABLE:
        lines += ["", f"A new session may take it from {_listed(CLAIMABLE[kind])}."]
    return "\n".join(lines)


def page() -> str:
    """docs/states.md."""
    parts = [f"## {title}\n\n{table(kind)}\n" for kind, title in TITLES.items()]
    return "\n".join([HEAD, *parts])
