"""What a check looks at: the figures of one target in one mode on one machine. A baseline is a saved snapshot.

Schema ``launchscope.baseline/1``. It holds no raw trace, but every unprofiled sample by process, and the launches,
kernels and blocking calls of a step by their place, so that the cause of a change can be named.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from ..figures.registry import values
from ..model.capture import Ns, StepNs
from ..model.document import ModeDoc, ReportDocument, TraceDoc, told_traces
from ..model.names import users_line
from ..profile.select import (
    OPERATORS,
    PASS_OF_STACKS,
    TIMES,
    of_best_pass,
    of_mode,
    of_pass,
    timed_processes,
    without_stacks,
)
from .documents import CheckedSideDoc
from .limits import FIGURES

SCHEMA: Final = "launchscope.baseline/1"

MACHINE: Final = ("gpu", "driver", "cuda", "torch")
"""The parts of an environment that make times of two snapshots comparable."""

TRACE: Final = "trace"
"""The mode of a trace that someone else recorded."""

COUNTS: Final = ("launches", "kernels", "graph_launches", "blocking_calls", "memcpys")

_PROFILED: Final = "the step times of a trace are profiled ones: measure the step with launchscope profile"
_OF_CAPTURES: Final = "only a capture of launchscope profile tells it"

_LIBRARY: Final = re.compile(r"(?:site-packages|dist-packages|lib/python[\d.]+)/")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[/\\]")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object, another one in every process
_DIGITS: Final = 6  # after the point of counts per step that are split among places

_What = TypeVar("_What")
_Place = TypeVar("_Place")


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """One process's unprofiled samples, ns; warm-up left out."""

    repeat: int
    samples_ns: Annotated[tuple[StepNs, ...], msgspec.Meta(min_length=1)]  # step time, one per batch of steps
    host_submit_ns: tuple[Ns, ...] = ()


def timings(mode: ModeDoc, recordings: Iterable[TraceDoc]) -> tuple[Timing, ...]:
    """Unprofiled samples of a mode by process; ``recordings`` are the mode's."""
    return tuple(
        Timing(repeat=each.repeat, samples_ns=tuple(each.samples_ns), host_submit_ns=tuple(each.host_submit_ns))
        for each in timed_processes(mode, recordings)
    )


class LaunchSite(msgspec.Struct, frozen=True, kw_only=True):
    """Launches of a step by the operator that made them, and the user's Python line around it."""

    operator: str | None  # null where none was recorded
    line: str | None = None  # 'model.py(42): step', the innermost of the user's files; null without recorded stacks
    per_step: float
    kernels_per_step: float


class BlockingSite(msgspec.Struct, frozen=True, kw_only=True):
    """Blocking calls of a step by API, operator and stack."""

    api: str
    operator: str | None
    stack: tuple[str, ...]  # outermost first; empty where none was recorded
    per_step: float


class KernelSite(msgspec.Struct, frozen=True, kw_only=True):
    """GPU ops of a step by name."""

    name: str
    category: str  # kernel, memcpy, memset
    operator: str | None
    operator_inferred: bool = False  # from an aligned trace of the same capture
    per_step: float
    ns_per_step: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One target, one mode, one machine. Counts are means over kept steps, all recordings of the mode together."""

    schema: str = SCHEMA
    launchscope: str
    target: str  # name of the target, or of the trace file
    mode: str  # a mode of the capture, or 'trace' for a trace that someone else recorded
    batch_size: int | None = None
    dtype: str | None = None
    context_length: int | None = None
    settings: dict[str, str] = {}  # --set, secrets masked
    ranks: int = 1  # that ran each step together
    machine: dict[str, str | int | float | bool | None] = {}  # the environment it was measured in
    commit: str | None = None  # of the target's folder, with a + when it had changes
    created: str | None = None  # when it was measured, ISO 8601, UTC; null for a trace
    saved: str | None = None  # when it became a baseline
    source: str = ""  # the file that it comes from
    run: str | None = None  # snapshots of one run were measured in turn, and pair by repeat

    timings: tuple[Timing, ...] = ()
    launches: float | None = None  # per step
    kernels: float | None = None
    graph_launches: float | None = None
    blocking_calls: float | None = None
    memcpys: float | None = None
    graph_coverage: float | None = None  # share of kernels, by count
    figures: dict[str, float] = {}  # other numbers of figures, by name: means over the recordings
    graph_memory_bytes: int | None = None
    gpu_work_ns: float | None = None  # W; without waiting for other ranks where that is known
    waiting_share: float = 0.0  # of T − W: what collectives wait for other ranks, which is no idle time
    launch_tax_share: float | None = None  # of the idle time; null where that is below resolution
    launch_sites: tuple[LaunchSite, ...] = ()
    blocking_sites: tuple[BlockingSite, ...] = ()
    kernel_sites: tuple[KernelSite, ...] = ()

    error: str | None = None  # why nothing was timed in this mode
    unreliable: tuple[str, ...] = ()  # reasons why counts of the recordings can't be trusted
    withheld: dict[str, str] = {}  # figure: why it can't be told

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two snapshots of the same thing: target, mode and how it was set."""
        return (self.target, self.mode, self.setup)

    @property
    def setup(self) -> tuple[object, ...]:
        """How the target was set: batch size, dtype, context length, --set and the number of ranks."""
        return (self.batch_size, self.dtype, self.context_length, tuple(sorted(self.settings.items())), self.ranks)

    @property
    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """The parts of the machine that times depend on."""
        return {name: self.machine.get(name) for name in MACHINE}


