"""Snapshots of a report: what a check looks at, whether a capture, a trace or a saved report was opened."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from ..capture import AS_WRITTEN
from ..document import ModeDoc, ReportDocument, TraceDoc
from ..likely_causes import users_line
from .snapshot import BlockingSite, KernelSite, LaunchSite, Snapshot, Timing

TRACE: Final = "trace"
"""The mode of a trace that someone else recorded."""

COUNTS: Final = ("launches", "kernels", "graph_launches", "blocking_calls", "memcpys")

_PROFILED: Final = "the step times of a trace are profiled ones: measure the step with launchscope profile"
_OF_CAPTURES: Final = "only a capture of launchscope profile tells it"
_LIBRARY: Final = re.compile(r"(?:site-packages|dist-packages|lib/python[\d.]+)/")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[/\\]")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object, another one in every process
_DIGITS: Final = 6  # after the point of counts per step that are split among places

_Place = TypeVar("_Place")
_ByLine = dict[str | None, dict[str | None, float]]


def snapshots_of(document: ReportDocument, source: str = "") -> list[Snapshot]:
    """One per mode of the profile, and one per trace of others, in the report's order; ``source`` is its file."""
    own = [trace for trace in document.traces if trace.trace_pass is not None]
    foreign = [trace for trace in document.traces if trace.trace_pass is None]
    found = []
    if document.profile is not None:
        for mode, doc in document.profile.modes.items():
            traces = [trace for trace in own if (trace.mode or AS_WRITTEN) == mode]
            found.append(_of_mode(document, mode, doc, traces, source))
    return [*found, *(_of_trace(document, trace, source or trace.source.path) for trace in foreign)]


def portable(frame: str) -> str:
    """A stack frame without the folders of this machine, but for those that tell a library, and without addresses."""
    frame = _ADDRESS.sub("", frame)
    if not _ABSOLUTE.match(frame):
        return frame
    library = list(_LIBRARY.finditer(frame))
    return frame[library[-1].start() :] if library else re.split(r"[/\\](?=[^/\\(]*(?:\(|$))", frame)[-1]


def _of_mode(document: ReportDocument, mode: str, doc: ModeDoc, traces: Sequence[TraceDoc], source: str) -> Snapshot:
    target = document.target
    recorded = [trace for trace in traces if trace.trace_pass != "stacks"]
    stacked = [trace for trace in traces if trace.trace_pass == "stacks" and trace.coverage.reliable and trace.steps]
    timings = _timings(doc, traces)
    tax, idle = doc.launch_tax_ns, doc.exposed_idle_ns
    counted = _Counted(recorded, doc.error or "no trace of this mode could be read")
    return Snapshot(
        launchscope=document.launchscope,
        target=target.name if target else "",
        mode=mode,
        batch_size=target.batch_size if target else None,
        dtype=target.dtype if target else None,
        context_length=target.context_length if target else None,
        settings=dict(target.settings) if target else {},
        machine=dict(document.environment or {}),
        commit=target.revision if target else None,
        created=document.created,
        source=source,
        run=document.run,
        timings=timings,
        **counted.figures,
        graph_memory_bytes=doc.graph_memory_bytes,
        gpu_work_ns=doc.gpu_work_ns,
        launch_tax_share=tax / idle if tax is not None and idle else None,
        launch_sites=_launch_sites(counted.with_operators, stacked),
        blocking_sites=_blocking_sites(counted.with_operators, stacked),
        kernel_sites=_kernel_sites(counted.traces),
        error=doc.error,
        unreliable=counted.unreliable,
        withheld=counted.withheld | _withheld(doc, timings),
    )


def _timings(doc: ModeDoc, traces: Sequence[TraceDoc]) -> tuple[Timing, ...]:
    """Unprofiled samples by process, without the one that is there for the sake of stacks."""
    untimed = {trace.repeat for trace in traces if trace.trace_pass == "stacks"}
    return tuple(
        Timing(
            repeat=process.repeat,
            samples_ns=tuple(process.samples_ns),
            host_submit_ns=tuple(process.host_submit_ns),
        )
        for process in doc.processes
        if process.samples_ns and process.repeat not in untimed
    )


def _withheld(doc: ModeDoc, timings: Sequence[Timing]) -> dict[str, str]:
    """Why figures that are not counted can't be told."""
    figures = (
        ("step_time", "step_ns", timings or None),
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
        launch_sites=_launch_sites(counted.traces, ()),
        blocking_sites=_blocking_sites(counted.traces, ()),
        kernel_sites=_kernel_sites(counted.traces),
        unreliable=counted.unreliable,
        withheld=counted.withheld | withheld,
    )


