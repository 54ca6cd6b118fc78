"""What a step would take if something were otherwise: its recorded steps, simulated with a knob turned.

The simulation first has to give what it starts from: the recorded step times, the second half of the steps from the
first, and the unprofiled step time of the same process once the host runs as fast as it does without a profiler. What
it is off by there is the range of every prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np

from ..figures.observer import KERNEL_STRETCH_NS
from ..model import __version__
from ..model.errors import LaunchscopeError
from ..model.trace import Ints
from ..model.units import MISSING, SIZES, TIMES, duration, duration_interval, percents, quantity
from ..render import outputs_of
from ..report import Report, load
from ..step_model import ALL_REDUCE_NS, FORMATS, OTHER_STREAM_NS, Knobs, StepBytes, step_bytes
from ..story import Block, Column, Fact, Heading, Headline, Listing, Row, Table
from .plan_changes import CLASSES, as_graph, changed_times, fused, op_classes, with_ops_after
from .recorded_steps import RecordedStart, find_start
from .simulator import Plan

LEAST_ERROR: Final = 0.01
"""Share that a prediction may be off by at the least, however well its start was met."""


class WhatIfDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction and how well its start was met. Times in ns, per step; shares are simulated ÷ real − 1."""

    schema: str = "launchscope.whatif/1"
    launchscope: str
    source: str
    trace: str
    mode: str | None
    steps: int  # that were simulated
    recorded_ns: float  # as profiled
    recorded_error: float
    half_error: float | None  # the second half of the steps from the first; null with fewer than three
    half_difference: float | None  # of the recorded halves themselves
    unprofiled_ns: float | None  # T of the same process; null for a trace of others
    unprofiled_error: float | None
    host_factor: float  # by which the recorded host was scaled to run as without a profiler
    knobs: list[str]
    simulated_ns: float  # no knob turned
    predicted_ns: float  # the knobs turned
    low_ns: float
    high_ns: float


def whatif(
    path: str | Path | Report,
    *,
    tau: str | float | None = None,
    host: float | None = None,
    delay: str | float | None = None,
    gpu: float | Mapping[str, float] | None = None,
    bandwidth: float | Mapping[str, float] | None = None,
    flops: float | None = None,
    weights: str | float | None = None,
    batch: int | None = None,
    tensor_parallel: int | None = None,
    all_reduce: str | float = ALL_REDUCE_NS,
    fuse: str | Sequence[str] = (),
    graph: bool = False,
    mode: str | None = None,
    step_regex: str | None = None,
) -> WhatIfDoc:
    """Predict the step time of a capture or a trace with something changed; the options of `launchscope whatif`.

    Times are ns or text such as '2us'; ``weights`` is a type ('int4'), text such as '1GiB', or bytes; ``gpu`` and
    ``bandwidth`` are factors of all GPU ops or by class. Raises LaunchscopeError in words.
    """
    knobs = Knobs(
        tau_ns=_in(TIMES, tau),
        host=host,
        delay_ns=_in(TIMES, delay),
        graph=graph,
        times=_by_class(gpu),
        bandwidth=_by_class(bandwidth),
        flops=flops,
        weights=weights if weights in FORMATS else _in(SIZES, weights),
        batch_size=batch,
        tensor_parallel=tensor_parallel,
        all_reduce_ns=_in(TIMES, all_reduce) or 0.0,
        fuse=(fuse,) if isinstance(fuse, str) else tuple(fuse),
    )
    return what_if(path if isinstance(path, Report) else load(path, step_regex=step_regex), knobs, mode)


def _in(units: Mapping[str, float], value: str | float | None) -> float | None:
    """A quantity as a number; LaunchscopeError for text that is none."""
    if not isinstance(value, str):
        return value
    try:
        return quantity(value, units)
    except ValueError as error:
        raise LaunchscopeError(str(error)) from error


def _by_class(factor: float | Mapping[str, float] | None) -> Mapping[str, float]:
    if factor is None:
        return {}
    if not isinstance(factor, Mapping):
        return {"all": factor}
    unknown = sorted(set(factor) - {"all", *CLASSES})
    if unknown:
        raise LaunchscopeError(f"no GPU ops are of class '{unknown[0]}'; there are {', '.join(CLASSES)}")
    return factor


def what_if(report: Report, knobs: Knobs, mode: str | None = None) -> WhatIfDoc:
    """Predict the step time with the knobs turned, from the recording in the middle of the mode's processes.

    ``mode`` is the baseline's unless given. LaunchscopeError where no recording has the steps that it takes.
    """
    assert knobs.kernels is None, "the simulator takes fuse"
    start = find_start(report, mode)
    planned, process = start.planned, start.process
    recorded = float(np.median(start.periods_ns))
    unprofiled = median(process.samples_ns) if process is not None and process.samples_ns else None
    simulated = planned.simulated_ns(start.without_profiler)
    predicted, sooner, later = _turned(start, knobs, report)
    recorded_error = planned.simulated_ns() / recorded - 1
    unprofiled_error = None if unprofiled is None else simulated / unprofiled - 1
    half_error, half_difference = start.halves() or (None, None)
    error = max(abs(each) for each in (recorded_error, unprofiled_error, half_error, LEAST_ERROR) if each is not None)
    work_ns = KERNEL_STRETCH_NS * len(planned.op_step) / len(start.steps) if knobs.graph else 0.0  # W's uncertainty
    return WhatIfDoc(
        launchscope=__version__,
        source=start.analysis.context.trace.source.path,
        trace=start.analysis.context.name,
        mode=start.analysis.context.mode,
        steps=len(start.steps),
        recorded_ns=recorded,
        recorded_error=recorded_error,
        half_error=half_error,
        half_difference=half_difference,
        unprofiled_ns=unprofiled,
        unprofiled_error=unprofiled_error,
        host_factor=start.host_factor,
        knobs=list(knobs.words()),
        simulated_ns=simulated,
        predicted_ns=predicted,
        low_ns=max(min(sooner, predicted, later) * (1 - error) - work_ns, 0.0),
        high_ns=max(sooner, predicted, later) * (1 + error) + work_ns,
    )


