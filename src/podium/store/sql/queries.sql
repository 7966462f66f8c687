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
   SET state = :to_state, actor = CASE WHEN state <> :to_state THEN :actor END
 WHERE task_id = :task_id AND state = :found AND session_id IS :session_id;

-- name: claim
-- One row for the one session that wins; the triggers refuse a living owner and unmet needs.
UPDATE orchestration_tasks
   SET state = :to_state, session_id = :session_id, started_at = datetime('now'),
       last_heartbeat = datetime('now'), retry_count = 0, actor = :session_id
 WHERE task_id = :task_id AND state IN (SELECT value FROM json_each(:claimable));

-- name: take_podium
-- A conductor that comes back or takes over; the triggers refuse a living owner. One that only
-- comes back from the dead moves nothing, so that is no event.
UPDATE orchestration_tasks
   SET state = :to_state, session_id = :session_id, worked_by = 'conductor',
       started_at = datetime('now'),
       owner_seen = CASE WHEN session_id IS :session_id THEN datetime('now') ELSE owner_seen END,
       last_error = CASE WHEN last_error GLOB 'session ended*' THEN NULL ELSE last_error END,
       actor = CASE WHEN state <> :to_state OR session_id IS NOT :session_id THEN :session_id END
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

-- name: latest_submission
-- The newest message of a task of these types; podium's own letter about a cap is none.
SELECT * FROM orchestration_messages
 WHERE task_id = :task_id AND message_type IN (SELECT value FROM json_each(:types))
   AND NOT (message_type = :error AND message GLOB :let_go || '*')
 ORDER BY id DESC LIMIT 1;

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

-- name: unread_let_go
-- Podium's own letters about a cap that the conductor has not been shown, whatever came between.
SELECT m.* FROM orchestration_messages m
 WHERE m.message_type = :message_type AND m.message GLOB :let_go || '*'
   AND m.from_session <> :conductor
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
                             model, bell, last_seen, last_progress)
VALUES (:session_id, :continues, :pid, :pid_started, :host, :transcript_path, :mode, :model, :bell,
        datetime('now'), datetime('now'))
ON CONFLICT (session_id) DO UPDATE
   SET continues = ifnull(excluded.continues, continues), pid = excluded.pid,
       pid_started = excluded.pid_started, host = excluded.host,
       transcript_path = ifnull(excluded.transcript_path, transcript_path),
       mode = ifnull(excluded.mode, mode), model = ifnull(excluded.model, model),
       bell = excluded.bell, halted = NULL, asking = NULL, ended_at = NULL, ended = NULL, blocks_in_row = 0,
       last_seen = datetime('now');

-- name: revive
-- A session that came back is the living owner of what it had not let go.
UPDATE orchestration_tasks
   SET owner_seen = datetime('now'), last_error = CASE WHEN last_error GLOB 'session ended*'
                                                        THEN NULL ELSE last_error END
 WHERE session_id = :session_id AND state NOT IN (SELECT value FROM json_each(:released))
   AND (owner_seen IS NOT NULL OR last_error GLOB 'session ended*');

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
       last_progress = CASE WHEN :progress THEN datetime('now') ELSE last_progress END,
       blocks_in_row = CASE WHEN :progress THEN 0 ELSE blocks_in_row END,
       halted = CASE WHEN :progress THEN NULL ELSE halted END,
       asking = CASE WHEN :progress THEN NULL ELSE asking END;

-- name: record_stop
-- What the Stop hook decided; a continuation is counted, and the count is kept.
INSERT INTO podium_sessions (session_id, continuations, blocks_in_row, last_seen, last_stop_at,
                             last_stop)
VALUES (:session_id, :counted, :in_row, datetime('now'), datetime('now'), :last_stop)
ON CONFLICT (session_id) DO UPDATE
   SET continuations = continuations + :counted, blocks_in_row = :in_row, halted = NULL, asking = NULL,
       last_seen = datetime('now'), last_stop_at = datetime('now'), last_stop = excluded.last_stop;

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

-- comms-link

-- name: current_session
-- The id that a session goes by now: /clear gives it a new one, a server keeps the one it began with.
WITH RECURSIVE chain (id, step) AS (
  SELECT :session_id, 0
  UNION ALL
  SELECT s.session_id, chain.step + 1 FROM chain JOIN podium_sessions s ON s.continues = chain.id
   WHERE chain.step < 1000
)
SELECT id FROM chain LEFT JOIN podium_sessions s ON s.session_id = chain.id
 ORDER BY step DESC, s.rowid DESC LIMIT 1;

