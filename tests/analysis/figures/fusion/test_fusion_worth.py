"""What a chain of three is worth: neg, exp and neg on 8 values of bf16, kernels of 2 µs each.

At 1 byte a ns: each reads 16 and writes 16 bytes, 32 ns, and takes 1,968 ns beside. Two intermediates of 16 bytes,
written and read again, are 64 bytes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from launchscope.analysis.figures.fusion.advisor import TAU_STEP, Prices, Rates, bytes_of, findings, fusion_doc
from launchscope.analysis.figures.fusion.scan import Occurrence
from launchscope.analysis.figures.fusion.step import FusionStep
from launchscope.analysis.model.advisor_documents import FusionDoc

from .fusion_steps import Op, step_of

ROW = [1, 8]
CHAIN = [Op("neg", [ROW]), Op("exp", [ROW]), Op("neg", [ROW])]
RATES = Rates(10_000.0, TAU_STEP, 4_000.0, 1e9, 100.0)


def document(rates: Rates, step: FusionStep | None = None) -> FusionDoc:
    step = step_of(CHAIN) if step is None else step
    return fusion_doc(step, findings(step), rates, times_from=None)


def test_in_a_graph() -> None:
    (chain,) = document(RATES).candidates
    assert (chain.launches_per_step, chain.launches_after, chain.bytes_saved, chain.kernels_ns) == (3, 1, 64, 6_000)
    assert chain.gpu_work_ns == 64 + 2 * 1_968  # one of three stays
    assert chain.graph_saves_ns == 4_000 + 2 * 100
    assert (chain.graph_low_ns, chain.graph_high_ns) == (64 + 2 * 100, 4_200)


def test_the_slowest_stays_and_at_most_the_quickest_does() -> None:
    step = step_of(CHAIN)
    slow = replace(step, ops=(replace(step.ops[0], ns=5_000.0), *step.ops[1:]))
    (chain,) = document(RATES, slow).candidates
    assert chain.gpu_work_ns == 64 + 2 * 1_968
    assert chain.graph_high_ns == 64 + (4_968 + 1_968) + 2 * 100


def test_of_merged_products_the_largest_stays() -> None:
    """QKV of one row of 8: the query's weight has 1,024 bytes, key's and value's 128 each."""
    ops = [Op("mm", [ROW, [8, 64]]), Op("mm", [ROW, [8, 8]]), Op("mm", [ROW, [8, 4]]), Op("silu", [[1, 4]])]
    step = step_of([ops[0], ops[2], ops[2], ops[3]])
    sizes = [bytes_of(op) for op in step.ops[:3]]
    assert sizes == [16 + 1_024 + 128, 16 + 64 + 8, 16 + 64 + 8]
    (merged,) = document(RATES, step).candidates
    assert merged.kind == "projections"
    beside = [2_000 - size for size in sizes]
    assert merged.gpu_work_ns == 2 * 16 + sum(beside) - beside[0]  # the row is read once and not three times


def test_in_eager_mode_while_the_host_sets_the_pace() -> None:
    found = document(RATES)
    assert found.host_sets_pace
    assert (found.total.eager_saves_ns, found.total.eager_low_ns, found.total.eager_high_ns) == (20_000, 8_000, None)


@pytest.mark.parametrize(
    ("tau_ns", "saves_ns"), [(1_000.0, 4_000), (1_990.0, 4_000), (2_100.0, 4_200), (3_000.0, 6_000)]
)
def test_in_eager_mode_at_the_bend(tau_ns: float, saves_ns: float) -> None:
    """max(6,000, 3·τ) − max(2,000, τ)."""
    found = document(replace(RATES, tau_ns=tau_ns))
    assert found.total.eager_saves_ns == pytest.approx(saves_ns)
    assert found.host_sets_pace == (tau_ns > 2_000)


def test_with_the_hosts_own_time_before_these_launches() -> None:
    step = step_of(CHAIN)
    costly = replace(step, ops=tuple(replace(op, host_ns=15_000.0) for op in step.ops))
    assert document(RATES, costly).total.eager_high_ns == 45_000 * 2 / 3
    cheap = replace(step, ops=tuple(replace(op, host_ns=1_000.0) for op in step.ops))
    assert document(RATES, cheap).total.eager_high_ns == 20_000  # no less than launches × τ


def test_of_a_trace_by_itself() -> None:
    found = document(Rates(5_000.0, "median launch overhead"))
    assert (found.total.eager_saves_ns, found.total.graph_saves_ns, found.total.gpu_work_ns) == (10_000, None, None)
    assert {"bandwidth_bytes_per_s", "node_gap_ns", "total.graph_saves_ns"} <= found.withheld.keys()


def test_of_a_trace_that_the_gpu_paces() -> None:
    found = document(Rates(5_000.0, "median launch overhead", is_gpu_bound=True))
    assert found.total.eager_saves_ns is None
    assert "sets the pace" in found.withheld["total.eager_saves_ns"]
    calibrated = document(replace(RATES, tau_source="median launch overhead", is_gpu_bound=True))
    assert calibrated.total.eager_saves_ns == 4_000


def test_a_type_of_unknown_size_has_no_bytes() -> None:
    step = step_of([Op(op.name, op.shapes, ["float"]) for op in CHAIN])
    known = document(RATES, step).total.bytes_saved
    assert known == 2 * 2 * 32
    (found,) = [each for each in findings(step) if isinstance(each, Occurrence)]
    unknown = Prices(RATES, step).worth([replace(found, bytes_saved=None)])
    assert (unknown.bytes_saved, unknown.launches_saved) == (None, 2)
