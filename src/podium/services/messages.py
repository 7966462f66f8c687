"""The letters of the protocol: one template each, filled from fields."""

from __future__ import annotations

from podium.domain.rules import AGENT_COST, ERROR_RETRIES, PREPARE_AT
from podium.domain.states import MessageType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Letter = tuple[str, Sequence[tuple[str, str]], str]

M = MessageType
UNKNOWN = "unknown"

# type → headline, labelled fields in order, last line. A field without a value is left out.
LETTERS: dict[MessageType, Letter] = {
    M.REVIEW_REQUEST: (
        "REVIEW REQUEST (Smoothness: {smoothness}/9):",
        (
            ("Checkpoint", "checkpoint"),
            ("Context Usage", "context"),
            ("Self-Correction", "self_correction"),
            ("Deviations", "deviations"),
            ("Agents Remaining", "agents_remaining"),
            ("Proposal", "proposal"),
            ("Summary", "summary"),
            ("Files Modified", "files"),
            ("Tests", "tests"),
            ("Reason", "reason"),
            ("Key Outputs", "outputs"),
        ),
        "",
    ),
    M.COMPLETION: (
        "TASK COMPLETE (Smoothness: {smoothness}/9):",
        (
            ("Context Usage", "context"),
            ("Self-Correction", "self_correction"),
            ("Deviations", "deviations"),
            ("Proposal", "proposal"),
            ("Report", "report"),
            ("Summary", "summary"),
            ("Files Modified", "files"),
            ("Tests", "tests"),
            ("Key Outputs", "outputs"),
        ),
        "",
    ),
    M.ERROR: (
        f"ERROR (Retry {{retry}}/{ERROR_RETRIES}):",
        (
            ("Context Usage", "context"),
            ("Self-Correction", "self_correction"),
            ("Error", "error"),
            ("Report", "report"),
            ("Key Outputs", "outputs"),
            ("Suggested Investigation", "suggest"),
        ),
        "Awaiting conductor fix proposal",
    ),
    M.CONTEXT_WARNING: (
        "CONTEXT WARNING: {context} usage",
        (
            ("Self-Correction", "self_correction"),
            ("Agents Remaining", "agents_remaining"),
            (f"Agents That Fit in {PREPARE_AT}% Budget", "agents_fit"),
            ("Deviations", "deviations"),
            ("Recommendation", "recommend"),
        ),
        "Awaiting conductor instructions",
    ),
    M.HANDOFF: (
        "EXITED: {reason}",
        (
            ("HANDOFF", "handoff"),
            ("Context Usage", "context"),
            ("Self-Correction", "self_correction"),
            ("Last Completed Step", "last_step"),
            ("Remaining Steps", "remaining"),
            ("Deviations", "deviations"),
        ),
        "",
    ),
    M.CLAIM_BLOCKED: (
        "CLAIM BLOCKED: Guard prevented claim on {task}.",
        (("Reason", "reason"),),
        "Created fallback row to exit cleanly. Conductor intervention needed.",
    ),
    M.INSTRUCTION: (
        "INSTRUCTION: {path}",
        (
            ("Task", "task"),
            ("Phase", "phase"),
            ("After", "needs"),
            ("Danger Files", "danger_files"),
        ),
        "Read the whole file; every step and checkpoint is there.",
    ),
    M.APPROVAL: ("REVIEW APPROVED: {text}", (), ""),
    M.REJECTION: ("REVIEW FAILED: {text}", (), ""),
    M.FIX_PROPOSAL: ("FIX PROPOSED: {text}", (), ""),
    M.EMERGENCY: ("EMERGENCY: {text}", (), ""),
}


def write(kind: MessageType, fields: Mapping[str, object]) -> str:
    """The letter of this type."""
    return compose(LETTERS[kind], fields)


def compose(letter: Letter, fields: Mapping[str, object]) -> str:
    """A letter. A field of several lines is indented, so it cannot fake another."""
    head, labels, tail = letter
    for name, value in fields.items():
        head = head.replace("{" + name + "}", str(value), 1)
    lines = [head]
    for label, name in labels:
        value = fields.get(name)
        if isinstance(value, (list, tuple)):
            if value:
                lines += [f"  {label}:", *(f"    - {item}" for item in value)]
        elif value not in (None, ""):
            first, *more = str(value).splitlines() or [""]
            lines += [f"  {label}: {first}", *(f"      {line}" for line in more)]
    if tail:
        lines.append(f"  {tail}")
    return "\n".join(lines)


def percent(context: int | None) -> str:
    """Measured context as the letters show it."""
    return UNKNOWN if context is None else f"{context}%"


def deviations(found: Sequence[tuple[str, str]]) -> str:
    """Logged deviations: count, severities, texts."""
    if not found:
        return "0"
    shown = "; ".join(f"{severity.capitalize()} — {text}" for severity, text in found[-3:])
    return f"{len(found)} ({shown})"


def agents_remaining(count: int, cost: float = AGENT_COST) -> str:
    """How many subagents are still needed, and what they will take."""
    return f"{count} (~{cost:g}% context each, ~{count * cost:g}% total)" if count else "0"


def agents_fit(context: int | None, cost: float = AGENT_COST) -> str:
    """How many more subagents fit before the handoff must be prepared."""
    if context is None:
        return UNKNOWN
    return str(max(0, int((PREPARE_AT - context) // cost)))


def self_correction(said: str | None, logged: Sequence[str]) -> str:
    """YES with its reason when it was said or logged; it makes every estimate six times too low."""
    if said:
        return f"YES ({said})"
    return f"YES ({logged[-1]})" if logged else "NO"
