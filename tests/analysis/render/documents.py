"""Report documents made by hand: the H200 runs of the Llama-3.2-1B shapes, and the ways a report can be poor."""

from __future__ import annotations

from typing import Any

import msgspec
from launchscope.analysis.model.document import (
    TAXES,
    ActionDoc,
    BlockingCallDoc,
    BoundDoc,
    CalibrationDoc,
    CauseDoc,
    CoverageDoc,
    DeviceDoc,
    GapsDoc,
    GraphsDoc,
    KernelDoc,
    LaunchesDoc,
    MemoryOpsDoc,
    ModeDoc,
    ObserverDoc,
    OperatorDoc,
    ProcessDoc,
    ProfileDoc,
    QueueDepthDoc,
    ReplayDoc,
    ReportDocument,
    ShortKernelsDoc,
    ShortShareDoc,
    SourceDoc,
    SteadyDoc,
    StepsDoc,
    StepTimeDoc,
    Summary,
    TargetDoc,
    TraceDoc,
    VerdictDoc,
    WarningDoc,
)
from launchscope.analysis.report import Report

US = 1e3
MS = 1e6

HOSTILE = "evil\x1b[31m\n[bold]|`<b>\u202e\t[/bold]"


def report(document: ReportDocument) -> Report:
    """A Report with this document and no traces behind it."""
    return Report(document, ())


def summary(median: float, spread: float = 0.1, count: int = 8) -> Summary:
    return Summary(
        median=median, p10=median * (1 - spread), p90=median * (1 + spread), total=median * count, count=count
    )


def cause(count: int, ns: float) -> CauseDoc:
    return CauseDoc(count=count, ns=int(ns), boundary_ns=0, after_sync_ns=0, stall_ns=0)


def gaps(**causes_ms: float) -> GapsDoc:
    by_cause = {name: cause(1000, ms * MS) for name, ms in causes_ms.items()}
    total = sum(doc.ns for doc in by_cause.values())
    taxes = dict.fromkeys(TAXES, 0)
    taxes["launch"] = sum(by_cause[name].ns for name in ("host", "launch", "dispatch") if name in by_cause)
    taxes["node"] = by_cause["graph"].ns if "graph" in by_cause else 0
    taxes["other"] = total - taxes["launch"] - taxes["node"]
    return GapsDoc(count=5872, total_ns=total, by_cause=by_cause, taxes_ns=taxes)


def device(index: int = 0, name: str | None = "NVIDIA H200", steady: bool = True) -> DeviceDoc:
    idle = gaps(host=278.13, launch=76.70, dispatch=10.41, device=0.04, sync=0.02)
    window = idle.total_ns + 22_243_008
    doc = {"window_ns": window, "busy_ns": 22_243_008, "idle_ns": idle.total_ns}
    fraction = idle.total_ns / window
    scope = SteadyDoc(**doc, idle_fraction=fraction, gaps=idle) if steady else None
    return DeviceDoc(
        device=index, name=name, **doc, op_sum_ns=22_247_388, idle_fraction=fraction, gaps=idle, steady=scope
    )


def coverage(**changes: Any) -> CoverageDoc:
    return msgspec.structs.replace(
        CoverageDoc(
            events=64_335,
            gpu_ops=8_085,
            kernels=8_074,
            launches=8_085,
            graph_launches=0,
            linked=8_085,
            unlinked=0,
            kernels_in_graphs=0,
            zero_duration=0,
            negative_latency=0,
            negative_queue=660,
            same_stream_overlaps=61,
            steps_found=11,
            steps_dropped=3,
            step_source="annotation",
            reliable=True,
        ),
        **changes,
    )


GEMV = "void gemvx::kernel<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false, true>(gemvParams<int>)"
ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
MUL = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, "
    "float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)"
)


def kernel(name: str, count: int, median_us: float, share: float, operator: str | None) -> KernelDoc:
    return KernelDoc(
        name=name,
        category="kernel",
        count=count,
        total_ns=int(count * median_us * US),
        median_ns=median_us * US,
        p90_ns=median_us * 1.1 * US,
        share_of_busy=share,
        operator=operator,
    )


