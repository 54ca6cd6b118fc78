"""The few things that measuring needs from a GPU; everything else in the tracer is free of CUDA calls.

``Device`` is what the measuring code asks for; ``CudaDevice`` answers on an NVIDIA or AMD GPU through torch.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import itertools
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from ...analysis.model.capture import GpuState
from ...analysis.model.errors import LaunchscopeError, MissingRequirement
from ...analysis.model.paths import exists

Step = Callable[[], Any]

CUDA: Final = "launchscope.tracer.measure.device:CudaDevice"
"""The device layer of a real GPU, by the name that the measuring processes get."""
_TAIL_BYTES: Final = 64  # of a trace: its last brace and what blanks follow it
_COPIED_BYTES: Final = 1 << 20
OLDEST_TORCH: Final = (2, 6)
WITHOUT_A_GPU: Final = (
    "(without a GPU: `launchscope demo` shows a report, `launchscope predict TARGET` predicts step times, "
    "`launchscope analyze TRACE` reads a trace recorded elsewhere)"
)


class Session(Protocol):
    """One profiler session."""

    def export(self, path: Path) -> None:
        """Write the trace as the collector writes it; a name ending in .gz compresses."""


class Device(Protocol):
    """What the measuring code asks of a device."""

    name: str  # as torch spells it: 'cuda'

    def missing(self) -> str | None:
        """What this machine lacks to profile, in words; null when nothing is missing. May start the device."""

    def environment(self) -> dict[str, str | int | float | bool | None]:
        """What identifies the machine: a capture's environment."""

    def state(self) -> GpuState | None:
        """Clocks, power, temperature and throttling now; null where nothing tells."""

    def use(self, index: int) -> str | None:
        """Let this process run on its host's device of this number; why it can't, null when it can."""

    def identity(self) -> str | None:
        """What tells the device from others of its host; null where nothing does."""

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""

    def warm_up(self, step: Step, count: int) -> list[float]:
        """Run ``count`` steps, each to its end, as one should before a capture; host time of each, ns."""

    def time_batches(self, step: Step, batches: int, steps: int) -> list[float]:
        """Device time of each of ``batches`` runs of ``steps`` back-to-back steps, ns, with no wait in between."""

    def capture(self, step: Step) -> Step:
        """Record one step as a device graph; the step that replays it returns the captured step's outputs."""

    def free_memory(self) -> int:
        """Bytes of device memory that no one holds, after the allocator gave back what it can."""

    def session(self, trace_pass: str) -> AbstractContextManager[Session]:
        """Run a profiler session of this pass ('cuda', 'cpu_cuda', 'stacks')."""


class CudaDevice:
    """A CUDA (or ROCm) device of this process, through torch."""

    name = "cuda"

    def __init__(self) -> None:
        self._side_stream: Any = None

    def missing(self) -> str | None:
        import torch

        version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        if version < OLDEST_TORCH:
            return f"torch {torch.__version__} is too old: {'.'.join(map(str, OLDEST_TORCH))} or newer is needed"
        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} is a CPU build: install one with CUDA"
        return None if torch.cuda.is_available() else "no GPU that torch can use"

    def environment(self) -> dict[str, str | int | float | bool | None]:
        from ..target.describe import environment

        return environment()

    def use(self, index: int) -> str | None:
        import torch

        count = torch.cuda.device_count()
        if count == 1:  # whoever starts ranks may show each of them its own GPU alone
            return None
        if index >= count:
            return f"{count} GPUs are there, and the process of local rank {index} needs one of its own"
        torch.cuda.set_device(index)
        return None

    def identity(self) -> str | None:
        import torch

        return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)

    def state(self) -> GpuState | None:
        import torch

        from ..target.nvml import gpu_state

        return gpu_state(str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid))

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def warm_up(self, step: Step, count: int) -> list[float]:
        """On a side stream, as PyTorch's notes on CUDA graphs prescribe, in every mode.

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
        import gc

        import torch

        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])

    @contextmanager
    def session(self, trace_pass: str) -> Any:
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CUDA] if trace_pass == "cuda" else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        rich = trace_pass == "stacks"
        with profile(activities=activities, record_shapes=rich, with_stack=rich, acc_events=True) as profiler:
            yield _TorchSession(profiler)
            self.synchronize()


class _TorchSession:
    def __init__(self, profiler: Any) -> None:
        self._profiler = profiler

    def export(self, path: Path) -> None:
        """Kineto says nothing of a full disk: LaunchscopeError unless the trace that it wrote ends as one does."""
        text = path.with_suffix("") if path.suffix == ".gz" else path
        self._profiler.export_chrome_trace(str(text))
        if not exists(text) or not _last_bytes(text).rstrip().endswith(b"}"):
            raise LaunchscopeError(f"{text}: the profiler could not write all of its trace; is the disk full?")
        if text != path:
            with text.open("rb") as whole, gzip.open(path, "wb") as packed:
                shutil.copyfileobj(whole, packed, _COPIED_BYTES)
            text.unlink()


def _last_bytes(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(-min(_TAIL_BYTES, file.stat().st_size), os.SEEK_END)
        return stream.read()


def load_device(layer: str) -> Device:
    """The device layer that 'module:name' names."""
    module, _, name = layer.partition(":")
    device: Device = getattr(importlib.import_module(module), name)()
    return device


def require_hardware() -> None:
    """MissingRequirement, in a moment and before torch is imported, where it can be told so."""
    from ..target.nvml import driver_version

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