def _turned(start: RecordedStart, knobs: Knobs, report: Report) -> Iterator[float]:
    """The step time with the knobs turned: the usual one, and one that is sooner and one that is later."""
    planned, plan = start.planned, _other_host(start.without_profiler, knobs, start)
    profile = report.document.profile
    known = None if profile is None else step_bytes(report.document.target, profile.floor, profile.calibration)
    _require_known(knobs, known)
    classes = op_classes(start.analysis.context.trace.gpu_ops, start.analysis.context.trace.names)[planned.op_row]
    times = changed_times(plan.op_ns, classes, len(start.steps), known, knobs)
    op_step, origin = planned.op_step, np.arange(len(plan.op_ns))
    shares = (1.0, 1.0, 1.0)
    if knobs.fuse:
        plan, origin, shares = fused(plan, op_step, classes, report, knobs.fuse)
    is_new = np.zeros(len(origin), np.bool_)
    if knobs.tensor_parallel is not None:
        plan, inner = with_ops_after(plan, _after_attention(classes[origin]), knobs.all_reduce_ns)
        is_new, origin = np.diff(inner, prepend=-1) == 0, origin[inner]
    planned = replace(planned, op_step=op_step[origin], op_row=planned.op_row[origin])
    if knobs.graph:
        plan = _other_host(as_graph(plan, planned.op_step, start.costs), knobs, start)
    reduces_ns = (knobs.all_reduce_ns, knobs.all_reduce_ns, knobs.all_reduce_ns + OTHER_STREAM_NS)
    ends = zip((times.usual_ns, times.low_ns, times.high_ns), shares, reduces_ns, strict=True)
    for op_ns, share, reduce_ns in ends:
        yield planned.simulated_ns(replace(plan, op_ns=np.where(is_new, reduce_ns, op_ns[origin] * share)))


def _other_host(plan: Plan, knobs: Knobs, start: RecordedStart) -> Plan:
    """The plan on the host that the knobs ask for."""
    if knobs.host is not None:
        plan = plan.with_host(knobs.host)
    if knobs.tau_ns is not None:
        plan = plan.with_host(knobs.tau_ns / start.tau_ns)
    if knobs.delay_ns is not None:
        plan = replace(plan, before_ns=plan.before_ns + np.where(plan.blocks, 0.0, knobs.delay_ns))
    return plan


def _require_known(knobs: Knobs, known: StepBytes | None) -> None:
    """LaunchscopeError where a knob takes what isn't known of the step."""
    if known is None and knobs.needs_bytes:
        raise LaunchscopeError(
            "what a step reads and how fast this GPU's memory is are not known: only a capture of launchscope profile "
            "of an eager step on a calibrated machine tells; --tau, --host, --delay and --gpu take any trace"
        )
    if isinstance(knobs.weights, str) and (known is None or known.weight_width is None):
        raise LaunchscopeError(f"--weights {knobs.weights}: the type of the weights is not known: give their bytes")


def _after_attention(classes: Ints) -> Ints:
    """Where a model in parts has its all-reduces: two a layer, which are told by their attention kernels."""
    is_attention = classes == CLASSES.index("attention")
    last = np.flatnonzero(is_attention & ~np.append(is_attention[1:], False))
    if not len(last):
        raise LaunchscopeError("--tensor-parallel: no attention kernel is recognised, so the layers can't be counted")
    return np.repeat(last, 2)


def _tell(doc: WhatIfDoc, *, verbose: bool) -> Iterator[Block]:
    del verbose  # there is no more to tell
    yield Heading(doc.source, " · ".join(filter(None, [doc.mode, doc.trace, f"{doc.steps} steps"])))
    answer = duration_interval(doc.predicted_ns, doc.low_ns, doc.high_ns)
    if doc.knobs:
        yield Headline(f"PREDICTED: {answer} with {', '.join(doc.knobs)}; without {duration(doc.simulated_ns)}")
    else:
        yield Headline(f"SIMULATED: {answer} with nothing changed; see launchscope whatif --help")
    rows = [
        Row(["as recorded", duration(doc.recorded_ns), _error(doc.recorded_error)]),
        Row(["second half from first", MISSING, _error(doc.half_error)]),
        Row(["T, unprofiled", duration(doc.unprofiled_ns), _error(doc.unprofiled_error)]),
    ]
    yield Listing(Table([Column("the start", right=False), Column("measured"), Column("simulated is off by")], rows))
    if doc.half_difference is not None:
        yield Fact("halves", [f"the recorded halves differ by {_error(doc.half_difference)}"])
    yield Fact("host", [f"as recorded × {doc.host_factor:.2f}: as fast as without the profiler"])
    yield Fact("range", ["as much as the start was missed by, 1 % at the least"])


def _error(share: float | None) -> str:
    return MISSING if share is None else percents(share)[0]


render_terminal, render_json, render_markdown = outputs_of(_tell)
