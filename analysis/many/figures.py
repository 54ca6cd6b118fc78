"""The figures of one rank's trace: those of its report, without what no table of ranks shows.

Stacks, graph doctor, kernels by name and operators take half the time of a report, and the rows of hundreds of ranks
don't tell them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..facts.collectives import Collectives
from ..facts.context import Context
from ..facts.trace_times import TraceTimes
from ..figures.coverage import coverage_doc
from ..figures.registry import values
from ..figures.trace_notices import notices
from ..figures.trace_verdict import trace_verdict
from ..model.document import WarningDoc
from ..model.freed_memory import return_freed_memory
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
    context = Context(trace, step_regex=step_regex)
    unreliable = coverage_doc(context).unreliable
    warnings = [WarningDoc(code=each.code, message=each.message, count=each.count) for each in notices(context)]
    context.release("trace_facts")
    told = trace_verdict(context.times, unreliable, context.blocking_words)
    known: dict[str, Any] = {
        "warnings": warnings,
        "unreliable": unreliable,
        "format": trace.source.format,
        "gpu_ops": len(trace.gpu_ops),
        "step_source": context.steps.source,
        "steps_found": context.steps.found,
        "steps": len(context.steps.kept_rows),
        "verdict_class": told.verdict_class,
        "verdict_reason": told.reason,
    }
    if context.headline is not None:
        known |= {"device": context.headline, "gpu": trace.device_names.get(context.headline)} | _idle(context)
        known |= _step_figures(context) | _communication(context) | {"figures": _of_registry(context)}
    return_freed_memory(len(trace.gpu_ops))
    busy_ns = context.busy_ns if context.has_steps and context.headline is not None else np.zeros(0)
    row = msgspec.structs.replace(row, **known)
    return RankFound(row, context.collectives, busy_ns, context.times, context.blocking_words)


def _of_registry(context: Context) -> dict[str, float]:
    """Numbers of figures that ask to be told of every rank."""
    documents = ((value, figure.of(context)) for figure, value in values() if value.of_ranks)
    found = ((value.name, value.of(document)) for value, document in documents if document is not None)
    return {name: number for name, number in found if number is not None}


def _idle(context: Context) -> dict[str, Any]:
    return {
        "idle_fraction": context.headline_gaps.idle_fraction,
        "idle_scope": "whole" if context.headline_steady is None else "steady",
    }


def _step_figures(context: Context) -> dict[str, Any]:
    """Figures per kept step of the device; none without a kept step."""
    steps, times = context.step_figures, context.times
    if steps is None or times is None:
        return {}
    return {
        "period_ns": steps.period_ns,
        "busy_ns": steps.busy_ns,
        **(launch_tax(times) if steps.period_ns is not None else {}),
        "host_submit_ns": times.host_ns,
        "kernels": steps.kernels.median,
        "launches": times.launches,
        "graph_launches": times.graph_launches,
        "series": _series(context),
    }


def launch_tax(times: TraceTimes) -> dict[str, float]:
    """Of a step; none where the trace has no idle time."""
    if times.taxes_ns is None or times.step_ns <= 0:
        return {}
    tax = times.taxes_ns["launch"]
    return {"launch_tax_ns": tax, "launch_tax_share": tax / times.step_ns}


def _communication(context: Context) -> dict[str, Any]:
    """What of it needs no other rank, means per step as idle is; none without a kept step."""
    if not context.has_steps:
        return {}
    own = context.collectives
    figures: dict[str, Any] = {"collectives": float(np.median(np.bincount(own.step, minlength=own.steps)))}
    if len(own):
        figures["communication_exposed_ns"] = float(own.exposed_ns.mean())
        figures["communication_hidden_ns"] = float(own.step_hidden_ns.mean())
    return figures


def _series(context: Context) -> StepSeriesDoc:
    """Every kept step, or as many of them, evenly, as a row may carry."""
    steps, period, kept = context.steps, context.period_ns[context.device], context.steps.kept_rows
    every = -(-len(kept) // MOST_IN_SERIES)
    chosen = kept[::every]
    return StepSeriesDoc(
        every=every,
        number=_numbers(steps.names, chosen.tolist()),
        period_ns=[None if ns == NONE else ns for ns in period[chosen].tolist()],
        busy_ns=[int(ns) for ns in context.busy_ns[::every].tolist()],
    )


def _numbers(names: Sequence[str], chosen: list[int]) -> list[int]:
    """The numbers that profiler steps are called by, which ranks share; else the places of the steps."""
    called = [_NUMBERED.fullmatch(names[step]) for step in chosen]
    if all(called):
        return [int(match[1]) for match in called if match]
    return chosen
