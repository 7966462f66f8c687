"""How a session left its task is decided by evidence; sweeping settles what can be settled."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import protocol
import pytest
from protocol import add, age, claim, everything, move, row, send

from podium.domain.errors import PodiumError
from podium.services import launches, overview, recovery, tasks
from podium.services.callers import Caller
from podium.services.scratch import Scratch

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from podium.domain.records import Process
    from podium.store.base import Store

OPERATOR = Caller(None, [])
T = "task-03"


class Deserted:
    """A stage on which nothing can be started: who lives is told by the test."""

    host = os.uname().nodename
    root = "/project"

    def __init__(
        self, *, alive: bool | None = False, waiting: dict[str, str] | None = None
    ) -> None:
        self.alive, self.waiting = alive, waiting or {}
        self.ended: list[int] = []
        self.closed: list[object] = []

    def is_alive(self, who: Process) -> bool | None:
        return self.alive if who.pid not in self.ended else False

    def end(self, who: Process | None) -> str:
        if who is None or not self.alive:
            return "gone"
        self.ended.append(who.pid)
        return "ended"

    def close_window(self, name: str, window: Any) -> None:
        self.closed.append((name, window))

    def screen(self, name: str, window: Any) -> str:
        return f"{name} {window}"

    def player(self, task_id: str) -> None:
        del task_id

    def clear_stale(self, task_id: str) -> str:
        del task_id
        return ""

    def clear_all_stale(self) -> dict[str, str]:
        return {}

    def waiting_for(self) -> dict[str, str]:
        return self.waiting


@pytest.fixture
def scratch(project: Path) -> Scratch:
    return Scratch(str(project / "temp"))


@pytest.fixture
def played(raw: sqlite3.Connection) -> sqlite3.Connection:
    """task-03, which session s1 has claimed."""
    add(raw, "task-00")
    add(raw, T)
    claim(raw, T, "s1")
    raw.execute("INSERT INTO podium_sessions (session_id) VALUES ('s1')")
    return raw


def evidence(store: Store, scratch: Scratch, *, alive: bool | None = False) -> recovery.Evidence:
    return recovery.Evidence(store, scratch, tasks.get(store, T), alive=alive, window=None)


def leave(
    raw: sqlite3.Connection, store: Store, scratch: Scratch, *, percent: int | None, reason: str,
    handoff: str = "filled", exits: bool = True,
) -> None:  # fmt: skip
    """The session goes: writes its HANDOFF or not, exits or not."""
    task = tasks.get(store, T)
    if handoff:
        path = scratch.write_handoff(task, reason, percent)
        if handoff == "filled":
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("<fill in: ", "").replace(">", ""))
    if percent is not None:
        sql = "INSERT INTO podium_context (session_id, tokens, percent) VALUES ('s1', 1, ?)"
        raw.execute(sql, (percent,))
    if exits:
        send(raw, T, "s1", "handoff", f"EXITED: {reason}")
        move(raw, T, "exited")


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"percent": 41, "reason": "the plan changed"}, "clean"),
        ({"percent": None, "reason": "the plan changed"}, "clean"),
        ({"percent": 64, "reason": "tired"}, "clean"),
        ({"percent": 65, "reason": "tired"}, "context exit"),
        ({"percent": 80, "reason": "tired"}, "context exit"),
        ({"percent": None, "reason": "Context is full"}, "context exit"),
        ({"percent": 81, "reason": "context"}, "dirty"),
        ({"percent": 97, "reason": "tired"}, "dirty"),
        ({"percent": 20, "reason": "x", "handoff": ""}, "crash"),
        ({"percent": 20, "reason": "x", "handoff": "", "exits": False}, "crash"),
        ({"percent": 20, "reason": "x", "handoff": "skeleton", "exits": False}, "crash"),
        ({"percent": 20, "reason": "x", "handoff": "filled", "exits": False}, "clean"),
        ({"percent": 90, "reason": "x", "handoff": "filled", "exits": False}, "dirty"),
        ({"percent": 20, "reason": "x", "handoff": "skeleton", "exits": True}, "dirty"),
    ],
)
def test_the_type_of_a_handoff_follows_from_the_evidence(
    played: sqlite3.Connection, store: Store, scratch: Scratch, how: dict[str, Any], kind: str
) -> None:
    leave(played, store, scratch, **how)

    assert recovery.judge(evidence(store, scratch)) == kind


def test_five_failed_attempts_are_retry_exhaustion_whatever_else_is_found(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    played.execute("UPDATE orchestration_tasks SET retry_count = 5, last_error = 'E42'")
    for number in range(1, 6):
        send(played, T, "task-00", "fix_proposal", f"FIX PROPOSED: try {number}")
    leave(played, store, scratch, percent=90, reason="retries exhausted")
    found = evidence(store, scratch)

    done = recovery.hand_off(store, scratch, OPERATOR, found, "temp/task-03-HANDOFF")

    assert done.kind == "retry exhaustion"
    letter = tasks_mail(store, done.message_id)
    assert letter.startswith("RETRY EXHAUSTION: Musician failed after 5 attempts.\n")
    assert "  Root cause: retries exhausted\n" in letter
    assert "  Last error: E42\n" in letter
    assert "    - FIX PROPOSED: try 5\n" in letter


def tasks_mail(store: Store, number: int) -> str:
    found = store.one("message", id=number)
    assert found
    assert (found["from_session"], found["message_type"]) == ("task-00", "handoff")
    return str(found["message"])


@pytest.mark.usefixtures("played")
def test_an_old_handoff_of_an_earlier_session_does_not_count(
    store: Store, scratch: Scratch
) -> None:
    os.makedirs(scratch.folder)
    with open(scratch.handoff_path(T), "w", encoding="utf-8") as file:
        file.write("# HANDOFF: task-03\n- Session ID: s0\n")
    os.utime(scratch.handoff_path(T), (1, 1))

    assert recovery.judge(evidence(store, scratch)) == "crash"


def test_a_handoff_writes_message_and_state_and_frees_the_task_for_the_next_name(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    leave(played, store, scratch, percent=70, reason="context at 70%")

    done = recovery.hand_off(
        store, scratch, OPERATOR, evidence(store, scratch), "temp/task-03-HANDOFF"
    )

    assert (done.kind, done.next) == ("context exit", "musician-task-03-S2")
    assert tasks_mail(store, done.message_id).splitlines() == [
        "HANDOFF RECEIVED: Musician session exited cleanly due to context exhaustion.",
        "  Handoff type: context exit",
        "  Previous session: musician-task-03 (s1)",
        "  HANDOFF: temp/task-03-HANDOFF",
        "  Exit reason: context at 70%",
        "  Left in: exited",
        "  Context usage: 70%",
        "  Next musician: musician-task-03-S2",
        "  Action: A replacement session takes over.",
    ]
    assert row(played, T)["state"] == "fix_proposed"
    assert claim(played, T, "s2") == 1
    assert row(played, T)["worked_by"] == "musician-task-03-S2"


def test_a_dirty_handoff_tells_the_successor_to_trust_the_tests_alone(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    leave(played, store, scratch, percent=91, reason="context")

    done = recovery.hand_off(store, scratch, OPERATOR, evidence(store, scratch), "temp/H")

    letter = tasks_mail(store, done.message_id)
    assert letter.startswith("HANDOFF RECEIVED: Previous session context was 91% (potential")
    assert "Re-run ALL verification tests from the last completed checkpoint" in letter
    assert "do NOT trust the test results in the HANDOFF" in letter


def test_a_handoff_with_places_left_open_is_not_called_clean(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    leave(played, store, scratch, percent=20, reason="recalled", handoff="skeleton")

    done = recovery.hand_off(store, scratch, OPERATOR, evidence(store, scratch), "temp/H")

    letter = tasks_mail(store, done.message_id)
    found = scratch.handoff(T)
    assert found
    assert letter.startswith(f"HANDOFF RECEIVED: HANDOFF has {found.unfilled} places not filled in")
    assert "clean" not in letter
    assert "Re-run ALL verification tests" in letter


@pytest.mark.parametrize(("alive", "how"), [(True, "frozen"), (False, "dead"), (None, "unseen")])
def test_a_crash_names_the_last_completed_step_and_distrusts_the_next(
    played: sqlite3.Connection, store: Store, scratch: Scratch, *, alive: bool | None, how: str
) -> None:
    for text in ("step 1 of 5: completed", "step 2 of 5: completed", "step 3 of 5: started"):
        scratch.log(T, text, 33)
    scratch.deviate(T, "kept the tables", "low", 33)
    age(played, T, 600)

    done = recovery.hand_off(store, scratch, OPERATOR, evidence(store, scratch, alive=alive), "")

    assert (done.kind, done.how) == ("crash", how)
    letter = tasks_mail(store, done.message_id)
    assert letter.startswith("CRASH DETECTED: No HANDOFF doc.")
    assert f"  Handoff type: crash ({how})\n" in letter
    assert "  Last completed: step 2 of 5: completed\n" in letter
    assert "  Context usage: 33%\n" in letter
    assert "  Deviations logged: 1 (Low" in letter
    assert "Verify step 2 results before resuming step 3." in letter
    assert "Do NOT trust results from step 3" in letter


def test_a_question_that_was_open_is_not_lost_in_a_crash(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    number = send(played, T, "s1", "review_request", "REVIEW REQUEST")
    move(played, T, "needs_review")

    done = recovery.hand_off(store, scratch, OPERATOR, evidence(store, scratch), "")

    letter = tasks_mail(store, done.message_id)
    assert f"Left in: needs_review, message {number} is not answered" in letter


@pytest.mark.parametrize("state", ["working", "needs_review", "review_approved", "error"])
def test_a_living_musicians_task_is_not_handed_off_unless_it_is_forced(
    raw: sqlite3.Connection, store: Store, scratch: Scratch, state: str
) -> None:
    protocol.own(raw, T, state, "s1")
    for alive in (True, None):  # one that cannot be seen from here has shown life all the same
        found = evidence(store, scratch, alive=alive)
        with pytest.raises(PodiumError, match="musician-task-03 is alive"):
            recovery.check_handoff(found, force=False)
        recovery.check_handoff(found, force=True)

    recovery.check_handoff(evidence(store, scratch, alive=False), force=False)
    age(raw, T, 600)
    recovery.check_handoff(evidence(store, scratch, alive=True), force=False)


def test_a_task_that_changed_since_it_was_looked_at_is_not_handed_off(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    found = evidence(store, scratch)
    move(played, T, "needs_review")
    before = everything(played)

    with pytest.raises(PodiumError, match="task-03 changed meanwhile"):
        recovery.hand_off(store, scratch, OPERATOR, found, "")

    assert everything(played) == before


def test_nothing_is_handed_off_that_nobody_played_or_that_is_complete(
    raw: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    add(raw, T)
    with pytest.raises(PodiumError, match="podium conductor launch task-03"):
        recovery.check_handoff(evidence(store, scratch), force=False)
    claim(raw, T, "s1")
    move(raw, T, "complete")

    with pytest.raises(PodiumError, match="podium conductor repair task-03"):
        recovery.check_handoff(evidence(store, scratch), force=True)


def test_a_task_that_was_handed_off_is_known_as_such_until_it_is_claimed(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    assert recovery.handed_off(store, tasks.get(store, T)) is None
    done = recovery.hand_off(store, scratch, OPERATOR, evidence(store, scratch), "")

    found = recovery.handed_off(store, tasks.get(store, T))
    assert found
    assert found.id == done.message_id

    claim(played, T, "s2")
    move(played, T, "error")
    move(played, T, "fix_proposed")
    assert recovery.handed_off(store, tasks.get(store, T)) is None


def test_a_session_that_comes_back_after_its_handoff_is_not_the_owner_again(
    played: sqlite3.Connection, store: Store, scratch: Scratch
) -> None:
    from podium.services import life, sessions

    life.bury(store, "s1", "its process is gone")
    recovery.hand_off(store, scratch, OPERATOR, evidence(store, scratch), "")

    facts = dict.fromkeys(("transcript_path", "mode", "model", "bell"))
    sessions.register(store, "s1", cleared=False, process=None, facts=facts)

    assert claim(played, T, "s2") == 1


# Repair


@pytest.fixture
def complete(played: sqlite3.Connection) -> sqlite3.Connection:
    played.execute("UPDATE orchestration_tasks SET phase = 4 WHERE task_id = 'task-03'")
    move(played, T, "complete")
    return played


TEXTS = {"found_by": "task-07", "error": "login\nfails", "fix": "hash first"}


def test_a_repair_is_a_new_row_with_the_seeds_instruction(
    complete: sqlite3.Connection, store: Store
) -> None:
    made = recovery.add_repair(store, OPERATOR, T, **TEXTS)

    assert (made.task_id, made.state.value, made.phase) == ("task-03-fix", "watching", 4)
    (letter,) = complete.execute(
        "SELECT message FROM orchestration_messages WHERE task_id = 'task-03-fix'"
    ).fetchone()
    assert letter.splitlines() == [
        "FIX TASK: Integration error found by task-07.",
        "  Error: login",
        "      fails",
        "  Fix required: hash first",
        "  Original task: task-03",
        "  Original session: s1",
    ]


def test_the_next_repair_gets_the_next_number_and_only_once_the_last_one_has_ended(
    complete: sqlite3.Connection, store: Store
) -> None:
    for name in ("task-03-fix", "task-03-fix2", "task-03-fix3"):
        assert recovery.add_repair(store, OPERATOR, T, **TEXTS).task_id == name
        with pytest.raises(PodiumError, match=f"{name} is watching"):
            recovery.add_repair(store, OPERATOR, f"{T}-fix", **TEXTS)
        claim(complete, name, f"of {name}")
        move(complete, name, "complete")


def test_only_a_complete_task_is_repaired(played: sqlite3.Connection, store: Store) -> None:
    before = everything(played)

    with pytest.raises(PodiumError, match="task-03 is working"):
        recovery.add_repair(store, OPERATOR, T, **TEXTS)

    assert everything(played) == before


def test_a_repair_resumes_the_session_whose_transcript_is_still_there(
    complete: sqlite3.Connection, store: Store, tmp_path: Path
) -> None:
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("{}\n")
    sql = "UPDATE podium_sessions SET transcript_path = ? WHERE session_id = 's1'"
    complete.execute(sql, (str(transcript),))
    complete.execute(
        "INSERT INTO podium_launches (task_id, session_id, backend, cwd)"
        " VALUES ('task-03', 's1', 'tmux', '/tree')"
    )
    task = recovery.add_repair(store, OPERATOR, T, **TEXTS)

    assert launches.resumable(store, Deserted(), task) == ("s1", "/tree")

    complete.execute("UPDATE podium_sessions SET pid = 1, pid_started = '1', host = ?", ("h",))
    assert launches.resumable(store, Deserted(alive=True), task) == ("", "")
    transcript.unlink()
    assert launches.resumable(store, Deserted(), task) == ("", "")
    assert launches.resumable(store, Deserted(), tasks.get(store, T)) == ("", "")


# Closing


@pytest.mark.parametrize(
    ("parallel", "state", "sibling", "stays"),
    [
        (0, "working", "complete", "task-03 is working"),
        (0, "complete", "working", ""),
        (0, "exited", "working", ""),
        (1, "complete", "working", "task-04"),
        (1, "complete", "watching", "task-04"),
        (1, "complete", "exited", ""),
        (1, "exited", "complete", ""),
    ],
)
def test_a_window_closes_at_once_or_with_its_parallel_siblings(
    raw: sqlite3.Connection, store: Store, parallel: int, state: str, sibling: str, stays: str
) -> None:
    for name, wanted in ((T, state), ("task-04", sibling)):
        add(raw, name)
        if wanted != "watching":
            claim(raw, name, f"of {name}")
            move(raw, name, wanted)
    raw.execute("UPDATE orchestration_tasks SET parallel = ?", (parallel,))
    add(raw, "task-05")  # of another phase
    raw.execute("UPDATE orchestration_tasks SET phase = 2, parallel = 1 WHERE task_id = 'task-05'")

    why = launches.may_close(tasks.every(store), tasks.get(store, T))

    assert stays in why
    assert bool(why) == bool(stays)


# Sweeping


def sweep(store: Store, stage: Deserted | None = None) -> list[tuple[str, str, bool, str]]:
    found = recovery.sweep(store, stage or Deserted())
    return [(f.kind, f.task_id, f.settled, f.command) for f in found]


def process_of(raw: sqlite3.Connection, session: str = "s1", pid: int = 77) -> None:
    sql = "UPDATE podium_sessions SET pid = ?, pid_started = '1', host = ? WHERE session_id = ?"
    raw.execute(sql, (pid, os.uname().nodename, session))


def test_a_healthy_run_has_nothing_to_sweep(played: sqlite3.Connection, store: Store) -> None:
    process_of(played)
    before = everything(played)

    assert sweep(store, Deserted(alive=True)) == []

    assert everything(played) == before


@pytest.mark.parametrize(
    "state", ["working", "needs_review", "review_approved", "review_failed", "error",
              "fix_proposed", "exit_requested"],
)  # fmt: skip
def test_a_dead_process_is_noted_in_every_live_state_once(
    raw: sqlite3.Connection, store: Store, state: str
) -> None:
    protocol.own(raw, T, state, "s1")
    raw.execute("INSERT INTO podium_sessions (session_id) VALUES ('s1')")
    process_of(raw)

    assert sweep(store) == [("dead", T, False, f"podium conductor replace {T}")]

    after = everything(raw)
    assert sweep(store) == [("dead", T, False, f"podium conductor replace {T}")]
    assert everything(raw) == after


def test_how_a_session_ended_is_what_the_first_who_noticed_said(
    played: sqlite3.Connection, store: Store
) -> None:
    from podium.services import life

    assert life.bury(store, "s1", "ended (logout)") == [T]
    assert life.bury(store, "s1", "its process is gone") == []

    ended = played.execute("SELECT ended FROM podium_sessions WHERE session_id = 's1'").fetchone()
    assert ended[0] == "ended (logout)"


def test_a_session_of_another_host_is_never_found_dead_from_here(
    played: sqlite3.Connection, store: Store
) -> None:
    process_of(played)
    played.execute("UPDATE podium_sessions SET host = 'elsewhere'")

    assert sweep(store) == []


@pytest.mark.parametrize(("alive", "kind"), [(True, "frozen"), (None, "stale")])
def test_silence_is_reported_and_a_living_process_is_never_ended_by_a_sweep(
    played: sqlite3.Connection, store: Store, *, alive: bool | None, kind: str
) -> None:
    process_of(played)
    age(played, T, 541)
    before, stage = everything(played), Deserted(alive=alive)

    assert sweep(store, stage) == [(kind, T, False, f"podium conductor replace {T}")]

    assert stage.ended == []
    assert everything(played) == before


def test_a_session_that_lives_without_working_is_reported(
    played: sqlite3.Connection, store: Store
) -> None:
    process_of(played)
    played.execute("UPDATE podium_sessions SET last_progress = datetime('now', '-31 minutes')")

    assert sweep(store, Deserted(alive=True)) == [("stuck", T, False, f"podium why {T}")]


def block(raw: sqlite3.Connection, session: str, seconds_ago: int = 0) -> None:
    """A claim of task-03 that was blocked so long ago."""
    raw.execute(
        "INSERT INTO orchestration_tasks (task_id, state, session_id, last_heartbeat)"
        " VALUES (?, 'exited', ?, datetime('now', ?))",
        (f"fallback-{session}", session, f"-{seconds_ago} seconds"),
    )
    send(raw, T, session, "claim_blocked", "CLAIM BLOCKED")


def fallbacks(raw: sqlite3.Connection) -> int:
    sql = "SELECT count(*) FROM orchestration_tasks WHERE task_id GLOB 'fallback-*'"
    return int(raw.execute(sql).fetchone()[0])


def test_a_collision_is_over_when_the_task_was_played_after_it(
    played: sqlite3.Connection, store: Store
) -> None:
    block(played, "s9", 60)

    assert sweep(store, Deserted(alive=True)) == [("collision", T, True, "")]

    assert fallbacks(played) == 0
    assert sweep(store, Deserted(alive=True)) == []


def test_a_collision_after_which_nobody_plays_is_reported_and_the_second_goes_to_a_person(
    raw: sqlite3.Connection, store: Store
) -> None:
    add(raw, T)
    raw.execute("UPDATE orchestration_tasks SET last_heartbeat = datetime('now', '-60 seconds')")
    block(raw, "s8")
    assert sweep(store) == [("collision", T, False, f"podium conductor launch {T}")]
    block(raw, "s9")

    assert sweep(store) == 2 * [("person", T, False, f"podium why {T}")]

    assert fallbacks(raw) == 2
    claim(raw, T, "s10")
    assert [f[2] for f in sweep(store, Deserted(alive=True))] == [True, True]
    assert fallbacks(raw) == 0


def test_the_window_of_a_blocked_session_is_closed(
    played: sqlite3.Connection, store: Store
) -> None:
    played.execute(
        "INSERT INTO podium_launches (task_id, session_id, backend, cwd, window, pid, pid_started,"
        " host, state) VALUES (?, 's9', 'tmux', '.', '{}', 99, '1', 'h', 'playing')",
        (T,),
    )
    block(played, "s9", 60)
    stage = Deserted(alive=True)

    assert sweep(store, stage) == 2 * [("collision", T, True, "")]

    assert (stage.ended, stage.closed) == ([99], [("tmux", {})])
    assert launches.all_open(store) == []


def open_window(raw: sqlite3.Connection, session: str, pid: int = 99) -> None:
    """A launch for task-03 whose process and window are there."""
    raw.execute(
        "INSERT INTO podium_launches (task_id, session_id, backend, cwd, window, pid, pid_started,"
        " host, state) VALUES (?, ?, 'tmux', '.', '{}', ?, '1', 'h', 'playing')",
        (T, session, pid),
    )


def test_who_was_blocked_and_plays_now_is_not_ended(
    played: sqlite3.Connection, store: Store
) -> None:
    open_window(played, "s9")
    block(played, "s9", 60)
    move(played, T, "exited")
    move(played, T, "fix_proposed")
    claim(played, T, "s9")
    stage = Deserted(alive=True)

    assert sweep(store, stage) == [("collision", T, True, "")]

    assert (stage.ended, stage.closed, fallbacks(played)) == ([], [], 0)
    assert sweep(store, stage) == []


def test_a_task_that_another_command_is_busy_with_is_passed_over(
    played: sqlite3.Connection, store: Store
) -> None:
    open_window(played, "s9")
    block(played, "s9", 60)
    move(played, T, "complete")
    age(played, T, 60)
    stage = Deserted(alive=True)
    asked: list[str] = []

    @contextmanager
    def busy(task_id: str) -> Iterator[bool]:
        asked.append(task_id)
        yield False

    recovery.sweep(store, stage, hold=busy)

    assert (asked, stage.ended, fallbacks(played)) == ([T, T], [], 1)


def test_a_task_that_was_taken_up_again_before_its_lock_was_had_keeps_its_window(
    played: sqlite3.Connection, store: Store
) -> None:
    open_window(played, "s1")
    move(played, T, "exited")
    age(played, T, 60)
    stage = Deserted(alive=True)

    @contextmanager
    def just_replaced(_: str) -> Iterator[bool]:
        move(played, T, "fix_proposed")
        yield True

    recovery.sweep(store, stage, hold=just_replaced)

    assert stage.ended == []


def test_who_comes_while_a_window_is_closed_is_not_ended_with_it(
    played: sqlite3.Connection, store: Store
) -> None:
    from podium.domain.records import Process

    class Succeeded(Deserted):
        def player(self, task_id: str) -> Process:
            del task_id
            return Process(200 if self.ended else 99, "1", self.host)

    open_window(played, "s1")
    stage = Succeeded(alive=True)

    launches.close(store, stage, T)

    assert stage.ended == [99]


def launched(raw: sqlite3.Connection, session: str, pid: int) -> None:
    """A session that has come for task-03, a while ago, and has claimed nothing."""
    open_window(raw, session, pid)
    raw.execute(
        "INSERT INTO podium_sessions (session_id, task_id, last_seen)"
        " VALUES (?, ?, datetime('now'))",
        (session, T),
    )
    process_of(raw, session, pid)
    raw.execute("UPDATE podium_launches SET at = datetime('now', '-5 seconds')")


def test_who_dies_before_it_claims_is_noticed_and_each_time_that_is_news(
    raw: sqlite3.Connection, store: Store
) -> None:
    add(raw, "task-00")
    add(raw, T)
    marks = {i.mark for i in overview.attention(store)}
    for number in (1, 2):
        launched(raw, f"s{number}", 90 + number)
        assert recovery.bury_dead(store, Deserted.host, Deserted(alive=True).is_alive) == []
        assert overview.attention(store) == []
        assert overview.counts(store) == (1, 1, 1)
        assert overview.is_idle(store)

        recovery.bury_dead(store, Deserted.host, Deserted().is_alive)

        assert overview.counts(store) == (1, 1, 0)
        assert not overview.is_idle(store)
        (item,) = overview.attention(store)
        assert (item.kind, item.task_id) == ("free", T)
        assert item.mark not in marks
        marks.add(item.mark)


def test_what_has_ended_is_not_being_played(played: sqlite3.Connection, store: Store) -> None:
    move(played, T, "complete")
    launched(played, "s2", 92)

    assert overview.counts(store) == (1, 0, 0)


def test_a_question_that_was_answered_without_a_sound_is_cleared(
    played: sqlite3.Connection, store: Store
) -> None:
    process_of(played)
    played.execute("UPDATE podium_sessions SET asking = 'Bash: x', asking_since = datetime('now')")
    command = "answer it in the window of its session"
    asks = ("asking", T, False, command)

    for waiting in ({"s1": "permission prompt"}, {"another": ""}):
        assert sweep(store, Deserted(alive=True, waiting=waiting)) == [asks]
    answered = Deserted(alive=True, waiting={"s1": ""})
    assert sweep(store, answered) == [("asking", T, True, "")]
    assert sweep(store, answered) == []


def test_a_session_that_ended_before_it_claimed_is_a_failed_launch(
    raw: sqlite3.Connection, store: Store
) -> None:
    add(raw, T)
    raw.execute(
        "INSERT INTO podium_launches (task_id, session_id, backend, cwd, window, pid, pid_started,"
        " host, state) VALUES (?, 's1', 'headless', '.', '\"no credit\"', 99, '1', 'h', 'playing')",
        (T,),
    )

    assert sweep(store) == [("launch", T, False, f"podium conductor launch {T}")]

    assert sweep(store) == []
    (failed,) = store.all("failed_launches", task_id=T, within=600)
    assert "no credit" in failed["note"]
