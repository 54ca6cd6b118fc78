"""Tables of what was found in a step: what could be one kernel, the phases of a serving step, and the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from ...analysis.figures.fusion import fusion_story as fusion_words
from ...analysis.figures.serving import serving_story as serving_words
from ...analysis.model.advisor_documents import CandidateDoc, FusedRunDoc, FusionDoc, PromiseDoc
from ...analysis.model.document import RankDoc, RanksOfStepDoc, ServingKindDoc, ServingPartDoc, ServingPhaseDoc, Summary
from ...analysis.model.units import duration, number, one_line, plural, printable
from ..band import Band
from ..grid_table import (
    BAND,
    SEVERAL_LINES,
    Columns,
    Row,
    TableData,
    figure,
    filled,
    in_us,
    row_of,
    said,
    text,
    typed_cell,
    us_of,
    with_ids,
)
from ..opened_report import OpenedReport
from ..rank_sets import RankSet

_FEW_ROWS: Final = {"filter": False}
_SENTENCES: Final = _FEW_ROWS | {"wrapText": True, "autoHeight": True, "cellStyle": SEVERAL_LINES}


def fusions(opened: OpenedReport, bands: Sequence[Band]) -> list[tuple[Band, FusionDoc]]:
    """The advisor's findings: a capture's are of one trace and stand for all its modes; else those of these bands."""
    if opened.report.document.profile is None:
        return [(band, found) for band in bands if (found := band.analysis.document.fusion) is not None]
    known = (each for each in opened.report.analyses if each.document.fusion is not None)
    of = next(known, None)
    band = next(
        (band for band in opened.bands if of is not None and band.analysis.context.mode == of.context.mode), None
    )
    return [] if of is None or of.document.fusion is None or band is None else [(band, of.document.fusion)]


def has_candidates(opened: OpenedReport, bands: Sequence[Band]) -> bool:
    return any(found.candidates for _, found in fusions(opened, bands))


def fusion_table(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    """A row per candidate: launches, what fewer of them save, where, and how; what torch.compile did of its kind."""
    profile = opened.report.document.profile
    run = None if profile is None else profile.fused_run
    came = {} if run is None else {each.kind: each for each in run.promises}
    found = fusions(opened, bands)
    rows = [_candidate(band, each, came.get(each.kind)) for band, doc in found for each in doc.candidates]
    columns = [
        *_bands_of(rows),
        text("what", "could be fused", minWidth=170, **_SENTENCES),
        figure("places", "places", minWidth=76, maxWidth=90, **_FEW_ROWS),
        figure("launches", "launches now", minWidth=92, maxWidth=110, **_FEW_ROWS),
        figure("after", "launches if fused", minWidth=92, maxWidth=110, **_FEW_ROWS),
        figure("eager_us", "saves in eager µs, predicted", 1, maxWidth=140, **_FEW_ROWS),
        figure("graph_us", "saves in a graph µs, predicted", 1, maxWidth=140, **_FEW_ROWS),
        text("ranges", "their ranges", minWidth=200, **_SENTENCES),
        *([text("compiled", "torch.compile did, of its kind", minWidth=190, **_SENTENCES)] if came else []),
        text("how", "how", minWidth=380, flex=2, **_SENTENCES),
        *([text("where", "where", minWidth=330, **_SENTENCES)] if any(row["where"] for row in rows) else []),
        text("known_by", "known by", minWidth=420, flex=2, **_SENTENCES),
    ]
    of_run = None if run is None else _of_run(run)
    note = " · ".join(filter(None, [said(of=[(band, _of_all(doc)) for band, doc in found]), of_run]))
    return TableData(columns, with_ids(rows), note or None)


def _bands_of(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The column of recordings, where there are several."""
    return [BAND] if len({row["band"] for row in rows}) > 1 else []


def _candidate(band: Band, found: CandidateDoc, promise: PromiseDoc | None) -> Row:
    return {
        "band": band.key,
        "op": None,
        "what": found.title,
        "places": found.places,
        "launches": found.launches_per_step,
        "after": found.launches_after,
        "eager_us": in_us(found.eager_saves_ns),
        "graph_us": in_us(found.graph_saves_ns),
        "ranges": "; ".join(_ranges(found)) or None,
        "compiled": None if promise is None else _of_kind(promise),
        "where": one_line(", ".join(map(printable, found.where))) or None,
        "how": found.how,
        "known_by": one_line(found.relied_on),
    }


