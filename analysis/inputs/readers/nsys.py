"""Nsight Systems: what ``nsys export --type sqlite`` writes, 2020 to 2026. This file owns its names.

Defined by https://docs.nvidia.com/nsight-systems/2021.5/nsys-exporter/exported_data.html ("SQLite Export Schema
Reference") and later editions of it. Tables are written only when there is something for them and columns come and go,
so each may be absent. Times are ns since the session began.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ...model.errors import UnreadableInput
from ...model.trace import NONE, Bools, HostKind, HostOps, Ints, Notice, OpKind, Source, Trace
from .assemble import Calls, FileFacts, assemble, home_processes, require_few
from .in_session import in_session
from .sqlite_file import ABSENT, Database, Rows, open_bytes, open_file

FORMAT: Final = "nsys-sqlite"
_RECORD: Final = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node"
_ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"
_OPS: Final = {
    _ACTIVITY + "KERNEL": OpKind.KERNEL,
    _ACTIVITY + "MEMCPY": OpKind.MEMCPY,
    _ACTIVITY + "MEMSET": OpKind.MEMSET,
}
_OP_COLUMNS: Final = (
    *("start", "end", "deviceId", "streamId", "globalPid", "correlationId", "bytes", "graphId", "graphNodeId"),
    *("demangledName", "shortName", "mangledName", "copyKind", "srcKind", "dstKind", "memKind"),
)
_CALLS: Final = (_ACTIVITY + "RUNTIME", _ACTIVITY + "DRIVER")  # nsys has driver calls in the first
_CALL_COLUMNS: Final = ("start", "end", "globalTid", "correlationId", "nameId")
_GRAPHS: Final = _ACTIVITY + "GRAPH_TRACE"
_WHOLE_REPLAY: Final = "graph replay, recorded as a whole"
_RANGES: Final = "NVTX_EVENTS"
_RANGE_COLUMNS: Final = ("start", "end", "eventType", "globalTid", "textId", "domainId")
_RANGE_TYPES: Final = (59, 60, 70, 71)  # NvtxPushPopRange, NvtxStartEndRange, and the same of .nvtxt files
_DOMAIN: Final = 75  # NvtxDomainCreate
_STRINGS: Final = "StringIds"
_ID_BITS: Final = 24  # of the thread, and of the process above it, in a serialized id
_ID: Final = (1 << _ID_BITS) - 1
_NODE_BITS: Final = 32  # of a node's number in its id; the id of its graph lies above
_COPIED: Final = 1 << 40  # bytes: no GPU has more than a TiB
_TIME: Final = 1 << 62  # ns: the difference of two times within fits 64 bits
_LATEST_START: Final = 1 << 61  # ns since 1970; 73 years on
_INCOMPLETE: Final = re.compile(r"not all cuda events", re.IGNORECASE)
_API_VERSION: Final = re.compile(r"_v\d{4,5}$")
"""cudaLaunchKernel_v7000: the CUDA version that brought the call, which nsys's own reports leave out as well."""

_COPIES: Final = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
"""CUpti_ActivityMemcpyKind, https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html"""

_MIGRATIONS: Final = {11: "HtoD", 12: "DtoH", 13: "DtoD"}  # nsys's own: pages of unified memory
_KINDS: Final = 1 << 8  # more kinds of copies and memory than there are


def read_nsys(path: Path, source: Source, progress: Callable[[str, int, int], None] | None = None) -> Trace:
    """Read an export of Nsight Systems. UnreadableInput says what the file is instead, or what it lacks."""
    with open_file(path, source.path) as database:
        return _read(database, source, progress)


def read_nsys_bytes(data: bytes, source: Source) -> Trace:
    """Read the bytes of an export, as unpacked from an archive."""
    with open_bytes(data, source.path) as database:
        return _read(database, source)


