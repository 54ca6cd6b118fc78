"""The recorded step as hatched bars; below it the same as the knobs make it, and as one graph, drawn as predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...analysis.figures.devices import SMALL_CAUSE
from ...analysis.model.capture import COMPILED
from ...analysis.model.document import CAUSES
from ...analysis.model.units import MISSING, duration, share
from ...analysis.step_model import MOSTLY, predict
from ..band import Band
from ..plotting import (
    CAUSE_COLORS,
    NS_PER_US,
    ROW_BOTTOM,
    ROW_TOP,
    Figure,
    Theme,
    axis,
    bold,
    clipped,
    empty,
    layout,
    row_text,
    rows_axis,
)
from ..view import View
from .starting_point import StartingPoint, apply, is_moved

_MOST_STRETCHES: Final = 64  # over a sketch's width: at more, no narrow screen draws work and idle true to scale


def sketch_figure(band: Band, start: StartingPoint, view: View, theme: Theme) -> Figure:
    """One recorded step, hatched where the GPU is idle; below it the same as the knobs make it, and as one graph.

    It has no zoom: what is drawn together would look like single kernels.
    """
    title = f"One step of {clipped(band.label)}, redrawn from the closed form"
    recorded = recorded_step(band, view.step)
    if recorded is None:
        return empty(title, "no GPU op in the recording", theme)
    lanes = [
        _Lane("as recorded, under the profiler", recorded.timeline, False),
        *_predicted(band, recorded, start, view),
    ]
    end = max(lane.timeline.end_ns for lane in lanes)
    data = [bar for place, lane in enumerate(lanes) for bar in _lane_bars(place, lane, end, theme)]
    named: set[str] = set()
    for bar in data:  # each kind once in the legend
        bar["showlegend"] = bar["name"] not in named and bar.pop("matters")
        named |= {bar["name"]} if bar["showlegend"] else set()
    return {
        "data": data,
        "layout": layout(
            theme,
            title,
            "hatched: the GPU is idle; neighbouring kernels and gaps are drawn together",
            barmode="overlay",
            xaxis=axis(
                theme,
                "µs since the step's start",
                range=[0, end * 1.005 / NS_PER_US or 1],
                tickformat=",",
                fixedrange=True,
            ),
            yaxis=rows_axis(theme, len(lanes)),
            shapes=[_frame(place, lane, theme) for place, lane in enumerate(lanes) if lane.is_predicted],
            annotations=[row_text(theme, place, _lane_words(lane)) for place, lane in enumerate(lanes)],
        ),
    }


@dataclass(frozen=True)
class _Lane:
    """One row of the sketch."""

    name: str
    timeline: Timeline
    is_predicted: bool


def _predicted(band: Band, recorded: Recorded, start: StartingPoint, view: View) -> list[_Lane]:
    """The recorded step with the knobs, and as one graph; none without a model."""
    step = start.fused if band.analysis.context.mode in COMPILED and start.fused is not None else start.step
    if step is None:
        return []
    knobs = apply(start, view.knobs, step)
    told = predict(step, knobs)
    work, kernels = told.gpu_work_ns / step.gpu_work_ns, told.launches / step.launches
    lanes = []
    is_replay = (band.analysis.document.graphs.coverage_by_count or 0.0) >= MOSTLY
    if is_moved(start, view.knobs) and not is_replay:
        host = told.launch_ns
        moved = redrawn(recorded, host_ns=host, work=work, kernels=kernels, least_ns=told.eager_ns)
        lanes.append(_Lane("predicted, with these knobs", moved, True))
    if told.graph_ns is not None and (not is_replay or is_moved(start, view.knobs)):
        graph = as_graph(recorded, work=work, kernels=kernels, step_ns=told.graph_ns)
        lanes.append(_Lane("predicted, as one CUDA graph", graph, True))
    return lanes


def _lane_words(lane: _Lane) -> str:
    end = lane.timeline.end_ns
    idle = share((end - float(lane.timeline.busy_ns.sum())) / end) if end else MISSING
    return f"{bold(lane.name)}  {duration(end)}, the GPU idle for {idle}"


def _frame(place: int, lane: _Lane, theme: Theme) -> dict[str, Any]:
    """The dashed outline of what is predicted."""
    return {
        "type": "rect",
        "x0": 0,
        "x1": lane.timeline.end_ns / NS_PER_US,
        "y0": -place + ROW_BOTTOM,
        "y1": -place + ROW_TOP,
        "line": {"color": theme.predicted, "dash": "dash", "width": 2},
    }


def _lane_bars(place: int, lane: _Lane, end_ns: float, theme: Theme) -> list[dict[str, Any]]:
    """Gaps as hatched ground by cause, the work on top: solid where recorded, hatched where predicted."""
    shown = coarse(lane.timeline, max(1, round(_MOST_STRETCHES * lane.timeline.end_ns / end_ns)) if end_ns else 1)
    bars = []
    runs = runs_of_gaps(shown)
    idle = sum(until - begin for begin, until, _ in runs)
    for cause in CAUSES:
        here = [(begin, until - begin) for begin, until, name in runs if name == cause]
        if here:
            color, matters = CAUSE_COLORS[cause], sum(length for _, length in here) >= SMALL_CAUSE * idle
            pattern = {"shape": "/", "fgcolor": color, "bgcolor": theme.panel, "size": 7, "solidity": 0.35}
            marker = {"color": color, "pattern": pattern, "line": {"width": 0}}
            bars.append(_bars(place, f"idle: {cause}", here, marker, matters=matters))
    marker = {"color": theme.kernel, "line": {"width": 0}}
    if lane.is_predicted:
        pattern = {"shape": "x", "fgcolor": theme.kernel, "bgcolor": theme.panel, "size": 5, "solidity": 0.5}
        marker = {"color": theme.kernel, "pattern": pattern, "line": {"width": 0}}
    name = "GPU work, predicted" if lane.is_predicted else "GPU work, recorded"
    work = list(zip(shown.start_ns.tolist(), shown.busy_ns.tolist(), strict=True))
    return [*bars, _bars(place, name, work, marker, matters=False)]  # the lane's words name it


def _bars(
    place: int, name: str, stretches: Sequence[tuple[float, float]], marker: dict[str, Any], *, matters: bool
) -> dict[str, Any]:
    """(start, length) each in ns; ``matters`` says whether the legend tells of it."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "base": [round(at / NS_PER_US, 3) for at, _ in stretches],
        "x": [round(length / NS_PER_US, 3) for _, length in stretches],
        "y": [-place + (ROW_BOTTOM + ROW_TOP) / 2] * len(stretches),
        "width": ROW_TOP - ROW_BOTTOM,
        "marker": marker,
        "matters": matters,
        "hovertemplate": f"{name}: %{{x:,.1f}} µs<extra></extra>",
    }


