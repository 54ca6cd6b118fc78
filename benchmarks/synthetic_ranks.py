"""Rank files of one made-up run, of any size and number: python benchmarks/synthetic_ranks.py FOLDER RANKS MEGABYTES

Decode steps of 32 layers, each layer's kernels launched one by one and followed by an all-reduce over all ranks, that
ends on every rank when the last has arrived. Printed as Kineto prints.

Few timelines make many files: there are six, four of them alike but for chance, written once, and each rank's file is
one of them behind a head with its own rank. So the same text is read again and again, from the page cache where the
machine has the memory: what is measured is reading, not the disk. What stands out is told by ``ODD``: one rank whose
host is slow, one whose kernels are, one file that is cut, and one rank without a file.
"""

from __future__ import annotations

import gzip
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from synthetic_kineto import flow, record

_PROCESS: Final = 4242
_LAYERS: Final = 32
_KERNELS_A_LAYER: Final = 8
_TRANSFER_US: Final = 6.0
_ALIKE: Final = 4
_KERNEL: Final = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
_ALL_REDUCE: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

ODD: Final = {"slow_host": 1, "slow_gpu": 2, "cut": 3, "missing": 5}
"""What is odd of which rank; of every run of ranks from eight on."""


@dataclass
class _Timeline:
    """One rank's host and GPU, in µs."""

    seed: int
    host_pace: float = 1.0
    gpu_pace: float = 1.0
    host: float = 6_733_413.0
    gpu: float = 6_733_420.0
    correlation: int = 1000
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def layer(self) -> Iterator[str]:
        """Its kernels, each in two operators and two Python frames."""
        for _ in range(_KERNELS_A_LAYER):
            begun, span = self.host, (14 + self.chance.random() * 2) * self.host_pace
            for depth, frame in enumerate(("torch/nn/modules/module.py(1773): _call_impl", "linear.py(124): forward")):
                args = f'"Python id": {self.correlation}, "Ev Idx": {depth}'
                yield record(
                    "python_function", frame, _PROCESS, _PROCESS, begun + depth / 5, span - 1 - depth / 2, args
                )
            for depth, name in enumerate(("aten::linear", "aten::addmm")):
                args = f'"Record function id": 0, "Concrete Inputs": ["", ""], "Ev Idx": {depth}'
                yield record("cpu_op", name, _PROCESS, _PROCESS, begun + depth + 0.5, span - 3 - depth * 2, args)
            yield from self._launch(begun + 5, (4 + self.chance.random() * 2) * self.gpu_pace, _KERNEL, "")
            self.host = begun + span

    def arrive(self) -> float:
        """Launch the all-reduce: when its kernel starts here."""
        self.host += 9 * self.host_pace
        return round(max(self.gpu + 0.8, self.host + 4.5), 3)

    def leave(self, start: float, end: float, ranks: int) -> Iterator[str]:
        """The all-reduce, which ends on every rank at once."""
        args = (
            '"Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, '
            f'"Group size": {ranks}, "dtype": "BFloat16", "Process Group Name": "0", '
            f'"Process Group Description": "default_pg", "Process Group Ranks": "[0, ..., {ranks - 1}]", '
        )
        yield from self._launch(self.host, end - start, _ALL_REDUCE, args, start)

    def step(self, number: int, begun: float) -> Iterator[str]:
        """The end of a step: the host waits for the GPU."""
        wait = max(1.0, self.gpu - self.host)
        self.correlation += 1
        args = f'"cbid": 165, "correlation": {self.correlation}'
        yield record("cuda_runtime", "cudaDeviceSynchronize", _PROCESS, _PROCESS, self.host, wait, args)
        self.host += wait + 3
        args = '"Record function id": 0'
        yield record("user_annotation", f"ProfilerStep#{number}", _PROCESS, _PROCESS, begun, self.host - begun, args)
        self.host += 5

    def _launch(self, at: float, length: float, name: str, more: str, start: float | None = None) -> Iterator[str]:
        self.correlation += 1
        args = f'"External id": {self.correlation}, "cbid": 211, "correlation": {self.correlation}'
        yield record("cuda_runtime", "cudaLaunchKernel", _PROCESS, _PROCESS, at, 4.0, args)
        yield flow("s", self.correlation, _PROCESS, _PROCESS, at)
        start = round(max(self.gpu + 0.8, at + 4.5), 3) if start is None else start
        self.gpu = start + length
        args = (
            f'"External id": {self.correlation}, "queued": 0, "device": 0, "context": 1, "stream": 7, {more}'
            f'"correlation": {self.correlation}, "registers per thread": 32, "shared memory": 49152, '
            '"blocks per SM": 7.757576, "grid": [1024, 1, 1], "block": [128, 1, 1]'
        )
        yield record("kernel", name, 0, 7, start, length, args)
        yield flow("f", self.correlation, 0, 7, at + 5)


def _records(timelines: Sequence[_Timeline], ranks: int) -> Iterator[list[list[str]]]:
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
            records += each.step(number, since)
        yield written


def _head(rank: int, ranks: int) -> str:
    return (
        '{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    { "id": 0, "name": "NVIDIA H200" }\n  ],\n'
        f'  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {ranks}}},\n'
        '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1759836030000000000,\n  "traceEvents": ['
    )


def write(folder: Path, ranks: int, megabytes: float, *, packed: bool = False) -> list[Path]:
    """Write the files of so many ranks, each of about this size unpacked; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    timelines = [_Timeline(seed) for seed in range(_ALIKE)]
    timelines += [_Timeline(_ALIKE, host_pace=1.25), _Timeline(_ALIKE + 1, gpu_pace=2.0)]
    bodies = _bodies(folder, timelines, ranks, megabytes, packed)
    odd = {rank: what for what, rank in ODD.items()} if ranks >= 8 else {}
    found = []
    for rank in range(ranks):
        what = odd.get(rank, "")
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


def _bodies(folder: Path, timelines: Sequence[_Timeline], ranks: int, megabytes: float, packed: bool) -> list[Path]:
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
        _append(path, '\n  ],\n  "traceName": "synthetic.json"\n}\n', packed)
    return paths


def _append(path: Path, text: str, packed: bool) -> None:
    with path.open("ab") as file:
        file.write(gzip.compress(text.encode(), 6) if packed else text.encode())  # gzip files may be strung together


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
