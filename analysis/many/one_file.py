"""One file's row: fetched, read, its figures found. Every worker calls this, wherever it runs."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..facts.collectives import Collectives
from ..facts.context import Context
from ..facts.trace_times import TraceTimes
from ..faults.checks import voided
from ..figures.coverage import COVERAGE
from ..figures.registry import values
from ..figures.trace_notices import warning_docs
from ..figures.trace_verdict import VERDICT
from ..inputs.sources import Source
from ..model import __version__
from ..model.errors import LaunchscopeError, one_line
from ..model.freed_memory import no_collection, return_freed_memory
from ..model.trace import NONE, Trace, Void, utf8_text
from ..profile.analysed_traces import require_whole
from .document import INTERNAL, LOST_WORKER, MOST_IN_SERIES, NOT_FETCHED, UNREADABLE, RankRow, StepSeriesDoc

Value = TypeVar("Value")

MOST: Final = 4_096
"""Collectives of one rank that are compared with other ranks', of 48 bytes: 64 steps of a model of 32 layers."""

_OF_COLLECTIVES: Final = ("kind", "group", "step", "ordinal", "start_ns", "end_ns", "launch_start_ns", "hidden_ns")
_OF_STEPS: Final = ("step_number", "exposed_ns", "step_hidden_ns")
_NUMBERED: Final = re.compile(r"ProfilerStep#([0-9]{1,15})")
_KIB: Final = 1 << 10


class Job(msgspec.Struct, frozen=True):
    """What a worker has to know to make a row; ``launchscope`` is the version of who asks."""

    file: Source
    step_regex: str | None = None
    strict: bool = False
    launchscope: str = __version__


class RankCollectives(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The collectives of a rank's first steps, to compare with other ranks': all ranks' are held at once."""

    collectives: Collectives
    busy_ns: NDArray[np.float64]  # by step
    times: TraceTimes
    blocking: tuple[str, ...]  # blocking calls inside kept steps, in words


class Finished(msgspec.Struct, frozen=True):
    """What comes back."""

    row: RankRow
    collectives: RankCollectives | None = None


def to_bytes(value: Any) -> bytes:
    """A struct, arrays in it too, on its way to another process or run."""
    return msgspec.msgpack.encode(value, enc_hook=_array_to_bytes)


def from_bytes(data: bytes, kind: type[Value]) -> Value:
    """What ``to_bytes`` made them of. msgspec.DecodeError for what it did not."""
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_array_from_bytes)


def _array_to_bytes(array: NDArray[Any]) -> tuple[str, bytes]:
    return array.dtype.str, np.ascontiguousarray(array).tobytes()


def _array_from_bytes(kind: type, encoded: tuple[str, bytes]) -> NDArray[Any]:
    dtype, data = encoded
    return np.frombuffer(data, np.dtype(dtype))


def finish(job: Job) -> Finished:
    """The row of one file. Whatever goes wrong with it is the row's error: nothing is raised."""
    file, row = job.file, bare_row(job.file)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    if job.launchscope != __version__:
        why = f"the worker has launchscope {__version__}, this is {job.launchscope}: install the same on both"
        return Finished(msgspec.structs.replace(row, error=why, error_kind=NOT_FETCHED))
    try:
        with no_collection(), file.at_hand() as here:
            fetch_seconds = None if here is file else time.perf_counter() - begun
            found = _read(job, row, here, fetch_seconds)
    except LaunchscopeError as error:  # of fetching it; the package may be absent where a worker runs
        found = _failed(row, str(error), NOT_FETCHED)
    except MemoryError:
        found = _failed(row, "out of memory: fewer workers leave more for each", LOST_WORKER)
    except OSError as error:  # of the temporary file
        found = _failed(row, f"can't be kept while it is read ({error.strerror or error})", NOT_FETCHED)
    row = msgspec.structs.replace(
        found.row,
        seconds=time.perf_counter() - begun,
        cpu_seconds=time.process_time() - begun_cpu,
        worker=f"{socket.gethostname()}:{os.getpid()}",
        worker_peak_bytes=peak_bytes(),
    )
    return Finished(row, found.collectives)


def _read(job: Job, row: RankRow, file: Source, fetch_seconds: float | None) -> Finished:
    """The row of a file at hand, and its collectives."""
    try:
        trace = file.open(cache=False)
        rank = row.rank if trace.rank is None else trace.rank
        known = msgspec.structs.replace(row, fetch_seconds=fetch_seconds, world_size=trace.world_size, rank=rank)
        found = find_figures(known, trace, step_regex=job.step_regex)
        if job.strict:
            require_whole(trace, found.row.warnings)
        return found
    except LaunchscopeError as error:
        kind = NOT_FETCHED if isinstance(error.__cause__, OSError) else UNREADABLE  # a right may be given next time
        return _failed(row, str(error), kind)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a bug here must not cost the other files' rows
        return _failed(row, f"internal error, {type(error).__name__}: {error} (please report it)", INTERNAL)


def bare_row(file: Source) -> RankRow:
    """What is known of a file that nobody has read."""
    return RankRow(path=utf8_text(file.where), name=file.name, rank=file.rank, host=file.host, bytes=file.bytes)


def _failed(row: RankRow, why: str, kind: str) -> Finished:
    error = utf8_text(one_line(why)).removeprefix(f"{row.path}: ")
    return Finished(msgspec.structs.replace(row, error=error, error_kind=kind))


