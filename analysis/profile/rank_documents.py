"""Several ranks side by side: their traces put together, and what the report has of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..facts.ranks.matching import Matching, first_ones, match
from ..facts.ranks.pairing import sets_of_files
from ..facts.ranks.waiting import Arrivals, Offset, arrivals, clock_offsets, launch_skews_ns, mostly_awaited, waits_of
from ..figures.analyses import TraceAnalysis, with_waits
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
    WarningDoc,
)
from ..model.names import waits_for_all
from ..model.statistics import bootstrap_interval, summarize
from ..model.units import duration, plural
from .measured_mode import MeasuredMode, median_or_none
from .profile import measured_modes, mode_documents
from .select import TIMES, of_mode, of_pass

SAME_HOST: Final = "same_host"
BY_COLLECTIVES: Final = "collectives"
NOT_ALIGNED: Final = "none"


@dataclass(frozen=True, eq=False)
class Together:
    """Recordings of several ranks that ran the same steps; lists are by rank, in one order."""

    analyses: tuple[TraceAnalysis, ...]
    ranks: tuple[int, ...]
    matching: Matching
    arrivals: tuple[Arrivals, ...]
    offsets: tuple[Offset | None, ...]
    alignment: str  # 'same_host', 'collectives', 'none'
    launch_skew_ns: NDArray[np.float64]

    @property
    def steps(self) -> int:
        """Steps in which a collective was matched."""
        return len(np.unique(np.concatenate([np.zeros(0, np.int64), *(group.step for group in self.matching.groups)])))


def put_together(analyses: Sequence[TraceAnalysis], hosts: Sequence[str | None]) -> Together:
    """Match what they have in common, and tell each what it waited; ``hosts`` are null where not known.

    Clocks of one host are the same. Those of others are moved by what collectives tell; without any they are not, and
    durations alone are compared.
    """
    matching = match([analysis.context.collectives for analysis in analyses])
    offsets = clock_offsets(matching)
    alignment = BY_COLLECTIVES if any(offsets) else NOT_ALIGNED
    ahead = [None if offset is None else offset.offset_ns for offset in offsets]
    if None not in hosts and len(set(hosts)) == 1:
        alignment, ahead = SAME_HOST, [0.0 for _ in analyses]
    waits_for = [None if place is None else matching.names[place] for place in mostly_awaited(matching)]
    known = zip(analyses, waits_of(matching), waits_for, _reasons(matching), strict=True)
    return Together(
        analyses=tuple(with_waits(*each) for each in known),
        ranks=matching.names,
        matching=matching,
        arrivals=tuple(arrivals(matching)),
        offsets=tuple(offsets),
        alignment=alignment,
        launch_skew_ns=launch_skews_ns(matching, ahead),
    )


def _reasons(matching: Matching) -> list[str | None]:
    """For each rank why waiting of some of its collectives is not told, or is told in part."""
    missing: list[list[str]] = [[] for _ in matching.ranks]
    for group in matching.groups:
        if not group.whole:
            given = f"{len(group.members)} of the {group.size} ranks of {group.label or 'a group'} were given"
            for place in group.members:
                missing[place].append(f"{given}: waiting is so much at least")
    reasons: list[str | None] = []
    for rank, not_given in zip(matching.ranks, missing, strict=True):
        unsplit = [kind for kind in rank.kinds if not waits_for_all(kind)]
        kinds = [f"in {', '.join(unsplit)} not every rank waits for every other"] if unsplit else []
        reasons.append("; ".join([*matching.refused, *first_ones(not_given), *kinds]) or None)
    return reasons


def sets_of_ranks(analyses: Sequence[TraceAnalysis]) -> list[list[TraceAnalysis]]:
    """Traces of others that belong together, by their names but for the rank in them; else all, if no rank is in twice.

    Traces without a GPU op, or of which no rank is known, belong to none.
    """
    timed = [each for each in analyses if each.context.times is not None]
    ranked = [(r, each) for each in timed if (r := each.document.rank) is not None]
    sets = sets_of_files([each.context.name for _, each in ranked], [rank for rank, _ in ranked])
    return [[ranked[place][1] for place in sorted(places, key=lambda place: ranked[place][0])] for places in sets]


LONGER: Final = 1.05
"""A host that takes so many times as long to submit a step is the slower one."""


def ranks_document(manifest: Manifest, told: int, together: Sequence[Together]) -> RanksDoc:
    """All ranks of a capture, mode by mode; ``together`` are its recordings by mode, pass and repeat."""
    analyses = [analysis for each in together for analysis in each.analyses]
    modes: dict[str, list[_OfRank]] = {name: [] for name in manifest.modes}
    for record in manifest.ranks:
        of_rank = [a for a in analyses if a.document.rank == record.rank]
        measured = measured_modes(manifest.of_rank(record.rank), of_rank)
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
    found = _side_by_side("profile", [_of_profile(rank, recorded) for rank in ranks], recorded, step, withheld)
    warnings = _late_rank_differs(found.stragglers, {rank.record.rank: rank.measured for rank in ranks})
    return msgspec.structs.replace(found, warnings=warnings)


def _of_profile(rank: _OfRank, together: Sequence[Together]) -> RankDoc:
    mode, step = rank.document, rank.document.step_ns
    recorded_ns = median_or_none(
        each.context.times.step_ns for each in rank.measured.cuda if each.context.times is not None
    )
    tax = mode.launch_tax_ns
    return RankDoc(
        rank=rank.record.rank,
        host=rank.record.host,
        device=rank.record.device,
        traces=[analysis.context.name for analysis in rank.measured.cuda],
        step_ns=step,
        gpu_work_ns=mode.gpu_work_ns,
        gpu_work_without_waiting_ns=mode.gpu_work_without_waiting_ns,
        launches=mode.launches,
        kernels=mode.kernels,
        launch_tax_ns=tax,
        launch_tax_share=None if tax is None or step is None or step.median <= 0 else tax / step.median,
        waiting_of_step_ns=mode.waiting_ns,
        **_communication(a.document.communication for a in rank.measured.cuda),
        **_arrival(rank.record.rank, together, recorded_ns),
        verdict=mode.verdict,
        error=mode.error,
        withheld={name: why for name, why in mode.withheld.items() if name in RankDoc.__struct_fields__},
    )


def traces_document(together: Together) -> RanksOfStepDoc:
    """Traces of others, as profiled."""
    figures = [_of_trace(*each, [together]) for each in zip(together.analyses, together.ranks, strict=True)]
    longest = max(each.context.times.step_ns for each in together.analyses if each.context.times is not None)
    return _side_by_side("trace", figures, [together], StepTimeDoc(median=longest, ci_low=None, ci_high=None), {})


def _of_trace(analysis: TraceAnalysis, rank: int, together: Sequence[Together]) -> RankDoc:
    document, times = analysis.document, analysis.context.times
    assert times is not None, "a trace of a set has GPU ops"
    device = next((d.name for d in document.devices if d.device == document.headline_device), None)
    communication, steps = document.communication, document.steps
    without = None if communication is None else communication.work_without_waiting_ns
    tax = None if times.taxes_ns is None else times.taxes_ns["launch"]
    return RankDoc(
        rank=rank,
        host=None,
        device=device,
        traces=[analysis.context.name],
        step_ns=StepTimeDoc(median=times.step_ns, ci_low=None, ci_high=None),
        gpu_work_ns=times.work_ns,
        gpu_work_without_waiting_ns=None if without is None else without.median,
        launches=times.launches,
        kernels=None if steps is None else steps.kernels.median,
        launch_tax_ns=tax,
        launch_tax_share=None if tax is None or not times.step_ns else tax / times.step_ns,
        waiting_of_step_ns=None if without is None else times.parts.waiting_ns,
        **_communication([communication]),
        **_arrival(rank, together, times.step_ns),
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


def _arrival(rank: int, together: Sequence[Together], step_ns: float | None) -> dict[str, Any]:
    """How often it was the last to arrive, and how far its clock is from the first's; ``step_ns`` is T as recorded."""
    places = [(each, place) for each in together for place, number in enumerate(each.ranks) if number == rank]
    arrivals = Arrivals.joined([each.arrivals[place] for each, place in places])
    offset = next((offset for each, place in places if (offset := each.offsets[place]) is not None), None)
    known = any(each.matching.groups for each in together)
    return {
        "arrived_last": int(arrivals.last.sum()) if known else None,
        "arrivals": int(arrivals.of.sum()) if known else None,
        "awaited_ns": arrivals.mean_awaited_ns if known and len(arrivals.awaited_ns) else None,
        "straggler": known and step_ns is not None and arrivals.is_straggler(step_ns),
        "clock_offset_ns": None if offset is None else offset.offset_ns,
        "clock_spread_ns": None if offset is None else offset.p90_ns - offset.p10_ns,
    }


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


