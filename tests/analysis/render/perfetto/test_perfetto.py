"""Perfetto's own trace processor reads in our file what the Trace holds, and reports no error and no lost data."""

from __future__ import annotations

import itertools
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launchscope
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.model.document import CAUSES
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import NONE, Trace
from launchscope.analysis.render.perfetto import packets as perfetto_packets
from launchscope.analysis.render.perfetto import perfetto_trace, render
from launchscope.analysis.report import analyze, load
from launchscope.fixtures.builder import TraceBuilder, trace

from ....cases import NAMED_CASES
from ...captures import two_modes, write_capture

TRACES = Path(launchscope.__file__).parent / "fixtures" / "traces"
IDLE = """
    select ifnull(sum(until - ts), 0)
    from (select value, ts, lead(ts) over (partition by track_id order by ts, c.id) until
          from counter c join track t on c.track_id = t.id where t.name = 'idle')
    where value = 1
"""
HOST_SLICES = """
    select name, ts, dur from slice
    where category in ('operator', 'annotation', 'python', 'api', 'launch', 'graph launch', 'blocking call')
"""

Open = Callable[[bytes], Any]

FAULTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
TRACKS = """
    select d.name device, t.name track, s.category, count(*) n, sum(s.dur) ns
    from slice s join track t on s.track_id = t.id join track d on t.parent_id = d.id
    where s.category in ('kernel', 'memcpy', 'memset') group by 1, 2, 3
"""


def analyzed(builder: TraceBuilder, **how: Any) -> TraceAnalysis:
    return analyze_trace(builder.build(), **({"name": "synthetic"} | how))


def perfetto_file(analyses: list[TraceAnalysis]) -> bytes:
    return b"".join(perfetto_trace(analyses))


def slices(sql: Any, category: str, columns: str = "name, ts, dur") -> list[Any]:
    return list(sql(f"select {columns} from slice where category = '{category}' order by ts, id"))


def note(key: str) -> str:
    """SQL for one debug annotation of a slice."""
    return f"extract_arg(arg_set_id, 'debug.{key}')"


def assert_holds(sql: Any, analyses: list[TraceAnalysis]) -> None:
    """Counts, durations, flows and gap times of the file are those of the traces, to the nanosecond."""
    assert sql(FAULTS) == []
    traces = [analysis.context.trace for analysis in analyses]
    assert sorted(sql(TRACKS)) == sorted(streams(traces))
    linked = sum(int((t.gpu_ops.launch_row != NONE).sum()) for t in traces)
    assert sql("select count(*) from flow") == [(linked,)]
    shown = Counter(
        {row[0]: row[1] for row in sql("select name, sum(dur) from slice where category = 'gap' group by 1")}
    )
    gaps = [gaps for analysis in analyses for gaps in analysis.context.gaps.values()]
    assert shown == +Counter({cause: sum(int(g.parts_ns[cause].sum()) for g in gaps) for cause in CAUSES})
    assert sql(IDLE) == [(sum(g.idle_ns for g in gaps),)]


def streams(traces: list[Trace]) -> list[tuple[str, str, str, int, int]]:
    """(device, stream, kind, ops, ns) as TRACKS asks for them."""
    count: Counter[tuple[str, str, str]] = Counter()
    total: Counter[tuple[str, str, str]] = Counter()
    for t in traces:
        ops = t.gpu_ops
        for device, stream, kind, dur in zip(ops.device, ops.stream, ops.kind, ops.dur_ns, strict=True):
            name = t.device_names.get(int(device))
            key = (
                f"GPU {device}" + (f" · {name}" if name else ""),
                f"stream {stream}",
                ("kernel", "memcpy", "memset")[kind],
            )
            count[key] += 1
            total[key] += int(dur)
    return [(*key, count[key], total[key]) for key in count]


@pytest.mark.parametrize("case", NAMED_CASES)
def test_named_cases(case: str, trace_processor: Open) -> None:
    analysis = analyzed(NAMED_CASES[case]())
    assert_holds(trace_processor(perfetto_file([analysis])), [analysis])


