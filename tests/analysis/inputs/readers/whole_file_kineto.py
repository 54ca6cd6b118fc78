"""A slow reader to hold the streaming one against: the whole file as one document, one record after the other."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
import numpy as np
from launchscope.analysis.inputs.readers.assemble import Calls
from launchscope.analysis.inputs.readers.json_text import cut_off, mendings, recover, repair, requoted
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import (
    NONE,
    BlockingCalls,
    GpuOps,
    HostKind,
    HostOps,
    Ints,
    Launches,
    Notice,
    OpKind,
    Source,
    Trace,
)

from .slow_links import home_processes, innermost_operators, link, outside, without

GPU_OPS: Final = {
    "kernel": OpKind.KERNEL,
    "gpu_memcpy": OpKind.MEMCPY,
    "gpu_memset": OpKind.MEMSET,
    "Kernel": OpKind.KERNEL,
    "Memcpy": OpKind.MEMCPY,
    "Memset": OpKind.MEMSET,
}
HOST_CALLS: Final = ("runtime", "driver")
"""How the categories of API calls end: cuda_runtime, cuda_driver, hip_runtime, …; older files: Runtime."""

HOST_OPS: Final = {
    "cpu_op": HostKind.OPERATOR,
    "Operator": HostKind.OPERATOR,
    "user_annotation": HostKind.ANNOTATION,
    "python_function": HostKind.PYTHON,
}
_BLOCKING_COPY: Final = re.compile(r"(?:cuda|hip|cu)Memcpy(?!.*Async)")
_DROPPED: Final = re.compile(r"[Dd]ropped ([0-9]{1,15}) (?:activity )?records")
_STOPPED_EARLY: Final = "CUPTI stopped early? = 1"
_OP_ARGS: Final = ("device", "stream", "bytes", "graph", "graph_node", "collective")
_INT64: Final = range(-(2**63), 2**63)
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}")
_TIMES: Final = range(-(2**62), 2**62)
"""146 years before and after the epoch: the difference of any two such times fits 64 bits."""

_COPIES: Final = range(2**40 + 1)
"""Bytes that one copy can move: no GPU has more than a TiB."""


class _Args(msgspec.Struct, gc=False):
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    graph: Any = msgspec.field(name="graph id", default=None)
    graph_node: Any = msgspec.field(name="graph node id", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw(b""))
    older_dims: msgspec.Raw = msgspec.field(name="Input dims", default=msgspec.Raw(b""))
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw(b""))
    collective: msgspec.Raw = msgspec.field(name="Collective name", default=msgspec.Raw(b""))
    group: msgspec.Raw = msgspec.field(name="Process Group Name", default=msgspec.Raw(b""))
    ranks: msgspec.Raw = msgspec.field(name="Process Group Ranks", default=msgspec.Raw(b""))


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    cat: Any = None
    name: Any = ""
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: _Args | list[Any] | str | int | float | bool | None = None


_Entry = _Event | list[Any] | str | int | float | bool | None


class _Head(msgspec.Struct):
    base_ns: msgspec.Raw = msgspec.field(name="baseTimeNanoseconds", default=msgspec.Raw(b"null"))
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=msgspec.Raw(b"null"))
    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=msgspec.Raw(b"null"))
    remarks: msgspec.Raw = msgspec.field(name="INFO", default=msgspec.Raw(b"null"))
    warnings: msgspec.Raw = msgspec.field(name="WARNING", default=msgspec.Raw(b"null"))
    errors: msgspec.Raw = msgspec.field(name="ERROR", default=msgspec.Raw(b"null"))


class _Document(_Head):
    events: list[_Entry] | None = msgspec.field(name="traceEvents", default=None)


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_HEAD: Final = msgspec.json.Decoder(_Head)
_BESIDE_EVENTS: Final = _Head.__struct_fields__
_ENTRY: Final = msgspec.json.Decoder(_Event)
_ENTRIES: Final = msgspec.json.Decoder(list[_Entry])


def read_kineto(data: bytes, source: Source) -> Trace:
    """Read a Kineto JSON file, already decompressed. UnreadableInput when it holds no list of trace events."""
    document, notices, complete = _open(data, source)
    entries = document.events
    assert isinstance(entries, list)
    events = [entry for entry in entries if isinstance(entry, _Event)]
    if entries and not any(event.ph is not None or event.cat is not None for event in events):
        raise UnreadableInput(
            f"{source.path}: JSON, but none of its {len(entries)} entries is a trace event; give the file that "
            "torch.profiler's export_chrome_trace wrote"
        )
    base_ns = _whole(_value(document.base_ns)) or 0
    columns = _Columns(base_ns=base_ns if base_ns in _TIMES else 0)
    for event in events:
        columns.add(event)
    devices = r"(mtia|hpu|xpu|npu|tpu|privateuse1|glow)(_|$)"
    texts = [event.cat for event in events if event.ph == "X" and type(event.cat) is str]
    if not columns.ops.start and any(re.match(devices, text, re.IGNORECASE) for text in texts):
        notices.append(Notice("other_accelerator", ""))
    lost = _lost_records(document)
    notices += lost
    if columns.untimed:
        notices.append(
            Notice(
                "unreadable_times",
                f"{columns.untimed:,} records have no readable time and were left out; the file's writer is at fault",
                columns.untimed,
            )
        )
    complete = complete and not lost and not columns.untimed
    return columns.trace(source, document, events=len(entries), notices=tuple(notices), complete=complete)


def _open(data: bytes, source: Source) -> tuple[_Document, list[Notice], bool]:
    """The document with its records, what there is to say about the file, and whether it is whole."""
    if (first := _first_document(data)) is not None:
        document, notices, complete = _open(first, source)
        return document, [*notices, Notice("second_document", "")], complete
    is_list = data.lstrip()[:1] == b"["  # Chrome's other form: the records alone
    opening, closing = (b'{"traceEvents":', b"}") if is_list else (b"", b"")
    problem: Exception | None = None
    for text in mendings(opening + data):
        try:
            document = _DOCUMENT.decode(text + closing)
        except (msgspec.DecodeError, RecursionError) as error:
            problem = error
            if not text.lstrip().startswith(b"{"):
                break
            cut = cut_off(text, _DOCUMENT) if "truncated" in str(error) else None
            if cut is not None and cut[0].events:
                return cut[0], [_cut_notice(len(cut[0].events), cut[1])], False
        else:
            if document.events is None:
                raise UnreadableInput(
                    f"{source.path}: JSON without a list traceEvents, so not a trace; give the file that "
                    "torch.profiler's export_chrome_trace wrote"
                )
            return document, [], True
    assert problem is not None
    quoted, count = requoted(data)
    if count:
        document, notices, complete = _open(quoted, source)
        return document, [*notices, Notice("raw_quotes", "", count)], complete
    return _rescue(opening + data, source, problem)


def _first_document(data: bytes) -> bytes | None:
    """The first of several documents; None where there is one, or where it is damaged."""
    for found in re.finditer(rb"[}\]]\s*(?=[{\[])", data):
        first, behind = data[: found.end()], data[found.end() :]
        is_object = behind.startswith(b"{") and re.search(rb'"traceEvents"\s*:\s*\[', behind) is not None
        if is_object or (behind.startswith(b"[") and b'"ph"' in behind):
            for text in (*mendings(first), requoted(first)[0]):
                with contextlib.suppress(ValueError, RecursionError):
                    json.loads(text.decode())
                    return first
    return None


def _rescue(data: bytes, source: Source, problem: Exception) -> tuple[_Document, list[Notice], bool]:
    """What is whole in a file that is no JSON."""
    found = recover(repair(data)) if data.lstrip().startswith(b"{") else None
    if found is None:
        raise _no_trace(source, problem) from problem
    if not found.records and not found.whole:
        raise UnreadableInput(f"{source.path}: cut before its first whole record; record or copy it again") from problem
    try:
        head = _HEAD.decode(found.head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableInput(f"{source.path}: broken JSON ({error}); record or export it again") from error
    records = _decode_records(found.records)
    is_whole = found.whole and len(records) == len(found.records)
    document = _Document(events=records, **{name: getattr(head, name) for name in _BESIDE_EVENTS})
    return document, [_cut_notice(len(records), is_whole)], False


def _decode_records(texts: list[bytes]) -> list[_Entry]:
    """The records that are JSON."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return _ENTRIES.decode(b"[" + b",".join(texts) + b"]")
    records: list[_Entry] = []
    for text in texts:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            records.append(_ENTRY.decode(text))
    return records


