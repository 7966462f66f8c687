"""Where this project is and how it is set up, from the environment and podium.json.

Hook-reachable: a stranger's session passes through here, so json is read only when it must be.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_SESSION = "CLAUDE_CODE_SESSION_ID"  # set by the client for its shell
DATABASE, SETTINGS = "comms.db", "podium.json"
PATHS = {
    "temp": "temp",
    "tasks": "docs/tasks",
    "reports": "docs/implementation/reports",
    "proposals": "docs/implementation/proposals",
}


def session_id(env: Mapping[str, str], given: str | None = None) -> str | None:
    """Who is speaking, the first that is set; None is a person at a terminal."""
    return given or env.get("CLAUDE_SESSION_ID") or env.get(CLIENT_SESSION) or None


def bells_folder(env: Mapping[str, str]) -> str | None:
    """Where the user's sessions keep their bells; None without a home."""
    shared = env.get("XDG_DATA_HOME", "")
    if not os.path.isabs(shared):
        home = env.get("HOME", "")
        shared = os.path.join(home, ".local", "share") if os.path.isabs(home) else ""
    return os.path.join(shared, "podium", "bells") if shared else None


def find_root(env: Mapping[str, str], cwd: str) -> str:
    """The project's root.

    The nearest folder that has podium's files, from CLAUDE_PROJECT_DIR or the working directory up;
    from a git worktree without them, the main worktree; else where it started. A worktree whose
    podium.json came with the checkout is part of the run in the main one, if there is a run.
    """
    start = os.path.abspath(env.get("CLAUDE_PROJECT_DIR") or cwd)
    folder, main = start, ""
    while True:
        if _has_podium(folder):
            tree_of = "" if _has_run(folder, {}) else _main_worktree(folder)
            return tree_of if tree_of and _has_run(tree_of, env) else folder
        main = main or _main_worktree(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            return main if main and _has_podium(main) else start
        folder = parent


def _has_podium(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in (DATABASE, SETTINGS))


def _has_run(folder: str, env: Mapping[str, str]) -> bool:
    database = env.get("PODIUM_DB") or os.path.join(folder, DATABASE)
    return database.startswith(folder + os.sep) and os.path.exists(database)


def _main_worktree(folder: str) -> str:
    """The main worktree, when this folder is the top of a linked one."""
    try:
        with open(os.path.join(folder, ".git"), encoding="utf-8", errors="replace") as file:
            line = file.read(4096).strip()
    except OSError:  # no .git, or the folder that a main worktree has
        return ""
    git, found, _ = line.partition("/.git/worktrees/")
    return os.path.join(folder, git[len("gitdir: ") :]) if found else ""


class Settings:
    """What podium.json says, checked key by key. A broken file never disables anything.

    What is unusable falls back to the built-in value and is named in `complaint`.
    """

    def __init__(self, root: str, env: Mapping[str, str]) -> None:
        self.root, self.env = root, env
        self.file = os.path.join(root, SETTINGS)
        self.complaint = ""
        self._text = ""
        self._values: dict[str, object] | None = None
        try:
            with open(self.file, encoding="utf-8") as file:
                self._text = file.read()
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            self._complain(f"it cannot be read ({error})")

    def _complain(self, what: str) -> None:
        self.complaint = self.complaint or (
            f"podium.json is not used where it is wrong: {what}; run: podium doctor"
        )

    @property
    def values(self) -> dict[str, object]:
        """The file's object, empty where there is none."""
        if self._values is None:
            self._values = {}
            if self._text.strip():
                import json

                try:
                    found = json.loads(self._text)
                except (ValueError, RecursionError) as error:
                    self._complain(f"it is not JSON ({error})")
                else:
                    if isinstance(found, dict):
                        self._values = found
                    else:
                        self._complain("it is not an object")
        return self._values

    def section(self, name: str) -> dict[str, object]:
        """One object of the file, empty where it is missing or wrong."""
        found = self.values.get(name, {})
        if isinstance(found, dict):
            return found
        self._complain(f"{name} is not an object")
        return {}

    @property
    def database(self) -> str:
        """The database: $PODIUM_DB, then `database` in podium.json, then comms.db."""
        given = self.env.get("PODIUM_DB")
        if not given and '"database"' in self._text:
            named = self.values.get("database")
            if isinstance(named, str) and named:
                given = named
            elif named is not None:
                self._complain("database is not a path or URL")
        if given and "://" in given:
            return given
        return os.path.join(self.root, given or DATABASE)

    def path(self, name: str) -> str:
        """The folder called `name` in PATHS, absolute."""
        found = self.section("paths").get(name, PATHS[name])
        if not isinstance(found, str) or not found:
            self._complain(f"paths.{name} is not a path")
            found = PATHS[name]
        return os.path.join(self.root, found)
