"""Every warning of a report: a tiny recording that raises it, and one that only just does not."""

from __future__ import annotations

import ast
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.inputs.readers import read_trace
from launchscope.analysis.model.capture import Calibration, GpuState, ModeRecord, ProcessRecord
from launchscope.analysis.model.document import WarningDoc
from launchscope.analysis.model.trace import Trace
from launchscope.analysis.report import load
from launchscope.fixtures.builder import TraceBuilder, trace

from ..nsys_builder import ExportBuilder, export
from .captures import EQUAL, MACHINE, US, eager_trace, process, two_modes, write_capture
from .profile.test_profile import profile_of

ROOT = Path(__file__).parents[2]
HOUR = 3_600_000_000  # µs


class Marked(NamedTuple):
    """A recording, and what its capture or its user says of the steps."""

    recording: TraceBuilder
    options: dict[str, Any]


class Profiled(NamedTuple):
    """Processes of one mode of a profile; its traces are the usual ones of that mode, or this."""

    processes: tuple[ProcessRecord, ...]
    mode: str = "eager"
    recording: TraceBuilder | None = None
    calibration: Calibration = MACHINE


Recording = TraceBuilder | ExportBuilder | bytes | Marked | Profiled


def analysis_of(recording: TraceBuilder | ExportBuilder | bytes | Marked) -> TraceAnalysis:
    options: dict[str, Any] = {}
    if isinstance(recording, Marked):
        recording, options = recording
    found: Trace = read_trace(recording, "x") if isinstance(recording, bytes) else recording.build()
    return analyze_trace(found, name="x", **options)


def warnings_of(recording: Recording) -> list[WarningDoc]:
    if isinstance(recording, Profiled):
        manifest = two_modes(
            modes={recording.mode: ModeRecord(processes=recording.processes)}, calibration=recording.calibration
        )
        traces = {} if recording.recording is None else {recording.mode: recording.recording}
        return profile_of(manifest, traces).modes[recording.mode].warnings
    return analysis_of(recording).document.warnings


def one() -> TraceBuilder:
    """A launch of 5 µs, a kernel of 4 µs that starts 10 µs after it, and a time that is no whole µs."""
    return trace().launch(0, 5).kernel(10, 4.5)


def row_of(count: int, *, unlinked: int = 0, early: int = 0) -> TraceBuilder:
    """Launches 10 µs apart, each with a kernel: the last ``early`` start after it, ``unlinked`` kernels come first."""
    builder = trace()
    for index in range(unlinked):
        builder.kernel(2 * index, 1, launch=False)
    for index in range(count):
        at = 1000 + 10 * index
        builder.launch(at, 2).kernel(at - 1 if index >= count - early else at + 3, 1, name=f"k{index}")
    return builder


def backwards(*, launches: int = 0, ops: int = 0, syncs: int = 0) -> TraceBuilder:
    """100 launches, GPU ops and syncs, so many of which end 5 µs before they begin."""
    builder = trace()
    for index in range(100):
        at = 100 * index
        builder.launch(at, -5 if index < launches else 5).kernel(at + 20, -5 if index < ops else 5)
        builder.sync(at + 40, -5 if index < syncs else 5)
    return builder


def replays(*nodes: int) -> TraceBuilder:
    """Replays of one graph, 200 µs apart, each with its first so many nodes."""
    builder = trace()
    for replay, count in enumerate(nodes):
        builder.graph_launch(200 * replay, 5)
        for node in range(count):
            builder.kernel(200 * replay + 10 + 2 * node, 1, name=f"node_{node}")
    return builder


def steps(count: int = 4) -> TraceBuilder:
    """Steps, 100 µs apart, of two launches each."""
    builder = trace()
    for step in range(count):
        at = 100 * step
        builder.annotation(f"decode {step}", at, 90).launch(at, 5).kernel(at + 10, 5).launch(at + 20, 5)
        builder.kernel(at + 30, 5)
    return builder


def with_empty_steps() -> TraceBuilder:
    """Six steps 100 µs apart, of which the third and the fifth hold nothing."""
    builder = trace()
    for step in range(6):
        builder.step(step, 100 * step, 90)
        if step not in (2, 4):
            builder.launch(100 * step, 5).kernel(100 * step + 10, 5.5)
    return builder


def last_step(launches: int, *lost: int) -> TraceBuilder:
    """Two steps with a launch every 20 µs, one in the first; of the second's those that are told lost their GPU op."""
    builder = trace().step(0, 0, 90).launch(0, 5).kernel(10, 5).step(1, 100, 20 * launches)
    for index in range(launches):
        builder.launch(100 + 20 * index, 5)
        if index not in lost:
            builder.kernel(110 + 20 * index, 5)
    return builder


