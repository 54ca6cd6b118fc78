"""Captures and traces of several ranks, opened: every number can be worked out from rank_captures."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.model.document import ModeDoc, RanksOfStepDoc, told_traces
from launchscope.analysis.report import Report, analyze, load
from launchscope.analysis.report_story import render_terminal
from launchscope.fixtures.builder import TraceBuilder, trace

from ..facts.ranks.ranks_by_hand import rank_trace
from ..many.rank_files import ALL_REDUCE
from .rank_captures import EARLY, LATE, two_ranks


def opened(path: Path) -> tuple[Report, ModeDoc, RanksOfStepDoc]:
    report = load(path)
    profile = report.document.profile
    assert profile is not None
    assert profile.ranks is not None
    return report, profile.modes["eager"], profile.ranks.modes["eager"]


def test_the_modes_are_of_rank_0_and_all_traces_are_there(tmp_path: Path) -> None:
    report, mode, _ = opened(two_ranks(tmp_path / "capture"))
    assert mode.step_ns is not None
    assert mode.step_ns.median == 520_000
    assert [(t.rank, t.repeat) for t in report.document.traces] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [trace.rank for trace in told_traces(report.document)] == [0, 0, 0]
    profile = report.document.profile
    assert profile is not None
    assert profile.ranks is not None
    assert (profile.ranks.count, profile.ranks.told, profile.ranks.hosts) == (2, 0, ["one"])
    assert msgspec.json.decode(report.to_json())["profile"]["ranks"]["told"] == 0


def test_work_without_waiting_and_t_in_parts(tmp_path: Path) -> None:
    """W 210 µs, 90 of them waiting; of the rest of T = 520 µs, 400, waiting has 90 of 90 + 790 as recorded."""
    _, mode, _ = opened(two_ranks(tmp_path / "capture"))
    assert mode.gpu_work_ns == 210_000
    assert mode.gpu_work_without_waiting_ns == 120_000
    assert mode.waiting_ns == pytest.approx(400_000 * 90 / 880)
    assert mode.exposed_idle_ns == pytest.approx(400_000 * 790 / 880)
    assert mode.bound is not None
    assert mode.bound.gpu_work_ns == 120_000
    assert mode.verdict is not None
    assert mode.verdict.verdict_class == "between-steps-bound"
    assert "it waits 40.9 µs (8 %) inside collectives for rank 1 to arrive" in mode.verdict.reason


def test_ranks_side_by_side(tmp_path: Path) -> None:
    _, _, ranks = opened(two_ranks(tmp_path / "capture"))
    early, late = ranks.ranks
    assert ranks.step_ns is not None
    assert ranks.step_ns.median == 520_000  # of 505, 520 and 545
    assert ranks.step_spread == pytest.approx(5 / 517.5)
    assert (early.transfer_ns, early.waiting_ns) == (20_000, 90_000)
    assert (late.transfer_ns, late.waiting_ns) == (20_000, 0)
    assert (early.exposed_ns, early.hidden_ns, early.collectives) == (110_000, 0, 2)
    assert (early.gpu_work_ns, early.gpu_work_without_waiting_ns) == (210_000, 120_000)
    assert (late.gpu_work_ns, late.gpu_work_without_waiting_ns) == (120_000, 120_000)
    assert (early.launches, early.kernels) == (3, 3)
    assert (late.arrived_last, late.arrivals, late.awaited_ns) == (10, 10, 90_000)  # in two `cuda` recordings
    assert (early.arrived_last, early.straggler) == (0, False)
    assert ranks.stragglers == [1]
    assert (ranks.steps, ranks.collectives, ranks.steps_by) == (10, 20, "profiler_step")
    assert ranks.launch_skew_ns is not None
    assert (ranks.launch_skew_ns.p10, ranks.launch_skew_ns.p90) == (0, 90_000)
    assert [(group.ranks, group.size) for group in ranks.groups] == [([0, 1], 2)]


@pytest.mark.parametrize(
    ("hosts", "clock_us", "alignment", "skew"),
    [
        (("one", "one"), 0, "same_host", 90_000),
        (("one", "two"), 3_000_000, "collectives", 90_000),
    ],
)
def test_clocks_are_moved_between_hosts_alone(
    tmp_path: Path, hosts: tuple[str, str], clock_us: int, alignment: str, skew: int
) -> None:
    _, _, ranks = opened(two_ranks(tmp_path / "capture", hosts=hosts, clock_us=clock_us))
    assert ranks.alignment == alignment
    assert ranks.ranks[1].clock_offset_ns == clock_us * 1000
    assert ranks.launch_skew_ns is not None
    assert ranks.launch_skew_ns.p90 == skew


def test_a_rank_that_failed_is_told_with_its_error_and_the_other_is_not_said_to_work_while_it_may_wait(
    tmp_path: Path,
) -> None:
    _, mode, ranks = opened(two_ranks(tmp_path / "capture", failed={1: "RuntimeError: out of memory"}))
    assert ranks.ranks[1].error == "RuntimeError: out of memory"
    assert ranks.step_ns is None
    assert ranks.withheld["step_ns"] == "not every rank was timed in any repeat"
    assert ranks.refused == ["only rank 0 of process group [0, 1] was given"]
    assert mode.gpu_work_ns == 210_000
    assert mode.gpu_work_without_waiting_ns is None
    assert mode.withheld["waiting_ns"] == "only rank 0 of process group [0, 1] was given"
    assert "predicted_graph_ns" in mode.withheld


def test_when_rank_0_failed_its_modes_say_so_and_the_other_is_told(tmp_path: Path) -> None:
    _, mode, ranks = opened(two_ranks(tmp_path / "capture", failed={0: "RuntimeError: out of memory"}))
    assert mode.error == "RuntimeError: out of memory"
    assert ranks.ranks[1].step_ns is not None
    assert ranks.ranks[1].gpu_work_ns == 120_000


def test_a_rank_whose_traces_cannot_be_read(tmp_path: Path) -> None:
    report, _, ranks = opened(two_ranks(tmp_path / "capture", traces={1: b""}))
    assert ranks.ranks[1].gpu_work_ns is None
    assert ranks.ranks[1].step_ns is not None
    assert report.document.profile is not None
    assert "unreadable_trace" in [each.code for each in report.document.profile.modes["eager"].warnings]


def test_a_rank_with_a_cut_file(tmp_path: Path) -> None:
    cut = rank_trace(1, [LATE] * 5).cut(900).json()
    report, _, ranks = opened(two_ranks(tmp_path / "capture", traces={1: cut}))
    assert ranks.ranks[0].waiting_ns == 90_000  # of the steps that both have whole
    assert 0 < ranks.steps < 10
    assert [t.coverage.reliable for t in report.document.traces] == [True] * 3 + [False] * 3


def test_traces_of_different_ranks_given_together(tmp_path: Path) -> None:
    paths = [rank_trace(r, [own] * 5).write(tmp_path / f"{r}.json") for r, own in enumerate((EARLY, LATE))]
    document = analyze(*paths, cache=False).document
    (ranks,) = document.ranks
    assert (ranks.basis, ranks.alignment, ranks.stragglers) == ("trace", "collectives", [1])
    assert [rank.traces for rank in ranks.ranks] == [["0.json"], ["1.json"]]
    early, late = ranks.ranks
    assert early.step_ns is not None
    assert (early.step_ns.median, early.gpu_work_ns, early.gpu_work_without_waiting_ns) == (1_000_000, 210_000, 120_000)
    assert early.waiting_of_step_ns == 90_000
    assert late.launch_tax_ns is not None
    communication = document.traces[0].communication
    assert communication is not None
    assert communication.waiting_ns is not None
    assert communication.waiting_ns.median == 90_000
    assert "waiting_unknown" not in [warning.code for warning in document.traces[0].warnings]
    assert document.traces[0].bound is not None
    assert document.traces[0].bound.gpu_work_ns == 120_000


IN_TURN = ([[(120, 610)]] * 3 + [[(720, 10)]] * 3, [[(720, 10)]] * 6)
"""Rank 0 waits 600 µs in three steps of six and nothing in the others; the last step has no period."""


def test_t_in_parts_where_waiting_comes_in_some_steps_alone(tmp_path: Path) -> None:
    """T 1,000 µs, W without waiting 110. Of 5 steps 3 wait 600 µs, mean 360; idle are 3 × 290 and 2 × 890, mean 530.

    Median W less the median without waiting, 410 − 110, would say 300.
    """
    paths = [rank_trace(r, own).write(tmp_path / f"{r}.json") for r, own in enumerate(IN_TURN)]
    document = analyze(*paths, cache=False).document
    rank = document.ranks[0].ranks[0]
    assert rank.gpu_work_without_waiting_ns == 110_000
    assert rank.waiting_of_step_ns == pytest.approx(360_000)
    gaps = document.traces[0].devices[0].steady
    assert gaps is not None
    assert rank.launch_tax_ns == pytest.approx(gaps.gaps.taxes_ns["launch"] / gaps.idle_ns * 530_000)
    reason = document.traces[0].verdict.reason
    assert "the GPU works 100 µs ± 2.26 µs of a 1.00 ms step" in reason
    assert "collectives transfer for 10.0 µs (1 %) beside nothing else" in reason
    assert "it waits 360 µs (36 %) inside collectives for rank 1 to arrive" in reason


def test_alone_t_is_in_the_same_parts(tmp_path: Path) -> None:
    """3 × 610 and 2 × 10 µs inside collectives, mean 370, beside the same 530 idle."""
    (alone,) = analyze(rank_trace(0, IN_TURN[0]).write(tmp_path / "0.json"), cache=False).document.traces
    assert "370 µs (37 %) pass inside collectives" in alone.verdict.reason
    assert "of its idle time" in alone.verdict.reason
    assert "of 530 µs" in alone.verdict.reason


def test_collectives_as_a_data_frame(tmp_path: Path) -> None:
    frame = load(two_ranks(tmp_path / "capture")).collectives
    early = frame[(frame["rank"] == 0) & (frame["step"] == 2) & (frame["trace"] == "traces/eager-0-cuda-rank0.json.gz")]
    assert early["kind"].tolist() == ["all_reduce"] * 2
    assert early["transfer_ns"].tolist() == [10_000, 10_000]
    assert early["waiting_ns"].tolist() == [90_000, 0]
    alone = load(rank_trace(0, [EARLY] * 5).write(tmp_path / "alone.json"), cache=False).collectives
    assert alone["waiting_ns"].isna().all()
    assert len(alone) == 10


def test_a_trace_alone_says_that_waiting_is_not_known(tmp_path: Path) -> None:
    """A step of 1,000 µs of which 850 are inside one collective: busy, but nobody knows whether it works."""
    path = rank_trace(0, [[(120, 850)]] * 5).write(tmp_path / "alone.json")
    (trace,) = analyze(path, cache=False).document.traces
    assert trace.steps is not None
    assert trace.steps.busy_ns.median == 950_000
    assert trace.verdict.verdict_class == "communication-bound"
    assert "850 µs (85 %) pass inside collectives" in trace.verdict.reason
    assert "waiting_unknown" in [warning.code for warning in trace.warnings]
    assert "communication.waiting_ns" in trace.withheld


def test_one_that_waits_most_of_its_step_is_wait_bound(tmp_path: Path) -> None:
    owns = ([(120, 850)], [(960, 10)])
    paths = [rank_trace(r, [own] * 5).write(tmp_path / f"{r}.json") for r, own in enumerate(owns)]
    first, second = analyze(*paths, cache=False).document.traces
    assert first.verdict.verdict_class == "wait-bound"
    assert [action.kind for action in first.verdict.actions] == ["wait"]
    assert second.verdict.verdict_class == "launch-bound"


def test_a_long_transfer_is_no_work(tmp_path: Path) -> None:
    """Of a step of 1,000 µs all ranks transfer for 850 together."""
    paths = [rank_trace(r, [[(120, 850)]] * 5).write(tmp_path / f"{r}.json") for r in (0, 1)]
    document = analyze(*paths, cache=False).document
    assert [trace.verdict.verdict_class for trace in document.traces] == ["communication-bound"] * 2
    assert "collectives transfer for 850 µs (85 %) beside nothing else" in document.traces[0].verdict.reason
    assert [action.kind for action in document.traces[0].verdict.actions] == ["transfer"]
    assert document.ranks[0].stragglers == []


def test_two_recordings_of_each_rank_pair_by_their_names(tmp_path: Path) -> None:
    for mode in ("eager", "graph"):
        for rank, own in enumerate((EARLY, LATE)):
            rank_trace(rank, [own] * 5).write(tmp_path / f"{mode}-rank{rank}.json")
    document = analyze(*sorted(tmp_path.iterdir()), cache=False).document
    assert [[rank.traces[0] for rank in each.ranks] for each in document.ranks] == [
        ["eager-rank0.json", "eager-rank1.json"],
        ["graph-rank0.json", "graph-rank1.json"],
    ]


def test_the_same_rank_twice_belongs_to_no_set(tmp_path: Path) -> None:
    paths = [rank_trace(0, [EARLY] * 5).write(tmp_path / name) for name in ("a.json", "b.json")]
    assert analyze(*paths, cache=False).document.ranks == []


def long_rank(rank: int, spread: float) -> TraceBuilder:
    """Two steps of five all-reduces of 68 to 77 ms, 100 ms apart; rank 2 arrives 50 ms later and needs 18.6 ms.

    Clocks of the ranks wander by ``spread`` µs.
    """
    late = 50_000 if rank == 2 else 1_000 * rank
    builder = trace().header(distributedInfo={"backend": "nccl", "rank": rank, "world_size": 4})
    for step in range(2):
        begun = 600_000 * step
        builder.step(step, begun, 599_000).launch(begun + 1, 5).kernel(begun + 20, 900, name="gemm")
        for place in range(5):
            at, end = begun + 2_000 + 100_000 * place + late, begun + 70_600 + 100_000 * place
            wander = spread * (-1) ** (place + rank)
            builder.launch(at - 20, 5).kernel(at + wander, end - at, name=ALL_REDUCE)
    return builder


@pytest.mark.parametrize("spread", [0.0, 40.0])
def test_a_rank_that_is_late_in_all_collectives_of_few_steps(spread: float, tmp_path: Path) -> None:
    paths = [long_rank(rank, spread).write(tmp_path / f"{rank}.json") for rank in range(4)]
    (found,) = analyze(*paths, cache=False).document.ranks
    assert found.stragglers == [2]
    assert found.collectives == 10


def test_no_straggler_is_said_of_ranks_that_were_all_matched(tmp_path: Path) -> None:
    """A rank whose collectives end apart from the others' may be the late one."""
    paths = [rank_trace(r, [EARLY] * 5).write(tmp_path / f"{r}.json") for r in (0, 1)]
    assert "no straggler" in render_terminal(analyze(*paths, cache=False), width=140, color=False, verbose=False)
    paths.append(rank_trace(2, [[(120 + 60 * step, 100)] for step in range(5)]).write(tmp_path / "2.json"))
    told = render_terminal(analyze(*paths, cache=False), width=140, color=False, verbose=False)
    assert "no straggler" not in told
    assert "whether a rank is late can't be told of all, because" in told