-- name: trigger_names
SELECT name FROM sqlite_master WHERE type = 'trigger'
UNION SELECT name FROM sqlite_temp_master WHERE type = 'trigger';

-- name: last_message_id
-- The newest id ever given, whatever became of the message.
SELECT ifnull(max(seq), 0) AS id FROM sqlite_sequence WHERE name = 'orchestration_messages';

-- name: outcome
-- What the last statement of this connection did.
SELECT changes() AS rows_affected, last_insert_rowid() AS last_id;

-- name: sign_moves
-- Until unsigned, a change of another session's row is logged as the conductor's.
UPDATE orchestration_tasks SET actor = :conductor
 WHERE session_id IS NOT NULL AND session_id IS NOT :session_id AND task_id <> :conductor;

-- name: unsign_moves
UPDATE orchestration_tasks SET actor = NULL WHERE actor IS NOT NULL;

-- name: watch_new_rows
-- These four tell the connection that made them which rows a statement touches.
CREATE TEMP TRIGGER podium_watch_new_rows AFTER INSERT ON main.orchestration_tasks BEGIN
  SELECT podium_watch('insert', NEW.task_id, NULL, NULL, NULL, NEW.state, NEW.session_id, NEW.actor,
    NEW.last_heartbeat > datetime('now', '+5 seconds'),
    length(json_array(NEW.task_id, NEW.instruction_path, NEW.session_id, NEW.worked_by,
      NEW.started_at, NEW.completed_at, NEW.report_path, NEW.last_heartbeat, NEW.last_error)));
END;

-- name: watch_changed_rows
CREATE TEMP TRIGGER podium_watch_changed_rows AFTER UPDATE OF state, instruction_path, session_id,
  worked_by, started_at, completed_at, report_path, retry_count, last_heartbeat, last_error
ON main.orchestration_tasks BEGIN
  SELECT podium_watch('update', NEW.task_id, OLD.state, OLD.session_id, OLD.worked_by, NEW.state,
    NEW.session_id, NULL, NEW.last_heartbeat > datetime('now', '+5 seconds'),
    length(json_array(NEW.task_id, NEW.instruction_path, NEW.session_id, NEW.worked_by,
      NEW.started_at, NEW.completed_at, NEW.report_path, NEW.last_heartbeat, NEW.last_error)));
END;

-- name: watch_deleted_rows
CREATE TEMP TRIGGER podium_watch_deleted_rows AFTER DELETE ON main.orchestration_tasks BEGIN
  SELECT podium_watch('delete', OLD.task_id, OLD.state, OLD.session_id, OLD.worked_by, NULL, NULL,
    NULL, 0, 0);
END;

-- name: watch_mail
CREATE TEMP TRIGGER podium_watch_mail AFTER INSERT ON main.orchestration_messages BEGIN
  SELECT podium_watch('mail', NEW.task_id, NULL, NULL, NULL, NEW.message_type, NEW.from_session,
    NEW.id, 0, length(json_array(NEW.task_id, NEW.from_session, NEW.message, NEW.timestamp)));
END;

-- name: urgent
-- Rows that may need the conductor: in trouble, submitted, left, collided, or without a sign of life.
SELECT t.*, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', t.owner_seen) AS INTEGER) AS owner_age,
       s.halted, s.ended, (SELECT max(id) FROM orchestration_messages m WHERE m.task_id = t.task_id) AS newest
  FROM orchestration_tasks t LEFT JOIN podium_sessions s ON s.session_id = t.session_id
 WHERE t.task_id <> :conductor
   AND (t.state IN (SELECT value FROM json_each(:states))
        OR t.owner_seen <= datetime('now', '-' || :stale || ' seconds')
        OR (t.owner_seen IS NOT NULL AND s.halted IS NOT NULL)
        OR (t.owner_seen IS NULL AND t.state NOT IN (SELECT value FROM json_each(:unowned)))
        OR (s.ended IS NOT NULL AND t.state NOT IN (SELECT value FROM json_each(:ended))))
 ORDER BY t.task_id;

-- name: completed
-- Tasks that are complete and that this session has not been told of.
SELECT t.task_id, t.worked_by, t.moves, NULL AS newest FROM orchestration_tasks t
 WHERE t.state = :complete AND t.task_id <> :conductor
   AND NOT EXISTS (SELECT 1 FROM podium_told d WHERE d.session_id = :session_id
                    AND d.what = 'complete:' || t.task_id || ':' || t.moves || ':0')
 ORDER BY t.task_id LIMIT 50;

