"""Where the time goes, as charts: idle time, kernel durations against τ, and the step against what bounds it.

Every function takes what was opened and gives plotly's JSON as plain dicts; every number is the report's own. What
is measured is drawn solid, what a model says hollow; what the data can't support is absent, with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from ..analysis.document import CAUSES, TAX_FIELDS, TAXES, BoundDoc, GapsDoc, ModeDoc, TraceDoc
from ..analysis.export.mode_table import TAX_TITLES, shown_name
from ..analysis.export.parts import MOSTLY, headline_gaps
from ..analysis.trace import Ints
from ..analysis.units import duration, duration_interval, duration_pm, number, ratio, share
from .opened import Band, Opened
from .plotting import (
    HATCHES,
    NS_PER_US,
    Figure,
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
from .theme import CAUSE_COLORS, Theme

Split = Literal["tax", "cause"]

TAX_COLORS: Final[Mapping[str, str]] = {
    "launch": CAUSE_COLORS["launch"],
    "stall": CAUSE_COLORS["host"],
    "node": CAUSE_COLORS["graph"],
    "sync": CAUSE_COLORS["sync"],
    "between_steps": CAUSE_COLORS["device"],
    "other": CAUSE_COLORS["unlinked"],
}
assert tuple(TAX_COLORS) == TAXES

_PARTS: Final[Mapping[Split, tuple[Sequence[str], Mapping[str, str]]]] = {
    "tax": (TAXES, TAX_COLORS),
    "cause": (CAUSES, CAUSE_COLORS),
}
"""What idle time is split into, in the order of its bars, and the colours."""

BINS_PER_DECADE: Final = 10
_LEAST_TOLD: Final = 0.01  # share of a row from which a part is told in its words
_MOST_TOLD: Final = 3
_A_STEP: Final = "a step"
_BAR: Final = 0.4  # height of a bar, of its row
_BAR_AT: Final = -0.14  # its middle, from the middle of its row


@dataclass(frozen=True)
class _Idle:
    """One row of the idle chart. ``parts_ns`` add up to ``total_ns``; both null where it is withheld."""

    label: str
    words: str
    total_ns: float | None
    parts_ns: Mapping[str, float]
    hover: str
    is_per_step: bool = True


def idle_figure(opened: Opened, theme: Theme, split: Split | None = None) -> Figure:
    """Idle time per step, stacked: of a profile T − W by tax, unprofiled; of bare traces by cause, as recorded.

    ``split`` asks for the other one: the taxes of bare traces, or the causes in a profile's recordings.
    """
    profile = opened.report.document.profile
    modes = {} if profile is None else profile.modes
    split = split or ("tax" if modes else "cause")
    shown = [band for key in opened.first if (band := opened.band(key)) is not None]
    rows = [_idle_of_mode(name, mode, opened.band(name)) for name, mode in modes.items()] if split == "tax" else []
    rows += [_idle_of_trace(band, split) for band in shown if band.mode is None or split == "cause"]
    if split == "tax" and modes:
        subtitle = "T − W of the unprofiled step, split by the taxes"
        if len(rows) > len(modes):
            subtitle += "; of the other traces the recorded idle time"
    else:
        subtitle = f"as recorded, under the profiler, by {split}"
    unit = "µs per step" if all(row.is_per_step for row in rows) else "µs per step; of a whole file where it says so"
    names = [name for name in _PARTS[split][0] if any(row.parts_ns.get(name) for row in rows)]
    figure: Figure = {
        "data": [_idle_bars(name, split, rows, theme) for name in names],
        "layout": layout(
            theme,
            "Idle time of the GPU, per step",
            subtitle,
            barmode="stack",
            xaxis=axis(theme, unit, rangemode="tozero", tickformat=","),
            yaxis=rows_axis(theme, len(rows)),
            annotations=[row_text(theme, place, row.words) for place, row in enumerate(rows)],
        ),
    }
    if not names:
        figure["layout"]["xaxis"] |= {"range": [0, 1], "showticklabels": False}
    if not rows:
        figure["layout"]["annotations"] = [note(theme, "nothing was opened that holds a GPU op")]
    return figure


def _word(part: str, split: Split) -> str:
    """A tax or a cause as people read it."""
    return TAX_TITLES[part].replace("\n", " ") if split == "tax" else part


def _idle_bars(name: str, split: Split, rows: Sequence[_Idle], theme: Theme) -> dict[str, Any]:
    """One part of every row."""
    order, colors = _PARTS[split]
    color, hatch = colors[name], HATCHES[order.index(name) % len(HATCHES)]
    here = [(place, row, ns) for place, row in enumerate(rows) if (ns := row.parts_ns.get(name))]
    word = _word(name, split)
    return {
        "type": "bar",
        "orientation": "h",
        "name": word,
        "x": [ns / NS_PER_US for _, _, ns in here],
        "y": [-place + _BAR_AT for place, _, _ in here],
        "width": _BAR,
        "marker": {
            "color": color,
            "line": {"color": theme.ink, "width": 0.5},
            "pattern": {"shape": hatch, "fgcolor": theme.paper, "bgcolor": color, "size": 7, "solidity": 0.25},
        },
        "hovertext": [
            f"{bold(row.label)}: {word} {duration(ns)}, {ratio(ns, row.total_ns)}<br>{row.hover}" for _, row, ns in here
        ],
        "hoverinfo": "text",
    }


def _idle_of_mode(name: str, mode: ModeDoc, band: Band | None) -> _Idle:
    """T − W by the taxes of the document."""
    label = clipped(shown_name(name))
    parts = {tax: ns for tax, field in TAX_FIELDS.items() if (ns := getattr(mode, field)) is not None}
    total = mode.exposed_idle_ns
    if not parts or total is None:
        why = mode.withheld.get("launch_tax_ns") or mode.withheld.get("exposed_idle_ns") or mode.error or "not known"
        measured = "" if total is None else f"T − W = {duration_pm(total, mode.gpu_work_uncertainty_ns)}; "
        return _Idle(label, f"{bold(label)}  {measured}not split: {reason(why)}", None, {}, "")
    hover = [f"T − W = {duration_pm(total, mode.gpu_work_uncertainty_ns)}, {share(mode.true_idle_fraction)} of T"]
    found = None if band is None else headline_gaps(band.analysis.document)
    if found is not None and found[0].total_ns:
        causes = _told({cause: doc.ns for cause, doc in found[0].by_cause.items()}, found[0].total_ns, "cause")
        hover.append(f"in the recording, under the profiler: {causes}")
    told = f"{duration_pm(total, mode.gpu_work_uncertainty_ns)}: {_told(parts, total, 'tax')}"
    return _Idle(label, f"{bold(label)}  {told}", total, parts, "<br>".join(hover))


def _idle_of_trace(band: Band, split: Split) -> _Idle:
    """The idle time that was recorded: per step where there is a steady scope, else of the whole file."""
    document, label = band.analysis.document, clipped(band.label)
    found = headline_gaps(document)
    if found is None:
        return _Idle(label, f"{bold(label)}  no GPU op in the file", None, {}, "")
    gaps, scope = found
    steps, where = _steps_in(document, gaps, scope)
    by_cause = {cause: doc.ns / steps for cause, doc in gaps.by_cause.items() if doc.ns}
    by_tax = {tax: ns / steps for tax, ns in gaps.taxes_ns.items() if ns}
    parts, others = (by_cause, by_tax) if split == "cause" else (by_tax, by_cause)
    total = gaps.total_ns / steps
    told = f"{duration(total)} {where}: {_told(parts, total, split)}" if total else f"no gap between GPU ops, {where}"
    rest: Split = "tax" if split == "cause" else "cause"
    other = f"by {rest}: {_told(others, total, rest)}" if total else ""
    return _Idle(label, f"{bold(label)}  {told}", total, parts, other, where == _A_STEP)


def _steps_in(document: TraceDoc, gaps: GapsDoc, scope: str) -> tuple[int, str]:
    """Steps that the gaps lie in, and how to say so; 1 for a whole file."""
    periods = None if document.steps is None else document.steps.period_ns
    if scope == "steady" and periods is not None and periods.count:
        return periods.count, _A_STEP
    return 1, "in the whole file"


def _told(parts_ns: Mapping[str, float], total_ns: float, split: Split) -> str:
    """The largest parts in words: ``launch tax 98 % · node tax 2 %``."""
    ranked = sorted(((ns, name) for name, ns in parts_ns.items() if ns), reverse=True)
    told = [item for item in ranked[:_MOST_TOLD] if item[0] >= _LEAST_TOLD * total_ns] or ranked[:1]
    return " · ".join(f"{_word(name, split)} {share(ns / total_ns)}" for ns, name in told)


def durations_figure(opened: Opened, theme: Theme, bands: Sequence[str] | None = None) -> Figure:
    """How long the kernels run, a histogram per band on one logarithmic axis, with τ drawn in.

    Whole file, headline device, as the document's ``short_kernels``; bins begin at τ, so that what is left of the line
    is exactly what is shorter. Without τ, and in graphs, whose kernels need no launch of their own, no line.
    """
    shown = [band for key in (bands or opened.first) if (band := opened.band(key)) is not None]
    data: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    ends: list[float] = []
    for place, band in enumerate(shown):
        durations = _kernel_durations(band)
        tau = _tau_of(band)
        annotations.append(row_text(theme, place, _durations_told(band, durations, tau)))
        longer_than_nothing = durations[durations > 0]
        if not len(longer_than_nothing):
            continue
        edges, counts = log_bins(longer_than_nothing, tau or 1e3)
        ends += [edges[0], edges[-1], *([] if tau is None else [tau])]
        data += _histogram(place, band, edges, counts / len(durations), tau, theme)
        if tau is not None:
            data.append(_tau_line(place, tau, theme))
            annotations.append(_tau_label(place, tau, theme))
    figure: Figure = {
        "data": data,
        "layout": layout(
            theme,
            "How long kernels run, against τ",
            "share of kernels by duration; hatched: shorter than τ, the host time that launching one takes",
            barmode="overlay",
            xaxis=_log_time_axis(theme, ends, "duration of a kernel"),
            yaxis=rows_axis(theme, len(shown)),
            showlegend=False,
            annotations=annotations or [note(theme, "nothing was opened that holds a kernel")],
        ),
    }
    figure["layout"]["margin"]["b"] = 52
    return figure


def log_bins(durations_ns: Ints, edge_ns: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Edges (ns, ascending) of ten bins a decade of which one is ``edge_ns``, and the counts between them."""
    first = np.floor(np.log10(durations_ns.min() / edge_ns) * BINS_PER_DECADE)
    last = np.floor(np.log10(durations_ns.max() / edge_ns) * BINS_PER_DECADE) + 1
    edges = edge_ns * 10.0 ** (np.arange(first, last + 1) / BINS_PER_DECADE)
    edges[0], edges[-1] = min(edges[0], durations_ns.min()), max(edges[-1], durations_ns.max() + 1)
    if first <= 0 <= last:
        edges[int(-first)] = edge_ns  # exactly: who is shorter must be to the left
    return edges, np.histogram(durations_ns, edges)[0]


