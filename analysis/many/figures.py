"""The figures of one rank's trace: those of its report, without what no table of ranks shows.

Stacks, graph doctor, kernels by name and operators take half the time of a report, and the rows of hundreds of ranks
don't tell them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..facts.gap_causes import Threads
from ..facts.gaps import Gaps, find_gaps
from ..facts.ranks.collectives import Collectives, collectives_of
from ..facts.replays import graph_replays
from ..facts.steps import Steps, find_steps, first_op_ns, has_period, periods_ns, steady_windows, step_busy_ns
from ..facts.trace_times import TraceTimes, trace_times
from ..figures.blocking import blocking_words
from ..figures.coverage import coverage
from ..figures.trace_verdict import trace_verdict
from ..model.freed_memory import return_freed_memory
from ..model.intervals import Intervals
from ..model.statistics import summarize
from ..model.trace import NONE, Trace
from .document import MOST_IN_SERIES, RankRow, StepSeriesDoc

_NUMBERED: Final = re.compile(r"ProfilerStep#([0-9]{1,15})")


@dataclass(frozen=True, eq=False)
class RankFound:
    """What was found in one rank's trace, and what to compare with other ranks."""

    row: RankRow
    collectives: Collectives
    busy_ns: NDArray[np.float64]  # of each kept step
    times: TraceTimes | None  # None without a GPU op
    blocking: tuple[str, ...]  # blocking calls inside kept steps, in words


def find_figures(row: RankRow, trace: Trace, *, step_regex: str | None = None) -> RankFound:
    """The row with what its trace tells. LaunchscopeError for a step expression that takes too long."""
    graphs = graph_replays(trace)
    steps = find_steps(trace, step_regex=step_regex, replays=graphs)
    covered = coverage(trace, steps, graphs)
    device = busiest_device(trace)
    known: dict[str, Any] = {
        "warnings": covered.warnings(),
        "unreliable": list(covered.unreliable),
        "format": trace.source.format,
        "gpu_ops": len(trace.gpu_ops),
        "step_source": steps.source,
        "steps_found": steps.found,
        "steps": len(steps.kept_rows),
    }
    collectives, times = collectives_of(trace, steps, device), None
    if device is not None:
        whole, steady = _gaps(trace, steps, device)
        times = trace_times(trace, steps, whole, steady, collectives.exposed_ns if len(collectives) else None)
        known |= {"device": device, "gpu": trace.device_names.get(device)} | _idle(whole, steady)
        known |= _step_figures(trace, steps, device, times) | _communication(collectives, steps)
    blocking = blocking_words(trace, steps)
    told = trace_verdict(times, covered.unreliable, blocking)
    known |= {"verdict_class": told.verdict_class, "verdict_reason": told.reason}
    busy_ns = np.zeros(0) if device is None else step_busy_ns(trace, steps, device)
    return RankFound(msgspec.structs.replace(row, **known), collectives, busy_ns, times, blocking)


def busiest_device(trace: Trace) -> int | None:
    """The headline device, as a report chooses it; None without a GPU op."""
    ops = trace.gpu_ops
    busy_ns: dict[int, int] = {}
    for device in trace.devices:
        own = ops.device == device
        union = Intervals.union(ops.start_ns[own], ops.end_ns[own])
        busy_ns[device] = int((union.end_ns - union.start_ns).sum())
    return max(busy_ns, key=lambda device: busy_ns[device], default=None)


def _gaps(trace: Trace, steps: Steps, device: int) -> tuple[Gaps, Gaps | None]:
    """Of the whole file, and of its kept steps where one follows another."""
    threads = Threads(trace)
    windows = steady_windows(trace, steps, device)
    whole = find_gaps(trace, steps, device, None, threads)
    steady = find_gaps(trace, steps, device, windows, threads) if windows else None
    return_freed_memory(len(trace.gpu_ops))
    return whole, steady


def _idle(whole: Gaps, steady: Gaps | None) -> dict[str, Any]:
    scope = whole if steady is None else steady
    return {
        "idle_fraction": scope.idle_ns / scope.window_ns if scope.window_ns else 0.0,
        "idle_scope": "whole" if steady is None else "steady",
    }


def _step_figures(trace: Trace, steps: Steps, device: int, times: TraceTimes) -> dict[str, Any]:
    """Figures per kept step of the device; none without a kept step."""
    if not len(steps.kept_rows):
        return {}
    periods = periods_ns(trace, steps, device)
    on_device = np.where(trace.gpu_ops.device == device, steps.op_step, NONE)
    kernels = steps.count_kept(on_device[trace.gpu_ops.is_kernel])
    return {
        "period_ns": summarize(periods) if len(periods) else None,
        "busy_ns": summarize(step_busy_ns(trace, steps, device)),
        **(launch_tax(times) if len(periods) else {}),
        "host_submit_ns": times.host_ns,
        "kernels": float(np.median(kernels)),
        "launches": times.launches,
        "graph_launches": times.graph_launches,
        "series": _series(trace, steps, device),
    }


def launch_tax(times: TraceTimes) -> dict[str, float]:
    """Of a step; none where the trace has no idle time."""
    if times.taxes_ns is None or times.step_ns <= 0:
        return {}
    tax = times.taxes_ns["launch"]
    return {"launch_tax_ns": tax, "launch_tax_share": tax / times.step_ns}


def _communication(own: Collectives, steps: Steps) -> dict[str, Any]:
    """What of it needs no other rank, means per step as idle is; none without a kept step."""
    if not len(steps.kept_rows):
        return {}
    figures: dict[str, Any] = {"collectives": float(np.median(np.bincount(own.step, minlength=own.steps)))}
    if len(own):
        figures["communication_exposed_ns"] = float(own.exposed_ns.mean())
        figures["communication_hidden_ns"] = float(own.step_hidden_ns.mean())
    return figures


def _series(trace: Trace, steps: Steps, device: int) -> StepSeriesDoc:
    """Every kept step, or as many of them, evenly, as a row may carry."""
    first = first_op_ns(trace, steps, device)
    period = np.where(has_period(first, steps), np.append(first[1:], 0) - first, NONE)
    busy = step_busy_ns(trace, steps, device)
    kept = steps.kept_rows
    every = -(-len(kept) // MOST_IN_SERIES)
    chosen = kept[::every]
    return StepSeriesDoc(
        every=every,
        number=_numbers(steps, chosen.tolist()),
        period_ns=[None if ns == NONE else ns for ns in period[chosen].tolist()],
        busy_ns=[int(ns) for ns in busy[::every].tolist()],
    )


def _numbers(steps: Steps, chosen: list[int]) -> list[int]:
    """The numbers that profiler steps are called by, which ranks share; else the places of the steps."""
    called = [_NUMBERED.fullmatch(steps.names[step]) for step in chosen]
    if all(called):
        return [int(match[1]) for match in called if match]
    return chosen
