"""Graph replays: what belongs to one, which are of one graph, and which lack records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from launchscope.analysis.facts.replays import GraphReplays, graph_replays
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.model.trace import Trace
from launchscope.fixtures.builder import TraceBuilder, trace

US = 1000
TRACES = Path(__file__).parents[4] / "fixtures" / "traces"
LAYERS = [f"{name}_{i % 2}" for i in range(40) for name in ("norm", "gemm", "act")]


def replays_of(*sequences: Sequence[str], between: Sequence[str] = ()) -> TraceBuilder:
    """One replay per sequence of kernel names, 1 µs each, after an eager launch per name in `between`."""
    builder, at = trace(), 0
    for sequence in sequences:
        for name in between:
            builder.launch(at=at, dur=1).kernel(at=at + 5, dur=1, name=name)
            at += 10
        builder.graph_launch(at=at, dur=5)
        for name in sequence:
            builder.kernel(at=at + 10, dur=1, name=name)
            at += 1
        at += 20
    return builder


def found(builder: TraceBuilder) -> GraphReplays:
    return graph_replays(builder.build())


def test_a_replay_is_its_launch_and_all_ops_of_its_correlation() -> None:
    builder = trace().launch(at=0, dur=2).kernel(at=4, dur=2, name="prepare")
    builder.graph_launch(at=10, dur=5).kernel(at=20, dur=2, name="a").memset(at=23, dur=1).kernel(
        at=25, dur=4, name="b"
    )
    replays = found(builder)
    assert len(replays) == 1
    assert replays.op_replay.tolist() == [-1, 0, 0, 0]
    assert replays.ordinal.tolist() == [-1, 0, 1, 2]
    assert (replays.start_ns.tolist(), replays.end_ns.tolist(), replays.op_count.tolist()) == (
        [20 * US],
        [29 * US],
        [3],
    )
    assert replays.launch_row.tolist() == [1]


def test_a_replay_that_lost_its_only_op_of_a_branch_is_of_the_graph() -> None:
    """The names of a graph with branches are put in an order of their own; here a comes first, and it ran last."""
    builder = trace().launch(at=0, dur=2).kernel(at=4, dur=1, name="a")
    for replay in range(4):
        at = 100 * replay + 20
        builder.graph_launch(at=at, dur=5).kernel(at=at + 10, dur=4, name="c")
        if replay != 1:
            builder.kernel(at=at + 11, dur=4, name="b", stream=8)
        builder.kernel(at=at + 16, dur=4, name="a")
    replays = found(builder)
    assert replays.graph.tolist() == [0, 0, 0, 0]
    assert replays.under_recorded.tolist() == [False, True, False, False]


def test_a_replay_of_one_op_is_still_a_replay() -> None:
    assert found(replays_of(["a"])).op_replay.tolist() == [0]


def test_several_ops_of_an_ordinary_launch_are_no_replay() -> None:
    builder = trace().launch(at=0, dur=2).kernel(at=4, dur=2).kernel(at=8, dur=2)
    assert len(found(builder)) == 0


def test_ops_that_share_a_correlation_without_a_launch_are_a_replay() -> None:
    builder = trace()
    for at, name in ((10, "a"), (20, "b")):
        builder.kernel(at=at, dur=5, name=name, launch=False, correlation=77)
    builder.kernel(at=30, dur=5, launch=False, correlation=78)  # alone: an ordinary op whose launch is lost
    builder.kernel(at=40, dur=5, launch=False)
    replays = found(builder)
    assert replays.op_replay.tolist() == [0, 0, -1, -1]
    assert replays.launch_row.tolist() == [-1]


def test_the_same_ordered_names_are_the_same_graph() -> None:
    replays = found(replays_of(["a", "b"], ["b", "a"], ["a", "b"]))
    assert replays.graph.tolist() == [0, 1, 0]
    assert replays.graph_names == ("graph 0", "graph 1")
    assert replays.differing.tolist() == []


def test_branches_may_start_in_another_order() -> None:
    builder = trace()
    for begin, order in ((0, "ab"), (100, "ba")):
        builder.graph_launch(at=begin, dur=5)
        for position, name in enumerate(order):
            builder.kernel(at=begin + 10 + position, dur=5, name=name, stream=7 if name == "a" else 8)
    assert found(builder).graph.tolist() == [0, 0]


def test_copies_and_sets_tell_graphs_apart_by_their_kind_alone() -> None:
    """CUPTI does not know the kind of memory of the first replay's."""
    builder = trace()
    for at, kind in ((0, "Unknown"), (100, "Device"), (200, "Device")):
        builder.graph_launch(at, 5).kernel(at + 10, 2, name="a").memset(at + 13, 1, name=f"Memset ({kind})")
    builder.graph_launch(300, 5).kernel(310, 2, name="a").memcpy(313, 1)
    replays = found(builder)
    assert (replays.graph.tolist(), replays.under_recorded.any()) == ([0, 0, 0, 1], False)


def test_the_files_own_graph_ids_decide() -> None:
    builder = replays_of(["a", "b"], ["a", "b"], ["a"])
    renamed = trace()
    replay = -1
    for event in builder.events():
        replay += event["name"] == "cudaGraphLaunch"
        if event["cat"] == "kernel":
            event["args"] = event["args"] | {"graph id": 40 + replay % 2, "graph node id": 1}
        renamed.raw(event)
    replays = found(renamed)
    assert replays.graph_names == ("graph 40", "graph 41")
    assert (replays.graph.tolist(), replays.under_recorded.tolist()) == ([0, 1, 0], [False, False, True])