def _late_rank_differs(stragglers: Sequence[int], ranks: Mapping[int, MeasuredMode]) -> list[WarningDoc]:
    """A warning where another rank than the late one of the recordings took longer to submit a step in some process.

    None where no rank is late, where hosts don't hold the step up (all submit it in less time than the GPU works), and
    where unprofiled submit times hold blocked time.
    """
    if len(stragglers) != 1 or any(mode.submits_as_profiled for mode in ranks.values()):
        return []
    late, work = stragglers[0], ranks[stragglers[0]].work_ns or 0.0
    by_repeat = _submits_ns(ranks)
    slower = []
    for submits in by_repeat.values():
        slowest = max(submits, key=lambda rank: submits[rank])
        if late in submits and submits[slowest] > max(LONGER * submits[late], work):
            slower.append((submits[slowest], slowest, submits[late]))
    if not slower:
        return []
    shown = ", ".join(f"rank {rank} {duration(ns)} against {duration(late_ns)}" for ns, rank, late_ns in slower[:3])
    text = (
        f"recorded, rank {late} is late, but unprofiled another host took longer to submit a step in {len(slower)} of "
        f"{plural(len(by_repeat), 'process', 'processes')} ({shown}): which rank is late differs between processes, so "
        "what a rank waits, and wait-bound or launch-bound of it, is of the recording; T is of all. Give each rank's "
        "process cores of its own, or use graphs; more --repeats tell how often"
    )
    return [WarningDoc(code="late_rank_differs", message=text, count=len(slower))]


def _submits_ns(ranks: Mapping[int, MeasuredMode]) -> dict[int, dict[int, float]]:
    """Repeat → rank → median unprofiled time to submit a step; of repeats in which several ranks were timed."""
    found: dict[int, dict[int, float]] = {}
    for rank, mode in ranks.items():
        for process in mode.timed:
            if process.host_submit_ns:
                found.setdefault(process.repeat, {})[rank] = median(process.host_submit_ns)
    return {repeat: submits for repeat, submits in sorted(found.items()) if len(submits) > 1}
