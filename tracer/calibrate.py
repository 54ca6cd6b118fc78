"""What this machine's launches, graphs, memory and matrix units cost, measured once and kept per machine.

Each figure is defined in docs/metrics.md; each is taken unprofiled but for the GPU work of the calibration graph,
which one profiler session at the very end measures.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from .. import __version__
from ..analysis.capture import Calibration
from ..analysis.errors import LaunchscopeError, MissingRequirement
from .client import ForkServer, ProcessFailed
from .device import CudaDevice, Step, host_times
from .options import Progress
from .target import short_dtype

if TYPE_CHECKING:
    import torch

TIMEOUT_S: Final = 180.0
_IDENTITY: Final = ("gpu", "driver", "cuda", "torch", "cpu", "cpu_cores")
"""The parts of an environment that make it another machine for a calibration."""
Environment = dict[str, str | int | float | bool | None]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A calibration on disk."""

    schema: str = "launchscope.calibration/1"
    launchscope: str
    machine: Environment
    calibration: Calibration


def calibrate(refresh: bool, progress: Progress, device_layer: str) -> tuple[Calibration, bool, Path]:
    """This machine's calibration, whether it was measured before, and where it is kept.

    Raises MissingRequirement without GPU, driver or torch.
    """
    from .worker import Probe

    with ForkServer(["torch", "torch.profiler", "launchscope.tracer.calibrate"]) as server:
        probe: Probe = server.run("launchscope.tracer.worker:probe", device_layer, Probe, TIMEOUT_S, progress)
        if probe.missing is not None:
            raise MissingRequirement(probe.missing)
        return load_or_measure(server, probe.environment, device_layer, progress, refresh=refresh)


def load_or_measure(
    server: ForkServer, environment: Environment, device_layer: str, progress: Progress, *, refresh: bool = False
) -> tuple[Calibration, bool, Path]:
    """The calibration kept for this machine, else a new one from a fresh process."""
    path = place(environment)
    if not refresh and (kept := _load(path)) is not None:
        return kept, True, path
    try:
        measured: Calibration = server.run(
            "launchscope.tracer.calibrate:measure",
            device_layer,
            Calibration,
            TIMEOUT_S,
            lambda phase: progress(f"calibrate: {phase}"),
        )
    except ProcessFailed as error:
        raise LaunchscopeError(f"calibration failed: the process {error}; what it printed stands above") from error
    _keep(path, Kept(launchscope=__version__, machine=_machine(environment), calibration=measured))
    return measured, False, path


def place(environment: Environment) -> Path:
    """Where the calibration of this machine is kept: under XDG_CACHE_HOME, by a fingerprint of the machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    fingerprint = hashlib.sha256(msgspec.json.encode(_machine(environment))).hexdigest()[:16]
    return cache / "launchscope" / f"calibration-{fingerprint}.json"


def _machine(environment: Environment) -> Environment:
    return {name: environment.get(name) for name in _IDENTITY}


def _load(path: Path) -> Calibration | None:
    """What is kept there; null when there is nothing, or nothing that this version can use."""
    with suppress(OSError, msgspec.MsgspecError):
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
        return kept.calibration if kept.launchscope == __version__ else None
    return None


def _keep(path: Path, kept: Kept) -> None:
    """Written whole or not at all; a cache that can't be written is no reason to fail."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(kept)))
        Path(partial).replace(path)


def measure(argument: bytes, tell: Callable[[str], None]) -> Calibration:
    """Measure all figures, in a fresh process. ``argument``: the device layer, as JSON text."""
    from .worker import load_device

    layer = msgspec.json.decode(argument, type=str)
    device = load_device(layer)
    own = getattr(device, "calibration", None)  # a device layer without torch brings its own
    return own() if own is not None else _measure_cuda(tell)


