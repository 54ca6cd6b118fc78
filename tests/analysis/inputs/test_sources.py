"""Folders, .zip files and patterns of traces: what is read, in which order, under which names, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.inputs import sources as found_in
from launchscope.analysis.inputs.readers.foreign import peek as readers_peek
from launchscope.analysis.inputs.readers.unpacking import zstd_module
from launchscope.analysis.inputs.sources import copy_of, rank_of, sources
from launchscope.analysis.model import capture
from launchscope.analysis.model.document import ReportDocument, SkippedDoc
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.paths import natural_order
from launchscope.analysis.profile import health
from launchscope.analysis.report import Report, analyze, analyze_sources, load
from launchscope.cli import run

from ...cases import NAMED_CASES
from ..captures import two_modes, write_capture

GRAPH = NAMED_CASES["graph replay"]().json()
EAGER = NAMED_CASES["eager steps"]().json()
CPU_ONLY = NAMED_CASES["empty"]().op("aten::mm", 0, 5).json()
CUT = NAMED_CASES["truncated file"]().json()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a server leaves: a file per rank, its front end's, and files that are none of ours."""
    top = tmp_path / "traces"
    (top / "more").mkdir(parents=True)
    (top / ".hidden").mkdir()
    (top / "rank10.1234.pt.trace.json.gz").write_bytes(gzip.compress(GRAPH, mtime=0))
    (top / "rank2.1234.pt.trace").write_bytes(GRAPH)
    (top / "more" / "eager").write_bytes(EAGER)
    (top / "front_end.json").write_bytes(CPU_ONLY)
    (top / "rank3.json.gz").write_bytes(b"")
    (top / "config.json").write_text('{"model": "llama"}')
    (top / "notes.txt").write_text("rank 2 was slow")
    (top / ".hidden" / "rank0.json").write_bytes(GRAPH)
    return top


