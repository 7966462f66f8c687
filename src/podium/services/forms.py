"""JSON that comes in from outside: read, checked by its schema, every error at once."""

from __future__ import annotations

import json
import os
from typing import Any

from podium.domain.errors import WrongUsage

SCHEMAS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "schemas")


def read_json(text: str, what: str) -> Any:
    """The value in a JSON text; refuses with the place of the first fault."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(f"{what} is not JSON ({error}); correct it and run this again") from error


def faults(value: object, schema: str, part: str | None = None) -> list[str]:
    """Everything wrong with a value, each with its place and what is allowed there."""
    import jsonschema

    with open(os.path.join(SCHEMAS, f"{schema}.json"), encoding="utf-8") as file:
        whole = json.load(file)
    rules = {"$ref": f"#/$defs/{part}", "$defs": whole["$defs"]} if part else whole
    found = jsonschema.Draft202012Validator(rules).iter_errors(value)
    return sorted({_fault(error) for error in found})


def _fault(error: Any) -> str:
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
    where = place.lstrip(".") or "it"
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"{where if place else 'missing'}: {', '.join(missing)}" + (
            " missing" if place else ""
        )
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        extra = ", ".join(name for name in error.instance if name not in known)
        return f"{where}: unknown {extra}, wanted only {', '.join(known)}"
    wanted = {
        "pattern": lambda: _pattern(error.validator_value),
        "minimum": lambda: _range(error.schema),
        "maximum": lambda: _range(error.schema),
        "minItems": lambda: f"at least {error.validator_value}",
        "enum": lambda: "one of " + ", ".join(map(str, error.validator_value)),
        "type": lambda: f"a {error.validator_value}",
    }.get(error.validator)
    shown = json.dumps(error.instance, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    return f"{where}: found {shown}, wanted " + (wanted() if wanted else error.message)


def _range(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum", ""), schema.get("maximum", "")
    return f"{low} to {high}" if high != "" else f"{low} or more"


def _pattern(pattern: str) -> str:
    names = {
        r"\S": "a text",
        "^[0-9]+/[0-9]+$": "N/M, as in 2/5",
        "^.+:(created|modified|rag-addition)$": "path:created, path:modified or path:rag-addition",
        "^task-[0-9]{2,3}(-fix[0-9]{0,3})?$": "task-03, task-103 or task-03-fix",
    }
    return names.get(pattern, pattern)


def check(value: object, schema: str, part: str | None, what: str) -> None:
    """Nothing, or WrongUsage with every fault."""
    wrong = faults(value, schema, part)
    if wrong:
        raise WrongUsage(f"{what}: {'; '.join(wrong)}")
