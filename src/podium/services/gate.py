"""May this session stop? Hook-reachable: standard library only."""

from __future__ import annotations

from podium.domain.advice import advice
from podium.domain.errors import StoreBusy
from podium.domain.records import Task
from podium.domain.rules import PRESETS, Preset, preset_name
from podium.domain.states import MessageType, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.store.base import Store


class Decision:
    """`prompt` is what the turn goes on with; empty when the session may stop. `why` is for people."""

    def __init__(self, prompt: str, why: str) -> None:
        self.prompt, self.why = prompt, why


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
        if isinstance(named, list) and named and all(isinstance(n, str) and n in known for n in named):
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


def decide(tasks: list[Task], presets: Mapping[str, Preset], continuations: int) -> Decision:
    """Whether a session that owns these rows may stop after so many turns that had to go on."""
    held_by = holding(tasks, presets)
    if not held_by:
        return Decision("", "let go: every row it owns allows it")
    names = ", ".join(f"{t.task_id} is {t.state.value}" for t in held_by)
    cap = max(presets[preset_name(t.task_id)].iterations for t in held_by)
    if continuations >= cap:
        return Decision("", f"let go: {names}, but the session was continued {continuations} times")
    prompts = [prompt_for(t, presets[preset_name(t.task_id)]) for t in held_by]
    return Decision("\n\n".join(prompts), f"held: {names}")


def answer(store: Store, session_id: str, presets: Mapping[str, Preset]) -> Decision:
    """Decide for a session that owns rows, count a continuation, tell the conductor of a cap."""
    tasks = [Task(row) for row in store.all("tasks_of_session", session_id=session_id)]
    known = store.one("session", session_id=session_id)
    count = int(known["continuations"]) if known else 0
    decision = decide(tasks, presets, count)
    told = known is not None and known["last_stop"] == decision.why
    left = [] if decision.prompt or told else holding(tasks, presets)
    try:
        with store.transaction():
            for task in left:
                store.run(
                    "send",
                    task_id=task.task_id,
                    from_session=session_id,
                    message_type=MessageType.ERROR.value,
                    message=f"LET GO: the session of {task.task_id} kept stopping in "
                    f"{task.state.value} and was continued {count} times, so it was let go.\n"
                    f"  Session: {session_id}\n  Next: podium why {task.task_id}",
                )
            store.run(
                "record_stop",
                session_id=session_id,
                counted=int(bool(decision.prompt)),
                last_stop=decision.why,
            )
    except StoreBusy:
        pass  # the row could be read, so the answer stands; this turn goes uncounted
    return decision