KERNELS = [
    kernel(GEMV, 520, 18.6, 0.60, "aten::mm"),
    kernel("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 256, 2.9, 0.05, "aten::linear"),
    kernel("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNN", 256, 2.8, 0.04, "aten::linear"),
    kernel(ADD, 512, 1.4, 0.04, "aten::add"),
    kernel(MUL, 264, 1.3, 0.03, "aten::mul"),
    kernel("triton_red_fused__to_copy__unsafe_view_add_embedding_mean_mul_pow_rsqrt_5", 64, 1.9, 0.01, None),
    kernel("triton_red_fused__to_copy__unsafe_view_add_embedding_mean_mul_pow_rsqrt_7", 64, 1.8, 0.01, None),
    kernel("Memcpy DtoH (Device -> Pinned)", 8, 1.2, 0.001, "aten::copy_"),
]


def trace_verdict(name: str = "launch-bound") -> VerdictDoc:
    return VerdictDoc(
        verdict_class=name,
        basis="trace",
        reason="the GPU works 2.02 ms of a 35.2 ms step, as profiled (6 %); 735 launches × 45.9 µs = 33.7 ms of "
        "host time make 100 % of its idle time (33.2 ms of 33.2 ms), waiting for launches",
        actions=[
            ActionDoc(
                what="replay each step as one CUDA graph",
                saves_ns=32.9 * MS,
                share=0.93,
                low_ns=32.8 * MS,
                high_ns=33.1 * MS,
                step_ns=2.3 * MS,
                detail="as profiled; node gap as on an H200, not this machine",
            )
        ],
    )


def trace(**changes: Any) -> TraceDoc:
    """An eager trace with steps, the `cpu_cuda` recording of the Llama shapes."""
    return msgspec.structs.replace(
        TraceDoc(
            name="llama-3.2-1b-b1-eager.json.gz",
            mode=None,
            trace_pass=None,
            repeat=None,
            rank=None,
            source=SourceDoc(path="llama-3.2-1b-b1-eager.json.gz", format="kineto-json", bytes=1_234_567),
            coverage=coverage(),
            headline_device=0,
            warnings=[],
            withheld={},
            devices=[device()],
            steps=StepsDoc(
                count=8,
                period_ns=summary(35.2 * MS, count=7),
                busy_ns=summary(2.02 * MS, 0.01),
                gpu_ops=summary(735, 0),
                kernels=summary(734, 0),
                launches=summary(735, 0),
                graph_launches=summary(0, 0),
                blocking_calls=summary(0, 0),
                memcpys=summary(0, 0),
            ),
            launches=LaunchesDoc(
                overhead_ns=summary(8.3 * US, count=8085),
                latency_ns=summary(12.1 * US, count=8085),
                queue_ns=summary(2.2 * US, count=8085),
                by_api={"cudaLaunchKernel": 6_900, "cuLaunchKernelEx": 1_174, "cudaMemsetAsync": 11},
                by_operator=[
                    OperatorDoc(operator="aten::mul", launches=2156, kernels=2156, stack=["decode", "layer"]),
                    OperatorDoc(operator="aten::mm", launches=1243, kernels=1243, stack=["decode", "aten::linear"]),
                    OperatorDoc(operator=None, launches=11, kernels=0, stack=[]),
                ],
            ),
            blocking_calls=[
                BlockingCallDoc(
                    api="cudaStreamSynchronize", operator="aten::item", stack=["sample"], count_per_step=1.0, ns=193_000
                )
            ],
            graphs=GraphsDoc(
                coverage_by_count=0.0, coverage_by_time=0.0, kernels_in_graphs=0, kernels_with_launch=8074, replays=[]
            ),
            kernels=KERNELS,
            short_kernels=ShortKernelsDoc(
                below_10us=ShortShareDoc(by_count=0.93, by_time=0.41),
                below_tau=ShortShareDoc(by_count=0.97, by_time=0.62),
                tau_ns=25.8 * US,
                tau_source="tau_step",
            ),
            queue_depth=QueueDepthDoc(median=0.0, max=3),
            memory_ops=MemoryOpsDoc(bytes=64, ns=9_600),
            bound=BoundDoc(
                basis="trace",
                gpu_work_ns=2.02 * MS,
                launches=735,
                tau_ns=45.9 * US,
                bound_ns=33.7 * MS,
                serial_ns=35.8 * MS,
                step_ns=35.2 * MS,
                host_submit_ns=33.7 * MS,
                host_submit_source="as profiled",
            ),
            verdict=trace_verdict(),
        ),
        **changes,
    )


def graph_trace() -> TraceDoc:
    """Replays of one graph of 735 GPU ops."""
    idle = gaps(graph=3.64, launch=1.14, host=0.21, device=0.04)
    busy = 22_545_678
    whole = DeviceDoc(
        device=0,
        name="NVIDIA H200",
        window_ns=busy + idle.total_ns,
        busy_ns=busy,
        idle_ns=idle.total_ns,
        op_sum_ns=busy,
        idle_fraction=idle.total_ns / (busy + idle.total_ns),
        gaps=idle,
        steady=None,
    )
    return trace(
        name="llama-3.2-1b-b1-graph.json.gz",
        coverage=coverage(launches=11, graph_launches=11, kernels_in_graphs=8074, step_source="repetition"),
        devices=[whole],
        graphs=GraphsDoc(
            coverage_by_count=1.0,
            coverage_by_time=1.0,
            kernels_in_graphs=8074,
            kernels_with_launch=8074,
            replays=[
                ReplayDoc(
                    graph="graph 0",
                    count=11,
                    ops_min=735,
                    ops_median=735,
                    ops_max=735,
                    launch_overhead_ns=summary(1.1 * MS, count=11),
                )
            ],
        ),
        blocking_calls=[],
        verdict=VerdictDoc(
            verdict_class="gpu-bound",
            basis="trace",
            reason="the GPU works 2.05 ms of a 2.36 ms step, as profiled (87 %)",
            actions=[],
            on_the_edge=True,
        ),
    )


def no_launches() -> TraceDoc:
    """Kernels without API calls: durations and idle, and no word on launches."""
    reason = "the file has no API calls"
    return trace(
        name="step-3.json.gz",
        coverage=coverage(
            gpu_ops=412,
            kernels=412,
            launches=0,
            linked=0,
            unlinked=412,
            negative_queue=0,
            same_stream_overlaps=0,
            steps_found=0,
            steps_dropped=0,
            step_source="none",
            reliable=False,
        ),
        devices=[device(steady=False)],
        warnings=[
            WarningDoc(
                code="no_launches",
                message="412 kernels, but no API calls, so launch gaps can't be explained (shown: durations and "
                "idle). The file was filtered or its writer leaves API calls out: re-export it whole",
            )
        ],
        withheld={"launches": reason, "graphs.coverage_by_count": reason, "bound": "no steps and no launches"},
        steps=None,
        launches=empty_launches(),
        blocking_calls=[],
        graphs=GraphsDoc(
            coverage_by_count=None, coverage_by_time=None, kernels_in_graphs=0, kernels_with_launch=0, replays=[]
        ),
        short_kernels=ShortKernelsDoc(
            below_10us=ShortShareDoc(by_count=0.93, by_time=0.41), below_tau=None, tau_ns=None, tau_source=None
        ),
        queue_depth=QueueDepthDoc(median=None, max=None),
        bound=None,
        verdict=VerdictDoc(
            verdict_class="insufficient",
            basis="trace",
            reason="the trace can't be trusted for this: no launches",
            actions=[],
        ),
    )


def empty_launches() -> LaunchesDoc:
    nothing = Summary(median=None, p10=None, p90=None, total=0, count=0)
    return LaunchesDoc(overhead_ns=nothing, latency_ns=nothing, queue_ns=nothing, by_api={}, by_operator=[])


def nothing_known() -> TraceDoc:
    """A file with no GPU op: everything that may be null is."""
    return trace(
        name="empty.json",
        coverage=coverage(
            **dict.fromkeys(("events", "gpu_ops", "kernels", "launches", "linked", "negative_queue"), 0),
            same_stream_overlaps=0,
            steps_found=0,
            steps_dropped=0,
            step_source="none",
            reliable=False,
        ),
        headline_device=None,
        devices=[],
        steps=None,
        launches=empty_launches(),
        blocking_calls=[],
        graphs=GraphsDoc(
            coverage_by_count=None, coverage_by_time=None, kernels_in_graphs=0, kernels_with_launch=0, replays=[]
        ),
        kernels=[],
        short_kernels=ShortKernelsDoc(below_10us=None, below_tau=None, tau_ns=None, tau_source=None),
        queue_depth=QueueDepthDoc(median=None, max=None),
        memory_ops=MemoryOpsDoc(bytes=None, ns=0),
        bound=None,
        verdict=VerdictDoc(verdict_class="insufficient", basis="trace", reason="no GPU op in the file", actions=[]),
    )


def hostile_trace() -> TraceDoc:
    """Every name that a program can choose holds control characters and markup of all outputs."""
    call = BlockingCallDoc(api=HOSTILE, operator=HOSTILE, stack=[HOSTILE], count_per_step=None, ns=5)
    plain = trace()
    return trace(
        name=HOSTILE,
        kernels=[kernel(f"{HOSTILE}{i}", 1, 2.0, 0.5, HOSTILE) for i in range(2)],
        blocking_calls=[call],
        launches=msgspec.structs.replace(
            plain.launches,
            by_api={HOSTILE: 1},
            by_operator=[OperatorDoc(operator=HOSTILE, launches=1, kernels=1, stack=[HOSTILE])],
        ),
        warnings=[WarningDoc(code="odd", message=HOSTILE)],
        devices=[device(name=HOSTILE)],
        withheld={"bound": HOSTILE},
    )


def traces_document(*traces: TraceDoc) -> ReportDocument:
    return ReportDocument(launchscope="0.1.0", target=None, environment=None, traces=list(traces), profile=None)


def no_mode() -> ModeDoc:
    """A mode of which nothing is known."""
    figures = {
        info.name: None
        for info in msgspec.structs.fields(ModeDoc)
        if info.name not in {"processes", "observer_effect", "warnings", "withheld"}
    }
    return ModeDoc(**figures, processes=[], observer_effect={}, warnings=[], withheld={})


def process(repeat: int, step_ns: float) -> ProcessDoc:
    return ProcessDoc(
        repeat=repeat,
        samples_ns=[step_ns] * 30,
        warmup_ns=[step_ns * 3] * 3,
        host_submit_ns=[step_ns] * 5,
        clocks_mhz=[1980, 1980],
        started="2026-11-29T17:02:35Z",
    )


def mode(step_ms: tuple[float, float, float], work_ms: float, launches: int, kernels: int, **changes: Any) -> ModeDoc:
    """A mode that ran; T with its interval and W in ms; the rest of T is launch tax unless told."""
    step, low, high = (ms * MS for ms in step_ms)
    work, idle = work_ms * MS, step - work_ms * MS
    tau = changes.pop("tau_us", 25.8) * US
    taxes = {"launch_tax_ns": idle, "stall_tax_ns": 0.0, "node_tax_ns": 0.0, "sync_tax_ns": 0.0}
    bound = BoundDoc(
        basis="profile",
        gpu_work_ns=work,
        launches=launches,
        tau_ns=tau,
        bound_ns=max(work, launches * tau),
        serial_ns=work + launches * tau,
        step_ns=step,
        host_submit_ns=launches * tau,
        host_submit_source="unprofiled",
    )
    return msgspec.structs.replace(
        no_mode(),
        **{
            "step_ns": StepTimeDoc(median=step, ci_low=low, ci_high=high),
            "processes": [process(repeat, step) for repeat in range(3)],
            "tau_step_ns": tau,
            "tau_api_ns": 8.3 * US,
            "host_submit_ns": launches * tau,
            "host_submit_source": "unprofiled",
            "gpu_work_ns": work,
            "gpu_work_uncertainty_ns": (kernels + 1) * 130.0,
            "floor_ns": 0.58 * MS,
            "launches": launches,
            "kernels": kernels,
            "gpu_ops": kernels + 1,
            "exposed_idle_ns": idle,
            "true_idle_fraction": idle / step,
            **taxes,
            "between_steps_ns": 0.0,
            "other_idle_ns": 0.0,
            "bound": bound,
            "speedup": 19.0 * MS / step,
            **changes,
        },
    )


def observer(median: float, low: float | None = None, high: float | None = None) -> ObserverDoc:
    return ObserverDoc(median=median, low=low, high=high)


def modes() -> dict[str, ModeDoc]:
    note = "launch-bound: the host's submit time is nearly T itself, so T ÷ bound ≈ 1 proves nothing"
    eager = mode(
        (19.0, 17.8, 20.1),
        2.02,
        735,
        734,
        predicted_graph_ns=2.30 * MS,
        predicted_graph_error=0.04,
        observer_effect={"cuda": observer(1.24, 1.18, 1.31), "cpu_cuda": observer(2.10)},
    )
    assert eager.bound is not None
    return {
        "eager": msgspec.structs.replace(eager, bound=msgspec.structs.replace(eager.bound, note=note)),
        "graph": mode(
            (2.29, 2.286, 2.296),
            2.05,
            1,
            734,
            tau_us=25.0,
            launch_tax_ns=0.0,
            node_tax_ns=0.24 * MS,
            observer_effect={"cuda": observer(1.07, 1.06, 1.08), "cpu_cuda": observer(1.09)},
            output_matches_eager=True,
            max_abs_error=0.0,
            capture_ns=32 * MS,
            graph_memory_bytes=14 << 20,
        ),
        "fused": mode(
            (4.99, 4.71, 5.30),
            1.28,
            264,
            263,
            tau_us=18.4,
            observer_effect={"cuda": observer(1.3, 1.2, 1.4), "cpu_cuda": observer(1.90)},
            output_matches_eager=True,
            max_abs_error=2e-3,
            compile_ns=31e9,
            predicted_graph_ns=1.38 * MS,
        ),
        "fused_graph": mode(
            (1.40, 1.39, 1.41),
            1.30,
            1,
            263,
            tau_us=24.0,
            launch_tax_ns=0.0,
            node_tax_ns=0.10 * MS,
            observer_effect={"cuda": observer(1.06, 1.05, 1.08), "cpu_cuda": observer(1.08)},
            output_matches_eager=True,
            max_abs_error=2e-3,
            compile_ns=31e9,
            capture_ns=18 * MS,
            graph_memory_bytes=12 << 20,
        ),
    }


def calibration() -> CalibrationDoc:
    return CalibrationDoc(
        tau_floor_ns=4.3 * US,
        graph_launch_ns=6.2 * US,
        graph_launch_per_node_ns=26.0,
        replay_gap_ns=1.4 * US,
        node_gap_ns=350.0,
        bandwidth_bytes_per_s=4.26e12,
        flops_per_s={"bf16": 7.9e14},
    )


def profile_document(**changes: Any) -> ReportDocument:
    """The first screen of a profile of the Llama shapes on an H200: four modes, three processes each."""
    measured = modes()
    actions = [
        ActionDoc(
            what="torch.compile, then capture",
            saves_ns=17.6 * MS,
            share=0.926,
            low_ns=None,
            high_ns=None,
            basis="measured",
            step_ns=1.40 * MS,
            mode="fused_graph",
            detail="12 MiB, 31 s to compile",
        ),
        ActionDoc(
            what="replay the step as one CUDA graph",
            saves_ns=16.71 * MS,
            share=0.879,
            low_ns=None,
            high_ns=None,
            basis="measured",
            step_ns=2.29 * MS,
            mode="graph",
            detail="2.30 ms predicted; 14 MiB, 32 ms to capture",
        ),
        ActionDoc(
            what="fuse kernels: half the nodes pay half the node tax",
            saves_ns=0.05 * MS,
            share=0.003,
            low_ns=0.0,
            high_ns=0.10 * MS,
            step_ns=1.35 * MS,
        ),
    ]
    reason = (
        "the GPU works 2.02 ms of a 19.0 ms step (11 %); 735 launches × 25.8 µs = 19.0 ms of host time make "
        "100 % of its idle time (16.9 ms of 16.9 ms), waiting for launches"
    )
    profile = ProfileDoc(
        calibration=calibration(),
        modes=measured,
        seconds={"import torch": 5.1, "compile": 31.0, "timing": 22.0, "recording": 38.0, "all": 96.4},
        verdict=VerdictDoc(verdict_class="launch-bound", basis="profile", reason=reason, actions=actions),
    )
    return msgspec.structs.replace(
        ReportDocument(
            launchscope="0.1.0",
            target=TargetDoc(
                name="llama_1b.py",
                revision="3f2c1a9d0b7e",
                batch_size=1,
                dtype="bf16",
                context_length=512,
                parameters=1_235_814_400,
                settings={},
                labels=[],
            ),
            environment={"gpu": "NVIDIA H200", "driver": "580.159", "cuda": "13.0", "torch": "2.11"},
            traces=[
                trace(name="eager-0-cuda", mode="eager", trace_pass="cuda", repeat=0),
                trace(name="eager-1-cpu_cuda", mode="eager", trace_pass="cpu_cuda", repeat=1),
            ],
            profile=profile,
        ),
        **changes,
    )


def with_modes(**changed: ModeDoc) -> ReportDocument:
    """The profile with some modes replaced or added."""
    document = profile_document()
    assert document.profile is not None
    profile = msgspec.structs.replace(document.profile, modes={**document.profile.modes, **changed})
    return msgspec.structs.replace(document, profile=profile)


def only_modes(**modes_: ModeDoc) -> ReportDocument:
    """A profile of these modes alone, without a verdict and without traces."""
    document = profile_document(traces=[])
    assert document.profile is not None
    profile = msgspec.structs.replace(document.profile, modes=modes_, verdict=None)
    return msgspec.structs.replace(document, profile=profile)


def bare_profile() -> ReportDocument:
    """Every figure that may be null is: only a step time is known."""
    timed = msgspec.structs.replace(no_mode(), step_ns=StepTimeDoc(median=19.0 * MS, ci_low=None, ci_high=None))
    document = only_modes(as_written=timed)
    assert document.profile is not None
    profile = msgspec.structs.replace(document.profile, calibration=None, seconds={})
    return msgspec.structs.replace(document, target=None, environment=None, profile=profile)


def failed_mode() -> ModeDoc:
    return msgspec.structs.replace(
        no_mode(),
        error="capture failed: the step copies to the host\n  (.item() in sample, model.py:31): keep the token on "
        "the GPU, or leave sampling out of the step",
    )


def noisy_profile() -> ReportDocument:
    """A profile whose figures need words beside them: noise, a figure below resolution, an output that differs."""
    measured = modes()
    noisy = WarningDoc(code="noisy_host", message="T ±31 %: noisy host; more --repeats narrow it")
    shared = WarningDoc(code="shared_gpu", message="2 other processes used the GPU meanwhile", count=2)
    reason = "below resolution: T − W is smaller than W's uncertainty"
    return with_modes(
        eager=msgspec.structs.replace(
            measured["eager"], warnings=[noisy, shared], sync_tax_ns=1.2 * MS, between_steps_ns=0.3 * MS
        ),
        graph=msgspec.structs.replace(
            measured["graph"],
            exposed_idle_ns=0.02 * MS,
            true_idle_fraction=None,
            launch_tax_ns=None,
            node_tax_ns=None,
            withheld={"true_idle_fraction": reason, "launch_tax_ns": reason, "compile_ns": "not compiled"},
            output_matches_eager=False,
            max_abs_error=0.31,
        ),
    )
