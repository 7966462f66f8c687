"""podium: Claude Code sessions that work on one plan together."""

from __future__ import annotations

import os


def version() -> str:
    """The version, read from the plugin's manifest: the one place that states it."""
    import json

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, ".claude-plugin", "plugin.json"), encoding="utf-8") as manifest:
        return str(json.load(manifest)["version"])
