"""The launch-overhead model of textbooks: one decode step reads its weights once, in N kernels.

    W       weights ÷ bandwidth            GPU work: reading the weights is all that takes time
    serial  W + N·τ                        eager, when host and GPU wait for each other
    bound   max(W, N·τ)                    eager, when they overlap fully
    graph   W + (N − 1)·ν + τ              the step as one CUDA graph: one launch, ν between its nodes

Nothing in it is measured: it says what to expect, and how it moves. Of a capture it takes over N, τ, ν, bytes and
bandwidth, and says beside it what its own W and step times were. ``launchscope whatif`` simulates a recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

import msgspec

from ..model import __version__
from ..model.document import baseline
from ..model.errors import LaunchscopeError
from ..model.units import byte_size, duration, number, rate, share, times
from ..render import outputs_of
from ..report import Report
from ..step_model import StepModel, bound_ns, least_ns, replay_ns, serial_ns, step_of_mode, step_of_trace
from ..story import Bar, Bars, Block, Cells, Column, Fact, Headline, Listing, Table

_BASIS: Final = "predicted: W is weights ÷ bandwidth, a graph is launched in τ"

MOSTLY_LAUNCHED: Final = 0.8
"""Launches per GPU op below which a step replays graphs already: there is nothing left for a graph to save."""


class PredictedStepDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the model. Times in ns."""

    weight_bytes: float | None  # null where W is measured and the bytes are not known
    kernels: float
    tau_ns: float  # host time per launch
    bandwidth_bytes_per_s: float | None
    node_gap_ns: float  # ν, GPU time from one node of a graph to the next
    gpu_work_ns: float
    gpu_work_from: str = "bytes"  # weights ÷ bandwidth; or 'measured'
    launch_ns: float  # N·τ
    serial_ns: float
    bound_ns: float
    graph_ns: float
    speedup_serial: float  # serial ÷ graph
    speedup_bound: float  # bound ÷ graph
    launch_tax_share: float  # of the serial step: N·τ ÷ (W + N·τ)


class ModelDoc(PredictedStepDoc, frozen=True, kw_only=True):
    """The step of the first combination of what was given; ``steps`` has those of all, in their order."""

    schema: str = "launchscope.model/1"
    launchscope: str
    basis: str
    source: str | None = None  # the capture or trace whose values stand where none were given
    measured_ns: dict[str, float] = {}  # its step times by mode
    steps: list[PredictedStepDoc]


@dataclass(frozen=True)
class Values:
    """What a capture or a trace measured of one mode that launches kernel by kernel; null where it doesn't tell."""

    source: str
    kernels: float  # GPU ops of a step
    tau_ns: float
    gpu_work_ns: float
    weight_bytes: float | None = None  # all bytes that a step reads
    bandwidth_bytes_per_s: float | None = None
    node_gap_ns: float = 0.0
    measured_ns: Mapping[str, float] = field(default_factory=dict)  # T by mode


def measured_values(report: Report) -> Values:
    """The values of a report's baseline; LaunchscopeError where a step of it replays graphs or has no host time."""
    profile = report.document.profile
    name = None if profile is None else baseline(profile.modes)
    if profile is None or name is None:
        return _of_trace(report)
    mode, costs = profile.modes[name], profile.calibration
    path = report.analyses[0].context.trace.source.path.partition(".zip")[0] if report.analyses else "its traces"
    source = f"{path}, {name}"
    measured = step_of_mode(mode, profile, report.document.target)
    if isinstance(measured, str):
        raise LaunchscopeError(f"{source}: {measured}")
    values = _values(source, measured)
    return replace(
        values,
        gpu_work_ns=mode.gpu_work_without_waiting_ns or values.gpu_work_ns,  # one GPU waits for no other rank
        weight_bytes=None if profile.floor is None else profile.floor.bytes,
        bandwidth_bytes_per_s=None if costs is None else costs.bandwidth_bytes_per_s,
        node_gap_ns=0.0 if costs is None else costs.node_gap_ns or 0.0,
        measured_ns={each: doc.step_ns.median for each, doc in profile.modes.items() if doc.step_ns is not None},
    )