def _read(database: Database, source: Source, progress: Callable[[str, int, int], None] | None = None) -> Trace:
    _require_activities(database)
    if progress is not None:
        database = database.with_progress((*_OPS, *_CALLS, _GRAPHS, _RANGES, _STRINGS), progress)
    op_rows = [database.read(table, _OP_COLUMNS) for table in _OPS]
    call_rows = [database.read(table, _CALL_COLUMNS) for table in _CALLS]
    graphs = database.read(_GRAPHS, _OP_COLUMNS)
    ranges = database.read(_RANGES, _RANGE_COLUMNS, text="text")
    made = _Columns(
        database,
        [rows.columns["globalPid"] for rows in (*op_rows, graphs)]
        + [rows.columns["globalTid"] for rows in (*call_rows, ranges)],
    )
    ops, calls, host = (
        made.gpu_ops([*op_rows, _without_nodes(graphs, op_rows)]),
        made.calls(call_rows),
        made.nvtx_ranges(ranges),
    )
    require_few(source.path, ops, calls)
    if (ops["process"] == NONE).any():
        ops["process"] = np.where(ops["process"] == NONE, home_processes(ops, calls), ops["process"])
    ops["device"], device_names = _devices(database, ops["process"], ops["device"])
    losses = list(made.losses())
    facts = FileFacts(
        source=source,
        events=sum(len(rows) for rows in (*op_rows, *call_rows, graphs, ranges)),
        device_names=device_names,
        rank=None,
        notices=(*losses, *_diagnostics(database)),
        complete=not losses,
    )
    facts, ops, calls = in_session(facts, made.names.all, ops, calls, made.base_ns)
    return assemble(facts, made.names.all, ops, calls, lambda others: _with_calls(host, others))


def _require_activities(database: Database) -> None:
    """UnreadableInput where no table holds what a GPU did or what the CUDA API was asked for."""
    tables, path = database.tables, database.path
    activities = (*_OPS, *_CALLS, _GRAPHS)
    if "StringTable" in tables:
        raise UnreadableInput(f"{path}: a file of nvprof, the predecessor of Nsight Systems; record with {_RECORD}")
    if any(table.startswith("rocpd_") for table in tables):
        raise UnreadableInput(
            f"{path}: a ROCm rpd file, which is not read, nor is the JSON that rpd2tracing.py makes of it: that does "
            "not tell which events ran on the GPU; record with torch.profiler (docs/recording.md)"
        )
    for table in filter(None, map(database.named, activities)):
        for column in ("start", "end"):
            if column not in tables[table]:
                raise UnreadableInput(f"{path}: its table {table} has no column {column}: not as nsys exports it")
    if any(map(database.named, activities)):
        return
    if database.named(_STRINGS) or "META_DATA_EXPORT" in tables:
        raise UnreadableInput(
            f"{path}: an Nsight Systems export without CUDA activities: recorded without --trace=cuda, or no process "
            f"used the GPU meanwhile; record with {_RECORD} (docs/formats.md)"
        )
    raise UnreadableInput(
        f"{path}: an SQLite file without a table {_ACTIVITY}KERNEL, so not an export of Nsight Systems; "
        "nsys export --type sqlite REPORT.nsys-rep writes one"
    )