class TestUnderRecorded:
    @pytest.mark.parametrize("lost", [0, 1, 2])
    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_a_replay_back_to_back_with_whole_ones_lacks_an_op(self, position: int, lost: int) -> None:
        sequences = [["a", "b", "c"] for _ in range(3)]
        del sequences[position][lost]
        replays = found(replays_of(*sequences))
        assert replays.graph.tolist() == [0, 0, 0]
        assert replays.under_recorded.tolist() == [i == position for i in range(3)]
        is_cut = (position, lost) in {(0, 0), (2, 2)}  # what a recording that begins or ends inside takes away
        assert replays.cut.tolist() == [is_cut and i == position for i in range(3)]
        assert replays.differing.tolist() == ([] if is_cut else [0])

    def test_a_replay_between_the_same_launches_as_whole_ones_lacks_an_op(self) -> None:
        sequences = [["a", "b", "c"], ["a", "c"], ["a", "b", "c"]]
        assert found(replays_of(*sequences, between=["sample"])).differing.tolist() == [0]

    def test_the_head_of_the_file_cuts_a_replay_whose_launch_is_lost(self) -> None:
        builder = trace().kernel(at=0, dur=1, name="b", launch=False, correlation=900)
        builder.kernel(at=2, dur=1, name="c", launch=False, correlation=900)
        for begin in (100, 200):
            builder.launch(at=begin - 20, dur=2).kernel(at=begin - 10, dur=1, name="sample")
            builder.graph_launch(at=begin, dur=5)
            for position, name in enumerate("abc"):
                builder.kernel(at=begin + 10 + position * 2, dur=1, name=name)
        replays = found(builder)
        assert (replays.op_count.tolist(), replays.cut.tolist()) == ([2, 3, 3], [True, False, False])
        assert replays.differing.tolist() == []

    def test_records_lost_in_every_replay_of_a_large_graph(self) -> None:
        sequences = [[name for i, name in enumerate(LAYERS) if i % 50 not in (r, 2 * r)] for r in range(1, 5)]
        replays = found(replays_of(*sequences[:2], LAYERS[:-1], *sequences[2:]))
        assert replays.graph.tolist() == [0] * 5
        assert replays.differing.tolist() == [0]

    def test_pieces_of_a_piecewise_graph_are_graphs_of_their_own(self) -> None:
        builder, at = trace(), 0
        for piece in (["embed", "qkv"], *[["out", "mlp", "qkv"]] * 4, ["out", "mlp"]):
            builder.graph_launch(at=at, dur=2)
            for position, name in enumerate(piece):
                builder.kernel(at=at + 5 + position, dur=1, name=name)
            attention_or_head = "head" if piece == ["out", "mlp"] else "attention"
            builder.launch(at=at + 10, dur=2).kernel(at=at + 15, dur=1, name=attention_or_head)
            at += 20
        replays = found(builder)
        assert replays.graph.tolist() == [0, 1, 1, 1, 1, 2]
        assert replays.differing.tolist() == []

    def test_a_draft_model_that_is_a_part_of_the_target_is_a_graph_of_its_own(self) -> None:
        draft, target = ["norm", "gemm"], ["norm", "gemm"] * 8
        assert found(replays_of(draft, draft, target, draft, draft, target)).differing.tolist() == []


class TestCoverage:
    def test_by_count_and_by_time_over_kernels_whose_launch_is_in_the_file(self) -> None:
        builder = trace().launch(at=0, dur=2).kernel(at=4, dur=10)
        builder.graph_launch(at=20, dur=5).kernel(at=30, dur=20).kernel(at=60, dur=10).memset(at=80, dur=9)
        builder.kernel(at=100, dur=50, launch=False)  # says nothing
        doc = found(builder).to_doc(builder.build())
        assert (doc.kernels_in_graphs, doc.kernels_with_launch, doc.coverage_by_count) == (2, 3, 2 / 3)
        assert doc.coverage_by_time == 30 / 40

    def test_without_any_launch_it_is_unknown(self) -> None:
        builder = trace().kernel(at=0, dur=5, launch=False)
        doc = found(builder).to_doc(builder.build())
        assert (doc.coverage_by_count, doc.coverage_by_time) == (None, None)

    def test_an_empty_trace(self) -> None:
        doc = found(trace()).to_doc(trace().build())
        assert (doc.coverage_by_count, doc.replays) == (None, [])

    def test_the_report_has_a_row_per_graph(self) -> None:
        builder = replays_of(["a", "b", "c"], ["a", "c"], ["a", "b", "c"], ["d"])
        recorded: Trace = builder.build()
        rows = graph_replays(recorded).to_doc(recorded).replays
        assert [(r.graph, r.count, r.ops_min, r.ops_median, r.ops_max) for r in rows] == [
            ("graph 0", 3, 2, 3.0, 3),
            ("graph 1", 1, 1, 1.0, 1),
        ]
        assert rows[0].launch_overhead_ns is not None
        assert (rows[0].launch_overhead_ns.median, rows[0].launch_overhead_ns.count) == (5 * US, 3)


def test_a_recording_that_began_after_two_graph_launches() -> None:
    """RTX 5080, CUDA 13: 9 replays, 7 with their launch; the first lost its first record."""
    recorded = open_trace(TRACES / "leimao_trace_with_manual_capture.json.gz")
    replays = graph_replays(recorded)
    assert replays.op_count.tolist() == [35, *[36] * 8]
    assert replays.graph.tolist() == [0] * 9
    assert (replays.launch_row == -1).tolist() == [True, True, *[False] * 7]
    assert replays.cut.tolist() == [True, *[False] * 8]
    assert (replays.differing.tolist(), replays.to_doc(recorded).kernels_in_graphs) == ([], 238)
