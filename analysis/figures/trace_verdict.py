"""The verdict of a bare trace: all times as profiled (docs/metrics.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from ..facts.context import Context
from ..facts.trace_times import TraceTimes
from ..faults.checks import voided
from ..model import units
from ..model.document import VerdictDoc
from ..model.trace import Void
from .coverage import COVERAGE
from .figure import Figure
from .observer import KERNEL_STRETCH_NS
from .step_kinds import STEP_KINDS, actions_of_kinds, kinds_in_words
from .verdict import HALF, MAX_ACTIONS, StepFacts, largest_tax, verdict

SHOWN_APIS: Final = 2


def trace_verdict(
    times: TraceTimes | None,
    unreliable: Sequence[str],
    blocking: Sequence[str],
    *,
    own_capture: bool = False,
    node_gap_ns: float | None = None,
    alone: bool = True,
    waits_for: int | None = None,
    no_class: str | None = None,
    work_at_most: bool = False,
    no_node_tax: str | None = None,
    in_graphs: float | None = None,
    beside_replays: Sequence[str] = (),
) -> VerdictDoc:
    """The verdict on the basis of the trace alone, or of what other ranks tell as well; ``times`` is None without a
    GPU op.

    ``waits_for`` is the rank for which most of its waiting is. In our own captures the launch calls of graph replays
    are mostly the profiler's cost. ``node_gap_ns`` is ν of the machine that recorded the trace, where it is known.
    """
    if times is None:
        return verdict(StepFacts("trace", None, None, 0, 0, None, None, unreliable=tuple(unreliable)))
    parts = times.parts
    return verdict(
        StepFacts(
            basis="trace",
            step_ns=times.step_ns,
            gpu_work_ns=parts.working_ns + parts.waiting_ns + parts.transfer_ns + parts.unsplit_ns,
            gpu_ops=times.gpu_ops,
            launches=times.launches,
            tau_ns=None if times.host_ns is None else times.host_ns / times.launches,
            taxes_ns=times.taxes_ns,
            work_uncertainty_ns=times.gpu_ops * (KERNEL_STRETCH_NS + times.clock_ns),
            clock_ns=times.clock_ns,
            waiting_ns=parts.waiting_ns,
            transfer_ns=parts.transfer_ns,
            unsplit_ns=parts.unsplit_ns,
            waits_for=waits_for,
            alone=alone,
            observer_ns=times.before_replay_ns if own_capture else 0.0,
            node_gap_ns=node_gap_ns,
            graph_launches=times.graph_launches,
            has_steps=times.has_steps,
            steps=len(times.with_period) if times.has_steps else None,
            unreliable=tuple(unreliable),
            no_class=no_class,
            work_at_most=work_at_most,
            no_node_tax=no_node_tax,
            in_graphs=in_graphs,
            beside_replays=tuple(beside_replays),
            blocking=tuple(blocking),
        )
    )


def _compute(context: Context) -> VerdictDoc:
    covered = COVERAGE.of(context)
    assert covered is not None, "every trace is counted"
    found = trace_verdict(
        context.times,
        covered.unreliable,
        context.blocking_words,
        own_capture=context.own_capture,
        node_gap_ns=context.node_gap_ns,
        alone=context.waits is None or not len(context.collectives),
        waits_for=context.waits_for,
        no_class=_no_class(context),
        work_at_most=bool(context.trace.whole_replays.any()),
        no_node_tax=voided(context, Void.NODE_TAX),
        in_graphs=_in_graphs(context),
        beside_replays=_beside_replays(context),
    )
    kinds = STEP_KINDS.of(context)
    if not kinds or context.times is None or found.verdict_class == "insufficient":
        return found
    return msgspec.structs.replace(
        found,
        reason=f"{found.reason}; the mean of several kinds: {kinds_in_words(kinds)}",
        actions=actions_of_kinds(kinds, context.times.step_ns)[:MAX_ACTIONS],
    )


def _in_graphs(context: Context) -> float | None:
    """Share of a step's kernels, of those with a launch, that run in replays; null without steps."""
    steps = context.step_figures
    if steps is None or steps.kernels_with_launch is None or steps.kernels_in_graphs is None:
        return None
    linked, replayed = steps.kernels_with_launch.median, steps.kernels_in_graphs.median
    return replayed / linked if linked and replayed is not None else None


def _beside_replays(context: Context) -> list[str]:
    """Launches of a step outside of replays by API, '3 cudaMemcpyAsync', the most first; few of them."""
    launches, steps = context.trace.launches, len(context.steps.kept_rows) or 1
    rows = np.flatnonzero(~launches.is_graph & context.in_scope(context.steps.launch_step))
    names, counts = np.unique(launches.api[rows], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:SHOWN_APIS].tolist()
    return [f"{units.number(round(counts[k] / steps, 1))} {context.trace.name(int(names[k]))}" for k in most]


def _no_class(context: Context) -> str | None:
    """Why what is known of a step gives it no class; None where it gives one.

    Of replays that were recorded as a whole, all of W may be pauses: a tax makes the class where it is half of T.
    """
    times = context.times
    if times is not None and times.step_ns and context.trace.whole_replays.any():
        _, share = largest_tax(times.taxes_ns)
        idle = times.step_ns - times.work_ns
        if times.taxes_ns is None or share * sum(times.taxes_ns.values()) < HALF * times.step_ns:
            span = "step" if times.has_steps else "window"
            known = (
                f"the GPU works at most {units.duration(times.work_ns)} of a {units.duration(times.step_ns)} {span} "
                f"({units.share(times.work_ns / times.step_ns)}) and idles {units.duration(idle)} outside replays"
            )
            return f"graph replays were recorded as a whole: {known}; what it does inside them is not known"
    reason = voided(context, Void.WORK)
    if reason is not None:
        return f"GPU work can't be told: {reason}"
    if times is None or len(context.collectives) or not times.contradicts(context.headline_steady):
        return None
    told = f"a step of {units.duration(times.step_ns)} with {units.duration(times.work_ns)} of GPU work"
    host = "" if times.host_ns is None else f" and {units.duration(times.host_ns)} of host time"
    assert context.headline_steady is not None, "without a window nothing contradicts it"
    return f"{told}{host} contradicts a window that is idle by {units.share(context.headline_steady.idle_fraction)}"


VERDICT: Final = Figure(
    "verdict", "what the step waits for, and what to do next", VerdictDoc, _compute, across_ranks=True
)
