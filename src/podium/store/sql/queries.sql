-- Every statement that podium runs, by name. A purpose line stands under each name.

-- name: owns_rows
-- Whether this session owns any row at all: the first question of every hook.
SELECT 1 FROM orchestration_tasks WHERE session_id = :session_id LIMIT 1;

-- name: task
SELECT *, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', owner_seen) AS INTEGER) AS owner_age
  FROM orchestration_tasks WHERE task_id = :task_id;

-- name: tasks
SELECT *, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', owner_seen) AS INTEGER) AS owner_age
  FROM orchestration_tasks ORDER BY phase, length(task_id) > 8, task_id;

-- name: tasks_of_session
SELECT *, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', owner_seen) AS INTEGER) AS owner_age
  FROM orchestration_tasks WHERE session_id = :session_id ORDER BY task_id;

-- name: add_task
INSERT INTO orchestration_tasks (task_id, state, instruction_path, phase, parallel, actor)
VALUES (:task_id, :state, :instruction_path, :phase, :parallel, :actor);

-- name: move
-- Compare-and-swap: one row or none. The caller reads the count.
UPDATE orchestration_tasks
   SET state = :to_state, actor = :actor, last_heartbeat = datetime('now')
 WHERE task_id = :task_id AND state = :found AND session_id IS :session_id;

-- name: claim
-- One row for the one session that wins; the triggers refuse a living owner and unmet needs.
UPDATE orchestration_tasks
   SET state = :to_state, session_id = :session_id, started_at = datetime('now'),
       last_heartbeat = datetime('now'), retry_count = 0, actor = :session_id
 WHERE task_id = :task_id AND state IN (SELECT value FROM json_each(:claimable));

-- name: take_podium
-- A conductor that comes back or takes over; the triggers refuse a living owner.
UPDATE orchestration_tasks
   SET state = :to_state, session_id = :session_id, worked_by = 'conductor',
       started_at = datetime('now'), actor = :session_id
 WHERE task_id = :task_id AND state IN (SELECT value FROM json_each(:claimable));

-- name: add_fallback
-- Lets a session whose claim was blocked end; it stays the same row however often it tries.
INSERT INTO orchestration_tasks (task_id, state, session_id, last_heartbeat, actor)
SELECT :task_id, :state, :session_id, datetime('now'), :session_id
 WHERE NOT EXISTS (SELECT 1 FROM orchestration_tasks WHERE task_id = :task_id);

-- name: delete_fallback
DELETE FROM orchestration_tasks WHERE task_id = :task_id;

-- name: set_error
UPDATE orchestration_tasks
   SET last_error = :last_error, retry_count = retry_count + :counted
 WHERE task_id = :task_id;

-- name: set_completed
UPDATE orchestration_tasks
   SET completed_at = datetime('now'), report_path = :report_path
 WHERE task_id = :task_id;

-- name: beat
-- A sign of life in every row of the session that it has not let go.
UPDATE orchestration_tasks SET last_heartbeat = datetime('now')
 WHERE session_id = :session_id AND owner_seen IS NOT NULL;

-- name: follow_clear
-- /clear gave the session a new id: its rows go with it.
UPDATE orchestration_tasks SET session_id = :session_id, actor = :session_id
 WHERE session_id = :continues;

-- name: former_owner
-- Whether the session owned the row before its present owner.
SELECT 1 FROM podium_events
 WHERE task_id = :task_id AND session_id = :session_id LIMIT 1;

-- name: send
INSERT INTO orchestration_messages (task_id, from_session, message, message_type)
VALUES (:task_id, :from_session, :message, :message_type);

-- name: message
SELECT * FROM orchestration_messages WHERE id = :id;

-- name: last_sent
SELECT max(id) AS id FROM orchestration_messages;

-- name: latest_of_type
SELECT * FROM orchestration_messages
 WHERE task_id = :task_id AND message_type = :message_type ORDER BY id DESC LIMIT 1;

-- name: latest_verdict
-- The conductor's newest word on a task since the given message.
SELECT to_state FROM podium_events
 WHERE task_id = :task_id AND last_message >= :since
   AND to_state IN (SELECT value FROM json_each(:verdicts))
 ORDER BY id DESC LIMIT 1;

-- name: unread
-- Mail of a task from others than the reader, in order.
SELECT m.* FROM orchestration_messages m
 WHERE m.task_id = :task_id AND m.from_session = :sender
   AND m.id > ifnull((SELECT up_to FROM podium_reads
                       WHERE session_id = :session_id AND task_id = :task_id), 0)
 ORDER BY m.id LIMIT :most;

