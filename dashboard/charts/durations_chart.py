"""How long the kernels run, against τ: histograms on a logarithmic axis, one per band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...analysis.model.trace import Ints
from ...analysis.model.units import duration, share
from ...analysis.step_model import MOSTLY
from ..band import Band
from ..opened_report import OpenedReport
from ..plotting import (
    ROW_BOTTOM,
    ROW_TOP,
    Figure,
    Theme,
    axis,
    bold,
    clipped,
    layout,
    log_ticks,
    note,
    reason,
    row_text,
    rows_axis,
    tick_words,
)

BINS_PER_DECADE: Final = 10

_TAU_LABEL: Final = 0.17  # share of the width of a narrow chart that the words beside the line of τ take


def durations_figure(opened: OpenedReport, theme: Theme, bands: Sequence[str] | None = None) -> Figure:
    """How long the kernels run, a histogram per band on one logarithmic axis, with τ drawn in.

    Whole file, headline device, as the document's ``short_kernels``; bins begin at τ, so that what is left of the line
    is exactly what is shorter. Without τ, and in graphs, whose kernels need no launch of their own, no line.
    """
    shown = opened.chosen(bands or ())
    data: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    ends: list[float] = []
    taus: list[float] = []
    for place, band in enumerate(shown):
        durations = _kernel_durations(band)
        tau = _tau_of(band)
        annotations.append(row_text(theme, place, _row_words(band, durations, tau)))
        longer_than_nothing = durations[durations > 0]
        if not len(longer_than_nothing):
            continue
        edges, counts = log_bins(longer_than_nothing, tau or 1e3)
        ends += [edges[0], edges[-1], *([] if tau is None else [tau])]
        data += _histogram(place, band, edges, counts / len(durations), tau, theme)
        if tau is not None:
            taus.append(tau)
            data.append(_tau_line(place, tau, theme))
            annotations.append(_tau_label(place, tau, theme))
    figure: Figure = {
        "data": data,
        "layout": layout(
            theme,
            "How long kernels run, against τ",
            "share of kernels by duration; hatched: shorter than one launch takes",
            barmode="overlay",
            xaxis=_log_time_axis(theme, ends, taus, "duration of a kernel"),
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
    ops = band.analysis.context.trace.gpu_ops
    durations: Ints = ops.dur_ns[ops.is_kernel & (ops.device == (-1 if band.device is None else band.device))]
    return durations


def _tau_of(band: Band) -> float | None:
    """τ of the document; null in graphs."""
    short = band.analysis.document.short_kernels
    in_graphs = (band.analysis.document.graphs.coverage_by_count or 0.0) >= MOSTLY
    return None if in_graphs or short.below_tau is None or not short.tau_ns or short.tau_ns <= 0 else short.tau_ns


def _row_words(band: Band, durations: Ints, tau: float | None) -> str:
    label, document = bold(clipped(band.label)), band.analysis.document
    short, source = document.short_kernels, document.short_kernels.tau_source
    if not len(durations):
        return f"{label}  no kernel on this device"
    if tau is not None and short.below_tau is not None:
        named = "host time per launch" if source == "tau_step" else source
        return f"{label}  {share(short.below_tau.by_count)} of kernels are shorter than τ = {duration(tau)} ({named})"
    if (document.graphs.coverage_by_count or 0.0) >= MOSTLY:
        shorter = "" if short.below_10us is None else f"; {share(short.below_10us.by_count)} under 10 µs"
        return f"{label}  in a graph, no launch per kernel{shorter}"
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
                    "y": (shares[rows] / shares.max() * (ROW_TOP - ROW_BOTTOM)).tolist(),
                    "base": -place + ROW_BOTTOM,
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
        "y": [-place + ROW_BOTTOM, -place + ROW_TOP],
        "line": {"color": theme.launch, "width": 2.5},
        "hoverinfo": "skip",
    }


def _tau_label(place: int, tau: float, theme: Theme) -> dict[str, Any]:
    return {
        "text": f"τ = {duration(tau)}",
        "x": float(np.log10(tau)),
        "y": -place + ROW_TOP,
        "xanchor": "left",
        "yanchor": "top",
        "xshift": 4,
        "showarrow": False,
        "bgcolor": theme.panel,
        "font": {"color": theme.ink},
    }


def _log_time_axis(theme: Theme, ends_ns: Sequence[float], taus_ns: Sequence[float], title: str) -> dict[str, Any]:
    """A linear axis of log10(ns), so that bars keep their widths, labelled with times; right of any τ is its label."""
    if not ends_ns:
        return axis(theme, title, range=[0, 1], showticklabels=False)
    low, high = min(ends_ns), max(ends_ns)
    ticks = log_ticks(low, high, most=9)
    left, right = float(np.log10(low)) - 0.05, float(np.log10(high)) + 0.05
    if taus_ns:
        right = max(right, (float(np.log10(max(taus_ns))) - _TAU_LABEL * left) / (1 - _TAU_LABEL))
    return axis(
        theme,
        title,
        range=[left, right],
        tickvals=np.log10(ticks).tolist(),
        ticktext=tick_words(ticks),
    )