def _kernel_durations(band: Band) -> Ints:
    """Of every kernel of the headline device."""
    ops = band.analysis.trace.gpu_ops
    durations: Ints = ops.dur_ns[ops.is_kernel & (ops.device == (-1 if band.device is None else band.device))]
    return durations


def _tau_of(band: Band) -> float | None:
    """τ of the document; null in graphs."""
    short = band.analysis.document.short_kernels
    in_graphs = (band.analysis.document.graphs.coverage_by_count or 0.0) >= MOSTLY
    return None if in_graphs or short.below_tau is None or not short.tau_ns or short.tau_ns <= 0 else short.tau_ns


def _durations_told(band: Band, durations: Ints, tau: float | None) -> str:
    label, document = bold(clipped(band.label)), band.analysis.document
    short, source = document.short_kernels, document.short_kernels.tau_source
    if not len(durations):
        return f"{label}  no kernel on this device"
    if tau is not None and short.below_tau is not None:
        named = "host time per launch" if source == "tau_step" else source
        return f"{label}  {share(short.below_tau.by_count)} of kernels are shorter than τ = {duration(tau)} ({named})"
    if (document.graphs.coverage_by_count or 0.0) >= MOSTLY:
        shorter = "" if short.below_10us is None else f"; {share(short.below_10us.by_count)} run under 10 µs"
        return f"{label}  replayed as a graph, no launch per kernel{shorter}"
    return f"{label}  no τ: {reason(document.withheld.get('short_kernels.tau_ns', 'no kernel took any time'))}"


