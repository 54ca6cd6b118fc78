"""What a person does with the ranks, and what of it the address holds."""

from __future__ import annotations

from launchscope.dashboard.opened_report import OpenedReport
from launchscope.dashboard.page.actions import control_values, shown_cells, stores, view_after
from launchscope.dashboard.view import View, from_query, to_query

from ..opening import capture
from .two_ranks import two_ranks


def after(opened: OpenedReport, view: View, **told: object) -> View:
    (name,) = [name for name in told if name in ("heat_click", "heat", "ranks")] or ["rank_a"]
    return view_after(opened, view, name, told, {}, "light")


def click(step: int, rank: int) -> dict[str, object]:
    return {"points": [{"x": f"step {step}", "y": f"rank {rank}"}]}


def test_a_click_shows_that_ranks_timeline_at_that_step() -> None:
    view = after(two_ranks(), View(x=(1.0, 2.0)), heat_click=click(3, 1))
    assert (view.bands, view.step, view.x) == (("rank1",), 2, None)
    assert from_query(to_query(view)) == view
    assert shown_cells(two_ranks(), view) == [(1, 2)]


def test_a_click_on_one_of_two_ranks_leaves_both() -> None:
    view = after(two_ranks(), View(bands=("rank1", "rank0")), heat_click=click(2, 0))
    assert (view.bands, view.step) == (("rank1", "rank0"), 1)


def test_two_ranks_side_by_side() -> None:
    view = after(two_ranks(), View(step=2), rank_a="rank1", rank_b="rank0")
    assert (view.bands, view.step) == (("rank1", "rank0"), 2)
    assert after(two_ranks(), view, rank_a="rank1", rank_b=None).bands == ("rank1",)
    assert after(two_ranks(), view, rank_a="rank1", rank_b="rank1").bands == ("rank1",)
    shown = control_values(two_ranks(), view)
    assert (shown["rank_a"], shown["rank_b"]) == ("rank1", "rank0")


def test_the_colours_are_in_the_address() -> None:
    view = after(two_ranks(), View(), heat="waiting")
    assert "heat=waiting" in to_query(view)
    assert from_query(to_query(view)) == view
    assert after(two_ranks(), view, ranks="traces").ranks == ""


def test_a_page_of_one_rank_has_none_of_it() -> None:
    assert after(capture(), View(), heat="busy") == View()
    assert not {"heat", "ranks", "rank_a", "rank_b"} & control_values(capture(), View()).keys()
    assert "ranks-view" not in stores(View())
