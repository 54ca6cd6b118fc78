"""Perfetto's own JSON: Kineto records that its traceconv (v52) wrote again, as in the first lines below."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from launchscope.analysis.inputs.readers import read_trace
from launchscope.analysis.model.trace import Trace
from launchscope.analysis.report import load

from ....cases import NAMED_CASES

WRITTEN = """{"traceEvents":[
{"args":{},"cat":"user_annotation","dur":90,"name":"ProfilerStep#0","ph":"X","pid":100,"tid":1,"ts":0},
{"args":{"args":{"correlation":1}},"cat":"cuda_runtime","dur":5,"name":"cudaLaunchKernel","ph":"X","pid":100,"tid":1,"ts":6},
{"args":{"args":{"correlation":1,"device":2,"stream":7}},"cat":"kernel","dur":3,"name":"k","ph":"X","pid":-1,"tid":7,"ts":15},
{"args":{"name":"python"},"cat":"__metadata","name":"process_name","ph":"M","pid":100,"tid":0,"ts":0}],
  "controllerTraceDataKey": "systraceController"
}"""


def converted(text: bytes) -> bytes:
    """What traceconv makes of a Kineto file with whole µs."""
    lines = []
    for event in json.loads(text)["traceEvents"]:
        if event["ph"] == "X":
            args = {"args": event["args"]} if event.get("args") else {}
            lines.append(json.dumps({**event, "args": args}, sort_keys=True, separators=(",", ":")))
    return ('{"traceEvents":[\n' + ",\n".join(lines) + '],\n  "controllerTraceDataKey": "x"\n}').encode()


def read(text: bytes) -> Trace:
    return read_trace(text, "trace.json")


def test_what_perfetto_wrote() -> None:
    found = read(WRITTEN.encode())
    assert found.source.format == "perfetto-json"
    assert (found.gpu_ops.start_ns.tolist(), found.gpu_ops.launch_row.tolist()) == ([15_000], [0])
    assert (found.devices, found.gpu_ops.stream.tolist()) == ((2,), [7])
    assert [notice.code for notice in found.notices] == ["perfetto_json"]
    assert (found.whole_us, found.complete) == (True, True)


@pytest.mark.parametrize("case", ["eager steps", "graph replay", "two devices", "sync in the step"])
def test_it_says_the_same_as_the_file_that_was_opened(case: str) -> None:
    text = NAMED_CASES[case]().json()
    found, expected = read(converted(text)), read(text)
    for table in ("gpu_ops", "launches", "blocking_calls"):
        for name in ("start_ns", "end_ns"):
            assert np.array_equal(getattr(getattr(found, table), name), getattr(getattr(expected, table), name))
    assert found.gpu_ops.launch_row.tolist() == expected.gpu_ops.launch_row.tolist()


def test_no_verdict_rests_on_cut_times(tmp_path: Path) -> None:
    """On an H200's graph replays they made 2.05 ms of GPU work 1.72 ms."""
    (tmp_path / "trace.json").write_bytes(converted(NAMED_CASES["eager steps"]().json()))
    report = load(tmp_path / "trace.json")
    assert report.document.traces[0].verdict.verdict_class == "insufficient"
    assert "cut every time to whole µs" in report.document.traces[0].verdict.reason
    (health,) = report.health().traces
    assert health.advice[0].startswith("analyze the trace that was opened in Perfetto")


def test_lines_may_lie_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchscope.analysis.inputs.readers.unpacking.BLOCK_BYTES", 100)
    monkeypatch.setattr("launchscope.analysis.inputs.readers.unpacking._PACKED_BYTES", 400)
    text = converted(NAMED_CASES["eager steps"]().json())
    assert len(read(text).launches) == 20


def test_a_cut_one_gives_what_is_whole() -> None:
    text = converted(NAMED_CASES["eager steps"]().json())
    found = read(text[: len(text) // 2])
    assert 0 < len(found.gpu_ops) < 20
    assert not found.complete
    assert {notice.code for notice in found.notices} == {"cut_file", "perfetto_json"}


@pytest.mark.parametrize("stray", ["0.1e1", "}", ',"b"', ",1.2.3", ',"b":tru'])
def test_what_stands_between_the_args_and_their_end_is_not_passed_over(stray: str) -> None:
    damaged = WRITTEN.replace('"stream":7}}', f'"stream":7}}{stray}}}')
    assert not read(damaged.encode()).complete


def test_further_members_of_the_outer_args_are_left_out() -> None:
    found = read(WRITTEN.replace('"stream":7}}', '"stream":7},"a":-1.5e3, "b":"x}","c":null}').encode())
    assert (found.complete, found.gpu_ops.launch_row.tolist()) == (True, [0])
