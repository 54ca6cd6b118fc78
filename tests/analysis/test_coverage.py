"""Coverage: counts, warnings with their numbers, and each reason not to trust a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from launchscope.analysis.coverage import Coverage, coverage
from launchscope.analysis.readers import open_trace
from launchscope.analysis.steps import find_steps
from launchscope.analysis.trace import Trace
from launchscope.fixtures.builder import TraceBuilder, trace
from launchscope.fixtures.cases import NAMED_CASES

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"


def cover(builder: TraceBuilder | Trace) -> Coverage:
    built = builder if isinstance(builder, Trace) else builder.build()
    return coverage(built, find_steps(built))


def codes(found: Coverage) -> dict[str, int]:
    """Counts by code, without the remark that hand-made times are whole µs."""
    return {notice.code: notice.count for notice in found.notices if notice.code != "whole_us"}


def many(count: int, *, unlinked: int = 0, early: int = 0) -> TraceBuilder:
    """Launches 10 apart: the last ``early`` start after their kernel, and ``unlinked`` kernels come first."""
    builder = trace()
    for index in range(unlinked):
        builder.kernel(2 * index, 1, launch=False)
    for index in range(count):
        at = 1000 + 10 * index
        builder.launch(at, 2).kernel(at - 1 if index >= count - early else at + 3, 1, name=f"k{index}")
    return builder


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
        doc = msgspec.to_builtins(cover(NAMED_CASES[name]()).counts)
        assert {key: doc[key] for key in expected} == expected

    def test_negative_queue_counts_launches_not_ops(self) -> None:
        builder = trace().graph_launch(0, 20).kernel(10, 2).kernel(13, 2).launch(21, 5).kernel(30, 1)
        assert cover(builder).counts.negative_queue == 1

    def test_an_overlap_reaches_past_the_next_op(self) -> None:
        """The third kernel starts after the second has ended, but not the first."""
        builder = trace().launch(0, 1).kernel(10, 20).kernel(11, 2).kernel(15, 2)
        assert cover(builder).counts.same_stream_overlaps == 2

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
        doc = msgspec.to_builtins(cover(open_trace(TRACES / f"{name}.json.gz")).counts)
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


class TestReliable:
    def test_a_whole_trace_is(self) -> None:
        found = cover(NAMED_CASES["eager steps"]())
        assert (found.reliable, found.counts.reliable, found.unreliable) == (True, True, ())

    @pytest.mark.parametrize(
        ("builder", "reason"),
        [
            (trace(), "no GPU op"),
            (NAMED_CASES["missing launches"](), "no launches"),
            (many(89, unlinked=11), "11 of 100"),
            (many(98, early=2), "2 of 98"),
            (NAMED_CASES["truncated file"](), "cut"),
        ],
    )
    def test_reasons(self, builder: TraceBuilder, reason: str) -> None:
        found = cover(builder)
        assert not found.counts.reliable
        assert reason in found.unreliable[0]

    @pytest.mark.parametrize("builder", [many(90, unlinked=10), many(100, early=1)])
    def test_up_to_the_limit_it_is(self, builder: TraceBuilder) -> None:
        assert cover(builder).reliable

    def test_unlinked_ops_outside_kept_steps_do_not_count(self) -> None:
        builder = trace()
        for index in range(10):
            builder.kernel(index, 0.5, launch=False)
        for step in range(3):
            builder.step(step, 100 * (step + 1), 50).launch(100 * (step + 1), 5).kernel(100 * (step + 1) + 20, 5)
        found = cover(builder)
        assert (found.reliable, codes(found)["orphans"]) == (True, 10)

    def test_replays_of_one_graph_with_differing_op_counts(self) -> None:
        builder = trace()
        for replay, nodes in enumerate((40, 40, 39)):
            builder.graph_launch(200 * replay, 5)
            for node in range(nodes):
                builder.kernel(200 * replay + 10 + 2 * node, 1, name=f"node_{node}")
        found = cover(builder)
        assert "differ" in " ".join(found.unreliable)
        assert codes(found)["under_recorded"] == 1

    def test_the_recording_ends_inside_a_kept_step(self) -> None:
        builder = trace()
        for step in range(2):
            builder.step(step, 100 * step, 90).launch(100 * step, 5).kernel(100 * step + 10, 5)
        found = cover(builder.launch(120, 5))
        assert "ends inside a kept step" in found.unreliable[0]
        assert codes(found)["lost_ops"] == 1

    def test_lost_records_in_a_kept_step(self) -> None:
        builder = trace().step(0, 0, 90).launch(0, 5).kernel(10, 5).launch(20, 5).launch(40, 5).kernel(50, 5)
        assert "1 of 3" in cover(builder).unreliable[0]

    def test_a_driver_call_inside_a_launch_lost_nothing(self) -> None:
        builder = trace().step(0, 0, 90).launch(0, 9).kernel(10, 5).api("cuLaunchKernel", 2, 3)
        assert cover(builder).reliable


class TestNotices:
    def test_orphans(self) -> None:
        found = cover(NAMED_CASES["graph captured before profiling"]())
        assert codes(found)["orphans"] == 2

    def test_no_launches_takes_the_place_of_orphans(self) -> None:
        found = cover(NAMED_CASES["missing launches"]())
        assert codes(found)["no_launches"] == 3
        assert "orphans" not in codes(found)

    def test_skew_names_the_worst(self) -> None:
        message = next(n.message for n in cover(NAMED_CASES["negative latency"]()).notices if n.code == "skew")
        assert "by up to 5.0 µs" in message

    def test_stray_work(self) -> None:
        builder = trace().launch(0, 1).kernel(2, 1).launch(998, 1).kernel(1000, 1)
        assert codes(cover(builder))["stray_work"] == 1

    def test_overlap_devices_and_ranks(self) -> None:
        assert codes(cover(NAMED_CASES["overlapping kernels"]()))["overlap"] == 1
        assert codes(cover(NAMED_CASES["two devices"]()))["several_devices"] == 2
        ranks = trace().launch(0, 1, process=1).kernel(2, 1).launch(3, 1, process=2).kernel(5, 1)
        assert codes(cover(ranks))["several_ranks"] == 2

    def test_impossible_durations(self) -> None:
        builder = trace().launch(0, 1).kernel(10, -5).kernel(20, 4_000_000_000)
        assert codes(cover(builder))["impossible_durations"] == 2

    def test_whole_us(self) -> None:
        found = cover(NAMED_CASES["two streams"]())
        message = next(n.message for n in found.notices if n.code == "whole_us")
        assert "1 gaps may be off by ±0.002 ms" in message
        assert cover(trace().launch(0, 1).kernel(2.5, 1)).notices[-1].code != "whole_us"

    def test_what_the_reader_and_the_steps_say_comes_first(self) -> None:
        found = cover(NAMED_CASES["truncated file"]())
        assert found.notices[0].code == "cut_file"
        assert [w.code for w in found.warnings()] == [n.code for n in found.notices]

    @pytest.mark.parametrize("name", NAMED_CASES)
    def test_every_message_is_a_sentence_with_a_number_or_a_remedy(self, name: str) -> None:
        for notice in cover(NAMED_CASES[name]()).notices:
            assert len(notice.message) > 20
            assert notice.count >= 1