-- name: free
-- Tasks that nobody plays or is about to claim, and that may be claimed now.
-- Each session that ended before it claimed makes it news again.
SELECT t.*, NULL AS owner_age,
       ifnull((SELECT max(id) FROM orchestration_messages m WHERE m.task_id = t.task_id), 0)
       || ifnull('+' || (SELECT nullif(count(*), 0) FROM podium_sessions s
                          WHERE s.task_id = t.task_id AND s.pid IS NOT NULL AND s.ended_at IS NOT NULL
                            AND NOT EXISTS (SELECT 1 FROM podium_events e WHERE e.task_id = t.task_id
                                             AND e.session_id = s.session_id)), '') AS newest
  FROM orchestration_tasks t
 WHERE t.state IN (SELECT value FROM json_each(:claimable)) AND t.owner_seen IS NULL
   AND t.task_id NOT IN (SELECT value FROM json_each(:skipped))
   AND NOT EXISTS (SELECT 1 FROM podium_sessions s
                    WHERE s.task_id = t.task_id AND s.ended_at IS NULL
                      AND s.session_id IS NOT t.session_id
                      AND s.last_seen > datetime('now', '-' || :stale || ' seconds'))
   AND NOT EXISTS (SELECT 1 FROM podium_needs n LEFT JOIN orchestration_tasks p ON p.task_id = n.needs
                    WHERE n.task_id = t.task_id AND p.state IS NOT :complete)
   AND NOT EXISTS (SELECT 1 FROM podium_launches l  -- somebody is on the way
                    WHERE l.task_id = t.task_id AND l.closed_at IS NULL AND l.state <> 'failed'
                      AND l.at > datetime('now', '-60 seconds')
                      AND NOT EXISTS (SELECT 1 FROM podium_sessions s
                                       WHERE s.session_id = l.session_id AND s.ended_at > l.at))
 ORDER BY t.phase, t.task_id LIMIT :most;

-- name: counts
-- How many tasks there are, how many are live, and how many somebody plays or is about to claim.
SELECT count(*) AS total, ifnull(sum(state NOT IN (SELECT value FROM json_each(:ended))), 0) AS live,
       ifnull(sum(state NOT IN (SELECT value FROM json_each(:ended)) AND (
         owner_seen IS NOT NULL OR EXISTS (
           SELECT 1 FROM podium_sessions s
            WHERE s.task_id = t.task_id AND s.ended_at IS NULL AND s.session_id IS NOT t.session_id
              AND s.last_seen > datetime('now', '-' || :stale || ' seconds')))), 0) AS played
  FROM orchestration_tasks t WHERE task_id <> :conductor AND task_id NOT GLOB :fallback || '*';

-- name: told
SELECT 1 FROM podium_told WHERE session_id = :session_id AND what = :what;

-- name: tell
INSERT OR IGNORE INTO podium_told (session_id, what) VALUES (:session_id, :what);

-- name: set_bell
UPDATE podium_sessions SET bell = :bell WHERE session_id = :session_id AND bell IS NULL;

-- name: bells
-- The bells of the sessions that a change of this task concerns: its owner and the conductor.
SELECT s.session_id, s.bell FROM orchestration_tasks t JOIN podium_sessions s USING (session_id)
 WHERE t.task_id IN (:task_id, :conductor) AND s.bell IS NOT NULL;

-- name: halt
-- Alive, but stopped by an API error.
UPDATE podium_sessions SET halted = :halted, last_seen = datetime('now') WHERE session_id = :session_id;

-- name: end_session
UPDATE podium_sessions SET ended_at = datetime('now'), ended = :ended
 WHERE session_id = :session_id AND ended_at IS NULL;

-- name: orphan_rows
-- The rows of a session whose process is gone: the row says so, and a successor may be let in.
UPDATE orchestration_tasks SET owner_seen = NULL, last_error = 'session ended: ' || :ended
 WHERE session_id = :session_id AND owner_seen IS NOT NULL
   AND state NOT IN (SELECT value FROM json_each(:released));

-- name: sessions_of_process
-- The newest session that this client process is.
SELECT session_id FROM podium_sessions
 WHERE pid = :pid AND pid_started IS :pid_started AND host IS :host AND ended_at IS NULL
 ORDER BY last_seen DESC, rowid DESC LIMIT 1;

