"""What the model says, in words: measured, predicted, the change, and what is assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...analysis.model.capture import GRAPH_OF
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
from ...analysis.step_model.bound import Prediction, StepBytes, StepModel, predict, turning_kernels, turning_tau_ns
from ...analysis.step_model.knobs import Knobs
from ..view import View
from .starting_point import FORMATS, StartingPoint, apply


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
        _time_row(one_by_one, measured_time(start, start.mode), before.eager_ns, after.eager_ns),
        _time_row("without any overlap: W + N·τ", MISSING, before.serial_ns, after.serial_ns),
    ]
    if before.graph_ns is not None:
        rows.append(
            _time_row(
                "as one CUDA graph", measured_time(start, GRAPH_OF.get(start.mode, "")), before.graph_ns, after.graph_ns
            )
        )
    if start.fused is not None:
        old, new = predict(start.fused), predict(start.fused, apply(start, view.knobs, start.fused))
        rows.append(_time_row("fused: max(W, N·τ)", measured_time(start, "fused"), old.eager_ns, new.eager_ns))
        if old.graph_ns is not None:
            rows.append(
                _time_row("fused, as one CUDA graph", measured_time(start, "fused_graph"), old.graph_ns, new.graph_ns)
            )
    rows += [
        _time_row("GPU work W", duration(step.gpu_work_ns), step.gpu_work_ns, after.gpu_work_ns),
        *(
            []
            if before.floor_ns is None
            else [_time_row("floor", duration(before.floor_ns), before.floor_ns, after.floor_ns)]
        ),
        _row("launches N", number(step.launches), number(whole(after.launches)), step.launches, after.launches),
        _time_row("host time per launch τ", duration(step.tau_ns), step.tau_ns, after.tau_ns),
        _time_row("launching, N·τ", duration(before.launch_ns), before.launch_ns, after.launch_ns),
        Row("the limit", _limit(before), _limit(after), _turning_words(step, knobs)),
    ]
    return (*rows, *(Row("assumed", "", text, "") for text in assumptions(start, view)))


def measured_time(start: StartingPoint, name: str) -> str:
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
