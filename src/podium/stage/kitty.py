"""Windows of kitty: one process of its own for each session, with a private control socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from podium.domain.records import Process
from podium.stage import process
from podium.stage.base import CannotStart, private

if TYPE_CHECKING:
    from podium.stage.base import Facts, Play, Window

PATIENCE = 10.0  # seconds until the player must have begun


class Kitty:
    """See podium.stage.base.Backend."""

    name = "kitty"
    flags: tuple[str, ...] = ()
    chooses_id = True
    by_settings = False

    def works(self, facts: Facts) -> str:
        """Why it cannot be used here; empty when it can."""
        if not facts.program("kitty"):
            return "kitty is not on PATH"
        if facts.platform == "darwin":
            return "this is a remote login" if facts.env.get("SSH_CONNECTION") else ""
        screen = facts.env.get("DISPLAY") or facts.env.get("WAYLAND_DISPLAY")
        return "" if screen else "there is no display for kitty"

    def shown(self, play: Play, facts: Facts) -> list[str]:
        """The command that opens the window, for people."""
        return self._open(play, facts, "FOLDER/control")

    def _open(self, play: Play, facts: Facts, socket: str) -> list[str]:
        # It stays when its session ends, and so shows the last words.
        kitty = [facts.program("kitty") or "kitty", "--hold", "--title", play.title]
        control = ["-o", "allow_remote_control=socket-only", "--listen-on", f"unix:{socket}"]
        return [*kitty, *control, "--directory", play.cwd, "--", *play.command()]

    def start(self, play: Play, facts: Facts) -> Window:
        """Open the window; raises CannotStart."""
        play.write()
        folder = tempfile.mkdtemp(
            prefix="podium-"
        )  # nobody else's, and short as a socket's must be
        log = play.file("log")
        with private(log) as out:
            started = subprocess.Popen(
                self._open(play, facts, os.path.join(folder, "control")),
                env=dict(facts.env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while os.path.exists(play.file("json")) and started.poll() is None:
            if time.monotonic() > end:
                break
            time.sleep(0.05)
        who = process.identify(started.pid)
        window = {"folder": folder, "title": play.title, **(vars(who) if who else {})}
        if who is None or os.path.exists(play.file("json")):
            play.withdraw()
            self.close(window, facts)
            with open(log, encoding="utf-8", errors="replace") as said:
                raise CannotStart(f"kitty opened no window: {said.read().strip()[-300:]}")
        return window

    def screen(self, window: Window, facts: Facts) -> str:
        """What the window says now; empty when that cannot be told."""
        socket = f"unix:{window['folder']}/control"
        command = [facts.program("kitty") or "kitty", "@", "--to", socket, "get-text"]
        try:
            done = subprocess.run(
                command, env=dict(facts.env), stdin=subprocess.DEVNULL, capture_output=True,
                text=True, check=False, timeout=5,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout

    def close(self, window: Window, facts: Facts) -> None:  # noqa: ARG002  # the interface's form
        """Take down what is left of the window once its process has ended."""
        if "pid" in window:
            process.end(Process(window["pid"], window["started"], window["host"]))
        shutil.rmtree(window["folder"], ignore_errors=True)

    def reach(self, window: Window) -> str:
        """How a person gets to the window, to read it or to answer a question in it."""
        return f"look for the kitty window titled '{window['title']}'"