def _value(text: msgspec.Raw) -> Any:
    """A value beside the records; null where no repair makes JSON of it."""
    for mended in mendings(bytes(text)):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(mended)
    return None


def _no_trace(source: Source, error: Exception) -> UnreadableInput:
    return UnreadableInput(
        f"{source.path}: not a trace: neither JSON nor the beginning of one ({error}); give a Kineto trace "
        "(.json or .json.gz) as torch.profiler exports it"
    )


def _cut_notice(kept: int, is_whole: bool) -> Notice:
    if is_whole:
        beside = (
            f"the file is cut or damaged outside its list of records; all {kept:,} were read, but the base time, "
            "devices and ranks beside them may be lost: record or copy it again"
        )
        return Notice("cut_file", beside, kept)
    lost = f"the file is cut or damaged: {kept:,} whole records were read, the rest is lost; record or copy it again"
    return Notice("cut_file", lost, kept)


@dataclass
class _Records:
    """Records of one kind in file order, as growing columns."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    name: list[int] = field(default_factory=list)
    process: list[int] = field(default_factory=list)  # pid
    thread: list[int] = field(default_factory=list)  # tid
    kind: list[int] = field(default_factory=list)
    correlation: list[int] = field(default_factory=list)  # of host calls and GPU ops
    position: list[int] = field(default_factory=list)  # among the file's timed records


@dataclass
class _Columns:
    """The file's records, sorted into columns."""

    base_ns: int
    untimed: int = 0
    total_ns: int = 0  # of all durations of GPU ops and calls
    finer_than_us: bool = False
    starts: list[int] = field(default_factory=list)  # of GPU ops and calls, since the file's base
    names: dict[str, int] = field(default_factory=dict)
    timed: int = 0
    ids: dict[Any, int] = field(default_factory=dict)
    ops: _Records = field(default_factory=_Records)
    op_args: list[tuple[int, ...]] = field(default_factory=list)  # the six columns of _OP_ARGS
    calls: _Records = field(default_factory=_Records)
    host: _Records = field(default_factory=_Records)
    shapes: dict[str, int] = field(default_factory=dict)
    host_shapes: list[int] = field(default_factory=list)
    collectives: dict[str, int] = field(default_factory=dict)

    def add(self, event: _Event) -> None:
        """Take a record that the model knows; leave flows, metadata, instants and the rest."""
        cat = event.cat
        if event.ph != "X" or type(cat) is not str:
            return
        if cat in HOST_OPS:
            is_step = HOST_OPS[cat] == HostKind.OPERATOR and str(event.name).startswith("ProfilerStep#")
            if self._record(self.host, event, HostKind.ANNOTATION if is_step else HOST_OPS[cat]):
                self.host_shapes.append(self._shapes(event) if HOST_OPS[cat] == HostKind.OPERATOR else NONE)
        elif cat.lower().endswith(HOST_CALLS):
            if self._record(self.calls, event, HostKind.API):
                args = event.args
                self.calls.correlation.append((_id(args.correlation) or NONE) if type(args) is _Args else NONE)
        elif cat in GPU_OPS and self._record(self.ops, event, GPU_OPS[cat]):
            args = event.args if type(event.args) is _Args else _Args()
            self.ops.correlation.append(_id(args.correlation) or NONE)  # 0 is no launch
            self.op_args.append(
                (
                    self._number(event.pid if args.device is None else args.device),
                    self._number(event.tid if args.stream is None else args.stream),
                    moved if (moved := _id(args.bytes)) in _COPIES else NONE,
                    _id(args.graph) or NONE,  # CUPTI: graph 0 is no graph
                    _id(args.graph_node) or NONE,
                    self._collective(args),
                )
            )

    def _record(self, into: _Records, event: _Event, kind: int) -> bool:
        start, dur = to_ns(bytes(event.ts)), to_ns(bytes(event.dur))
        if start is None or dur is None or not self._is_time(start, dur, into):
            self.untimed += 1
            return False
        if into is not self.host:
            self.total_ns += abs(dur)
            self.finer_than_us = self.finer_than_us or bool(start % 1000 or dur % 1000)
            self.starts.append(start)
        name = _text(event.name)
        into.start.append(start + self.base_ns)
        into.end.append(start + self.base_ns + dur)
        into.name.append(self.names.setdefault(name, len(self.names)))
        into.process.append(self._number(event.pid))
        into.thread.append(self._number(event.tid))
        into.kind.append(kind)
        into.position.append(self.timed)
        self.timed += 1
        return True

    def _is_time(self, start: int, dur: int, into: _Records) -> bool:
        """Whether no difference of times and no sum of durations leaves 64 bits with this record."""
        begin = start + self.base_ns
        return begin in _TIMES and begin + dur in _TIMES and (into is self.host or self.total_ns + abs(dur) in _TIMES)

    def _collective(self, args: _Args) -> int:
        parts = [bytes(part) for part in (args.collective, args.group, args.ranks)]
        if not any(parts) or sum(map(len, parts)) > 4096:
            return NONE
        text = f"[{','.join(part.decode('utf-8', 'replace') or 'null' for part in parts)}]"
        return self.collectives.setdefault(text, len(self.collectives))

    def _shapes(self, event: _Event) -> int:
        args = event.args if type(event.args) is _Args else _Args()
        dims, types = bytes(args.dims) or bytes(args.older_dims), bytes(args.types) or b"[]"
        if not dims or len(dims) > 4096:
            return NONE
        text = f"[{dims.decode('utf-8', 'replace')},{types.decode('utf-8', 'replace')}]"
        return self.shapes.setdefault(text, len(self.shapes))

    def _number(self, value: Any) -> int:
        """A process, thread, device or stream as a number: its own where it has one, else one of ours below -1."""
        whole = _whole(value)
        return self.ids.setdefault(_text(value), -2 - len(self.ids)) if whole is None else whole

    def trace(
        self, source: Source, document: _Document, *, events: int, notices: tuple[Notice, ...], complete: bool
    ) -> Trace:
        """The tables, linked and sorted by start."""
        names = tuple(self.names)
        grid_ns = self._grid_ns() if self.ops.start else 1
        ops, calls = self._gpu_columns(), self._calls()
        ops["process"] = home_processes(ops, calls)
        if lost := outside(ops, calls, self.base_ns):
            ops, calls = without(lost, ops, calls)
            notices, complete = (*notices, Notice("outside_session", "", len(lost))), False
        launch_call, ops["launch_row"] = link(ops["process"], ops["correlation"], calls)
        blocks = np.array([_blocks(name) for name in names], np.bool_)
        blocking_call = np.flatnonzero(blocks[calls.api])
        launches, blocking = calls.take(launch_call), calls.take(blocking_call)
        neither = np.ones(len(calls), np.bool_)
        neither[launch_call] = neither[blocking_call] = False
        host_ops = self._host_ops(calls.take(neither))
        slack_ns = 0 if grid_ns == 1 else grid_ns
        is_graph = np.array(["GraphLaunch" in name for name in names], np.bool_)
        return Trace(
            source=source,
            names=names,
            gpu_ops=GpuOps(**ops),
            launches=Launches(
                start_ns=launches.start_ns,
                end_ns=launches.end_ns,
                api=launches.api,
                process=launches.process,
                thread=launches.thread,
                correlation=launches.correlation,
                is_graph=is_graph[launches.api],
                operator_row=innermost_operators(host_ops, launches, slack_ns),
            ),
            blocking_calls=BlockingCalls(
                start_ns=blocking.start_ns,
                end_ns=blocking.end_ns,
                api=blocking.api,
                process=blocking.process,
                thread=blocking.thread,
                operator_row=innermost_operators(host_ops, blocking, slack_ns),
            ),
            host_ops=host_ops,
            events=events,
            device_names=_device_names(_value(document.devices), np.unique(ops["device"])),
            rank=_count(_value(document.distributed), "rank"),
            grid_ns=grid_ns,
            notices=notices,
            complete=complete,
            shapes=tuple(self.shapes),
            collectives=tuple(self.collectives),
            world_size=_count(_value(document.distributed), "world_size"),
            group_ranks=_group_ranks(_value(document.distributed)),
        )

    def _grid_ns(self) -> int:
        """1000: whole µs; 250: µs since 1970 as doubles, printed in full or as short as tells them apart."""
        if not self.finer_than_us:
            return 1000
        if min(self.starts) < 2**50 * 1000:
            return 1
        if all(start % 1000 == 0 for start in self.starts):
            return 1000
        return (
            250
            if all(f"{start % 1000:03}" in ("000", "200", "250", "500", "750", "800") for start in self.starts)
            else 1
        )

    def _gpu_columns(self) -> dict[str, Ints]:
        """Columns of GpuOps, still without links; ``process`` is the pid, which Kineto makes the device."""
        records = self.ops
        order = np.argsort(np.array(records.start, np.int64), kind="stable")
        args = np.array(self.op_args, np.int64).reshape(-1, len(_OP_ARGS))
        columns = {
            "start_ns": records.start,
            "end_ns": records.end,
            "kind": records.kind,
            "name": records.name,
            "process": records.process,
            "correlation": records.correlation,
            **{name: args[:, index] for index, name in enumerate(_OP_ARGS)},
        }
        return {name: np.asarray(column, np.int64)[order] for name, column in columns.items()}

    def _calls(self) -> Calls:
        """Runtime and driver calls by start."""
        records = self.calls
        columns = (records.start, records.end, records.name, records.process, records.thread)
        calls = Calls(*(np.array(column, np.int64) for column in (*columns, records.correlation, records.position)))
        return calls.take(np.argsort(calls.start_ns, kind="stable"))

    def _host_ops(self, calls: Calls) -> HostOps:
        """Operators, annotations, Python frames and the given calls, by start."""
        records = self.host
        start = np.concatenate([np.array(records.start, np.int64), calls.start_ns])
        position = np.concatenate([np.array(records.position, np.int64), calls.position])
        table = HostOps(
            start_ns=start,
            end_ns=np.concatenate([np.array(records.end, np.int64), calls.end_ns]),
            name=np.concatenate([np.array(records.name, np.int64), calls.api]),
            kind=np.concatenate([np.array(records.kind, np.int64), np.full(len(calls), HostKind.API, np.int64)]),
            process=np.concatenate([np.array(records.process, np.int64), calls.process]),
            thread=np.concatenate([np.array(records.thread, np.int64), calls.thread]),
            shapes=np.concatenate([np.array(self.host_shapes, np.int64), np.full(len(calls), NONE, np.int64)]),
        )
        return table.take(np.lexsort((position, start)))


