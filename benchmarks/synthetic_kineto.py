"""Kineto-shaped traces of any size, for speed and memory: python benchmarks/synthetic_kineto.py OUT.json MEGABYTES MAKE

Decode steps under ProfilerStep annotations, printed as Kineto prints: Python frames, operators with the shapes of their
inputs, runtime calls, flows, kernels with their launch arguments, one synchronisation a step. Frames, operators and
shapes are drawn by chance, so that nearly every launch has a stack of its own: no model is that varied. ``MAKES``
tells what most of the file is. The same size gives the same file.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROCESS: Final = 4242
_OPERATORS: Final = ("aten::linear", "aten::addmm", "aten::mul", "aten::copy_", "aten::_to_copy", "aten::view")
_FRAMES: Final = (
    "torch/nn/modules/module.py(1773): _call_impl",
    "transformers/models/llama/modeling_llama.py(311): forward",
    "<built-in function linear>",
    "nn.Module: LlamaDecoderLayer_7",
)
_KERNELS: Final = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, "
    "float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float, float, "
    "float>, unsigned int, float, 4, 4>)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
    *(f"triton_{kind}_fused__to_copy_add_mean_mul_pow_rsqrt_{i}" for i in range(40) for kind in ("poi", "red")),
)
_COLLECTIVES: Final = (
    ("allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("all_gather_into_tensor", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("all_to_allv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
)
_GROUPS: Final = (("0", "default_pg", 256), ("1", "tensor_parallel", 8), ("33", "expert_parallel", 32))
"""Name, description and size of the process groups."""

_HEAD: Final = """{
  "schemaVersion": 1,
  "deviceProperties": [
    { "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150110011392 }
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 256},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1759836030000000000,
  "traceEvents": ["""


@dataclass(frozen=True)
class _Make:
    """What a step is made of."""

    parts: int  # launched one by one
    frames: int  # Python frames around each of them
    collectives: int = 0
    graph_nodes: int = 0


MAKES: Final = {
    "graph": _Make(parts=12, frames=2, graph_nodes=600),
    "eager": _Make(parts=192, frames=6),
    "ranks": _Make(parts=64, frames=2, collectives=192, graph_nodes=100),
}
"""Mostly replays; mostly operators in stacks, with shapes; mostly one rank's collectives with 255 others."""


def record(category: str, name: str, pid: int, tid: int, ts: float, dur: float, args: str) -> str:
    return (
        f'\n  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {ts:.3f}, "dur": {dur:.3f},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def flow(phase: str, number: int, pid: int, tid: int, ts: float) -> str:
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'\n  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {ts:.3f},\n'
        f'    "cat": "ac2g", "name": "ac2g"{end}\n  }}'
    )


class _Steps:
    """Steps without end; times in µs."""

    def __init__(self, make: _Make) -> None:
        self._make = make
        self._random = random.Random(7)
        self._host, self._gpu = 6_733_413.123, 6_733_420.0
        self._correlation = 1000

    def records(self) -> Iterator[str]:
        step = 0
        while True:
            step += 1
            begun = self._host
            for _ in range(self._make.parts):
                yield from self._part()
            for _ in range(self._make.collectives):
                yield from self._collective()
            if self._make.graph_nodes:
                yield from self._launch("cudaGraphLaunch", 40.0, self._make.graph_nodes)
            wait = max(1.0, self._gpu - self._host)
            self._correlation += 1
            args = f'"cbid": 165, "correlation": {self._correlation}'
            yield record("cuda_runtime", "cudaDeviceSynchronize", _PROCESS, _PROCESS, self._host, wait, args)
            self._host += wait + 3
            name, length = f"ProfilerStep#{step}", self._host - begun
            yield record("user_annotation", name, _PROCESS, _PROCESS, begun, length, '"Record function id": 0')
            self._host += 5

    def _part(self) -> Iterator[str]:
        begun, span = self._host, 38 + self._random.random() * 10
        for depth in range(self._make.frames):
            frame = self._random.choice(_FRAMES)
            args = f'"Python id": {self._correlation}, "Ev Idx": {depth}'
            yield record("python_function", frame, _PROCESS, _PROCESS, begun + depth / 5, span - 1 - depth / 2, args)
        for depth in range(self._random.choice((2, 3, 4))):
            args = (
                '"Record function id": 0, "Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", ""], '
                f'"Input Dims": [[{self._random.randrange(1, 4096)}, 4096], []], "Ev Idx": {depth}'
            )
            name, at = self._random.choice(_OPERATORS), begun + depth + 0.5
            yield record("cpu_op", name, _PROCESS, _PROCESS, at, span - 3 - depth * 2, args)
        self._host = begun + 6
        yield from self._launch("cudaLaunchKernel", 3.5 + self._random.random() * 4, 1)
        self._host = begun + span

    def _collective(self) -> Iterator[str]:
        (kind, kernel), (name, description, size) = self._random.choice(_COLLECTIVES), self._random.choice(_GROUPS)
        elements = self._random.randrange(1, 4096) * 1024
        args = (
            f'"Collective name": "{kind}", "In msg nelems": {elements}, "Out msg nelems": {elements}, '
            f'"Group size": {size}, "dtype": "BFloat16", "Process Group Name": "{name}", '
            f'"Process Group Description": "{description}", "Process Group Ranks": "[0, 1, 2, ..., {size - 1}]"'
        )
        yield record("cpu_op", "record_param_comms", _PROCESS, _PROCESS, self._host, 9.0, args)
        self._host += 1
        yield from self._launch("cudaLaunchKernelExC", 5.0, 1, kernel, f"{args}, ")
        self._host += 4

    def _launch(self, api: str, length: float, kernels: int, name: str = "", more: str = "") -> Iterator[str]:
        self._correlation += 1
        args = f'"External id": {self._correlation}, "cbid": 211, "correlation": {self._correlation}'
        yield record("cuda_runtime", api, _PROCESS, _PROCESS, self._host, length, args)
        yield flow("s", self._correlation, _PROCESS, _PROCESS, self._host)
        for _ in range(kernels):
            start = round(max(self._gpu + 0.8, self._host + 4.5), 3)
            dur = round(1.2 + self._random.expovariate(1 / 6), 3)
            self._gpu = start + dur
            args = (
                f'"External id": {self._correlation}, "queued": 0, "device": 0, "context": 1, "stream": 7, {more}'
                f'"correlation": {self._correlation}, "registers per thread": {self._random.choice((16, 32, 168))}, '
                f'"shared memory": 49152, "blocks per SM": {self._random.random() * 20:.6f}, '
                f'"grid": [{self._random.randrange(1, 4096)}, 1, 1], "block": [128, 1, 1]'
            )
            yield record("kernel", name or self._random.choice(_KERNELS), 0, 7, start, dur, args)
        yield flow("f", self._correlation, 0, 7, self._host + 5)
        self._host += length


def write(path: Path, megabytes: float, make: str) -> None:
    """Write a trace of about this size, of one of ``MAKES``."""
    size, separator = 0, ""
    with path.open("w") as file:
        file.write(_HEAD)
        for text in _Steps(MAKES[make]).records():
            file.write(separator + text)
            separator = ","
            size += len(text) + 1
            if size >= megabytes * 1e6:
                break
        file.write('\n  ],\n  "traceName": "synthetic.json"\n}\n')


if __name__ == "__main__":
    write(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
