"""The JSON report: schema ``launchscope.report/1``, a contract; docs/report.md describes every name.

Times are nanoseconds. A figure that the data can't support is null and its reason stands under ``withheld``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from .advisor_documents import FindingDoc, FusedRunDoc, FusionDoc, GraphDoctorDoc

SCHEMA: Final = "launchscope.report/1"

TAXES: Final = ("launch", "stall", "node", "sync", "between_steps", "other")
TAX_FIELDS: Final = {
    "launch": "launch_tax_ns",
    "stall": "stall_tax_ns",
    "node": "node_tax_ns",
    "sync": "sync_tax_ns",
    "between_steps": "between_steps_ns",
    "other": "other_idle_ns",
}
"""Where a mode's document holds each tax."""

CAUSES: Final = ("graph", "unlinked", "skewed", "device", "sync", "host", "launch", "dispatch")


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """S of the contract: a distribution of one figure."""

    median: float | None
    p10: float | None
    p90: float | None
    total: float
    count: int


class SourceDoc(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    format: str
    bytes: int


class CoverageDoc(msgspec.Struct, frozen=True, kw_only=True):
    events: int
    gpu_ops: int
    kernels: int
    launches: int
    graph_launches: int
    linked: int
    unlinked: int
    kernels_in_graphs: int
    zero_duration: int
    negative_latency: int
    negative_queue: int
    same_stream_overlaps: int
    steps_found: int
    steps_dropped: int
    step_source: str  # capture, profiler_step, annotation, repetition, none
    reliable: bool
    unreliable: list[str] = []  # why it is not
    dropped_because: dict[str, int] = {}  # steps by the reason why they don't count, the most frequent first


class EventDoc(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    after_ns: int  # since the first GPU op of the file; negative before it
    why: str  # what contradicts it


class WarningDoc(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    count: int = 1
    event: EventDoc | None = None  # the one record that proves it


class CauseDoc(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    ns: int
    boundary_ns: int | None  # null without steps
    after_sync_ns: int | None
    stall_ns: int
    before_replay_ns: int = 0  # of `launch`: before a graph replay; in our own captures mostly the profiler's own cost


class GapsDoc(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    total_ns: int
    by_cause: dict[str, CauseDoc]  # every cause of CAUSES that has a gap
    taxes_ns: dict[str, int]  # every tax of TAXES; they add up to total_ns


class SteadyDoc(msgspec.Struct, frozen=True, kw_only=True):
    window_ns: int
    busy_ns: int
    idle_ns: int
    idle_fraction: float
    gaps: GapsDoc


class DeviceDoc(msgspec.Struct, frozen=True, kw_only=True):
    device: int
    name: str | None
    window_ns: int
    busy_ns: int | None  # this and the next null where records are missing or impossible
    idle_ns: int | None
    op_sum_ns: int
    idle_fraction: float | None
    gaps: GapsDoc | None
    steady: SteadyDoc | None


class StepsDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Of the headline device, over kept steps; ``period_ns`` over those with a successor."""

    count: int
    period_ns: Summary | None
    busy_ns: Summary | None  # null where records are missing or impossible
    kernels: Summary
    launches: Summary
    graph_launches: Summary
    blocking_calls: Summary
    memcpys: Summary
    gpu_ops: Summary
    kernels_in_graphs: Summary | None = None  # null in reports that are older than it
    kernels_with_launch: Summary | None = None


class CommunicationDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of the headline device: per kept step, or of the whole file where there is no kept step."""

    scope: str  # 'steps', 'whole'
    kinds: dict[str, int]  # 'all_reduce', … → how many in all
    groups: list[str]  # process groups by name and ranks; '' where the file names none
    collectives: Summary
    exposed_ns: Summary  # a collective ran, and no other GPU op of the device
    hidden_ns: Summary  # a collective and another GPU op ran
    transfer_ns: Summary | None = None  # null without the other ranks: see ``reason``
    waiting_ns: Summary | None = None
    exposed_waiting_ns: Summary | None = None
    work_without_waiting_ns: Summary | None = None  # busy − exposed waiting
    reason: str | None = None  # why transfer and waiting can't be told apart, or not of all collectives


class OperatorDoc(msgspec.Struct, frozen=True, kw_only=True):
    operator: str | None
    launches: int
    kernels: int
    stack: list[str]  # enclosing operators and Python frames where recorded, outermost first
    launches_per_step: float | None = None  # over kept steps; null without
    kernels_per_step: float | None = None


class LaunchesDoc(msgspec.Struct, frozen=True, kw_only=True):
    overhead_ns: Summary
    latency_ns: Summary
    queue_ns: Summary
    by_api: dict[str, int]
    by_operator: list[OperatorDoc]


class BlockingCallDoc(msgspec.Struct, frozen=True, kw_only=True):
    api: str
    operator: str | None
    stack: list[str]
    count_per_step: float | None  # null without steps
    ns: int


class ReplayDoc(msgspec.Struct, frozen=True, kw_only=True):
    graph: str  # 'graph 0', … in order of first replay, or the file's own graph id
    count: int
    ops_min: int
    ops_median: float
    ops_max: int
    launch_overhead_ns: Summary | None  # null when no replay's launch is in the file


class GraphsDoc(msgspec.Struct, frozen=True, kw_only=True):
    coverage_by_count: float | None
    coverage_by_time: float | None
    kernels_in_graphs: int  # numerator and denominator of coverage_by_count
    kernels_with_launch: int
    replays: list[ReplayDoc]


class KernelDoc(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    category: str  # kernel, memcpy, memset
    count: int
    total_ns: int
    median_ns: float
    p90_ns: float
    share_of_busy: float  # of the kept steps' GPU work; of the whole file's without kept steps
    operator: str | None
    operator_inferred: bool = False  # from the aligned eager trace, not from this file
    count_per_step: float | None = None  # over kept steps; null without
    ns_per_step: float | None = None


class ShortShareDoc(msgspec.Struct, frozen=True, kw_only=True):
    by_count: float
    by_time: float


class ShortKernelsDoc(msgspec.Struct, frozen=True, kw_only=True):
    below_10us: ShortShareDoc | None
    below_tau: ShortShareDoc | None
    tau_ns: float | None
    tau_source: str | None  # 'tau_step' or 'median launch overhead'


class QueueDepthDoc(msgspec.Struct, frozen=True, kw_only=True):
    median: float | None
    max: int | None
    max_launches: int | None = None  # launches of which no GPU op has started: what the driver's queue holds


class MemoryOpsDoc(msgspec.Struct, frozen=True, kw_only=True):
    bytes: int | None
    ns: int


class BoundDoc(msgspec.Struct, frozen=True, kw_only=True):
    basis: str  # profile, trace
    gpu_work_ns: float
    launches: float
    tau_ns: float | None
    bound_ns: float | None
    serial_ns: float | None
    step_ns: float
    host_submit_ns: float | None
    host_submit_source: str | None  # 'unprofiled', 'as profiled'
    note: str | None = None  # how not to read it


class ActionDoc(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    saves_ns: float | None
    share: float | None  # of T
    low_ns: float | None
    high_ns: float | None
    basis: str = "predicted"  # or 'measured'
    step_ns: float | None = None  # T that is left after it
    mode: str | None = None  # the mode that measured it, or null
    detail: str | None = None  # what it costs, what was predicted
    kind: str | None = None  # what it is about, for programs: graph, fused_graph, sync, fuse:qkv, …
    evidence: str | None = None  # what says so
    how: str | None = None  # one line that tries it


class VerdictDoc(msgspec.Struct, frozen=True, kw_only=True):
    verdict_class: str = msgspec.field(name="class")
    basis: str
    reason: str
    actions: list[ActionDoc]
    on_the_edge: bool = False


PHASES: Final = ("schedule", "prepare", "forward", "sample", "copy_back", "between_steps", "other")
"""Phases of a serving step; ``other`` is what could not be told."""


class ServingPartDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the forward, per step."""

    host_ns: Summary
    gpu_busy_ns: Summary
    kernels: Summary
    launches: Summary


class ServingPhaseDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One phase, per step. Host times of all phases add up to the step's, and so do GPU work and GPU idle time."""

    phase: str  # of PHASES
    evidence: str | None  # 'annotation', 'frames', 'structure', or several with commas; null without host time
    host_ns: Summary | None  # null where the phase has no time of its own that could be told: see reason
    blocked_ns: Summary | None  # of host_ns: inside blocking calls
    gpu_busy_ns: Summary
    gpu_idle_ns: Summary  # the GPU waited for this phase
    launches: Summary
    reason: str | None = None
    in_replays: ServingPartDoc | None = None  # of the forward: graph launches and what they ran
    outside: ServingPartDoc | None = None  # of the forward: the rest


class ServingKindDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of one kind."""

    kind: str | None  # prefill, mixed, decode; null where nothing tells
    evidence: str | None  # 'annotation', 'shapes', 'structure', or several with commas; null without a kind
    count: int
    host_ns: Summary  # from the start of the step to the start of the next one
    period_ns: Summary | None  # first GPU op to the next step's first GPU op
    gpu_busy_ns: Summary
    gpu_idle_ns: Summary
    phases: list[ServingPhaseDoc]  # those that were found, and those that should be there but could not be told


class ServingDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a serving engine, or of a loop that copies tokens in, samples and copies tokens out."""

    engine: str | None  # 'vLLM', 'SGLang'; null where no annotation names one
    steps: int  # those that count: kept ones with a next step, or all kept where none has one
    idle_scope: str  # 'steady', 'whole': where the idle time was counted
    kinds: list[ServingKindDoc]
    kinds_reason: str | None = None  # why prefill and decode steps are not told apart, or not all


class TraceDoc(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    mode: str | None
    trace_pass: str | None = msgspec.field(name="pass")
    repeat: int | None
    rank: int | None
    source: SourceDoc
    coverage: CoverageDoc
    headline_device: int | None
    warnings: list[WarningDoc]
    withheld: dict[str, str]
    devices: list[DeviceDoc]
    steps: StepsDoc | None
    launches: LaunchesDoc
    blocking_calls: list[BlockingCallDoc]
    graphs: GraphsDoc
    graph_doctor: GraphDoctorDoc | None = None  # null without a GPU op, and in reports that are older than it
    kernels: list[KernelDoc]
    short_kernels: ShortKernelsDoc
    queue_depth: QueueDepthDoc
    memory_ops: MemoryOpsDoc
    bound: BoundDoc | None
    verdict: VerdictDoc
    serving: ServingDoc | None = None  # null where the steps are not an engine's
    serving_reason: str | None = None  # why an engine's steps are not told; null where they are
    fusion: FusionDoc | None = None  # null without the shapes of operators' inputs, or without a kept step
    communication: CommunicationDoc | None = None  # null without a collective in the kept steps
    figures: dict[str, Any] = {}  # figures without a name above, by theirs


class CalibrationDoc(msgspec.Struct, frozen=True, kw_only=True):
    tau_floor_ns: float | None
    graph_launch_ns: float | None
    graph_launch_per_node_ns: float | None
    replay_gap_ns: float | None
    node_gap_ns: float | None
    node_gap_few_streams_ns: float | None = None
    bandwidth_bytes_per_s: float | None
    flops_per_s: dict[str, float]


class FloorDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What a step reads and computes at the least."""

    bytes: int | None
    flops: int | None
    dtype: str | None  # of most FLOPs


class StepTimeDoc(msgspec.Struct, frozen=True, kw_only=True):
    median: float
    ci_low: float | None  # null with one process
    ci_high: float | None


class ProcessDoc(msgspec.Struct, frozen=True, kw_only=True):
    repeat: int
    samples_ns: list[float]
    warmup_ns: list[float]
    host_submit_ns: list[float]
    clocks_mhz: list[int]  # SM clock before and after
    started: str


class ObserverDoc(msgspec.Struct, frozen=True, kw_only=True):
    median: float
    low: float | None  # null with one process
    high: float | None


class ModeDoc(msgspec.Struct, frozen=True, kw_only=True):
    step_ns: StepTimeDoc | None
    processes: list[ProcessDoc]
    tau_step_ns: float | None
    tau_api_ns: float | None
    host_submit_ns: float | None
    host_submit_source: str | None  # 'unprofiled', 'as profiled'
    gpu_work_ns: float | None
    gpu_work_uncertainty_ns: float | None
    floor_ns: float | None
    launches: float | None
    kernels: float | None
    gpu_ops: float | None
    exposed_idle_ns: float | None
    true_idle_fraction: float | None
    launch_tax_ns: float | None
    stall_tax_ns: float | None
    node_tax_ns: float | None
    sync_tax_ns: float | None
    between_steps_ns: float | None
    other_idle_ns: float | None
    bound: BoundDoc | None
    verdict: VerdictDoc | None
    predicted_graph_ns: float | None
    predicted_graph_error: float | None  # (predicted − measured T) ÷ (measured T − W) of graph mode
    observer_effect: dict[str, ObserverDoc]  # by pass
    speedup: float | None  # paired by repeat against eager
    capture_ns: float | None
    compile_ns: float | None
    graph_memory_bytes: int | None
    output_matches_eager: bool | None
    max_abs_error: float | None
    max_relative_error: float | None = None
    output_tolerance: float | None = None  # allowed max_relative_error
    gpu_work_without_waiting_ns: float | None = None  # null without the other ranks, or without a collective
    waiting_ns: float | None = None  # of T, inside collectives: T = this + the above + exposed idle
    error: str | None
    warnings: list[WarningDoc]
    withheld: dict[str, str]


class RankDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One rank in one mode, or one rank's trace. Communication is as recorded, per step; T of a profile is not."""

    rank: int
    host: str | None  # null in traces of others
    device: str | None  # name of its GPU
    traces: list[str]  # names of the recordings behind its figures
    step_ns: StepTimeDoc | None
    gpu_work_ns: float | None
    gpu_work_without_waiting_ns: float | None
    launches: float | None
    kernels: float | None
    launch_tax_ns: float | None
    launch_tax_share: float | None  # of T
    waiting_of_step_ns: float | None  # the part of T that is exposed waiting
    collectives: float | None
    exposed_ns: float | None
    hidden_ns: float | None
    transfer_ns: float | None
    waiting_ns: float | None
    arrived_last: int | None  # of ``arrivals``
    arrivals: int | None  # collectives for which anybody waited
    awaited_ns: float | None  # mean per step: how long the others waited for it
    straggler: bool  # it arrives last in more than half of them, and more often than chance and spread explain
    clock_offset_ns: float | None  # its clock − the first rank's, by the ends of collectives
    clock_spread_ns: float | None  # p90 − p10 of that
    verdict: VerdictDoc | None
    error: str | None = None
    withheld: dict[str, str] = {}


class RankGroupDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks whose collectives were matched."""

    group: str  # '' where no file names it
    ranks: list[int]
    size: int | None  # of the whole group; null where not told


class RanksOfStepDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Several ranks that ran the same steps together: one mode of a profile, or traces of others."""

    basis: str  # 'profile': T is unprofiled; 'trace'
    ranks: list[RankDoc]
    step_ns: StepTimeDoc | None  # T of all: the median over repeats of the slowest rank's
    step_spread: float | None  # of the ranks' T: (longest − shortest) ÷ median
    stragglers: list[int]
    launch_skew_ns: Summary | None  # per launch of a collective: the last rank's − the first's
    alignment: str  # 'same_host', 'collectives', 'none'
    steps_by: str | None  # 'capture', 'profiler_step', 'order', 'collectives'; null where nothing was matched
    steps: int  # that were matched
    collectives: int  # that were matched, each counted once for all ranks
    groups: list[RankGroupDoc]
    refused: list[str]  # why collectives have no counterpart
    withheld: dict[str, str] = {}
    warnings: list[WarningDoc] = []


class RanksDoc(msgspec.Struct, frozen=True, kw_only=True):
    """All ranks of a profile; the modes' own figures are of ``told``."""

    count: int
    hosts: list[str]
    told: int
    modes: dict[str, RanksOfStepDoc]


def fusion_of(traces: Iterable[TraceDoc]) -> FusionDoc | None:
    """The fusion advisor's findings in the first trace that has some; null if none has."""
    return next((trace.fusion for trace in traces if trace.fusion is not None), None)


def baseline(modes: Mapping[str, ModeDoc]) -> str | None:
    """The mode that a profile's verdict is about: eager where it was timed, else the first that was; null if none."""
    timed = [name for name, mode in modes.items() if mode.step_ns is not None]
    return "eager" if "eager" in timed else next(iter(timed), None)


class ProfileDoc(msgspec.Struct, frozen=True, kw_only=True):
    calibration: CalibrationDoc | None
    floor: FloorDoc | None = None
    modes: dict[str, ModeDoc]
    seconds: dict[str, float]
    verdict: VerdictDoc | None  # of the baseline mode
    graph_findings: list[FindingDoc] = []  # why graphs did not engage, or are waited for; over all modes
    fused_run: FusedRunDoc | None = None  # null without shapes in an eager trace, or without a fused one
    ranks: RanksDoc | None = None  # null in a profile of one process


class TargetDoc(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    revision: str | None
    batch_size: int | None
    dtype: str | None
    context_length: int | None
    parameters: int | None
    settings: dict[str, str]
    labels: list[str]


class UnreadDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A file of several of which nothing can be told."""

    path: str
    reason: str


class SkippedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a folder or .zip that were not read as they plainly are no traces, those of one reason."""

    reason: str
    count: int
    first: str  # the name of one of them


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    launchscope: str
    target: TargetDoc | None
    environment: dict[str, str | int | float | bool | None] | None
    created: str | None = None  # when the capture was measured, ISO 8601, UTC
    run: str | None = None  # shared by captures that were measured in turn
    traces: list[TraceDoc]
    unread: list[UnreadDoc] = []
    skipped: list[SkippedDoc] = []
    ranks: list[RanksOfStepDoc] = []  # traces of several ranks side by side; a profile has its own
    profile: ProfileDoc | None


def told_traces(document: ReportDocument) -> list[TraceDoc]:
    """The traces, of a profile of several ranks those of the one that its modes' figures are of."""
    ranks = None if document.profile is None else document.profile.ranks
    if ranks is None:
        return document.traces
    return [trace for trace in document.traces if trace.trace_pass is None or trace.rank == ranks.told]