def test_all_named_cases_in_one_file(trace_processor: Open) -> None:
    """One device name and stream may occur in many traces: their tracks stay apart."""
    analyses = [analyzed(build(), name=case) for case, build in NAMED_CASES.items()]
    sql = trace_processor(perfetto_file(analyses))
    assert sql(FAULTS) == []
    ops = sum(len(analysis.context.trace.gpu_ops) for analysis in analyses)
    assert sql("select count(*) from slice where category in ('kernel', 'memcpy', 'memset')") == [(ops,)]
    groups = sql("select name from track where parent_id is null and name is not null")
    assert sorted(groups) == sorted((name,) for name in NAMED_CASES if name != "empty")


def test_times_are_exact_and_absolute(trace_processor: Open) -> None:
    base_ns = 1_764_000_000_123_456_789
    builder = trace(base_ns=base_ns).launch(0.001, 4.999).kernel(10.003, 0.001, name="short").kernel(10.005, 2.5)
    sql = trace_processor(perfetto_file([analyzed(builder)]))
    assert slices(sql, "launch") == [("cudaLaunchKernel", base_ns + 1, 4999)]
    assert slices(sql, "kernel") == [("short", base_ns + 10_003, 1), ("kernel", base_ns + 10_005, 2500)]


def test_overlapping_kernels_survive_in_lanes(trace_processor: Open) -> None:
    sql = trace_processor(perfetto_file([analyzed(NAMED_CASES["overlapping kernels"]())]))
    assert slices(sql, "kernel", "ts, dur, depth") == [(10_000, 10_000, 0), (18_000, 10_000, 0), (40_000, 5_000, 0)]
    lanes = sql(
        "select t.name, t.track_group_id, count(*) from slice join track t on track_id = t.id"
        " where category = 'kernel' group by t.id"
    )
    assert [(name, n) for name, _, n in lanes] == [("stream 7", 2), ("stream 7", 1)]
    assert lanes[0][1] == lanes[1][1]  # the viewer shows them as one track


def test_every_kernel_of_a_replay_hangs_on_its_launch(trace_processor: Open) -> None:
    sql = trace_processor(perfetto_file([analyzed(NAMED_CASES["graph replay"]())]))
    arrows = sql(
        "select s.name, s.category, count(distinct f.slice_in)"
        " from flow f join slice s on f.slice_out = s.id group by s.id"
    )
    assert arrows == [("cudaGraphLaunch", "graph launch", 5)] * 4
    nodes = slices(sql, "kernel", f"name, {note('graph')}, {note('graph_replay')}, {note('graph_node')}")
    assert nodes[:5] == [(f"node_{node}", "graph 0", 0, node) for node in range(4)] + [("node_0", "graph 0", 1, 0)]
    assert slices(sql, "memset", note("graph_node")) == [(4,)] * 4


def test_notes_of_a_launch_and_its_kernel(trace_processor: Open) -> None:
    builder = trace().step(3, 0, 50).op("aten::mm", 1, 9).launch(2, 5).kernel(6, 30).memcpy(40, 1, bytes=64)
    sql = trace_processor(perfetto_file([analyzed(builder)]))
    keys = ("launch_overhead_ns", "launch_latency_ns", "queue_time_ns", "operator", "step", "bytes")
    columns = ", ".join(note(key) for key in keys)
    assert slices(sql, "launch", columns) == [(5000, 4000, -1000, "aten::mm", "ProfilerStep#3", None)]
    assert slices(sql, "kernel", columns) == [(5000, 4000, -1000, "aten::mm", "ProfilerStep#3", None)]
    assert slices(sql, "memcpy", columns) == [(5000, None, None, "aten::mm", "ProfilerStep#3", 64)]
    assert slices(sql, "kernel", f"{note('duration_ns')}, {note('launch')}") == [(30_000, "cudaLaunchKernel")]
    assert slices(sql, "launch", note("gpu_ops")) == [(2,)]


