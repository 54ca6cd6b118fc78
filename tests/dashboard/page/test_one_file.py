"""The report in one file: the document's figures, whole, harmless, and within its bound."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.report import analyze
from launchscope.cli import outputs, run
from launchscope.dashboard.charts.bound_chart import bound_figure
from launchscope.dashboard.charts.durations_chart import durations_figure
from launchscope.dashboard.charts.idle_chart import idle_figure
from launchscope.dashboard.opened_report import OpenedReport, open_bands
from launchscope.dashboard.page import one_file
from launchscope.dashboard.page.cards import cards, sentence
from launchscope.dashboard.page.sections import graph_sections
from launchscope.dashboard.page.tables import TABLES, table
from launchscope.dashboard.plotting import DARK, LIGHT, Theme
from launchscope.dashboard.timeline.timeline import timeline_figure
from launchscope.dashboard.view import View
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES
from ..opening import capture, capture_as_html, case

HOSTILE = "gemm</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e&\"'"


class Element(NamedTuple):
    name: str
    attributes: dict[str, str | None]
    text: str


class Elements(HTMLParser):
    """Every element with the text that stands directly in it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.found: list[Element] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "link", "img", "input", "br"):
            self.found.append(Element(tag, dict(attrs), ""))
        else:
            self.open.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][2].append(data)

    def handle_endtag(self, tag: str) -> None:
        name, attributes, text = self.open.pop()
        assert name == tag, (name, tag)
        self.found.append(Element(name, attributes, "".join(text)))

    def named(self, name: str) -> list[Element]:
        return [each for each in self.found if each.name == name]


@cache
def elements() -> Elements:
    return Elements(capture_as_html())


@cache
def page_data() -> Any:
    return embedded(elements())


def opened(builder: TraceBuilder, folder: Path, name: str = "trace.json") -> OpenedReport:
    return open_bands(analyze(builder.write(folder / name), cache=False))


def steps(count: int, kernels: int = 1, name: str = "gemm") -> TraceBuilder:
    """Steps of 100 µs, each of as many kernels."""
    builder = trace()
    for step in range(count):
        builder.step(step, 100 * step, 95)
        for place in range(kernels):
            at, part = 100 * step + 90 * place / kernels, 90 / kernels / 4
            builder.launch(at, part).kernel(at + 2 * part, part, name=name)
    return builder


def embedded(found: Elements) -> Any:
    (data,) = [each for each in found.named("script") if each.attributes.get("id") == "data"]
    return json.loads(data.text)


def unpacked(piece: dict[str, Any]) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(piece["packed"])))


def in_theme(data: dict[str, Any], step: list[list[dict[str, Any]]], piece: dict[str, Any], theme: Theme) -> Any:
    """What the script in the file makes of a piece."""
    overview, shown = unpacked(step[0][0]), unpacked(piece)
    is_dark = theme is DARK
    traces = [trace | (data["dark"][trace["style"]] if is_dark else {}) for trace in shown["data"]]
    return {"layout": overview["layout"] | (overview["dark"] if is_dark else {}), "data": traces}


def plain(figure: Any) -> Any:
    """As JSON has it, and without what the file adds."""
    figure = json.loads(json.dumps(figure))
    for each in figure["data"]:
        each.pop("style", None)
    return figure


def test_it_says_what_the_report_says() -> None:
    """Also to those who read it without running a script."""
    found = elements()
    texts = {each.text.strip() for each in found.found}
    assert sentence(capture()) in texts
    for card in cards(capture()):
        assert card.title in {each.text for each in found.named("h2")}
        assert {fact.value for fact in card.facts} <= {each.text for each in found.named("dd")}
        assert {f"⚠ {warning}" for warning in card.warnings} <= texts


def test_what_to_do_the_doctor_and_the_tables_of_what_was_found_are_in_it() -> None:
    """Also to those who read it without running a script."""
    fault = Elements(one_file.render(capture("faults/static_input").report))
    assert any(each.text.startswith("try overwrite what was captured: ") for each in fault.named("summary"))
    assert "Graph doctor" in {each.text for each in fault.named("h2")}
    assert any(each.text.endswith("[frozen_input]") for each in fault.named("td"))
    named = [each.attributes.get("id") for each in elements().named("details")]
    assert "table-fusion" in named
    assert "table-serving" not in named
    (doctor,) = graph_sections(capture())
    assert set(doctor.sentences) <= {each.text for each in elements().named("p")}


