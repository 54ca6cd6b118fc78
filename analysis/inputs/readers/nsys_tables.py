"""Tables of an export of Nsight Systems as columns of the trace: GPU ops, API calls, NVTX ranges, and their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ...model.trace import NONE, Bools, HostKind, HostOps, Ints, OpKind
from .assemble import Calls
from .sqlite_file import ABSENT, Database, Rows

ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"
OPS: Final = {
    ACTIVITY + "KERNEL": OpKind.KERNEL,
    ACTIVITY + "MEMCPY": OpKind.MEMCPY,
    ACTIVITY + "MEMSET": OpKind.MEMSET,
}
OP_COLUMNS: Final = (
    *("start", "end", "deviceId", "streamId", "globalPid", "correlationId", "bytes", "graphId", "graphNodeId"),
    *("demangledName", "shortName", "mangledName", "copyKind", "srcKind", "dstKind", "memKind"),
)
CALLS: Final = (ACTIVITY + "RUNTIME", ACTIVITY + "DRIVER")  # nsys has driver calls in the first
CALL_COLUMNS: Final = ("start", "end", "globalTid", "correlationId", "nameId")
GRAPHS: Final = ACTIVITY + "GRAPH_TRACE"
GRAPH_COLUMNS: Final = ("globalPid", "correlationId")
RANGES: Final = "NVTX_EVENTS"
RANGE_COLUMNS: Final = ("start", "end", "eventType", "globalTid", "textId", "domainId")
_RANGE_TYPES: Final = (59, 60, 70, 71)  # NvtxPushPopRange, NvtxStartEndRange, and the same of .nvtxt files
_DOMAIN: Final = 75  # NvtxDomainCreate
_ID_BITS: Final = 24  # of the thread, and of the process above it, in a serialized id
_ID: Final = (1 << _ID_BITS) - 1
_NODE_BITS: Final = 32  # of a node's number in its id; the id of its graph lies above
_COPIED: Final = 1 << 40  # bytes: no GPU has more than a TiB
_TIME: Final = 1 << 62  # ns: the difference of two times within fits 64 bits

Processes = Callable[[Ints], Ints]
"""Serialized ids → process numbers, NONE without one."""


def numbering(serialized: Sequence[Ints]) -> Processes:
    """Serialized ids → process numbers, NONE without one: the pid, or with the machine above it where pids collide."""
    above = np.unique(np.concatenate([np.unique(ids[ids != ABSENT] >> _ID_BITS) for ids in serialized]))
    mask = _ID if len(np.unique(above & _ID)) == len(above) else -1
    return lambda ids: np.where(ids == ABSENT, NONE, (ids >> _ID_BITS) & mask)


def gpu_columns(
    database: Database, tables: list[Rows], names: Names, process_of: Processes, base_ns: int
) -> tuple[dict[str, Ints], int]:
    """Columns of GpuOps without links, by start, and how many rows have no time. Devices are those of the process."""
    kernels, copies, sets = tables
    memory = memory_kinds(database)
    name = np.concatenate(
        [kernel_names(kernels, names), copy_names(copies, names, memory), set_names(sets, names, memory)]
    )
    kind = np.repeat(np.array(list(OPS.values()), np.int64), [len(rows) for rows in tables])
    raw = {column: np.concatenate([rows.columns[column] for rows in tables]) for column in OP_COLUMNS}
    node = raw["graphNodeId"]
    graph = np.where(node >> _NODE_BITS > 0, node >> _NODE_BITS, raw["graphId"])
    columns = {
        "start_ns": raw["start"] + base_ns,
        "end_ns": raw["end"] + base_ns,
        "kind": kind,
        "name": name,
        "device": np.where(raw["deviceId"] == ABSENT, 0, raw["deviceId"]),
        "stream": np.where(raw["streamId"] == ABSENT, NONE, raw["streamId"]),
        "process": process_of(raw["globalPid"]),
        "correlation": _correlation(raw["correlationId"]),
        "bytes": np.where((raw["bytes"] >= 0) & (raw["bytes"] <= _COPIED), raw["bytes"], NONE),
        "graph": np.where(graph > 0, graph, NONE),
        "graph_node": np.where(node > 0, node, NONE),
        "collective": np.full(len(node), NONE, np.int8),
    }
    timed = _is_timed(raw["start"], raw["end"], base_ns)
    rows = np.flatnonzero(timed)
    rows = rows[np.argsort(columns["start_ns"][rows], kind="stable")]
    return {column: values[rows] for column, values in columns.items()}, int((~timed).sum())


def api_calls(tables: list[Rows], names: Names, process_of: Processes, base_ns: int) -> tuple[Calls, int]:
    """Runtime and driver calls by start, and how many rows have no time."""
    raw = {column: np.concatenate([rows.columns[column] for rows in tables]) for column in CALL_COLUMNS}
    api = names.of_ids(raw["nameId"], api_name)
    calls = Calls(
        start_ns=raw["start"] + base_ns,
        end_ns=raw["end"] + base_ns,
        api=np.where(api == NONE, names.add("unnamed call"), api) if (api == NONE).any() else api,
        process=process_of(raw["globalTid"]),
        thread=_thread(raw["globalTid"]),
        correlation=_correlation(raw["correlationId"]),
        position=np.arange(len(api)),
    )
    timed = _is_timed(raw["start"], raw["end"], base_ns)
    rows = np.flatnonzero(timed)
    return calls.take(rows[np.argsort(calls.start_ns[rows], kind="stable")]), int((~timed).sum())


def nvtx_ranges(ranges: Rows, names: Names, process_of: Processes, base_ns: int) -> HostOps:
    """Closed NVTX ranges; marks, and ranges that the recording cut off, have no end."""
    columns = ranges.columns
    start, end, kind = columns["start"], columns["end"], columns["eventType"]
    keep = _is_timed(start, end, base_ns) & (np.isin(kind, _RANGE_TYPES) | (kind == ABSENT))
    process, domain = process_of(columns["globalTid"]), columns["domainId"]
    created = (kind == _DOMAIN) & (ranges.text != NONE) & (domain > 0)
    texts = zip(process[created].tolist(), domain[created].tolist(), ranges.text[created].tolist(), strict=True)
    domain_of = {(process_id, domain_id): text for process_id, domain_id, text in texts}
    keys = zip(process[keep].tolist(), domain[keep].tolist(), strict=True)
    domain_text = np.array([domain_of.get(key, NONE) for key in keys], np.int64)
    return HostOps(
        start_ns=start[keep] + base_ns,
        end_ns=end[keep] + base_ns,
        name=range_names(ranges, keep, domain_text, names),
        kind=np.full(int(keep.sum()), HostKind.ANNOTATION, np.int64),
        process=process[keep],
        thread=_thread(columns["globalTid"])[keep],
        shapes=np.full(int(keep.sum()), NONE, np.int64),
    )


def with_calls(host: HostOps, calls: Calls) -> HostOps:
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


def _is_timed(start: Ints, end: Ints, base_ns: int) -> Bools:
    """Rows with both times, and neither differences nor sums that leave 64 bits."""
    low, high = base_ns - _TIME, _TIME - base_ns
    timed = (low < start) & (start < high) & (low < end) & (end < high)
    length = np.where(timed, np.abs(np.where(timed, end, 0) - np.where(timed, start, 0)), 0)
    if length.sum(dtype=np.float64) >= _TIME // 2:
        timed &= length < _TIME // 2 // len(length)
    return timed


def _thread(serialized: Ints) -> Ints:
    return np.where(serialized == ABSENT, NONE, serialized & _ID)


def _correlation(ids: Ints) -> Ints:
    """CUPTI counts from 1; what no call asked for, as the migration of a page, has 0."""
    return np.where((ids == ABSENT) | (ids == 0), NONE, ids)


STRINGS: Final = "StringIds"
_API_VERSION: Final = re.compile(r"_v\d{4,5}$")
"""cudaLaunchKernel_v7000: the CUDA version that brought the call, which nsys's own reports leave out as well."""