def test_a_cut_gap_is_drawn_in_its_parts(trace_processor: Open) -> None:
    sql = trace_processor(perfetto_file([analyzed(NAMED_CASES["sync in the step"]())]))
    parts = [("sync", 30_000, 5_000), ("host", 35_000, 7_000), ("launch", 42_000, 5_000), ("dispatch", 47_000, 3_000)]
    assert slices(sql, "gap") == parts
    assert slices(sql, "gap", f"{note('gap')}, {note('gap_ns')}, {note('before')}") == [(0, 20_000, "kernel")] * 4


def test_a_sync_in_mid_gap_splits_the_host_part(trace_processor: Open) -> None:
    builder = trace().launch(0, 5).kernel(10, 10).sync(24, 6).sync(26, 6).launch(40, 5).kernel(50, 10)
    analysis = analyzed(builder)
    sql = trace_processor(perfetto_file([analysis]))
    assert [(name, dur // 1000) for name, _, dur in slices(sql, "gap")] == [
        ("host", 4), ("sync", 8), ("host", 8), ("launch", 5), ("dispatch", 5),
    ]  # fmt: skip
    assert_holds(sql, [analysis])


def test_kernel_before_its_launch_keeps_its_arrow(trace_processor: Open) -> None:
    sql = trace_processor(perfetto_file([analyzed(NAMED_CASES["negative latency"]())]))
    arrows = sql(
        "select o.category, i.category, i.ts - o.ts from flow f"
        " join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id order by o.ts"
    )
    assert arrows == [("launch", "kernel", 10_000), ("kernel", "launch", 5_000)]


def test_host_threads_with_operators_and_python_below(trace_processor: Open) -> None:
    builder = trace().python("decode", 0, 60).op("aten::linear", 5, 40).op("aten::mm", 10, 20).launch(12, 5)
    builder.kernel(20, 5).op("crossing", 40, 10).sync(50, 5).api("cudaEventRecord", 56, 1)
    builder.launch(30, 2, thread=2).kernel(40, 1)
    sql = trace_processor(perfetto_file([analyzed(builder)]))
    shown = sql(
        "select p.name, t.name, s.name, s.category, s.depth"
        " from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id"
        " where p.name like 'thread%' order by p.name, t.name, s.ts"
    )
    assert shown == [
        ("thread 1", "API calls", "cudaLaunchKernel", "launch", 0),
        ("thread 1", "API calls", "cudaStreamSynchronize", "blocking call", 0),
        ("thread 1", "API calls", "cudaEventRecord", "api", 0),
        ("thread 1", "Python", "decode", "python", 0),
        ("thread 1", "operators", "aten::linear", "operator", 0),
        ("thread 1", "operators", "aten::mm", "operator", 1),
        ("thread 1", "operators", "crossing", "operator", 0),  # in a lane of its own: it ends after aten::linear
        ("thread 2", "API calls", "cudaLaunchKernel", "launch", 0),
    ]


def test_synchronous_copy_is_shown_once(trace_processor: Open) -> None:
    builder = trace().launch(0, 20, "cudaMemcpy").memcpy(5, 10)
    sql = trace_processor(perfetto_file([analyzed(builder)]))
    assert sql("select name, category, ts, dur from slice where name = 'cudaMemcpy'") == [
        ("cudaMemcpy", "launch", 0, 20_000)
    ]


def test_queue_depth_and_idle(trace_processor: Open) -> None:
    builder = trace().launch(0, 2).kernel(10, 5).launch(3, 2).kernel(15, 5).launch(21, 6).kernel(25, 5)
    sql = trace_processor(perfetto_file([analyzed(builder)]))
    counter = (
        "select ts / 1000, cast(value as int) from counter c join track t on c.track_id = t.id where t.name = '{}'"
    )
    assert sql(counter.format("queue depth")) == [(2, 1), (5, 2), (10, 1), (15, 0)]
    assert sql(counter.format("idle")) == [(10, 0), (20, 1), (25, 0)]


def test_steps_of_host_and_gpu(trace_processor: Open) -> None:
    sql = trace_processor(perfetto_file([analyzed(NAMED_CASES["eager steps"]())]))
    host = slices(sql, "step")
    assert host == [(f"ProfilerStep#{step}", 100_000 * step, 90_000) for step in range(5)]
    assert slices(sql, "gpu step") == [(f"ProfilerStep#{step}", 100_000 * step + 15_000, 53_000) for step in range(5)]
    assert {use for (use,) in slices(sql, "step", note("use"))} <= {"kept", "dropped"}


def test_traces_lie_side_by_side(trace_processor: Open) -> None:
    """The first kept steps start together; the first trace keeps its times, and no distance changes."""
    eager = analyzed(NAMED_CASES["eager steps"](), mode="eager", trace_pass="cpu_cuda", repeat=0)
    later = TraceBuilder(base_ns=10**18)
    for step in range(4):
        later.step(step, 50 * step, 40).graph_launch(50 * step + 2, 8).kernel(50 * step + 15, 7)
    graph = analyzed(later, mode="graph", trace_pass="cuda", repeat=0)
    sql = trace_processor(perfetto_file([eager, graph]))
    assert_holds(sql, [eager, graph])
    starts = sql(
        "select p.name, min(s.ts) from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id"
        f" where s.category = 'step' and {note('use')} = 'kept' group by 1 order by 1"
    )
    first_kept_ns = int(eager.context.steps.start_ns[np.flatnonzero(eager.context.steps.kept)[0]])
    assert starts == [("eager · cpu_cuda · repeat 0", first_kept_ns), ("graph · cuda · repeat 0", first_kept_ns)]
    kernels = [ts for ts, name in slices(sql, "kernel", "ts, name") if name == "kernel"]
    assert [b - a for a, b in itertools.pairwise(kernels)] == [50_000] * 3


def test_no_time_before_zero(trace_processor: Open) -> None:
    """A long lead-in before the first kept step of the second trace moves both."""
    short = analyzed(trace().step(0, 0, 30).launch(0, 2).kernel(10, 5))
    lead_in = trace().annotation("load weights", 0, 900).step(0, 1000, 30).launch(1000, 2).kernel(1010, 5)
    analyses = [short, analyzed(lead_in)]
    sql = trace_processor(perfetto_file(analyses))
    assert_holds(sql, analyses)
    assert sql("select min(ts) from slice") == [(0,)]
    assert [ts for (ts,) in slices(sql, "kernel", "ts")] == [1_010_000] * 2


def test_records_that_end_before_they_start_are_points(trace_processor: Open) -> None:
    builder = trace().launch(-5, -3).kernel(5, -2, name="impossible").kernel(20, 4)
    sql = trace_processor(perfetto_file([analyzed(builder)]))
    assert sql(FAULTS) == []
    assert sql("select count(*) from flow") == [(2,)]
    columns = f"name, dur, {note('duration_ns')}"
    assert slices(sql, "kernel", columns) == [("impossible", 0, -2000), ("kernel", 4000, 4000)]
    assert slices(sql, "launch", f"dur, {note('launch_overhead_ns')}") == [(0, -3000)]


LAUNCHES = st.lists(
    st.tuples(
        st.integers(0, 9),  # since the launch before
        st.integers(0, 6),  # length of the call
        st.lists(st.tuples(st.integers(-3, 20), st.integers(0, 8), st.sampled_from([7, 13])), min_size=1, max_size=3),
        st.sampled_from([1, 2]),  # thread
        st.none() | st.integers(0, 9),  # a blocking call of this length comes first
    ),
    max_size=12,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LAUNCHES, min_size=1, max_size=2))
