"""A task's scratch files in temp/: the status log, the deviations, the HANDOFF.

An entry is one line and is appended by one write, so that many processes never mix theirs. What is
read back is judged by an entry's form, never by words somewhere in its text.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from calendar import timegm
from contextlib import suppress

from podium.domain.errors import PodiumError, WrongUsage
from podium.domain.quotes import one_line
from podium.domain.rules import check_task_id, successor_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from podium.domain.records import Task

LONGEST = 2000  # characters of an entry
SEVERITIES = ("low", "medium", "high")
UNRATED = "unrated"

_DASH = "—\u2013-"
_CONTEXT = re.compile(r"\s*\[ctx: (?:(\d{1,3})%|unknown)\]\s*\Z")
_STEP = r"step\s+(?P<step>\d{1,4})(?:\s*(?:of|/)\s*(?P<of>\d{1,4}))?"
_SUBJECT = r"(?:[-*]\s+|(?:step|checkpoint|phase|agents?|retry)\s+[\w./-]+[,:]?\s+)*"
_AGENT = r"(?:sub-?)?agents?\b"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


STEP_FORMS = (
    _form(
        rf"{_STEP}\s*[:,{_DASH}]?\s*(?:\([^)]*\)\s*)?(?P<verb>started|completed?|done|finished)\b"
    ),
    _form(rf"(?P<verb>started|completed|finished)\s+{_STEP}"),
)
AGENT_FORMS = (
    _form(
        rf"(?:{_STEP}[\s,:{_DASH}]+)?{_AGENT}(?:\s+#?(?P<first>\w+)(?:\s*[{_DASH}]\s*(?P<last>\d+))?)?"
        r"(?:\s+retry\s+\d+)?\s+(?P<verb>launched|returned|failed|succeeded|completed)\b"
    ),
    _form(
        rf"(?:{_STEP}[\s,:{_DASH}]+)?(?P<verb>launched|returned)\s+(?:(?P<count>\d+)\s+)?{_AGENT}"
    ),
)
CHECKPOINT_FORM = _form(
    rf"checkpoint\s+(?P<number>\d{{1,4}})(?:\s*(?:of|/)\s*\d+)?[\s:,{_DASH}]+(?P<verb>\w+)"
)
SELF_CORRECTION_FORM = _form(rf"{_SUBJECT}self-correction(?:\s*\([^)]*\))?\s*:\s*(?P<what>.*)")
DENIED_FORM = _form(rf"(?:false|none)\b|(?:no|n/a|not needed)\s*(?:[.,;:({_DASH}]|\Z)")
DEVIATION_FORM = _form(rf"{_SUBJECT}deviation(?:\s*\([^)]*\))?\s*:")
DEVIATING_STEP_FORM = _form(rf"(step\s+\d+(?:\s+agents?\s+\d+)?)\s*[:,{_DASH}]?\s+(.+)")
CLAIM_FORM = _form(r"task claimed\b.*\bsession: (?P<session>\S+)")

# `(Medium)`, `[Low — why]`: the last one of a line is its severity.
_MARKER = _form(rf"[(\[](low|medium|high)\s*(?:[:,{_DASH}][^)\]]*)?[)\]]")
_RATING = _form(r"\s*(?:[-*]\s+)?(?:complexity|severity):\s*(low|medium|high)\b")
_NOTHING = _form(r"\s*(?:[-*]\s+)?(?:none|no deviations)\.?\s*\Z|\s*#")

_FIELD = _form(r"\W*(session id|worked_by|exit reason|context at exit|timestamp)\**:\**\s*(.*)")
_ITEM = re.compile(r"\s*(?:[-*]|\d+[.)])\s+(.*\S)")
_STEP_ITEM = _form(r"\**step\s+(\d{1,4})\b")
_FILL = re.compile(r":?\s*<fill in: [^>]*>")


def epoch(at: str | None) -> int | None:
    """Seconds since 1970 of a time as the database writes it; None for anything else."""
    try:
        return timegm(time.strptime(at or "", "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return None


class Entry:
    """One line of the status log: its text without the context mark, and the percentage in it."""

    def __init__(self, line: str) -> None:
        self.line = line
        mark = _CONTEXT.search(line)
        self.text = (line[: mark.start()] if mark else line).strip()
        self.percent = int(mark[1]) if mark and mark[1] else None


class Handoff:
    """A HANDOFF file: its fields, the items of its sections, and how much is not filled in."""

    def __init__(self, text: str, mtime: float) -> None:
        self.text, self.mtime, self.unfilled = text, mtime, len(_FILL.findall(text))
        self.fields: dict[str, str] = {}
        self.sections: dict[str, list[str]] = {}
        section = ""
        for line in text.split("\n"):
            if line.lstrip().startswith("#"):
                section = line.strip(" #*:\r").lower()
                continue
            field, item = _FIELD.match(line), _ITEM.match(line)
            if field:
                self.fields.setdefault(field[1].lower(), _FILL.sub("", field[2]).strip())
            elif item and _FILL.sub("", item[1]).strip():
                self.sections.setdefault(section, []).append(_FILL.sub("", item[1]).strip())
        self.session_id = self.fields.get("session id", "")
        self.worked_by = self.fields.get("worked_by", "")
        self.exit_reason = self.fields.get("exit reason", "")
        percent = re.match(r"~?(\d{1,3})\s*%", self.fields.get("context at exit", ""))
        self.context = int(percent[1]) if percent else None
        self.completed = self._some("completed steps")
        self.pending = self._some("pending steps")
        self.proposals = self._some("pending proposals")
        self.deviations = self._some("deviations")
        self.self_correction = " ".join(self.sections.get("self-correction", []))

    def _some(self, section: str) -> list[str]:
        return [item for item in self.sections.get(section, []) if not _NOTHING.match(item)]

    @property
    def gaps(self) -> str:
        """How many places were not filled in; empty when none was left."""
        places = f"{self.unfilled} place" + "s" * (self.unfilled != 1)
        return f"{places} not filled in" if self.unfilled else ""

    def is_by(self, session_id: str | None, worked_by: str | None) -> bool:
        """Whether it says itself that this session wrote it, in this turn at the task."""
        return bool(session_id) and (self.session_id, self.worked_by) == (session_id, worked_by)


def steps_of(items: Iterable[str]) -> list[int]:
    """The step numbers that a HANDOFF's items begin with."""
    return [int(found[1]) for found in map(_STEP_ITEM.match, items) if found]


