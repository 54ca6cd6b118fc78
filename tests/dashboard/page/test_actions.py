"""What a person's moves make of the view: pure functions, on the demo capture."""

from __future__ import annotations

from typing import Any

import pytest
from launchscope.dashboard.page.actions import (
    clicked,
    follow_op,
    op_of_row,
    pressed,
    show_op,
    shown_bands,
    stepped,
    view_after,
    zoomed,
)
from launchscope.dashboard.page.tables import TABLES, table
from launchscope.dashboard.view import View

from ..test_opened_report import demo


def test_a_zoom_is_the_range_that_the_page_reports() -> None:
    assert zoomed(View(step=2), [5, 9.5]) == View(step=2, x=(5.0, 9.5))
    for nothing in (None, [], [5], [9, 5], [5, 5]):
        assert zoomed(View(x=(1, 2)), nothing) == View(x=(1, 2))


def test_keys_that_the_server_answers() -> None:
    view = View(x=(100, 200), selected=("eager", 7))
    assert pressed(demo(), view, "f") == View(selected=("eager", 7))
    assert pressed(demo(), view, "]") == View(step=1, selected=("eager", 7))
    assert pressed(demo(), view, "Escape") == View(x=(100, 200))
    assert pressed(demo(), view, "q") == view
    assert pressed(demo(), view, [5, 9.5]) == View(x=(5, 9.5), selected=("eager", 7))


def test_steps_end_where_there_are_no_more() -> None:
    last = max(len(band.step_windows) for band in shown_bands(demo(), View())) - 1
    assert stepped(demo(), View(), -1).step == 0
    assert stepped(demo(), View(x=(1, 2)), 1) == View(step=1)
    assert stepped(demo(), View(step=last), 1).step == last


def test_clicks_and_keys_that_came_before_an_answer_all_count() -> None:
    told = {"next": 5, "previous": None, "theme": 4, "keys": {"pressed": ["]", "[", "]", "]"], "count": 30}}
    answered = {"next": 2, "theme": 2, "keys": {"pressed": ["]"], "count": 28}}
    for name, view in {
        "next": View(step=3),
        "previous": View(),
        "theme": View(),  # there and back
        "keys": View(step=2),
    }.items():
        assert view_after(demo(), View(), name, told, answered, "light") == view, name
    in_order = {"keys": {"pressed": [[1, 3], "]", [2, 3], "]", [4, 5], "Escape"], "count": 6}}
    assert view_after(demo(), View(selected=("eager", 7)), "keys", in_order, {}, None) == View(step=2, x=(4, 5))
    assert view_after(demo(), View(), "theme", {"theme": 1}, {}, "dark") == View(theme="light")
    assert view_after(demo(), View(), "keys", {"keys": None}, {}, "light") == View()


def test_of_a_comparison_one_side_can_be_chosen_before_the_other() -> None:
    first = view_after(demo(), View(), "compare_b", {"compare_a": None, "compare_b": "graph"}, {}, None)
    assert first == View(compare=("", "graph"))
    assert view_after(demo(), first, "compare_b", {"compare_a": None, "compare_b": None}, {}, None) == View()


def click(*custom: Any) -> dict[str, Any]:
    return {"points": [{"customdata": list(custom)}]}


def test_a_click_selects_the_gpu_op_that_it_means() -> None:
    band = demo().band("eager")
    assert band is not None
    assert band.device is not None
    assert clicked(demo(), click("eager", "gpu_op", 7)) == ("eager", 7)
    launched = int(band.analysis.context.launch_times.first_op[9])
    assert clicked(demo(), click("eager", "launch", 9)) == ("eager", launched)
    assert clicked(demo(), click("eager", "gap", 3)) == (
        "eager",
        int(band.analysis.context.gaps[band.device].next_op[3]),
    )


@pytest.mark.parametrize(
    "event", [None, {}, {"points": []}, click(), click("none", "gpu_op", 1), click("eager", "x", 1)]
)
def test_a_click_beside_everything_selects_nothing(event: dict[str, Any] | None) -> None:
    assert clicked(demo(), event) is None


def test_every_row_of_every_table_that_names_an_op_can_be_shown() -> None:
    bands = shown_bands(demo(), View())
    for name in TABLES:
        for row in table(name, demo(), bands).rows[:40]:
            view = show_op(demo(), View(), op_of_row(str(row["id"])))
            if row["op"] is None:
                assert view == View()
            else:
                assert view.selected == (row["band"], row["op"])
                assert view.x is not None
                band = demo().band(str(row["band"]))
                assert band is not None
                start = (
                    int(band.analysis.context.trace.gpu_ops.start_ns[row["op"]]) - band.step_windows[view.step][0]
                ) / 1000
                assert view.x[0] < start < view.x[1]


@pytest.mark.parametrize("row", [None, "", "eager", "eager||1", "eager|x|1", "none|1|1", "eager|99999999|1"])
def test_a_row_that_names_no_op_leaves_the_view(row: str | None) -> None:
    assert show_op(demo(), View(step=2), op_of_row(row)) == View(step=2)


def test_an_op_in_view_is_followed_without_moving() -> None:
    shown = show_op(demo(), View(), ("eager", 1100))
    assert follow_op(demo(), shown, ("eager", 1100)) == shown
    wide = View(step=shown.step)
    assert follow_op(demo(), wide, ("eager", 1100)) == View(step=shown.step, selected=("eager", 1100))
    stretched = View(step=shown.step, align="step", x=(0.0, 1.0))
    assert follow_op(demo(), stretched, ("eager", 1100)).x == (0.0, 1.0)
    assert follow_op(demo(), View(step=shown.step, x=(-20.0, -10.0)), ("eager", 1100)) == shown
    assert follow_op(demo(), View(step=shown.step + 1), ("eager", 1100)) == shown
    assert follow_op(demo(), wide, ("gone", 1)) == wide
