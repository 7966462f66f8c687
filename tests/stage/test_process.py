"""Signals go to a process that is proven, and to nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Callable

import pytest

from podium.domain.records import Process
from podium.stage import pidfile, process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Notes every signal that can be noted, and stays.
WITNESS = """
import signal, sys, time
def note(number, frame):
    with open(sys.argv[1], "a") as file: file.write(f"{number}\\n")
for number in range(1, 32):
    try: signal.signal(number, note)
    except (OSError, ValueError): pass
print("ready", flush=True)
while True: time.sleep(1)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes that end with the test."""
    begun: list[subprocess.Popen[str]] = []

    def run(*words: str, **options: bool) -> subprocess.Popen[str]:
        one = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, cwd=tmp_path, **options)
        begun.append(one)
        return one

    yield run
    for one in begun:
        one.kill()
        one.wait()
        if one.stdout:
            one.stdout.close()


@pytest.fixture
def witness(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> tuple[Process, Callable[[], list[str]]]:
    """A stranger, and the signals that it got."""
    log = tmp_path / "signals"
    one = start(sys.executable, "-c", WITNESS, str(log), start_new_session=True)
    assert one.stdout
    one.stdout.readline()
    who = process.identify(one.pid)
    assert who
    return who, lambda: log.read_text().split() if log.exists() else []


def reap(one: subprocess.Popen[str]) -> int:
    return one.wait(10)


def test_a_stranger_that_has_the_pid_now_is_never_signalled(
    witness: tuple[Process, Callable[[], list[str]]], tmp_path: Path
) -> None:
    stranger, signals = witness
    file = pidfile.path(str(tmp_path), "task-01")

    for shift in range(1, 101):
        former = Process(stranger.pid, str(int(stranger.started) - shift), stranger.host)
        pidfile.write(file, former)
        assert process.end(former) == "gone"
        assert f"pid {stranger.pid}, which a stranger has now" in pidfile.clear_stale(file)
        assert not os.path.exists(file)

    assert process.is_alive(stranger)
    assert signals() == []
    os.kill(stranger.pid, signal.SIGUSR1)  # it would have told
    end = time.monotonic() + 10
    while not signals() and time.monotonic() < end:
        time.sleep(0.02)
    assert signals() == [str(int(signal.SIGUSR1))]


def test_a_process_of_another_host_is_left_alone(
    witness: tuple[Process, Callable[[], list[str]]],
) -> None:
    stranger, signals = witness

    assert process.end(Process(stranger.pid, stranger.started, "elsewhere")) == "elsewhere"

    assert signals() == []


def test_a_descendant_whose_pid_a_stranger_has_got_is_not_signalled(
    witness: tuple[Process, Callable[[], list[str]]],
    start: Callable[..., subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stranger, signals = witness
    one = start("sleep", "300", start_new_session=True)
    who = process.identify(one.pid)
    assert who
    former = Process(stranger.pid, str(int(stranger.started) - 1), stranger.host)
    monkeypatch.setattr(process, "descendants", lambda _: [former])

    assert process.end(who) == "ended"

    os.kill(stranger.pid, signal.SIGUSR1)
    end = time.monotonic() + 10
    while not signals() and process.is_alive(stranger) and time.monotonic() < end:
        time.sleep(0.02)
    assert signals() == [str(int(signal.SIGUSR1))]


def test_a_process_that_does_not_listen_is_killed_after_the_grace(
    witness: tuple[Process, Callable[[], list[str]]],
) -> None:
    stubborn, signals = witness

    assert process.end(stubborn, grace=0.3) == "killed"

    assert str(int(signal.SIGTERM)) in signals()
    assert not process.is_alive(stubborn)


def test_the_whole_group_ends_and_what_its_members_put_into_groups_of_their_own(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    script = "sleep 300 & setsid sleep 300 & sleep 0.2; echo ready; wait"
    leader = start("sh", "-c", script, start_new_session=True)
    assert leader.stdout
    leader.stdout.readline()
    who = process.identify(leader.pid)
    assert who
    below = process.descendants(who)
    assert len({os.getpgid(one.pid) for one in below}) == 2

    assert process.end(who) == "ended"

    reap(leader)
    end = time.monotonic() + 10
    while any(process.is_alive(one) for one in below) and time.monotonic() < end:
        time.sleep(0.02)
    assert [one.pid for one in below if process.is_alive(one)] == []


def test_a_process_that_leads_no_group_is_ended_alone(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    sibling, one = start("sleep", "300"), start("sleep", "300")
    who = process.identify(one.pid)
    assert who
    assert os.getpgid(one.pid) == os.getpgid(sibling.pid) == os.getpgid(0)

    assert process.end(who) == "ended"

    assert reap(one) == -signal.SIGTERM
    assert sibling.poll() is None


def test_a_pid_file_begins_with_the_pid_and_gives_back_whom_it_names(tmp_path: Path) -> None:
    me = process.identify(os.getpid())
    assert me
    file = tmp_path / "musician-task-01.pid"

    pidfile.write(str(file), me)

    assert file.read_text().splitlines()[0] == str(os.getpid())
    found = pidfile.read(str(file))
    assert found
    assert vars(found) == vars(me)
    assert pidfile.clear_stale(str(file)) == ""
    assert list(tmp_path.glob("musician-*")) == [file]


def test_a_pid_file_of_another_host_stays(tmp_path: Path) -> None:
    file = tmp_path / "musician-task-01.pid"
    pidfile.write(str(file), Process(os.getpid(), "1", "elsewhere"))

    assert pidfile.clear_stale(str(file)) == ""

    assert file.exists()


@pytest.mark.parametrize(
    "text",
    ["", "123\n", "abc\n1\nhost\n", "\n\n\n", "\0", "12 34\nx\nhost\n", "²\n1\nhost\n",
     "9" * 5000 + "\n1\nhost\n"],
)  # fmt: skip
def test_a_pid_file_that_proves_nobody_is_removed_and_nobody_is_signalled(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "musician-task-01.pid"
    file.write_text(text)

    assert pidfile.read(str(file)) is None
    assert "nobody was signalled" in pidfile.clear_stale(str(file))

    assert not file.exists()


def test_the_start_time_that_ps_tells_is_the_same_every_time_and_nobodys_after_the_end(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    if not os.access("/bin/ps", os.X_OK):
        pytest.skip("there is no /bin/ps here, which macOS has")
    one = start("sleep", "300")

    told = process._started_by_ps(one.pid)

    assert told
    assert process._started_by_ps(one.pid) == told
    one.kill()
    one.wait()
    assert process._started_by_ps(one.pid) is None