_COPIES: Final = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
"""CUpti_ActivityMemcpyKind, https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html"""

_MIGRATIONS: Final = {11: "HtoD", 12: "DtoH", 13: "DtoD"}  # nsys's own: pages of unified memory
_KINDS: Final = 1 << 8  # more kinds of copies and memory than there are


class Names:
    """The interned names of the trace in the making."""

    def __init__(self, database: Database) -> None:
        strings = database.read(STRINGS, ("id",), text="value")
        known = (*strings.texts, None)  # the last for NONE
        ids, texts = strings.columns["id"].tolist(), strings.text.tolist()
        self._strings = {id: known[text] for id, text in zip(ids, texts, strict=True) if id != ABSENT}
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

    def of_ids(self, ids: Ints, change: Callable[[str], str] = str) -> Ints:
        """The name of each id of the table of strings, changed; NONE where the table lacks it."""
        distinct, place = np.unique(ids, return_inverse=True)
        texts = [self._strings.get(id) for id in distinct.tolist()]
        self._missing |= {
            id
            for id, text in zip(distinct.tolist(), texts, strict=True)
            if (text is None or "\0" in text) and id != ABSENT
        }
        return np.array([NONE if text is None else self.add(change(text)) for text in texts], np.int64)[place]

    def of_texts(self, rows: Rows, keep: Bools) -> Ints:
        """The name that the kept rows' own text is; NONE where they have none."""
        codes = rows.text[keep]
        name_of = np.full(len(rows.texts) + 1, NONE, np.int64)  # the last for NONE
        for code in np.unique(codes[codes != NONE]).tolist():
            name_of[code] = self.add(rows.texts[code])
        return name_of[codes]


