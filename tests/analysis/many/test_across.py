"""What rows tell only together: waiting and its split, who arrives last, which ranks are left out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many import one_file
from launchscope.analysis.many.across import compared
from launchscope.analysis.many.document import AlignmentDoc, RankRow
from launchscope.analysis.many.one_file import Finished, RankCollectives, find_figures, from_bytes, to_bytes
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.report import analyze
from launchscope.fixtures.builder import TraceBuilder

from .rank_files import rank_trace


def together(*made: TraceBuilder) -> tuple[list[RankRow], AlignmentDoc]:
    rows, own = [], {}
    for place, each in enumerate(made):
        trace = each.build()
        found = find_figures(RankRow(path=f"{place}", name=f"{place}", rank=trace.rank), trace)
        rows.append(found.row)
        if found.collectives is not None:
            own[place] = found.collectives
    return compared(rows, own)


def test_waiting_and_transfer_by_hand() -> None:
    rows, alignment = together(*(rank_trace(rank, waiting=waiting) for rank, waiting in enumerate([0, 100, 300])))
    assert [row.communication_transfer_ns for row in rows] == [5_000] * 3
    assert [row.communication_waiting_ns for row in rows] == [0, 100_000, 300_000]
    assert [row.busy_ns and row.busy_ns.median for row in rows] == [45_000, 145_000, 345_000]
    assert [row.gpu_work_without_waiting_ns for row in rows] == [45_000] * 3
    assert [row.arrives_last_share for row in rows] == [1, 0, 0]
    assert [row.awaited_ns for row in rows] == [200_000, 0, 0]
    assert [row.waits_for for row in rows] == [None, 0, 0]
    assert [row.straggler for row in rows] == [True, False, False]
    assert [row.clock_offset_ns for row in rows] == [0, 0, 0]
    assert (alignment.kind, alignment.groups, alignment.ranks) == ("collectives", 1, 3)


def test_a_rank_that_waits_most_of_the_time_is_wait_bound() -> None:
    rows, _ = together(*(rank_trace(rank, waiting=waiting, period=700) for rank, waiting in enumerate([0, 350])))
    assert rows[1].verdict_class == "wait-bound"  # 350 of the 655 µs in which it does not work
    alone, _ = together(rank_trace(1, waiting=350, period=700))
    assert alone[0].verdict_class == "communication-bound"


def test_the_figures_are_those_of_the_report(tmp_path: Path) -> None:
    paths = [
        rank_trace(rank, waiting=waiting, world=3).write(tmp_path / f"rank{rank}.json")
        for rank, waiting in enumerate([0, 100, 300])
    ]
    [report] = analyze(*paths).document.ranks
    table = analyze_ranks(sources(paths), workers=1)
    for row, rank in zip(table.rows, report.ranks, strict=True):
        assert row.gpu_work_without_waiting_ns == rank.gpu_work_without_waiting_ns is not None
        assert row.communication_transfer_ns == rank.transfer_ns
        assert row.communication_waiting_ns == rank.waiting_ns
        assert (row.communication_exposed_ns, row.communication_hidden_ns) == (rank.exposed_ns, rank.hidden_ns)
        assert (row.arrivals, row.awaited_ns, row.straggler) == (rank.arrivals, rank.awaited_ns, rank.straggler)
        assert (row.launch_tax_ns, row.launch_tax_share) == (rank.launch_tax_ns, rank.launch_tax_share)
        assert row.clock_offset_ns == rank.clock_offset_ns
        assert rank.verdict is not None
        assert (row.verdict_class, row.verdict_reason) == (rank.verdict.verdict_class, rank.verdict.reason)


def test_what_stands_beside_idle_is_a_mean_as_idle_is() -> None:
    """By the raw records: rank 1 waits in some of its six steps alone, which its median step is none of."""
    folder = Path(__file__).parents[3] / "fixtures" / "captures" / "ranks"
    paths = [folder / f"eager-cuda-rank{rank}.json.gz" for rank in (0, 1)]
    table = analyze_ranks(sources(paths), workers=1)
    durations = []
    for path in paths:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        kernels = sorted(
            (e for e in events if "AllReduce" in e["name"] and e["cat"] == "kernel"), key=lambda e: e["ts"]
        )
        durations.append(np.array([e["dur"] * 1000 for e in kernels]))
    shortest = np.minimum(*durations)
    for row, own in zip(table.rows, durations, strict=True):
        assert row.communication_waiting_ns == pytest.approx((own - shortest).sum() / 6)
        assert row.communication_transfer_ns == pytest.approx(shortest.sum() / 6)
        assert row.communication_exposed_ns == pytest.approx(own.sum() / 6)
    [report] = analyze(*paths, cache=False).document.ranks
    assert [row.communication_waiting_ns for row in table.rows] == [rank.waiting_ns for rank in report.ranks]


def test_without_collectives_only_durations_are_compared() -> None:
    rows, alignment = together(rank_trace(0), rank_trace(1))
    assert [row.communication_waiting_ns for row in rows] == [None, None]
    assert alignment.kind == "none"
    assert "only durations are compared" in alignment.reason


def test_one_rank_alone_waits_for_nobody_that_is_known() -> None:
    rows, alignment = together(rank_trace(0, waiting=10), rank_trace(1))
    assert rows[0].communication_waiting_ns is None
    assert alignment.kind == "none"
    assert alignment.unmatched


def test_a_file_with_few_steps_does_not_take_the_others_away() -> None:
    made = [rank_trace(rank, waiting=10 * rank, steps=2 if rank == 2 else 6) for rank in range(4)]
    rows, alignment = together(*made)
    assert [row.communication_waiting_ns for row in rows] == [0, 10_000, None, 30_000]
    assert alignment.unmatched == ["rank 2: 2 steps of 6"]


def test_of_long_recordings_the_first_steps_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here two of them; the verdict then takes busy and waiting time of the same steps."""
    monkeypatch.setattr(one_file, "MOST", 2)
    rows, alignment = together(
        *(rank_trace(rank, waiting=waiting, period=700) for rank, waiting in enumerate([0, 350]))
    )
    assert [row.communication_waiting_ns for row in rows] == [0, 350_000]
    assert rows[1].verdict_class == "wait-bound"
    assert "the first 2 steps" in alignment.reason


