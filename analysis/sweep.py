"""A sweep over batch sizes: one capture each, and what the step turns into as the batch grows."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .. import __version__
from .document import ModeDoc, ReportDocument, StepTimeDoc, TargetDoc
from .errors import LaunchscopeError
from .ladder import LadderDoc, better_ladder, curve, judge_ladder
from .report import load


@dataclass(frozen=True)
class Measured:
    """One batch size; ``capture`` is null where nothing could be measured, and ``error`` says why."""

    batch_size: int
    capture: Path | None
    error: str | None = None


class SweepRowDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One mode at one batch size. Times in ns per step."""

    batch_size: int
    mode: str
    step_ns: StepTimeDoc | None
    tokens_per_s: float | None  # batch size ÷ T
    gpu_work_ns: float | None
    host_submit_ns: float | None  # N·τ
    launches: float | None
    launch_tax_ns: float | None
    graph_memory_bytes: int | None
    capture_ns: float | None
    error: str | None


class SweepDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The whole sweep. ``knees``: by mode the smallest batch from which on W ≥ N·τ; null where no batch is."""

    schema: str = "launchscope.sweep/1"
    launchscope: str
    target: TargetDoc | None
    environment: dict[str, str | int | float | bool | None] | None
    rows: list[SweepRowDoc]
    knees: dict[str, int | None]
    unmeasured: dict[int, str] = {}  # batch sizes of which nothing could be measured, and why
    ladder: LadderDoc | None = None
    better_ladder: LadderDoc | None = None


def sweep_document(
    measured: Sequence[Measured],
    capture_sizes: Sequence[int] = (),
    histogram: Mapping[int, float] | None = None,
) -> SweepDoc:
    """The document of a sweep; with a histogram of batch sizes the ladder of captured ones is judged too.

    LaunchscopeError where nothing was measured, and where the ladder lies outside of what was.
    """
    reports = {each.batch_size: load(each.capture).document for each in measured if each.capture is not None}
    if not reports:
        raise LaunchscopeError(f"nothing was measured: {'; '.join(each.error or '' for each in measured)}")
    rows = [row for size, document in sorted(reports.items()) for row in _rows(size, document)]
    first = reports[min(reports)]
    ladder = better = None
    if histogram:
        eager, graph = (
            curve({row.batch_size: row.step_ns.median for row in rows if row.mode == mode and row.step_ns})
            for mode in ("eager", "graph")
        )
        sizes = list(capture_sizes) or sorted(row.batch_size for row in rows if row.mode == "graph" and row.step_ns)
        ladder = judge_ladder(sizes, histogram, graph, eager)
        better = judge_ladder(better_ladder(len(sizes), histogram, graph), histogram, graph, eager)
    return SweepDoc(
        launchscope=__version__,
        target=first.target,
        environment=first.environment,
        rows=rows,
        knees={mode: _knee([row for row in rows if row.mode == mode]) for mode in dict.fromkeys(r.mode for r in rows)},
        unmeasured={each.batch_size: each.error or "" for each in measured if each.capture is None},
        ladder=ladder,
        better_ladder=better,
    )


def _rows(batch_size: int, document: ReportDocument) -> list[SweepRowDoc]:
    modes: Mapping[str, ModeDoc] = {} if document.profile is None else document.profile.modes
    return [
        SweepRowDoc(
            batch_size=batch_size,
            mode=name,
            step_ns=mode.step_ns,
            tokens_per_s=None if mode.step_ns is None else batch_size / mode.step_ns.median * 1e9,
            gpu_work_ns=mode.gpu_work_ns,
            host_submit_ns=mode.host_submit_ns,
            launches=mode.launches,
            launch_tax_ns=mode.launch_tax_ns,
            graph_memory_bytes=mode.graph_memory_bytes,
            capture_ns=mode.capture_ns,
            error=mode.error,
        )
        for name, mode in modes.items()
    ]


def _knee(rows: Sequence[SweepRowDoc]) -> int | None:
    """The smallest batch from which on the GPU has more to do than the host."""
    knee = None
    for row in sorted(rows, key=lambda each: -each.batch_size):
        if row.gpu_work_ns is None or row.host_submit_ns is None:  # not measured, so no evidence either way
            continue
        if row.gpu_work_ns < row.host_submit_ns:
            break
        knee = row.batch_size
    return knee


def read_histogram(path: Path) -> dict[int, float]:
    """Batch size → number of steps, from a CSV of two columns, a heading before them or not. LaunchscopeError."""
    found: dict[int, float] = {}
    try:
        rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LaunchscopeError(f"{path}: can't be read as a CSV of batch sizes ({error})") from error
    for number, cells in enumerate(rows, 1):
        if not cells or (number == 1 and not cells[0].strip().isdigit()):
            continue
        try:
            size, count = int(cells[0]), float(cells[1])
        except (ValueError, IndexError):
            size, count = 0, 0.0
        if size < 1 or not 0 < count < math.inf:
            raise LaunchscopeError(f"{path}, line {number}: write a batch size, a comma and a number of steps: 13,250")
        found[size] = found.get(size, 0.0) + count
    if not found:
        raise LaunchscopeError(f"{path}: no batch size in it; write lines such as 13,250")
    return found
