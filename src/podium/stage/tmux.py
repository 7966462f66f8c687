"""Windows in tmux: in the session that podium runs in, else in one of the project's own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from podium.stage.base import CannotStart

if TYPE_CHECKING:
    from podium.stage.base import Facts, Play, Window

FIELDS = ("socket_path", "pid", "session_name", "pane_id", "pane_pid")
FORMAT = "\t".join(f"#{{{field}}}" for field in FIELDS)


class Tmux:
    """See podium.stage.base.Backend."""

    name = "tmux"
    flags: tuple[str, ...] = ()
    chooses_id = True
    by_settings = False

    def works(self, facts: Facts) -> str:
        """Why it cannot be used here; empty when it can."""
        return "" if facts.program("tmux") else "tmux is not on PATH"

    def shown(self, play: Play, facts: Facts) -> list[str]:
        """The command that opens the window, for people."""
        return self._open(play, facts, _session(play))

    def _open(self, play: Play, facts: Facts, session: str) -> list[str]:
        tmux = _program(facts)
        inside = facts.env.get("TMUX", "").split(",")[0]
        tmux += ["-S", inside] if inside else []
        # tmux runs the #(…) of a folder's name as a command, unless it is doubled.
        where = play.cwd.replace("#", "##")
        what = ["-d", "-P", "-F", FORMAT, "-n", play.title, "-c", where]
        if inside or _run([*tmux, "has-session", "-t", f"={session}"], facts).returncode == 0:
            target = facts.env.get("TMUX_PANE", "") if inside else f"={session}:"
            if inside:
                ask = [*tmux, "display-message", "-p", "-t", target, "#{session_id}"]
                target = _run(ask, facts).stdout.strip() + ":"
            return [*tmux, "new-window", *what, "-t", target, "--", *play.command()]
        size = ["-x", "200", "-y", "50"]
        return [*tmux, "new-session", "-s", session, *size, *what, "--", *play.command()]

    def start(self, play: Play, facts: Facts) -> Window:
        """Open the window; raises CannotStart."""
        # Its server may have been started by anybody: the window gets the environment of whoever
        # asks for it. A pane that stays when its session ends shows the last words.
        keep = [
            facts.program("tmux"),
            "set-option",
            "-p",
            "-t",
            "$TMUX_PANE",
            "remain-on-exit",
            "on",
        ]
        play.write(environment=dict(facts.env), before=keep)
        for _ in range(2):  # somebody else may open the project's session at this moment
            done = _run(self._open(play, facts, _session(play)), facts)
            if done.returncode == 0:
                window: Window = dict(zip(FIELDS, done.stdout.strip().split("\t")))
                return {**window, "verb": self._verb(window, facts)}
            if "duplicate session" not in done.stderr:
                break
        play.withdraw()
        raise CannotStart(f"tmux: {done.stderr.strip() or done.stdout.strip()}")

    def screen(self, window: Window, facts: Facts) -> str:
        """What the window says now; empty when that cannot be told."""
        # With some lines above: a dead pane has moved its first line out of sight.
        ask = ["capture-pane", "-p", "-S", "-20", "-t", window["pane_id"]]
        return self._of(window, facts, ask) if self._is_there(window, facts) else ""

    def close(self, window: Window, facts: Facts) -> None:
        """Take down what is left of the window once its process has ended."""
        if self._is_there(window, facts):
            self._of(window, facts, ["kill-pane", "-t", window["pane_id"]])

    def reach(self, window: Window) -> str:
        """How a person gets to the window, to read it or to answer a question in it."""
        return f"tmux {window['verb']} -t {window['pane_id']}"

    def _verb(self, window: Window, facts: Facts) -> str:
        if facts.env.get("TMUX"):
            return "switch-client"
        folder = os.path.realpath(facts.env.get("TMUX_TMPDIR") or "/tmp")  # noqa: S108  # tmux's own
        usual = os.path.join(folder, f"tmux-{os.getuid()}", "default")
        socket = str(window["socket_path"])
        return "attach" if socket == usual else f"-S {shlex.quote(socket)} attach"

    def _is_there(self, window: Window, facts: Facts) -> bool:
        """Whether it is the same server and the same pane: names are given anew after a restart."""
        ask = ["display-message", "-p", "-t", window["pane_id"], "#{pid}\t#{pane_pid}"]
        return self._of(window, facts, ask).strip() == f"{window['pid']}\t{window['pane_pid']}"

    def _of(self, window: Window, facts: Facts, words: list[str]) -> str:
        return _run([*_program(facts), "-S", window["socket_path"], *words], facts).stdout


def _program(facts: Facts) -> list[str]:
    # In a locale without UTF-8 it writes an underscore for every tab, unless it is told otherwise.
    return [facts.program("tmux") or "tmux", "-u"]


def _run(command: list[str], facts: Facts) -> subprocess.CompletedProcess[str]:
    # Without TMUX: a command with -S must not be taken for one of the server podium runs in.
    env = {k: v for k, v in facts.env.items() if k not in ("TMUX", "TMUX_PANE")}
    return subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def _session(play: Play) -> str:
    """The tmux session of the project, by a name that tmux keeps as it is."""
    return "podium-" + re.sub(r"[^A-Za-z0-9_-]+", "-", play.project).strip("-")
