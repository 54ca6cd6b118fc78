"""Kineto's records: a list of them as JSON in, columns out. This file owns the names of a record's fields.

Defined by the writer itself: https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp (records)
and libkineto/include/ActivityType.h (categories). Times are µs with three decimals, printed from whole nanoseconds:
they are read from the text, since a double can't hold an epoch in ns.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import compress, count
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...model.trace import NONE, HostKind, Ints, OpKind
from .json_text import FAULTS, mended, requoted

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

ACCELERATOR: Final = re.compile(r"(mtia|hpu|xpu|npu|tpu|privateuse1|glow)(?:_|\Z)", re.IGNORECASE)
"""How the categories of devices begin whose work is no GPU op, or whose calls alone may be in a file."""

_LOOKED_AT: Final = 256  # records of a piece without a GPU op, for such categories

STEP: Final = "ProfilerStep#"
"""How torch.profiler's own annotations of steps begin."""

# What a record is, in one byte: a GPU op by its kind, then a call, then a host op by its kind.
CALL: Final = len(OpKind)
HOST: Final = CALL + 1
OPERATOR: Final = HOST + HostKind.OPERATOR
_LEFT_OUT: Final = 255
_SEARCHED_BYTES: Final = 1 << 12  # for the first start of a piece
_MOST_CATEGORIES: Final = 256  # to remember; a writer has some twenty

