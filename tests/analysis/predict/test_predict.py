"""Predicted steps: a model of three operators by hand, and the samples beside what an H200 measured of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from launchscope.analysis.model.capture import Calibration, Target
from launchscope.analysis.model.counted_step import ATTENTION, COPY, ELEMENTWISE, MATRIX, OTHER, REDUCTION, CountedOp
from launchscope.analysis.model.counted_step import CountedStep as Step
from launchscope.analysis.model.errors import LaunchscopeError, UnreadableInput
from launchscope.analysis.model.units import rate
from launchscope.analysis.predict.gpus import NAMES, Figure, Gpu, gpu, name_of, read_calibration
from launchscope.analysis.predict.predict import (
    LARGE_START_NS,
    START_NS,
    PredictionDoc,
    gpu_ops,
    is_split,
    predict_step,
)

ROOT = Path(__file__).parents[3]
PREDICTED = ROOT / "fixtures" / "captures" / "predicted"
KB = 1000


def figure(value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(
        value=value,
        low=value if low is None else low,
        high=value if high is None else high,
        source="by hand",
        measured=True,
    )


ROUND = Gpu(
    name="round numbers",
    multiprocessors=100,
    bandwidth_bytes_per_s=figure(1e12),  # 1 kB in a ns
    flops_per_s={"bf16": figure(1e15)},
    tau_ns=figure(10_000, 8_000, 20_000),
    node_gap_ns=figure(400, 0, 400),
    replay_gap_ns=figure(0),
    graph_launch_ns=figure(2_000),
    graph_launch_per_node_ns=figure(5),
    kernel_start=figure(1),
)


def op(kind: str, kilobytes: int = 0, **more: Any) -> CountedOp:
    return CountedOp(operator=f"aten::{kind}", kind=kind, bytes=kilobytes * KB, **more)


def predicted(*ops: CountedOp, on: Gpu = ROUND) -> PredictionDoc:
    return predict_step(Step(target=Target(name="model.py"), ops=ops, torch="2.13"), on)


def test_a_linear_layer_and_relu_by_hand() -> None:
    """3.65 µs and 10,000 kB at 1 kB/ns; 1.83 µs and 1,000 kB: W = 16.48 µs. Two launches of 10 µs are longer."""
    told = predicted(op(MATRIX, 10_000), op(ELEMENTWISE, 1_000))
    assert (told.launching_operators, told.gpu_ops) == (2, 2)
    assert told.gpu_work_ns.predicted == 3_650 + 10_000 + 1_830 + 1_000
    assert told.gpu_work_ns.low == pytest.approx(0.85 * 16_480)
    assert told.gpu_work_ns.high == pytest.approx(1.2 * 16_480)
    assert told.eager_ns.predicted == 2 * 10_000
    assert (told.eager_ns.low, told.eager_ns.high) == (2 * 8_000, 2 * 20_000)
    assert told.serial_ns == 16_480 + 20_000
    assert told.graph_ns.predicted == 16_480 + 400
    assert told.graph_ns.low == pytest.approx(0.85 * 16_480), "few streams: no gap between nodes"
    assert told.limit is None, "16 µs of launching at the least are less than 19.8 µs of work at the most"


def test_a_graph_that_its_launch_holds_up_has_the_range_of_its_launch() -> None:
    """1.39 µs and nothing to move: the launch of 2 µs and 5 ns a node is longer, 1 to 8 µs and 2 to 20 ns."""
    launch = {"graph_launch_ns": figure(2_000, 1_000, 8_000), "graph_launch_per_node_ns": figure(5, 2, 20)}
    told = predicted(op(ELEMENTWISE), on=msgspec.structs.replace(ROUND, **launch))
    assert (told.graph_ns.predicted, told.graph_ns.high) == (2_005, 8_020)
    assert told.graph_ns.low == pytest.approx(0.85 * 1_390), "GPU work is longer than the cheapest launch"
    assert (told.fused.graph_low_ns, told.fused.graph_high_ns) == (told.graph_ns.low, 8_020)


@pytest.mark.parametrize("name", ["h200", "a100"])
def test_costs_of_a_graph_are_told_with_what_other_hosts_were_seen_at(name: str) -> None:
    assumed = gpu(name)
    assert (assumed.graph_launch_ns.low, assumed.graph_launch_ns.high) == (637, 7_195)
    assert (assumed.replay_gap_ns.low, assumed.replay_gap_ns.high) == (0, 976)
    own = gpu(name, Calibration(graph_launch_ns=3_000.0))
    assert (own.graph_launch_ns.low, own.graph_launch_ns.high) == (3_000, 3_000)


def test_flops_count_where_they_take_longer_than_bytes() -> None:
    many = op(MATRIX, 1_000, flops=5 * 10**9, dtype="bf16")  # 5 µs at 10¹⁵ a second
    assert predicted(many).gpu_work_ns.predicted == 3_650 + 5_000
    attention = op(ATTENTION, 1_000, flops=5 * 10**9, dtype="bf16")
    assert predicted(attention).gpu_work_ns.predicted == pytest.approx(6_900 + 15_000), "at a third of that rate"
    unknown = op(MATRIX, 1_000, flops=5 * 10**9, dtype="float8_e4m3fn")
    assert predicted(unknown).gpu_work_ns.predicted == 3_650 + 5_000, "as bf16 where its peak is not known"


def test_a_product_of_4_bit_weights_reaches_half_the_bandwidth() -> None:
    packed = CountedOp(operator="aten::_weight_int4pack_mm", kind=MATRIX, bytes=10_000 * KB)
    assert predicted(packed).gpu_work_ns.predicted == 3_650 + 2 * 10_000


def test_kernels_that_move_much_start_later() -> None:
    """From 64 KiB on; a norm's reduction most of all."""
    assert predicted(op(REDUCTION, 65)).gpu_work_ns.predicted == 2_080 + 65
    assert predicted(op(REDUCTION, 66)).gpu_work_ns.predicted == 5_500 + 66


