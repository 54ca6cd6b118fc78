"""A trace out of the cache is the one in the file; whatever happens to the file, an entry or the folder."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import BinaryIO

import launchscope
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.inputs import trace_cache
from launchscope.analysis.inputs.readers import Progress, open_trace
from launchscope.analysis.inputs.trace_cache import open_cached
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import Notice, Table, Trace
from launchscope.analysis.report import analyze, load
from launchscope.cli import run
from launchscope.fixtures.builder import trace

from ...cases import NAMED_CASES

TRACES = sorted((Path(launchscope.__file__).parent / "fixtures" / "traces").iterdir())
KEY = b"a file as it was"


class Cache:
    """The folder of the entries, and what was read because it was not in there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[str] = []

    def entries(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []

    def entry(self) -> Path:
        (only,) = self.entries()
        return only


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """An empty cache that takes traces of any size, and files that were written a moment ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(trace_cache, "LEAST_EVENTS", 0)
    monkeypatch.setattr(trace_cache, "SETTLED_NS", -(10**10))
    cache = Cache(tmp_path / "home" / "launchscope" / "traces")

    def counted(path: Path, *, progress: Progress | None = None) -> Trace:
        cache.read.append(path.name)
        return open_trace(path, progress=progress)

    monkeypatch.setattr(trace_cache, "open_trace", counted)
    return cache


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return NAMED_CASES["eager steps"]().write(tmp_path / "step.json")


def assert_same(found: Trace, wanted: Trace) -> None:
    for each in fields(Trace):
        ours, theirs = getattr(found, each.name), getattr(wanted, each.name)
        assert type(ours) is type(theirs), each.name
        if not isinstance(theirs, Table):
            assert ours == theirs, each.name
            continue
        for column in fields(theirs):
            mine, its = getattr(ours, column.name), getattr(theirs, column.name)
            assert mine.dtype == its.dtype, f"{each.name}.{column.name}"
            np.testing.assert_array_equal(mine, its, f"{each.name}.{column.name}")


def assert_opens_the_same(cache: Cache, path: Path) -> None:
    """Fresh, and then out of the cache; the reports too."""
    fresh = analyze(path, cache=False)
    assert cache.entries() == []
    first, again = analyze(path), analyze(path)
    assert cache.read == [path.name]
    for report in (first, again):
        assert_same(report.analyses[0].context.trace, fresh.analyses[0].context.trace)
        assert report.to_json() == fresh.to_json()


@pytest.mark.parametrize("case", NAMED_CASES)
def test_named_cases_come_back_the_same(cache: Cache, tmp_path: Path, case: str) -> None:
    assert_opens_the_same(cache, NAMED_CASES[case]().write(tmp_path / "trace.json"))


@pytest.mark.parametrize("recorded", TRACES, ids=lambda path: path.name)
def test_recorded_traces_come_back_the_same(cache: Cache, recorded: Path) -> None:
    assert_opens_the_same(cache, recorded)


def test_every_fact_and_type_of_column_comes_back() -> None:
    whole = NAMED_CASES["two streams"]().build()
    narrow = replace(whole.gpu_ops, kind=whole.gpu_ops.kind.astype(np.int8), stream=whole.gpu_ops.stream.astype("u2"))
    odd = replace(
        whole,
        gpu_ops=replace(narrow, start_ns=np.repeat(narrow.start_ns, 2)[::2]),  # not in one piece
        names=(*whole.names, "", "τ\0\x1b[31m", "x" * 100_000),
        device_names={0: "a", 7: None, 12: ""},
        rank=3,
        grid_ns=250,
        notices=(Notice("cut_file", "over at 5", 7),),
        complete=False,
    )
    assert_same(back(entry_of(odd)), odd)
    assert {*trace_cache._TABLES, *trace_cache._FACTS} == {each.name for each in fields(Trace)}


def entry_of(wanted: Trace, key: bytes = KEY) -> bytes:
    class Kept(list[bytes]):
        def write(self, part: bytes) -> None:
            self.append(bytes(part))

    kept = Kept()
    trace_cache.write_entry(kept, key, wanted)  # type: ignore[arg-type]
    return b"".join(kept)


def back(data: bytes) -> Trace:
    found = trace_cache.entry_trace(memoryview(data), KEY)
    assert found is not None
    return found


def test_no_damage_to_an_entry_goes_unseen() -> None:
    data = entry_of(NAMED_CASES["graph replay"]().build())
    assert back(data).events
    assert trace_cache.entry_trace(memoryview(data), b"another file") is None
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        assert trace_cache.entry_trace(memoryview(flipped), KEY) is None, at
        assert trace_cache.entry_trace(memoryview(data)[:at], KEY) is None, at
    assert trace_cache.entry_trace(memoryview(data + b"\0"), KEY) is None


SMALL = entry_of(NAMED_CASES["two devices"]().build())


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_an_entry_that_makes_no_sense_is_none_though_its_checksum_is_right(data: st.DataObject) -> None:
    """As another program, or another machine, might leave it: wrong lengths, types, texts, tables."""
    entry = bytearray(SMALL[:-4])
    header_end = 16 + int.from_bytes(SMALL[8:16], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        entry[data.draw(st.integers(0, header_end - 1))] = data.draw(st.integers(0, 255))
    entry += zlib.crc32(entry).to_bytes(4, "little")
    found = trace_cache.entry_trace(memoryview(entry), KEY)
    assert found is None or len(found.gpu_ops) <= len(entry)


def test_columns_of_another_byte_order_are_not_taken() -> None:
    here, there = ("<i8", ">i8") if sys.byteorder == "little" else (">i8", "<i8")
    entry = SMALL[:-4].replace(here.encode(), there.encode())
    assert entry != SMALL[:-4]
    assert trace_cache.entry_trace(memoryview(entry + zlib.crc32(entry).to_bytes(4, "little")), KEY) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "empty", "zeros", "another's", "folder", "link"])
def test_a_bad_entry_is_made_anew(cache: Cache, file: Path, damage: str) -> None:
    fresh = open_cached(file)
    entry = cache.entry()
    good, chance = entry.read_bytes(), random.Random(damage)
    at = chance.randrange(len(good))
    bad = {
        "flip": good[:at] + bytes([good[at] ^ 8]) + good[at + 1 :],
        "cut": good[:at],
        "longer": good + good,
        "empty": b"",
        "zeros": bytes(len(good)),
        "another's": entry_of(NAMED_CASES["graph replay"]().build()),
    }
    if damage in bad:
        entry.write_bytes(bad[damage])
    elif damage == "folder":
        entry.unlink()
        entry.mkdir()
    else:
        entry.rename(entry.with_name("moved"))
        entry.symlink_to("moved")
    assert_same(open_cached(file), fresh)
    assert_same(open_cached(file), fresh)
    assert len(cache.read) == (3 if damage == "folder" else 2)


def test_a_file_that_changed_is_read_anew(cache: Cache, file: Path) -> None:
    assert open_cached(file).names
    before = file.stat()
    text = file.read_bytes().replace(b"gemm_0", b"gemm_9")
    file.write_bytes(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert "gemm_9" in open_cached(file).names
    other = file.with_name("other.json")
    other.write_bytes(text.replace(b"gemm_9", b"gemm_8"))
    other.replace(file)
    assert "gemm_8" in open_cached(file).names
    assert len(cache.read) == 3
    assert cache.entry()  # one entry for each path


def test_the_content_counts_where_the_times_say_nothing(
    cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system whose times stand still: the head, the tail and places between are looked at."""
    stamp = trace_cache._stamp(file)
    monkeypatch.setattr(trace_cache, "_stamp", lambda path: stamp)
    text = file.read_bytes()
    for at in (0, len(text) // 2, len(text)):
        file.write_bytes(text[:at] + b" " + text[at:])
        open_cached(file)
    assert len(cache.read) == 3


def test_a_file_that_changed_just_now_is_not_kept(cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next change could have the same time."""
    monkeypatch.setattr(trace_cache, "SETTLED_NS", 3 * 10**9)
    open_cached(file)
    assert cache.entries() == []


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(path: Path, *, progress: Progress | None = None) -> Trace:
        found = open_trace(path, progress=progress)
        path.write_bytes(path.read_bytes() + b"\n")
        return found

    monkeypatch.setattr(trace_cache, "open_trace", late)
    open_cached(file)
    assert cache.entries() == []


def test_other_readers_read_anew(cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_cached(file)
    monkeypatch.setattr(trace_cache, "_VERSION", b"of tomorrow")
    open_cached(file)
    assert len(cache.read) == 2


def test_every_module_that_reads_is_part_of_the_readers_version() -> None:
    room = Path(trace_cache.__file__).parent
    code = "import sys\n" + "".join(
        f"import launchscope.analysis.inputs.readers.{each.stem}\n" for each in (room / "readers").glob("[a-z]*.py")
    )
    code += "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('launchscope')), sep='\\n')"
    files = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert len(files) > 15
    missing = {Path(each) for each in files if each} - set(trace_cache.READER_SOURCES)
    assert not missing, "the readers use these: add them to trace_cache._READ_WITH"


def test_whether_a_file_is_kept_is_known_without_a_look_into_it(cache: Cache, file: Path) -> None:
    assert not trace_cache.is_kept(file)
    open_cached(file)
    assert trace_cache.is_kept(file)
    assert not trace_cache.is_kept(file.with_name("none.json"))


def test_links_and_ways_to_a_file_share_an_entry(
    cache: Cache, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    paths = [file, link, Path("step.json"), tmp_path / "home" / ".." / "step.json"]
    (tmp_path / "home").mkdir()
    assert [open_cached(path).source.path for path in paths] == [str(path) for path in paths]
    assert cache.read == ["step.json"]


def test_strict_refuses_a_cut_trace_out_of_the_cache(cache: Cache, tmp_path: Path) -> None:
    cut = NAMED_CASES["truncated file"]().write(tmp_path / "cut.json")
    with pytest.raises(UnreadableInput) as fresh:
        load(cut, strict=True, cache=False)
    load(cut)
    with pytest.raises(UnreadableInput) as kept:
        load(cut, strict=True)
    assert str(kept.value) == str(fresh.value)
    assert cache.read == ["cut.json"]


def test_what_is_refused_is_not_kept(cache: Cache, tmp_path: Path) -> None:
    for name, data in (("empty.json", b""), ("page.json", b"<html>no</html>")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UnreadableInput, match=name):
            open_cached(tmp_path / name)
    for nothing in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(UnreadableInput, match=nothing.name):
            open_cached(nothing)
    assert cache.entries() == []


def test_only_large_plain_files_are_kept(
    cache: Cache, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "step.zip", "w") as archive:
        archive.write(file, "step.json")
    load(tmp_path / "step.zip")
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(file.read_bytes()))
    writer.start()
    load(pipe)
    writer.join()
    monkeypatch.setattr(trace_cache, "LEAST_EVENTS", 100_000)
    load(file)
    assert cache.entries() == []


def test_a_database_with_a_log_beside_it_is_read_anew(cache: Cache, tmp_path: Path) -> None:
    """What the log holds shows neither in the size nor in the times of the database."""
    path = tmp_path / "trace.sqlite"
    path.write_bytes(next(each for each in TRACES if each.suffix == ".sqlite").read_bytes())
    before = open_cached(path)
    assert len(cache.entries()) == 1
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        open_cached(path)
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert len(open_cached(path).gpu_ops) < len(before.gpu_ops)
    connection.close()


def test_nothing_is_shown_for_what_is_not_read(cache: Cache, file: Path) -> None:
    told: list[tuple[str, int, int]] = []
    for _ in range(2):
        analyze(file, progress=lambda *what: told.append(what))
    assert sum(count for _, _, count in told) == file.stat().st_size


def test_the_entries_are_for_the_user_alone(cache: Cache, file: Path) -> None:
    before = os.umask(0)
    try:
        open_cached(file)
    finally:
        os.umask(before)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert cache.entry().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("rights", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_not_used(cache: Cache, file: Path, rights: int) -> None:
    open_cached(file)
    cache.folder.chmod(rights)
    open_cached(file)
    open_cached(file)
    assert len(cache.read) == 3


@pytest.mark.parametrize("place", ["a file", "not to be made", "no home", "relative", "full"])
def test_without_a_folder_all_works(
    cache: Cache, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    def full(stream: BinaryIO, key: bytes, wanted: Trace) -> None:
        stream.write(b"lstrace1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    match place:
        case "a file":
            cache.folder.parent.mkdir(parents=True)
            cache.folder.write_text("mine")
        case "not to be made":
            monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self/none")
        case "full":
            monkeypatch.setattr(trace_cache, "write_entry", full)
        case _:
            monkeypatch.setenv("XDG_CACHE_HOME", "relative" if place == "relative" else "")
            monkeypatch.setattr(Path, "home", no_home)
    fresh = open_cached(file)
    assert_same(open_cached(file), fresh)
    assert len(cache.read) == 2
    assert not (tmp_path / "relative").exists()
    assert place != "full" or cache.entries() == []


def files_of(folder: Path, count: int) -> list[Path]:
    return [trace().launch(0, 5).kernel(10, 5).write(folder / f"{number}.json") for number in range(count)]


def test_what_was_used_longest_ago_goes_first(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, fourth = files_of(tmp_path, 4)
    open_cached(first)
    size = cache.entry().stat().st_size
    monkeypatch.setattr(trace_cache, "MOST_BYTES", 3 * size + size // 2)
    for path in (second, third, first, fourth):
        time.sleep(0.01)
        open_cached(path)
    assert len(cache.entries()) == 3
    cache.read.clear()
    for path in (first, third, fourth):
        open_cached(path)
    assert cache.read == []
    open_cached(second)
    assert cache.read == ["1.json"]


def test_a_trace_larger_than_all_is_not_kept(cache: Cache, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_cache, "MOST_OF_FREE", 1e-12)
    open_cached(file)
    assert cache.entries() == []


def test_nothing_is_deleted_that_is_not_ours(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = files_of(tmp_path, 2)
    open_cached(first)
    entry = cache.entry()
    notes = [cache.folder / name for name in ("notes.txt", "0" * 32, f"{'g' * 32}.trace", f"{'0' * 32}.trace.gz")]
    for note in notes:
        note.write_bytes(bytes(10_000))
        os.utime(note, (0, 0))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (cache.folder / f"{'1' * 32}.trace").symlink_to(elsewhere)
    broken_off, in_work = (cache.folder / f"{'2' * 32}.trace.abc{number}_.partial" for number in range(2))
    broken_off.write_text("")
    in_work.write_text("")
    os.utime(broken_off, (0, 0))
    monkeypatch.setattr(trace_cache, "MOST_BYTES", entry.stat().st_size + 100)
    open_cached(second)
    assert not entry.exists()
    assert not broken_off.exists()
    assert in_work.exists()
    assert all(note.exists() for note in notes)
    assert elsewhere.read_text() == "mine"


def test_many_at_once(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers, readers and evictions at the same time: every answer is right, and nothing half-written is left."""
    paths = files_of(tmp_path, 3)
    paths += [NAMED_CASES["eager steps"]().write(tmp_path / "steps.json")]
    wanted = {path: open_cached(path) for path in paths}
    monkeypatch.setattr(trace_cache, "MOST_BYTES", max(each.stat().st_size for each in cache.entries()) * 2)
    problems: list[BaseException] = []

    def open_all(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(25):
                path = chance.choice(paths)
                assert_same(open_cached(path), wanted[path])
                for entry in cache.entries():
                    if chance.random() < 0.1:
                        entry.unlink(missing_ok=True)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=open_all, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert not [each for each in cache.entries() if each.suffix == ".partial"]


@pytest.mark.parametrize("command", [["analyze"], ["doctor"], ["export", "-o", "out.md"]], ids=lambda words: words[0])
def test_no_cache_on_the_command_line(
    cache: Cache, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--no-cache", str(file)]) == 0
    assert (cache.read, cache.entries()) == ([], [])
    assert run([*command, str(file)]) == 0
    cache.entry().write_bytes(b"what would be wrong to use")
    assert run([*command, "--no-cache", str(file)]) == 0
    assert cache.entry().read_bytes() == b"what would be wrong to use"
    assert cache.read == ["step.json"]
