"""A capture of two ranks, by hand: one mode, one of the ranks late in each step's first collective."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from launchscope.analysis.model.capture import CaptureWriter, Manifest, ModeRecord, ProcessRecord, RankRecord, Target
from launchscope.fixtures.builder import TraceBuilder

from ..captures import STARTED, US
from ..facts.ranks.ranks_by_hand import rank_trace

EARLY = [(200, 100), (400, 10)]
LATE = [(290, 10), (400, 10)]
STEPS_US: Mapping[int, tuple[float, ...]] = {0: (500, 520, 540), 1: (505, 515, 545)}
"""T of each rank by repeat; the slowest of each repeat: 505, 520, 545."""

HOSTS = ("one", "one")


def two_ranks(
    folder: Path,
    *,
    hosts: tuple[str, str] = HOSTS,
    clock_us: int = 0,
    failed: Mapping[int, str] | None = None,
    traces: Mapping[int, TraceBuilder | bytes] | None = None,
    submits_us: Mapping[int, tuple[float, ...]] | None = None,
) -> Path:
    """Three processes of each rank: `cuda`, `cpu_cuda`, `cuda`. ``failed``: rank → error of each of its processes.

    ``submits_us``: rank → its unprofiled time to submit a step, by repeat; 300 without.
    """
    writer = CaptureWriter(folder)
    made = {0: rank_trace(0, [EARLY] * 5), 1: rank_trace(1, [LATE] * 5, clock=clock_us)} | dict(traces or {})
    processes = []
    for repeat, trace_pass in enumerate(("cuda", "cpu_cuda", "cuda")):
        for rank in (0, 1):
            if failed and rank in failed:
                processes.append(ProcessRecord(repeat=repeat, rank=rank, started=STARTED, error=failed[rank]))
                continue
            name = f"traces/eager-{repeat}-{trace_pass}-rank{rank}.json.gz"
            recording = made[rank]
            if isinstance(recording, bytes):
                (writer.folder / name).write_bytes(recording)
            else:
                recording.write(writer.folder / name)
            processes.append(
                ProcessRecord(
                    repeat=repeat,
                    rank=rank,
                    started=STARTED,
                    samples_ns=(STEPS_US[rank][repeat] * US,) * 3,
                    host_submit_ns=((300 if submits_us is None else submits_us[rank][repeat]) * US,),
                    trace_pass=trace_pass,
                    trace=name,
                )
            )
    manifest = Manifest(
        launchscope="0.1.0",
        created=STARTED,
        target=Target(name="tp.py"),
        modes={"eager": ModeRecord(processes=tuple(processes))},
        ranks=tuple(
            RankRecord(rank=rank, local_rank=rank if len(set(hosts)) == 1 else 0, host=host, device="Test GPU")
            for rank, host in enumerate(hosts)
        ),
    )
    return writer.finish(manifest)
