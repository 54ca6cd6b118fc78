"""The user's own line of a stack: of one stack by its frames, of many by the names that they share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.names import users_line, users_lines
from launchscope.analysis.model.trace import NONE

NAMES = (
    "aten::mul",
    "model.py(42): forward",
    "torch/nn/modules/module.py(1773): _call_impl",
    "<built-in function linear>",
    "site-packages/vllm/worker.py(7): execute",
    "serve.py(3): main",
)


def test_the_innermost_frame_of_the_users_files_else_the_innermost() -> None:
    stacks = [(), (0,), (5, 1, 2, 0), (2, 4, 0), (1, 5, 3), (0, 2)]
    assert users_lines(stacks, NAMES).tolist() == [NONE, NONE, 1, 4, 5, 2]


def test_no_stack_at_all() -> None:
    assert users_lines([], NAMES).tolist() == []


@given(st.lists(st.lists(st.integers(0, len(NAMES) - 1), max_size=6), max_size=6))
def test_many_stacks_are_told_as_each_is(stacks: list[list[int]]) -> None:
    each = [users_line([NAMES[name] for name in stack]) for stack in stacks]
    assert [None if line == NONE else NAMES[line] for line in users_lines(stacks, NAMES).tolist()] == each
