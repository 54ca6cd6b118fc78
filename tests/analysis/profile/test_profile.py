"""Two modes of one tiny step side by side: every figure of a profile by hand."""

from __future__ import annotations

from functools import cache
from math import isfinite

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.figures.observer import observer_effect, taxes_without_observer
from launchscope.analysis.model.capture import (
    WARM_CACHE_NOTE,
    Calibration,
    Floor,
    GpuState,
    Manifest,
    ModeRecord,
    ProcessRecord,
)
from launchscope.analysis.model.document import FloorDoc, ModeDoc, ProfileDoc
from launchscope.analysis.profile.profile import TAX_FIELDS, profile_document
from launchscope.fixtures.builder import TraceBuilder, trace

from ..captures import MACHINE, STARTED, TRACES, US, graph_trace, process, shipped, two_modes
from ..figures.test_analyses import numbers

REASONED = tuple(
    field.name
    for field in msgspec.structs.fields(ModeDoc)
    if field.name not in ("processes", "observer_effect", "host_submit_source", "error", "warnings", "withheld")
)
"""Figures of a mode that are null only with a reason."""


def analyses_of(manifest: Manifest, traces: dict[str, TraceBuilder] | None = None) -> list[TraceAnalysis]:
    """Every trace that the manifest names."""
    return [
        analyze_trace(
            (traces[mode] if traces and mode in traces else TRACES[mode]()).build(),
            name=each.trace or "",
            mode=None if mode == "as_written" else mode,
            trace_pass=each.trace_pass,
            repeat=each.repeat,
        )
        for mode, record in manifest.modes.items()
        for each in record.processes
        if each.trace
    ]


def profile_of(manifest: Manifest, traces: dict[str, TraceBuilder] | None = None) -> ProfileDoc:
    document = profile_document(manifest, analyses_of(manifest, traces))
    for mode in document.modes.values():
        check(mode)
    return document


def check(mode: ModeDoc) -> None:
    """What must hold for any mode: every null has its reason, the taxes add up, every number is finite."""
    for name in REASONED:
        assert (getattr(mode, name) is None) == (name in mode.withheld), name
    taxes = [getattr(mode, name) for name in TAX_FIELDS.values()]
    if taxes[0] is not None:
        assert sum(taxes) == pytest.approx(mode.exposed_idle_ns)
        assert all(tax >= 0 for tax in taxes)
    assert all(isfinite(number) for number in numbers(msgspec.to_builtins(mode)))


@cache
def two_modes_analyses() -> list[TraceAnalysis]:
    return analyses_of(two_modes())


amounts = st.floats(0, 1e9)
step_times = st.just(0.0) | st.floats(1e-3, 1e6)  # nothing takes less than a ns
counts = st.none() | st.integers(0, 10**15)
rates = st.none() | st.floats(1, 1e15)


@settings(max_examples=40, deadline=None)
@given(
    steps_us=st.lists(step_times, min_size=4, max_size=4),
    submit_ns=st.none() | amounts,
    floor=st.none()
    | st.builds(Floor, bytes=st.none() | st.integers(0, 10**12), flops=st.none() | st.integers(0, 10**15)),
    calibration=st.none()
    | st.builds(
        Calibration,
        graph_launch_ns=st.none() | amounts,
        graph_launch_per_node_ns=st.none() | amounts,
        replay_gap_ns=st.none() | amounts,
        node_gap_ns=st.none() | amounts,
        bandwidth_bytes_per_s=rates,
    ),
)
def test_whatever_was_measured_adds_up_and_is_finite(
    steps_us: list[float],
    submit_ns: float | None,
    floor: Floor | None,
    calibration: Calibration | None,
) -> None:
    submits = {} if submit_ns is None else {"host_submit_ns": (submit_ns,)}
    modes = {
        name: ModeRecord(processes=tuple(process(r, us, name, **submits) for r, us in ((0, first), (2, second))))
        for name, first, second in (("eager", *steps_us[:2]), ("graph", *steps_us[2:]))
    }
    document = profile_document(two_modes(modes=modes, floor=floor, calibration=calibration), two_modes_analyses())
    for mode in document.modes.values():
        check(mode)