class Notes:
    """The facts in a task's scratch files. `None` stands for a file that is not there."""

    def __init__(
        self,
        entries: Sequence[Entry] | None,
        deviations: Sequence[tuple[str, str]] | None = None,
        handoff: Handoff | None = None,
    ) -> None:
        self.has_status, self.has_deviations = entries is not None, deviations is not None
        self.entries, self.deviations = list(entries or ()), list(deviations or ())
        self.handoff = handoff
        self.context = [e.percent for e in self.entries if e.percent is not None]
        self.steps_started: list[int] = []
        self.steps_completed: list[int] = []
        self.total_steps: int | None = None
        self.last_completed = ""
        self.agents_launched = self.agents_returned = 0
        self.checkpoint: int | None = None
        self.deviations_logged = 0
        self.self_corrections: list[str] = []
        for entry in self.entries:
            self._read(entry.text)

    def _read(self, text: str) -> None:
        step = _first(STEP_FORMS, text)
        agent = None if step else _first(AGENT_FORMS, text)
        correction, checkpoint = SELF_CORRECTION_FORM.match(text), CHECKPOINT_FORM.match(text)
        if step:
            number, started = int(step["step"]), step["verb"].lower() == "started"
            self.total_steps = int(step["of"]) if step["of"] else self.total_steps
            for steps in (self.steps_started, self.steps_completed):
                if number in steps and (started or steps is self.steps_completed):
                    steps.remove(number)
            (self.steps_started if started else self.steps_completed).append(number)
            self.last_completed = self.last_completed if started else text
        elif agent:
            launched = agent["verb"].lower() == "launched"
            self.agents_launched += _agents(agent) if launched else 0
            self.agents_returned += 0 if launched else _agents(agent)
        elif correction:
            if not DENIED_FORM.match(correction["what"]):
                self.self_corrections.append(text)
        elif DEVIATION_FORM.match(text):
            self.deviations_logged += 1
        elif checkpoint:
            self.checkpoint = int(checkpoint["number"])

    @property
    def last_percent(self) -> int | None:
        """The newest context percentage in the log."""
        return self.context[-1] if self.context else None

    @property
    def current_step(self) -> int | None:
        """The step begun last and not completed."""
        last = self.steps_started[-1] if self.steps_started else None
        return None if last in self.steps_completed else last

    @property
    def agents_in_flight(self) -> int:
        """Agents launched that have not come back."""
        return max(0, self.agents_launched - self.agents_returned)

    @property
    def handoff_pending(self) -> list[str]:
        """What the HANDOFF says remains."""
        return self.handoff.pending if self.handoff else []

    def severities(self) -> dict[str, int]:
        """How many deviations there are of each severity, the gravest first."""
        found = [severity for severity, _ in self.deviations]
        return {name: found.count(name) for name in (*reversed(SEVERITIES), UNRATED)}

    def before(self, session_id: str) -> Notes:
        """The notes as this session found them when it claimed the task."""
        for number, entry in enumerate(self.entries):
            claim = CLAIM_FORM.match(entry.text)
            if claim and claim["session"] == session_id:
                return Notes(self.entries[:number], self.deviations, self.handoff)
        return self

    def since_fall(self, points: int) -> Notes:
        """The notes since context last fell by more: a new session, or a compaction."""
        first, last = 0, 0
        for number, entry in enumerate(self.entries):
            if entry.percent is not None:
                first = number if entry.percent < last - points else first
                last = entry.percent
        return Notes(self.entries[first:], self.deviations, self.handoff)


