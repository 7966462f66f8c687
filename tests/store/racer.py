"""One of many processes that want the same rows. Run as a file: racer.py SRC DATABASE SESSION WHAT.

It says `ready`, waits for a line on stdin, then tries, and prints what it got as JSON.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time

src, path, session, what = sys.argv[1:]
sys.path.insert(0, src)

CLAIM = """
UPDATE orchestration_tasks
SET state = 'working', session_id = ?, started_at = datetime('now'),
    last_heartbeat = datetime('now'), retry_count = 0
WHERE task_id = ? AND state IN ('watching', 'fix_proposed', 'exit_requested')
"""


def claim_all() -> dict[str, object]:
    """Try every task once, half of them through podium's store and half through raw sqlite3."""
    from podium.store import open_store

    store = open_store(path)
    raw = sqlite3.connect(path, timeout=60, isolation_level=None)
    tasks = [row["task_id"] for row in store.all("tasks")]
    chance = random.Random(session)
    chance.shuffle(tasks)
    claimable = json.dumps(["watching", "fix_proposed", "exit_requested"])
    won, seen = [], []
    for number, task in enumerate(tasks):
        time.sleep(chance.random() / 500)  # or the first to run has them all
        try:
            if number % 2:
                row = {"task_id": task, "session_id": session, "to_state": "working"}
                count = store.run("claim", claimable=claimable, **row)
            else:
                count = raw.execute(CLAIM, (session, task)).rowcount
        except Exception as error:  # noqa: BLE001  # whatever it is, somebody saw it
            seen.append(repr(error))
        else:
            won += [task] * count
    return {"won": won, "seen": seen}


def make() -> dict[str, object]:
    """Make the database, as ten sessions at once would, and use it."""
    from podium.store.migrate import create

    try:
        store = create(path)
        row = {"task_id": f"task-{session}", "state": "watching", "phase": 1, "parallel": 0}
        store.run("add_task", instruction_path=None, actor=None, **row)
        store.close()
    except Exception as error:  # noqa: BLE001
        return {"won": [], "seen": [repr(error)]}
    return {"won": [session], "seen": []}


print("ready", flush=True)
sys.stdin.readline()
print(json.dumps({"claim": claim_all, "make": make}[what]()))
