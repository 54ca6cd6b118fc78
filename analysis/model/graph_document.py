"""What the graph doctor found in a trace and in a profile, as the JSON report holds it (docs/graphs.md)."""

from __future__ import annotations

import msgspec


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
