"""The fusion advisor's part of the report in words, at 80 columns."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.report import Report, analyze
from launchscope.analysis.report_story import render_terminal as render
from launchscope.fixtures.builder import trace

from ...captures import shipped


@cache
def captured(name: str) -> Report:
    return shipped(name)


def lines(report: Report, *, verbose: bool = False, width: int = 80) -> list[str]:
    return render(report, width=width, color=False, verbose=verbose).splitlines()


def after(report_lines: list[str], begin: str, count: int) -> list[str]:
    """So many lines from the one on that begins so."""
    at = next(number for number, line in enumerate(report_lines) if line.startswith(begin))
    return [line.rstrip() for line in report_lines[at : at + count]]


def chain(tmp_path: Path, *, shapes: bool) -> Report:
    """Three steps of three element-wise operators on 8 values of bf16, launched in 5 µs each."""
    builder = trace()
    for step in range(3):
        builder.step(step, 100 * step, 99)
        for place, name in enumerate(("neg", "exp", "neg")):
            at = 100 * step + 20 * place
            builder.op(f"aten::{name}", at, 18, shapes=[[1, 8]] if shapes else None)
            builder.launch(at + 2, 5).kernel(at + 10, 2, name=f"kernel_of_{name}")
    return analyze(builder.write(tmp_path / "trace.json"))


def test_a_profile_tells_what_is_worth_most_in_both_columns() -> None:
    assert after(lines(captured("llama_1b.zip")), "could be fused", 12) == [
        "could be fused                            launches     eager   a graph",
        "residual add + RMSNorm × 32               288 → 32   3.25 ms    399 µs",
        "RoPE + KV-cache write × 16                192 → 16   2.24 ms    353 µs",
        "the mask, converted in every layer × 16     48 → 3    572 µs   66.5 µs",
        "QKV projection × 16                        48 → 16    406 µs    168 µs",
        "gate + up projection × 16                  32 → 16    203 µs   46.2 µs",
        "all, with 2 others                       648 → 100   6.96 ms   1.07 ms",
        "",
        "predicted      in eager mode launches × τ (12.7 µs, host time per launch,",
        "               unprofiled); all: 3.21 ms to 6.96 ms",
        "               in a graph GPU work of 860 µs and 548 node gaps of 376 ns; all:",
        "               207 µs to 1.15 ms",
    ]


def test_in_markdown_each_row_has_a_cell_per_column() -> None:
    told = after(report_story.render_markdown(captured("llama_1b.zip")).splitlines(), "| could be fused", 3)
    assert {line.count(" | ") for line in told} == {3}
    assert told[2].startswith("| residual add + RMSNorm × 32 | 288 → 32 | 3.25 ms | 399 µs |")


def test_promised_beside_came() -> None:
    assert after(lines(captured("llama_1b.zip")), "torch.compile fused", 8) == [
        "torch.compile fused  promised  came  promised     came",
        "residual_norm             263   263    311 µs   335 µs",
        "gate_up                    16     0   40.2 µs        0",
        "qkv                        32     0    156 µs        0",
        "silu_mul                   16    16   15.6 µs  22.4 µs",
        "rope_kv                   176   140    287 µs   265 µs",
        "attention_mask             45    48   49.6 µs  53.0 µs",
        "all                       548   471    860 µs   689 µs",
    ]


def test_verbose_tells_where_how_it_is_known_and_how_to_do_it() -> None:
    told = " ".join(" ".join(lines(captured("llama_1b.zip"), verbose=True)).split())
    assert "QKV projection × 16 · layers 0 to 15 mm → mm → mm at" in told
    assert "fixtures/models/llama.py(94): forward" in told
    assert "known by: three products in a row whose input is alike" in told
    assert "how: one nn.Linear whose weight is torch.cat([q.weight, k.weight, v.weight])" in told
    assert "kernels' times from traces/eager-0-cuda.json.gz" in told


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("verbose", [False, True])
def test_it_fits(width: int, verbose: bool) -> None:
    assert max(map(len, lines(captured("llama_1b.zip"), verbose=verbose, width=width))) <= width


def test_a_bare_trace_says_why_a_column_is_empty(tmp_path: Path) -> None:
    told = lines(chain(tmp_path, shapes=True))
    assert after(told, "could be fused", 5) == [
        "could be fused                        launches     eager   a graph",
        "element-wise chain (neg → exp → neg)     3 → 1   10.0 µs         –",
        "",
        "predicted      in eager mode launches × τ (5.00 µs, median launch overhead)",
        "               in a graph unknown: bandwidth or ν is not known",
    ]


def test_without_shapes_only_verbose_says_how_to_get_them(tmp_path: Path) -> None:
    report = chain(tmp_path, shapes=False)
    assert not any("fusion" in line or "fused" in line for line in lines(report))
    assert any("record_shapes=True" in line for line in lines(report, verbose=True))


def test_a_profile_tells_it_once() -> None:
    told = lines(captured("llama_1b.zip"), verbose=True)
    assert sum(line.startswith("could be fused") for line in told) == 2  # a table that goes on: its bytes
    assert not any("record_shapes=True" in line for line in told)


def test_where_the_gpu_sets_the_pace_launches_save_nothing_by_themselves(tmp_path: Path) -> None:
    builder = trace()
    for step in range(4):
        builder.step(step, 100 * step, 60)
        for place, name in enumerate(("neg", "exp", "neg")):
            at = 100 * step + 20 * place
            builder.op(f"aten::{name}", at, 18, shapes=[[1, 8]]).launch(at + 2, 5)
            builder.kernel(100 * step + 10 + 33 * place, 32, name=f"kernel_of_{name}")
    report = analyze(builder.write(tmp_path / "trace.json"))
    assert report.document.traces[0].verdict.verdict_class == "gpu-bound"
    told = after(lines(report), "could be fused", 4)
    assert told[1].split()[-5:] == ["3", "→", "1", "–", "–"]
    assert told[3] == "predicted      in eager mode GPU work alone, as the GPU sets the pace"
