"""The few things that measuring needs from a GPU; everything else in the tracer is free of CUDA calls.

``CudaDevice`` answers on an NVIDIA or AMD GPU through torch; tests have a layer with the same methods.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import itertools
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ...analysis.model.capture import GpuState
from ...analysis.model.errors import LaunchscopeError, MissingRequirement
from ...analysis.model.paths import exists

Step = Callable[[], Any]
Environment = dict[str, str | int | float | bool | None]
"""What identifies a machine."""

CUDA: Final = "launchscope.tracer.measure.device:CudaDevice"
"""The device layer of a real GPU, by the name that the measuring processes get."""
_TAIL_BYTES: Final = 64  # of a trace: its last brace and what blanks follow it
_COPIED_BYTES: Final = 1 << 20
OLDEST_TORCH: Final = (2, 6)
WITHOUT_A_GPU: Final = (
    "(without a GPU: `launchscope demo` shows a report, `launchscope predict TARGET` predicts step times, "
    "`launchscope analyze TRACE` reads a trace recorded elsewhere)"
)

ENVIRONMENT_VARIABLES: Final = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_COMPILE_DISABLE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "OMP_NUM_THREADS",
)
"""Variables that change what is measured; no other one is kept."""

_THROTTLE_REASONS: Final = {
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SyncBoost": "sync boost",
    "SwThermalSlowdown": "software thermal slowdown",
    "HwThermalSlowdown": "hardware thermal slowdown",
    "HwPowerBrakeSlowdown": "power brake",
}
"""Suffix of nvmlClocksEventReason… → our words. Idle, application and display clocks don't slow a running step down.
Source: NVML API reference, nvmlClocksEventReasons."""


class CudaDevice:
    """A CUDA (or ROCm) device of this process, through torch."""

    name = "cuda"

    def __init__(self) -> None:
        self._side_stream: Any = None

    def missing(self) -> str | None:
        """What this machine lacks to profile, in words; null when nothing is missing. May start the device."""
        import torch

        version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        if version < OLDEST_TORCH:
            return f"torch {torch.__version__} is too old: {'.'.join(map(str, OLDEST_TORCH))} or newer is needed"
        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} is a CPU build: install one with CUDA"
        return None if torch.cuda.is_available() else "no GPU that torch can use"

    def environment(self) -> Environment:
        return environment()

    def use(self, index: int) -> str | None:
        """Let this process run on its host's device of this number; why it can't, null when it can."""
        import torch

        count = torch.cuda.device_count()
        if count == 1:  # whoever starts ranks may show each of them its own GPU alone
            return None
        if index >= count:
            return f"{count} GPUs are there, and the process of local rank {index} needs one of its own"
        torch.cuda.set_device(index)
        return None

    def identity(self) -> str | None:
        """What tells the device from others of its host; null where nothing does."""
        import torch

        return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)

    def state(self) -> GpuState | None:
        """Clocks, power, temperature and throttling now; null where nothing tells."""
        import torch

        return gpu_state(str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid))

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def warm_up(self, step: Step, count: int) -> list[float]:
        """Run ``count`` steps, each to its end, as one should before a capture; host time of each, ns.

        On a side stream, as PyTorch's notes on CUDA graphs prescribe, in every mode.

        The recipe matters to the figures: on an H200 (driver 580, CUDA 13.0, 2026-11-29) a graph of 718 nodes ran in
        2.00 ms as long as its process had used few streams, and in 2.25 ms from then on once it had used more, this
        one side stream under a whole model among them. Processes that serve are in the second state.
        """
        import torch

        if self._side_stream is None:
            self._side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side_stream):
            times = [_host_time(step, self._side_stream.synchronize) for _ in range(count)]
        torch.cuda.current_stream().wait_stream(self._side_stream)
        return times

    def time_batches(self, step: Step, batches: int, steps: int) -> list[float]:
        """Device time of each of ``batches`` runs of ``steps`` back-to-back steps, ns, with no wait in between."""
        import torch

        step()  # so that the first batch, too, starts behind a step
        events = [torch.cuda.Event(enable_timing=True) for _ in range(batches + 1)]  # type: ignore[no-untyped-call]
        events[0].record()
        for event in events[1:]:
            for _ in range(steps):
                step()
            event.record()
        torch.cuda.synchronize()
        ms = [before.elapsed_time(after) for before, after in itertools.pairwise(events)]
        return [value * 1e6 / steps for value in ms]

    def capture(self, step: Step) -> Step:
        """Record one step as a device graph; the step that replays it returns the captured step's outputs."""
        import torch

        graph = torch.cuda.CUDAGraph()
        # thread_local: a helper thread of the user's (a data loader, say) may call CUDA during the capture
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = step()

        def replay() -> Any:
            graph.replay()
            return outputs

        return replay

    def free_memory(self) -> int:
        """Bytes of device memory that no one holds, after the allocator gave back what it can."""
        import gc

        import torch

        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])

    @contextmanager
    def session(self, trace_pass: str) -> Iterator[Session]:
        """Run a profiler session of this pass ('cuda', 'cpu_cuda', 'stacks')."""
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CUDA] if trace_pass == "cuda" else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        rich = trace_pass == "stacks"
        with profile(activities=activities, record_shapes=rich, with_stack=rich, acc_events=True) as profiler:
            yield Session(profiler)
            self.synchronize()


