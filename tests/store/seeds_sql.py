"""Every SQL statement of the five documents that the protocol comes from, in their order.

The text is theirs, placeholders included; `FILL` says what stands for each. A block runs its
statements one after another, in the situation that its document describes. The first document,
on the musician's states, holds a guard clause and no statement (see GUARD), the last one, on the
musician's queries, describes in words what the fourth writes out.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

ME, OTHER = "abc123-def456-789", "xyz789-abc012-345"
NOW = object()  # a time of the last minute
GUARD = "WHERE state IN ('watching', 'fix_proposed', 'exit_requested')"
ALLOW = ("watching", "fix_proposed", "exit_requested")
BLOCK = (
    "working",
    "complete",
    "exited",
    "review_approved",
    "review_failed",
    "error",
    "needs_review",
)

FILL = {
    "$CLAUDE_SESSION_ID": ME,
    "{session_id}": ME,
    "{session-id}": ME,
    "$SESSION_ID": ME,
    "{task-id}": "task-03",
    "{task_id}": "task-03",
    "{original-task-id}": "task-03",
    "task-{NN}": "task-03",
    "task-XX": "task-03",
    "$TASK_ID": "task-03",
    "{last_processed_message_id}": "1",
    "$T_HEARTBEAT": "2026-01-01 00:00:00",
}


def filled(sql: str) -> str:
    """The statement as it is run: no placeholder is left."""
    for placeholder, value in FILL.items():
        sql = sql.replace(placeholder, value)
    return re.sub(r"\{[^}]*\}", "something", sql)


class Step(NamedTuple):
    """One statement. `rows` is how many it changes or returns."""

    sql: str
    rows: int = 1
    then: dict[str, Any] = {}  # columns of task-03 afterwards  # noqa: RUF012
    row: str = "task-03"
    mail: tuple[str, str, str] | None = None  # task, sender and type of the message it sends
    returns: list[tuple[Any, ...]] | None = None
    refused: str = ""  # what the error says


class Block(NamedTuple):
    document: str
    section: str
    given: str  # a situation of test_seeds.py
    steps: list[Step]


CLAIMED = {
    "state": "working",
    "session_id": ME,
    "started_at": NOW,
    "last_heartbeat": NOW,
    "retry_count": 0,
}
FRESH = {"last_heartbeat": NOW}
HEARTBEAT = """
UPDATE orchestration_tasks
SET last_heartbeat = datetime('now')
WHERE task_id = 'task-03';
"""
SECONDS_STALE = """
   SELECT (julianday('now') - julianday(last_heartbeat)) * 86400 as seconds_stale
   FROM orchestration_tasks WHERE task_id = '{task_id}';
"""
HEARTBEAT_IN_PROMPT = """
   UPDATE orchestration_tasks SET last_heartbeat = datetime('now')
   WHERE task_id = '{task_id}';
"""
NEW_MAIL = """
SELECT id, message, timestamp FROM orchestration_messages
WHERE task_id = 'task-03'
  AND from_session = 'task-00'
  AND id > {last_processed_message_id}
ORDER BY id;
"""

_STATES = "conductor state machine"
_CLAIM_STATES = """
UPDATE orchestration_tasks
SET state = 'working',
    session_id = '$CLAUDE_SESSION_ID',
    worked_by = 'musician-task-03',
    started_at = datetime('now'),
    last_heartbeat = datetime('now'),
    retry_count = 0
WHERE task_id = 'task-03'
  AND state IN ('watching', 'fix_proposed', 'exit_requested');
"""
_STALE = """
SELECT task_id, state,
       (julianday('now') - julianday(last_heartbeat)) * 86400 as seconds_stale
FROM orchestration_tasks
WHERE state IN ('review_approved', 'review_failed', 'fix_proposed', 'working')
  AND (julianday('now') - julianday(last_heartbeat)) * 86400 > 540;
"""
_FALLBACK = """
INSERT INTO orchestration_tasks (task_id, state, session_id, last_heartbeat)
VALUES ('fallback-$CLAUDE_SESSION_ID', 'exited', '$CLAUDE_SESSION_ID', datetime('now'));
"""
_FALLBACK_ROW = {"state": "exited", "session_id": ME, "last_heartbeat": NOW}
STATE_MACHINE = [
    Block(
        _STATES,
        "heartbeat-rule",
        "working, silent for 10 minutes",
        [
            Step(
                """
