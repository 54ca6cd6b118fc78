"""A device layer without a GPU: what a step asks of it by ``launch`` and ``wait`` runs on one queue, in host time.

A target of a test imports this module and calls ``launch(name, dur_us)`` in its step. Each process is a device of its
own; a session writes what was launched in it as Kineto would.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from launchscope.analysis.model.capture import Calibration, GpuState
from launchscope.fixtures.builder import trace

LAUNCH_NS: Final = 5_000
START_NS: Final = 2_000  # from the end of a launch call to the start of its kernel on an idle device
NODE_GAP_NS: Final = 100
GRAPH_BYTES: Final = 1 << 20
MOST_STEPS_PER_BATCH: Final = 2  # a fake has no noise to average out

CALIBRATION: Final = Calibration(
    tau_floor_ns=4_000,
    graph_launch_ns=1_000,
    graph_launch_per_node_ns=50,
    replay_gap_ns=500,
    node_gap_ns=100,
    bandwidth_bytes_per_s=1e12,
    flops_per_s={"fp32": 1e12},
)


@dataclass
class _Call:
    """One host call of a session and the (name, start, end) of the kernels it launched; none where it waited."""

    api: str
    start_ns: int
    end_ns: int
    kernels: list[tuple[str, int, int]] = field(default_factory=list)
    frame: str = ""


@dataclass
class _Machine:
    """The state of this process's device."""

    free_at_ns: int = 0
    graph: list[tuple[str, int]] | None = None  # (name, ns) of what is being captured
    calls: list[_Call] | None = None  # of the session that runs
    sessions: int = 0
    free_bytes: int = 1 << 30

    def enqueue(self, api: str, work: list[tuple[str, int]], frame: str) -> None:
        begin = time.time_ns()
        while (end := time.time_ns()) < begin + LAUNCH_NS:
            pass
        start = max(end + START_NS, self.free_at_ns + NODE_GAP_NS)
        kernels = []
        for name, dur in work:
            kernels.append((name, start, start + dur))
            start += dur + NODE_GAP_NS
        self.free_at_ns = start - NODE_GAP_NS
        self.record(_Call(api, begin, end, kernels, frame))

    def drain(self, api: str) -> None:
        begin = time.time_ns()
        while (end := time.time_ns()) < self.free_at_ns:
            pass
        self.record(_Call(api, begin, end))

    def record(self, call: _Call) -> None:
        if self.calls is not None:
            self.calls.append(call)


_machine = _Machine()


def launch(name: str, dur_us: int = 10) -> None:
    """Ask the device for a kernel of this name and length."""
    if _machine.graph is not None:
        _machine.graph.append((name, dur_us * 1_000))
        return
    caller = sys._getframe(1)
    frame = f"{Path(caller.f_code.co_filename).name}({caller.f_lineno}): {caller.f_code.co_name}"
    _machine.enqueue("cudaLaunchKernel", [(name, dur_us * 1_000)], frame)


def wait() -> None:
    """Wait for the device; refused while a graph is being captured, in CUDA's words."""
    if _machine.graph is not None:
        raise RuntimeError(
            "CUDA error: operation not permitted when stream is capturing\n"
            "Search for `cudaErrorStreamCaptureUnsupported' in CUDA's documentation"
        )
    _machine.drain("cudaStreamSynchronize")


class FakeDevice:
    """A Device (see launchscope.tracer.measure.device) on the CPU."""

    name = "cpu"

    def missing(self) -> str | None:
        return None

    def environment(self) -> dict[str, str | int | float | bool | None]:
        return {"gpu": "Fake GPU", "driver": "1.0", "cpu_cores": 2}

    def use(self, index: int) -> str | None:
        return None

    def identity(self) -> str | None:
        return None

    def state(self) -> GpuState | None:
        return GpuState(sm_clock_mhz=1_000)

    def calibration(self) -> Calibration:
        return CALIBRATION

    def synchronize(self) -> None:
        _machine.drain("cudaDeviceSynchronize")

    def warm_up(self, step: Callable[[], Any], count: int) -> list[float]:
        return [self._one(step) for _ in range(count)]

    def time_batches(self, step: Callable[[], Any], batches: int, steps: int) -> list[float]:
        self.synchronize()
        fewer = min(steps, MOST_STEPS_PER_BATCH)
        return [sum(self._one(step) for _ in range(fewer)) / fewer for _ in range(batches)]

    def capture(self, step: Callable[[], Any]) -> Callable[[], Any]:
        """The replay runs the step's Python code again, since there is no device that could compute its outputs."""
        try:
            _captured(step)
        except Exception:  # as torch.cuda.graph does: leaving the capture raises an error of its own
            raise RuntimeError("CUDA error: operation failed due to an earlier error in the capture")  # noqa: B904
        _machine.free_bytes -= GRAPH_BYTES

        def replay() -> Any:
            work, outputs = _captured(step)
            _machine.enqueue("cudaGraphLaunch", work, "")
            return outputs

        return replay

    def free_memory(self) -> int:
        return _machine.free_bytes

    @contextmanager
    def session(self, trace_pass: str) -> Iterator[_Session]:
        _machine.sessions += 1
        assert _machine.sessions == 1, "a second profiler session in one process"
        _machine.calls = []
        session = _Session(trace_pass, _machine.calls)
        yield session
        self.synchronize()
        _machine.calls = None

    def _one(self, step: Callable[[], Any]) -> float:
        assert _machine.sessions == 0, "timing after a profiler session"
        begin = time.perf_counter_ns()
        step()
        self.synchronize()
        return float(time.perf_counter_ns() - begin)


class MissingDevice(FakeDevice):
    """A machine on which nothing can be profiled."""

    def missing(self) -> str | None:
        return "nothing to run on"


@dataclass
class _Session:
    trace_pass: str
    calls: list[_Call]

    def export(self, path: Path) -> None:
        base = self.calls[0].start_ns
        builder = trace(device_names={0: "Fake GPU"}, base_ns=base)

        def us(ns: int) -> Decimal:
            return Decimal(ns) / 1_000

        for call in self.calls:
            at, dur = us(call.start_ns - base), us(call.end_ns - call.start_ns)
            if not call.kernels:
                builder.sync(at, dur, call.api)
                continue
            if self.trace_pass == "stacks" and call.frame:
                builder.python(call.frame, at, dur)
            if self.trace_pass != "cuda" and call.api == "cudaLaunchKernel":
                builder.op(f"aten::{call.kernels[0][0]}", at, dur)
            builder.launch(at, dur, call.api)
            for name, start, end in call.kernels:
                builder.kernel(us(start - base), us(end - start), name=name)
        builder.write(path)


def _captured(step: Callable[[], Any]) -> tuple[list[tuple[str, int]], Any]:
    """What the step launches, without running it, and its outputs."""
    work = _machine.graph = []
    try:
        outputs = step()
    finally:
        _machine.graph = None
    return work, outputs


class Uncalibrated(FakeDevice):
    """A device too small for the calibration."""

    def calibration(self) -> Calibration:
        raise RuntimeError("out of memory")


class OneForAll(FakeDevice):
    """The same GPU for every rank."""

    def identity(self) -> str | None:
        return "GPU-0"


class OnlyOne(FakeDevice):
    """A host with one GPU."""

    def use(self, index: int) -> str | None:
        return "only one fake" if index else None
