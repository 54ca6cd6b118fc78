"""What this machine's launches, graphs, memory and matrix units cost, measured once and kept per machine.

Each figure is defined in docs/metrics.md; each is taken unprofiled but for the GPU work of the calibration graph,
which one profiler session at the very end measures.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...analysis.model import __version__
from ...analysis.model.capture import Calibration
from ...analysis.model.errors import LaunchscopeError, MissingRequirement
from ...analysis.model.paths import user_cache
from ..measure.device import (
    CUDA,
    WITHOUT_A_GPU,
    CudaDevice,
    Environment,
    Step,
    host_times,
    load_device,
    require_hardware,
)
from ..target.options import Progress, no_progress, short_dtype
from .client import ForkServer, ProcessFailed
from .worker import Probe, ProbeRequest

if TYPE_CHECKING:
    import torch

TIMEOUT_S: Final = 180.0
_IDENTITY: Final = ("gpu", "driver", "cuda", "torch", "cpu", "cpu_cores")
"""The parts of an environment that make it another machine for a calibration."""


class KeptCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A calibration on disk."""

    schema: str = "launchscope.calibration/1"
    launchscope: str
    machine: Environment
    calibration: Calibration


def calibrate(refresh: bool, progress: Progress, device_layer: str) -> tuple[Calibration, bool, Path]:
    """This machine's calibration, whether it was measured before, and where it is kept.

    Raises MissingRequirement without GPU, driver or torch.
    """
    if device_layer == CUDA:
        require_hardware()
    with ForkServer(["torch", "torch.profiler", "launchscope.tracer.processes.calibrate"]) as server:
        return load_or_measure(server, probe_machine(server, device_layer), device_layer, progress, refresh=refresh)


def probe(server: ForkServer, device_layer: str, local_rank: int = 0) -> Probe:
    """What a short-lived process says about the machine, or about one rank's part of it."""
    request = ProbeRequest(device_layer=device_layer, local_rank=local_rank)
    try:
        return server.run("launchscope.tracer.processes.worker:probe", request, Probe, TIMEOUT_S, no_progress)
    except ProcessFailed as error:
        return Probe(missing=f"the GPU can't be started: the process {error}; what it printed stands above")


def probe_machine(server: ForkServer, device_layer: str) -> Environment:
    """What the machine is; MissingRequirement when it lacks what profiling needs."""
    found = probe(server, device_layer)
    if found.missing is not None:
        raise MissingRequirement(f"{found.missing} {WITHOUT_A_GPU}")
    return found.environment


def load_or_measure(
    server: ForkServer, environment: Environment, device_layer: str, progress: Progress, *, refresh: bool = False
) -> tuple[Calibration, bool, Path]:
    """The calibration kept for this machine, else a new one from a fresh process."""
    path = kept_path(environment)
    if not refresh and (kept := _load(path)) is not None:
        return kept, True, path
    try:
        measured: Calibration = server.run(
            "launchscope.tracer.processes.calibrate:measure",
            device_layer,
            Calibration,
            TIMEOUT_S,
            lambda phase: progress(f"calibrate: {phase}"),
        )
    except ProcessFailed as error:
        raise LaunchscopeError(f"calibration failed: the process {error}; what it printed stands above") from error
    _save(path, KeptCalibration(launchscope=__version__, machine=_machine(environment), calibration=measured))
    return measured, False, path


def kept_path(environment: Environment) -> Path:
    """Where the calibration of this machine is kept: in the user's cache, by a fingerprint of the machine."""
    fingerprint = hashlib.sha256(msgspec.json.encode(_machine(environment))).hexdigest()[:16]
    return user_cache() / f"calibration-{fingerprint}.json"


def _machine(environment: Environment) -> Environment:
    return {name: environment.get(name) for name in _IDENTITY}


def _load(path: Path) -> Calibration | None:
    """What is kept there; null when there is nothing, or nothing that this version can use."""
    with suppress(OSError, msgspec.MsgspecError):
        kept = msgspec.json.decode(path.read_bytes(), type=KeptCalibration)
        return kept.calibration if kept.launchscope == __version__ else None
    return None


