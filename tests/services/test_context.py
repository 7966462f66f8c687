from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from podium.services import context
from podium.services.context import measure, of_session, window_for

if TYPE_CHECKING:
    import sqlite3

    from podium.store.base import Store

SRC = Path(__file__).parents[2] / "src"


def turn(tokens: int, *, model: str = "claude-opus-4-5", **changes: Any) -> dict[str, Any]:
    """An assistant line as the client writes it."""
    return {
        "parentUuid": "0c1e",
        "isSidechain": False,
        "userType": "external",
        "cwd": "/project",
        "sessionId": "5b1d",
        "version": "2.1.197",
        "type": "assistant",
        "uuid": "77aa",
        "timestamp": "2026-02-07T16:45:00.000Z",
        "requestId": "req_1",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": 'She said "usage".'}],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 4,
                "cache_creation_input_tokens": 1000,
                "cache_read_input_tokens": tokens - 1004,
                "output_tokens": 88,
                "service_tier": "standard",
            },
        },
        **changes,
    }


USER = {"type": "user", "isSidechain": False, "message": {"role": "user", "content": 'my "usage"'}}
COMPACTED = {
    "type": "system",
    "subtype": "compact_boundary",
    "content": "Conversation compacted",
    "isSidechain": False,
    "compactMetadata": {"trigger": "auto", "preTokens": 190000},
}


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return tmp_path / "5b1d.jsonl"


def write(path: Path, *lines: Any, end: str = "\n") -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + end)
    return str(path)


def test_usage_is_the_input_side_of_the_last_turn(transcript: Path) -> None:
    found = measure(write(transcript, USER, turn(50_000), USER, turn(82_000), USER), 200_000)
    assert found is not None
    assert (found.tokens, found.window, found.percent) == (82_000, 200_000, 41)
    assert found.model == "claude-opus-4-5"


def test_sidechains_are_not_counted(transcript: Path) -> None:
    path = write(transcript, turn(82_000), turn(150_000, isSidechain=True))
    found = measure(path, 200_000)
    assert found is not None
    assert found.tokens == 82_000


def test_a_notice_about_an_api_error_is_not_a_turn(transcript: Path) -> None:
    notice = turn(1004, model="<synthetic>", isApiErrorMessage=True)
    notice["message"]["usage"] = dict.fromkeys(notice["message"]["usage"], 0)
    found = measure(write(transcript, turn(82_000), notice), 200_000)
    assert found is not None
    assert found.tokens == 82_000


def test_nothing_is_known_between_a_compaction_and_the_next_turn(transcript: Path) -> None:
    assert measure(write(transcript, turn(190_000), COMPACTED, USER), 200_000) is None
    found = measure(write(transcript, turn(190_000), COMPACTED, USER, turn(30_000)), 200_000)
    assert found is not None
    assert found.percent == 15


@pytest.mark.parametrize(
    "last",
    [
        json.dumps(turn(150_000))[:-40],
        '{"type":"assistant","usage":',
        '"usage"',
        '["usage"]',
        '{"type":"assistant","message":{"usage":[]}}',
        '{"type":"assistant","message":{"usage":{"input_tokens":"many"}}}',
        '{"type":"assistant","message":{"usage":{"input_tokens":-5}}}',
        '{"type":"assistant","message":{"usage":{"input_tokens":true}}}',
        '{"usage":' + "[" * 100_000,
        '\0\x01garbage "usage" \x1b',
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_that_cannot_be_read_is_passed_over(
    transcript: Path, last: str, end: str
) -> None:
    found = measure(write(transcript, turn(82_000), last, end=end), 200_000)
    assert found is not None
    assert found.tokens == 82_000
    assert measure(write(transcript, last, end=end), 200_000) is None


def test_bytes_that_are_no_text_are_passed_over(transcript: Path) -> None:
    transcript.write_bytes(json.dumps(turn(82_000)).encode() + b'\n{"usage": "\xff\xfe"}\n')
    found = measure(str(transcript), 200_000)
    assert found is not None
    assert found.tokens == 82_000


@pytest.mark.parametrize("length", [70_000, 600_000, 5_000_000])
def test_a_turn_is_found_behind_long_lines(transcript: Path, length: int) -> None:
    image = {**USER, "message": {"content": "x" * length}}
    found = measure(write(transcript, turn(82_000), image), 200_000)
    assert found is not None
    assert found.tokens == 82_000


def test_a_long_turn_is_read_whole(transcript: Path) -> None:
    long = turn(82_000)
    long["message"]["content"] = "y" * 300_000
    found = measure(write(transcript, USER, long), 200_000)
    assert found is not None
    assert found.tokens == 82_000


def test_only_the_end_of_a_huge_transcript_is_read(transcript: Path) -> None:
    with transcript.open("wb") as file:
        file.write(json.dumps(turn(199_000)).encode() + b"\n")
        file.seek(500 * 1024 * 1024)  # a hole: it takes no room
        file.write(b"\n" + json.dumps(turn(82_000)).encode() + b"\n")
    read = 0

    class Counted:
        def __init__(self, *args: Any) -> None:
            self.file = open(*args)  # noqa: SIM115

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def seek(self, *args: int) -> int:
            return int(self.file.seek(*args))

        def read(self, size: int) -> bytes:
            nonlocal read
            read += size
            return bytes(self.file.read(size))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "open", Counted, raising=False)
        found = measure(str(transcript), 200_000)
    assert found is not None
    assert found.tokens == 82_000
    assert read <= 1 << 16


def test_a_hole_without_end_is_given_up(transcript: Path) -> None:
    with transcript.open("wb") as file:
        file.write(json.dumps(turn(82_000)).encode() + b"\n")
        file.seek(60 * 1024 * 1024)
        file.write(b"\n")
    assert measure(str(transcript), 200_000) is None


def test_what_is_no_file_cannot_be_measured(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "empty", Path("nul\0byte")):
        assert measure(str(path), 200_000) is None
    assert measure("", 200_000) is None


@pytest.mark.parametrize(
    ("model", "configured", "window"),
    [
        ("claude-opus-4-5[1m]", None, 1_000_000),
        ("claude-opus-4-5[1M]", 300_000, 1_000_000),
        ("claude-opus-4-5", 300_000, 300_000),
        ("claude-opus-4-5", None, 200_000),
        (None, None, 200_000),
        (None, 0, 200_000),
    ],
)
def test_the_window_is_the_models_then_as_configured_then_the_usual(
    model: str | None, configured: int | None, window: int
) -> None:
    assert window_for(model, configured) == window


def test_more_than_fits_proves_the_larger_window(transcript: Path) -> None:
    found = measure(write(transcript, turn(350_000)), 200_000)
    assert found is not None
    assert (found.window, found.percent) == (1_000_000, 35)


def test_a_session_is_measured_by_what_the_registry_knows(
    store: Store, raw: sqlite3.Connection, transcript: Path
) -> None:
    write(transcript, turn(100_000))
    raw.execute(
        "INSERT INTO podium_sessions (session_id, transcript_path, model) VALUES (?, ?, ?)",
        ("s1", str(transcript), "claude-opus-4-5[1m]"),
    )
    found = of_session(store, "s1", 200_000)
    assert found is not None
    assert found.percent == 10
    assert of_session(store, "stranger", None) is None
    assert of_session(store, None, None) is None


def test_measuring_needs_little_of_the_standard_library() -> None:
    heavy = ("dataclasses", "typing", "pathlib", "json", "re", "sqlite3")
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r}); import podium.services.context; "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
