"""Why a figure of a trace's document is null: the data can't support it, and the report says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..model.document import TraceDoc
from .communication import NOT_IN_COMMON

LAUNCH_TIMES: Final = ("overhead_ns", "latency_ns", "queue_ns")


def withheld_figures(document: TraceDoc) -> dict[str, str]:
    """Path in the document → reason, for every figure that is null for want of data."""
    return {path: reason for path, figure, reason in _figures(document) if figure is None}


def _figures(document: TraceDoc) -> Iterator[tuple[str, object, str]]:
    """(path, figure, the reason if it is null)"""
    graphs, short, queue = document.graphs, document.short_kernels, document.queue_depth
    no_op, no_launches = "no GPU op in the file", "no launches in the file"
    unlinked = "no op's launch is in the file" if document.coverage.launches else no_launches
    no_time = "no kernel time has its launch in the file" if graphs.kernels_with_launch else None
    no_kernel = "no kernel has its launch in the file"
    yield "headline_device", document.headline_device, no_op
    no_host_time = "no launch in the file, so the host's time is not known"
    yield "bound", document.bound, no_op if document.headline_device is None else no_host_time
    for time in LAUNCH_TIMES:
        summary = getattr(document.launches, time)
        for figure in ("median", "p10", "p90"):
            yield f"launches.{time}.{figure}", getattr(summary, figure), no_launches
    yield "queue_depth.median", queue.median, unlinked
    yield "queue_depth.max", queue.max, unlinked
    yield "graphs.coverage_by_count", graphs.coverage_by_count, no_kernel
    yield "graphs.coverage_by_time", graphs.coverage_by_time, no_time or no_kernel
    yield from _step_figures(document)
    yield "short_kernels.below_10us", short.below_10us, "no kernel took any time"
    yield "short_kernels.below_tau", short.below_tau, "no kernel took any time, or τ is not known"
    yield "short_kernels.tau_ns", short.tau_ns, "no launch in the file"
    yield "memory_ops.bytes", document.memory_ops.bytes, "the file does not tell the bytes of every copy"
    yield from _serving_figures(document)
    communication = document.communication
    if communication is not None:
        reason = communication.reason or NOT_IN_COMMON
        yield "communication.transfer_ns", communication.transfer_ns, reason
        yield "communication.waiting_ns", communication.waiting_ns, reason


def _step_figures(document: TraceDoc) -> Iterator[tuple[str, object, str]]:
    found, dropped = document.coverage.steps_found, document.coverage.steps_dropped
    no_steps = f"all {found:,} steps found were dropped" if found else "no steps found"
    yield "steps", document.steps, no_steps
    if document.steps is not None:
        yield "steps.period_ns", document.steps.period_ns, "no kept step is followed by another"
    alone = "no kept step is followed by another step on this device"
    for index, device in enumerate(document.devices):
        yield f"devices.{index}.steady", device.steady, alone if found > dropped else no_steps


def _serving_figures(document: TraceDoc) -> Iterator[tuple[str, object, str]]:
    """Of a serving step; a trace of another kind of steps withholds nothing of it."""
    if document.serving is None:
        if document.serving_reason is not None:
            yield "serving", None, document.serving_reason
        return
    for index, kind in enumerate(document.serving.kinds):
        path = f"serving.kinds.{index}"
        yield f"{path}.kind", kind.kind, document.serving.kinds_reason or "no annotation tells it"
        yield f"{path}.period_ns", kind.period_ns, "no step follows these on this device"
        for number, phase in enumerate(kind.phases):
            reason = phase.reason or "no launch of the host's is of this phase"
            yield f"{path}.phases.{number}.host_ns", phase.host_ns, reason
            yield f"{path}.phases.{number}.blocked_ns", phase.blocked_ns, reason
