"""A session without a model: run like the client, it calls the hooks like the client.

`player.py PROMPT … --session-id ID …` in the project's folder. What a hook tells it is its cue, as
it would be a model's; whatever does not fit the score ends it with one line and exit code 1.
Standard library only; DEMO_PACE in the environment is the length of a step of work, in seconds.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))
if __name__ == "__main__":
    sys.path.insert(0, os.path.join(ROOT, "src"))

from podium.entry.demo import score  # noqa: E402  # as a file it has to find podium first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATIENCE = 60  # seconds that one hook or command may take
TURNS = 60  # nobody plays longer than that
WINDOW = 200_000
# A line that asks the conductor for something: kind, task, command.
ASKED = re.compile(r"^(\w+) +(task-\S+) .*→ (podium conductor .+)$", re.MULTILINE)
ANSWERED = ("review", "completion")
LAUNCHED = ("free", "dead", "exit", "stale")


class OffScript(Exception):
    """What came is not what the score says."""


class Session:
    """One client process: its id, its transcript, and what a hook told it last."""

    def __init__(self, session_id: str, project: str, env: Mapping[str, str]) -> None:
        self.id, self.project = session_id, project
        self.pace = float(env.get("DEMO_PACE", "0"))
        self.transcript = os.path.join(env["HOME"], f"{session_id}.jsonl")
        self.tokens = score.START_COSTS
        # What a client sets for its hooks; a shell command gets all but the first two.
        self.hook_env = {
            **env,
            "CLAUDE_PROJECT_DIR": project,
            "CLAUDE_PLUGIN_ROOT": ROOT,
            "CLAUDE_CODE_SESSION_ID": session_id,
            "CLAUDE_CODE_ENTRYPOINT": "sdk-cli",
            "CLAUDECODE": "1",
        }
        self.env = {
            name: value
            for name, value in self.hook_env.items()
            if name not in ("CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT")
        }

    def hook(self, *words: str, **payload: object) -> str:
        """Fire a hook as the client does; what it tells the model."""
        told = {
            "session_id": self.id,
            "transcript_path": self.transcript,
            "cwd": self.project,
            **payload,
        }
        done = subprocess.run(
            ["/bin/sh", os.path.join(ROOT, "hooks", "hook.sh"), *words],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            cwd=self.project,
            env=self.hook_env,
        )
        try:
            said: dict[str, Any] = json.loads(done.stdout or "{}")
        except ValueError:
            said = {"systemMessage": done.stdout}
        if done.returncode or done.stderr or "systemMessage" in said:
            seen = said.get("systemMessage") or done.stderr or f"exit code {done.returncode}"
            raise OffScript(f"the hook {' '.join(words)} said: {seen.strip()}")
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the MCP server, which lives as long as the client and tells of its death."""
        return subprocess.Popen(
            ["/bin/sh", os.path.join(ROOT, "bin", "comms-link")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.project,
            env=self.hook_env,
        )

    def start(self) -> str:
        """SessionStart."""
        return self.hook("session_start", hook_event_name="SessionStart", source="startup")

    def rest(self) -> str:
        """The end of a turn: its usage, its tool call, then Stop; what the next one begins with."""
        self.tokens += score.TURN_COSTS
        usage = {"input_tokens": self.tokens, "output_tokens": 90}
        line = {"type": "assistant", "message": {"model": "demo", "usage": usage}}
        with open(self.transcript, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        called = {"tool_name": "Bash", "tool_input": {}, "tool_response": {}}
        told = self.hook("participant", "tool", hook_event_name="PostToolUse", **called)
        return told or self.hook("stop", hook_event_name="Stop", stop_hook_active=False)

    def leave(self) -> None:
        """SessionEnd."""
        self.hook("participant", "end", hook_event_name="SessionEnd", reason="other")

    def run(self, words: Iterable[str], *, may_refuse: bool = False) -> str:
        """A command of podium, as the Bash tool runs it; its output."""
        command = [os.path.join(ROOT, "bin", "podium"), *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode not in ((0, 1) if may_refuse else (0,)):
            said = (done.stderr or done.stdout).strip()
            raise OffScript(f"podium {' '.join(words)} ended with {done.returncode}: {said}")
        return done.stdout

    def do(self, step: tuple[str, ...]) -> str:
        """One step of a part; the output of a command."""
        kind, *rest = step
        if kind == "podium":
            return self.run(rest)
        if kind == "write":
            path = os.path.join(self.project, rest[0])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(rest[1])
        elif kind == "work":
            time.sleep(self.pace)
        elif kind == "hang":
            time.sleep(PATIENCE)
            raise OffScript("nobody killed this player")
        return ""


def play_musician(session: Session, told: str) -> None:
    """Claim the task that SessionStart named, then turn by turn to the end of the part."""
    task = re.search(r"musician claim (task-\S+)", told)
    if task is None:
        raise OffScript(f"SessionStart named no task: {told!r}")
    name = str(json.loads(session.run(["musician", "claim", task[1], "--json"]))["worked_by"])
    for turn in score.PARTS[name]:
        if turn.cue not in told:
            raise OffScript(f"{name} waited for {turn.cue!r} and was told {told!r}")
        for step in turn.steps:
            session.do(step)
        told = session.rest()
    if told:
        raise OffScript(f"{name} had ended and was told {told!r}")


def play_conductor(session: Session) -> None:
    """Open the concert, then do what the Stop hook asks for until it lets the session go."""
    verdicts = {task: list(words) for task, words in score.VERDICTS.items()}
    launched: set[str] = set()
    said = ""
    for step in score.OPENING:
        said = session.do(step) or said
    for _ in range(TURNS):
        if not follow(session, said, verdicts, launched):
            follow(session, session.run(["conductor", "next"]), verdicts, launched)
        said = session.rest()
        if not said:
            return
    raise OffScript(f"the conductor is held for ever: {said!r}")


def follow(
    session: Session, said: str, verdicts: dict[str, list[tuple[str, str]]], launched: set[str]
) -> bool:
    """Do what each line asks for; whether there was any."""
    asked = ASKED.findall(said)
    for kind, task, command in asked:
        if kind == "free" and task in launched:
            continue  # it is on its way to its claim
        if kind in LAUNCHED[1:] and task != score.KILLED:
            raise OffScript(f"{task} is {kind}, which is not in the score")
        # The window of a parallel task stays until its siblings have ended too.
        session.run(command.split()[1:], may_refuse=kind == "complete")
        if kind in LAUNCHED:
            launched.add(task)
        elif kind in ANSWERED:
            time.sleep(session.pace / 3)
            verdict, text = verdicts[task].pop(0)
            session.run(["conductor", verdict, task, "-m", text])
    return bool(asked)


def main(arguments: list[str]) -> int:
    """Play to the end; 0 when all went by the score."""
    session = Session(arguments[arguments.index("--session-id") + 1], os.getcwd(), dict(os.environ))
    try:
        server = session.serve()
        try:
            told = session.start()
            if arguments[0] == score.CONDUCTOR:
                play_conductor(session)
            else:
                play_musician(session, told)
        finally:
            server.send_signal(signal.SIGINT)  # as the client does before SessionEnd
        session.leave()
    except (OffScript, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        print(f"off script: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
