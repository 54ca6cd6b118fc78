"""Gaps by cause: each rule with a hand-made trace whose numbers add up in the head (µs), and two real recordings."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from launchscope.analysis.facts.context import Context
from launchscope.analysis.facts.gaps import Gaps, gaps_inside
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.model.document import CAUSES, TAXES
from launchscope.analysis.model.trace import NONE
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES

US = 1000
TRACES = Path(__file__).parents[3] / "fixtures" / "traces"


def gaps(builder: TraceBuilder, device: int = 0, windows: list[tuple[int, int]] | None = None) -> Gaps:
    context = Context(builder.build())
    if windows is None:
        return context.gaps[device]
    return gaps_inside(context.gaps[device], windows, context.trace, context.threads, context.busy[device])


def causes(found: Gaps) -> dict[str, float]:
    """µs by cause."""
    return {cause: doc.ns / US for cause, doc in found.by_cause().items()}


def taxes(found: Gaps) -> dict[str, float]:
    """µs by tax, those above zero."""
    return {tax: ns / US for tax, ns in found.taxes_ns().items() if ns}


def test_causes_are_the_same_however_many_gaps_are_worked_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five gaps, two of them with another thread's wait in it and one in a replay."""
    builder = trace().launch(0, 5).kernel(10, 20).sync(31, 9, thread=2).launch(42, 5).kernel(50, 1)
    builder.sync(52, 6).launch(60, 5).kernel(70, 10).sync(81, 9, thread=2).launch(95, 2).kernel(100, 5)
    builder.graph_launch(106, 4).kernel(112, 3).kernel(120, 3)
    together = gaps(builder)
    monkeypatch.setattr("launchscope.analysis.facts.gaps._AT_ONCE", 2)
    by_two = gaps(builder)
    assert len(together) == len(by_two) == 5
    for name in (
        "start_ns",
        "prev_op",
        "next_op",
        "boundary",
        "after_sync_ns",
        "stall_host_ns",
        "observer",
        "waiting_call",
    ):
        assert getattr(by_two, name).tolist() == getattr(together, name).tolist(), name
    for cause in CAUSES:
        assert by_two.parts_ns[cause].tolist() == together.parts_ns[cause].tolist(), cause


class TestCauses:
    """Kernel p runs 10–30, kernel k starts at 50: a gap of 20."""

    @staticmethod
    def gap() -> TraceBuilder:
        return trace().launch(0, 5).kernel(10, 20)

    def test_host_then_launch_then_dispatch(self) -> None:
        assert causes(gaps(self.gap().launch(42, 5).kernel(50, 1))) == {"host": 12, "launch": 5, "dispatch": 3}

    def test_launch_call_longer_than_the_previous_kernel(self) -> None:
        """It began before p ended and returned after k began: all of the gap lies inside the call."""
        assert causes(gaps(self.gap().launch(8, 60).kernel(50, 1))) == {"launch": 20}

    def test_launch_call_that_ends_in_the_gap(self) -> None:
        assert causes(gaps(self.gap().launch(8, 30).kernel(50, 1))) == {"launch": 8, "dispatch": 12}

    def test_launched_in_time(self) -> None:
        """Returned at 30, when p ended: the GPU waited for a dependency or its own front end."""
        assert causes(gaps(self.gap().launch(8, 22).kernel(50, 1))) == {"device": 20}

    def test_two_streams_and_an_event(self) -> None:
        builder = self.gap().launch(6, 2).kernel(20, 15, stream=13).launch(9, 2).kernel(50, 1)
        found = gaps(builder)
        assert (found.busy_ns, found.op_sum_ns) == (26 * US, 36 * US)
        assert causes(found) == {"device": 15}

    def test_inside_one_replay(self) -> None:
        found = gaps(trace().graph_launch(0, 5).kernel(10, 20).memset(31, 4).kernel(50, 1))
        assert causes(found) == {"graph": 16}
        assert found.by_cause()["graph"].count == 2

    def test_inside_a_replay_without_its_launch(self) -> None:
        builder = trace().kernel(10, 20, launch=False, correlation=9).kernel(50, 1, launch=False, correlation=9)
        assert causes(gaps(builder)) == {"graph": 20}

    def test_no_launch_in_the_file(self) -> None:
        assert causes(gaps(self.gap().kernel(50, 1, launch=False))) == {"unlinked": 20}

    def test_negative_latency(self) -> None:
        assert causes(gaps(self.gap().launch(51, 5).kernel(50, 1))) == {"skewed": 20}

    def test_launch_at_the_moment_the_kernel_starts_is_not_skewed(self) -> None:
        assert causes(gaps(self.gap().launch(50, 5).kernel(50, 1))) == {"host": 20}

    def test_every_cause_is_there_and_adds_up(self) -> None:
        found = gaps(self.gap().launch(42, 5).kernel(50, 1))
        assert tuple(sorted(found.parts_ns)) == tuple(sorted(CAUSES))
        assert found.dur_ns.tolist() == [20 * US]


