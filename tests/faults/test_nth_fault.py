"""Every command and hook, with the 1st, 2nd, 3rd … call of the database failing."""

from __future__ import annotations

import pytest
from faults.injected import FAULTS, FEW, trials

from podium.entry.proof.child import warm
from podium.entry.proof.scene import DEEDS, Deed, Scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    warm()
    return Scene(str(tmp_path_factory.mktemp("scene")))


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: f"{deed.words[:40]} as {deed.session}")
def test_whatever_call_fails_the_step_is_done_or_not_begun(scene: Scene, deed: Deed) -> None:
    found = list(trials(scene, deed))

    assert [trial for trial in found if trial.wrong] == []
    assert 1 < len(found) <= FEW
    assert len({trial.kind for trial in found}) == min(len(found), len(FAULTS))