def test_a_file_that_is_not_reliable_is_left_out() -> None:
    rows, alignment = together(rank_trace(0, waiting=0), rank_trace(1, waiting=10), rank_trace(2, waiting=20).cut(200))
    assert [row.communication_waiting_ns for row in rows] == [0, 10_000, None]
    assert alignment.unmatched == ["rank 2: its file is not reliable"]


def first_collectives() -> tuple[RankRow, RankCollectives]:
    """Of a rank, as they come back from a worker."""
    found = find_figures(RankRow(path="a", name="a"), rank_trace(0, waiting=10).build())
    back = from_bytes(to_bytes(found), Finished)
    assert back.row == found.row
    assert back.collectives is not None
    return back.row, back.collectives


def test_collectives_come_back_from_a_worker_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    row, its = first_collectives()
    assert (row.collectives, row.communication_exposed_ns, row.communication_hidden_ns) == (1, 15_000, 0)
    back = its.collectives
    assert (len(back), back.steps, back.rank, back.world_size) == (6, 6, 0, 8)
    assert back.dur_ns.tolist() == [15_000] * 6
    monkeypatch.setattr(one_file, "MOST", 3)
    _, fewer = first_collectives()
    assert (len(fewer.collectives), fewer.collectives.steps, len(fewer.busy_ns)) == (3, 3, 3)


TWO_RUNS = {"a": (0, 100), "b": (300, 0)}
"""Run → µs that its ranks 0 and 1 wait in each step: in the one rank 0 is late, in the other rank 1."""


def two_runs(folder: Path, name: str) -> Path:
    for run, waits in TWO_RUNS.items():
        for rank, waiting in enumerate(waits):
            path = folder / name.format(run=run, rank=rank, place=f"{run}{rank}")
            path.parent.mkdir(exist_ok=True)
            rank_trace(rank, waiting=waiting, world=2, steps=6 if run == "a" else 4).write(path)
    return folder


@pytest.mark.parametrize("name", ["{run}-rank{rank}.json", "{run}/rank{rank}.json"])
def test_two_runs_in_one_folder_are_two_sets(tmp_path: Path, name: str) -> None:
    """Each rank beside the one that it ran with: as one group of four, everyone would wait for the last of all."""
    table = analyze_ranks(sources([two_runs(tmp_path, name)]), workers=1)
    told = {row.name: row for row in table.rows}
    assert {name: row.communication_waiting_ns for name, row in told.items()} == {
        name.format(run="a", rank=0): 0,
        name.format(run="a", rank=1): 100_000,
        name.format(run="b", rank=0): 300_000,
        name.format(run="b", rank=1): 0,
    }
    assert [row.arrives_last_share for row in table.rows] == [1, 0, 0, 1]
    assert [row.arrivals for row in table.rows] == [6, 4, 6, 4]
    assert [row.waits_for for row in table.rows] == [None, 1, 0, None]
    assert {row.arrives_last_chance for row in table.rows} == {0.5}
    assert (table.alignment.groups, table.alignment.ranks, table.alignment.unmatched) == (2, 4, [])
    assert "2 groups of ranks in 2 sets of files, told apart by their names" in table.alignment.reason
    assert [odd.kind for odd in table.odd].count("same_rank") == 2


def test_a_rank_that_no_name_tells_apart_is_not_matched(tmp_path: Path) -> None:
    table = analyze_ranks(sources([two_runs(tmp_path, "host_{place}.json")]), workers=1)
    assert [row.communication_waiting_ns for row in table.rows] == [None] * 4
    assert table.alignment.kind == "none"
    assert "no name tells apart" in table.alignment.reason
    assert table.alignment.unmatched[0] == (
        "host_a0.json: rank 0 is there 2 times, and no name tells which ranks it ran with"
    )


def test_a_second_file_of_a_rank_that_is_not_reliable_takes_nothing_away(tmp_path: Path) -> None:
    paths = [rank_trace(r, waiting=w).write(tmp_path / f"rank{r}.json") for r, w in enumerate((0, 100))]
    paths.append(rank_trace(1, waiting=50).cut(200).write(tmp_path / "again.json"))
    table = analyze_ranks(sources(paths), workers=1)
    assert [row.communication_waiting_ns for row in table.rows if not row.unreliable] == [0, 100_000]
    assert table.alignment.unmatched == ["rank 1: its file is not reliable"]
