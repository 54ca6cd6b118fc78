"""Captures that are still being written, go, or are replaced while their page is served."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.report import load
from launchscope.dashboard.opened_report import Watched, open_bands
from launchscope.dashboard.page.server import Access
from launchscope.dashboard.site.serve import build_app
from launchscope.fixtures.builder import trace
from werkzeug.test import Client

from ..analysis.captures import two_modes, write_capture

BASE = "http://127.0.0.1:8050"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "model", two_modes())


def replace(folder: Path) -> None:
    """By another of the same content."""
    shutil.copytree(folder, other := folder.with_name("other"))
    shutil.rmtree(folder)
    other.rename(folder)


def cut_a_trace(folder: Path) -> None:
    file = next((folder / "traces").iterdir())
    file.write_bytes(file.read_bytes()[:100])


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (shutil.rmtree, "model is gone"),
    (replace, "model has changed"),
    (cut_a_trace, "has changed"),
    (lambda folder: (folder / "manifest.json").unlink(), "model has changed"),
    (lambda folder: shutil.rmtree(folder / "traces"), "is gone"),
]


@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_the_page_says_what_became_of_its_capture_and_goes_on(
    capture: Path, change: Callable[[Path], None], told: str
) -> None:
    watched = Watched.of([capture])
    page = Client(build_app(open_bands(load(capture)), Access("127.0.0.1", 8050, None), watched).server)
    assert "warning" not in said(page)
    change(capture)
    assert told in said(page)
    for path in ("/", "/_dash-layout", "/download/report.json", "/download/trace.pftrace", "/download/kernels.csv"):
        assert page.get(path, base_url=BASE).status_code == 200


def said(page: Client) -> str:
    """What the page says of its files, after any event."""
    event = {
        "output": "changed.children",
        "outputs": {"id": "changed", "property": "children"},
        "inputs": [{"id": "url", "property": "search", "value": "?step=1"}],
        "changedPropIds": ["url.search"],
    }
    answer = page.post("/_dash-update-component", json=event, base_url=BASE)
    assert answer.status_code == 200
    return answer.text


def test_a_report_written_beside_a_captures_own_files_changes_nothing(capture: Path) -> None:
    watched = Watched.of([capture])
    (capture / "report.html").write_text("<html>")
    assert watched.problem() is None


def test_a_trace_that_comes_into_a_folder_of_traces_is_told(tmp_path: Path) -> None:
    builder = trace().step(0).launch(at=10, dur=5).kernel(at=20, dur=30)
    builder.write(tmp_path / "rank_0.json")
    watched = Watched.of([tmp_path])
    assert watched.problem() is None
    builder.write(tmp_path / "rank_1.json")
    assert "has changed" in (watched.problem() or "")


def test_a_manifest_that_comes_after_the_traces_is_told(capture: Path, tmp_path: Path) -> None:
    """As in a folder that is being copied."""
    shutil.copytree(capture / "traces", tmp_path / "copy" / "traces")
    watched = Watched.of([tmp_path / "copy"])
    assert watched.problem() is None
    shutil.copy(capture / "manifest.json", tmp_path / "copy")
    assert "copy has changed" in (watched.problem() or "")


def test_a_capture_that_is_still_being_written_is_told(capture: Path, tmp_path: Path) -> None:
    partial = tmp_path / ".other-x1.partial"
    shutil.copytree(capture / "traces", partial / "traces")
    watched = Watched.of([partial])
    assert "was still being written by launchscope profile" in (watched.problem() or "")
    partial.rename(tmp_path / "other")
    assert f"{partial} is gone" in (watched.problem() or "")


def test_a_pattern_is_watched_by_what_it_matched(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    watched = Watched.of(sources([tmp_path / "*.json"]).local)
    (tmp_path / "a.json").unlink()
    assert "a.json is gone" in (watched.problem() or "")


def test_a_pipe_is_not_watched_as_it_changes_when_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Watched.of([tmp_path / "pipe"]).states == ()


def test_a_name_that_is_no_utf8_can_be_told(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n.json"))
    file.write_text("{}")
    watched = Watched.of([file])
    file.unlink()
    assert r"\xff .json is gone" in (watched.problem() or "")
    (watched.problem() or "").encode()
