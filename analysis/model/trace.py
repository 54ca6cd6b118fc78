"""The trace model: what every reader produces and every analysis reads.

A Trace is frozen and columnar: one numpy array per column, rows sorted by start time (file order breaks ties).
Times are int64 nanoseconds on one clock (the file's; epoch-based where the file gives a base). Names are interned:
a name column holds indices into ``Trace.names``, a shapes column indices into ``Trace.shapes``. A reference to a row of
another table, or an id, that is absent is ``NONE`` in a column and null in everything that a user sees.

Words (kernel, launch, blocking call, graph launch, …) are defined in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

NONE: Final = -1
"""An absent row reference or id inside a column."""

WHOLE_US_NS: Final = 1000

Ints = NDArray[np.signedinteger[Any]]
"""Whole numbers: times are int64; ids, kinds and references as narrow as ``Table.compact`` made them."""

Bools = NDArray[np.bool_]
Reals = NDArray[np.float64]


class OpKind(IntEnum):
    """What a GPU op is."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    GRAPH = 3  # a graph replay of which nothing but start and end is known

    @property
    def word(self) -> str:
        """As reports write it."""
        return self.name.lower()


class HostKind(IntEnum):
    """What a host op is."""

    OPERATOR = 0  # a framework operator: cpu_op
    ANNOTATION = 1  # user_annotation, record_function, NVTX range
    PYTHON = 2  # a Python frame
    API = 3  # a runtime or driver call that is neither a launch nor a blocking call

    @property
    def word(self) -> str:
        """As reports write it."""
        return self.name.lower()


_TIMES: Final = ("start_ns", "end_ns")


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in half the memory, where 32 bits hold all of them."""
    if column.dtype != np.int64 or (len(column) and (column.min() < -(2**31) or column.max() >= 2**31)):
        return column
    return column.astype(np.int32)


def one_value_shared(column: NDArray[Any]) -> NDArray[Any]:
    """The column; where all its rows are alike, one that takes no memory and can't be written to."""
    return np.broadcast_to(column[:1].copy(), column.shape) if len(column) and (column == column[0]).all() else column


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; subclasses name them."""

    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def dur_ns(self) -> Ints:
        """Duration of each row."""
        return self.end_ns - self.start_ns

    def take(self, rows: Ints | Bools) -> Self:
        """The named rows, as a table of the same kind."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def compact(self) -> Self:
        """The same table, its columns of whole numbers other than times as 32 bits where that holds them, or as one.

        A file of a GB has millions of rows. Take care with sums and products of such columns: numpy keeps them narrow.
        """
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self)(
            **{name: column if name in _TIMES else one_value_shared(narrow(column)) for name, column in columns.items()}
        )


@dataclass(frozen=True, eq=False)
class GpuOps(Table):
    """Kernels, memory copies and memory sets that ran on a device, and replays that were recorded as a whole."""

    kind: Ints  # OpKind
    name: Ints  # index into Trace.names
    device: Ints
    stream: Ints
    process: Ints  # of the host call, as numbered by the reader; correlation ids are unique within one
    correlation: Ints  # NONE where the file has none
    launch_row: Ints  # row of Trace.launches, NONE where the launch is not in the file
    bytes: Ints  # of copies and sets, NONE where unknown
    graph: Ints  # graph id given by the file, NONE in most
    graph_node: Ints  # node id given by the file, NONE in most
    collective: Ints  # index into Trace.collectives, NONE where the file does not tell it

    @property
    def is_kernel(self) -> Bools:
        """True where the op is a kernel."""
        return np.equal(self.kind, OpKind.KERNEL)


@dataclass(frozen=True, eq=False)
class Launches(Table):
    """Host API calls that enqueued at least one GPU op of the file; one row per (process, correlation)."""

    api: Ints  # index into Trace.names
    process: Ints
    thread: Ints
    correlation: Ints
    is_graph: Bools  # the API name contains GraphLaunch
    operator_row: Ints  # innermost operator (row of Trace.host_ops) around the call on its thread, or NONE


