"""Whatever the ranks did: communication adds up, read literally µs by µs, and nothing is negative."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.facts.ranks.matching import match
from launchscope.analysis.facts.ranks.waiting import arrivals, clock_offsets, launch_skews_ns, waits_of
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.trace import NONE
from launchscope.analysis.profile.rank_documents import put_together, traces_document
from launchscope.fixtures.builder import TraceBuilder, trace

from ....cases import NAMED_CASES
from .ranks_by_hand import ALL_GATHER, ALL_REDUCE, BROADCAST, analysed, collectives

US = 1000
NAMES = ("kernel", ALL_REDUCE, ALL_GATHER, BROADCAST)

ops = st.tuples(st.integers(0, 80), st.integers(0, 40), st.sampled_from(NAMES), st.sampled_from((7, 20)))
steps = st.lists(st.lists(ops, max_size=5), min_size=1, max_size=4)


def made_of(its_steps: list[list[tuple[int, int, str, int]]], rank: int = 0) -> TraceBuilder:
    """Steps 200 µs apart of a kernel of 1 µs and these ops."""
    builder = trace(device_names={rank: "Test GPU"}).header(distributedInfo={"rank": rank, "world_size": 2})
    for number, own in enumerate(its_steps):
        at = 200 * number + 50
        builder.step(number, at - 20, 150).launch(at - 10, 1).kernel(at, 1, device=rank)
        for start, dur, name, stream in own:
            builder.launch(at - 8, 1).kernel(at + start, dur, name=name, stream=stream, device=rank)
    return builder


@settings(max_examples=60, deadline=None)
@given(steps)
def test_exposed_and_hidden_are_the_union_read_literally(its_steps: list[list[tuple[int, int, str, int]]]) -> None:
    found = analysed(made_of(its_steps))
    grid = np.zeros((2, 200 * len(its_steps) + 200), np.bool_)  # busy with a collective, and with another op, µs by µs
    for number, own in enumerate(its_steps):
        at = 200 * number + 50
        grid[1, at] = True
        for start, dur, name, _ in own:
            if name == "kernel" or found.context.steps.kept[number]:  # a first step with more launches is a warm-up
                grid[int(name == "kernel"), at + start : at + start + dur] = True
    exposed, hidden = ((grid[0] & ~grid[1]).sum(), (grid[0] & grid[1]).sum())
    assert found.context.collectives.exposed_ns.sum() == exposed * US
    assert found.context.collectives.step_hidden_ns.sum() == hidden * US


@settings(max_examples=50, deadline=None)
@given(st.lists(steps, min_size=2, max_size=3))
def test_transfer_and_waiting_add_up(of_ranks: list[list[list[tuple[int, int, str, int]]]]) -> None:
    ranks = [collectives(made_of(own, rank)) for rank, own in enumerate(of_ranks)]
    matching = match(ranks)
    for rank, waits in zip(ranks, waits_of(matching), strict=True):
        known = waits.transfer_ns != NONE
        assert (waits.transfer_ns + waits.waiting_ns == rank.dur_ns)[known].all()
        assert (waits.waiting_ns[known] >= 0).all()
        assert (waits.exposed_waiting_ns >= 0).all()
        assert (waits.exposed_waiting_ns + waits.unsplit_ns <= rank.exposed_ns).all()
        assert not waits.unsplit_ns[waits.split].any()
    for own in arrivals(matching):
        assert (own.last <= own.of).all()
    assert sum(own.last.sum() for own in arrivals(matching)) <= sum(len(group.step) for group in matching.groups)
    offsets = [None if offset is None else offset.offset_ns for offset in clock_offsets(matching)]
    assert (launch_skews_ns(matching, offsets) >= 0).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(steps, min_size=2, max_size=3))
def test_documents_of_any_ranks(of_ranks: list[list[list[tuple[int, int, str, int]]]]) -> None:
    together = put_together([analysed(made_of(own, rank)) for rank, own in enumerate(of_ranks)], [None] * len(of_ranks))
    document = traces_document(together)
    msgspec.json.encode(document)
    for rank, analysis in zip(document.ranks, together.analyses, strict=True):
        assert rank.gpu_work_ns is not None
        if (
            rank.gpu_work_without_waiting_ns is not None
            and analysis.context.waits is not None
            and analysis.context.waits.split.all()
        ):
            assert rank.gpu_work_without_waiting_ns <= rank.gpu_work_ns
        communication = analysis.document.communication
        if communication is not None and communication.waiting_ns is None:
            assert communication.reason
            assert "communication.waiting_ns" in analysis.document.withheld


@pytest.mark.parametrize("name", NAMED_CASES)
def test_every_named_case_beside_itself(name: str) -> None:
    """None has a collective: nothing is matched, and nothing fails."""
    found = [analyze_trace(NAMED_CASES[name]().build(), name=str(rank)) for rank in range(2)]
    together = put_together(found, [None, None])
    assert together.matching.groups == ()
    assert together.alignment == "none"
    assert [a.document for a in together.analyses] == [a.document for a in found]