def test_any_traces(trace_processor: Open, recordings: list[Any]) -> None:
    """Overlap in every way, skewed clocks, ops and calls of no length: the file holds what the traces hold."""
    analyses: list[TraceAnalysis] = []
    for recording in recordings:
        builder, at = trace(), 0
        for wait, dur, ops, thread, sync in recording:
            at += wait
            if sync is not None:
                builder.sync(at, sync, thread=thread)
            (builder.launch if len(ops) == 1 else builder.graph_launch)(at, dur, thread=thread)
            for after, length, stream in ops:
                builder.kernel(at + after, length, stream=stream)
        analyses.append(analyzed(builder, name=f"trace {len(analyses)}"))
    whole = perfetto_file(analyses)
    assert_holds(trace_processor(whole), analyses)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perfetto_packets, "EVENTS_AT_ONCE", 2)
        assert perfetto_file(analyses) == whole


def test_a_long_trace_comes_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_packets, "EVENTS_AT_ONCE", 32)
    builder = trace()
    for at in range(0, 5000, 10):
        builder.launch(at, 2).kernel(at + 4, 3)
    pieces = list(perfetto_trace([analyzed(builder)]))
    assert max(map(len, pieces)) < 8192 < sum(map(len, pieces)) / 4


def test_names_are_interned() -> None:
    name = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16>"
    builder = trace()
    for step in range(20):
        builder.launch(10 * step, 2).kernel(10 * step + 4, 3, name=name)
    assert perfetto_file([analyzed(builder)]).count(name.encode()) == 2  # as a slice's name, and in the gaps' notes


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.json.gz")), ids=lambda path: path.name)
def test_real_traces(path: Path, trace_processor: Open) -> None:
    analysis = analyze_trace(open_trace(path), name=path.name)
    sql = trace_processor(perfetto_file([analysis]))
    assert_holds(sql, [analysis])
    recorded, ops = analysis.context.trace, analysis.context.trace.gpu_ops
    kernels = zip((recorded.name(name) for name in ops.name), ops.start_ns, ops.dur_ns, strict=True)
    shown = sql("select name, ts, dur from slice where category in ('kernel', 'memcpy', 'memset')")
    assert Counter(shown) == Counter(kernels)
    assert Counter(sql(HOST_SLICES)) == Counter(host_records(recorded))


