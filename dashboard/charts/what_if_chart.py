"""The launch-overhead model to play with: what was measured, and what the closed form makes of it when a knob moves.

Measurements are drawn solid; predictions hollow, dashed and hatched, and always called predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from ...analysis.model.capture import GRAPH_OF, UNGRAPHED
from ...analysis.model.units import (
    MISSING,
    byte_size,
    duration,
    duration_interval,
    number,
    one_line,
    printable,
    rate,
    share,
)
from ...analysis.step_model import Knobs, Prediction, StepBytes, StepModel, predict, turning_kernels, turning_tau_ns
from ..plotting import CAUSE_COLORS, NS_PER_US, Figure, Theme, axis, bold, clipped, empty, hollow, layout
from ..view import View
from .starting_point import FORMATS, Measured, StartingPoint, apply, is_moved

Against = Literal["kernels", "tau"]

_POINTS: Final = 97  # of a curve
_US_BELOW: Final = 2e6  # ns: a chart of shorter times is in µs
_ROOM: Final = 0.25  # of a chart's width, to the left of a point: enough for its name
_GRAPH_COLOR: Final = CAUSE_COLORS["device"]


def what_if_figure(start: StartingPoint, view: View, theme: Theme, against: Against = "kernels") -> Figure:
    """Step time against the number of GPU ops or τ: launched one by one, and as a graph; measured points solid."""
    step = start.step
    if step is None:
        return empty("The model", start.reason, theme)
    chart = _Chart(start, step, view, theme, against)
    return {"data": chart.curves() + chart.points(), "layout": chart.layout()}


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
        return knobs.tau_from(step.tau_ns)

    def _at(self, x: float, knobs: Knobs) -> Knobs:
        return replace(knobs, kernels=x) if self.against == "kernels" else replace(knobs, tau_ns=x)

    def _shown(self, xs: Sequence[float]) -> list[float]:
        return [x if self.against == "kernels" else x / NS_PER_US for x in xs]

    def curves(self) -> list[dict[str, Any]]:
        """What the closed form says at the knobs, dashed."""
        theme, by_ops = self.theme, self.against == "kernels"
        predictions = [predict(self.step, self._at(x, self.knobs)) for x in self.xs.tolist()]
        name = "one by one, predicted" if by_ops else f"{clipped(self.start.mode)}, predicted"
        found = [self._curve(name, [each.eager_ns for each in predictions], theme.predicted, "dash")]
        fused = self.start.fused
        if fused is not None and not by_ops:
            knobs = apply(self.start, self.view.knobs, fused)
            times = [predict(fused, self._at(x, knobs)).eager_ns for x in self.xs.tolist()]
            found.append(self._curve("fused, predicted", times, theme.launch, "longdashdot"))
        graphs = [each.graph_ns for each in predictions if each.graph_ns is not None]
        if len(graphs) == len(predictions):
            found.append(self._curve("one graph, predicted", graphs, _GRAPH_COLOR, "dot"))
        found.append(self._curve("W, predicted", [each.gpu_work_ns for each in predictions], theme.muted, "dashdot"))
        return found

    def _curve(self, name: str, times_ns: Sequence[float], color: str, dash: str) -> dict[str, Any]:
        what = [
            f"{number(whole(x))} GPU ops" if self.against == "kernels" else f"τ = {duration(x)}"
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
            "textposition": [self._text_position(mode, x) for mode, x in zip(modes, xs, strict=True)],
            "marker": {"symbol": "diamond", "size": 11, "color": self.theme.measured},
            "hovertext": [
                f"{bold(clipped(mode.name))}: measured T = {measured_time(self.start, mode.name)}"
                f"<br>{number(mode.gpu_ops)} GPU ops"
                for mode in modes
            ],
            "hoverinfo": "text",
        }

    def _text_position(self, mode: Measured, x: float) -> str:
        """Where a point's name crosses no curve: left of what launches one by one, right of graphs."""
        place = x / self.xs[-1]
        is_left = place > (1 - _ROOM if mode.name in UNGRAPHED else _ROOM)
        return "top left" if is_left else "top right"

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
            self._turning_words(),
            xaxis=axis(self.theme, title, range=[0, float(self._shown(self.xs[-1:].tolist())[0])]),
            yaxis=axis(self.theme, f"step, {self.unit}", range=[0, self.highest_ns * 1.22 / self.scale]),
            shapes=shapes,
            annotations=self._labels(),
        )

    def _turning_words(self) -> str:
        """Where the step turns from GPU-bound to launch-bound, in words."""
        if self.turning is None:
            return "GPU-bound however many GPU ops there are: each takes longer than its launch"
        if self.against == "kernels":
            turns, here = f"{number(whole(self.turning))} GPU ops", number(whole(self.place))
        else:
            turns, here = f"τ = {duration(self.turning)}", duration(self.place)
        side = "launch-bound" if self.place > self.turning else "GPU-bound"
        return f"predicted: launch-bound from {turns} on · {'now' if self.moved else 'measured'} {here}: {side}"


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
    one_by_one = f"{printable(start.mode)}: max(W, N·τ)"
    rows = [
        _row(one_by_one, measured_time(start, start.mode), before.eager_ns, after.eager_ns),
        _row("without any overlap: W + N·τ", MISSING, before.serial_ns, after.serial_ns),
    ]
    if before.graph_ns is not None:
        of_graph = measured_time(start, GRAPH_OF.get(start.mode, ""))
        rows.append(_row("as one CUDA graph", of_graph, before.graph_ns, after.graph_ns))
    if start.fused is not None:
        old, new = predict(start.fused), predict(start.fused, apply(start, view.knobs, start.fused))
        rows.append(_row("fused: max(W, N·τ)", measured_time(start, "fused"), old.eager_ns, new.eager_ns))
        if old.graph_ns is not None:
            of_graph = measured_time(start, "fused_graph")
            rows.append(_row("fused, as one CUDA graph", of_graph, old.graph_ns, new.graph_ns))
    rows.append(_row("GPU work W", duration(step.gpu_work_ns), step.gpu_work_ns, after.gpu_work_ns))
    if before.floor_ns is not None:
        rows.append(_row("floor", duration(before.floor_ns), before.floor_ns, after.floor_ns))
    launches = number(whole(after.launches))
    rows += [
        Row("launches N", number(step.launches), launches, _change(step.launches, after.launches)),
        _row("host time per launch τ", duration(step.tau_ns), step.tau_ns, after.tau_ns),
        _row("launching, N·τ", duration(before.launch_ns), before.launch_ns, after.launch_ns),
        Row("the limit", _limit(before), _limit(after), _turning_words(step, knobs)),
    ]
    return (*rows, *(Row("assumed", "", text, "") for text in assumptions(start, view)))


