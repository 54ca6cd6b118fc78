"""Whether a report of a generated recording is true: one complaint for each thing printed, or withheld, that isn't."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import median

from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.document import TraceDoc

from .damage import DAMAGES, Damage
from .made import Truth, made

UNDAMAGED = "undamaged"

NO_STEPS = "no steps found"
"""The reason of a recording whose repetition is damaged: one window over everything, as the report says."""


def kind_of(seed: int) -> str:
    """What is done to this seed's recording: to every third nothing."""
    names = list(DAMAGES)
    return UNDAMAGED if seed % 3 == 0 else names[(seed // 3 * 2 + seed % 3 - 1) % len(names)]


def wrong(seed: int) -> list[str]:
    """What the report says that isn't so, or leaves out without need."""
    random = Random(seed)
    recording = made(random)
    truth, kind = Truth.of(recording), kind_of(seed)
    marked = recording.dressing != "none"
    if kind == UNDAMAGED:
        document = analyze_trace(recording.builder().build(), name="generated").document
        return list(_of_undamaged(document, truth, marked))
    damage = DAMAGES[kind]
    damage.change(recording, random)
    document = analyze_trace(recording.builder().build(), name="generated").document
    return list(_of_damaged(document, truth, damage))


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


def _of_damaged(document: TraceDoc, truth: Truth, damage: Damage) -> Iterator[str]:
    """A number outside of what any step took is wrong, unless the damage is named and the report unreliable."""
    named = any(warning.code in damage.codes for warning in document.warnings)
    if not named:
        withheld = [path for path, why in document.withheld.items() if why != NO_STEPS]
        yield from (f"withheld, and no warning names the damage: {path}" for path in withheld)
    if document.steps is None or (named and not document.coverage.reliable):
        return
    ranges = {
        "T": (min(truth.periods), max(truth.periods)),
        "W": (min(truth.work), max(truth.work)),
        "N": (truth.launches - _orphans(document), truth.launches),
        "K": (truth.kernels, truth.kernels),
    }
    for what, printed in _per_step(document).items():
        low, high = ranges[what]
        if not low <= printed <= high:
            but = "reliable" if named else "no warning names the damage"
            yield f"{what} is {printed}, truly {low} to {high}, and {but}"


def _orphans(document: TraceDoc) -> int:
    """How many GPU ops are told to have no launch in the file: by so much N may be too low."""
    return sum(warning.count for warning in document.warnings if warning.code == "orphans")


def _per_step(document: TraceDoc) -> dict[str, float]:
    """The medians of the steps that are printed."""
    steps = document.steps
    assert steps is not None
    spreads = {"T": steps.period_ns, "W": steps.busy_ns, "N": steps.launches, "K": steps.kernels}
    return {what: spread.median for what, spread in spreads.items() if spread is not None}
