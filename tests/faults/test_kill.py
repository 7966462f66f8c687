"""kill -9 at random instants of every writing command and hook."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from podium.entry.proof.kill import Killer, spree
from podium.entry.proof.scene import DEEDS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_killed_step_is_done_or_not_begun_and_the_next_command_works(tmp_path: Path) -> None:
    kills = 4 * len(DEEDS)
    rounds = list(spree(str(tmp_path), random.Random(10), kills))

    assert [(r.deed.words, r.wrong) for r in rounds if r.wrong] == []
    assert [r.deed.words for r in rounds if r.lost] == []
    assert sum(r.killed for r in rounds) == kills
    assert {r.deed for r in rounds} == set(DEEDS)


def test_so_it_is_when_they_are_started_as_a_shell_and_the_client_start_them(
    tmp_path: Path,
) -> None:
    killer, chance = Killer(str(tmp_path)), random.Random(10)

    rounds = [killer.once(chance, deed, real=True) for deed in chance.sample(DEEDS, 12)]

    assert [(r.deed.words, r.wrong, r.lost) for r in rounds if r.wrong or r.lost] == []