def _histogram(
    place: int, band: Band, edges: np.ndarray[Any, Any], shares: np.ndarray[Any, Any], tau: float | None, theme: Theme
) -> list[dict[str, Any]]:
    """The bars below τ, hatched, and those above it."""
    left, right = edges[:-1], edges[1:]
    filled = shares > 0
    below = filled & (left < (tau or 0.0) * (1 - 1e-9))
    traces = []
    for rows, hatch in ((below, "/"), (filled & ~below, "")):
        if rows.any():
            middle = (np.log10(left[rows]) + np.log10(right[rows])) / 2
            marker: dict[str, Any] = {"color": theme.kernel, "line": {"width": 0.5, "color": theme.panel}}
            if hatch:
                marker["pattern"] = {"shape": hatch, "fgcolor": theme.paper, "bgcolor": theme.kernel, "size": 6}
                marker["pattern"]["solidity"] = 0.3
            traces.append(
                {
                    "type": "bar",
                    "name": clipped(band.label),
                    "x": np.round(middle, 5).tolist(),
                    "y": (shares[rows] / shares.max() * 0.58).tolist(),
                    "base": -place - 0.45,
                    "width": np.round(np.log10(right[rows] / left[rows]), 5).tolist(),
                    "marker": marker,
                    "customdata": shares[rows].tolist(),
                    "hovertext": [
                        f"{bold(clipped(band.label))}: {share(part)} of kernels<br>run {duration(a)} to {duration(b)}"
                        for part, a, b in zip(
                            shares[rows].tolist(), left[rows].tolist(), right[rows].tolist(), strict=True
                        )
                    ],
                    "hoverinfo": "text",
                }
            )
    return traces


