"""The terminal report: the answer first, within the width, as good without colour."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Final

import msgspec
import pytest
from launchscope.analysis import report_story
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.document import ActionDoc, ReportDocument, UnreadDoc, VerdictDoc
from rich.cells import cell_len

from ...cases import NAMED_CASES
from . import documents
from .documents import MS, report


@cache
def analyzed(name: str) -> ReportDocument:
    """One of the named traces, through every analysis."""
    return documents.traces_document(analyze_trace(NAMED_CASES[name]().build(), name=name).document)


WIDTHS: Final = (60, 80, 100, 140, 200)

DOCUMENTS: Final[dict[str, Callable[[], ReportDocument]]] = {
    "profile": documents.profile_document,
    "noisy profile": documents.noisy_profile,
    "failed mode": lambda: documents.with_modes(fused=documents.failed_mode()),
    "no mode ran": lambda: documents.only_modes(eager=documents.failed_mode(), graph=documents.no_mode()),
    "a mode of a long name": lambda: documents.only_modes(fused_graph=documents.modes()["eager"]),
    "nothing known of a mode": documents.bare_profile,
    "eager trace": lambda: documents.traces_document(documents.trace()),
    "graph trace": lambda: documents.traces_document(documents.graph_trace()),
    "no launches": lambda: documents.traces_document(documents.no_launches()),
    "nothing in the file": lambda: documents.traces_document(documents.nothing_known()),
    "two devices": lambda: documents.traces_document(
        documents.trace(devices=[documents.device(0), documents.device(2, name=None, steady=False)])
    ),
    "several traces": lambda: documents.traces_document(documents.trace(), documents.graph_trace()),
    "hostile names": lambda: documents.traces_document(documents.hostile_trace()),
    "no traces": documents.traces_document,
    **{f"case: {name}": partial(analyzed, name) for name in NAMED_CASES},
}


def rendered(document: ReportDocument, width: int = 100, *, color: bool = False, verbose: bool = False) -> str:
    text: str = report_story.render_terminal(report(document), width=width, color=color, verbose=verbose)
    return text


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_report_fits(name: str, width: int, verbose: bool) -> None:
    text = rendered(DOCUMENTS[name](), width, verbose=verbose)
    assert text.strip()
    assert text.endswith("\n")
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "None" not in text
    assert "nan" not in text.split()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_colour_adds_no_words(name: str) -> None:
    document = DOCUMENTS[name]()
    colored = rendered(document, 80, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == rendered(document, 80)


def test_the_answer_comes_first() -> None:
    lines = rendered(documents.profile_document()).splitlines()
    assert lines[0].startswith("llama_1b.py · batch 1 · bf16 · context 512")
    assert "NVIDIA H200 · driver 580.159 · CUDA 13.0 · torch 2.11" in "".join(lines[:2])
    assert "4 modes × 3 processes · in 96 s" in one_line("\n".join(lines[:4]))
    answer = next(i for i, line in enumerate(lines) if line.startswith("eager is LAUNCH-BOUND: the GPU works 2.02 ms"))
    assert answer < 6
    assert lines[answer + 3] == "steps recorded 8 of 11 kept, found by annotation"
    assert lines[answer + 5].startswith("1  torch.compile, then capture")


def test_a_prediction_is_never_told_as_a_measurement() -> None:
    lines = rendered(documents.profile_document(), 140).splitlines()
    actions = {line.split()[0]: line for line in lines if re.match(r"[123]  \w", line)}
    assert "→ 1.40 ms  13.6×  measured   saves 17.6 ms (93 %)" in actions["1"]
    assert "→ 1.35 ms  14.1×  predicted  saves 50.0 µs (0.3 %), at most 100 µs" in actions["3"]
    assert (
        "graph: predicted 2.30 ms from eager and the calibration · measured 2.29 ms · off by 4 % of T − W "
        "(240 ±96 µs), too high"
    ) in one_line("\n".join(lines))


def test_a_measured_way_on_is_told_with_the_speedup_of_its_mode() -> None:
    """Paired by repeat: 9 times, where 19.0 ÷ 2.29 would be 8.3."""
    document = documents.with_modes(graph=msgspec.structs.replace(documents.modes()["graph"], speedup=9.0))
    assert re.search(r"→ 2.29 ms +9.0×  measured", rendered(document, 140))


def test_a_range_that_the_digits_hide_is_not_told() -> None:
    near = ActionDoc(what="go on", saves_ns=2 * MS, share=0.5, low_ns=2 * MS - 1, high_ns=2 * MS + 1, step_ns=2 * MS)
    verdict = VerdictDoc(verdict_class="mixed", basis="trace", reason="it works", actions=[near])
    text = rendered(documents.traces_document(documents.trace(verdict=verdict)))
    assert re.search(r"saves 2.00 ms \(50 %\)$", text, re.MULTILINE)


def test_a_row_per_mode() -> None:
    lines = rendered(documents.profile_document(), 140).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("mode "))
    assert lines[head].split("  ")[0] == "mode"
    assert [re.split(r"\s{2,}", line) for line in lines[head + 1 : head + 5]] == [
        ["eager", "19.0 ms (17.8–20.1)", "2.02 ms", "735", "734", "17.0 ms", "0", "89 %", "1.00×", "–"],
        ["graph", "2.29 ms (2.29–2.30)", "2.05 ms", "1", "734", "0", "240 ±96 µs", "10 %", "8.3×", "equal"],
        ["fused", "4.99 ms (4.71–5.30)", "1.28 ms", "264", "263", "3.71 ms", "0", "74 %", "3.8×", "equal, 2e-3"],
        ["fused_graph", "1.40 ms (1.39–1.41)", "1.30 ms", "1", "263", "0", "100 ±34 µs", "7 %", "13.6×", "equal, 2e-3"],
    ]
    assert [re.split(r"\s{2,}", line) for line in lines[head + 8 : head + 12]] == [
        ["eager", "17.0 ±0.1 ms", "1.24 (1.18–1.31)", "2.10", "–", "–", "–"],
        ["graph", "240 ±96 µs", "1.07 (1.06–1.08)", "1.09", "32.0 ms", "–", "14.0 MiB"],
        ["fused", "3.71 ±0.03 ms", "1.30 (1.20–1.40)", "1.90", "–", "31.0 s", "–"],
        ["fused_graph", "100 ±34 µs", "1.06 (1.05–1.08)", "1.08", "18.0 ms", "31.0 s", "12.0 MiB"],
    ]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_figure_is_lost_where_it_is_narrow(width: int) -> None:
    text = rendered(documents.noisy_profile(), width)
    for figure in ("17.0 ms", "1.20 ms", "300 µs", "100 ±34 µs", "3.71 ±0.03 ms", "1.24 (1.18–1.31)", "12.0 MiB"):
        assert figure in text


def test_the_bound_is_told_with_every_tau() -> None:
    text = one_line(rendered(documents.profile_document()))
    assert "max(W, N·τ) = max(2.02 ms, 735 × 25.8 µs) = 19.0 ms · serial W + N·τ = 21.0 ms · measured 19.0 ms" in text
    assert "× 4.30 µs = 3.16 ms cheapest launch from Python" in text
    assert "× 8.30 µs = 6.10 ms in the median launch call, as traced" in text
    assert "× 25.8 µs = 19.0 ms with Python and dispatcher, unprofiled" in text
    assert "floor 580 µs" in text
    assert "T ÷ bound ≈ 1 proves nothing" in text


def test_warnings_stand_beside_the_figure_they_concern() -> None:
    text = rendered(documents.noisy_profile())
    assert "19.0 ms (17.8–20.1)¹·²" in text
    assert "¹ eager: T ±31 %: noisy host; more --repeats narrow it [noisy_host]" in text
    assert "³ graph: idle time withheld: below resolution" in text
    assert "DIFFERS, 0.31" in text
    assert "not compiled" not in text
    assert "graph.compile_ns: not compiled" in rendered(documents.noisy_profile(), verbose=True)


def test_a_failed_mode_is_one_row_with_its_reason() -> None:
    text = rendered(documents.with_modes(fused=documents.failed_mode()), 80)
    assert text.count("capture failed: the step copies to the host (.item() in") == 1
    assert "fused        capture failed:" in text
    assert "fused_graph  1.40 ms (1.39–1.41)" in text


def test_no_mode_ran() -> None:
    text = rendered(DOCUMENTS["no mode ran"]())
    assert "NOTHING MEASURED" in text
    assert "graph  failed: no reason was recorded" in text


def test_taxes_that_are_zero_everywhere_have_no_column() -> None:
    text = rendered(documents.profile_document(), 200)
    assert "stall" not in text
    assert "sync" in rendered(documents.noisy_profile(), 200)


def test_idle_by_cause_has_a_bar_a_share_and_the_time() -> None:
    text = rendered(documents.traces_document(documents.trace()))
    assert re.search(r"host +█+\S* +76 %  278 ms in 1,000 gaps", text)
    assert "365 ms in 5,872 gaps of 7 steps, steady · under 1 % each: device 40.0 µs, sync 20.0 µs" in one_line(text)
    assert re.search(r"device +▏ +<0.1 %  40.0 µs in 1,000 gaps", rendered(DOCUMENTS["eager trace"](), verbose=True))


def test_idle_of_a_profile_names_the_pass_it_was_recorded_in() -> None:
    assert "365 ms in 5,872 gaps of 7 steps, steady, cuda pass, repeat 0" in one_line(
        rendered(documents.profile_document())
    )


def test_without_steps_the_whole_window_is_told_as_such() -> None:
    text = rendered(documents.traces_document(documents.trace(steps=None)), 140)
    assert "window 35.2 ms" in text
    assert "step 35.2 ms" not in text.replace("of a 35.2 ms step", "").split("as profiled    ")[1]


def test_a_trace_is_told_with_its_coverage() -> None:
    text = one_line(rendered(documents.traces_document(documents.trace()), 140))
    assert "LAUNCH-BOUND: the GPU works 2.02 ms of a 35.2 ms step, as profiled (6 %)" in text
    assert "launch in the file for 8,085 of 8,085 GPU ops (100 %) · reliable" in text
    assert "8 of 11 kept, found by annotation" in text
    assert "cudaLaunchKernel 6,900 85 %" in text
    assert "cudaStreamSynchronize 1 193 µs aten::item sample" in text
    assert "aten::mm 1,243 15 % 1,243" in text
    assert "0 of 8,074 kernels with a launch (0 %, 0 % by time)" in text


def test_a_file_without_launches_says_so_and_shows_the_rest() -> None:
    text = rendered(documents.traces_document(documents.no_launches()))
    assert "NO VERDICT: the trace can't be trusted for this: no launches" in text
    assert "412 kernels, but no API calls, so launch gaps can't be explained" in one_line(text)
    assert "launches, graphs.coverage_by_count: the file has no API calls" in text
    assert "NOT RELIABLE" in text
    assert "gemvx::kernel<bf16, fp32>" in text


def test_kernels_can_be_told_apart_where_it_is_narrow() -> None:
    text = rendered(documents.profile_document(), 80)
    names = re.findall(r"^nvjet_sm90\S+…\S+_4x1_v_bz_(\w+)", text, re.MULTILINE)
    assert names == ["TNT", "TNN"]


def test_kernels_are_told_per_step_where_there_are_steps() -> None:
    """520 of 18.6 µs, as the file holds them; 65 of them and 1.21 ms a step."""
    trace = documents.trace()
    assert re.search(r"gemvx::kernel<bf16, fp32> +520  9.67 ms", rendered(documents.traces_document(trace)))
    kernels = [msgspec.structs.replace(k, count_per_step=65.0, ns_per_step=1.209 * MS) for k in trace.kernels]
    text = rendered(documents.traces_document(msgspec.structs.replace(trace, kernels=kernels)))
    assert re.search(r"gemvx::kernel<bf16, fp32> +65   1.21 ms", text)
    assert re.search(r"longest kernels +per step  per step", text)


def test_launches_of_their_own_say_nothing_of_kernels_in_graphs() -> None:
    assert "are shorter than τ" in rendered(documents.traces_document(documents.trace()))
    assert "are shorter than τ" not in rendered(documents.traces_document(documents.graph_trace()))


def test_an_equal_output_is_told_with_how_far_it_is_off_and_may_be() -> None:
    graph = msgspec.structs.replace(documents.modes()["graph"], max_relative_error=0.0387, output_tolerance=0.08)
    assert "equal, 3.9 % ≤ 8 %" in rendered(documents.with_modes(graph=graph), 140)
    wrong = msgspec.structs.replace(graph, output_matches_eager=False, max_relative_error=1.2)
    assert "DIFFERS, 120 % > 8 %" in rendered(documents.with_modes(graph=wrong), 140)


def test_verbose_tells_every_warning() -> None:
    warnings = [msgspec.structs.replace(documents.no_launches().warnings[0], code=f"w{i}") for i in range(9)]
    document = documents.traces_document(documents.trace(warnings=warnings))
    assert "[w4]" in rendered(document)
    assert "[w5]" not in rendered(document)
    assert "… 4 more warnings" in rendered(document)
    assert "[w8]" in rendered(document, verbose=True)


def test_an_action_without_a_saving_has_no_arrow() -> None:
    action = ActionDoc(what="use the GPU less", saves_ns=None, share=None, low_ns=0.0, high_ns=1.4 * MS)
    verdict = VerdictDoc(verdict_class="gpu-bound", basis="trace", reason="it works", actions=[action])
    text = rendered(documents.traces_document(documents.trace(verdict=verdict)))
    assert "1  use the GPU less  predicted  at most 1.40 ms to gain" in text


def test_many_traces_are_a_table_and_each_in_full_only_when_asked() -> None:
    named = [msgspec.structs.replace(documents.trace(), name=f"rank{n}.json", rank=n) for n in range(4)]
    for count, told in ((3, True), (4, False)):
        text = rendered(documents.traces_document(*named[:count]))
        assert ("idle by cause" in text or "as taxes" in text) is told
        assert ("-v tells each in full" in text) is not told
        assert text.count("rank0.json") == 1 + told
    assert re.search(r"rank0\.json · .*launch-bound", text)
    assert "GPU work" in text


def test_files_that_are_not_told_stand_at_the_end_with_their_reason() -> None:
    unread = [UnreadDoc(path="front\x1bend.json", reason="no GPU op in the file"), UnreadDoc(path="b", reason="empty")]
    document = msgspec.structs.replace(documents.traces_document(documents.trace()), unread=unread)
    text = rendered(document)
    last = text[text.index("2 files not told") :]
    assert "no GPU op in the file" in last
    assert "empty" in last
    assert "\x1b" not in text
