"""The client's command line: from podium.json's `launch` section to arguments and variables."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from podium.domain.errors import NotSetUp, WrongUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.stage.base import Backend, Facts

PLUGIN = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)
NAME = "podium"
# podium's own commands never ask, in any turn: a rule of the session does not expire.
OWN_TOOLS = (
    *("Bash(podium:*)", "mcp__plugin_podium_comms-link"),
    *("Skill(podium:musician)", "Skill(musician)"),  # after /clear the skill is invoked again
)
NO_STOP_CAP = {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "0"}  # podium counts continuations itself
LONGEST_PROMPT = 120_000  # bytes; Linux takes no argument of 128 KiB


class Config:
    """The `launch` section, already checked by its schema; what is missing has its default."""

    def __init__(self, section: Mapping[str, Any]) -> None:
        self.backend: str = section.get("backend", "auto")
        self.client: str = section.get("client", "")
        self.permission_mode: str = section.get("permission_mode", "acceptEdits")
        self.model: str = section.get("model", "")
        self.args: list[str] = list(section.get("args", []))
        self.env: dict[str, str] = dict(section.get("env", {}))
        self.allowed_tools: list[str] = list(section.get("allowed_tools", []))
        self.worktree: bool = section.get("worktree", False)
        self.plugin_dir: str = section.get("plugin_dir", "auto")
        self.wait: float = section.get("wait", 30)


def find(config: Config, facts: Facts) -> str:
    """The client's program: as configured, else from PATH, else the one podium runs under."""
    for name in (config.client, "" if config.client else "claude"):
        if name and (found := facts.program(name)):
            return found
    running = facts.env.get("CLAUDE_CODE_EXECPATH", "")
    if not config.client and os.access(running, os.X_OK):
        return running
    raise NotSetUp(
        f"there is no {config.client or 'claude'} on PATH; install Claude Code, or name it in "
        "podium.json as launch.client, then run: podium doctor"
    )


def arguments(
    config: Config,
    backend: Backend,
    *,
    title: str,
    session_id: str | None,
    resume: str | None,
    changes: Mapping[str, str],
    plugin_dir: str,
) -> list[str]:
    """The client's options for one session, without the program and the prompt."""
    words = [*backend.flags, "--name", title, "--permission-mode", config.permission_mode]
    words += ["--model", config.model] if config.model else []
    words += ["--plugin-dir", plugin_dir] if plugin_dir else []
    if resume:
        words += ["--resume", resume]
    elif session_id:
        words += ["--session-id", session_id]
    settings: dict[str, Any] = {"permissions": {"allow": [*OWN_TOOLS, *config.allowed_tools]}}
    if backend.by_settings:
        settings["env"] = dict(changes)
    return [*words, "--settings", json.dumps(settings), *config.args]


def plugin_dir(config: Config, facts: Facts, root: str) -> str:
    """The folder to load the plugin from; empty where the client loads it by itself."""
    if config.plugin_dir == "none":
        return ""
    if config.plugin_dir != "auto":
        return os.path.join(root, config.plugin_dir)
    return "" if is_enabled(facts, root) else PLUGIN


def settings_files(facts: Facts, root: str) -> list[str]:
    """The client's settings that count here, the weakest first: the user's, then the project's."""
    home = facts.env.get("CLAUDE_CONFIG_DIR") or os.path.join(facts.env.get("HOME", ""), ".claude")
    project = os.path.join(root, ".claude")
    return [
        os.path.join(home, "settings.json"),
        os.path.join(project, "settings.json"),
        os.path.join(project, "settings.local.json"),
    ]


def read_settings(path: str) -> dict[str, Any]:
    """The object in a settings file; empty when there is none, or it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_enabled(facts: Facts, root: str) -> bool:
    """Whether the user's or the project's settings enable an installed podium."""
    enabled: dict[str, Any] = {}
    for path in settings_files(facts, root):
        found = read_settings(path).get("enabledPlugins")
        enabled.update(found if isinstance(found, dict) else {})
    return any(on is True for name, on in enabled.items() if name.split("@")[0] == NAME)


def check_prompt(prompt: str) -> str:
    """The prompt as the client gets it; refuses what no command line can carry."""
    size = len(prompt.encode("utf-8"))
    if size > LONGEST_PROMPT:
        raise WrongUsage(
            f"the prompt has {size} bytes, at most {LONGEST_PROMPT} fit on a command line; "
            "put the text into a file of the project and name it"
        )
    if "\0" in prompt:
        raise WrongUsage("the prompt holds a NUL character, which no command line can carry")
    return prompt
