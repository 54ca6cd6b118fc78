"""One way to ask what lies at a path; whatever keeps it from being looked at is told."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import launchscope
import pytest
from launchscope.analysis.compare.config import find_config
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.paths import SMALL_BYTES, content, exists, is_device, is_file, is_folder, listed, status
from launchscope.analysis.report import analyze
from launchscope.cli.dashboard import newest_capture
from launchscope.dashboard.many.rank_pages import kept_table
from launchscope.fixtures.builder import trace
from launchscope.tracer.target.target import load

from ...rights import rights_hold

PACKAGE = Path(launchscope.__file__).parent
ASKS_ITSELF = re.compile(r"(?<!member)\.(is_dir|is_file|exists)\(\)")
MAY_ASK = {
    "analysis/model/paths.py",
    "analysis/inputs/readers/sqlite_file.py",  # beside a file that is open
    "cli/writing.py",  # where a report goes, told as what can't be written
    "tracer/target/checkout.py",  # these: files of their own making
    "tracer/processes/client.py",
    "tracer/measure/device.py",
    "tracer/processes/coordinator.py",
}


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be looked into."""
    folder = tmp_path / "locked"
    folder.mkdir()
    (folder / "trace.json").write_text("{}")
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def test_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    seen = {
        path.name: (exists(path), is_folder(path), is_file(path), is_device(path))
        for path in (tmp_path, *(tmp_path / n for n in ("file", "link", "pipe", "no", "file/x")), Path("/dev/null"))
    }
    assert list(seen.values()) == [
        (True, True, False, False),
        (True, False, True, False),
        (True, False, True, False),
        (True, False, False, False),
        (False, False, False, False),
        (False, False, False, False),
        (True, False, False, True),
    ]
    assert {path.name for path in listed(tmp_path)} == {"file", "link", "pipe"}
    assert content(tmp_path / "link", 3) == b"abc"


@pytest.mark.parametrize("ask", [status, exists, is_folder, is_file, is_device, content])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("n" * 256, "File name too long"),
        ("circle", "Too many levels of symbolic links"),
        ("a\0b", "embedded null byte"),
        ("\ud800", "surrogates not allowed"),
        ("locked/trace.json", "Permission denied"),
    ],
)
def test_what_can_not_be_looked_at(
    tmp_path: Path, locked: Path, ask: Callable[[Path], object], name: str, why: str
) -> None:
    (tmp_path / "circle").symlink_to("circle")
    with rights_hold(), pytest.raises(UnreadableInput, match=rf"can't be read \(.*{why}\); check the path"):
        ask(tmp_path / name)


def test_content_has_a_bound_and_is_not_of_a_device(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", SMALL_BYTES + 1)
    with pytest.raises(UnreadableInput, match="over 64 MiB, more than any such file has"):
        content(tmp_path / "large")
    with pytest.raises(UnreadableInput, match="/dev/zero: a device"):
        content(Path("/dev/zero"))
    with pytest.raises(UnreadableInput, match="Is a directory"):
        content(tmp_path)
    with pytest.raises(UnreadableInput, match="no such file; check the path"):
        content(tmp_path / "missing")


@pytest.mark.parametrize("name", ["a\0b", "\ud800.json", "n" * 256], ids=["null", "surrogate", "long"])
def test_the_library_tells_of_it_as_commands_do(tmp_path: Path, name: str) -> None:
    file = trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    for do in (
        lambda: launchscope.load(name),
        lambda: launchscope.analyze(name, file),
        lambda: launchscope.compare(file, name),
        lambda: launchscope.check(file, name),
        lambda: launchscope.check(file, config=name),
        lambda: launchscope.whatif(name, tau="2us"),
        lambda: launchscope.profile("model.py", out=name),
    ):
        with pytest.raises(launchscope.analysis.model.errors.LaunchscopeError, match="can't be read"):
            do()


def test_a_folder_among_traces_that_can_not_be_looked_into_is_not_passed_over(tmp_path: Path, locked: Path) -> None:
    trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    with rights_hold():
        document = analyze(tmp_path).document
    assert [Path(each.path).name for each in document.unread] == ["locked"]
    assert "Permission denied" in document.unread[0].reason


def test_files_that_can_be_listed_and_not_read_are_not_passed_over(tmp_path: Path, locked: Path) -> None:
    trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    locked.chmod(0o400)
    with rights_hold():
        document = analyze(tmp_path).document
    assert [Path(each.path).name for each in document.unread] == ["trace.json"]
    assert "Permission denied" in document.unread[0].reason


def test_captures_that_can_not_be_listed_are_not_none(
    tmp_path: Path, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    locked.rename("launchscope-out")
    with rights_hold(), pytest.raises(UnreadableInput, match="launchscope-out: can't be read"):
        newest_capture()
    Path("launchscope-out").rename(locked)


def test_a_configuration_that_can_not_be_looked_for_is_told(locked: Path) -> None:
    with rights_hold(), pytest.raises(UnreadableInput, match="Permission denied"):
        find_config(locked)


def test_a_target_that_can_not_be_looked_at_is_told(locked: Path) -> None:
    with rights_hold(), pytest.raises(UnreadableInput, match=r"model.py: can't be read \(Permission denied\)"):
        load(f"{locked / 'model.py'}:build")


def test_a_pipe_is_left_to_its_reader(tmp_path: Path) -> None:
    """It can be read once; nobody writes to this one, so that to open it would wait for ever."""
    os.mkfifo(tmp_path / "ranks.json")
    assert kept_table((tmp_path / "ranks.json",)) is None


def test_nobody_else_asks() -> None:
    rooms = [PACKAGE / room for room in ("analysis", "cli", "dashboard", "tracer")]
    files = [file for room in rooms for file in room.rglob("*.py")]
    asking = {str(file.relative_to(PACKAGE)) for file in files if ASKS_ITSELF.search(file.read_text("utf-8"))}
    assert asking <= MAY_ASK
