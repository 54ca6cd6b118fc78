"""Snapshots of captures, traces and saved reports: counts that add up in the head."""

from __future__ import annotations

from pathlib import Path

import launchscope
import msgspec
import pytest
from launchscope.analysis.compare.snapshot import BlockingSite, LaunchSite, Snapshot, portable, snapshots_of
from launchscope.analysis.model.capture import AS_WRITTEN, ModeRecord
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.report import analyze, load
from launchscope.fixtures.builder import TraceBuilder, trace

from ..captures import process, two_modes, write_capture

CAPTURES = Path(launchscope.__file__).parent / "fixtures" / "captures"


def steps(count: int = 8, item_in: tuple[int, ...] = ()) -> TraceBuilder:
    """Steps of 20 launches from one line; in some an `.item()`: a copy and a blocking call more."""
    builder = trace()
    for step in range(count):
        at = 200 * step
        builder.step(step, at, 190).python("/home/someone/model.py(42): step", at, 190)
        for index in range(20):
            builder.op("aten::mm", at + 5 * index, 4).launch(at + 5 * index + 1, 2)
            builder.kernel(at + 5 * index + 4, 1, name="gemm")
        if step in item_in:
            builder.op("aten::item", at + 110, 30).launch(at + 111, 2, "cudaMemcpyAsync")
            builder.memcpy(at + 115, 1, name="Memcpy DtoH (Device -> Pinned)").sync(at + 114, 10)
    return builder


def of(path: Path) -> list[Snapshot]:
    return snapshots_of(load(path, cache=False).document, path.name)


def of_trace(builder: TraceBuilder, tmp_path: Path) -> Snapshot:
    (snapshot,) = of(builder.write(tmp_path / "step.json"))
    return snapshot


def test_counts_are_means_so_that_a_call_in_every_fourth_step_is_seen(tmp_path: Path) -> None:
    snapshot = of_trace(steps(8, item_in=(3, 7)), tmp_path)
    document = load(tmp_path / "step.json").document.traces[0]
    assert document.steps is not None
    assert document.steps.blocking_calls.median == 0  # which says nothing of it
    assert (snapshot.blocking_calls, snapshot.memcpys) == (0.25, 0.25)
    assert (snapshot.launches, snapshot.kernels, snapshot.graph_launches) == (20.25, 20.0, 0.0)
    assert (snapshot.target, snapshot.mode, snapshot.graph_coverage) == ("step.json", "trace", 0.0)


def test_places_are_per_step_and_without_the_folders_of_this_machine(tmp_path: Path) -> None:
    snapshot = of_trace(steps(8, item_in=(3, 7)), tmp_path)
    line = "model.py(42): step"
    assert snapshot.launch_sites == (
        LaunchSite(operator="aten::mm", line=line, per_step=20.0, kernels_per_step=20.0),
        LaunchSite(operator="aten::item", line=line, per_step=0.25, kernels_per_step=0.0),
    )
    assert snapshot.blocking_sites == (
        BlockingSite(api="cudaStreamSynchronize", operator="aten::item", stack=(line, "aten::item"), per_step=0.25),
    )
    assert [(k.name, k.category, k.operator, k.per_step) for k in snapshot.kernel_sites] == [
        ("gemm", "kernel", "aten::mm", 20.0),
        ("Memcpy DtoH (Device -> Pinned)", "memcpy", "aten::item", 0.25),
    ]
    assert b"someone" not in msgspec.json.encode(snapshot)


def test_calls_outside_of_steps_do_not_count(tmp_path: Path) -> None:
    snapshot = of_trace(steps(4).sync(1000, 5), tmp_path)
    assert (snapshot.blocking_calls, snapshot.blocking_sites) == (0.0, ())


def test_what_ran_before_the_first_step_is_not_in_the_graph_coverage(tmp_path: Path) -> None:
    builder = trace()
    for index in range(30):  # a prompt
        builder.launch(10 * index, 2).kernel(10 * index + 5, 1)
    for step in range(4):
        at = 1000 + 100 * step
        builder.step(step, at, 90).graph_launch(at + 1, 5).kernel(at + 10, 1, name="a").kernel(at + 20, 1, name="b")
    assert of_trace(builder, tmp_path).graph_coverage == 1.0


def test_a_trace_tells_no_times_of_its_own(tmp_path: Path) -> None:
    withheld = of_trace(steps(), tmp_path).withheld
    assert set(withheld) == {"step_time", "launch_tax", "true_idle", "graph_memory"}
    assert "measure the step with launchscope profile" in withheld["step_time"]


def test_without_steps_counts_are_withheld_with_the_reason(tmp_path: Path) -> None:
    builder = trace()
    for index in range(3):
        builder.launch(10 * index, 2).kernel(10 * index + 5, 1)
    snapshot = of_trace(builder, tmp_path)
    assert (snapshot.launches, snapshot.unreliable) == (None, ())
    assert snapshot.withheld["launches"] == "no steps found"
    assert snapshot.withheld["graph_coverage"] == "no steps found"


