"""Where the model to play with starts: the step as it was measured, and the knobs that can be turned from there.

The knobs of a view are factors of what was measured (``tau``, ``bandwidth``, ``kernels``), a count (``batch``) and
bytes per weight (``weights``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...analysis.model.capture import GRAPH_OF
from ...analysis.model.document import ModeDoc, ProfileDoc, StepTimeDoc, TargetDoc
from ...analysis.model.units import duration, number, rate
from ...analysis.profile.mode_table import shown_name
from ...analysis.step_model import WEIGHT_BYTES, Knobs, StepModel, predict, step_of_mode, step_of_trace
from ..band import Band
from ..opened_report import OpenedReport

FORMATS: Final = tuple((WEIGHT_BYTES[name], name) for name in ("bf16", "int8", "int4"))
"""Bytes of each weight, and its type: the stops of the slider."""

_FINEST: Final = 1e-3
"""Of a slider's position: closer is the same."""


@dataclass(frozen=True)
class Measured:
    """One mode as it was timed."""

    name: str
    gpu_ops: float
    step: StepTimeDoc


@dataclass(frozen=True)
class StartingPoint:
    """The step that the knobs move away from; without one, ``step`` is null and ``reason`` says why."""

    step: StepModel | None
    reason: str = ""
    mode: str = ""  # that the step is of, as people read it
    basis: str = ""  # 'measured without a profiler', 'as profiled'
    measured: tuple[Measured, ...] = ()  # every mode that was timed, the step's own first
    fused: StepModel | None = None  # the compiled step, launched kernel by kernel
    notes: tuple[str, ...] = ()  # what can't be told, and why


def starting_point(opened: OpenedReport) -> StartingPoint:
    """The baseline of a profile; of bare traces the first one that launches kernel by kernel."""
    profile = opened.report.document.profile
    if profile is not None and profile.modes:
        return _of_profile(profile, opened.report.document.target)
    found = [_of_trace(band) for band in opened.bands if band.device is not None]
    return next((start for start in found if start.step is not None), next(iter(found), _NOTHING))


_NOTHING: Final = StartingPoint(None, "no trace holds a GPU op")


def _of_profile(profile: ProfileDoc, target: TargetDoc | None) -> StartingPoint:
    reasons = []
    for name, mode in profile.modes.items():
        if name in GRAPH_OF.values():
            continue
        step = _timed_step(mode, profile, target)
        if isinstance(step, StepModel):
            return _measured_start(name, step, profile, target)
        reasons.append(f"{shown_name(name)}: {step}")
    return StartingPoint(None, "; ".join(reasons) or "no mode was measured that launches kernel by kernel")


def _timed_step(mode: ModeDoc, profile: ProfileDoc, target: TargetDoc | None) -> StepModel | str:
    if mode.step_ns is None:
        return mode.error or "it was not timed"
    return step_of_mode(mode, profile, target)


def _measured_start(name: str, step: StepModel, profile: ProfileDoc, target: TargetDoc | None) -> StartingPoint:
    compiled = profile.modes.get("fused") if name == "eager" else None
    fused = None if compiled is None else _timed_step(compiled, profile, target)
    timed = [
        Measured(shown_name(other), doc.gpu_ops, doc.step_ns)
        for other, doc in sorted(profile.modes.items(), key=lambda item: item[0] != name)
        if doc.step_ns is not None and doc.gpu_ops
    ]
    return StartingPoint(
        step=step,
        mode=shown_name(name),
        basis="measured without a profiler",
        measured=tuple(timed),
        fused=fused if isinstance(fused, StepModel) else None,
        notes=tuple(_missing(step)),
    )


def _missing(step: StepModel) -> list[str]:
    notes = []
    if predict(step).graph_ns is None:
        notes.append("no graph is predicted: this machine's graph costs were not measured (launchscope calibrate)")
    if step.reads is None:
        notes.append("GPU work stays as measured: the bytes of a step or this machine's bandwidth are not known")
    elif step.reads.weight_width is None:
        notes.append("no knobs for batch and weights: the number or the type of the parameters is not known")
    return notes