@pytest.fixture(scope="module")
def profile() -> ProfileDoc:
    return profile_of(two_modes())


def test_t_is_the_median_over_processes_with_its_interval(profile: ProfileDoc) -> None:
    eager, graph = profile.modes["eager"].step_ns, profile.modes["graph"].step_ns
    assert eager is not None
    assert graph is not None
    assert (eager.median, graph.median) == (300 * US, 50 * US)
    assert eager.ci_low is not None
    assert eager.ci_high is not None
    assert 240 * US <= eager.ci_low < 300 * US < eager.ci_high <= 360 * US
    assert (graph.ci_low, graph.ci_high) == (50 * US, 50 * US)


def test_one_process_has_no_interval_and_no_range() -> None:
    record = ModeRecord(processes=(process(0, 300, "eager"),))
    mode = profile_of(two_modes(modes={"eager": record})).modes["eager"]
    assert mode.step_ns is not None
    assert (mode.step_ns.median, mode.step_ns.ci_low, mode.step_ns.ci_high) == (300 * US, None, None)
    assert mode.observer_effect["cuda"].low is None


def test_speedup_is_paired_by_repeat(profile: ProfileDoc) -> None:
    """240, 300 and 360 µs against 50: 4.8, 6 and 7.2."""
    assert (profile.modes["eager"].speedup, profile.modes["graph"].speedup) == (1.0, 6.0)


def test_tau_is_submit_time_over_launches(profile: ProfileDoc) -> None:
    eager = profile.modes["eager"]
    assert (eager.host_submit_ns, eager.host_submit_source, eager.launches) == (280 * US, "unprofiled", 20)
    assert (eager.tau_step_ns, eager.tau_api_ns) == (14 * US, 6 * US)


def test_work_is_the_cuda_passes_busy_time(profile: ProfileDoc) -> None:
    """20 kernels of 2 µs; 20 × 0.13 µs uncertain; 20 MB at 1 TB/s are the floor."""
    eager = profile.modes["eager"]
    assert (eager.gpu_work_ns, eager.gpu_work_uncertainty_ns, eager.kernels, eager.gpu_ops) == (40 * US, 2_600, 20, 20)
    assert eager.floor_ns == pytest.approx(20 * US)


def test_bound_and_serial_stand_beside_t(profile: ProfileDoc) -> None:
    bound = profile.modes["eager"].bound
    assert bound is not None
    assert (bound.bound_ns, bound.serial_ns, bound.step_ns) == (280 * US, 320 * US, 300 * US)
    assert "proves nothing by itself" in (bound.note or "")
    graph = profile.modes["graph"].bound
    assert graph is not None
    assert (graph.bound_ns, graph.note) == (40 * US, None)


def test_idle_is_split_by_the_shares_of_the_trace(profile: ProfileDoc) -> None:
    """In the trace 360 µs are idle, 10 of them (host, before a step's first kernel) between steps."""
    eager = profile.modes["eager"]
    assert eager.exposed_idle_ns == 260 * US
    assert eager.true_idle_fraction == pytest.approx(260 / 300)
    assert eager.launch_tax_ns == pytest.approx(260 * US * 350 / 360)
    assert eager.between_steps_ns == pytest.approx(260 * US * 10 / 360)


def test_the_profilers_part_of_a_graph_launch_is_replaced(profile: ProfileDoc) -> None:
    """Of 30 µs a step, 25 lie in the launch call; unprofiled 20 nodes take 1 + 20 × 0.05 = 2: 7 are left."""
    graph = profile.modes["graph"]
    assert graph.exposed_idle_ns == 10 * US
    assert graph.launch_tax_ns == pytest.approx(10 * US * 2 / 7)
    assert graph.node_tax_ns == pytest.approx(10 * US * 1.9 / 7)
    assert graph.between_steps_ns == pytest.approx(10 * US * 3.1 / 7)


