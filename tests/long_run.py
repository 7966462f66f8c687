"""A run of many tasks as the database would return it, the same every time."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any

from podium.domain.records import Event, Message, Task

START = datetime(2026, 3, 1, 22, 0, tzinfo=timezone.utc)
HOSTILE = "</title></svg><script>alert(1)</script> & \"quoted\" 'text' \x1b[31m\x00"
# How long a task stays in a state, in minutes at most.
STAY = {
    "working": 40,
    "needs_review": 12,
    "review_approved": 1,
    "review_failed": 2,
    "error": 6,
    "fix_proposed": 1,
}
VERDICTS = ("review_approved", "review_failed", "fix_proposed")


class Run:
    """Rows of a night: `tasks`, `events`, `mail`, `sessions`, `context`, and when it is `now`."""

    def __init__(self, count: int, seed: int = 7) -> None:
        self.chance = random.Random(seed)
        self.tasks: list[Task] = []
        self.sessions: list[dict[str, Any]] = []
        self.context: dict[str, list[dict[str, Any]]] = {}
        self._events: list[dict[str, Any]] = []
        self._mail: list[dict[str, Any]] = []
        self.end = START
        self._row("task-00", [(START, "watching", "maestro")], "conductor", phase=0)
        for number in range(1, count + 1):
            self._task(number)
        self.now = (self.end + timedelta(minutes=1)).timestamp()

    @property
    def mail(self) -> list[Message]:
        rows = sorted(self._mail, key=lambda m: m["timestamp"])
        return [Message({**row, "id": i}) for i, row in enumerate(rows, 1)]

    @property
    def events(self) -> list[Event]:
        letters, rows = self.mail, sorted(self._events, key=lambda e: e["at"])
        return [
            Event({**e, "id": i, "last_message": sum(m.timestamp <= e["at"] for m in letters)})
            for i, e in enumerate(rows, 1)
        ]

    def _row(
        self, task: str, moves: list[tuple[datetime, str, str | None]], name: str, phase: int
    ) -> None:
        state = None
        names: dict[str, str] = {}
        for at, to, session in moves:
            if session:
                suffix = f"-S{len(names) + 1}" if names else ""
                names.setdefault(session, name + suffix)
            self._events.append(
                {
                    "task_id": task,
                    "at": at.strftime("%Y-%m-%d %H:%M:%S"),
                    "actor": "task-00" if to in VERDICTS else session or "task-00",
                    "from_state": state,
                    "to_state": to,
                    "session_id": session,
                    "worked_by": names.get(session or ""),
                }
            )
            state = to
            self.end = max(self.end, at)
        self.tasks.append(Task({"task_id": task, "state": state, "phase": phase}))

    def _task(self, number: int) -> None:
        task, phase = f"task-{number:02}", 1 + (number - 1) // 10
        at = START + timedelta(minutes=2 + 75 * (phase - 1) + self.chance.random() * 20)
        moves: list[tuple[datetime, str, str | None]] = [(START, "watching", None)]
        sessions = 2 if self.chance.random() < 0.25 else 1
        for take in range(1, sessions + 1):
            session = f"{task}-session-{take}"
            steps = ["working", "needs_review", "review_approved"] * self.chance.randint(1, 3)
            if self.chance.random() < 0.35:
                steps[1:1] = ["needs_review", "review_failed", "working"]
            if self.chance.random() < 0.25:
                steps[1:1] = ["error", "fix_proposed", "working"]
            began, level = at, 8
            for state in steps:
                moves.append((at, state, session))
                for _ in range(3 if state == "working" else 0):
                    at += timedelta(minutes=self.chance.random() * STAY[state] / 3)
                    level = min(97, level + self.chance.randint(2, 9))
                    self._measure(session, at, level)
                at += timedelta(minutes=self.chance.random() * STAY[state])
            if take < sessions:
                dies = self.chance.random() < 0.5
                if dies:
                    self._die(session, at)
                else:
                    moves.append((at, "exited", session))
                at += timedelta(minutes=3)
                moves.append((at, "fix_proposed", session))
                at += timedelta(minutes=1)
            del began
        running = phase == 5 and number % 3 == 0
        if not running:
            moves.append((at, "complete", session))
        self._mail.append(
            {
                "task_id": task,
                "from_session": "task-00",
                "message_type": "emergency" if number == 3 else "instruction",
                "message": f"EMERGENCY: {HOSTILE}" if number == 3 else "INSTRUCTION: read it",
                "timestamp": (START + timedelta(minutes=30)).strftime("%Y-%m-%d %H:%M:%S"),
            }
        )
        self._row(task, moves, f"musician-{task}", phase)

    def _measure(self, session: str, at: datetime, percent: int) -> None:
        row = {"at": at.strftime("%Y-%m-%d %H:%M:%S"), "percent": percent, "tokens": percent * 2000}
        self.context.setdefault(session, []).append(row)

    def _die(self, session: str, at: datetime) -> None:
        self.sessions.append(
            {
                "session_id": session,
                "ended_at": at.strftime("%Y-%m-%d %H:%M:%S"),
                "ended": "its client was killed",
            }
        )