def _ranges(found: CandidateDoc) -> Iterator[str]:
    ends = {
        "eager": (found.eager_low_ns, found.eager_high_ns),
        "in a graph": (found.graph_low_ns, found.graph_high_ns),
    }
    for where, (low, high) in ends.items():
        if low is not None and high is not None:
            yield f"{where} {duration(low)} to {duration(high)}"


def _came(launches: int, promised: int, work_ns: float, promised_ns: float | None) -> str:
    """What torch.compile did of what was promised."""
    launches_words = f"{number(launches)} of {plural(promised, 'launch', 'launches')} promised"
    of = "" if promised_ns is None else f" of {duration(promised_ns)}"
    return f"{launches_words}; GPU work {duration(work_ns)}{of}"


def _of_kind(promise: PromiseDoc) -> str:
    work = (promise.gpu_work_came_ns, promise.gpu_work_promised_ns)
    return _came(promise.launches_came, promise.launches_promised, *work)


def _of_run(run: FusedRunDoc) -> str:
    launches = run.launches_before - run.launches_after
    work_ns = run.gpu_work_before_ns - run.gpu_work_after_ns
    came = _came(launches, run.launches_promised, work_ns, run.gpu_work_promised_ns)
    return f"torch.compile did, of all kinds: {came}; {fusion_words.MATCHED}; {fusion_words.PRODUCTS}"


def _of_all(found: FusionDoc) -> str:
    """Everything together, what the savings are made of, and what is no candidate."""
    now = sum(each.launches_per_step for each in found.candidates)
    total = found.total
    launches = f"{number(now)} → {plural(now - total.launches_saved, 'launch', 'launches')}"
    savings = f"saves {duration(total.eager_saves_ns)} in eager, {duration(total.graph_saves_ns)} in a graph"
    parts = [f"predicted, all together: {launches}, {savings}", *fusion_words.basis(found, verbose=False)]
    if found.already:
        parts.append(f"fused already: {', '.join(fusion_words.already(found))}")
    if found.abstained:
        parts.append(f"not sure: {'; '.join(fusion_words.not_sure(found))}")
    return " · ".join(parts)


def has_phases(opened: OpenedReport, bands: Sequence[Band]) -> bool:
    del opened
    return any(band.analysis.document.serving is not None for band in bands)


