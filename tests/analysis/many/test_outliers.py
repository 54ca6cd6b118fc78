"""How figures lie over the ranks, and which stand out: numbers that can be worked out in the head."""

from __future__ import annotations

import pytest
from launchscope.analysis.many.document import OddDoc, RankRow
from launchscope.analysis.many.outliers import distributions, missing_words, outliers
from launchscope.analysis.model.document import Summary, WarningDoc

from .rank_files import row


def period(ns: float) -> Summary:
    return Summary(median=ns, p10=ns, p90=ns, total=ns, count=1)


def odd(rows: list[RankRow]) -> list[tuple[int, str]]:
    return [(each.row, each.kind) for each in found(rows)]


def found(rows: list[RankRow]) -> list[OddDoc]:
    return outliers(rows, distributions(rows))


def test_a_distribution_is_no_average() -> None:
    rows = [row(rank, launches=launches) for rank, launches in enumerate([10, 20, 30, 40, 1000])]
    its = next(each for each in distributions(rows) if each.figure == "launches")
    assert (its.min, its.median, its.max, its.count) == (10, 30, 1000, 5)
    assert (its.p10, its.p90) == pytest.approx((14, 616))
    assert its.spread == 10  # |−20|, |−10|, 0, 10, 970
    assert (its.min_at, its.max_at) == (0, 4)


def test_a_file_that_is_not_reliable_is_in_no_distribution() -> None:
    rows = [row(rank, launches=100) for rank in range(5)] + [row(5, launches=900, unreliable=["records were lost"])]
    its = next(each for each in distributions(rows) if each.figure == "launches")
    assert (its.count, its.max) == (5, 100)
    assert odd(rows) == [(5, "unreliable")]


def test_a_figure_that_no_rank_has_is_not_told() -> None:
    assert "launches" not in [each.figure for each in distributions([row(0), row(1)])]


def test_ranks_that_are_alike_don_t_stand_out() -> None:
    assert odd([row(rank, period_ns=period(1e6), launches=100, kernels=100) for rank in range(8)]) == []


def test_a_slow_rank_stands_out_with_by_how_much() -> None:
    rows = [row(rank, period_ns=period(1e6)) for rank in range(7)] + [row(7, period_ns=period(1.2e6))]
    [slow] = found(rows)
    assert (slow.row, slow.kind, slow.value, slow.typical) == (7, "slow_steps", 1.2e6, 1e6)
    assert slow.message == "step time 1.20 ms, 1.20× the median 1.00 ms"
    assert slow.excess == pytest.approx(4)  # 0.2 ms over a limit of 5 %


def test_a_fast_rank_is_no_concern_and_neither_is_a_little() -> None:
    rows = [row(rank, period_ns=period(1e6)) for rank in range(6)]
    assert odd([*rows, row(6, period_ns=period(0.5e6)), row(7, period_ns=period(1.04e6))]) == []


def test_where_all_ranks_differ_none_stands_out() -> None:
    assert odd([row(rank, period_ns=period(1e6 * (1 + rank))) for rank in range(8)]) == []


def test_other_counts_stand_out_both_ways() -> None:
    rows = [row(rank, launches=700, kernels=720) for rank in range(6)]
    rows += [row(6, launches=734, kernels=720), row(7, launches=700, kernels=600)]
    assert odd(rows) == [(7, "other_kernels"), (6, "other_launches")]
    assert [each.message for each in found(rows)] == [
        "kernels per step 600, 120 fewer than the median 720",
        "launches per step 734, 34 more than the median 700",
    ]


def test_idle_stands_out_by_points() -> None:
    rows = [row(rank, idle_fraction=0.02) for rank in range(6)]
    rows += [row(6, idle_fraction=0.06), row(7, idle_fraction=0.30)]
    [idle] = found(rows)
    assert (idle.row, idle.message) == (7, "idle 30 %, the median is 2 %")


def test_of_three_ranks_none_can_be_the_odd_one() -> None:
    assert odd([row(0, launches=1), row(1, launches=1), row(2, launches=9)]) == []


def test_a_straggler_is_named_with_what_others_wait() -> None:
    rows = [row(rank, arrives_last_share=0.01, straggler=False) for rank in (1, 2, 3)]
    its = {"arrives_last_share": 0.97, "arrives_last_chance": 0.25, "arrivals": 100, "awaited_ns": 240_000.0}
    late = row(0, straggler=True, **its)
    [straggler] = [each for each in found([late, *rows]) if each.kind == "straggler"]
    assert straggler.message == (
        "arrives last in 97 % of 100 collectives (by chance 25 %): the others wait 240 µs a step for it"
    )


def test_what_can_t_be_read_is_told_first_then_what_can_t_be_trusted() -> None:
    rows = [row(rank, launches=100) for rank in range(5)]
    rows += [
        row(5, launches=300),
        row(6, warnings=[WarningDoc(code="cut_file", message="cut at the end")]),
        row(7, unreliable=["records were lost"]),
        row(8, steps=0),
        row(9, gpu_ops=0, verdict_reason="no GPU op in the file"),
        RankRow(path="b", name="b", error="empty (0 bytes)", error_kind="unreadable"),
        RankRow(path="c", name="c", error="its worker died", error_kind="worker"),
    ]
    kinds = odd(rows)
    assert kinds[:6] == [
        (9, "no_gpu_ops"),
        (10, "unreadable"),
        (11, "worker"),
        (6, "cut"),
        (7, "unreliable"),
        (8, "no_steps"),
    ]
    assert (5, "other_launches") in kinds


def test_two_files_of_one_rank() -> None:
    first, second = row(3), RankRow(path="/other/rank3.json", name="other/rank3.json", rank=3, gpu_ops=1, steps=1)
    [same] = [each for each in found([first, second]) if each.kind == "same_rank"]
    assert (same.row, same.message) == (1, "of rank 3, as rank3.json is")


def test_missing_ranks_in_words() -> None:
    assert missing_words([5], 16) == "1 of 16 ranks (6 %) without a file: 5"
    assert missing_words([1, 2, 3, 9], 16) == "4 of 16 ranks (25 %) without a file: 1–3, 9"
