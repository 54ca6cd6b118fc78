"""Several ranks side by side as the report has them: the modes of a profile, or traces of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..figures.analyses import TraceAnalysis
from ..model.capture import Manifest, RankRecord
from ..model.document import (
    CommunicationDoc,
    ModeDoc,
    RankDoc,
    RankGroupDoc,
    RanksDoc,
    RanksOfStepDoc,
    StepTimeDoc,
    Summary,
)
from ..model.statistics import bootstrap_interval, summarize
from .late_rank import late_rank_differs
from .measured_mode import MeasuredMode, median_or_none
from .profile import measured_modes, mode_documents
from .ranks_together import NOT_ALIGNED, SAME_HOST, Together
from .select import TIMES, of_mode, of_pass

LATE_STEPS: Final = 3
"""Fewer steps with arrivals apart than this tell of no straggler."""

WORTH_TELLING: Final = 0.01
"""Of T: a rank for which the others wait less is none."""

MOST: Final = 0.6
"""Of the collectives for which anybody waited: nothing is gained by hurrying one of two that are late in turn."""

SURELY: Final = 2.0
"""Standard errors of its mean over steps by which a straggler's share is over a half."""


def ranks_document(manifest: Manifest, told: int, together: Sequence[Together]) -> RanksDoc:
    """All ranks of a capture, mode by mode; ``together`` are its recordings by mode, pass and repeat."""
    analyses = [analysis for each in together for analysis in each.analyses]
    modes: dict[str, list[_OfRank]] = {name: [] for name in manifest.modes}
    for record in manifest.ranks:
        own = [a for a in analyses if a.document.rank == record.rank]
        measured = measured_modes(manifest.of_rank(record.rank), own)
        for name, document in mode_documents(measured).items():
            modes[name].append(_OfRank(record, measured[name], document))
    return RanksDoc(
        count=len(manifest.ranks),
        hosts=list(dict.fromkeys(record.host for record in manifest.ranks)),
        told=told,
        modes={name: _of_mode(name, ranks, together) for name, ranks in modes.items()},
    )


class _OfRank(NamedTuple):
    """One rank in one mode."""

    record: RankRecord
    measured: MeasuredMode
    document: ModeDoc


def _of_mode(name: str, ranks: Sequence[_OfRank], together: Sequence[Together]) -> RanksOfStepDoc:
    """The `cuda` recordings tell what is not timed; all passes tell the clocks."""
    recorded = [each for each in together if of_pass(of_mode(each.analyses[:1], name), TIMES[0])]
    step = _slowest([rank.measured for rank in ranks])
    withheld = {} if step is not None else {"step_ns": "not every rank was timed in any repeat"}
    figures = [_of_profile(rank, recorded) for rank in ranks]
    found = _side_by_side("profile", figures, recorded, step, withheld)
    warnings = late_rank_differs(found.stragglers, {rank.record.rank: rank.measured for rank in ranks})
    return msgspec.structs.replace(found, warnings=warnings)


def _of_profile(rank: _OfRank, together: Sequence[Together]) -> RankDoc:
    mode, step = rank.document, rank.document.step_ns
    tax = mode.launch_tax_ns
    return RankDoc(
        rank=rank.record.rank,
        host=rank.record.host,
        device=rank.record.device,
        traces=[analysis.name for analysis in rank.measured.cuda],
        step_ns=step,
        gpu_work_ns=mode.gpu_work_ns,
        gpu_work_without_waiting_ns=mode.gpu_work_without_waiting_ns,
        launches=mode.launches,
        kernels=mode.kernels,
        launch_tax_ns=tax,
        launch_tax_share=None if tax is None or step is None or step.median <= 0 else tax / step.median,
        waiting_of_step_ns=mode.waiting_ns,
        **_communication(a.document.communication for a in rank.measured.cuda),
        **_arrival(rank.record.rank, together, _recorded_step(rank.measured)),
        verdict=mode.verdict,
        error=mode.error,
        withheld=_withheld(mode.withheld),
    )


