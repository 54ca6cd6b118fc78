"""Kineto files: what is read, exactly, from whole files, odd ones and broken ones."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import open_trace, read_trace
from launchscope.analysis.inputs.readers.kineto_records import short_times, to_ns
from launchscope.analysis.inputs.readers.unpacking import zstd_module
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import NONE, HostKind, OpKind, Trace
from launchscope.fixtures.builder import trace

zstd = zstd_module()


def read(events: list[dict[str, Any]] | str, **header: Any) -> Trace:
    text = events if isinstance(events, str) else json.dumps({**header, "traceEvents": events})
    return read_trace(text.encode(), "trace.json")


def kernel(**fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, **fields}


def call(name: str, correlation: int, ts: float = 0, dur: float = 1, pid: int = 100, cat: str = "cuda_runtime") -> Any:
    args = {"correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": 1, "ts": ts, "dur": dur, "args": args}


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "ns"),
        [
            ("5114750924346.206", 5114750924346206),
            ("1712867402348667.123", 1712867402348667123),  # a double would be off by 123 ns
            ('"1712867402348667.123"', 1712867402348667123),
            ("1712867402348256", 1712867402348256000),
            ("0.5", 500),
            ("-0.500", -500),
            ("12.34", 12340),
            ("1e3", 1_000_000),
            ("1.0004", 1000),
            ("18446744073709551.615", -1),  # an unsigned counter that ran below zero
            ("null", None),
            ("NaN", None),
            ("1e99", None),
            ("", None),
        ],
    )
    def test_ns_of_decimal_text(self, text: str, ns: int | None) -> None:
        assert to_ns(text.encode()) == ns

    @given(st.lists(st.integers(-(2**38) * 1000 + 1, 2**38 * 1000 - 1), min_size=1))
    def test_a_short_time_is_told_from_the_double_nearest_to_it(self, times_ns: list[int]) -> None:
        texts = [str(Decimal(ns) / 1000) for ns in times_ns]
        found = short_times([float(text) for text in texts])
        assert found is not None
        assert found.tolist() == times_ns

    @pytest.mark.parametrize("us", [2.0**38, -(2.0**38), 1.0004, 0.0006, float("nan"), float("inf")])
    def test_a_long_time_and_one_between_two_ns_are_left_to_the_text(self, us: float) -> None:
        assert short_times([1.5, us]) is None

    def test_base_is_added(self) -> None:
        ops = read([kernel(ts=5.001, dur=2.5)], baseTimeNanoseconds=1790857026000000000).gpu_ops
        assert ops.start_ns.tolist() == [1790857026000005001]
        assert ops.dur_ns.tolist() == [2500]

    def test_whole_us(self) -> None:
        assert read([kernel(ts=5, dur=2)]).whole_us
        assert not read([kernel(ts=5, dur=2), kernel(ts=8.001)]).whole_us
        assert not read([]).whole_us

    def test_doubles_hold_times_since_1970_to_a_quarter_of_a_us(self) -> None:
        quarters = [kernel(ts=1759536000001000 + each, dur=1.003) for each in (0.25, 0.5, 0.75, 10)]
        assert read(quarters).grid_ns == 250
        assert read([*quarters, kernel(ts="1759536000001020.001")]).grid_ns == 1
        assert read([kernel(ts=at, dur=1.003) for at in (0.25, 0.5, 10)]).grid_ns == 1, "doubles hold those exactly"
        assert read([kernel(ts=1759536000001000, dur=1.003)]).whole_us

    def test_records_without_time_are_told(self) -> None:
        found = read([kernel(), kernel(ts="soon"), kernel(dur=None)])
        assert (len(found.gpu_ops), found.events, found.complete) == (1, 3, False)
        assert [(n.code, n.count) for n in found.notices] == [("unreadable_times", 2)]

    @pytest.mark.parametrize(
        ("ts", "dur"), [(-9.2e15, 1), (9.2e15, 1), (4e15, 4.6e15), (-4e15, -9e15), (0, 9e15)], ids=str
    )
    def test_times_whose_differences_64_bits_cannot_hold_are_no_times(self, ts: float, dur: float) -> None:
        found = read([kernel(), kernel(ts=ts, dur=dur), call("cudaLaunchKernel", 1, ts=ts, dur=dur)])
        assert (len(found.gpu_ops), [(n.code, n.count) for n in found.notices]) == (1, [("unreadable_times", 2)])

    def test_nor_are_durations_whose_sum_64_bits_cannot_hold(self) -> None:
        """A record that lost its start lasts since 1970."""
        found = read([kernel(ts=-1.7e15, dur=1.7e15) for _ in range(9)], baseTimeNanoseconds=1_700_000_000_000_000_000)
        assert found.gpu_ops.dur_ns.sum() == len(found.gpu_ops) * 1_700_000_000_000_000_000 < 2**62
        assert [(n.code, n.count) for n in found.notices] == [("unreadable_times", 9 - len(found.gpu_ops))]


ODD_IDS: list[Any] = [
    "--5",
    "-",
    "9" * 5000,
    "²",
    10**30,
    -(2**63),
    1e308,
    True,
    [],
    {"a": 1},
    json.loads("[" * 900 + "]" * 900),
]


def test_correlation_0_links_nothing() -> None:
    """Not even to a call that has 0 too, such as a query outside of any launch."""
    found = read(
        [
            call("hipStreamIsCapturing", 0),
            call("hipLaunchKernel", 1, ts=2),
            *(kernel(ts=9, args={"correlation": n}) for n in (0, 1)),
        ]
    )
    assert found.gpu_ops.launch_row.tolist() == [NONE, 0]
    assert found.gpu_ops.correlation.tolist() == [NONE, 1]


class TestOddIds:
    @pytest.mark.parametrize("odd", ODD_IDS, ids=lambda odd: str(odd)[:9])
    @pytest.mark.parametrize("field", ["pid", "tid", "name", "args"])
    def test_of_a_record(self, odd: Any, field: str) -> None:
        assert len(read([kernel(), kernel(ts=5, **{field: odd})]).gpu_ops) == 2

    @pytest.mark.parametrize("odd", ODD_IDS, ids=lambda odd: str(odd)[:9])
    def test_of_its_args(self, odd: Any) -> None:
        fields = ("device", "stream", "correlation", "bytes", "graph id", "graph node id")
        found = read([kernel(args=dict.fromkeys(fields, odd)), kernel(ts=5)], baseTimeNanoseconds=odd)
        assert len(found.gpu_ops) == 2
        assert found.gpu_ops.bytes.max() == NONE or odd is True

    @pytest.mark.parametrize("odd", ODD_IDS, ids=lambda odd: str(odd)[:9])
    def test_of_the_head(self, odd: Any) -> None:
        devices = [{"id": 0, "name": odd}, {"id": odd, "name": "x"}]
        found = read(
            [kernel()], deviceProperties=devices, distributedInfo={"rank": odd}, WARNING=[f"dropped {odd} records"]
        )
        assert found.rank is None or found.rank == -(2**63)
        assert list(found.device_names) == [0]

    def test_text_that_is_a_number_is_that_number(self) -> None:
        found = read([kernel(pid="3", tid=" 7 "), kernel(pid="-5", tid=7.0), kernel(pid="x", tid="y")])
        assert found.gpu_ops.device.tolist() == [3, -5, -2]
        assert found.gpu_ops.stream.tolist() == [7, 7, -3]


class TestGpuOps:
    def test_kinds_new_and_old(self) -> None:
        cats = ["kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"]
        found = read([kernel(cat=cat, ts=index) for index, cat in enumerate(cats)])
        assert found.gpu_ops.kind.tolist() == [OpKind.KERNEL, OpKind.MEMCPY, OpKind.MEMSET] * 2

    def test_other_device_records_are_no_gpu_ops(self) -> None:
        cats = ["gpu_user_annotation", "cuda_sync", "overhead", "ac2g", "Trace"]
        found = read([kernel(cat=cat) for cat in cats] + [kernel(ph="i"), kernel(ph="M")])
        assert (len(found.gpu_ops), found.events) == (0, 7)

    def test_device_and_stream_from_args_else_from_ids(self) -> None:
        found = read([kernel(ts=1, pid=3, tid=9), kernel(ts=2, pid=3, tid=9, args={"device": 1, "stream": 20})])
        assert found.gpu_ops.device.tolist() == [3, 1]
        assert found.gpu_ops.stream.tolist() == [9, 20]
        assert found.devices == (1, 3)

    def test_bytes_graph_and_node(self) -> None:
        in_graph = {"bytes": 64, "graph id": 4, "graph node id": 9, "correlation": 2}
        ops = read([kernel(ts=1, args=in_graph), kernel(ts=2, args={"graph id": 0, "graph node id": 0})]).gpu_ops
        columns = (ops.bytes, ops.graph, ops.graph_node, ops.correlation)
        assert [column.tolist() for column in columns] == [[64, NONE], [4, NONE], [9, NONE], [2, NONE]]

    def test_rows_are_by_start_and_file_order(self) -> None:
        found = read([kernel(ts=5, name="b"), kernel(ts=5, name="c"), kernel(ts=1, name="a")])
        assert [found.name(i) for i in found.gpu_ops.name.tolist()] == ["a", "b", "c"]

    def test_device_names(self) -> None:
        devices = [{"id": 0, "name": "NVIDIA H200"}, {"id": 2, "name": ""}, {"id": 1, "name": "unused"}]
        found = read([kernel(pid=0), kernel(pid=2), kernel(pid=5)], deviceProperties=devices)
        assert found.device_names == {0: "NVIDIA H200", 2: None, 5: None}


class TestLaunches:
    def test_the_earliest_call_with_the_correlation(self) -> None:
        events = [
            call("cuLaunchKernel", 1, ts=1, cat="cuda_driver"),
            call("cudaLaunchKernel", 1, ts=0, dur=5),
            kernel(ts=9, args={"correlation": 1}),
        ]
        found = read(events)
        assert [found.name(i) for i in found.launches.api.tolist()] == ["cudaLaunchKernel"]
        assert found.gpu_ops.launch_row.tolist() == [0]
        assert [found.name(i) for i in found.host_ops.name.tolist()] == ["cuLaunchKernel"]

    @pytest.mark.parametrize("api", ["hipModuleLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "anything"])
    def test_any_api_counts(self, api: str) -> None:
        assert len(read([call(api, 1), kernel(args={"correlation": 1})]).launches) == 1

    def test_graph_launch(self) -> None:
        found = (
            trace().graph_launch(0, 5, "hipGraphLaunch").kernel(9, 1).kernel(11, 1).launch(20, 1).kernel(25, 1).build()
        )
        assert found.launches.is_graph.tolist() == [True, False]
        assert found.gpu_ops.launch_row.tolist() == [0, 0, 1]

    @pytest.mark.parametrize("cat", ["cuda_runtime", "cuda_driver", "hip_runtime", "Runtime", "xpu_driver"])
    def test_runtime_and_driver_categories(self, cat: str) -> None:
        assert len(read([call("launch", 1, cat=cat), kernel(args={"correlation": 1.0})]).launches) == 1

    def test_no_correlation_is_no_link(self) -> None:
        events = [{**call("cudaLaunchKernel", 1), "args": {}}, kernel()]
        assert read(events).gpu_ops.launch_row.tolist() == [NONE]

    def test_ranks_whose_correlations_collide(self) -> None:
        events = []
        for rank, base in ((0, 0), (1, 1000)):
            for index in range(1, 4):
                at = base + 10 * index
                events.append(call("cudaLaunchKernel", 1 + index, ts=at, pid=100 + rank))
                args = {"device": rank, "correlation": 1 + index}
                events.append(kernel(ts=at + 5, args=args, pid=rank))
        found = read(events)
        assert len(found.launches) == 6
        assert found.gpu_ops.process.tolist() == [100] * 3 + [101] * 3
        assert (found.gpu_ops.start_ns - found.launches.start_ns[found.gpu_ops.launch_row]).tolist() == [5000] * 6

    def test_correlation_0_links_nothing(self) -> None:
        """roctracer gives it to kernels that RCCL launches; a query call may have it too."""
        found = read([call("hipEventQuery", 0, ts=0), kernel(ts=5, args={"device": 0, "correlation": 0})])
        assert (len(found.launches), found.gpu_ops.correlation.tolist()) == (0, [NONE])

    def test_operator_is_the_innermost_around_the_call_on_its_thread(self) -> None:
        builder = trace().op("aten::linear", 0, 20).op("aten::t", 1, 2.5).op("aten::addmm", 5, 10.5)
        builder.op("other thread", 6, 3, thread=2).annotation("range", 6, 3).launch(7, 2).kernel(30, 5)
        found = builder.launch(17, 1).kernel(40, 5).launch(25, 1).kernel(50, 5).build()
        rows = found.launches.operator_row
        assert [found.name(int(found.host_ops.name[row])) for row in rows[:2]] == ["aten::addmm", "aten::linear"]
        assert rows[2] == NONE


class TestHost:
    def test_blocking_calls(self) -> None:
        apis = ["cudaStreamSynchronize", "hipEventSynchronize", "cudaMemcpy", "hipMemcpyDtoH", "cuMemcpyHtoD_v2"]
        others = ["cudaMemcpyAsync", "cuMemcpyDtoHAsync_v2", "cudaEventRecord", "hipMemcpyWithStreamAsync"]
        found = read([call(api, i, ts=i) for i, api in enumerate([*apis, *others])])
        assert [found.name(i) for i in found.blocking_calls.api.tolist()] == apis
        assert [found.name(i) for i in found.host_ops.name.tolist()] == others

    def test_a_blocking_copy_is_a_launch_too(self) -> None:
        found = trace().launch(0, 20, "cudaMemcpy").memcpy(5, 10).build()
        assert (len(found.launches), len(found.blocking_calls), len(found.host_ops)) == (1, 1, 0)

    def test_kinds(self) -> None:
        found = (
            trace()
            .op("aten::add", 0, 9)
            .annotation("a", 1, 1)
            .python("f.py(1): f", 2, 1)
            .api("cudaMalloc", 3, 1)
            .build()
        )
        kinds = [HostKind.OPERATOR, HostKind.ANNOTATION, HostKind.PYTHON, HostKind.API]
        assert found.host_ops.kind.tolist() == kinds

    def test_rank(self) -> None:
        assert read([], distributedInfo={"rank": 3}).rank == 3
        assert read([]).rank is None


class TestForms:
    def test_compression_is_seen_not_named(self, tmp_path: Path) -> None:
        data = trace().launch(0, 1).kernel(2, 1).json()
        for name, content in (("a.json", gzip.compress(data)), ("b.json.gz", data), ("c", data)):
            (tmp_path / name).write_bytes(content)
            found = open_trace(tmp_path / name)
            assert (len(found.gpu_ops), found.source.bytes) == (1, len(content))

    def test_bare_array_and_byte_order_mark(self) -> None:
        text = json.dumps([kernel()])
        assert len(read(text).gpu_ops) == len(read("\ufeff" + text).gpu_ops) == 1
        assert len(read_trace(text.encode("utf-16"), "x").gpu_ops) == 1

    def test_what_printers_get_wrong(self) -> None:
        odd = '"ts":1,"dur":2,"args":{"x":NaN,"y":[-Infinity,nan],"z":"NaN","correlation":5}'
        text = '{"traceEvents":[{"ph":"X","cat":"kernel","name":"a\x01b\tc\\q",' + odd + '}],"more":NaN}'
        found = read(text)
        assert (found.names, found.complete) == (("a\x01b\tc\\q",), True)
        assert found.gpu_ops.correlation.tolist() == [5]
        assert len(read_trace(text.replace("b\tc", "\xff").encode("latin-1"), "x").gpu_ops) == 1

    def test_names_that_only_look_like_a_fault_stay(self) -> None:
        name = 'lambda "x": NaN, {}'
        events = [kernel(name=name), kernel(name="b\x02")]
        text = json.dumps({"traceEvents": events}).replace("\\u0002", "\x02").replace('"dur": 1', '"dur": 1, "q": NaN')
        assert read(text).names == (name, "b\x02")

    def test_odd_entries_and_args(self) -> None:
        found = read([kernel(args="none"), None, 3, "x", [], {}, kernel(args=[1])])  # type: ignore[list-item]
        assert (found.events, len(found.gpu_ops)) == (7, 2)

    def test_lost_records_of_the_profilers_own_log(self) -> None:
        for key, line in (("WARNING", "Dropped 12 activity records"), ("INFO", "... CUPTI stopped early? = 1")):
            found = read([kernel()], **{key: [line]})
            assert (found.complete, [n.code for n in found.notices]) == (False, ["lost_records"])


class TestBrokenFiles:
    def test_every_cut_keeps_the_whole_records(self) -> None:
        builder = trace().step(0).op("aten::{lambda}", 0, 9).launch(1, 5).kernel(20, 3).launch(7, 5).kernel(30, 3)
        data = builder.json()
        begin = data.index(b'"traceEvents":[') + len(b'"traceEvents":[')
        whole, position = [], begin
        for _ in builder.events():
            position = data.index(b"}}", position) + 2  # each record ends with its args
            whole.append(position)
        for cut in range(whole[0], len(data)):
            found = read_trace(data[:cut], "cut.json")
            assert found.events == sum(end <= cut for end in whole), cut
            assert [n.code for n in found.notices] == ["cut_file"]
            assert not found.complete

    @pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
    def test_a_file_cut_behind_its_list_of_records(self, packed: bool) -> None:
        """baseTimeNanoseconds stands there: without it every time is another one."""
        whole = trace().launch(1, 5).kernel(20, 3).json().rstrip()
        text = whole.removesuffix(b"}") + b', "baseTimeNanoseconds": 7000}'
        assert read_trace(text, "x.json").gpu_ops.start_ns.tolist() == [27_000]
        for lost in range(1, len(b', "baseTimeNanoseconds": 7000}') + 1):
            cut = text[:-lost]
            found = read_trace(gzip.compress(cut) if packed else cut, "x.json")
            assert found.gpu_ops.start_ns.tolist() == [20_000]
            assert ([notice.code for notice in found.notices], found.complete) == (["cut_file"], False)
            assert "all 2 were read, but the base time" in found.notices[0].message
            assert not analyze_trace(found, name="x").document.coverage.reliable

    def test_cut_gzip(self) -> None:
        builder = trace()
        for index in range(500):
            builder.launch(index * 10, 5).kernel(index * 10 + 6, 3, name=f"k{index * 7919 % 1000}")
        data = gzip.compress(builder.json())
        found = read_trace(data[: len(data) // 2], "cut.json.gz")
        assert 0 < found.events < 1000
        assert not found.complete

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
            lambda data: data[:-1] + bytes([data[-1] ^ 1]),
            lambda data: data[:-3],
            lambda data: data + b"more",
        ],
        ids=["checksum", "length", "cut in its checksum", "more behind it"],
    )
    def test_a_gzip_file_whose_content_alone_is_whole(self, damage: Callable[[bytes], bytes]) -> None:
        """All of it is read, and may be wrong for all that the file tells."""
        text = trace().launch(1, 5).kernel(20, 3).json()
        found = read_trace(damage(gzip.compress(text)), "x.json.gz")
        assert (len(found.gpu_ops), [n.code for n in found.notices], found.complete) == (1, ["damaged_file"], False)

    def test_a_zstd_file_is_known_by_its_content(self) -> None:
        """Also one of several frames, with one to be skipped first, as parallel writers make them."""
        text = trace().launch(1, 5).kernel(20, 3).json()
        skipped = b"\x50\x2a\x4d\x18\x04\0\0\0size"
        for packed in (zstd.compress(text), skipped + zstd.compress(text[:99]) + zstd.compress(text[99:])):
            found = read_trace(packed, "x.json")
            assert (len(found.gpu_ops), found.notices, found.complete) == (1, (), True)

    def test_a_cut_zstd_file(self) -> None:
        """Cut behind its first block of 128 KiB, in that one, and before any content."""
        builder = trace()
        for index in range(2_000):
            builder.launch(index * 10, 5).kernel(index * 10 + 6, 3, name=f"k{index * 7919 % 1000}")
        data = zstd.compress(builder.json())
        found = read_trace(data[: len(data) * 3 // 4], "cut.json.zst")
        assert 0 < found.events < 4_000
        assert [notice.code for notice in found.notices] == ["cut_file"]
        with pytest.raises(UnreadableInput, match="a zstd file cut before its first byte of content"):
            read_trace(data[:20], "cut.json.zst")

    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    def test_zeros_that_join_two_records_to_one(self, pack: Callable[[bytes], bytes]) -> None:
        """A disk lost 512 bytes, from inside of one record's name to inside of the next one's: that is JSON still."""
        one, two = ({"ph": "X", "cat": "kernel", "name": n * 300, "ts": 1, "dur": 1, "args": {}} for n in "ab")
        text = json.dumps({"traceEvents": [one, two]}).encode()
        at = text.index(b"aaa") + 150
        found = read_trace(pack(text[:at] + bytes(512) + text[at + 512 :]), "x.json")
        assert (len(found.gpu_ops), [n.code for n in found.notices], found.complete) == (1, ["damaged_file"], False)
        assert read_trace(pack(text), "x.json").complete

    @pytest.mark.parametrize("name", ["", "n" * 70_000])
    def test_a_gzip_file_with_a_long_name_and_zeros_behind_it_is_whole(self, name: str) -> None:
        packed = io.BytesIO()
        with gzip.GzipFile(name, mode="wb", fileobj=packed) as file:
            file.write(trace().launch(1, 5).kernel(20, 3).json())
        found = read_trace(packed.getvalue() + bytes(100_000), "x.json.gz")
        assert (len(found.gpu_ops), found.notices, found.complete) == (1, (), True)

    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    @pytest.mark.parametrize("form", [dict, list])
    def test_of_two_documents_the_first_is_read(self, pack: Callable[[bytes], bytes], form: type) -> None:
        """And all of it, so nothing is lost of what it tells; white space between belongs to none."""
        events = [call("cudaLaunchKernel", 1), kernel(ts=9.5, args={"correlation": 1})]
        first = json.dumps({"traceEvents": events} if form is dict else events).encode() + b"\n \n"
        second = json.dumps({"traceEvents": [kernel()] * 3} if form is dict else [kernel()] * 3).encode()
        found = read_trace(pack(first) + pack(second), "x.json")
        assert (found.events, found.complete) == (2, True)
        assert [notice.code for notice in found.notices] == ["second_document"]
        assert f"{len(second)} bytes were left out" in found.notices[0].message

    def test_what_stands_behind_a_document_and_is_none_is_damage(self) -> None:
        found = read_trace(json.dumps({"traceEvents": [kernel()]}).encode() + b'{"ph": "X"}', "x.json")
        assert ([notice.code for notice in found.notices], found.complete) == (["cut_file"], False)

    @pytest.mark.parametrize("indent", [None, 1])
    @pytest.mark.parametrize(
        "name",
        ['<eval>.7 {"device": "cpu", "kind": "x"}(12): forward', '"a"', 'f("', '["a", "b"]', 'x"y\\n', 'd["k"], "ts"'],
    )
    def test_raw_quotes_in_a_name_cost_nothing(self, name: str, indent: int | None) -> None:
        events = [kernel(name="NAME", cat="python_function"), kernel(name="plain", ts=2.5), kernel(name="NAME", ts=5)]
        text = json.dumps({"traceEvents": events, "schemaVersion": 1}, indent=indent).replace("NAME", name)
        found = read(text)
        assert found.complete
        assert [(notice.code, notice.count) for notice in found.notices] == [("raw_quotes", 2)]
        assert [found.name(each) for each in found.gpu_ops.name] == ["plain", name.replace("\\n", "\n")]

    def test_a_quote_that_is_lost_is_damage(self) -> None:
        """What follows up to the next record can't be told from the name."""
        text = json.dumps({"traceEvents": [kernel(name="odd"), kernel(ts=9)]}).replace('odd"', "odd")
        assert not read(text).complete

    def test_damage_in_the_middle_loses_one_record(self) -> None:
        data = trace().launch(0, 1).kernel(2, 1).kernel(4, 1).kernel(6, 1).json()
        broken = data.replace(b'"dur":1.000,"args":{"device"', b'"dur":1.000,,"args":{"device"', 1)
        found = read_trace(broken, "x")
        assert (found.complete, found.gpu_ops.start_ns.tolist()) == (False, [4000, 6000])

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"", "empty"),
            (b" \n", "white space"),
            (b"<!DOCTYPE html><html>", "HTML"),
            (b"hello", "not a trace"),
            (b"{}", "without a list traceEvents"),
            (b'{"traceEvents": null}', "without a list traceEvents"),
            (b'{"traceEvents": 3}', "not a trace"),
            (b"[1, 2]", "none of its 2 entries"),
            (b'{"schema": 1, "trace', "not a trace"),
            (b'{"traceEvents": [{"ph": "X", "ca', "cut before its first whole record"),
            (b"[" * 20_000, "cut before"),
            (b"PK\x03\x04", ".zip"),
            (b"SQLite format 3\0", "SQLite"),
            (b"\x1f\x8b\x08", "cut before its first byte"),
            (b"\0\1\2", "not a trace"),
        ],
    )
    def test_refusals_say_what_and_where(self, data: bytes, words: str) -> None:
        with pytest.raises(UnreadableInput, match="step-3.json: .*" + words.replace(".", r"\.")):
            read_trace(data, "step-3.json")

    def test_no_such_file_and_a_folder(self, tmp_path: Path) -> None:
        for path in (tmp_path / "absent.json", tmp_path):
            with pytest.raises(UnreadableInput, match=str(path)):
                open_trace(path)

    def test_no_records_is_a_trace(self) -> None:
        found = read("[]")
        assert (found.events, len(found.gpu_ops), found.devices) == (0, 0, ())
        assert found.gpu_ops.start_ns.dtype == np.int64


