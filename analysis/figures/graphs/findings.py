"""What the graph doctor says of a trace: each reason with its numbers, the user's line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ...model.document import BlockingCallDoc, Summary
from ...model.graph_document import BetweenDoc, FallbackDoc, FindingDoc, GraphDoctorDoc
from ...model.names import users_line
from ...model.units import brief, duration, number, part, plural, share

NOTEWORTHY: Final = 0.02
"""Share of a step's time, or of its kernels, from which something beside the replays is a finding."""

SAME_WORK: Final = 0.9
"""Share of kernels, by name, from which a step that fell back does the work of those that replay."""

PLACES: Final = 3  # told of each finding; the JSON report has all

Place = tuple[str, str | None, str | None, float | None]
"""API or copy, operator, the user's line, count per step."""

_REMEDIES: Final = (
    (
        r"_local_scalar_dense|aten::item|\.item\(|\.tolist\(|__bool__|is_nonzero",
        "keep the value on the GPU (torch.where, a mask), or read it after the step, from a pinned copy",
    ),
    (
        r"nonzero|masked_select|unique|repeat_interleave|bincount",
        "its result's size depends on the data: use a mask of fixed size (torch.where, masked_fill)",
    ),
    (
        r"_to_copy|aten::to\b|copy_|\.cpu\(|\.numpy\(|\.to\(|Memcpy",
        "copy without waiting (non_blocking=True, pinned host memory), before the first or after the last replay; draw "
        "tokens on the GPU",
    ),
    (
        r"multinomial",
        "draw by the Gumbel trick (logits + noise, argmax), which waits for nothing",
    ),
    (r"[sS]ynchronize", "take the wait out of the step: wait once, for the step before, after launching the next one"),
)
WAITS: Final = "take what waits for the GPU out of what is captured"


def remedy(*texts: str | None) -> str:
    """What to do about something that a capture can't hold, by its operator, its line or its API; the first known."""
    for text in texts:
        for pattern, words in _REMEDIES:
            if text and re.search(pattern, text):
                return words
    return WAITS


def trace_findings(
    doctor: GraphDoctorDoc,
    blocking: Sequence[BlockingCallDoc],
    period: Summary | None,
    named: GraphDoctorDoc | None = None,
) -> list[FindingDoc]:
    """The findings of one trace, those that cost the most first.

    ``named``: of another recording of the same steps, in which operators and lines are known; times are never its.
    """
    step_ns = None if period is None else period.median
    if doctor.engaged in (None, "none"):
        return list(_waits(blocking))
    found = [
        *_fell_back(doctor.fallback),
        *_outside(doctor, named or doctor),
        *_between(doctor, named or doctor, step_ns),
        *_exposed(doctor, step_ns),
    ]
    return sorted(found, key=lambda finding: -(finding.cost_ns or 0.0))


def _waits(blocking: Sequence[BlockingCallDoc]) -> Iterator[FindingDoc]:
    """Calls inside the steps that wait for the GPU, where nothing is replayed: a capture would fail at each."""
    places = [
        (call.api, call.operator, users_line(call.stack), call.count_per_step)
        for call in blocking
        if call.count_per_step is not None and call.count_per_step >= 0.5
    ]
    if not places:
        return
    first = min(places, key=lambda place: place[1] is None)
    count = sum(place[3] or 0.0 for place in places)
    yield FindingDoc(
        code="waits_in_step",
        what=f"the step waits for the GPU {_times(count)}, which no capture can hold",
        evidence=_told(places),
        line=first[2],
        how=remedy(first[1], first[2], first[0]),
    )


def _times(count: float) -> str:
    return "once" if count == 1 else f"{number(count)} times"


def _told(places: Sequence[Place]) -> list[str]:
    """The first few places, and how many more there are."""
    texts = []
    for name, operator, line, count in places[:PLACES]:
        where = brief(name) + ("" if operator is None else f" in {brief(operator)}")
        where += "" if line is None else f", at {brief(line)}"
        texts.append(where + ("" if count is None else f" ({number(round(count, 3))} per step)"))
    if len(places) > PLACES:
        texts.append(plural(len(places) - PLACES, "more place"))
    return texts


