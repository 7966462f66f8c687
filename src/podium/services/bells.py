"""A bell is a file that an idle client watches: touch it, and its session looks for news.

Ringing costs nothing and needs nobody to listen; whoever is rung asks the database itself.
"""

from __future__ import annotations

import os

from podium.domain.states import CONDUCTOR_ROW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from podium.store.base import Store


def path(folder: str, session_id: str) -> str:
    """The bell of a session in the user's folder of bells."""
    name = session_id
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 100:
        import hashlib

        name = hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()
    return os.path.join(folder, name)


def hang(bell: str) -> bool:
    """Make the bell, so that it can be watched; whether it is there."""
    try:
        os.makedirs(os.path.dirname(bell), mode=0o700, exist_ok=True)
        with open(bell, "ab"):
            return True
    except OSError:
        return False


def ring(bell: str) -> None:
    """Touch a bell; one that was taken down stays silent."""
    try:
        os.utime(bell)
    except OSError:
        pass  # the session has ended, or is another user's


def ring_for(store: Store, task_ids: Iterable[str], but: str | None = None) -> None:
    """Ring whom a change of these tasks concerns: their owners and the conductor."""
    rows = [
        row
        for task_id in set(task_ids)
        for row in store.all("bells", task_id=task_id, conductor=CONDUCTOR_ROW)
    ]
    for bell in {str(row["bell"]) for row in rows if row["session_id"] != but}:
        ring(bell)
