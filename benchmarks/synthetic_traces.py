"""Made-up traces of any size, for speed and memory, printed as Kineto prints.

    python benchmarks/synthetic_traces.py OUT.json MEGABYTES graph|eager|ranks
    python benchmarks/synthetic_traces.py FOLDER RANKS MEGABYTES

The first is one file, decode steps under ProfilerStep annotations: Python frames, operators with the shapes of their
inputs, runtime calls, flows, kernels with their launch arguments, one synchronisation a step. Frames, operators and
shapes are drawn by chance, so that nearly every launch has a stack of its own: no model is that varied. ``MAKES``
says what most of the file is. The same size gives the same file.

The second are rank files of one run: decode steps of 32 layers, each layer's kernels launched one by one and followed
by an all-reduce over all ranks, that ends on every rank when the last has arrived. Few timelines make many files: there
are six, four of them alike but for chance, written once, and each rank's file is one of them behind a head with its own
rank. So the same text is read again and again, from the page cache where the machine has the memory: what is measured
is reading, not the disk. ``DIFFERENT`` says what stands out: one rank whose host is slow, one whose kernels are, one
file that is cut, and one rank without a file.
"""

from __future__ import annotations

import gzip
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
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

_LAYERS: Final = 32
_KERNELS_A_LAYER: Final = 8
_TRANSFER_US: Final = 6.0
_ALIKE: Final = 4
DIFFERENT: Final = {"slow_host": 1, "slow_gpu": 2, "cut": 3, "missing": 5}
"""What is different about which rank; of every run of ranks from eight on."""

_END: Final = '\n  ],\n  "traceName": "synthetic.json"\n}\n'


def _head(rank: int, ranks: int) -> str:
    return (
        '{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    { "id": 0, "name": "NVIDIA H200" }\n  ],\n'
        f'  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {ranks}}},\n'
        '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1759836030000000000,\n  "traceEvents": ['
    )


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


def _record(cat: str, name: str, ts: float, dur: float, args: str, pid: int = _PROCESS, tid: int = _PROCESS) -> str:
    return (
        f'\n  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {ts:.3f}, "dur": {dur:.3f},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _flow(phase: str, number: int, ts: float, pid: int = _PROCESS, tid: int = _PROCESS) -> str:
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'\n  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {ts:.3f},\n'
        f'    "cat": "ac2g", "name": "ac2g"{end}\n  }}'
    )


class _Timeline:
    """One rank's host and GPU; times in µs."""

    def __init__(self, seed: int, host: float) -> None:
        self.chance = random.Random(seed)
        self.host, self.gpu = host, 6_733_420.0
        self.correlation = 1000

    def frames(self, names: Sequence[str], begun: float, span: float) -> Iterator[str]:
        for depth, name in enumerate(names):
            args = f'"Python id": {self.correlation}, "Ev Idx": {depth}'
            yield _record("python_function", name, begun + depth / 5, span - 1 - depth / 2, args)

    def operator(self, name: str, depth: int, begun: float, span: float, more: str = "") -> str:
        args = f'"Record function id": 0, "Concrete Inputs": ["", ""], {more}"Ev Idx": {depth}'
        return _record("cpu_op", name, begun + depth + 0.5, span - 3 - depth * 2, args)

    def call(self, api: str, at: float, length: float) -> Iterator[str]:
        """A host call that launches what ``kernel`` adds next."""
        self.correlation += 1
        args = f'"External id": {self.correlation}, "cbid": 211, "correlation": {self.correlation}'
        yield _record("cuda_runtime", api, at, length, args)
        yield _flow("s", self.correlation, at)

    def starts(self, at: float) -> float:
        """When a kernel that is launched then starts."""
        return round(max(self.gpu + 0.8, at + 4.5), 3)

    def kernel(self, name: str, start: float, dur: float, more: str, shape: tuple[int, float, int]) -> str:
        """With its registers, blocks per SM and grid."""
        registers, blocks, grid = shape
        self.gpu = start + dur
        args = (
            f'"External id": {self.correlation}, "queued": 0, "device": 0, "context": 1, "stream": 7, {more}'
            f'"correlation": {self.correlation}, "registers per thread": {registers}, "shared memory": 49152, '
            f'"blocks per SM": {blocks:.6f}, "grid": [{grid}, 1, 1], "block": [128, 1, 1]'
        )
        return _record("kernel", name, start, dur, args, 0, 7)

    def end_step(self, number: int, begun: float) -> Iterator[str]:
        """The host waits for the GPU."""
        wait = max(1.0, self.gpu - self.host)
        self.correlation += 1
        args = f'"cbid": 165, "correlation": {self.correlation}'
        yield _record("cuda_runtime", "cudaDeviceSynchronize", self.host, wait, args)
        self.host += wait + 3
        yield _record("user_annotation", f"ProfilerStep#{number}", begun, self.host - begun, '"Record function id": 0')
        self.host += 5


