"""The two tools of comms-link: what a model is told of them, and how a call is answered."""

from __future__ import annotations

import json

from podium.domain.errors import PodiumError, WrongUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

SCHEMA = {
    "type": "object",
    "properties": {
        "sql": {"type": "string"},
        "params": {"type": ["array", "object"], "description": "values for ? or :name"},
    },
    "required": ["sql"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "name": "query",
        "description": (
            "Read podium's database: one SELECT, on orchestration_tasks, orchestration_messages "
            "or any other table (SELECT sql FROM sqlite_master shows them). Values go into params, "
            "for ? or :name. Returns a JSON list with an object for each row, at most 1,000; "
            "stops after 5 s. Sees every write that was committed before."
        ),
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "execute",
        "description": (
            "Write podium's database: one INSERT, UPDATE or DELETE on orchestration_tasks or "
            "orchestration_messages. Values go into params, for ? or :name. A session claims for "
            "itself, changes its own rows and sends with its own id as from_session; the conductor "
            "may also make the conductor's moves. Returns rows_affected and last_id; a blocked "
            "claim affects 0 rows. A refusal says what to do instead."
        ),
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": False, "openWorldHint": False},
    },
]
# Seconds until a child is ended, should its own limits not have done it.
PATIENCE = {"query": 6.0, "execute": 12.0}


def answer_bytes(asked: bytes) -> bytes:
    """The same, for a process that is given the arguments as JSON."""
    return json.dumps(answer(*json.loads(asked))).encode()


def answer(path: str, caller: str | None, name: str, arguments: Json) -> Json:
    """The result of a tool: what was found or done, or one sentence that says why not."""
    try:
        if not path:
            return failure("this project has no podium database; run: podium init")
        return _run(path, caller, name, *_checked(arguments))
    except PodiumError as error:
        return failure(" ".join(str(error).split()))
    except MemoryError:
        return failure("it needs too much memory; nothing was written; narrow it")
    except Exception as error:  # noqa: BLE001  # the model is told, whatever it was
        return failure(f"comms-link failed ({error!r}); run: podium doctor")


def _run(path: str, caller: str | None, name: str, sql: str, params: Any) -> Json:
    from podium.store import guarded

    if name == "query":
        found = guarded.query(path, sql, params)
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in found.rows)
        return _result(f"[{rows}]", *filter(None, [found.note]))
    done = guarded.execute(path, sql, params, caller)
    if done.news:
        _ring(path, done.news, done.session_id)
    return _result(json.dumps({"rows_affected": done.rows_affected, "last_id": done.last_id}))


def _ring(path: str, tasks: set[str], session_id: str | None) -> None:
    from podium.services import bells
    from podium.store import open_store

    try:
        store = open_store(path)
    except PodiumError:
        return  # it is written; who waits for it will look by itself
    try:
        bells.ring_for(store, tasks, but=session_id)
    finally:
        store.close()


def _checked(arguments: Json) -> tuple[str, Any]:
    sql, params = arguments.get("sql"), arguments.get("params")
    params = [] if params is None else params
    unknown = sorted(set(arguments) - {"sql", "params"})
    if unknown:
        raise WrongUsage(
            f"there is no argument {unknown[0][:50]!r}; give sql, and params if needed"
        )
    if not isinstance(sql, str) or not isinstance(params, (list, dict)):
        raise WrongUsage("sql must be a string, and params a list or an object; try again")
    values = params.values() if isinstance(params, dict) else params
    if any(isinstance(value, (list, dict)) for value in values):
        raise WrongUsage("each of params must be a string, number, true, false or null; try again")
    if isinstance(params, dict):
        params = {key.lstrip(":@$"): value for key, value in params.items()}
    return sql, params


def _result(*texts: str) -> Json:
    return {"content": [{"type": "text", "text": text} for text in texts], "isError": False}


def failure(text: str) -> Json:
    """A result that says why there is none."""
    return {**_result(text), "isError": True}
