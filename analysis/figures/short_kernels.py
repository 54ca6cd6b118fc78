"""How many kernels are too short to hide a launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..facts.trace_times import submits_as_profiled
from ..model.document import ShortKernelsDoc, ShortShareDoc, TraceDoc
from ..model.statistics import summarize
from ..model.trace import Ints
from ..model.units import duration, share
from ..step_model import MOSTLY
from ..story import Fact
from .figure import Figure, known

SHORT_NS: Final = 10_000
"""A decode step's kernels take 1–10 µs; below this a launch from the host costs as much as the kernel."""

_NO_TIME: Final = "no kernel took any time"
_NO_TAU: Final = "no kernel took any time, or τ is not known"
_NO_LAUNCH: Final = "no launch in the file"
_WHOLE_REPLAYS: Final = "graph replays were recorded as a whole"


def _compute(context: Context) -> ShortKernelsDoc:
    """Share of the headline device's kernels below 10 µs and below τ, by count and by time; null without kernels or τ.

    τ is τ_step where it can be told, else the median launch overhead.
    """
    if context.headline is None:
        return ShortKernelsDoc(
            below_10us=known(None, _NO_TIME),
            below_tau=known(None, _NO_TAU),
            tau_ns=known(None, _NO_LAUNCH),
            tau_source=None,
        )
    ops = context.trace.gpu_ops
    dur_ns = ops.dur_ns[ops.is_kernel & (ops.device == context.headline)]
    tau_ns, tau_source = _tau(context)
    whole = context.trace.whole_replays.any()
    return ShortKernelsDoc(
        below_10us=known(None if whole else _share_below(dur_ns, SHORT_NS), _WHOLE_REPLAYS if whole else _NO_TIME),
        below_tau=known(
            None if whole or tau_ns is None else _share_below(dur_ns, tau_ns), _WHOLE_REPLAYS if whole else _NO_TAU
        ),
        tau_ns=known(tau_ns, _NO_LAUNCH),
        tau_source=None if tau_ns is None else tau_source,
    )


def _tau(context: Context) -> tuple[float | None, str]:
    steps, submit_ns = context.step_figures, context.host_submit_ns
    launches = None if steps is None else steps.launches.median
    if steps and launches and submit_ns is not None and not submits_as_profiled(steps, context.queue_depth):
        return submit_ns / launches, "tau_step"
    return summarize(context.launch_times.overhead_ns).median, "median launch overhead"


def _share_below(dur_ns: Ints, limit_ns: float) -> ShortShareDoc | None:
    """Share of kernels that are shorter than the limit; null when there are none, or none that took any time."""
    total = int(dur_ns.sum())
    if not total:
        return None
    short = dur_ns < limit_ns
    return ShortShareDoc(by_count=float(np.mean(short)), by_time=int(dur_ns[short].sum()) / total)


def short_kernel_facts(trace: TraceDoc) -> Iterator[Fact]:
    """How many kernels are too short to hide a launch; in a graph none needs one of its own."""
    short, texts = trace.short_kernels, []
    replayed = (trace.graphs.coverage_by_count or 0.0) >= MOSTLY
    if short.below_10us is not None:
        texts.append(f"{_by(short.below_10us)} run under 10 µs")
    if short.below_tau is not None and not replayed:
        source = "" if short.tau_source is None else f", {short.tau_source.replace('tau_step', 'host time per launch')}"
        texts.append(f"{_by(short.below_tau)} are shorter than τ = {duration(short.tau_ns)}{source}")
    if texts:
        yield Fact("kernels", [" · ".join(texts)])


def _by(part: ShortShareDoc) -> str:
    return f"{share(part.by_count)} ({share(part.by_time)} of their time)"


SHORT_KERNELS: Final = Figure(
    "short_kernels",
    "share of kernels under 10 µs, and under τ",
    ShortKernelsDoc,
    _compute,
    lambda trace, verbose: short_kernel_facts(trace),
)
