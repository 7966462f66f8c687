"""News for a session: mail, verdicts, what needs the conductor. Each once. Hook-reachable.

A message counts as shown when the caller has written it out: `deliver` marks it after that and in
the same transaction, so that two hooks never show it twice and a killed hook loses nothing.
"""

from __future__ import annotations

from podium.domain.advice import advice
from podium.domain.errors import PodiumError
from podium.domain.quotes import CHARACTERS, flat, marked
from podium.domain.records import Message, Task
from podium.domain.rules import STALE_AFTER
from podium.domain.states import CONDUCTOR_ROW, ENDED, Kind, MessageType, kind_of

from . import overview
from .briefing import mail_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.store.base import Store

# The client stores a hook's context in a file when it is longer than 10,000 characters.
LONGEST_TEXT = 9_000
CAPS_SHOWN = 50


def quote(message: Message) -> str:
    """A message that cannot pass for anything but one: marked, indented, cut, no controls."""
    text = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in message.message)
    text = "\n".join(marked(text))
    if len(text) > CHARACTERS:
        rest = f"podium messages {message.task_id} --id {message.id}"
        text = f"{text[:CHARACTERS]}… (whole: {rest})"
    sender = "the conductor" if message.from_session == CONDUCTOR_ROW else message.task_id
    head = f"[{message.id}] {message.message_type} from {sender}, {message.timestamp}:"
    return f"{flat(head)}\n{text}"


def fit(head: str, parts: list[str], where: str) -> tuple[str, int]:
    """The head with as many parts as the client passes whole, and how many; the rest is named.

    The first is always among them: what never fits would never be read.
    """
    kept, room = [head], LONGEST_TEXT - len(head)
    for part in parts:
        if len(part) > room and kept[1:]:
            return "\n".join([*kept, f"{len(parts) - len(kept) + 1} more: {where}"]), len(kept) - 1
        kept.append(part[: max(room, 0)])
        room -= len(part) + 1
    return "\n".join(kept), len(parts)


class News:
    """What a session has not been shown yet. False when there is nothing."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.read: list[tuple[str, int]] = []
        self.told: list[overview.Item] = []

    def __bool__(self) -> bool:
        return bool(self.texts)

    @property
    def text(self) -> str:
        """The news, with what to do next."""
        return "\n\n".join(self.texts)


def gather(store: Store, session_id: str, stale_after: int = STALE_AFTER) -> News:
    """The news of every live row of this session; who is silent for `stale_after` s is stale."""
    news = News()
    for row in store.all("tasks_of_session", session_id=session_id):
        task = Task(row)
        if task.task_id == CONDUCTOR_ROW:
            _for_conductor(store, session_id, task, news, stale_after)
        elif kind_of(task.task_id) is Kind.TASK and task.state not in ENDED:
            _for_musician(store, session_id, task, news)
    return news


def _for_musician(store: Store, session_id: str, task: Task, news: News) -> None:
    mail = mail_for(store, session_id, task.task_id)
    if mail:
        head = f"podium: news from the conductor; {task.task_id} is {task.state.value}."
        where = f"podium messages {task.task_id}"
        next_step = f"Next: {advice(task.task_id, task.state, task.instruction_path)}"
        text, shown = fit(head, [quote(m) for m in mail], where)
        news.read.append((task.task_id, mail[shown - 1].id))
        news.texts.append(text + "\n" + next_step)


def _for_conductor(store: Store, session_id: str, task: Task, news: News, stale_after: int) -> None:
    if task.state in ENDED:
        return
    items = overview.attention(store, stale_after) + overview.completed(store, session_id)
    new = overview.untold(store, session_id, overview.in_order(items))
    mail = _let_go(store, session_id)
    lines = [*(i.line() for i in new), *map(quote, mail)]
    if lines:
        _, live, played = overview.counts(store)
        head = (
            f"podium: news for the conductor; {task.task_id} is {task.state.value}, "
            f"{live} tasks are live, {played} are being played."
        )
        next_step = f"Next: {advice(task.task_id, task.state)}"
        text, shown = fit(head, lines, "podium conductor next --all")
        news.told += new[:shown]
        news.read += [(CONDUCTOR_ROW, m.id) for m in mail[: max(0, shown - len(new))]]
        news.texts.append(text + "\n" + next_step)


def _let_go(store: Store, session_id: str) -> list[Message]:
    """The letters about a cap that this conductor has not been shown, oldest first."""
    rows = store.all(
        "unread_let_go",
        session_id=session_id,
        conductor=CONDUCTOR_ROW,
        message_type=MessageType.ERROR.value,
        let_go=overview.LET_GO,
        most=CAPS_SHOWN,
    )
    return [Message(row) for row in rows]


def mark(store: Store, session_id: str, news: News) -> None:
    """Remember that the session has been shown these."""
    for task_id, up_to in news.read:
        store.run("mark_read", session_id=session_id, task_id=task_id, up_to=up_to)
    overview.mark_told(store, session_id, news.told)


def deliver(store: Store, session_id: str, show: Callable[[str], None]) -> bool:
    """Show the news once; whether there was any. `show` must have flushed when it returns."""
    if not gather(store, session_id):  # looked at without a lock: mostly there is nothing
        return False
    shown = False
    try:
        with store.transaction():
            news = gather(store, session_id)
            if news:
                show(news.text)
                shown = True
                mark(store, session_id, news)
    except PodiumError:
        if not shown:
            raise
        # Rather told again than lost, and whoever asked has had its answer.
    return shown