UPDATE orchestration_tasks
SET state = 'needs_review', last_heartbeat = datetime('now')
WHERE task_id = 'task-03';
""",
                then={"state": "needs_review", **FRESH},
            )
        ],
    ),
    Block(_STATES, "staleness-detection", "working", [Step(_STALE, 0)]),
    *(
        Block(_STATES, "staleness-detection", f"{state}, silent for 10 minutes", [Step(_STALE)])
        for state in ("review_approved", "review_failed", "fix_proposed", "working")
    ),
    Block(
        _STATES,
        "atomic-claim-pattern",
        "watching for a musician",
        [Step(_CLAIM_STATES, then={**CLAIMED, "worked_by": "musician-task-03"})],
    ),
    *(
        Block(
            f"musician state machine, {GUARD}",
            "guard-clause-rules",
            f"{state} of a session that is gone",
            [Step(_CLAIM_STATES, then={**CLAIMED, "worked_by": "musician-task-03-S2"})],
        )
        for state in ALLOW
    ),
    *(
        Block(
            f"musician state machine, {GUARD}",
            "guard-clause-rules",
            f"{state} of a session that is gone",
            [Step(_CLAIM_STATES, 0, then={"state": state, "session_id": OTHER})],
        )
        for state in BLOCK
    ),
    Block(
        _STATES,
        "fallback-row-pattern",
        "working for another session",
        [
            Step(_CLAIM_STATES, 0),
            Step(_FALLBACK, row=f"fallback-{ME}", then=_FALLBACK_ROW),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message, message_type)
VALUES ('task-03', '$CLAUDE_SESSION_ID',
    'CLAIM BLOCKED: Guard prevented claim on task-03. Created fallback row to exit cleanly.',
    'claim_blocked');
""",
                mail=("task-03", ME, "claim_blocked"),
            ),
        ],
    ),
]