def to_ns(text: bytes) -> int | None:
    """The nanoseconds of a JSON number or string of µs, exactly; None where it is no time that 64 bits hold."""
    whole, _, fraction = text.partition(b".")
    if len(fraction) == 3 and fraction.isdigit() and whole.removeprefix(b"-").isdigit():
        ns = int(whole + fraction)
    else:
        try:
            us = Decimal(text.decode("ascii", "replace").strip('" '))
        except InvalidOperation:
            return None
        if not us.is_finite() or us.adjusted() > 18:
            return None
        ns = int((us * 1000).to_integral_value())
    if 2**63 <= ns < 2**64:
        ns -= 2**64  # an unsigned counter that ran below zero: the difference of two clocks
    return ns if ns in _INT64 else None


def _whole(value: Any) -> int | None:
    """A whole number that 64 bits hold, also one written as text or as 7.0, as tools built on pandas write ids back."""
    if (type(value) is str and _DIGITS.fullmatch(value.strip())) or (type(value) is float and value.is_integer()):
        value = int(value)
    return value if type(value) is int and value in _INT64 else None


def _id(value: Any) -> int:
    whole = _whole(value)
    return NONE if whole is None else whole


def _text(value: Any) -> str:
    """A name or id as text; what nests deeper than Python can print has none."""
    try:
        return value if type(value) is str else str(value)
    except (RecursionError, ValueError):
        return "?"


