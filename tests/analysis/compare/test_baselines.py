"""Baselines on disk: whole or not at all, never over another, small, and without names of machines or people."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from launchscope.analysis.compare import baselines
from launchscope.analysis.compare.baselines import (
    Baseline,
    decode,
    encode,
    is_folder_of_baselines,
    read_file,
    read_folder,
    save,
    superseded,
)
from launchscope.analysis.compare.snapshot import Snapshot, Timing
from launchscope.analysis.model.errors import LaunchscopeError, UnreadableInput
from msgspec.structs import replace

from .snapshots import ITEM, MACHINE, eager, graph, trace

NOW = datetime(2026, 11, 30, 4, 5, 6, tzinfo=UTC)
SAVERS, SAVES = 3, 20


def test_a_file_per_mode_in_its_place(tmp_path: Path) -> None:
    paths = save([eager(), graph(), trace()], tmp_path / "b", NOW)
    names = [str(path.relative_to(tmp_path / "b")).rpartition("-")[0] for path in paths]
    assert names == [
        "tiny.py/eager/NVIDIA-H200-20261130T040506Z-3f2c1a9d",
        "tiny.py/graph/NVIDIA-H200-20261130T040506Z-3f2c1a9d",
        "step-3.json.gz/trace/NVIDIA-H200-20261130T040506Z",
    ]
    found = read_folder(tmp_path / "b")
    assert [each.path for each in found] == [paths[2], paths[0], paths[1]]
    assert found[1].snapshot == replace(eager(), saved="2026-11-30T04:05:06.000000Z")


def test_what_is_kept_is_read_back() -> None:
    snapshot = eager(blocking_sites=(ITEM,), settings={"layers": "4"}, unreliable=("x",), error="y", run="r")
    assert decode(encode(snapshot), Path("x")) == snapshot
    lines = encode(snapshot).decode().splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("{", '"schema": "launchscope.baseline/1",', "}")
    assert json.loads(encode(snapshot))["launches"] == 300


def test_samples_are_whole_ns_and_the_source_has_no_folder(tmp_path: Path) -> None:
    timing = Timing(repeat=0, samples_ns=(1.4, 0.2), host_submit_ns=(2.6,))
    (path,) = save([eager(timings=(timing,), source="/home/someone/out/tiny.zip")], tmp_path, NOW)
    kept = read_file(path)
    assert kept.timings == (Timing(repeat=0, samples_ns=(1, 1), host_submit_ns=(3,)),)
    assert kept.source == "tiny.zip"
    assert b"someone" not in path.read_bytes()


@pytest.mark.parametrize(
    ("target", "folder"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("..", "unnamed"),
        ("a/b\\c:d", "a-b-c-d"),
        ("модель.py", "py"),
        ("x" * 300, "x" * 60),
        (".hidden", "hidden"),
        ("nul\x00\n", "nul"),
    ],
)
def test_names_that_any_file_system_takes(tmp_path: Path, target: str, folder: str) -> None:
    (path,) = save([eager(target=target)], tmp_path, NOW)
    assert path.parent.parent == tmp_path / folder
    assert read_folder(tmp_path)[0].snapshot.target == target


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (
            graph(error="capture failed"),
            "tiny.py, graph: it failed to run, so it is no baseline: capture failed; --mode",
        ),
        (eager(unreliable=("no launches",)), "the recording can't be trusted, so it is no baseline: no launches"),
        (
            trace(launches=None, withheld={"launches": "no steps found"}),
            "without counts per step, so it is no baseline",
        ),
    ],
)
def test_what_no_check_can_rest_on_is_not_saved(tmp_path: Path, snapshot: Snapshot, said: str) -> None:
    with pytest.raises(LaunchscopeError) as refused:
        save([eager(), snapshot], tmp_path / "b", NOW)
    assert said in str(refused.value)
    assert not (tmp_path / "b").exists()


def test_two_jobs_at_once_lose_nothing(tmp_path: Path) -> None:
    (given,) = save([eager()], tmp_path / "given", NOW)
    code = f"""
from datetime import UTC, datetime
from pathlib import Path
from launchscope.analysis.compare.baselines import read_file, save
for _ in range({SAVES}):
    save([read_file(Path({str(given)!r}))] * 2, Path({str(tmp_path / "b")!r}), datetime(2026, 11, 30, tzinfo=UTC))
