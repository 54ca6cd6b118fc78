"""Tables that fit a width: what is left out, and names that lose a part."""

from __future__ import annotations

import pytest
from launchscope.analysis.render.table_layout import fold, told_apart
from launchscope.analysis.story import Column, Row, Table
from rich.cells import cell_len

NAMES = (
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt",
    "triton_red_fused__to_copy__unsafe_view_add_mean_mul_pow_rsqrt",
    "triton_red_fused__to_copy__unsafe_view_add_embedding_mean_mul_pow_rsqrt",
    "aten::add",
)


@pytest.mark.parametrize("width", [12, 20, 32, 80])
def test_names_that_lose_a_part_stay_apart(width: int) -> None:
    short = told_apart(NAMES, width)
    assert len(set(short.values())) == len(NAMES)
    assert all(cell_len(text) <= width for text in short.values())
    assert short["aten::add"] == "aten::add"


def test_names_lose_their_middle_where_that_tells_them_apart() -> None:
    assert told_apart(["gemm_of_something_64", "conv_of_something_64"], 11) == {
        "gemm_of_something_64": "gemm_…ng_64",
        "conv_of_something_64": "conv_…ng_64",
    }


@pytest.mark.parametrize(("width", "told"), [(26, [0, 1, 2, 3]), (25, [0, 1, 3]), (12, [0, 3])])
def test_spare_columns_are_left_out_where_there_is_no_room(width: int, told: list[int]) -> None:
    """Four columns of 5, and two blanks between them."""
    spare = [Column("each ", rank=1, spare=True), Column("steps", rank=2, spare=True)]
    table = Table([Column("name "), *spare, Column("total")], [Row(["a", "b", "c", "d"])])
    assert [list(block.columns) for block in fold(table, width)] == [told]