def test_without_a_reliable_trace_the_reasons_are_kept(tmp_path: Path) -> None:
    builder = trace()
    for step in range(4):
        builder.step(step, 100 * step, 90).kernel(100 * step + 10, 5, launch=False)
    snapshot = of_trace(builder, tmp_path)
    assert (snapshot.launches, snapshot.unreliable) == (None, ("no launches in the file",))


def test_a_capture_gives_a_snapshot_of_each_mode(tmp_path: Path) -> None:
    eager, graph = of(write_capture(tmp_path / "tiny.zip", two_modes(run="run-1")))
    assert (eager.target, eager.mode, eager.batch_size, eager.dtype) == ("tiny.py", "eager", 1, "bf16")
    assert (eager.launches, eager.kernels, eager.graph_coverage) == (20.0, 20.0, 0.0)
    assert (graph.launches, graph.kernels, graph.graph_coverage) == (1.0, 20.0, 1.0)
    assert (graph.graph_memory_bytes, eager.withheld["graph_memory"]) == (2**20, "not a graph mode")
    assert [timing.samples_ns[0] for timing in eager.timings] == [240e3, 300e3, 360e3]
    assert [timing.host_submit_ns for timing in eager.timings] == [(280e3,)] * 3
    assert (eager.created, eager.run, eager.machine) == ("2026-01-01T00:00:00Z", "run-1", {"gpu": "Test GPU"})
    assert eager.gpu_work_ns == 40e3
    assert eager.launch_tax_share is not None
    assert 0 < eager.launch_tax_share <= 1


def test_the_process_that_records_stacks_gives_places_and_no_times(tmp_path: Path) -> None:
    stacked = process(3, 900, "eager", "stacks")
    modes = two_modes().modes
    eager = ModeRecord(processes=(*modes["eager"].processes, stacked))
    snapshot = of(write_capture(tmp_path / "tiny.zip", two_modes(modes={"eager": eager})))[0]
    assert [timing.repeat for timing in snapshot.timings] == [0, 1, 2]
    assert [(site.operator, site.per_step) for site in snapshot.launch_sites] == [("aten::mm", 20.0)]


def test_a_step_measured_as_written_is_a_mode_of_its_own(tmp_path: Path) -> None:
    record = ModeRecord(processes=(process(0, 300, "eager"),))
    (snapshot,) = of(write_capture(tmp_path / "tiny.zip", two_modes(modes={AS_WRITTEN: record})))
    assert (snapshot.mode, snapshot.launches) == ("as_written", 20.0)


def test_a_mode_that_failed_keeps_its_error(tmp_path: Path) -> None:
    record = ModeRecord(error="no graph can be captured: aten::item waits for the GPU")
    eager, graph = of(write_capture(tmp_path / "tiny.zip", two_modes(modes={**two_modes().modes, "graph": record})))
    assert (eager.error, graph.error) == (None, record.error)
    assert (graph.launches, graph.withheld["launches"]) == (None, record.error)


def test_a_saved_report_gives_the_same_snapshots(tmp_path: Path) -> None:
    for path in (CAPTURES / "llama_1b.zip", steps().write(tmp_path / "step.json")):
        report = analyze(path, cache=False)
        saved = msgspec.json.decode(report.to_json(), type=ReportDocument)
        assert snapshots_of(saved, "x") == snapshots_of(report.document, "x")


def test_a_real_capture() -> None:
    found = {each.mode: each for each in of(CAPTURES / "llama_1b.zip")}
    assert {mode: (each.launches, each.kernels, each.graph_coverage) for mode, each in found.items()} == {
        "eager": (718, 717, 0),
        "graph": (1, 717, 1),
        "fused": (247, 246, 0),
        "fused_graph": (1, 246, 1),
    }
    assert sum(site.per_step for site in found["eager"].launch_sites) == pytest.approx(718)
    assert sum(site.kernels_per_step for site in found["eager"].launch_sites) == pytest.approx(717)
    assert found["eager"].launch_sites[0].line == "launchscope/fixtures/models/llama.py(68): forward"
    assert sum(site.per_step for site in found["graph"].kernel_sites if site.category == "kernel") == 717


@pytest.mark.parametrize(
    ("frame", "kept"),
    [
        ("/home/someone/a (1)/model.py(42): step", "model.py(42): step"),
        ("/home/someone/venv/lib/python3.11/site-packages/torch/nn/x.py(3): g", "site-packages/torch/nn/x.py(3): g"),
        ("/usr/lib/python3.11/contextlib.py(3): f", "lib/python3.11/contextlib.py(3): f"),
        (r"C:\Users\someone\model.py(3): f", "model.py(3): f"),
        ("models/llama.py(3): h", "models/llama.py(3): h"),
        ("<built-in method item of Tensor object>", "<built-in method item of Tensor object>"),
        (
            "<built-in method synchronize of Stream object at 0x7f350b7adc50>",
            "<built-in method synchronize of Stream object>",
        ),
        ("aten::mm", "aten::mm"),
        ("/", ""),
    ],
)
def test_frames_without_the_folders_of_a_machine(frame: str, kept: str) -> None:
    assert portable(frame) == kept
