"""The tables below the timelines: kernels, gaps, launches, graph replays, warnings, as AG grid's columns and rows.

A row is a flat dict that JSON holds: numbers stay numbers (times in µs), ``band`` and ``op`` name the GPU op that shows
the row in the timeline (``op`` null without one), ``id`` is ``band|op|place`` and unique within the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

import numpy as np

from ...analysis.facts.gaps import Gaps
from ...analysis.figures.figure import Figure
from ...analysis.figures.kernels import KERNELS
from ...analysis.figures.registry import FIGURES
from ...analysis.model.columns import follow, named, numbered
from ...analysis.model.document import CAUSES
from ...analysis.model.kernel_names import short_names
from ...analysis.model.trace import NONE, Ints, OpKind
from ...analysis.model.units import number, one_line, printable
from ...analysis.profile.mode_table import WORTH_A_REASON
from ...analysis.story import TypedColumn
from ..band import Band
from ..grid_table import (
    BAND,
    SEVERAL_LINES,
    Row,
    TableData,
    figure,
    in_us,
    said,
    text,
    typed_columns,
    typed_row,
    with_ids,
)
from ..opened_report import OpenedReport
from ..plotting import NS_PER_US
from .figure_tables import fusion_table, has_candidates, has_phases, has_ranks, ranks_table, serving_table

MOST_ROWS: Final = 50_000
"""Of one table: a browser's grid sorts and filters so many at once, and a zipped megabyte carries them."""

NO_OPERATOR: Final = "–"

_LENGTH: Final[Callable[[Mapping[str, Any]], float]] = itemgetter("us")


def table_names(opened: OpenedReport, bands: Sequence[Band]) -> list[str]:
    """The tables of a page on which these bands can be shown."""
    return [name for name in TABLES if name not in _WHERE_FOUND or _WHERE_FOUND[name](opened, bands)]