def _of_trace(report: Report) -> Values:
    """As profiled, the profiler's cost included: the first trace that a prediction can start from."""
    reasons = []
    for trace in report.document.traces:
        measured = step_of_trace(trace)
        if isinstance(measured, StepModel) and trace.bound is not None:
            values = _values(f"{trace.name}, as profiled", measured)
            return replace(values, measured_ns={trace.mode or "as profiled": trace.bound.step_ns})
        reasons.append(f"{trace.name}: {measured}")
    raise LaunchscopeError(next(iter(reasons), "there is no trace in it"))


def _values(source: str, step: StepModel) -> Values:
    """Of a step that launches its GPU ops one by one; LaunchscopeError for one that replays a part of them."""
    if step.launches < MOSTLY_LAUNCHED * step.gpu_ops:
        raise LaunchscopeError(
            f"{source}: {step.launches:,.0f} launches for {step.gpu_ops:,.0f} GPU ops: it replays graphs already"
        )
    return Values(source, kernels=step.gpu_ops, tau_ns=step.tau_ns, gpu_work_ns=step.gpu_work_ns)


def model_document(steps: list[PredictedStepDoc], start: Values | None = None) -> ModelDoc:
    """The document of one step or several."""
    return ModelDoc(
        **msgspec.structs.asdict(steps[0]),
        launchscope=__version__,
        basis=_BASIS if start is None else f"{_BASIS}; or W is as measured",
        source=None if start is None else start.source,
        measured_ns={} if start is None else dict(start.measured_ns),
        steps=steps,
    )


def steps_from(
    start: Values,
    weights: Sequence[float] = (),
    kernels: Sequence[float] = (),
    taus_ns: Sequence[float] = (),
    bandwidths: Sequence[float] = (),
    node_gap_ns: float | None = None,
) -> list[PredictedStepDoc]:
    """As ``steps``, with what was measured where nothing is given; with its own W first where that may stay."""
    gap = start.node_gap_ns if node_gap_ns is None else node_gap_ns
    kernels, taus_ns = kernels or [start.kernels], taus_ns or [start.tau_ns]
    found: list[PredictedStepDoc] = []
    if not weights and not bandwidths:
        of_start = (start.weight_bytes, start.bandwidth_bytes_per_s)
        measured = product(kernels, taus_ns)
        found = [_step(start.gpu_work_ns, count, tau, gap, *of_start, "measured") for count, tau in measured]
    weights = weights or ([start.weight_bytes] if start.weight_bytes else [])
    bandwidths = bandwidths or ([start.bandwidth_bytes_per_s] if start.bandwidth_bytes_per_s else [])
    found += steps(weights, kernels, taus_ns, bandwidths, gap)
    if not found:
        raise LaunchscopeError(f"{start.source}: bytes or bandwidth are not known: give --weights and --bandwidth")
    return found


def steps(
    weights: Sequence[float],
    kernels: Sequence[float],
    taus_ns: Sequence[float],
    bandwidths: Sequence[float],
    node_gap_ns: float = 0.0,
) -> list[PredictedStepDoc]:
    """The model for every combination; bytes, counts, ns and bytes per second, all above 0 (τ and ν may be 0)."""
    return [step(*each, node_gap_ns) for each in product(weights, kernels, taus_ns, bandwidths)]


def step(weight_bytes: float, kernels: float, tau_ns: float, bandwidth: float, node_gap_ns: float) -> PredictedStepDoc:
    """One combination."""
    return _step(least_ns(weight_bytes, bandwidth), kernels, tau_ns, node_gap_ns, weight_bytes, bandwidth, "bytes")


def _step(
    work_ns: float,
    kernels: float,
    tau_ns: float,
    node_gap_ns: float,
    weight_bytes: float | None,
    bandwidth: float | None,
    work_from: str,
) -> PredictedStepDoc:
    serial, bound = serial_ns(work_ns, kernels, tau_ns), bound_ns(work_ns, kernels, tau_ns)
    graph = replay_ns(work_ns, kernels, node_gap_ns) + tau_ns
    return PredictedStepDoc(
        weight_bytes=weight_bytes,
        kernels=kernels,
        tau_ns=tau_ns,
        bandwidth_bytes_per_s=bandwidth,
        node_gap_ns=node_gap_ns,
        gpu_work_ns=work_ns,
        gpu_work_from=work_from,
        launch_ns=kernels * tau_ns,
        serial_ns=serial,
        bound_ns=bound,
        graph_ns=graph,
        speedup_serial=serial / graph,
        speedup_bound=bound / graph,
        launch_tax_share=kernels * tau_ns / serial,
    )