_LIFE = "musician lifecycle"
_PROPOSE = """
UPDATE orchestration_tasks
SET state = 'fix_proposed', last_heartbeat = datetime('now')
WHERE task_id = '{task-id}';
"""
_PROPOSED = {"state": "fix_proposed", **FRESH}
_RECLAIM = _CLAIM_STATES.replace("'musician-task-03'", "'musician-task-03-S2'")
_SUCCESSOR = Step(_RECLAIM, then={**CLAIMED, "worked_by": "musician-task-03-S2"})
LIFECYCLE = [
    Block(
        _LIFE,
        "clean-handoff, then guard-clause-reclaiming",
        "exited of a session that is gone",
        [
            Step(_PROPOSE, then=_PROPOSED),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message, message_type) VALUES (
    '{task-id}', 'task-00',
    'HANDOFF RECEIVED: Musician session exited cleanly due to context exhaustion.
     Previous session: {worked_by}
     HANDOFF: temp/{task-id}-HANDOFF
     Context usage: {XX}%
     Next musician: {worked_by-SN}
     Action: Replacement session launched automatically.',
    'handoff'
);
""",
                mail=("task-03", "task-00", "handoff"),
            ),
            _SUCCESSOR,
        ],
    ),
    *(
        Block(
            _LIFE,
            "crash-handoff, then guard-clause-reclaiming",
            given,
            [
                Step(_PROPOSE, then=_PROPOSED),
                Step(
                    """
INSERT INTO orchestration_messages (task_id, from_session, message, message_type) VALUES (
    '{task-id}', 'task-00',
    'CRASH DETECTED: No HANDOFF doc. Previous session lost context or crashed.
     Last known state: temp/{task-id}-status
     Last completed: {step N} ({description})
     Context at crash: {XX}%
     Deviations logged: {N} ({details})
     Action: Replacement session launched. Verify step {N} results before resuming step {N+1}.
     Re-run: {specific tests} from step {N}.
     Do NOT trust results from step {N+1} (may be partial/broken).',
    'handoff'
);
""",
                    mail=("task-03", "task-00", "handoff"),
                ),
                _SUCCESSOR,
            ],
        )
        for given in (
            "working for another session",
            *(
                f"{state} of a session that is gone"
                for state in ("review_approved", "needs_review", "error", "review_failed")
            ),
        )
    ),
    Block(
        _LIFE,
        "retry-exhaustion",
        "exited of a session that is gone",
        [
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message, message_type) VALUES (
    '{task-id}', 'task-00',
    'RETRY EXHAUSTION: Musician failed after 5 attempts.
     Root cause: {from HANDOFF}
     Last error: {details}
     Correction attempts: {summary of 5 fixes tried}',
    'handoff'
);
""",
                mail=("task-03", "task-00", "handoff"),
                then={"state": "exited"},
            )
        ],
    ),
    Block(
        _LIFE,
        "post-completion-resume",
        "complete",
        [
            Step(
                """
INSERT INTO orchestration_tasks (task_id, state, instruction_path, last_heartbeat)
VALUES ('{original-task-id}-fix', 'watching', NULL, datetime('now'));
""",
                row="task-03-fix",
                then={"state": "watching", "instruction_path": None, **FRESH},
            ),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message, message_type) VALUES (
    '{original-task-id}-fix', 'task-00',
    'FIX TASK: Integration error found by {discovering-task-id}.
     Error: {description of the integration issue}
     Fix required: {specific correction needed}
     Original task: {original-task-id}
     Original session: {session-id from orchestration_tasks}',
    'instruction'
);
""",
                mail=("task-03-fix", "task-00", "instruction"),
            ),
            Step(
                """
SELECT session_id FROM orchestration_tasks WHERE task_id = '{original-task-id}';
""",
                returns=[(ME,)],
            ),
            Step(
                """
SELECT message FROM orchestration_messages WHERE task_id = '{original-task-id}-fix' AND message_type = 'instruction';
"""  # noqa: E501
            ),
            Step(
                _CLAIM_STATES.replace("task-03", "task-03-fix"),
                row="task-03-fix",
                then={**CLAIMED, "worked_by": "musician-task-03-fix"},
            ),
        ],
    ),
    Block(
        _LIFE,
        "guard-clause-reclaiming",
        "fix_proposed of a session that is gone",
        [_SUCCESSOR],
    ),
    Block(
        _LIFE,
        "claim-collision-recovery",
        "working for another session",
        [
            Step(_RECLAIM, 0),
            Step(_FALLBACK, row=f"fallback-{ME}", then=_FALLBACK_ROW),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message, message_type)
VALUES ('{task-id}', '$CLAUDE_SESSION_ID',
    'CLAIM BLOCKED: Guard prevented claim on {task-id}. Created fallback row to exit cleanly.',
    'claim_blocked');
""",
                mail=("task-03", ME, "claim_blocked"),
            ),
            Step(
                """
-- Clean up fallback row after resolution
DELETE FROM orchestration_tasks WHERE task_id = 'fallback-{session-id}';
""",
                then={"state": "working", "session_id": OTHER},
            ),
        ],
    ),
    Block(
        _LIFE,
        "replacement-session-launch",
        "fix_proposed of a session that is gone",
        [
            Step(
                """
SELECT message FROM orchestration_messages WHERE task_id = 'task-XX' AND message_type = 'instruction';
""",  # noqa: E501
                returns=[("docs/tasks/task-03.md",)],
            )
        ],
    ),
]

