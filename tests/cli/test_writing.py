"""``-o FILE`` is written whole or not at all; color and width follow the terminal."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.cli import writing
from launchscope.cli.progress import progress_bar, progress_line
from launchscope.cli.writing import check_writable, terminal_width, wants_color, write_file
from launchscope.fixtures.builder import trace


def test_a_file_is_written(tmp_path: Path) -> None:
    write_file(tmp_path / "report.md", "τ = 4.3 µs\n")
    write_file(tmp_path / "out.pftrace", b"\x0a\x00")
    assert (tmp_path / "report.md").read_text("utf-8") == "τ = 4.3 µs\n"
    assert (tmp_path / "out.pftrace").read_bytes() == b"\x0a\x00"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.pftrace", "report.md"]


def test_a_new_file_has_the_modes_that_umask_leaves_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("old")
    old.chmod(0o640)
    before = os.umask(0o022)
    try:
        write_file(tmp_path / "new", "new")
        write_file(old, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert old.read_text() == "new"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_what_was_there_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(_: int) -> None:
        raise error

    target = tmp_path / "report.json"
    target.write_text("the old report")
    monkeypatch.setattr(writing.os, "fsync", fail)
    with pytest.raises((LaunchscopeError, KeyboardInterrupt)) as raised:
        write_file(target, "half of the new")
    if isinstance(error, OSError):
        assert str(raised.value) == f"{target}: can't be written: No space left on device"
    assert target.read_text() == "the old report"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_write_protected_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LaunchscopeError, match="Permission denied"):
        write_file(tmp_path / "report.md", "x")


def test_places_that_can_not_be_written_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(LaunchscopeError, match="is a folder; name a file"):
        check_writable(tmp_path)
    with pytest.raises(LaunchscopeError, match=r"the folder .*missing doesn't exist"):
        check_writable(tmp_path / "missing" / "report.md")
    trace = tmp_path / "trace.json"
    trace.write_text("{}")
    (tmp_path / "same.json").hardlink_to(trace)
    with pytest.raises(LaunchscopeError, match="is an input; -o would overwrite it"):
        check_writable(tmp_path / "same.json", [tmp_path / "absent", trace])


def test_a_part_of_an_input_capture_is_not_overwritten_but_a_report_may_lie_beside_it(tmp_path: Path) -> None:
    (tmp_path / "capture" / "traces").mkdir(parents=True)
    parts = [tmp_path / "capture" / part for part in ("manifest.json", "traces/eager-0-cuda.json.gz")]
    for part in parts:
        part.write_text("{}")
        with pytest.raises(LaunchscopeError, match="is an input; -o would overwrite it"):
            check_writable(part, [tmp_path / "capture"])
    (tmp_path / "capture" / "report.md").write_text("old")
    check_writable(tmp_path / "capture" / "report.md", [tmp_path / "capture", tmp_path / ("n" * 300)])


def test_what_lies_in_an_input_folder_is_not_overwritten_whether_it_is_a_trace_or_not(tmp_path: Path) -> None:
    notes = tmp_path / "run" / "rank_0" / "notes.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    (tmp_path / "elsewhere.md").symlink_to(notes)
    (tmp_path / "link").symlink_to("run")
    for given in (tmp_path / "run", tmp_path / "link", tmp_path / "r*", tmp_path / "**", notes.parent / "*.md"):
        for path in (notes, tmp_path / "elsewhere.md", tmp_path / "link" / "rank_0" / ".." / "rank_0" / "notes.md"):
            with pytest.raises(LaunchscopeError, match="is an input; -o would overwrite it"):
                check_writable(path, [given])
    check_writable(notes.with_name("new.md"), [tmp_path / "run"])
    check_writable(notes, [tmp_path / "absent", tmp_path / "a*", notes.parent / "*.json"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_what_is_write_protected_is_refused_at_once(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text("old")
    report.chmod(0o444)
    with pytest.raises(LaunchscopeError, match="is write-protected"):
        check_writable(report)
    tmp_path.chmod(0o500)
    with pytest.raises(LaunchscopeError, match="no right to write in the folder"):
        check_writable(tmp_path / "new.md")


EXPORT = """
import resource, sys, time
from launchscope.cli import main, outputs
{before}
sys.argv[1:] = ["export", "trace.json", "-o", "out.pftrace"]
main()
"""


def exporting(folder: Path, before: str) -> subprocess.Popen[str]:
    """An export over a file that is there."""
    building = trace()
    for at in range(0, 3000, 10):
        building.launch(at, 2).kernel(at + 4, 3)
    building.write(folder / "trace.json")
    (folder / "out.pftrace").write_text("old")
    return subprocess.Popen(
        [sys.executable, "-c", EXPORT.format(before=before)], cwd=folder, stderr=subprocess.PIPE, text=True
    )


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    process = exporting(tmp_path, "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.splitlines()[-1] == "launchscope: out.pftrace: can't be written: File too large"
    assert (tmp_path / "out.pftrace").read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.pftrace", "trace.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_that_takes_nothing_is_told() -> None:
    with pytest.raises(LaunchscopeError, match="/dev/full: can't be written: No space left on device"):
        write_file(Path("/dev/full"), (b"x" * 99 for _ in range(9)))


CUT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from launchscope.cli import writing
{do}
"""


