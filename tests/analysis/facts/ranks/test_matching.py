from __future__ import annotations

import time

import numpy as np
import pytest
from launchscope.analysis.facts.collectives import Collectives
from launchscope.analysis.facts.ranks.matching import match
from launchscope.analysis.facts.ranks.waiting import arrivals, clock_offsets, launch_skews_ns, mostly_awaited, waits_of
from launchscope.fixtures.builder import trace

from .ranks_by_hand import ALL_REDUCE, BROADCAST, Collective, collectives, rank_trace

EARLY: list[Collective] = [(200, 100), (400, 10)]  # of rank 0: it waits 90 µs in the first of a step
LATE: list[Collective] = [(290, 10), (400, 10)]  # of rank 1: both end together


def two(**more: int) -> list[Collectives]:
    return [collectives(rank_trace(0, [EARLY] * 4)), collectives(rank_trace(1, [LATE] * 4, **more))]


def test_transfer_is_the_shortest_and_the_rest_is_waiting() -> None:
    matching = match(two())
    assert matching.steps.source == "profiler_step"
    assert matching.refused == ()
    early, late = waits_of(matching)
    assert early.step_transfer_ns.tolist() == late.step_transfer_ns.tolist() == [20_000] * 4
    assert early.step_waiting_ns.tolist() == early.exposed_waiting_ns.tolist() == [90_000] * 4
    assert late.step_waiting_ns.tolist() == [0] * 4
    assert early.split.all()
    assert not early.unsplit_ns.any()


def test_the_late_one_arrives_last_and_of_arrivals_together_nobody_is() -> None:
    early, late = arrivals(match(two()))
    assert (early.last.tolist(), early.of.tolist()) == ([0] * 4, [1] * 4)
    assert late.last.tolist() == [1] * 4
    assert late.awaited_ns.tolist() == [90_000] * 4
    assert late.chance == 0.5


def test_clocks_three_seconds_apart() -> None:
    matching = match(two(clock=3_000_000))
    offsets = clock_offsets(matching)
    assert [offset and offset.offset_ns for offset in offsets] == [0, 3e9]
    assert offsets[1] is not None
    assert (offsets[1].p10_ns, offsets[1].p90_ns, offsets[1].collectives) == (3e9, 3e9, 8)
    assert waits_of(matching)[0].step_waiting_ns.tolist() == [90_000] * 4
    skews = launch_skews_ns(matching, [0.0, 3e9])
    assert sorted(skews.tolist()) == [0] * 4 + [90_000] * 4  # launched 90 µs apart, and at once
    assert launch_skews_ns(matching, [0.0, None]).tolist() == []


def test_a_step_of_which_a_rank_lacks_a_collective_is_refused_and_the_others_are_not() -> None:
    short = [LATE, LATE[:1], LATE, LATE]
    matching = match([collectives(rank_trace(0, [EARLY] * 4)), collectives(rank_trace(1, short))])
    told = "process group [0, 1]: 1 steps in which ranks differ in their number of collectives (rank 0 2, rank 1 1)"
    assert matching.refused == (told,)
    early, _ = waits_of(matching)
    assert early.split.tolist() == [True, False, True, True]
    assert early.step_waiting_ns.tolist() == [90_000, 0, 90_000, 90_000]
    assert early.unsplit_ns.tolist() == [0, 110_000, 0, 0]


def test_another_kind_at_the_same_place_is_refused() -> None:
    other = collectives(rank_trace(1, [LATE] * 3, names=(ALL_REDUCE, BROADCAST)))
    matching = match([collectives(rank_trace(0, [EARLY] * 3)), other])
    assert [reason.partition(": ")[2] for reason in matching.refused] == [
        "3 steps in which ranks run other collectives, or in another order"
    ]
    assert not waits_of(matching)[0].is_known


