"""The check as a library: on captures, traces and saved reports, with and without a baseline."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import launchscope
import msgspec
import pytest
from launchscope.analysis.compare import baselines
from launchscope.analysis.compare.check import Reading, look_at
from launchscope.analysis.compare.snapshot import BlockingSite
from launchscope.analysis.model.errors import ConfigError, UnreadableInput
from launchscope.fixtures.builder import trace

from ..captures import shipped, two_modes, write_capture
from .snapshots import steps

CAPTURE = Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither limits nor baselines but those that a test makes."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def test_a_real_capture_holds_against_itself() -> None:
    document = launchscope.check(CAPTURE, CAPTURE)
    assert (document.outcome, document.exit_code) == ("holds", 0)
    assert [part.current.mode for part in document.parts] == ["eager", "graph", "fused", "fused_graph"]
    assert sum(len(part.findings) for part in document.parts) == 18


def test_a_real_capture_against_baselines_in_the_default_folder(tmp_path: Path) -> None:
    paths = baselines.save(look_at(CAPTURE, Reading()).snapshots, Path(baselines.FOLDER), NOW)
    assert all(path.stat().st_size < 25_000 for path in paths)  # of a capture of 1.9 MB
    document = launchscope.check(CAPTURE)
    assert document.outcome == "holds"
    assert document.parts[0].baseline is not None
    assert document.parts[0].baseline.source == str(paths[0])


def test_a_doctored_capture_is_a_regression_with_its_cause() -> None:
    item = BlockingSite(
        api="cudaStreamSynchronize", operator="aten::item", stack=("llama.py(68): forward", "aten::item"), per_step=1.0
    )
    now = [
        msgspec.structs.replace(each, blocking_calls=1.0, blocking_sites=(item,)) if each.mode == "eager" else each
        for each in look_at(shipped("llama_1b.zip"), Reading()).snapshots
    ]
    for path in baselines.save(now, Path("now"), NOW):
        document = launchscope.check(path, shipped("llama_1b.zip"), modes=read(path))
        if read(path) == "eager":
            assert document.exit_code == 1
            assert document.parts[0].causes == [
                "1 blocking call more: cudaStreamSynchronize in aten::item, at llama.py(68): forward (0 → 1 per step)."
            ]
        else:
            assert document.exit_code == 0


def read(path: Path) -> str:
    return baselines.read_file(path).mode


def test_a_trace_against_a_trace_and_a_saved_report(tmp_path: Path) -> None:
    good, more = steps(20).write(tmp_path / "good.json.gz"), steps(22).write(tmp_path / "more.json.gz")
    report = tmp_path / "good-report.json"
    report.write_bytes(launchscope.load(good).to_json())
    for baseline in (good, report, launchscope.load(good)):
        document = launchscope.check(more, baseline)
        assert document.exit_code == 1
        assert document.parts[0].causes == ["2 extra kernels from aten::mm per step, 2.00 µs: gemm."]
    assert launchscope.check(report, good).exit_code == 0


def test_limits_given_found_or_named(tmp_path: Path) -> None:
    file = steps(20).write(tmp_path / "step.json")
    with pytest.raises(ConfigError, match="nothing to check: no limits and no baseline"):
        launchscope.check(file)
    assert launchscope.check(file, limits={"launches": "<= 20"}).exit_code == 0
    assert launchscope.check(file, limits={"trace": {"launches": "<= 19"}}).exit_code == 1
    Path("launchscope.toml").write_text("[limits]\nlaunches = 19\n")
    assert launchscope.check(file).exit_code == 1
    (tmp_path / "other.toml").write_text("[limits]\nlaunches = 20\n")
    assert launchscope.check(file, config=tmp_path / "other.toml").exit_code == 0
    with pytest.raises(ConfigError, match="limits and config are both given"):
        launchscope.check(file, limits={}, config="x")


def test_modes_are_chosen_by_name(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "tiny.zip", two_modes())
    document = launchscope.check(capture, limits={"launches": 1}, modes="graph")
    assert ([part.current.mode for part in document.parts], document.exit_code) == (["graph"], 0)
    with pytest.raises(ConfigError, match=r"tiny\.zip: has no mode fused; it has eager, graph"):
        launchscope.check(capture, limits={"launches": 1}, modes=["fused"])


def test_captures_of_one_run_are_paired(tmp_path: Path) -> None:
    now, then = (write_capture(tmp_path / f"{name}.zip", two_modes(run="r")) for name in ("now", "then"))
    finding = launchscope.check(now, then, limits={"step_time": "+3%"}).parts[0].findings[0]
    assert finding.interval is not None
    assert (finding.interval.paired, finding.interval.processes, finding.interval.change) == (True, 3, 0.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"schema": "launchscope.check/1"}', "is launchscope.check/1, which holds no figures of a step"),
        (b'{\n "schema" : "launchscope.doctor/1"}', "is launchscope.doctor/1"),
        (b'{"schema": "launchscope.report/1"}', "a damaged report"),
        (b'{"schema": "launchscope.report/1", "launchscope": "0.1.0", "target": null, "environment": null, "traces": '
         b'[], "profile": null}', "holds no mode and no trace, so nothing to check"),
        (b'{"schema": "launchscope.baseline/1"}', "a damaged baseline"),
        (b"not json", "x.json"),
    ],
)  # fmt: skip
def test_what_can_not_be_checked_is_refused_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(UnreadableInput) as refused:
        look_at(file, Reading())
    assert "x.json" in str(refused.value)
    assert said in str(refused.value)


def test_a_baseline_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = steps(20).write(tmp_path / "step.json")
    with pytest.raises(UnreadableInput, match="none: no such baseline; save one with launchscope baseline save"):
        launchscope.check(file, "none")


def test_files_that_were_left_out_are_noted(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    steps(20).write(tmp_path / "traces" / "rank0.json")
    trace().op("aten::mm", 0, 5).write(tmp_path / "traces" / "front_end.json")
    document = launchscope.check(tmp_path / "traces", limits={"launches": 20})
    assert document.exit_code == 0
    assert any(note.startswith("front_end.json was left out: ") for note in document.notes)


def test_a_check_loads_neither_torch_nor_pandas() -> None:
    code = f"import sys, launchscope; launchscope.check({str(CAPTURE)!r}, {str(CAPTURE)!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pandas", "rich"} & {name.partition(".")[0] for name in loaded}