def _of_trace(band: Band) -> StartingPoint:
    """From what was recorded, the profiler's cost included."""
    step, bound, label = step_of_trace(band.analysis.document), band.analysis.document.bound, band.label
    if bound is None or isinstance(step, str):
        return StartingPoint(None, f"{label}: {step}")
    time = StepTimeDoc(median=bound.step_ns, ci_low=None, ci_high=None)
    return StartingPoint(
        step=step,
        mode=label,
        basis="as profiled: the recording's own times",
        measured=(Measured(label, step.gpu_ops, time),),
        notes=tuple(_missing(step)),
    )


@dataclass(frozen=True)
class Slider:
    """One knob's slider. Positions are log2 of the knob, so that a step is a factor; ``value`` is as measured."""

    label: str
    low: float
    high: float
    step: float | None  # null: the marks alone
    marks: dict[float, str]  # whole positions as ints, as dash wants them
    value: float

    def position(self, knob: float | None) -> float:
        """Where the slider stands for a knob of the view; as measured for none."""
        return self.value if knob is None or knob <= 0 else round(min(max(math.log2(knob), self.low), self.high), 4)

    def factor(self, position: float | None) -> float | None:
        """The view's knob for a position; None as measured."""
        if position is None or abs(position - self.value) < _FINEST:
            return None
        return float(f"{2.0 ** min(max(position, self.low), self.high):.6g}")


def slider_marks(start: StartingPoint) -> dict[str, Slider]:
    """Knob → slider, of the knobs that change something here; none without a starting point."""
    step = start.step
    if step is None:
        return {}
    sliders = {"tau": _factors(f"host time per launch τ, measured {duration(step.tau_ns)}", -4, 2)}
    sliders["kernels"] = _factors(f"GPU ops per step, measured {number(step.gpu_ops)}", -5, 1)
    reads = step.reads
    if reads is not None:
        sliders["bandwidth"] = _factors(f"memory bandwidth, measured {rate(reads.bandwidth, 'B')}", -2, 2)
    if reads is not None and reads.weight_width is not None:
        high = max(8, math.ceil(math.log2(reads.batch_size)) + 2)
        counts: dict[float, str] = {power: number(2.0**power) for power in range(high + 1)}
        sliders["batch"] = _choice("batch size", counts, reads.batch_size, number(reads.batch_size))
        widths: dict[float, str] = {round(math.log2(width)): name for width, name in FORMATS}
        sliders["weights"] = _choice("weights", widths, reads.weight_width, f"{reads.weight_width:g} bytes each")
    return sliders


def _choice(label: str, marks: dict[float, str], measured: float, word: str) -> Slider:
    """A slider that stops at its marks alone; what was measured is one of them."""
    at = math.log2(measured)
    if at.is_integer():
        at = int(at)
    stops = {at: word} | marks
    step = 1 if all(isinstance(stop, int) for stop in stops) else None  # with none, no key of a keyboard moves it
    return Slider(label, min(stops), max(stops), step, dict(sorted(stops.items())), at)


def _factors(label: str, low: int, high: int) -> Slider:
    marks: dict[float, str] = {
        power: f"×{2**power}" if power > 0 else f"÷{2**-power}" for power in range(low, high + 1)
    }
    return Slider(label, low, high, 0.125, marks | {0: "as measured"}, 0)


def apply(start: StartingPoint, knobs: Mapping[str, float], step: StepModel | None = None) -> Knobs:
    """The model's knobs for those of a view, within the sliders' ends; of another step than the start's own if given.

    A knob without a slider here changes nothing.
    """
    of, sliders = step or start.step, slider_marks(start)
    moved = {name: 2.0 ** sliders[name].position(value) for name, value in knobs.items() if name in sliders}
    if of is None:
        return Knobs()
    weights = None
    if "weights" in moved and of.reads is not None and of.reads.weight_width:
        weights = of.reads.weights * moved["weights"] / of.reads.weight_width
    return Knobs(
        tau_ns=of.tau_ns * moved["tau"] if "tau" in moved else None,
        bandwidth={"all": moved["bandwidth"]} if "bandwidth" in moved else {},
        kernels=of.gpu_ops * moved["kernels"] if "kernels" in moved else None,
        batch_size=round(moved["batch"]) if "batch" in moved else None,
        weights=weights,
    )


def is_moved(start: StartingPoint, knobs: Mapping[str, float]) -> bool:
    """True when some knob is not as measured."""
    sliders = slider_marks(start)
    return any(
        name in sliders and abs(sliders[name].position(value) - sliders[name].value) > _FINEST
        for name, value in knobs.items()
    )