def test_a_launch_part_shorter_than_the_unprofiled_cost_stays() -> None:
    analysis = analyze_trace(graph_trace().build(), name="graph")
    steady = analysis.context.headline_steady
    assert steady is not None
    dear = Calibration(graph_launch_ns=1e6, graph_launch_per_node_ns=0)
    assert taxes_without_observer(analysis.context, dear) == steady.taxes_ns()
    assert taxes_without_observer(analysis.context, None) is None


def test_what_the_floor_was_counted_from_is_told() -> None:
    told = profile_of(two_modes()).floor
    assert told == FloorDoc(bytes=20_000_000, flops=None, dtype=None)
    assert profile_of(two_modes(floor=None)).floor is None


def test_without_calibration_a_graphs_taxes_are_withheld() -> None:
    document = profile_of(two_modes(calibration=None))
    assert document.calibration is None
    assert document.modes["eager"].launch_tax_ns is not None
    graph = document.modes["graph"]
    assert (graph.exposed_idle_ns, graph.launch_tax_ns, graph.predicted_graph_ns) == (10 * US, None, None)
    assert "calibration" in graph.withheld["launch_tax_ns"]


def test_idle_below_resolution_is_null() -> None:
    """T − W of 2 µs against an uncertainty of 2.6."""
    modes = two_modes().modes | {"graph": ModeRecord(processes=(process(0, 42, "graph"),))}
    graph = profile_of(two_modes(modes=modes)).modes["graph"]
    assert (graph.exposed_idle_ns, graph.true_idle_fraction, graph.node_tax_ns) == (2 * US, None, None)
    assert "below resolution" in graph.withheld["true_idle_fraction"]
    assert graph.verdict is not None
    assert graph.verdict.verdict_class == "gpu-bound"


def test_prediction_stands_with_both_modes(profile: ProfileDoc) -> None:
    """40 + 19 × 0.1 + 0.5 = 42.4 against 50: 7.6 of the 10 µs of T − W too few."""
    for mode in profile.modes.values():
        assert mode.predicted_graph_ns == pytest.approx(42.4 * US)
        assert mode.predicted_graph_error == pytest.approx(-0.76)


def test_observer_effect_is_the_period_over_t_of_the_same_process(profile: ProfileDoc) -> None:
    """Periods of 400 µs against 240 and 360; one process of the other pass: no range."""
    effect = profile.modes["eager"].observer_effect
    assert (effect["cuda"].low, effect["cuda"].high) == (pytest.approx(400 / 360), pytest.approx(400 / 240))
    assert (effect["cpu_cuda"].median, effect["cpu_cuda"].low) == (pytest.approx(400 / 300), None)
    assert observer_effect([]) == {}


def test_costs_and_output(profile: ProfileDoc) -> None:
    graph, eager = profile.modes["graph"], profile.modes["eager"]
    assert (graph.capture_ns, graph.graph_memory_bytes, graph.compile_ns) == (5_000_000, 2**20, None)
    assert (graph.output_matches_eager, graph.max_abs_error, graph.output_tolerance) == (True, 0.0, 0.01)
    assert (eager.output_matches_eager, eager.withheld["output_matches_eager"]) == (None, "eager is the reference")


def test_the_profiles_verdict_is_eagers_with_what_was_measured(profile: ProfileDoc) -> None:
    told = profile.verdict
    assert told is not None
    assert told == profile.modes["eager"].verdict
    assert (told.verdict_class, told.basis) == ("launch-bound", "profile")
    graph, left = told.actions
    assert (graph.what, graph.basis, graph.mode) == ("replay it as one CUDA graph", "measured", "graph")
    assert (graph.saves_ns, graph.step_ns) == (250 * US, 50 * US)
    assert graph.detail == "42.4 µs predicted, 1 MiB of graph memory, 5.00 ms to capture"
    assert left.what == "what is left then"
    assert left.detail is not None
    between = "10.0 µs ± 2.60 µs between 20 kernels"  # 20 × 0.13 µs uncertain
    assert left.detail.startswith(f"{between}; 40.0 µs of GPU work over a floor of 20.0 µs")


