"""The domain's tables say what the contract says."""

from __future__ import annotations

import pytest
from protocol import CLAIMABLE as MAY_BE_CLAIMED
from protocol import CONDUCTOR_MOVES, FALLBACK_MOVES, STATES, TASK_MOVES

from podium.domain import advice, rules
from podium.domain.errors import MoveRefused, WrongUsage
from podium.domain.records import Task
from podium.domain.states import CLAIMABLE, MOVES, Kind, Role, State, kind_of, moves_from

TABLES = {"task-03": TASK_MOVES, "task-00": CONDUCTOR_MOVES, "fallback-x": FALLBACK_MOVES}
ROLES = (Role.MUSICIAN, Role.CONDUCTOR)


@pytest.mark.parametrize("task", TABLES)
def test_the_moves_of_a_row_are_those_of_the_contract(task: str) -> None:
    kind = kind_of(task)
    assert {state.value for state in MOVES[kind]} == set(TABLES[task])
    for found, ends in TABLES[task].items():
        for role, wanted in zip(ROLES, ends):
            assert {s.value for s in moves_from(kind, State(found), role)} == set(wanted.split())


def test_there_are_eleven_states_and_three_may_be_claimed() -> None:
    assert sorted(state.value for state in State) == STATES
    assert {state.value for state in CLAIMABLE[Kind.TASK]} == set(MAY_BE_CLAIMED)


@pytest.mark.parametrize("task", TABLES)
@pytest.mark.parametrize("to", State)
def test_a_role_makes_its_own_moves_and_no_other(task: str, to: State) -> None:
    for found, ends in TABLES[task].items():
        row = Task({"task_id": task, "state": found})
        for role, listed in zip(ROLES, ends):
            if to.value == found or to.value in listed.split():
                rules.check_move(row, to, role)
            else:
                with pytest.raises(MoveRefused, match=f"{task} is {found}.* podium why {task}"):
                    rules.check_move(row, to, role)


@pytest.mark.parametrize(
    ("task", "state"), [(task, State(state)) for task in TABLES for state in TABLES[task]]
)
def test_every_state_of_a_row_has_its_advice(task: str, state: State) -> None:
    assert state in advice.ADVICE[kind_of(task)]
    assert "{" not in advice.advice(task, state)


def test_the_presets_and_limits_are_those_of_the_contract() -> None:
    presets = {n: ({s.value for s in p.may_stop}, p.iterations) for n, p in rules.PRESETS.items()}
    assert presets == {
        "orchestration": ({"exit_requested", "complete"}, 1000),
        "execution": ({"complete", "exited"}, 500),
    }
    assert (rules.ERROR_RETRIES, rules.BEAT_EVERY, rules.STALE_AFTER) == (5, 60, 540)


@pytest.mark.parametrize("task", ["task-00", "task-03", "task-103", "task-03-fix", "task-03-fix2"])
def test_a_task_id_is_accepted(task: str) -> None:
    assert rules.check_task_id(task) == task


@pytest.mark.parametrize("task", ["", "task-3", "../task-03", "task-03\n", "TASK-03", "x" * 999])
def test_what_could_be_a_path_is_no_task_id(task: str) -> None:
    with pytest.raises(WrongUsage, match="run: podium status"):
        rules.check_task_id(task)
