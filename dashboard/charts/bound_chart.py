"""The measured step beside what bounds it: measurements solid, what the closed form says hollow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...analysis.model.document import BoundDoc, ModeDoc
from ...analysis.model.units import duration, duration_interval, number
from ...analysis.profile.mode_table import shown_name
from ..band import Band
from ..opened_report import OpenedReport
from ..plotting import (
    NS_PER_US,
    Figure,
    Theme,
    axis,
    bold,
    clipped,
    escaped,
    finite,
    hollow,
    layout,
    log_ticks,
    note,
    reason,
    row_text,
    rows_axis,
    tick_words,
)


@dataclass(frozen=True)
class _Bounded:
    """One row of the bound chart; times in ns, null where withheld."""

    label: str
    words: str
    step_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    bound: BoundDoc | None = None
    work_ns: float | None = None
    floor_ns: float | None = None
    predicted_ns: float | None = None
    work_name: str = "W"


@dataclass(frozen=True)
class _Mark:
    """One kind of mark of the bound chart."""

    field: str
    name: str
    symbol: str
    is_measured: bool


_MARKS: Final = (
    _Mark("work_ns", "GPU work W", "triangle-up", True),
    _Mark("floor_ns", "floor", "triangle-right", False),
    _Mark("bound_ns", "max(W, N·τ)", "circle", False),
    _Mark("serial_ns", "W + N·τ", "square", False),
    _Mark("predicted_ns", "predicted as one graph", "diamond", False),
)

WITHOUT_WAITING: Final = "W without waiting"
"""Of a rank, where the others' recordings tell how long it waits for them."""

_MEASURED_AT: Final = -0.13  # height of the marks, from the middle of their row
_MODEL_AT: Final = -0.36


def bound_figure(opened: OpenedReport, theme: Theme) -> Figure:
    """The measured step beside what bounds it: W, max(W, N·τ), W + N·τ, the floor, and the graph that is predicted."""
    profile = opened.report.document.profile
    modes = {} if profile is None else profile.modes
    shown = [band for band in opened.shown_first if band.mode is None]
    rows = [_bounded_mode(name, mode) for name, mode in modes.items()] + [_bounded_trace(band) for band in shown]
    data = [_step_marks(rows, theme), *(_marks(mark, rows, theme) for mark in _MARKS)]
    data += [_spans(rows, theme)]
    data = [trace for trace in data if trace["x"]]
    drawn = finite([time for trace in data for time in trace["x"]])
    subtitle = "solid: measured · hollow: what the closed form says" if modes else "all as recorded, under the profiler"
    times = axis(theme, "time of a step", type="log")
    if drawn:
        low, high = min(drawn) * NS_PER_US / 1.15, max(drawn) * NS_PER_US * 1.15
        ticks = log_ticks(low, high)
        times["range"] = [float(np.log10(low / NS_PER_US)), float(np.log10(high / NS_PER_US))]
        times |= {"tickvals": [tick / NS_PER_US for tick in ticks], "ticktext": tick_words(ticks)}
    figure: Figure = {
        "data": data,
        "layout": layout(
            theme,
            "The step against its bound",
            subtitle,
            xaxis=times,
            yaxis=rows_axis(theme, len(rows)),
            annotations=[row_text(theme, place, row.words) for place, row in enumerate(rows)]
            or [note(theme, "nothing was opened that holds a GPU op")],
        ),
    }
    return figure


def _bounded_mode(name: str, mode: ModeDoc) -> _Bounded:
    label, step, bound = clipped(shown_name(name)), mode.step_ns, mode.bound
    if step is None:
        words = f"{bold(label)}  not timed: {reason(mode.error or 'no reason was recorded')}"
        return _Bounded(label, words)
    texts = [f"T {duration_interval(step.median, step.ci_low, step.ci_high)}"]
    if bound is not None and bound.bound_ns is not None:
        texts.append(f"bound {duration(bound.bound_ns)}")
    else:
        texts.append(f"no bound: {reason(mode.withheld.get('bound') or mode.withheld.get('tau_step_ns') or 'no τ')}")
    without = mode.gpu_work_without_waiting_ns
    work, work_name = (mode.gpu_work_ns, "W") if without is None else (without, WITHOUT_WAITING)
    if work is not None:
        texts.append(f"{work_name} {duration(work)}")
    return _Bounded(
        label=label,
        words=f"{bold(label)}  {' · '.join(texts)}",
        step_ns=step.median,
        low_ns=step.ci_low,
        high_ns=step.ci_high,
        bound=bound,
        work_ns=work,
        floor_ns=mode.floor_ns,
        predicted_ns=mode.predicted_graph_ns,
        work_name=work_name,
    )


