"""The recorded step as hatched bars; below it the same as the knobs make it, and as one graph, drawn as predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...analysis.figures.parts import SMALL_CAUSE
from ...analysis.model.capture import COMPILED
from ...analysis.model.document import CAUSES
from ...analysis.model.units import MISSING, duration, share
from ...analysis.step_model.bound import MOSTLY, predict
from ..band import Band
from ..plotting import (
    NS_PER_US,
    ROW_BOTTOM,
    ROW_TOP,
    Figure,
    axis,
    bold,
    clipped,
    empty,
    layout,
    row_text,
    rows_axis,
)
from ..theme import CAUSE_COLORS, Theme
from ..view import View
from .sketch import Recorded, Timeline, as_graph, coarse, recorded_step, redrawn, runs_of_gaps
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
            annotations=[row_text(theme, place, _lane_told(lane)) for place, lane in enumerate(lanes)],
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
    step = start.fused if band.analysis.mode in COMPILED and start.fused is not None else start.step
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


def _lane_told(lane: _Lane) -> str:
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
