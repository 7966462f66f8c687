"""kill -9 at random instants: each step is done or not begun, and the next command works."""

from __future__ import annotations

import os
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from .child import Child, Ended, warm, work_of
from .scene import DEEDS, MAIL, Deed, Scene

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from .scene import Found

SOUND = [("ok",)]
ALLOWED = (0, 1)  # of the command after the kill: done, or refused since it was done before
SEVERAL = ("init", "conductor sweep")  # several steps, each of its own


class Round(NamedTuple):
    """One kill: what was killed, and what was wrong afterwards; empty when nothing was."""

    deed: Deed
    killed: bool
    wrong: str
    lost: bool = False


class Killer:
    """Runs each deed whole once, to know its outcome and how long it takes; then kills it."""

    def __init__(self, folder: str) -> None:
        warm()
        self.scene = Scene(folder)
        self.before: dict[Deed, Found] = {}
        self.after: dict[Deed, Found] = {}
        self.takes: dict[tuple[Deed, bool], float] = {}
        for deed in DEEDS:
            project = self.scene.restore(deed.project)
            self.before[deed] = self.scene.look(project)
            done = self._run(project, deed, real=False)
            self.after[deed] = self.scene.look(project)
            if done.code not in ((0, 2) if deed.is_hook else ALLOWED) or b"Traceback" in done.err:
                raise AssertionError(f"{deed.words}: {done}")

    def _run(self, project: str, deed: Deed, *, real: bool) -> Ended:
        child = Child(work_of(deed, real=real), deed.stdin, self.scene.env(project), project)
        done = child.wait()
        self.takes[deed, real] = child.took
        return done

    def once(self, chance: random.Random, deed: Deed, *, real: bool = False) -> Round:
        """Kill it at a random instant of its life."""
        if (deed, real) not in self.takes:
            self._run(self.scene.restore(deed.project), deed, real=real)
        project = self.scene.restore(deed.project)
        child = Child(work_of(deed, real=real), deed.stdin, self.scene.env(project), project)
        child.kill(chance.uniform(0, self.takes[deed, real] * 1.1))
        ended = child.wait()
        found = self.scene.look(project)
        wrong, lost = self._half(project, deed, found), self._lost(project, deed, ended)
        return Round(deed, ended.code < 0, wrong or self._again(project, deed, found), lost)

    def _half(self, project: str, deed: Deed, found: Found) -> str:
        """What is wrong with what the killed command left."""
        if found and found["sound"] != SOUND:
            return f"integrity_check says {found['sound']}"
        if "--archive" in deed.words:  # the old run is somewhere, whole
            files = [name for name in os.listdir(project) if name.endswith(".db")]
            kept = any(self.scene.look(project, name) == self.before[deed] for name in files)
            return "" if kept else f"the old run is gone: {files}"
        if deed.words in SEVERAL or found in (self.before[deed], self.after[deed]):
            return ""
        new = {k: [x for x in lines if x not in self.before[deed][k]] for k, lines in found.items()}
        return f"half a step: {new}"

    def _lost(self, project: str, deed: Deed, ended: Ended) -> bool:
        """Whether the mail counts as shown and was not written out."""
        if deed.session != "m-02" or not deed.words.endswith((" tool", " bell", " stop")):
            return False
        newest = int(str(self.before[deed]["mail"][-1][0]))
        told = MAIL.encode() in ended.out + ended.err
        return self.scene.shown(project, "m-02", "task-02") >= newest and not told

    def _again(self, project: str, deed: Deed, found: Found) -> str:
        """What is wrong with the same command afterwards."""
        done = self._run(project, deed, real=False)
        if b"Traceback" in done.err or (not deed.is_hook and done.code not in ALLOWED):
            return f"the next command: {done}"
        if found == self.before[deed] and self.scene.look(project) != self.after[deed]:
            return "the next command did not do it"
        return ""


def spree(folder: str, chance: random.Random, kills: int, *, real: bool = False) -> Iterator[Round]:
    """So many kills, every deed in its turn. A process that ended before its kill is no kill."""
    killer = Killer(folder)
    for deed in cycle(chance.sample(DEEDS, len(DEEDS))):
        if kills <= 0:
            return
        trial = killer.once(chance, deed, real=real)
        kills -= trial.killed
        yield trial