OP_ARGS: Final = ("bytes", "graph", "graph_node")
_LONGEST_SHAPES: Final = 4096  # characters; an operator on lists of hundreds of tensors is no part of a step
_INT64: Final = range(-(2**63), 2**63)
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}")
_MOST_BY_DECIMALS: Final = np.array([(2**63 - 2) // 10 ** (3 - decimals) for decimals in range(4)], np.int64)
"""Digits of a number of µs whose ns 64 bits hold; one more is what numpy makes of all that they don't."""

Number = int | str
"""A process, thread, device or stream: the file's own number where it has one, else its text."""


class Records(msgspec.Struct, kw_only=True):
    """Timed records that the model knows, in file order. Columns are the bytes of numpy arrays."""

    entries: int = 0  # of the list, of any kind
    has_event: bool = False  # one of them at least is a trace event
    untimed: int = 0  # left out: no readable time
    requoted: int = 0  # names with quotes in them that were not escaped
    accelerators: list[str] = []  # categories of other devices, where it has no GPU op
    names: list[str]  # in order of appearance
    code: bytes  # uint8: see above
    start: bytes  # int64, ns since the file's base
    dur: bytes  # int64, ns
    name: bytes  # int32, into names
    numbers: list[bytes | list[Number]]  # process, thread; of GPU ops device, stream: int64, or with text
    correlation: bytes  # int64, of GPU ops and calls
    op_args: list[bytes]  # int64, of GPU ops: bytes, graph, graph node
    shapes: str  # in order of appearance, zeros between them; empty where no operator has any
    shapes_of: bytes  # int32, into shapes, NONE without: of host ops; empty where no operator has any
    collectives: str  # in order of appearance, zeros between them; empty where no GPU op is told to be one
    collective_of: bytes  # int32, into collectives, NONE without: of GPU ops; empty where none is told to be one


_NO_TEXT: Final = msgspec.Raw(b"")


class _TextArgs(msgspec.Struct, gc=False, frozen=True):
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=_NO_TEXT)
    older_dims: msgspec.Raw = msgspec.field(name="Input dims", default=_NO_TEXT)
    types: msgspec.Raw = msgspec.field(name="Input type", default=_NO_TEXT)
    collective: msgspec.Raw = msgspec.field(name="Collective name", default=_NO_TEXT)
    group: msgspec.Raw = msgspec.field(name="Process Group Name", default=_NO_TEXT)
    ranks: msgspec.Raw = msgspec.field(name="Process Group Ranks", default=_NO_TEXT)


class _Args(_TextArgs, gc=False, frozen=True):
    correlation: int = NONE
    device: int | None = None
    stream: int | None = None
    bytes: int = NONE
    graph: int = msgspec.field(name="graph id", default=NONE)
    graph_node: int = msgspec.field(name="graph node id", default=NONE)


_NO_ARGS: Final = _Args()


class _Timed(msgspec.Struct, gc=False, kw_only=True):
    """A record with a duration as Kineto writes it today: ids are numbers, names are text."""

    pid: int
    tid: int
    dur: float  # short enough for its ns to be told from it
    cat: str = ""
    name: str = ""
    args: _Args = _NO_ARGS


class _Near(_Timed, tag_field="ph", tag="X", kw_only=True):
    """One whose start is as short: times since a base in the file, or since the machine started."""

    ts: float


class _Plain(_Timed, tag_field="ph", tag="X", kw_only=True):
    """One with any start."""

    ts: msgspec.Raw


class _AnyArgs(_TextArgs, gc=False, frozen=True):
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    graph: Any = msgspec.field(name="graph id", default=None)
    graph_node: Any = msgspec.field(name="graph node id", default=None)


class Event(msgspec.Struct, gc=False):
    """One record, whatever stands in it."""

    ph: Any = None
    cat: Any = None
    name: Any = ""
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: _AnyArgs | list[Any] | str | int | float | bool | None = None


Entry = Event | list[Any] | str | int | float | bool | None
"""What may stand in the list of records."""

_PHASES: Final = "BEiIMstfbenCPNODRcVva"  # of the other records: flows, instants, metadata, …
_OTHERS: Final = [
    msgspec.defstruct(f"_Other{number}", [], tag_field="ph", tag=phase, gc=False)
    for number, phase in enumerate(_PHASES)
]
_LONG_START: Final = re.compile(rb'"ts"\s*:\s*[0-9]{12}')
ENTRIES: Final = msgspec.json.Decoder(list[Entry])


class _Codes(dict[Any, int]):
    """Category → code; those that the model leaves out included."""

    def __missing__(self, category: Any) -> int:
        is_call = isinstance(category, str) and category.lower().endswith(HOST_CALLS)
        code = CALL if is_call else _LEFT_OUT
        if len(self) < _MOST_CATEGORIES:
            self[category] = code
        return code


_CODES: Final = _Codes(
    {name: int(kind) for name, kind in GPU_OPS.items()} | {name: HOST + kind for name, kind in HOST_OPS.items()}
)


def decode_piece(piece: bytes) -> Records | None:
    """The records of a JSON list, mended where it takes no more than that; None where it is no list."""
    has_long_start = _LONG_START.search(piece, 0, _SEARCHED_BYTES) is not None
    for decoder, timed, starts in _TIMED[has_long_start:]:
        with contextlib.suppress(*FAULTS, OverflowError):
            if (records := _timed_records(decoder.decode(piece), timed, starts)) is not None:
                return records
    entries, count = mended(piece, ENTRIES), 0
    if entries is None:
        piece, count = requoted(piece)
        entries = mended(piece, ENTRIES) if count else None
    return None if entries is None else msgspec.structs.replace(records_of(entries), requoted=count)


def records_of(entries: Sequence[Entry]) -> Records:
    """The columns of decoded entries; flows, metadata, instants and the rest are left out."""
    events = [entry for entry in entries if isinstance(entry, Event)]
    kept = [e for e in events if e.ph == "X" and isinstance(e.cat, str) and _CODES[e.cat] != _LEFT_OUT]
    timed, times = kept, _times([e.ts for e in kept] + [e.dur for e in kept])
    if times is None:
        timed = [e for e in kept if None not in (to_ns(bytes(e.ts)), to_ns(bytes(e.dur)))]
        times = _times([e.ts for e in timed] + [e.dur for e in timed])
        assert times is not None
    start, dur = np.split(times, 2)
    records = _records(
        start,
        dur,
        [text_of(e.name) for e in timed],
        [number_of(e.pid) for e in timed],
        [number_of(e.tid) for e in timed],
        [_CODES[e.cat] for e in timed],
        [_plain_args(e.args) for e in timed],
        has_text=True,
    )
    records.entries, records.untimed = len(entries), len(kept) - len(timed)
    records.has_event = any(event.ph is not None or event.cat is not None for event in events)
    _name_accelerators(records, [e.cat for e in events[:_LOOKED_AT] if e.ph == "X"])
    return records


def _timed_records(
    entries: Sequence[Any], timed: type[_Timed], starts: Callable[[Sequence[Any]], Ints | None]
) -> Records | None:
    """The columns of records that are as Kineto writes them; None, or OverflowError, where a number of them isn't."""
    kept: list[Any] = [record for record in entries if type(record) is timed]
    codes = [*map(_CODES.__getitem__, [record.cat for record in kept])]
    if _LEFT_OUT in codes:
        kept = [record for record, code in zip(kept, codes, strict=True) if code != _LEFT_OUT]
        codes = [code for code in codes if code != _LEFT_OUT]
    start = starts([record.ts for record in kept])
    dur = short_times([record.dur for record in kept])
    if start is None or dur is None:
        return None
    records = _records(
        start,
        dur,
        [record.name for record in kept],
        [record.pid for record in kept],
        [record.tid for record in kept],
        codes,
        [record.args for record in kept],
        has_text=False,
    )
    records.entries, records.has_event = len(entries), bool(entries)
    _name_accelerators(records, [record.cat for record in entries[:_LOOKED_AT] if type(record) is timed])
    return records


def _records(
    start: Ints,
    dur: Ints,
    name: Sequence[str],
    process: Sequence[Number],
    thread: Sequence[Number],
    codes: Sequence[int],
    args: Sequence[_Args],
    *,
    has_text: bool,
) -> Records:
    """``has_text``: processes, threads, devices and streams may be texts."""
    code = np.array(codes, np.uint8)
    is_op = (code < CALL).tobytes()
    of_ops = list(compress(args, is_op))
    numbers = (
        process,
        thread,
        _given_or([own.device for own in of_ops], compress(process, is_op)),
        _given_or([own.stream for own in of_ops], compress(thread, is_op)),
    )
    index = defaultdict[str, int](count().__next__)
    name_column = np.fromiter(map(index.__getitem__, name), np.int32, len(name))
    shapes, shapes_of = _shapes(code, args)
    collectives, collective_of = _collectives(of_ops)
    return Records(
        names=list(index),
        code=code.tobytes(),
        start=start.tobytes(),
        dur=dur.tobytes(),
        name=name_column.tobytes(),
        numbers=[list(column) if has_text else _int64(column) for column in numbers],  # type: ignore[arg-type]
        correlation=_int64(
            [given.correlation or NONE for given in compress(args, (code <= CALL).tobytes())]
        ),  # 0: none
        op_args=[
            _int64([own.bytes for own in of_ops]),
            _int64([own.graph for own in of_ops]),
            _int64([own.graph_node for own in of_ops]),
        ],
        shapes=shapes,
        shapes_of=shapes_of,
        collectives=collectives,
        collective_of=collective_of,
    )


def _name_accelerators(records: Records, categories: Iterable[Any]) -> None:
    if not records.op_args[0]:
        texts = {each for each in categories if type(each) is str}
        records.accelerators = sorted(each for each in texts if ACCELERATOR.match(each))


def _shapes(code: NDArray[np.uint8], args: Sequence[_Args]) -> tuple[str, bytes]:
    """The shapes and types of operators' inputs, and of each host op the index of its own; nothing without any."""
    is_operator = code == OPERATOR
    of_operators = [*compress(args, is_operator.tobytes())]
    dims = [given.dims for given in of_operators]
    if dims.count(_NO_TEXT):  # quick: where there is none, it is the one default
        older = [given.older_dims for given in of_operators]
        if dims.count(_NO_TEXT) == older.count(_NO_TEXT) == len(dims):
            return "", b""
        dims = [other if own is _NO_TEXT else own for own, other in zip(dims, older, strict=True)]
    types = [given.types for given in of_operators]
    texts, places = _interned((dims, types), (b"", b"[]"), lambda text: 0 < len(text[0]) <= _LONGEST_SHAPES)
    column = np.full(len(code), NONE, np.int32)
    column[is_operator] = places
    return texts, column[code >= HOST].tobytes()


def _collectives(of_ops: Sequence[_Args]) -> tuple[str, bytes]:
    """What the file tells of collectives, and of each GPU op the index of its own; nothing where it tells none.

    torch.profiler tells it of NCCL's kernels that were launched one by one while the CPU's activity was recorded too.
    """
    parts = ([own.collective for own in of_ops], [own.group for own in of_ops], [own.ranks for own in of_ops])
    if all(part.count(_NO_TEXT) == len(part) for part in parts):
        return "", b""
    texts, places = _interned(parts, (b"null",) * 3, lambda text: any(text) and sum(map(len, text)) <= _LONGEST_SHAPES)
    return texts, places.tobytes()


def _interned(
    parts: Sequence[Sequence[msgspec.Raw]],
    empty: Sequence[bytes],
    is_kept: Callable[[tuple[bytes, ...]], bool],
) -> tuple[str, NDArray[np.int32]]:
    """The distinct rows that are kept, each a JSON list of its parts or what stands for an empty one, zeros between
    them; and of each row the index of its own, NONE without.
    """
    index = defaultdict[tuple[bytes, ...], int](count().__next__)
    rows = zip(*map(_texts, parts), strict=True)
    column = np.fromiter(map(index.__getitem__, rows), np.int32, len(parts[0]))
    kept = [row for row in index if is_kept(row)]
    if len(kept) < len(index):
        place = {row: number for number, row in enumerate(kept)}
        column = np.array([place.get(row, NONE) for row in index], np.int32)[column]
    if not kept:
        return "", column
    filled = [[part or other for part in its] for its, other in zip(zip(*kept, strict=True), empty, strict=True)]
    lists = b"]\0[".join(map(b",".join, zip(*filled, strict=True)))
    return f"[{lists.decode('utf-8', 'replace')}]", column


def _texts(values: Sequence[msgspec.Raw]) -> list[bytes]:
    """Each value's text; all at once, which takes a third of the time, as no JSON has a zero byte."""
    return b"\0".join(values).split(b"\0") if values else []


def _plain_args(args: Any) -> _Args:
    """Whole numbers, where there are some; but a device and a stream may be named by a text."""
    if type(args) is not _AnyArgs:
        return _NO_ARGS
    values = msgspec.structs.asdict(args)
    for name in ("correlation", *OP_ARGS):
        whole = whole_of(values[name])
        values[name] = NONE if whole is None else whole
    for name in ("device", "stream"):
        values[name] = None if values[name] is None else number_of(values[name])
    return _Args(**values)


def _times(texts: Sequence[msgspec.Raw]) -> Ints | None:
    """The ns of each text; None where one has none."""
    times = plain_times(b",".join(texts), len(texts)) if texts else np.zeros(0, np.int64)
    if times is not None:
        return times
    exact = [to_ns(bytes(text)) for text in texts]
    return None if None in exact else np.array(exact, np.int64)


def short_times(us: Sequence[float]) -> Ints | None:
    """The ns of so many numbers of µs; None where a double can't tell one exactly.

    Up to 2**38 µs, three days, ns are told from the double that is nearest: it is off by 0.06 ns at most. A number
    with more than three decimals may lie between two ns, and is told from its text.
    """
    ns = np.fromiter(us, np.float64, len(us)) * 1000
    whole = np.rint(ns)
    if not (np.abs(ns) < 1000 * 2.0**38).all() or (np.abs(ns - whole) > 0.25).any():
        return None
    return whole.astype(np.int64)


def plain_times(text: bytes, count: int) -> Ints | None:
    """The ns of so many JSON numbers of µs, between commas; None where one is not plain digits with 3 decimals at most.

    All at once, and as exact as ``to_ns``: the digits without the point are a whole number.
    """
    digits = text.translate(None, b".")
    if digits.translate(None, b"-0123456789,"):
        return None
    characters = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(characters == ord(",")), len(text))
    points = np.flatnonzero(characters == ord("."))
    decimals = np.zeros(count, np.int64)
    if len(points) == count:
        decimals = ends - points - 1
    elif len(points):
        number = np.searchsorted(ends, points)
        decimals[number] = ends[number] - points - 1
    if decimals.max() > 3 or np.diff(ends, prepend=-1).min() < 2:  # an empty text: no time at all
        return None
    times = np.fromstring(digits, np.int64, sep=",")
    most = _MOST_BY_DECIMALS[decimals]
    if (times > most).any() or (times < -most).any():
        return None
    return times if decimals.min() == 3 else times * 10 ** (3 - decimals)


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


