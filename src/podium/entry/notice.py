"""A participant's session stands at a question that only a person can answer: let that be known.

PermissionRequest comes at once and names the tool; Notification comes 6 s later and covers the
other dialogs. The next sign of work or the next Stop clears it. Standard library only.
"""

from __future__ import annotations

from podium.domain.quotes import one_line
from podium.entry.hooks import Event, is_headless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from podium.store.base import Store

ASKED = ("permission_prompt", "elicitation_dialog")
LONGEST = 300
# What of a tool's input tells a person most.
TELLING = ("command", "file_path", "path", "url", "query", "pattern", "prompt", "questions")


def question(event: Event) -> str:
    """What the session asks, in one line; empty when it asks nothing."""
    tool = event.text("tool_name")
    if tool is None:
        asks = event.text("notification_type") in ASKED
        return one_line(event.text("message") or "a question", LONGEST) if asks else ""
    given = event.payload.get("tool_input")
    values = given if isinstance(given, dict) else {}
    told = next((values[name] for name in TELLING if name in values), values or "")
    return one_line(f"{tool}: {told}", LONGEST)


def answer_notification(event: Event) -> None:
    """Keep the question of a session that plays or was launched to; tell the conductor."""
    session_id = event.has_database and not is_headless() and event.session_id
    if not session_id:
        return
    store = event.open()
    if store.one("participates", session_id=session_id) is None:
        return
    text = question(event)
    anew = event.text("tool_name") is not None
    if text and store.run("ask", session_id=session_id, text=text, anew=int(anew)):
        _ring_conductor(store, session_id)


def _ring_conductor(store: Store, session_id: str) -> None:
    from podium.domain.states import CONDUCTOR_ROW
    from podium.services import bells

    bells.ring_for(store, [CONDUCTOR_ROW], but=session_id)
