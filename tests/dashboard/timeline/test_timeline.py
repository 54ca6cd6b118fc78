"""The timelines: what is drawn adds up to what was recorded, whatever is in view."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.document import CAUSES
from launchscope.analysis.model.kernel_names import short_names
from launchscope.dashboard.band import Band
from launchscope.dashboard.plotting import CAUSE_COLORS, DARK, LIGHT, Theme, luminance, text_on
from launchscope.dashboard.timeline.heat_strip import Lane, Rects, heat_strip
from launchscope.dashboard.timeline.hover import escaped
from launchscope.dashboard.timeline.lanes import prepare
from launchscope.dashboard.timeline.rectangles import style_colors
from launchscope.dashboard.timeline.stage import stage
from launchscope.dashboard.timeline.timeline import MOST_RECTS, Figure, legend_items, search_count, timeline_figure
from launchscope.dashboard.view import View
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import (
    NAMED_CASES,
    eager_steps,
    graph_replay,
    missing_launches,
    one_eager_step,
    overlapping_kernels,
    sync_in_the_step,
    two_streams,
    worker_thread,
)
from ..opening import capture

KINDS = {"gpu_op": "gpu_ops", "launch": "launches", "blocking": "blocking_calls", "host_op": "host_ops"}


def band_of(builder: TraceBuilder, key: str = "eager") -> Band:
    return Band(key, key, analyze_trace(builder.build(), name=key), None)


@cache
def named_band(name: str) -> Band:
    builder = NAMED_CASES[name]()
    return band_of(trace() if name == "truncated file" else builder, key="named")


def demo_bands() -> list[Band]:
    opened = capture("llama_1b")
    return [band for key in opened.first if (band := opened.band(key)) is not None]


def bars(figure: Figure, *kinds: str, styles: Sequence[str] = ()) -> Iterator[tuple[float, float, float, list[Any]]]:
    """(start, length, y, customdata) of the rectangles."""
    for each in figure["data"]:
        if each["type"] == "bar" and "customdata" in each and (not styles or each["name"] in styles):
            for row in zip(each["base"], each["x"], each["y"], each["customdata"], strict=True):
                if not kinds or row[3][1] in kinds:
                    yield row


def inside(figure: Figure, *kinds: str, low: float, high: float, styles: Sequence[str] = ()) -> float:
    """Length of the rectangles, inside a range."""
    found = bars(figure, *kinds, styles=styles)
    return sum(max(0.0, min(start + length, high) - max(start, low)) for start, length, _, _ in found)


def strips(figure: Figure) -> list[dict[str, Any]]:
    return [each for each in figure["data"] if each["type"] == "heatmap"]


def strip_within(strip: dict[str, Any], low: float, high: float) -> float:
    """The integral of a strip between two places."""
    left = strip["x0"] + (np.arange(len(strip["z"][0])) - 0.5) * strip["dx"]
    width = np.maximum(0, np.minimum(left + strip["dx"], high) - np.maximum(left, low))
    return float((np.array([share or 0 for share in strip["z"][0]]) * width).sum())


def long_step(kernels: int = 2_000) -> TraceBuilder:
    """Kernels of 1 µs, 4 µs apart, launched while the one before runs: 2 µs of each gap are host, 1 is launch."""
    builder = trace().step(0)
    for index in range(kernels):
        builder.launch(4 * index, 1).kernel(4 * index + 1, 1)
    return builder


def test_a_step_is_drawn_as_it_was_recorded() -> None:
    """Launches of 5 µs at 0, 20, 40; kernels of 4 µs at 10, 30, 50: the axis starts with the first of them."""
    figure = timeline_figure([band_of(one_eager_step())], View(), LIGHT)
    assert [row[:2] for row in bars(figure, "gpu_op")] == [(0, 4), (20, 4), (40, 4)]
    assert [row[:2] for row in bars(figure, "launch")] == [(-10, 5), (10, 5), (30, 5)]
    assert [row[:2] for row in bars(figure, "host_op")] == [(-12, 9), (8, 9), (28, 9)]
    assert figure["layout"]["xaxis"]["range"] == pytest.approx([-0.88, 44.88])  # the step and 2 % on either side


def test_a_gap_is_drawn_as_its_parts_in_order() -> None:
    """Each gap of 16 µs: the host comes back after 6, is in the launch call for 5, and the GPU starts 5 later."""
    figure = timeline_figure([band_of(one_eager_step())], View(), LIGHT)
    parts = sorted((start, length, name) for name in CAUSES for start, length, *_ in bars(figure, "gap", styles=[name]))
    assert parts == [
        (4, 6, "host"), (10, 5, "launch"), (15, 5, "dispatch"), (24, 6, "host"), (30, 5, "launch"), (35, 5, "dispatch"),
    ]  # fmt: skip


def test_a_sync_is_told_from_the_host_inside_a_gap() -> None:
    figure = timeline_figure([band_of(sync_in_the_step())], View(), LIGHT)
    lengths = {name: inside(figure, "gap", low=-1e9, high=1e9, styles=[name]) for name in CAUSES}
    assert {name: length for name, length in lengths.items() if length} == {
        "sync": 5, "host": 7, "launch": 5, "dispatch": 3,
    }  # fmt: skip
    assert [row[:2] for row in bars(figure, "blocking")] == [(-4, 29)]


@pytest.mark.parametrize("name", NAMED_CASES)
@pytest.mark.parametrize("view", [View(), View(align="step"), View(x=(3.0, 21.5)), View(overlays=("queue", "idle"))])
def test_busy_and_idle_of_what_is_in_view_add_up(name: str, view: View) -> None:
    band = named_band(name)
    figure = timeline_figure([band], view, DARK)
    if band.device is None:
        assert not list(bars(figure, "gpu_op", "gap"))
        return
    low, high = figure["layout"]["xaxis"]["range"]
    start, end = prepare(band).window(0)
    unit = 1000 if view.align == "time" else end - start
    since, until = start + low * unit, start + high * unit
    ops, gaps = band.analysis.context.trace.gpu_ops, band.analysis.context.gaps[band.device]
    on_device = ops.device == band.device
    for kind, starts, ends in (
        ("gpu_op", ops.start_ns[on_device], ops.end_ns[on_device]),
        ("gap", gaps.start_ns, gaps.end_ns),
    ):
        expected = np.maximum(np.minimum(ends, until) - np.maximum(starts, since), 0).sum() / unit
        assert inside(figure, kind, low=low, high=high) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", NAMED_CASES)
def test_every_rectangle_names_a_row(name: str) -> None:
    band = named_band(name)
    rows = list(bars(timeline_figure([band], View(), LIGHT)))
    analysis = band.analysis
    for _, length, _, (key, kind, row) in rows:
        table = (
            analysis.context.gaps[band.device or 0] if kind == "gap" else getattr(analysis.context.trace, KINDS[kind])
        )
        assert key == "named"
        assert 0 <= row < len(table)
        assert length >= 0
    assert len({(kind, row) for *_, (_, kind, row) in rows if kind != "gap"}) == sum(
        kind != "gap" for *_, (_, kind, _) in rows
    )


def test_ops_that_overlap_are_in_lanes_of_their_own() -> None:
    for make in (overlapping_kernels, two_streams, worker_thread):
        figure = timeline_figure([band_of(make())], View(x=(-100, 200)), LIGHT)
        lanes: dict[float, list[tuple[float, float]]] = {}
        for start, length, y, _ in bars(figure, "gpu_op"):
            lanes.setdefault(y, []).append((start, length))
        assert all(a + length <= b for lane in lanes.values() for (a, length), (b, _) in pairwise(sorted(lane)))
        assert len(lanes) == (1 if make is worker_thread else 2)


def test_threads_have_lanes_of_their_own() -> None:
    figure = timeline_figure([band_of(worker_thread())], View(), LIGHT)
    assert figure["layout"]["yaxis"]["ticktext"] == ["thread 1", "thread 2", "stream 7", "gaps"]


def test_a_copy_that_blocks_is_drawn_once() -> None:
    builder = trace().step(0).launch(0, 20, "cudaMemcpy").memcpy(5, 10).launch(30, 5).kernel(40, 5)
    figure = timeline_figure([band_of(builder)], View(x=(-10, 50)), LIGHT)
    assert [kind for *_, (_, kind, _) in bars(figure, "launch", "blocking")] == ["blocking", "launch"]


def test_python_is_drawn_where_there_are_no_operators() -> None:
    builder = trace().step(0).python("forward", 0, 20).launch(5, 5).kernel(15, 5)
    names = [each["name"] for each in timeline_figure([band_of(builder)], View(x=(-20, 20)), LIGHT)["data"]]
    assert names[:3] == ["kernel", "launch call", "python"]
    builder.op("aten::mm", 4, 8)
    names = [each["name"] for each in timeline_figure([band_of(builder)], View(x=(-20, 20)), LIGHT)["data"]]
    assert "operator" in names
    assert "python" not in names


def test_aligned_steps_are_equally_wide() -> None:
    """A step of eager kernels lasts 100 µs and one of replays 50: both are one wide."""
    bands = [band_of(eager_steps()), band_of(graph_replay(), key="graph")]
    figure = timeline_figure(bands, View(align="step"), LIGHT)
    assert figure["layout"]["xaxis"]["range"] == pytest.approx([-0.02, 1.02])
    first = [(key, start) for start, _, _, (key, kind, row) in bars(figure, "gpu_op") if row == 0]
    assert first == [("eager", 0), ("graph", 0)]
    next_step = {key: start for start, _, _, (key, kind, row) in bars(figure, "gpu_op") if row == 4 + (key == "graph")}
    assert next_step == {"eager": 1, "graph": 1}


def test_a_step_can_be_picked_and_the_last_is_the_last() -> None:
    band = band_of(eager_steps())
    starts = [next(iter(sorted(bars(timeline_figure([band], View(step=n), LIGHT), "gpu_op"))))[3] for n in (0, 1, 99)]
    kept = len(band.step_windows)
    zero = [start for start, *_ in bars(timeline_figure([band], View(step=99), LIGHT), "gpu_op") if start == 0]
    assert kept > 1
    assert len({json.dumps(each) for each in starts}) > 1
    assert zero == [0]
    assert (
        timeline_figure([band], View(step=99), LIGHT)["data"]
        == timeline_figure([band], View(step=kept - 1), LIGHT)["data"]
    )


def test_only_what_is_in_view_is_drawn_and_a_little_more() -> None:
    band = band_of(long_step())
    figure = timeline_figure([band], View(x=(1000.0, 1100.0)), LIGHT)
    starts = [start for start, *_ in bars(figure, "gpu_op")]
    assert min(starts) == pytest.approx(976)
    assert max(starts) == pytest.approx(1124)
    assert len(starts) == 38


def test_a_lane_that_holds_too_much_is_a_strip_of_the_same_busy_time() -> None:
    """2,000 kernels of 1 µs on 1,068 pixels: drawn as rectangles of a pixel or more they would look all busy."""
    band = band_of(long_step())
    figure = timeline_figure([band], View(x=(0.0, 7997.0)), LIGHT)
    kernel = next(each for each in strips(figure) if each["name"] == "kernel")
    assert not list(bars(figure, "gpu_op", "gap"))
    busy = sum(share or 0 for share in kernel["z"][0]) * kernel["dx"]
    assert busy == pytest.approx(2000, rel=0.002)
    idle = sum(share or 0 for each in strips(figure) if each["name"] in CAUSES for share in each["z"][0]) * kernel["dx"]
    assert idle == pytest.approx(3 * 1999, rel=0.002)
    assert "hatching" in {each["name"] for each in figure["data"]}


def test_a_zoom_into_a_strip_shows_rectangles_again() -> None:
    figure = timeline_figure([band_of(long_step())], View(x=(100.0, 200.0)), LIGHT)
    assert not strips(figure)
    assert inside(figure, "gpu_op", low=100, high=200) == 25


def test_no_figure_has_more_rectangles_than_a_browser_can_take() -> None:
    bands = [band_of(long_step(400), key=f"rank{n}") for n in range(5)]
    view = View(x=(0.0, 1000.0))
    figure = timeline_figure(bands, view, LIGHT, width_px=9000)
    assert strips(figure)
    assert sum(start < 1000 for start, *_ in bars(figure)) <= MOST_RECTS


spans = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), min_size=1, max_size=30)


@given(
    layers=st.lists(spans, min_size=1, max_size=3),
    edges=st.lists(st.integers(-20, 400), min_size=2, max_size=9, unique=True),
)
def test_a_strip_counts_every_nanosecond(layers: list[list[tuple[int, int]]], edges: list[int]) -> None:
    lane = Lane("", 10, tuple(_rects(spans) for spans in layers), are_apart=False)
    borders = np.array(sorted(edges))
    strip = heat_strip(lane, borders)
    for column, (since, until) in enumerate(pairwise(borders.tolist())):
        covered = [{t for at, dur in its for t in range(at, at + dur) if since <= t < until} for its in layers]
        assert strip.share[column] * (until - since) == pytest.approx(len(set().union(*covered)))
        assert len(covered[strip.layer[column]]) == max(map(len, covered))
        count = sum(at < until and at + dur > since for its in layers for at, dur in its)
        assert strip.rects[column] == count


@given(rects=spans, since=st.integers(-20, 400), length=st.integers(1, 200))
def test_a_window_holds_all_that_is_in_it(rects: list[tuple[int, int]], since: int, length: int) -> None:
    layer = _rects(rects)
    found = set(layer.row[layer.within(since, since + length)].tolist())
    for row, (at, dur) in enumerate(rects):
        if at < since + length and at + dur > since:
            assert row in found
        if at >= since + length or at + dur < since:
            assert row not in found
    assert layer.most_within(since, since + length) >= len(found)


def _rects(spans: list[tuple[int, int]]) -> Rects:
    start = np.array([at for at, _ in spans], np.int64)
    end = start + np.array([dur for _, dur in spans], np.int64)
    order = np.argsort(start, kind="stable")
    return Rects("kernel", "gpu_op", start[order], end[order], order)


def test_markup_in_names_is_text() -> None:
    hostile = 'k<img src=x onerror=alert(1)>&<a href="javascript:alert(1)">'
    builder = trace().step(0).op("<b>op</b>", 0, 9).launch(1, 5, "cuLaunch<i>").kernel(20, 400, name=hostile)
    figure = timeline_figure([band_of(builder.op(hostile, 30, 300))], View(search="<img", x=(-30.0, 500.0)), LIGHT)
    texts = [text for each in figure["data"] for text in (*each.get("hovertext", ()), *each.get("text", ()))]
    allowed = ("<b>", "</b>", "<br>")
    for text in texts:
        for tag in allowed:
            text = text.replace(tag, "")
        assert not set("<>") & set(text), text
    assert any("&lt;" in text for text in texts)
    assert escaped("a\u202eb<c>&") == "a\\u202eb&lt;c&gt;&amp;"


def test_a_label_cannot_write_into_the_page() -> None:
    band = band_of(one_eager_step(), key="x<b>")
    figure = timeline_figure([band], View(), LIGHT)
    assert "x&lt;b&gt;" in figure["layout"]["annotations"][0]["text"]


def test_hover_tells_what_the_analysis_found() -> None:
    figure = timeline_figure([band_of(one_eager_step())], View(), LIGHT)
    kernel = next(each for each in figure["data"] if each["name"] == "kernel")
    assert kernel["hovertext"][1].split("<br>") == [
        "<b>kernel</b>",
        "kernel 4.00 µs on stream 7",
        "cudaLaunchKernel: overhead 5.00 µs, latency 10.0 µs, queue time 5.00 µs",
        "operator aten::add",
        "gap before it: 16.0 µs: host 6.00 µs, launch 5.00 µs, dispatch 5.00 µs",
    ]
    gap = next(each for each in figure["data"] if each["name"] == "host")
    assert gap["hovertext"][0].split("<br>") == [
        "<b>idle 6.00 µs: host</b>, the host had not asked yet",
        "gap of 16.0 µs: host 6.00 µs, launch 5.00 µs, dispatch 5.00 µs",
        "before kernel",
    ]


def test_gaps_between_steps_say_so() -> None:
    figure = timeline_figure([band_of(graph_replay())], View(x=(0.0, 60.0)), LIGHT)
    texts = [text for each in figure["data"] if each["name"] == "host" for text in each["hovertext"]]
    assert texts
    assert all("between steps" in text for text in texts)
    replayed = next(each for each in figure["data"] if each["name"] == "kernel")["hovertext"]
    assert "op 2 of 5 of a replay of graph 0" in replayed[1]


def test_a_search_lights_what_it_finds_and_dims_the_rest() -> None:
    band = band_of(eager_steps())
    view = View(search="GEMM_1")
    figure = timeline_figure([band], view, LIGHT)
    kernels = [each for each in figure["data"] if each["name"] == "kernel"]
    assert [each["marker"].get("opacity") for each in kernels] == [0.25, None]
    assert kernels[1]["marker"]["line"]["color"] == LIGHT.found
    assert {text.split("<br>")[0] for text in kernels[1]["hovertext"]} == {"<b>gemm_1</b>"}
    assert search_count([band], view) == 1
    assert search_count([band], View()) == 0
    assert search_count([band], View(search="nothing of it")) == 0
    assert search_count([band, band], View(search="aten::mm")) == 2 * 6  # three operators and their kernels


def test_what_is_selected_stands_out_with_its_like_and_its_launch() -> None:
    band = band_of(eager_steps())
    figure = timeline_figure([band], View(selected=("eager", 5), x=(-10.0, 350.0)), LIGHT, width_px=4000)
    by_width = {
        each["marker"]["line"]["width"]: [custom[2] for custom in each["customdata"]]
        for each in figure["data"]
        if each["type"] == "bar" and each["name"] == "kernel"
    }
    assert by_width[3] == [5]
    assert {row % 4 for row in by_width[1]} == {1}
    selected = [each for each in figure["data"] if each["type"] == "bar" and each["marker"]["line"].get("width") == 3]
    assert {each["name"] for each in selected} == {"kernel", "launch call"}
    line = next(each for each in figure["data"] if each["name"] == "launch to op")
    launch = int(band.analysis.context.trace.gpu_ops.launch_row[5])
    times = [band.analysis.context.trace.launches.start_ns[launch], band.analysis.context.trace.gpu_ops.start_ns[5]]
    assert line["x"] == [(int(time) - band.step_windows[0][0]) / 1000 for time in times]


def test_found_kernels_are_marked_on_a_strip() -> None:
    builder = long_step()
    builder.launch(8000, 1).kernel(8002, 1, name="needle")
    figure = timeline_figure([band_of(builder)], View(search="needle", x=(0.0, 8100.0)), LIGHT)
    assert [custom[2] for *_, custom in bars(figure, "gpu_op")] == [2000]


def test_operators_told_by_another_mode_are_marked_as_inferred() -> None:
    bands = [band for band in demo_bands() if band.key == "graph"]
    figure = timeline_figure(bands, View(x=(100.0, 160.0)), LIGHT)
    texts = [text for each in figure["data"] if each["name"] == "kernel" for text in each["hovertext"]]
    told = [text for text in texts if "operator" in text]
    assert told
    assert all("(inferred from a recording with operators)" in text for text in told)


def test_what_is_missing_is_said() -> None:
    def words(builder: TraceBuilder) -> str:
        figure = timeline_figure([band_of(builder)], View(), LIGHT)
        return " ".join(each["text"] for each in figure["layout"]["annotations"])

    assert "no GPU op in the file" in words(trace().op("aten::mm", 0, 5))
    assert "no launches in the file" in words(missing_launches())
    assert "The whole recording is shown: no steps found" in words(missing_launches())
    assert "choose a trace" in timeline_figure([], View(), LIGHT)["layout"]["annotations"][0]["text"]


def test_overlays() -> None:
    band = band_of(eager_steps())
    plain, more = (timeline_figure([band], View(overlays=o), LIGHT) for o in ((), ("queue", "idle")))
    assert more["layout"]["height"] > plain["layout"]["height"]
    queue = next(each for each in more["data"] if each["name"] == "queue depth")
    assert [1] in queue["customdata"]
    assert [0] in queue["customdata"]
    idle = next(each for each in more["data"] if each["name"] == "idle")
    low, high = more["layout"]["xaxis"]["range"]
    shares = [z for n, z in enumerate(idle["z"][0]) if low < idle["x0"] + n * idle["dx"] < high]
    assert sum(shares) * idle["dx"] == pytest.approx(inside(more, "gap", low=low, high=high), abs=1)


def test_the_recorded_modes_add_up() -> None:
    """The first view of the demo: strips and rectangles of each lane hold what its step was busy for."""
    bands = demo_bands()
    figure = timeline_figure(bands, View(), LIGHT)
    low, high = figure["layout"]["xaxis"]["range"]
    for placed in stage(bands, View(), 1200).bands:
        band = placed.lanes.band
        ops = band.analysis.context.trace.gpu_ops
        since, until = placed.scale.time_ns(low), placed.scale.time_ns(high)
        expected = np.maximum(np.minimum(ops.end_ns, until) - np.maximum(ops.start_ns, since), 0).sum() / 1000
        streams = {place.top: place.middle for place in placed.lane_places if place.lane in placed.lanes.streams}
        in_bars = sum(
            max(0, min(start + length, high) - max(start, low))
            for start, length, y, _ in bars(figure, "gpu_op")
            if y in streams.values()
        )
        in_strips = sum(strip_within(each, low, high) for each in strips(figure) if each["y"][0] in streams)
        assert in_bars + in_strips == pytest.approx(expected, rel=0.005), band.key


@pytest.mark.parametrize("view", [View(), View(x=(1000, 1600), overlays=("queue", "idle")), View(search="nvjet")])
def test_the_same_view_is_the_same_figure(view: View) -> None:
    bands = demo_bands()
    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: json.dumps(timeline_figure(bands, view, DARK)), range(4)))
    assert len(texts) == 1


def test_a_band_is_prepared_once() -> None:
    band = band_of(one_eager_step())
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: id(prepare(band)), range(8)))) == 1


def test_the_legend_tells_every_cause_by_colour_and_meaning() -> None:
    items = legend_items(LIGHT)
    assert [item["cause"] for item in items] == list(CAUSES)
    assert [item["color"] for item in items] == [CAUSE_COLORS[cause] for cause in CAUSES]
    assert all(item["meaning"] for item in items)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_names_inside_rectangles_can_be_read(theme: Theme) -> None:
    for color in style_colors(theme).values():
        darker, lighter = sorted((luminance(color), luminance(text_on(color))))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_long_kernel_names_fit() -> None:
    name = "void " + "at::native::elementwise<" * 30 + "float" + ">" * 30
    builder = trace().step(0).launch(0, 5).kernel(10, 100, name=name)
    figure = timeline_figure([band_of(builder)], View(), LIGHT)
    kernel = next(each for each in figure["data"] if each["name"] == "kernel")
    assert len(kernel["hovertext"][0].split("<br>")[0]) < 150
    assert short_names([name])


numbers = st.one_of(st.floats(-1e15, 1e15), st.floats(-1e3, 1e3), st.sampled_from([0.0, 1e-9, 44.0]))
views = st.builds(
    View,
    step=st.integers(0, 10**11),
    x=st.one_of(st.none(), st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair) + 1e-6))),
    align=st.sampled_from(["time", "step"]),
    search=st.text(max_size=5),
    selected=st.one_of(
        st.none(), st.tuples(st.sampled_from(["named", "nobody"]), st.integers(0, 10**11)), st.just(("named", 0))
    ),
    overlays=st.sampled_from([(), ("queue",), ("idle",), ("queue", "idle")]),
)


@settings(deadline=None)
@given(view=views, name=st.sampled_from(sorted(NAMED_CASES)), width=st.integers(0, 4000), twice=st.booleans())
def test_no_view_is_too_strange(view: View, name: str, width: int, twice: bool) -> None:
    bands = [named_band(name)] * (1 + twice)
    figure = timeline_figure(bands, view, LIGHT, width)
    text = json.dumps(figure, allow_nan=False)
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < high
    assert figure["layout"]["height"] > 0
    assert len(text) < 3_000_000
    assert search_count(bands, view) >= 0


def test_whatever_was_recorded_can_be_drawn() -> None:
    """A stray record decades away, and an op of no length."""
    far = one_eager_step().launch(5e12, 5).kernel(5e12 + 10, 5).launch(5e12 + 20, 1).kernel(5e12 + 30, 0)
    for view in (View(), View(x=(0.0, 100.0)), View(x=(0.0, 6e12)), View(align="step")):
        json.dumps(timeline_figure([band_of(far)], view, LIGHT), allow_nan=False)
