"""The protocol as triggers, generated from the domain tables.

A raw `sqlite3` shell, comms-link and podium's own commands all meet the same rules: an illegal
move is an error that names the state and its ways out; a claim that must not succeed changes no
row; every change refreshes the heartbeat and is logged once.
"""

from __future__ import annotations

from podium.domain.rules import STALE_AFTER
from podium.domain.states import (
    CLAIMABLE,
    CLAIMED,
    CONDUCTOR_ROW,
    FALLBACK_PREFIX,
    FIRST,
    MOVES,
    PLAYED,
    RELEASED,
    Kind,
    MessageType,
    Role,
    State,
    moves_from,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "podium_rule_"
LARGEST_STEP = 1_000_000  # between two message ids


def quoted(values: Iterable[str]) -> str:
    """A list of SQL string literals."""
    return ", ".join("'" + str.__str__(v).replace("'", "''") + "'" for v in values)


def _is(kind: Kind, row: str) -> str:
    if kind is Kind.CONDUCTOR:
        return f"{row}.task_id = '{CONDUCTOR_ROW}'"
    fallback = f"{row}.task_id GLOB '{FALLBACK_PREFIX}*'"
    return (
        fallback
        if kind is Kind.FALLBACK
        else (f"({row}.task_id <> '{CONDUCTOR_ROW}' AND NOT {fallback})")
    )


def _any(kinds: Iterable[str]) -> str:
    return "(" + "\n      OR ".join(kinds) + ")"


def _listed(kind: Kind, role: Role | None = None) -> list[str]:
    """SQL: this update makes a move that the table lists, one condition for each state."""
    return [
        f"(OLD.state = '{found.value}' AND NEW.state IN ({quoted(moves_from(kind, found, role))}))"
        for found in MOVES[kind]
        if moves_from(kind, found, role)
    ]


def _legal(kind: Kind) -> str:
    """SQL: this update leaves the state alone or makes a listed move."""
    return _any(["NEW.state = OLD.state", *_listed(kind)])


def _refusal(kind: Kind) -> str:
    """SQL: raise the error that names the state found and the states it may leave for."""
    cases = []
    for found in State:
        ends = ", ".join(end.value for end in moves_from(kind, found))
        may = f"it may become {ends}" if ends else "it is final"
        cases.append(
            f"WHEN '{found.value}' THEN RAISE(ABORT, 'podium: this row is {found.value}; {may}')"
        )
    return "SELECT CASE OLD.state " + " ".join(cases) + " END"


OTHER_SESSION = "NEW.session_id IS NOT OLD.session_id"
CONTINUES = (
    "EXISTS (SELECT 1 FROM podium_sessions s"
    " WHERE s.session_id = NEW.session_id AND s.continues = OLD.session_id)"
)
OWNER_ALIVE = f"ifnull(OLD.owner_seen > datetime('now', '-{STALE_AFTER} seconds'), 0)"
NEEDS_UNMET = (
    "EXISTS (SELECT 1 FROM podium_needs n LEFT JOIN orchestration_tasks t ON t.task_id = n.needs"
    f" WHERE n.task_id = NEW.task_id AND t.state IS NOT '{State.COMPLETE.value}')"
)
# A person may act in the conductor's place; that is no sign of life of the conductor's session.
BY_ITSELF = "ifnull(NEW.actor = NEW.session_id, 1)"
# Taking a row: another session, or the same one after it had let go.
TAKES_TASK = (
    f"({_is(Kind.TASK, 'NEW')} AND NEW.state = '{CLAIMED[Kind.TASK].value}'"
    f" AND ({OTHER_SESSION} AND NOT {CONTINUES}"
    f" OR OLD.state IN ({quoted(CLAIMABLE[Kind.TASK])}) AND OLD.owner_seen IS NULL))"
)
TAKES_CONDUCTOR = (
    f"({_is(Kind.CONDUCTOR, 'NEW')} AND NEW.state = '{CLAIMED[Kind.CONDUCTOR].value}'"
    f" AND NEW.session_id IS NOT NULL"
    f" AND ({OTHER_SESSION} AND NOT {CONTINUES} OR OLD.owner_seen IS NULL AND {BY_ITSELF}))"
)
# Who makes this change is a living owner: what others write is no sign of its life.
BY_OWNER = (
    f"CASE WHEN {_is(Kind.CONDUCTOR, 'NEW')} THEN {BY_ITSELF}"
    f" ELSE NEW.state IN ({quoted(PLAYED)}) END"
)
# A task keeps the name of whoever took it, whatever a later statement says.
OWN_NAME = f"CASE WHEN {_is(Kind.TASK, 'NEW')} THEN OLD.worked_by ELSE worked_by END"
# The note that lets a session which comes back be the owner again ends with its ownership.
NOBODY_DIED = "CASE WHEN last_error GLOB 'session ended*' THEN NULL ELSE last_error END"
CHANGED = "(NEW.state <> OLD.state OR NEW.session_id IS NOT OLD.session_id)"


def _released(row: str) -> str:
    return _any(f"({_is(k, row)} AND {row}.state IN ({quoted(s)}))" for k, s in RELEASED.items())


def triggers() -> dict[str, str]:
    """Every trigger of the schema by name."""
    rules = {
        "new_row": f"""BEFORE INSERT ON orchestration_tasks BEGIN
  SELECT RAISE(ABORT, 'podium: this task_id exists already; a row is never replaced')
    WHERE EXISTS (SELECT 1 FROM orchestration_tasks WHERE task_id = NEW.task_id);
  SELECT RAISE(ABORT, 'podium: a new row starts as watching, a fallback row as exited')
    WHERE NOT {_any(f"({_is(k, 'NEW')} AND NEW.state = '{s.value}')" for k, s in FIRST.items())};
  SELECT RAISE(ABORT, 'podium: a new task has no session; a session takes it by claiming it')
    WHERE {_is(Kind.TASK, "NEW")} AND NEW.session_id IS NOT NULL;
END""",
        "new_row_log": f"""AFTER INSERT ON orchestration_tasks BEGIN
  UPDATE orchestration_tasks
     SET last_heartbeat = ifnull(last_heartbeat, datetime('now')), actor = NULL,
         moves = moves + 1,
         owner_seen = CASE WHEN session_id IS NULL OR {_released("NEW")} THEN NULL
                           ELSE datetime('now') END
   WHERE task_id = NEW.task_id;
  INSERT INTO podium_events (task_id, actor, from_state, to_state, session_id, last_message)
  VALUES (NEW.task_id, coalesce(NEW.actor, NEW.session_id, '{CONDUCTOR_ROW}'), NULL, NEW.state,
          NEW.session_id, (SELECT ifnull(max(id), 0) FROM orchestration_messages));
END""",
        "no_rename": """BEFORE UPDATE OF task_id ON orchestration_tasks
WHEN NEW.task_id IS NOT OLD.task_id BEGIN
  SELECT RAISE(ABORT, 'podium: a task_id never changes');
END""",
        # A claim that must not succeed: 0 rows, no error, so that a losing session can tell.
        "claim_blocked": f"""BEFORE UPDATE ON orchestration_tasks
WHEN {TAKES_TASK} AND {_legal(Kind.TASK)}
 AND (ifnull(NEW.session_id, '') = ''
      OR OLD.state NOT IN ({quoted(CLAIMABLE[Kind.TASK])})
      OR {OTHER_SESSION} AND {OWNER_ALIVE}
      OR {NEEDS_UNMET})
BEGIN SELECT RAISE(IGNORE); END""",
        "conductor_blocked": f"""BEFORE UPDATE ON orchestration_tasks
WHEN {TAKES_CONDUCTOR} AND {_legal(Kind.CONDUCTOR)} AND {OWNER_ALIVE}
BEGIN SELECT RAISE(IGNORE); END""",
        "no_theft": f"""BEFORE UPDATE OF session_id ON orchestration_tasks
WHEN {OTHER_SESSION} AND NOT {CONTINUES}
 AND NOT {TAKES_TASK} AND NOT {TAKES_CONDUCTOR}
BEGIN
  SELECT RAISE(ABORT, 'podium: a row changes its session only by being claimed');
END""",
        "changed": f"""AFTER UPDATE OF state, session_id ON orchestration_tasks
WHEN {CHANGED} BEGIN
  UPDATE orchestration_tasks
     SET last_heartbeat = datetime('now'),
         moves = moves + 1,
         actor = NULL,
         claims = claims + ({TAKES_TASK} OR {TAKES_CONDUCTOR}),
         worked_by = CASE WHEN NOT {TAKES_TASK} THEN {OWN_NAME}
                          WHEN claims = 0 THEN 'musician-' || task_id
                          ELSE 'musician-' || task_id || '-S' || (claims + 1) END,
         last_error = CASE WHEN {_released("NEW")} OR {TAKES_TASK} OR {TAKES_CONDUCTOR}
                           THEN {NOBODY_DIED} ELSE last_error END,
         owner_seen = CASE
           WHEN {_released("NEW")} THEN NULL
           WHEN {TAKES_TASK} OR {TAKES_CONDUCTOR} THEN datetime('now')
           WHEN owner_seen IS NULL THEN NULL
           WHEN {BY_OWNER} OR {OTHER_SESSION} THEN datetime('now')
           ELSE owner_seen END
   WHERE task_id = NEW.task_id;
  INSERT INTO podium_events
         (task_id, actor, from_state, to_state, session_id, worked_by, last_message)
  SELECT NEW.task_id,
         coalesce(NEW.actor,
                  CASE WHEN {_is(Kind.CONDUCTOR, "NEW")} OR {OTHER_SESSION}
                         OR {_any(_listed(Kind.TASK, Role.MUSICIAN))} THEN NEW.session_id END,
                  '{CONDUCTOR_ROW}'),
         OLD.state, NEW.state, NEW.session_id, worked_by,
         (SELECT ifnull(max(id), 0) FROM orchestration_messages)
    FROM orchestration_tasks WHERE task_id = NEW.task_id;
END""",
        # A heartbeat written alone is the owner's; `moves` tells it from the one written above.
        "beat": """AFTER UPDATE OF last_heartbeat ON orchestration_tasks
WHEN NEW.moves = OLD.moves AND NEW.state = OLD.state AND NEW.session_id IS OLD.session_id
 AND NEW.owner_seen IS NOT NULL BEGIN
  UPDATE orchestration_tasks
     SET owner_seen = ifnull(min(NEW.last_heartbeat, datetime('now')), owner_seen)
   WHERE task_id = NEW.task_id;
END""",
        "no_delete": f"""BEFORE DELETE ON orchestration_tasks
WHEN NOT {_is(Kind.FALLBACK, "OLD")} BEGIN
  SELECT RAISE(ABORT, 'podium: only fallback rows are ever deleted');
END""",
        "new_message": f"""BEFORE INSERT ON orchestration_messages BEGIN
  SELECT RAISE(ABORT, 'podium: this message id exists already; mail is never replaced')
    WHERE EXISTS (SELECT 1 FROM orchestration_messages WHERE id = NEW.id);
  SELECT RAISE(ABORT, 'podium: another session has taken over this task; run: podium why TASK')
    WHERE NEW.message_type IS NOT '{MessageType.CLAIM_BLOCKED.value}'
      AND EXISTS (SELECT 1 FROM podium_events e JOIN orchestration_tasks t USING (task_id)
                   WHERE e.task_id = NEW.task_id AND e.session_id = NEW.from_session
                     AND t.session_id IS NOT NEW.from_session);
END""",
        "message_sent": f"""AFTER INSERT ON orchestration_messages BEGIN
  SELECT RAISE(ABORT, 'podium: message ids only grow')
    WHERE NEW.id < max(1, (SELECT max(id) FROM orchestration_messages));
  SELECT RAISE(ABORT, 'podium: message ids grow by small steps, so that they never run out')
    WHERE NEW.id > {LARGEST_STEP} + ifnull((SELECT max(id) FROM orchestration_messages
                                             WHERE id < NEW.id), 0);
  UPDATE orchestration_tasks SET owner_seen = NULL, last_error = {NOBODY_DIED}
   WHERE task_id = NEW.task_id
     AND NEW.message_type = '{MessageType.HANDOFF.value}' AND NEW.from_session = '{CONDUCTOR_ROW}';
  UPDATE orchestration_tasks SET owner_seen = datetime('now')
   WHERE session_id = NEW.from_session AND owner_seen IS NOT NULL;
END""",
    }
    # An INSERT OR REPLACE deletes what is in its way without asking the rules for DELETE.
    rules["new_event"] = """BEFORE INSERT ON podium_events
WHEN EXISTS (SELECT 1 FROM podium_events WHERE id = NEW.id) BEGIN
  SELECT RAISE(ABORT, 'podium: the log is append-only');
END"""
    rules["event_logged"] = """AFTER INSERT ON podium_events
WHEN NEW.id < max(1, (SELECT max(id) FROM podium_events)) BEGIN
  SELECT RAISE(ABORT, 'podium: the log is append-only');
END"""
    for table, what in (("orchestration_messages", "mail"), ("podium_events", "the log")):
        for verb in ("UPDATE", "DELETE"):
            rules[f"{verb.lower()}_{table}"] = (
                f"BEFORE {verb} ON {table} BEGIN"
                f" SELECT RAISE(ABORT, 'podium: {what} is append-only'); END"
            )
    for kind in (Kind.TASK, Kind.CONDUCTOR, Kind.FALLBACK):
        rules[f"move_{kind.value}"] = (
            f"BEFORE UPDATE OF state ON orchestration_tasks\n"
            f"WHEN {_is(kind, 'NEW')} AND NOT {_legal(kind)} BEGIN\n  {_refusal(kind)};\nEND"
        )
    return {PREFIX + name: f"CREATE TRIGGER {PREFIX}{name} {body}" for name, body in rules.items()}