def _name(step: PredictedStepDoc) -> str:
    """What sets a step apart: the bytes that it reads, or that its W is measured."""
    return "measured W" if step.gpu_work_from == "measured" else byte_size(step.weight_bytes)


_COLUMNS: Final[Cells] = (
    (Column("weights"), _name),
    (Column("kernels"), lambda step: number(step.kernels)),
    (Column("τ"), lambda step: duration(step.tau_ns)),
    (Column("bandwidth", optional=True), lambda step: rate(step.bandwidth_bytes_per_s, "B")),
    (Column("GPU work\nW"), lambda step: duration(step.gpu_work_ns)),
    (Column("launching\nN·τ"), lambda step: duration(step.launch_ns)),
    (Column("serial\nW + N·τ"), lambda step: duration(step.serial_ns)),
    (Column("bound\nmax(W, N·τ)"), lambda step: duration(step.bound_ns)),
    (Column("graph"), lambda step: duration(step.graph_ns)),
    (Column("serial ÷\ngraph"), lambda step: times(step.speedup_serial)),
    (Column("bound ÷\ngraph"), lambda step: times(step.speedup_bound)),
    (Column("launch tax\nof serial"), lambda step: share(step.launch_tax_share)),
)
_IN_HEADLINE: Final = 3  # steps


def _tell(doc: ModelDoc, *, verbose: bool) -> Iterator[Block]:
    """A table of predicted step times, and a plot of what each is made of."""
    del verbose  # there is no more to tell
    names = _names(doc.steps)
    answers = [
        f"{name}: a graph is {times(each.speedup_bound)} to {times(each.speedup_serial)} as fast"
        for name, each in zip(names[:_IN_HEADLINE], doc.steps, strict=False)
    ]
    answers += [f"{len(names) - _IN_HEADLINE} more below"] if len(names) > _IN_HEADLINE else []
    yield Headline(f"PREDICTED: {'; '.join(answers)}")
    yield Listing(Table.of(_COLUMNS, doc.steps))
    longest = max(each.serial_ns for each in doc.steps)
    for name, each in zip(names, doc.steps, strict=True):
        bars = [
            Bar("serial", each.serial_ns / longest, f"{duration(each.serial_ns)}, host and GPU wait for each other"),
            Bar("bound", each.bound_ns / longest, f"{duration(each.bound_ns)}, they overlap fully"),
            Bar("graph", each.graph_ns / longest, f"{duration(each.graph_ns)}, one launch"),
        ]
        yield Bars(name, bars)
    nothing = "nothing here was measured" if doc.source is None else f"what was not given is of {doc.source}"
    gap = duration(doc.steps[0].node_gap_ns) if doc.steps[0].node_gap_ns else "0, as none is known"
    yield Fact("basis", [doc.basis, f"graph = W + τ + (N − 1)·ν, ν {gap} · {nothing}"])
    if doc.measured_ns:
        yield Fact("measured T", [" · ".join(f"{mode} {duration(ns)}" for mode, ns in doc.measured_ns.items())])


def _names(steps: Sequence[PredictedStepDoc]) -> list[str]:
    """What sets each step apart from the others: its bytes, and what else they differ in."""
    kernels = [f"{number(each.kernels)} kernels" for each in steps]
    taus = [f"τ {duration(each.tau_ns)}" for each in steps]
    rates = [rate(each.bandwidth_bytes_per_s, "B") for each in steps]
    differing = [texts for texts in (kernels, taus, rates) if len(set(texts)) > 1]
    return [", ".join([_name(each), *(texts[row] for texts in differing)]) for row, each in enumerate(steps)]


render_terminal, render_json, render_markdown = outputs_of(_tell)
