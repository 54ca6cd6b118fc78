"""One recording in every dress in which profilers of public traces have written one: it says the same in each."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.inputs.readers import read_trace
from launchscope.fixtures.builder import TraceBuilder, trace

Event = dict[str, Any]
HEAD: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU"}]}
EPOCH = Decimal("1712867402348667.123")
STEP_US = 200
FRACTION = Decimal("0.125")


def recording(fraction: Decimal = FRACTION) -> TraceBuilder:
    """Four steps, 200 µs apart: 8 launches of kernels, a copy, a set, a graph of 3 nodes, and a wait for all of it.

    Busy per step: 8 × 2 + 2 + 1 + 3 × 4 = 31 µs.
    """
    builder = trace()
    for step in range(4):
        at = STEP_US * step + fraction
        builder.step(step, at, 190).python("model.py(7): decode", at, 185)
        for index in range(8):
            builder.op(f"aten::op_{index}", at + 10 * index, 8).launch(at + 10 * index + 1, 5)
            builder.kernel(at + 10 * index + 7, 2, name=f"kernel_{index}")
        builder.launch(at + 81, 5, "cudaMemcpyAsync").memcpy(at + 87, 2).launch(at + 91, 5, "cudaMemsetAsync")
        builder.memset(at + 97, 1).graph_launch(at + 101, 9)
        for node in range(3):
            builder.kernel(at + 115 + 5 * node, 4, name=f"node_{node}")
        builder.sync(at + 111, 20)
    return builder


def encoded(events: Any, **head: Any) -> bytes:
    document = {**HEAD, **head, "traceEvents": events}
    return msgspec.json.Encoder(decimal_format="number").encode(document)


def plain(events: list[Event]) -> bytes:
    return encoded(events)


def packed(events: list[Event]) -> bytes:
    return gzip.compress(encoded(events))


def bare(events: list[Event]) -> bytes:
    return encoded(events).partition(b'"traceEvents":')[2][:-1]


def pretty(events: list[Event]) -> bytes:
    return json.dumps(json.loads(encoded(events)), indent=2).encode()


def of_2021(events: list[Event]) -> bytes:
    """Categories with capitals, steps among the operators, ids as text."""
    names = {"kernel": "Kernel", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset", "cuda_runtime": "Runtime"}
    names |= {"cpu_op": "Operator", "user_annotation": "Operator"}
    return encoded([{**e, "cat": names.get(e["cat"], e["cat"]), "pid": str(e["pid"])} for e in events])


def hip(events: list[Event]) -> bytes:
    def name(e: Event) -> str:
        return re.sub("^cuda", "hip", e["name"].replace("cudaLaunchKernel", "hipModuleLaunchKernel"))

    cats = {"cuda_runtime": "hip_runtime"}
    return encoded([{**e, "name": name(e), "cat": cats.get(e["cat"], e["cat"])} for e in events], deviceProperties=[])


def xpu(events: list[Event]) -> bytes:
    """SYCL's calls; Level Zero's where one waits."""
    calls = {"cudaLaunchKernel": "urEnqueueKernelLaunch", "cudaMemcpyAsync": "urEnqueueUSMMemcpy"}
    calls |= {"cudaMemsetAsync": "urEnqueueUSMFill", "cudaGraphLaunch": "urCommandBufferEnqueueExp"}
    calls |= {"cudaStreamSynchronize": "zeEventHostSynchronize"}

    def cat(e: Event) -> Any:
        return {"cuda_runtime": "xpu_driver" if "Synchronize" in e["name"] else "xpu_runtime"}.get(e["cat"], e["cat"])

    return encoded([{**e, "cat": cat(e), "name": calls.get(e["name"], e["name"])} for e in events])


def text_ids(events: list[Event]) -> bytes:
    """Processes, threads, streams and correlation ids as text."""

    def args(e: Event) -> Event:
        return {key: str(value) if key in ("stream", "correlation") else value for key, value in e["args"].items()}

    return encoded([{**e, "pid": f"python {e['pid']}", "tid": str(e["tid"]), "args": args(e)} for e in events])


def text_times(events: list[Event]) -> bytes:
    return encoded([{**e, "ts": str(e["ts"]), "dur": str(e["dur"])} for e in events])


def since_1970(events: list[Event]) -> bytes:
    return encoded([{**e, "ts": e["ts"] + EPOCH} for e in events])


def with_a_base(events: list[Event]) -> bytes:
    return encoded(events, baseTimeNanoseconds=1712867402348667123)


def no_properties(events: list[Event]) -> bytes:
    document = json.loads(encoded(events))
    return json.dumps({"traceEvents": document["traceEvents"]}).encode()


def blank_names(events: list[Event]) -> bytes:
    return encoded(events, deviceProperties=[{"id": 0, "name": " "}])


def fifth_device(events: list[Event]) -> bytes:
    moved = [{**e, "pid": 5, "args": {**e["args"], "device": 5}} if "device" in e["args"] else e for e in events]
    return encoded(moved, deviceProperties=[{"id": 5, "name": "Test GPU"}])


def control_characters(events: list[Event]) -> bytes:
    """As C++ prints them, with nothing escaped."""
    return encoded(events).replace(b"kernel_", b"ker\x01nel\x1b[31m\t_").replace(b"node_", b"\xffnode_")


def no_numbers(events: list[Event]) -> bytes:
    """Occupancy and bandwidth as C++ and Python print what is none."""
    more = b'"args":{"est. achieved occupancy %":NaN,"memory bandwidth (GB/s)":Infinity,"x":[-Infinity,nan],'
    return encoded(events).replace(b'"args":{"device"', more + b'"device"')


def counters_and_flows(events: list[Event]) -> bytes:
    """What Kineto writes between the records that count."""
    others: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "s", "id": 1, "pid": 100, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"},
        {"ph": "C", "name": "GPU utilization", "pid": 0, "ts": 3, "args": {"GPU": 0.5}},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "decode", "pid": 0, "tid": 7, "ts": 0, "dur": 500},
        {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 0, "dur": 500},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 0, "dur": 800},
        {"ph": "i", "name": "Iteration Start", "s": "g", "pid": "Traces", "tid": "x", "ts": 0},
    ]
    return encoded([*others, *events])


DRESSES: list[Callable[[list[Event]], bytes]] = [
    *(packed, bare, pretty, of_2021, hip, xpu, text_ids, text_times, since_1970, with_a_base, no_properties),
    *(blank_names, fifth_device, control_characters, no_numbers, counters_and_flows),
]


def analysis_of(data: bytes) -> TraceAnalysis:
    return analyze_trace(read_trace(data, "x"), name="x")


def figures(analysis: TraceAnalysis, *, has_graphs: bool = True) -> dict[str, Any]:
    """What the trace says, apart from names, devices' numbers, and what only a graph launch's name tells."""
    document = msgspec.to_builtins(analysis.document)
    coverage, device = document["coverage"], document["devices"][0]
    left_out = {"events"} | (set() if has_graphs else {"graph_launches", "kernels_in_graphs"})
    if not has_graphs:
        for scope in (device, device["steady"]):
            for cause in scope["gaps"]["by_cause"].values():
                del cause["before_replay_ns"]
    return {
        "coverage": {key: value for key, value in coverage.items() if key not in left_out},
        "device": {key: device[key] for key in ("window_ns", "busy_ns", "idle_ns", "op_sum_ns", "gaps", "steady")},
        "steps": {key: value for key, value in document["steps"].items() if key not in left_out},
        "launches": {key: document["launches"][key] for key in ("overhead_ns", "latency_ns", "queue_ns")},
        "operators": [(each["launches"], each["kernels"]) for each in document["launches"]["by_operator"]],
        "blocking": [(each["count_per_step"], each["ns"]) for each in document["blocking_calls"]],
        "kernels": [(each["count"], each["total_ns"], each["share_of_busy"]) for each in document["kernels"]],
        "verdict": document["verdict"]["class"],
        "warnings": [each["code"] for each in document["warnings"]],
    }


def test_the_recording_itself() -> None:
    found = figures(analysis_of(plain(recording().events())))
    assert found["device"]["busy_ns"] == 4 * 31_000
    assert found["device"]["window_ns"] == 3 * STEP_US * 1000 + 122_000  # 7 → 129
    assert (found["coverage"]["gpu_ops"], found["coverage"]["kernels"], found["coverage"]["launches"]) == (52, 44, 44)
    assert (found["coverage"]["graph_launches"], found["coverage"]["kernels_in_graphs"]) == (4, 12)
    assert (found["coverage"]["step_source"], found["steps"]["count"]) == ("profiler_step", 4)
    assert (found["coverage"]["linked"], found["coverage"]["reliable"], found["warnings"]) == (52, True, [])
    assert found["blocking"] == [(1.0, 80_000)]


@pytest.mark.parametrize("dress", DRESSES, ids=lambda dress: dress.__name__)
def test_it_says_the_same_in_every_dress(dress: Callable[[list[Event]], bytes]) -> None:
    has_graphs = dress is not xpu
    expected = figures(analysis_of(plain(recording().events())), has_graphs=has_graphs)
    assert figures(analysis_of(dress(recording().events())), has_graphs=has_graphs) == expected


@pytest.mark.parametrize("dress", [since_1970, with_a_base])
def test_times_since_1970_are_exact(dress: Callable[[list[Event]], bytes]) -> None:
    """A double holds 1.7e15 µs to 250 ns."""
    near, far = (analysis_of(d(recording().events())).context.trace for d in (plain, dress))
    for table in ("gpu_ops", "launches", "blocking_calls", "host_ops"):
        moved = getattr(far, table).start_ns - getattr(near, table).start_ns
        assert set(moved.tolist()) == {1712867402348667123}


def test_whole_us() -> None:
    """The same figures, and a warning of the clock."""
    found, expected = (figures(analysis_of(plain(recording(each).events()))) for each in (Decimal(0), FRACTION))
    assert found.pop("warnings") == ["whole_us"]
    assert found == {key: value for key, value in expected.items() if key != "warnings"}


def test_without_steps_the_repetition_tells_them() -> None:
    events = [e for e in recording().events() if not e["name"].startswith("ProfilerStep")]
    found, expected = (figures(analysis_of(plain(each))) for each in (events, recording().events()))
    assert found["coverage"]["step_source"] == "repetition"
    for name in ("count", "period_ns", "busy_ns", "kernels", "launches", "graph_launches", "memcpys"):
        assert found["steps"][name] == expected["steps"][name], name
    assert found["device"]["steady"]["busy_ns"] == expected["device"]["steady"]["busy_ns"]


def test_without_launches_what_the_gpu_did_is_told() -> None:
    events = [e for e in recording().events() if e["cat"] != "cuda_runtime"]
    found, expected = (figures(analysis_of(plain(each))) for each in (events, recording().events()))
    assert {key: found["device"][key] for key in ("window_ns", "busy_ns", "idle_ns", "op_sum_ns")} == {
        key: expected["device"][key] for key in ("window_ns", "busy_ns", "idle_ns", "op_sum_ns")
    }
    assert found["kernels"] == expected["kernels"]
    assert (found["warnings"], found["verdict"]) == (["no_launches"], "insufficient")
    causes = found["device"]["gaps"]["by_cause"]
    assert causes["unlinked"]["ns"] + causes["graph"]["ns"] == found["device"]["idle_ns"]


@pytest.mark.parametrize(
    ("dress", "names"),
    [(plain, {0: "Test GPU"}), (no_properties, {0: None}), (blank_names, {0: None}), (hip, {0: None}),
     (fifth_device, {5: "Test GPU"})],
)  # fmt: skip
def test_devices_and_their_names(dress: Callable[[list[Event]], bytes], names: dict[int, str | None]) -> None:
    assert analysis_of(dress(recording().events())).context.trace.device_names == names


def test_apis_keep_their_names() -> None:
    assert set(analysis_of(hip(recording().events())).document.launches.by_api) == {
        *("hipModuleLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync", "hipGraphLaunch")
    }
    assert "urEnqueueKernelLaunch" in analysis_of(xpu(recording().events())).document.launches.by_api