def serving_table(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    """A row per phase of each kind of step, in order of the step; then the step."""
    del opened
    rows = [row for band in bands for row in _phases(band)]
    narrow = _FEW_ROWS | {"minWidth": 88}
    columns = [
        *_bands_of(rows),
        text("steps", "steps", minWidth=140, maxWidth=220, **_FEW_ROWS),
        text("phase", "phase", minWidth=160, **_FEW_ROWS),
        figure("host_us", "host µs", 2, **narrow),
        figure("waiting_us", "of it waiting µs", 2, **narrow),
        figure("busy_us", "GPU work µs", 2, **narrow),
        figure("idle_us", "GPU idle µs", 2, **narrow),
        figure("launches", "launches", 1, **narrow),
        text("told_by", "told by", minWidth=170, **_FEW_ROWS),
    ]
    if any(row["reason"] for row in rows):
        columns.append(text("reason", "why not told", minWidth=260, flex=2, **_SENTENCES))
    meanings = [(band, _meaning(band)) for band in bands]
    return TableData(columns, with_ids(rows), said(of=meanings))


def _meaning(band: Band) -> str:
    """How to read the phases of a band."""
    trace = band.analysis.document
    if trace.serving is None:
        return "no steps of a serving engine"
    replays = any(phase.in_replays is not None for kind in trace.serving.kinds for phase in kind.phases)
    observed = serving_words.OBSERVED if replays and trace.trace_pass is not None else ""
    notes = (serving_words.MEANS, observed, trace.serving.kinds_reason or "")
    return " · ".join(note.removeprefix("* ") for note in notes if note)


def _phases(band: Band) -> Iterator[Row]:
    serving = band.analysis.document.serving
    for kind in () if serving is None else serving.kinds:
        assert serving is not None
        first: Row = {"band": band.key, "op": None, "steps": printable(serving_words.title(serving, kind))}
        for phase in kind.phases:
            yield first | _phase(phase)
            yield from (first | row for row in _parts(phase))
        yield first | _step(kind)


def _phase(phase: ServingPhaseDoc) -> Row:
    waiting = phase.blocked_ns if phase.blocked_ns is not None and phase.blocked_ns.total else None
    return {
        "phase": serving_words.WORDS[phase.phase],
        **_times(phase.host_ns, waiting, phase.gpu_busy_ns, phase.gpu_idle_ns),
        "launches": serving_words.mean(phase.launches),
        "told_by": phase.evidence,
        "reason": phase.reason,
    }


def _parts(phase: ServingPhaseDoc) -> Iterator[Row]:
    parts: Sequence[tuple[str, ServingPartDoc | None]] = (("in replays", phase.in_replays), ("outside", phase.outside))
    for word, part in parts:
        if part is not None:
            yield {
                "phase": f"{serving_words.WORDS[phase.phase]}, {word}",
                **_times(part.host_ns, None, part.gpu_busy_ns, None),
                "launches": serving_words.mean(part.launches),
                "told_by": None,
                "reason": None,
            }


def _step(kind: ServingKindDoc) -> Row:
    times = _times(kind.host_ns, None, kind.gpu_busy_ns, kind.gpu_idle_ns)
    return {"phase": "step", **times, "launches": None, "told_by": None, "reason": None}


def _times(host: Summary | None, waiting: Summary | None, busy: Summary, idle: Summary | None) -> Row:
    """Means."""
    named = {"host_us": host, "waiting_us": waiting, "busy_us": busy, "idle_us": idle}
    return {name: in_us(serving_words.mean(summary)) for name, summary in named.items()}


_NO_CLOCK: Final = (
    "No collective of these ranks matches another's, so nothing here tells how their clocks lie: each timeline is on "
    "its own clock, and only durations can be compared between ranks."
)

_ONE_HOST: Final = "Clocks: all ranks ran on one host and have its clock"


def has_one_clock(sets: Sequence[RankSet]) -> bool:
    """Whether two ranks of any of them can be drawn on one clock."""
    return any(each.on_one_host or sum(offset is not None for offset in each.offsets) > 1 for each in sets)


def clock_words(chosen: RankSet) -> str:
    """How the ranks' clocks are aligned, or that they are not."""
    known = [place for place, offset in enumerate(chosen.offsets) if offset is not None]
    if len(known) < 2:
        return _ONE_HOST + "." if chosen.on_one_host else _NO_CLOCK
    reference, others = chosen.ranks[known[0]], known[1:]
    measured = [offset for place in others if (offset := chosen.offsets[place]) is not None]
    spread = max(abs(end - offset.offset_ns) for offset in measured for end in (offset.p10_ns, offset.p90_ns))
    collectives = min(offset.collectives for offset in measured)
    if len(others) == 1:
        ahead = measured[0].offset_ns
        which = f"rank {chosen.ranks[others[0]]}'s clock is {_how_far(ahead)} rank {reference}'s"
    else:
        apart = np.array([offset.offset_ns for offset in measured])
        which = f"the ranks' clocks are {duration(apart.min())} to {duration(apart.max())} ahead of rank {reference}'s"
    rest = len(chosen.bands) - len(known)
    without = f" {number(rest)} without a matching collective stay on their own." if rest else ""
    if chosen.on_one_host:
        return f"{_ONE_HOST}; by the ends of {number(collectives)} collectives {which} (within {duration(spread)})."
    return (
        f"Clocks: by the ends of {number(collectives)} collectives, which no rank can leave before all have come, "
        f"{which} (within {duration(spread)}, p10 to p90). “One clock” takes that off; with the same scale each rank's "
        f"step begins with its own first GPU op.{without}"
    )


def _how_far(ns: float) -> str:
    return "the same as" if not ns else f"{duration(abs(ns))} {'ahead of' if ns > 0 else 'behind'}"


def waiting_words(sets: Sequence[RankSet], key_a: str, key_b: str) -> Iterator[str]:
    """Told of two ranks of one set of which it is known: a collective that waits looks like a slow kernel."""
    for each in sets:
        places = [each.place(key) for key in (key_a, key_b)]
        waited = [None if place is None else each.waited_ns(place) for place in places]
        if places[0] == places[1] or None in waited:
            continue
        a, b = (f"rank {each.ranks[place or 0]} {duration(ns)}" for place, ns in zip(places, waited, strict=True))
        yield (
            f"Of a median step {a} and {b} are waiting inside collectives for ranks that come later: a collective that "
            "runs longer there is no slower kernel."
        )


def has_ranks(opened: OpenedReport, bands: Sequence[Band]) -> bool:
    del bands
    return any(_ranks_by_mode(opened))


def _arrives_last(rank: RankDoc) -> float | None:
    return None if rank.arrived_last is None or not rank.arrivals else round(rank.arrived_last / rank.arrivals * 100, 2)


def _remarks(rank: RankDoc) -> str | None:
    reasons = [f"{name}: {why}" for name, why in rank.withheld.items()]
    remarks = ["straggler"] if rank.straggler else []
    return one_line("; ".join([*remarks, *([rank.error] if rank.error is not None else reasons)])) or None


_OF_A_RANK: Final[Columns] = (
    (figure("rank", "rank", maxWidth=100), lambda rank: rank.rank),
    (text("host", "host", minWidth=100), lambda rank: None if rank.host is None else printable(rank.host)),
    (text("verdict", "verdict", minWidth=124), lambda rank: rank.verdict and rank.verdict.verdict_class),
    (figure("step_us", "step T, µs", 1), lambda rank: rank.step_ns and in_us(rank.step_ns.median)),
    (figure("work_us", "GPU work W, µs", 1), us_of("gpu_work_ns")),
    (figure("without_us", "W without waiting, µs", 1), us_of("gpu_work_without_waiting_ns")),
    (figure("waiting_of_step_us", "waiting in T, µs", 1), us_of("waiting_of_step_ns")),
    (figure("transfer_us", "transfer, recorded µs", 1), us_of("transfer_ns")),
    (figure("waiting_us", "waiting, recorded µs", 1), us_of("waiting_ns")),
    (figure("last", "arrives last, %", 1), _arrives_last),
    (figure("awaited_us", "others wait for it, µs", 1), us_of("awaited_ns")),
    (figure("tax_us", "launch tax, µs", 1), us_of("launch_tax_ns")),
    (figure("tax_share", "launch tax ÷ T, %", 2), lambda rank: typed_cell("share", rank.launch_tax_share)),
    (figure("launches", "launches"), attrgetter("launches")),
    (figure("kernels", "kernels"), attrgetter("kernels")),
    (figure("collectives", "collectives"), attrgetter("collectives")),
    (figure("exposed_us", "exposed in collectives, µs", 1), us_of("exposed_ns")),
    (figure("hidden_us", "hidden in collectives, µs", 1), us_of("hidden_ns")),
    (figure("clock_us", "its clock − the first one's, µs", 3), us_of("clock_offset_ns")),
    (text("note", "of note", minWidth=280, flex=2, wrapText=True, autoHeight=True, cellStyle=SEVERAL_LINES), _remarks),
)


def ranks_table(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    """A row per rank of each mode, whichever traces are shown."""
    del bands
    rows = [
        {"band": "", "op": None, "mode": printable(mode), **row_of(_OF_A_RANK, rank)}
        for mode, ranks in _ranks_by_mode(opened)
        for rank in ranks.ranks
    ]
    columns = [text("mode", "mode", minWidth=100, maxWidth=150), *filled(_OF_A_RANK, rows)]
    return TableData(columns, with_ids(rows), " · ".join(_notes(opened)) or None)


def _ranks_by_mode(opened: OpenedReport) -> Iterator[tuple[str, RanksOfStepDoc]]:
    """What the report tells of several ranks, by mode; of bare traces by the name that they share."""
    document = opened.report.document
    profile = document.profile
    if profile is not None and profile.ranks is not None:
        yield from ((name.replace("_", " "), ranks) for name, ranks in profile.ranks.modes.items())
    labels = {id(each.document): each.label for each in opened.rank_sets}
    yield from ((labels.get(id(ranks), "traces"), ranks) for ranks in document.ranks)


def _notes(opened: OpenedReport) -> Iterator[str]:
    if any(ranks.basis == "trace" for _, ranks in _ranks_by_mode(opened)):
        yield "T is as recorded: the profiler slows launches down"
    yield "transfer and recorded waiting are means per step, of the recording; the rest medians"
    yield "W without waiting: GPU work but for the time in which a collective only waits for ranks that come later"
    yield from dict.fromkeys(
        one_line(warning.message) for _, ranks in _ranks_by_mode(opened) for warning in ranks.warnings
    )
    refused = dict.fromkeys(reason for _, ranks in _ranks_by_mode(opened) for reason in ranks.refused)
    if refused:
        yield f"not matched: {'; '.join(map(one_line, refused))}"
