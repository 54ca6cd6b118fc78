"""What the graph doctor says of a trace: each reason with its numbers, the user's line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ...model.advisor_documents import FallbackDoc, FindingDoc, GraphDoctorDoc, GraphLaunchDoc
from ...model.document import BlockingCallDoc, Summary
from ...model.names import users_line
from ...model.units import brief, duration, number, part, plural, share

NOTEWORTHY: Final = 0.02
"""Share of a step's time, or of its kernels, from which something outside the replays is a finding."""

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
    (r"multinomial", "draw by the Gumbel trick (logits + noise, argmax), which waits for nothing"),
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
    if doctor.engaged in (None, "none"):
        return list(_waits(blocking))
    found = [] if doctor.fallback is None else [_fell_back(doctor.fallback)]
    found += _outside(doctor, named or doctor)
    if period is not None and period.median is not None:
        found += _between(doctor, named or doctor, period.median)
        found += [] if doctor.graph_launch is None else _exposed(doctor.graph_launch, period.median)
    return sorted(found, key=lambda finding: -(finding.cost_ns or 0.0))


def _waits(blocking: Sequence[BlockingCallDoc]) -> Iterator[FindingDoc]:
    """Calls inside the steps that wait for the GPU, where nothing is replayed: a capture would fail at each."""
    places = [
        (call.api, call.operator, users_line(call.stack), call.count_per_step)
        for call in blocking
        if call.count_per_step is not None and call.count_per_step >= 0.5
    ]
    if places:
        api, operator, line, _ = min(places, key=lambda place: place[1] is None)
        count = sum(place[3] for place in places)
        yield FindingDoc(
            code="waits_in_step",
            what=f"the step waits for the GPU {_times(count)}, which no capture can hold",
            evidence=_first(places),
            line=line,
            how=remedy(operator, line, api),
        )


def _times(count: float) -> str:
    return "once" if count == 1 else f"{number(count)} times"


def _first(places: Sequence[Place]) -> list[str]:
    """The first few places, and how many more there are."""
    texts = []
    for name, operator, line, count in places[:PLACES]:
        where = brief(name) + ("" if operator is None else f" in {brief(operator)}")
        where += "" if line is None else f", at {brief(line)}"
        texts.append(where + ("" if count is None else f" ({number(round(count, 3))} per step)"))
    return texts if len(places) <= PLACES else [*texts, plural(len(places) - PLACES, "more place")]


def _fell_back(fallback: FallbackDoc) -> FindingDoc:
    same, shapes, steps = fallback.shared_kernels >= SAME_WORK, fallback.other_shapes, fallback.steps
    evidence = [
        f"{number(fallback.kernels)} kernels launched one by one, where a step that replays runs "
        f"{number(fallback.replayed_kernels)}; {share(fallback.shared_kernels)} of them are the same by name"
    ]
    cost = None
    if fallback.period_ns is not None and fallback.replayed_period_ns is not None:
        usual = duration(fallback.replayed_period_ns)
        evidence.append(f"such a step takes {duration(fallback.period_ns)}, the others {usual}")
        if same:
            cost = max(fallback.period_ns - fallback.replayed_period_ns, 0.0) * len(steps) / fallback.of
    evidence += [f"other shapes: {brief(text)}" for text in shapes]
    more = f" and {len(steps) - PLACES} more" if len(steps) > PLACES else ""
    evidence.append(f"steps {', '.join(map(brief, steps[:PLACES]))}{more}")
    how = "nothing to do if these are prefill steps; else capture their size, or pad to one that is captured"
    if shapes:
        how = "capture a graph for these shapes, or pad to those that are captured; prefill steps may stay as they are"
    elif same:
        how = (
            "the same work launched one by one: find what skips the replay in these steps (a batch size without a "
            "graph, a flag of the engine), and pad to a size that is captured"
        )
    return FindingDoc(
        code="fell_back",
        what=f"{part(len(steps), fallback.of)} steps launch kernel by kernel while the others replay",
        evidence=evidence,
        how=how,
        basis="measured" if same else "inferred",
        cost_ns=cost,
    )


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
        evidence=[f"{of_time} of the kernels' time", *_first(places)],
        line=places[0][2] if places else None,
        how="capture them with the rest; what no capture can hold goes before the first replay or after the last",
    )


def _between(doctor: GraphDoctorDoc, named: GraphDoctorDoc, step_ns: float) -> Iterator[FindingDoc]:
    """Waits by the GPU's idle time around them, copies by the GPU time they take."""
    replaying = max(sum(step.replays > 0 for step in doctor.steps), 1)
    for what in ("sync", "copy"):
        rows = [row for row in doctor.between if row.what == what]
        cost = sum(row.idle_ns_per_step or 0.0 if what == "sync" else row.ns / replaying for row in rows)
        if not rows or cost < NOTEWORTHY * step_ns:
            continue
        places: list[Place] = [
            (row.name, row.operator, row.line, row.count_per_step)
            for row in [row for row in named.between if row.what == what] or rows
        ]
        name, operator, line, _ = min(places, key=lambda place: (place[2] is None, place[1] is None))
        count = round(sum(row.count_per_step or 0.0 for row in rows), 3)
        words = f"{plural(count, 'memory copy', 'memory copies')} per step between replays"
        costs = "they take the GPU"
        if what == "sync":
            words = f"the host waits for the GPU {_times(count)} per step between replays"
            costs = "the GPU is idle around it for"
        yield FindingDoc(
            code=f"{what}_between_replays",
            what=words,
            evidence=[f"{costs} {duration(cost)} per step ({share(cost / step_ns)} of it)", *_first(places)],
            line=line,
            how=remedy(operator, name),
            cost_ns=cost,
        )


def _exposed(launch: GraphLaunchDoc, step_ns: float) -> Iterator[FindingDoc]:
    if launch.exposed_ns is None or launch.exposed_ns < NOTEWORTHY * step_ns:
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