def _recorded_step(mode: MeasuredMode) -> StepTimeDoc | None:
    """T inside the `cuda` sessions, that what was recorded in them is a part of."""
    step = median_or_none(
        analysis.context.times.step_ns for analysis in mode.cuda if analysis.context.times is not None
    )
    return None if step is None else StepTimeDoc(median=step, ci_low=None, ci_high=None)


def _withheld(reasons: Mapping[str, str]) -> dict[str, str]:
    told = RankDoc.__struct_fields__
    return {name: reason for name, reason in reasons.items() if name in told}


def traces_document(together: Together) -> RanksOfStepDoc:
    """Traces of others, as profiled."""
    figures = [
        _of_trace(analysis, rank, [together]) for analysis, rank in zip(together.analyses, together.ranks, strict=True)
    ]
    times = [rank.step_ns.median for rank in figures if rank.step_ns is not None]
    longest = StepTimeDoc(median=max(times), ci_low=None, ci_high=None) if len(times) == len(figures) else None
    withheld = {} if longest is not None else {"step_ns": "not every trace has a step time"}
    return _side_by_side("trace", figures, [together], longest, withheld)


def _of_trace(analysis: TraceAnalysis, rank: int, together: Sequence[Together]) -> RankDoc:
    document, times = analysis.document, analysis.context.times
    assert times is not None, "a trace of a set has GPU ops"
    device = next((d.name for d in document.devices if d.device == document.headline_device), None)
    communication, steps = document.communication, document.steps
    without = None if communication is None else communication.work_without_waiting_ns
    tax = None if times.taxes_ns is None else times.taxes_ns["launch"]
    step = StepTimeDoc(median=times.step_ns, ci_low=None, ci_high=None)
    return RankDoc(
        rank=rank,
        host=None,
        device=device,
        traces=[analysis.name],
        step_ns=step,
        gpu_work_ns=times.work_ns,
        gpu_work_without_waiting_ns=None if without is None else without.median,
        launches=times.launches,
        kernels=None if steps is None else steps.kernels.median,
        launch_tax_ns=tax,
        launch_tax_share=None if tax is None or not times.step_ns else tax / times.step_ns,
        waiting_of_step_ns=None if without is None else times.parts.waiting_ns,
        **_communication([communication]),
        **_arrival(rank, together, step),
        verdict=document.verdict,
        withheld={name: reason for name, reason in document.withheld.items() if name.startswith("communication.")},
    )


def _communication(documents: Iterable[CommunicationDoc | None]) -> dict[str, Any]:
    """Means per step over all recordings: they add up, and waiting that comes in some steps alone is not lost."""
    found = [document for document in documents if document is not None]
    return {
        name: _mean(getattr(document, name) for document in found)
        for name in ("collectives", "exposed_ns", "hidden_ns", "transfer_ns", "waiting_ns")
    }


def _mean(summaries: Iterable[Summary | None]) -> float | None:
    known = [summary for summary in summaries if summary is not None]
    count = sum(summary.count for summary in known)
    return sum(summary.total for summary in known) / count if count else None


def _arrival(rank: int, together: Sequence[Together], step: StepTimeDoc | None) -> dict[str, Any]:
    """How often it was the last to arrive, and how far its clock is from the first's; ``step`` is T as recorded."""
    own = [(each.arrivals[place], each.offsets[place]) for each in together for place in _place(each, rank)]
    last = np.concatenate([np.zeros(0, np.int64), *(arrivals.last for arrivals, _ in own)])
    of = np.concatenate([np.zeros(0, np.int64), *(arrivals.of for arrivals, _ in own)])
    awaited = np.concatenate([np.zeros(0), *(arrivals.awaited_ns for arrivals, _ in own)])
    offset = next((offset for _, offset in own if offset is not None), None)
    known = any(each.matching.groups for each in together)
    mean = float(awaited.mean()) if known and len(awaited) else None
    chance = max((arrivals.chance for arrivals, _ in own), default=1.0)
    part = mean / step.median if mean is not None and step is not None and step.median > 0 else 0.0
    return {
        "arrived_last": int(last.sum()) if known else None,
        "arrivals": int(of.sum()) if known else None,
        "awaited_ns": mean,
        "straggler": is_straggler(last[of > 0] / of[of > 0], chance, part),
        "clock_offset_ns": None if offset is None else offset.offset_ns,
        "clock_spread_ns": None if offset is None else offset.p90_ns - offset.p10_ns,
    }