class TestSync:
    @staticmethod
    def gap() -> TraceBuilder:
        return trace().step(0).launch(0, 5).kernel(10, 20)

    def test_sync_inside_a_step(self) -> None:
        found = gaps(self.gap().sync(6, 29).launch(42, 5).kernel(50, 1))
        assert causes(found) == {"sync": 5, "host": 7, "launch": 5, "dispatch": 3}
        assert taxes(found) == {"sync": 12, "launch": 8}  # the refill after it is its cost too
        assert found.by_cause()["host"].after_sync_ns == 7 * US

    def test_sync_called_late(self) -> None:
        """The GPU had been idle for 3 when it was called."""
        found = gaps(self.gap().sync(33, 3).launch(42, 5).kernel(50, 1))
        assert causes(found) == {"sync": 3, "host": 9, "launch": 5, "dispatch": 3}
        assert taxes(found) == {"sync": 12, "launch": 8}

    def test_overlapping_blocking_calls_count_once(self) -> None:
        found = gaps(self.gap().sync(6, 29).sync(32, 2, "cudaEventSynchronize").launch(42, 5).kernel(50, 1))
        assert causes(found)["sync"] == 5

    def test_sync_that_ended_before_the_gap_is_no_refill(self) -> None:
        found = gaps(self.gap().sync(6, 23).launch(42, 5).kernel(50, 1))
        assert taxes(found) == {"launch": 20}

    def test_replay_after_a_sync(self) -> None:
        builder = trace().step(0).graph_launch(0, 5).kernel(10, 10).kernel(21, 9).sync(6, 29)
        found = gaps(builder.graph_launch(37, 8).kernel(50, 10))
        assert causes(found) == {"graph": 1, "sync": 5, "host": 2, "launch": 8, "dispatch": 5}
        assert taxes(found) == {"node": 1, "sync": 7, "launch": 13}
        assert found.observer.tolist() == [False, True]

    def test_a_blocking_copy_of_pageable_memory(self) -> None:
        """The copy waits for the stream, then runs: nothing before its call was spent blocked."""
        found = gaps(self.gap().launch(40, 20, "cudaMemcpy").memcpy(50, 5))
        assert causes(found) == {"host": 10, "launch": 10}

    def test_a_worker_launches_while_another_thread_waits(self) -> None:
        found = gaps(self.gap().sync(6, 60).launch(42, 5, thread=2).kernel(50, 1))
        assert causes(found) == {"host": 12, "launch": 5, "dispatch": 3}
        assert found.waiting_call.tolist() == [0]

    def test_a_worker_that_was_busy_needs_no_remark(self) -> None:
        builder = self.gap().sync(6, 60).op("aten::add", 35, 20, thread=2).launch(42, 5, thread=2).kernel(50, 1)
        assert gaps(builder).waiting_call.tolist() == [NONE]

    def test_remark_names_the_thread_and_the_call(self) -> None:
        built = self.gap().sync(6, 60).launch(42, 5, thread=2).kernel(50, 1).build()
        frame = Context(built).gaps[0].to_frame(built)
        assert frame["detail"].tolist() == [
            "the launching thread did nothing while thread 1 sat in cudaStreamSynchronize"
        ]
        assert frame["cause"].tolist() == ["host"]