class _Varied(_Timeline):
    """Steps without end."""

    def __init__(self, make: _Make) -> None:
        super().__init__(7, 6_733_413.123)
        self.make = make

    def records(self) -> Iterator[str]:
        step = 0
        while True:
            step += 1
            begun = self.host
            for _ in range(self.make.parts):
                yield from self._part()
            for _ in range(self.make.collectives):
                yield from self._collective()
            if self.make.graph_nodes:
                yield from self._launch("cudaGraphLaunch", 40.0, self.make.graph_nodes)
            yield from self.end_step(step, begun)

    def _part(self) -> Iterator[str]:
        begun, span = self.host, 38 + self.chance.random() * 10
        yield from self.frames([self.chance.choice(_FRAMES) for _ in range(self.make.frames)], begun, span)
        for depth in range(self.chance.choice((2, 3, 4))):
            rows = self.chance.randrange(1, 4096)
            more = f'"Input type": ["c10::BFloat16", ""], "Input Dims": [[{rows}, 4096], []], '
            yield self.operator(self.chance.choice(_OPERATORS), depth, begun, span, more)
        self.host = begun + 6
        yield from self._launch("cudaLaunchKernel", 3.5 + self.chance.random() * 4, 1)
        self.host = begun + span

    def _collective(self) -> Iterator[str]:
        (kind, kernel), (name, description, size) = self.chance.choice(_COLLECTIVES), self.chance.choice(_GROUPS)
        elements = self.chance.randrange(1, 4096) * 1024
        args = (
            f'"Collective name": "{kind}", "In msg nelems": {elements}, "Out msg nelems": {elements}, '
            f'"Group size": {size}, "dtype": "BFloat16", "Process Group Name": "{name}", '
            f'"Process Group Description": "{description}", "Process Group Ranks": "[0, 1, 2, ..., {size - 1}]"'
        )
        yield _record("cpu_op", "record_param_comms", self.host, 9.0, args)
        self.host += 1
        yield from self._launch("cudaLaunchKernelExC", 5.0, 1, kernel, f"{args}, ")
        self.host += 4

    def _launch(self, api: str, length: float, kernels: int, name: str = "", more: str = "") -> Iterator[str]:
        yield from self.call(api, self.host, length)
        chance = self.chance
        for _ in range(kernels):
            dur = round(1.2 + chance.expovariate(1 / 6), 3)
            shape = chance.choice((16, 32, 168)), chance.random() * 20, chance.randrange(1, 4096)
            yield self.kernel(name or chance.choice(_KERNELS), self.starts(self.host), dur, more, shape)
        yield _flow("f", self.correlation, self.host + 5, 0, 7)
        self.host += length


class _Rank(_Timeline):
    """A rank, whose host and GPU may be slower than others'."""

    def __init__(self, seed: int, *, host_pace: float = 1.0, gpu_pace: float = 1.0) -> None:
        super().__init__(seed, 6_733_413.0)
        self.host_pace, self.gpu_pace = host_pace, gpu_pace

    def layer(self) -> Iterator[str]:
        """Its kernels, each in two operators and two Python frames."""
        for _ in range(_KERNELS_A_LAYER):
            begun, span = self.host, (14 + self.chance.random() * 2) * self.host_pace
            yield from self.frames(
                ("torch/nn/modules/module.py(1773): _call_impl", "linear.py(124): forward"), begun, span
            )
            for depth, name in enumerate(("aten::linear", "aten::addmm")):
                yield self.operator(name, depth, begun, span)
            dur = (4 + self.chance.random() * 2) * self.gpu_pace
            yield from self._launch(begun + 5, _KERNELS[0], self.starts(begun + 5), dur)
            self.host = begun + span

    def arrive(self) -> float:
        """Launch the all-reduce: when its kernel starts here."""
        self.host += 9 * self.host_pace
        return self.starts(self.host)

    def leave(self, start: float, end: float, ranks: int) -> Iterator[str]:
        """The all-reduce, which ends on every rank at once."""
        args = (
            '"Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, '
            f'"Group size": {ranks}, "dtype": "BFloat16", "Process Group Name": "0", '
            f'"Process Group Description": "default_pg", "Process Group Ranks": "[0, ..., {ranks - 1}]", '
        )
        yield from self._launch(self.host, _COLLECTIVES[0][1], start, end - start, args)

    def _launch(self, at: float, name: str, start: float, dur: float, more: str = "") -> Iterator[str]:
        yield from self.call("cudaLaunchKernel", at, 4.0)
        yield self.kernel(name, start, dur, more, (32, 7.757576, 1024))
        yield _flow("f", self.correlation, at + 5, 0, 7)


