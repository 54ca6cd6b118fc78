"""What to know about a trace before reading a figure of it: each notice says what, where, and what to do.

docs/warnings.md has them all, with when each is raised and what it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model import units
from ..model.columns import follow
from ..model.document import WarningDoc
from ..model.trace import Bools, HostKind, Notice, Trace
from .communication import waiting_unknown
from .figure import Figure

STRAY_SHARE: Final = 0.5
"""A gap over this share of the window means that work strayed into the recording."""

NSYS_RECORD: Final = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node"


def trace_notices(context: Context) -> Iterator[Notice]:
    """Everything that the data itself tells, apart from what its reader and its steps have to say."""
    yield from _link_notices(context)
    yield from _replay_notices(context)
    yield from _time_notices(context)
    yield from _odd_op_notices(context)
    yield from _gap_notices(context)
    devices, processes = context.trace.devices, np.unique(context.trace.launches.process)
    if len(devices) > 1:
        listed = ", ".join(str(device) for device in devices)
        text = (
            f"{len(devices)} devices ({listed}) ran GPU ops: busy and idle are told for each by itself, and headlines "
            "speak of the busiest"
        )
        yield Notice("several_devices", text, len(devices))
    if len(processes) > 1:
        text = (
            f"{len(processes)} processes launched GPU ops: the file merges several ranks, whose correlation ids may "
            "collide; analyze one rank's own file where you have it"
        )
        yield Notice("several_ranks", text, len(processes))


def _link_notices(context: Context) -> Iterator[Notice]:
    facts = context.trace_facts
    trace, unlinked = context.trace, int((~facts.linked).sum())
    if not facts.gpu_ops:
        yield Notice("no_gpu_ops", f"no GPU op in the file: {_why_no_gpu_ops(trace)}")
    elif not len(trace.launches):
        text = (
            f"{unlinked:,} GPU ops, but no API calls that launched them, so launch gaps can't be explained; "
            f"{_why_no_launches(trace)}"
        )
        yield Notice("no_launches", text, unlinked)
    elif unlinked:
        head = int((~facts.linked & (trace.gpu_ops.start_ns < trace.gpu_ops.start_ns[facts.linked].min())).sum())
        of_them = {0: "none", unlinked: "all"}.get(head, f"{head:,}")
        text = (
            f"{units.part(unlinked, facts.gpu_ops)} GPU ops have no launch in the file, {of_them} of them at its "
            "start: launched before the recording began, or the call's record was lost; start the recording on an "
            "idle GPU"
        )
        yield Notice("orphans", text, unlinked)
    if len(facts.lost_calls):
        lost = len(facts.lost_calls)
        where = np.unique(np.searchsorted(context.steps.start_ns, trace.host_ops.start_ns[facts.lost_calls], "right"))
        text = (
            f"{units.part(lost, lost + facts.launches_kept)} launch calls of the kept steps have no GPU op in the "
            f"file, in {len(where):,} of {len(context.steps.kept_rows):,} steps: synchronise before the recording "
            "stops, and record fewer steps"
        )
        yield Notice("lost_ops", text, lost)


def _why_no_gpu_ops(trace: Trace) -> str:
    """The likely reason, by what the file holds instead, and what to do."""
    kinds = set(trace.host_ops.kind.tolist())
    has_calls = HostKind.API in kinds or len(trace.blocking_calls) > 0
    if _is_nsys(trace):
        if any(notice.code == "graph_level" for notice in trace.notices):
            return f"graph replays were recorded as a whole, and nothing ran beside them; record with `{NSYS_RECORD}`"
        calls = "API calls, so nsys traced CUDA, but it got no record of the GPU"
        found = calls if has_calls else "no API call: CUDA was not traced, or no process used the GPU meanwhile"
        return f"it holds {found}; record with `{NSYS_RECORD}`, and synchronise before the recording stops"
    if not trace.events:
        return "it holds no event at all: the profiler's schedule never reached its active steps"
    if has_calls:
        return (
            "it holds API calls, so the profiler ran, but got no activity of the GPU: record again in a fresh process, "
            "and synchronise before the recording stops"
        )
    if HostKind.OPERATOR in kinds or HostKind.PYTHON in kinds:
        return (
            "it holds the CPU's side alone: recorded without ProfilerActivity.CUDA, or in a process that does not use "
            "the GPU, such as a server's front end"
        )
    return (
        "none of its events is of a category that torch.profiler gives GPU ops (kernel, gpu_memcpy, gpu_memset): "
        "record with ProfilerActivity.CUDA while the GPU works"
    )


def _why_no_launches(trace: Trace) -> str:
    if trace.source.format.startswith("proton"):
        return "Proton records none: record with torch.profiler or nsys"
    if _is_nsys(trace):
        return f"its tables of API calls were left out: record with `{NSYS_RECORD}` and export the report whole"
    return "the file was filtered or its writer leaves API calls out: re-export it whole"


def _is_nsys(trace: Trace) -> bool:
    return trace.source.format.startswith("nsys")


def _replay_notices(context: Context) -> Iterator[Notice]:
    replays = context.replays
    for graph in replays.differing.tolist():
        counts = replays.op_count[replays.graph == graph]
        short = int((counts < counts.max()).sum())
        text = (
            f"{replays.graph_names[graph]}: {units.part(short, len(counts))} replays have fewer than "
            f"{counts.max():,} GPU ops (down to {counts.min():,}): records were lost; record fewer steps in a fresh "
            "process"
        )
        yield Notice("under_recorded", text, short)


def _time_notices(context: Context) -> Iterator[Notice]:
    facts = context.trace_facts
    trace, ops = context.trace, context.trace.gpu_ops
    early = int(facts.is_early.sum())
    if early:
        before = follow(trace.launches.start_ns, ops.launch_row) - ops.start_ns
        text = (
            f"{units.part(early, facts.gpu_ops)} GPU ops start before their launch call does, by up to "
            f"{before[facts.is_early].max() / 1000:,.1f} µs: clock skew or wrong correlation ids; record in a fresh "
            "process, one profiler session only"
        )
        yield Notice("skew", text, early)
    if trace.whole_us and facts.gpu_ops and not any(notice.code == "perfetto_json" for notice in trace.notices):
        gaps = sum(len(busy) - 1 for busy in context.busy.values())
        text = (
            f"times are whole µs: ±1 µs at each edge, so {gaps:,} gaps may be off by ±{2 * gaps / 1000:,.3f} ms "
            "together; a newer torch (2.3 or later) writes nanoseconds"
        )
        yield Notice("whole_us", text, facts.gpu_ops)


def _odd_op_notices(context: Context) -> Iterator[Notice]:
    facts = context.trace_facts
    by_fault, *of_tables = facts.impossible
    counts = [int(rows.sum()) for rows in of_tables]
    if any(counts):
        words = (("GPU op", "GPU ops"), ("launch", "launches"), ("blocking call", "blocking calls"))
        counted = [units.plural(n, *own) for n, own in zip(counts, words, strict=True) if n]
        faults = [f"{count:,} {what}" for what, count in by_fault.items() if count]
        where = f" (the first on {_place(context.trace, of_tables[0])})" if of_tables[0].any() else ""
        text = (
            f"durations that can't be, of {' and '.join(counted)}{where}: {', '.join(faults)}; the writer's clocks are "
            "at fault, and busy time holds them: record again"
        )
        yield Notice("impossible_durations", text, sum(counts))
    twice = int(facts.twice.sum())
    if twice:
        text = (
            f"{units.part(twice, facts.gpu_ops)} GPU ops are in the file more than once (the first on "
            f"{_place(context.trace, facts.twice)}): counts and sums of durations hold them each time, busy time does "
            "not; files were merged, or one was written twice: give the profiler's own file"
        )
        yield Notice("duplicates", text, twice)
    overlaps = int((facts.overlaps.early & ~facts.twice).sum())
    if overlaps:
        why = ", or the impossible durations" if facts.overlaps.far.any() else ""
        text = (
            f"{units.part(overlaps, facts.gpu_ops)} GPU ops start before an earlier one of their stream has ended "
            f"(programmatic dependent launch{why}): busy counts such time once, the sum of durations twice"
        )
        yield Notice("overlap", text, overlaps)


def _gap_notices(context: Context) -> Iterator[Notice]:
    for device, busy in context.busy.items():
        window = int(busy.end_ns[-1] - busy.start_ns[0])
        gaps = busy.start_ns[1:] - busy.end_ns[:-1]
        longest = int(np.argmax(gaps)) if len(gaps) else 0
        if len(gaps) and gaps[longest] > STRAY_SHARE * window:
            has_steady = bool(context.windows[device])
            remedy = "the steady idle beside it leaves it out" if has_steady else "record a loop of steps alone"
            begins = units.duration(float(busy.end_ns[longest] - busy.start_ns[0]))
            text = (
                f"device {device}: one gap of {gaps[longest] / 1e6:,.3f} ms, {begins} into the window, is "
                f"{units.share(gaps[longest] / window)} of it: the recording holds stray work; {remedy}"
            )
            yield Notice("stray_work", text)


def _place(trace: Trace, rows: Bools) -> str:
    """Where the first of these GPU ops is."""
    ops, row = trace.gpu_ops, int(np.argmax(rows))
    since = float(ops.start_ns[row] - ops.start_ns.min())
    when = f"{units.duration(since)} after the first GPU op" if since else "the first GPU op of all"
    return f"device {ops.device[row]}, stream {ops.stream[row]}, {when}"


def notices(context: Context) -> Sequence[Notice]:
    """What the reader, the steps and the data have to say; found once."""
    if "notices" not in context.figures:
        context.figures["notices"] = (*context.trace.notices, *context.steps.notices, *trace_notices(context))
    found: Sequence[Notice] = context.figures["notices"]
    return found


def _warnings(context: Context) -> list[WarningDoc]:
    found = [WarningDoc(code=each.code, message=each.message, count=each.count) for each in notices(context)]
    return [*found, *waiting_unknown(context)]


WARNINGS: Final = Figure(
    "warnings", "what to know before reading a figure", list[WarningDoc], _warnings, across_ranks=True
)