def _first(forms: Iterable[re.Pattern[str]], text: str) -> re.Match[str] | None:
    return next((found for form in forms if (found := form.match(text))), None)


def _agents(found: re.Match[str]) -> int:
    groups = found.groupdict()
    if groups.get("count"):
        return min(100, int(groups["count"][:4]))
    first, last = groups.get("first") or "", groups.get("last") or ""
    if last and first.isdecimal():
        return max(1, min(100, int(last[:4]) - int(first[:4]) + 1))
    return 1


def read_entries(text: str) -> list[Entry]:
    """The entries of a status log; an indented line belongs to the one before it."""
    lines = text.split("\n")
    return [Entry(x) for x in lines if x.strip() and not x.startswith((" ", "\t"))]


def read_deviations(text: str) -> list[tuple[str, str]]:
    """(severity, text) of every deviation; several lines closed by `Complexity: Medium` are one."""
    found: list[tuple[str, str]] = []
    unrated: list[str] = []
    for line in text.split("\n"):
        plain = Entry(line).text
        rating, markers = _RATING.match(line), list(_MARKER.finditer(plain))
        if not plain or _NOTHING.match(line):
            continue
        if rating and unrated:
            found.append((rating[1].lower(), unrated[0]))
            unrated = []
        elif markers or rating:
            found += [(UNRATED, first) for first in unrated]
            unrated = []
            severity = (rating or markers[-1])[1].lower()
            found.append((severity, plain if rating else _without(plain, markers[-1])))
        elif not line.startswith((" ", "\t")):
            unrated.append(plain)
    return found + [(UNRATED, first) for first in unrated]


def _without(text: str, marker: re.Match[str]) -> str:
    return f"{text[: marker.start()].rstrip()} {text[marker.end() :].strip()}".strip()