_TIMED: Final = tuple(
    (msgspec.json.Decoder(list[functools.reduce(operator.or_, [timed, *_OTHERS])]), timed, starts)  # type: ignore[misc]
    for timed, starts in ((_Near, short_times), (_Plain, _times))
)
"""Ways to decode records as Kineto writes them, the quicker one first; it refuses starts that a double can't tell."""


def _given_or(values: list[Any], others: Iterable[Any]) -> list[Any]:
    """The values, and the other where there is none."""
    if None not in values:
        return values
    return [other if value is None else value for value, other in zip(values, others, strict=True)]


def _int64(values: Sequence[int]) -> bytes:
    return np.fromiter(values, np.int64, len(values)).tobytes()


def number_of(value: Any) -> Number:
    """An id as a whole number, else as text."""
    whole = whole_of(value)
    return text_of(value) if whole is None else whole


def whole_of(value: Any) -> int | None:
    """A whole number that 64 bits hold, also one written as text or as 7.0, as tools built on pandas write ids back."""
    if (type(value) is str and _DIGITS.fullmatch(value.strip())) or (type(value) is float and value.is_integer()):
        value = int(value)
    return value if type(value) is int and value in _INT64 else None


def text_of(value: Any) -> str:
    """A name or id as text; what nests deeper than Python can print has none."""
    try:
        return value if type(value) is str else str(value)
    except (RecursionError, ValueError):
        return "?"