def test_a_broadcast_is_matched_but_not_split() -> None:
    ranks = [collectives(rank_trace(r, [own] * 3, names=(BROADCAST,))) for r, own in enumerate((EARLY, LATE))]
    matching = match(ranks)
    assert len(matching.groups[0].step) == 6
    assert not matching.groups[0].waits.any()
    early, late = waits_of(matching)
    assert early.unsplit_ns.tolist() == [110_000] * 3
    assert late.unsplit_ns.tolist() == [20_000] * 3
    assert clock_offsets(matching) == [None, None]


def test_waiting_beside_which_the_gpu_works_is_not_exposed() -> None:
    """Of 100 µs on another stream 40 are beside the step's compute: 90 are waiting, 50 of them surely exposed."""
    early = collectives(rank_trace(0, [[(60, 100)]] * 3, stream=20))
    late = collectives(rank_trace(1, [[(150, 10)]] * 3, stream=20))
    found = waits_of(match([early, late]))[0]
    assert found.step_waiting_ns.tolist() == [90_000] * 3
    assert found.exposed_waiting_ns.tolist() == [50_000] * 3


def test_two_groups_of_four_ranks() -> None:
    """0 and 1 share one group, 2 and 3 another: nobody waits for a rank of the other."""
    ranks = []
    for rank, own in enumerate(([(200, 100)], [(290, 10)], [(200, 300)], [(470, 30)])):
        group = ("tp", "[0, 1]" if rank < 2 else "[2, 3]")
        ranks.append(collectives(rank_trace(rank, [own] * 3, world=4, group=group)))
    matching = match(ranks)
    assert [group.members for group in matching.groups] == [(0, 1), (2, 3)]
    assert [wait.step_waiting_ns[0] for wait in waits_of(matching)] == [90_000, 0, 270_000, 0]
    assert clock_offsets(matching)[2] is None  # no collective links the two groups


@pytest.mark.parametrize("told", [True, False])
def test_groups_that_no_file_names_are_told_apart_by_their_ends(told: bool) -> None:
    """Two replicas of two ranks each, as graph replays have them: without a group's name."""
    config = [] if told else [{"ranks": [0, 1, 2, 3]}, {"ranks": [0, 1]}, {"ranks": [2, 3]}]
    drift = (0, 0, 70, 70)
    ranks = [
        collectives(
            rank_trace(
                rank,
                [[(200 + late + drift[rank] * step, 100 - late)] for step in range(6)],
                world=4,
                pg_config=config,
            )
        )
        for rank, late in enumerate((0, 90, 0, 50))
    ]
    matching = match(ranks)
    assert [group.members for group in matching.groups] == [(0, 1), (2, 3)]
    assert [wait.step_waiting_ns[0] for wait in waits_of(matching)] == [90_000, 0, 50_000, 0]


def test_one_rank_of_a_group_alone() -> None:
    ranks = [
        collectives(rank_trace(rank, [EARLY] * 3, world=4, group=("tp", "[0, 1]" if rank == 0 else "[2, 3]")))
        for rank in (0, 2)
    ]
    matching = match(ranks)
    assert matching.groups == ()
    assert matching.refused == (
        "only rank 0 of process group tp [0, 1] was given",
        "only rank 2 of process group tp [2, 3] was given",
    )


def test_a_group_of_which_a_rank_was_not_given_is_not_whole() -> None:
    ranks = [collectives(rank_trace(rank, [EARLY] * 3, world=3)) for rank in (0, 1)]
    (group,) = match(ranks).groups
    assert (group.size, group.whole) == (3, False)


def test_steps_pair_by_the_profilers_numbers() -> None:
    a = collectives(rank_trace(0, [EARLY] * 5, first=3))
    b = collectives(rank_trace(1, [LATE] * 5, first=5))
    matching = match([a, b])
    assert matching.steps.places.tolist() == [[2, 0], [3, 1], [4, 2]]


