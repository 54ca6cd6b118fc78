"""Which capture ``launchscope dashboard`` shows when none is named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from launchscope.analysis.capture import CaptureWriter
from launchscope.analysis.errors import LaunchscopeError
from launchscope.cli.dashboard import newest_capture

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
