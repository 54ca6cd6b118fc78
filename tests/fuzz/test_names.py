"""Names that a program chose reach every output as text: never as control sequence, tag, link, column or line."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.profile import health
from launchscope.analysis.render import perfetto
from launchscope.analysis.report import Report, analyze, load
from launchscope.fixtures.builder import TraceBuilder, trace
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ..nsys_builder import export

NAMES: Final = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31mcsi",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a|b|c",
    "`x` | `y`",
    "[click](javascript:alert(1))",
    "![x](https://example.com/x.png)",
    "<https://example.com>",
    "two\nlines\r\nand\ttabs",
    "\u202egnp.exe\u2066",
    "=cmd|' /C calc'!A0",
    "# heading",
    "- item",
    "&lt;b&gt;",
    "*bold* _it_ ~~gone~~ $x$",
    "half a pair \ud83d",
    "\0",
)


def hostile() -> TraceBuilder:
    """A trace in which every name that there is was chosen by someone."""
    builder = trace(device_names={0: NAMES[2]})
    for step in range(4):
        for number, name in enumerate(NAMES):
            at = 1000 * step + 40 * number
            builder.python(name, at - 2, 30).op(name, at, 20).launch(at + 1, 5, name).kernel(at + 20, 5, name=name)
            builder.sync(at + 26, 5, f"cudaStreamSynchronize{name}").annotation(f"{name} {step}", at, 39)
    return builder


def text_of(builder: TraceBuilder) -> bytes:
    """With half a surrogate pair as profilers print it."""
    events = builder.events()
    for event in events:
        event |= {"ts": float(event["ts"]), "dur": float(event["dur"])}
    return json.dumps({**json.loads(trace(device_names={0: NAMES[2]}).json()), "traceEvents": events}).encode()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of two such files, one of them with a name of its own, beside one that can't be read."""
    folder = tmp_path_factory.mktemp("names") / "a\x1b[31m|<b>`"
    folder.mkdir()
    (folder / "x<script>|`\x1b[1m.json").write_bytes(text_of(hostile()))
    (folder / "y.json.gz").write_bytes(gzip.compress(text_of(hostile())))
    (folder / "z[a](b)\n.json").write_bytes(b"")
    return analyze(folder)


def test_the_file_holds_them(report: Report) -> None:
    told = {kernel.name for kernel in report.document.traces[0].kernels}
    assert told == {name.replace("\ud83d", "\ufffd") for name in NAMES}
    assert len(report.document.unread) == 1


@pytest.mark.parametrize("verbose", [False, True])
def test_a_terminal_gets_no_control_sequence(report: Report, verbose: bool) -> None:
    for text in (
        report_story.render_terminal(report, width=90, color=False, verbose=verbose),
        health.render_terminal(report, width=90, color=False, verbose=verbose),
    ):
        assert all(line.isprintable() for line in text.split("\n"))


def test_a_terminal_with_colour_gets_no_other_sequence(report: Report) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", report_story.render_terminal(report, width=90, color=True, verbose=True))
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("render", [report_story.render_markdown, health.render_markdown])
def test_markdown_gets_no_markup(report: Report, render: Any) -> None:
    tokens = list(flat(MarkdownIt("gfm-like", {"linkify": False}).parse(render(report))))
    assert not {token.type for token in tokens} & {"link_open", "image", "html_block", "s_open", "em_open"}
    assert {token.content for token in tokens if token.type == "html_inline"} <= {"<code>", "</code>"}
    rows = [token for token in tokens if token.type in ("tr_open", "tr_close", "th_open", "td_open", "table_open")]
    for width in widths(rows):
        assert len(set(width)) == 1, "a table whose rows differ in their number of columns"


def flat(tokens: list[Token]) -> Any:
    for token in tokens:
        yield token
        yield from flat(token.children or [])


def widths(tokens: list[Token]) -> list[list[int]]:
    """The number of cells of each row of each table."""
    tables: list[list[int]] = []
    for token in tokens:
        match token.type:
            case "table_open":
                tables.append([])
            case "tr_open":
                tables[-1].append(0)
            case "th_open" | "td_open":
                tables[-1][-1] += 1
    return tables


def test_a_notebook_gets_no_tag(report: Report) -> None:
    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert (tag in {"div", "p", "b", "small"}, attrs) == (True, [])

    parser = Tags()
    parser.feed(report_story.notebook_html(report))
    parser.close()


def test_json_gives_names_as_they_are(report: Report) -> None:
    told = json.loads(report.to_json())
    assert {name.replace("\ud83d", "\ufffd") for name in NAMES} == {k["name"] for k in told["traces"][0]["kernels"]}
    assert b"\x1b" not in report.to_json()


def test_perfetto_gives_names_as_they_are(report: Report) -> None:
    data = b"".join(perfetto.render(report))
    assert all(name.encode() in data for name in NAMES[2:6])


def test_names_of_nsys(tmp_path: Path) -> None:
    builder = export(device_names={0: NAMES[0]})
    for number, name in enumerate(name for name in NAMES if name.isascii()):
        at = 40 * number
        builder.range(name, at, 30, by_id=number % 2 == 0, domain=number % 3)
        builder.launch(at + 1, 5, name).kernel(at + 20, 5, name=name)
    report = analyze(builder.write(tmp_path / "x.sqlite"))
    text = report_story.render_terminal(report, width=90, color=False, verbose=True)
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(report.document.traces[0].kernels) == sum(name.isascii() for name in NAMES)


def test_a_refusal_is_one_printable_line_whatever_the_names_in_it(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for name in ("../\x1b[2J\x1b]0;owned\x07", "../" + "k" * 60_000, "../two\nlines"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"")
        with pytest.raises(UnreadableInput, match=r"x\.zip: names a file outside of itself") as refused:
            load(path)
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 2100