@pytest.mark.parametrize(("late_start", "expected"), [(1, [[1, 0], [2, 1], [3, 2], [4, 3], [5, 4]]), (0, None)])
def test_steps_without_numbers_pair_where_their_ends_agree(late_start: int, expected: list[list[int]] | None) -> None:
    """Steps by annotation; one rank lacks its first, or its last. Periods differ, so that a wrong pair shows."""

    def rank(number: int, own: list[Collective], steps: range) -> Collectives:
        moved = [[(start + 7 * step * step, dur) for start, dur in own] for step in steps]
        made = rank_trace(number, moved, first=steps.start)
        for event in made._events:
            event["name"] = "decode" if event["name"].startswith("ProfilerStep#") else event["name"]
        return collectives(made)

    shorter = range(1, 6) if late_start else range(5)
    matching = match([rank(0, [(200, 100)], range(6)), rank(1, [(290, 10)], shorter)])
    assert matching.steps.source == "collectives"
    assert matching.steps.places.tolist() == (expected or [[step, step] for step in range(5)])
    assert np.median(waits_of(matching)[0].step_waiting_ns) == 90_000


def test_three_ranks_wait_for_the_last() -> None:
    owns = ([(200, 100)], [(260, 40)], [(290, 10)])
    matching = match([collectives(rank_trace(r, [own] * 3, world=3)) for r, own in enumerate(owns)])
    assert [wait.step_waiting_ns[0] for wait in waits_of(matching)] == [90_000, 30_000, 0]
    assert mostly_awaited(matching) == [2, 2, None]
    last = arrivals(matching)[2]
    assert last.last.tolist() == [1] * 3
    assert last.awaited_ns.tolist() == [60_000] * 3  # 90 and 30 µs
    assert last.chance == pytest.approx(1 / 3)


def test_nothing_in_common() -> None:
    matching = match([collectives(rank_trace(0, [[]] * 3)), collectives(rank_trace(1, [LATE] * 3))])
    assert matching.groups == ()
    assert [wait.is_known for wait in waits_of(matching)] == [False, False]


def in_groups(rank: int, groups: int) -> Collectives:
    """A rank that has a collective of each of so many groups in each of two steps."""
    times = np.arange(2 * groups) * 1_000
    none, steps = np.zeros(2 * groups, np.int64), np.zeros(2, np.int64)
    return Collectives(
        rank=rank, world_size=None, kinds=("all_reduce",), groups=tuple(f"{number}" for number in range(groups)),
        group_sizes=(None,) * groups, kind=none, ordinal=none,
        group=np.tile(np.arange(groups), 2), step=np.repeat([0, 1], groups), start_ns=times, end_ns=times + 500 + rank,
        launch_start_ns=times, hidden_ns=none, step_source="order", step_number=np.arange(2), exposed_ns=steps,
        step_hidden_ns=steps,
    )  # fmt: skip


def test_time_grows_with_the_groups_and_not_with_their_square() -> None:
    def seconds(groups: int) -> float:
        ranks = [in_groups(rank, groups) for rank in range(2)]
        begun = time.process_time()
        assert len(match(ranks).groups) == groups
        return time.process_time() - begun

    seconds(10)
    assert min(seconds(2_000) for _ in range(2)) < 16 * min(seconds(250) for _ in range(3))  # 64, were it the square


def test_of_thousands_of_groups_without_a_counterpart_the_first_are_told() -> None:
    alone = [in_groups(0, 2_000), in_groups(1, 2)]
    refused = match(alone).refused
    assert len(refused) == 17
    assert refused[0] == "only rank 0 of process group 2 was given"
    assert refused[-1] == "and 1,982 more of the kind"


def test_more_groups_than_sixteen_bits_count() -> None:
    made = trace().step(0, 0, 10**6)
    for number in range(2**15 + 1):
        made.launch(20 * number + 1, 1).kernel(20 * number + 5, 10, name=ALL_REDUCE)
        made._events[-1]["args"] |= {"Process Group Name": str(number), "Process Group Ranks": "[0, 1]"}
    found = collectives(made)
    assert found.group.tolist() == list(range(2**15 + 1))
