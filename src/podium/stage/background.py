"""The client's own background sessions: `claude --bg`, reached with `claude attach ID`."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING

from podium.stage import pidfile, process
from podium.stage.base import CannotStart
from podium.stage.player import environment

if TYPE_CHECKING:
    from podium.stage.base import Facts, Play, Window

# Older ones have --bg too, but 2.1.197 leaves the session unstarted where it cannot phone home.
OLDEST = (2, 1, 300)
PATIENCE, SLOWEST = 15.0, 90.0  # seconds; with a prompt of 100 kB the command itself takes 15
NAMED = re.compile(r"backgrounded\W+([0-9a-f]{6,})")


class Background:
    """See podium.stage.base.Backend."""

    name = "background"
    flags: tuple[str, ...] = ("--bg",)
    chooses_id = False
    by_settings = True

    def __init__(self, client: str) -> None:
        self.client = client

    def works(self, facts: Facts) -> str:
        """Why it cannot be used here; empty when it can."""
        found = version(self.client, facts)
        if found >= OLDEST:
            return ""
        shown, wanted = (".".join(map(str, number)) for number in (found, OLDEST))
        return f"the client is {shown or 'unknown'}, background sessions want {wanted}"

    def shown(self, play: Play, facts: Facts) -> list[str]:  # noqa: ARG002  # the interface's form
        """The command that opens the window, for people."""
        return [play.argv[0], "PROMPT", *play.argv[1:]]

    def start(self, play: Play, facts: Facts) -> Window:
        """Open the window; raises CannotStart."""
        play.write()
        play.withdraw()  # the prompt is kept for people; no player is needed here
        done = _run([play.argv[0], play.prompt, *play.argv[1:]], facts, play.cwd)
        named = NAMED.search(done.stdout)
        if done.returncode or not named:
            raise CannotStart(f"claude --bg: {(done.stderr or done.stdout).strip()[-300:]}")
        window: Window = {"id": named[1], "client": self.client}
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for one in roll(self.client, facts):
                who = one.get("id") == named[1] and process.identify(int(one.get("pid") or 0))
                if who:
                    pidfile.write(play.file("pid"), who)
                    return {**window, "session_id": one["sessionId"]}
            time.sleep(0.3)
        self.close(window, facts)
        raise CannotStart(f"claude --bg started {named[1]}, but no process of it came up")

    def screen(self, window: Window, facts: Facts) -> str:
        """What the window says now; empty when that cannot be told."""
        return plain(_run([self.client, "logs", window["id"]], facts).stdout)

    def close(self, window: Window, facts: Facts) -> None:
        """Take down what is left of the window once its process has ended."""
        _run([self.client, "stop", window["id"]], facts)

    def reach(self, window: Window) -> str:
        """How a person gets to the window, to read it or to answer a question in it."""
        return f"claude attach {window['id']}"


def plain(text: str) -> str:
    """The text of a terminal's output: cursor moves become spaces, the rest of the control goes."""
    moved = re.sub(r"\x1b\[\d*[GC]", " ", text)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[78=>]|\r", "", moved)


def version(client: str, facts: Facts) -> tuple[int, ...]:
    """The client's version; empty when it does not say."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", _run([client, "--version"], facts).stdout)
    return tuple(map(int, found.groups())) if found else ()


def roll(client: str, facts: Facts) -> list[dict[str, str]]:
    """The sessions that the client knows on this machine, interactive ones too."""
    done = _run([client, "agents", "--json", "--all"], facts)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _run(
    command: list[str], facts: Facts, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    env = environment(dict(facts.env), {}, dict(facts.env))
    try:
        return subprocess.run(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=SLOWEST,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))
