"""A slow reader of Nsight Systems exports: one row after the other, by the words of docs/formats.md."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from launchscope.analysis.inputs.readers.assemble import Calls
from launchscope.analysis.model.trace import (
    NONE,
    BlockingCalls,
    GpuOps,
    HostKind,
    HostOps,
    Launches,
    Notice,
    OpKind,
    Source,
    Trace,
)

from ..analysis.inputs.readers.slow_links import home_processes, innermost_operators, link, outside, without

ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"
OPS: Final = {"KERNEL": OpKind.KERNEL, "MEMCPY": OpKind.MEMCPY, "MEMSET": OpKind.MEMSET}
KERNEL_NAMES: Final = ("demangledName", "shortName", "mangledName")
DIRECTIONS: Final = dict(enumerate(("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"), 1))
MIGRATIONS: Final = {11: "HtoD", 12: "DtoH", 13: "DtoD"}
KINDS: Final = range(255)  # of memory; nsys has some ten
LIMIT: Final = 2**62
_ID: Final = (1 << 24) - 1

Row = dict[str, Any]


class _File:
    """The rows of the tables that the file has."""

    def __init__(self, data: bytes) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self._connection.deserialize(data[:18] + b"\1\1" + data[20:])
        self.tables = {
            name
            for name, kind, sql in self._connection.execute("SELECT name, type, sql FROM sqlite_master")
            if kind == "table" and isinstance(sql, str) and sql.startswith("CREATE TABLE ")
        }

    def rows(self, table: str, *texts: str) -> list[Row]:
        """Every row: ``texts`` as text, the other columns as whole numbers; None for what is neither."""
        if table not in self.tables:
            return []
        names = [row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")') if row[1].isalnum()]
        cursor = self._connection.execute(f'SELECT {", ".join(names)} FROM "{table}" NOT INDEXED')
        return [
            {name: _text(value) if name in texts else _whole(value) for name, value in zip(names, row, strict=True)}
            for row in cursor
        ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    """As SQLite casts it; its smallest number stands for none."""
    if isinstance(value, float):
        value = (
            max(min(int(value), 2**63 - 1), -(2**63)) if abs(value) < 1e300 else (2**63 - 1 if value > 0 else -(2**63))
        )
    return value if isinstance(value, int) and value != -(2**63) else None


def read_nsys(data: bytes, source: Source) -> Trace:
    """The trace of an export that is no damaged file."""
    file = _File(data)
    ops = [row | {"kind": kind} for name, kind in OPS.items() for row in file.rows(ACTIVITY + name)]
    calls = [row for name in ("RUNTIME", "DRIVER") for row in file.rows(ACTIVITY + name)]
    graphs, ranges = file.rows(ACTIVITY + "GRAPH_TRACE"), file.rows("NVTX_EVENTS", "text")
    events = len(ops) + len(calls) + len(graphs) + len(ranges)
    recorded = {(row.get("globalPid"), row.get("correlationId")) for row in ops}
    ops += [
        row | {"kind": OpKind.GRAPH}
        for row in graphs
        if (row.get("globalPid"), row.get("correlationId")) not in recorded
    ]
    began = [row.get("utcEpochNs") for row in file.rows("TARGET_INFO_SESSION_START_TIME")[:1]]
    base = began[0] if began and began[0] is not None and 0 < began[0] < 2**61 else 0
    strings = {row.get("id"): row.get("value") for row in file.rows("StringIds", "value") if row.get("id") is not None}
    kinds = file.rows("ENUM_CUDA_MEM_KIND", "label")
    memory = {row.get("id"): row["label"] for row in kinds if row.get("label") is not None and row.get("id") in KINDS}
    serialized = [row.get("globalPid") for row in ops] + [row.get("globalTid") for row in (*calls, *ranges)]
    above = {id >> 24 for id in serialized if id is not None}
    mask = _ID if len({id & _ID for id in above}) == len(above) else -1

    def process(id: int | None) -> int:
        return NONE if id is None else (id >> 24) & mask

    timed_ops, timed_calls = _timed(ops, base), _timed(calls, base)
    lost = len(ops) + len(calls) - len(timed_ops) - len(timed_calls)
    timed_ops.sort(key=lambda row: row["start"])
    timed_calls.sort(key=lambda row: row["start"])
    names: dict[str, int] = {}

    def name(text: str) -> int:
        return names.setdefault(text, len(names))

    table = _columns(
        {
            "start_ns": [row["start"] + base for row in timed_ops],
            "end_ns": [row["end"] + base for row in timed_ops],
            "kind": [row["kind"] for row in timed_ops],
            "name": [name(_op_name(row, strings, memory)) for row in timed_ops],
            "device": [_or(row.get("deviceId"), 0) for row in timed_ops],
            "stream": [_or(row.get("streamId"), NONE) for row in timed_ops],
            "process": [process(row.get("globalPid")) for row in timed_ops],
            "correlation": [row.get("correlationId") or NONE for row in timed_ops],
            "bytes": [size if 0 <= (size := _or(row.get("bytes"), -1)) <= 2**40 else NONE for row in timed_ops],
            "graph": [_graph(row) for row in timed_ops],
            "graph_node": [node if (node := row.get("graphNodeId") or 0) > 0 else NONE for row in timed_ops],
            "collective": [NONE] * len(timed_ops),
        }
    )
    called = Calls(
        **_columns(
            {
                "start_ns": [row["start"] + base for row in timed_calls],
                "end_ns": [row["end"] + base for row in timed_calls],
                "api": [name(_api(strings.get(row.get("nameId")))) for row in timed_calls],
                "process": [process(row.get("globalTid")) for row in timed_calls],
                "thread": [_thread(row) for row in timed_calls],
                "correlation": [row.get("correlationId") or NONE for row in timed_calls],
                "position": range(len(timed_calls)),
            }
        )
    )
    if NONE in table["process"]:
        home = home_processes(table, called)
        table["process"] = np.where(table["process"] == NONE, home, table["process"])
    table["device"], device_names = _devices(file, table["process"].tolist(), table["device"].tolist())
    if apart := outside(table, called, base):
        table, called = without(apart, table, called)
    launches, table["launch_row"] = link(table["process"], table["correlation"], called)
    blocking = [row for row, api in enumerate(called.api.tolist()) if _blocks(tuple(names)[api])]
    others = called.take(np.array(sorted({*range(len(called))} - {*launches.tolist(), *blocking}), np.int64))
    domains = {
        (process(row.get("globalTid")), row["domainId"]): row["text"]
        for row in ranges
        if row.get("eventType") == 75 and row.get("text") is not None and (row.get("domainId") or 0) > 0
    }
    host: list[tuple[int, int, str, int, int, int]] = [
        (
            row["start"] + base,
            row["end"] + base,
            _range_name(row, strings, domains, process),
            HostKind.ANNOTATION,
            process(row.get("globalTid")),
            _thread(row),
        )
        for row in _ranges(ranges, base)
    ]
    host += [
        (start, end, tuple(names)[api], HostKind.API, own, thread)
        for start, end, api, own, thread in _rows(others, "start_ns", "end_ns", "api", "process", "thread")
    ]
    host.sort(key=lambda row: (row[0], -row[1]))
    host_ops = HostOps(
        **_columns(
            {
                "start_ns": [row[0] for row in host],
                "end_ns": [row[1] for row in host],
                "name": [name(row[2]) for row in host],
                "kind": [row[3] for row in host],
                "process": [row[4] for row in host],
                "thread": [row[5] for row in host],
                "shapes": [NONE] * len(host),
            }
        )
    )
    launching, waiting = called.take(launches), called.take(np.array(blocking, np.int64))
    said = sum(
        "not all cuda events" in (row.get("text") or "").lower() for row in file.rows("DIAGNOSTIC_EVENT", "text")
    )
    nameless = _missing(ops, calls, _ranges(ranges, base), strings)
    counts = {"damaged_file": nameless, "unreadable_times": lost, "lost_records": said}
    counts["outside_session"] = len(apart)
    return Trace(
        source=source,
        names=tuple(names),
        gpu_ops=GpuOps(**table),
        launches=Launches(
            start_ns=launching.start_ns,
            end_ns=launching.end_ns,
            api=launching.api,
            process=launching.process,
            thread=launching.thread,
            correlation=launching.correlation,
            is_graph=np.array(["GraphLaunch" in tuple(names)[api] for api in launching.api.tolist()], np.bool_),
            operator_row=innermost_operators(host_ops, launching, 0),
        ),
        blocking_calls=BlockingCalls(
            start_ns=waiting.start_ns,
            end_ns=waiting.end_ns,
            api=waiting.api,
            process=waiting.process,
            thread=waiting.thread,
            operator_row=innermost_operators(host_ops, waiting, 0),
        ),
        host_ops=host_ops,
        events=events,
        device_names={device: name for device, name in device_names.items() if device in set(table["device"].tolist())},
        notices=tuple(Notice(code, "", count) for code, count in counts.items() if count),
        complete=not lost and not nameless and not apart,
    )


def _ranges(rows: list[Row], base: int) -> list[Row]:
    return [row for row in _timed(rows, base) if row.get("eventType") in (59, 60, 70, 71, None)]


def _missing(ops: list[Row], calls: list[Row], ranges: list[Row], strings: dict[int | None, str | None]) -> int:
    """How many names that a record refers to are not in the table of strings, or have zeros in them."""
    asked = {row.get("nameId") for row in calls}
    asked |= {row.get("textId") for row in ranges if row.get("text") is None}
    for row in ops:
        for column in KERNEL_NAMES if row["kind"] == OpKind.KERNEL else ():
            asked.add(row.get(column))
            if strings.get(row.get(column)) is not None:
                break
    found = [strings.get(id) for id in asked if id is not None]
    return sum(text is None or "\0" in text for text in found)


def _timed(rows: list[Row], base: int) -> list[Row]:
    """Rows with two times whose differences and sums 64 bits hold."""
    low, high = base - LIMIT, LIMIT - base
    timed = [
        row for row in rows if all(_or(row.get(edge), low) > low and row[edge] < high for edge in ("start", "end"))
    ]
    if sum(abs(float(row["end"] - row["start"])) for row in timed) >= LIMIT // 2:
        most = LIMIT // 2 // len(rows)
        timed = [row for row in timed if abs(row["end"] - row["start"]) < most]
    return timed


def _op_name(row: Row, strings: dict[int | None, str | None], memory: dict[int | None, str]) -> str:
    if row["kind"] == OpKind.KERNEL:
        ids = [row.get(column) for column in KERNEL_NAMES]
        return next((text for id in ids if (text := strings.get(id)) is not None), "unnamed kernel")
    if row["kind"] == OpKind.GRAPH:
        return "graph replay, recorded as a whole"
    if row["kind"] == OpKind.MEMSET:
        kept = memory.get(row.get("memKind")) if row.get("memKind") is not None else None
        return "Memset" if kept is None else f"Memset ({kept})"
    kind = _or(row.get("copyKind"), 0)
    if kind in MIGRATIONS:
        return f"Memcpy {MIGRATIONS[kind]} (unified memory)"
    ends = [memory.get(row.get(end)) if row.get(end) is not None else None for end in ("srcKind", "dstKind")]
    direction = f"Memcpy {DIRECTIONS[kind]}" if kind in DIRECTIONS else "Memcpy"
    return direction if None in ends else f"{direction} ({ends[0]} -> {ends[1]})"


def _api(text: str | None) -> str:
    return "unnamed call" if text is None else re.sub(r"_v\d{4,5}$", "", text)


def _blocks(api: str) -> bool:
    return "Synchronize" in api or re.match(r"(?:cuda|hip|cu)Memcpy(?!.*Async)", api) is not None


def _range_name(
    row: Row, strings: dict[int | None, str | None], domains: dict[tuple[int, int], str], process: Any
) -> str:
    text = row.get("text")
    text = strings.get(row.get("textId")) if text is None else text
    text = "?" if text is None else text
    domain = domains.get((process(row.get("globalTid")), _or(row.get("domainId"), NONE)))
    return text if domain is None else f"{domain}:{text}"


def _graph(row: Row) -> int:
    graph = (row.get("graphNodeId") or 0) >> 32
    graph = graph if graph > 0 else _or(row.get("graphId"), 0)
    return graph if graph > 0 else NONE


def _thread(row: Row) -> int:
    return NONE if row.get("globalTid") is None else row["globalTid"] & _ID


def _devices(file: _File, processes: list[int], devices: list[int]) -> tuple[Any, dict[int, str | None]]:
    """The devices, by the machine's numbers where processes mean different ones by one id; and their names."""
    seen = {(row.get("pid"), row.get("cudaId")): row.get("gpuId") for row in file.rows("TARGET_INFO_CUDA_DEVICE")}
    gpus = file.rows("TARGET_INFO_GPU", "name")
    called = {row.get("id"): row["name"].strip() or None for row in gpus if row.get("name") is not None}
    used = sorted(set(zip(processes, devices, strict=True)))
    meant = {(device, seen[process, device]) for process, device in used if (process, device) in seen}
    gpu = {pair: seen.get(pair, pair[1]) for pair in used}
    clash = len({device for device, _ in meant}) < len(meant)
    number = {pair: _or(gpu[pair], -(2**63)) if clash else pair[1] for pair in used}
    found = np.array([number[pair] for pair in zip(processes, devices, strict=True)], np.int64)
    return found, {number[pair]: called.get(gpu[pair]) for pair in used}


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _columns(columns: dict[str, Iterable[int]]) -> dict[str, Any]:
    return {name: np.array(list(values), np.int64) for name, values in columns.items()}


def _rows(table: Any, *names: str) -> Iterable[tuple[int, ...]]:
    return zip(*(getattr(table, name).tolist() for name in names), strict=True)


def _rows_of(table: dict[str, Any], *names: str) -> Iterable[Sequence[int]]:
    return zip(*(table[name].tolist() for name in names), strict=True)
