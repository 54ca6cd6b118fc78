"""The figures of two traces side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..figures.analyses import TraceAnalysis
from ..figures.registry import values
from ..model.document import CAUSES, TAX_FIELDS, TAXES, GapsDoc, ModeDoc, StepsDoc, StepTimeDoc, Summary, TraceDoc
from .compare_document import FigureDoc

COUNTS: Final = ("gpu_ops", "kernels", "launches", "graph_launches", "blocking_calls", "memcpys")

OF_MODES: Final = (
    "step_ns",
    "gpu_work_ns",
    "gpu_work_without_waiting_ns",
    "waiting_ns",
    "exposed_idle_ns",
    "true_idle_fraction",
    *TAX_FIELDS.values(),
    "predicted_graph_ns",
    "graph_memory_bytes",
    "gpu_ops",
    "kernels",
    "launches",
)
"""Figures of a mode that are compared, by their names in the report."""

COVERAGE_NOISE: Final = 0.005
"""Warm-up steps of a file are in its graph coverage: smaller changes say nothing."""

HARDLY_ANY: Final = 0.05
"""Share of kernels in graphs up to which a step is as good as without them."""

_UNITS: Final = {value.name: value.kind for _, value in values()}

Pair = tuple[float | None, float | None]
"""A figure before and after."""

_Value = tuple[float | None, float | None]
"""A figure and how much a trace's own steps differ in it."""


def figures(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> list[FigureDoc]:
    """Per step, or of the whole files: docs/metrics.md says how each comes about."""
    told = [dict(_of_step(side.document) if scope == "step" else _of_whole(side.document)) for side in (a, b)]
    names = [name for name in told[0] if name in told[1]]
    return [_figure(name, told[0][name], told[1][name]) for name in names]


def mode_figures(before: ModeDoc | None, after: ModeDoc | None) -> list[FigureDoc]:
    """What the report says of two modes, as far as it is known of either; nothing where one was not timed."""
    if before is None or after is None or before.step_ns is None or after.step_ns is None:
        return []
    pairs = ((name, _of_mode(before, name), _of_mode(after, name)) for name in OF_MODES)
    return [_figure(name, (was, None), (now, None)) for name, was, now in pairs if (was, now) != (None, None)]


def _of_mode(mode: ModeDoc, name: str) -> float | None:
    value: StepTimeDoc | float | None = getattr(mode, name)
    return value.median if isinstance(value, StepTimeDoc) else value


def graph_coverage(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> str | None:
    """How the share of kernels that run in graphs changed; null where either side's can't be told."""
    steps = [side.document.steps if scope == "step" else None for side in (a, b)]
    before, after = (None if its is None else its.graph_launches.median for its in steps)
    coverage = a.document.graphs.coverage_by_count, b.document.graphs.coverage_by_count
    return graph_change((before, after), coverage)


def graph_change(graph_launches: Pair, coverage: Pair) -> str | None:
    """``lost``, ``won``: a graph is launched less, or more, often, or hardly any kernel is in one now, or was before.

    ``fewer``, ``more``: of the kernels run in graphs, with the same replays. Graph launches are per step, None where
    they can't be told.
    """
    (launches, launches_now), (was, now) = graph_launches, coverage
    if was is None or now is None:
        return None
    if abs(now - was) <= COVERAGE_NOISE:
        return "same"
    by = 0.0 if launches is None or launches_now is None else launches_now - launches
    if now < was:
        return "lost" if by < 0 or now <= HARDLY_ANY else "fewer"
    return "won" if by > 0 or was <= HARDLY_ANY else "more"


def _figure(name: str, before: _Value, after: _Value) -> FigureDoc:
    known = before[0] is not None and after[0] is not None
    return FigureDoc(
        name=name,
        unit=_unit(name),
        before=before[0],
        after=after[0],
        change=after[0] - before[0] if known else None,  # type: ignore[operator]
        spread=None if before[1] is None or after[1] is None else max(before[1], after[1]),
    )


def _unit(name: str) -> str:
    if name in _UNITS:
        return _UNITS[name]
    if name.startswith("graph_coverage") or name.endswith("_fraction"):
        return "share"
    return "ns" if name.endswith("_ns") else "bytes" if name.endswith("_bytes") else "count"


def _of_step(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    steps = document.steps
    assert steps is not None, "only traces with kept steps are compared per step"
    yield "step_ns", _summary(steps.period_ns)
    yield "busy_ns", _summary(steps.busy_ns)
    yield from _idle(_steady_gaps(document), 0 if steps.period_ns is None else steps.period_ns.count)
    yield from ((name, _summary(_count(steps, name))) for name in COUNTS)
    yield from _coverage(document)
    yield from _of_registry(document)


def _of_whole(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    device = next((device for device in document.devices if device.device == document.headline_device), None)
    yield "window_ns", (None if device is None else device.window_ns, None)
    yield "busy_ns", (None if device is None else device.busy_ns, None)
    yield from _idle(None if device is None else device.gaps, 1)
    counts = document.coverage
    yield "gpu_ops", (counts.gpu_ops, None)
    yield "kernels", (counts.kernels, None)
    yield "launches", (counts.launches, None)
    yield "graph_launches", (counts.graph_launches, None)
    yield from _coverage(document)
    yield from _of_registry(document)


def _of_registry(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    for figure, value in values():
        found = figure.read(document)
        yield value.name, (None if found is None else value.of(found), None)


def _coverage(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    yield "graph_coverage", (document.graphs.coverage_by_count, None)
    yield "graph_coverage_by_time", (document.graphs.coverage_by_time, None)


def _count(steps: StepsDoc, name: str) -> Summary:
    summary = getattr(steps, name)
    assert isinstance(summary, Summary)
    return summary


def _summary(summary: Summary | None) -> _Value:
    if summary is None or summary.median is None:
        return None, None
    known = summary.p10 is not None and summary.p90 is not None and summary.count > 1
    return summary.median, summary.p90 - summary.p10 if known else None  # type: ignore[operator]


def _steady_gaps(document: TraceDoc) -> GapsDoc | None:
    steady = [d.steady for d in document.devices if d.device == document.headline_device]
    return steady[0].gaps if steady and steady[0] is not None else None


def _idle(gaps: GapsDoc | None, steps: int) -> Iterator[tuple[str, _Value]]:
    """Idle time by cause, and the same time as taxes."""

    def value(ns: float) -> _Value:
        return (ns / steps if gaps is not None and steps else None), None

    yield "idle_ns", value(0 if gaps is None else gaps.total_ns)
    for cause in CAUSES:
        yield f"idle.{cause}_ns", value(gaps.by_cause[cause].ns if gaps is not None and cause in gaps.by_cause else 0)
    for tax in TAXES:
        yield f"tax.{tax}_ns", value(gaps.taxes_ns[tax] if gaps is not None else 0)