class TestShapes:
    def test_of_operators_alone_and_interned(self) -> None:
        built = trace().op("aten::mm", 0, 9, shapes=[[1, 8], [8, 4]]).op("aten::mm", 10, 9, shapes=[[1, 8], [8, 4]])
        found = built.op("aten::neg", 20, 9, shapes=[[4]], types=["float"]).op("aten::view", 30, 9).build()
        assert found.shapes == (
            '[[[1,8],[8,4]],["c10::BFloat16","c10::BFloat16"]]',
            '[[[4]],["float"]]',
        )
        assert found.host_ops.shapes.tolist() == [0, 0, 1, NONE]

    def test_without_any_a_byte_each(self) -> None:
        found = trace().op("aten::view", 0, 9).python("model.py(3): forward", 0, 9).build()
        assert found.shapes == ()
        assert found.host_ops.shapes.dtype == np.int8
        assert found.host_ops.shapes.tolist() == [NONE] * 2

    def test_the_older_spelling(self) -> None:
        args = {"Input dims": [[2, 3]], "Input type": ["float"]}
        event = {"ph": "X", "cat": "Operator", "name": "mul", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": args}
        assert read(json.dumps([event])).shapes == ('[[[2, 3]],["float"]]',)

    def test_lists_of_thousands_are_left_out(self) -> None:
        found = trace().op("aten::_foreach_add_", 0, 9, shapes=[[[8, 8]] * 1000]).build()
        assert (found.shapes, found.host_ops.shapes.tolist()) == ((), [NONE])
