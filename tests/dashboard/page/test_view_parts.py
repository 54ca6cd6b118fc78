"""What the parts of the page get of the view."""

from __future__ import annotations

import msgspec
from launchscope.dashboard.page.actions import control_values, only
from launchscope.dashboard.view import View

from ..test_opened_report import demo


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