BANDWIDTH_BYTES: Final = 4 << 30  # copied at once where memory allows: many times any L2
MATRIX_SIZE: Final = 8192
NULL_LAUNCHES: Final = 500  # below the queue's depth of about 1,024
GRAPH_BLOCKS: Final = (10, 40, 120, 240)  # blocks of 3 kernels
ROW: Final = 2048  # hidden size of the calibration graph's kernels, as in a 1B decode step
ROUNDS: Final = 5


def _measure_cuda(tell: Callable[[str], None]) -> Calibration:
    import torch

    torch.set_grad_enabled(False)
    torch.zeros(1, device="cuda")
    tell("cheapest launch")
    tau_floor = _tau_floor()
    tell("graphs")
    graphs = {blocks * 3: _block_graph(blocks) for blocks in GRAPH_BLOCKS}
    launch, per_node = _line({nodes: _graph_submit(graph) for nodes, graph in graphs.items()})
    periods = {nodes: _graph_period(graph) for nodes, graph in graphs.items()}
    tell("memory bandwidth")
    bandwidth = _bandwidth()
    tell("matrix rate")
    rates = {short_dtype(dtype): _matrix_rate(dtype) for dtype in (torch.bfloat16, torch.float16, torch.float32)}
    tell("node gap")
    work = _graph_work(graphs)
    idle = {nodes - 1: periods[nodes] - work[nodes] for nodes in work}
    replay_gap, node_gap = _line(idle) if len(idle) > 1 else (None, None)
    return Calibration(
        tau_floor_ns=tau_floor,
        graph_launch_ns=launch,
        graph_launch_per_node_ns=per_node,
        replay_gap_ns=replay_gap,
        node_gap_ns=node_gap,
        bandwidth_bytes_per_s=bandwidth,
        flops_per_s=rates,
    )


def _line(points: dict[int, float]) -> tuple[float, float]:
    """Least-squares intercept and slope, neither below 0."""
    slope, intercept = statistics.linear_regression(list(points), list(points.values()))
    return max(intercept, 0.0), max(slope, 0.0)


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


def _block_graph(blocks: int) -> Step:
    """Replays a graph of kernels that alternate as in a decode step: matrix × vector, norm, element-wise; 3 a block."""
    import torch

    weights = torch.randn(ROW, ROW, device="cuda", dtype=torch.bfloat16) / ROW**0.5
    x = torch.randn(1, ROW, device="cuda", dtype=torch.bfloat16)
    scale = torch.ones(ROW, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        y = x
        for _ in range(blocks):
            y = torch.nn.functional.linear(y, weights)
            y = torch.nn.functional.layer_norm(y, (ROW,), scale)
            y = y.mul_(1.0009765625)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(reads: object = (weights, x, scale)) -> None:  # the graph needs them alive at every replay
        graph.replay()

    for _ in range(3):
        replay()
    torch.cuda.synchronize()
    return replay


def _graph_submit(replay: Step) -> float:
    """Host time of one graph launch on a drained queue, ns."""
    import torch

    return statistics.median(host_times(replay, 30, torch.cuda.synchronize))


def _graph_period(replay: Step) -> float:
    """GPU time from one replay to the next, back to back, ns."""
    return statistics.median(CudaDevice().time_batches(replay, 20, 20))


def _graph_work(graphs: dict[int, Step]) -> dict[int, float]:
    """Median sum of kernel durations of one replay, by number of nodes, ns; graphs whose replays were not
    recorded whole are left out. The kernels of these graphs don't overlap."""
    import torch
    from torch.autograd import DeviceType  # type: ignore[attr-defined]
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for replay in graphs.values():
            for _ in range(ROUNDS + 1):
                replay()
        torch.cuda.synchronize()
    replays: dict[int, list[int]] = {}
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == DeviceType.CUDA and event.duration_ns() > 0:
            replays.setdefault(event.correlation_id(), []).append(event.duration_ns())
    found: dict[int, list[int]] = {}
    for durations in replays.values():
        found.setdefault(len(durations), []).append(sum(durations))
    return {nodes: statistics.median(found[nodes]) for nodes in graphs if nodes in found}


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