-- name: unread_of_conductor
-- Mail of all musicians that the conductor has not been shown.
SELECT m.* FROM orchestration_messages m
 WHERE m.from_session <> :conductor
   AND m.id > ifnull((SELECT up_to FROM podium_reads
                       WHERE session_id = :session_id AND task_id = :conductor), 0)
 ORDER BY m.id LIMIT :most;

-- name: mark_read
INSERT INTO podium_reads (session_id, task_id, up_to) VALUES (:session_id, :task_id, :up_to)
ON CONFLICT (session_id, task_id) DO UPDATE SET up_to = max(up_to, excluded.up_to);

-- name: messages
-- Mail, newest last; of one task or of all.
SELECT * FROM (SELECT * FROM orchestration_messages
                WHERE (:task_id IS NULL OR task_id = :task_id)
                  AND (:message_type IS NULL OR message_type = :message_type)
                ORDER BY id DESC LIMIT :most) ORDER BY id;

-- name: events
SELECT * FROM (SELECT * FROM podium_events
                WHERE (:task_id IS NULL OR task_id = :task_id)
                ORDER BY id DESC LIMIT :most) ORDER BY id;

-- name: session
SELECT * FROM podium_sessions WHERE session_id = :session_id;

-- name: sessions
SELECT * FROM podium_sessions ORDER BY started_at, session_id;

-- name: session_of_process
-- The session that this client process was before /clear gave it a new id.
SELECT session_id FROM podium_sessions
 WHERE pid = :pid AND pid_started IS :pid_started AND host IS :host AND session_id <> :session_id
 ORDER BY last_seen DESC, rowid DESC LIMIT 1;

-- name: register
-- A session that started, resumed, was cleared or compacted.
INSERT INTO podium_sessions (session_id, continues, pid, pid_started, host, transcript_path, mode,
                             model, last_seen, last_progress)
VALUES (:session_id, :continues, :pid, :pid_started, :host, :transcript_path, :mode, :model,
        datetime('now'), datetime('now'))
ON CONFLICT (session_id) DO UPDATE
   SET continues = ifnull(excluded.continues, continues), pid = excluded.pid,
       pid_started = excluded.pid_started, host = excluded.host,
       transcript_path = ifnull(excluded.transcript_path, transcript_path),
       mode = ifnull(excluded.mode, mode), model = ifnull(excluded.model, model),
       last_seen = datetime('now');

-- name: expect_session
-- A session that is about to be launched for a task.
INSERT INTO podium_sessions (session_id, task_id) VALUES (:session_id, :task_id)
ON CONFLICT (session_id) DO UPDATE SET task_id = excluded.task_id;

-- name: seen
-- Sign of life of a session, and of work where `progress` is 1.
INSERT INTO podium_sessions (session_id, last_seen, last_progress)
VALUES (:session_id, datetime('now'), CASE WHEN :progress THEN datetime('now') END)
ON CONFLICT (session_id) DO UPDATE
   SET last_seen = datetime('now'),
       last_progress = CASE WHEN :progress THEN datetime('now') ELSE last_progress END;

-- name: record_stop
-- What the Stop hook decided; a continuation is counted, and the count is kept.
INSERT INTO podium_sessions (session_id, continuations, last_seen, last_stop_at, last_stop)
VALUES (:session_id, :counted, datetime('now'), datetime('now'), :last_stop)
ON CONFLICT (session_id) DO UPDATE
   SET continuations = continuations + :counted, last_seen = datetime('now'),
       last_stop_at = datetime('now'), last_stop = excluded.last_stop;

-- name: add_need
INSERT INTO podium_needs (task_id, needs) VALUES (:task_id, :needs);

-- name: clear_needs
DELETE FROM podium_needs WHERE task_id = :task_id;

-- name: needs
SELECT n.task_id, n.needs, t.state FROM podium_needs n
  LEFT JOIN orchestration_tasks t ON t.task_id = n.needs ORDER BY n.task_id, n.needs;

-- name: unmet_needs
SELECT n.needs FROM podium_needs n LEFT JOIN orchestration_tasks t ON t.task_id = n.needs
 WHERE n.task_id = :task_id AND t.state IS NOT :complete ORDER BY n.needs;

-- name: continued_by
-- The id that this session got at /clear.
SELECT session_id FROM podium_sessions WHERE continues = :session_id
 ORDER BY rowid DESC LIMIT 1;

-- name: lost_task
-- The task that this session owned last and owns no more.
SELECT e.task_id FROM podium_events e JOIN orchestration_tasks t USING (task_id)
 WHERE e.session_id = :session_id AND t.session_id IS NOT :session_id
 ORDER BY e.id DESC LIMIT 1;