def zipped(folder: Path) -> Path:
    """The folder as a .zip beside it."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and ".hidden" not in file.parts:
                archive.write(file, file.relative_to(folder))
    return path


def told(document: ReportDocument) -> list[tuple[str, int | None, int]]:
    return [(t.name, t.rank, t.coverage.gpu_ops) for t in document.traces]


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_all_traces_of_a_folder_in_natural_order(folder: Path, packed: bool) -> None:
    document = load(zipped(folder) if packed else folder).document
    assert told(document) == [
        ("more/eager", None, 20),
        ("rank2.1234.pt.trace", 2, 20),
        ("rank10.1234.pt.trace.json.gz", 10, 20),
    ]
    assert [each.path for each in document.unread] == ["front_end.json", "rank3.json.gz"]
    assert "without ProfilerActivity.CUDA" in document.unread[0].reason
    assert document.unread[1].reason.startswith("empty (0 bytes)")
    assert document.profile is None


def test_a_rank_in_the_file_counts_more_than_one_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rank7.json"
    path.write_bytes(b'{"distributedInfo": {"rank": 3},' + GRAPH.lstrip()[1:])
    assert load(path).document.traces[0].rank == 3


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.1700000000.pt.trace.json.gz", 0),
        ("dp0_pp0_tp3_dcp0_ep3_rank3.1700.pt.trace.json.gz", 3),
        ("trace_RANK-12.json", 12),
        ("rank_4/trace.json", 4),
        ("rank1/rank_2.json", 2),
        ("1700000000.5-TP-3.trace.json.gz", 3),
        ("1700000000.5-TP-0-DP-0.trace.json.gz", 0),
        ("1700000000.5-TP-1-DP-1.trace.json.gz", None),
        ("host_1234.1700000000.pt.trace.json", None),
        ("crank3.json", None),
        ("http2.json", None),
    ],
)
def test_the_rank_that_a_name_tells(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


def test_natural_order() -> None:
    names = ["b", "rank10", "rank2", "rank2b", "10", "9", "²"]
    assert sorted(names, key=natural_order) == ["9", "10", "b", "rank2", "rank2b", "rank10", "²"]


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_without_a_gpu_op_anywhere_all_are_told(tmp_path: Path, packed: bool) -> None:
    (tmp_path / "t").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / "t" / name).write_bytes(CPU_ONLY)
    report = load(zipped(tmp_path / "t") if packed else tmp_path / "t")
    assert (told(report.document), report.document.unread) == ([("a.json", None, 0), ("b.json", None, 0)], [])
    with pytest.raises(UnreadableInput, match=r"a\.json: no GPU op.*\(nor do 1 others\)"):
        report.require_gpu_ops()


def test_files_of_which_none_can_be_read(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(UnreadableInput, match=r"none of 2 files can be read; the first: .*a\.json: empty"):
        load(tmp_path)
    with pytest.raises(UnreadableInput, match="none of 2 files"):
        analyze(tmp_path / "a.json", tmp_path / "b.json")


def test_other_programs_files_are_left_alone_beside_traces_and_told_without(tmp_path: Path) -> None:
    (tmp_path / "x.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2026@4@1@191\n")
    (tmp_path / "model.pt").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(
        UnreadableInput, match=r"no trace in this folder that can be read\. .*nsys export --type sqlite"
    ):
        load(tmp_path)
    (tmp_path / "x.json").write_bytes(GRAPH)
    document = load(tmp_path).document
    assert (told(document), document.unread) == ([("x.json", None, 20)], [])


def test_a_folder_of_captures_is_no_folder_of_traces(tmp_path: Path) -> None:
    write_capture(tmp_path / "out" / "one", two_modes())
    with pytest.raises(UnreadableInput, match=r"a folder of captures.*give one of them"):
        load(tmp_path / "out")


def test_a_capture_among_traces_is_a_row(folder: Path) -> None:
    write_capture(folder / "kept", two_modes())
    write_capture(folder / "kept.zip", two_modes())
    document = load(folder).document
    assert len(document.traces) == 3
    rows = {each.path: each.reason for each in document.unread}
    assert rows["kept"] == rows["kept.zip"] == "a capture of launchscope profile: analyze it by itself"


def test_a_torch_file_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}q\x00.")
    with pytest.raises(UnreadableInput, match=r"torch\.save"):
        load(tmp_path / "model.pt")


@pytest.mark.parametrize("name", ["../x.json", "/x.json", "a/../../x.json"])
def test_a_zip_that_names_files_elsewhere(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr(name, GRAPH)
    with pytest.raises(UnreadableInput, match="outside of itself"):
        load(tmp_path / "t.zip")


def test_a_zip_with_a_link(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        link = zipfile.ZipInfo("x.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UnreadableInput, match="holds a link"):
        load(tmp_path / "t.zip")


def test_a_zip_with_too_much_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"{number}.json", GRAPH)
    monkeypatch.setattr(capture, "MAX_MEMBERS", 2)
    with pytest.raises(UnreadableInput, match="3 entries"):
        load(tmp_path / "t.zip")
    monkeypatch.setattr(capture, "MAX_MEMBERS", 3)
    monkeypatch.setattr(capture, "MAX_UNPACKED_BYTES", 2 * len(GRAPH))
    with pytest.raises(UnreadableInput, match="unpacks to over"):
        load(tmp_path / "t.zip")


def test_a_damaged_member_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", GRAPH)
        archive.writestr("b.json", EAGER)
    path.write_bytes(path.read_bytes().replace(b"gemm_1", b"gemm_9", 1))  # its checksum no longer fits
    document = load(path).document
    assert [t.name for t in document.traces] == ["a.json"]
    assert [each.path for each in document.unread] == ["b.json"]


@pytest.mark.parametrize("pattern", ["traces/rank*", "traces/**/rank*", "tr[a]ces/rank?*"])
def test_a_pattern_that_names_no_file_is_expanded(folder: Path, pattern: str) -> None:
    names = [t.name for t in analyze(folder.parent / pattern).document.traces]
    assert names == ["rank2.1234.pt.trace", "rank10.1234.pt.trace.json.gz"]
    with pytest.raises(UnreadableInput, match="no file matches this pattern"):
        analyze(folder / "tp*.json")


def test_a_file_whose_name_is_a_pattern(tmp_path: Path) -> None:
    for name in ("a[1].json", "a1.json"):
        (tmp_path / name).write_bytes(GRAPH)
    assert told(load(tmp_path / "a[1].json").document) == [("a[1].json", None, 20)]


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / f"rank{rank}" / "trace.json" for rank in (0, 1)]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(GRAPH)
    assert told(analyze(*paths).document) == [("rank0/trace.json", 0, 20), ("rank1/trace.json", 1, 20)]
    assert [t.name for t in analyze(paths[0], paths[0]).document.traces] == ["trace.json"] * 2


def test_of_several_files_one_that_cannot_be_read_is_a_row(folder: Path) -> None:
    document = analyze(folder / "rank3.json.gz", folder / "rank2.1234.pt.trace").document
    assert (told(document), [e.path for e in document.unread]) == ([("rank2.1234.pt.trace", 2, 20)], ["rank3.json.gz"])
    with pytest.raises(UnreadableInput, match="no such file"):
        analyze(folder / "rank2.1234.pt.trace", folder / "rank4.json")


def test_databases_count_as_traces(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "a.sqlite").execute("CREATE TABLE t (x)").connection.close()
    assert [file.name for file in sources([tmp_path]).each] == ["a.sqlite"]


def test_links_to_folders_are_not_followed(folder: Path) -> None:
    (folder / "more" / "loop").symlink_to(folder)
    (folder / "gone.json").symlink_to("nowhere.json")
    assert len(load(folder).document.traces) == 3


def test_every_kind_is_told_once(folder: Path, tmp_path: Path) -> None:
    captured = write_capture(tmp_path / "captured", two_modes())
    write_capture(folder / "more" / "captured", two_modes())
    archive = tmp_path / "one.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("a/rank4.json", GRAPH)
    found = sources([captured, folder / "more", f"file://{archive}", str(folder / "rank2*")])
    assert [(each.name, each.kind, each.member) for each in found.each] == [
        ("captured", "capture", None),
        ("captured", "capture_among_traces", None),
        ("eager", "trace", None),
        ("a/rank4.json", "trace", "a/rank4.json"),
        ("rank2.1234.pt.trace", "trace", None),
    ]
    assert [each.where for each in found.each[-2:]] == [f"{archive}/a/rank4.json", str(folder / "rank2.1234.pt.trace")]
    assert found.local == (captured, folder / "more", archive, folder / "rank2.1234.pt.trace")
    assert found.each[-1].bytes == len(GRAPH)
    with pytest.raises(UnreadableInput, match="captured: a capture of launchscope profile"):
        _ = found.traces


@pytest.mark.parametrize("how", ["--ranks", "--no-ranks"])
def test_a_folder_is_listed_once(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To count what is in it, to read it, and to tell what is left out."""
    looked = list[str]()
    monkeypatch.setattr(found_in, "peek", lambda file, path: looked.append(Path(path).name) or readers_peek(file, path))
    assert run(["analyze", str(folder), how]) == 0
    shown = [each for each in folder.rglob("*") if each.is_file() and ".hidden" not in each.parts]
    assert sorted(looked) == sorted(each.name for each in shown)


