"""Every command and hook, with the 1st, 2nd, 3rd … call of the database failing."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults.injected import FAULTS, LOCKED, Injection, run
from protocol import connect

from podium.entry.proof.child import Ended, warm
from podium.entry.proof.scene import DEEDS, Deed, Scene

if TYPE_CHECKING:
    from podium.entry.proof.scene import Found

# Every kind of fault for every call takes minutes: benchmarks/soak does that.
THOROUGH = bool(os.environ.get("PODIUM_EVERY_FAULT"))
SEVERAL = ("init", "init --archive", "conductor sweep")  # several steps, each of its own


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    warm()
    return Scene(str(tmp_path_factory.mktemp("scene")))


def answers(deed: Deed, ended: Ended) -> str:
    """What is wrong with how a hook or command that met a fault ended; empty when nothing is."""
    said = ended.out.decode() + ended.err.decode()
    if "Traceback" in said or "a bug in podium" in said:
        return said
    if deed.is_hook:
        fine = ended.code == 0 or (ended.code == 2 and deed.words.endswith("bell"))
        return "" if fine and len(ended.out.splitlines()) <= 1 else f"{ended.code}: {said}"
    lines = ended.err.decode().splitlines()
    refused = len(lines) == 1 and lines[0].startswith("podium: ")
    if ended.code not in (0, 1, 3) or (ended.code != 0 and not refused):
        return f"{ended.code}: {said}"
    return ""


def held_uncounted(project: str, deed: Deed, ended: Ended) -> bool:
    """Whether a Stop went on without being counted: that could hold a session for ever."""
    if deed.words != "hook stop" or b"hookSpecificOutput" not in ended.out:
        return False
    with closing(connect(Path(project, "comms.db"))) as db:
        sql = "SELECT continuations FROM podium_sessions WHERE session_id = ?"
        return db.execute(sql, (deed.session,)).fetchone()[0] == 0


def some(calls: int) -> list[int]:
    """Every call, or of very many the first and the last."""
    every = list(range(1, calls + 1))
    return every if THOROUGH or calls <= 24 else every[:12] + every[-12:]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: f"{deed.words[:40]} as {deed.session}")
def test_whatever_call_fails_the_step_is_done_or_not_begun(scene: Scene, deed: Deed) -> None:
    project = scene.restore(deed.project)
    before = scene.look(project)
    whole, calls = run(scene, project, deed, Injection(LOCKED, 0))
    after: Found = scene.look(project)
    assert calls > 1
    wrong = []
    for number in some(calls):
        kinds = list(FAULTS) if THOROUGH else [list(FAULTS)[number % len(FAULTS)]]
        for kind in kinds:
            project = scene.restore(deed.project)
            ended, _ = run(scene, project, deed, Injection(kind, number, lasting=number % 2 == 0))
            found, why = scene.look(project), answers(deed, ended)
            if deed.words not in SEVERAL and found not in (before, after):
                why = "half a step"
            elif ended.code == whole.code == 0 and not deed.is_hook and found != after:
                why = "it says that it is done"
            elif kind != LOCKED and held_uncounted(project, deed, ended):
                why = "held and not counted"
            if why:
                wrong.append(f"call {number}, {kind}: {why}")
    assert wrong == []
