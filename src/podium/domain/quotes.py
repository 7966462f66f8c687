"""Somebody's text among podium's own words: it can never pass for them. Hook-reachable, pure."""

from __future__ import annotations

MARK = "  | "
CHARACTERS, LINES = 4000, 60  # of a letter, where it is shown unasked


def flat(text: str) -> str:
    """The text in one line: whatever could begin another or steer a terminal becomes a space."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def one_line(text: str, most: int) -> str:
    """The same, single-spaced and cut to size."""
    words = " ".join(flat(text).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def marked(text: str) -> list[str]:
    """The lines of a letter, each with its mark."""
    return [MARK + line for line in text.splitlines()]


def excerpt(text: str, rest: str) -> list[str]:
    """The beginning of a letter, its lines marked; what to type for the `rest`, if there is one."""
    lines = marked(text[:CHARACTERS])
    whole = len(text) <= CHARACTERS and len(lines) <= LINES
    return lines if whole else [*lines[:LINES], f"{MARK}… ({rest})"]
