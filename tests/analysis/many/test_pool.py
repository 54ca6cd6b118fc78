"""Worker processes: every file gets its row whatever happens to them, and none outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from launchscope.analysis.many.one_file import finish
from launchscope.analysis.many.pool import finished_by_processes
from launchscope.analysis.model.errors import LaunchscopeError

from .processes import is_reading, kill_reader, wait_for, workers_of
from .rank_files import job_of, write_ranks

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")


def test_every_file_has_the_row_that_it_has_alone(tmp_path: Path) -> None:
    jobs = [job_of(path) for path in write_ranks(tmp_path, 5)]
    rows = {job: finished.row for job, finished in finished_by_processes(jobs, 2)}
    assert set(rows) == set(jobs)
    for job in jobs:
        alone = finish(job).row
        assert rows[job].period_ns == alone.period_ns is not None
        assert rows[job].rank == alone.rank is not None
        assert rows[job].worker_peak_bytes is not None
    assert not workers_of()


def test_no_more_workers_than_files(tmp_path: Path) -> None:
    jobs = [job_of(path) for path in write_ranks(tmp_path, 2)]
    assert len({finished.row.worker for _, finished in finished_by_processes(jobs, 16)}) <= 2


def test_a_bad_file_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "rank7.json").write_bytes(b"")
    jobs = [job_of(tmp_path / "rank7.json"), job_of(tmp_path / "rank8.json")]
    told = {job.file.name: finished.row for job, finished in finished_by_processes(jobs, 1)}
    assert told["rank7.json"].error_kind == "unreadable"
    assert "empty (0 bytes)" in (told["rank7.json"].error or "")
    assert told["rank7.json"].rank == 7
    assert "can't be read" in (told["rank8.json"].error or "")


def test_a_worker_that_is_killed_costs_time_alone(tmp_path: Path) -> None:
    """The file that it had is read once more: here a pipe, into which nobody writes before that."""
    paths = write_ranks(tmp_path, 4)
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    rows = {}
    for job, finished in finished_by_processes([job_of(stuck), *map(job_of, paths)], 2):
        rows[job.file.name] = finished.row
        if len(rows) == len(paths):
            kill_reader(stuck, workers_of)
            threading.Thread(target=stuck.write_bytes, args=(paths[0].read_bytes(),), daemon=True).start()
    assert sorted(rows) == ["rank0.json", "rank1.json.gz", "rank2.json", "rank3.json.gz", "rank9.json"]
    assert all(row.error is None for row in rows.values())


def test_a_file_that_kills_its_worker_twice_is_a_row_with_the_reason(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, 3)
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    killed = set[int]()

    def kill() -> None:
        while len(killed) < 2:
            for pid in set(workers_of()) - killed:
                if is_reading(pid, stuck):
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = {job.file.name: f.row for job, f in finished_by_processes([job_of(stuck), *map(job_of, paths)], 2)}
    killer.join()
    assert rows["rank9.json"].error == "its worker was ended by SIGKILL, twice: probably for want of memory"
    assert rows["rank9.json"].error_kind == "worker"
    assert [row.error for name, row in rows.items() if name != "rank9.json"] == [None] * 3


def test_workers_end_with_who_reads_the_rows(tmp_path: Path) -> None:
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    rows = finished_by_processes([*map(job_of, write_ranks(tmp_path, 1)), job_of(stuck)], 2)
    next(rows)
    assert workers_of()
    rows.close()  # type: ignore[attr-defined]
    assert not workers_of()


def test_where_no_worker_can_be_started_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(LaunchscopeError, match="die as they start"):
        list(finished_by_processes([job_of(path) for path in write_ranks(tmp_path, 2)], 2))


def test_what_a_worker_prints_does_not_stand_among_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the startup file of a site may."""
    (tmp_path / "sitecustomize.py").write_text("print('hello', flush=True)\n")
    jobs = [job_of(path) for path in write_ranks(tmp_path / "ranks", 1)]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [finished.row.error for _, finished in finished_by_processes(jobs, 1)] == [None]


def test_the_calling_process_is_killed_and_no_worker_stays(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, 1)
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    code = (
        "from launchscope.analysis.inputs.sources import sources\n"
        "from launchscope.analysis.many.ranks import analyze_ranks\n"
        f"analyze_ranks(sources([{str(paths[0])!r}, {str(stuck)!r}]), workers=2)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    workers = list[int]()

    def reads() -> bool:
        workers[:] = workers_of(caller.pid)
        return any(is_reading(pid, stuck) for pid in workers)

    wait_for(reads)
    caller.kill()
    caller.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
