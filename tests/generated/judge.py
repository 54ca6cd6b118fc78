"""Whether a report of a generated recording is true: one complaint for each thing printed, or withheld, that isn't."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from statistics import median
from typing import Final

from launchscope.analysis.faults.checks import faults
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.figures.verdict import GPU_BOUND_FRACTION
from launchscope.analysis.model.document import TraceDoc
from launchscope.analysis.model.trace import Void

from .damage import DAMAGES, IMPOSSIBLE, MISSING, Damage
from .made import Recording, Truth, busy_ns, joined_at, made

UNDAMAGED: Final = "undamaged"

NO_STEPS: Final = "no steps found"
"""The reason of a recording whose repetition is damaged: one window over everything, as the report says."""

_OFF: Final = re.compile(r"may be off by ±([\d,.]+) ms")


def kind_of(seed: int) -> str:
    """What is done to this seed's recording: to every third nothing."""
    names = list(DAMAGES)
    return UNDAMAGED if seed % 3 == 0 else names[(seed // 3 * 2 + seed % 3 - 1) % len(names)]


def wrong(seed: int) -> list[str]:
    """What the report says that isn't so, or leaves out without need."""
    random, kind = Random(seed), kind_of(seed)
    if kind == UNDAMAGED:
        recording = made(random)
        return list(_of_undamaged(_report(recording), Truth.of(recording), recording.dressing != "none"))
    damage = DAMAGES[kind]
    recording = damage.loop(random)
    damage.happening(recording, random)
    happened = deepcopy(recording)
    damage.change(recording, random)
    analysis = analyze_trace(recording.builder().build(), name="generated")
    ranks = [(happened, recording)]
    if recording.other is not None:
        ranks.append((recording.other, recording.other))
    named = bool(damage.codes & _reasons(analysis))
    found = [list(_of_damaged(analysis.document, *rank, damage, named)) for rank in ranks]
    return min(found, key=len)


def _reasons(analysis: TraceAnalysis) -> set[str]:
    """Codes of the warnings; where the report is unreliable, of those alone that make it so."""
    if analysis.document.coverage.reliable:
        return {warning.code for warning in analysis.document.warnings}
    void = {notice.code for notice in faults(analysis.context) if Void.TRACE in notice.voids}
    return void | {notice.code for notice in analysis.context.trace.notices}


def _report(recording: Recording) -> TraceDoc:
    return analyze_trace(recording.builder().build(), name="generated").document


def _of_undamaged(document: TraceDoc, truth: Truth, marked: bool) -> Iterator[str]:
    """Exact where the steps are marked; found by repetition they may begin at any op, so T is one of many."""
    device = document.devices[0]
    exact = [
        ("window", device.window_ns, truth.window),
        ("busy", device.busy_ns, truth.busy),
        ("idle", device.idle_ns, truth.window - truth.busy),
        ("node tax", device.gaps.taxes_ns["node"], truth.node),
        ("sum of taxes", sum(device.gaps.taxes_ns.values()), truth.window - truth.busy),
    ]
    if document.steps is None:
        yield "no steps"
    else:
        found = _per_step(document)
        exact += [("N", found["N"], truth.launches), ("K", found["K"], truth.kernels)]
        if marked:
            exact += [("T", found["T"], median(truth.periods)), ("W", found["W"], median(truth.work))]
        elif not min(truth.periods) <= found["T"] <= max(truth.periods):
            yield f"T is {found['T']}, not within {min(truth.periods)} to {max(truth.periods)}"
    yield from (f"{what} is {printed}, truly {true}" for what, printed, true in exact if printed != true)
    yield from (f"withheld without damage: {path}: {why}" for path, why in document.withheld.items())


def _of_damaged(
    document: TraceDoc, happened: Recording, recording: Recording, damage: Damage, named: bool
) -> Iterator[str]:
    """A number outside of what any step took is wrong, unless the damage is named and the report unreliable."""
    if not named:
        may_be = {NO_STEPS} if recording.dressing == "none" else set()
        yield from (
            f"withheld, no warning names it: {path}" for path, why in document.withheld.items() if why not in may_be
        )
        if not document.coverage.reliable:
            yield f"unreliable, no warning names it: {document.coverage.unreliable}"
    if named and not document.coverage.reliable:
        return
    but = "reliable" if named else "no warning names it"
    truth = Truth.of(happened)
    for what, printed, low, high in (
        *_figures(document, truth, recording, damage),
        *_idle(document, happened, recording, damage),
    ):
        if not low <= printed <= high:
            yield f"{what} is {printed}, truly {low} to {high}, and {but}"
    if not _may_be_the_class(document, _report(happened), truth, damage):
        yield f"class is {document.verdict.verdict_class}, truly {_report(happened).verdict.verdict_class}, and {but}"


def _may_be_the_class(document: TraceDoc, undamaged: TraceDoc, truth: Truth, damage: Damage) -> bool:
    """Whether the class is none, or that of the undamaged recording; of other steps it may be across a threshold."""
    printed, true = document.verdict, undamaged.verdict
    classes = {printed.verdict_class, true.verdict_class}
    if printed.on_the_edge or true.on_the_edge or len(classes) == 1 or printed.verdict_class == "insufficient":
        return True
    if "gpu-bound" in classes:
        return truth.shares[0] < GPU_BOUND_FRACTION <= truth.shares[1]
    kept = [steps.count for steps in (document.steps, undamaged.steps) if steps is not None]
    return "mixed" in classes and (damage.clock > 0 or len(set(kept)) > 1)


Bounds = tuple[str, float, float, float]


def _figures(document: TraceDoc, truth: Truth, recording: Recording, damage: Damage) -> Iterator[Bounds]:
    """What is printed of a step, and what is true of any."""
    if document.steps is None:
        return
    per_step, off = document.steps.gpu_ops.median, 2 * damage.clock
    lost = _count(document, "orphans", "zero_correlation")
    recorded = sum(op.kind == "kernel" and op.step == 1 for op in recording.ops)
    bounds = {
        "T": (min(truth.periods) - off, max(truth.periods) + off),
        "W": (min(truth.work) - off * per_step, max(truth.work) + off * per_step),
        "N": (truth.launches - lost, truth.launches),
        "K": (recorded if _count(document, "replay_hole") else truth.kernels, truth.kernels),
    }
    for what, printed in _per_step(document).items():
        yield what, printed, *bounds[what]


def _idle(document: TraceDoc, happened: Recording, recording: Recording, damage: Damage) -> Iterator[Bounds]:
    """Idle time of the whole file, and its share of the kept steps."""
    truth = Truth.of(happened)
    device = next(device for device in document.devices if device.device == recording.device)
    if device.idle_ns is not None:
        known = {(op.start, op.dur) for op in happened.ops}
        seen = [op for op in recording.ops if (op.start, op.dur) in known and not damage.clock] or recording.ops
        until = joined_at(seen)
        windows = [
            (since, until) for since in (seen[0].start, until - device.window_ns)
        ]  # one may end before it starts
        true = sorted(until - since - busy_ns(happened.ops, since, until) for since, until in windows)
        there = {(op.start, op.dur) for op in seen}
        told = _count(document, *MISSING, *IMPOSSIBLE)  # of calls that set memory nothing tells
        gone = [op for op in happened.ops if (op.start, op.dur) not in there and (told or op.kind == "memset")]
        lost = 0 if damage.clock else sum(op.dur for op in gone)
        off = _gaps_error_ns(document)
        yield "idle", device.idle_ns, true[0] - off, true[1] + max(off, lost)
    if device.steady is not None:
        off = 2 * damage.clock * max(len(happened.ops) / len(truth.periods) / min(truth.periods), 0)
        yield "idle share", device.steady.idle_fraction, min(truth.idle) - off, max(truth.idle) + off


def _gaps_error_ns(document: TraceDoc) -> int:
    """By how much gaps may be off together, as the warning says."""
    said = [_OFF.search(warning.message) for warning in document.warnings if warning.code == "whole_us"]
    return sum(round(float(found[1].replace(",", "")) * 1e6) for found in said if found)


def _count(document: TraceDoc, *codes: str) -> int:
    """How many records the warnings of these codes count."""
    return sum(warning.count for warning in document.warnings if warning.code in codes)


def _per_step(document: TraceDoc) -> dict[str, float]:
    """The medians of the steps that are printed."""
    steps = document.steps
    assert steps is not None
    spreads = {"T": steps.period_ns, "W": steps.busy_ns, "N": steps.launches, "K": steps.kernels}
    return {what: spread.median for what, spread in spreads.items() if spread is not None}
