"""Ranks in a real browser: two of them on two GPUs, and a page of many of which each can be opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from launchscope.fixtures.builder import trace
from playwright.sync_api import expect

from .conftest import CAPTURES, opening, serious_findings, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from .conftest import Open

expect.set_options(timeout=30_000)
HEAT: Final = "#heat .hm image"
RANKS: Final = 5


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[str]:
    """Where two recordings of two H200s are served."""
    with served(*(CAPTURES / "ranks" / f"eager-cuda-rank{rank}.json.gz" for rank in (0, 1))) as address:
        yield address


@pytest.fixture
def open_two(chromium: Browser, two_ranks: str) -> Iterator[Open]:
    with opening(chromium, two_ranks, HEAT) as open_it:
        yield open_it


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where five ranks are served, the last of which runs two kernels a step, not one."""
    folder = tmp_path_factory.mktemp("ranks")
    for rank in range(RANKS):
        builder = trace()
        for number in range(4):
            at = 100 * number
            builder.step(number, at, 95).launch(at, 5).kernel(at + 10, 40)
            if rank == RANKS - 1:
                builder.launch(at + 10, 5).kernel(at + 50, 40)
        builder.write(folder / f"rank{rank}.json")
    with served(folder, "--ranks") as address:
        yield address


@pytest.fixture
def open_many(chromium: Browser, many: str) -> Iterator[Open]:
    with opening(chromium, many, HEAT) as open_it:
        yield open_it


def click_cell(page: Page, across: float, down: float) -> None:
    """Click on the heat map at these shares of its width and height."""
    box = page.locator("#heat .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * down)


def test_a_cell_shows_its_rank_at_its_step_and_two_stand_side_by_side(open_two: Open) -> None:
    page = open_two()
    click_cell(page, 0.3, 0.75)
    page.wait_for_url(re.compile(r"bands=rank1&step=1$"))
    expect(page.locator("#step-label")).to_have_text(re.compile("^step 2 of"))
    expect(page.locator("#timeline .annotation")).to_contain_text(["rank 1"])
    page.locator("#rank-b").click()
    page.get_by_role("option", name="rank 0").click()
    page.wait_for_url(re.compile(r"bands=rank1,rank0&step=1$"))
    page.get_by_label("one clock for all ranks").check()
    page.wait_for_url(re.compile(r"align=clock"))
    expect(page.locator("#timeline .xtitle")).to_have_text("µs since the first rank's first GPU op of the step")
    page.get_by_label("waiting in collectives per step").check()
    page.wait_for_url(re.compile(r"heat=waiting"))
    page.go_back()
    expect(page.get_by_label("step period")).to_be_checked()


def test_no_serious_finding_of_axe_on_a_page_of_ranks(open_two: Open) -> None:
    assert not serious_findings(open_two(dark=True))


def test_many_ranks_are_sorted_and_each_can_be_opened(open_many: Open) -> None:
    page = open_many("?theme=dark")
    expect(page.locator(".sentence")).to_have_text("1 of 5 ranks stands out: rank 4")
    expect(page.locator("#grid .ag-center-cols-container .ag-row")).to_have_count(RANKS)
    page.locator("#sort").click()
    page.get_by_role("option", name="GPU work W").click()
    page.wait_for_url(re.compile("sort=busy_ns"))
    expect(page.locator("#heat g.ytick").first).to_have_text("rank 4")
    click_cell(page, 0.6, 0.1)
    page.wait_for_url(re.compile(r"/rows/4/\?step=2&theme=dark$"))
    page.wait_for_selector("#timeline .barlayer", state="attached")
    expect(page.locator("#step-label")).to_have_text("step 3 of 4")
    page.get_by_role("link", name="all ranks").click()
    page.wait_for_selector(HEAT, state="attached")
    page.locator("#rank-b").click()
    page.get_by_role("option", name="rank 2").click()
    expect(page.locator("#open-rank")).to_have_attribute("href", re.compile("^/rows/0-2/"))
    page.get_by_role("link", name="open", exact=True).first.click()
    page.wait_for_selector("#timeline .barlayer", state="attached")
    expect(page.locator(".card h2")).to_have_text(["rank 0", "rank 2"])


def test_no_serious_finding_of_axe_on_a_page_of_many(open_many: Open) -> None:
    assert not serious_findings(open_many(width=390))