def _blocks(api: str) -> bool:
    """Whether a host call with this name waits for the GPU."""
    return "Synchronize" in api or _BLOCKING_COPY.match(api) is not None


def _device_names(properties: Any, devices: Ints) -> dict[int, str | None]:
    """The name of every device that ran a GPU op; null where the file has none or a blank one."""
    listed = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    names = {entry.get("id"): entry.get("name") for entry in listed if isinstance(entry.get("id"), int)}
    return {int(device): _text(names.get(device) or "").strip() or None for device in devices.tolist()}


def _count(distributed: Any, name: str) -> int | None:
    count = distributed.get(name) if isinstance(distributed, dict) else None
    return count if type(count) is int and count in _INT64 else None


def _group_ranks(distributed: Any) -> tuple[tuple[int, ...], ...]:
    groups = distributed.get("pg_config") if isinstance(distributed, dict) else None
    listed = [group.get("ranks") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return tuple(
        tuple(ranks)
        for ranks in listed
        if isinstance(ranks, list) and all(type(rank) is int and rank in _INT64 for rank in ranks)
    )


def _log(document: _Document) -> list[str]:
    """What the profiler itself had to say."""
    logs = (_value(log) for log in (document.remarks, document.warnings, document.errors))
    return [line for log in logs if isinstance(log, list) for line in log if isinstance(line, str)]


def _lost_records(document: _Document) -> list[Notice]:
    """What the profiler's own log says about records that are not in the file."""
    dropped = sum(int(found) for line in _log(document) for found in _DROPPED.findall(line))
    notices = []
    if dropped:
        text = f"the profiler says that it dropped {dropped:,} records; record fewer steps"
        notices.append(Notice("lost_records", text, dropped))
    if any(_STOPPED_EARLY in line for line in _log(document)):
        text = "the profiler says that CUPTI stopped early, its buffers full: records are lost; record fewer steps"
        notices.append(Notice("lost_records", text))
    return notices