def peak_bytes() -> int | None:
    """The most memory that this process has held so far; None where the system doesn't tell.

    Not ``ru_maxrss`` on Linux: a process begins with that of the one that started it.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * _KIB
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB


def find_figures(row: RankRow, trace: Trace, *, step_regex: str | None = None) -> Finished:
    """The figures of its report, but for what no table of ranks shows and takes half the time: stacks, kernels by name.

    LaunchscopeError for a step expression that takes too long.
    """
    context = Context(trace, step_regex=step_regex)
    covered = COVERAGE.of(context)
    assert covered is not None, "every trace is counted"
    unreliable = covered.unreliable
    warnings = warning_docs(context)
    context.release("trace_facts")
    verdict = VERDICT.of(context)
    assert verdict is not None, "every trace has one"
    known: dict[str, Any] = {
        "warnings": warnings,
        "unreliable": unreliable,
        "format": trace.source.format,
        "gpu_ops": len(trace.gpu_ops),
        "step_source": context.steps.source,
        "steps_found": context.steps.found,
        "steps": len(context.steps.kept_rows),
        "verdict_class": verdict.verdict_class,
        "verdict_reason": verdict.reason,
    }
    if context.headline is not None:
        known["device"], known["gpu"] = context.headline, trace.device_names.get(context.headline)
        known["idle_fraction"] = context.headline_gaps.idle_fraction
        known["idle_scope"] = "whole" if context.headline_steady is None else "steady"
        known |= _step_figures(context) | _communication(context) | {"figures": _of_registry(context)}
    return_freed_memory(len(trace.gpu_ops))
    return Finished(msgspec.structs.replace(row, **known), _first_collectives(context))


def _of_registry(context: Context) -> dict[str, float]:
    """Numbers of figures that ask to be told of every rank."""
    documents = ((value, figure.of(context)) for figure, value in values() if value.of_ranks)
    found = ((value.name, value.of(document)) for value, document in documents if document is not None)
    return {name: number for name, number in found if number is not None}


def _step_figures(context: Context) -> dict[str, Any]:
    """Figures per kept step of the device; none without a kept step."""
    steps, times = context.step_figures, context.times
    if steps is None or times is None:
        return {}
    return {
        "period_ns": steps.period_ns,
        "busy_ns": None if voided(context, Void.WORK) is not None else steps.busy_ns,
        **(launch_tax(times) if steps.period_ns is not None else {}),
        "host_submit_ns": times.host_ns,
        "kernels": steps.kernels.median,
        "launches": times.launches,
        "graph_launches": times.graph_launches,
        "series": _series(context),
    }


def launch_tax(times: TraceTimes) -> dict[str, float]:
    """Of a step; none where the trace has no idle time."""
    if times.taxes_ns is None or times.step_ns <= 0:
        return {}
    tax = times.taxes_ns["launch"]
    return {"launch_tax_ns": tax, "launch_tax_share": tax / times.step_ns}


def _communication(context: Context) -> dict[str, Any]:
    """What of it needs no other rank, means per step as idle is; none without a kept step."""
    if not context.has_steps:
        return {}
    collectives = context.collectives
    figures: dict[str, Any] = {
        "collectives": float(np.median(np.bincount(collectives.step, minlength=collectives.steps)))
    }
    if len(collectives):
        figures["communication_exposed_ns"] = float(collectives.exposed_ns.mean())
        figures["communication_hidden_ns"] = float(collectives.step_hidden_ns.mean())
    return figures


def _series(context: Context) -> StepSeriesDoc:
    """Every kept step, or as many of them, evenly, as a row may carry."""
    steps, period, kept = context.steps, context.period_ns[context.device], context.steps.kept_rows
    every = -(-len(kept) // MOST_IN_SERIES)
    chosen = kept[::every]
    return StepSeriesDoc(
        every=every,
        number=_numbers(steps.names, chosen.tolist()),
        period_ns=[None if ns == NONE else ns for ns in period[chosen].tolist()],
        busy_ns=[int(ns) for ns in context.busy_ns[::every].tolist()],
    )


def _numbers(names: Sequence[str], chosen: list[int]) -> list[int]:
    """The numbers that profiler steps are called by, which ranks share; else the places of the steps."""
    called = [_NUMBERED.fullmatch(names[step]) for step in chosen]
    if all(called):
        return [int(match[1]) for match in called if match]
    return chosen


def _first_collectives(context: Context) -> RankCollectives | None:
    """Those of as many steps as have MOST together; null without a collective in a kept step."""
    collectives, times = context.collectives, context.times
    if not len(collectives) or not context.has_steps or context.headline is None or times is None:
        return None
    if voided(context, Void.WORK) is not None:
        return None
    ends = np.cumsum(np.bincount(collectives.step, minlength=collectives.steps))
    steps = max(int(np.searchsorted(ends, MOST, side="right")), 1)
    count = min(int(ends[steps - 1]), MOST)
    first: dict[str, Any] = {name: getattr(collectives, name)[:count] for name in _OF_COLLECTIVES}
    first |= {name: getattr(collectives, name)[:steps] for name in _OF_STEPS}
    return RankCollectives(
        collectives=replace(collectives, **first),
        busy_ns=context.busy_ns[:steps],
        times=times,
        blocking=context.blocking_words,
    )
