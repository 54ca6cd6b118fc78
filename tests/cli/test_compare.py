"""``launchscope compare``: from two captures or traces to what changed, in words and as a document."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launchscope
import msgspec
import pytest
from launchscope.analysis.compare import compare_story
from launchscope.analysis.compare.compared_paths import Comparison
from launchscope.analysis.compare.documents import ComparedDoc, UnprofiledDoc
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.cli import run
from launchscope.fixtures.builder import trace
from rich.cells import cell_len

CAPTURES = Path(launchscope.__file__).parent / "fixtures" / "captures"
LIVE = CAPTURES / "live.zip"

Captured = pytest.CaptureFixture[str]


def step_trace(path: Path, *, syncs: int = 0, kernels: int = 2, steps: int = 5) -> Path:
    """Steps of 100 µs with so many kernels of 5 µs, and so many waits at the end of each."""
    building = trace()
    for number in range(steps):
        at = number * 100
        building.step(number, at=at, dur=95)
        for each in range(kernels):
            building.launch(at=at + 10 * each, dur=4).kernel(at=at + 10 * each + 5, dur=5, name=f"kernel_{each}")
        for each in range(syncs):
            building.sync(at=at + 80 + 5 * each, dur=4)
    building.write(path)
    return path


def changed(path: Path, change: Callable[[dict[str, Any]], None], source: Path = LIVE) -> Path:
    """A copy of a capture with another manifest."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            if member.filename.endswith("manifest.json"):
                manifest = json.loads(data)
                change(manifest)
                data = json.dumps(manifest).encode()
            new.writestr(member.filename, data)
    return path


def in_turn(factor: float, repeats: int) -> Callable[[dict[str, Any]], None]:
    """So many processes of the graph mode alone, each this much slower than the recorded one, in one run."""

    def change(manifest: dict[str, Any]) -> None:
        (process,) = manifest["modes"]["graph"]["processes"]
        process["samples_ns"] = [ns * factor for ns in process["samples_ns"]]
        more = [{**process, "repeat": n, "trace": None} for n in range(1, repeats)]
        manifest["modes"] = {"graph": {"processes": [process, *more]}}
        manifest["run"] = "r1"

    return change


def without_a_mode(manifest: dict[str, Any]) -> None:
    """Of a machine with another driver, too."""
    del manifest["modes"]["fused"]
    manifest["environment"]["driver"] = "600.1"


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """A trace, and one with a wait and a kernel more in each step."""
    before = step_trace(tmp_path / "before.json")
    return str(before), str(step_trace(tmp_path / "after.json", syncs=1, kernels=3))


