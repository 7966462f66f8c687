"""Becomes the client: `python3 -I player.py SPEC.json`, run in a window or without one.

The prompt comes from a file and goes to the client as one argument, so neither a terminal nor a
shell ever reads it. Standard library only; it imports nothing of podium.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

# What a client sets for what it starts; a session that inherits it takes itself for a child.
SESSION_VARIABLES = (
    *("CLAUDECODE", "CLAUDE_SESSION_ID", "CLAUDE_PID", "CLAUDE_EFFORT", "CLAUDE_ENV_FILE"),
    *("CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "CLAUDE_JOB_DIR"),
    *("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT"),
    *("CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_CHILD_NOTES_DIR"),
    *("CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN"),
    *("CLAUDE_CODE_HOST_SHORT_TEMP_DIRS", "AI_AGENT"),
)
# What belongs to the terminal and not to whoever asked for the window.
TERMINAL_VARIABLES = (
    *("TERM", "COLORTERM", "TERMINFO", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLUMNS", "LINES"),
    *("TMUX", "TMUX_PANE", "WINDOWID", "VTE_VERSION", "KITTY_WINDOW_ID", "KITTY_PID"),
    *("KITTY_LISTEN_ON", "KITTY_PUBLIC_KEY", "KITTY_INSTALLATION_DIR", "SHLVL", "PWD", "OLDPWD"),
)


def environment(
    given: dict[str, str], changes: dict[str, str], here: dict[str, str]
) -> dict[str, str]:
    """Whoever asked's variables, without its session's and with the terminal's of this place."""
    kept = {k: v for k, v in given.items() if k not in (*SESSION_VARIABLES, *TERMINAL_VARIABLES)}
    terminal = {k: here[k] for k in TERMINAL_VARIABLES if k in here}
    return {**kept, **terminal, **changes}


def started(pid: int) -> str:
    """When a process started: the same text as podium.stage.process gives."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
        utc = {"LC_ALL": "C", "TZ": "UTC0"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=utc)
        return done.stdout.strip()


def main(spec_file: str) -> int:
    """Never returns when all is well: this process is the client from then on."""
    with open(spec_file, encoding="utf-8") as file:
        spec = json.load(file)
    os.unlink(spec_file)  # it holds the environment
    aside = f"{spec['pid_file']}.{os.getpid()}"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n{started(os.getpid())}\n{os.uname().nodename}\n")
    os.replace(aside, spec["pid_file"])
    here = dict(os.environ)
    env = environment(spec.get("environment") or here, spec["changes"], here)
    program, *arguments = spec["argv"]
    with open(spec["prompt_file"], encoding="utf-8", newline="") as file:
        prompt = file.read()
    before = [here.get(word[1:], word) if word[:1] == "$" else word for word in spec["before"]]
    if before:
        subprocess.run(before, stdin=subprocess.DEVNULL, check=False, env=env)
    try:
        os.chdir(spec["cwd"])
        os.execve(program, [program, prompt, *arguments], env)  # noqa: S606  # no shell is the point
    except OSError as error:
        print(f"podium: {program} cannot be started in {spec['cwd']}: {error}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
