"""What a click on a GPU op tells."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import launchscope
from launchscope.analysis.report import analyze
from launchscope.dashboard.opened_report import OpenedReport, open_bands
from launchscope.dashboard.page.details import Details, details
from launchscope.fixtures.builder import TraceBuilder, trace


def opened(tmp_path: Path, **builders: TraceBuilder) -> OpenedReport:
    return open_bands(analyze(*(builder.write(tmp_path / f"{name}.json") for name, builder in builders.items())))


def told(page: OpenedReport, key: str, row: int) -> Details:
    found = details(page, key, row)
    assert found is not None
    return found


def eager() -> TraceBuilder:
    """Four steps of 1,000 µs: gemm, silu, mul, gemm, each launched by its operator inside a line of Python."""
    builder = trace()
    for step in range(4):
        builder.step(step, step * 1000, 900).python("model.py(7): forward", step * 1000, 850)
        for index, name in enumerate(("gemm", "silu", "mul", "gemm")):
            at = step * 1000 + index * 20
            builder.op(f"aten::{name}", at + 1, 12).launch(at + 2, 5).kernel(at + 9, 5 + (step == 3), name=name)
    return builder


def graph() -> TraceBuilder:
    """The same with silu and mul in one, replayed by one graph launch."""
    builder = trace()
    for step in range(4):
        builder.step(step, step * 1000, 900).graph_launch(step * 1000 + 2, 5)
        for index, name in enumerate(("gemm", "silu_mul", "gemm")):
            builder.kernel(step * 1000 + 20 + 6 * index, 5, name=name)
    return builder


def test_an_op_with_its_launch_and_stack(tmp_path: Path) -> None:
    found = told(opened(tmp_path, eager=eager()), "eager.json", 5)
    assert (found.name, found.short_name) == ("silu", "silu")
    op = dict(found.op)
    assert op["where"] == "20.0 µs into step 2 · device 0, stream 7"
    assert (op["duration"], op["all of this name"]) == ("5.00 µs", "median 5.00 µs, p90 5.70 µs")
    assert found.launch == (
        ("API", "cudaLaunchKernel"),
        ("overhead", "5.00 µs"),
        ("latency", "7.00 µs"),
        ("queue time", "2.00 µs"),
        ("thread", "1"),
    )
    assert op["operator"] == "aten::silu"
    assert op["stack"] == ("model.py(7): forward", "aten::silu")
    assert "in a graph" not in op


def test_the_gap_before_it_and_what_the_host_did(tmp_path: Path) -> None:
    """gemm ends at 14 µs, silu starts at 29: its launch is from 22 to 27, its operator from 21."""
    assert told(opened(tmp_path, eager=eager()), "eager.json", 1).gap == (
        ("idle", "15.0 µs"),
        ("host", "8.00 µs"),
        ("launch", "5.00 µs"),
        ("dispatch", "2.00 µs"),
        ("after", "gemm"),
        ("the host", ("aten::silu 8.00 µs", "inside model.py(7): forward")),
    )


def test_all_its_other_occurrences(tmp_path: Path) -> None:
    found = told(opened(tmp_path, eager=eager()), "eager.json", 4)
    assert dict(found.op)["how many"] == "2 in the step, 8 in all"


def test_its_place_in_a_graph(tmp_path: Path) -> None:
    found = told(opened(tmp_path, graph=graph()), "graph.json", 7)
    op, launch, gap = dict(found.op), dict(found.launch), dict(found.gap)
    assert (op["in a graph"], op["replay"]) == ("node 2 of 3, graph 0", "3 of 4")
    assert (launch["API"], launch["launched"]) == ("cudaGraphLaunch", "3 GPU ops")
    assert gap["graph"] == "1.00 µs"
    assert gap.keys().isdisjoint({"host", "launch", "dispatch", "the host"})


def test_counterparts_in_the_other_bands_are_inferred(tmp_path: Path) -> None:
    page = opened(tmp_path, eager=eager(), graph=graph())
    (same,) = told(page, "eager.json", 7).counterparts
    assert (same.key, same.row, same.name, same.dur_ns, same.how, same.inferred) == (
        "graph.json", 5, "gemm", 5_000, "same name", True,
    )  # fmt: skip
    (merged,) = told(page, "eager.json", 6).counterparts
    assert (merged.row, merged.name, merged.how) == (4, "silu_mul", "in its place")
    assert merged.words == "2 ops were merged into 1, between the same neighbours"
    (split,) = told(page, "graph.json", 4).counterparts
    assert (split.rows, split.dur_ns) == ((5, 6), 10_000)
    assert split.words == "1 op was split into 2, between the same neighbours"


def test_the_same_node_of_two_replays(tmp_path: Path) -> None:
    (found,) = told(opened(tmp_path, one=graph(), two=graph()), "one.json", 4).counterparts
    assert (found.how, found.row) == ("same node", 4)


def test_why_there_is_no_counterpart(tmp_path: Path) -> None:
    loose = trace().launch(0, 5).kernel(9, 5, name="gemm").kernel(90, 5, name="add", launch=False)
    page = opened(tmp_path, eager=eager(), loose=loose)
    assert told(page, "eager.json", 0).without_counterpart == (("loose.json", "no kept step in loose.json"),)
    found = told(page, "loose.json", 1)
    assert dict(found.op)["where"] == "device 0, stream 7"
    assert found.launch == (("none", "its launch is not in the file"),)


def test_an_op_whose_launch_came_before_the_recording(tmp_path: Path) -> None:
    early = trace().kernel(0, 5, launch=False).launch(10, 5).kernel(20, 5)
    found = told(opened(tmp_path, early=early), "early.json", 0)
    assert found.launch == (("none", "its launch is not in the file: it came before the recording began"),)
    assert found.gap == (("no gap", "it started while another op ran, or first"),)


def test_what_is_not_there_has_no_details(tmp_path: Path) -> None:
    page = opened(tmp_path, eager=eager())
    assert [details(page, *place) for place in (("other", 0), ("eager.json", -1), ("eager.json", 16))] == [None] * 3


@cache
def llama() -> OpenedReport:
    return open_bands(analyze(Path(launchscope.__file__).parent / "fixtures/captures/llama_1b.zip"))


class TestLlama:
    """Recorded on an H200."""

    def test_an_attention_kernel_is_in_every_mode(self) -> None:
        found = told(llama(), "eager", 880)
        assert found.short_name.startswith("cudnn_generated_fort_native_sdpa")
        assert [(each.key, each.how) for each in found.counterparts] == [
            ("graph", "same name"),
            ("fused", "same name"),
            ("fused_graph", "same name"),
        ]
        assert len({each.name for each in found.counterparts}) == 1

    def test_what_was_fused_leads_to_the_kernel_it_is_in(self) -> None:
        by_key = {each.key: each for each in told(llama(), "eager", 720).counterparts}
        assert by_key["graph"].words == "same name"
        assert by_key["fused"].words == "12 ops were merged into 1, between the same neighbours"
        assert by_key["fused"].name.startswith("triton_red_fused")

    def test_there_and_back(self) -> None:
        for row in range(718, 1436, 71):
            (graph,) = (each for each in told(llama(), "eager", row).counterparts if each.key == "graph")
            back = {each.key: each.row for each in told(llama(), "graph", graph.row).counterparts}
            assert back["eager"] == row

    def test_a_recording_with_stacks_names_the_users_line(self) -> None:
        stack = dict(told(llama(), "eager-stacks-3", 800).op)["stack"]
        assert stack[-2:] == ("launchscope/fixtures/models/llama.py(68): forward", "aten::mul")
