"""Mutated inputs: exit 0 or a JSON-RPC error, never a traceback, never a stranger held.

2,000 hook inputs and 2,000 lines for comms-link; benchmarks/soak does 10,000 of each.
"""

from __future__ import annotations

import json
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from entry.speaker import Speaker

from podium.entry.proof import fuzz
from podium.entry.proof.child import Child, warm, work_of
from podium.entry.proof.scene import Deed, Scene

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = 2000
THROUGH_THE_SHELL, THROUGH_THE_SERVER = 60, 300


def test_no_hook_input_breaks_a_hook_or_holds_a_stranger(tmp_path: Path) -> None:
    warm()
    answers = list(fuzz.hooks(str(tmp_path), random.Random(2), INPUTS))

    assert [bad for bad in answers if bad] == []
    assert len(answers) == INPUTS
    # What SessionStart exported was read back by a shell: nothing of it was run.
    script = '. ./environment; printf %s "$CLAUDE_SESSION_ID" | wc -l'
    done = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("0", "")
    assert not list(tmp_path.rglob("pwned"))


def test_so_it_is_when_the_client_runs_the_hooks(tmp_path: Path) -> None:
    scene, chance = Scene(str(tmp_path)), random.Random(3)
    project = scene.restore("run")
    for _ in range(THROUGH_THE_SHELL):
        name, who = chance.choice(list(fuzz.EVENTS)), chance.choice(fuzz.STRANGERS + fuzz.OWNERS)
        given = {"session_id": who, **fuzz.COMMON, **fuzz.EVENTS[name]}
        raw = fuzz.mutate(chance, given)
        child = Child(work_of(Deed(f"hook {name}"), real=True), raw, scene.env(project), project)
        ended = child.wait()
        assert fuzz.judge_hook(name, raw, *ended) == "", (name, raw)


def test_no_line_breaks_comms_link_or_lets_a_stranger_write(tmp_path: Path) -> None:
    answers = list(fuzz.comms_link(str(tmp_path), random.Random(4), INPUTS))

    assert [bad for bad in answers if bad] == []
    assert len(answers) == INPUTS


def test_one_server_outlives_every_line(tmp_path: Path) -> None:
    scene, chance = Scene(str(tmp_path)), random.Random(6)
    project = scene.restore("run")
    with Speaker(project, "stranger") as server:  # type: ignore[arg-type]
        server.start()
        for number in range(THROUGH_THE_SERVER):
            raw = fuzz.request(chance, number)
            server.write(raw + b"\n")
            if number % 50 == 49:  # it stands in line behind them all
                name = f"after-{number}"
                server.send("tools/call", number=name, name="query", arguments={"sql": "SELECT 1"})
                while (answer := server.read()) and not _is(answer, name):
                    assert fuzz.judge_answer(answer) == "", raw


def _is(answer: object, number: str) -> bool:
    return isinstance(answer, dict) and answer.get("id") == number


@pytest.mark.parametrize("broken", [{}, {"hookSpecificOutput": {"additionalContext": "go on"}}])
def test_the_judge_knows_a_stranger_that_is_held(broken: dict[str, object]) -> None:
    said = json.dumps(broken).encode()
    wrong = fuzz.judge_hook("stop", b'{"session_id": "stranger"}', 0, said, b"")
    assert bool(wrong) == bool(broken)
    assert fuzz.judge_hook("stop", b'{"session_id": "m-02"}', 0, said, b"") == ""
    assert fuzz.judge_hook("stop", b"{}", 0, b"", b"Traceback") != ""
    assert fuzz.judge_hook("stop", b"{}", 1, b"", b"") != ""
