"""A plan of many tasks: everything wrong with it at once, or everything written."""

from __future__ import annotations

import os
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from podium.domain.states import CONDUCTOR_ROW, MessageType

from . import messages, tasks
from .forms import faults

if TYPE_CHECKING:
    from podium.services.callers import Caller
    from podium.store.base import Store


def wrong_with(plan: Any, root: str, existing: set[str]) -> list[str]:
    """Every fault of a plan, with its place in the file; `existing` are the ids taken already."""
    found = faults(plan, "plan")
    listed = plan.get("tasks") if isinstance(plan, dict) else None
    # One bad item does not hide what is wrong with the others.
    sound = {
        n: item
        for n, item in enumerate(listed if isinstance(listed, list) else [])
        if not any(fault.startswith(f"tasks[{n}]") for fault in found)
    }
    items: list[dict[str, Any]] = list(sound.values())
    places = {item["id"]: f"tasks[{n}]" for n, item in sound.items()}
    for name, count in Counter(item["id"] for item in items).items():
        if count > 1:
            found.append(f"{places[name]}.id: {name} stands {count} times, wanted once")
    for n, item in sound.items():
        if item["id"] in existing or item["id"] == CONDUCTOR_ROW:
            found.append(f"tasks[{n}].id: {item['id']} exists already")
        if not os.path.isfile(os.path.join(root, item["instructions"])):
            found.append(f"tasks[{n}].instructions: there is no file {item['instructions']}")
        found += [
            f"tasks[{n}].after: there is no {need}"
            for need in item.get("after", [])
            if len(sound) == len(listed or []) and need not in places and need not in existing
        ]
    return found + _cycles(items, places) + _shared_danger(items, places)


def _cycles(items: list[dict[str, Any]], places: dict[str, str]) -> list[str]:
    needs: dict[str, list[str]] = {name: [] for name in places}
    for item in items:
        needs[item["id"]] += [n for n in item.get("after", []) if n in places]
    found = []
    while ring := _ring(needs):
        found.append(f"{places[ring[0]]}.after: cycle {' → '.join(ring)}")
        needs[ring[0]].remove(ring[1])
    return found


def _ring(needs: dict[str, list[str]]) -> list[str]:
    """Tasks of which each waits for the next, the first again at the end; empty without a cycle."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1][::-1])
    return []


def _shared_danger(items: list[dict[str, Any]], places: dict[str, str]) -> list[str]:
    found, first = [], dict[tuple[int, str], str]()
    for item in items:
        if not item.get("parallel"):
            continue
        for file in item.get("danger_files", []):
            key = (item.get("phase", 1), os.path.normpath(file))
            if key in first:
                found.append(
                    f"{places[item['id']]}.danger_files: {file} is also {first[key]}'s, "
                    "and both are parallel in one phase"
                )
            first.setdefault(key, item["id"])
    return found


def write(store: Store, caller: Caller, plan: dict[str, Any]) -> list[str]:
    """Write every task of a checked plan in one transaction, in order; their ids."""
    items: list[dict[str, Any]] = plan["tasks"]
    with store.transaction():
        for item in items:
            tasks.add(
                store,
                caller,
                item["id"],
                item["instructions"],
                letter(item),
                phase=item.get("phase", 1),
                parallel=item.get("parallel", False),
            )
        for item in items:
            for need in item.get("after", []):
                store.run("add_need", task_id=item["id"], needs=need)
    return [item["id"] for item in items]


def letter(item: dict[str, Any]) -> str:
    """The instruction message of one task."""
    return messages.write(
        MessageType.INSTRUCTION,
        {
            "path": item["instructions"],
            "task": item["id"],
            "phase": f"{item.get('phase', 1)}{', parallel' if item.get('parallel') else ''}",
            "needs": ", ".join(item.get("after", [])),
            "danger_files": ", ".join(item.get("danger_files", [])),
        },
    )
