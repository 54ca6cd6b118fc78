"""Nsight Systems: what ``nsys export --type sqlite`` writes, 2020 to 2026. The nsys files here own its names.

Defined by https://docs.nvidia.com/nsight-systems/2021.5/nsys-exporter/exported_data.html ("SQLite Export Schema
Reference") and later editions of it. Tables are written only when there is something for them and columns come and go,
so each may be absent. Times are ns since the session began.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from ...model.errors import UnreadableInput
from ...model.trace import NONE, Ints, Notice, Source, Trace
from .assemble import FileFacts, assemble, home_processes, require_few
from .nsys_tables import (
    ACTIVITY,
    CALL_COLUMNS,
    CALLS,
    GRAPH_COLUMNS,
    GRAPHS,
    OP_COLUMNS,
    OPS,
    RANGE_COLUMNS,
    RANGES,
    STRINGS,
    Names,
    api_calls,
    gpu_columns,
    numbering,
    nvtx_ranges,
    with_calls,
)
from .sqlite_file import Database, open_bytes, open_file

FORMAT: Final = "nsys-sqlite"
_RECORD: Final = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node"
_INCOMPLETE: Final = re.compile(r"not all cuda events", re.IGNORECASE)
_LATEST_START: Final = 1 << 61  # ns since 1970; 73 years on


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
        database = database.told((*OPS, *CALLS, GRAPHS, RANGES, STRINGS), progress)
    op_rows = [database.read(table, OP_COLUMNS) for table in OPS]
    call_rows = [database.read(table, CALL_COLUMNS) for table in CALLS]
    graphs = database.read(GRAPHS, GRAPH_COLUMNS)
    ranges = database.read(RANGES, RANGE_COLUMNS, text="text")
    process_of = numbering(
        [rows.columns["globalPid"] for rows in op_rows] + [rows.columns["globalTid"] for rows in (*call_rows, ranges)]
    )
    names, base_ns = Names(database), _base_ns(database)
    ops, lost_ops = gpu_columns(database, op_rows, names, process_of, base_ns)
    calls, lost_calls = api_calls(call_rows, names, process_of, base_ns)
    host = nvtx_ranges(ranges, names, process_of, base_ns)
    require_few(source.path, ops, calls)
    if (ops["process"] == NONE).any():
        ops["process"] = np.where(ops["process"] == NONE, home_processes(ops, calls), ops["process"])
    ops["device"], device_names = _devices(database, ops["process"], ops["device"])
    replays = (process_of(graphs.columns["globalPid"]), graphs.columns["correlationId"])
    losses = [
        *_unnamed(names.missing),
        *_untimed(lost_ops + lost_calls),
        *_graph_level(*replays, ops["process"], ops["correlation"]),
    ]
    facts = FileFacts(
        source=source,
        events=sum(len(rows) for rows in (*op_rows, *call_rows, graphs, ranges)),
        device_names=device_names,
        rank=None,
        notices=(*losses, *_diagnostics(database)),
        complete=not losses,
    )
    return assemble(facts, names.all, ops, calls, lambda others: with_calls(host, others))


def _require_activities(database: Database) -> None:
    """UnreadableInput where no table holds what a GPU did or what the CUDA API was asked for."""
    tables, path = database.tables, database.path
    activities = (*OPS, *CALLS, GRAPHS)
    if "StringTable" in tables:
        raise UnreadableInput(f"{path}: a file of nvprof, the predecessor of Nsight Systems; record with {_RECORD}")
    if any(table.startswith("rocpd_") for table in tables):
        raise UnreadableInput(
            f"{path}: a ROCm rpd file, which is not read, nor is the JSON that rpd2tracing.py makes of it: that does "
            "not tell which events ran on the GPU; record with torch.profiler (docs/recording.md)"
        )
    for table in activities:
        for column in ("start", "end"):
            if table in tables and column not in tables[table]:
                raise UnreadableInput(f"{path}: its table {table} has no column {column}: not as nsys exports it")
    if any(table in tables for table in activities):
        return
    if STRINGS in tables or "META_DATA_EXPORT" in tables:
        raise UnreadableInput(
            f"{path}: an Nsight Systems export without CUDA activities: recorded without --trace=cuda, or no process "
            f"used the GPU meanwhile; record with {_RECORD} (docs/formats.md)"
        )
    raise UnreadableInput(
        f"{path}: an SQLite file without a table {ACTIVITY}KERNEL, so not an export of Nsight Systems; "
        "nsys export --type sqlite REPORT.nsys-rep writes one"
    )


def _base_ns(database: Database) -> int:
    """When the session began, ns since 1970; 0 where the file does not say."""
    began = database.read("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)).columns["utcEpochNs"][:1].tolist()
    return began[0] if began and 0 < began[0] < _LATEST_START else 0


def _devices(database: Database, process: Ints, device: Ints) -> tuple[Ints, dict[int, str | None]]:
    """The device of each GPU op and the devices' names.

    A device id counts the devices that the process sees. Where two processes mean different GPUs by one id, as with
    CUDA_VISIBLE_DEVICES, the machine's own numbers of the GPUs take its place, so that devices are never merged.
    """
    seen = database.read("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")).columns
    gpus = database.read("TARGET_INFO_GPU", ("id",), text="name")
    columns = (seen["pid"].tolist(), seen["cudaId"].tolist(), seen["gpuId"].tolist())
    gpu_of = {(pid, cuda): gpu for pid, cuda, gpu in zip(*columns, strict=True)}
    named = zip(gpus.columns["id"].tolist(), gpus.text.tolist(), strict=True)
    name_of = {id: gpus.texts[text].strip() or None for id, text in named if text != NONE}
    processes, process_at = np.unique(process, return_inverse=True)
    devices, device_at = np.unique(device, return_inverse=True)
    pairs, pair_at = np.unique(process_at * len(devices) + device_at, return_inverse=True)
    used = [(int(processes[pair // len(devices)]), int(devices[pair % len(devices)])) for pair in pairs.tolist()]
    meant = {(id, gpu_of[pid, id]) for pid, id in used if (pid, id) in gpu_of}
    gpu = [gpu_of.get(pair, pair[1]) for pair in used]
    number = gpu if len({id for id, _ in meant}) < len(meant) else [id for _, id in used]
    return np.array(number, np.int64)[pair_at], {n: name_of.get(g) for n, g in zip(number, gpu, strict=True)}


def _unnamed(count: int) -> Iterator[Notice]:
    """Nothing but damage takes a string away that a record refers to."""
    if count:
        text = f"its table {STRINGS} lacks {count:,} names that its records refer to; copy or export it again"
        yield Notice("damaged_file", text, count)


def _untimed(count: int) -> Iterator[Notice]:
    if count:
        text = f"{count:,} records have no readable time and were left out; export the report again"
        yield Notice("unreadable_times", text, count)


def _graph_level(process: Ints, correlation: Ints, op_process: Ints, op_correlation: Ints) -> Iterator[Notice]:
    """Replays that nsys recorded as a whole, which is what it does unless told otherwise."""
    near = np.isin(op_correlation, correlation)
    recorded = set(zip(op_process[near].tolist(), op_correlation[near].tolist(), strict=True))
    count = sum(replay not in recorded for replay in zip(process.tolist(), correlation.tolist(), strict=True))
    if count:
        text = (
            f"graph replays recorded as a whole, without the GPU ops in them: {count:,}; the GPU seems idle meanwhile; "
            f"record their nodes: {_RECORD}"
        )
        yield Notice("graph_level", text, count)


def _diagnostics(database: Database) -> Iterator[Notice]:
    """What nsys itself had to say about records that may be missing."""
    said = database.read("DIAGNOSTIC_EVENT", (), text="text")
    count = sum(_INCOMPLETE.search(said.texts[text]) is not None for text in said.text.tolist() if text != NONE)
    if count:
        text = "nsys says that not all CUDA events may have been collected; record fewer steps"
        yield Notice("lost_records", text, count)