def lossy(launches: int, *lost: int) -> TraceBuilder:
    """A step of launches 40 µs apart; those that are told have no GPU op."""
    builder = trace().step(0, -1, 40 * launches)
    for index in range(launches):
        builder.launch(40 * index, 5)
        if index not in lost:
            builder.kernel(40 * index + 10, 20.5)
    return builder


def empty_step() -> TraceBuilder:
    """Three steps of 100, 1 and 100 launches; the second's has no GPU op."""
    builder, at = trace(), 0
    for step, launches in enumerate((100, 1, 100)):
        builder.step(step, at, 10 * launches)
        for index in range(launches):
            builder.launch(at + 10 * index + 1, 2)
            if step != 1:
                builder.kernel(at + 10 * index + 5, 3.5)
        at += 10 * launches
    return builder


def marching(*, host_us: int, gpu_us: int) -> TraceBuilder:
    """Six steps of one launch; the host begins one every so many µs, the GPU runs them behind each other."""
    builder = trace()
    for step in range(6):
        builder.annotation(f"decode {step}", host_us * step, 50).launch(host_us * step + 1, 5)
        builder.kernel(6 * host_us + gpu_us * step, 30.5)
    return builder


def holed(hole_us: float) -> TraceBuilder:
    """Two replays of 41 nodes, 1 µs apart, but for one hole in the second."""
    builder = trace()
    for replay in range(2):
        at = 1000.0 * replay
        builder.graph_launch(at, 5)
        for node in range(41):
            builder.kernel(at + 10 + 3 * node + (hole_us - 1 if replay and node == 40 else 0), 2, name=f"node_{node}")
    return builder


def touching(gap_us: float) -> TraceBuilder:
    """Ten ops of one hip launch each, so far apart."""
    builder = trace()
    for index in range(10):
        builder.launch(index, 0.5, api="hipLaunchKernel").kernel(20 + index * (4 + gap_us), 4)
    return builder


def capturing(builder: TraceBuilder, at: float) -> TraceBuilder:
    return builder.api("cudaStreamBeginCapture", at, 1).api("cudaStreamEndCapture", at + 10, 1)


def warm_up_passes() -> TraceBuilder:
    """Three alike passes of nine kernels, which nothing names."""
    builder = trace()
    for index in range(27):
        builder.launch(10 * index, 4).kernel(10 * index + 5, 3.5, name=f"kernel_{index % 9}")
    return builder


def unlinked_replays(count: int) -> TraceBuilder:
    """Replays of four kernels of 2 µs, 1 µs apart, every 101 µs; none carries its launch's id."""
    builder = trace()
    for replay in range(count):
        builder.graph_launch(101 * replay, 5)
        for node in range(4):
            builder.kernel(101 * replay + 10 + 3 * node, 2, name=f"node_{node}", launch=False, correlation=0)
    return builder


def twice(**other: Any) -> TraceBuilder:
    """One kernel of 4.5 µs, and the same again but for what is told."""
    return one().kernel(**{"at": 10, "dur": 4.5, **other})


def marked(*, shift_us: int) -> Marked:
    """Marks of launchscope's own tracer around the four steps, or beside them."""
    return Marked(
        steps(), {"marks_ns": [(1000 * (100 * s + shift_us), 1000 * (100 * s + 95 + shift_us)) for s in range(4)]}
    )


def long_kernel(dur: int, *, sync: int | None = None) -> TraceBuilder:
    """A kernel of so many µs in a file that else spans 20 µs, or up to the end of a sync that waited for it."""
    builder = trace().launch(0, 5).kernel(10, 4.5).launch(15, 5).kernel(20.5, dur, stream=8)
    return builder if sync is None else builder.sync(20, sync)


def overtaken(first: tuple[float, float], second: tuple[float, float], **other: Any) -> TraceBuilder:
    """Two kernels of one stream by (start, duration)."""
    return trace().launch(0, 1).kernel(*first).launch(2, 1.5).kernel(*second, **other)


def packed(*, cut: int) -> bytes:
    """A gzip file without the last bytes of the checksum behind its content."""
    data = gzip.compress(one().json())
    return data[: len(data) - cut]


def perfetto(*, is_theirs: bool) -> bytes:
    """Records as Perfetto writes them, each on a line and its args one level deeper, or as Kineto does."""
    args = '{"args":{"correlation":1}}' if is_theirs else '{"correlation":1}'
    return (
        f'{{"traceEvents":[\n{{"args":{args},"cat":"cuda_runtime","dur":5,"name":"launch","ph":"X","pid":1,"tid":1,'
        f'"ts":0}},\n{{"args":{args},"cat":"kernel","dur":4,"name":"k","ph":"X","pid":0,"tid":7,"ts":10}}],\n"more":1}}'
    ).encode()