def measured_time(start: StartingPoint, name: str) -> str:
    """T of a mode with its interval."""
    found = next((mode for mode in start.measured if mode.name == name), None)
    return MISSING if found is None else duration_interval(found.step.median, found.step.ci_low, found.step.ci_high)


def _row(label: str, measured: str, before_ns: float | None, after_ns: float | None) -> Row:
    return Row(label, measured, duration(after_ns), _change(before_ns, after_ns))


def _change(before: float | None, after: float | None) -> str:
    """In per cent, with its sign; missing where nothing changes."""
    if not before or after is None or abs(after / before - 1) < 1e-6:
        return MISSING
    relative = after / before - 1
    return f"{'+' if relative > 0 else ''}{share(relative)}"


def whole(count: float) -> float:
    """A predicted count, rounded where a part of one says nothing."""
    return round(count) if abs(count - round(count)) < 1e-6 or count > 10 else count


def _limit(prediction: Prediction) -> str:
    name, sign = ("launching", ">") if prediction.launch_ns > prediction.gpu_work_ns else ("the GPU", "≤")
    return f"{name}: N·τ {duration(prediction.launch_ns)} {sign} W {duration(prediction.gpu_work_ns)}"


def _turning_words(step: StepModel, knobs: Knobs) -> str:
    """Where the limit changes hands, at these knobs."""
    tau, kernels = turning_tau_ns(step, knobs), turning_kernels(step, knobs)
    words = [] if tau is None else [f"at τ = {duration(tau)}"]
    words += [] if kernels is None else [f"at {number(whole(kernels))} GPU ops"]
    return f"turns {' or '.join(words)}" if words else MISSING


def assumptions(start: StartingPoint, view: View) -> tuple[str, ...]:
    """What the prediction takes for granted, in sentences."""
    step = start.step
    if step is None:
        return ()
    assumed = [f"the starting point is {printable(start.mode)}, {start.basis}"]
    knobs = apply(start, view.knobs)
    if knobs.kernels is not None:
        over_floor = "" if step.reads is None else ", and so does what these take over the floor"
        assumed.append(f"the launches follow the number of kernels{over_floor}")
    if step.reads is not None:
        assumed += _assumed_reads(step.reads, knobs)
    return (*assumed, *start.notes)


def _assumed_reads(reads: StepBytes, knobs: Knobs) -> Iterator[str]:
    over = "what the kernels take over it stays"
    if knobs.bandwidth:
        bandwidth = reads.bandwidth * knobs.bandwidth["all"]
        yield f"the floor follows the bandwidth, {rate(bandwidth, 'B')}; {over}"
    if knobs.batch_size is not None:
        rest = byte_size(reads.caches)
        yield f"batch {number(knobs.batch_size)}: weights are read once, the other {rest} of the floor grow; {over}"
    if knobs.weights is not None and reads.weight_width is not None:
        weights = reads.weights_with(knobs)
        width = weights / reads.weights * reads.weight_width
        name = dict(FORMATS).get(round(width, 6), "others")
        size = byte_size(weights)
        yield f"weights as {name}: {size} at {width:g} bytes each; scales and unpacking cost nothing; {over}"
