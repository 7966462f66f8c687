"""Is this shell line nothing but one of podium's own commands? Hook-reachable, pure."""

from __future__ import annotations

import re

# Outside quotes a shell acts on these; inside double quotes still on $, ` and \.
_WORD = r"(?:[A-Za-z0-9_@%+=:,./^~-]|'[^']*'|\"[^\"$`\\!]*\")+"
_PLAIN = re.compile(rf"\s*podium(?:[ \t]+{_WORD})*[ \t]*\Z")
# … --message - <<'EOF': a quoted delimiter, so the shell reads the text and changes nothing in it.
_HEREDOC = re.compile(r"([^\n]*?)[ \t]*<<[ \t]*'([A-Za-z_]+)'[ \t]*\n(.*)\Z", re.DOTALL)


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
