"""The folder of finished rows: what is taken from it, and what is made anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.inputs.sources import Source, Sources, sources
from launchscope.analysis.many import ranks
from launchscope.analysis.many.document import RanksDocument
from launchscope.analysis.many.ranks import KeptRows, analyze_ranks
from launchscope.analysis.model.errors import LaunchscopeError

from .processes import is_reading, wait_for, workers_of
from .rank_files import rank_trace, write_ranks


def run(folder: Path, kept: Path, **how: object) -> RanksDocument:
    return analyze_ranks(sources([folder]), resume=kept, workers=1, **how)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_ranks(tmp_path / "run", 4)
    return tmp_path / "run"


def figures(document: RanksDocument) -> list[object]:
    times = {"seconds": None, "cpu_seconds": None, "worker": None, "worker_peak_bytes": None}
    return [msgspec.structs.replace(row, **times) for row in document.rows]


def test_the_second_run_reads_nothing(folder: Path, tmp_path: Path) -> None:
    first = run(folder, tmp_path / "kept")
    for path in folder.iterdir():
        stamp = path.stat()
        path.write_bytes(b" " * stamp.st_size)  # no longer a trace, but nothing tells
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    second = run_of(folder, tmp_path / "kept", first)
    assert (first.resumed, first.workers) == (0, 1)
    assert (second.resumed, second.workers) == (4, 0)
    assert second.rows == first.rows
    assert second.alignment == first.alignment


def run_of(folder: Path, kept: Path, first: RanksDocument) -> RanksDocument:
    """Of the same files, without a look at what they hold."""
    files = []
    for row in first.rows:
        status = Path(row.path).stat()
        files.append(Source(row.path, row.name, status.st_size, str(status.st_mtime_ns)))
    return analyze_ranks(Sources(tuple(files), (str(folder),)), resume=kept, workers=1)


def test_a_file_that_changed_is_read_anew(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "kept")
    rank_trace(2, world=4, kernels=9).write(folder / "rank2.json")
    second = run(folder, tmp_path / "kept")
    assert second.resumed == 3
    assert [row.kernels for row in second.rows] == [4, 4, 9, 4]


def test_other_options_and_other_versions_are_other_rows(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    run(folder, kept)
    assert run(folder, kept, step_regex="Profiler").resumed == 0
    assert run(folder, kept, strict=True).resumed == 0
    monkeypatch.setattr(ranks, "__version__", "9.9")
    assert run(folder, kept).resumed == 0


@pytest.mark.parametrize("damage", [b"", b"\x00\xff", b"half"])
def test_an_entry_that_is_not_whole_is_made_anew(folder: Path, tmp_path: Path, damage: bytes) -> None:
    first = run(folder, tmp_path / "kept")
    entries = sorted((tmp_path / "kept").glob("*.row"))
    entries[0].write_bytes(damage)
    entries[1].write_bytes(entries[2].read_bytes())  # whole, but another file's
    second = run(folder, tmp_path / "kept")
    assert second.resumed == 2
    assert figures(second) == figures(first)


def test_what_may_go_better_next_time_is_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_ranks(folder, 2)
    (folder / "rank9.json").write_bytes(b'{"traceEvents": [')
    gone = folder / "rank8.json"
    gone.symlink_to(tmp_path / "nowhere")
    run(folder, tmp_path / "kept")
    again = run(folder, tmp_path / "kept")
    assert again.resumed == 3  # the two, and the one that will not get better
    assert again.odd


def test_other_code_of_any_room_makes_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "inputs" / "readers"
    room.mkdir(parents=True)
    monkeypatch.setattr(ranks, "_ANALYSIS", tmp_path)
    found = []
    for code in ("a = 1", "a = 2"):
        (room / "kineto.py").write_text(code)
        found.append(ranks._code.__wrapped__())
    assert found[0] != found[1]


def test_a_folder_that_can_t_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchscopeError, match="can't be written"):
        KeptRows(tmp_path / "file" / "kept")


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """It is killed when it has finished all files but one: a pipe that nobody has written to."""
    folder, kept = tmp_path / "run", tmp_path / "kept"
    paths = write_ranks(folder, 6)
    stuck = tmp_path / "rank9.json"
    os.mkfifo(stuck)
    given = [*map(str, paths), str(stuck)]
    code = (
        "from pathlib import Path\nfrom launchscope.analysis.many.ranks import analyze_ranks\n"
        "from launchscope.analysis.inputs.sources import sources\n"
        f"analyze_ranks(sources({given!r}), resume=Path({str(kept)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: len(list(kept.glob("*.row"))) == 6 and any(is_reading(w, stuck) for w in workers_of(process.pid)))
    process.kill()
    process.wait()
    stuck.unlink()
    rank_trace(9, world=6).write(stuck)
    document = analyze_ranks(sources(given), resume=kept, workers=1)
    assert (document.resumed, len(document.rows)) == (6, 7)
    assert [row.error for row in document.rows] == [None] * 7
    assert not list(kept.glob("*.partial"))


def test_the_key_tells_a_person_what_a_row_is_of(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "kept")
    entry = next((tmp_path / "kept").glob("*.row")).read_bytes()
    assert str(folder).encode() in entry


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
def test_paths_that_are_no_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"run\xff")
    write_ranks(folder, 2)
    for resumed in (0, 2):
        document = analyze_ranks(sources([folder]), workers=1, resume=tmp_path / "rows")
        assert document.resumed == resumed
        assert [row.error for row in document.rows] == [None, None]
        assert document.inputs == [f"{tmp_path}/run\\xff"]
        assert msgspec.json.encode(document)