def side_of(snapshot: Snapshot) -> CheckedSideDoc:
    """What a document tells of it."""
    return CheckedSideDoc(
        source=snapshot.source,
        target=snapshot.target,
        mode=snapshot.mode,
        commit=snapshot.commit,
        created=snapshot.created,
        processes=len(snapshot.timings),
        machine={name: value for name, value in snapshot.fingerprint.items() if value is not None},
    )


def launch_sites(traces: Sequence[TraceDoc], stacked: Sequence[TraceDoc]) -> tuple[LaunchSite, ...]:
    """By operator and the user's line; counts of ``traces``, lines of ``stacked`` where there are any."""
    launches, kernels = (
        _placed(_by_line(traces, count), _by_line(stacked, count))
        for count in ("launches_per_step", "kernels_per_step")
    )
    sites = [
        LaunchSite(operator=its[0], line=its[1], per_step=count, kernels_per_step=kernels.get(its, 0.0))
        for its, count in launches.items()
    ]
    return tuple(sorted(sites, key=lambda site: (-site.per_step, site.operator or "", site.line or "")))


def _by_line(traces: Sequence[TraceDoc], count: str) -> Iterator[tuple[str | None, str | None, float]]:
    """Operator, the user's line, and how many launches or kernels per step."""
    for trace, weight in _weights(traces):
        for row in trace.launches.by_operator:
            if row.launches_per_step:
                line = users_line([portable(frame) for frame in row.stack])
                yield row.operator, line, weight * (getattr(row, count) or 0.0)


def blocking_sites(traces: Sequence[TraceDoc], stacked: Sequence[TraceDoc]) -> tuple[BlockingSite, ...]:
    """Inside steps alone; counts of ``traces``, stacks of ``stacked`` where there are any."""
    sites = [
        BlockingSite(api=api, operator=operator, stack=stack, per_step=count)
        for ((api, operator), stack), count in _placed(_by_stack(traces), _by_stack(stacked)).items()
    ]
    return tuple(sorted(sites, key=lambda site: (-site.per_step, site.api, site.operator or "", site.stack)))


def _by_stack(traces: Sequence[TraceDoc]) -> Iterator[tuple[tuple[str, str | None], tuple[str, ...], float]]:
    """API and operator, stack, and how many calls per step."""
    for trace, weight in _weights(traces):
        for row in trace.blocking_calls:
            if row.count_per_step:
                stack = tuple(portable(frame) for frame in row.stack)
                yield (row.api, row.operator), stack, weight * row.count_per_step


def _placed(
    counted: Iterable[tuple[_What, _Place, float]], located: Iterable[tuple[_What, _Place, float]]
) -> dict[tuple[_What, _Place], float]:
    """All that is counted of each, shared out among the places where it is located, else where it was counted."""
    counts, located_counts = _by_place(counted), _by_place(located)
    found = {}
    for what, places in counts.items():
        total, weights = sum(places.values()), located_counts.get(what, places)
        among = sum(weights.values())
        for place, weight in weights.items():
            if weight:
                found[what, place] = round(total * weight / among, _DIGITS)
    return found


