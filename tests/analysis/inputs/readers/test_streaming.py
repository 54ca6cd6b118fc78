"""The streaming reader gives what a slow one gives that sees the whole file at once, wherever it cuts."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import launchscope
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from launchscope.analysis.inputs import readers
from launchscope.analysis.inputs.readers import kineto, second_process
from launchscope.analysis.inputs.readers.unpacking import Unpacked
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import Source, Table, Trace
from launchscope.fixtures.builder import TraceBuilder

from ....cases import NAMED_CASES
from .whole_file_kineto import read_kineto as read_whole

TRACES = Path(launchscope.__file__).parent / "fixtures" / "traces"
PIECE_BYTES = (1, 150, 600, 5000)


def read(data: bytes, piece_bytes: int, **options: Any) -> Trace:
    blocks = (data[begin : begin + piece_bytes] for begin in range(0, len(data), piece_bytes))
    return kineto.read_kineto(blocks, source(data), piece_bytes=piece_bytes, **options)


def source(data: bytes) -> Source:
    return Source("trace.json", "kineto-json", len(data))


def assert_same(found: Trace, wanted: Trace) -> None:
    for column in fields(Trace):
        ours, theirs = getattr(found, column.name), getattr(wanted, column.name)
        if isinstance(theirs, Table):
            for f in fields(theirs):
                np.testing.assert_array_equal(getattr(ours, f.name), getattr(theirs, f.name), f"{column.name}.{f.name}")
        else:
            assert ours == theirs, column.name


def compact(builder: TraceBuilder) -> bytes:
    return builder.json()


def spaced(builder: TraceBuilder) -> bytes:
    return json.dumps(json.loads(builder.json())).encode()


def indented(builder: TraceBuilder) -> bytes:
    return json.dumps(json.loads(builder.json()), indent=2).encode()


def bare(builder: TraceBuilder) -> bytes:
    return json.dumps(json.loads(builder.json())["traceEvents"], indent=1).encode()


def ragged(builder: TraceBuilder) -> bytes:
    """Every record laid out in another way."""
    layouts: list[dict[str, Any]] = [{}, {"indent": 1}, {"indent": "\t"}, {"separators": (" ,", " : ")}]
    texts = [json.dumps(e, **layouts[i % 4]) for i, e in enumerate(json.loads(builder.json())["traceEvents"])]
    return ('{"traceEvents" : [' + " ,\n ".join(texts) + ' ], "baseTimeNanoseconds": 5}').encode()


@pytest.mark.parametrize("piece_bytes", PIECE_BYTES)
@pytest.mark.parametrize("layout", [compact, spaced, indented, bare, ragged])
@pytest.mark.parametrize("case", [name for name in NAMED_CASES if name != "truncated file"])
def test_named_cases(case: str, layout: Callable[[TraceBuilder], bytes], piece_bytes: int) -> None:
    data = layout(NAMED_CASES[case]())
    assert_same(read(data, piece_bytes), read_whole(data, source(data)))


@pytest.mark.parametrize("piece_bytes", PIECE_BYTES)
@pytest.mark.parametrize("layout", [compact, spaced, indented, bare, ragged])
@pytest.mark.parametrize("case", ["one eager step", "graph replay", "two devices"])
def test_a_second_document_and_raw_quotes(case: str, layout: Callable[[TraceBuilder], bytes], piece_bytes: int) -> None:
    data = layout(NAMED_CASES[case]())
    quoted = re.sub(rb'("cat"\s*:\s*"\w+"\s*,\s*"name"\s*:\s*")', rb'\1a{"x": "b", "c"}', data)
    for text in (data + data, data + b"\n\n" + data, quoted, quoted + quoted, data + quoted):
        found, wanted = read(text, piece_bytes), read_whole(text, source(text))
        codes = [sorted((notice.code, notice.count) for notice in each.notices) for each in (found, wanted)]
        assert codes[0] == codes[1] != []
        assert_same(replace(found, notices=()), replace(wanted, notices=()))


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.json.gz")), ids=lambda path: path.name)
@pytest.mark.parametrize("piece_bytes", [3000, 40_000])
def test_recorded_traces(path: Path, piece_bytes: int) -> None:
    with path.open("rb") as file:
        data = b"".join(Unpacked(file, str(path), most_bytes=1 << 30))
    assert_same(read(data, piece_bytes), read_whole(data, source(data)))


@pytest.mark.parametrize("layout", [compact, indented])
def test_every_cut_of_a_file(layout: Callable[[TraceBuilder], bytes]) -> None:
    data = layout(NAMED_CASES["one eager step"]())
    for cut in range(len(data) - 1, 0, -1):
        text = data[:cut]
        try:
            wanted = read_whole(text, source(text))
        except UnreadableInput:
            with pytest.raises(UnreadableInput):
                read(text, 400)
        else:
            assert_same(read(text, 400), wanted)


NAMES = st.sampled_from(["k", '},{"ph": "X"', "a\\", '"', "{lambda}", "}, {", "]", "é", "\t", "\x01", "\ud83d\ude00"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
IDS = st.integers(-5, 5) | st.sampled_from(["3", " 7 ", "x", 4.0, 4.5, None, True, 2**63])
TIMES = st.integers(0, 10**6) | st.floats(0, 1e6) | st.sampled_from([1.7e15, 1.0004, "12.345", "soon", None, -0.5])
RECORDS = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "i", "s"]), "name": NAMES | st.just(3)},
    optional={
        "cat": st.sampled_from(["kernel", "gpu_memcpy", "cuda_runtime", "hip_driver", "cpu_op", "Trace", "ac2g", 5]),
        "pid": IDS,
        "tid": IDS,
        "ts": TIMES,
        "dur": TIMES,
        "args": st.dictionaries(st.sampled_from(["correlation", "device", "stream", "bytes", "graph id", "x"]), IDS)
        | st.dictionaries(st.sampled_from(["Input Dims", "Input dims", "Input type", "x"]), VALUES)
        | st.dictionaries(NAMES, VALUES, max_size=2)
        | VALUES,
    },
)
ENTRIES = st.lists(RECORDS | RECORDS | RECORDS | VALUES, min_size=1, max_size=25)


@settings(deadline=None)
@given(
    ENTRIES,
    st.integers(1, 700),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
    st.dictionaries(st.sampled_from(["baseTimeNanoseconds", "INFO", "traceEvent", "deviceProperties"]), VALUES),
)
@example([None, {"ph": "X", "cat": "kernel", "name": "}, {", "ts": 0}], 9, 1, False, {})
@example([{"name": "}, {", "ph": "X", "pid": 0, "args": {"x": {"k": None, '},{"ph": "X"': None}}}], 1, None, False, {})
def test_any_records_in_any_layout(
    entries: list[Any], piece_bytes: int, indent: int | None, is_ascii: bool, behind: dict[str, Any]
) -> None:
    text = json.dumps({"traceEvents": entries, **behind}, indent=indent, ensure_ascii=is_ascii)
    data = text.encode("utf-8", "surrogatepass")
    try:
        wanted = read_whole(data, source(data))
    except UnreadableInput as error:
        words = re.escape(str(error).partition("(")[0])
        with pytest.raises(UnreadableInput, match=words):
            read(data, piece_bytes)
    else:
        assert_same(read(data, piece_bytes), wanted)


@pytest.mark.parametrize("layout", [compact, indented])
def test_damage_costs_the_record_that_it_hits(layout: Callable[[TraceBuilder], bytes]) -> None:
    data = layout(NAMED_CASES["graph replay"]())
    rows = len(read_whole(data, source(data)).gpu_ops)
    begin = data.index(b'"traceEvents"') + 20
    for seed in range(150):
        at = random.Random(seed).randrange(begin, len(data) - 10)
        found = read(data[:at] + b"\x00}" + data[at + 2 :], 500)
        assert len(found.gpu_ops) >= rows - 2
        assert found.events >= rows


def test_a_second_list_of_records_is_the_one_that_counts() -> None:
    first, second = ([{"ph": "X", "cat": "kernel", "name": n, "pid": 0, "tid": 7, "ts": 1, "dur": 1}] * 9 for n in "ab")
    data = f'{{"traceEvents": {json.dumps(first)}, "traceEvents": {json.dumps(second)}}}'.encode()
    for piece_bytes in PIECE_BYTES:
        assert_same(read(data, piece_bytes), read_whole(data, source(data)))


class TestSecondProcess:
    @pytest.fixture
    def data(self) -> bytes:
        builder = TraceBuilder()
        for index in range(3000):
            builder.launch(index * 10, 5).kernel(index * 10 + 6, 3, name=f"k{index * 7919 % 1000}")
        return builder.json()

    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """The processes that are started; two cores, and from the first byte on."""
        found: list[Any] = []
        start = second_process._start

        def remembered() -> Any:
            found.append(start())
            return found[-1]

        monkeypatch.setattr(second_process, "_start", remembered)
        monkeypatch.setattr(second_process, "LONG_BYTES", 0)
        monkeypatch.setattr(second_process, "_cores", lambda: 2)
        return found

    def test_same_trace_and_nothing_left_behind(self, data: bytes, started: list[Any], monkeypatch: Any) -> None:
        monkeypatch.setattr(second_process.SecondProcess, "has_room", property(_has_room_once_it_is_ready))
        assert_same(read(data, 5000), read_whole(data, source(data)))
        (process,) = started
        assert process.poll() is not None
        assert process.stdin.closed
        assert process.stdout.closed

    def test_killed_in_the_middle(self, data: bytes, started: list[Any], monkeypatch: Any) -> None:
        monkeypatch.setattr(second_process.SecondProcess, "has_room", property(_has_room_once_it_is_ready))

        def blocks() -> Iterator[bytes]:
            for number, begin in enumerate(range(0, len(data), 5000)):
                yield data[begin : begin + 5000]
                if number == 20:
                    os.kill(started[0].pid, signal.SIGKILL)

        found = kineto.read_kineto(blocks(), source(data), piece_bytes=5000)
        assert_same(found, read_whole(data, source(data)))

    def test_that_can_not_be_started(self, data: bytes, started: list[Any], monkeypatch: Any) -> None:
        monkeypatch.setattr("sys.executable", "/nowhere/python")
        assert_same(read(data, 5000), read_whole(data, source(data)))
        assert started == [None]

    def test_that_says_nothing_sensible(
        self, data: bytes, started: list[Any], monkeypatch: Any, tmp_path: Path
    ) -> None:
        script = tmp_path / "python"
        script.write_text("#!/bin/sh\nexec cat /dev/zero\n")
        script.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(script))
        assert_same(read(data, 5000), read_whole(data, source(data)))

    def test_started_ahead_it_is_the_one_that_reads(self, data: bytes, started: list[Any], tmp_path: Path) -> None:
        path = tmp_path / "trace.json"
        path.write_bytes(data.ljust(2 << 20))
        with sources([path]).opened_soon(cache=False):
            (process,) = started
            assert process.poll() is None
            assert_same(read(data, 5000), read_whole(data, source(data)))
            assert process.poll() is not None
        assert len(started) == 1

    def test_started_ahead_in_vain_it_ends(self, data: bytes, started: list[Any], tmp_path: Path) -> None:
        path = tmp_path / "trace.json"
        path.write_bytes(data.ljust(2 << 20))
        with sources([path]).opened_soon(cache=False):
            pass
        (process,) = started
        assert process.poll() is not None
        with readers.opened_soon(tmp_path / "nothing.json"):
            pass
        assert len(started) == 1

    def test_ends_when_reading_fails(self, data: bytes, started: list[Any]) -> None:
        def broken() -> Iterator[bytes]:
            yield data[:40_000]
            raise OSError("the disk has gone")

        with contextlib.suppress(OSError):
            kineto.read_kineto(broken(), source(data), piece_bytes=5000)
        assert started[0].poll() is not None


def _has_room_once_it_is_ready(other: second_process.SecondProcess) -> bool:
    """Waits for its start, which takes longer than reading a small file does."""
    while not other._is_ready and other._process is not None:
        other.exchange()
    return other._process is not None and len(other._given) < 2
