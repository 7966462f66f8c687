"""A project with a task in every situation, and every command and hook that writes to it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from podium.domain.states import CONDUCTOR_ROW, FIRST, Kind, MessageType, State
from podium.services import callers, sessions, tasks
from podium.services.scratch import Scratch
from podium.store import migrate
from podium.store.sqlite import connect

from .walk import statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.store.base import Store

S, M = State, MessageType
CONDUCTOR = "anna"
MAIL = "mind the tempo"
Found = dict[str, list[tuple[Any, ...]]]


class Deed(NamedTuple):
    """One command or hook event, by whom, and in which project."""

    words: str
    session: str | None = None
    project: str = "run"
    more: tuple[tuple[str, str], ...] = ()  # a hook's input, besides the session

    @property
    def is_hook(self) -> bool:
        """Whether it is a hook rather than a command."""
        return self.words.startswith("hook ")

    @property
    def argv(self) -> list[str]:
        """The words of the command, or the hook's name and arguments."""
        if self.is_hook:
            return self.words.split()[1:]
        named = ["--session", self.session] if self.session else []
        return [*named, *(word.replace("_", " ") for word in self.words.split())]

    @property
    def stdin(self) -> bytes:
        """What the client gives a hook."""
        given = {"session_id": self.session, **dict(self.more)} if self.is_hook else {}
        return json.dumps(given).encode() if given else b""


REPORT = "--smoothness 2 --summary Done --files 3 --tests pass"
DEEDS = [
    Deed("init", project="empty"),
    Deed("init --archive"),
    Deed("conductor start", "zelter", "resting"),
    Deed("conductor add task-20 --instructions task.md --after task-01", CONDUCTOR),
    Deed("conductor plan plan.json", CONDUCTOR),
    Deed("conductor next", CONDUCTOR),
    Deed("conductor review task-03", CONDUCTOR),
    Deed("conductor approve task-03 -m Good", CONDUCTOR),
    Deed("conductor reject task-03 -m Again", CONDUCTOR),
    Deed("conductor fix task-05 -m Retry", CONDUCTOR),
    Deed("conductor recall task-02", CONDUCTOR),
    Deed("conductor abandon task-02 -m Enough", CONDUCTOR),
    Deed("conductor broadcast -m Listen", CONDUCTOR),
    Deed("conductor handoff task-06", CONDUCTOR),
    Deed("conductor handoff task-07", CONDUCTOR),
    Deed("conductor sweep", CONDUCTOR),
    Deed("conductor rest", CONDUCTOR),
    Deed("conductor finish", CONDUCTOR, "over"),
    Deed("musician claim task-01", "m-01"),
    Deed("musician claim task-02", "m-01"),  # blocked
    Deed("musician inbox", "m-02"),
    Deed("musician log step_1_completed", "m-02"),
    Deed("musician deviation kept_it --severity low", "m-02"),
    Deed(f"musician submit --checkpoint 1/2 {REPORT}", "m-02"),
    Deed(f"musician finish --report report.md {REPORT}", "m-02"),
    Deed("musician error --error broken", "m-02"),
    Deed("musician warn --recommend leave", "m-02"),
    Deed("musician complete --report report.md", "m-04"),
    Deed("musician exit --reason context", "m-02"),
    Deed("musician resume", "m-02"),
    Deed("musician beat", "m-02"),
    Deed("hook session_start", "m-02", more=(("source", "resume"),)),
    Deed("hook session_start", "m-99", more=(("source", "startup"),)),
    Deed("hook stop", "m-02"),
    Deed("hook stop", CONDUCTOR),
    Deed("hook participant tool", "m-02", more=(("tool_name", "Bash"),)),
    Deed("hook participant bell", "m-02", more=(("file_path", "m-02"),)),
    Deed("hook participant halt", "m-02", more=(("error", "rate_limit"),)),
    Deed("hook participant compaction", "m-02", more=(("trigger", "auto"),)),
    Deed("hook participant end", "m-02", more=(("reason", "other"),)),
    Deed("hook notification", "m-02", more=(("tool_name", "Bash"),)),
]


