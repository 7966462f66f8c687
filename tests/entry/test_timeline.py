"""podium timeline and the night screen, as a person meets them; the page in a real browser."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from typing import TYPE_CHECKING, Callable

import protocol
import pytest
from conftest import PLUGIN
from long_run import HOSTILE, Run

from podium.services import timeline, timeline_html, timeline_svg

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from conftest import Said

    Podium = Callable[..., Said]

BOSS, ONE, TWO = "boss-1", "one-1", "two-1"


@pytest.fixture
def run(podium: Podium, project: Path) -> Podium:
    """A conductor, a task in review, one that failed, one that waits for the first."""
    (project / "task.md").write_text("Do it.\n")
    podium("init")
    podium("conductor", "start", session=BOSS)
    for task in ("task-01", "task-02"):
        podium("conductor", "add", task, "--instructions", "task.md", "--parallel")
    podium(
        *("conductor", "add", "task-03", "--instructions", "task.md", "--phase", "2"),
        *("--after", "task-01"),
    )
    podium("musician", "claim", "task-01", session=ONE)
    podium("musician", "claim", "task-02", session=TWO)
    submit = ("--checkpoint", "1/2", "--smoothness", "3", "--summary", "s")
    podium("musician", "submit", *submit, "--files", "1", "--tests", "1", session=ONE)
    podium("musician", "error", "--error", HOSTILE.replace("\0", ""), session=TWO)
    return podium


def test_each_task_has_a_line_and_every_sign_is_explained(run: Podium) -> None:
    out = run("timeline").out
    _, *lanes, legend = out.splitlines()
    assert [lane.split()[0] for lane in lanes] == ["task-00", "task-01", "task-02", "task-03"]
    signs = {sign for lane in lanes for word in lane.split()[1:-1] for sign in word}
    explained = {entry.split()[0] for entry in legend.split("  ")}
    assert signs <= explained
    assert "\x1b" not in out


def test_one_task_is_shown_with_its_events(run: Podium) -> None:
    out = run("timeline", "task-01").out
    assert "task-02" not in out
    assert "working → needs_review musician-task-01" in out
    assert len(out.splitlines()) <= 10


def test_the_answer_for_programs_holds_bars_marks_and_events(run: Podium) -> None:
    found = run("timeline", "--json").json
    lane = {lane["task_id"]: lane for lane in found["lanes"]}["task-02"]
    assert [bar["state"] for bar in lane["bars"]] == ["watching", "working", "error"]
    assert [mark["kind"] for mark in lane["marks"]] == ["error"]
    assert {e["task_id"] for e in found["events"]} == {f"task-0{n}" for n in range(4)}


def test_pictures_are_written_where_they_are_wanted(run: Podium, project: Path) -> None:
    said = run("timeline", "--html", "run.html", "--svg", "run.svg").out
    assert said.splitlines() == [
        "Wrote run.html: open it in a browser.",
        "Wrote run.svg: open it in a browser.",
    ]
    assert (project / "run.html").read_text().startswith("<!doctype html>")
    assert "<svg" in (project / "run.svg").read_text()[:10]


def test_a_file_that_cannot_be_written_is_a_refusal(run: Podium) -> None:
    assert (
        "nowhere/run.svg cannot be written"
        in run("timeline", "--svg", "nowhere/run.svg", expect=1).err
    )


@pytest.mark.usefixtures("run")
def test_where_only_ascii_can_be_shown_only_ascii_is(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", PLUGIN / "src" / "podium" / "__main__.py", "timeline"],
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        cwd=project,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"# working" in done.stdout


# The night screen


class Screen:
    """What a terminal of 110 by 24 shows."""

    def __init__(self, project: Path, *words: str) -> None:
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may ignore it
            os.chdir(project)
            env = {**os.environ, "COLUMNS": "110", "LINES": "24", "TERM": "xterm-256color"}
            python = [sys.executable, "-I", str(PLUGIN / "src" / "podium" / "__main__.py")]
            os.execve(sys.executable, [*python, *words], env)
        self.seen = ""

    def wait_for(self, text: str, timeout: float = 20) -> str:
        """The last whole frame, once it holds the text."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([self.handle], [], [], 0.1)[0]:
                self.seen += os.read(self.handle, 1 << 16).decode(errors="replace")
            frame = self.seen.rpartition("\x1b[H")[2]
            if text in re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", frame):
                return frame
        raise AssertionError(f"not shown: {text!r}; seen: {self.seen[-3000:]!r}")

    def close(self) -> int:
        """End it as a person does, with Ctrl-C; its exit code."""
        os.kill(self.pid, signal.SIGINT)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.handle)
        return code


def test_the_night_screen_shows_trouble_first_and_who_waits_for_whom(
    run: Podium, project: Path
) -> None:
    screen = Screen(project, "status", "--watch")
    frame = screen.wait_for("waits for task-01")
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", frame).replace("\r", "")
    lines = plain.splitlines()
    assert "0 of 3 tasks ended" in lines[0]
    assert lines[1].startswith("error      task-02")
    assert lines[2].startswith("review     task-01")
    rows = {line.split()[0]: line for line in lines[3:] if line.strip()}
    assert "waits for the conductor" in rows["task-01"]
    assert "waits for the conductor: </title>" in rows["task-02"]
    assert "waits for task-01" in rows["task-03"]
    assert max(map(len, lines)) < 110
    assert "\x1b[3" in frame  # coloured
    run("conductor", "approve", "task-01", "-m", "go on", session=BOSS)
    changed = screen.wait_for("review_approved")
    assert re.search(
        r"task-01 +review_approved +\d+ s +\d+ s +1 ", re.sub(r"\x1b\[[0-9;]*m", "", changed)
    )
    assert screen.close() == 130


