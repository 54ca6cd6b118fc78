"""What a user does first, with the versions that are installed: .ci/run does it with the lowest ones, too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import launchscope
import pytest
from launchscope.fixtures.builder import trace
from playwright.sync_api import expect

from .conftest import CAPTURES, opening, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CAPTURE = CAPTURES / "llama_1b.zip"


def run(*arguments: str | Path, cwd: Path | None = None) -> str:
    """What launchscope prints; it ends with 0, and warns of nothing."""
    command = [sys.executable, "-W", "error", "-m", "launchscope", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """Three ranks of two steps, with one kernel each."""
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(3):
        builder = trace()
        for at in (0, 100):
            builder.step(at // 100, at, 95).launch(at, 5).kernel(at + 10, 40)
        builder.write(folder / f"rank{rank}.json")
    return folder


def test_demo() -> None:
    assert "eager" in run("demo")


def test_analyze() -> None:
    report = json.loads(run("analyze", CAPTURE, "--format", "json"))
    assert list(report["profile"]["modes"]) == ["eager", "graph", "fused", "fused_graph"]


def test_check(tmp_path: Path) -> None:
    run("baseline", "save", CAPTURE, cwd=tmp_path)
    assert "All 18 limits hold." in run("check", CAPTURE, cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "begin"), [("trace.pftrace", b"\n"), ("report.html", b"<!DOCTYPE html>"), ("report.md", b"#")]
)
def test_export(name: str, begin: bytes, tmp_path: Path) -> None:
    run("export", CAPTURE, "-o", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)


def test_a_table_of_ranks_as_parquet(ranks: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    run("analyze", ranks, "--ranks", "-o", tmp_path / "ranks.parquet")
    assert parquet.read_table(tmp_path / "ranks.parquet").num_rows == 3  # type: ignore[no-untyped-call]


def test_data_frames() -> None:
    gaps = launchscope.load(CAPTURE).gaps
    assert len(gaps.groupby("mode")) == 4


def test_the_page(chromium: Browser) -> None:
    with served(CAPTURE) as address, opening(chromium, address) as open_page:
        page = open_page()
        expect(page.locator("#grid .ag-center-cols-container .ag-row").first).to_be_visible(timeout=30_000)
        expect(page.locator("#charts .js-plotly-plot")).to_have_count(3)


def test_the_page_of_ranks(chromium: Browser, ranks: Path) -> None:
    with served(ranks, "--ranks") as address, opening(chromium, address, "#heat .hm image") as open_page:
        expect(open_page().locator("#grid .ag-center-cols-container .ag-row")).to_have_count(3, timeout=30_000)