-- name: adopt
-- A session that podium came to know after its start: the process that it is.
UPDATE podium_sessions SET pid = :pid, pid_started = :pid_started, host = :host
 WHERE session_id = :session_id AND pid IS NULL;

-- name: watched
-- The sessions on this host that own a row they have not let go, or were launched for one that
-- they do not own.
SELECT s.session_id, s.pid, s.pid_started, s.host FROM podium_sessions s
  JOIN orchestration_tasks t ON t.session_id = s.session_id
 WHERE t.owner_seen IS NOT NULL AND s.host = :host AND s.pid IS NOT NULL AND s.ended_at IS NULL
UNION
SELECT s.session_id, s.pid, s.pid_started, s.host FROM podium_sessions s
  JOIN orchestration_tasks t ON t.task_id = s.task_id
 WHERE t.session_id IS NOT s.session_id
   AND s.host = :host AND s.pid IS NOT NULL AND s.ended_at IS NULL;

-- name: measure
-- Context as measured, kept when it changed.
INSERT INTO podium_context (session_id, tokens, percent)
SELECT :session_id, :tokens, :percent
 WHERE :tokens IS NOT (SELECT tokens FROM podium_context WHERE session_id = :session_id
                        ORDER BY rowid DESC LIMIT 1);

-- name: newest
-- The newest event and message of a task.
SELECT ifnull((SELECT max(id) FROM podium_events WHERE task_id = :task_id), 0) AS event,
       ifnull((SELECT max(id) FROM orchestration_messages WHERE task_id = :task_id), 0) AS message;

-- name: latest_context
SELECT at, tokens, percent FROM podium_context WHERE session_id = :session_id
 ORDER BY rowid DESC LIMIT 1;

-- name: context_series
SELECT at, tokens, percent FROM podium_context WHERE session_id = :session_id ORDER BY rowid;

-- checks

-- name: heartbeat_age
-- Seconds since the last heartbeat; NULL when it is not a time.
SELECT CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', last_heartbeat) AS INTEGER) AS seconds
  FROM orchestration_tasks WHERE task_id = :task_id;

-- name: unread_count
-- How much mail of a row, after a given message, its session has not been shown.
SELECT count(*) AS pending FROM orchestration_messages
 WHERE CASE WHEN :task_id = :conductor THEN from_session <> :conductor
            ELSE task_id = :task_id AND from_session = :conductor END
   AND id > :since
   AND id > ifnull((SELECT up_to FROM podium_reads
                     WHERE session_id = :session_id AND task_id = :task_id), 0);

-- name: named_in_mail
-- Whether a musician's message about a task names this text.
SELECT 1 FROM orchestration_messages
 WHERE task_id = :task_id AND from_session <> :conductor AND instr(message, :text) LIMIT 1;

-- stage

-- name: add_launch
INSERT INTO podium_launches (task_id, session_id, backend, cwd)
VALUES (:task_id, :session_id, :backend, :cwd);

-- name: set_launch
-- What came of a launch: its window and its process.
UPDATE podium_launches
   SET session_id = :session_id, window = :window, reach = :reach, pid = :pid,
       pid_started = :pid_started, host = :host
 WHERE id = :id;

-- name: judge_launch
UPDATE podium_launches SET state = :state, note = ifnull(:note, note) WHERE id = :id;

-- name: close_launch
-- Nothing is left of its window.
UPDATE podium_launches
   SET closed_at = datetime('now'), state = CASE state WHEN 'failed' THEN state ELSE 'closed' END
 WHERE id = :id AND closed_at IS NULL;

-- name: launches
-- Newest first; of one task or of all.
SELECT *, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', at) AS INTEGER) AS age
  FROM podium_launches WHERE :task_id IS NULL OR task_id = :task_id ORDER BY id DESC;

-- name: open_launches
-- Those of which a window or a process may be left.
SELECT *, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', at) AS INTEGER) AS age
  FROM podium_launches WHERE closed_at IS NULL AND (:task_id IS NULL OR task_id = :task_id)
 ORDER BY id;

-- name: failed_launches
SELECT * FROM podium_launches
 WHERE task_id = :task_id AND state = 'failed' AND at > datetime('now', '-' || :within || ' seconds')
 ORDER BY id DESC;

-- name: on_the_way
-- Whether somebody was launched just now and has not claimed yet.
SELECT 1 FROM podium_launches l
 WHERE closed_at IS NULL AND state <> 'failed' AND at > datetime('now', '-60 seconds')
   AND NOT EXISTS (SELECT 1 FROM podium_sessions s
                    WHERE s.session_id = l.session_id AND s.ended_at > l.at) LIMIT 1;

