"""One mode's part of a profiler session that several modes shared."""

from __future__ import annotations

from pathlib import Path

import msgspec
from launchscope.analysis.model.capture import CaptureWriter, ModeRecord
from launchscope.analysis.profile.analysed_traces import excerpt
from launchscope.analysis.report import load
from launchscope.fixtures.builder import TraceBuilder, trace

from ..captures import process, two_modes

SHARED = "traces/all-0-cuda.json.gz"


def one_session() -> TraceBuilder:
    """Four eager steps of 100 µs, three launches each, and a wait; from 1000 µs four replays of three nodes."""
    builder = trace()
    for step in range(4):
        for index in range(3):
            at = 100 * step + 20 * index
            builder.op("aten::mm", at, 9).launch(at + 1, 6).kernel(at + 8, 10, name=f"gemm_{index}")
    builder.sync(400, 5)
    for step in range(4):
        start = 1000 + 50 * step
        builder.graph_launch(start, 5)
        for index in range(3):
            builder.kernel(start + 6 + 11 * index, 10, name=f"gemm_{index}")
    return builder.sync(1200, 5)


def marks(first_us: int, step_us: int) -> tuple[tuple[int, int], ...]:
    return tuple(((first_us + step_us * i) * 1000, (first_us + step_us * (i + 1)) * 1000) for i in range(4))


def test_an_excerpt_holds_what_began_there_and_its_launches_ops() -> None:
    whole = one_session().build()
    eager, graph = excerpt(whole, 0, 1_000_000), excerpt(whole, 1_000_000, None)
    assert [len(part.gpu_ops) for part in (eager, graph)] == [12, 12]
    assert [len(part.launches) for part in (eager, graph)] == [12, 4]
    assert [len(part.blocking_calls) for part in (eager, graph)] == [1, 1]
    assert [part.launches.is_graph.any() for part in (eager, graph)] == [False, True]
    assert graph.gpu_ops.launch_row.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [whole.name(n) for n in eager.host_ops.name[eager.launches.operator_row]] == ["aten::mm"] * 12
    assert graph.launches.operator_row.tolist() == [-1] * 4


def test_an_op_goes_with_its_launch_and_one_without_by_its_start() -> None:
    whole = trace().launch(0, 10).kernel(90, 20).launch(95, 10).kernel(120, 5).kernel(99, 1, launch=False).build()
    assert excerpt(whole, 0, 95_000).gpu_ops.start_ns.tolist() == [90_000]
    late = excerpt(whole, 95_000, None).gpu_ops
    assert (late.start_ns.tolist(), late.launch_row.tolist()) == ([99_000, 120_000], [-1, 0])


def test_modes_that_shared_a_session_keep_their_figures_apart(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "live")
    one_session().write(writer.folder / SHARED)
    timed = {"eager": (0, 100), "graph": (1000, 50)}
    modes = {
        mode: ModeRecord(
            processes=(msgspec.structs.replace(process(0, step, mode), trace=SHARED, marks_ns=marks(first, step)),)
        )
        for mode, (first, step) in timed.items()
    }
    report = load(writer.finish(two_modes(modes=modes)))
    eager, graph = report.document.traces
    assert (eager.graphs.coverage_by_count, graph.graphs.coverage_by_count) == (0.0, 1.0)
    assert (eager.coverage.gpu_ops, graph.coverage.gpu_ops) == (12, 12)
    assert [row.count for row in graph.kernels] == [4, 4, 4]
    assert list(eager.launches.by_api) == ["cudaLaunchKernel"]
    assert report.document.profile is not None
    assert [w.code for w in report.document.profile.modes["graph"].warnings if "graph" in w.code] == []