"""
    jobs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(SAVERS)]
    assert [job.wait() for job in jobs] == [0] * SAVERS
    assert len(read_folder(tmp_path / "b")) == SAVERS * SAVES * 2
    assert not list(tmp_path.rglob("*.partial"))


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The random parts of the temporary and the last name, in turn; the second save meets the first one's."""
    numbers = iter([b"t1", b"aaaa", b"t2", b"aaaa", b"bbbb"])
    monkeypatch.setattr(os, "urandom", lambda _: next(numbers))
    (first,) = save([eager(launches=1.0)], tmp_path, NOW)
    (second,) = save([eager(launches=2.0)], tmp_path, NOW)
    assert (first.stem[-8:], second.stem[-8:]) == (b"aaaa".hex(), b"bbbb".hex())
    assert [read_file(path).launches for path in (first, second)] == [1.0, 2.0]


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    (path,) = save([eager()], tmp_path, NOW)
    assert read_file(path).launches == 300
    assert not list(tmp_path.rglob("*.partial"))


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = iter([True, False])

    def fail(_: int) -> None:
        if not next(room):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LaunchscopeError, match=r"can be written there .No space left on device.; use --dir"):
        save([eager(), graph()], tmp_path, NOW)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a damaged baseline"),
        (encode(eager())[:-100], "a damaged baseline"),
        (b"\xff\xfe", "a damaged baseline"),
        (b"[" * 100_000, "a damaged baseline"),
        (b'{"schema": "launchscope.baseline/1"}', "a damaged baseline"),
        (encode(eager()).replace(b'"launches": 300.0', b'"launches": "x"'), "a damaged baseline"),
        (encode(eager(timings=(Timing(repeat=0, samples_ns=()),))), "a damaged baseline"),
        (b'{"schema": "launchscope.baseline/9"}', "its schema is 'launchscope.baseline/9'; this launchscope reads"),
        (b"{}", "is no baseline, though it lies where they do"),
        (b'{"schema": "launchscope.report/1"}', "is no baseline, though it lies where they do"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (good,) = save([eager()], tmp_path, NOW)
    bad = good.with_name("bad.json")
    bad.write_bytes(content)
    with pytest.raises(UnreadableInput) as refused:
        read_folder(tmp_path)
    assert str(refused.value).startswith(f"{bad}: ")
    assert said in str(refused.value)


def test_a_folder_that_hides_its_baselines_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = save([eager()], tmp_path, NOW)
    listed = Path.iterdir

    def refuse(folder: Path) -> Iterator[Path]:
        if folder == path.parent:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", refuse)
    for look in (read_folder, is_folder_of_baselines):
        with pytest.raises(UnreadableInput, match=r"eager: can't be read .Permission denied"):
            look(tmp_path)


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    (good,) = save([eager()], tmp_path, NOW)
    os.mkfifo(good.with_name("pipe.json"))
    with pytest.raises(UnreadableInput, match=r"pipe\.json: is no file, so no baseline"):
        read_folder(tmp_path)
    with pytest.raises(UnreadableInput, match="/dev/zero: is no file"):
        read_file(Path("/dev/zero"))


def test_other_files_and_partial_ones_are_no_baselines(tmp_path: Path) -> None:
    (path,) = save([eager()], tmp_path, NOW)
    (tmp_path / "README.md").write_text("x")
    (path.parent / ".12-ab.partial").write_bytes(b"{")
    (path.parent / "notes.txt").write_text("x")
    assert len(read_folder(tmp_path)) == 1
    assert baselines.is_folder_of_baselines(tmp_path)
    assert not baselines.is_folder_of_baselines(path.parent)
    assert not baselines.is_folder_of_baselines(tmp_path / "none")


def test_the_newest_of_each_are_kept() -> None:
    def baseline(name: str, snapshot: Snapshot, day: int) -> Baseline:
        return Baseline(Path(name), replace(snapshot, saved=str(NOW + timedelta(days=day))))

    other = MACHINE | {"gpu": "NVIDIA A100"}
    found = [
        baseline("new", eager(), 3),
        baseline("old", eager(), 1),
        baseline("older", eager(), 0),
        baseline("other machine", eager(machine=other), 0),
        baseline("other batch", eager(batch_size=8), 0),
        baseline("other mode", graph(), 0),
    ]
    assert [each.path.name for each in superseded(found, 1)] == ["older", "old"]
    assert [each.path.name for each in superseded(found, 2)] == ["older"]
    assert superseded(found, 3) == []


def test_removing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    save([eager()], tmp_path, NOW)
    found = read_folder(tmp_path)
    baselines.remove(found)
    baselines.remove(found)
    assert read_folder(tmp_path) == []
