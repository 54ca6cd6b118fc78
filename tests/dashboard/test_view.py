"""The page's state in its URL: it survives the way there and back, and no URL breaks the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.dashboard.view import View, from_query, to_query

KEYS = st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True)
NUMBERS = st.floats(-1e9, 1e9).map(lambda x: float(f"{x:.9g}"))
RANGES = st.tuples(NUMBERS, NUMBERS).filter(lambda x: x[0] < x[1])
VIEWS = st.builds(
    View,
    bands=st.lists(KEYS, unique=True, max_size=4).map(tuple),
    step=st.integers(0, 10**6),
    x=st.none() | RANGES,
    align=st.sampled_from(["time", "step"]),
    search=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    selected=st.none() | st.tuples(KEYS, st.integers(0, 10**9)),
    overlays=st.sampled_from([(), ("queue",), ("idle",), ("queue", "idle")]),
    compare=st.tuples(st.just("") | KEYS, st.just("") | KEYS),
    knobs=st.dictionaries(st.sampled_from(["tau", "bandwidth", "batch"]), st.sampled_from([0.5, 2.0, 16.0])),
    theme=st.sampled_from([None, "light", "dark"]),
)


@given(VIEWS)
def test_a_view_comes_back_from_its_url(view: View) -> None:
    assert from_query(to_query(view)) == view


@given(st.text() | st.text("bandstepx=&,%+-.e019", min_size=1))
def test_any_query_gives_a_view(query: str) -> None:
    view = from_query(query)
    assert from_query(to_query(view)) == view


def test_the_first_view_has_no_query() -> None:
    assert to_query(View()) == ""


@pytest.mark.parametrize(
    "query",
    [
        "?step=-1",
        "?step=x",
        "?x=5,5",
        "?x=nan,inf",
        "?x=9,1",
        "?op=eager",
        "?op=a,b",
        "?tau=-2",
        "?tau=0",
        "?theme=pink",
    ],
)
def test_a_part_that_cannot_be_is_left_at_its_default(query: str) -> None:
    assert from_query(query) == View()
