"""May this session stop? Hook-reachable: standard library only."""

from __future__ import annotations

from podium.domain.advice import advice
from podium.domain.errors import StoreBusy
from podium.domain.records import Task
from podium.domain.rules import PRESETS, Preset, preset_name
from podium.domain.states import AWAITING, CONDUCTOR_ROW, MessageType, State

from . import overview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.store.base import Row, Store


CLIENT_CAP = 8  # blocks in a row after which the client ends the turn whatever a hook says


class Decision:
    """`prompt` is what the turn goes on with; empty when the session may stop.

    `waits`: nothing but an answer from the other side can come next, so it may wait instead.
    """

    def __init__(self, prompt: str, why: str, *, waits: bool = False) -> None:
        self.prompt, self.why, self.waits = prompt, why, waits


def override(presets: Mapping[str, object]) -> tuple[dict[str, Preset], str]:
    """The presets with podium.json's changes, and a complaint about what was unusable in them."""
    merged, wrong = dict(PRESETS), ""
    for name, base in PRESETS.items():
        given = presets.get(name, {})
        if not isinstance(given, dict):
            wrong = f"presets.{name} is not an object"
            continue
        stop, most, prompt = base.may_stop, base.iterations, base.prompt
        named = given.get("may_stop", [s.value for s in stop])
        known = {s.value for s in State}
        if (
            isinstance(named, list)
            and named
            and all(isinstance(n, str) and n in known for n in named)
        ):
            stop = tuple(State(n) for n in named)
        else:
            wrong = f"presets.{name}.may_stop is not a list of states"
        count = given.get("iterations", most)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            most = count
        else:
            wrong = f"presets.{name}.iterations is not a whole number"
        text = given.get("prompt", prompt)
        if isinstance(text, str) and text.strip():
            prompt = text
        else:
            wrong = f"presets.{name}.prompt is not a text"
        merged[name] = Preset(stop, most, prompt)
    return merged, wrong


def prompt_for(task: Task, preset: Preset) -> str:
    """The preset's text with the row's facts in it; other braces stay as they are."""
    facts = {
        "task": task.task_id,
        "state": task.state.value,
        "advice": advice(task.task_id, task.state, task.instruction_path),
    }
    text = preset.prompt
    for name, value in facts.items():
        text = text.replace("{" + name + "}", value)
    return text


def holding(tasks: list[Task], presets: Mapping[str, Preset]) -> list[Task]:
    """The rows that do not let their session stop."""
    return [t for t in tasks if t.state not in presets[preset_name(t.task_id)].may_stop]


def decide(
    tasks: list[Task], presets: Mapping[str, Preset], continuations: int, *, idle: bool
) -> Decision:
    """Whether a session that owns these rows may stop after so many turns that had to go on.

    `idle`: a conductor among them has nothing to do.
    """
    held_by = holding(tasks, presets)
    if not held_by:
        return Decision("", "let go: every row it owns allows it")
    names = ", ".join(f"{t.task_id} is {t.state.value}" for t in held_by)
    prompts = [prompt_for(t, presets[preset_name(t.task_id)]) for t in held_by]
    prompt = "\n\n".join(prompts)
    waits = all(t.state in AWAITING or (idle and t.task_id == CONDUCTOR_ROW) for t in held_by)
    cap = max(presets[preset_name(t.task_id)].iterations for t in held_by)
    if continuations >= cap:
        why = f"let go: {names}, but the session was continued {continuations} times"
        return Decision("", why, waits=waits)
    return Decision(prompt, f"held: {names}", waits=waits)


class Stop:
    """One Stop event of a session that owns rows: decide, then settle what was decided."""

    def __init__(self, store: Store, session_id: str, presets: Mapping[str, Preset]) -> None:
        self.store, self.session_id, self.presets = store, session_id, presets
        self.tasks: list[Task] = []
        self.known: Row = {}

    def decide(self) -> Decision:
        """What the rows say now."""
        rows = self.store.all("tasks_of_session", session_id=self.session_id)
        self.tasks = [Task(row) for row in rows]
        self.known = self.store.one("session", session_id=self.session_id) or {}
        conducts = any(t.task_id == CONDUCTOR_ROW and t.state is State.WATCHING for t in self.tasks)
        count = int(self.known.get("continuations", 0))
        idle = conducts and overview.is_idle(self.store)
        return decide(self.tasks, self.presets, count, idle=idle)

    def settle(self, decision: Decision, *, first: bool, client_cap: int = CLIENT_CAP) -> bool:
        """Count a continuation, keep what was decided, tell the conductor of a cap.

        False when the database stayed locked: the rows could be read, so the decision stands, but
        this turn goes uncounted. `first`: the first Stop since the person's prompt, so the client's
        own count is zero.
        """
        going_on = bool(decision.prompt)
        in_row = 0 if first else int(self.known.get("blocks_in_row", 0))
        overruled = going_on and 0 < client_cap <= in_row
        why = decision.why + (
            f"; the client ends the turn all the same after {in_row} blocks in a row"
            if overruled
            else ""
        )
        told = self.known.get("last_stop") == why
        ended = decision.why.startswith("let go:") or overruled
        try:
            with self.store.transaction():
                for task in holding(self.tasks, self.presets) if ended and not told else []:
                    self._report(task, why)
                self.store.run(
                    "record_stop",
                    session_id=self.session_id,
                    counted=int(going_on),
                    in_row=in_row + 1 if going_on else 0,
                    last_stop=why,
                )
        except StoreBusy:
            return False
        return True

    def _report(self, task: Task, why: str) -> None:
        self.store.run(
            "send",
            task_id=task.task_id,
            from_session=self.session_id,
            message_type=MessageType.ERROR.value,
            message=f"{overview.LET_GO}: the session of {task.task_id} stopped in "
            f"{task.state.value}.\n"
            f"  Why: {why}\n  Session: {self.session_id}\n  Next: podium why {task.task_id}",
        )