def test_what_limits_the_eager_step() -> None:
    assert predicted(op(ELEMENTWISE)).limit == "launching"
    assert predicted(op(ELEMENTWISE, 100_000)).limit == "gpu"


def test_chains_become_one_kernel_at_the_best() -> None:
    """Two chains around a matrix product: the first with a reduction, moving 3,000 kB at the least."""
    chain = (op(ELEMENTWISE, 1_000), op(REDUCTION, 3_000), op(ELEMENTWISE, 1_000))
    told = predicted(*chain, op(MATRIX, 10_000), op(ELEMENTWISE), op(ELEMENTWISE)).fused
    assert (told.gpu_ops_low, told.gpu_ops_high) == (3, 6)
    assert told.gpu_work_low_ns == pytest.approx(0.85 * (2_080 + 3_000 + 3_650 + 10_000 + 1_390))
    assert told.step_low_ns == 3 * 8_000
    assert told.graph_low_ns == told.gpu_work_low_ns


@pytest.mark.parametrize("kind", [MATRIX, ATTENTION, COPY, OTHER])
def test_what_no_compiler_fuses_stays(kind: str) -> None:
    told = predicted(op(ELEMENTWISE), op(kind), op(kind), op(ELEMENTWISE)).fused
    assert (told.gpu_ops_low, told.gpu_ops_high) == (4, 4)


@pytest.mark.parametrize(
    ("product", "split"),
    [
        ((1, 2048, 8192), True),  # down projection of the 1B sample
        ((64, 2048, 8192), True),
        ((256, 2048, 8192), False),  # 128 tiles
        ((1, 2048, 2048), False),
        ((1, 8192, 2048), False),
        ((1, 3584, 3584), True),
        ((1, 512, 3584), True),
        ((1, 18944, 3584), False),
        ((1, 1024, 3072), True),
        ((1, 1024, 2048), False),
        ((256, 1024, 3072), False),  # 64 tiles
    ],
)
def test_products_that_cublas_split_on_an_h200(product: tuple[int, int, int], split: bool) -> None:
    one = op(MATRIX, product=product)
    assert is_split(one, gpu("h200")) is split
    assert gpu_ops(one, gpu("h200")) == 1 + split


def test_rows_add_up_to_the_whole() -> None:
    told = predicted(op(MATRIX, 10), op(ELEMENTWISE, 5), op(ELEMENTWISE, 7), op(OTHER, launches=2))
    assert [(row.operator, row.calls, row.gpu_ops) for row in told.operators] == [
        ("aten::matrix", 1, 1),
        ("aten::elementwise", 2, 2),
        ("aten::other", 1, 2),
    ]
    assert sum(row.predicted_ns for row in told.operators) == pytest.approx(told.gpu_work_ns.predicted)
    assert sum(row.bytes for row in told.operators) == told.bytes == 22 * KB