class TestAxes:
    def test_boundary(self) -> None:
        """Between steps: 5 sync, 7 host; the launch call is the launch tax wherever it falls."""
        builder = trace().step(0, 0, 38).launch(0, 5).kernel(10, 20).sync(6, 29)
        found = gaps(builder.step(1, 40, 20).launch(42, 5).kernel(50, 1))
        assert found.boundary.tolist() == [True]
        assert {c: d.boundary_ns for c, d in found.by_cause().items()} == {
            "sync": 5000,
            "host": 7000,
            "launch": 5000,
            "dispatch": 3000,
        }
        assert found.by_cause()["host"].after_sync_ns == 0
        assert taxes(found) == {"between_steps": 12, "launch": 8}

    def test_without_steps_boundary_is_null(self) -> None:
        found = gaps(trace().launch(0, 5).kernel(10, 20).launch(42, 5).kernel(50, 1))
        assert found.by_cause()["host"].boundary_ns is None
        assert taxes(found) == {"launch": 20}

    @staticmethod
    def steady(pause: int, *, launch_dur: int = 5) -> TraceBuilder:
        """Twenty launches 10 apart, each kernel 4 long; then the thread pauses. 6 idle between kernels."""
        builder = trace().step(0)
        for index in range(20):
            builder.launch(10 * index, 5).kernel(10 * index + 6, 4)
        return builder.launch(190 + pause, launch_dur).kernel(190 + pause + launch_dur + 1, 4)

    def test_stall_of_the_host(self) -> None:
        """20 median intervals are 200; p ended at 200, so the pause of 300 leaves host 290."""
        found = gaps(self.steady(300))
        assert found.stall_host_ns[-1] == 290 * US
        assert taxes(found) == {"launch": 19 * 6 + 6, "stall": 290}

    def test_stall_in_the_launch_call(self) -> None:
        found = gaps(self.steady(10, launch_dur=250))
        assert found.stall_launch_ns[-1] == 250 * US
        assert taxes(found) == {"launch": 19 * 6 + 1, "stall": 250}

    @pytest.mark.parametrize("pause", [100, 210])
    def test_no_stall_up_to_the_limit(self, pause: int) -> None:
        """Host 90 and 200 are not longer than 20 intervals."""
        assert "stall" not in taxes(gaps(self.steady(pause)))

    def test_no_stall_below_100_us(self) -> None:
        builder = trace().step(0)
        for index in range(20):
            builder.launch(index, 0.5).kernel(index + 0.6, 0.1)
        assert "stall" not in taxes(gaps(builder.launch(110, 0.5).kernel(111, 1)))

    def test_refill_after_a_sync_is_no_stall(self) -> None:
        builder = self.steady(0).sync(196, 20).launch(600, 5).kernel(606, 4)
        assert "stall" not in taxes(gaps(builder))


class TestOps:
    def test_programmatic_dependent_launch_is_no_negative_gap(self) -> None:
        found = gaps(NAMED_CASES["overlapping kernels"]())
        assert (found.window_ns, found.busy_ns, found.op_sum_ns) == (35 * US, 23 * US, 25 * US)
        assert causes(found) == {"device": 12}

    def test_k_is_the_one_launched_first_and_p_the_one_that_started_last(self) -> None:
        builder = trace().launch(0, 1).kernel(10, 20, stream=7).launch(2, 1).kernel(15, 15, stream=13)
        builder.launch(35, 2).kernel(50, 5, stream=7).launch(32, 2).kernel(50, 5, stream=13)
        found = gaps(builder)
        assert (found.prev_op.tolist(), found.next_op.tolist()) == ([1], [3])
        assert causes(found) == {"host": 2, "launch": 2, "dispatch": 16}

    def test_an_op_of_no_length_cuts_a_gap(self) -> None:
        found = gaps(trace().launch(0, 1).kernel(10, 20).kernel(40, 0).kernel(50, 1))
        assert (found.dur_ns / US).tolist() == [10, 10]

    def test_devices_are_never_merged(self) -> None:
        for device in (0, 1):
            found = gaps(NAMED_CASES["two devices"](), device)
            assert (found.window_ns, found.busy_ns, found.idle_ns) == (30 * US, 20 * US, 10 * US)

    def test_a_duration_below_zero_does_not_break_the_accounting(self) -> None:
        found = gaps(trace().launch(0, 1).kernel(10, 5).kernel(20, -8).kernel(30, 5))
        assert (found.window_ns, found.busy_ns, found.op_sum_ns) == (25 * US, 10 * US, 2 * US)


