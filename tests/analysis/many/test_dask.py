"""A Dask cluster of several processes on this machine: the same rows, also when one of them is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many import pool
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.model.errors import LaunchscopeError, MissingRequirement

from .processes import is_reading, kill_reader, wait_for
from .rank_files import rank_trace, write_ranks

pytest.importorskip("distributed")
from distributed import Client, LocalCluster

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of a worker that was killed
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": ":0"},  # any port: another cluster may run here
        silence_logs=50,
    ) as cluster:
        yield cluster


def pids(cluster: LocalCluster) -> list[int]:
    return [nanny.pid for nanny in list(cluster.workers.values()) if nanny.pid]


def test_the_same_rows_and_a_killed_worker_costs_time_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    """It is killed while it reads a pipe, into which somebody writes when Dask has given the file to another."""
    paths = write_ranks(tmp_path / "run", 8)
    alone = analyze_ranks(sources(paths), workers=1)
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    done = []

    def progress(count: int, total: int, row: object) -> None:
        done.append(row)
        if count == len(paths):
            kill_reader(stuck, lambda: pids(cluster))
            content = rank_trace(9).json()
            threading.Thread(target=stuck.write_bytes, args=(content,), daemon=True).start()

    document = analyze_ranks(sources([stuck, *paths]), dask=cluster.scheduler_address, progress=progress)
    assert len(done) == 9
    assert [row.error for row in document.rows] == [None] * 9
    assert [row.period_ns for row in document.rows[:8]] == [row.period_ns for row in alone.rows]
    assert document.alignment == alone.alignment


def test_a_file_that_kills_every_worker_is_a_row(cluster: LocalCluster, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path / "run", 3)
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    ends = threading.Event()

    def kill() -> None:
        while not ends.wait(0.05):
            for pid in pids(cluster):
                if is_reading(pid, stuck):
                    os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 1))
    try:
        document = analyze_ranks(sources([stuck, *paths]), dask=cluster.scheduler_address)
    finally:
        ends.set()
        killer.join()
    lost = document.rows[3]
    assert (lost.rank, lost.error_kind) == (9, "worker")
    assert lost.error == "2 workers died over it, twice: probably for want of memory"
    assert [row.error for row in document.rows[:3]] == [None] * 3


def test_a_cluster_that_closes_in_the_middle_is_told_and_finished_rows_are_kept(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Three ranks are finished; nobody ever writes into the pipe that the fourth is read from."""
    write_ranks(tmp_path / "run", 3)
    os.mkfifo(tmp_path / "rank9.json")
    kept, address = tmp_path / "kept", cluster.scheduler_address
    words = ["analyze", tmp_path / "run", tmp_path / "rank9.json", "--resume", kept, "--dask", address]
    command = subprocess.Popen(
        [sys.executable, "-m", "launchscope", *map(str, words)], stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: len(list(kept.glob("*.row"))) == 3)
    cluster.close()
    _, err = command.communicate(timeout=60)
    assert command.returncode == 2
    assert err.splitlines()[-1] == (
        f"launchscope: {address}: the Dask cluster closed before every file was read; start one again (with "
        "--resume FOLDER the rows that are finished are kept)"
    )
    assert "Traceback" not in err


def test_no_scheduler_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_CONNECTING_S", 0.5)
    paths = write_ranks(tmp_path / "run", 1)
    with pytest.raises(LaunchscopeError, match="no Dask scheduler answers"):
        analyze_ranks(sources(paths), dask="tcp://127.0.0.1:1")


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingRequirement, match=r"pip install 'launchscope\[cluster\]'"):
        analyze_ranks(sources(write_ranks(tmp_path / "run", 1)), dask="tcp://127.0.0.1:1")


def test_something_else_that_takes_the_connection_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_CONNECTING_S", 1.0)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(LaunchscopeError, match="no Dask scheduler answers"),
    ):
        analyze_ranks(sources(write_ranks(tmp_path, 1)), dask=f"tcp://127.0.0.1:{silent.getsockname()[1]}")
