"""Proton's chrome traces, of both shapes that its writers have had."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from launchscope.analysis.inputs.readers import read_trace
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import HostKind, Trace
from launchscope.analysis.report import load


def dumped(events: list[dict[str, Any]]) -> str:
    """As nlohmann::json writes it: keys sorted, without blanks."""
    return json.dumps({"displayTimeUnit": "us", "traceEvents": events}, sort_keys=True, separators=(",", ":"))


def kernel(name: str, ts: float, dur: float, tid: int, **more: Any) -> dict[str, Any]:
    args = {"call_stack": ["ROOT", "decode", name]}
    return {"name": name, "cat": "kernel", "ph": "X", "ts": ts, "dur": dur, "tid": tid, "args": args, **more}


def scope(name: str, ts: float, dur: float, tid: int = 0) -> dict[str, Any]:
    args = {"call_stack": ["ROOT", name]}
    return {"name": name, "cat": "scope", "ph": "X", "pid": 0, "ts": ts, "dur": dur, "tid": tid, "args": args}


def new() -> str:
    """Four steps, 100 µs apart, of two kernels on two streams."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": 200007, "name": "thread_name", "args": {"name": "GPU Stream 7"}}
    ]
    for step in range(4):
        at = 100.0 * step
        events += [scope("decode", at, 90.0), scope("<captured_at>", at + 10.001, 50.0, tid=100007)]
        events.append({"name": "launch->kernel", "cat": "flow", "ph": "s", "pid": 0, "tid": 0, "ts": at, "id": step})
        events.append(kernel("gemm", at + 10.001, 20.5, 200007, pid=0))
        events.append(kernel("norm", at + 40.001, 10.25, 200013, pid=0))
    return dumped(events) + "\n"


def old() -> str:
    """One document per stream, times in ns."""
    lines = [dumped([kernel("gemm", 0, 20500, 7), kernel("gemm", 100_000, 20500, 7)])]
    return "\n".join([*lines, dumped([kernel("norm", 30_000, 10250, 13)])]) + "\n"


def read(text: str) -> Trace:
    return read_trace(text.encode(), "proton.chrome_trace")


def test_the_new_shape() -> None:
    found = read(new())
    ops = found.gpu_ops
    assert found.source.format == "proton-json"
    assert (ops.start_ns[:3].tolist(), ops.dur_ns[:2].tolist()) == ([10_001, 40_001, 110_001], [20_500, 10_250])
    assert (set(ops.stream.tolist()), found.devices) == ({7, 13}, (0,))
    assert [found.names[i] for i in found.host_ops.name.tolist()] == ["decode"] * 4  # a graph's scopes lie on the GPU
    assert set(found.host_ops.kind.tolist()) == {HostKind.ANNOTATION}


def test_the_old_shape_counts_ns() -> None:
    ops = read(old()).gpu_ops
    assert ops.start_ns.tolist() == [0, 30_000, 100_000]
    assert ops.dur_ns.tolist() == [20_500, 10_250, 20_500]
    assert ops.stream.tolist() == [7, 13, 7]


@pytest.mark.parametrize("indent", [1, 2])
def test_a_pretty_printed_file_is_the_same(indent: int) -> None:
    text = json.dumps(json.loads(new()), indent=indent)
    assert read(text).gpu_ops.start_ns.tolist() == read(new()).gpu_ops.start_ns.tolist()
    assert len(read(text[: len(text) // 2]).gpu_ops) in range(1, 8)


def test_what_it_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "proton.chrome_trace").write_text(new())
    (found,) = load(tmp_path).document.traces
    assert (found.coverage.kernels, found.coverage.launches, found.coverage.reliable) == (8, 0, False)
    assert "no_launches" in [warning.code for warning in found.warnings]
    assert found.verdict.verdict_class == "insufficient"
    assert found.devices[0].busy_ns == 4 * 30_750


def ends(text: str) -> list[int]:
    """Where each record of a kernel ends."""
    records = re.finditer(r'\{"args":\{[^{}]*\},[^{}]*\}', text)
    return [record.end() for record in records if '"cat":"kernel"' in record.group()]


def test_a_cut_file_gives_the_kernels_that_are_whole() -> None:
    text = new()
    for cut in range(ends(text)[0], len(text) - 1):
        found = read(text[:cut])
        assert len(found.gpu_ops) == sum(end <= cut for end in ends(text))
        assert ([notice.code for notice in found.notices], found.complete) == (["cut_file"], False)


def test_a_cut_old_file_gives_the_streams_that_are_whole() -> None:
    text = old()
    for cut in range(text.index("\n") + 2, len(text) - 2):
        found = read(text[:cut])
        assert found.gpu_ops.stream.tolist() == ([7, 7] if cut < ends(text)[-1] else [7, 13, 7])
        assert [notice.code for notice in found.notices] == ["cut_file"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (new()[:300], "a Proton trace cut before its first whole kernel"),
        (dumped([scope("decode", 0.0, 1.0)]), "a Proton trace without kernels"),
        (dumped([{"name": "loop", "ph": "X", "cat": "kernel_scope", "ts": 1, "dur": 2, "tid": 1}]), "inside of them"),
        ('{"displayTimeUnit":"us","traceEvents":' + "[" * 5000, "cut before its first whole kernel"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        read(text)
