"""A file of several ranks is told process by process."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.facts.processes import by_process
from launchscope.analysis.predict.recorded_steps import find_start
from launchscope.analysis.report import analyze
from launchscope.fixtures.builder import TraceBuilder, trace


def rank_steps(builder: TraceBuilder, process: int, device: int, *, kernel_us: float, shift: float) -> TraceBuilder:
    """Six steps of 100 µs: 5 launches 20 µs apart, and their kernels."""
    for step in range(6):
        at = 100 * step + shift
        builder.annotation(f"ProfilerStep#{step}", at, 100, process=process)
        for index in range(5):
            builder.op("aten::mm", at + 20 * index, 6, process=process)
            builder.launch(at + 20 * index + 1, 4, process=process)
            builder.kernel(at + 20 * index + 6, kernel_us, device=device)
    return builder


def merged() -> TraceBuilder:
    return rank_steps(rank_steps(trace(), 100, 0, kernel_us=4.5, shift=0), 101, 1, kernel_us=9.5, shift=3)


def test_each_process_has_its_own_steps_launches_and_device(tmp_path: Path) -> None:
    """Together they would be steps of 3 and 97 µs with launches of both."""
    first, second = analyze(merged().write(tmp_path / "both.json"), cache=False).document.traces
    assert (first.name, second.name) == ("both.json · process 0", "both.json · process 1")
    for found, work in ((first, 22_500), (second, 47_500)):
        assert found.bound is not None
        assert (found.bound.step_ns, found.bound.launches, found.bound.gpu_work_ns) == (100_000, 5, work)
        assert (found.coverage.reliable, found.coverage.steps_found) == (True, 6)
        assert [warning.code for warning in found.warnings] == []


def test_references_are_of_the_part() -> None:
    for part in by_process(merged().build()):
        assert part.gpu_ops.launch_row.tolist() == list(range(30))
        rows = part.launches.operator_row
        assert {part.name(int(part.host_ops.name[row])) for row in rows} == {"aten::mm"}
        assert (part.host_ops.start_ns[rows] < part.launches.start_ns).all()


def test_a_prediction_starts_from_the_process_that_works_most(tmp_path: Path) -> None:
    start = find_start(analyze(merged().write(tmp_path / "both.json"), cache=False), None)
    assert start.analysis.context.name == "both.json · process 1"


@pytest.mark.parametrize("launches", [0, 1])
def test_a_helper_process_is_no_rank(launches: int) -> None:
    builder = rank_steps(trace(), 100, 0, kernel_us=4.5, shift=0)
    for step in range(6, 120):
        builder.launch(100 * step, 5, process=100).kernel(100 * step + 10, 4)
    for index in range(launches):
        builder.launch(12_500 + index, 5, process=101).kernel(12_510, 4)
    whole = builder.build()
    assert [len(part.launches) for part in by_process(whole)] == [len(whole.launches)]