def _tau_line(place: int, tau: float, theme: Theme) -> dict[str, Any]:
    at = float(np.log10(tau))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "τ",
        "x": [at, at],
        "y": [-place - 0.45, -place + 0.2],
        "line": {"color": theme.launch, "width": 2.5},
        "hoverinfo": "skip",
    }


def _tau_label(place: int, tau: float, theme: Theme) -> dict[str, Any]:
    return {
        "text": f"τ = {duration(tau)}",
        "x": float(np.log10(tau)),
        "y": -place + 0.2,
        "xanchor": "left",
        "yanchor": "top",
        "xshift": 4,
        "showarrow": False,
        "bgcolor": theme.panel,
        "font": {"color": theme.ink},
    }


def _log_time_axis(theme: Theme, ends_ns: Sequence[float], title: str) -> dict[str, Any]:
    """A linear axis of log10(ns), so that bars keep their widths, labelled with times."""
    if not ends_ns:
        return axis(theme, title, range=[0, 1], showticklabels=False)
    low, high = min(ends_ns), max(ends_ns)
    ticks = log_ticks(low, high, most=9)
    return axis(
        theme,
        title,
        range=[float(np.log10(low)) - 0.05, float(np.log10(high)) + 0.05],
        tickvals=np.log10(ticks).tolist(),
        ticktext=tick_words(ticks),
    )


