"""JSON-RPC 2.0 in lines: bytes to messages, and what a wrong one is answered with."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Json = dict[str, Any]

LONGEST_LINE, KEPT_ENDS = 8 * 1024 * 1024, 1024
MOST_DIGITS = 400  # reading a number takes time that grows with the square of its length
PARSE_ERROR, INVALID_REQUEST, NO_METHOD = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603


class Refused(Exception):
    """A message that cannot be served; `code` is JSON-RPC's, `number` the id if it has one."""

    def __init__(self, code: int, text: str, number: object = None) -> None:
        self.code, self.number = code, number
        super().__init__(text)


class Lines:
    """Bytes in, lines out. Of a line that is too long only its two ends are kept."""

    def __init__(self) -> None:
        self._line, self._cut = bytearray(), False

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        """Each line that is complete now, and whether it was cut."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield bytes(self._line), self._cut
            self._line, self._cut = bytearray(), False
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) > LONGEST_LINE:
            self._cut = True
            del self._line[KEPT_ENDS:-KEPT_ENDS]


class Message:
    """A request, or without a `number` a notification."""

    def __init__(self, found: Any) -> None:
        if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
            raise Refused(INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
        self.asks = "id" in found
        self.number = found.get("id")
        if self.asks and type(self.number) not in (int, str):
            raise Refused(INVALID_REQUEST, "id must be a string or a whole number")
        if not isinstance(found.get("method"), str):
            raise Refused(INVALID_REQUEST, "method must be a string", self.number)
        self.method = str(found["method"])
        params = found.get("params")
        if not isinstance(params, (dict, type(None))):
            raise Refused(INVALID_PARAMS, "params must be an object", self.number)
        self.params: Json = params or {}


def is_answer(found: Any) -> bool:
    """Whether this answers a request, of which a server that makes none has no use."""
    return (
        isinstance(found, dict) and "method" not in found and bool({"result", "error"} & {*found})
    )


def parse(line: bytes, *, cut: bool) -> Any:
    """The JSON of a line; raises Refused."""
    if cut:
        text = f"the line is longer than {LONGEST_LINE:,} bytes; send less"
        raise Refused(INVALID_REQUEST, text, _number_in(line))
    try:
        return json.loads(line.decode(), parse_int=_integer, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused(PARSE_ERROR, "the line is not JSON in UTF-8") from None


def result(number: object, found: Json) -> Json:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": number, "result": found}


def error(refused: Refused) -> Json:
    """The answer to a message that cannot be served."""
    told = {"code": refused.code, "message": str(refused)}
    return {"jsonrpc": "2.0", "id": refused.number, "error": told}


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _number_in(line: bytes) -> object:
    """The id that stands at either end of a line whose middle is lost, or None."""
    number = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
    version = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
    first = rb"\s*\{\s*(?:%b,\s*)?%b," % (version, number)
    last = rb",\s*%b(?:,\s*%b)?\}\s*$" % (number, version)
    found = re.match(first, line) or re.search(last, line[-KEPT_ENDS:])
    try:
        return json.loads(found[1]) if found else None
    except ValueError:
        return None