@pytest.mark.parametrize("name", NAMES)
def test_figures_say_where_they_are_from(name: str) -> None:
    """Measured on the H200 alone; a published rate has the wider range."""
    one = gpu(name)
    rates = [one.bandwidth_bytes_per_s, *one.flops_per_s.values()]
    assert all(each.measured is (name == "h200") for each in [*rates, one.tau_ns, one.node_gap_ns])
    assert all(each.low <= each.value <= each.high and each.source for each in [*rates, one.tau_ns, one.node_gap_ns])
    assert all(("datasheet" in each.source or "whitepaper" in each.source) is not each.measured for each in rates)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_figures_of_the_table(name: str) -> None:
    page = (ROOT / "docs" / "predict.md").read_text("utf-8")
    one = gpu(name)
    rates = rate(one.bandwidth_bytes_per_s.value, "B"), rate(one.flops_per_s["bf16"].value, "FLOP")
    assert f"| `{name}` | {rates[0]} | {rates[1]} |" in page
    for kind in (MATRIX, ATTENTION, REDUCTION, ELEMENTWISE, COPY):
        assert f"| {START_NS[kind] / 1e3:g} µs | {LARGE_START_NS[kind] / 1e3:g} µs |" in page


def test_a_calibration_takes_the_tables_place(tmp_path: Path) -> None:
    own = Calibration(tau_floor_ns=2 * 5861.0, bandwidth_bytes_per_s=3.1e12, node_gap_ns=500.0)
    file = tmp_path / "calibration.json"
    file.write_bytes(msgspec.json.encode(own))
    assert read_calibration(file, "h100") == own
    file.write_bytes(msgspec.json.encode({"schema": "launchscope.calibration/1", "calibration": own, "machine": {}}))
    assert read_calibration(file, "h100") == own
    h100 = gpu("h100", own, "of calibration.json")
    assert h100.bandwidth_bytes_per_s.value == 3.1e12
    assert h100.bandwidth_bytes_per_s.source == "of calibration.json"
    assert h100.tau_ns.value == 2 * gpu("h200").tau_ns.value
    assert h100.node_gap_ns.value == 500.0
    assert not h100.flops_per_s["bf16"].measured, "what it lacks stays the table's"


def test_a_calibration_of_another_gpu_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    kept = {"schema": "x", "calibration": {"tau_floor_ns": 4000.0}, "machine": {"gpu": "NVIDIA A100-SXM4-80GB"}}
    file.write_text(json.dumps(kept))
    assert read_calibration(file, "a100").tau_floor_ns == 4000.0
    with pytest.raises(LaunchscopeError, match="measured on an NVIDIA A100-SXM4-80GB, not on an h200: give --gpu a100"):
        read_calibration(file, "h200")
    assert name_of("NVIDIA GeForce RTX 4090") == "rtx4090"
    assert name_of("NVIDIA A10G") is None, "of what is not in the table the nearest may be asked for"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"bandwidth_bytes_per_s": "fast"}', '{"calibration": {}}'])