def write(path: Path, megabytes: float, make: str) -> None:
    """Write a trace of about this size, of one of ``MAKES``."""
    size, separator = 0, ""
    with path.open("w") as file:
        file.write(_head(0, 256))
        for text in _Varied(MAKES[make]).records():
            file.write(separator + text)
            separator = ","
            size += len(text) + 1
            if size >= megabytes * 1e6:
                break
        file.write(_END)


def _records(timelines: Sequence[_Rank], ranks: int) -> Iterator[list[list[str]]]:
    """Steps without end: the records of each timeline, which wait for one another at every all-reduce."""
    number = 0
    while True:
        number += 1
        begun = [each.host for each in timelines]
        written: list[list[str]] = [[] for _ in timelines]
        for _ in range(_LAYERS):
            for each, records in zip(timelines, written, strict=True):
                records += each.layer()
            starts = [each.arrive() for each in timelines]
            end = max(starts) + _TRANSFER_US
            for each, records, start in zip(timelines, written, starts, strict=True):
                records += each.leave(start, end, ranks)
        for each, records, since in zip(timelines, written, begun, strict=True):
            records += each.end_step(number, since)
        yield written


def write_ranks(folder: Path, ranks: int, megabytes: float, *, packed: bool = False) -> list[Path]:
    """Write the files of so many ranks, each of about this size unpacked; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    timelines = [_Rank(seed) for seed in range(_ALIKE)]
    timelines += [_Rank(_ALIKE, host_pace=1.25), _Rank(_ALIKE + 1, gpu_pace=2.0)]
    bodies = _bodies(folder, timelines, ranks, megabytes, packed)
    different = {rank: what for what, rank in DIFFERENT.items()} if ranks >= 8 else {}
    found = []
    for rank in range(ranks):
        what = different.get(rank, "")
        if what == "missing":
            continue
        body = bodies[{"slow_host": _ALIKE, "slow_gpu": _ALIKE + 1}.get(what, rank % _ALIKE)]
        path = folder / f"rank{rank}.pt.trace.json{'.gz' if packed else ''}"
        head = _head(rank, ranks).encode()
        with path.open("wb") as file, body.open("rb") as text:
            file.write(gzip.compress(head) if packed else head)
            shutil.copyfileobj(text, file, 1 << 20)
            if what == "cut":
                file.truncate(file.tell() * 2 // 3)
        found.append(path)
    for body in bodies:
        body.unlink()
    return found


def _bodies(folder: Path, timelines: Sequence[_Rank], ranks: int, megabytes: float, packed: bool) -> list[Path]:
    """What stands behind the head in the files of each timeline, once."""
    paths = [folder / f".body{number}" for number in range(len(timelines))]
    size, separator = 0, ""
    for written in _records(timelines, ranks):
        texts = [",".join(records) for records in written]
        for path, text in zip(paths, texts, strict=True):
            _append(path, separator + text, packed)
        separator = ","
        size += max(map(len, texts))
        if size >= megabytes * 1e6:
            break
    for path in paths:
        _append(path, _END, packed)
    return paths


def _append(path: Path, text: str, packed: bool) -> None:
    with path.open("ab") as file:
        file.write(gzip.compress(text.encode(), 6) if packed else text.encode())  # gzip files may be strung together


if __name__ == "__main__":
    if sys.argv[3] in MAKES:
        write(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
    else:
        write_ranks(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
