"""What each event makes of the view: pure functions, on the demo capture."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from launchscope.dashboard.callbacks import (
    clicked,
    control_values,
    only,
    pressed,
    show_op,
    shown_bands,
    stepped,
    zoomed,
)
from launchscope.dashboard.tables import TABLES, table
from launchscope.dashboard.view import View

from .test_opened import demo


def test_a_zoom_is_the_range_that_the_page_reports() -> None:
    assert zoomed(View(), {"xaxis.range[0]": 5, "xaxis.range[1]": 9.5}) == (5.0, 9.5)
    assert zoomed(View(), {"xaxis.range": [5, 9.5]}) == (5.0, 9.5)
    assert zoomed(View(x=(1, 2)), {"xaxis.autorange": True}) is None


@pytest.mark.parametrize("relayout", [{}, {"autosize": True}, {"dragmode": "zoom"}, {"xaxis.range[0]": 5}])
def test_any_other_change_of_the_figure_leaves_the_view(relayout: dict[str, Any]) -> None:
    assert zoomed(View(x=(1, 2)), relayout) == (1, 2)


def test_keys_zoom_about_the_middle_and_pan_by_a_quarter() -> None:
    view = View(x=(100, 200))
    assert pressed(demo(), view, "w").x == (125, 175)
    assert pressed(demo(), view, "s").x == (50, 250)
    assert pressed(demo(), view, "d").x == (125, 225)
    assert pressed(demo(), view, "a").x == (75, 175)
    assert pressed(demo(), view, "f").x is None
    assert pressed(demo(), view, "q") == view


def test_the_first_zoom_starts_from_the_whole_step() -> None:
    whole = max(end - start for band in shown_bands(demo(), View()) for start, end in band.step_windows[:1]) / 1000
    zoomed_in = pressed(demo(), View(), "w").x
    assert zoomed_in is not None
    assert zoomed_in[1] - zoomed_in[0] == pytest.approx(whole * 1.04 / 2)


def test_steps_end_where_there_are_no_more() -> None:
    last = max(len(band.step_windows) for band in shown_bands(demo(), View())) - 1
    assert stepped(demo(), View(), -1).step == 0
    assert stepped(demo(), View(x=(1, 2)), 1) == View(step=1)
    assert stepped(demo(), View(step=last), 1).step == last


def click(*custom: Any) -> dict[str, Any]:
    return {"points": [{"customdata": list(custom)}]}


def test_a_click_selects_the_gpu_op_that_it_means() -> None:
    band = demo().band("eager")
    assert band is not None
    assert band.device is not None
    assert clicked(demo(), click("eager", "gpu_op", 7)) == ("eager", 7)
    launched = int(band.analysis.launch_times.first_op[9])
    assert clicked(demo(), click("eager", "launch", 9)) == ("eager", launched)
    assert clicked(demo(), click("eager", "gap", 3)) == ("eager", int(band.analysis.gaps[band.device].next_op[3]))


@pytest.mark.parametrize(
    "event", [None, {}, {"points": []}, click(), click("none", "gpu_op", 1), click("eager", "x", 1)]
)
def test_a_click_beside_everything_selects_nothing(event: dict[str, Any] | None) -> None:
    assert clicked(demo(), event) is None


def test_every_row_of_every_table_that_names_an_op_can_be_shown() -> None:
    bands = shown_bands(demo(), View())
    for name in TABLES:
        for row in table(name, demo(), bands).rows[:40]:
            view = show_op(demo(), View(), str(row["id"]))
            if row["op"] is None:
                assert view == View()
            else:
                assert view.selected == (row["band"], row["op"])
                assert view.x is not None
                band = demo().band(str(row["band"]))
                assert band is not None
                start = (int(band.analysis.trace.gpu_ops.start_ns[row["op"]]) - band.step_windows[view.step][0]) / 1000
                assert view.x[0] < start < view.x[1]


@pytest.mark.parametrize("row", [None, "", "eager", "eager||1", "eager|x|1", "none|1|1", "eager|99999999|1"])
def test_a_row_that_names_no_op_leaves_the_view(row: str | None) -> None:
    assert show_op(demo(), View(step=2), row) == View(step=2)


def test_controls_show_the_view() -> None:
    view = View(bands=("graph", "gone"), align="step", overlays=("idle",), compare=("eager", "graph"), search="gemm")
    shown = control_values(demo(), view)
    assert shown["bands"] == ["graph"]
    assert (shown["align"], shown["overlays"], shown["search"]) == ("step", ["idle"], "gemm")
    assert (shown["compare_a"], shown["compare_b"]) == ("eager", "graph")
    assert control_values(demo(), View())["bands"] == list(demo().first)


def test_a_part_of_the_page_sees_its_own_part_of_the_view() -> None:
    view = View(step=3, knobs={"tau": 2.0}, theme="dark")
    assert only(view, ("knobs", "theme")) == msgspec.structs.replace(view, step=0)