-- name: participates
-- Whether this session owns a row or was launched for one.
SELECT 1 FROM orchestration_tasks WHERE session_id = :session_id
UNION ALL SELECT 1 FROM podium_sessions WHERE session_id = :session_id AND task_id IS NOT NULL
LIMIT 1;

-- name: ask
-- The session stands at a question; a later notice about the same one changes nothing.
UPDATE podium_sessions SET asking = :text, asking_since = datetime('now')
 WHERE session_id = :session_id AND (asking IS NULL OR :anew);

-- name: stop_asking
UPDATE podium_sessions SET asking = NULL, asking_since = NULL
 WHERE session_id = :session_id AND asking IS NOT NULL;

-- name: asking
-- Sessions that stand at a question, with the live row that they play or were launched for.
SELECT t.task_id, t.state, t.moves, s.session_id, s.asking, s.asking_since AS newest,
       CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', s.asking_since) AS INTEGER) AS age,
       (SELECT reach FROM podium_launches l WHERE l.session_id = s.session_id
         ORDER BY id DESC LIMIT 1) AS reach
  FROM podium_sessions s JOIN orchestration_tasks t
    ON t.session_id = s.session_id OR (t.task_id = s.task_id AND t.owner_seen IS NULL)
 WHERE s.asking IS NOT NULL AND s.ended_at IS NULL
   AND t.state NOT IN (SELECT value FROM json_each(:ended))
 ORDER BY s.asking_since;

-- name: blocked_claim
-- The message of a session whose claim was blocked.
SELECT * FROM orchestration_messages
 WHERE message_type = :message_type AND from_session = :session_id ORDER BY id DESC LIMIT 1;

-- name: blocked_claims
-- How many claims of a task were blocked since the given message.
SELECT count(*) AS count FROM orchestration_messages
 WHERE task_id = :task_id AND message_type = :message_type AND id > :since;

-- name: idle_sessions
-- Sessions that own a row in this state and have shown no sign of work for so long.
SELECT s.session_id, t.task_id, s.pid, s.pid_started, s.host,
       CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', s.last_progress) AS INTEGER) AS age
  FROM podium_sessions s JOIN orchestration_tasks t ON t.session_id = s.session_id
 WHERE t.state = :state AND t.owner_seen IS NOT NULL AND s.ended_at IS NULL
   AND s.last_progress <= datetime('now', '-' || :seconds || ' seconds')
 ORDER BY t.task_id;

-- name: newest_signs
-- Seconds since a SessionStart hook was seen, and since anything was written; below 0: the future.
SELECT (SELECT CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', max(started_at)) AS INTEGER)
          FROM podium_sessions WHERE pid IS NOT NULL) AS session,
       CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', max(
         ifnull((SELECT max(at) FROM podium_events), ''),
         ifnull((SELECT max(last_heartbeat) FROM orchestration_tasks), ''))) AS INTEGER) AS written;

-- name: screen
-- Every row with what a person wants to see beside it: life, work, context, unread mail, needs.
SELECT t.*, CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', t.owner_seen) AS INTEGER) AS owner_age,
       CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', s.last_progress) AS INTEGER) AS work_age,
       CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', (
         SELECT max(at) FROM podium_events e WHERE e.task_id = t.task_id)) AS INTEGER) AS state_age,
       s.halted, s.asking, s.ended,
       (SELECT percent FROM podium_context c WHERE c.session_id = t.session_id
         ORDER BY c.rowid DESC LIMIT 1) AS percent,
       (SELECT count(*) FROM orchestration_messages m
         WHERE CASE WHEN t.task_id = :conductor THEN m.from_session <> :conductor
                    ELSE m.task_id = t.task_id AND m.from_session = :conductor END
           AND m.id > ifnull((SELECT up_to FROM podium_reads r
                               WHERE r.session_id = t.session_id AND r.task_id = t.task_id), 0)) AS unread,
       (SELECT group_concat(n.needs, ', ') FROM podium_needs n
          LEFT JOIN orchestration_tasks p ON p.task_id = n.needs
         WHERE n.task_id = t.task_id AND p.state IS NOT :complete) AS unmet
  FROM orchestration_tasks t LEFT JOIN podium_sessions s ON s.session_id = t.session_id
 WHERE t.task_id NOT GLOB :fallback || '*'
 ORDER BY t.phase, length(t.task_id) > 8, t.task_id;