class TestWindows:
    def test_steady_windows(self) -> None:
        """Steps 0–3 of five, 100 apart, each busy 11: p ends at 68 after the step's start, k starts at 15."""
        built = NAMED_CASES["eager steps"]().build()
        found = Context(built).steady[0]
        assert found is not None
        assert (found.window_ns, found.busy_ns) == (400 * US, 44 * US)
        assert found.boundary.sum() == 4
        assert taxes(found)["between_steps"] == 4 * (106 - 68)

    def test_gaps_and_ops_are_cut_at_the_window(self) -> None:
        """Window 20–45 of p 10–30, host 30–42, launch 42–47, k at 50."""
        builder = trace().launch(0, 5).kernel(10, 20).launch(42, 5).kernel(50, 10)
        found = gaps(builder, windows=[(20 * US, 45 * US)])
        assert (found.window_ns, found.busy_ns, found.op_sum_ns) == (25 * US, 10 * US, 10 * US)
        assert causes(found) == {"host": 12, "launch": 3}

    def test_parts_of_several_windows_add_up_to_the_whole(self) -> None:
        builder = NAMED_CASES["sync in the step"]
        whole = causes(gaps(builder()))
        edges = np.arange(10, 61, 5) * US
        parts = [causes(gaps(builder(), windows=[(int(a), int(b))])) for a, b in pairwise(edges)]
        assert {cause: sum(part.get(cause, 0) for part in parts) for cause in whole} == whole

    def test_no_window(self) -> None:
        assert gaps(NAMED_CASES["one eager step"](), windows=[]).window_ns == 0


class TestDocument:
    def test_counts_of_a_cut_gap(self) -> None:
        doc = gaps(NAMED_CASES["sync in the step"]()).to_doc()
        assert (doc.count, doc.total_ns) == (1, 20 * US)
        assert {cause: part.count for cause, part in doc.by_cause.items()} == {
            "sync": 1,
            "host": 1,
            "launch": 1,
            "dispatch": 1,
        }
        assert tuple(doc.taxes_ns) == TAXES

    @pytest.mark.parametrize("name", NAMED_CASES)
    def test_named_cases(self, name: str) -> None:
        built = NAMED_CASES[name]().build()
        for device in built.devices:
            found = Context(built).gaps[device]
            frame = found.to_frame(built)
            assert len(frame) == len(found)
            assert frame[[f"{cause}_ns" for cause in CAUSES]].to_numpy().sum() == found.idle_ns == frame["dur_ns"].sum()


@pytest.mark.parametrize(
    ("name", "window", "busy", "count", "expected"),
    [
        ("hta_event_sync_multi_stream", 19506000, 372000, 5, {"dispatch": 12000, "host": 19045000, "launch": 77000}),
        (
            "leimao_trace_with_manual_capture",
            8783714,
            8618910,
            354,
            {"device": 57377, "graph": 99203, "unlinked": 8224},
        ),
        (
            "torchao_quantize_vit_bfloat16",
            7132623,
            6837042,
            923,
            {"device": 19649, "graph": 132063, "host": 29224, "launch": 114645},
        ),
    ],
)
def test_real_traces_exactly(name: str, window: int, busy: int, count: int, expected: dict[str, int]) -> None:
    """Figures worked out by an independent program with exact arithmetic."""
    read = open_trace(TRACES / f"{name}.json.gz")
    found = Context(read).gaps[0]
    assert (found.window_ns, found.busy_ns, found.op_sum_ns, len(found)) == (window, busy, busy, count)
    assert {cause: doc.ns for cause, doc in found.by_cause().items()} == expected


def test_the_launch_part_before_a_replay_is_told_apart() -> None:
    """A kernel ends at 10; a replay launched 12 to 30 starts at 31: 18 of its launch, 5 of the next one's."""
    built = (
        trace()
        .launch(at=0, dur=1)
        .kernel(at=2, dur=8)
        .graph_launch(at=12, dur=18)
        .kernel(at=31, dur=4)
        .launch(at=40, dur=5)
        .kernel(at=46, dur=1)
    ).build()
    launch = Context(built).gaps[0].by_cause()["launch"]
    assert (launch.ns, launch.before_replay_ns) == (23_000, 18_000)


def test_gaps_beyond_32_bits_add_up() -> None:
    """Times of 3 s in ns leave 32 bits: a gap of 3 s, 2.5 of them before the launch call, which takes 0.4."""
    builder = trace().launch(0, 10).kernel(at=20, dur=10).launch(at=2_500_030, dur=400_000).kernel(at=3_000_030, dur=1)
    found = gaps(builder)
    parts = {cause: doc.ns for cause, doc in found.by_cause().items()}
    assert parts == {"host": 2_500_000_000, "launch": 400_000_000, "dispatch": 100_000_000}
    assert sum(found.taxes_ns().values()) == found.idle_ns == 3_000_000_000