def _save(path: Path, kept: KeptCalibration) -> None:
    """Written whole or not at all; a cache that can't be written is no reason to fail."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def measure(argument: bytes, tell: Callable[[str], None]) -> Calibration:
    """Measure all figures, in a fresh process. ``argument``: the device layer, as JSON text."""
    layer = msgspec.json.decode(argument, type=str)
    device = load_device(layer)
    known = getattr(device, "calibration", None)  # of a device layer without torch
    return known() if known is not None else _measure_cuda(tell)


BANDWIDTH_BYTES: Final = 4 << 30  # copied at once where memory allows: many times any L2
MATRIX_SIZE: Final = 8192
NULL_LAUNCHES: Final = 500  # below the queue's depth of about 1,024
GRAPH_BLOCKS: Final = (12, 48)  # of 12 kernels each; few graphs: each capture uses a stream of its own
ROW: Final = 2048  # hidden size of the calibration graph's kernels, as in a 1B decode step
MANY_STREAMS: Final = 16
ROUNDS: Final = 5


@dataclass(frozen=True, eq=False)
class _Blocks:
    """One calibration step: in eager, and as a graph."""

    eager: Step
    graph: Step


def _measure_cuda(tell: Callable[[str], None]) -> Calibration:
    import torch

    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    tell("cheapest launch")
    tau_floor = _tau_floor()
    tell("graphs")
    blocks = [_blocks(count) for count in GRAPH_BLOCKS]
    few = [_graph_period(b.graph) for b in blocks]
    _use_many_streams()
    many = [_graph_period(b.graph) for b in blocks]
    submits = [_graph_submit(b.graph) for b in blocks]
    tell("memory bandwidth")
    bandwidth = _bandwidth()
    tell("matrix rate")
    rates = {short_dtype(dtype): _matrix_rate(dtype) for dtype in (torch.bfloat16, torch.float16, torch.float32)}
    tell("node gap")
    work, nodes = _eager_work(blocks)
    replay_gap, node_gap = _line([k - 1 for k in nodes], [t - w for t, w in zip(many, work, strict=True)])
    _, node_gap_few = _line([k - 1 for k in nodes], [t - w for t, w in zip(few, work, strict=True)])
    launch, per_node = _line(nodes, submits)
    return Calibration(
        tau_floor_ns=tau_floor,
        graph_launch_ns=max(launch, 0.0),
        graph_launch_per_node_ns=max(per_node, 0.0),
        replay_gap_ns=max(replay_gap, 0.0),
        node_gap_ns=node_gap,
        node_gap_few_streams_ns=node_gap_few,
        bandwidth_bytes_per_s=bandwidth,
        flops_per_s=rates,
    )


def _line(x: list[int], y: list[float]) -> tuple[float, float]:
    """Intercept and slope by least squares. A gap can come out below 0: CUPTI stretches the work it is taken from."""
    slope, intercept = statistics.linear_regression(x, y)
    return intercept, slope


def _tau_floor() -> float:
    """Host time of the cheapest kernel launch from Python, back to back, ns."""
    import torch

    def once() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(NULL_LAUNCHES):
            torch.cuda._sleep(0)  # type: ignore[no-untyped-call]
        return (time.perf_counter_ns() - begin) / NULL_LAUNCHES

    once()
    return statistics.median(once() for _ in range(ROUNDS))


def _blocks(count: int) -> _Blocks:
    """A step of ``count`` blocks of alternating kernels as in a decode step: norm, matrix × vector, element-wise."""
    import torch
    from torch.nn import functional

    weights = [torch.randn(ROW, ROW, device="cuda", dtype=torch.bfloat16) / ROW**0.5 for _ in range(count)]
    x = torch.randn(1, ROW, device="cuda", dtype=torch.bfloat16)
    scale = torch.ones(ROW, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        y = x
        for weight in weights:
            wide = y.float()
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            normed = scale * wide.to(torch.bfloat16)
            y = y + functional.silu(functional.linear(normed, weight)) * normed

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return _Blocks(step, graph.replay)


def _use_many_streams() -> None:
    """Run a kernel on each of several streams: from then on the process is like one that serves (see CudaDevice)."""
    import torch

    streams = [torch.cuda.Stream() for _ in range(MANY_STREAMS)]  # type: ignore[no-untyped-call]
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.zeros(1, device="cuda")
    torch.cuda.synchronize()


def _graph_submit(replay: Step) -> float:
    """Host time of one graph launch on a drained queue, ns."""
    import torch

    return statistics.median(host_times(replay, 30, torch.cuda.synchronize))


def _graph_period(replay: Step) -> float:
    """GPU time from one replay to the next, back to back, ns."""
    return statistics.median(CudaDevice().time_batches(replay, 20, 20))


def _eager_work(blocks: list[_Blocks]) -> tuple[list[float], list[int]]:
    """Median sum of kernel durations of one eager run of each step, ns, and its number of kernels.

    Eager, because that is the work a prediction starts from; these kernels don't overlap. ``_sleep`` kernels tell the
    runs apart in the one session.
    """
    import torch
    from torch.autograd import DeviceType  # type: ignore[attr-defined]
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for block in blocks:
            for _ in range(ROUNDS + 1):
                torch.cuda._sleep(0)  # type: ignore[no-untyped-call]
                block.eager()
        torch.cuda.synchronize()
    kernels = sorted(
        (event.start_ns(), event.duration_ns(), event.name())
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == DeviceType.CUDA and event.duration_ns() > 0
    )
    runs: list[list[int]] = []
    for _, duration, name in kernels:
        if "spin_kernel" in name:
            runs.append([])
        elif runs and "Sync" not in name:
            runs[-1].append(duration)
    of_block = [runs[i * (ROUNDS + 1) + 1 : (i + 1) * (ROUNDS + 1)] for i in range(len(blocks))]
    return [float(statistics.median(map(sum, r))) for r in of_block], [
        round(statistics.median(map(len, r))) for r in of_block
    ]


def _bandwidth() -> float:
    """Bytes read and written per second by a device-to-device copy."""
    import torch

    size = min(BANDWIDTH_BYTES, torch.cuda.mem_get_info()[0] // 4)
    source = torch.empty(size // 4, device="cuda", dtype=torch.int32).random_()
    copy = torch.empty_like(source)
    copy.copy_(source)
    times = CudaDevice().time_batches(lambda: copy.copy_(source), ROUNDS, 5)
    return 2 * source.nbytes / (statistics.median(times) / 1e9)


def _matrix_rate(dtype: torch.dtype) -> float:
    """FLOP per second of a large square matrix product of random data."""
    import torch

    a = torch.randn(MATRIX_SIZE, MATRIX_SIZE, device="cuda").to(dtype)
    b = torch.randn(MATRIX_SIZE, MATRIX_SIZE, device="cuda").to(dtype)
    c = torch.mm(a, b)
    times = CudaDevice().time_batches(lambda: torch.mm(a, b, out=c), ROUNDS, 3)
    return float(2 * MATRIX_SIZE**3 / (statistics.median(times) / 1e9))
