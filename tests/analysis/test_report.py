"""Reports of captures and of bare traces: the JSON document, the tables, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path

import launchscope
import msgspec
import pandas as pd
import pytest
from launchscope.analysis.model.capture import ModeRecord
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.render import perfetto
from launchscope.analysis.report import Report, analyze, load
from launchscope.fixtures.builder import trace

from .. import nsys_builder as nsys
from ..cases import NAMED_CASES
from .captures import process, two_modes, write_capture
from .figures.test_analyses import check_accounts, numbers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two-mode capture as a folder."""
    return write_capture(tmp_path_factory.mktemp("captures") / "tiny", two_modes())


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return load(folder)


def check_json(report: Report) -> None:
    """One document, every number finite, nothing lost on the way back."""
    data = report.to_json()
    assert msgspec.json.decode(data, type=ReportDocument) == report.document
    assert all(isfinite(number) for number in numbers(msgspec.to_builtins(report.document)))
    assert b"NaN" not in data


@pytest.mark.parametrize("case", NAMED_CASES)
def test_every_named_trace_becomes_a_report(case: str, tmp_path: Path) -> None:
    report = load(NAMED_CASES[case]().write(tmp_path / "case.json"))
    check_json(report)
    assert (report.document.target, report.document.environment, report.document.profile) == (None, None, None)
    assert [t.name for t in report.document.traces] == ["case.json"]
    check_accounts(report.document.traces[0])
    for table in (report.kernels, report.gaps, report.launches, report.steps, report.gpu_ops):
        assert list(table.columns[:2]) == ["trace", "mode"]
    assert len(report.gpu_ops) == report.document.traces[0].coverage.gpu_ops
    assert "case.json" in report._repr_html_()


def test_names_of_the_contract_are_spelled_as_it_says(report: Report) -> None:
    document = msgspec.json.decode(report.to_json())
    assert document["schema"] == "launchscope.report/1"
    assert document["launchscope"] == launchscope.__version__
    assert {"pass", "mode", "repeat", "rank", "source", "coverage", "verdict"} <= set(document["traces"][0])
    assert document["traces"][0]["verdict"]["class"] == "launch-bound"


def test_a_capture_is_its_traces_and_a_profile(report: Report) -> None:
    check_json(report)
    found = [(t.mode, t.trace_pass, t.repeat) for t in report.document.traces]
    assert found == [(m, p, r) for m in ("eager", "graph") for r, p in enumerate(("cuda", "cpu_cuda", "cuda"))]
    assert report.document.target is not None
    assert report.document.target.name == "tiny.py"
    assert report.document.environment == {"gpu": "Test GPU"}
    assert report.document.profile is not None
    assert list(report.document.profile.modes) == ["eager", "graph"]
    assert report.document.profile.seconds == {"timing": 2.5}


def test_a_zipped_capture_says_the_same(report: Report, tmp_path: Path) -> None:
    zipped = load(write_capture(tmp_path / "tiny.zip", two_modes())).document
    assert zipped.profile == report.document.profile
    assert [t.verdict for t in zipped.traces] == [t.verdict for t in report.document.traces]


def test_a_graphs_kernels_get_their_operators_from_eager_marked_as_inferred(report: Report) -> None:
    by_mode = {(t.mode, t.trace_pass): t.kernels for t in report.document.traces}
    assert [(k.operator, k.operator_inferred) for k in by_mode["eager", "cpu_cuda"]] == [("aten::mm", False)] * 2
    assert [(k.operator, k.operator_inferred) for k in by_mode["graph", "cuda"]] == [("aten::mm", True)] * 2


def test_without_a_pass_that_records_operators_there_are_none(tmp_path: Path) -> None:
    modes = {"graph": ModeRecord(processes=(process(0, 50, "graph"),))}
    report = load(write_capture(tmp_path / "tiny", two_modes(modes=modes)))
    assert {k.operator for k in report.document.traces[0].kernels} == {None}


def test_a_step_as_written_has_no_mode(tmp_path: Path) -> None:
    modes = {"as_written": ModeRecord(processes=(process(0, 300, "as_written"),))}
    report = load(write_capture(tmp_path / "tiny", two_modes(modes=modes)))
    assert report.document.traces[0].mode is None
    assert report.document.profile is not None
    assert report.document.profile.modes["as_written"].gpu_work_ns == 40_000