_DESIGN = "musician design"
_CLAIM_DESIGN = _CLAIM_STATES.replace("$CLAUDE_SESSION_ID", "{session_id}")
_CLAIM_QUERY = _CLAIM_DESIGN.replace("task-03", "task-{NN}")
_FALLBACK_DESIGN = """
INSERT INTO orchestration_tasks (task_id, state, session_id, last_heartbeat)
VALUES ('fallback-{session_id}', 'exited', '{session_id}', datetime('now'));
"""
DESIGN = [
    Block(
        _DESIGN,
        "Bootstrap 3, Atomic Task Claim",
        "watching for a musician",
        [
            Step(_CLAIM_DESIGN, then={**CLAIMED, "worked_by": "musician-task-03"}),
            Step(_CLAIM_DESIGN, 0),
        ],
    ),
    Block(
        _DESIGN,
        "Bootstrap 4, Guard Block Fallback",
        "working for another session",
        [
            Step(_CLAIM_DESIGN, 0),
            Step(
                "-- Create fallback row (NO guard — must always succeed)" + _FALLBACK_DESIGN,
                row=f"fallback-{ME}",
                then=_FALLBACK_ROW,
            ),
            Step(
                """
-- Notify conductor
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-03', '{session_id}', 'claim_blocked',
    'CLAIM BLOCKED: Guard prevented claim on task-03 (state was not claimable).
     Created fallback row to exit cleanly. Conductor intervention needed.');
""",
                mail=("task-03", ME, "claim_blocked"),
            ),
        ],
    ),
    Block(
        _DESIGN,
        "Bootstrap 6, Read Task Instructions",
        "working",
        [
            Step(
                """
SELECT message FROM orchestration_messages
WHERE task_id = 'task-03' AND from_session = 'task-00'
ORDER BY timestamp ASC LIMIT 1;
""",
                returns=[("docs/tasks/task-03.md",)],
            )
        ],
    ),
    Block(
        _DESIGN,
        "Database Queries for Parallel Awareness",
        "working",
        [
            Step(
                """
SELECT task_id, state, last_heartbeat
FROM orchestration_tasks
WHERE task_id != 'task-00' AND task_id != 'task-03'
ORDER BY task_id;
""",
                returns=[("task-04", "watching", NOW)],
            ),
            Step(NEW_MAIL, returns=[(2, "mind the tempo", NOW)]),
        ],
    ),
    *(
        Block(
            _DESIGN,
            section,
            "working, silent for 10 minutes",
            [Step(HEARTBEAT, then={"state": "working", **FRESH})],
        )
        for section in ("Heartbeat Refresh (Both Modes)", "Heartbeat Protocol")
    ),
    Block(
        _DESIGN,
        "Background Watcher, Query",
        "working",
        [Step(NEW_MAIL, returns=[(2, "mind the tempo", NOW)])],
    ),
    Block(
        _DESIGN,
        "Pause Watcher, Exit condition query",
        "review_approved",
        [
            Step(
                """
SELECT state FROM orchestration_tasks
WHERE task_id = 'task-03';
""",
                returns=[("review_approved",)],
            ),
            Step(
                "SELECT last_heartbeat FROM orchestration_tasks WHERE task_id = 'task-00'",
                returns=[(NOW,)],
            ),
        ],
    ),
    # An abbreviation in its document: without a WHERE it means every row, so it is done where every
    # row may be completed, and refused whole where one may not.
    Block(
        _DESIGN,
        "Completion Flow, LAST STEP",
        "approved at last, all others complete",
        [
            Step(
                "UPDATE orchestration_tasks SET state = 'complete'",
                3,
                then={"state": "complete", **FRESH},
            )
        ],
    ),
    Block(
        _DESIGN,
        "Completion Flow, LAST STEP",
        "review_approved",
        [
            Step(
                "UPDATE orchestration_tasks SET state = 'complete'",
                refused="this row is watching",
                then={"state": "review_approved"},
            )
        ],
    ),
    Block(
        _DESIGN,
        "Background Watcher Prompt Template",
        "working, silent for 10 minutes",
        [
            Step(
                """
   SELECT id, message, timestamp FROM orchestration_messages
   WHERE task_id = '{task_id}'
     AND from_session = 'task-00'
     AND id > {last_processed_message_id}
   ORDER BY id;
""",
                returns=[(2, "mind the tempo", NOW)],
            ),
            Step(SECONDS_STALE),
            Step(HEARTBEAT_IN_PROMPT, then={"state": "working", **FRESH}),
        ],
    ),
    Block(
        _DESIGN,
        "Pause Watcher Prompt Template",
        "error, silent for 10 minutes",
        [
            Step(
                """
   SELECT state FROM orchestration_tasks WHERE task_id = '{task_id}';
""",
                returns=[("error",)],
            ),
            Step(SECONDS_STALE),
            Step(HEARTBEAT_IN_PROMPT, then={"state": "error", **FRESH}),
            Step(
                """
   SELECT last_heartbeat, (julianday('now') - julianday(last_heartbeat)) * 86400 as orch_stale
   FROM orchestration_tasks WHERE task_id = 'task-00';
"""
            ),
        ],
    ),
    Block(
        _DESIGN,
        "Bootstrap Queries 1, Atomic Task Claim",
        "watching for a musician",
        [Step(_CLAIM_QUERY, then={**CLAIMED, "worked_by": "musician-task-03"})],
    ),
    Block(
        _DESIGN,
        "Bootstrap Queries 2, Guard Block Fallback",
        "working for another session",
        [
            Step(_CLAIM_QUERY, 0),
            Step(_FALLBACK_DESIGN, row=f"fallback-{ME}", then=_FALLBACK_ROW),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-{NN}', '{session_id}', 'claim_blocked',
    'CLAIM BLOCKED: Guard prevented claim on task-{NN}. Conductor intervention needed.');
""",
                mail=("task-03", ME, "claim_blocked"),
            ),
        ],
    ),
    Block(
        _DESIGN,
        "Bootstrap Queries 3, Read Task Instruction",
        "working",
        [
            Step(
                """
SELECT message FROM orchestration_messages
WHERE task_id = 'task-{NN}' AND from_session = 'task-00'
  AND message_type = 'instruction'
ORDER BY timestamp ASC LIMIT 1;
""",
                returns=[("docs/tasks/task-03.md",)],
            )
        ],
    ),
    Block(
        _DESIGN,
        "Execution Queries 4, Heartbeat Update",
        "working, silent for 10 minutes",
        [Step(HEARTBEAT.replace("task-03", "task-{NN}"), then={"state": "working", **FRESH})],
    ),
    *(
        Block(
            _DESIGN,
            "Execution Queries 5, Review Request",
            given,
            [
                Step(
                    """
UPDATE orchestration_tasks
SET state = 'needs_review', last_heartbeat = datetime('now')
WHERE task_id = 'task-{NN}';
""",
                    then={"state": "needs_review", **FRESH},
                ),
                Step(
                    """
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-{NN}', '{session_id}', 'review_request',
    'REVIEW REQUEST (Smoothness: X/9):
     Checkpoint: N of M
     Context Usage: XX%
     Self-Correction: YES/NO (details)
     Deviations: N (severity — description)
     Agents Remaining: N (~X% each, ~Y% total)
     Proposal: path/to/proposal.md
     Summary: what was accomplished
     Files Modified: N
     Tests: status
     Key Outputs:
       - path/to/file (created)
       - path/to/other (modified)');
""",
                    mail=("task-03", ME, "review_request"),
                ),
            ],
        )
        for given in ("working", "review_approved", "review_failed", "fix_proposed")
    ),
    Block(
        _DESIGN,
        "Execution Queries 6, Context Warning",
        "working",
        [
            Step(
                """
UPDATE orchestration_tasks
SET state = 'error', last_heartbeat = datetime('now'),
    last_error = 'context_exhaustion_warning'
WHERE task_id = 'task-{NN}';
""",
                then={
                    "state": "error",
                    "last_error": "context_exhaustion_warning",
                    "retry_count": 0,
                    **FRESH,
                },
            ),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-{NN}', '{session_id}', 'context_warning',
    'CONTEXT WARNING: XX% usage
     Self-Correction: YES/NO
     Agents Remaining: N (~X% each, ~Y% total)
     Agents That Fit in 65% Budget: N
     Deviations: N (details)
     Awaiting conductor instructions');
""",
                mail=("task-03", ME, "context_warning"),
            ),
        ],
    ),
    *(
        Block(
            _DESIGN,
            "Execution Queries 7, Error Report",
            given,
            [
                Step(
                    """
UPDATE orchestration_tasks
SET state = 'error', last_heartbeat = datetime('now'),
    retry_count = retry_count + 1,
    last_error = 'error description'
WHERE task_id = 'task-{NN}';
""",
                    then={
                        "state": "error",
                        "last_error": "error description",
                        "retry_count": 1,
                        **FRESH,
                    },
                ),
                Step(
                    """
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-{NN}', '{session_id}', 'error',
    'ERROR (Retry N/5):
     Context Usage: XX%
     Self-Correction: YES/NO
     Error: description
     Report: path/to/error-report.md
     Key Outputs:
       - path/to/file (created)
     Awaiting conductor fix proposal');
""",
                    mail=("task-03", ME, "error"),
                ),
            ],
        )
        for given in ("working", "needs_review")  # the second: the conductor never answered
    ),
    Block(
        _DESIGN,
        "Execution Queries 8 and 9, Completion Report, Final Complete",
        "working",
        [
            Step(
                """
UPDATE orchestration_tasks
SET state = 'needs_review', last_heartbeat = datetime('now')
WHERE task_id = 'task-{NN}';
""",
                then={"state": "needs_review", **FRESH},
            ),
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-{NN}', '{session_id}', 'completion',
    'TASK COMPLETE (Smoothness: X/9):
     Context Usage: XX%
     Self-Correction: YES/NO
     Deviations: N
     Report: path/to/completion-report.md
     Summary: all deliverables created
     Files Modified: N
     Tests: status
     Key Outputs:
       - path/to/file (created)
       - path/to/other (modified)');
""",
                mail=("task-03", ME, "completion"),
            ),
        ],
    ),
    Block(
        _DESIGN,
        "Execution Queries 9, Final Complete",
        "review_approved",
        [
            Step(
                """
UPDATE orchestration_tasks
SET state = 'complete', last_heartbeat = datetime('now'),
    completed_at = datetime('now'),
    report_path = 'path/to/completion-report.md'
WHERE task_id = 'task-{NN}';
""",
                then={
                    "state": "complete",
                    "completed_at": NOW,
                    "report_path": "path/to/completion-report.md",
                    **FRESH,
                },
            )
        ],
    ),
    Block(
        _DESIGN,
        "Execution Queries 10, Clean Exit",
        "working",
        [
            Step(
                """
INSERT INTO orchestration_messages (task_id, from_session, message_type, message)
VALUES ('task-{NN}', '{session_id}', 'handoff',
    'EXITED: Context exhaustion, clean handoff prepared.
     HANDOFF: temp/task-{NN}-HANDOFF
     Context Usage: XX%
     Last Completed Step: N
     Remaining Steps: list');
""",
                mail=("task-03", ME, "handoff"),
                then={"state": "working"},
            ),
            Step(
                """
UPDATE orchestration_tasks
SET state = 'exited', last_heartbeat = datetime('now')
WHERE task_id = 'task-{NN}';
""",
                then={"state": "exited", **FRESH},
            ),
        ],
    ),
    Block(
        _DESIGN,
        "Parallel Awareness Queries 11 and 12",
        "working",
        [
            Step(
                """
SELECT task_id, state, last_heartbeat
FROM orchestration_tasks
WHERE task_id != 'task-00' AND task_id != 'task-{NN}'
ORDER BY task_id;
""",
                returns=[("task-04", "watching", NOW)],
            ),
            Step(
                """
SELECT state, last_heartbeat,
       (julianday('now') - julianday(last_heartbeat)) * 86400 as seconds_stale
FROM orchestration_tasks
WHERE task_id = 'task-00';
"""
            ),
        ],
    ),
    Block(
        _DESIGN,
        "Example Clean Exit, Step 8, Set Terminal State",
        "review_approved",
        [
            Step(
                """
UPDATE orchestration_tasks
SET state = 'exited', last_heartbeat = datetime('now')
WHERE task_id = 'task-03';
""",
                then={"state": "exited", **FRESH},
            )
        ],
    ),
    Block(
        _DESIGN,
        "Script validate-musician-state.sh",
        "working",
        [
            Step(
                "SELECT task_id, state, session_id, worked_by, last_heartbeat, retry_count"
                " FROM orchestration_tasks WHERE task_id='$TASK_ID';",
                returns=[("task-03", "working", ME, "musician-task-03", NOW, 0)],
            ),
            Step("SELECT CAST((julianday('now') - julianday('$T_HEARTBEAT')) * 86400 AS INTEGER);"),
            Step(
                "SELECT COUNT(*) FROM orchestration_messages WHERE task_id='$TASK_ID'"
                " AND from_session='task-00' AND timestamp > '$T_HEARTBEAT';",
                returns=[(2,)],
            ),
            Step(
                "SELECT COUNT(*) FROM orchestration_messages WHERE task_id='$TASK_ID'"
                " AND from_session='task-00';",
                returns=[(2,)],
            ),
            Step(
                "SELECT task_id FROM orchestration_tasks WHERE task_id LIKE 'fallback-%'"
                " AND session_id='$SESSION_ID';",
                0,
            ),
        ],
    ),
]

SEEDS = [*STATE_MACHINE, *LIFECYCLE, *DESIGN]