Floats = NDArray[np.float64]

FOLLOW_LAUNCHES: Final = ("host", "launch", "dispatch")
"""Causes of gaps that end when the next launch arrives; the others stay as they are."""

_PER_OP: Final = "graph"  # the cause whose gaps are as many as the GPU ops


@dataclass(frozen=True, eq=False)
class Timeline:
    """A step as busy stretches, each after a gap (of no length before the first); ns since the step's start."""

    start_ns: Floats  # [n] of each busy stretch
    busy_ns: Floats  # [n]
    cause: NDArray[np.int64]  # [n] index into CAUSES of most of the gap before it
    end_ns: float  # of the step: after the last stretch's gap
    last_cause: int

    @property
    def gaps(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Start, end and cause of every gap that has a length, the one at the step's end included."""
        start = np.concatenate([[0.0], self.start_ns + self.busy_ns])
        end = np.concatenate([self.start_ns, [self.end_ns]])
        cause = np.concatenate([self.cause, [self.last_cause]])
        there = end > start
        return start[there], end[there], cause[there]


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded step, and what of the gap before each busy stretch would stay whatever launching costs."""

    timeline: Timeline
    waits_for_launch: NDArray[np.bool_]  # [n + 1] the gap has a part that follows the launches; the last: at the end
    per_op_ns: Floats  # [n + 1] part of the gap that lies between nodes of a graph
    fixed_ns: Floats  # [n + 1] the rest of what stays


def recorded_step(band: Band, step: int) -> Recorded | None:
    """One kept step of the band's headline device (clamped); None without a GPU op."""
    windows = band.step_windows
    if band.device is None or not windows:
        return None
    begin, end = windows[min(max(step, 0), len(windows) - 1)]
    gaps = band.analysis.context.gaps[band.device]
    rows = np.flatnonzero((gaps.end_ns > begin) & (gaps.start_ns < end))
    starts = (np.clip(gaps.start_ns[rows], begin, end) - begin).astype(np.float64)
    ends = (np.clip(gaps.end_ns[rows], begin, end) - begin).astype(np.float64)
    length = gaps.end_ns[rows] - gaps.start_ns[rows]
    part_of = (ends - starts) / np.maximum(length, 1)
    parts = np.stack([gaps.parts_ns[cause][rows] * part_of for cause in CAUSES])
    closes = len(rows) > 0 and ends[-1] >= end - begin  # the step ends idle
    if not closes:
        starts, ends = np.append(starts, end - begin), np.append(ends, end - begin)
        parts = np.concatenate([parts, np.zeros((len(CAUSES), 1))], axis=1)
    parts = np.concatenate([np.zeros((len(CAUSES), 1)), parts], axis=1)  # before the first stretch: none
    begins = np.concatenate([[0.0], ends[:-1]])
    cause = parts.argmax(axis=0)
    follows = parts[[CAUSES.index(name) for name in FOLLOW_LAUNCHES]].sum(axis=0)
    per_op = parts[CAUSES.index(_PER_OP)]
    return Recorded(
        Timeline(begins, starts - begins, cause[:-1], float(end - begin), int(cause[-1])),
        waits_for_launch=follows > 0,
        per_op_ns=per_op,
        fixed_ns=parts.sum(axis=0) - follows - per_op,
    )


def redrawn(recorded: Recorded, *, host_ns: float, work: float, kernels: float, least_ns: float = 0.0) -> Timeline:
    """The step with N·τ of ``host_ns``, its work ``work`` times as long, its kernels ``kernels`` times as many.

    A stretch starts when its launch has arrived and the GPU is free: the larger of the two, as in max(W, N·τ). Where
    nothing waited for a launch there is none to move: what then lacks of ``least_ns`` is spread evenly as launch gaps.
    """
    old = recorded.timeline
    count = len(old.start_ns)
    pieces = max(1, round(count * kernels)) if count else 0
    at = np.linspace(0, count, pieces + 1)  # in the old stretches
    edges = np.arange(count + 1)
    rows = np.minimum(at.astype(np.int64), count)
    busy = np.diff(np.interp(at, edges, np.concatenate([[0.0], np.cumsum(old.busy_ns)]))) * work
    fixed = np.diff(np.interp(at, edges, np.cumsum(recorded.fixed_ns)), prepend=0.0)
    waits = np.diff(np.interp(at, edges, np.cumsum(recorded.waits_for_launch)), prepend=0.0) > 0
    faster = host_ns / old.end_ns if old.end_ns else 0.0
    arrival = np.where(waits, np.interp(at, edges, np.append(old.start_ns, old.end_ns)) * faster, 0.0)
    stays = recorded.per_op_ns[rows] + fixed
    # start = max(arrival, end of the one before + stays), for all at once: the latest arrival so far, and all after it
    taken = np.concatenate([[0.0], np.cumsum(busy)]) + np.cumsum(stays)
    start = np.maximum.accumulate(np.maximum(arrival - taken, 0.0)) + taken
    cause = np.append(old.cause, old.last_cause)[rows]
    lacks = max(least_ns - start[-1], 0.0)
    if lacks > 0:
        start = start + np.linspace(0.0, lacks, len(start))
        cause = np.where(waits, cause, CAUSES.index("launch"))
    return Timeline(start[:-1], busy, cause[:-1], float(start[-1]), int(cause[-1]))


def as_graph(recorded: Recorded, *, work: float, kernels: float, step_ns: float) -> Timeline:
    """The step replayed as one graph that takes ``step_ns``; what is not work is spread evenly over its gaps."""
    alone = redrawn(recorded, host_ns=0.0, work=work, kernels=kernels)
    count = len(alone.busy_ns)
    gap = max(step_ns - float(alone.busy_ns.sum()), 0.0) / max(count, 1)
    start = np.concatenate([[0.0], np.cumsum(alone.busy_ns + gap)])
    cause = np.full(count, CAUSES.index(_PER_OP))
    return Timeline(start[:-1], alone.busy_ns, cause, float(start[-1]), CAUSES.index(_PER_OP))


def coarse(timeline: Timeline, most: int) -> Timeline:
    """At most so many stretches: neighbours together, their work first and then their gaps."""
    count = len(timeline.start_ns)
    if count <= most:
        return timeline
    heads = np.unique(np.linspace(0, count, most + 1).astype(np.int64)[:-1])
    gaps_ns = np.append(timeline.start_ns, timeline.end_ns)
    gaps_ns[1:] -= timeline.start_ns + timeline.busy_ns
    by_cause = np.zeros((len(heads) + 1, len(CAUSES)))
    np.add.at(
        by_cause,
        (np.searchsorted(heads, np.arange(count + 1)), np.append(timeline.cause, timeline.last_cause)),
        gaps_ns,
    )
    cause = by_cause.argmax(axis=1)
    work = np.add.reduceat(timeline.busy_ns, heads)
    return Timeline(timeline.start_ns[heads], work, cause[:-1], timeline.end_ns, int(cause[-1]))


def runs_of_gaps(timeline: Timeline) -> list[tuple[float, float, str]]:
    """(start, end, cause) of neighbouring gaps of one cause, together with the work between them."""
    start, end, cause = timeline.gaps
    if not len(start):
        return []
    heads = np.flatnonzero(np.diff(cause, prepend=-1))
    tails = np.append(heads[1:], len(cause)) - 1
    runs: list[Any] = list(zip(start[heads].tolist(), end[tails].tolist(), cause[heads].tolist(), strict=True))
    return [(begin, until, CAUSES[place]) for begin, until, place in runs]