class Scratch:
    """The scratch files of a project. The folder is made when something is first written."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def _path(self, task_id: str, what: str) -> str:
        return os.path.join(self.folder, f"{check_task_id(task_id)}-{what}")

    def status_path(self, task_id: str) -> str:
        """The append-only log."""
        return self._path(task_id, "status")

    def deviations_path(self, task_id: str) -> str:
        """The deviations from the plan."""
        return self._path(task_id, "deviations")

    def handoff_path(self, task_id: str) -> str:
        """What a session leaves to its successor."""
        return self._path(task_id, "HANDOFF")

    def log(self, task_id: str, text: str, percent: int | None) -> str:
        """Add an entry to the status log; the line as it stands there."""
        line = _marked(_flat(text), percent)
        self._log(task_id, line)
        return line

    def log_block(self, task_id: str, text: str, percent: int | None) -> str:
        """Add one entry of several lines, the later ones indented; the block as it stands there."""
        first, *more = [line for line in text.split("\n") if line.strip()] or [""]
        deeper = (" " * max(2, len(m) - len(m.lstrip())) + _flat(m) for m in more)
        block = "\n".join((_marked(_flat(first), percent), *deeper))
        self._log(task_id, block)
        return block

    def _log(self, task_id: str, lines: str) -> None:
        if _append(self.status_path(task_id), lines + "\n") == 0:
            _append(self.deviations_path(task_id), "")  # a task has both from the start

    def deviate(self, task_id: str, text: str, severity: str, percent: int | None) -> str:
        """Add a deviation, and an entry about it to the status log; the deviation's line."""
        if severity not in SEVERITIES:
            raise WrongUsage(f"found severity {severity!r}; wanted {', '.join(SEVERITIES)}")
        flat = _flat(text)
        line = _marked(f"{flat} ({severity.capitalize()})", percent)
        _append(self.deviations_path(task_id), line + "\n")
        step = DEVIATING_STEP_FORM.match(flat)
        entry = f"{step[1]} deviation: {step[2]}" if step else f"deviation: {flat}"
        self.log(task_id, f"{entry} ({severity.capitalize()})", percent)
        return line

    def notes(self, task_id: str) -> Notes:
        """What the files say."""
        status = _read(self.status_path(task_id))
        deviations = _read(self.deviations_path(task_id))
        return Notes(
            None if status is None else read_entries(status),
            None if deviations is None else read_deviations(deviations),
            self.handoff(task_id),
        )

    def handoff(self, task_id: str) -> Handoff | None:
        """The HANDOFF, if there is one."""
        path = self.handoff_path(task_id)
        text = _read(path)
        return None if text is None else Handoff(text, os.path.getmtime(path))

    def has_fresh_handoff(self, task: Task) -> bool:
        """Whether the task's present owner wrote the HANDOFF: since its claim, or it says so."""
        found, claimed = self.handoff(task.task_id), epoch(task.started_at)
        if found is None:
            return False
        # The clock may have been set back since the claim; then what the file says decides.
        return (
            claimed is None
            or int(found.mtime) >= claimed
            or found.is_by(task.session_id, task.worked_by)
        )

    def set_handoff_aside(self, task: Task) -> str | None:
        """Keep a former session's HANDOFF under another name; the new path, None without one."""
        path, number = self.handoff_path(task.task_id), 1
        if not os.path.lexists(path):
            return None
        while os.path.lexists(f"{path}.{number}"):
            number += 1
        try:
            os.rename(path, f"{path}.{number}")
        except OSError as error:
            raise PodiumError(_unwritable(path, error.strerror)) from error
        return f"{path}.{number}"

    def write_handoff(self, task: Task, reason: str, percent: int | None) -> str:
        """Write the HANDOFF's skeleton, unless there is a HANDOFF; its path."""
        path = self.handoff_path(task.task_id)
        notes = self.notes(task.task_id)
        try:
            os.makedirs(os.path.realpath(self.folder), mode=0o700, exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                at = time.gmtime(os.fstat(file.fileno()).st_mtime)
                stamp = time.strftime("%Y-%m-%d %H:%M:%S", at)
                file.write(handoff_skeleton(task, notes, _flat(reason), percent, stamp))
        except FileExistsError:
            if not os.path.isfile(path):
                raise PodiumError(_unwritable(path, "something else is in its place")) from None
        except OSError as error:
            raise PodiumError(_unwritable(path, error.strerror)) from error
        return path

    def names(self) -> list[str]:
        """The files in the folder."""
        try:
            return sorted(os.listdir(self.folder))
        except OSError:
            return []


def _flat(text: str) -> str:
    flat = one_line(text, LONGEST)
    if not flat:
        raise WrongUsage("the text is empty; give it as one argument")
    return flat


def _marked(text: str, percent: int | None) -> str:
    return f"{text} [ctx: {'unknown' if percent is None else f'{percent}%'}]"


def _unwritable(path: str, why: str | None) -> str:
    return f"{path} cannot be written ({why}); make it writable, then run this again"


def _append(path: str, text: str) -> int:
    """Add whole lines by one write; the size before. A line left unended is ended first."""
    try:
        os.makedirs(os.path.realpath(os.path.dirname(path)), mode=0o700, exist_ok=True)
        # No link is followed: what is logged is somebody's text, and it stays in this folder.
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)  # a line being written is not one left unended
            size = os.fstat(file).st_size
            torn = bool(text) and size > 0 and os.pread(file, 1, size - 1) != b"\n"
            line = (("\n" if torn else "") + text).encode()
            if os.write(file, line) != len(line):
                raise PodiumError(_unwritable(path, "the disk is full"))
            return size
        finally:
            os.close(file)
    except OSError as error:
        raise PodiumError(_unwritable(path, error.strerror)) from error