def test_a_copy_is_known_by_where_the_file_lies(tmp_path: Path) -> None:
    copy = tmp_path / "x7" / "copy"
    copy.parent.mkdir()
    copy.write_bytes(GRAPH)
    (source,) = copy_of(copy, "s3://bucket/rank-3/trace.json", "trace.json").each
    opened = source.open(cache=True)
    assert (opened.source.path, opened.rank) == ("s3://bucket/rank-3/trace.json", 3)
    copy.write_bytes(b"<html>")
    with pytest.raises(UnreadableInput, match=r"^s3://bucket/rank-3/trace\.json: ") as told:
        source.open(cache=True)
    assert str(tmp_path) not in str(told.value)


def test_so_is_the_copy_of_a_capture_and_what_is_wrong_in_it(tmp_path: Path) -> None:
    captured = write_capture(tmp_path / "captured", two_modes())
    next((captured / "traces").iterdir()).unlink()
    copy = zipped(captured)
    report = analyze_sources(copy_of(copy, "s3://bucket/run.zip", "run.zip"))
    assert report.manifest == two_modes()
    assert b"unreadable_trace" in report.to_json()
    assert b"s3://bucket/run.zip: " in report.to_json()
    assert str(tmp_path).encode() not in report.to_json()


class TestStrict:
    def test_a_cut_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(CUT)
        assert len(load(tmp_path / "a.json").document.traces) == 1
        with pytest.raises(UnreadableInput, match=r"a\.json: not whole.*whole records were read, the rest is lost"):
            load(tmp_path / "a.json", strict=True)

    def test_one_of_many_is_enough(self, folder: Path) -> None:
        (folder / "rank3.json.gz").unlink()
        assert len(load(folder, strict=True).document.unread) == 1  # without GPU ops, but whole
        (folder / "cut").write_bytes(CUT)
        with pytest.raises(UnreadableInput, match="cut: not whole"):
            load(folder, strict=True)

    @pytest.mark.parametrize("content", [b"", CUT])
    def test_of_a_capture(self, tmp_path: Path, content: bytes) -> None:
        path = write_capture(tmp_path / "kept", two_modes())
        assert isinstance(load(path, strict=True), Report)
        (path / "traces/graph-2-cuda.json.gz").write_bytes(content)
        with pytest.raises(UnreadableInput, match="graph-2-cuda"):
            load(path, strict=True)


