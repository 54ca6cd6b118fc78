"""The model to play with: it starts at what was measured, moves as the closed form says, and tells what it can't."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.model.capture import Calibration
from launchscope.analysis.model.document import CAUSES
from launchscope.analysis.step_model import Knobs, predict
from launchscope.dashboard.band import Band
from launchscope.dashboard.charts.sketch_chart import (
    as_graph,
    coarse,
    recorded_step,
    redrawn,
    runs_of_gaps,
    sketch_figure,
)
from launchscope.dashboard.charts.starting_point import StartingPoint, apply, is_moved, slider_marks, starting_point
from launchscope.dashboard.charts.what_if_chart import Row, readout, what_if_figure
from launchscope.dashboard.opened_report import OpenedReport
from launchscope.dashboard.plotting import DARK, LIGHT
from launchscope.dashboard.view import View
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES
from ..opening import built, capture, case, two_modes

US = 1e3


def steps(count: int = 4) -> TraceBuilder:
    """Steps of 100 µs: five launches of 6 µs, 20 µs apart, each with a kernel of 4 µs two µs later."""
    builder = trace()
    for step in range(count):
        builder.step(step, 100 * step, 95)
        for index in range(5):
            builder.launch(100 * step + 20 * index, 6).kernel(100 * step + 20 * index + 8, 4)
    return builder


@pytest.fixture(scope="module")
def bare() -> OpenedReport:
    opened = built(steps)
    assert opened is not None
    return opened


def line(start: StartingPoint, label: str, **knobs: float) -> Row:
    return next(row for row in readout(start, View(knobs=knobs)) if label in row.label)


def band_of(opened: OpenedReport, key: str) -> Band:
    band = opened.band(key)
    assert band is not None
    return band


def test_the_start_is_what_was_measured() -> None:
    start, document = starting_point(capture()), capture().report.document
    assert document.profile is not None
    assert start.step is not None
    eager = document.profile.modes["eager"]
    told = (start.step.gpu_work_ns, start.step.gpu_ops, start.step.launches, start.step.tau_ns)
    assert told == (eager.gpu_work_ns, eager.gpu_ops, eager.launches, eager.tau_step_ns)
    assert start.step.reads is not None
    assert start.step.reads.weight_width == 2
    assert start.step.reads.weights == 1_235_814_400 * 2
    assert start.notes == ()


def test_without_knobs_the_prediction_is_the_documents() -> None:
    start, document = starting_point(capture()), capture().report.document
    assert document.profile is not None
    assert start.step is not None
    eager = document.profile.modes["eager"]
    assert eager.bound is not None
    told = predict(start.step, apply(start, {}))
    assert told.eager_ns == pytest.approx(eager.bound.bound_ns)
    assert told.serial_ns == pytest.approx(eager.bound.serial_ns)
    assert told.graph_ns == pytest.approx(eager.predicted_graph_ns)
    assert told.floor_ns == pytest.approx(eager.floor_ns)
    assert told.gpu_work_ns == pytest.approx(eager.gpu_work_ns)


def test_reset_equals_what_was_measured() -> None:
    rows = readout(starting_point(capture()), View())
    assert all(row.change == "–" for row in rows if row.label not in ("the limit", "assumed"))
    for label in ("GPU work W", "launches N", "host time per launch τ", "launching, N·τ", "floor"):
        row = line(starting_point(capture()), label)
        assert row.measured == row.predicted
    assert apply(starting_point(capture()), {}) == Knobs()
    assert not is_moved(starting_point(capture()), {})
    for name, slider in slider_marks(starting_point(capture())).items():
        assert slider.factor(slider.position(None)) is None, name


def test_the_readout_by_hand() -> None:
    start = starting_point(two_modes())
    assert line(start, "eager") == Row("eager: max(W, N·τ)", "300 µs (240–360)", "280 µs", "–")
    assert line(start, "eager", tau=0.5) == Row("eager: max(W, N·τ)", "300 µs (240–360)", "140 µs", "−50 %")
    assert line(start, "CUDA graph") == Row("as one CUDA graph", "50.0 µs (50.0–50.0)", "42.4 µs", "–")
    # half the kernels: floor 20 + half of the 20 over it, 10 launches; as a graph 30 + 9 × 0.1 + 0.5
    assert line(start, "GPU work", kernels=0.5).predicted == "30.0 µs"
    assert line(start, "launches", kernels=0.5).predicted == "10"
    assert line(start, "CUDA graph", kernels=0.5).predicted == "31.4 µs"
    assert line(start, "limit").predicted == "launching: N·τ 280 µs > W 40.0 µs"
    assert line(start, "limit", tau=0.125).predicted == "the GPU: N·τ 35.0 µs ≤ W 40.0 µs"
    assert line(start, "limit").change == "turns at τ = 2.00 µs or at 1.54 GPU ops"  # 20 + k µs = 14 k µs


def test_weights_and_batch_say_what_is_assumed() -> None:
    start = starting_point(capture())
    assert start.step is not None
    told = apply(start, {"weights": 0.5, "batch": 8.0})
    assert (told.weights, told.batch_size) == (1_235_814_400 / 2, 8)
    assumed = " ".join(row.predicted for row in readout(start, View(knobs={"weights": 0.5, "batch": 8})))
    assert "weights as int4: 589 MiB at 0.5 bytes each" in assumed
    assert "batch 8: weights are read once, the other 16.0 MiB of the floor grow" in assumed


def test_without_the_models_size_there_are_no_knobs_for_it() -> None:
    start = starting_point(two_modes())
    assert set(slider_marks(start)) == {"tau", "kernels", "bandwidth"}
    assert any("no knobs for batch and weights" in each for each in start.notes)
    assert apply(start, {"weights": 0.5, "batch": 8.0}) == Knobs()


def test_without_calibration_there_is_no_graph() -> None:
    start = starting_point(two_modes(calibration=None))
    assert start.step is not None
    assert start.step.costs == Calibration()
    assert set(slider_marks(start)) == {"tau", "kernels"}
    assert not any("graph" in row.label for row in readout(start, View()))
    assert any("launchscope calibrate" in row.predicted for row in readout(start, View()))
    assert "one graph, predicted" not in names(what_if_figure(start, View(), LIGHT))


def test_a_step_that_replays_graphs_by_its_own_hand_is_no_start() -> None:
    start = starting_point(capture("serve_graph"))
    assert start.step is None
    assert "replays graphs already" in start.reason
    assert slider_marks(start) == {}
    figure = what_if_figure(start, View(), LIGHT)
    assert "replays graphs already" in figure["layout"]["annotations"][0]["text"]
    assert readout(start, View())[0].predicted == start.reason


def test_a_bare_trace_starts_as_profiled(bare: OpenedReport) -> None:
    start = starting_point(bare)
    assert start.step is not None
    assert (start.step.gpu_work_ns, start.step.gpu_ops, start.step.launches) == (20 * US, 5, 5)
    assert start.step.launches * start.step.tau_ns == 86 * US  # first launch start to last launch end
    assert "as profiled" in start.basis
    assert line(start, "max(W", tau=0.5).predicted == "43.0 µs"


def names(figure: dict[str, Any]) -> list[str]:
    return [each["name"] for each in figure["data"]]


@pytest.mark.parametrize("against", ["kernels", "tau"])
@pytest.mark.parametrize("knobs", [{}, {"tau": 0.5, "kernels": 2.0}])
def test_measured_points_are_solid_and_predictions_are_not(against: Any, knobs: dict[str, float]) -> None:
    figure = what_if_figure(starting_point(capture()), View(knobs=knobs), DARK, against)
    for each in figure["data"]:
        if each["mode"] == "lines":
            assert each["line"]["dash"] != "solid"
            assert "predicted" in each["name"]
        elif each["name"] == "measured":
            assert each["marker"]["symbol"] == "diamond"
        else:
            assert each["marker"]["symbol"].endswith("-open")
            assert "predicted" in each["name"]


def test_the_chart_shows_every_mode_where_it_was_measured() -> None:
    figure = what_if_figure(starting_point(capture()), View(), LIGHT)
    points = next(each for each in figure["data"] if each["name"] == "measured")
    document = capture().report.document
    assert document.profile is not None
    timed = {mode.gpu_ops: mode.step_ns for mode in document.profile.modes.values()}
    assert set(points["x"]) == set(timed)
    assert points["y"][0] == pytest.approx(9.428373, rel=1e-6)
    assert "launch-bound from 54 GPU ops on · measured 718: launch-bound" in figure["layout"]["title"]["text"]


def test_the_curve_turns_at_its_marker() -> None:
    figure = what_if_figure(starting_point(two_modes()), View(), LIGHT, "tau")
    curve = next(each for each in figure["data"] if each["name"] == "eager, predicted")
    turn = next(each for each in figure["data"] if "from here on" in each["name"])
    assert turn["x"] == [pytest.approx(2)]
    assert turn["y"] == [pytest.approx(40)]
    assert min(curve["y"]) == pytest.approx(40)
    assert all(y == pytest.approx(max(40, 20 * x)) for x, y in zip(curve["x"], curve["y"], strict=True))


def test_a_knobs_extremes_end_at_the_sliders() -> None:
    start = starting_point(capture())
    assert start.step is not None
    assert apply(start, {"tau": 1e14}).tau_ns == start.step.tau_ns * 4
    assert apply(start, {"batch": 1e-300}).batch_size == 1


@settings(deadline=None)
@given(st.floats(-4, 2))
def test_a_slider_and_its_knob_agree(position: float) -> None:
    slider = slider_marks(starting_point(two_modes()))["tau"]
    assert slider.position(slider.factor(position)) == pytest.approx(position, abs=2e-3)


def test_the_sketch_without_knobs_is_the_recorded_step(bare: OpenedReport) -> None:
    recorded = recorded_step(bare.bands[0], 1)
    assert recorded is not None
    line = recorded.timeline
    assert (line.start_ns / US).tolist() == [0, 20, 40, 60, 80]
    assert (line.busy_ns / US).tolist() == [4] * 5
    assert line.end_ns == 100 * US
    again = redrawn(recorded, host_ns=line.end_ns, work=1, kernels=1)
    assert again.start_ns.tolist() == line.start_ns.tolist()
    assert again.end_ns == line.end_ns


def test_gaps_follow_tau_and_durations_the_work(bare: OpenedReport) -> None:
    recorded = recorded_step(bare.bands[0], 0)
    assert recorded is not None
    faster = redrawn(recorded, host_ns=50 * US, work=1, kernels=1)
    assert (faster.start_ns / US).tolist() == [0, 10, 20, 30, 40]
    slower = redrawn(recorded, host_ns=50 * US, work=5, kernels=1)  # 20 µs each: the GPU is the limit
    assert (slower.start_ns / US).tolist() == [0, 20, 40, 60, 80]
    assert slower.end_ns == 100 * US
    fewer = redrawn(recorded, host_ns=60 * US, work=1, kernels=0.6)
    assert len(fewer.start_ns) == 3
    assert (fewer.start_ns / US).tolist() == pytest.approx([0, 20, 40])
    assert fewer.busy_ns.sum() == pytest.approx(20 * US)


def test_as_a_graph_only_node_gaps_are_left(bare: OpenedReport) -> None:
    recorded = recorded_step(bare.bands[0], 0)
    assert recorded is not None
    graph = as_graph(recorded, work=1, kernels=1, step_ns=25 * US)
    assert (graph.start_ns / US).tolist() == pytest.approx([0, 5, 10, 15, 20])
    assert {cause for _, _, cause in runs_of_gaps(graph)} == {"graph"}
    assert graph.end_ns == pytest.approx(25 * US)


def test_drawn_coarser_work_and_idle_time_stay() -> None:
    recorded = recorded_step(band_of(capture(), "eager"), 0)
    assert recorded is not None
    full, few = recorded.timeline, coarse(recorded.timeline, 50)
    assert len(few.start_ns) == 50
    assert few.busy_ns.sum() == pytest.approx(full.busy_ns.sum())
    assert (few.start_ns[1:] >= few.start_ns[:-1] + few.busy_ns[:-1]).all()
    assert few.end_ns == full.end_ns


def test_the_recorded_lane_is_the_step_of_the_trace() -> None:
    for key in capture().first:
        band = band_of(capture(), key)
        recorded = recorded_step(band, 2)
        assert recorded is not None
        (begin, end) = band.step_windows[2]
        gaps = band.analysis.context.gaps[0]
        inside = np.clip(gaps.end_ns, begin, end) - np.clip(gaps.start_ns, begin, end)
        assert recorded.timeline.end_ns == end - begin
        assert recorded.timeline.busy_ns.sum() == pytest.approx(end - begin - inside.sum())


def test_what_the_sketch_predicts_is_drawn_as_predicted() -> None:
    start = starting_point(capture())
    still = sketch_figure(band_of(capture(), "graph"), start, View(), LIGHT)
    assert "GPU work, predicted" not in names(still)
    assert still["layout"]["shapes"] == []
    moved = sketch_figure(band_of(capture(), "eager"), start, View(knobs={"tau": 0.5}), LIGHT)
    assert moved["layout"]["xaxis"]["fixedrange"]  # a zoom would show neighbours drawn together as single kernels
    lanes = [text["text"] for text in moved["layout"]["annotations"]]
    assert ["recorded" in lane for lane in lanes] == [True, False, False]
    assert all("predicted" in lane for lane in lanes[1:])
    assert [shape["line"]["dash"] for shape in moved["layout"]["shapes"]] == ["dash", "dash"]
    work = [each for each in moved["data"] if each["name"] == "GPU work, predicted"]
    assert all("pattern" in each["marker"] for each in work)


def test_the_sketch_ends_about_where_the_closed_form_does() -> None:
    start, band = starting_point(capture()), band_of(capture(), "eager")
    recorded = recorded_step(band, 0)
    assert recorded is not None
    assert start.step is not None
    told = predict(start.step, apply(start, {"tau": 0.5}))
    line = redrawn(recorded, host_ns=told.launches * start.step.tau_ns / 2, work=1, kernels=1, least_ns=told.eager_ns)
    assert told.eager_ns <= line.end_ns < 1.05 * told.eager_ns


knob_values = st.floats(1e-300, 1e14)
views = st.builds(
    View,
    knobs=st.dictionaries(st.sampled_from(["tau", "bandwidth", "kernels", "batch", "weights"]), knob_values),
    step=st.integers(0, 10**9),
)
KNOWN = [*NAMED_CASES, "llama_1b", "serve_graph", "live"]


@settings(max_examples=25, deadline=None)
@given(view=views, name=st.sampled_from(KNOWN), against=st.sampled_from(["kernels", "tau"]))
def test_no_view_makes_them_raise(view: View, name: str, against: Any) -> None:
    opened = capture(name) if name not in NAMED_CASES else case(name)
    if opened is None:
        return
    start = starting_point(opened)
    assert (start.step is None) == bool(start.reason)
    json.dumps(what_if_figure(start, view, DARK, against), allow_nan=False)
    for band in opened.bands[:3]:
        json.dumps(sketch_figure(band, start, view, LIGHT), allow_nan=False)
    for row in readout(start, view):
        assert all(isinstance(cell, str) and "nan" not in cell for cell in (row.measured, row.predicted, row.change))


def test_every_cause_of_a_sketch_is_one_of_the_reports(bare: OpenedReport) -> None:
    recorded = recorded_step(bare.bands[0], 0)
    assert recorded is not None
    assert {cause for _, _, cause in runs_of_gaps(recorded.timeline)} <= set(CAUSES)
