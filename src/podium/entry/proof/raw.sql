-- What any program with sqlite3 might write, and how the outcome is read. Named as in queries.sql.

-- name: rows
SELECT task_id, state, session_id, owner_seen > datetime('now', '-540 seconds') AS life, claims,
       worked_by, retry_count
  FROM orchestration_tasks ORDER BY task_id;

-- name: mail
SELECT id, task_id, from_session, message_type FROM orchestration_messages WHERE id > :after ORDER BY id;

-- name: log
SELECT id, task_id, actor, from_state, to_state, session_id, worked_by, last_message
  FROM podium_events WHERE id > :after ORDER BY id;

-- name: sound
SELECT integrity_check AS found FROM pragma_integrity_check;

-- name: move
UPDATE orchestration_tasks SET state = :state WHERE task_id = :task;

-- name: claim
-- As the protocol's documents write it.
UPDATE orchestration_tasks
   SET state = 'working', session_id = :session, worked_by = 'musician-' || :task,
       started_at = datetime('now'), last_heartbeat = datetime('now'), retry_count = 0
 WHERE task_id = :task AND state IN ('watching', 'fix_proposed', 'exit_requested');

-- name: seize
UPDATE orchestration_tasks SET state = :state, session_id = :session WHERE task_id = :task;

-- name: send
INSERT INTO orchestration_messages (task_id, from_session, message, message_type)
VALUES (:task, :session, 'by hand', :kind);

-- name: insert
INSERT INTO orchestration_tasks (task_id, state, session_id) VALUES (:task, :state, :session);

-- name: delete
DELETE FROM orchestration_tasks WHERE task_id = :task;

-- name: set_retries
UPDATE orchestration_tasks SET retry_count = :number WHERE task_id = :task;

-- name: fall_silent
UPDATE orchestration_tasks SET last_heartbeat = datetime('now', '-600 seconds') WHERE task_id = :task;

-- name: rewrite
UPDATE podium_events SET actor = 'somebody else';

-- name: forget
DELETE FROM orchestration_messages;

-- name: tables
SELECT count(*) FROM sqlite_master WHERE name = 'podium_events';

-- name: shown
SELECT ifnull(max(up_to), 0) FROM podium_reads WHERE session_id = :session AND task_id = :task;

-- name: late
-- What a session wrote after the given event and message, that it was blocked excepted.
SELECT (SELECT count(*) FROM podium_events
         WHERE id > :event AND actor = :session AND task_id = :task)
     + (SELECT count(*) FROM orchestration_messages
         WHERE id > :message AND from_session = :session AND message_type <> 'claim_blocked')
     + (SELECT count(*) FROM orchestration_tasks WHERE task_id = :task AND session_id = :session);

-- name: newest
SELECT (SELECT max(id) FROM podium_events), (SELECT max(id) FROM orchestration_messages);
