"""The knobs of the model of a step: what a prediction can change of a step that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Final

from ..model.errors import LaunchscopeError
from ..model.units import byte_size, duration

WEIGHT_BYTES: Final[Mapping[str, float]] = {
    "fp32": 4.0,
    "float32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "bfloat16": 2.0,
    "fp16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
}
"""Bytes of one weight by dtype. Scales and zero points, a few per cent more, are left out."""

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
    """What to change; None keeps it. A value that no machine could have raises LaunchscopeError.

    The closed form knows no single op: ``graph``, ``times``, ``tensor_parallel`` and ``fuse`` are the simulator's.
    The simulator knows which ops a fusion takes away: ``kernels`` is the closed form's.
    """

    tau_ns: float | None = None  # host time per launch
    host: float | None = None  # the host takes this many times as long
    delay_ns: float | None = None  # further host time before each launch
    graph: bool = False  # the step is launched as one CUDA graph
    times: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → its ops take so many times as long
    bandwidth: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → memory so many times as fast
    flops: float | None = None  # the peak rate is so many times as high
    weights: str | float | None = None  # one of FORMATS, or bytes of all weights
    batch_size: int | None = None
    kernels: float | None = None  # GPU ops of the step: fusion makes them fewer
    tensor_parallel: int | None = None  # degree
    all_reduce_ns: float = ALL_REDUCE_NS
    fuse: tuple[str, ...] = ()  # kinds of the fusion advisor's candidates, or 'all'

    def __post_init__(self) -> None:
        if self.tau_ns is not None and self.host is not None:
            raise LaunchscopeError("tau and host both set the host's time: give one")
        if self.tau_ns is not None and self.graph:
            raise LaunchscopeError("tau is of launches one by one, and graph leaves one launch in all: give one")
        sizes = {"tau": self.tau_ns, "delay": self.delay_ns, "kernels": self.kernels, "all_reduce": self.all_reduce_ns}
        for name, value in sizes.items():
            _require(name, value, MOST, least=0.0)
        factors = {"host": [self.host], "flops": [self.flops], "gpu": self.times.values()}
        for name, values in (factors | {"bandwidth": self.bandwidth.values()}).items():
            for value in values:
                _require(name, value, MOST_TIMES)
        _require("weights", None if isinstance(self.weights, str) else self.weights, MOST)
        _require("batch", self.batch_size, MOST_SEQUENCES, least=1, kind=Integral)
        _require("tensor_parallel", self.tensor_parallel, MOST_PARTS, least=1, kind=Integral)

    def tau_from(self, measured_ns: float) -> float:
        """τ with the host's knobs turned."""
        tau = measured_ns * (1.0 if self.host is None else self.host) if self.tau_ns is None else self.tau_ns
        return tau + (self.delay_ns or 0.0)

    def bandwidth_factor(self, op_class: str) -> float:
        """How many times as fast memory is for ops of this class."""
        return of_class(self.bandwidth, op_class)

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


def of_class(factors: Mapping[str, float], op_class: str) -> float:
    """The factor of a class: that of all ops times its own."""
    return factors.get("all", 1.0) * factors.get(op_class, 1.0)


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
