#!/bin/sh
# What the Stop hook does, as a shell script with jq and sqlite3: the reference of benchmarks/hooks.
session=$(jq -r '.session_id // empty')
db=$CLAUDE_PROJECT_DIR/comms.db
[ -n "$session" ] && [ -f "$db" ] || exit 0

quote="'"
case $session in *"$quote"*) session=$(printf %s "$session" | sed "s/'/''/g") ;; esac
held=$(sqlite3 -cmd '.timeout 2000' "$db" "
  SELECT t.task_id || ' is ' || t.state, ifnull(s.continuations, 0)
    FROM orchestration_tasks t LEFT JOIN podium_sessions s USING (session_id)
   WHERE t.session_id = '$session'
     AND CASE WHEN t.task_id = 'task-00' THEN t.state NOT IN ('exit_requested', 'complete')
              ELSE t.state NOT IN ('complete', 'exited') END LIMIT 1")
[ -n "$held" ] && [ "${held##*|}" -lt 500 ] || exit 0

sqlite3 -cmd '.timeout 2000' "$db" "
  INSERT INTO podium_sessions (session_id, continuations, last_seen) VALUES ('$session', 1, datetime('now'))
  ON CONFLICT (session_id) DO UPDATE
     SET continuations = continuations + 1, last_seen = datetime('now')"
jq -n --arg text "You are the musician: ${held%|*}, so the session goes on." \
    '{hookSpecificOutput: {hookEventName: "Stop", additionalContext: $text}}'