def test_what_is_no_calibration(content: str, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(content)
    with pytest.raises(UnreadableInput, match="launchscope calibrate writes one"):
        read_calibration(file, "h100")
    with pytest.raises(LaunchscopeError, match="no such file"):
        read_calibration(tmp_path / "none.json", "h100")


def test_a_calibration_is_small(tmp_path: Path) -> None:
    """A device that never ends is read no further than that."""
    file = tmp_path / "calibration.json"
    file.write_bytes(b" " * (1 << 20) + b"{}")
    with pytest.raises(UnreadableInput, match="over 1 MiB, more than any such file has"):
        read_calibration(file, "h100")


MEASURED: list[dict[str, Any]] = json.loads((PREDICTED / "measured.json").read_text())
COUNTED: list[dict[str, Any]] = json.loads((PREDICTED / "counted.json").read_text())


def pairs() -> list[tuple[PredictionDoc, dict[str, Any]]]:
    """Each sample as predicted for an H200 from its stored count, and as measured on one."""
    found = []
    for counted, measured in zip(COUNTED, MEASURED, strict=True):
        name, batch, settings = key = counted["target"], counted["batch_size"], counted["settings"]
        assert key == (measured["target"], measured["batch_size"], measured["settings"])
        different = msgspec.convert(counted["ops"], list[CountedOp])
        ops = tuple(different[index] for index in counted["order"])
        target = Target(name=name, batch_size=batch, settings=settings)
        step = Step(target=target, ops=ops, torch=counted["torch"])
        found.append((predict_step(step, gpu("h200")), measured))
    return found


PAIRS = pairs()


def called(target: Target) -> str:
    prompt = target.settings.get("prompt_length")
    size = f"batch {target.batch_size}" if prompt is None else f"{prompt} tokens"
    return ", ".join([target.name, *filter(None, [target.settings.get("shape")]), size])


NAMED = [called(told.target) for told, _ in PAIRS]


@pytest.mark.parametrize(("told", "measured"), PAIRS, ids=NAMED)
def test_beside_what_an_h200_measured(told: PredictionDoc, measured: dict[str, Any]) -> None:
    """Operators exactly, GPU ops within 8 %, W and the graph within 12 %; all times within their ranges."""
    eager, graph = measured["modes"]["eager"], measured["modes"]["graph"]
    if measured["launching_operators"] is not None:
        assert told.launching_operators == measured["launching_operators"]
    assert told.gpu_ops == pytest.approx(eager["launches"], rel=0.08)
    assert told.gpu_work_ns.predicted == pytest.approx(eager["gpu_work_ns"], rel=0.12)
    assert told.graph_ns.predicted == pytest.approx(graph["step_ns"], rel=0.12)
    assert told.gpu_work_ns.low <= eager["gpu_work_ns"] <= told.gpu_work_ns.high
    assert told.graph_ns.low <= graph["step_ns"] <= told.graph_ns.high
    assert told.eager_ns.low <= eager["step_ns"] <= told.eager_ns.high


@pytest.mark.parametrize(("told", "measured"), PAIRS[:5], ids=NAMED[:5])
def test_fused_steps_lie_between_the_two_ends(told: PredictionDoc, measured: dict[str, Any]) -> None:
    fused, graph, range_ = measured["modes"]["fused"], measured["modes"]["fused_graph"], told.fused
    assert range_.gpu_ops_low <= fused["launches"] <= range_.gpu_ops_high
    assert range_.gpu_work_low_ns <= fused["gpu_work_ns"] <= range_.gpu_work_high_ns
    assert range_.step_low_ns <= fused["step_ns"] <= range_.step_high_ns
    assert range_.graph_low_ns <= graph["step_ns"] <= range_.graph_high_ns


def test_the_constants_are_those_of_the_1b_sample() -> None:
    """Its W comes out to a per mille, by kind as the recording has it."""
    told, measured = PAIRS[0]
    assert told.gpu_work_ns.predicted == pytest.approx(measured["modes"]["eager"]["gpu_work_ns"], rel=0.001)
    assert set(START_NS) == {MATRIX, ATTENTION, REDUCTION, ELEMENTWISE, COPY, OTHER}


def beside(predicted: float, measured: float, show: Callable[[float], str], ends: str = "") -> str:
    """Predicted, its range where it is told, measured, and how far the one is off."""
    off = f"{(predicted / measured - 1) * 100:+.1f} %".replace("-", "−")
    return f"{show(predicted)}{ends}, {show(measured)} ({off})"


def milliseconds(ns: float) -> str:
    return f"{ns / 1e6:.3f}" if ns < 1e7 else f"{ns / 1e6:.2f}"


def test_the_table_of_the_validation_page() -> None:
    page = (ROOT / "docs" / "validation.md").read_text("utf-8")
    for told, measured in PAIRS:
        eager, graph = measured["modes"]["eager"], measured["modes"]["graph"]
        cells = [
            called(told.target).replace(".py", ""),
            beside(told.gpu_ops, eager["launches"], "{:,.0f}".format),
            beside(told.gpu_work_ns.predicted, eager["gpu_work_ns"], milliseconds),
        ]
        for range_, step in ((told.eager_ns, eager["step_ns"]), (told.graph_ns, graph["step_ns"])):
            ends = f" ({milliseconds(range_.low)} to {milliseconds(range_.high)})"
            cells.append(beside(range_.predicted, step, milliseconds, ends))
        assert f"| {' | '.join(cells)} |" in page
