"""What changed from one trace to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.compare.compare import compare
from launchscope.analysis.compare.documents import SCHEMA, ComparisonDoc
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.report import analyze
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES
from ..captures import shipped
from ..facts.ranks.ranks_by_hand import ALL_REDUCE
from ..profile.rank_captures import two_ranks

Kernel = tuple[str, str, float]
"""Operator, kernel, µs."""

LAYER: tuple[Kernel, ...] = (("aten::mm", "gemm", 5), ("aten::silu", "silu", 3), ("aten::mul", "mul", 2))


def eager(kernels: Sequence[Kernel], *, steps: int = 4, item: bool = False) -> TraceBuilder:
    """Steps of 1,000 µs: each kernel is launched in its operator, 20 µs after the one before; then an ``.item()``."""
    builder = trace()
    for step in range(steps):
        builder.step(step, step * 1000, 900)
        for index, (operator, name, dur) in enumerate(kernels):
            at = step * 1000 + index * 20
            builder.op(operator, at, 15).launch(at + 2, 5).kernel(at + 9, dur, name=name)
        if item:
            at = step * 1000 + 800
            builder.python("model.py(42): forward", at, 50).python(
                "torch/nn/modules/module.py(9): __call__", at + 1, 48
            )
            builder.op("aten::_local_scalar_dense", at + 5, 40)
            builder.launch(at + 6, 4, "cudaMemcpyAsync").memcpy(at + 12, 1, name="Memcpy DtoH (Device -> Pageable)")
            builder.sync(at + 11, 10)
    return builder


def graph(kernels: Sequence[Kernel], *, steps: int = 4) -> TraceBuilder:
    builder = trace()
    for step in range(steps):
        builder.step(step, step * 1000, 900).graph_launch(step * 1000 + 2, 5)
        at: float = step * 1000 + 20
        for _, name, dur in kernels:
            builder.kernel(at, dur, name=name)
            at += dur + 1
    return builder


def analyzed(builder: TraceBuilder, name: str = "synthetic") -> TraceAnalysis:
    return analyze_trace(builder.build(), name=name)


def compared(before: TraceBuilder, after: TraceBuilder) -> ComparisonDoc:
    return compare(analyzed(before, "before"), analyzed(after, "after"))


def change(comparison: ComparisonDoc, name: str) -> tuple[float | None, float | None, float | None]:
    figure = comparison.figure(name)
    assert figure is not None
    return figure.before, figure.after, figure.change


def test_nothing_changed() -> None:
    found = compared(eager(LAYER), eager(LAYER))
    assert found.likely_causes == ["Nothing changed beyond what the traces' own steps differ by."]
    assert (found.scope, found.ops_before, found.ops_after, found.pairs) == ("step", 3, 3, 3)
    lists = (found.came, found.went, found.moved, found.merged, found.slower, found.faster, found.exchanged)
    assert not any(lists)
    assert not any((found.launches, found.blocking_calls, found.notes, found.withheld))
    assert all(not figure.change for figure in found.figures)
    assert found.graph_coverage == "same"


def test_two_kernels_were_merged_into_one() -> None:
    fused = (("aten::mm", "gemm", 5), ("triton_silu_mul", "triton_silu_mul", 4))
    found = compared(eager(LAYER * 2), eager(fused * 2))
    (merged,) = found.merged
    assert [(op.name, op.operator, op.count) for op in merged.before] == [
        ("silu", "aten::silu", 1),
        ("mul", "aten::mul", 1),
    ]
    assert [(op.name, op.count) for op in merged.after] == [("triton_silu_mul", 1)]
    assert (merged.ops_before, merged.ops_after, merged.count) == (2, 1, 2)
    assert (merged.ns_before, merged.ns_after, merged.inferred) == (10_000, 8_000, True)
    assert (found.pairs, found.came, found.went) == (2, [], [])
    assert found.likely_causes == [
        "4 GPU ops were merged into 2 per step (10.0 µs → 8.00 µs of GPU time, launches 6 → 4), "
        "as silu + mul → triton_silu_mul (inferred)."
    ]
    assert change(found, "kernels") == (6, 4, -2)


def test_a_kernel_is_slower_by_two_microseconds() -> None:
    slow = (("aten::mm", "gemm", 7), *LAYER[1:])
    found = compared(eager(LAYER), eager(slow))
    (pair,) = found.slower
    assert (pair.name_before, pair.name_after, pair.operator, pair.count) == ("gemm", "gemm", "aten::mm", 1)
    assert (pair.median_before_ns, pair.median_after_ns, pair.change_ns, pair.spread_ns) == (5_000, 7_000, 2_000, 0)
    assert not found.faster
    assert found.likely_causes == [
        "The same GPU ops run slower: +2.00 µs per step, of which +2.00 µs in 1 (most of it in gemm, 5.00 µs → 7.00 µs "
        "each): other clocks, other shapes, other neighbours, or something else on the GPU."
    ]


def test_slower_and_faster_kernels_are_netted() -> None:
    """10 µs more in one kernel, 4 less in two others: of 6 µs in all."""
    was = (("aten::mm", "gemm", 5), ("aten::silu", "silu", 8), ("aten::silu", "silu", 8))
    now = (("aten::mm", "gemm", 15), ("aten::silu", "silu", 6), ("aten::silu", "silu", 6))
    found = compared(eager(was), eager(now))
    assert found.same_change_ns == 6_000
    assert found.likely_causes == [
        "The same GPU ops run slower: +6.00 µs per step, of which +10.0 µs in 1 (most of it in gemm, 5.00 µs → 15.0 µs "
        "each) and −4.00 µs in 2 (most of it in silu, 8.00 µs → 6.00 µs each): "
        "other clocks, other shapes, other neighbours, or something else on the GPU."
    ]


def test_a_change_within_the_spread_of_the_steps_is_none() -> None:
    """The middle of 5, 5, 9 and 9 µs is 7: 2 µs more than before, but the steps alone differ by 4."""
    noisy = trace()
    for step, dur in enumerate((5, 9, 5, 9)):
        noisy.step(step, step * 1000, 900).op("aten::mm", step * 1000, 15).launch(step * 1000 + 2, 5)
        noisy.kernel(step * 1000 + 9, dur, name="gemm")
    found = compared(eager(LAYER[:1]), noisy)
    assert not found.slower
    assert change(found, "busy_ns") == (5_000, 7_000, 2_000)


def test_one_step_has_no_spread() -> None:
    found = compared(eager(LAYER, steps=1), eager((("aten::mm", "gemm", 7), *LAYER[1:])))
    assert (found.slower, found.pairs) == ([], 3)
    assert found.withheld["slower"] == "only one step of its kind before (before): its own spread is not known"


def test_an_item_came() -> None:
    found = compared(eager(LAYER), eager(LAYER, item=True))
    (call,) = found.blocking_calls
    assert (call.api, call.operator) == ("cudaStreamSynchronize", "aten::_local_scalar_dense")
    assert (call.before, call.after, call.change) == (0, 1, 1)
    assert call.stack[0] == "model.py(42): forward"
    assert found.likely_causes == [
        "1 blocking call more: cudaStreamSynchronize in aten::_local_scalar_dense, at model.py(42): forward "
        "(0 → 1 per step).",
        "1 memory copy more per step: Memcpy DtoH (Device -> Pageable) in aten::_local_scalar_dense (0 → 1).",
    ]
    (launch,) = found.launches
    assert (launch.api, launch.operator, launch.change) == ("cudaMemcpyAsync", "aten::_local_scalar_dense", 1)
    assert [doc.stack[0] for doc in found.came] == ["model.py(42): forward"]


def test_a_call_whose_line_moved_is_no_new_call() -> None:
    moved = eager(LAYER, item=True)
    for event in moved._events:
        event["name"] = event["name"].replace("(42)", "(43)")
    assert not compared(eager(LAYER, item=True), moved).blocking_calls


def test_a_replay_fell_back_to_eager_launches() -> None:
    found = compared(graph(LAYER * 4), eager(LAYER * 4))
    assert found.graph_coverage == "lost"
    assert found.likely_causes == [
        "Graph replays were lost: launches 1 → 12 per step, 100 % → 0 % of the kernels run in graphs."
    ]
    assert (found.pairs, found.ops_before, found.ops_after) == (12, 12, 12)
    told = {(row.api, row.operator): row.change for row in found.launches}
    assert told == {
        ("cudaLaunchKernel", "aten::mm"): 4,
        ("cudaLaunchKernel", "aten::mul"): 4,
        ("cudaLaunchKernel", "aten::silu"): 4,
        ("cudaGraphLaunch", None): -1,
    }
    assert change(found, "graph_coverage") == (1, 0, -1)


def test_a_graph_beside_which_more_is_launched_was_not_lost() -> None:
    """The kernels of one replay, and two more that are launched beside it, of 14 or 8 in all."""

    def beside(kernels: Sequence[Kernel], loose: int) -> TraceBuilder:
        builder = graph(kernels)
        for step in range(4):
            for each in range(loose):
                builder.launch(step * 1000 + 800 + 10 * each, 5).kernel(step * 1000 + 806 + 10 * each, 2, name="loose")
        return builder

    found = compared(beside(LAYER * 4, 0), beside(LAYER * 4, 2))
    assert found.graph_coverage == "fewer"
    assert found.likely_causes[0] == "Fewer of the kernels run in graphs: 100 % → 86 %, launches 1 → 3 per step."
    assert compared(beside(LAYER * 4, 2), beside(LAYER * 4, 0)).graph_coverage == "more"


def test_what_a_compiler_numbered_anew_did_not_change() -> None:
    """The same kernels by the numbers that another compilation gave them; then one more of them."""

    def compiled(*numbers: int) -> TraceBuilder:
        names = [f"triton_poi_fused_add_{number}" for number in numbers]
        return eager([("aten::mm", "gemm", 5), *((name, name, 2) for name in names)])

    found = compared(compiled(0, 1), compiled(1, 2))
    assert (found.pairs, found.launches) == (3, [])
    assert found.likely_causes == ["Nothing changed beyond what the traces' own steps differ by."]
    found = compared(compiled(0, 1), compiled(1, 2, 3))
    assert [(doc.name, doc.count) for doc in found.came] == [("triton_poi_fused_add_3", 1)]
    assert [(doc.operator, doc.change) for doc in found.launches] == [("triton_poi_fused_add", 1)]


def test_runs_that_differ_in_numbers_of_a_compiler_alone_are_told_as_one() -> None:
    fused = [(f"triton_silu_mul_{n}", f"triton_silu_mul_{n}", 4.0) for n in (0, 1)]
    (merged,) = compared(eager(LAYER * 2), eager([LAYER[0], fused[0], LAYER[0], fused[1]])).merged
    assert (merged.ops_before, merged.ops_after, merged.count) == (2, 1, 2)
    assert (merged.ns_before, merged.ns_after) == (10_000, 8_000)
    assert [op.name for op in merged.after] == ["triton_silu_mul_0"]


def test_what_was_merged_by_a_compiler_runs_on_its_own() -> None:
    fused = (("aten::mm", "gemm", 5), ("triton_silu_mul_0", "triton_silu_mul_0", 4))
    found = compared(eager(fused * 2), eager(LAYER * 2))
    assert found.likely_causes[0] == (
        "What torch.compile had merged runs on its own: aten::mul (2), aten::silu (2), kernels 4 → 6 per step: "
        "a graph break, or skipped code."
    )
    assert compared(eager(LAYER * 2), eager(fused * 2)).likely_causes[0].startswith("4 GPU ops were merged into 2")


def test_a_memset_is_no_kernel() -> None:
    """By another name in a graph than outside it, it neither came nor went; one that came is called what it is."""

    def with_memset(builder: TraceBuilder, name: str) -> TraceBuilder:
        for step in range(4):
            builder.launch(step * 1000 + 700, 5, "cudaMemsetAsync").memset(step * 1000 + 706, 1, name=name)
        return builder

    known, unknown = (with_memset(eager(LAYER), f"Memset ({kind})") for kind in ("Device", "Unknown"))
    assert compared(known, unknown).likely_causes == ["Nothing changed beyond what the traces' own steps differ by."]
    assert compared(eager(LAYER), known).likely_causes == ["1 extra memset per step, 1.00 µs: Memset."]


def test_kernels_that_came_say_where_from() -> None:
    found = compared(eager(LAYER), eager((*LAYER, ("aten::add", "add", 2), ("aten::add", "add", 2))))
    (came,) = found.came
    assert (came.name, came.operator, came.count, came.ns, came.inferred) == ("add", "aten::add", 2, 4_000, True)
    assert found.likely_causes == ["2 extra kernels from aten::add per step, 4.00 µs: add."]


def test_kernels_that_run_elsewhere_neither_came_nor_went() -> None:
    found = compared(eager((("aten::add", "add", 2), *LAYER)), eager((*LAYER, ("aten::add", "add", 2))))
    assert [(doc.name, doc.count) for doc in found.moved] == [("add", 1)]
    assert not found.came
    assert not found.went


def test_another_kernel_of_the_same_operator() -> None:
    other = (("aten::mm", "gemm_128", 9), *LAYER[1:])
    found = compared(eager((("aten::mm", "gemm_64", 5), *LAYER[1:])), eager(other))
    (pair,) = found.exchanged
    assert (pair.name_before, pair.name_after, pair.matched_by) == ("gemm_64", "gemm_128", "operator")
    assert found.likely_causes == ["Another kernel in aten::mm: gemm_64 → gemm_128, +4.00 µs per step (inferred)."]


def test_steps_of_two_models_are_not_called_merged() -> None:
    found = compared(eager(LAYER), eager((("aten::conv", "conv", 9),)))
    assert found.likely_causes == [
        "Hardly any GPU op of the two steps is the same (0 of 3 and 1): two models? "
        "(10.0 µs → 9.00 µs of GPU time, launches 3 → 1)."
    ]


def test_the_same_work_takes_the_host_longer() -> None:
    slow = trace()
    for step in range(4):
        slow.step(step, step * 2000, 1900)
        for index, (operator, name, dur) in enumerate(LAYER):
            at = step * 2000 + index * 20
            slow.op(operator, at, 15).launch(at + 2, 5).kernel(at + 9, dur, name=name)
    assert compared(eager(LAYER), slow).likely_causes == [
        "As profiled, the step takes 1.00 ms longer with the same GPU ops, most in idle `host`: the host (Python, "
        "dispatcher, CPU clock, another process), not the GPU work."
    ]


def test_without_steps_only_names_and_totals_are_told() -> None:
    loose = trace().launch(0, 5).kernel(9, 5, name="gemm").launch(20, 5).kernel(29, 5, name="other")
    found = compared(eager(LAYER), loose)
    assert (found.scope, found.pairs, found.merged) == ("whole", 0, [])
    assert [(doc.name, doc.count, doc.inferred) for doc in found.came] == [("other", 1, False)]
    assert [(doc.name, doc.count) for doc in found.went] == [("silu", 4), ("mul", 4)]
    assert found.withheld["merged"] == "no kept steps in after: nothing to align, and no count per step"
    assert change(found, "kernels") == (12, 2, -10)
    assert found.likely_causes[-1] == "More can't be told without steps on both sides."


SCENES: dict[str, Callable[[], TraceBuilder]] = {
    "eager": lambda: eager(LAYER * 2),
    "item": lambda: eager(LAYER * 2, item=True),
    "graph": lambda: graph(LAYER * 2),
    "shuffled": lambda: eager((*LAYER[::-1], *LAYER, ("aten::add", "add", 2))),
    "other": lambda: eager((("aten::mm", "gemm_128", 9), *LAYER[1:], *LAYER)),
    "empty": trace,
}


@pytest.mark.parametrize("left", SCENES)
@pytest.mark.parametrize("right", SCENES)
def test_the_other_way_round_every_sign_turns(left: str, right: str) -> None:
    a, b = analyzed(SCENES[left](), left), analyzed(SCENES[right](), right)
    assert_mirrored(compare(a, b), compare(b, a))


def assert_mirrored(there: ComparisonDoc, back: ComparisonDoc) -> None:
    assert (there.before, there.after) == (back.after, back.before)
    for figure, other in zip(there.figures, back.figures, strict=True):
        assert (figure.before, figure.after, figure.spread) == (other.after, other.before, other.spread)
        assert figure.change == (None if other.change is None else -other.change)
    assert (there.came, there.went, there.moved) == (back.went, back.came, back.moved)
    key = msgspec.json.encode
    assert sorted(map(key, there.merged)) == sorted(
        key(msgspec.structs.replace(
            doc, before=doc.after, after=doc.before, ops_before=doc.ops_after, ops_after=doc.ops_before,
            ns_before=doc.ns_after, ns_after=doc.ns_before,
        ))
        for doc in back.merged
    )  # fmt: skip
    for these, those in ((there.slower, back.faster), (there.faster, back.slower), (there.exchanged, back.exchanged)):
        turned = [
            msgspec.structs.replace(
                doc,
                name_before=doc.name_after,
                name_after=doc.name_before,
                median_before_ns=doc.median_after_ns,
                median_after_ns=doc.median_before_ns,
                change_ns=-doc.change_ns,
            )
            for doc in those
        ]
        assert sorted(map(key, these)) == sorted(map(key, turned))
    assert there.same_change_ns == (None if back.same_change_ns is None else pytest.approx(-back.same_change_ns))
    for field in ("launches", "blocking_calls"):
        rows, others = getattr(there, field), getattr(back, field)
        turned = [msgspec.structs.replace(r, before=r.after, after=r.before, change=-r.change) for r in others]
        assert sorted(map(key, rows)) == sorted(map(key, turned))
    assert (there.graph_coverage, back.graph_coverage) in {
        ("lost", "won"), ("won", "lost"), ("fewer", "more"), ("more", "fewer"), ("same", "same"), (None, None),
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMED_CASES if name != "truncated file"])
def test_every_named_case_compares_with_itself(name: str) -> None:
    case = NAMED_CASES[name]()
    if isinstance(case, bytes):
        pytest.skip("not a trace")
    found = compared(case, case)
    assert not any((found.came, found.went, found.moved, found.merged, found.slower, found.faster, found.launches))
    assert msgspec.json.decode(msgspec.json.encode(found), type=ComparisonDoc) == found
    assert found.schema == SCHEMA


@cache
def llama() -> dict[str, TraceAnalysis]:
    """The first `cuda` pass of every mode."""
    report = shipped("llama_1b.zip")
    return {each.context.mode or "": each for each in reversed(report.analyses) if each.context.trace_pass == "cuda"}


class TestLlama:
    """Recorded on an H200: every number here was counted in the files."""

    def test_a_graph_runs_the_same_ops(self) -> None:
        found = compare(llama()["eager"], llama()["graph"])
        assert (found.ops_before, found.ops_after, found.pairs) == (718, 718, 718)
        assert not any((found.came, found.went, found.moved, found.merged, found.exchanged))
        assert found.likely_causes[0] == (
            "Graph replays were won: launches 718 → 1 per step, 0 % → 100 % of the kernels run in graphs."
        )

    def test_fusing_merges_runs_that_add_up(self) -> None:
        found = compare(llama()["eager"], llama()["fused"])
        merged = [
            sum(doc.count * doc.ops_before for doc in found.merged),
            sum(doc.count * doc.ops_after for doc in found.merged),
        ]
        assert found.pairs + merged[0] + sum(doc.count for doc in found.went) == found.ops_before == 718
        assert found.pairs + merged[1] + sum(doc.count for doc in found.came) == found.ops_after == 247
        assert merged == [556, 85]
        assert found.likely_causes[0].startswith("556 GPU ops were merged into 85 per step")

    @pytest.mark.parametrize(("left", "right"), [("eager", "graph"), ("eager", "fused"), ("graph", "fused_graph")])
    def test_the_other_way_round_every_sign_turns(self, left: str, right: str) -> None:
        assert_mirrored(compare(llama()[left], llama()[right]), compare(llama()[right], llama()[left]))


def of_two_ranks(folder: Path) -> dict[int | None, TraceAnalysis]:
    """Rank 0 waits 90 µs for rank 1 in the first of two all-reduces a step."""
    report = analyze(two_ranks(folder / "capture"))
    return {a.document.rank: a for a in report.analyses if a.context.trace_pass == "cuda" and a.context.repeat == 0}


def test_of_ranks_together_a_longer_collective_is_waiting(tmp_path: Path) -> None:
    own = of_two_ranks(tmp_path)
    assert compare(own[1], own[0]).likely_causes == [
        "Collectives take longer: +90.0 µs per step in 2 (most of it in ncclDevKernel_AllReduce_Sum_bf16_RING_LL, "
        "10.0 µs → 55.0 µs each): waiting 0 → 90.0 µs, transfer 20.0 µs → 20.0 µs."
    ]
    (turned,) = compare(own[0], own[1]).likely_causes
    assert turned.startswith("Collectives take less long: −90.0 µs per step in 2")
    assert turned.endswith("waiting 90.0 µs → 0, transfer 20.0 µs → 20.0 µs.")


def test_of_a_rank_alone_a_longer_collective_is_waiting_or_transfer(tmp_path: Path) -> None:
    before, after = (
        analyze_trace(own.context.trace, name="alone") for _, own in sorted(of_two_ranks(tmp_path).items())[::-1]
    )
    assert compare(before, after).likely_causes == [
        "Collectives take longer: +90.0 µs per step in 2 (most of it in ncclDevKernel_AllReduce_Sum_bf16_RING_LL, "
        "10.0 µs → 55.0 µs each): waiting for other ranks, or transfer: their traces, given together, tell which."
    ]


def test_a_slower_kernel_beside_a_longer_collective_is_told_apart() -> None:
    was = (("aten::mm", "gemm", 5), ("nccl:all_reduce", ALL_REDUCE, 5), ("aten::mul", "mul", 2))
    now = (("aten::mm", "gemm", 8), ("nccl:all_reduce", ALL_REDUCE, 15), ("aten::mul", "mul", 2))
    found = compared(eager(was), eager(now))
    assert found.same_change_ns == 13_000
    assert [cause.partition(" (")[0] for cause in found.likely_causes] == [
        "Collectives take longer: +10.0 µs per step in 1",
        "The same GPU ops but collectives run slower: +3.00 µs per step, of which +3.00 µs in 1",
    ]
