"""The Markdown report: the same story; nothing that a traced program is called breaks out of it."""

from __future__ import annotations

import re

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.render import markdown

from . import documents
from .documents import HOSTILE, report
from .test_terminal import DOCUMENTS


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_report_renders_with_whole_tables(name: str) -> None:
    text = report_story.render_markdown(report(DOCUMENTS[name]()))
    assert text.endswith("\n")
    assert "None" not in text
    assert all(char == "\n" or char.isprintable() for char in text)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_the_same_story() -> None:
    text = report_story.render_markdown(report(documents.profile_document()))
    assert text.startswith("## llama_1b.py · batch 1")
    assert "**eager is LAUNCH-BOUND**: the GPU works 2.02 ms of a 19.0 ms step" in text
    assert "1. **torch.compile, then capture** → 1.40 ms, 13.6×, measured, saves 17.6 ms" in text
    row = "| graph | 2.29 ms (2.29–2.30) | 2.05 ms | 1 | 734 | 0 | 240 ±96 µs | 10 % | 8.3× | equal |"
    assert row in text
    assert "| graph | 240 ±96 µs | 1.07 (1.06–1.08) | 1.09 | 32.0 ms | – | 14.0 MiB |" in text
    assert "| `nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT` | 256 |" in text
    assert "fused_graph: predicted 1.38 ms from fused" in text


def test_a_failed_mode_is_a_row() -> None:
    text = report_story.render_markdown(report(documents.with_modes(fused=documents.failed_mode())))
    assert "| fused | capture failed: the step copies to the host (.item() in sample, model.py:31)" in text


def test_names_can_not_add_markup() -> None:
    text = report_story.render_markdown(report(documents.traces_document(documents.hostile_trace())))
    assert HOSTILE not in text
    assert not re.search(r"<(?!/?code>)(?!\.)\w", text.replace("\\<", ""))
    assert "evil\\\\x1b\\[31m \\[bold\\]\\|\\`\\<b\\>\\\\u202e \\[/bold\\]" in text


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("f<T, 8>", "`f<T, 8>`"),
        ("a_b_*c*", "`a_b_*c*`"),
        ("a|b", "<code>a&#124;b</code>"),
        ("a`<b>", "<code>a&#96;&lt;b&gt;</code>"),
        ("a\nb", "`a\\nb`"),
    ],
)
def test_names_as_code(name: str, written: str) -> None:
    assert markdown.code(name) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("fused_graph", "fused_graph"),
        ("_x_ *y* `z`", "\\_x\\_ \\*y\\* \\`z\\`"),
        ("[a](b) <i> a|b", "\\[a\\](b) \\<i\\> a\\|b"),
        ("two\nlines", "two lines"),
    ],
)
def test_text_is_shown_as_it_is(text: str, written: str) -> None:
    assert markdown.escaped(text) == written
