"""``launchscope analyze`` of many rank files: when there is a table, what goes where, and what is left after Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launchscope.cli import run
from launchscope.fixtures.builder import TraceBuilder, trace

from ..s3 import served_bucket

Captured = pytest.CaptureFixture[str]


def rank_trace(rank: int, kernels: int = 4) -> TraceBuilder:
    made = trace().header(distributedInfo={"rank": rank, "world_size": 20})
    for number in range(5):
        at = 100 + 1000 * number
        made.step(number, at, 990)
        for place in range(kernels):
            made.launch(at + 50 * place, 5).kernel(at + 50 * place + 10, 10)
    return made


def write(folder: Path, count: int) -> Path:
    folder.mkdir()
    for rank in range(count):
        rank_trace(rank, 9 if rank == 7 else 4).write(folder / f"rank{rank}.json")
    return folder


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("many") / "run", 20)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("few") / "run", 5)


def test_twenty_traces_become_a_table(twenty: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert run(["analyze", str(twenty)]) == 0
    out, err = capfd.readouterr()
    assert "1 of 20 ranks stands out: rank 7" in out
    assert "kernels per step 9, 5 more than the median 4" in out
    assert err == "launchscope: 20 trace files: a table of ranks; --no-ranks gives each one's report\n"


def test_no_ranks_gives_the_reports(twenty: Path, capfd: Captured) -> None:
    assert run(["analyze", str(twenty), "--no-ranks", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["schema"] == "launchscope.report/1"
    assert "a table of ranks" not in err


def test_five_traces_have_a_report_each_and_a_word_about_the_table(five: Path, capfd: Captured) -> None:
    assert run(["analyze", str(five), "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["schema"] == "launchscope.report/1"
    assert "launchscope: 5 traces: a report of each; --ranks puts them side by side\n" in err


def test_five_traces_side_by_side(five: Path, capfd: Captured) -> None:
    assert run(["analyze", str(five), "--ranks", "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["schema"] == "launchscope.ranks/1"
    assert [row["rank"] for row in document["rows"]] == [0, 1, 2, 3, 4]
    assert document["world_size"] == 20
    assert document["missing_ranks"] == list(range(5, 20))


def test_a_pattern_and_several_paths(five: Path, twenty: Path, capfd: Captured) -> None:
    assert run(["analyze", f"{five}/rank[0-2].json", *map(str, twenty.glob("rank1?.json")), "--ranks"]) == 0
    assert "13 of 13 read" in capfd.readouterr().out


def test_parquet_is_a_table(five: Path, tmp_path: Path, capfd: Captured) -> None:
    pandas = pytest.importorskip("pandas")
    assert run(["analyze", str(five), "-o", str(tmp_path / "ranks.parquet")]) == 0
    frame = pandas.read_parquet(tmp_path / "ranks.parquet")
    assert list(frame["rank"]) == [0, 1, 2, 3, 4]
    assert list(frame["period_ns_median"]) == [1e6] * 5
    assert f"written to {tmp_path / 'ranks.parquet'}" in capfd.readouterr().err


@pytest.mark.parametrize("suffix", [".json", ".md", ".txt"])
def test_other_files(five: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"ranks{suffix}"
    assert run(["analyze", str(five), "--ranks", "-o", str(file)]) == 0
    text = file.read_text()
    assert {".json": '"launchscope.ranks/1"', ".md": "| over the ranks |", ".txt": "over the ranks "}[suffix] in text


def test_what_the_table_can_t_become_is_a_report(twenty: Path, tmp_path: Path, capfd: Captured) -> None:
    assert run(["analyze", str(twenty), "-o", str(tmp_path / "out.pftrace"), "--no-ranks"]) == 0
    assert run(["analyze", str(twenty), "-o", str(tmp_path / "out2.pftrace")]) == 0
    assert run(["analyze", str(twenty), "--ranks", "-o", str(tmp_path / "out.html")]) == 2
    assert "a table of ranks can't be written as .html" in capfd.readouterr().err


@pytest.mark.parametrize("option", [["--workers", "2"], ["--dask", "tcp://a:1"], ["--resume", "kept"]])
def test_options_of_the_table_without_it(five: Path, capfd: Captured, option: list[str]) -> None:
    assert run(["analyze", str(five), "--no-ranks", *option]) == 2
    assert f"{option[0]} is of the table of ranks" in capfd.readouterr().err


def test_a_table_in_which_nothing_can_be_read(tmp_path: Path, capfd: Captured) -> None:
    for rank in range(4):
        (tmp_path / f"rank{rank}.json").write_bytes(b"")
    assert run(["analyze", str(tmp_path), "--ranks"]) == 2
    out, err = capfd.readouterr()
    assert "none of 4 files can be read" in out
    assert "none of 4 files can be read; the first: empty (0 bytes)" in err


def test_resume_reads_nothing_twice(five: Path, tmp_path: Path, capfd: Captured) -> None:
    command = ["analyze", str(five), "--resume", str(tmp_path / "kept")]
    assert run(command) == 0
    capfd.readouterr()
    assert run(command) == 0
    assert "5 rows from an earlier run" in capfd.readouterr().out


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of boto's own
def test_urls(capfd: Captured) -> None:
    """A folder is a table however few there are; a single file has its report, under its URL."""
    with served_bucket() as (bucket, system):
        for rank in range(3):
            system.pipe(f"{bucket}/cli/rank{rank}.json", rank_trace(rank).json())
        system.pipe(f"{bucket}/cli/bad.json", b"{}")
        assert run(["analyze", f"{bucket}/cli", "--format", "json"]) == 0
        assert len(json.loads(capfd.readouterr().out)["rows"]) == 4
        assert run(["analyze", f"{bucket}/cli/rank1.json", "--format", "json"]) == 0
        out, err = capfd.readouterr()
        [told] = json.loads(out)["traces"]
        assert (told["name"], told["source"]["path"], told["rank"]) == ("rank1.json", f"{bucket}/cli/rank1.json", 1)
        assert f"fetching {bucket}/cli/rank1.json" in err
        assert run(["analyze", f"{bucket}/cli/bad.json"]) == 2
        assert capfd.readouterr().err.splitlines()[-1].startswith(f"launchscope: {bucket}/cli/bad.json: ")
        assert run(["analyze", f"{bucket}/nowhere"]) == 2
        assert "no such file or folder" in capfd.readouterr().err


@pytest.mark.parametrize("url", ["memory://cli", "http://127.0.0.1:9/a.json", "simplecache::s3://bucket/a.json"])
def test_a_url_that_is_not_read_is_told_in_one_line(url: str, capfd: Captured) -> None:
    for command in ("analyze", "dashboard"):
        assert run([command, url]) == 2
        assert capfd.readouterr().err.splitlines()[-1].startswith(f"launchscope: {url}: ")


def test_a_file_url(five: Path, capfd: Captured) -> None:
    assert run(["analyze", f"file://{five}/rank1.json", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["traces"][0]["rank"] == 1


def test_ctrl_c_says_what_is_kept_and_where(five: Path, tmp_path: Path) -> None:
    stuck, kept = tmp_path / "rank9.json", tmp_path / "kept"
    os.mkfifo(stuck)
    command = [sys.executable, "-m", "launchscope", "analyze", str(five), str(stuck), "--resume", str(kept)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while len(list(kept.glob("*.row"))) < 5 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert re.search(rf"5 of 6 files were finished; they are kept in {re.escape(str(kept))}", err)
    assert err.endswith("launchscope: interrupted\n")
    stuck.unlink()
    rank_trace(9).write(stuck)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "6 of 6 read" in done.stdout
    assert "5 rows from an earlier run" in done.stdout