@dataclass(frozen=True, eq=False)
class BlockingCalls(Table):
    """Host API calls that wait for the GPU: …Synchronize…, or a …Memcpy… without Async. May repeat a launch."""

    api: Ints  # index into Trace.names
    process: Ints
    thread: Ints
    operator_row: Ints  # innermost operator around the call on its thread, or NONE


@dataclass(frozen=True, eq=False)
class HostOps(Table):
    """What the host did, other than launches and blocking calls."""

    name: Ints  # index into Trace.names
    kind: Ints  # HostKind
    process: Ints
    thread: Ints
    shapes: Ints  # of an operator's inputs: index into Trace.shapes, NONE where the file has none


def utf8_text(text: str) -> str:
    """A path, or words that hold one, as every output can write it: bytes that are not UTF-8 become ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Source:
    """The file that a trace was read from."""

    path: str
    format: str  # 'kineto-json', …
    bytes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", utf8_text(self.path))


class Void(Enum):
    """What of a trace a fault leaves unknown."""

    TRACE = "the trace"  # no verdict rests on it
    WORK = "W"  # and what is computed from it: busy, idle, bound, predictions
    NODE_TAX = "the node tax"


@dataclass(frozen=True)
class Event:
    """The one record of a file that proves a fault."""

    name: str
    start_ns: int
    why: str  # what contradicts it


@dataclass(frozen=True)
class Notice:
    """What a reader or an analysis has to say about the data: a warning of the report."""

    code: str  # snake_case; docs/warnings.md lists them
    message: str  # a sentence with the numbers and what to do
    count: int = 1  # of the rows it is about
    event: Event | None = None
    voids: Mapping[Void, str] = field(default_factory=dict)  # what can't be told because of it, and why


@dataclass(frozen=True, eq=False)
class Trace:
    """One recording of one process (or of several, told apart by ``process``)."""

    source: Source
    names: tuple[str, ...]
    gpu_ops: GpuOps
    launches: Launches
    blocking_calls: BlockingCalls
    host_ops: HostOps
    events: int  # records in the file, of any kind
    device_names: Mapping[int, str | None] = field(default_factory=dict)  # every device that ran a GPU op
    rank: int | None = None
    grid_ns: int = 1  # the file tells times to this: an error of up to as much at each edge
    notices: tuple[Notice, ...] = ()  # from the reader: cut file, lost records, …
    complete: bool = True  # False: records are known to be lost
    shapes: tuple[str, ...] = ()  # of operators' inputs, interned: JSON, [dims of each, type of each]
    collectives: tuple[str, ...] = ()  # interned: JSON, [collective, process group, ranks], null where not told
    world_size: int | None = None  # ranks that ran together, where the file tells it
    group_ranks: tuple[tuple[int, ...], ...] = ()  # of this rank's process groups, as the file lists them

    @property
    def whole_us(self) -> bool:
        """Whether the file's times are whole microseconds."""
        return self.grid_ns >= WHOLE_US_NS

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that ran at least one GPU op, in order."""
        return tuple(int(d) for d in np.unique(self.gpu_ops.device))

    @property
    def clock_ns(self) -> int:
        """What the file's times are rounded to; 0 where they are told to the ns."""
        return self.grid_ns if self.grid_ns > 1 else 0

    def first_ops(self) -> Ints:
        """[launches] row of each launch's earliest GPU op."""
        rows = np.flatnonzero(self.gpu_ops.launch_row != NONE)[::-1]
        first = np.full(len(self.launches), NONE, dtype=np.int64)
        first[self.gpu_ops.launch_row[rows]] = rows  # rows are by start, so the last write is the earliest op
        assert (first != NONE).all(), "a launch enqueued at least one GPU op of the file"
        return first

    @cached_property
    def whole_replays(self) -> Bools:
        """[gpu_ops] a replay that was recorded as a whole: what ran in it, and whether it paused, is not known."""
        return np.equal(self.gpu_ops.kind, OpKind.GRAPH)

    def in_graph(self) -> Bools:
        """[gpu_ops] the launch is in the file, and a graph launch."""
        launched_by_graph: Bools = np.append(self.launches.is_graph, False)[self.gpu_ops.launch_row]
        return launched_by_graph

    def name(self, index: int) -> str:
        """The interned name with this index."""
        return self.names[index]
