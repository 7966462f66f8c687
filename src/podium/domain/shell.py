"""What of a shell line can be told without a shell: is it podium alone? Hook-reachable, pure."""

from __future__ import annotations

import re
import shlex

# Outside quotes a shell acts on these; inside double quotes still on $, ` and \.
_WORD = r"(?:[A-Za-z0-9_@%+=:,./^~-]|'[^']*'|\"[^\"$`\\!]*\")+"
_PLAIN = re.compile(rf"\s*podium(?:[ \t]+{_WORD})*[ \t]*\Z")
# … --message - <<'EOF': a quoted delimiter, so the shell reads the text and changes nothing in it.
_HEREDOC = re.compile(r"([^\n]*?)[ \t]*<<[ \t]*'([A-Za-z_]+)'[ \t]*\n(.*)\Z", re.DOTALL)

NAMING = ("--session", "CLAUDE_SESSION_ID", "CLAUDE_CODE_SESSION_ID")


def is_plain_podium(command: str) -> bool:
    """True for `podium …` with literal arguments, its text perhaps from a quoted here-document."""
    if len(command) > 200_000:
        return False
    with_text = _HEREDOC.match(command)
    if with_text:
        command, delimiter, body = with_text.groups()
        lines = body.rstrip("\n").split("\n")
        if lines[-1] != delimiter or delimiter in lines[:-1]:
            return False
    return _PLAIN.match(command) is not None


def speaks_as(command: str) -> set[str]:
    """Whom a line that runs podium says it is: the ids it gives with --session or a variable."""
    plain = is_plain_podium(command) and _HEREDOC.match(command)
    words = shlex.shlex(plain[1] if plain else command, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    named: set[str] = set()
    try:
        for word in words:
            name, given, value = word.partition("=")
            if name in NAMING:
                named.add(value if given else next(words, ""))
    except ValueError:  # a quote that is not closed, as an apostrophe in a here-document
        named.update(name for name in NAMING if name in command)
    return named