def _fell_back(fallback: FallbackDoc | None) -> Iterator[FindingDoc]:
    if fallback is None:
        return
    same = fallback.shared_kernels >= SAME_WORK
    cost = None
    evidence = [
        f"{number(fallback.kernels)} kernels launched one by one, where a step that replays runs "
        f"{number(fallback.replayed_kernels)}; {share(fallback.shared_kernels)} of them are the same by name"
    ]
    if fallback.period_ns is not None and fallback.replayed_period_ns is not None:
        usual = duration(fallback.replayed_period_ns)
        evidence.append(f"such a step takes {duration(fallback.period_ns)}, the others {usual}")
        if same:
            cost = max(fallback.period_ns - fallback.replayed_period_ns, 0.0) * len(fallback.steps) / fallback.of
    evidence += [f"other shapes: {brief(text)}" for text in fallback.other_shapes]
    evidence.append(f"steps {', '.join(brief(name) for name in fallback.steps[:PLACES])}{_more(fallback.steps)}")
    yield FindingDoc(
        code="fell_back",
        what=f"{part(len(fallback.steps), fallback.of)} steps launch kernel by kernel while the others replay",
        evidence=evidence,
        how=_without_fallback(same=same, shapes=bool(fallback.other_shapes)),
        basis="measured" if same else "inferred",
        cost_ns=cost,
    )


def _without_fallback(*, same: bool, shapes: bool) -> str:
    if shapes:
        return "capture a graph for these shapes, or pad to those that are captured; prefill steps may stay as they are"
    if same:
        return (
            "the same work launched one by one: find what skips the replay in these steps (a batch size without a "
            "graph, a flag of the engine), and pad to a size that is captured"
        )
    return "nothing to do if these are prefill steps; else capture their size, or pad to one that is captured"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - PLACES} more" if len(names) > PLACES else ""


def _outside(doctor: GraphDoctorDoc, named: GraphDoctorDoc) -> Iterator[FindingDoc]:
    kernels = sum(row.kernels for row in doctor.outside)
    whole = kernels + doctor.kernels_in_graphs
    if not kernels or kernels < NOTEWORTHY * whole:
        return
    places: list[Place] = [(row.api, row.operator, row.line, row.launches_per_step) for row in named.outside]
    ns = sum(row.kernel_ns for row in doctor.outside)
    of_time = share(ns / max(ns + doctor.kernel_ns_in_graphs, 1))
    where = "the steps that replay" if doctor.scope == "steps" else "the file"
    yield FindingDoc(
        code="outside_replays",
        what=f"{part(kernels, whole)} kernels of {where} are launched one by one beside the replays",
        evidence=[f"{of_time} of the kernels' time", *_told(places)],
        line=places[0][2] if places else None,
        how="capture them with the rest; what no capture can hold goes before the first replay or after the last",
    )


def _between(doctor: GraphDoctorDoc, named: GraphDoctorDoc, step_ns: float | None) -> Iterator[FindingDoc]:
    """Waits by the GPU's idle time around them, copies by the GPU time they take."""
    per = max(sum(step.replays > 0 for step in doctor.steps), 1)
    for what in ("sync", "copy"):
        rows = [row for row in doctor.between if row.what == what]
        costs = [row.idle_ns_per_step or 0.0 if what == "sync" else row.ns / per for row in rows]
        cost = sum(costs)
        if step_ns is None or not rows or cost < NOTEWORTHY * step_ns:
            continue
        told = [row for row in named.between if row.what == what] or rows
        places = [(row.name, row.operator, row.line, row.count_per_step) for row in told]
        first = min(places, key=lambda place: (place[2] is None, place[1] is None))
        yield FindingDoc(
            code=f"{what}_between_replays",
            what=_between_words(what, rows),
            evidence=[f"{_cost_words(what)} {duration(cost)} per step ({share(cost / step_ns)} of it)", *_told(places)],
            line=first[2],
            how=remedy(first[1], first[0]),
            cost_ns=cost,
        )


def _between_words(what: str, rows: Sequence[BetweenDoc]) -> str:
    count = sum(row.count_per_step or 0.0 for row in rows)
    if what == "sync":
        return f"the host waits for the GPU {_times(round(count, 3))} per step between replays"
    return f"{plural(round(count, 3), 'memory copy', 'memory copies')} per step between replays"


def _cost_words(what: str) -> str:
    return "the GPU is idle around it for" if what == "sync" else "they take the GPU"


def _exposed(doctor: GraphDoctorDoc, step_ns: float | None) -> Iterator[FindingDoc]:
    launch = doctor.graph_launch
    if launch is None or launch.exposed_ns is None or step_ns is None or launch.exposed_ns < NOTEWORTHY * step_ns:
        return
    profiled = launch.source == "as profiled"
    evidence = [
        f"one launch takes the host {duration(launch.host_ns)} ({launch.source}) for {number(launch.nodes)} nodes, "
        f"{number(launch.per_step)} per step"
    ]
    if profiled:
        evidence.append("a profiler makes such calls many times as long: unprofiled it is less, or nothing")
    yield FindingDoc(
        code="launch_exposed",
        what=f"the GPU is idle for {duration(launch.exposed_ns)} per step while the host launches the graph",
        evidence=evidence,
        how="launch the next replay before the one before it has ended: no wait in between, or fewer, larger graphs",
        basis="inferred" if profiled else "measured",
        cost_ns=launch.exposed_ns,
    )