def written_to_a_disk_of_100_bytes(folder: Path, do: str, unbuffered: bool) -> subprocess.CompletedProcess[str]:
    """100 bytes fit: a longer write takes a part and says so, as on a disk that fills up."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1" if unbuffered else ""}
    with (folder / "shown").open("wb") as shown:
        return subprocess.run(
            [sys.executable, "-c", CUT.format(do=do)],
            stdout=shown,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment,
        )


@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "report",
    ["print_report('x' * 300)", "print_report('x' * 300, utf8=True)", "print_report(b'x' * 300)"],
    ids=["text", "utf8", "bytes"],
)
def test_a_report_of_which_the_disk_takes_a_part_is_told(tmp_path: Path, report: str, unbuffered: bool) -> None:
    do = f"""
writing.prepare_stdout()
try:
    writing.{report}
except writing.LaunchscopeError as error:
    writing.say(str(error))
writing.settle_stdout()
"""
    done = written_to_a_disk_of_100_bytes(tmp_path, do, unbuffered)
    assert done.stderr == "launchscope: can't write to stdout: File too large\n"
    assert (tmp_path / "shown").stat().st_size == 100


@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", ["--help", "analyze {trace}", "analyze {trace} --format json"])
def test_a_command_whose_output_is_cut_exits_with_2(tmp_path: Path, arguments: str, unbuffered: bool) -> None:
    file = trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    words = arguments.format(trace=file).split()
    do = f"from launchscope.cli import run; sys.exit(run({words}))"
    done = written_to_a_disk_of_100_bytes(tmp_path, do, unbuffered)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "launchscope: can't write to stdout: File too large"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_while_a_file_is_written_leaves_what_was_there(tmp_path: Path, number: signal.Signals) -> None:
    wait = """
pieces = outputs._counted
outputs._counted = lambda *how: (print("writing", file=sys.stderr, flush=True) or time.sleep(30) for _ in pieces(*how))
"""
    process = exporting(tmp_path, wait)
    assert process.stderr is not None
    while process.stderr.readline() != "writing\n":
        pass
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (tmp_path / "out.pftrace").read_text() == "old"
    left = [file.name for file in tmp_path.iterdir() if file.name not in ("out.pftrace", "trace.json")]
    if number == signal.SIGKILL:
        assert [re.sub("[0-9a-f]+-[0-9a-f]{8}", "N", name) for name in left] == [".launchscope-N.partial"]
    else:
        assert (left, err, process.returncode) == ([], "launchscope: interrupted\n", 128 + number)


def test_a_relative_name_in_a_folder_that_was_deleted_is_told(tmp_path: Path) -> None:
    code = """
import os, sys
os.rmdir(os.getcwd())
from pathlib import Path
from launchscope.cli.writing import write_file
from launchscope.analysis.model.errors import LaunchscopeError
try:
    write_file(Path("report.md"), "x")
except LaunchscopeError as error:
    print(error)
"""
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path / "gone"
    )
    assert done.stdout == "report.md: can't be written: No such file or directory\n"


WRITING = "from pathlib import Path; from launchscope.cli.writing import write_file; write_file(Path({!r}), 'τ')"


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_dev_stdout_is_written_and_not_replaced(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING.format("/dev/stdout")]
    assert subprocess.run(command, capture_output=True, check=True).stdout == "τ".encode()
    log = tmp_path / "log"
    log.write_text("before ")
    with log.open("a") as stdout:
        subprocess.run(command, stdout=stdout, check=True)
    assert log.read_text("utf-8") == "before τ"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_pipe_of_the_shell_is_written(tmp_path: Path) -> None:
    reading, writing_end = os.pipe()
    write_file(Path(f"/dev/fd/{writing_end}"), "τ")
    os.close(writing_end)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        assert pipe.read() == "τ"


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_and_not_replaced() -> None:
    write_file(Path("/dev/null"), "gone")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_longest_possible_name_can_be_written(tmp_path: Path) -> None:
    write_file(tmp_path / ("n" * 255), "x")
    with pytest.raises(LaunchscopeError, match="File name too long"):
        write_file(tmp_path / ("n" * 256), "x")


def test_what_is_said_has_no_breaks_and_no_control_characters() -> None:
    code = r"from launchscope.cli.writing import say; say('a\n  b\x1b[2J\udcff\n\nc · τ')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr.decode() == "launchscope: a b\\x1b[2J\\udcff c · τ\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_color(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], terminal: bool, wanted: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal() if terminal else io.StringIO())
    assert wants_color() is wanted


def test_width_is_the_terminals_else_100() -> None:
    code = "from launchscope.cli.writing import terminal_width; print(terminal_width())"
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert piped.stdout == "100\n"
    assert seen_in_a_terminal(code, columns=72, environment=environment) == "72\r\n"


@pytest.mark.parametrize(("columns", "width"), [("3", 40), ("400", 400), ("9" * 30, 1000)])
def test_width_has_bounds(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width


def seen_in_a_terminal(code: str, columns: int, environment: dict[str, str]) -> str:
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    with os.fdopen(ours, "rb") as shown, contextlib.suppress(OSError):  # which is how a terminal ends
        while more := shown.read1(4096):
            seen += more
    assert process.wait(30) == 0
    return seen.decode()


def test_progress_is_a_line_each_in_a_log(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_line() as progress:
        progress("eager, process 1 of 3: timing")
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "launchscope: eager, process 1 of 3: timing · 0 s\n"


def test_progress_is_one_line_that_goes_away_on_a_terminal() -> None:
    code = """