class Scene:
    """Projects in `folder`, made once and restored at will. Nothing holds them open."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.sql = statements()
        for name, make in MAKERS.items():
            project = os.path.join(folder, "pristine", name)
            os.makedirs(os.path.join(project, "temp"))
            for file, text in FILES.items():
                with open(os.path.join(project, file), "w", encoding="utf-8") as out:
                    out.write(text)
            if make is not None:
                with closing(migrate.create(os.path.join(project, "comms.db"))) as store:
                    make(store, project)

    def restore(self, name: str) -> str:
        """A project as it was in the beginning; its folder."""
        project = os.path.join(self.folder, name)
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(os.path.join(self.folder, "pristine", name), project)
        return project

    def env(self, project: str) -> dict[str, str]:
        """The environment of a command or hook of a session in this project."""
        home = os.path.join(self.folder, "home")
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        python = os.path.dirname(os.path.realpath(sys.executable))
        return {
            **kept,
            "PATH": os.pathsep.join((python, os.environ.get("PATH", os.defpath))),
            "HOME": home,
            "XDG_DATA_HOME": os.path.join(home, "data"),
            "CLAUDE_PROJECT_DIR": project,
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_PID": "0",
            "PODIUM_PYTHON": sys.executable,
        }

    def look(self, project: str, name: str = "comms.db") -> Found:
        """Rows, mail and log; empty where there is no database of podium's yet."""
        path = os.path.join(project, name)
        if not os.path.exists(path):
            return {}
        with closing(connect(path, 15.0)) as db:
            db.row_factory = None
            if not db.execute(self.sql["tables"]).fetchone()[0]:
                return {}
            found = {"sound": db.execute(self.sql["sound"]).fetchall()}
            found["rows"] = db.execute(self.sql["rows"]).fetchall()
            for lines in ("mail", "log"):
                found[lines] = db.execute(self.sql[lines], {"after": 0}).fetchall()
            return found

    def shown(self, project: str, session: str, task: str) -> int:
        """The newest message of a task that the session counts as shown."""
        with closing(connect(os.path.join(project, "comms.db"), 15.0)) as db:
            row = db.execute(self.sql["shown"], {"session": session, "task": task}).fetchone()
            return int(row[0])


FILES = {
    "task.md": "# A task\n",
    "report.md": "# A report\n",
    "plan.json": json.dumps(
        {"tasks": [{"id": f"task-{n}", "instructions": "task.md"} for n in range(30, 40)]}
    ),
}


def _podium(store: Store) -> callers.Caller:
    row = {"task_id": CONDUCTOR_ROW, "state": FIRST[Kind.CONDUCTOR].value, "phase": 0}
    store.run("add_task", instruction_path=None, parallel=0, actor="init", **row)
    tasks.conduct(store, callers.identify(store, CONDUCTOR))
    return callers.identify(store, CONDUCTOR)


def _played(store: Store, task: str, *steps: tuple[State, MessageType]) -> None:
    """A task that its musician has claimed, and what it has done since."""
    me = callers.identify(store, "m-" + task[-2:])
    tasks.claim(store, me, task)
    for to, kind in steps:
        me = callers.identify(store, "m-" + task[-2:])
        if to is S.ERROR:
            tasks.fail(store, me, tasks.get(store, task), "broken", "ERROR", warning=False)
        else:
            tasks.play(store, me, tasks.get(store, task), to, kind, "letter")


def _run(store: Store, project: str) -> None:
    """Watching, working, submitted, approved, in error, left, silent."""
    conductor = _podium(store)
    for number in range(1, 8):
        task = f"task-{number:02}"
        tasks.add(store, conductor, task, "task.md", "INSTRUCTION: task.md")
    _played(store, "task-02")
    _played(store, "task-03", (S.NEEDS_REVIEW, M.REVIEW_REQUEST))
    _played(store, "task-04", (S.NEEDS_REVIEW, M.COMPLETION))
    tasks.judge(store, conductor, "task-04", S.REVIEW_APPROVED, M.APPROVAL, "Good")
    _played(store, "task-05", (S.ERROR, M.ERROR))
    _played(store, "task-06", (S.EXITED, M.HANDOFF))
    _played(store, "task-07")
    notes = Scratch(os.path.join(project, "temp"))
    for task in ("task-02", "task-06"):
        with open(notes.handoff_path(task), "w", encoding="utf-8") as out:
            out.write(f"# HANDOFF: {task}\n- Exit reason: context\n- Context at exit: 70%\n")
    facts = {"transcript_path": None, "mode": "cli", "model": None, "bell": "m-02"}
    sessions.register(store, "m-02", cleared=False, process=None, facts=facts)
    tasks.send(store, "task-02", CONDUCTOR_ROW, M.EMERGENCY, MAIL)
    with closing(connect(os.path.join(project, "comms.db"), 15.0)) as db:
        db.execute(statements()["fall_silent"], {"task": "task-07"})


def _resting(store: Store, _: str) -> None:
    tasks.rest(store, _podium(store))


def _over(store: Store, _: str) -> None:
    conductor = _podium(store)
    tasks.add(store, conductor, "task-01", "task.md", "INSTRUCTION: task.md")
    tasks.judge(store, conductor, "task-01", S.EXITED, M.EMERGENCY, "Enough")


MAKERS: Mapping[str, Any] = {"empty": None, "run": _run, "resting": _resting, "over": _over}