def _bounded_trace(band: Band) -> _Bounded:
    label, document = clipped(band.label), band.analysis.document
    bound = document.bound
    if bound is None:
        words = f"{bold(label)}  no bound: {reason(document.withheld.get('bound', 'not known'))}"
        return _Bounded(label, words)
    what = "T" if document.steps is not None else "the whole file"
    words = f"{bold(label)}  {what} {duration(bound.step_ns)} · bound {duration(bound.bound_ns)} · "
    shared = document.communication
    work_name = "W" if shared is None or shared.work_without_waiting_ns is None else WITHOUT_WAITING
    words += f"{work_name} {duration(bound.gpu_work_ns)} · as profiled"
    return _Bounded(label, words, bound.step_ns, bound=bound, work_ns=bound.gpu_work_ns, work_name=work_name)


def _step_marks(rows: Sequence[_Bounded], theme: Theme) -> dict[str, Any]:
    """T of every row, with its interval."""
    here = [(place, row, row.step_ns) for place, row in enumerate(rows) if row.step_ns]
    up = [0.0 if row.high_ns is None else max(row.high_ns - ns, 0.0) / NS_PER_US for _, row, ns in here]
    down = [0.0 if row.low_ns is None else max(ns - row.low_ns, 0.0) / NS_PER_US for _, row, ns in here]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "measured T",
        "x": [ns / NS_PER_US for _, _, ns in here],
        "y": [-place + _MEASURED_AT for place, _, _ in here],
        "error_x": {"type": "data", "array": up, "arrayminus": down, "color": theme.measured, "thickness": 2},
        "marker": {"symbol": "diamond", "size": 12, "color": theme.measured},
        "hovertext": [
            f"{bold(row.label)}: T = {duration_interval(ns, row.low_ns, row.high_ns)}" for _, row, ns in here
        ],
        "hoverinfo": "text",
    }


def _time_of(mark: _Mark, row: _Bounded) -> float | None:
    source = row.bound if mark.field in ("bound_ns", "serial_ns") else row
    found: float | None = getattr(source, mark.field, None)
    return found or None  # nothing takes no time, and a logarithmic axis has no place for it


def _marks(mark: _Mark, rows: Sequence[_Bounded], theme: Theme) -> dict[str, Any]:
    """One kind of mark, in every row that has it."""
    here = [(place, row, ns) for place, row in enumerate(rows) if (ns := _time_of(mark, row)) is not None]
    marker = (
        {"symbol": mark.symbol, "size": 11, "color": theme.measured} if mark.is_measured else hollow(theme, mark.symbol)
    )
    return {
        "type": "scatter",
        "mode": "markers",
        "name": mark.name,
        "x": [ns / NS_PER_US for _, _, ns in here],
        "y": [-place + (_MEASURED_AT if mark.is_measured else _MODEL_AT) for place, _, _ in here],
        "marker": marker,
        "hovertext": [
            f"{bold(row.label)}: {_name(mark, row)} = {duration(ns)}{_terms(mark, row)}" for _, row, ns in here
        ],
        "hoverinfo": "text",
    }


def _name(mark: _Mark, row: _Bounded) -> str:
    return f"GPU work {row.work_name}" if mark.field == "work_ns" else mark.name


def _terms(mark: _Mark, row: _Bounded) -> str:
    """What the figure was made from."""
    bound = row.bound
    if mark.field not in ("bound_ns", "serial_ns") or bound is None:
        return ""
    terms = (
        f"<br>{row.work_name} {duration(bound.gpu_work_ns)}, N·τ = {number(bound.launches)} × {duration(bound.tau_ns)}"
    )
    return terms if bound.note is None else f"{terms}<br>{escaped(bound.note)}"


def _spans(rows: Sequence[_Bounded], theme: Theme) -> dict[str, Any]:
    """Dashed lines from max(W, N·τ), where host and GPU overlap fully, to W + N·τ, where they never do."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, row in enumerate(rows):
        if row.bound is not None and row.bound.bound_ns and row.bound.serial_ns:
            xs += [row.bound.bound_ns / NS_PER_US, row.bound.serial_ns / NS_PER_US, None]
            ys += [-place + _MODEL_AT, -place + _MODEL_AT, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": xs,
        "y": ys,
        "line": {"color": theme.predicted, "dash": "dot", "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }


_AROUND_REM: Final = 10.0  # title, axis and legend
_ROW_REM: Final = 4.6  # two lines of words, and bars
_LEAST_ROWS: Final = 2


def chart_rem(opened: OpenedReport) -> float:
    """Height in rem of this chart and of those of idle time and durations: a row per mode or trace."""
    profile = opened.report.document.profile
    rows = max(len(opened.first), 0 if profile is None else len(profile.modes), _LEAST_ROWS)
    return round(_AROUND_REM + _ROW_REM * rows, 1)