def since_1970(*starts_us: float) -> bytes:
    """Kernels of 1.5 µs, their starts as µs since 1970."""
    record = '{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{:.3f},"dur":1.5}}'
    texts = (record.format(at).replace('"ts":', '"ts":17595360000') for at in (10_000 + each for each in starts_us))
    return f'{{"traceEvents":[{",".join(texts)}]}}'.encode()


def other_device(category: str) -> bytes:
    """A call of another accelerator's runtime, and an event of this category."""
    return (
        trace()
        .launch(0, 5)
        .kernel(10, 4.5)
        .json()
        .replace(b"cuda_runtime", b"mtia_runtime")
        .replace(b'"cat":"kernel"', f'"cat":"{category}"'.encode())
    )


def at_zero(count: int, at: int) -> TraceBuilder:
    """Ten launches from 1 µs on, 10 µs apart, each with a kernel, the first few of which are at that time."""
    builder = trace()
    for index in range(10):
        builder.launch(10 * index + 1, 2).kernel(at if index < count else 10 * index + 4.5, 2)
    return builder


def proton(*, cut: int) -> bytes:
    """Two kernels of Proton's, without the last so many bytes."""
    record = '{"cat":"kernel","dur":4.5,"name":"k","ph":"X","pid":0,"tid":200007,"ts":%d.0}'
    text = f'{{"displayTimeUnit":"us","traceEvents":[{record % 0},{record % 10}]}}'
    return text[: len(text) - cut].encode()


def syncing() -> TraceBuilder:
    """Six steps that wait for the GPU between their two launches."""
    builder = trace()
    for step in range(6):
        at = 100 * step
        builder.step(step, at, 95).launch(at + 1, 5).kernel(at + 10, 44).sync(at + 8, 50).launch(at + 61, 5)
        builder.kernel(at + 70, 5)
    return builder


def with_orphans(count: int) -> TraceBuilder:
    """Steps 2 and later of the eager mode have so many kernels without a launch beside 120 with one."""
    builder = eager_trace()
    for index in range(count):
        builder.kernel(800 + 10 * index, 2, launch=False)
    return builder


def timed(*step_us: float, **more: Any) -> tuple[ProcessRecord, ...]:
    """Processes of the eager mode by their step times."""
    return tuple(process(repeat, us, "eager", **more) for repeat, us in enumerate(step_us))


HOT = GpuState(throttle_reasons=("thermal slowdown",))
SHARED, ALONE = GpuState(other_processes=2), GpuState(other_processes=0)
NOTED = msgspec.structs.replace(EQUAL, note="one input")
SLOW = msgspec.structs.replace(MACHINE, bandwidth_bytes_per_s=20_000_000 / 41e-6)
ON_TIME = msgspec.structs.replace(MACHINE, bandwidth_bytes_per_s=20_000_000 / 40.7e-6)
FAILED = ProcessRecord(repeat=1, started="", error="hung")
CALL: dict[str, Any] = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 1.5}


class Case(NamedTuple):
    code: str
    raises: Recording
    rows: int  # the warning's count
    says: str
    near_miss: Recording


