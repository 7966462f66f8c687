"""How full a session's context is, measured from its transcript. Hook-reachable."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from podium.store.base import Store

WINDOW, LARGE_WINDOW = 200_000, 1_000_000
FIRST_LOOK, LONGEST_LOOK = 1 << 16, 1 << 24  # bytes from the end of the transcript
COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Usage:
    """What the last turn of the main chain sent to the model."""

    def __init__(self, tokens: int, window: int, model: str) -> None:
        # The transcript does not name the window; more than fits proves the larger one.
        self.window = window if tokens <= window else max(window, LARGE_WINDOW)
        self.tokens, self.model = tokens, model
        self.percent = (200 * tokens + self.window) // (2 * self.window)

    def __repr__(self) -> str:
        return f"Usage({self.tokens} of {self.window}, {self.percent}%, {self.model})"


def window_for(model: object, configured: int | None) -> int:
    """The context window in tokens: from the model's id, else as configured, else the usual one."""
    if isinstance(model, str) and "[1m]" in model.lower():
        return LARGE_WINDOW
    return configured if configured and configured > 0 else WINDOW


def of_session(store: Store, session_id: str | None, configured: int | None) -> Usage | None:
    """The usage of a session that podium knows; None when it cannot be measured."""
    known = store.one("session", session_id=session_id) if session_id else None
    if not known or not known["transcript_path"]:
        return None
    return measure(str(known["transcript_path"]), window_for(known["model"], configured))


def measure(transcript_path: str, window: int) -> Usage | None:
    """The usage that the transcript's last main-chain turn shows; None when it shows none.

    It is read from the end, so its length does not matter; a line that is cut off or no JSON is
    passed over. After a compaction nothing is known until the next turn.
    """
    try:
        with open(transcript_path, "rb") as file:
            end, size = file.seek(0, 2), FIRST_LOOK
            while True:
                start = max(0, end - size)
                file.seek(start)
                lines = file.read(end - start).split(b"\n")
                for line in reversed(lines[1:] if start else lines):
                    found = _read(line)
                    if found:
                        return Usage(found[0], window, found[1]) if found[0] else None
                if start == 0 or size >= LONGEST_LOOK:
                    return None
                size *= 8
    except (OSError, ValueError):
        return None


def _read(line: bytes) -> tuple[int, str] | None:
    """Tokens and model of a main-chain turn; no tokens for a compaction, None for other lines."""
    if b'"usage"' not in line and b'"compact_boundary"' not in line:
        return None
    import json

    try:
        entry = json.loads(line)
        if entry.get("isSidechain"):
            return None
        if entry.get("subtype") == "compact_boundary":
            return 0, ""
        message = entry["message"]
        counts = [message["usage"].get(name) or 0 for name in COUNTED]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None  # cut off, or of another form
    # The client's own notices about API errors are turns that count nothing.
    if entry.get("type") != "assistant" or not all(type(n) is int for n in counts):
        return None
    return (sum(counts), str(message.get("model") or "")) if sum(counts) > 0 else None
