"""The story of the table of ranks: how the figures lie, what stands out, and the rows that say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from operator import attrgetter
from typing import Any, Final

import msgspec

from ..figures.verdict_blocks import counted_files
from ..model.document import Summary
from ..model.units import MISSING, byte_size, duration, number, plural, seconds, share, written
from ..render import outputs_of
from ..story import WRITE, Block, Cells, Column, Fact, Heading, Headline, Listing, Row, Table
from .document import DistributionDoc, OddDoc, RankRow, RanksDocument
from .outliers import FEWEST, OF_REGISTRY, RANK_FIGURES, RankFigure, missing_words, value_of

OF_MEANS: Final = (
    "* step, GPU work and W without waiting: the median step; idle, launch tax, transfer and waiting: of all steps, "
    "as means per step"
)

MOST_ROWS: Final = 20
"""Rows of a table without --verbose."""

_FEW: Final = 10  # ranks from which the tenth and the ninetieth percentile are apart from the extremes
_NAMED: Final = 4  # ranks in the headline
_MISSING_CHARACTERS: Final = 300

_EXTREMES: Final = ("period_ns", "idle_fraction", "launch_tax_ns", "communication_waiting_ns", "busy_ns")
"""Figures whose lowest and highest rank have a row."""


def _tell(doc: RanksDocument, *, verbose: bool) -> Iterator[Block]:
    gpus = sorted({row.gpu for row in doc.rows if row.gpu})
    size = sum(row.bytes or 0 for row in doc.rows)
    right = [plural(len(doc.rows), "file"), byte_size(size), *(gpus[:1] if len(gpus) == 1 else [])]
    yield Heading(_inputs(doc), " · ".join(right))
    yield headline(doc)
    yield from _facts(doc)
    if doc.distributions:
        yield Listing(_distribution_table(doc))
    if doc.odd:
        yield Listing(_outlier_table(doc, None if verbose else MOST_ROWS))
    notes = [OF_MEANS] if any(row.busy_ns for row in doc.rows) else []
    yield Listing(_rank_table(doc, verbose=verbose), notes)


def _inputs(doc: RanksDocument) -> str:
    return doc.inputs[0] + (f" and {len(doc.inputs) - 1:,} more" if len(doc.inputs) > 1 else "")


def headline(doc: RanksDocument) -> Headline:
    """How many ranks there are, and which stand out."""
    read = sum(row.error is None for row in doc.rows)
    if not read:
        return Headline(f"none of {plural(len(doc.rows), 'file')} can be read", None)
    outlying = by_row(doc)
    if not outlying and read < FEWEST:
        return Headline(f"{plural(read, 'rank')}: too few to tell which one stands out", None)
    if not outlying:
        return Headline(f"no rank of {read:,} stands out", True)
    named = ", ".join(doc.rows[row].label for row in [*outlying][:_NAMED]) + (", …" if len(outlying) > _NAMED else "")
    verb = "stands" if len(outlying) == 1 else "stand"
    return Headline(f"{len(outlying):,} of {plural(len(doc.rows), 'rank')} {verb} out: {named}", False)


def by_row(doc: RanksDocument) -> dict[int, list[OddDoc]]:
    """Row → all that stands out about it, the farthest out first."""
    found: dict[int, list[OddDoc]] = {}
    for odd in doc.odd:
        found.setdefault(odd.row, []).append(odd)
    return found


def _facts(doc: RanksDocument) -> Iterator[Fact]:
    failed = sum(row.error is not None for row in doc.rows)
    run = [f"{len(doc.rows) - failed:,} of {len(doc.rows):,} read in {seconds(doc.seconds)}"]
    run.append(plural(doc.workers, "worker"))
    peak = max((row.worker_peak_bytes or 0 for row in doc.rows), default=0)
    run += [f"a worker held {byte_size(peak)} at most"] if peak else []
    run += [f"{number(doc.resumed)} rows from an earlier run"] if doc.resumed else []
    line = counted_files(len(doc.rows) - failed, failed, doc.skipped)
    yield Fact("files", [" · ".join(run), *([] if line is None else [line])])
    if doc.missing_ranks:
        size = doc.world_size or max(row.rank for row in doc.rows if row.rank is not None) + 1
        text = missing_words(doc.missing_ranks, size)
        yield Fact("missing", [text if len(text) < _MISSING_CHARACTERS else f"{text[:_MISSING_CHARACTERS]}…"], True)
    compared = [doc.alignment.reason]
    compared += [f"left out: {'; '.join(doc.alignment.unmatched)}"] if doc.alignment.unmatched else []
    yield Fact("compared", compared)
    verdicts = Counter(row.verdict_class for row in doc.rows if row.verdict_class is not None)
    if verdicts:
        yield Fact("verdicts", [" · ".join(f"{name} {count:,}" for name, count in verdicts.most_common())])


def _distribution_table(doc: RanksDocument) -> Table:
    """Without the tails where they would lie between one rank and the next."""
    tails = max(each.count for each in doc.distributions) >= _FEW
    cells: Cells = [
        (Column("over the ranks", right=False), lambda its: RANK_FIGURES[its.figure].title),
        (Column("min"), lambda its: written(its.min, its.unit)),
        (Column("rank", rank=1, optional=True), lambda its: _at(doc, its, its.min_at)),
        *([(Column("p10"), lambda its: written(its.p10, its.unit))] if tails else []),
        (Column("median"), lambda its: written(its.median, its.unit)),
        *([(Column("p90"), lambda its: written(its.p90, its.unit))] if tails else []),
        (Column("max"), lambda its: written(its.max, its.unit)),
        (Column("rank", rank=1), lambda its: _at(doc, its, its.max_at)),
        (Column("ranks", rank=1, optional=True), lambda its: number(its.count)),
    ]
    return Table.of(cells, doc.distributions)


def _at(doc: RanksDocument, its: DistributionDoc, row: int) -> str:
    """The rank that has the extreme; none where all ranks are alike."""
    if its.min == its.max:
        return MISSING
    rank = doc.rows[row].rank
    return doc.rows[row].name if rank is None else str(rank)


def _outlier_table(doc: RanksDocument, limit: int | None) -> Table:
    """A row per rank that stands out, with all that does."""
    outlying = by_row(doc)
    listed = list(outlying.items())[:limit]
    cells: Cells = [
        (Column("stands out", right=False), lambda each: doc.rows[each[0]].label),
        (Column("file", right=False, least=20, foreign=True), lambda each: doc.rows[each[0]].name),
        (Column("why", right=False, least=36, wraps=True), lambda each: "; ".join(why.message for why in each[1])),
    ]
    return Table.of(cells, listed, more=len(outlying) - len(listed))


def _of_registry(figure: RankFigure, row: RankRow) -> str:
    return WRITE[figure.kind](row.figures.get(figure.name))


_OF_A_RANK: Final[Cells] = (
    (Column("rank"), lambda row: MISSING if row.rank is None else str(row.rank)),
    (Column("host", right=False, optional=True, foreign=True), lambda row: row.host or MISSING),
    (Column("verdict", right=False), lambda row: row.verdict_class or MISSING),
    (Column("step"), lambda row: MISSING if row.period_ns is None else duration(row.period_ns.median)),
    (Column("p90", optional=True), lambda row: MISSING if row.period_ns is None else duration(row.period_ns.p90)),
    (Column("GPU\nwork"), lambda row: MISSING if row.busy_ns is None else duration(row.busy_ns.median)),
    (Column("W without\nwaiting"), lambda row: duration(row.gpu_work_without_waiting_ns)),
    (Column("idle"), lambda row: share(row.idle_fraction)),
    (Column("launch\ntax"), lambda row: duration(row.launch_tax_ns)),
    (Column("waiting"), lambda row: duration(row.communication_waiting_ns)),
    (Column("arrives\nlast"), lambda row: share(row.arrives_last_share)),
    (Column("launches", optional=True), lambda row: number(row.launches)),
    (Column("kernels", optional=True), lambda row: number(row.kernels)),
    (Column("steps", optional=True), lambda row: number(row.steps)),
    *((Column(f.title.replace(" ", "\n", 1)), partial(_of_registry, f)) for f in OF_REGISTRY),
    (Column("file", right=False, least=18, rank=2, optional=True, foreign=True), lambda row: row.name),
)


def _rank_table(doc: RanksDocument, *, verbose: bool) -> Table:
    chosen = range(len(doc.rows)) if verbose else _chosen(doc)
    outlying = {each.row for each in doc.odd}
    rows = [_rank_row(doc.rows[index], strong=index in outlying) for index in chosen]
    table = Table([column for column, _ in _OF_A_RANK], rows, more=len(doc.rows) - len(rows))
    return table.without_empty_columns(MISSING)


def _rank_row(row: RankRow, *, strong: bool) -> Row:
    cells = [write(row) for _, write in _OF_A_RANK]
    return Row(cells, strong=strong) if row.error is None else Row(cells[:1], span=f"{row.name}: {row.error}")


def _chosen(doc: RanksDocument) -> Sequence[int]:
    """All of a few; else the outliers, and the lowest and the highest of the main figures; in order."""
    if len(doc.rows) <= MOST_ROWS:
        return range(len(doc.rows))
    wanted = [odd.row for odd in doc.odd]
    by_figure = {each.figure: each for each in doc.distributions}
    for figure in _EXTREMES:
        if (its := by_figure.get(figure)) is not None and its.min < its.max:
            wanted += [its.max_at, its.min_at]
    return sorted(list(dict.fromkeys(wanted))[:MOST_ROWS])


def _render_json(doc: RanksDocument) -> str:
    """As one JSON document of its schema; a line per rank, not one per number."""
    head = msgspec.json.encode(msgspec.structs.replace(doc, rows=[]))
    start, end = msgspec.json.format(head, indent=2).decode().split('"rows": []')
    rows = ",\n    ".join(msgspec.json.encode(row).decode() for row in doc.rows)
    listed = f'"rows": [\n    {rows}\n  ]' if doc.rows else '"rows": []'
    return f"{start}{listed}{end}\n"


render_terminal, render_json, render_markdown = outputs_of(_tell, _render_json)


_SUMMARIES: Final = ("period_ns", "busy_ns")
_OF_A_SUMMARY: Final = ("median", "p10", "p90", "count")
_ARROW_TYPES: Final = {"int": "int64", "float": "float64", "str": "string", "bool": "bool"}


def render_parquet(doc: RanksDocument) -> bytes:
    """A row per rank, no column nested; the metadata has the rest of the document: nothing is lost but the series."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    columns = {name: pa.array(map(of, doc.rows), kind) for name, kind, of in _parquet_columns()}
    head = msgspec.json.encode(msgspec.structs.replace(doc, rows=[]))
    table = pa.table(columns).replace_schema_metadata({b"launchscope": head})
    file = BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _parquet_columns() -> Iterator[tuple[str, str, Callable[[RankRow], Any]]]:
    """Each column's name, type and value, in order, the same for any table of ranks.

    Summaries by their parts, warnings by their codes, reasons in one text.
    """
    for field in msgspec.structs.fields(RankRow):
        name = field.name
        if name in _SUMMARIES:
            for part in _OF_A_SUMMARY:
                kind = "int64" if part == "count" else "float64"
                yield f"{name}_{part}", kind, partial(_of_summary, name, part)
        elif name == "warnings":
            yield name, "string", lambda row: ", ".join(warning.code for warning in row.warnings)
        elif name == "unreliable":
            yield name, "string", lambda row: "; ".join(row.unreliable)
        elif name == "figures":
            for figure in OF_REGISTRY:
                yield figure.name, "float64", partial(value_of, figure=figure.name)
        elif name != "series":
            yield name, _arrow_type(field.type), attrgetter(name)


def _arrow_type(annotation: Any) -> str:
    """Of ``int | None`` and the like."""
    named = annotation if isinstance(annotation, type) else annotation.__args__[0]
    return _ARROW_TYPES[named.__name__]


def _of_summary(name: str, part: str, row: RankRow) -> Any:
    summary: Summary | None = getattr(row, name)
    return None if summary is None else getattr(summary, part)
