"""Two H200s: what is told of them, against sums over the raw records of the files (fixtures/captures/ranks)."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from launchscope.analysis.model.document import RanksOfStepDoc, TraceDoc
from launchscope.analysis.report import analyze

FOLDER = Path(__file__).parents[3] / "fixtures" / "captures" / "ranks"
PER_STEP = 32


def recorded(name: str) -> tuple[RanksOfStepDoc, list[TraceDoc]]:
    document = analyze(*(FOLDER / f"{name}-rank{rank}.json.gz" for rank in (0, 1)), cache=False).document
    (ranks,) = document.ranks
    return ranks, document.traces


def raw(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Durations and ends of all-reduces, ns: [collective, rank]."""
    durations, ends = [], []
    for rank in (0, 1):
        events = json.loads(gzip.decompress((FOLDER / f"{name}-rank{rank}.json.gz").read_bytes()))["traceEvents"]
        kernels = [e for e in events if e.get("cat") == "kernel" and "AllReduce" in e["name"]]
        kernels.sort(key=lambda e: e["ts"])
        durations.append([e["dur"] * 1000 for e in kernels])
        ends.append([(e["ts"] + e["dur"]) * 1000 for e in kernels])
    return np.array(durations).T, np.array(ends).T


@pytest.mark.parametrize(("name", "steps"), [("eager-cuda", 6), ("eager-cpu_cuda", 3), ("graph-cuda", 6)])
def test_transfer_and_waiting_are_those_of_the_raw_records(name: str, steps: int) -> None:
    ranks, _ = recorded(name)
    durations, ends = raw(name)
    assert len(durations) == PER_STEP * steps
    transfer = durations.min(axis=1)
    for rank in (0, 1):
        own = ranks.ranks[rank]
        assert own.collectives == PER_STEP
        assert own.exposed_ns == pytest.approx(durations[:, rank].sum() / steps)
        assert own.transfer_ns == pytest.approx(transfer.sum() / steps)
        assert own.waiting_ns == pytest.approx((durations[:, rank] - transfer).sum() / steps)
        assert own.hidden_ns == 0
    offset = ranks.ranks[1].clock_offset_ns
    assert offset == pytest.approx(np.median(ends[:, 1] - ends[:, 0]), abs=2)  # as read, µs in doubles
    assert abs(offset or 0.0) < 1_000  # one host
    assert 170_000 < (ranks.ranks[0].transfer_ns or 0) < 180_000
    assert (ranks.steps, ranks.collectives, ranks.steps_by) == (steps, PER_STEP * steps, "order")


def raw_steps(rank: int) -> list[tuple[float, float, float]]:
    """(period, idle, all-reduces) of each eager step that another follows, ns: all steps have as many GPU ops."""
    events = json.loads(gzip.decompress((FOLDER / f"eager-cuda-rank{rank}.json.gz").read_bytes()))["traceEvents"]
    ops = [e for e in events if e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")]
    ops.sort(key=lambda e: e["ts"])
    size = len(ops) // 6
    steps = [ops[first : first + size] for first in range(0, len(ops), size)]
    found = []
    for own, following in pairwise(steps):
        period = following[0]["ts"] - own[0]["ts"]
        inside = sum(e["dur"] for e in own if "AllReduce" in e["name"])
        found.append((period * 1000, (period - sum(e["dur"] for e in own)) * 1000, inside * 1000))  # one stream
    return found


@pytest.mark.parametrize(("rank", "told"), [(0, "18.0 ms (52 %)"), (1, "13.2 ms (38 %)")])
def test_waiting_of_t_is_by_the_sums_over_steps(rank: int, told: str) -> None:
    """Its steps wait 0, 0, 25, 32, 34 and 34 ms: the median step's waiting is no part of a mean step."""
    ranks, traces = recorded("eager-cuda")
    own = ranks.ranks[rank]
    steps = raw_steps(rank)
    durations = raw("eager-cuda")[0].reshape(6, PER_STEP, 2)
    waiting = (durations[:, :, rank] - durations.min(axis=2)).sum(axis=1)[:-1].sum()
    idle = sum(idle for _, idle, _ in steps)
    left = np.median([period for period, _, _ in steps]) - (own.gpu_work_without_waiting_ns or 0.0)
    assert own.waiting_of_step_ns == pytest.approx(left * waiting / (waiting + idle), rel=1e-3)
    assert f"it waits {told} inside collectives" in traces[rank].verdict.reason
    assert own.launch_tax_ns == pytest.approx(left * idle / (waiting + idle), rel=0.05)  # 96 % of idle and more


def test_alone_what_is_inside_collectives_is_by_the_sums_too() -> None:
    (alone,) = analyze(FOLDER / "eager-cuda-rank0.json.gz", cache=False).document.traces
    steps = raw_steps(0)
    inside, idle = (sum(step[place] for step in steps) for place in (2, 1))
    assert alone.steps is not None
    assert inside / (inside + idle) * (34.5 - 1.81) == pytest.approx(18.2, abs=0.05)
    assert "18.2 ms (53 %) pass inside collectives" in alone.verdict.reason


def test_who_is_busy_and_who_works() -> None:
    ranks, (first, second) = recorded("eager-cuda")
    early, late = ranks.ranks
    assert (early.gpu_work_ns or 0) > 0.85 * 34e6  # busy for nearly all of its step
    for rank in (early, late):
        assert 1.9e6 < (rank.gpu_work_without_waiting_ns or 0) < 2.05e6
    assert first.verdict.verdict_class == "wait-bound"
    assert second.verdict.verdict_class == "launch-bound"
    assert ranks.stragglers == []  # each waits for the other in some of the steps
    assert recorded("eager-cpu_cuda")[0].stragglers == [1]


def test_alone_the_same_rank_is_not_said_to_work() -> None:
    (alone,) = analyze(FOLDER / "eager-cuda-rank0.json.gz", cache=False).document.traces
    assert alone.verdict.verdict_class == "communication-bound"
    assert [action.kind for action in alone.verdict.actions if action.kind == "other_ranks"] == ["other_ranks"]


def test_groups_as_the_files_tell_them() -> None:
    for name, group in (("eager-cpu_cuda", "0 [0, 1]"), ("graph-cuda", "[0, 1]")):
        ranks, traces = recorded(name)
        assert [(g.group, g.ranks, g.size) for g in ranks.groups] == [(group, [0, 1], 2)]
        assert [trace.rank for trace in traces] == [0, 1]


def test_graph_launches_count_once() -> None:
    ranks, _ = recorded("graph-cuda")
    assert ranks.launch_skew_ns is not None
    assert ranks.launch_skew_ns.count == 6
