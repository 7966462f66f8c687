"""Everybody at once, at random: database, event log and a small model never differ."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import protocol
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from podium.domain.states import CONDUCTOR_ROW, MOVES, Kind, Role, State
from podium.entry.proof.walk import ACTIONS, CHOICES, TASKS, Differs, Step, Walk, stroll

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 20_000


def _typed(table: dict[str, tuple[str, str]]) -> dict[State, dict[Role, tuple[State, ...]]]:
    """A table of the contract in the form that the model reads."""
    roles = (Role.MUSICIAN, Role.CONDUCTOR)
    return {
        State(found): {role: tuple(map(State, ends.split())) for role, ends in zip(roles, both)}
        for found, both in table.items()
    }


# Typed by hand from the contract: a slip in podium's own table must show.
CONTRACT = {
    Kind.TASK: _typed(protocol.TASK_MOVES),
    Kind.CONDUCTOR: _typed(protocol.CONDUCTOR_MOVES),
    Kind.FALLBACK: _typed(protocol.FALLBACK_MOVES),
}


class Machine(RuleBasedStateMachine):
    """One run of an orchestra. Each action of the walk is a rule; frequent ones are several."""

    folder = ""
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.walk = Walk(self.folder, CONTRACT)

    @initialize()
    def plan(self) -> None:
        for task in TASKS:
            self.walk.step(Step("add", (None, task, None)))

    def teardown(self) -> None:
        self.walk.close()

    def take(self, action: str, given: dict[str, Any]) -> None:
        type(self).steps += 1
        self.walk.step(Step(action, tuple(given.values())))


def _rule(action: str) -> Any:
    needs = ACTIONS[action].needs.split()
    drawn = {f"{need}_{n}": st.sampled_from(CHOICES[need]) for n, need in enumerate(needs)}

    def take(self: Machine, **given: Any) -> None:
        self.take(action, {name: given[name] for name in drawn})

    take.__name__ = action
    return rule(**drawn)(take)


for _name, _action in ACTIONS.items():
    for _copy in range(1 + _action.often // 3):
        setattr(Machine, f"{_name}_{_copy}", _rule(_name))


def test_twenty_thousand_random_steps_leave_rows_mail_and_log_as_the_model_has_them(
    tmp_path: Path,
) -> None:
    Machine.folder, Machine.steps = str(tmp_path), 0
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=230,
            stateful_step_count=100,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Machine.steps >= STEPS


def test_who_took_the_podium_by_an_id_from_before_clear_conducts_under_the_new_one(
    tmp_path: Path,
) -> None:
    walk = Walk(str(tmp_path), CONTRACT)
    for step in (
        Step("start", ("anna",)),
        Step("clear", ("anna",)),
        Step("raw_seize", ("anna", CONDUCTOR_ROW, State.WATCHING)),
        Step("conduct", ("anna",)),
    ):
        walk.step(step)
    walk.close()
    podium = walk.world.rows[CONDUCTOR_ROW]
    assert (podium.session, podium.name) == ("anna'", "conductor")


def test_the_contract_and_the_code_list_the_same_moves() -> None:
    def listed(table: Any) -> set[tuple[Any, ...]]:
        return {
            (kind, found, role, to)
            for kind, states in table.items()
            for found, by_role in states.items()
            for role, ends in by_role.items()
            for to in ends
        }

    assert listed(CONTRACT) == listed(MOVES)


@pytest.mark.parametrize(
    "rule", ["claim_blocked", "conductor_blocked", "changed", "no_theft", "new_message", "beat"]
)
def test_the_walk_notices_a_database_without_one_of_its_rules(tmp_path: Path, rule: str) -> None:
    Walk(str(tmp_path)).close()
    with protocol.connect(tmp_path / "pristine.db") as db:
        db.execute(f"DROP TRIGGER podium_rule_{rule}")
    db.close()
    with pytest.raises(Differs):
        for _ in stroll(str(tmp_path), random.Random(1), 5000):
            pass
