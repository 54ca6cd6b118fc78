"""Snapshots made by hand: a step of 300 launches in eager mode, and of one in graph mode; a trace to make more of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from launchscope.analysis.compare.config import Limits, limit_tables
from launchscope.analysis.compare.documents import CheckDoc, FindingDoc
from launchscope.analysis.compare.snapshot import BlockingSite, KernelSite, LaunchSite, Snapshot, Timing
from launchscope.fixtures import builder

MACHINE = {"gpu": "NVIDIA H200", "driver": "580", "cuda": "13.0", "torch": "2.11"}
US = 1e3
MS = 1e6

ADD = LaunchSite(operator="aten::add", line="model.py(57): forward", per_step=100.0, kernels_per_step=100.0)
MM = LaunchSite(operator="aten::mm", line="model.py(60): forward", per_step=200.0, kernels_per_step=200.0)
GEMM = KernelSite(name="gemm", category="kernel", operator="aten::mm", per_step=200.0, ns_per_step=400 * US)
SUM = KernelSite(name="add", category="kernel", operator="aten::add", per_step=100.0, ns_per_step=100 * US)
ITEM = BlockingSite(
    api="cudaStreamSynchronize", operator="aten::item", stack=("model.py(42): step", "aten::item"), per_step=1.0
)


def timings(*step_ms: float, host_ms: float = 0.01) -> tuple[Timing, ...]:
    """A process per time, with three samples that are alike."""
    return tuple(
        Timing(repeat=repeat, samples_ns=(ms * MS,) * 3, host_submit_ns=(host_ms * MS,) * 3)
        for repeat, ms in enumerate(step_ms)
    )


def eager(**changes: Any) -> Snapshot:
    """300 launches, as many kernels; T 2 ms, W 0.5 ms; of the idle time 90 % are launch tax."""
    return msgspec.structs.replace(
        Snapshot(
            launchscope="0.1.0",
            target="tiny.py",
            mode="eager",
            batch_size=1,
            dtype="bf16",
            machine=dict(MACHINE),
            commit="3f2c1a9d",
            created="2026-11-29T17:00:00+00:00",
            source="tiny.zip",
            timings=timings(*[2.0] * 8),
            launches=300.0,
            kernels=300.0,
            graph_launches=0.0,
            blocking_calls=0.0,
            memcpys=0.0,
            graph_coverage=0.0,
            gpu_work_ns=0.5 * MS,
            launch_tax_share=0.9,
            launch_sites=(MM, ADD),
            kernel_sites=(GEMM, SUM),
            withheld={"graph_memory": "not a graph mode"},
        ),
        **changes,
    )


def graph(**changes: Any) -> Snapshot:
    """The same as one graph: T 0.6 ms."""
    replay = LaunchSite(operator=None, per_step=1.0, kernels_per_step=300.0)
    return eager(
        **{
            "mode": "graph",
            "timings": timings(*[0.6] * 8),
            "launches": 1.0,
            "graph_launches": 1.0,
            "graph_coverage": 1.0,
            "graph_memory_bytes": 32 << 20,
            "launch_tax_share": 0.0,
            "launch_sites": (replay,),
            "withheld": {},
            **changes,
        }
    )


def trace(**changes: Any) -> Snapshot:
    """A trace that someone else recorded."""
    told = dict.fromkeys(("step_time", "launch_tax", "true_idle"), "the step times of a trace are profiled ones")
    return eager(
        **{
            "target": "step-3.json.gz",
            "mode": "trace",
            "batch_size": None,
            "dtype": None,
            "machine": {"gpu": "NVIDIA H200"},
            "commit": None,
            "created": None,
            "source": "step-3.json.gz",
            "timings": (),
            "launch_tax_share": None,
            "withheld": {**told, "graph_memory": "only a capture of launchscope profile tells it"},
            **changes,
        }
    )


def steps(launches: int) -> builder.TraceBuilder:
    """Five steps of so many launches, each with its kernel."""
    building = builder.trace()
    for step in range(5):
        building.step(step, 200 * step, 190)
        for index in range(launches):
            at = 200 * step + 5 * index
            building.op("aten::mm", at, 4).launch(at + 1, 2).kernel(at + 4, 1, name="gemm")
    return building


def limits(noise: Sequence[float] = (0.01, 1.0), /, **tables: Any) -> Limits:
    return Limits(limit_tables(tables, "launchscope.toml"), *noise)


def found(document: CheckDoc, figure: str, mode: str | None = None) -> FindingDoc:
    """The only finding on a figure."""
    (only,) = (
        each for part in document.parts for each in part.findings if each.figure == figure and mode in (None, each.mode)
    )
    return only
