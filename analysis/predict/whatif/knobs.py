"""What `launchscope whatif` can change of a recorded step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Final

from ...model.errors import LaunchscopeError
from ...model.units import byte_size, duration
from .gpu_work import WEIGHT_BYTES, StepBytes, Work

FORMATS: Final = tuple(sorted(set(WEIGHT_BYTES) - {"float32", "bfloat16", "float16", "tf32"}))
"""What weights can be asked for as; a size says it in bytes."""

ALL_REDUCE_NS: Final = 7_600.0
"""Of 4 KiB between two H200s over NVLink (NCCL 2.28.9, in a graph): 5.5 µs of transfer, and 2.1 µs more before it
than before other kernels. A matmul in parts waits for it twice a layer; more GPUs take longer."""

OTHER_STREAM_NS: Final = 7_000.0
"""How much later the high end takes an all-reduce: as seen where torch.compile put each on a stream of its own."""

MOST: Final = 1e18
MOST_TIMES: Final = 1e6
MOST_SEQUENCES: Final = 10**9
MOST_PARTS: Final = 4_096
"""Largest time in ns and size in bytes, factor, batch and degree that a knob takes."""


@dataclass(frozen=True)
class Knobs:
    """What to change; None keeps it. A value that no machine could have raises LaunchscopeError."""

    tau_ns: float | None = None  # host time per launch
    host: float | None = None  # the host takes this many times as long
    delay_ns: float | None = None  # further host time before each launch
    graph: bool = False  # the step is launched as one CUDA graph
    times: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → its ops take so many times as long
    bandwidth: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → memory so many times as fast
    flops: float | None = None  # the peak rate is so many times as high
    weights: str | float | None = None  # one of FORMATS, or bytes of all weights
    batch_size: int | None = None
    tensor_parallel: int | None = None  # degree
    all_reduce_ns: float = ALL_REDUCE_NS
    fuse: tuple[str, ...] = ()  # kinds of the fusion advisor's candidates, or 'all'

    def __post_init__(self) -> None:
        if self.tau_ns is not None and self.host is not None:
            raise LaunchscopeError("tau and host both set the host's time: give one")
        if self.tau_ns is not None and self.graph:
            raise LaunchscopeError("tau is of launches one by one, and graph leaves one launch in all: give one")
        for name, value in (("tau", self.tau_ns), ("delay", self.delay_ns), ("all_reduce", self.all_reduce_ns)):
            _require(name, value, MOST, least=0.0)
        for name, value in (("host", self.host), ("flops", self.flops)):
            _require(name, value, MOST_TIMES)
        for name, factors in (("gpu", self.times), ("bandwidth", self.bandwidth)):
            for factor in factors.values():
                _require(name, factor, MOST_TIMES)
        _require("weights", None if isinstance(self.weights, str) else self.weights, MOST)
        for name, count, most in (
            ("batch", self.batch_size, MOST_SEQUENCES),
            ("tensor_parallel", self.tensor_parallel, MOST_PARTS),
        ):
            _require(name, count, most, least=1, kind=Integral)

    def work(self, known: StepBytes | None) -> Work:
        """The knobs that change what the GPU has to do."""
        weights = self.weights
        if isinstance(weights, str):
            width = None if known is None else known.weight_width
            weights = None if known is None or not width else known.weights * WEIGHT_BYTES[weights] / width
        return Work(
            times=self.times,
            bandwidth=self.bandwidth,
            flops=self.flops or 1.0,
            weight_bytes=weights,
            batch_size=self.batch_size,
            parts=self.tensor_parallel or 1,
        )

    @property
    def needs_bytes(self) -> bool:
        """A knob is turned that takes what a step reads and computes."""
        changed = (self.flops, self.weights, self.batch_size, self.tensor_parallel)
        return bool(self.bandwidth) or any(each is not None for each in changed)

    def words(self) -> Iterator[str]:
        """Each knob that is turned."""
        if self.tau_ns is not None:
            yield f"τ = {duration(self.tau_ns)}"
        if self.host is not None:
            yield f"host time × {self.host:g}"
        if self.delay_ns is not None:
            yield f"{duration(self.delay_ns)} more per launch"
        yield from (f"time of {_ops(name)} × {factor:g}" for name, factor in self.times.items())
        yield from (f"bandwidth of {_ops(name)} × {factor:g}" for name, factor in self.bandwidth.items())
        if self.flops is not None:
            yield f"FLOP rate × {self.flops:g}"
        if self.weights is not None:
            yield f"weights of {self.weights if isinstance(self.weights, str) else byte_size(self.weights)}"
        if self.batch_size is not None:
            yield f"batch {self.batch_size}"
        if self.tensor_parallel is not None:
            yield f"one of {self.tensor_parallel} parts, all-reduces of {duration(self.all_reduce_ns)}"
        if self.fuse:
            yield f"fused: {', '.join(self.fuse)}"
        if self.graph:
            yield "one CUDA graph"


def _require(name: str, value: Any, most: float, *, least: float | None = None, kind: type = Real) -> None:
    """LaunchscopeError unless it is null or a number up to ``most``, from ``least`` on or else above 0."""
    if value is None:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not (value > 0 if least is None else value >= least) or value > most:
        takes = "whole number" if kind is Integral else "number"
        start = "above 0 and" if least is None else f"from {least:g}"
        raise LaunchscopeError(f"{name} is {value!r}: it takes a {takes} {start} up to {most:g}")


def _ops(name: str) -> str:
    return "all GPU ops" if name == "all" else name
