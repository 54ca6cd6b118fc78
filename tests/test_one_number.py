"""One name, one number: what each output shows of a mode of a shipped capture is what the JSON report says of it.

Values are compared, whatever they are written like: '7.47 ms' is 7.47e6 ns to its last digit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import launchscope
import pytest
from launchscope.analysis.model.capture import is_capture
from launchscope.analysis.profile.mode_table import shown_name
from launchscope.analysis.profile.select import behind_figures, of_mode
from launchscope.cli.outputs import COMPARED, OUTPUTS, Output, renderer
from launchscope.dashboard.charts.bound_chart import bound_figure
from launchscope.dashboard.charts.idle_chart import idle_figure
from launchscope.dashboard.opened_report import open_bands
from launchscope.dashboard.page.cards import cards
from launchscope.dashboard.page.sections import compare_sections
from launchscope.dashboard.plotting import LIGHT

CAPTURES: Final = Path(__file__).parents[1] / "fixtures" / "captures"
SHIPPED: Final = sorted(path for path in CAPTURES.rglob("*.zip") if is_capture(path))

TAXES: Final = {
    "launch tax": "launch_tax_ns",
    "stall tax": "stall_tax_ns",
    "node tax": "node_tax_ns",
    "sync tax": "sync_tax_ns",
    "between steps": "between_steps_ns",
    "other idle": "other_idle_ns",
}
OF_TABLE: Final = TAXES | {
    "step T (95 %)": "step_ns",
    "GPU work": "gpu_work_ns",
    "without waiting": "gpu_work_without_waiting_ns",
    "waiting": "waiting_ns",
    "launches": "launches",
    "kernels": "kernels",
    "idle ÷ T": "true_idle_fraction",
    "T − W": "exposed_idle_ns",
}
OF_CARD: Final = {
    "step T": "step_ns",
    "GPU work W": "gpu_work_ns",
    "W without waiting": "gpu_work_without_waiting_ns",
    "waiting": "waiting_ns",
    "launch tax": "launch_tax_ns",
    "true idle": "true_idle_fraction",
    "launches": "launches",
    "kernels": "kernels",
}
OF_NOTEBOOK: Final = {
    "step T": "step_ns",
    "GPU work W": "gpu_work_ns",
    "launches": "launches",
    "idle": "true_idle_fraction",
}
OF_COMPARE: Final = OF_CARD | TAXES | {
    "idle between steps": "between_steps_ns",
    "T − W": "exposed_idle_ns",
    "predicted graph time": "predicted_graph_ns",
    "GPU ops": "gpu_ops",
}  # fmt: skip
OF_CHECK: Final = {
    "step_time": "step_ns",
    "gpu_work": "work",
    "launches": "launches",
    "kernels": "kernels",
    "launch_tax": "launch_tax_ns",
    "true_idle": "true_idle_fraction",
}
UNITS: Final = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, "": 1.0}
_SHOWN: Final = re.compile(r"(?P<number>[−-]?[\d,]*\.?\d+)(?: ±[\d.]+)? ?(?P<unit>ns|µs|ms|s|%)?(?: \(.*\))?")
_MARKS: Final = re.compile(r"[¹²³⁴⁵⁶⁷⁸⁹⁰·]+$")  # of notes

Mode = Mapping[str, float | None]


@lru_cache(maxsize=1)
def opened(path: Path) -> launchscope.Report:
    return launchscope.load(path, cache=False)


def modes_of(report: launchscope.Report) -> dict[str, Mode]:
    """The figures of every mode that was timed, as JSON has them."""
    found = json.loads(report.to_json())["profile"]["modes"]
    return {name: _figures(mode) for name, mode in found.items() if mode["step_ns"] is not None}


def _figures(mode: Mapping[str, Any]) -> Mode:
    without = mode["gpu_work_without_waiting_ns"]
    work = mode["gpu_work_ns"] if without is None else without
    return {**mode, "step_ns": mode["step_ns"]["median"], "work": work}


def is_shown(text: str, value: float | None) -> bool:
    """Whether a text shows this value, to its last digit."""
    text = _MARKS.sub("", text.replace("\u00a0", " "))
    if value is None or text == "–":
        return value is None and text == "–"
    found = _SHOWN.fullmatch(text.removeprefix("<"))
    assert found is not None, text
    number, unit = found["number"].replace(",", "").replace("−", "-"), UNITS[found["unit"] or ""]
    digit = 10.0 ** -len(number.partition(".")[2]) * unit
    return abs(float(number) * unit - value) <= digit


def test_what_is_shown_is_read_to_its_last_digit() -> None:
    assert is_shown("7.47 ms", 7.474e6)
    assert is_shown("3.50 ±0.09 ms²", 3.4984e6)
    assert is_shown("25.9 ms (23.4–28.2)", 25_913_648.6)
    assert is_shown("1,234", 1234.0)
    assert is_shown("74 %", 0.744)
    assert is_shown("–", None)
    assert not is_shown("13.7 ms", 7.47e6)
    assert not is_shown("92 %", 0.154)
    assert not is_shown("–", 0.0)
    assert not is_shown("0", None)


def wrong(shown: Mapping[str, str], mode: Mode, names: Mapping[str, str]) -> list[tuple[str, str, float | None]]:
    """What is not the mode's: label, text, the mode's value."""
    return [
        (label, shown[label], mode[name])
        for label, name in names.items()
        if label in shown and not is_shown(shown[label], mode[name])
    ]


def rows_of(markdown: str, head: str) -> Iterator[dict[str, str]]:
    """The rows of every Markdown table whose first column is called so, by column."""
    columns: list[str] = []
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            columns = []
        elif not columns:
            columns = cells
        elif columns[0] == head and not cells[0].startswith(":-"):
            yield dict(zip(columns, cells, strict=False))


def text_of(table: Mapping[str, Output], name: str, subject: object, **style: Any) -> str:
    content = renderer(name, table)(subject, **style)
    assert isinstance(content, str)
    return content


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda path: str(path.relative_to(CAPTURES)))
def capture(request: pytest.FixtureRequest) -> Path:
    """All tests of one capture run before those of the next, so that it is opened once."""
    assert isinstance(request.param, Path)
    return request.param


def test_the_tables_of_terminal_and_markdown(capture: Path) -> None:
    report = opened(capture)
    markdown = text_of(OUTPUTS, "markdown", report).replace("\\>", ">")
    terminal = text_of(OUTPUTS, "terminal", report, width=500, color=False, verbose=True)
    lines = {" ".join(line.split()) for line in terminal.splitlines()}
    rows = list(rows_of(markdown, "mode"))
    for name, mode in modes_of(report).items():
        own = [row for row in rows if _MARKS.sub("", row["mode"]) == shown_name(name)]
        assert own, name
        for row in own:
            assert wrong(row, mode, OF_TABLE) == []
            assert " ".join(" ".join(row.values()).split()) in lines, "the terminal has the same row"
    for found in re.finditer(r"(\w+): predicted (\S+ \S+) from (\w+)", terminal):
        goal, text, source = found.groups()
        predicted = [mode["predicted_graph_ns"] for name, mode in modes_of(report).items() if name in (goal, source)]
        assert predicted
        assert all(is_shown(text, value) for value in predicted if value is not None)


def test_what_json_itself_says_twice(capture: Path) -> None:
    report = opened(capture)
    for mode in modes_of(report).values():
        bound: Any = mode["bound"]
        if bound is not None:
            assert bound["step_ns"] == mode["step_ns"]
            assert bound["gpu_work_ns"] == mode["work"]
            assert (bound["launches"], bound["tau_ns"]) == (mode["launches"], mode["tau_step_ns"])
    ranks = json.loads(report.to_json())["profile"]["ranks"]
    for name, mode in modes_of(report).items() if ranks is not None else ():
        own = next(each for each in ranks["modes"][name]["ranks"] if each["rank"] == ranks["told"])
        same = ("gpu_work_ns", "gpu_work_without_waiting_ns", "launches", "kernels", "launch_tax_ns")
        assert [own[figure] for figure in same] == [mode[figure] for figure in same]
        assert (own["step_ns"]["median"], own["waiting_of_step_ns"]) == (mode["step_ns"], mode["waiting_ns"])


def test_cards_and_charts_of_the_page(capture: Path) -> None:
    page = open_bands(opened(capture))
    modes = modes_of(page.report)
    found = {card.key or card.title.replace(" ", "_"): card.facts for card in cards(page)}
    shown = {key: {fact.label: fact.value for fact in facts} for key, facts in found.items()}
    for name, mode in modes.items():
        assert wrong(shown[name], mode, OF_CARD) == []
    marks = {each["name"]: each["x"] for each in bound_figure(page, LIGHT)["data"] if each["mode"] == "markers"}
    drawn = {"measured T": "step_ns", "GPU work W": "work", "predicted as one graph": "predicted_graph_ns"}
    for mark, figure in drawn.items():
        values = [value for mode in modes.values() if (value := mode[figure])]
        assert [x * 1e3 for x in marks.get(mark, [])] == pytest.approx(values)
    bars = {each["name"]: each["x"] for each in idle_figure(page, LIGHT)["data"]}
    for tax, figure in TAXES.items():
        values = [value for mode in modes.values() if (value := mode[figure])]
        assert [x * 1e3 for x in bars.get(tax, [])] == pytest.approx(values)


def test_two_modes_compared_on_the_page(capture: Path) -> None:
    page = open_bands(opened(capture))
    modes = modes_of(page.report)
    drawn = [name for name in modes if page.band(name) is not None]
    for first, other in pairwise(drawn):
        (section,) = (each for each in compare_sections(page, first, other) if each.key == "figures")
        assert len({row[0] for row in section.rows}) == len(section.rows), "a name stands once"
        for place, name in ((1, first), (2, other)):
            assert wrong({row[0]: row[place] for row in section.rows}, modes[name], OF_COMPARE) == []


def test_data_frames_and_notebook(capture: Path) -> None:
    report = opened(capture)
    modes = modes_of(report)
    steps = report.steps[report.steps["kept"]]
    for name, mode in modes.items():
        behind = [analysis.context.name for analysis in behind_figures(of_mode(report.told, name))]
        of_mode_alone = steps[steps["mode"].fillna("as_written") == name]
        own = [of_mode_alone[of_mode_alone["trace"] == trace] for trace in behind]
        for column in ("launches", "gpu_ops"):
            assert mode[column] == (median(float(each[column].median()) for each in own) if own else None)
    html = report._repr_html_()
    titles = re.findall(r"<th>(.*?)</th>", html)
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*?)</tr>", html)]
    shown = {row[0]: dict(zip(titles, row, strict=True)) for row in rows if len(row) == len(titles)}
    for name, mode in modes.items():
        assert wrong(shown[name], mode, OF_NOTEBOOK) == []


def test_compare(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With itself: both sides are the mode, and nothing changed."""
    modes = modes_of(opened(capture))
    monkeypatch.setattr("launchscope.analysis.compare.compared_paths.analyze", lambda path, **_: opened(path))
    compared = launchscope.compare(capture, capture)
    for each in compared.document.comparisons:
        if each.name not in modes:
            continue
        mode = modes[each.name]
        assert {figure.name: figure.before for figure in each.figures} == {
            figure.name: mode[figure.name] for figure in each.figures
        }
        assert {name for name in (*TAXES.values(), "gpu_work_ns", "step_ns") if mode[name] is not None} <= {
            figure.name for figure in each.figures
        }
        assert all(not figure.change for figure in each.figures)
        if each.unprofiled is not None:
            assert (each.unprofiled.before_ns, each.unprofiled.after_ns) == (mode["step_ns"], mode["step_ns"])
    shown = list(rows_of(text_of(COMPARED, "markdown", compared), "per step"))
    tables = [place for place, row in enumerate(shown) if row["per step"] == "step T"]
    timed = [each.name for each in compared.document.comparisons if each.figures]
    assert len(tables) == len(timed)
    for name, start, end in zip(timed, tables, [*tables[1:], len(shown)], strict=True):
        own = {row["per step"]: row["before"] for row in shown[start:end]}
        assert wrong(own, modes[name], OF_COMPARE) == []


def test_check(capture: Path) -> None:
    report = opened(capture)
    limits = dict.fromkeys(OF_CHECK, "<= 1000 s") | {"launches": "<= 1e9", "kernels": "<= 1e9", "true_idle": "<= 1"}
    modes = modes_of(report)
    for part in launchscope.check(report, limits=limits).parts:
        for finding in part.findings:
            if finding.figure in OF_CHECK and finding.mode in modes:
                value = modes[finding.mode][OF_CHECK[finding.figure]]
                assert finding.measured == (None if value is None else pytest.approx(value)), finding
