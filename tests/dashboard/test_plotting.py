"""Figures on wide pages: pixels grow, data stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launchscope.dashboard import plotting as module
from launchscope.dashboard.page.actions import timelines
from launchscope.dashboard.plotting import MOST, enlarged, scale_of
from launchscope.dashboard.view import View

from .opening import two_modes

DASHBOARD = Path(module.__file__).parent


@pytest.mark.parametrize(("width_px", "scale"), [(300, 1), (1_800, 1), (2_700, 1.5), (3_600, MOST), (8_000, MOST)])
def test_the_scale_of_a_width(width_px: int, scale: float) -> None:
    assert scale_of(width_px) == scale


def test_pixels_grow_and_data_stays() -> None:
    bar = {"type": "bar", "x": [2.0], "width": 3, "marker": {"size": 4, "line": {"width": 1}}, "z": [[1]]}
    layout = {"margin": {"l": 10}, "font": {"size": 12}, "xaxis": {"range": [0, 8]}, "annotations": [{"xshift": 4}]}
    twice = enlarged({"data": [bar], "layout": layout}, 2)
    assert twice["data"] == [bar | {"marker": {"size": 8, "line": {"width": 2}}}]
    assert twice["layout"] == layout | {"margin": {"l": 20}, "font": {"size": 24}, "annotations": [{"xshift": 8}]}


def test_timelines_of_a_wide_page_show_the_same() -> None:
    small, large = (timelines(two_modes(), View(), "light", width) for width in (1_200, 2_700))
    assert small.height_px == large.height_px  # dashboard.css has the scale
    for axis in ("xaxis", "yaxis"):
        assert small.figure["layout"][axis]["range"] == large.figure["layout"][axis]["range"]
    sizes = [each.figure["layout"]["yaxis"]["tickfont"]["size"] for each in (small, large)]
    assert sizes[1] == 1.5 * sizes[0]


def test_the_style_and_the_script_have_the_same_bounds() -> None:
    style = (DASHBOARD / "assets" / "dashboard.css").read_text("utf-8")
    script = (DASHBOARD / "one_file" / "report.js").read_text("utf-8")
    assert re.findall(r"--figure-px: clamp\(1px, 100vw / (\d+), ([\d.]+)px\)", style) == [("1870", str(MOST))]
    assert f"Math.min(Math.max(1, window.innerWidth / 1870), {MOST})" in script