from launchscope.cli.progress import progress_line
with progress_line() as progress:
    progress("eager" + "!" * 99)
    progress("graph")
"""
    shown = seen_in_a_terminal(code, columns=30, environment=dict(os.environ))
    assert shown == f"\r\x1b[2Keager{'!' * 24}\r\x1b[2Kgraph · 0 s\r\x1b[2K"


@pytest.mark.parametrize("doing", ["reading", "writing"])
def test_no_bar_in_a_log(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, doing: str) -> None:
    monkeypatch.setattr("launchscope.cli.progress._QUIET_S", 0.0)
    with progress_bar(doing) as progress:
        progress("trace.json", 100, 50)
    assert capfd.readouterr() == ("", "")


BAR = """
import time
from launchscope.cli import progress
from rich.progress import Progress

drawn, update = [], Progress.update
Progress.update = lambda *how, **what: drawn.append(update(*how, **what))
progress._QUIET_S, progress._REFRESH_S = {quiet_s}, 0.01
with progress.progress_bar("{doing}") as bar:
    for path, size, count in {told}:
        bar(path, size, count)
        before, until = len(drawn), time.monotonic() + {patience_s}
        while len(drawn) < before + 2 and time.monotonic() < until:
            time.sleep(0.01)
print("end")
"""


@pytest.mark.parametrize(
    ("doing", "told", "shown"),
    [
        ("reading", [("/x/[bold]a\\x1b.json", 2_000_000, 500_000)], ["reading [bold]a\\x1b.json", "0.5/2.0 MB · 0 s"]),
        ("reading", [("a.json", 2_000_000, 500_000)] * 4, ["reading a.json", "analyzing a.json", "2.0/2.0 MB"]),
        ("reading", [("a", 9, 9), ("b", 3_000_000, 1_000_000)], ["analyzing a", "reading b", "1.0/3.0 MB"]),
        ("writing", [("out.pftrace", None, 500_000)], ["writing out.pftrace", "0.5 MB · 0 s"]),
        ("writing", [(f"{'n' * 99}.pftrace", None, 1)], [f"writing {'n' * 31}…"]),
    ],
)  # fmt: skip
def test_a_bar_shows_how_far_reading_or_writing_is(
    doing: str, told: list[tuple[str, int | None, int]], shown: list[str]
) -> None:
    code = BAR.format(quiet_s=0, doing=doing, told=told, patience_s=30)
    seen = seen_in_a_terminal(code, columns=80, environment=os.environ | {"TERM": "xterm", "NO_COLOR": "1"})
    assert [text for text in shown if text not in seen] == []
    assert seen.endswith("\x1b[2Kend\r\n")


@pytest.mark.parametrize(("quiet_s", "term"), [(60, "xterm"), (0, "dumb")])
def test_no_bar_for_what_is_quick_or_where_none_can_be_drawn(quiet_s: int, term: str) -> None:
    code = BAR.format(quiet_s=quiet_s, doing="reading", told=[("a.json", 2, 1)], patience_s=0.2)
    assert seen_in_a_terminal(code, columns=80, environment=os.environ | {"TERM": term}) == "end\r\n"


def test_a_bar_is_drawn_while_a_trace_is_written_and_the_report_is_on_stdout_alone(tmp_path: Path) -> None:
    file = trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    code = f"""
import time
import rich.progress
from launchscope.cli import outputs, progress, run
progress._QUIET_S = 0
counted = outputs._counted
outputs._counted = lambda *how: (time.sleep(0 if at else 0.3) or piece for at, piece in enumerate(counted(*how)))
run(["export", {str(file)!r}, "-o", {str(tmp_path / "out.pftrace")!r}])
"""
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": "1"}
    seen = seen_in_a_terminal(code, columns=80, environment=environment)
    assert "writing out.pftrace" in seen
    assert seen.endswith(f"\x1b[2Klaunchscope: written to {tmp_path / 'out.pftrace'}\r\n")