def host_records(recorded: Trace) -> list[tuple[str, int, int]]:
    """(name, start, duration) of all that the host did; a launch that blocks is in two tables, and here once."""
    calls = {
        (int(process), int(thread), recorded.name(api), int(start), int(dur))
        for table in (recorded.launches, recorded.blocking_calls)
        for process, thread, api, start, dur in zip(
            table.process, table.thread, table.api, table.start_ns, table.dur_ns, strict=True
        )
    }
    ops = recorded.host_ops
    host = zip((recorded.name(name) for name in ops.name), ops.start_ns.tolist(), ops.dur_ns.tolist(), strict=True)
    return [*(call[2:] for call in calls), *host]


def test_a_report_renders_all_its_traces(trace_processor: Open, tmp_path: Path) -> None:
    first = NAMED_CASES["one eager step"]().write(tmp_path / "first.json")
    second = NAMED_CASES["graph replay"]().write(tmp_path / "second.json.gz")
    report = analyze(first, second)
    sql = trace_processor(b"".join(render(report)))
    assert_holds(sql, list(report.analyses))
    groups = sql("select name from track where parent_id is null and name is not null order by name")
    assert groups == [("first.json",), ("second.json.gz",)]


def test_the_documented_queries_run(trace_processor: Open) -> None:
    queries = re.findall(
        r"```sql\n(.*?)```", (Path(__file__).parents[4] / "docs" / "perfetto.md").read_text(), re.DOTALL
    )
    analyses = [analyzed(NAMED_CASES[case](), name=case) for case in ("eager steps", "graph replay")]
    sql = trace_processor(perfetto_file(analyses))
    *rows, faults = [sql(query) for query in queries]
    assert faults == []
    streams, causes, longest, launches, operators = rows
    assert streams == [
        ("eager steps", "GPU 0 · Test GPU", "stream 7", 15, 45_000),
        ("graph replay", "GPU 0 · Test GPU", "stream 7", 16, 64_000),
    ]
    assert {cause for _, cause, _, _ in causes} == {"sync", "host", "launch", "dispatch", "graph"}
    assert longest[0][1] == max(int(g.dur_ns.max()) for analysis in analyses for g in analysis.context.gaps.values())
    assert [row[2:4] for row in launches if row[0] == "cudaGraphLaunch"] == [(5, 20_000)] * 4
    assert ("aten::mm", 15, 75_000) in operators


def test_a_capture_without_readable_traces_has_no_timeline(tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "capture", two_modes())
    shutil.rmtree(folder / "traces")
    with pytest.raises(UnreadableInput, match="no trace of this capture can be read"):
        render(load(folder))