def test_compiled_and_captured_is_the_second_step() -> None:
    fused = ModeRecord(processes=(process(0, 150, "fused", compile_ns=31e9),))
    both = ModeRecord(processes=(process(0, 45, "fused_graph", compile_ns=31e9, capture_ns=1e6),))
    told = profile_of(two_modes(modes=two_modes().modes | {"fused": fused, "fused_graph": both})).verdict
    assert told is not None
    assert [a.what for a in told.actions] == [
        "replay it as one CUDA graph",
        "torch.compile, then capture",
        "what is left then",
    ]
    assert told.actions[1].detail == "31.0 s to compile"


@pytest.mark.parametrize(
    ("fused_us", "both_us", "ways"),
    [
        (150, 45, ["graph", "fused_graph"]),  # capture it too: compilation alone is no step of its own
        (150, 55, ["graph"]),  # slower than what is easier
        (40, None, ["graph", "fused"]),
        (150, None, ["graph"]),
    ],
)
def test_each_way_on_is_faster_than_the_easier_ones(fused_us: float, both_us: float | None, ways: list[str]) -> None:
    modes = two_modes().modes | {"fused": ModeRecord(processes=(process(0, fused_us, "fused"),))}
    if both_us is not None:
        modes |= {"fused_graph": ModeRecord(processes=(process(0, both_us, "fused_graph"),))}
    told = profile_of(two_modes(modes=modes)).verdict
    assert told is not None
    assert [a.mode for a in told.actions if a.mode is not None] == ways


def test_a_failed_mode_is_a_row_with_its_reason() -> None:
    failed = ModeRecord(error="tiny.py:7: .item() is not allowed while a graph is captured")
    document = profile_of(two_modes(modes={"eager": two_modes().modes["eager"], "graph": failed}))
    graph = document.modes["graph"]
    assert (graph.step_ns, graph.verdict, graph.bound) == (None, None, None)
    assert graph.error == failed.error
    assert graph.withheld["step_ns"] == failed.error
    assert document.verdict is not None
    predicted = document.verdict.actions[0]
    assert (predicted.what, predicted.basis) == ("replay the step as one CUDA graph", "predicted")
    assert predicted.step_ns == pytest.approx(42.4 * US)
    assert predicted.detail == f"first: {failed.error}"


def test_without_eager_the_first_mode_that_ran_is_judged() -> None:
    modes = {"eager": ModeRecord(error="out of memory"), "graph": two_modes().modes["graph"]}
    document = profile_of(two_modes(modes=modes))
    assert document.verdict == document.modes["graph"].verdict
    assert document.modes["graph"].speedup is None


def test_nothing_ran() -> None:
    document = profile_of(two_modes(modes={"eager": ModeRecord(error="out of memory")}))
    assert document.verdict is None


def test_a_step_measured_as_written_is_its_own_baseline() -> None:
    record = ModeRecord(processes=(process(0, 50, "graph"),))
    document = profile_of(two_modes(modes={"as_written": record}), {"as_written": graph_trace()})
    mode = document.modes["as_written"]
    assert mode.gpu_work_ns == 40 * US
    assert document.verdict == mode.verdict


def test_a_step_that_replays_graphs_has_no_predicted_graph() -> None:
    record = ModeRecord(processes=(process(0, 50, "graph"),))
    mode = profile_of(two_modes(modes={"as_written": record}), {"as_written": graph_trace()}).modes["as_written"]
    assert mode.predicted_graph_ns is None
    assert mode.withheld["predicted_graph_ns"] == "the step replays graphs already"