def test_the_tables_are_those_of_the_dashboard() -> None:
    bands = [band for key in capture().first if (band := capture().band(key)) is not None]
    cells = iter([each.text for each in elements().named("td")])
    for data in (table(name, capture(), bands) for name in TABLES):
        for row in data.rows[: one_file.MOST_ROWS]:
            for column in data.columns:
                value, text = row.get(column["field"]), next(cells)
                if isinstance(value, int | float):
                    assert abs(float(text.replace(",", "")) - value) <= 0.5001 * 10.0 ** -column["context"]["decimals"]
                else:
                    assert text == ("–" if value is None else value)
    assert not list(cells)
    assert "the first 500 of 9,539 rows" in capture_as_html()


def test_the_charts_are_those_of_the_dashboard_in_both_themes() -> None:
    for name, draw in (("idle", idle_figure), ("durations", durations_figure), ("bound", bound_figure)):
        for theme in (LIGHT, DARK):
            assert page_data()["charts"][name][theme.name] == plain(draw(capture(), theme))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("align", ["time", "step"])
def test_the_timelines_are_those_of_the_dashboard_in_both_themes(theme: Theme, align: str) -> None:
    bands = [band for key in capture().first if (band := capture().band(key)) is not None]
    data = page_data()
    assert len(data["timelines"][align]) == 4
    for number, step in list(enumerate(data["timelines"][align]))[::3]:
        view = View(step=number, align="step" if align == "step" else "time")
        expected = plain(timeline_figure(bands, view, theme, one_file.WIDTH_PX))
        assert plain(in_theme(data, step, step[0][0], theme)) == expected
        if len(step) == 1:
            assert (align, number) == ("step", 3)  # the first step comes first
            continue
        low, high = expected["layout"]["xaxis"]["range"]
        window = (low + (high - low) * 3 / 8, low + (high - low) * 4 / 8)
        view = View(step=number, align=view.align, x=window)
        expected = plain(timeline_figure(bands, view, theme, one_file.WIDTH_PX))
        assert plain(in_theme(data, step, step[1][3], theme))["data"] == expected["data"]


def test_every_zoom_of_the_first_step_ends_at_the_kernels_of_graphs_too() -> None:
    finest = page_data()["timelines"]["time"][0][-1]
    assert len(finest) == one_file.PARTS**2
    assert not any(trace["type"] == "heatmap" for piece in finest for trace in unpacked(piece)["data"])


def test_the_file_is_below_its_bound_and_says_what_it_leaves_out() -> None:
    assert len(capture_as_html().encode()) < 8_000_000
    assert "4 of 13 recordings are in this file." in capture_as_html()
    assert "the file had no room" in capture_as_html()


def test_it_is_the_same_every_time(tmp_path: Path) -> None:
    report = opened(steps(3, 50), tmp_path).report
    assert one_file.render(report) == one_file.render(report)


def test_every_zoom_of_a_small_trace_ends_at_rectangles(tmp_path: Path) -> None:
    """500 kernels and their gaps are too many for one view, an eighth of them is not."""
    text = one_file.render(opened(steps(2, 500), tmp_path).report)
    levels = embedded(Elements(text))["timelines"]["time"][0]
    assert [len(level) for level in levels] == [1, 8]
    assert {trace["type"] for trace in unpacked(levels[0][0])["data"]} >= {"heatmap"}
    assert "heatmap" not in {trace["type"] for piece in levels[1] for trace in unpacked(piece)["data"]}
    assert "no room" not in text


def test_steps_that_find_no_room_are_left_out_and_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_file, "MOST_STEPS", 3)
    text = one_file.render(opened(steps(8), tmp_path).report)
    assert len(embedded(Elements(text))["timelines"]["time"]) == len(embedded(Elements(text))["timelines"]["step"]) == 3
    assert "The first 3 steps of 8 are in this file." in text


def test_the_first_step_is_there_however_little_room(tmp_path: Path) -> None:
    bands = opened(steps(3, 2_000), tmp_path).bands
    drawn = one_file.timelines(bands, room=0)
    assert [len(each.levels) for each in (*drawn.time, *drawn.step)] == [1, 1]
    assert not drawn.is_complete


