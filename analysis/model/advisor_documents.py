"""What the fusion advisor and the graph doctor found, as the JSON report holds it.

docs/fusion.md says how each kind is recognised, docs/graphs.md lists the findings. Everything that the fusion advisor
tells is predicted but the figures named ``came``.
"""

from __future__ import annotations

import msgspec


class WorthDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What fewer launches and bytes are worth, per step. Null where the data doesn't tell: ``withheld`` says why."""

    launches_saved: int
    bytes_saved: int | None  # intermediates written and read again; at most so many, as caches hold the small ones
    eager_saves_ns: float | None  # launches × τ while the host sets the pace, else GPU work
    eager_low_ns: float | None  # launches × the cheapest launch
    eager_high_ns: float | None  # that, or the host's time before these launches where it is more
    graph_saves_ns: float | None  # bytes ÷ bandwidth + launches × ν + the time that each kernel takes beside its bytes
    graph_low_ns: float | None  # bytes ÷ bandwidth + launches × ν
    graph_high_ns: float | None  # the kernel that stays takes no more beside its bytes than the quickest of them
    gpu_work_ns: float | None  # of graph_saves_ns: what W falls by

    def saves_ns(self, *, in_graph: bool) -> tuple[float | None, float | None, float | None]:
        """The usual saving, the least and the most."""
        if in_graph:
            return self.graph_saves_ns, self.graph_low_ns, self.graph_high_ns
        return self.eager_saves_ns, self.eager_low_ns, self.eager_high_ns


class CandidateDoc(WorthDoc, frozen=True, kw_only=True):
    """Operators that fewer kernels could do the work of, in all places where they are."""

    kind: str  # qkv, gate_up, silu_mul, residual_norm, rope_kv, attention, …: docs/fusion.md
    title: str
    places: int  # of the step
    layers: list[int] | None  # from 0, by repetition; null where the step doesn't repeat, or none of them is in a layer
    kernels_per_step: int  # GPU ops now
    launches_per_step: int
    launches_after: int
    kernels_ns: float  # what they take now, per step
    operators: list[str]  # of the first place, in launch order
    where: list[str]  # lines of the model's code, most kernels first; empty without Python stacks
    relied_on: str
    how: str


class AlreadyFusedDoc(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    what: str
    places: int


class AbstainedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What looks like a pattern, but for something that the file doesn't tell."""

    kind: str
    reason: str
    places: int
    operators: list[str]  # of the first place


class FusionDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Of one step: the first kept one that is as long as most."""

    layers: int | None
    launches: int
    kernels: int  # GPU ops with a launch
    tau_ns: float | None
    tau_source: str | None  # 'tau_step' or 'median launch overhead'
    tau_floor_ns: float | None
    bandwidth_bytes_per_s: float | None
    node_gap_ns: float | None
    times_from: str | None  # the recording that the kernels' times are of
    host_sets_pace: bool  # of the eager step; false: what fewer launches save is GPU work alone
    candidates: list[CandidateDoc]  # by what they save in eager mode, most first
    total: WorthDoc  # of all candidates; each kernel belongs to one at most
    already: list[AlreadyFusedDoc]
    abstained: list[AbstainedDoc]
    withheld: dict[str, str]


class FusedPartDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of the eager step that others of the fused step stand in place of, in all places alike."""

    kinds: list[str]  # candidates that the eager kernels belong to; empty for none
    before: list[str]  # names of one place's kernels, in launch order
    after: list[str]
    operators: list[str]  # that the fused kernels' own names list
    places: int
    kernels_before: int  # per step
    kernels_after: int
    before_ns: float  # per step
    after_ns: float


class PromiseDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One kind: what was promised and how much of it the fused run did."""

    kind: str
    launches_promised: int
    launches_came: int  # its kernels that are gone, less those that stand in their place
    gpu_work_promised_ns: float | None
    gpu_work_came_ns: float


class FusedRunDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The eager step against the fused one of the same capture; matched by names and order, so inferred."""

    eager_trace: str
    fused_trace: str
    launches_before: int
    launches_after: int
    gpu_work_before_ns: float
    gpu_work_after_ns: float
    promises: list[PromiseDoc]
    launches_promised: int
    gpu_work_promised_ns: float | None
    parts: list[FusedPartDoc]  # most kernels before first


class FindingDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why kernels run outside of graphs, or why replays are waited for."""

    code: str  # snake_case; docs/graphs.md lists them
    what: str  # one sentence
    evidence: list[str] = []  # with the numbers
    line: str | None = None  # of the user's code, as its source tells it
    how: str  # what to do, in one line
    mode: str | None = None  # of a profile; null in a trace
    basis: str = "measured"  # 'inferred' where the data allow another reading
    cost_ns: float | None = None  # per step, at most; null where it can't be told


class OutsideDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels that steps with replays launch one by one."""

    api: str
    operator: str | None
    line: str | None  # innermost Python frame of the user's; null unless stacks were recorded
    launches: int
    kernels: int
    kernel_ns: int
    launches_per_step: float | None  # over kept steps that replay; null without


class BetweenDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A blocking call, a copy or a set outside of replays, in steps that replay."""

    what: str  # 'sync', 'copy', 'set'
    name: str  # of the blocking call, or of the copy
    operator: str | None
    line: str | None
    count: int
    count_per_step: float | None
    ns: int  # blocked host time of a sync, GPU time of a copy or set
    idle_ns_per_step: float | None = None  # of a sync: GPU idle around it, the next graph launch left out


class GraphLaunchDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What launching graphs takes the host, and how much of it the GPU is idle for."""

    count: int
    per_step: float | None
    nodes: float  # median GPU ops of a replay
    host_ns: float | None  # of one launch: unprofiled where there is a calibration
    as_profiled_ns: float  # median time in the call; in launchscope's own captures mostly the profiler's
    source: str  # 'calibration', 'as profiled'
    exposed_ns: float | None  # per step, or of the whole file without steps; null in a capture without calibration


class FallbackDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Kept steps that launch kernel by kernel where others replay."""

    steps: list[str]  # their names
    of: int  # kept steps
    kernels: float  # median of such a step
    period_ns: float | None  # median
    replayed_kernels: float  # median of a step that replays
    replayed_period_ns: float | None
    shared_kernels: float  # share of kernels, by name, that both kinds run; 1.0: the same work
    other_shapes: list[str] = []  # operators that both kinds call, with other shapes; empty where none were recorded


class GraphStepDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One kept step."""

    step: str
    replays: int
    kernels: int  # whose launch is in the file
    kernels_in_graphs: int
    kernel_ns: int
    kernel_ns_in_graphs: int
    launches_outside: int  # of any GPU op, other than graph launches


class GraphDoctorDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Over the kept steps where there are any (``scope`` 'steps'), else over the file ('whole')."""

    engaged: str | None  # 'all', 'part', 'none' of the kernels; null when no kernel's launch is in the file
    scope: str
    kernels: int  # whose launch is in the file
    kernels_in_graphs: int
    kernel_ns: int
    kernel_ns_in_graphs: int
    launches_outside: int
    replays: int
    kernels_per_replay: list[int]  # least, median, most; empty without replays
    under_recorded: int  # replays that lack ops: a fault of the trace, no fallback
    graph_launch: GraphLaunchDoc | None
    fallback: FallbackDoc | None
    outside: list[OutsideDoc]  # most launches first; empty without replays
    between: list[BetweenDoc]  # most time first; empty without two replays
    steps: list[GraphStepDoc]  # empty when no kept step replays
    findings: list[FindingDoc]