def test_nobody_measured_what_was_captured_or_compiled_as_written() -> None:
    record = ModeRecord(processes=(process(0, 50, "graph"),))
    mode = profile_of(two_modes(modes={"as_written": record}), {"as_written": graph_trace()}).modes["as_written"]
    assert mode.withheld["compile_ns"] == mode.withheld["capture_ns"] == "it was not measured"


def test_a_compile_time_is_that_of_the_process_that_found_the_cache_cold() -> None:
    """20 s cold in fused; 3 s and 2 s where the cache was warm."""
    warm = (WARM_CACHE_NOTE,)
    fused = (process(0, 100, "fused", compile_ns=20e9), process(2, 100, "fused", compile_ns=3e9, notes=warm))
    both = (process(0, 45, "fused_graph", compile_ns=2e9, notes=warm),)
    modes = {"fused": ModeRecord(processes=fused), "fused_graph": ModeRecord(processes=both)}
    found = profile_of(two_modes(modes=modes)).modes
    assert (found["fused"].compile_ns, found["fused_graph"].compile_ns) == (20e9, 20e9)
    assert not [w for mode in found.values() for w in mode.warnings if w.code == "note"]


@pytest.mark.parametrize(
    ("few_streams_ns", "saves_us"),
    [
        (-200.0, 250 + 19 * 0.3),  # 19 gaps of 0.1 µs instead of −0.2: 5.7 of 50 µs, after 250 of 300
        (60.0, None),  # 0.76 µs are not worth doing
        (-900.0, None),  # 19 µs are more than T − W = 10 ± 2.6 µs: the step has them already
        (None, None),
    ],
)
def test_fewer_streams_are_proposed_where_the_idle_time_holds_the_saving(
    few_streams_ns: float | None, saves_us: float | None
) -> None:
    machine = msgspec.structs.replace(MACHINE, node_gap_few_streams_ns=few_streams_ns)
    verdict = profile_of(two_modes(calibration=machine)).verdict
    assert verdict is not None
    found = [action for action in verdict.actions if "few streams" in action.what]
    assert [(a.basis, a.saves_ns) for a in found] == ([("predicted", pytest.approx(saves_us * US))] if saves_us else [])
    for action in found:  # W's uncertainty of 2.6 µs either way; a part of what is left, so told after it
        assert (action.share, action.step_ns) == (pytest.approx(255.7 / 300), pytest.approx(44.3 * US))
        assert (action.low_ns, action.high_ns) == (pytest.approx(253.1 * US), pytest.approx(258.3 * US))
        assert (action.detail or "").startswith("5.70 µs ± 2.60 µs less than the 50.0 µs measured")
        assert [a.what for a in verdict.actions][1:] == ["what is left then", action.what]


def syncing_trace() -> TraceBuilder:
    """Six steps of 100 µs: two launches of 5 µs, 60 µs apart, with a sync of 50 µs between them."""
    builder = trace()
    for step in range(6):
        at = 100 * step
        builder.step(step, at, 95).launch(at + 1, 5).kernel(at + 10, 44).sync(at + 8, 50).launch(at + 61, 5)
        builder.kernel(at + 70, 5)
    return builder


def test_a_sync_inside_the_step_makes_submit_time_profiled() -> None:
    """First launch start 1 → last launch end 66, minus 50 in the sync: 15 µs, 7.5 a launch."""
    record = ModeRecord(processes=(process(0, 90, "eager", host_submit_ns=(85 * US,)),))
    mode = profile_of(two_modes(modes={"eager": record}), {"eager": syncing_trace()}).modes["eager"]
    assert (mode.host_submit_ns, mode.host_submit_source, mode.tau_step_ns) == (15 * US, "as profiled", 7.5 * US)


