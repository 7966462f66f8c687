"""No window: `claude -p`, its output in temp/. Works everywhere; nobody can be asked anything."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

from podium.stage import process
from podium.stage.base import CannotStart, private

if TYPE_CHECKING:
    from podium.stage.base import Facts, Play, Window

SHOWN = 4000  # characters from the end of the output


class Headless:
    """See podium.stage.base.Backend."""

    name = "headless"
    flags: tuple[str, ...] = ("-p",)
    chooses_id = True
    by_settings = False

    def works(self, facts: Facts) -> str:  # noqa: ARG002  # the interface's form
        """Why it cannot be used here; empty when it can."""
        return ""

    def shown(self, play: Play, facts: Facts) -> list[str]:  # noqa: ARG002
        """The command that opens the window, for people."""
        return [*play.command(), "</dev/null", ">", play.file("log"), "2>&1"]

    def start(self, play: Play, facts: Facts) -> Window:
        """Open the window; raises CannotStart."""
        play.write()
        # Not a pipe: with an open one the client waits for more of its prompt.
        with private(play.file("log")) as out:
            started = subprocess.Popen(
                play.command(), env=dict(facts.env), stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, start_new_session=True,
            )  # fmt: skip
        if process.identify(started.pid) is None:
            raise CannotStart(f"it ended at once: {self.screen({'log': play.file('log')}, facts)}")
        return {"log": play.file("log")}

    def screen(self, window: Window, facts: Facts) -> str:  # noqa: ARG002
        """What the window says now; empty when that cannot be told."""
        try:
            with open(window["log"], encoding="utf-8", errors="replace") as file:
                return file.read()[-SHOWN:]
        except OSError:
            return ""

    def close(self, window: Window, facts: Facts) -> None:
        """Nothing is left of it but its output, which is kept."""

    def reach(self, window: Window) -> str:
        """How a person gets to the window, to read it or to answer a question in it."""
        return f"tail -f {shlex.quote(window['log'])}"
