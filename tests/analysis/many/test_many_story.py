"""The table of ranks in each of its outputs: it fits, it says what is left out, and nothing in it is lost or run."""

from __future__ import annotations

import json

import msgspec
import pytest
from launchscope.analysis.many import many_story
from launchscope.analysis.many.document import AlignmentDoc, RankRow, RanksDocument, StepSeriesDoc
from launchscope.analysis.many.outliers import distributions, outliers
from launchscope.analysis.model.document import Summary, WarningDoc
from rich.cells import cell_len

from ..render.documents import HOSTILE


def summary(ns: float) -> Summary:
    return Summary(median=ns, p10=ns * 0.9, p90=ns * 1.1, total=ns * 10, count=10)


def row(rank: int, period_ns: float = 1e7, **more: object) -> RankRow:
    known = {
        "host": f"node-{rank // 8}",
        "bytes": 20_000_000,
        "worker_peak_bytes": 64 << 20,
        "format": "kineto-json",
        "gpu": "NVIDIA H200",
        "gpu_ops": 700,
        "steps": 10,
        "steps_found": 11,
        "period_ns": summary(period_ns),
        "busy_ns": summary(4e6),
        "gpu_work_without_waiting_ns": 3e6,
        "idle_fraction": 0.6,
        "launch_tax_ns": 5e6,
        "launch_tax_share": 0.5,
        "kernels": 720.0,
        "launches": 700.0,
        "communication_waiting_ns": 1e6,
        "arrives_last_share": 0.1,
        "verdict_class": "launch-bound",
        "verdict_reason": "launches",
        "series": StepSeriesDoc(every=1, number=[1, 2], period_ns=[10, None], busy_ns=[4, 4]),
    }
    name = f"rank{rank}.1700000000.pt.trace.json.gz"
    return RankRow(path=f"/traces/{name}", name=name, rank=rank, **(known | more))  # type: ignore[arg-type]


def document(rows: list[RankRow], **more: object) -> RanksDocument:
    known = distributions(rows)
    facts = {
        "launchscope": "1.0",
        "inputs": ["s3://bucket/run-17"],
        "seconds": 75.0,
        "workers": 2,
        "alignment": AlignmentDoc(kind="none", reason="only durations are compared"),
        "distributions": known,
        "odd": outliers(rows, known),
        "rows": rows,
    }
    return RanksDocument(**(facts | more))  # type: ignore[arg-type]


def many() -> RanksDocument:
    rows = [row(rank) for rank in range(60)]
    rows[17] = row(17, 2e7, launches=900.0)
    rows[30] = row(30, warnings=[WarningDoc(code="cut_file", message="the file is cut")], unreliable=["it is cut"])
    rows[41] = RankRow(path="/traces/rank41.json", name="rank41.json", rank=41, error="empty (0 bytes)", error_kind="x")
    return document(rows, world_size=64, missing_ranks=[60, 61, 62, 63])


def text(doc: RanksDocument, width: int, *, verbose: bool = False) -> str:
    return many_story.render_terminal(doc, width=width, color=False, verbose=verbose)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_it_fits(width: int) -> None:
    lines = text(many(), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert any("3 of 60 ranks stand out: rank 41, rank 30, rank 17" in line for line in lines)


def test_the_rows_are_the_outliers_and_the_extremes_and_the_rest_is_counted() -> None:
    lines = text(many(), 140).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("rank  host"))
    end = lines.index(f"{many_story.OF_MEANS}")
    rows = [line.split()[0] for line in lines[start + 1 : end] if line.strip()]
    assert rows[-2:] == ["…", "rank41.json"] or rows[-1] == "…"
    assert {"17", "30", "41"} <= set(rows)
    assert len(rows) - 1 <= many_story.MOST_ROWS
    assert f"… {60 - (len(rows) - 1)} more" in lines


def test_verbose_has_all() -> None:
    told = text(many(), 140, verbose=True)
    assert "more" not in told.splitlines()[-1]
    assert all(f"\n{rank:>4}  " in told for rank in range(60) if rank != 41)


def test_missing_ranks_files_and_alignment_are_told() -> None:
    told = text(many(), 140)
    assert "4 of 64 ranks (6 %) without a file: 60–63" in told
    assert "59 of 60 read in 75 s · 2 workers · a worker held 64.0 MiB at most" in told
    assert "only durations are compared" in told


def test_no_tails_of_a_few_ranks() -> None:
    assert "p10" in text(document([row(rank) for rank in range(10)]), 140)
    assert "p10" not in text(document([row(rank) for rank in range(9)]), 140)


@pytest.mark.parametrize(
    ("count", "words"), [(3, "3 ranks: too few to tell which one stands out"), (8, "no rank of 8 stands out")]
)
def test_where_none_stands_out(count: int, words: str) -> None:
    assert words in text(document([row(rank) for rank in range(count)]), 100)


def test_where_nothing_can_be_read() -> None:
    rows = [RankRow(path="a", name="a", error="empty", error_kind="unreadable")]
    assert "none of 1 file can be read" in text(document(rows), 100)


def test_json_reads_back_as_the_same_document_with_a_line_per_rank() -> None:
    doc = many()
    written = many_story.render_json(doc)
    assert msgspec.json.decode(written, type=RanksDocument) == doc
    assert json.loads(written)["schema"] == "launchscope.ranks/1"
    assert sum(line.startswith('    {"path"') for line in written.splitlines()) == 60
    assert msgspec.json.decode(many_story.render_json(document([])), type=RanksDocument).rows == []


def test_names_are_shown_and_never_obeyed() -> None:
    doc = document([row(rank) for rank in range(4)] + [row(4, 3e7, host=HOSTILE, verdict_class="launch-bound")])
    doc = msgspec.structs.replace(
        doc, inputs=[HOSTILE], rows=[*doc.rows[:4], msgspec.structs.replace(doc.rows[4], name=HOSTILE)]
    )
    told = text(doc, 140)
    assert "\x1b" not in told
    assert "\x1b" not in many_story.render_markdown(doc)
    assert msgspec.json.decode(many_story.render_json(doc), type=RanksDocument) == doc


def test_markdown_has_the_same_story() -> None:
    told = many_story.render_markdown(many())
    assert "| over the ranks |" in told
    assert "step time 20.0 ms, 2.00× the median 10.0 ms" in told


def test_parquet_has_a_row_per_rank_and_the_same_columns_for_any() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from io import BytesIO

    doc = many()
    table = parquet.read_table(BytesIO(many_story.render_parquet(doc)))
    assert table.num_rows == 60
    empty = parquet.read_table(BytesIO(many_story.render_parquet(document([]))))
    assert empty.schema.equals(table.schema)
    first = table.slice(17, 1).to_pylist()[0]
    assert (first["rank"], first["period_ns_median"], first["launches"]) == (17, 2e7, 900.0)
    assert table.slice(41, 1).to_pylist()[0]["error"] == "empty (0 bytes)"
    assert table.slice(30, 1).to_pylist()[0]["warnings"] == "cut_file"
    head = msgspec.json.decode(table.schema.metadata[b"launchscope"], type=RanksDocument)
    assert msgspec.structs.replace(head, rows=doc.rows) == doc