def table(name: str, opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    """One of TABLES, of these bands. KeyError for another name."""
    return TABLES[name](opened, bands)


def _all_us(ns: Ints) -> list[float]:
    us: list[float] = np.round(ns.astype(np.int64) / NS_PER_US, 3).tolist()
    return us


def _nullable(column: Ints) -> list[int | None]:
    return [None if value == NONE else value for value in column.tolist()]


def _step_numbers(band: Band, steps: Ints) -> list[int | None]:
    """The step picker's number of each of these steps, from 1; null for a dropped one and outside of steps."""
    kept = band.analysis.context.steps.kept_rows
    numbers = np.full(len(band.analysis.context.steps) + 1, NONE)  # the last one is that of NONE
    numbers[kept] = np.arange(1, len(kept) + 1)
    return _nullable(numbers[steps])


def _figure_table(figure: Figure[Any], opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    """The typed table of a figure, of these bands one under the other."""
    del opened
    rows: list[Row] = []
    columns: dict[str, TypedColumn] = {}
    notes = []
    for band in bands:
        found = figure.typed_table(band.analysis.document)
        if found is None or not found.rows:
            notes.append((band, _why(band, figure.path, "nothing of it in the recording")))
        if found is not None:
            columns |= {column.field: column for column in found.columns}
            op_of = _OP_OF[figure.name](band) if figure.name in _OP_OF else {}
            for row in found.rows:
                first = op_of.get((row.name, row.category)) if op_of else None
                rows.append({"band": band.key, "op": first, **typed_row(found.columns, row)})
            notes += [(band, note) for note in found.notes]
    return TableData([BAND, *typed_columns([*columns.values()])], with_ids(rows), said(of=notes))


def _has_rows(figure: Figure[Any], opened: OpenedReport, bands: Sequence[Band]) -> bool:
    del opened
    found = (figure.typed_table(band.analysis.document) for band in bands)
    return any(table is not None and table.rows for table in found)


def _first_ops(band: Band) -> dict[tuple[str, str], int]:
    """(name, category) → row of the first such op of the headline device, in a kept step where there is one."""
    ops, steps = band.analysis.context.trace.gpu_ops, band.analysis.context.steps
    rows = np.flatnonzero(ops.device == (NONE if band.device is None else band.device))
    is_kept = np.isin(steps.op_step[rows], steps.kept_rows)
    rows = np.concatenate([rows[is_kept], rows[~is_kept]])
    if not len(rows):
        return {}
    _, first = np.unique(numbered(ops.name[rows], ops.kind[rows]), return_index=True)
    found = rows[first]
    names = named(band.analysis.context.trace.names, ops.name[found])
    kinds = [OpKind(kind).word for kind in ops.kind[found].tolist()]
    return {(name or "", kind): row for name, kind, row in zip(names, kinds, found.tolist(), strict=True)}


def _gaps(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    found = [(band, band.analysis.context.gaps[band.device]) for band in bands if band.device is not None]
    notes = [(band, _why(band, "headline_device", "no GPU op")) for band in bands if band.device is None]
    lengths = [np.zeros(0, np.int64), *(gaps.dur_ns for _, gaps in found)]
    order = np.argsort(-np.concatenate(lengths), kind="stable")
    left_out = f"the longest {number(MOST_ROWS)} of {number(len(order))} gaps" if len(order) > MOST_ROWS else ""
    of_band = np.repeat(np.arange(len(lengths)) - 1, [len(each) for each in lengths])[order[:MOST_ROWS]]
    rows: list[Row] = []
    before = 0
    for place, (band, gaps) in enumerate(found):
        rows += _gap_rows(band, gaps, order[:MOST_ROWS][of_band == place] - before)
        before += len(gaps)
    rows.sort(key=_LENGTH, reverse=True)
    causes = [cause for cause in CAUSES if any(cause in row for row in rows)]
    columns = [
        BAND,
        figure("step", "step", maxWidth=120),
        figure("start_us", "start µs", 1),
        figure("us", "µs", 3, sort="desc"),
        text("cause", "largest cause", minWidth=124, maxWidth=140),
        *[figure(cause, f"{cause} µs", 2) for cause in causes],
        text("before", "op before", tooltipField="before", minWidth=160, flex=1),
        text("after", "op after", tooltipField="after", minWidth=160, flex=1),
        text("place", "where", minWidth=130),
    ]
    return TableData(columns, rows, said(left_out, "start: since the recording's first GPU op", of=notes))


def _gap_rows(band: Band, gaps: Gaps, rows: Ints) -> Iterator[Row]:
    """These gaps of the headline device, of the whole file."""
    trace = band.analysis.context.trace
    ops, previous = gaps.next_op[rows], gaps.prev_op[rows]
    names = _names(band, np.concatenate([ops, previous]))
    parts = np.stack([gaps.parts_ns[cause][rows] for cause in CAUSES])
    largest = parts.argmax(axis=0).tolist()
    by_cause = [(cause, _all_us(part)) for cause, part in zip(CAUSES, parts, strict=True) if part.any()]
    origin = int(trace.gpu_ops.start_ns.min()) if len(trace.gpu_ops) else 0
    columns = zip(
        rows.tolist(),
        ops.tolist(),
        _step_numbers(band, band.analysis.context.steps.op_step[ops]),
        _all_us(gaps.start_ns[rows] - origin),
        _all_us(gaps.dur_ns[rows]),
        largest,
        trace.gpu_ops.name[previous].tolist(),
        trace.gpu_ops.name[ops].tolist(),
        gaps.boundary[rows].tolist(),
        (gaps.stall_ns[rows] > 0).tolist(),
        gaps.waiting_call[rows].tolist(),
        strict=True,
    )
    for place, (gap, op, step, start, us, cause, before, after, boundary, stall, call) in enumerate(columns):
        where = ["between steps"] * boundary + ["stall"] * stall + ["another thread waited"] * (call != NONE)
        row: Row = {
            "id": f"{band.key}|{op}|{gap}",
            "band": band.key,
            "op": op,
            "step": step,
            "start_us": start,
            "us": us,
            "cause": CAUSES[cause],
            "before": names[before],
            "after": names[after],
            "place": ", ".join(where),
        }
        for name, part in by_cause:
            if part[place]:
                row[name] = part[place]
        yield row


def _names(band: Band, ops: Ints) -> dict[int, str]:
    """Short names of these GPU ops by index into Trace.names."""
    trace = band.analysis.context.trace
    used = np.unique(trace.gpu_ops.name[ops]).tolist()
    short = short_names(trace.names[index] for index in used)
    return {index: short[trace.names[index]] or "(no name)" for index in used}


def _launches(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    rows: list[Row] = []
    notes = []
    for band in bands:
        rows += _launch_rows(band)
        document = band.analysis.document
        if not len(band.analysis.context.trace.launches):
            notes.append((band, _why(band, "launches.overhead_ns.median", "no launches in the file")))
        elif all(doc.operator is None for doc in document.launches.by_operator):
            notes.append((band, f"no operators recorded ({_pass(band)})"))
    columns = [
        BAND,
        text("api", "launch API", minWidth=170, flex=1),
        text("operator", "operator", minWidth=140, flex=1),
        figure("launches", "launches", sort="desc"),
        figure("per_step", "per step", 1),
        figure("kernels", "kernels"),
        figure("overhead_us", "in the call, median µs", 2),
        figure("overhead_total_us", "in the call, total µs", 1),
        figure("latency_us", "call start → GPU, median µs", 2),
        figure("queue_us", "call end → GPU, median µs", 2),
    ]
    return TableData(columns, with_ids(rows), said(of=notes))


def _pass(band: Band) -> str:
    trace_pass = band.analysis.context.trace_pass
    return "the file has none" if trace_pass is None else f"the {trace_pass} pass records none"


def _launch_rows(band: Band) -> Iterator[Row]:
    """A row per API and innermost operator, the most launches first."""
    trace, steps, times = band.analysis.context.trace, band.analysis.context.steps, band.analysis.context.launch_times
    launches, ops = trace.launches, trace.gpu_ops
    operator = follow(trace.host_ops.name, launches.operator_row)
    group = numbered(launches.api, operator)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []
    linked = ops.is_kernel & (ops.launch_row != NONE)
    kernels = np.bincount(ops.launch_row[linked], minlength=len(launches))
    is_kept = np.isin(steps.launch_step, steps.kept_rows)
    for rows in sorted(members, key=len, reverse=True):
        kept = rows[is_kept[rows]]
        (api,), (name,) = named(trace.names, launches.api[rows[:1]]), named(trace.names, operator[rows[:1]])
        yield {
            "band": band.key,
            "op": int(times.first_op[(kept if len(kept) else rows)[0]]),
            "api": printable(api or "(no name)"),
            "operator": NO_OPERATOR if name is None else printable(name),
            "launches": len(rows),
            "per_step": round(len(kept) / len(steps.kept_rows), 3) if len(steps.kept_rows) else None,
            "kernels": int(kernels[rows].sum()),
            "overhead_us": in_us(float(np.median(times.overhead_ns[rows]))),
            "overhead_total_us": in_us(float(times.overhead_ns[rows].sum(dtype=np.int64))),
            "latency_us": in_us(float(np.median(times.latency_ns[rows]))),
            "queue_us": in_us(float(np.median(times.queue_ns[rows]))),
        }


def _replays(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    rows = sorted((row for band in bands for row in _replay_rows(band)), key=_LENGTH, reverse=True)
    left_out = f"the longest {number(MOST_ROWS)} of {number(len(rows))} replays" if len(rows) > MOST_ROWS else ""
    notes = [(band, "no graph replays") for band in bands if not len(band.analysis.context.replays)]
    observer = ""
    if any(band.analysis.context.trace_pass is not None and len(band.analysis.context.replays) for band in bands):
        observer = "the time in the launch call is mostly the profiler's own cost, which T does not hold"
    columns = [
        BAND,
        text("graph", "graph"),
        figure("step", "step", maxWidth=120),
        figure("start_us", "start µs", 1),
        figure("us", "µs, first to last op", 2),
        figure("ops", "GPU ops"),
        figure("overhead_us", "µs in the launch call", 2),
        text("recorded", "recorded"),
    ]
    return TableData(columns, with_ids(rows[:MOST_ROWS]), said(left_out, observer, of=notes))


def _replay_rows(band: Band) -> Iterator[Row]:
    """A row per replay, in order of time."""
    trace, graphs = band.analysis.context.trace, band.analysis.context.replays
    if not len(graphs):
        return
    heads = np.flatnonzero(graphs.ordinal == 0)
    first = np.full(len(graphs), NONE, dtype=np.int64)
    first[graphs.op_replay[heads]] = heads
    overhead = follow(trace.launches.dur_ns, graphs.launch_row)
    columns = zip(
        first.tolist(),
        graphs.graph.tolist(),
        _step_numbers(band, band.analysis.context.steps.op_step[first]),
        _all_us(graphs.start_ns - int(trace.gpu_ops.start_ns.min())),
        _all_us(graphs.end_ns - graphs.start_ns),
        graphs.op_count.tolist(),
        _all_us(overhead),
        (graphs.launch_row != NONE).tolist(),
        graphs.under_recorded.tolist(),
        strict=True,
    )
    for op, graph, step, start, us, ops, call_us, has_launch, is_lacking in columns:
        yield {
            "band": band.key,
            "op": op,
            "graph": printable(graphs.graph_names[graph]),
            "step": step,
            "start_us": start,
            "us": us,
            "ops": ops,
            "overhead_us": call_us if has_launch else None,
            "recorded": "lacks ops" if is_lacking else "whole" if has_launch else "its launch is not in the file",
        }


def _warnings(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    rows: list[Row] = []
    modes_done = set()
    for band in bands:
        mode = band.mode if band.analysis.context.mode not in modes_done else None  # once, not with each recording
        if band.mode is not None:
            modes_done.add(band.analysis.context.mode)
        found = [*(() if mode is None else mode.warnings), *band.analysis.document.warnings]
        rows += [_message(band, "warning", each.code, each.message, each.count) for each in found]
        reasons = dict(band.analysis.document.withheld)
        if mode is not None:
            reasons |= {name: mode.withheld[name] for name in WORTH_A_REASON if name in mode.withheld}
        rows += [_message(band, "withheld", path, why, None) for path, why in reasons.items()]
    for each in opened.report.document.unread:
        rows.append({"band": None, "op": None, "kind": "unread", "code": printable(each.path), "count": None})
        rows[-1]["message"] = one_line(each.reason)
    columns = [
        BAND,
        text("kind", "kind", minWidth=104, maxWidth=120),
        text("code", "warning, or figure withheld", minWidth=190),
        figure("count", "count", maxWidth=120),
        text("message", "what it means", flex=3, minWidth=320, wrapText=True, autoHeight=True, cellStyle=SEVERAL_LINES),
    ]
    return TableData(columns, with_ids(rows), None if rows else "no warnings")


def _message(band: Band, kind: str, code: str, message: str, count: int | None) -> Row:
    row: Row = {"band": band.key, "op": None, "kind": kind, "code": code, "count": count}
    return row | {"message": one_line(message)}


def _why(band: Band, path: str, otherwise: str) -> str:
    """The document's reason for a figure that is withheld."""
    return band.analysis.document.withheld.get(path, otherwise)


_OP_OF: Final = {KERNELS.name: _first_ops}
"""Figures whose rows lead to a GPU op, by name and category."""

_OTHERS: Final = {
    figure.name.replace("_", " "): figure for figure in FIGURES if figure.table is not None and figure is not KERNELS
}

TABLES: Final[Mapping[str, Callable[[OpenedReport, Sequence[Band]], TableData]]] = {
    "kernels": partial(_figure_table, KERNELS),
    "gaps": _gaps,
    "launches": _launches,
    "replays": _replays,
    **{name: partial(_figure_table, figure) for name, figure in _OTHERS.items()},
    "fusion": fusion_table,
    "serving": serving_table,
    "ranks": ranks_table,
    "warnings": _warnings,
}
"""Name → what makes it, in the order of the page: those of the registry, and those of single ops and gaps."""

_WHERE_FOUND: Final[Mapping[str, Callable[[OpenedReport, Sequence[Band]], bool]]] = {
    **{name: partial(_has_rows, figure) for name, figure in _OTHERS.items()},
    "fusion": has_candidates,
    "serving": has_phases,
    "ranks": has_ranks,
}
"""Tables that are left out where there is nothing to show."""