def test_what_changed_is_told_with_its_cause(two: tuple[str, str], capfd: Captured) -> None:
    assert run(["compare", *two]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith("before.json → after.json")
    assert "1. 1 blocking call more: cudaStreamSynchronize (0 → 1 per step)." in out
    assert re.search(r"kernels +2 +3 +\+1 \(\+50 %\)", out)
    assert re.search(r"came: only after\n\(inferred\) +per step +time\nkernel_2 +1 +5.00 µs", out)
    assert re.search(r"blocking calls\nper step +before +after +change\ncudaStreamSynchronize +0 +1 +\+1", out)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_it_fits(two: tuple[str, str], width: int) -> None:
    told = compare_story.render_terminal(launchscope.compare(*two), width=width, color=False, verbose=True)
    assert max(map(cell_len, told.splitlines())) <= width


def test_nothing_changed(two: tuple[str, str], capfd: Captured) -> None:
    assert run(["compare", two[0], two[0]]) == 0
    assert "Nothing changed beyond what the traces' own steps differ by." in capfd.readouterr().out


def test_json_is_one_document_whatever_is_compared(two: tuple[str, str], capfd: Captured) -> None:
    assert run(["compare", *two, "--format", "json"]) == 0
    document = msgspec.json.decode(capfd.readouterr().out, type=ComparedDoc)
    assert document.schema == "launchscope.comparisons/1"
    (only,) = document.comparisons
    assert (only.unprofiled, only.comparison.schema) == (None, "launchscope.compare/1")
    assert document.before.machine == {}


def test_a_file_is_written_by_its_suffix_and_never_over_an_input(two: tuple[str, str], capfd: Captured) -> None:
    file = Path(two[0]).with_name("what.md")
    assert run(["compare", *two, "-o", str(file)]) == 0
    assert file.read_text("utf-8").startswith("## before.json → after.json")
    assert run(["compare", *two, "-o", two[1]]) == 2
    assert "is an input; -o would overwrite it" in capfd.readouterr().err


def test_captures_are_compared_in_every_mode_that_both_have(tmp_path: Path, capfd: Captured) -> None:
    other = changed(tmp_path / "other.zip", without_a_mode)
    assert run(["compare", str(LIVE), str(other), "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [each["name"] for each in document["comparisons"]] == ["eager", "graph", "fused_graph"]
    assert document["notes"][0] == f"Only in {LIVE}: fused."
    assert document["notes"][1].startswith("Other machines, so times are not comparable: driver ")
    eager = document["comparisons"][0]["unprofiled"]
    assert (eager["change"], eager["low"], eager["paired"]) == (0.0, None, False)
    assert eager["needed_processes"] > 1, "with one process a side nothing can be told, and it says so"


def test_one_mode_alone(capfd: Captured) -> None:
    assert run(["compare", str(LIVE), str(LIVE), "--mode", "graph"]) == 0
    out = capfd.readouterr().out
    assert re.search(r"\ngraph +by cuda, ", out)
    assert "too few processes to tell (1 and 1 process, at least " in out
    assert run(["compare", str(LIVE), str(LIVE), "--mode", "as_written"]) == 2
    assert "--mode as_written: nothing of" in capfd.readouterr().err


def test_t_is_told_from_unprofiled_samples_in_pairs_where_both_were_measured_in_turn(tmp_path: Path) -> None:
    before = changed(tmp_path / "before.zip", in_turn(1.0, 8))
    after = changed(tmp_path / "after.zip", in_turn(1.05, 8))
    (graph,) = launchscope.compare(before, after).document.comparisons
    t = graph.unprofiled
    assert t is not None
    assert (t.paired, t.processes_before, t.needed_processes) == (True, 8, None)
    assert t.change == pytest.approx(0.05)
    assert t.low == pytest.approx(0.05)
    told = compare_story.render_markdown(launchscope.compare(before, after))
    assert "+5.0 % (99 %: +5.0 to +5.0 %; 8 pairs)" in told


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [(-0.01, 0.02, ": no change that can be told"), (0.01, 0.02, ")"), (None, None, "at least 5 are needed)")],
)
def test_a_change_within_its_interval_is_called_none(low: float | None, high: float | None, ends: str) -> None:
    doc = UnprofiledDoc(
        before_ns=1e6, after_ns=1.01e6, change=0.01, low=low, high=high, processes_before=3, processes_after=3,
        paired=False, needed_processes=5 if low is None else None,
    )  # fmt: skip
    assert compare_story.unprofiled(doc).endswith(ends)


def regressed(before: str, after: str) -> list[str]:
    """Likely causes of what was recorded on an H200 (not in the package: fixtures/captures/README.md)."""
    recorded = Path(__file__).parents[2] / "fixtures" / "captures" / "regressions"
    (found,) = launchscope.compare(recorded / f"{before}.zip", recorded / f"{after}.zip").document.comparisons
    return found.comparison.likely_causes


def test_new_kernels_have_their_line_from_the_pass_with_stacks() -> None:
    came = [cause for cause in regressed("serve", "serve_item") if " extra kernel" in cause]
    assert came[0].startswith("1 extra kernel from aten::abs, at serve_loop.py(41): check per step, 896 ns: ")
    assert [cause.split(" ")[0] for cause in came] == ["1", "1", "1", "2"], "abs, all, eq; mul and ne"


def test_compare_and_check_tell_the_same_story_of_a_compilation() -> None:
    skipped, residual = (regressed("compiled", after)[0] for after in ("compiled_skip", "compiled_residual"))
    assert skipped == (
        "What torch.compile had merged runs on its own: aten::mul (16), aten::silu (16), aten::index (2) and 2 more, "
        "kernels 246 → 294 per step: a graph break, or skipped code."
    )
    assert residual == (
        "What torch.compile had merged runs on its own: aten::add (32), kernels 246 → 280 per step: "
        "a graph break, or skipped code."
    )


def test_two_models_are_told_before_what_differs_between_them() -> None:
    """Neither lost its graph: the second launches a few kernels more beside it."""
    names = ("torchao_quantize_vit_bfloat16.json.gz", "leimao_trace_with_manual_capture.json.gz")
    (found,) = launchscope.compare(*(CAPTURES.parent / "traces" / name for name in names)).document.comparisons
    first, second, *_ = found.comparison.likely_causes
    assert first.startswith("Hardly any GPU op of the two steps is the same (0 of 186 and 40): two models? ")
    assert second == "Fewer of the kernels run in graphs: 99 % → 94 %, launches 2 → 5 per step."


def test_a_table_is_told_in_one_piece_with_places_that_can_be_read() -> None:
    recorded = Path(__file__).parents[2] / "fixtures" / "captures" / "regressions"
    found = launchscope.compare(recorded / "serve.zip", recorded / "serve_item.zip")
    for width in (60, 80, 100):
        told = compare_story.render_terminal(found, width=width, color=False, verbose=True)
        heads = re.findall(r"^(came:|went:|merged,|slower$|faster$|launches$|blocking calls$)", told, re.M)
        assert sorted(heads) == ["blocking calls", "came:", "faster", "launches"], f"{width} columns"
    assert re.search(r"aten::_.*dense +0 +1 +\+1 +serve_loop\.py\(41\): check", told)


def test_a_change_that_is_not_that_of_the_medians_is_told_as_what_it_is() -> None:
    doc = UnprofiledDoc(
        before_ns=4.91e6, after_ns=9.56e6, change=0.874, low=None, high=None, processes_before=2, processes_after=2,
        paired=False, needed_processes=5,
    )  # fmt: skip
    told = "T, unprofiled: 4.91 ms → 9.56 ms, +87.4 % as the median of the ratios; too few"
    assert compare_story.unprofiled(doc).startswith(told)
    assert " ratios" not in compare_story.unprofiled(msgspec.structs.replace(doc, change=0.947))
    assert ", +87.4 % pair by pair; too few" in compare_story.unprofiled(msgspec.structs.replace(doc, paired=True))
    close = msgspec.structs.replace(doc, before_ns=2_371_000, after_ns=2_374_000, change=0.0013)
    assert compare_story.unprofiled(close).startswith("T, unprofiled: 2.371 ms → 2.374 ms, +0.1 %;")


def test_lines_come_from_the_pass_with_stacks() -> None:
    found = launchscope.compare(CAPTURES / "llama_1b.zip", CAPTURES / "llama_1b.zip", mode="eager")
    (eager,) = found.document.comparisons
    assert eager.trace_pass == "cpu_cuda", "the one that knows operators"
    assert isinstance(found, Comparison)
    assert json.loads(found.to_json())["comparisons"][0]["pass"] == "cpu_cuda"


def test_a_capture_and_a_trace_of_others(two: tuple[str, str], capfd: Captured) -> None:
    assert run(["compare", two[0], str(LIVE), "--mode", "eager", "--format", "json"]) == 0
    (only,) = json.loads(capfd.readouterr().out)["comparisons"]
    assert (only["name"], only["unprofiled"]) == ("eager", None)
    assert any("Recorded differently" in note for note in only["comparison"]["notes"])
    with pytest.raises(LaunchscopeError, match="--mode has to name one of its modes: eager, graph, fused"):
        launchscope.compare(LIVE, two[0])


def test_both_sides_are_told_though_one_is_no_capture(two: tuple[str, str], capfd: Captured) -> None:
    assert run(["compare", two[0], str(LIVE), "--mode", "eager"]) == 0
    assert re.search(r"\nbefore +a recording of others\nafter .*NVIDIA H200", capfd.readouterr().out)


def test_a_capture_without_modes_and_a_report_are_called_what_they_are(tmp_path: Path, capfd: Captured) -> None:
    empty = changed(tmp_path / "empty.zip", lambda manifest: manifest["modes"].clear())
    assert run(["compare", str(LIVE), str(empty)]) == 2
    assert "empty.zip: a capture without a mode" in capfd.readouterr().err
    report = tmp_path / "report.json"
    report.write_bytes(launchscope.load(LIVE).to_json())
    assert run(["compare", str(LIVE), str(report)]) == 2
    assert "a JSON report of launchscope, which holds figures and no trace" in capfd.readouterr().err


def test_what_can_not_be_compared_is_said(two: tuple[str, str], capfd: Captured) -> None:
    assert run(["compare", *two, "--mode", "graph"]) == 2
    assert "is a capture, which has modes" in capfd.readouterr().err
    assert run(["compare", two[0], "nowhere.json"]) == 2
    assert "nowhere.json" in capfd.readouterr().err


def test_folders_of_traces_pair_by_name(two: tuple[str, str], tmp_path: Path, capfd: Captured) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("rank0.json", "rank1.json"):
            step_trace(tmp_path / folder / name, kernels=2 if folder == "a" else 3)
    step_trace(tmp_path / "b" / "rank2.json")
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [each["name"] for each in document["comparisons"]] == ["rank0.json", "rank1.json"]
    assert document["notes"] == [f"Only in {tmp_path / 'b'}: rank2.json."]


def test_the_only_mode_of_each_side_is_compared_whatever_it_is(tmp_path: Path) -> None:
    """A target that failed to capture its graph is no longer measured as it was written."""

    def only(name: str, called: str) -> Callable[[dict[str, Any]], None]:
        def change(manifest: dict[str, Any]) -> None:
            manifest["modes"] = {called: manifest["modes"][name]}

        return change

    before = changed(tmp_path / "before.zip", only("graph", "as_written"), CAPTURES / "llama_1b.zip")
    after = changed(tmp_path / "after.zip", only("eager", "eager"), CAPTURES / "llama_1b.zip")
    (found,) = launchscope.compare(before, after).document.comparisons
    assert found.name == "as_written → eager"
    assert found.comparison.graph_coverage == "lost"
    assert found.unprofiled is not None
    with pytest.raises(LaunchscopeError, match=r"nothing of .* \(as_written\) is in .* \(eager\) too"):
        launchscope.compare(before, after, mode="eager")
