"""Coverage: counts, of hand-made and recorded traces. Warnings and reasons not to trust a trace: test_warnings.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.coverage import coverage_doc
from launchscope.analysis.figures.trace_notices import WARNINGS, notices
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.model.document import CoverageDoc
from launchscope.analysis.model.trace import Trace
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES

TRACES = Path(__file__).parents[3] / "fixtures" / "traces"


def cover(builder: TraceBuilder | Trace) -> CoverageDoc:
    built = builder if isinstance(builder, Trace) else builder.build()
    return coverage_doc(Context(built))


class TestCounts:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "one eager step",
                {"events": 10, "gpu_ops": 3, "launches": 3, "linked": 3, "unlinked": 0, "steps_found": 1},
            ),
            (
                "graph replay",
                {"gpu_ops": 20, "kernels": 16, "launches": 4, "graph_launches": 4, "kernels_in_graphs": 16},
            ),
            ("missing launches", {"gpu_ops": 3, "launches": 0, "linked": 0, "unlinked": 3, "step_source": "none"}),
            ("overlapping kernels", {"same_stream_overlaps": 1, "negative_queue": 0}),
            ("two streams", {"same_stream_overlaps": 0}),
            ("negative latency", {"negative_latency": 1, "negative_queue": 1}),
            ("whole microseconds", {"zero_duration": 1}),
            ("graph captured before profiling", {"gpu_ops": 6, "linked": 4, "unlinked": 2, "kernels_in_graphs": 4}),
        ],
    )
    def test_named_cases(self, name: str, expected: dict[str, Any]) -> None:
        doc = msgspec.to_builtins(cover(NAMED_CASES[name]()))
        assert {key: doc[key] for key in expected} == expected

    def test_negative_queue_counts_launches_not_ops(self) -> None:
        builder = trace().graph_launch(0, 20).kernel(10, 2).kernel(13, 2).launch(21, 5).kernel(30, 1)
        assert cover(builder).negative_queue == 1

    def test_an_overlap_reaches_past_the_next_op(self) -> None:
        """The third kernel starts after the second has ended, but not the first."""
        builder = trace().launch(0, 1).kernel(10, 20).kernel(11, 2).kernel(15, 2)
        assert cover(builder).same_stream_overlaps == 2

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "hta_event_sync_multi_stream",
                {"events": 149, "gpu_ops": 6, "kernels": 3, "launches": 6, "linked": 6, "negative_queue": 1},
            ),
            (
                "leimao_trace_with_manual_capture",
                {
                    "events": 2577,
                    "gpu_ops": 355,
                    "kernels": 321,
                    "launches": 35,
                    "graph_launches": 7,
                    "linked": 280,
                    "unlinked": 75,
                    "kernels_in_graphs": 238,
                },
            ),
            (
                "torchao_quantize_vit_bfloat16",
                {
                    "events": 2005,
                    "gpu_ops": 930,
                    "kernels": 930,
                    "launches": 10,
                    "graph_launches": 5,
                    "linked": 930,
                    "kernels_in_graphs": 925,
                    "negative_queue": 3,
                },
            ),
        ],
    )
    def test_real_traces_exactly(self, name: str, expected: dict[str, int]) -> None:
        """Figures worked out by an independent program; what is not named here is 0 there."""
        doc = msgspec.to_builtins(cover(open_trace(TRACES / f"{name}.json.gz")))
        zeros = (
            "graph_launches",
            "unlinked",
            "kernels_in_graphs",
            "zero_duration",
            "negative_latency",
            "negative_queue",
        )
        assert {key: doc[key] for key in (*zeros, *expected)} == dict.fromkeys(zeros, 0) | expected
        assert doc["same_stream_overlaps"] == 0


class TestNotices:
    def test_what_the_reader_and_the_steps_say_comes_first(self) -> None:
        found = [*notices(Context(NAMED_CASES["truncated file"]().build()))]
        assert found[0].code == "cut_file"
        warnings = WARNINGS.of(Context(NAMED_CASES["truncated file"]().build()))
        assert warnings is not None
        assert [w.code for w in warnings] == [n.code for n in found]

    @pytest.mark.parametrize("name", NAMED_CASES)
    def test_every_message_is_a_sentence_with_a_number_or_a_remedy(self, name: str) -> None:
        for notice in notices(Context(NAMED_CASES[name]().build())):
            assert len(notice.message) > 20
            assert notice.count >= 1