class _Counted:
    """The traces that counts of a step come from: reliable ones with steps, and why there are none."""

    def __init__(self, recorded: Sequence[TraceDoc], without: str) -> None:
        reliable = [trace for trace in recorded if trace.coverage.reliable]
        self.traces = [trace for trace in reliable if trace.steps is not None]
        self.with_operators = [trace for trace in self.traces if trace.trace_pass == "cpu_cuda"] or self.traces
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

    def _mean(self, name: str) -> float | None:
        """Over the kept steps of all traces: a median would hide a call in every fourth step."""
        steps = [trace.steps for trace in self.traces if trace.steps is not None]
        count = sum(each.count for each in steps)
        return sum(getattr(each, name).total for each in steps) / count if count else None


def _weights(traces: Sequence[TraceDoc]) -> list[tuple[TraceDoc, float]]:
    """Each trace with its share of all kept steps."""
    counts = [trace.steps.count if trace.steps is not None else 0 for trace in traces]
    return [(trace, count / sum(counts)) for trace, count in zip(traces, counts, strict=True) if count]


def _split(total: float, places: Mapping[_Place, float]) -> dict[_Place, float]:
    """The total shared out among places by their weights."""
    among = sum(places.values())
    return {place: round(total * weight / among, _DIGITS) for place, weight in places.items() if weight}


def _launch_sites(traces: Sequence[TraceDoc], stacked: Sequence[TraceDoc]) -> tuple[LaunchSite, ...]:
    """By operator and the user's line; counts of ``traces``, lines of ``stacked`` where there are any."""
    launches, kernels = _by_line(traces)
    lines, kernel_lines = _by_line(stacked)
    sites = []
    for operator, own in launches.items():
        of_kernels = _split(sum(kernels[operator].values()), kernel_lines.get(operator, kernels[operator]))
        for line, count in _split(sum(own.values()), lines.get(operator, own)).items():
            ran = of_kernels.get(line, 0.0)
            sites.append(LaunchSite(operator=operator, line=line, per_step=count, kernels_per_step=ran))
    return tuple(sorted(sites, key=lambda site: (-site.per_step, site.operator or "", site.line or "")))


def _by_line(traces: Sequence[TraceDoc]) -> tuple[_ByLine, _ByLine]:
    """Launches and kernels per step of every operator, by the user's line."""
    launches: _ByLine = defaultdict(lambda: defaultdict(float))
    kernels: _ByLine = defaultdict(lambda: defaultdict(float))
    for trace, weight in _weights(traces):
        for row in trace.launches.by_operator:
            if row.launches_per_step:
                line = users_line([portable(frame) for frame in row.stack])
                launches[row.operator][line] += weight * row.launches_per_step
                kernels[row.operator][line] += weight * (row.kernels_per_step or 0.0)
    return launches, kernels


def _blocking_sites(traces: Sequence[TraceDoc], stacked: Sequence[TraceDoc]) -> tuple[BlockingSite, ...]:
    """Inside steps alone; counts of ``traces``, stacks of ``stacked`` where there are any."""
    _Key = tuple[str, str | None]
    calls: dict[_Key, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    stacks: dict[_Key, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for found, its_traces in ((calls, traces), (stacks, stacked)):
        for trace, weight in _weights(its_traces):
            for row in trace.blocking_calls:
                if row.count_per_step:
                    stack = tuple(portable(frame) for frame in row.stack)
                    found[row.api, row.operator][stack] += weight * row.count_per_step
    sites = [
        BlockingSite(api=key[0], operator=key[1], stack=stack, per_step=count)
        for key, own in calls.items()
        for stack, count in _split(sum(own.values()), stacks.get(key, own)).items()
    ]
    return tuple(sorted(sites, key=lambda site: (-site.per_step, site.api, site.operator or "", site.stack)))


def _kernel_sites(traces: Sequence[TraceDoc]) -> tuple[KernelSite, ...]:
    """By name; times of the `cuda` pass where there is one, which stretches kernels the least."""
    counts: dict[tuple[str, str], float] = defaultdict(float)
    spent_ns: dict[tuple[str, str], float] = defaultdict(float)
    operators: dict[tuple[str, str], tuple[bool, str]] = {}  # a recorded one before an inferred one
    for trace, weight in _weights(traces):
        for row in trace.kernels:
            if row.count_per_step:
                key = row.name, row.category
                counts[key] += weight * row.count_per_step
                if row.operator is not None:
                    its = row.operator_inferred, row.operator
                    operators[key] = min(its, operators.get(key, its))
    timed = [trace for trace in traces if trace.trace_pass == "cuda"] or traces
    for trace, weight in _weights(timed):
        for row in trace.kernels:
            spent_ns[row.name, row.category] += weight * (row.ns_per_step or 0.0)
    sites = [
        KernelSite(
            name=name,
            category=category,
            operator=operators[name, category][1] if (name, category) in operators else None,
            operator_inferred=operators.get((name, category), (False, ""))[0],
            per_step=round(count, _DIGITS),
            ns_per_step=round(spent_ns[name, category], 1),
        )
        for (name, category), count in counts.items()
    ]
    return tuple(sorted(sites, key=lambda site: (-site.ns_per_step, site.name, site.category)))
