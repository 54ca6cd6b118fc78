"""Kernels matched across modes, and the operators that a graph's nodes inherit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.facts import alignment
from launchscope.analysis.facts.alignment import Alignment, align, common_order
from launchscope.analysis.facts.context import Context
from launchscope.analysis.model.trace import Trace
from launchscope.fixtures.builder import trace


def eager(kernels: Sequence[str], steps: int = 3) -> Trace:
    """Steps of 'operator/kernel' each launched in its operator; without 'operator/' in none."""
    builder = trace()
    for step in range(steps):
        builder.annotation(f"step {step}", step * 1000, 900)
        for index, kernel in enumerate(kernels):
            at = step * 1000 + index * 20
            operator, _, name = kernel.rpartition("/")
            if operator:
                builder.op(operator, at, 15)
            builder.launch(at=at + 2, dur=5).kernel(at=at + 9, dur=5, name=name)
    return builder.build()


def graph(kernels: Sequence[str], steps: int = 3) -> Trace:
    builder = trace()
    for step in range(steps):
        builder.annotation(f"step {step}", step * 1000, 900).graph_launch(at=step * 1000 + 2, dur=5)
        for index, name in enumerate(kernels):
            builder.kernel(at=step * 1000 + 20 + index * 10, dur=5, name=name)
    return builder.build()


def aligned(reference: Trace, other: Trace) -> Alignment:
    return align(Context(reference), Context(other))


def is_exact(found: Alignment) -> bool:
    """Both steps run the same ops in the same order."""
    return bool(0 < len(found) == len(found.reference_ops) == len(found.other_ops) and found.by_name.all())


def names(recorded: Trace, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [recorded.name(name) for name in recorded.gpu_ops.name[rows].tolist()]


def test_a_graphs_nodes_are_the_eager_kernels_in_order() -> None:
    reference, other = eager(["aten::mm/gemm", "aten::add/act", "aten::mm/gemm"]), graph(["gemm", "act", "gemm"])
    found = aligned(reference, other)
    assert is_exact(found)
    assert found.operators == {"gemm": "aten::mm", "act": "aten::add"}


def test_a_fused_step_keeps_some_kernels_and_others_came_and_went() -> None:
    reference = eager(["aten::norm/norm", "aten::mm/gemm", "aten::silu/silu", "aten::mul/mul", "aten::mm/gemm"])
    other = graph(["triton_norm", "gemm", "triton_silu_mul", "gemm"])
    found = aligned(reference, other)
    assert not is_exact(found)
    assert names(reference, found.went) == ["norm", "silu", "mul"]
    assert names(other, found.came) == ["triton_norm", "triton_silu_mul"]
    assert [(names(reference, went), names(other, came)) for went, came in found.replacements()] == [
        (["norm"], ["triton_norm"]),
        (["silu", "mul"], ["triton_silu_mul"]),
    ]
    assert found.operators == {"gemm": "aten::mm"}


def test_another_kernel_of_the_same_operator_between_the_same_neighbours() -> None:
    reference = eager(["aten::add/add", "aten::mm/gemm_64", "aten::mul/mul"])
    other = eager(["aten::add/add", "aten::mm/gemm_128", "aten::mul/mul"])
    found = aligned(reference, other)
    assert (found.by_name.tolist(), len(found.went), len(found.came)) == ([True, False, True], 0, 0)
    assert found.operators["gemm_128"] == "aten::mm"


def test_unknown_operators_match_nothing() -> None:
    found = aligned(eager(["a", "b"]), eager(["c", "d"]))
    assert (len(found), found.operators, is_exact(found)) == (0, {}, False)


def test_copies_and_sets_match_whatever_memory_they_name() -> None:
    builders = [trace(), trace()]
    for builder, name in zip(builders, ("Memset (Device)", "Memset (Unknown)"), strict=True):
        builder.annotation("step 0", 0, 50).op("aten::zero_", 0, 10).launch(at=1, dur=2).memset(at=5, dur=1, name=name)
    found = aligned(builders[0].build(), builders[1].build())
    assert is_exact(found)
    assert found.operators == {"Memset (Unknown)": "aten::zero_"}


def test_without_steps_nothing_is_aligned() -> None:
    empty = trace().build()
    found = aligned(eager(["aten::mm/gemm"]), empty)
    assert (len(found), is_exact(found), found.operators) == (0, False, {})


TOKENS = st.lists(st.integers(0, 3), max_size=12)


class TestCommonOrder:
    @given(
        st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12), st.sampled_from([4, 10**6])
    )
    def test_it_is_common_in_order_and_longest(self, left: list[int], right: list[int], cells: int) -> None:
        whole, alignment.MOST_CELLS = alignment.MOST_CELLS, cells  # type: ignore[misc]
        try:
            in_left, in_right = common_order(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))
        finally:
            alignment.MOST_CELLS = whole  # type: ignore[misc]
        assert [left[i] for i in in_left] == [right[j] for j in in_right]
        assert (np.diff(in_left) > 0).all()
        assert (np.diff(in_right) > 0).all()
        assert len(in_left) == longest(left, right)

    def test_a_long_step_against_another(self) -> None:
        rng = np.random.default_rng(0)
        left = rng.integers(40, size=4000)
        right = np.delete(left, rng.choice(4000, size=1500, replace=False))
        in_left, in_right = common_order(left, right)
        assert len(in_right) == 2500
        assert (left[in_left] == right[in_right]).all()

    def test_very_long_steps_are_matched_around_the_diagonal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(alignment, "MOST_WORK", 1_000_000)
        rng = np.random.default_rng(0)
        long = np.tile(rng.integers(25, size=70), 70)
        short = np.delete(long, rng.choice(len(long), size=150, replace=False))
        for left, right in ((long, short), (short, long)):
            in_left, in_right = common_order(left, right)
            assert (left[in_left] == right[in_right]).all()
            assert (np.diff(in_left) > 0).all()
            assert (np.diff(in_right) > 0).all()
            assert len(in_left) > 0.97 * len(short)


def longest(left: list[int], right: list[int]) -> int:
    row = [0] * (len(right) + 1)
    for a in left:
        new = [0]
        for j, b in enumerate(right):
            new.append(row[j] + 1 if a == b else max(row[j + 1], new[j]))
        row = new
    return row[-1]