class TestNoFileVanishes:
    """A file that is named like a trace is read or told with its reason; others are counted."""

    def test_a_head_longer_than_what_is_looked_at_first(self, tmp_path: Path) -> None:
        """One process group of 12,288 ranks stands before the records."""
        group = {"pg_config": [{"ranks": list(range(12_288))}], "rank": 5, "world_size": 12_288}
        head = b'{"distributedInfo": ' + json.dumps(group).encode() + b"," + GRAPH.lstrip()[1:]
        assert head.index(b'"traceEvents"') > 1 << 16
        packers = {"a.json": bytes, "b": bytes, "c.json.gz": gzip.compress, "d.zst": zstd_module().compress}
        for name, pack in packers.items():
            (tmp_path / name).write_bytes(pack(head))
        assert told(load(tmp_path).document) == [(name, 5, 20) for name in packers]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (bytes(100_000), "not a trace: neither JSON nor the beginning of one"),
            (gzip.compress(GRAPH, mtime=0)[:40], "cut"),
            (zstd_module().compress(GRAPH)[:40], "cut"),
            (gzip.compress(GRAPH, mtime=0)[:10], "cut before its first byte of content"),
            (b" \n", "nothing but white space"),
            (b'{"schemaVersion": 1, "devi', "not a trace"),
            (b'{"schemaVersion": 1,' + b" " * 200_000, "not a trace"),
            (b"No space left on device", "not a trace"),
            (b"<html>502 Bad Gateway</html>", "HTML or XML"),
            (b"PK\3\4 and so on", "a .zip inside of another file"),
        ],
    )
    @pytest.mark.parametrize(
        "name", ["rank3.json", "rank3.1234.pt.trace.json.gz", "rank3.sqlite", "rank3.json.gz.part"]
    )
    def test_what_is_left_of_a_rank(self, content: bytes, reason: str, name: str, tmp_path: Path) -> None:
        (tmp_path / "rank0.json").write_bytes(GRAPH)
        (tmp_path / name).write_bytes(content)
        document = load(tmp_path).document
        assert [(each.path, reason in each.reason) for each in document.unread] == [(name, True)]
        assert document.skipped == []
        with pytest.raises(UnreadableInput, match=re.escape(name)):
            load(tmp_path, strict=True)

    def test_a_link_to_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "rank0.json").write_bytes(GRAPH)
        (tmp_path / "rank1.json").symlink_to("gone.json")
        (tmp_path / "rank2").symlink_to(tmp_path)
        document = load(tmp_path).document
        assert [(each.path, "No such file" in each.reason) for each in document.unread] == [("rank1.json", True)]
        assert document.skipped == [
            SkippedDoc(reason="a link to a folder, which is not followed", count=1, first="rank2")
        ]

    def test_a_folder_below_without_the_right_to_look_into_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "rank0.json").write_bytes(GRAPH)
        (tmp_path / "rank1").mkdir()
        scandir = os.scandir

        def refused(path: str) -> Any:
            if Path(path).name == closed:
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refused)
        closed = "rank1"
        assert [each.path for each in load(tmp_path).document.unread] == ["rank1"]
        closed = tmp_path.name
        with pytest.raises(
            UnreadableInput, match=r"can't be read \(Permission denied\); check the path and its rights"
        ):
            load(tmp_path)

    @pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
    def test_the_others_are_counted(self, folder: Path, packed: bool) -> None:
        (folder / "more" / "report.json").write_text('{"schema": "launchscope.report/1", "traces": []}')
        (folder / "tokenizer.json").write_text(json.dumps({"vocabulary": ["token"] * 100_000}))
        (folder / "server.log.gz").write_bytes(gzip.compress(b"hello"))
        report = load(zipped(folder) if packed else folder)
        assert report.document.skipped == [
            SkippedDoc(reason="JSON without a list traceEvents", count=2, first="config.json"),
            SkippedDoc(reason="no trace by name and content", count=2, first="notes.txt"),
            SkippedDoc(
                reason="a file of another program, or another file of launchscope", count=1, first="more/report.json"
            ),
        ]
        line = (
            "10 files: 3 read, 2 unread, 5 skipped, because: JSON without a list traceEvents (config.json and 1 more); "
            "no trace by name and content (notes.txt and 1 more); a file of another program, or another file of "
            "launchscope (more/report.json)"
        )
        for text in (
            report_story.render_terminal(report, width=400, color=False, verbose=False),
            health.render_terminal(report, width=400, color=False, verbose=False),
        ):
            assert line in text

    def test_no_line_where_every_file_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "rank0.json").write_bytes(GRAPH)
        assert " skipped" not in report_story.render_terminal(load(tmp_path), width=200, color=False, verbose=False)
