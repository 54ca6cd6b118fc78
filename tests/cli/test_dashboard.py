"""What ``launchscope dashboard`` shows: the newest capture when none is named, and when the page is of many ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.model.capture import CaptureWriter
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.cli import run
from launchscope.cli.dashboard import newest_capture
from launchscope.cli.many import is_for_a_table, table_of
from launchscope.dashboard.many.rank_pages import kept_table
from launchscope.fixtures.builder import trace

from ..analysis.captures import two_modes, write_capture


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "launchscope-out"


def kept(file: Path, at: int) -> Path:
    write_capture(file, two_modes())
    os.utime(file, (at, at))
    return file


def test_the_one_that_was_kept_last() -> None:
    kept(Path("launchscope-out/b"), 100)
    newest = kept(Path("launchscope-out/a.zip"), 200)
    assert newest_capture() == newest


def test_not_one_that_is_being_written_nor_what_is_none(folder: Path) -> None:
    capture = kept(Path("launchscope-out/b"), 100)
    writer = CaptureWriter(folder / "c")
    shutil.copytree(capture / "traces", writer.folder / "traces", dirs_exist_ok=True)
    (folder / "report.html").write_text("<html>")
    shutil.copytree(capture / "traces", folder / "copying" / "traces")
    assert newest_capture() == capture


def test_where_the_only_one_is_being_written_it_says_so(folder: Path) -> None:
    CaptureWriter(folder / "c")
    with pytest.raises(LaunchscopeError, match=r"nothing to show yet: .* still being written; try again"):
        newest_capture()


def test_without_any_it_says_what_to_try() -> None:
    with pytest.raises(LaunchscopeError, match="no capture in launchscope-out/; try launchscope demo --dashboard"):
        newest_capture()


def test_a_package_that_is_absent_is_named() -> None:
    code = "import sys; sys.modules['flask'] = None; from launchscope.cli import run; exit(run(['dashboard', 'x']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = "launchscope: the dashboard needs the package flask: pip install 'launchscope[dashboard]'\n"
    assert (done.returncode, done.stderr) == (2, said)


def write_ranks(folder: Path, count: int) -> Path:
    folder.mkdir()
    for rank in range(count):
        trace().step(0).launch(at=0, dur=5).kernel(at=10, dur=20).write(folder / f"rank{rank}.json")
    return folder


def test_over_sixteen_traces_are_a_page_of_many_ranks_and_fewer_where_asked(tmp_path: Path) -> None:
    few, many = write_ranks(tmp_path / "few", 2), write_ranks(tmp_path / "many", 17)
    assert not is_for_a_table(sources([few]), forced=False)
    assert is_for_a_table(sources([few]), forced=True)
    assert is_for_a_table(sources([many]), forced=False)
    assert [row.rank for row in table_of(sources([few])).rows] == [0, 1]


def test_a_table_that_was_kept_is_shown_without_reading_traces(tmp_path: Path) -> None:
    folder, file = write_ranks(tmp_path / "run", 2), tmp_path / "ranks.json"
    assert run(["analyze", str(folder), "--ranks", "-o", str(file)]) == 0
    shutil.rmtree(folder)
    doc = kept_table([file])
    assert doc is not None
    assert [row.rank for row in doc.rows] == [0, 1]
    whole = file.read_bytes()
    for damaged in (whole[:-40], whole.rstrip().removesuffix(b"}") + b',"x":' + b"[" * 100_000):
        file.write_bytes(damaged)
        with pytest.raises(LaunchscopeError, match=r"ranks\.json: a table of ranks, but it can't be read"):
            kept_table([file])
    assert kept_table([write_ranks(tmp_path / "other", 1) / "rank0.json"]) is None
