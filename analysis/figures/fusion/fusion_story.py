"""The fusion advisor, told: what could be one kernel and is several, and what that is worth, eager and in a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...model.advisor_documents import CandidateDoc, FusedRunDoc, FusionDoc, WorthDoc
from ...model.document import TraceDoc
from ...model.units import MISSING, byte_size, duration, number, plural
from ...story import Block, Cells, Column, Fact, Listing, Row, Table
from ..figure import Figure

MOST: Final = 5  # candidates without --verbose
PARTS: Final = 8
MATCHED: Final = "from the eager step; as recorded, kernels matched by name and order"
PRODUCTS: Final = "torch.compile puts no products of matrices together: qkv and gate_up are for the model's author"
_TAU_WORDS: Final = {"tau_step": "host time per launch, unprofiled"}
_HOW_TO_GET: Final = (
    "no shapes of operators' inputs in the file: record with record_shapes=True (and with_stack=True for lines), "
    "or with `launchscope profile`"
)
_PARTS: Final[Cells] = (
    (Column("of", right=False), lambda part: ", ".join(part.kinds) or MISSING),
    (Column("kernels"), lambda part: f"{number(part.kernels_before)} → {number(part.kernels_after)}"),
    (Column("GPU work"), lambda part: f"{duration(part.before_ns)} → {duration(part.after_ns)}"),
    (Column("became", right=False, least=24, foreign=True), lambda part: " · ".join(part.operators) or MISSING),
)


def fusion_story(fusion: FusionDoc | None, run: FusedRunDoc | None = None, *, verbose: bool) -> Iterator[Block]:
    """The candidates, most worth in eager mode first; what came of them in a fused run."""
    if fusion is None:
        if verbose:
            yield Fact("fusion", [_HOW_TO_GET])
        return
    if fusion.candidates:
        yield _candidates(fusion, verbose=verbose)
        yield Fact("predicted", list(basis(fusion, verbose=verbose)))
    elif verbose:
        yield Fact("fusion", [f"nothing to fuse found in a step of {plural(fusion.launches, 'launch', 'launches')}"])
    if verbose:
        yield from (Fact(candidate.kind, list(_details(candidate))) for candidate in fusion.candidates)
    if fusion.already and (verbose or not fusion.candidates):
        yield Fact("fused already", [" · ".join(already(fusion))])
    if verbose and fusion.abstained:
        yield Fact("not sure", not_sure(fusion))
    if run is not None:
        yield _promises(run)
        yield Fact("promised, came", [MATCHED, PRODUCTS])
        if verbose:
            more = len(run.parts) - PARTS
            notes = [f"{plural(more, 'other part')} in the JSON report"] if more > 0 else []
            yield Listing(Table.of(_PARTS, run.parts[:PARTS]), notes)


def already(fusion: FusionDoc) -> list[str]:
    """What is one kernel now."""
    return [_times(f"{entry.kind} ({entry.what})", entry.places) for entry in fusion.already]


def not_sure(fusion: FusionDoc) -> list[str]:
    """What looks like a pattern, and why it is not told as one."""
    return [f"{_times(entry.kind, entry.places)}: {entry.reason}" for entry in fusion.abstained]


def _candidates(fusion: FusionDoc, *, verbose: bool) -> Listing:
    columns = [Column("could be fused", right=False), Column("launches"), Column("saves in\neager")]
    columns += [Column("saves in\na graph"), *([Column("bytes saved", rank=1)] if verbose else [])]

    def row(label: str, worth: WorthDoc, launches: int) -> Row:
        counts = f"{number(launches)} → {number(launches - worth.launches_saved)}"
        cells = [label, counts, duration(worth.eager_saves_ns), duration(worth.graph_saves_ns)]
        return Row([*cells, byte_size(worth.bytes_saved)][: len(columns)])

    shown = fusion.candidates if verbose else fusion.candidates[:MOST]
    rows = [row(_times(each.title, each.places), each, each.launches_per_step) for each in shown]
    if len(fusion.candidates) > 1:
        others = len(fusion.candidates) - len(shown)
        label = "all" if not others else f"all, with {plural(others, 'other')}"
        rows.append(row(label, fusion.total, sum(each.launches_per_step for each in fusion.candidates)))
    return Listing(Table(columns, rows))


def basis(fusion: FusionDoc, *, verbose: bool) -> Iterator[str]:
    """What the savings are made of; why a column is empty."""
    total, words = fusion.total, _TAU_WORDS.get(fusion.tau_source or "", fusion.tau_source)
    each = MISSING if fusion.tau_ns is None else f"{duration(fusion.tau_ns)}, {words}"
    if fusion.host_sets_pace:
        yield f"in eager mode launches × τ ({each}){_all(total.eager_low_ns, total.eager_high_ns)}"
    else:
        yield "in eager mode GPU work alone, as the GPU sets the pace"
    if total.graph_saves_ns is None:
        yield f"in a graph unknown: {fusion.withheld.get('total.graph_saves_ns', 'not calibrated')}"
    else:
        nodes = f"{number(total.launches_saved)} node gaps of {duration(fusion.node_gap_ns)}"
        work = f"GPU work of {duration(total.gpu_work_ns)} and {nodes}"
        yield f"in a graph {work}{_all(total.graph_low_ns, total.graph_high_ns)}"
    if verbose:
        yield f"kernels' times from {fusion.times_from or 'this trace'}; bytes: intermediates written and read again"


def _all(low: float | None, high: float | None) -> str:
    """The range of all candidates together; nothing where it has one end."""
    return "" if low is None or high is None else f"; all: {duration(low)} to {duration(high)}"


def _details(candidate: CandidateDoc) -> Iterator[str]:
    yield f"{_times(candidate.title, candidate.places)} · {_layers(candidate.layers)}"
    yield " → ".join([*candidate.operators[:12], *(["…"] if len(candidate.operators) > 12 else [])])
    if candidate.where:
        yield f"at {', '.join(candidate.where)}"
    ranges = {"eager": candidate.saves_ns(in_graph=False), "in a graph": candidate.saves_ns(in_graph=True)}
    known = {name: (low, high) for name, (_, low, high) in ranges.items() if None not in (low, high)}
    texts = [f"{name} {duration(low)} to {duration(high)}" for name, (low, high) in known.items()]
    yield " · ".join([*texts, f"kernels take {duration(candidate.kernels_ns)} now"])
    yield f"known by: {candidate.relied_on}"
    yield f"how: {candidate.how}"


def _layers(layers: Sequence[int] | None) -> str:
    if not layers:
        return "in no layer"
    if len(layers) == 1:
        return f"layer {layers[0]}"
    whole = list(layers) == list(range(layers[0], layers[-1] + 1))
    return f"layers {layers[0]} to {layers[-1]}" if whole else f"{len(layers)} layers"


def _times(text: str, places: int) -> str:
    return text if places == 1 else f"{text} × {places}"


def _promises(run: FusedRunDoc) -> Listing:
    """Per kind what torch.compile was promised to do and did."""
    figures = [
        (each.kind, each.launches_promised, each.launches_came, each.gpu_work_promised_ns, each.gpu_work_came_ns)
        for each in run.promises
    ]
    came = run.launches_before - run.launches_after
    work = run.gpu_work_before_ns - run.gpu_work_after_ns
    figures.append(("all", run.launches_promised, came, run.gpu_work_promised_ns, work))
    rows = [
        Row([kind, number(promised), number(did), duration(promised_ns), duration(did_ns)])
        for kind, promised, did, promised_ns, did_ns in figures
    ]
    columns = [Column("torch.compile fused", right=False), Column("launches\npromised"), Column("came")]
    return Listing(Table([*columns, Column("GPU work\npromised"), Column("came")], rows))


def _tables(trace: TraceDoc, verbose: bool) -> Iterable[Block]:
    """Of a bare trace: a profile tells its own."""
    return fusion_story(trace.fusion, verbose=verbose) if trace.trace_pass is None else ()


FUSION: Final[Figure[FusionDoc]] = Figure(
    "fusion", "operators that could be one kernel", FusionDoc, None, tables=_tables
)