def _read(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return file.read()
    except OSError as error:
        raise PodiumError(f"{path} cannot be read ({error.strerror}); make it readable") from error


def fill(what: str) -> str:
    """A place that the musician must fill in."""
    return f"<fill in: {what}>"


def handoff_skeleton(
    task: Task, notes: Notes, reason: str, percent: int | None, timestamp: str
) -> str:
    """A HANDOFF with what is known, and marked places for what only the musician knows."""
    done, current = notes.steps_completed, notes.current_step
    last = max([*notes.steps_started, *done], default=0)
    rest = range(last + 1, (notes.total_steps or last) + 1)
    completed = [f"Step {n}: {fill('what was done')} ✅" for n in sorted(done)]
    pending = [f"Step {n}: {fill('what it is')}" for n in rest]
    if current is not None:
        pending.insert(0, f"Step {current}: {fill('what is done of it, and what remains')}")
    if notes.total_steps is None:
        pending.append(fill("the other steps that remain, or delete this line"))
    corrections = [f"YES: {text}" for text in notes.self_corrections] or ["NO"]
    deviations = [f"{text} ({severity.capitalize()})" for severity, text in notes.deviations]
    following = current if current is not None else last + 1
    at = f"checkpoint {notes.checkpoint}" if notes.checkpoint else fill("the last checkpoint")
    successor = successor_name(task.task_id, task.claims + 1)
    steps = (
        f"Claim the task with worked_by = {successor}: podium musician claim {task.task_id}",
        "Read this HANDOFF and the conductor's handoff message: podium musician resume",
        f"Re-run the verification tests from {at}",
        f"Continue from step {following}: {fill('where exactly, and what to watch out for')}",
    )
    sections = {
        "Session Info": [
            f"Session ID: {task.session_id}",
            f"worked_by: {task.worked_by}",
            f"Exit reason: {reason}",
            f"Context at exit: {'unknown' if percent is None else f'{percent}%'}",
            f"Timestamp: {timestamp}",
        ],
        "Completed Steps": completed or [fill("the steps that are done, or none")],
        "Pending Steps": pending or [fill("what remains, or none")],
        "Deviations": deviations or ["none"],
        "Self-Correction": corrections,
        "Pending Proposals": [fill("paths of proposals not yet reviewed, or none")],
    }
    lines = [f"# HANDOFF: {task.task_id}"]
    for title, items in sections.items():
        lines += ["", f"## {title}", *(f"- {one_line(item, LONGEST)}" for item in items)]
    lines += ["", "## Next Session Instructions"]
    lines += [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    return "\n".join(lines) + "\n"