def _by_place(rows: Iterable[tuple[_What, _Place, float]]) -> dict[_What, dict[_Place, float]]:
    found: dict[_What, dict[_Place, float]] = defaultdict(lambda: defaultdict(float))
    for what, place, count in rows:
        found[what][place] += count
    return found


def kernel_sites(traces: Sequence[TraceDoc]) -> tuple[KernelSite, ...]:
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
    for trace, weight in _weights(of_best_pass(traces, TIMES[:1])):
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


def portable(frame: str) -> str:
    """A stack frame without the folders of this machine, but for those that tell a library, and without addresses."""
    frame = _ADDRESS.sub("", frame)
    if not _ABSOLUTE.match(frame):
        return frame
    library = list(_LIBRARY.finditer(frame))
    return frame[library[-1].start() :] if library else re.split(r"[/\\](?=[^/\\(]*(?:\(|$))", frame)[-1]


def _weights(traces: Sequence[TraceDoc]) -> list[tuple[TraceDoc, float]]:
    """Each trace with its share of all kept steps."""
    counts = [trace.steps.count if trace.steps is not None else 0 for trace in traces]
    return [(trace, count / sum(counts)) for trace, count in zip(traces, counts, strict=True) if count]


def snapshots_of(document: ReportDocument, source: str = "") -> list[Snapshot]:
    """One per mode of the profile, and one per trace of others, in the report's order; ``source`` is its file."""
    found = []
    if document.profile is not None:
        for mode, doc in document.profile.modes.items():
            found.append(_snapshot_of_mode(document, mode, doc, of_mode(told_traces(document), mode), source))
    of_others = of_mode(document.traces, None)
    return [*found, *(_snapshot_of_trace(document, trace, source or trace.source.path) for trace in of_others)]


def _snapshot_of_mode(
    document: ReportDocument, mode: str, doc: ModeDoc, traces: Sequence[TraceDoc], source: str
) -> Snapshot:
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
    of_mode = {name: its.of_mode for name, its in FIGURES.items() if its.of_mode is not None}
    lacking = {
        name: its for name, its in of_mode.items() if getattr(doc, its) is None or (name == "step_time" and not timed)
    }
    return {name: doc.withheld.get(its, "it was not measured") for name, its in lacking.items()}


def _snapshot_of_trace(document: ReportDocument, trace: TraceDoc, source: str) -> Snapshot:
    names = [device.name for device in trace.devices if device.device == trace.headline_device]
    counted = _Counted([trace], "no figure of this trace can be told")
    work = trace.steps.busy_ns.median if trace.steps is not None and trace.steps.busy_ns is not None else None
    withheld = {"step_time": _PROFILED, "launch_tax": _PROFILED, "true_idle": _PROFILED, "graph_memory": _OF_CAPTURES}
    if work is None:
        withheld["gpu_work"] = trace.withheld.get("steps.busy_ns") or trace.withheld.get("steps", "no steps found")
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


_OF_NODES: Final = ("kernels", "graph_coverage")
"""What a recording of whole replays does not tell."""


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
        if any(warning.code == "graph_level" for trace in self.traces for warning in trace.warnings):
            self.figures |= dict.fromkeys(_OF_NODES)
            self.withheld |= dict.fromkeys(_OF_NODES, "graph replays were recorded as a whole")
        self.figures["figures"] = self._of_registry(reliable, without)
        if self.figures["graph_coverage"] is None and not self.unreliable:
            reason = "no kernel of a step has its launch in the file" if self.traces else self.withheld["kernels"]
            self.withheld.setdefault("graph_coverage", reason)

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

    def _of_registry(self, reliable: Sequence[TraceDoc], without: str) -> dict[str, float]:
        """Means over the traces, with steps or not; what none of them tells has its reason under ``withheld``."""
        means = {}
        for figure, value in values():
            documents = [each for trace in reliable if (each := figure.read(trace)) is not None]
            found = [number for document in documents if (number := value.of(document)) is not None]
            if found:
                means[value.name] = sum(found) / len(found)
            else:
                reasons = (trace.withheld[figure.path] for trace in reliable if figure.path in trace.withheld)
                self.withheld[value.name] = next(reasons, without)
        return means

    def _mean(self, name: str) -> float | None:
        """Over the kept steps of all traces: a median would hide a call in every fourth step."""
        steps = [trace.steps for trace in self.traces if trace.steps is not None]
        count = sum(each.count for each in steps)
        return sum(getattr(each, name).total for each in steps) / count if count else None
