"""An owner that slept past its lease writes nothing more, wherever in its work it was stopped."""

from __future__ import annotations

import os
import random
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from faults.injected import STOP, Injection, start
from protocol import age, connect

from podium.domain.states import CONDUCTOR_ROW, MessageType, State
from podium.entry.proof.child import Child, warm
from podium.entry.proof.fence import rounds
from podium.entry.proof.scene import CONDUCTOR, DEEDS, Deed, Scene
from podium.services import callers, tasks
from podium.store import open_store

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    warm()
    return Scene(str(tmp_path_factory.mktemp("scene")))


def test_whoever_is_stopped_at_random_and_replaced_is_refused(tmp_path: Path) -> None:
    found = list(rounds(str(tmp_path), random.Random(5), 40))

    assert sum(r.accepted for r in found) == 0
    assert all(r.tried > 20 for r in found)


def stopped(child: Child) -> bool:
    """Wait until it is stopped or has ended; the latter is left for child.wait()."""
    found = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    return found is not None and found.si_code == os.CLD_STOPPED


def replace_musician(project: str, task: str) -> None:
    """The conductor recalls the silent owner, and a successor claims."""
    with closing(open_store(os.path.join(project, "comms.db"))) as store:
        person = callers.identify(store, None)
        tasks.judge(store, person, task, State.EXIT_REQUESTED, MessageType.EMERGENCY, "leave")
        with closing(connect(os.path.join(project, "comms.db"))) as db:  # type: ignore[arg-type]
            age(db, task, 600)
        tasks.claim(store, callers.identify(store, "successor"), task)


def replace_conductor(project: str, _: str) -> None:
    with closing(open_store(os.path.join(project, "comms.db"))) as store:
        with closing(connect(os.path.join(project, "comms.db"))) as db:  # type: ignore[arg-type]
            age(db, CONDUCTOR_ROW, 600)
        tasks.conduct(store, callers.identify(store, "successor"))


def lines(project: str) -> list[sqlite3.Row]:
    with closing(connect(os.path.join(project, "comms.db"))) as db:  # type: ignore[arg-type]
        return [
            *db.execute("SELECT task_id, actor, to_state FROM podium_events"),
            *db.execute("SELECT task_id, from_session, message FROM orchestration_messages"),
            *db.execute("SELECT task_id, session_id, state, retry_count FROM orchestration_tasks"),
        ]


WORDS = (
    *("add", "plan", "review", "approve", "broadcast", "handoff task-07", "rest"),
    *("submit", "error", "complete", "exit", "resume"),
)
LATE = [
    deed
    for deed in DEEDS
    if deed.project == "run" and deed.words.split(" ", 1)[1].startswith(WORDS)
]


@pytest.mark.parametrize("deed", LATE, ids=lambda deed: deed.words[:40])
def test_a_command_stopped_between_any_two_calls_and_fenced_off_writes_nothing(
    scene: Scene, deed: Deed
) -> None:
    replace = replace_conductor if deed.session == CONDUCTOR else replace_musician
    pristine = lines(os.path.join(scene.folder, "pristine", deed.project))
    number, late, refused, going_on = 0, [], 0, True
    while going_on:
        number += 1
        project = scene.restore(deed.project)
        child = start(scene, project, deed, Injection(STOP, number))
        try:
            going_on = stopped(child) and lines(project) == pristine  # the step is not begun yet
            if going_on:
                replace(project, f"task-{str(deed.session)[-2:]}")
            before = lines(project)
        finally:
            os.kill(child.pid, signal.SIGCONT)
            ended = child.wait()
        if going_on and lines(project) != before:
            late.append((number, [x[:3] for x in lines(project) if x not in before]))
        refused += going_on and ended.code == 1 and b"taken over" in ended.err
    assert late == []
    assert refused