def test_a_long_name_ends_in_its_tooltip_and_a_single_recording_is_not_named(tmp_path: Path) -> None:
    found = Elements(one_file.render(opened(steps(2, name="k" * 400), tmp_path).report))
    texts = {each.text for each in found.named("td") if each.attributes.get("title") == "k" * 400}
    assert texts == {"k" * 149 + "…"}
    assert "recording" not in {each.text for each in found.named("th")}


def test_names_of_megabytes_do_not_fill_the_file(tmp_path: Path) -> None:
    builder = steps(2)
    for place in range(20):
        builder.launch(300 + place, 0.2).kernel(300.5 + place, 0.2, name=f"{place}{'k' * 1_000_000}")
    assert len(one_file.render(opened(builder, tmp_path).report)) < 6_000_000


def test_names_are_text_wherever_they_stand(tmp_path: Path) -> None:
    folder = tmp_path / "<b>folder"
    folder.mkdir()
    text = one_file.render(opened(steps(2, name=HOSTILE), folder, "<i>trace.json").report)
    found = Elements(text)
    assert not found.named("img")
    assert len(found.named("script")) == 3
    assert not found.named("i")
    assert not found.named("b")
    assert "<" not in next(each for each in found.named("script") if "id" in each.attributes).text
    assert any("gemm</script><script>alert(1)" in (each.attributes.get("title") or "") for each in found.named("td"))
    assert "\u202e" not in text  # it would turn the rest of the line around


def test_no_element_runs_or_loads_anything(tmp_path: Path) -> None:
    found = elements()
    for each in found.found:
        assert not [name for name in each.attributes if name.startswith("on")], each
        assert not {"src", "srcset", "action", "formaction"} & set(each.attributes), each
        assert each.attributes.get("href", "data:,") == "data:,"
    assert not {"iframe", "object", "embed", "base", "form"} & {each.name for each in found.found}


def test_the_policy_admits_the_two_scripts_and_nothing_else() -> None:
    found = elements()
    (policy,) = [
        each.attributes["content"] or ""
        for each in found.named("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    running = [each.text for each in found.named("script") if "type" not in each.attributes]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running]
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert "connect-src" not in rules
    assert "unsafe-eval" not in policy
    first = capture_as_html().index("Content-Security-Policy")
    assert (
        first < capture_as_html().index("<style>") < capture_as_html().index("<script")
    )  # it holds for what comes after it


def test_the_scripts_can_stand_in_a_capture_as_html() -> None:
    """What would end their element, or be changed by the parser and no longer match its hash."""
    for script in (one_file.plotly_script(), (one_file.FOLDER / "report.js").read_text("utf-8")):
        assert not re.search(r"</script|<!--|\r|\0", script, re.IGNORECASE)


def test_without_a_script_the_systems_theme_is_followed() -> None:
    (style,) = elements().named("style")
    assert re.search(
        r"@media \(prefers-color-scheme: dark\) \{ :root:not\(\[data-theme\]\) \{\s*--paper: #14171a", style.text
    )


@pytest.mark.parametrize("name", NAMED_CASES)
def test_every_case_becomes_a_page(name: str) -> None:
    found = case(name)
    if found is None:
        pytest.skip("nothing to open")
    text = one_file.render(found.report)
    assert sentence(found) in unescape(text)
    assert len(embedded(Elements(text))["timelines"]["time"]) >= 1


def test_several_ranks_are_several_bands(tmp_path: Path) -> None:
    files = [steps(2).write(tmp_path / f"rank{rank}.json") for rank in range(8)]
    text = one_file.render(analyze(*files, cache=False))
    assert "6 of 8 recordings are in this file." in text
    assert len(Elements(text).named("article")) >= 6


def test_export_and_analyze_write_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = steps(2).write(tmp_path / "trace.json")
    for command in ("export", "analyze"):
        assert run([command, str(file), "-o", str(tmp_path / f"{command}.html"), "--no-cache"]) == 0
        assert f"written to {tmp_path / command}.html" in capfd.readouterr().err
    assert (tmp_path / "export.html").read_bytes() == (tmp_path / "analyze.html").read_bytes()
    assert (tmp_path / "export.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert str(tmp_path) not in (tmp_path / "export.html").read_text("utf-8")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="plotly")

    monkeypatch.setattr(outputs, "import_module", absent)
    with pytest.raises(
        LaunchscopeError, match=r"'html' needs the package plotly: pip install 'launchscope\[dashboard\]'"
    ):
        outputs.renderer("html")