def test_several_traces_and_one_capture_make_one_report(folder: Path, tmp_path: Path) -> None:
    bare = NAMED_CASES["graph replay"]().write(tmp_path / "bare.json.gz")
    report = analyze(bare, folder)
    assert [t.mode for t in report.document.traces] == [None, "eager", "eager", "eager", "graph", "graph", "graph"]
    assert report.document.profile is not None
    with pytest.raises(UnreadableInput, match="second capture"):
        analyze(folder, folder)


def test_a_damaged_trace_of_a_capture_is_a_warning_of_its_mode(tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "tiny", two_modes())
    (folder / "traces/graph-1-cpu_cuda.json.gz").write_bytes(b"")
    (folder / "traces/graph-2-cuda.json.gz").unlink()
    profile = load(folder).document.profile
    assert profile is not None
    warnings = [w.message for w in profile.modes["graph"].warnings if w.code == "unreadable_trace"]
    assert len(warnings) == 2
    assert profile.modes["graph"].gpu_work_ns == 40_000


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"hello", "bad.json"), (b'{"traceEvents": 3}', "bad.json"), (b"SQLite format 3\0", "SQLite")],
)
def test_what_is_no_trace_is_refused_with_its_name(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(UnreadableInput, match=words):
        load(tmp_path / "bad.json")


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such file"):
        load(tmp_path / "nowhere.json")
    with pytest.raises(UnreadableInput, match="manifest"):
        load(tmp_path)
    with pytest.raises(UnreadableInput, match="nothing to analyze"):
        analyze()


def test_paths_that_cannot_be_looked_at_are_refused(tmp_path: Path) -> None:
    for path in ("a" * 5000, "nu\0ll", tmp_path / "loop"):
        (tmp_path / "loop").unlink(missing_ok=True)
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(UnreadableInput, match="can't be read"):
            load(path)
    with pytest.raises(UnreadableInput, match="/dev/null: a device, not a trace file"):
        load("/dev/null")


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    data = NAMED_CASES["graph replay"]().json()
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    report = load(tmp_path / "pipe")
    writer.join()
    assert report.document.traces[0].source.bytes == len(data)


@pytest.mark.parametrize("name", ["\udcff\udcfe.json", "a b\nc.json", "τ.json"])
def test_any_name_of_a_file_can_be_told(name: str, tmp_path: Path) -> None:
    report = load(NAMED_CASES["graph replay"]().write(tmp_path / name))
    check_json(report)
    assert report.document.traces[0].name == name.replace("\udcff\udcfe", "\\xff\\xfe")
    for written in (report.to_json(), b"".join(perfetto.render(report)), report._repr_html_().encode()):
        assert written
    folder = write_capture(tmp_path / name.removesuffix(".json"), two_modes())
    (folder / "traces/graph-2-cuda.json.gz").unlink()
    check_json(load(folder))


def test_a_step_regex_chooses_the_steps(tmp_path: Path) -> None:
    builder = trace()
    for step in range(4):
        builder.annotation(f"token {step}", 100 * step, 90).launch(100 * step + 5, 5).kernel(100 * step + 20, 10)
    path = builder.write(tmp_path / "tokens.json")
    document = load(path, step_regex=r"token \d").document.traces[0]
    assert (document.coverage.step_source, document.coverage.steps_found) == ("annotation", 4)


def test_the_tables_tell_missing_from_zero(tmp_path: Path) -> None:
    report = load(NAMED_CASES["graph captured before profiling"]().write(tmp_path / "case.json"))
    ops = report.gpu_ops
    assert ops["launch"].isna().tolist() == [True, True, False, False, False, False]
    assert ops["node"].tolist() == [0, 1, 0, 1, 0, 1]
    assert report.launches["operator"].isna().all()
    assert not (ops.select_dtypes("number") == -1).any().any()


def test_the_tables_hold_the_whole_capture(report: Report) -> None:
    """Three eager traces of 6 × 20 launches and kernels, three graph traces of 6 launches and 6 × 20 nodes."""
    assert report.launches.groupby("mode").size().to_dict() == {"eager": 360, "graph": 18}
    assert report.gpu_ops.groupby("mode").size().to_dict() == {"eager": 360, "graph": 360}
    assert report.steps.groupby("mode").size().to_dict() == {"eager": 18, "graph": 18}
    assert report.gaps["dur_ns"].sum() == sum(d.idle_ns for t in report.document.traces for d in t.devices)
    assert isinstance(report.kernels, pd.DataFrame)
    assert report.launches.iloc[0]["operator"] == "aten::mm"


def test_a_notebook_shows_the_verdicts_and_escapes_names(tmp_path: Path) -> None:
    modes = {"eager": ModeRecord(error="<script>")}
    target = msgspec.structs.replace(two_modes().target, name="<b>.py")
    html = load(write_capture(tmp_path / "tiny", two_modes(modes=modes, target=target)))._repr_html_()
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;.py" in html
    assert "<script>" not in html


def test_the_notebook_table_has_a_row_per_mode(report: Report) -> None:
    html = report._repr_html_()
    assert "LAUNCH-BOUND" in html
    assert "<td>300 µs</td><td>40.0 µs</td><td>20</td><td>87 %</td><td>1.0×</td>" in html


def test_show_prints_the_terminal_report(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    report.show()
    assert "LAUNCH-BOUND" in capsys.readouterr().out


def test_a_report_needs_no_pandas_until_a_table_is_asked_for(folder: Path) -> None:
    code = f"import sys; from launchscope import load; load({str(folder)!r}); print('pandas' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def field_names(struct: type[msgspec.Struct], seen: set[type]) -> set[str]:
    """JSON names of a struct and of all structs inside it."""
    seen.add(struct)
    names = {field.encode_name for field in msgspec.structs.fields(struct)}
    inner = msgspec.inspect.multi_type_info([f.type for f in msgspec.structs.fields(struct)])
    for kind in structs_in(inner):
        if kind not in seen:
            names |= field_names(kind, seen)
    return names


def structs_in(kinds: Iterable[msgspec.inspect.Type]) -> Iterator[type[msgspec.Struct]]:
    for kind in kinds:
        if isinstance(kind, msgspec.inspect.StructType):
            yield kind.cls
        elif isinstance(kind, msgspec.inspect.UnionType):
            yield from structs_in(kind.types)
        elif isinstance(kind, msgspec.inspect.ListType):
            yield from structs_in([kind.item_type])
        elif isinstance(kind, msgspec.inspect.DictType):
            yield from structs_in([kind.value_type])


def test_every_name_of_the_json_report_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    names = field_names(ReportDocument, set())
    assert {"step_ns", "by_cause", "pass", "flops_per_s", "low_ns"} <= names
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize("dress", ["plain", "gzip", "zip", "sqlite", "sqlite in a zip", "capture", "pipe"])
def test_reading_is_told_as_it_goes(dress: str, tmp_path: Path) -> None:
    """Of every file that is read, all its bytes; a pipe has no size."""
    plain = trace().step(0).launch(1, 2).kernel(4, 5)
    database = nsys.export().launch(10, 5).kernel(20, 10)
    path = tmp_path / "trace"
    match dress:
        case "zip" | "sqlite in a zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("a.json", plain.json() if dress == "zip" else database.bytes())
        case "sqlite":
            database.write(path)
        case "capture":
            path = write_capture(path, two_modes())
        case "pipe":
            os.mkfifo(path)
            threading.Thread(target=path.write_bytes, args=(plain.json(),)).start()
        case _:
            path = plain.write(tmp_path / ("trace.json" if dress == "plain" else "trace.json.gz"))
    sizes: dict[str, int | None] = {}
    done: Counter[str] = Counter()

    def progress(file: str, size: int | None, count: int) -> None:
        sizes[file] = size
        done[file] += count

    traces = analyze(path, cache=False, progress=progress).document.traces
    assert len(done) == len({each.source.path for each in traces})
    assert set(done) == {each.source.path for each in traces}
    if dress == "pipe":
        assert (sizes[str(path)], traces[0].source.bytes) == (None, len(plain.json()))
    else:
        assert sizes == done == {each.source.path: each.source.bytes for each in traces}