def _place(together: Together, rank: int) -> list[int]:
    return [place for place, own in enumerate(together.ranks) if own == rank]


def is_straggler(shares: NDArray[np.float64], chance: float, awaited: float) -> bool:
    """Last in most of the collectives, surely in over half, by steps (those of one are late together); and waited for.

    ``awaited`` is the share of T that the others wait for it.
    """
    if len(shares) < LATE_STEPS or awaited < WORTH_TELLING or shares.mean() < MOST:
        return False
    error = float(shares.std(ddof=1)) / np.sqrt(len(shares))
    return bool(shares.mean() - SURELY * error > max(0.5, chance))


def _slowest(ranks: Sequence[MeasuredMode]) -> StepTimeDoc | None:
    """T of all: in each repeat the slowest rank's; the median over repeats, with its interval."""
    by_repeat: dict[int, list[Sequence[float]]] = {}
    for rank in ranks:
        for process in rank.timed:
            by_repeat.setdefault(process.repeat, []).append(process.samples_ns)
    slowest = [max(samples, key=median) for samples in by_repeat.values() if len(samples) == len(ranks)]
    if not slowest:
        return None
    low, high = bootstrap_interval(slowest) if len(slowest) > 1 else (None, None)
    return StepTimeDoc(median=median(median(samples) for samples in slowest), ci_low=low, ci_high=high)


def _side_by_side(
    basis: str,
    ranks: list[RankDoc],
    together: Sequence[Together],
    step_ns: StepTimeDoc | None,
    withheld: dict[str, str],
) -> RanksOfStepDoc:
    times = [rank.step_ns.median for rank in ranks if rank.step_ns is not None]
    skews = np.concatenate([np.zeros(0), *(each.launch_skew_ns for each in together)])
    refused = list(dict.fromkeys(reason for each in together for reason in each.matching.refused))
    if not len(skews):
        withheld = withheld | {"launch_skew_ns": _why_no_skew(together)}
    return RanksOfStepDoc(
        basis=basis,
        ranks=ranks,
        step_ns=step_ns,
        step_spread=(max(times) - min(times)) / median(times) if len(times) > 1 and median(times) > 0 else None,
        stragglers=[rank.rank for rank in ranks if rank.straggler],
        launch_skew_ns=summarize(skews) if len(skews) else None,
        alignment=_alignment(together),
        steps_by=next((each.matching.steps.source for each in together), None),
        steps=sum(each.steps for each in together),
        collectives=sum(len(group.step) for each in together for group in each.matching.groups),
        groups=_groups(together),
        refused=refused,
        withheld=withheld,
    )


def _alignment(together: Sequence[Together]) -> str:
    kinds = {each.alignment for each in together}
    return kinds.pop() if len(kinds) == 1 else NOT_ALIGNED if NOT_ALIGNED in kinds or not kinds else SAME_HOST


def _why_no_skew(together: Sequence[Together]) -> str:
    if not together:
        return "no recording of the `cuda` pass of several ranks could be read"
    if not any(each.matching.groups for each in together):
        return "no collective is on several ranks"
    return "clocks are not aligned, or the launches of collectives are not in the files"


def _groups(together: Sequence[Together]) -> list[RankGroupDoc]:
    found = {
        (group.label, tuple(each.ranks[place] for place in group.members)): group.size
        for each in together
        for group in each.matching.groups
    }
    return [RankGroupDoc(group=label, ranks=list(ranks), size=size) for (label, ranks), size in found.items()]