def test_profiled_host_time_is_called_so_in_the_verdict() -> None:
    """20 launches from 0 to 386 µs, 1 of them in a sync: 385 µs, as profiled, of a step of 100."""
    builder = trace()
    for step in range(6):
        builder.step(step, 400 * step, 395).sync(400 * step + 8, 1)
        for index in range(20):
            at = 400 * step + 20 * index
            builder.launch(at, 6).kernel(at + 8, 2)
    record = ModeRecord(processes=(process(0, 100, "eager", host_submit_ns=(95 * US,)),))
    mode = profile_of(two_modes(modes={"eager": record}), {"eager": builder}).modes["eager"]
    assert mode.verdict is not None
    assert mode.verdict.reason.endswith("20 launches × 19.2 µs = 385 µs of host time, as profiled")
    assert mode.bound is not None
    assert (mode.bound.bound_ns, mode.bound.step_ns) == (385 * US, 100 * US)
    assert "bounds nothing here: submitting a step under the profiler took" in (mode.bound.note or "")


def test_submitting_alone_that_takes_longer_than_t_bounds_nothing() -> None:
    """T = 300 µs, at most 360; a step alone took 370."""
    slow = tuple(process(r, us, "eager", host_submit_ns=(370 * US,)) for r, us in ((0, 240), (1, 300), (2, 360)))
    mode = profile_of(two_modes(modes={"eager": ModeRecord(processes=slow)})).modes["eager"]
    assert mode.bound is not None
    assert "submitting a step alone, into an empty queue, took the host longer" in (mode.bound.note or "")


def test_stacks_never_give_a_time() -> None:
    record = ModeRecord(processes=(process(0, 300, "eager"), process(1, 9_000, "eager", "stacks")))
    mode = profile_of(two_modes(modes={"eager": record})).modes["eager"]
    assert mode.step_ns is not None
    assert mode.step_ns.median == 300 * US
    assert list(mode.observer_effect) == ["cuda"]


def test_only_a_timing_pass_withholds_what_needs_a_trace() -> None:
    record = ModeRecord(processes=(ProcessRecord(repeat=0, started=STARTED, samples_ns=(300 * US,)),))
    mode = profile_of(two_modes(modes={"eager": record})).modes["eager"]
    assert mode.step_ns is not None
    assert (mode.gpu_work_ns, mode.bound, mode.exposed_idle_ns) == (None, None, None)
    assert mode.verdict is not None
    assert mode.verdict.verdict_class == "insufficient"
    assert "`cuda` trace" in mode.verdict.reason


def test_a_trace_that_cant_be_trusted_is_not_judged() -> None:
    builder = TRACES["eager"]()
    for index in range(40):
        builder.kernel(800 + 10 * index, 2, launch=False)
    record = ModeRecord(processes=(process(0, 300, "eager"),))
    mode = profile_of(two_modes(modes={"eager": record}), {"eager": builder}).modes["eager"]
    assert mode.verdict is not None
    assert mode.verdict.verdict_class == "insufficient"


def test_clocks_and_samples_are_kept() -> None:
    states = {"before": GpuState(sm_clock_mhz=1_980), "after": GpuState(sm_clock_mhz=900)}
    record = ModeRecord(processes=(process(0, 300, "eager", **states),))
    kept = profile_of(two_modes(modes={"eager": record})).modes["eager"].processes[0]
    assert (kept.clocks_mhz, kept.samples_ns) == ([1_980, 900], [300 * US] * 3)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("samples/prompt-2048", "a floor of 5.69 ms (its FLOPs at the measured matrix rate)"),  # 2.36 GiB take 0.59 ms
        ("llama_1b", "a floor of 579 µs (2.32 GiB at 4.30 TB/s)"),
    ],
)
def test_a_floor_is_told_with_what_sets_it(name: str, source: str) -> None:
    found = shipped(f"{name}.zip").document.profile
    assert found is not None
    assert found.verdict is not None
    (left,) = [action for action in found.verdict.actions if action.kind == "left"]
    assert source in (left.detail or "")