class Session:
    """One profiler session."""

    def __init__(self, profiler: Any) -> None:
        self._profiler = profiler

    def export(self, path: Path) -> None:
        """Write the trace as the collector writes it; a name ending in .gz compresses.

        Kineto says nothing of a full disk: LaunchscopeError unless the trace that it wrote ends as one does.
        """
        text = path.with_suffix("") if path.suffix == ".gz" else path
        self._profiler.export_chrome_trace(str(text))
        end = b""
        if exists(text):
            with text.open("rb") as stream:
                stream.seek(-min(_TAIL_BYTES, text.stat().st_size), os.SEEK_END)
                end = stream.read()
        if not end.rstrip().endswith(b"}"):
            raise LaunchscopeError(f"{text}: the profiler could not write all of its trace; is the disk full?")
        if text != path:
            with text.open("rb") as whole, gzip.open(path, "wb") as packed:
                shutil.copyfileobj(whole, packed, _COPIED_BYTES)
            text.unlink()


def load_device(layer: str) -> CudaDevice:
    """The device layer that 'module:name' names."""
    module, _, name = layer.partition(":")
    device: CudaDevice = getattr(importlib.import_module(module), name)()
    return device


def require_hardware() -> None:
    """MissingRequirement, in a moment and before torch is imported, where it can be told so."""
    if importlib.util.find_spec("torch") is None:
        raise MissingRequirement(f"torch is not installed: pip install 'launchscope[torch]' {WITHOUT_A_GPU}")
    if driver_version() is None and not Path("/dev/kfd").exists():  # /dev/kfd: AMD's driver
        raise MissingRequirement(f"no GPU driver found on this machine {WITHOUT_A_GPU}")


def _host_time(step: Step, wait: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    step()
    wait()
    return float(time.perf_counter_ns() - begin)


def host_times(step: Step, count: int, synchronize: Callable[[], None]) -> list[float]:
    """Host time to submit one step, ns, with the queue drained before each."""
    times = []
    for _ in range(count):
        synchronize()
        begin = time.perf_counter_ns()
        step()
        times.append(float(time.perf_counter_ns() - begin))
    synchronize()
    return times


def environment() -> Environment:
    """GPU, driver, CUDA, torch, host CPU and the variables that matter. Starts CUDA: call it in a child process."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found: Environment = {
        "gpu": properties.name,
        "gpu_memory_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "driver": driver_version(),
        "cuda": str(torch.version.cuda or torch.version.hip),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "os": platform.system(),
        "cpu": _cpu_model(),
        "cpu_cores": os.cpu_count(),
    }
    found |= {name: os.environ[name] for name in ENVIRONMENT_VARIABLES if name in os.environ}
    return found


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


@contextmanager
def _nvml() -> Iterator[Any]:
    """The pynvml module, initialised; null where there is no NVML."""
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def driver_version() -> str | None:
    with _nvml() as nvml:
        if nvml is None:
            return None
        with suppress(nvml.NVMLError):
            return str(nvml.nvmlSystemGetDriverVersion())
    return None


def gpu_state(uuid: str | None) -> GpuState | None:
    """One reading of the GPU with this UUID (torch's spelling, without the 'GPU-' prefix); null without NVML."""
    with _nvml() as nvml:
        if nvml is None:
            return None
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}") if uuid else nvml.nvmlDeviceGetHandleByIndex(0)
        except nvml.NVMLError:
            return None

        def read(function: str, *arguments: Any) -> Any:
            with suppress(nvml.NVMLError, AttributeError):
                return getattr(nvml, function)(handle, *arguments)
            return None

        power = read("nvmlDeviceGetPowerUsage")
        running = read("nvmlDeviceGetComputeRunningProcesses")
        mask = read("nvmlDeviceGetCurrentClocksEventReasons") or 0
        return GpuState(
            sm_clock_mhz=read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_clock_mhz=read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            power_w=None if power is None else power / 1000,
            temperature_c=read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=tuple(
                words
                for name, words in _THROTTLE_REASONS.items()
                if mask
                & (
                    getattr(nvml, f"nvmlClocksEventReason{name}", 0)
                    or getattr(nvml, f"nvmlClocksThrottleReason{name}", 0)
                )
            ),
            # one of them is ours, under a process id of another namespace where we run in a container
            other_processes=None if running is None else max(len(running) - 1, 0),
        )
