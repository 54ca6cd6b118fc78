"""A report's tables as pandas DataFrames. Every one has the columns trace and mode; times are in ns.

Numbers that may be missing are nullable integers (<NA>), never -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ..figures.analyses import TraceAnalysis
from ..figures.registry import FIGURES
from ..model.columns import follow, named
from ..model.trace import NONE, Ints, OpKind

if TYPE_CHECKING:
    import pandas as pd


def kernels_frame(analyses: Sequence[TraceAnalysis]) -> pd.DataFrame:
    """The kernel tables of the reports, one under the other."""
    import pandas as pd

    return _stack(analyses, lambda a: pd.DataFrame([msgspec.structs.asdict(row) for row in a.document.kernels]))


def figure_frame(analyses: Sequence[TraceAnalysis], name: str) -> pd.DataFrame:
    """The typed table of a figure. KeyError with the names there are for one without a table."""
    import pandas as pd

    figures = {figure.name: figure for figure in FIGURES if figure.table is not None}
    if name not in figures:
        raise KeyError(f"no table of a figure is called {name!r}; there are {', '.join(figures)}")

    def one(analysis: TraceAnalysis) -> pd.DataFrame:
        found = figures[name].typed_table(analysis.document)
        return pd.DataFrame([] if found is None else found.records())

    return _stack(analyses, one)


def gaps_frame(analyses: Sequence[TraceAnalysis]) -> pd.DataFrame:
    """Every gap of every device, whole scope."""
    import pandas as pd

    def one(analysis: TraceAnalysis) -> pd.DataFrame:
        frames = [
            gaps.to_frame(analysis.context.trace) for gaps in analysis.context.gaps.values() if len(gaps.start_ns)
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    return _stack(analyses, one)


def collectives_frame(analyses: Sequence[TraceAnalysis]) -> pd.DataFrame:
    """Every collective of the kept steps, with transfer and waiting where other ranks tell them."""
    import pandas as pd

    def one(analysis: TraceAnalysis) -> pd.DataFrame:
        found, waits = analysis.context.collectives, analysis.context.waits
        unknown = np.full(len(found), NONE, np.int64)
        return pd.DataFrame(
            {
                "rank": pd.array([found.rank] * len(found), dtype="Int64"),
                "step": found.step_number[found.step],
                "ordinal": found.ordinal.astype(np.int64),
                "kind": named(found.kinds, found.kind),
                "group": named(found.groups, found.group),
                "start_ns": found.start_ns,
                "end_ns": found.end_ns,
                "dur_ns": found.dur_ns,
                "hidden_ns": found.hidden_ns,
                "transfer_ns": _nullable(unknown if waits is None else waits.transfer_ns),
                "waiting_ns": _nullable(unknown if waits is None else waits.waiting_ns),
            }
        )

    return _stack(analyses, one)


def launches_frame(analyses: Sequence[TraceAnalysis]) -> pd.DataFrame:
    """Every launch with its times, operator and step."""
    import pandas as pd

    def one(analysis: TraceAnalysis) -> pd.DataFrame:
        launches, trace = analysis.context.trace.launches, analysis.context.trace
        return pd.DataFrame(
            {
                "api": named(trace.names, launches.api),
                "operator": named(trace.names, follow(trace.host_ops.name, launches.operator_row)),
                "start_ns": launches.start_ns,
                "end_ns": launches.end_ns,
                "overhead_ns": launches.dur_ns,
                "latency_ns": analysis.context.launch_times.latency_ns,
                "queue_ns": analysis.context.launch_times.queue_ns,
                "process": launches.process.astype(np.int64),
                "thread": launches.thread.astype(np.int64),
                "correlation": _nullable(launches.correlation),
                "is_graph": launches.is_graph,
                "step": _nullable(analysis.context.steps.launch_step),
            }
        )

    return _stack(analyses, one)


def steps_frame(analyses: Sequence[TraceAnalysis]) -> pd.DataFrame:
    """Every step found, kept or not, with its host range and counts."""
    import pandas as pd

    def one(analysis: TraceAnalysis) -> pd.DataFrame:
        steps = analysis.context.steps
        return pd.DataFrame(
            {
                "step": np.arange(len(steps)),
                "name": list(steps.names),
                "start_ns": steps.start_ns,
                "end_ns": steps.end_ns,
                "kept": steps.kept,
                "reason": [steps.reasons.get(row) for row in range(len(steps))],
                "launches": _counts(steps.launch_step, len(steps)),
                "gpu_ops": _counts(steps.op_step, len(steps)),
                "blocking_calls": _counts(steps.blocking_step, len(steps)),
            }
        )

    return _stack(analyses, one)


def gpu_ops_frame(analyses: Sequence[TraceAnalysis]) -> pd.DataFrame:
    """Every GPU op; ``launch`` is the row of its launch among those of the same trace."""
    import pandas as pd

    def one(analysis: TraceAnalysis) -> pd.DataFrame:
        ops, names = analysis.context.trace.gpu_ops, analysis.context.trace.names
        return pd.DataFrame(
            {
                "kind": [OpKind(kind).word for kind in ops.kind.tolist()],
                "name": named(names, ops.name),
                "device": ops.device.astype(np.int64),
                "stream": ops.stream.astype(np.int64),
                "start_ns": ops.start_ns,
                "end_ns": ops.end_ns,
                "dur_ns": ops.dur_ns,
                "launch": _nullable(ops.launch_row),
                "correlation": _nullable(ops.correlation),
                "bytes": _nullable(ops.bytes),
                "step": _nullable(analysis.context.steps.op_step),
                "replay": _nullable(analysis.context.replays.op_replay),
                "node": _nullable(analysis.context.replays.ordinal),
            }
        )

    return _stack(analyses, one)


def _stack(analyses: Sequence[TraceAnalysis], table: Callable[[TraceAnalysis], pd.DataFrame]) -> pd.DataFrame:
    """One table per analysis under the other, each row with its trace and mode."""
    import pandas as pd

    frames = []
    for analysis in analyses:
        frame = table(analysis)
        if len(frame):
            frame.insert(0, "trace", analysis.context.name)
            frame.insert(1, "mode", analysis.context.mode)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["trace", "mode"])


def _nullable(column: Ints) -> pd.arrays.IntegerArray:
    import pandas as pd

    return pd.arrays.IntegerArray(column.astype(np.int64), column == NONE)


def _counts(step_of_row: Ints, steps: int) -> Ints:
    return np.bincount(step_of_row[step_of_row != NONE], minlength=steps)
