"""What the page is made of: bands of a capture and of bare traces, the answer in words, and files that change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from launchscope.analysis.report import Report, analyze, load
from launchscope.dashboard.opened_report import OpenedReport, Watched, open_bands
from launchscope.dashboard.page.cards import cards, machine, next_steps, sentence
from launchscope.fixtures.builder import TraceBuilder, trace

from .opening import capture

CAPTURE = Path(__file__).parents[2] / "fixtures" / "captures" / "llama_1b.zip"


@cache
def demo() -> OpenedReport:
    return open_bands(load(CAPTURE))


def steps(count: int = 4) -> TraceBuilder:
    """Steps of 100 µs: a launch of 6 µs, its kernel of 20 µs two µs later."""
    builder = trace()
    for step in range(count):
        builder.step(step, 100 * step, 95).launch(100 * step, 6).kernel(100 * step + 8, 20)
    return builder


def opened(folder: Path, *names: str) -> OpenedReport:
    return open_bands(analyze(*(steps().write(folder / name) for name in names)))


def test_a_capture_shows_a_band_per_mode_and_can_show_every_recording() -> None:
    assert demo().first == ("eager", "graph", "fused", "fused_graph")
    assert len(demo().bands) == len(demo().report.analyses)
    assert len({band.key for band in demo().bands}) == len(demo().bands)
    assert {band.analysis.context.trace_pass for key in demo().first if (band := demo().band(key))} == {"cuda"}


def test_the_band_of_a_mode_is_the_recording_nearest_to_its_median() -> None:
    for key in demo().first:
        band = demo().band(key)
        assert band is not None
        assert band.mode is not None
        assert band.mode.step_ns is not None
        away = {
            process.repeat: abs(sorted(process.samples_ns)[len(process.samples_ns) // 2] - band.mode.step_ns.median)
            for process in band.mode.processes
            if any(
                a.context.trace_pass == "cuda" and (a.context.mode, a.context.repeat) == (key, process.repeat)
                for a in demo().report.analyses
            )
        }
        assert band.analysis.context.repeat == min(away, key=lambda repeat: away[repeat])


def test_a_step_begins_with_its_first_gpu_op_and_ends_with_the_next_steps(tmp_path: Path) -> None:
    (band,) = opened(tmp_path, "a.json").bands
    assert band.step_windows[:2] == [(8_000, 108_000), (108_000, 208_000)]
    assert band.step_windows[-1][1] - band.step_windows[-1][0] in (20_000, 100_000)  # the last has no successor


def test_a_trace_without_steps_is_one(tmp_path: Path) -> None:
    report = load(trace().launch(0, 5).kernel(at=10, dur=20).kernel(at=50, dur=5).write(tmp_path / "a.json"))
    (band,) = open_bands(report).bands
    assert band.step_windows == [(10_000, 55_000)]


def test_a_trace_without_gpu_ops_has_no_step(tmp_path: Path) -> None:
    report = load(trace().op("aten::add", 0, 5).write(tmp_path / "a.json"))
    (band,) = open_bands(report).bands
    assert band.step_windows == []
    assert sentence(open_bands(report)).startswith("NO VERDICT")


def test_equal_names_get_keys_of_their_own(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    found = opened(tmp_path, "a/trace 1.json", "b/trace 1.json")
    assert len({band.key for band in found.bands}) == 2
    assert all(band.key.isascii() and " " not in band.key and "/" not in band.key for band in found.bands)


def test_the_answer_is_the_reports() -> None:
    report: Report = demo().report
    profile = report.document.profile
    assert profile is not None
    assert profile.verdict is not None
    assert sentence(demo()) == f"eager is LAUNCH-BOUND: {profile.verdict.reason}"
    assert [step.what for step in next_steps(demo())] == [action.what for action in profile.verdict.actions]
    assert "NVIDIA H200" in machine(demo())


def test_a_prediction_carries_its_range_and_what_was_measured_needs_no_reason() -> None:
    steps = {step.what: step for step in next_steps(demo())}
    assert [step.reasons for step in steps.values() if step.basis == "measured"] == ["", ""]
    assert "saves 8.15 ms (86 %), 8.11 ms to 8.18 ms" in steps["replay it from a process that uses few streams"].detail
    assert (steps["what is left then"].basis, steps["what is left then"].leaves) == ("", "")
    assert steps["what is left then"].detail.startswith("at most 785 µs to gain")


def test_what_to_do_comes_with_a_line_that_tries_it_and_what_says_so() -> None:
    frozen, less = next_steps(capture("faults/static_input"))
    assert frozen.reasons.startswith("try overwrite what was captured: buffers.token.copy_(new); changed by itself, it")
    assert "at llama_1b_faults.py:208 in step: buffers.token = host_token.to(" in frozen.reasons
    assert less.reasons == "try launchscope whatif PATH --gpu matmul=0.5"
    assert (frozen.basis, less.basis) == ("", "")  # nobody told the gain


def test_a_card_per_mode_with_its_figures() -> None:
    found = cards(demo())
    assert [card.title for card in found] == ["eager", "graph", "fused", "fused_graph"]
    assert [card.is_baseline for card in found] == [True, False, False, False]
    facts = {fact.label: fact.value for fact in found[1].facts}
    assert facts["launches"] == "1"
    assert facts["kernels"] == "717"
    assert facts["step T"].startswith("2.22 ms (2.219–2.220)")
    assert facts["speedup"] == "4.2×"
    assert facts["launch tax"] == "0"
    assert facts["steps recorded"] == "4 of 5 kept"


def test_a_card_of_a_trace_says_as_profiled(tmp_path: Path) -> None:
    (card,) = cards(opened(tmp_path, "a.json"))
    facts = {fact.label: fact for fact in card.facts}
    assert (facts["step"].value, facts["GPU work W"].value, facts["idle"].value) == ("100 µs", "20.0 µs", "80 %")
    assert "as profiled" in facts["idle"].hint
    assert "found by " in facts["steps recorded"].hint


def test_a_file_that_changes_or_goes_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    watched = Watched.of([file])
    assert watched.problem() is None
    file.write_text("{} ")
    assert f"{file} has changed" in (watched.problem() or "")
    file.unlink()
    assert f"{file} is gone" in (watched.problem() or "")
