"""The charts show the document's figures, say what they are, and withhold with a reason."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.devices import headline_gaps
from launchscope.analysis.model.document import TAX_FIELDS, ModeDoc
from launchscope.analysis.report import Report
from launchscope.dashboard.charts.bound_chart import bound_figure, chart_rem
from launchscope.dashboard.charts.durations_chart import durations_figure, log_bins
from launchscope.dashboard.charts.idle_chart import idle_figure
from launchscope.dashboard.opened_report import OpenedReport, open_bands
from launchscope.dashboard.plotting import DARK, LIGHT, Figure, Theme, clipped, log_ticks, tick_words
from launchscope.fixtures.builder import trace

from ...cases import NAMED_CASES
from ..opening import built, capture, case, two_modes

US = 1e3
FIGURES = (idle_figure, durations_figure, bound_figure)


def words(figure: Figure) -> list[str]:
    """Every text of a figure."""
    layout = figure["layout"]
    hover = [text for each in figure["data"] for text in each.get("hovertext", ())]
    rows = [each["text"].replace("<br>", " ") for each in layout.get("annotations", ())]
    return [layout["title"]["text"], *rows, *hover]


def by_row(figure: Figure) -> dict[int, dict[str, float]]:
    """Row from the top → part → µs, of stacked bars."""
    rows: dict[int, dict[str, float]] = defaultdict(dict)
    for bar in figure["data"]:
        for x, y in zip(bar["x"], bar["y"], strict=True):
            rows[round(-y - 0.14)][bar["name"]] = x
    return rows


def marks(figure: Figure) -> dict[str, list[float]]:
    """Name of a mark → its times in µs, from the top."""
    return {each["name"]: each["x"] for each in figure["data"] if each["mode"] == "markers"}


def mode_of(opened: OpenedReport, name: str) -> ModeDoc:
    assert opened.report.document.profile is not None
    return opened.report.document.profile.modes[name]


def changed(opened: OpenedReport, name: str, **figures: Any) -> OpenedReport:
    """The same with other figures of one mode."""
    document = opened.report.document
    assert document.profile is not None
    mode = msgspec.structs.replace(document.profile.modes[name], **figures)
    profile = msgspec.structs.replace(document.profile, modes={**document.profile.modes, name: mode})
    return open_bands(Report(msgspec.structs.replace(document, profile=profile), opened.report.analyses))


def test_the_bars_of_a_mode_are_its_taxes_and_add_up_to_t_minus_w() -> None:
    eager, graph = by_row(idle_figure(two_modes(), LIGHT)).values()
    assert sum(eager.values()) == pytest.approx(300 - 40)
    assert sum(graph.values()) == pytest.approx(50 - 40)
    assert "T − W of the unprofiled step" in words(idle_figure(two_modes(), LIGHT))[0]


def test_the_bars_of_the_recorded_capture_equal_the_documents_figures() -> None:
    document = capture().report.document
    assert document.profile is not None
    rows = by_row(idle_figure(capture(), DARK))
    for row, mode in zip(range(4), document.profile.modes.values(), strict=True):
        assert mode.exposed_idle_ns is not None
        assert sum(rows[row].values()) * US == pytest.approx(mode.exposed_idle_ns)
        shown = {round(ns / US, 6) for field in TAX_FIELDS.values() if (ns := getattr(mode, field))}
        assert {round(value, 6) for value in rows[row].values()} == shown


def test_the_causes_of_a_profiles_recordings_are_named_as_recorded() -> None:
    figure = idle_figure(capture(), LIGHT, split="cause")
    assert "as recorded, under the profiler" in words(figure)[0]
    rows = by_row(figure)
    for place, key in enumerate(capture().first):
        band = capture().band(key)
        assert band is not None
        document = band.analysis.document
        found = headline_gaps(document)
        assert found is not None
        assert document.steps is not None
        assert document.steps.period_ns is not None
        assert sum(rows[place].values()) * US == pytest.approx(found[0].total_ns / document.steps.period_ns.count)


def test_a_bare_trace_shows_idle_by_cause_of_a_step() -> None:
    def make() -> Any:
        builder = trace()
        for step in range(4):  # GPU ops of 20 µs every 100: 80 idle, the call ends 2 µs before the op starts
            builder.step(step, 100 * step, 95).launch(100 * step, 6).kernel(100 * step + 8, 20)
        return builder

    opened = built(make)
    assert opened is not None
    assert by_row(idle_figure(opened, LIGHT))[0] == {"host": 72.0, "launch": 6.0, "dispatch": 2.0}
    assert any("between steps 90 %" in text for text in words(idle_figure(opened, LIGHT)))


def test_what_is_withheld_is_absent_and_says_why() -> None:
    taxes: dict[str, Any] = dict.fromkeys(TAX_FIELDS.values())
    withheld = {"launch_tax_ns": "below resolution: <T − W> is small", "bound": "needs T and W"}
    opened = changed(two_modes(), "graph", **taxes, withheld=withheld, bound=None)
    assert list(by_row(idle_figure(opened, LIGHT))) == [0]
    assert any("below resolution: &lt;T − W&gt; is small" in text for text in words(idle_figure(opened, LIGHT)))
    figure = bound_figure(opened, LIGHT)
    assert marks(figure)["max(W, N·τ)"] == [280.0]
    assert any("no bound: needs T and W" in text for text in words(figure))


def test_a_mode_that_failed_has_a_row_with_its_error() -> None:
    opened = changed(two_modes(), "graph", step_ns=None, exposed_idle_ns=None, error="capture failed", withheld={})
    for text in (words(idle_figure(changed(opened, "graph", **dict.fromkeys(TAX_FIELDS.values())), LIGHT)),):
        assert any("graph" in line and "capture failed" in line for line in text)
    assert marks(bound_figure(opened, LIGHT))["measured T"] == [300.0]
    assert any("not timed: capture failed" in text for text in words(bound_figure(opened, LIGHT)))


def test_the_bound_by_hand() -> None:
    figure = bound_figure(two_modes(), LIGHT)
    assert marks(figure) == {
        "measured T": [300.0, 50.0],
        "GPU work W": [40.0, 40.0],
        "floor": [20.0, 20.0],
        "max(W, N·τ)": [280.0, 40.0],
        "W + N·τ": [320.0, 50.0],
        "predicted as one graph": [pytest.approx(42.4), pytest.approx(42.4)],
    }
    step = next(each for each in figure["data"] if each["name"] == "measured T")
    assert step["error_x"]["arrayminus"][0] == pytest.approx(300 - (mode_of(two_modes(), "eager").step_ns.ci_low / US))  # type: ignore[operator,union-attr]


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_what_is_predicted_is_hollow_and_what_is_measured_is_not(theme: Theme) -> None:
    for each in bound_figure(two_modes(), theme)["data"]:
        if each["mode"] == "markers":
            is_measured = each["name"] in ("measured T", "GPU work W")
            assert each["marker"]["symbol"].endswith("-open") is not is_measured
            assert each["marker"]["color"] == (theme.measured if is_measured else theme.predicted)
        else:
            assert each["line"]["dash"] == "dot"


def test_left_of_tau_is_exactly_what_the_document_says_is_shorter() -> None:
    figure = durations_figure(capture(), LIGHT)
    bars = [each for each in figure["data"] if each["type"] == "bar"]
    lines = [each for each in figure["data"] if each["type"] == "scatter"]
    assert len(lines) == 2  # eager and fused; replayed kernels need no launch
    for line, key in zip(lines, ("eager", "fused"), strict=True):
        band = capture().band(key)
        assert band is not None
        short = band.analysis.document.short_kernels
        assert short.tau_ns is not None
        assert short.below_tau is not None
        assert 10 ** line["x"][0] == pytest.approx(short.tau_ns)
        own = [each for each in bars if each["name"] == key]
        below = sum(sum(each["customdata"]) for each in own if "pattern" in each["marker"])
        assert below == pytest.approx(short.below_tau.by_count)
        assert sum(sum(each["customdata"]) for each in own) == pytest.approx(1)
    assert any("host time per launch" in text for text in words(figure))
    assert any("graph" in text and "no launch per kernel" in text for text in words(figure))


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**9), min_size=1), st.floats(1, 1e8))
def test_every_duration_is_in_a_bin_and_tau_parts_them(durations: list[int], tau: float) -> None:
    edges, counts = log_bins(np.array(durations), tau)
    assert (np.diff(edges) > 0).all()
    assert counts.sum() == len(durations)
    assert counts[edges[1:] <= tau * (1 + 1e-12)].sum() == sum(each < tau for each in durations)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("name", NAMED_CASES)
def test_every_case_is_drawn_or_says_why_not(name: str, figure: Any) -> None:
    opened = case(name)
    if opened is not None:
        drawn = figure(opened, DARK)
        assert json.loads(json.dumps(drawn, allow_nan=False)) == drawn
        assert drawn["data"] or drawn["layout"]["annotations"]


@pytest.mark.parametrize("name", ["serve_graph", "live"])
def test_the_other_captures_are_drawn(name: str) -> None:
    for figure in FIGURES:
        json.dumps(figure(capture(name), LIGHT), allow_nan=False)


def test_foreign_names_are_text() -> None:
    opened = built(lambda: trace().step(0, 0, 20).launch(1, 2).kernel(5, 10), name="<i>&'.json")
    assert opened is not None
    for figure in FIGURES:
        assert not any("<i>" in text for text in words(figure(opened, LIGHT)))
    assert clipped("<a href='x'>") == "&lt;a href='x'&gt;"
    assert clipped("a" * 20 + "b" * 20) == f"{'a' * 13}…{'b' * 14}"


def test_ticks_are_round_times() -> None:
    assert tick_words(log_ticks(900, 21_000)) == ["1 µs", "2 µs", "5 µs", "10 µs", "20 µs"]
    assert tick_words(log_ticks(1, 1e9)) == [
        "1 ns",
        "10 ns",
        "100 ns",
        "1 µs",
        "10 µs",
        "100 µs",
        "1 ms",
        "10 ms",
        "100 ms",
        "1 s",
    ]


def test_near_times_have_ticks_between_them_too() -> None:
    assert tick_words(log_ticks(1_160_000, 1_570_000)) == ["1.2 ms", "1.3 ms", "1.4 ms", "1.5 ms"]
    assert tick_words(log_ticks(2_100, 4_900)) == ["2.5 µs", "3 µs", "3.5 µs", "4 µs", "4.5 µs"]


@given(st.floats(1, 1e12), st.floats(1.25, 1e6))
def test_any_axis_has_two_ticks_or_more_and_no_two_alike(low: float, wider: float) -> None:
    ticks = log_ticks(low, low * wider)
    assert all(low * 0.99 <= tick <= low * wider * 1.01 for tick in ticks)
    assert 2 <= len(ticks) <= 12
    assert len(set(tick_words(ticks))) == len(ticks)


def test_long_words_of_a_row_stand_on_two_lines() -> None:
    why = "needs a pass under the profiler that wrote API calls, and this one wrote none of them at all"
    opened = changed(two_modes(), "graph", bound=None, withheld={"bound": why})
    texts = [each["text"] for each in bound_figure(opened, LIGHT)["layout"]["annotations"]]
    assert [text.count("<br>") for text in texts] == [0, 1]
    assert all(len(line) <= 90 for text in texts for line in text.split("<br>"))


def test_the_label_of_tau_has_room_beside_its_line() -> None:
    for opened in (two_modes(), capture()):
        layout = durations_figure(opened, LIGHT)["layout"]
        low, high = layout["xaxis"]["range"]
        labels = [each["x"] for each in layout["annotations"] if each["text"].startswith("τ = ")]
        assert labels
        assert all(x <= high - 0.16 * (high - low) for x in labels)


def test_a_chart_grows_with_its_rows() -> None:
    assert chart_rem(capture()) - chart_rem(two_modes()) == pytest.approx(2 * 4.6)


def test_no_text_is_smaller_than_12_px() -> None:
    def sizes(part: Any) -> list[float]:
        if isinstance(part, dict):
            own = [part["font"]["size"]] if "size" in part.get("font", {}) else []
            return own + [size for value in part.values() for size in sizes(value)]
        return [size for value in part for size in sizes(value)] if isinstance(part, list) else []

    for figure in FIGURES:
        assert min(sizes(figure(capture(), LIGHT)["layout"])) >= 12