def test_a_long_night_fits_the_screen(raw: sqlite3.Connection, project: Path) -> None:
    for number in range(60):
        protocol.add(raw, f"task-{number:02}")
    for number in range(4, 30):
        protocol.move(raw, f"task-{number:02}", "exited")
    screen = Screen(project, "status", "--watch")
    frame = screen.wait_for("ended: podium status --all")
    screen.close()
    assert frame.count("\n") <= 24
    assert "task-00" in frame


# The browser


def _browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    if not found:
        reason = "chromium is not on PATH; it is needed to see the page as people do"
        if os.environ.get("PODIUM_REQUIRE_CLIENT") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


def browse(tmp_path: Path, file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open a file in a headless browser that may not reach anything."""
    done = subprocess.run(
        [
            *(_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--enable-logging=stderr", "--log-level=0", "--window-size=1280,2600"),
            *("--proxy-server=127.0.0.1:1", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--disable-background-networking", "--no-first-run", "--disable-extensions"),
            *(*flags, file.as_uri()),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def corner(png: Path) -> tuple[int, int]:
    """Width of a screenshot, and the brightness of its first pixel, which no filter changes."""
    raw, place, packed = png.read_bytes(), 8, b""
    while place < len(raw):
        (size,) = struct.unpack(">I", raw[place : place + 4])
        if raw[place + 4 : place + 8] == b"IDAT":
            packed += raw[place + 8 : place + 8 + size]
        place += 12 + size
    return struct.unpack(">I", raw[16:20])[0], sum(zlib.decompress(packed)[1:4]) // 3


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a night with 50 tasks."""
    night = Run(50)
    log = night.events
    line = timeline.build(night.tasks, log, night.mail, night.sessions, night.context, night.now)
    folder = tmp_path_factory.mktemp("page")
    (folder / "run.html").write_text(timeline_html.page(line, log, f"podium: {HOSTILE}"))
    (folder / "run.svg").write_text(timeline_svg.render(line, "podium: a night"))
    return folder / "run.html"


def test_fifty_tasks_open_in_a_browser_without_a_word_on_its_console(
    page: Path, tmp_path: Path
) -> None:
    done = browse(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in done.stderr
    assert re.findall(r"task-\d\d(?=</text>)", done.stdout) == [f"task-{n:02}" for n in range(51)]
    assert "alert(1)" in done.stdout
    assert "<script" not in done.stdout


MEASURE = """<!doctype html><title>?</title><script>
const frame = document.createElement('iframe');
frame.width = 1280; frame.height = 2600; frame.src = %s;
frame.onload = () => {
  const page = frame.contentDocument, boxes = [];
  for (const text of page.querySelectorAll('svg.podium text')) {
    const box = text.getBoundingClientRect();
    boxes.push([text.textContent, box.left, box.top, box.right, box.bottom,
                parseFloat(getComputedStyle(text).fontSize)]);
  }
  document.title = 'measured';
  document.body.textContent = JSON.stringify(
    {wide: page.documentElement.scrollWidth, boxes});
};
document.documentElement.appendChild(document.createElement('body')).append(frame);
</script>"""


def test_it_is_legible_at_1280_pixels(page: Path, tmp_path: Path) -> None:
    around = page.with_name("around.html")
    around.write_text(MEASURE % json.dumps(page.name))
    flags = ("--allow-file-access-from-files", "--virtual-time-budget=5000", "--dump-dom")
    dom = browse(tmp_path, around, *flags).stdout
    found = json.loads(re.search(r"<body>(\{.*\})</body>", dom, re.DOTALL)[1])  # type: ignore[index]
    assert found["wide"] <= 1280
    boxes = found["boxes"]
    assert len(boxes) > 200
    assert min(size for *_, size in boxes) >= 10
    assert all(left >= 0 and right <= 1280 for _, left, _, right, _, _ in boxes)
    names = [box for box in boxes if re.fullmatch(r"task-\d\d", box[0])]
    for (_, _, _, _, bottom, _), (_, _, top, _, _, _) in zip(names, names[1:]):
        assert top >= bottom  # no line of one task runs into the next


@pytest.mark.parametrize(
    ("scheme", "bright"), [(1, range(240, 256)), (0, range(40))], ids=["light", "dark"]
)
@pytest.mark.parametrize("name", ["run.html", "run.svg"])
def test_it_follows_the_readers_colours(
    page: Path, tmp_path: Path, name: str, scheme: int, bright: range
) -> None:
    shot = tmp_path / "shot.png"
    scheme_flag = f"--blink-settings=preferredColorScheme={scheme}"
    browse(
        tmp_path,
        page.with_name(name),
        scheme_flag,
        "--window-size=1280,400",
        f"--screenshot={shot}",
    )
    width, brightness = corner(shot)
    assert width == 1280
    assert brightness in bright
    assert shot.stat().st_size > 20_000  # something is drawn
