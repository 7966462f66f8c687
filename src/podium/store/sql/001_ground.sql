-- The two tables that carry the protocol, and podium's own beside them.
-- The lists of states and message types, and the triggers, are generated from podium.domain.
CREATE TABLE orchestration_tasks (
    task_id          TEXT PRIMARY KEY NOT NULL,
    state            TEXT NOT NULL CHECK (state IN (:states)),
    instruction_path TEXT,
    session_id       TEXT,
    worked_by        TEXT,
    started_at       TEXT,
    completed_at     TEXT,
    report_path      TEXT,
    retry_count      INTEGER NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND :error_retries),
    last_heartbeat   TEXT,
    last_error       TEXT,
    -- podium's own
    phase            INTEGER NOT NULL DEFAULT 1,
    parallel         INTEGER NOT NULL DEFAULT 0,
    claims           INTEGER NOT NULL DEFAULT 0,  -- sessions that took the row, one after another
    owner_seen       TEXT,                        -- the owner's last sign of life; NULL: let go
    moves            INTEGER NOT NULL DEFAULT 0,  -- grows with every change of state or owner
    actor            TEXT,                        -- who makes the change being written; else NULL
    -- A blob in a column of text is no text to whoever reads it.
    CHECK ('blob' NOT IN (typeof(task_id), typeof(instruction_path), typeof(session_id),
                          typeof(worked_by), typeof(started_at), typeof(completed_at),
                          typeof(report_path), typeof(last_heartbeat), typeof(last_error),
                          typeof(actor)))
) WITHOUT ROWID;  -- REPLACE on a rowid would push out another row past every trigger
CREATE INDEX orchestration_tasks_by_session ON orchestration_tasks (session_id);

CREATE TABLE orchestration_messages (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id      TEXT NOT NULL,
    from_session TEXT NOT NULL,
    message      TEXT NOT NULL,
    message_type TEXT NOT NULL CHECK (message_type IN (:message_types)),
    timestamp    TEXT NOT NULL DEFAULT (datetime('now')),
    CHECK ('blob' NOT IN (typeof(task_id), typeof(from_session), typeof(message),
                          typeof(timestamp)))
);
CREATE INDEX orchestration_messages_by_task ON orchestration_messages (task_id, id);
CREATE INDEX orchestration_messages_by_type ON orchestration_messages (message_type, id);

-- What happened: one line for every change of state or owner, written by trigger.
CREATE TABLE podium_events (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id      TEXT NOT NULL,
    at           TEXT NOT NULL DEFAULT (datetime('now')),
    actor        TEXT,
    from_state   TEXT,
    to_state     TEXT NOT NULL,
    session_id   TEXT,
    worked_by    TEXT,
    last_message INTEGER NOT NULL  -- the newest message of anybody when it happened
);
CREATE INDEX podium_events_by_task ON podium_events (task_id, id);
CREATE INDEX podium_events_by_session ON podium_events (session_id, id);

-- What podium knows of the client sessions of this project.
CREATE TABLE podium_sessions (
    session_id      TEXT PRIMARY KEY NOT NULL,
    task_id         TEXT,               -- launched for this task
    continues       TEXT,               -- the id that the same session had before /clear
    pid             INTEGER,            -- the client, proven by its start time on its host
    pid_started     TEXT,
    host            TEXT,
    transcript_path TEXT,
    mode            TEXT,               -- the client's entry point: cli, sdk-cli
    model           TEXT,
    started_at      TEXT NOT NULL DEFAULT (datetime('now')),
    last_seen       TEXT,               -- sign of life
    last_progress   TEXT,               -- sign of work
    continuations   INTEGER NOT NULL DEFAULT 0,  -- turns that the Stop hook made go on
    blocks_in_row   INTEGER NOT NULL DEFAULT 0,  -- of these, without a tool call between
    last_stop_at    TEXT,
    last_stop       TEXT,               -- what the Stop hook decided, and why
    bell            TEXT,               -- the file that wakes it when it is idle
    halted          TEXT,               -- alive, but stopped by an API error: which
    ended_at        TEXT,
    ended           TEXT                -- how it ended
);
CREATE INDEX podium_sessions_by_pid ON podium_sessions (pid);
CREATE INDEX podium_sessions_by_task ON podium_sessions (task_id);
CREATE INDEX podium_sessions_by_continues ON podium_sessions (continues);

-- The newest message of a task that a session has been shown.
CREATE TABLE podium_reads (
    session_id TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    up_to      INTEGER NOT NULL,
    PRIMARY KEY (session_id, task_id)
) WITHOUT ROWID;

-- What a session is told once: a threshold crossed, a thing that needs the conductor.
CREATE TABLE podium_told (
    session_id TEXT NOT NULL,
    what       TEXT NOT NULL,
    PRIMARY KEY (session_id, what)
) WITHOUT ROWID;

-- Measured context, one line for every change.
CREATE TABLE podium_context (
    session_id TEXT NOT NULL,
    at         TEXT NOT NULL DEFAULT (datetime('now')),
    tokens     INTEGER NOT NULL,
    percent    INTEGER NOT NULL
);
CREATE INDEX podium_context_by_session ON podium_context (session_id, at);

-- A task may be claimed when everything it needs is complete.
CREATE TABLE podium_needs (
    task_id TEXT NOT NULL,
    needs   TEXT NOT NULL,
    PRIMARY KEY (task_id, needs)
) WITHOUT ROWID;

-- Sessions that podium started: in what window, as which process, and what became of them.
CREATE TABLE podium_launches (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id     TEXT NOT NULL,
    session_id  TEXT,               -- chosen beforehand where the client lets it
    backend     TEXT NOT NULL,
    cwd         TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'starting' CHECK (state IN ('starting', 'playing', 'failed', 'closed')),
    window      TEXT,               -- JSON, as the backend finds it again
    reach       TEXT,               -- how a person gets to it
    pid         INTEGER,            -- the client, proven by its start time on its host
    pid_started TEXT,
    host        TEXT,
    at          TEXT NOT NULL DEFAULT (datetime('now')),
    closed_at   TEXT,               -- since when nothing is left of its window
    note        TEXT                -- why it failed, and what its window said
);
CREATE INDEX podium_launches_by_task ON podium_launches (task_id, id);

-- A session that stands at a question to a person: what it asks, and since when.
ALTER TABLE podium_sessions ADD COLUMN asking TEXT;
ALTER TABLE podium_sessions ADD COLUMN asking_since TEXT;
