"""The heat map: what a cell stands for, and where the colours end."""

from __future__ import annotations

import numpy as np
from launchscope.dashboard.plotting import DARK, LIGHT
from launchscope.dashboard.rank_heat import Heat, cell_at, cells, color_range, heat_figure, heat_words

MS = 1e6


def heat(values: list[list[float | None]]) -> Heat:
    array = np.array(values, dtype=np.float64) * MS
    return Heat("step period", [f"rank {n}" for n in range(len(values))], list(range(1, array.shape[1] + 1)), array)


def click(x: str, y: str) -> dict[str, object]:
    return {"points": [{"x": x, "y": y}]}


def test_with_room_each_step_of_each_rank_has_a_cell() -> None:
    (drawn,) = heat_figure(heat([[1, 2, None], [3, 4, 5]]), LIGHT, 1_200)["data"]
    assert drawn["z"] == [[1.0, 2.0, None], [3.0, 4.0, 5.0]]
    assert (drawn["x"], drawn["y"]) == (["step 1", "step 2", "step 3"], ["rank 0", "rank 1"])


def test_without_room_a_cell_is_the_longest_of_its_steps_and_ranks() -> None:
    whole = heat([[1, 2, 9, 1, 1], [1, 7, 1, 1, None], [1, 1, 1, 1, 3]])
    drawn = cells(whole, most_rows=2, most_columns=3)
    np.testing.assert_array_equal(drawn.values / MS, [[7, 9, 1], [1, 1, 3]])
    assert (drawn.row.tolist(), drawn.step.tolist()) == ([[1, 0, 0], [2, 2, 2]], [[1, 2, 4], [0, 2, 4]])
    assert drawn.row_labels == ["rank 0 … rank 1", "rank 2"]
    assert drawn.step_labels == ["steps 1–2", "steps 3–4", "step 5"]


def test_a_click_is_on_the_rank_and_step_of_its_cell() -> None:
    whole = heat([[1, 2, None], [3, 4, 5]])
    assert cell_at(whole, click("step 2", "rank 1")) == (1, 1)
    assert cell_at(whole, click("step 3", "rank 0")) is None
    assert cell_at(whole, click("step 9", "rank 0")) is None
    assert cell_at(whole, None) is None


def test_noise_of_a_per_cent_is_not_stretched_to_all_colours() -> None:
    low, high = color_range(np.array([[10.0, 10.1]]) * MS) or (0, 0)
    np.testing.assert_allclose((low / MS, high / MS), (10.05 * 0.95, 10.05 * 1.05))


def test_a_few_far_out_take_the_colour_of_the_end_and_are_counted() -> None:
    values: list[float | None] = [10.0 + n % 5 for n in range(200)]
    values[7] = 1_000.0
    whole = heat([values])
    low, high = color_range(whole.values) or (0, 0)
    assert (low / MS, high / MS) == (10.0, 14.0)
    assert heat_words(whole, 1_200) == ["1 cell over 14.0 ms in the colour of the scale's end."]


def test_nothing_known_is_said() -> None:
    figure = heat_figure(heat([[None], [None]]), DARK, 1_200)
    assert figure["layout"]["annotations"][0]["text"] == "no step period is known"


def test_what_is_shown_elsewhere_is_outlined() -> None:
    (shape,) = heat_figure(heat([[1, 2], [3, 4]]), LIGHT, 1_200, [(1, 0)])["layout"]["shapes"]
    assert (shape["x0"], shape["x1"], shape["y0"], shape["y1"]) == (-0.5, 0.5, 0.5, 1.5)


def test_256_ranks_of_1000_steps_are_few_enough_cells() -> None:
    many = Heat("step period", [f"rank {n}" for n in range(256)], list(range(1_000)), np.full((256, 1_000), 2 * MS))
    (drawn,) = heat_figure(many, LIGHT, 1_200)["data"]
    assert (len(drawn["z"]), len(drawn["z"][0])) == (256, 500)
    assert heat_words(many, 1_200) == ["A cell is the longest of 2 steps."]
