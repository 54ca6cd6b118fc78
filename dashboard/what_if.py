"""The launch-overhead model to play with: what was measured, and what the closed form makes of it when a knob moves.

Measurements are drawn solid; predictions hollow, dashed and hatched, and always called predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from ..analysis.bound import Knobs, Prediction, StepModel, predict, turning_kernels, turning_tau_ns
from ..analysis.capture import COMPILED, GRAPH_OF
from ..analysis.document import CAUSES
from ..analysis.export.parts import MOSTLY, SMALL_CAUSE
from ..analysis.units import MISSING, byte_size, duration, duration_interval, number, one_line, printable, rate, share
from .opened import Band
from .plotting import NS_PER_US, Figure, axis, bold, clipped, hollow, layout, note, reason, row_text, rows_axis
from .sketch import Recorded, Timeline, as_graph, coarse, recorded_step, redrawn, runs_of_gaps
from .starting_point import FORMATS, Slider, StartingPoint, apply, is_moved, slider_marks, starting_point
from .theme import CAUSE_COLORS, Theme
from .view import View

__all__ = [
    "Row",
    "Slider",
    "StartingPoint",
    "apply",
    "is_moved",
    "readout",
    "sketch_figure",
    "slider_marks",
    "starting_point",
    "what_if_figure",
]

Against = Literal["kernels", "tau"]

_POINTS: Final = 97  # of a curve
_MOST_STRETCHES: Final = 64  # over a sketch's width: at more, no narrow screen draws work and idle true to scale
_US_BELOW: Final = 2e6  # ns: a chart of shorter times is in µs
_ROOM: Final = 0.25  # of a chart's width, to the left of a point: enough for its name
_GRAPH_COLOR: Final = CAUSE_COLORS["device"]


@dataclass(frozen=True)
class Row:
    """One line of the readout, in words."""

    label: str
    measured: str
    predicted: str
    change: str


def readout(start: StartingPoint, view: View) -> tuple[Row, ...]:
    """What was measured, what is predicted at these knobs, and the change from what the model says without any."""
    step = start.step
    if step is None:
        return (Row("no model", MISSING, one_line(start.reason), MISSING),)
    knobs = apply(start, view.knobs)
    before, after = predict(step), predict(step, knobs)
    tau = step.tau_ns if knobs.tau_ns is None else knobs.tau_ns
    one_by_one = f"{printable(start.mode)}: max(W, N·τ)"
    rows = [
        _time_row(one_by_one, _measured(start, start.mode), before.eager_ns, after.eager_ns),
        _time_row("without any overlap: W + N·τ", MISSING, before.serial_ns, after.serial_ns),
    ]
    if before.graph_ns is not None:
        rows.append(
            _time_row(
                "as one CUDA graph", _measured(start, GRAPH_OF.get(start.mode, "")), before.graph_ns, after.graph_ns
            )
        )
    if start.fused is not None:
        old, new = predict(start.fused), predict(start.fused, apply(start, view.knobs, start.fused))
        rows.append(_time_row("fused: max(W, N·τ)", _measured(start, "fused"), old.eager_ns, new.eager_ns))
        if old.graph_ns is not None:
            rows.append(
                _time_row("fused, as one CUDA graph", _measured(start, "fused_graph"), old.graph_ns, new.graph_ns)
            )
    rows += [
        _time_row("GPU work W", duration(step.gpu_work_ns), step.gpu_work_ns, after.gpu_work_ns),
        *(
            []
            if before.floor_ns is None
            else [_time_row("floor", duration(before.floor_ns), before.floor_ns, after.floor_ns)]
        ),
        _row("launches N", number(step.launches), number(_rounded(after.launches)), step.launches, after.launches),
        _time_row("host time per launch τ", duration(step.tau_ns), step.tau_ns, tau),
        _time_row(
            "launching, N·τ", duration(step.launches * step.tau_ns), step.launches * step.tau_ns, after.launches * tau
        ),
        Row("the limit", _limit(before, step.tau_ns), _limit(after, tau), _turns(step, knobs)),
    ]
    return (*rows, *(Row("assumed", "", text, "") for text in assumptions(start, view)))


def _measured(start: StartingPoint, name: str) -> str:
    """T of a mode with its interval."""
    found = next((mode for mode in start.measured if mode.name == name), None)
    return MISSING if found is None else duration_interval(found.step.median, found.step.ci_low, found.step.ci_high)


def _time_row(label: str, measured: str, before: float | None, after: float | None) -> Row:
    return _row(label, measured, duration(after), before, after)


def _row(label: str, measured: str, predicted: str, before: float | None, after: float | None) -> Row:
    return Row(label, measured, predicted, _change(before, after))


def _change(before: float | None, after: float | None) -> str:
    """In per cent, with its sign; missing where nothing changes."""
    if not before or after is None or abs(after / before - 1) < 1e-6:
        return MISSING
    relative = after / before - 1
    return f"{'+' if relative > 0 else ''}{share(relative)}"


def _rounded(count: float) -> float:
    return round(count) if abs(count - round(count)) < 1e-6 or count > 10 else count


def _limit(told: Prediction, tau_ns: float) -> str:
    host = told.launches * tau_ns
    name, sign = ("launching", ">") if host > told.gpu_work_ns else ("the GPU", "≤")
    return f"{name}: N·τ {duration(host)} {sign} W {duration(told.gpu_work_ns)}"


def _turns(step: StepModel, knobs: Knobs) -> str:
    """Where the limit changes hands, at these knobs."""
    tau, kernels = turning_tau_ns(step, knobs), turning_kernels(step, knobs)
    words = [] if tau is None else [f"at τ = {duration(tau)}"]
    words += [] if kernels is None else [f"at {number(_rounded(kernels))} GPU ops"]
    return f"turns {' or '.join(words)}" if words else MISSING


def assumptions(start: StartingPoint, view: View) -> tuple[str, ...]:
    """What the prediction takes for granted, in sentences."""
    step = start.step
    if step is None:
        return ()
    told = [f"the starting point is {printable(start.mode)}, {start.basis}"]
    knobs, over = apply(start, view.knobs), "what the kernels take over it stays"
    if knobs.kernels is not None:
        told.append(
            "the launches follow the number of kernels"
            + ("" if predict(step).floor_ns is None else ", and so does what these take over the floor")
        )
    if knobs.bandwidth_bytes_per_s is not None:
        told.append(f"the floor follows the bandwidth, {rate(knobs.bandwidth_bytes_per_s, 'B')}; {over}")
    if knobs.batch_size is not None and step.weight_bytes is not None and step.floor is not None:
        rest = byte_size((step.floor.bytes or 0) - step.weight_bytes)
        told.append(
            f"batch {number(knobs.batch_size)}: weights are read once, the other {rest} of the floor grow; {over}"
        )
    if knobs.weight_bytes is not None:
        width = knobs.weight_bytes / (step.weight_bytes or 1) * (start.weight_width or 0)
        name, size = dict(FORMATS).get(round(width, 6), "others"), byte_size(knobs.weight_bytes)
        told.append(f"weights as {name}: {size} at {width:g} bytes each; scales and unpacking cost nothing; {over}")
    return (*told, *start.notes)


def what_if_figure(start: StartingPoint, view: View, theme: Theme, against: Against = "kernels") -> Figure:
    """Step time against the number of GPU ops or τ: launched one by one, and as a graph; measured points solid."""
    step = start.step
    if step is None:
        return _empty("The model", start.reason, theme)
    chart = _Chart(start, step, view, theme, against)
    return {"data": chart.curves() + chart.points(), "layout": chart.layout()}


def _empty(title: str, why: str, theme: Theme) -> Figure:
    blank = axis(theme, visible=False)
    return {
        "data": [],
        "layout": layout(theme, title, xaxis=blank, yaxis=blank, annotations=[note(theme, reason(why))]),
    }


class _Chart:
    """One drawing of the model; x are GPU ops, or τ in µs."""

    def __init__(self, start: StartingPoint, step: StepModel, view: View, theme: Theme, against: Against) -> None:
        self.start, self.step, self.theme, self.against = start, step, theme, against
        self.view = view
        self.knobs = apply(start, view.knobs)
        self.moved = is_moved(start, view.knobs)
        self.now = predict(step, self.knobs)
        self.turning = turning_kernels(step, self.knobs) if against == "kernels" else turning_tau_ns(step, self.knobs)
        self.place = self._value(step, self.knobs)
        measured = [mode.gpu_ops for mode in start.measured] if against == "kernels" else [step.tau_ns]
        most = max(*measured, self.place)
        if self.turning is not None and self.turning <= 2 * most:
            most = max(most, 1.1 * self.turning)
        self.xs = np.linspace(0.0, 1.2 * most, _POINTS)
        steps = [mode.step.ci_high or mode.step.median for mode in start.measured]
        self.highest_ns = max(*steps, self.now.eager_ns, self.now.graph_ns or 0.0)
        self.unit, self.scale = ("µs", NS_PER_US) if self.highest_ns < _US_BELOW else ("ms", 1e6)

    def _value(self, step: StepModel, knobs: Knobs) -> float:
        if self.against == "kernels":
            return step.gpu_ops if knobs.kernels is None else knobs.kernels
        return step.tau_ns if knobs.tau_ns is None else knobs.tau_ns

    def _at(self, x: float, knobs: Knobs) -> Knobs:
        field = "kernels" if self.against == "kernels" else "tau_ns"
        values = {name: getattr(knobs, name) for name in Knobs.__dataclass_fields__}
        return Knobs(**{**values, field: x})

    def _shown(self, xs: Sequence[float]) -> list[float]:
        return [x if self.against == "kernels" else x / NS_PER_US for x in xs]

    def curves(self) -> list[dict[str, Any]]:
        """What the closed form says at the knobs, dashed."""
        theme, by_ops = self.theme, self.against == "kernels"
        told = [predict(self.step, self._at(x, self.knobs)) for x in self.xs.tolist()]
        name = "one by one, predicted" if by_ops else f"{clipped(self.start.mode)}, predicted"
        found = [self._curve(name, [each.eager_ns for each in told], theme.predicted, "dash")]
        fused = self.start.fused
        if fused is not None and not by_ops:
            knobs = apply(self.start, self.view.knobs, fused)
            times = [predict(fused, self._at(x, knobs)).eager_ns for x in self.xs.tolist()]
            found.append(self._curve("fused, predicted", times, theme.launch, "longdashdot"))
        graphs = [each.graph_ns for each in told if each.graph_ns is not None]
        if len(graphs) == len(told):
            found.append(self._curve("one graph, predicted", graphs, _GRAPH_COLOR, "dot"))
        found.append(self._curve("W, predicted", [each.gpu_work_ns for each in told], theme.muted, "dashdot"))
        return found

    def _curve(self, name: str, times_ns: Sequence[float], color: str, dash: str) -> dict[str, Any]:
        what = [
            f"{number(_rounded(x))} GPU ops" if self.against == "kernels" else f"τ = {duration(x)}"
            for x in self.xs.tolist()
        ]
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": self._shown(self.xs.tolist()),
            "y": [ns / self.scale for ns in times_ns],
            "line": {"color": color, "dash": dash, "width": 2},
            "hovertext": [f"{name}<br>{x}: {duration(ns)}" for x, ns in zip(what, times_ns, strict=True)],
            "hoverinfo": "text",
        }

    def points(self) -> list[dict[str, Any]]:
        """Every mode as timed; where the knobs lead; where the limit changes hands."""
        found = [self._measured()]
        if self.moved:
            found.append(self._point("predicted", self.place, self.now.eager_ns, hollow(self.theme, "diamond", 13)))
            if self.now.graph_ns is not None:
                marker = hollow(self.theme, "square", 12) | {"color": _GRAPH_COLOR}
                found.append(self._point("as one graph, predicted", self.place, self.now.graph_ns, marker))
        if self.turning is not None and self.turning <= self.xs[-1]:
            work = predict(self.step, self._at(self.turning, self.knobs)).gpu_work_ns
            marker = hollow(self.theme, "circle") | {"color": self.theme.ink}
            found.append(self._point("predicted to be launch-bound from here on", self.turning, work, marker))
        return found

    def _measured(self) -> dict[str, Any]:
        modes = [mode for mode in self.start.measured if self.against == "kernels" or mode.name == self.start.mode]
        xs = [mode.gpu_ops if self.against == "kernels" else self.step.tau_ns for mode in modes]
        up = [max((mode.step.ci_high or mode.step.median) - mode.step.median, 0) / self.scale for mode in modes]
        down = [max(mode.step.median - (mode.step.ci_low or mode.step.median), 0) / self.scale for mode in modes]
        return {
            "type": "scatter",
            "mode": "markers+text",
            "name": "measured",
            "x": self._shown(xs),
            "y": [mode.step.median / self.scale for mode in modes],
            "error_y": {"type": "data", "array": up, "arrayminus": down, "color": self.theme.measured, "thickness": 2},
            "text": [f"{clipped(mode.name)} {duration(mode.step.median)}" for mode in modes],
            "textposition": ["top left" if x > _ROOM * self.xs[-1] else "top right" for x in xs],
            "marker": {"symbol": "diamond", "size": 11, "color": self.theme.measured},
            "hovertext": [
                f"{bold(clipped(mode.name))}: measured T = {_measured(self.start, mode.name)}"
                f"<br>{number(mode.gpu_ops)} GPU ops"
                for mode in modes
            ],
            "hoverinfo": "text",
        }

    def _point(self, name: str, x: float, ns: float, marker: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": self._shown([x]),
            "y": [ns / self.scale],
            "marker": marker,
            "hovertext": [f"{name}: {duration(ns)}"],
            "hoverinfo": "text",
            "showlegend": False,
        }

    def _labels(self) -> list[dict[str, Any]]:
        """The predicted times in words, with an arrow to their point."""
        if not self.moved:
            return []
        graph = "" if self.now.graph_ns is None else f"<br>as one graph {duration(self.now.graph_ns)}"
        at, width = self._shown([self.place, float(self.xs[-1])])
        return [
            {
                "text": f"predicted {duration(self.now.eager_ns)}{graph}",
                "x": at,
                "y": self.now.eager_ns / self.scale,
                "axref": "x",
                "ax": at + width * (-0.22 if self.place > self.xs[-1] / 2 else 0.14),
                "ayref": "y",
                "ay": 0.85 * self.highest_ns / self.scale,
                "arrowcolor": self.theme.predicted,
                "standoff": 8,
                "bgcolor": self.theme.panel,
                "bordercolor": self.theme.predicted,
                "borderpad": 3,
                "align": "left",
            }
        ]

    def layout(self) -> dict[str, Any]:
        """Axes in words, and where the limit changes hands as a line."""
        by_ops = self.against == "kernels"
        title = "GPU ops per step" if by_ops else "host time per launch τ, µs"
        shapes = []
        if self.turning is not None and self.turning <= self.xs[-1]:
            (at,) = self._shown([self.turning])
            line = {"dash": "dot", "color": self.theme.muted, "width": 1.5}
            shapes = [{"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}]
        return layout(
            self.theme,
            f"Step time against {'the number of GPU ops' if by_ops else 'τ'}",
            self._turning_told(),
            xaxis=axis(self.theme, title, range=[0, float(self._shown(self.xs[-1:].tolist())[0])]),
            yaxis=axis(self.theme, f"step, {self.unit}", range=[0, self.highest_ns * 1.22 / self.scale]),
            shapes=shapes,
            annotations=self._labels(),
        )

    def _turning_told(self) -> str:
        """Where the step turns from GPU-bound to launch-bound, in words."""
        if self.turning is None:
            return "GPU-bound however many GPU ops there are: each takes longer than its launch"
        if self.against == "kernels":
            turns, here = f"{number(_rounded(self.turning))} GPU ops", number(_rounded(self.place))
        else:
            turns, here = f"τ = {duration(self.turning)}", duration(self.place)
        side = "launch-bound" if self.place > self.turning else "GPU-bound"
        return f"predicted: launch-bound from {turns} on · {'now' if self.moved else 'measured'} {here}: {side}"


def sketch_figure(band: Band, start: StartingPoint, view: View, theme: Theme) -> Figure:
    """One recorded step, hatched where the GPU is idle; below it the same as the knobs make it, and as one graph."""
    title = f"One step of {clipped(band.label)}, redrawn from the closed form"
    recorded = recorded_step(band, view.step)
    if recorded is None:
        return _empty(title, "no GPU op in the recording", theme)
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
            xaxis=axis(theme, "µs since the step's start", range=[0, end * 1.005 / NS_PER_US or 1], tickformat=","),
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
        host = told.launches * (step.tau_ns if knobs.tau_ns is None else knobs.tau_ns)
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
        "y0": -place - 0.4,
        "y1": -place + 0.14,
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
        "y": [-place - 0.13] * len(stretches),
        "width": 0.54,
        "marker": marker,
        "matters": matters,
        "hovertemplate": f"{name}: %{{x:,.1f}} µs<extra></extra>",
    }