CASES = [
    # --- no GPU op, no launch -------------------------------------------------------------------------------------
    Case("no_gpu_ops", trace(), 1, "no event at all", one()),
    Case("no_gpu_ops", trace().api("cudaMalloc", 0, 5), 1,
         "got no activity of the GPU", one().api("cudaMalloc", 0, 5)),
    Case("no_gpu_ops", trace().op("aten::mm", 0, 5), 1, "the CPU's side alone", one().op("aten::mm", 0, 5)),
    Case("no_gpu_ops", trace().annotation("a", 0, 5), 1, "none of its events is of a category", one()),
    Case("no_gpu_ops", export().launch(0, 5), 1,
         "record with `nsys profile --trace=cuda,nvtx", export().launch(0, 5).kernel(9, 1)),
    Case("no_gpu_ops", export().graph_launch(0, 5), 1,
         "it holds 1 graph launch, whose nodes were not recorded; record with `nsys profile",
         export().graph_launch(0, 5).kernel(9, 1)),
    Case("no_gpu_ops", trace().graph_launch(0, 5).api("hipGraphLaunch", 20, 5), 1,
         "use the HIP and roctracer libraries of 7.2.2 or newer", one()),
    Case("no_launches", trace().kernel(0, 4, launch=False), 1, "re-export it whole", one()),
    Case("no_launches", export().launch(0, 5).kernel(9, 1).drop("CUPTI_ACTIVITY_KIND_RUNTIME"), 1,
         "record with `nsys profile", export().launch(0, 5).kernel(9, 1)),
    Case("no_launches", proton(cut=0), 2, "Proton records none", one()),
    Case("zero_correlation", row_of(3).kernel(2000, 1, name="ncclDevKernel_A", correlation=0), 1,
         "1 of 4 (25 %) GPU ops, all named 'ncclDevKernel_A', carry no correlation id, or 0", row_of(4)),
    Case("no_launches", trace().api("cudaMalloc", 0, 5).kernel(10, 4.5, launch=False, correlation=0), 1,
         "none of which carries the correlation id of its launch", one()),
    Case("orphans", row_of(3, unlinked=1), 1,
         "1 of 4 (25 %) GPU ops have no launch in the file, all of them at its start", row_of(4)),
    Case("orphans", row_of(3, unlinked=1).kernel(2000, 1, launch=False), 2,
         "2 of 5 (40 %) GPU ops have no launch in the file, 1 of them at its start", row_of(4)),
    # between the first launch that has its GPU op and the last; a driver call inside a launch call does its work
    Case("lost_ops", lossy(40, 20), 1,
         "1 of 40 (2 %) launch calls have no GPU op in the file, in 1 of 1 steps: the profiler lost", lossy(40)),
    Case("lost_ops", lossy(40, 3), 1, "all near the start; run a warm-up step", lossy(40)),
    Case("lost_ops", lossy(40, 36, 37), 2, "all near the end; synchronise before", lossy(40)),
    Case("lost_ops", lossy(40, 20), 1, "2 %", lossy(40).api("cuLaunchKernel", 801, 3)),
    Case("lost_ops", lossy(40, 20), 1, "2 %", capturing(lossy(40), 812).api("cudaLaunchKernel", 815, 1)),
    Case("lost_first", lossy(40, 0, 1), 2, "the first 2 launch calls of the recording, in 1 of 1 steps", lossy(40)),
    Case("lost_last", lossy(40, 39), 1, "the last 1 launch call of the recording, in 1 of 1 steps", lossy(40)),
    Case("graph_nodes_missing", one().graph_launch(20, 5).launch(40, 5).kernel(50, 4), 1,
         "1 graph launch, and the GPU ops of none: graph nodes were not recorded",
         one().graph_launch(20, 5).kernel(30, 4).launch(40, 5).kernel(50, 4)),
    Case("graph_nodes_missing", unlinked_replays(3), 3,
         "3 graph launches without a GPU op, and 12 GPU ops without a launch: replays whose kernels aren't linked to "
         "their launch; by their order they are 4 each, with 9.00 µs idle between nodes and 180 µs between replays",
         one()),
    Case("capture_recorded", capturing(warm_up_passes(), 2000), 1, "1 graph was captured", warm_up_passes()),
    Case("capture_recorded", one().api("cudaStreamBeginCapture", 20, 5), 1, "1 graph was captured",
         one().api("cudaStreamBeginCapture", 20, 5).graph_launch(30, 5).kernel(40, 4)),
    # --- what a profiler loses or gets wrong ----------------------------------------------------------------------
    # the last replay lacks its last node; without it in the middle nothing was cut
    Case("cut_replay", replays(40, 40, 39), 1,
         "inside 1 graph replay (graph 0: 39 of 40 (98 %) GPU ops): left out", replays(40, 39, 40)),
    Case("under_recorded", replays(40, 39, 40), 1,
         "graph 0: 1 of 3 (33 %) replays have fewer than 40 GPU ops (down to 39)", replays(40, 40, 39)),
    Case("under_recorded", replays(40, 39, 40).kernel(288, 1, name="node_39", correlation=0), 1,
         "(down to 39): 1 GPU op without a correlation id may be of them", replays(40, 40, 39)),
    Case("skew", trace().launch(10, 5).kernel(9.5, 4), 1,
         "1 of 1 (100 %) GPU ops start before their launch call does, by up to 0.5 µs",
         trace().launch(10, 5).kernel(10, 4.5)),
    Case("whole_us", trace().launch(0, 5).kernel(10, 4).kernel(16, 4), 2,
         "1 gaps may be off by ±0.002 ms together", trace().launch(0, 5).kernel(10, 4).kernel(16.001, 4)),
    Case("coarse_times", since_1970(0.25, 10.5), 2, "±0.25 µs at each edge, so 1 gaps may be off by ±0.001 ms",
         since_1970(0.25, 10.501)),
    Case("impossible_durations", one().kernel(20, -5), 1,
         "of 1 GPU op (the first on device 0, stream 7, 10.0 µs after the first GPU op): 1 below zero",
         one().kernel(20, 0)),
    Case("impossible_durations", one().kernel(20, HOUR + 1).op("all", 0, 2 * HOUR), 1,
         "1 over an hour;", one().kernel(20, HOUR).op("all", 0, 2 * HOUR)),
    Case("impossible_durations", one().launch(20, HOUR + 1).kernel(30, 1), 1,
         "durations that can't be, of 1 launch: 1 over an hour",
         one().launch(20, HOUR).kernel(30, 1)),
    Case("impossible_durations", one().launch(20, -1).kernel(30, 1).sync(40, -1), 2,
         "durations that can't be, of 1 launch and 1 blocking call: 2 below zero",
         one().launch(20, 0).kernel(30, 1).sync(40, 0)),
    Case("impossible_durations", long_kernel(100_001), 1,
         "1 longer than all else in the file together", long_kernel(100_000)),
    Case("impossible_durations", long_kernel(300_000, sync=200_000), 1,
         "1 longer than all else in the file together", long_kernel(300_000, sync=299_980)),
    # ends 470 µs after the next one has; a dependent launch ends last; 10 µs of overlap are not far
    Case("impossible_durations", overtaken((10, 500), (30, 10.5)), 1,
         "1 running on when the next one of its stream has long ended", overtaken((10, 30), (30, 20.5))),
    Case("impossible_durations", overtaken((10, 20.001), (20, 5)), 1, "of 1 GPU op", overtaken((10, 20), (20, 5.5))),
    Case("impossible_durations", overtaken((10, 500), (30, 10.5)), 1,
         "has long ended", overtaken((10, 500), (30, 10.5), stream=8)),
    Case("impossible_durations", overtaken((10, 500), (30, 10.5)), 1,
         "has long ended", trace().graph_launch(0, 1).kernel(10, 500).kernel(30, 10.5)),
    Case("impossible_durations", overtaken((10, 500), (30, 10.5)), 1,
         "has long ended", trace().launch(0, 1).kernel(10, 500).launch(2, 1, process=101).kernel(30, 10.5)),
    Case("duplicates", twice(), 1,
         "1 of 2 (50 %) GPU ops are in the file more than once (the first on device 0, stream 7, the first GPU op of",
         twice(stream=8)),
    Case("duplicates", twice().kernel(10, 4.5), 2, "2 of 3 (67 %)", twice(name="another").kernel(10, 4.501)),
    # in a file of whole µs two nodes of under 1 µs each may seem to run at the same time
    Case("duplicates", trace().launch(0, 5).kernel(10, 2).kernel(10, 2), 1,
         "1 of 2 (50 %)", trace().launch(0, 5).kernel(10, 1).kernel(10, 1)),
    Case("overlap", overtaken((10, 4), (13.5, 4)), 1,
         "1 of 2 (50 %) GPU ops start before an earlier one of their stream has ended (programmatic dependent launch)",
         overtaken((10, 3.5), (13.5, 4))),
    Case("overlap", overtaken((10, 500), (30, 10.5)), 1,
         "(programmatic dependent launch, or the impossible durations)", overtaken((10, 500), (30, 10.5), stream=8)),
    # --- waits that contradict the record ---------------------------------------------------------------------------
    Case("touching_ops", touching(0.001), 9, "9 of 9 (100 %) gaps are of 1 ns", touching(0.002)),
    Case("after_its_wait", trace().launch(0, 5).sync(6, 10).kernel(17.5, 4), 1,
         "1 of 1 (100 %) GPU ops start when a wait for all work has returned that began after their launch",
         trace().launch(0, 5).sync(6, 10).kernel(15.5, 4)),
    Case("after_its_wait", trace().launch(0, 5).sync(6, 10).kernel(17.5, 4), 1, "wait for all work",
         trace().launch(0, 5).sync(4, 10).kernel(17.5, 4)),
    Case("deferred", trace().launch(0, 5).kernel(10, 4).launch(20, 5).kernel(125.5, 4), 1,
         "1 of 2 (50 %) GPU ops start up to 100 µs after their launch returned, while the GPU is idle",
         trace().launch(0, 5).kernel(10, 4).launch(20, 5).kernel(125, 4.5)),
    Case("deferred", trace().launch(0, 5).kernel(10, 4).launch(20, 5).kernel(125.5, 4), 1, "100 µs together",
         trace().launch(0, 5).kernel(10, 4).api("cudaStreamWaitEvent", 16, 2).launch(20, 5).kernel(125.5, 4)),
    Case("burst", marching(host_us=100, gpu_us=40), 6,
         "the host begins a step every 100 µs, and the GPU runs one every 40.0 µs: the ops of 6 steps",
         marching(host_us=59, gpu_us=40)),
    Case("replay_hole", holed(100.5), 1, "1 hole of up to 100 µs inside graph replays, 100 µs together, where a node "
         "usually follows 1.00 µs after another", holed(100)),
    Case("unrecorded_work", one().sync(12, 1003.5), 1,
         "1 wait for the GPU last up to 1.00 ms after the last recorded GPU op has ended", one().sync(12, 1002.5)),
    Case("outside_session", at_zero(1, 0), 1, "of 1 GPU ops and 0 API calls", at_zero(1, 1)),
    Case("outside_session", at_zero(1, -2 * HOUR), 1, "of 1 GPU ops and 0 API calls", at_zero(1, -HOUR + 50)),
    Case("outside_session", at_zero(2, 3 * HOUR), 2, "of 2 GPU ops and 0 API calls", at_zero(3, 3 * HOUR)),
    Case("other_accelerator", other_device("mtia_ccp_events"), 1, "of Meta's MTIA (mtia_ccp_events, mtia_runtime)",
         other_device("kernel")),
    Case("other_accelerator", other_device("hpu_op"), 1,
         "of Intel's Gaudi (HPU) and Meta's MTIA (hpu_op, mtia_runtime)",
         other_device("gpu_memset")),
    Case("no_gpu_ops", other_device("mtia_ccp_events"), 1, "launchscope can't judge that device",
         other_device("kernel")),
    Case("raw_quotes", one().json().replace(b'"kernel"', b'"a"b"').replace(b'"cat":"a"b"', b'"cat":"kernel"'), 1,
         "a name holds quotes that are not escaped", one()),
    Case("second_document", one().json() * 2, 1, f"{len(one().json()):,} bytes were left out", one()),
    Case("lost_records", one().header(WARNING=["Dropped 12 activity records"]), 12,
         "it dropped 12 records", one().header(WARNING=["Dropped 0 activity records"])),
    Case("lost_records", one().header(INFO=["CUPTI stopped early? = 1"]), 1,
         "CUPTI stopped early", one().header(INFO=["CUPTI stopped early? = 0"])),
    Case("lost_records",
         export().launch(0, 5).kernel(9, 1).row("DIAGNOSTIC_EVENT", text="Not all CUDA events might be there."), 1,
         "not all CUDA events",
         export().launch(0, 5).kernel(9, 1).row("DIAGNOSTIC_EVENT", text="Number of CUDA events collected: 2.")),
    Case("graph_level", export().graph_launch(0, 5).graph_trace(9, 80).launch(100, 5).kernel(110, 4), 1,
         "1 graph replay recorded as a whole, one op", export().graph_launch(0, 5).graph_trace(9, 80).kernel(9, 4)),
    # --- what the recording holds ---------------------------------------------------------------------------------
    Case("stray_work", trace().launch(0, 5).kernel(10, 10).launch(71, 5).kernel(80.5, 30), 1,
         "device 0: one gap of 0.060 ms, 10.0 µs into the window, is 60 % of it: the recording holds stray "
         "work; record a loop",
         trace().launch(0, 5).kernel(10, 10).launch(61, 5).kernel(70, 40.5)),
    Case("stray_work", trace().launch(0, 5).kernel(10, 10).launch(61, 5).kernel(70, 39.5), 1,
         "is 50 % of it", trace().launch(0, 5).kernel(10, 10).launch(61, 5).kernel(70, 40)),
    Case("stray_work", steps(3).launch(1_000, 5).kernel(1_010, 4.5), 1,
         "the steady idle beside it leaves it out", steps(3)),
    Case("several_devices", one().launch(20, 5).kernel(30, 4, device=3), 2,
         "2 devices (0, 3) ran GPU ops", one().launch(20, 5).kernel(30, 4, stream=3)),
    Case("several_ranks", one().launch(20, 5, process=101).kernel(30, 4), 2,
         "2 processes launched GPU ops", one().launch(20, 5, thread=2).kernel(30, 4)),
    # --- steps ----------------------------------------------------------------------------------------------------
    Case("no_steps", one(), 1, "one window spans the file", one().annotation("all of it", 0, 9)),
    Case("empty_steps", with_empty_steps(), 2, "2 of 6 (33 %) steps hold neither launches nor GPU work", steps(6)),
    Case("step_regex_unmatched", Marked(steps(), {"step_regex": "^prefill"}), 1,
         "its annotations: 'decode 0', 'decode 1', 'decode 2'", Marked(steps(), {"step_regex": "^decode"})),
    Case("marks_disagree", marked(shift_us=10_000), 4, "0 to 0 launches a step, 0 of 0 inside", marked(shift_us=0)),
    Case("waiting_unknown", one().launch(20, 5).kernel(30, 50, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), 1,
         "50.0 µs of the 54.5 µs that the GPU is busy in a file pass inside collectives",
         one().launch(20, 5).kernel(30, 50, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL").kernel(30, 50, stream=8)),
    # --- the file -------------------------------------------------------------------------------------------------
    Case("cut_file", one().cut(3), 1, "1 whole records were read, the rest is lost", one()),
    Case("cut_file", one().cut(1), 2, "outside its list of records; all 2 were read", one()),
    Case("cut_file", proton(cut=3), 1, "1 whole records were read, the rest is lost", proton(cut=0)),
    Case("damaged_file", packed(cut=1), 1, "copy or record it again", packed(cut=0)),
    Case("unreadable_times", one().raw({**CALL, "ts": "soon"}), 1,
         "1 records have no readable time", one().raw({**CALL, "ts": "20.5"})),
    Case("unreadable_times", export().launch(0, 5).kernel(9, 1).kernel(20, 1, end=None), 1,
         "1 records have no readable time", export().launch(0, 5).kernel(9, 1).kernel(20, 0)),
    Case("perfetto_json", perfetto(is_theirs=True), 1,
         "analyze the trace that was opened in Perfetto", perfetto(is_theirs=False)),
    # --- a profiled mode: T of 300 µs, W of 40 µs, 20 launches ------------------------------------------------------
    Case("noisy_host", Profiled(timed(270, 330)), 1, "T ±10 %: noisy host", Profiled(timed(270.1, 329.9))),
    Case("throttled", Profiled(timed(300, after=HOT)), 1,
         "throttled (thermal slowdown)", Profiled(timed(300, after=ALONE))),
    Case("shared_gpu", Profiled(timed(300, before=SHARED)), 2,
         "2 other processes used the GPU", Profiled(timed(300, before=ALONE))),
    Case("process_failed", Profiled((*timed(300), FAILED)), 1,
         "1 processes of this mode failed: hung", Profiled(timed(300, 300))),
    # W's uncertainty is 20 × 0.13 µs
    Case("work_over_step", Profiled(timed(37.3)), 1, "W is 2.70 µs longer than T", Profiled(timed(37.5))),
    Case("floor_over_work", Profiled(timed(300), calibration=SLOW), 1,
         "the floor of 41.0 µs is over W", Profiled(timed(300), calibration=ON_TIME)),
    Case("unreliable_trace", Profiled(timed(300), recording=with_orphans(14)), 1,
         "14 of 134 (10 %) kept GPU ops have no launch", Profiled(timed(300), recording=with_orphans(13))),
    Case("graph_not_engaged", Profiled((process(0, 300, "graph"),), "graph", eager_trace()), 1,
         "only 0 % of the kernels ran in a graph", Profiled((process(0, 50, "graph"),), "graph")),
    Case("host_as_profiled", Profiled(timed(90, host_submit_ns=(85 * US,)), recording=syncing()), 1,
         "waits for the GPU inside", Profiled(timed(300, host_submit_ns=(280 * US,)))),
    Case("note", Profiled(timed(300, notes=("graph breaks: 3",))), 1,
         "graph breaks: 3", Profiled(timed(300, notes=("the compile cache was warm",)))),
    Case("output_check", Profiled(timed(300, output=NOTED)), 1,
         "output check: one input", Profiled(timed(300, output=EQUAL))),
]  # fmt: skip


def named(cases: list[Case]) -> list[str]:
    """The code of each, numbered where it has several."""
    codes = [case.code for case in cases]
    return [f"{code} {codes[:index].count(code)}" for index, code in enumerate(codes)]


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_it_is_raised_with_its_numbers(case: Case) -> None:
    (found,) = (warning for warning in warnings_of(case.raises) if warning.code == case.code)
    assert case.says in found.message
    assert found.count == case.rows


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_the_near_miss_does_not_raise_it(case: Case) -> None:
    assert case.code not in [warning.code for warning in warnings_of(case.near_miss)]


def test_a_trace_of_a_capture_that_cant_be_read(tmp_path: Path) -> None:
    """unreadable_trace is of a capture on disk: it stands beside the mode whose trace it was."""
    folder = write_capture(tmp_path / "kept", two_modes())
    (folder / "traces/graph-2-cuda.json.gz").write_bytes(b"")
    profile = load(folder).document.profile
    assert profile is not None
    codes = {mode: [warning.code for warning in found.warnings] for mode, found in profile.modes.items()}
    assert codes["graph"] == ["unreadable_trace"]
    assert "unreadable_trace" not in codes["eager"]


LEFT_TO_OTHERS = {"unreadable_trace", "late_rank_differs"}  # they take a capture on disk; ranks/test_late_rank.py


def test_the_cases_are_of_every_warning_in_the_source() -> None:
    assert {case.code for case in CASES} | LEFT_TO_OTHERS == set(codes_in_the_source())


def test_every_warning_is_documented_in_one_place() -> None:
    page = (ROOT / "docs" / "warnings.md").read_text("utf-8")
    told = [code for cell in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for code in re.findall(r"`(\w+)`", cell)]
    assert sorted(told) == sorted(set(codes_in_the_source()))


def codes_in_the_source() -> Iterator[str]:
    """The codes with which a Notice or a WarningDoc is made; where it is handed on, its code is no literal."""
    for file in (ROOT / "analysis").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                if node.func.id == "Notice":
                    (code,) = [*node.args[:1], *given]
                    assert isinstance(code, ast.Constant), f"{file.name}:{node.lineno}"
                    yield str(code.value)
                elif node.func.id == "WarningDoc":
                    yield from (str(code.value) for code in given if isinstance(code, ast.Constant))


class TestReliable:
    """Each reason not to trust a trace, and a trace that is just about reliable."""

    @pytest.mark.parametrize(
        ("recording", "reason", "near_miss"),
        [
            (trace(), "no GPU op in the file", one()),
            (trace().kernel(0, 4, launch=False), "no launches in the file", one()),
            (row_of(89, unlinked=11), "11 of 100 (11 %) kept GPU ops have no launch", row_of(90, unlinked=10)),
            (row_of(98, early=2), "2 of 98 (2 %) GPU ops start before their launch call does", row_of(100, early=1)),
            (backwards(ops=2), "2 of 100 (2 %) GPU ops have durations that can't be", backwards(ops=1)),
            (backwards(launches=2), "2 of 100 (2 %) launches have durations that can't be", backwards(launches=1)),
            (backwards(syncs=2), "2 of 100 (2 %) blocking calls have durations that can't be", backwards(syncs=1)),
            (replays(40, 39, 40), "replays of one graph differ in their number of GPU ops", replays(40, 40, 39)),
            (row_of(98).kernel(1973, 1, name="k97").api("cudaMalloc", 0.5, 1),
             "1 of 99 (1 %) GPU ops are in the file more than once: counts hold records twice",
             row_of(99).kernel(1983, 1, name="k98").api("cudaMalloc", 0.5, 1)),
            (one().api("cudaStreamBeginCapture", 20, 5), "it is the recording of a capture", one()),
            (lossy(40, 39), "the recording is cut inside a kept step: 1 launch call of it", last_step(3, 2)),
            (lossy(40, *range(14)), "14 of 40 (35 %) launch calls, at the start or the end, have no GPU op", lossy(40)),
            (lossy(99, 5), "1 of 99 (1 %) launch calls have no GPU op: records were lost", lossy(100, 5)),
            (empty_step(), "have no GPU op: records were lost, all of 1 step among them", lossy(100, 5)),
            (one().graph_launch(20, 5).launch(40, 5).kernel(50, 4), "graph nodes were not recorded", one()),
            (unlinked_replays(3), "the kernels of graph replays aren't linked to their launch", one()),
            (one().launch(20, 5, process=101).kernel(30, 4), "it merges 2 processes that launch GPU ops", one()),
            (one().api("cudaMalloc", 20, 1).cut(3), "the file is cut or damaged: what it lacks", one()),
            (one().cut(1), "the file is cut or damaged: what it lacks", one()),
            (one().header(WARNING=["Dropped 1 records"]), "records are known to be lost", one().header(WARNING=["?"])),
            (trace().launch(0, 5).sync(6, 10).kernel(17.5, 4), "1 of 1 (100 %) GPU ops start after the wait", one()),
            (trace().launch(0, 5).kernel(10, 4).launch(20, 5).kernel(125.5, 4),
             "100 µs of 112 µs of idle time pass before GPU ops that were launched", lossy(40)),
            (marching(host_us=100, gpu_us=40), "the GPU ran in a burst what the host began every 100 µs", one()),
            (perfetto(is_theirs=True), "Perfetto's JSON export cut every time to whole µs", perfetto(is_theirs=False)),
        ],
    )  # fmt: skip
    def test_reasons(self, recording: TraceBuilder | bytes, reason: str, near_miss: TraceBuilder | bytes) -> None:
        found = analysis_of(recording)
        assert reason in found.document.coverage.unreliable[0]
        assert not found.document.coverage.reliable
        assert analysis_of(near_miss).document.coverage.unreliable == []
        assert analysis_of(near_miss).document.coverage.reliable

    def test_unlinked_ops_outside_of_kept_steps_do_not_count(self) -> None:
        """10 of 13 have no launch, but ran before the first step."""
        builder = trace()
        for index in range(10):
            builder.kernel(index, 0.5, launch=False)
        for step in range(3):
            builder.step(step, 100 * (step + 1), 50).launch(100 * (step + 1), 5).kernel(100 * (step + 1) + 20, 5)
        assert analysis_of(builder).document.coverage.unreliable == []