@dataclass(frozen=True)
class _Bounded:
    """One row of the bound chart; times in ns, null where withheld."""

    label: str
    words: str
    step_ns: float | None
    low_ns: float | None
    high_ns: float | None
    bound: BoundDoc | None
    work_ns: float | None
    floor_ns: float | None
    predicted_ns: float | None


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


def bound_figure(opened: Opened, theme: Theme) -> Figure:
    """The measured step beside what bounds it: W, max(W, N·τ), W + N·τ, the floor, and the graph that is predicted."""
    profile = opened.report.document.profile
    modes = {} if profile is None else profile.modes
    shown = [band for key in opened.first if (band := opened.band(key)) is not None and band.mode is None]
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
        return _Bounded(label, words, None, None, None, None, None, None, None)
    told = [f"T {duration_interval(step.median, step.ci_low, step.ci_high)}"]
    if bound is not None and bound.bound_ns is not None:
        told.append(f"bound {duration(bound.bound_ns)}")
    else:
        told.append(f"no bound: {reason(mode.withheld.get('bound') or mode.withheld.get('tau_step_ns') or 'no τ')}")
    if mode.gpu_work_ns is not None:
        told.append(f"W {duration(mode.gpu_work_ns)}")
    return _Bounded(
        label=label,
        words=f"{bold(label)}  {' · '.join(told)}",
        step_ns=step.median,
        low_ns=step.ci_low,
        high_ns=step.ci_high,
        bound=bound,
        work_ns=mode.gpu_work_ns,
        floor_ns=mode.floor_ns,
        predicted_ns=mode.predicted_graph_ns,
    )


def _bounded_trace(band: Band) -> _Bounded:
    label, document = clipped(band.label), band.analysis.document
    bound = document.bound
    if bound is None:
        words = f"{bold(label)}  no bound: {reason(document.withheld.get('bound', 'not known'))}"
        return _Bounded(label, words, None, None, None, None, None, None, None)
    what = "T" if document.steps is not None else "the whole file"
    words = f"{bold(label)}  {what} {duration(bound.step_ns)} · bound {duration(bound.bound_ns)} · "
    words += f"W {duration(bound.gpu_work_ns)} · as profiled"
    return _Bounded(label, words, bound.step_ns, None, None, bound, bound.gpu_work_ns, None, None)


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
        "y": [-place - 0.05 for place, _, _ in here],
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
        "y": [-place - (0.05 if mark.is_measured else 0.3) for place, _, _ in here],
        "marker": marker,
        "hovertext": [f"{bold(row.label)}: {mark.name} = {duration(ns)}{_terms(mark, row)}" for _, row, ns in here],
        "hoverinfo": "text",
    }


def _terms(mark: _Mark, row: _Bounded) -> str:
    """What the figure was made from."""
    bound = row.bound
    if mark.field not in ("bound_ns", "serial_ns") or bound is None:
        return ""
    told = f"<br>W {duration(bound.gpu_work_ns)}, N·τ = {number(bound.launches)} × {duration(bound.tau_ns)}"
    return told if bound.note is None else f"{told}<br>{escaped(bound.note)}"


def _spans(rows: Sequence[_Bounded], theme: Theme) -> dict[str, Any]:
    """Dashed lines from max(W, N·τ), where host and GPU overlap fully, to W + N·τ, where they never do."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place, row in enumerate(rows):
        if row.bound is not None and row.bound.bound_ns and row.bound.serial_ns:
            xs += [row.bound.bound_ns / NS_PER_US, row.bound.serial_ns / NS_PER_US, None]
            ys += [-place - 0.3, -place - 0.3, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": xs,
        "y": ys,
        "line": {"color": theme.predicted, "dash": "dot", "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }
