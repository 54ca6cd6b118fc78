"""Accounting closes on any trace: random ones, checked against the definitions read literally, one gap at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from launchscope.analysis.facts.context import Context
from launchscope.analysis.facts.gaps import Gaps, gaps_inside
from launchscope.analysis.figures.coverage import coverage_doc
from launchscope.analysis.model.document import CAUSES, TAXES
from launchscope.analysis.model.trace import NONE, Trace
from launchscope.fixtures.builder import TraceBuilder, trace

from ..cases import NAMED_CASES

US = 1000
APIS = ("cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpy", "cuLaunchKernelEx")


@dataclass(frozen=True)
class Piece:
    """One thing on the host and the GPU ops that it makes."""

    api: str
    at: int
    dur: int
    thread: int
    ops: tuple[tuple[int, int, int, int], ...]  # delay after the call's start, duration, stream, device
    has_launch: bool


times = st.integers(0, 300)
pieces = st.builds(
    Piece,
    api=st.sampled_from((*APIS, "cudaStreamSynchronize")),
    at=times,
    dur=st.integers(0, 60),
    thread=st.integers(1, 2),
    ops=st.lists(
        st.tuples(st.integers(-5, 80), st.integers(0, 30), st.sampled_from([7, 13]), st.integers(0, 1)), max_size=3
    ).map(tuple),
    has_launch=st.booleans() | st.just(True),
)


@st.composite
def builders(draw: Any) -> TraceBuilder:
    """A trace of up to 15 pieces, with or without steps."""
    builder = trace()
    if draw(st.booleans()):
        for number, start in enumerate(range(0, 300, draw(st.sampled_from([50, 75, 100])))):
            builder.step(number, start, 45)
    for number, piece in enumerate(draw(st.lists(pieces, max_size=15))):
        if piece.api.endswith("Synchronize"):
            builder.sync(piece.at, piece.dur, thread=piece.thread)
            continue
        correlation = 1000 + number
        if piece.has_launch:
            builder.launch(piece.at, piece.dur, piece.api, thread=piece.thread, correlation=correlation)
        for delay, dur, stream, device in piece.ops:
            at = max(0, piece.at + delay)
            builder.kernel(at, dur, stream=stream, device=device, launch=False, correlation=correlation)
    return builder


def expected_parts(built: Trace, found: Gaps, gap: int) -> dict[str, int]:
    """The parts of one whole gap by the rules as they are written, ns."""
    ops, launches = built.gpu_ops, built.launches
    a, b = int(found.start_ns[gap]), int(found.end_ns[gap])
    rows = [int(row) for row in np.flatnonzero(ops.device == found.device)]
    p = max((r for r in rows if ops.end_ns[r] <= a), key=lambda r: (ops.end_ns[r], ops.start_ns[r], r))
    launch_start = {r: launches.start_ns[ops.launch_row[r]] if ops.launch_row[r] != NONE else 2**62 for r in rows}
    k = min((r for r in rows if ops.start_ns[r] >= b), key=lambda r: (ops.start_ns[r], launch_start[r], r))
    assert (p, k) == (found.prev_op[gap], found.next_op[gap])
    if ops.correlation[p] == ops.correlation[k] and ops.process[p] == ops.process[k]:
        return {"graph": b - a}
    row = int(ops.launch_row[k])
    if row == NONE:
        return {"unlinked": b - a}
    s, e = int(launches.start_ns[row]), int(launches.end_ns[row])
    if s > b:
        return {"skewed": b - a}
    if e <= a:
        return {"device": b - a}
    h = max(a, s)
    m = min(max(e, h), b)
    calls = built.blocking_calls
    own = [i for i in range(len(calls)) if calls.thread[i] == launches.thread[row]]
    blocked = {us for i in own for us in range(calls.start_ns[i] // US, calls.end_ns[i] // US)}
    sync = sum(US for us in range(a // US, h // US) if us in blocked)
    return {"sync": sync, "host": h - a - sync, "launch": m - h, "dispatch": b - m}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(builders())
def test_causes_are_those_of_the_definitions(builder: TraceBuilder) -> None:
    built = builder.build()
    for device in built.devices:
        found = Context(built).gaps[device]
        rows = np.flatnonzero(built.gpu_ops.device == device)
        ranges = zip(built.gpu_ops.start_ns[rows] // US, built.gpu_ops.end_ns[rows] // US, strict=True)
        busy = {us for start, end in ranges for us in range(start, end)}
        assert found.busy_ns == len(busy) * US
        for gap in range(len(found)):
            expected = {cause: ns for cause, ns in expected_parts(built, found, gap).items() if ns}
            assert {cause: found.parts_ns[cause][gap] for cause in CAUSES if found.parts_ns[cause][gap]} == expected


def check_accounting(context: Context) -> None:
    """Everything that adds up, on every device and in both scopes."""
    built, counts = context.trace, coverage_doc(context)
    assert counts.linked + counts.unlinked == counts.gpu_ops == len(built.gpu_ops)
    assert counts.kernels <= counts.gpu_ops
    for device in built.devices:
        for found in filter(None, (context.gaps[device], context.steady[device])):
            doc = found.to_doc()
            assert found.busy_ns + found.idle_ns == found.window_ns
            assert sum(part.ns for part in doc.by_cause.values()) == doc.total_ns == found.idle_ns
            assert sum(doc.taxes_ns.values()) == found.idle_ns
            assert min(doc.taxes_ns.values()) >= 0
            assert tuple(doc.taxes_ns) == TAXES
            assert all((part >= 0).all() for part in found.parts_ns.values())
            for part in doc.by_cause.values():
                assert (part.boundary_ns or 0) + (part.after_sync_ns or 0) + part.stall_ns <= part.ns
            assert found.busy_ns <= found.op_sum_ns


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(builders())
def test_accounting_closes_on_any_trace(builder: TraceBuilder) -> None:
    built = builder.build()
    check_accounting(Context(built))


@pytest.mark.parametrize("name", NAMED_CASES)
def test_accounting_closes_on_named_cases(name: str) -> None:
    built = NAMED_CASES[name]().build()
    check_accounting(Context(built))


@settings(max_examples=100, deadline=None)
@given(builders(), st.lists(st.integers(0, 400), max_size=6, unique=True))
def test_windows_split_the_whole(builder: TraceBuilder, cuts: list[int]) -> None:
    """Windows that tile the trace hold all of its busy and idle, cause by cause."""
    built = builder.build()
    context = Context(built)
    for device in built.devices:
        whole = context.gaps[device]
        rows = built.gpu_ops.device == device
        since, until = built.gpu_ops.start_ns[rows].min(), built.gpu_ops.end_ns[rows].max()
        edges = [since, *sorted(cut * US for cut in cuts if since < cut * US < until), until]
        split = gaps_inside(whole, list(pairwise(edges)), built, context.threads, context.busy[device])
        assert (split.window_ns, split.busy_ns, split.op_sum_ns) == (whole.window_ns, whole.busy_ns, whole.op_sum_ns)
        for cause in CAUSES:
            assert split.parts_ns[cause].sum() == whole.parts_ns[cause].sum()
