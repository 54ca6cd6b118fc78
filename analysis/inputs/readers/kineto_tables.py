"""Columns of a Kineto file's records, grown piece by piece, and the tables that they become."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...model.trace import NONE, WHOLE_US_NS, Bools, HostKind, HostOps, Ints, Trace, narrow
from .assemble import Calls, FileFacts, assemble, home_processes, require_few
from .in_session import in_session
from .kineto_records import CALL, HOST, OP_ARGS, STEP, Number, Records

TIMES: Final = range(-(2**62), 2**62)
"""146 years before and after the epoch: the difference of any two such times fits 64 bits."""

_MOST_COPIED: Final = 2**40
"""Bytes that one copy can move: no GPU has more than a TiB."""

SINCE_1970_NS: Final = 2**50 * 1000  # 2005; from there up to 2041
DOUBLE_NS: Final = 250  # is the distance of two doubles of µs,
OF_DOUBLES: Final = (0, 200, 250, 500, 750, 800)  # and these are their ns, in full or as their shortest text has them

_NUMBERS: Final = ("process", "thread", "device", "stream")
_Column = NDArray[Any]  # of whole numbers, as narrow as they allow


class Columns:
    """The file's timed records that the model knows, in file order."""

    def __init__(self) -> None:
        self.entries = 0
        self.has_event = False
        self.untimed = 0
        self.requoted = 0
        self.accelerators: set[str] = set()
        self._ids: dict[str, int] = {}
        self._names, self._shapes, self._collectives = _index(), _index(), _index()
        self._pieces: dict[str, list[_Column]] = {}

    def add(self, records: Records) -> None:
        """Append a piece's records."""
        self.entries += records.entries
        self.untimed += records.untimed
        self.requoted += records.requoted
        self.accelerators.update(records.accelerators)
        self.has_event = self.has_event or records.has_event
        if not records.code:
            return
        code = np.frombuffer(records.code, np.uint8)
        name_of = np.array([*map(self._names.__getitem__, records.names)], np.int32)
        columns: dict[str, _Column] = {
            "code": code,
            "start": np.frombuffer(records.start, np.int64),
            "dur": narrow(np.frombuffer(records.dur, np.int64)),
            "name": name_of[np.frombuffer(records.name, np.int32)],
            "correlation": narrow(np.frombuffer(records.correlation, np.int64)),
        }
        columns |= {name: narrow(column) for name, column in zip(_NUMBERS, self._numbers(records, code), strict=True)}
        columns |= {n: narrow(np.frombuffer(c, np.int64)) for n, c in zip(OP_ARGS, records.op_args, strict=True)}
        columns["shapes"] = _places(self._shapes, records.shapes, records.shapes_of, int((code >= HOST).sum()))
        ops = int((code < CALL).sum())
        columns["collective"] = _places(self._collectives, records.collectives, records.collective_of, ops)
        for name, column in columns.items():
            self._pieces.setdefault(name, []).append(column)

    def settle_times(self, base_ns: int) -> None:
        """Drop records with which a difference of times or a sum of durations would leave 64 bits, as untimed."""
        start, dur = self._column("start"), self._column("dur").astype(np.int64)
        low, high = (max(min(bound - base_ns, 2**63 - 1), -(2**63)) for bound in (TIMES[0], TIMES[-1]))
        is_time = (start >= low) & (start <= high)
        begin = np.where(is_time, start, 0) + np.where(is_time, base_ns, 0)
        is_time &= (dur >= TIMES[0] - begin) & (dur <= TIMES[-1] - begin)
        is_summed = is_time & (self._column("code") <= CALL)
        if np.abs(dur[is_summed], dtype=np.float64).sum() > TIMES.stop / 2:
            total = 0
            for row in np.flatnonzero(is_summed).tolist():
                more = abs(int(dur[row]))
                is_time[row] = total + more in TIMES
                total += more if is_time[row] else 0
        if not is_time.all():
            self._keep(is_time)

    def device_rows(self) -> Ints:
        """The devices that ran a GPU op."""
        return np.unique(self._column("device")).astype(np.int64)

    def trace(self, facts: FileFacts, base_ns: int) -> Trace:
        """The tables, linked and sorted by start."""
        code = self._column("code")
        op_rows, call_rows = np.flatnonzero(code < CALL), np.flatnonzero(code == CALL)
        grid_ns = self._grid_ns(code) if len(op_rows) else 1
        start_ns = self._column("start") + base_ns
        end_ns = start_ns + self._column("dur")
        del self._pieces["dur"]
        self._pieces |= {"start": [start_ns], "end": [end_ns]}
        names = tuple(self._names)
        correlation = _no_zeros(self._column("correlation"))
        is_op = code[code <= CALL] < CALL
        ops = self._gpu_columns(code, op_rows, start_ns, end_ns, correlation[is_op])
        calls = self._calls(call_rows, start_ns, end_ns, correlation[~is_op])
        del start_ns, end_ns, correlation, self._pieces["correlation"]
        require_few(facts.source.path, ops, calls)
        ops["process"] = home_processes(ops, calls)
        facts, ops, calls = in_session(facts, names, ops, calls, base_ns)
        return assemble(
            facts,
            names,
            ops,
            calls,
            lambda others: self._host_ops(code, others.position),
            grid_ns=grid_ns,
            shapes=tuple(self._shapes),
            collectives=tuple(self._collectives),
        )

    def _numbers(self, records: Records, code: _Column) -> list[_Column]:
        """Process, thread, device and stream; a number of ours, below -1, for each that is text."""
        if all(isinstance(column, bytes) for column in records.numbers):
            return [np.frombuffer(column, np.int64) for column in records.numbers]  # type: ignore[arg-type]
        process, thread, device, stream = (list[Number](column) for column in records.numbers)
        of_ops = zip(device, stream, strict=True)
        for pid, tid, what in zip(process, thread, code.tolist(), strict=True):
            for value in (pid, tid, *(next(of_ops) if what < CALL else ())):
                if isinstance(value, str):
                    self._ids.setdefault(value, -2 - len(self._ids))
        return [
            np.array([self._ids[value] if isinstance(value, str) else value for value in column], np.int64)
            for column in (process, thread, device, stream)
        ]

    def _column(self, name: str) -> _Column:
        pieces = self._pieces.get(name, [])
        if len(pieces) != 1:
            pieces[:] = [np.concatenate(pieces) if pieces else np.zeros(0, np.int64)]
            self._pieces[name] = pieces
        return pieces[0]

    def _keep(self, rows: Bools) -> None:
        code = self._column("code")
        of_kind = {"correlation": rows[code <= CALL], "shapes": rows[code >= HOST]}
        of_kind |= dict.fromkeys(("device", "stream", "collective", *OP_ARGS), rows[code < CALL])
        for name in tuple(self._pieces):
            self._pieces[name] = [self._column(name)[of_kind.get(name, rows)]]
        self.untimed += len(rows) - int(rows.sum())

    def _grid_ns(self, code: _Column) -> int:
        """To what the times of GPU ops and calls are told: whole µs, or what a double holds of times since 1970."""
        rows = code <= CALL
        start = self._column("start")[rows]
        of_start = start % WHOLE_US_NS
        if not of_start.any() and not (self._column("dur")[rows] % WHOLE_US_NS).any():
            return WHOLE_US_NS
        if int(start.min()) >= SINCE_1970_NS and np.isin(of_start, OF_DOUBLES).all():
            return DOUBLE_NS if of_start.any() else WHOLE_US_NS
        return 1

    def _gpu_columns(
        self, code: _Column, rows: Ints, start_ns: Ints, end_ns: Ints, correlation: _Column
    ) -> dict[str, Ints]:
        """Columns of GpuOps, still without links; ``process`` is the pid, which Kineto makes the device."""
        order = np.argsort(start_ns[rows], kind="stable")
        rows = rows[order]
        own = {name: self._pop(name)[order] for name in ("device", "stream", "collective", *OP_ARGS)}
        own["bytes"][(own["bytes"] < 0) | (own["bytes"] > _MOST_COPIED)] = NONE
        for name in ("graph", "graph_node"):
            own[name][own[name] == 0] = NONE  # CUPTI: graph 0 is no graph
        return own | {
            "start_ns": start_ns[rows],
            "end_ns": end_ns[rows],
            "kind": code[rows].astype(np.int32),
            "name": self._column("name")[rows],
            "process": self._column("process")[rows],
            "correlation": correlation[order],
        }

    def _calls(self, rows: Ints, start_ns: Ints, end_ns: Ints, correlation: _Column) -> Calls:
        """Runtime and driver calls by start."""
        order = np.argsort(start_ns[rows], kind="stable")
        rows = rows[order]
        return Calls(
            start_ns=start_ns[rows],
            end_ns=end_ns[rows],
            api=self._column("name")[rows],
            process=self._column("process")[rows],
            thread=self._column("thread")[rows],
            correlation=correlation[order],
            position=rows,
        )

    def _host_ops(self, code: _Column, calls: Ints) -> HostOps:
        """Operators, annotations, Python frames and the given calls, by start."""
        rows = np.sort(np.concatenate([np.flatnonzero(code >= HOST), calls]))
        rows = rows[np.argsort(self._column("start")[rows], kind="stable")]
        kind_of = np.arange(256, dtype=np.int32) - HOST
        kind_of[CALL] = HostKind.API
        kind, name = kind_of[code[rows]], self._pop("name")[rows]
        shapes = np.full(len(rows), NONE, self._column("shapes").dtype)
        is_host = code >= HOST
        is_own = is_host[rows]
        shapes[is_own] = self._pop("shapes")[np.cumsum(is_host)[rows[is_own]] - 1]
        steps = [index for text, index in self._names.items() if text.startswith(STEP)]
        if steps:  # in 2021 among the operators, but no operator launches what lies in one
            kind[(kind == HostKind.OPERATOR) & np.isin(name, steps)] = HostKind.ANNOTATION
        return HostOps(
            start_ns=self._pop("start")[rows],
            end_ns=self._pop("end")[rows],
            name=name,
            kind=kind,
            process=self._pop("process")[rows],
            thread=self._pop("thread")[rows],
            shapes=shapes,
        )

    def _pop(self, name: str) -> _Column:
        """The column, of which nothing is kept here."""
        column = self._column(name)
        del self._pieces[name]
        return column


def _no_zeros(correlation: _Column) -> _Column:
    """Correlation ids; NONE for 0, which every collector counts from and ROCm's writes where it knows no launch."""
    return np.where(correlation == 0, NONE, correlation) if (correlation == 0).any() else correlation


def _index() -> defaultdict[str, int]:
    """Numbers texts from 0, as they are looked up."""
    return defaultdict(count().__next__)


def _places(index: defaultdict[str, int], texts: str, places: bytes, rows: int) -> _Column:
    """Of each row the index of its text, ``places`` being those in a piece's own; in a byte each where none has any."""
    if not texts:
        return np.full(rows, NONE, np.int8)
    known = map(index.__getitem__, texts.split("\0"))
    return np.array([*known, NONE], np.int32)[np.frombuffer(places, np.int32)]
