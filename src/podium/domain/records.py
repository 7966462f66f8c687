"""What the store returns: frozen rows. Dataclasses would cost every hook 6 ms."""

from __future__ import annotations

from .quotes import flat
from .states import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Record:
    """A row as it was read. It compares by value and cannot be changed."""

    def __init__(self, row: Mapping[str, object]) -> None:
        self.__dict__.update(row)

    def __setattr__(self, name: str, value: object) -> None:
        message = f"a {type(self).__name__} is a row as it was read: {name} cannot be set"
        raise AttributeError(message)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]  # rows are compared, never kept in sets

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items() if v is not None)
        return f"{type(self).__name__}({shown})"


# These stand in prompts as they are, and somebody wrote them: they are one line, whatever comes.
NAMES = ("task_id", "worked_by", "instruction_path", "report_path")


class Task(Record):
    """One row of orchestration_tasks.

    `owner_age` is seconds since its owner's last sign of life, None when nobody owns it any more.
    """

    task_id: str
    state: State
    instruction_path: str | None
    session_id: str | None
    worked_by: str | None
    started_at: str | None
    completed_at: str | None
    report_path: str | None
    retry_count: int
    last_heartbeat: str | None
    last_error: str | None
    phase: int
    parallel: int
    claims: int
    owner_age: int | None

    def __init__(self, row: Mapping[str, object]) -> None:
        super().__init__(row)
        self.__dict__["state"] = State(self.state)
        for name in NAMES:
            text = self.__dict__.get(name)
            if isinstance(text, str):
                self.__dict__[name] = flat(text)


class Message(Record):
    """One row of orchestration_messages."""

    id: int
    task_id: str
    from_session: str
    message: str
    message_type: str
    timestamp: str


class Event(Record):
    """One line of the log: who moved what from where to where, and when."""

    id: int
    task_id: str
    at: str
    actor: str | None
    from_state: str | None
    to_state: str
    session_id: str | None
    worked_by: str | None
    last_message: int

    @property
    def who(self) -> str:
        """The player by its name, anybody else by what it said it was."""
        own = self.worked_by if self.actor == self.session_id else None
        return flat(own or self.actor or "somebody")


class Session(Record):
    """What podium knows of one client session."""

    session_id: str
    task_id: str | None
    continues: str | None
    pid: int | None
    pid_started: str | None
    host: str | None
    transcript_path: str | None
    started_at: str
    last_seen: str | None
    last_progress: str | None
    continuations: int
    last_stop_at: str | None
    last_stop: str | None


class Process:
    """A process proven by its pid and its start time on its host."""

    def __init__(self, pid: int, started: str, host: str) -> None:
        self.pid, self.started, self.host = pid, started, host
