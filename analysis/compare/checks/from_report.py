"""Snapshots of a report: what a check looks at, whether a capture, a trace or a saved report was opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...figures.registry import values
from ...model.document import ModeDoc, ReportDocument, TraceDoc, told_traces
from ...profile.select import OPERATORS, PASS_OF_STACKS, of_best_pass, of_mode, of_pass, without_stacks
from ..snapshot import Snapshot, Timing, timings
from .sites import blocking_sites, kernel_sites, launch_sites

TRACE: Final = "trace"
"""The mode of a trace that someone else recorded."""

COUNTS: Final = ("launches", "kernels", "graph_launches", "blocking_calls", "memcpys")

_PROFILED: Final = "the step times of a trace are profiled ones: measure the step with launchscope profile"
_OF_CAPTURES: Final = "only a capture of launchscope profile tells it"


def snapshots_of(document: ReportDocument, source: str = "") -> list[Snapshot]:
    """One per mode of the profile, and one per trace of others, in the report's order; ``source`` is its file."""
    found = []
    if document.profile is not None:
        for mode, doc in document.profile.modes.items():
            found.append(_of_mode(document, mode, doc, of_mode(told_traces(document), mode), source))
    of_others = of_mode(document.traces, None)
    return [*found, *(_of_trace(document, trace, source or trace.source.path) for trace in of_others)]


def _of_mode(document: ReportDocument, mode: str, doc: ModeDoc, traces: Sequence[TraceDoc], source: str) -> Snapshot:
    target, profile = document.target, document.profile
    stacked = [trace for trace in of_pass(traces, PASS_OF_STACKS) if trace.coverage.reliable and trace.steps]
    timed = timings(doc, traces)
    tax, idle = doc.launch_tax_ns, doc.exposed_idle_ns
    counted = _Counted(without_stacks(traces), doc.error or "no trace of this mode could be read")
    return Snapshot(
        launchscope=document.launchscope,
        target=target.name if target else "",
        mode=mode,
        batch_size=target.batch_size if target else None,
        dtype=target.dtype if target else None,
        context_length=target.context_length if target else None,
        settings=dict(target.settings) if target else {},
        ranks=profile.ranks.count if profile is not None and profile.ranks is not None else 1,
        machine=dict(document.environment or {}),
        commit=target.revision if target else None,
        created=document.created,
        source=source,
        run=document.run,
        timings=timed,
        **counted.figures,
        graph_memory_bytes=doc.graph_memory_bytes,
        gpu_work_ns=doc.gpu_work_ns if doc.gpu_work_without_waiting_ns is None else doc.gpu_work_without_waiting_ns,
        waiting_share=doc.waiting_ns / (doc.waiting_ns + idle) if doc.waiting_ns and idle is not None else 0.0,
        launch_tax_share=tax / idle if tax is not None and idle else None,
        launch_sites=launch_sites(counted.with_operators, stacked),
        blocking_sites=blocking_sites(counted.with_operators, stacked),
        kernel_sites=kernel_sites(counted.traces),
        error=doc.error,
        unreliable=counted.unreliable,
        withheld=counted.withheld | _withheld(doc, timed),
    )


def _withheld(doc: ModeDoc, timed: Sequence[Timing]) -> dict[str, str]:
    """Why figures that are not counted can't be told."""
    figures = (
        ("step_time", "step_ns", timed or None),
        ("gpu_work", "gpu_work_ns", doc.gpu_work_ns),
        ("launch_tax", "launch_tax_ns", doc.launch_tax_ns),
        ("true_idle", "true_idle_fraction", doc.true_idle_fraction),
        ("graph_memory", "graph_memory_bytes", doc.graph_memory_bytes),
    )
    return {name: doc.withheld.get(its, "it was not measured") for name, its, value in figures if value is None}


def _of_trace(document: ReportDocument, trace: TraceDoc, source: str) -> Snapshot:
    names = [device.name for device in trace.devices if device.device == trace.headline_device]
    counted = _Counted([trace], "no figure of this trace can be told")
    work = trace.steps.busy_ns.median if trace.steps is not None else None
    withheld = {"step_time": _PROFILED, "launch_tax": _PROFILED, "true_idle": _PROFILED, "graph_memory": _OF_CAPTURES}
    if work is None:
        withheld["gpu_work"] = trace.withheld.get("steps", "no steps found")
    return Snapshot(
        launchscope=document.launchscope,
        target=trace.name,
        mode=TRACE,
        machine={"gpu": names[0]} if names and names[0] is not None else {},
        source=source,
        **counted.figures,
        gpu_work_ns=work,
        launch_sites=launch_sites(counted.traces, ()),
        blocking_sites=blocking_sites(counted.traces, ()),
        kernel_sites=kernel_sites(counted.traces),
        unreliable=counted.unreliable,
        withheld=counted.withheld | withheld,
    )


class _Counted:
    """The traces that counts of a step come from: reliable ones with steps, and why there are none."""

    def __init__(self, recorded: Sequence[TraceDoc], without: str) -> None:
        reliable = [trace for trace in recorded if trace.coverage.reliable]
        self.traces = [trace for trace in reliable if trace.steps is not None]
        self.with_operators = of_best_pass(self.traces, OPERATORS[:1])
        self.unreliable: tuple[str, ...] = ()
        if recorded and not reliable:
            reasons = (reason for trace in recorded for reason in trace.coverage.unreliable)
            self.unreliable = tuple(dict.fromkeys(reasons)) or ("the recording is not reliable",)
        self.withheld: dict[str, str] = {}
        if not self.traces and not self.unreliable:
            reasons = (trace.withheld.get("steps", "no steps found") for trace in reliable)
            self.withheld = dict.fromkeys(COUNTS, next(reasons, without))
        self.figures: dict[str, Any] = {name: self._mean(name) for name in COUNTS}
        self.figures["graph_coverage"] = self._graph_coverage()
        self.figures["figures"] = self._of_registry(without)
        if self.figures["graph_coverage"] is None and not self.unreliable:
            reason = "no kernel of a step has its launch in the file" if self.traces else self.withheld["kernels"]
            self.withheld["graph_coverage"] = reason

    def _graph_coverage(self) -> float | None:
        """Over the kept steps, as what is before them (a prompt, warm-up) runs under no graph and is none of theirs."""
        in_graphs = linked = 0.0
        for trace in self.traces:
            steps = trace.steps
            if steps is None or steps.kernels_in_graphs is None or steps.kernels_with_launch is None:
                in_graphs += trace.graphs.kernels_in_graphs
                linked += trace.graphs.kernels_with_launch
            else:
                in_graphs += steps.kernels_in_graphs.total
                linked += steps.kernels_with_launch.total
        return in_graphs / linked if linked else None

    def _of_registry(self, without: str) -> dict[str, float]:
        """Means over the traces; what none of them tells has its reason under ``withheld``."""
        means = {}
        for figure, value in values():
            documents = [each for trace in self.traces if (each := figure.read(trace)) is not None]
            found = [number for document in documents if (number := value.of(document)) is not None]
            if found:
                means[value.name] = sum(found) / len(found)
            else:
                reasons = (trace.withheld[figure.path] for trace in self.traces if figure.path in trace.withheld)
                self.withheld[value.name] = next(reasons, without)
        return means

    def _mean(self, name: str) -> float | None:
        """Over the kept steps of all traces: a median would hide a call in every fourth step."""
        steps = [trace.steps for trace in self.traces if trace.steps is not None]
        count = sum(each.count for each in steps)
        return sum(getattr(each, name).total for each in steps) / count if count else None