def _devices(database: Database, process: Ints, device: Ints) -> tuple[Ints, dict[int, str | None]]:
    """The device of each GPU op and the devices' names.

    A device id counts the devices that the process sees. Where two processes mean different GPUs by one id, as with
    CUDA_VISIBLE_DEVICES, the machine's own numbers of the GPUs take its place, so that devices are never merged.
    """
    seen = database.read("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")).columns
    columns = (seen["pid"].tolist(), seen["cudaId"].tolist(), seen["gpuId"].tolist())
    gpu_of = {(pid, cuda): gpu for pid, cuda, gpu in zip(*columns, strict=True)}
    gpus = database.read("TARGET_INFO_GPU", ("id",), text="name").labels("id")
    name_of = {id: name.strip() or None for id, name in gpus if name is not None}
    processes, process_at = np.unique(process, return_inverse=True)
    devices, device_at = np.unique(device, return_inverse=True)
    pairs, pair_at = np.unique(process_at * len(devices) + device_at, return_inverse=True)
    used = [(int(processes[pair // len(devices)]), int(devices[pair % len(devices)])) for pair in pairs.tolist()]
    meant = {(id, gpu_of[pid, id]) for pid, id in used if (pid, id) in gpu_of}
    gpu = [gpu_of.get(pair, pair[1]) for pair in used]
    number = gpu if len({id for id, _ in meant}) < len(meant) else [id for _, id in used]
    return np.array(number, np.int64)[pair_at], {n: name_of.get(g) for n, g in zip(number, gpu, strict=True)}


def _without_nodes(graphs: Rows, op_tables: Sequence[Rows]) -> Rows:
    """Replays that nsys recorded as a whole, as it does unless told otherwise: those without ops of theirs."""
    ids = ("globalPid", "correlationId")
    recorded: set[tuple[int, int]] = set()
    for rows in op_tables if len(graphs) else ():
        near = np.isin(rows.columns["correlationId"], graphs.columns["correlationId"])
        recorded |= set(zip(*(rows.columns[name][near].tolist() for name in ids), strict=True))
    pairs = zip(*(graphs.columns[name].tolist() for name in ids), strict=True)
    keep = np.array([pair not in recorded for pair in pairs], np.bool_)
    return Rows({name: column[keep] for name, column in graphs.columns.items()}, graphs.text[keep], graphs.texts)


def _diagnostics(database: Database) -> Iterator[Notice]:
    """What nsys itself had to say about records that may be missing."""
    said = database.read("DIAGNOSTIC_EVENT", (), text="text")
    count = sum(_INCOMPLETE.search(said.texts[text]) is not None for text in said.text.tolist() if text != NONE)
    if count:
        text = "nsys says that not all CUDA events may have been collected; record fewer steps"
        yield Notice("lost_records", text, count)


class _Columns:
    """Columns of the trace in the making, out of the rows of an export's tables."""

    def __init__(self, database: Database, serialized: Sequence[Ints]) -> None:
        """``serialized`` are all ids of processes and threads."""
        self.names = _Names(database)
        # nsys numbers kinds of memory in its own way; exports before 2021 have no words for them
        kinds = database.read("ENUM_CUDA_MEM_KIND", ("id",), text="label").labels("id")
        self._memory = {id: label for id, label in kinds if label is not None and id < _KINDS - 1}
        began = database.read("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)).columns["utcEpochNs"][:1].tolist()
        self.base_ns = began[0] if began and 0 < began[0] < _LATEST_START else 0
        above = np.unique(np.concatenate([np.unique(ids[ids != ABSENT] >> _ID_BITS) for ids in serialized]))
        self._mask = _ID if len(np.unique(above & _ID)) == len(above) else -1  # with the machine where pids collide
        self._untimed = 0

    def process_of(self, serialized: Ints) -> Ints:
        """The number of each id's process, NONE without one."""
        return np.where(serialized == ABSENT, NONE, (serialized >> _ID_BITS) & self._mask)

    def losses(self) -> Iterator[Notice]:
        """What was left out. Nothing but damage takes a string away that a record refers to."""
        if count := self.names.missing:
            text = f"its table {_STRINGS} lacks {count:,} names that its records refer to; copy or export it again"
            yield Notice("damaged_file", text, count)
        if count := self._untimed:
            text = f"{count:,} records have no readable time and were left out; export the report again"
            yield Notice("unreadable_times", text, count)

    def gpu_ops(self, tables: list[Rows]) -> dict[str, Ints]:
        """Columns of GpuOps without links, by start. Devices are those of the process."""
        kernels, copies, sets, graphs = tables
        name = np.concatenate([self._kernel_names(kernels), self._copy_names(copies), self._set_names(sets)])
        if len(graphs):
            name = np.append(name, np.full(len(graphs), self.names.add(_WHOLE_REPLAY)))
        raw = {column: np.concatenate([rows.columns[column] for rows in tables]) for column in _OP_COLUMNS}
        node = raw["graphNodeId"]
        graph = np.where(node >> _NODE_BITS > 0, node >> _NODE_BITS, raw["graphId"])
        columns = {
            "start_ns": raw["start"] + self.base_ns,
            "end_ns": raw["end"] + self.base_ns,
            "kind": np.repeat(np.array([*_OPS.values(), OpKind.GRAPH], np.int64), [len(rows) for rows in tables]),
            "name": name,
            "device": np.where(raw["deviceId"] == ABSENT, 0, raw["deviceId"]),
            "stream": np.where(raw["streamId"] == ABSENT, NONE, raw["streamId"]),
            "process": self.process_of(raw["globalPid"]),
            "correlation": _correlation(raw["correlationId"]),
            "bytes": np.where((raw["bytes"] >= 0) & (raw["bytes"] <= _COPIED), raw["bytes"], NONE),
            "graph": np.where(graph > 0, graph, NONE),
            "graph_node": np.where(node > 0, node, NONE),
            "collective": np.full(len(node), NONE, np.int8),
        }
        rows = self._timed_rows(raw)
        return {column: values[rows] for column, values in columns.items()}

    def calls(self, tables: list[Rows]) -> Calls:
        """Runtime and driver calls by start."""
        raw = {column: np.concatenate([rows.columns[column] for rows in tables]) for column in _CALL_COLUMNS}
        api = self.names.of_ids(raw["nameId"], lambda name: _API_VERSION.sub("", name))
        calls = Calls(
            start_ns=raw["start"] + self.base_ns,
            end_ns=raw["end"] + self.base_ns,
            api=self.names.or_else(api, "unnamed call"),
            process=self.process_of(raw["globalTid"]),
            thread=_thread(raw["globalTid"]),
            correlation=_correlation(raw["correlationId"]),
            position=np.arange(len(api)),
        )
        return calls.take(self._timed_rows(raw))

    def nvtx_ranges(self, ranges: Rows) -> HostOps:
        """Closed NVTX ranges; marks, and ranges that the recording cut off, have no end."""
        columns = ranges.columns
        start, end, kind = columns["start"], columns["end"], columns["eventType"]
        keep = self._is_timed(start, end) & (np.isin(kind, _RANGE_TYPES) | (kind == ABSENT))
        process, domain = self.process_of(columns["globalTid"]), columns["domainId"]
        created = (kind == _DOMAIN) & (ranges.text != NONE) & (domain > 0)
        texts = zip(process[created].tolist(), domain[created].tolist(), ranges.text[created].tolist(), strict=True)
        domain_of = {(process_id, domain_id): text for process_id, domain_id, text in texts}
        keys = zip(process[keep].tolist(), domain[keep].tolist(), strict=True)
        domain_text = np.array([domain_of.get(key, NONE) for key in keys], np.int64)
        return HostOps(
            start_ns=start[keep] + self.base_ns,
            end_ns=end[keep] + self.base_ns,
            name=self._range_names(ranges, keep, domain_text),
            kind=np.full(int(keep.sum()), HostKind.ANNOTATION, np.int64),
            process=process[keep],
            thread=_thread(columns["globalTid"])[keep],
            shapes=np.full(int(keep.sum()), NONE, np.int64),
        )

    def _timed_rows(self, raw: dict[str, Ints]) -> Ints:
        """Rows that have both times, by start; the others are counted."""
        timed = self._is_timed(raw["start"], raw["end"])
        self._untimed += int((~timed).sum())
        rows = np.flatnonzero(timed)
        return rows[np.argsort(raw["start"][rows], kind="stable")]

    def _is_timed(self, start: Ints, end: Ints) -> Bools:
        """Rows with both times, and neither differences nor sums that leave 64 bits."""
        low, high = self.base_ns - _TIME, _TIME - self.base_ns
        timed = (low < start) & (start < high) & (low < end) & (end < high)
        length = np.where(timed, np.abs(np.where(timed, end, 0) - np.where(timed, start, 0)), 0)
        if length.sum(dtype=np.float64) >= _TIME // 2:
            timed &= length < _TIME // 2 // len(length)
        return timed

    def _kernel_names(self, rows: Rows) -> Ints:
        """Demangled names; the short or the mangled one where there is none."""
        found = np.full(len(rows), NONE, np.int64)
        for column in ("demangledName", "shortName", "mangledName"):
            missing = found == NONE
            found[missing] = self.names.of_ids(rows.columns[column][missing])
        return self.names.or_else(found, "unnamed kernel")

    def _copy_names(self, rows: Rows) -> Ints:
        """As CUPTI's other users call them: Memcpy HtoD (Pageable -> Device), as far as the file knows the kinds."""

        def name(key: int) -> str:
            kind, ends = key // _KINDS**2, [self._memory.get(end) for end in (key // _KINDS % _KINDS, key % _KINDS)]
            if kind in _MIGRATIONS:
                return f"Memcpy {_MIGRATIONS[kind]} (unified memory)"
            direction = _COPIES[kind] if kind < len(_COPIES) else ""
            return f"Memcpy {direction}".strip() + ("" if None in ends else f" ({ends[0]} -> {ends[1]})")

        return self._names_by_kind(rows, ("copyKind", "srcKind", "dstKind"), name)

    def _set_names(self, rows: Rows) -> Ints:
        """Memset (Device), as far as the file knows the kind of memory."""
        memory = self._memory
        return self._names_by_kind(
            rows, ("memKind",), lambda kind: f"Memset ({memory[kind]})" if kind in memory else "Memset"
        )

    def _names_by_kind(self, rows: Rows, columns: tuple[str, ...], name: Callable[[int], str]) -> Ints:
        """A name for each combination of the kinds in these columns; a kind that is absent or odd is _KINDS - 1."""
        key = np.zeros(len(rows), np.int64)
        for column in columns:
            kind = rows.columns[column]
            key = key * _KINDS + np.where((kind >= 0) & (kind < _KINDS), kind, _KINDS - 1)
        distinct, place = np.unique(key, return_inverse=True)
        return np.array([self.names.add(name(k)) for k in distinct.tolist()], np.int64)[place]

    def _range_names(self, rows: Rows, keep: Bools, domain: Ints) -> Ints:
        """Text of the kept ranges, their own or of the table of strings, behind their domain: NCCL:ncclAllReduce.

        ``domain`` holds the index into ``rows.texts`` of each kept range's domain, NONE for one without a name.
        """
        found = self.names.of_texts(rows, keep)
        missing = found == NONE
        found[missing] = self.names.of_ids(rows.columns["textId"][keep][missing])
        found = self.names.or_else(found, "?")
        inside = np.flatnonzero(domain != NONE)
        texts = self.names.all
        pairs, place = np.unique(domain[inside] * len(texts) + found[inside], return_inverse=True)
        full = [f"{rows.texts[pair // len(texts)]}:{texts[pair % len(texts)]}" for pair in pairs.tolist()]
        found[inside] = np.array([self.names.add(name) for name in full], np.int64)[place]
        return found


class _Names:
    """The interned names of the trace in the making."""

    def __init__(self, database: Database) -> None:
        strings = database.read(_STRINGS, ("id",), text="value").labels("id")
        self._strings = {id: text for id, text in strings if id != ABSENT}
        self._index: dict[str, int] = {}
        self._missing: set[int] = set()

    @property
    def missing(self) -> int:
        """How many ids were asked for that the table of strings lacks, or has with zeros where a disk lost a part."""
        return len(self._missing)

    @property
    def all(self) -> tuple[str, ...]:
        """Every name so far, in the order of their indices."""
        return tuple(self._index)

    def add(self, name: str) -> int:
        """The name's index."""
        return self._index.setdefault(name, len(self._index))

    def or_else(self, found: Ints, name: str) -> Ints:
        """The indices, with that of this name in place of NONE."""
        return np.where(found == NONE, self.add(name), found) if (found == NONE).any() else found

    def of_ids(self, ids: Ints, change: Callable[[str], str] = str) -> Ints:
        """The name of each id of the table of strings, changed; NONE where the table lacks it."""
        distinct, place = np.unique(ids, return_inverse=True)
        texts = {id: self._strings.get(id) for id in distinct.tolist()}
        self._missing |= {id for id, text in texts.items() if id != ABSENT and (text is None or "\0" in text)}
        found = [NONE if text is None else self.add(change(text)) for text in texts.values()]
        return np.array(found, np.int64)[place]

    def of_texts(self, rows: Rows, keep: Bools) -> Ints:
        """The name that the kept rows' own text is; NONE where they have none."""
        codes = rows.text[keep]
        name_of = np.full(len(rows.texts) + 1, NONE, np.int64)  # the last for NONE
        for code in np.unique(codes[codes != NONE]).tolist():
            name_of[code] = self.add(rows.texts[code])
        return name_of[codes]


def _with_calls(host: HostOps, calls: Calls) -> HostOps:
    """Host ops and the given calls, by start; of equal starts the longer first, as it is around the other."""
    more = {
        "start_ns": calls.start_ns,
        "end_ns": calls.end_ns,
        "name": calls.api,
        "kind": np.full(len(calls), HostKind.API, np.int64),
        "process": calls.process,
        "thread": calls.thread,
        "shapes": np.full(len(calls), NONE, np.int64),
    }
    both = HostOps(**{name: np.concatenate([getattr(host, name), column]) for name, column in more.items()})
    return both.take(np.lexsort((-both.end_ns, both.start_ns)))


def _thread(serialized: Ints) -> Ints:
    return np.where(serialized == ABSENT, NONE, serialized & _ID)


def _correlation(ids: Ints) -> Ints:
    """CUPTI counts from 1; what no call asked for, as the migration of a page, has 0."""
    return np.where((ids == ABSENT) | (ids == 0), NONE, ids)