def api_name(name: str) -> str:
    """The call's name without the CUDA version that brought it: cudaLaunchKernel_v7000 is cudaLaunchKernel."""
    return _API_VERSION.sub("", name)


def kernel_names(rows: Rows, names: Names) -> Ints:
    """Demangled names; the short or the mangled one where there is none."""
    found = np.full(len(rows), NONE, np.int64)
    for column in ("demangledName", "shortName", "mangledName"):
        missing = found == NONE
        found[missing] = names.of_ids(rows.columns[column][missing])
    return _or(found, "unnamed kernel", names)


def copy_names(rows: Rows, names: Names, memory: dict[int, str]) -> Ints:
    """As CUPTI's other users call them: Memcpy HtoD (Pageable -> Device), as far as the file knows the kinds."""

    def name(key: int) -> str:
        kind, ends = key // _KINDS**2, [memory.get(end) for end in (key // _KINDS % _KINDS, key % _KINDS)]
        if kind in _MIGRATIONS:
            return f"Memcpy {_MIGRATIONS[kind]} (unified memory)"
        direction = _COPIES[kind] if kind < len(_COPIES) else ""
        return f"Memcpy {direction}".strip() + ("" if None in ends else f" ({ends[0]} -> {ends[1]})")

    return _by_kind(rows, ("copyKind", "srcKind", "dstKind"), name, names)


def set_names(rows: Rows, names: Names, memory: dict[int, str]) -> Ints:
    """Memset (Device), as far as the file knows the kind of memory."""
    return _by_kind(rows, ("memKind",), lambda kind: f"Memset ({memory[kind]})" if kind in memory else "Memset", names)


def memory_kinds(database: Database) -> dict[int, str]:
    """The words for kinds of memory, which nsys numbers in its own way; none in exports before 2021."""
    rows = database.read("ENUM_CUDA_MEM_KIND", ("id",), text="label")
    ids, texts = rows.columns["id"].tolist(), rows.text.tolist()
    return {id: rows.texts[text] for id, text in zip(ids, texts, strict=True) if text != NONE and id < _KINDS - 1}


def range_names(rows: Rows, keep: Bools, domain: Ints, names: Names) -> Ints:
    """Text of the kept ranges, their own or of the table of strings, behind their domain's name: NCCL:ncclAllReduce.

    ``domain`` holds the index into ``rows.texts`` of each kept range's domain, NONE for one without a name.
    """
    found = names.of_texts(rows, keep)
    missing = found == NONE
    found[missing] = names.of_ids(rows.columns["textId"][keep][missing])
    found = _or(found, "?", names)
    inside = np.flatnonzero(domain != NONE)
    texts = names.all
    pairs, place = np.unique(domain[inside] * len(texts) + found[inside], return_inverse=True)
    full = [f"{rows.texts[pair // len(texts)]}:{texts[pair % len(texts)]}" for pair in pairs.tolist()]
    found[inside] = np.array([names.add(name) for name in full], np.int64)[place]
    return found


def _by_kind(rows: Rows, columns: tuple[str, ...], name: Callable[[int], str], names: Names) -> Ints:
    """A name for each combination of the kinds in these columns; a kind that is absent or odd is _KINDS - 1."""
    key = np.zeros(len(rows), np.int64)
    for column in columns:
        kind = rows.columns[column]
        key = key * _KINDS + np.where((kind >= 0) & (kind < _KINDS), kind, _KINDS - 1)
    distinct, place = np.unique(key, return_inverse=True)
    return np.array([names.add(name(k)) for k in distinct.tolist()], np.int64)[place]


def _or(found: Ints, otherwise: str, names: Names) -> Ints:
    return np.where(found == NONE, names.add(otherwise), found) if (found == NONE).any() else found
