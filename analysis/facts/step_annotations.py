"""Which annotations of a trace are its steps: ranges of one name that hold the launches, or those of a known engine."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np

from ..model.document import PHASES
from ..model.trace import HostKind, Ints, Trace
from .phase_names import phase_of

LEAST_ANNOTATIONS: Final = 3
LEAST_HELD: Final = 0.9
"""Share of launches that annotations, or a capture's marks, must hold to be the steps."""

_ENGINE_STEPS: Final = (r"scheduler\.run_batch$", r"step\[", r"execute_(?:\d+_)?(?:context|new)_\d")
_ENGINES: Final = tuple(re.compile("(?:^|:)" + name) for name in _ENGINE_STEPS)  # behind an NVTX domain, if any
"""What SGLang and vLLM write around each forward pass, the first that a file has. Sampling follows outside of the
last two: https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/model_runner.py (forward),
https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/gpu_worker.py (annotate_profile)."""


class Annotated(NamedTuple):
    """Steps that annotations name."""

    rows: Ints  # of host_ops, by start
    end_ns: Ints


def by_name(trace: Trace) -> Annotated | None:
    """Of the names with at least 3 annotations and 90 % of the launches among them, the one that holds most."""
    groups = _groups(trace, LEAST_ANNOTATIONS, len(trace.host_ops))
    return _best(trace, [rows for rows in groups if _held_share(trace, rows, whole_file=False) >= LEAST_HELD])


def by_phases(trace: Trace, *, one_holds_most: bool) -> Annotated | None:
    """Steps whose phases alone are annotated: from where the order of phases begins anew to the next such place.

    None where less than two different phases are. ``one_holds_most``: a phase is what ``by_name`` finds.
    """
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    phases = {int(name): phase_of(trace.name(int(name))) for name in np.unique(host.name[rows])}
    if len({phase for phase in phases.values() if phase is not None}) < 2:
        return None
    if one_holds_most:
        named = by_name(trace)
        if named is None or phases[int(host.name[named.rows[0]])] is None:
            return None
    rows = outermost(trace, rows[[phases[int(name)] is not None for name in host.name[rows]]])
    order = np.array([PHASES.index(phases[int(name)] or "") for name in host.name[rows]], dtype=np.int64)
    first = np.append(0, np.flatnonzero(order[1:] < order[:-1]) + 1)
    start_ns = host.start_ns[rows[first]]
    end_ns = np.append(start_ns[1:], host.end_ns[rows].max())
    found = len(first) >= LEAST_ANNOTATIONS and held_launches(trace, start_ns, end_ns).all()
    return Annotated(rows[first], end_ns) if found else None


def by_few(trace: Trace) -> Annotated | None:
    """One annotation or two, if they hold 90 % of the whole file's launches."""
    groups = _groups(trace, 1, LEAST_ANNOTATIONS - 1)
    return _best(trace, [rows for rows in groups if _held_share(trace, rows, whole_file=True) >= LEAST_HELD])


def by_engine(trace: Trace, least: int = LEAST_ANNOTATIONS) -> Annotated | None:
    """Annotations of a known engine: each step reaches to the next one, as sampling and scheduling follow outside."""
    host = trace.host_ops
    is_annotation = host.kind == HostKind.ANNOTATION
    for pattern in _ENGINES:
        named = np.array([i for i, name in enumerate(trace.names) if pattern.search(name)], dtype=np.int64)
        rows = np.flatnonzero(is_annotation & np.isin(host.name, named))
        if len(rows) < least:
            continue
        rows = outermost(trace, rows)
        start_ns = host.start_ns[rows]
        usual_ns = int(np.median(np.diff(start_ns))) if len(rows) > 1 else 0
        end_ns = np.append(start_ns[1:], max(int(host.end_ns[rows[-1]]), int(start_ns[-1]) + usual_ns))
        if len(rows) >= least and held_launches(trace, start_ns, end_ns).any():
            return Annotated(rows, end_ns)
    return None


def held_launches(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Number of launches that start in each [start, end)."""
    starts = trace.launches.start_ns
    return np.searchsorted(starts, end_ns) - np.searchsorted(starts, start_ns)


def normalised_name(name: str) -> str:
    """The name without numbers and parenthesised arguments: what the steps of one loop have in common."""
    previous = None
    while previous != name:
        previous, name = name, re.sub(r"\([^()]*\)", "", name)
    name = re.sub(r"\(.*", "", name)  # an argument list that the writer cut short
    return " ".join(re.sub(r"0[xX][0-9a-fA-F]+|\d+", "", name).split())


def outermost(trace: Trace, rows: Ints) -> Ints:
    """Rows that lie in no other of these, by start. Ranges that overlap in part (two threads): the busier thread's."""
    host = trace.host_ops
    rows = rows[np.lexsort((-host.end_ns[rows], host.start_ns[rows]))]
    reach = np.maximum.accumulate(host.end_ns[rows])
    nested = np.zeros(len(rows), dtype=np.bool_)
    nested[1:] = host.end_ns[rows[1:]] <= reach[:-1]
    rows = rows[~nested]
    threads = np.unique(host.thread[rows])
    if (host.start_ns[rows[1:]] >= host.end_ns[rows[:-1]]).all() or len(threads) == 1:
        return rows
    by_thread = [outermost(trace, rows[host.thread[rows] == thread]) for thread in threads]
    return max(by_thread, key=lambda r: int(held_launches(trace, host.start_ns[r], host.end_ns[r]).sum()))


def _groups(trace: Trace, least: int, most: int) -> list[Ints]:
    """Rows of the outermost annotations of each normalised name and process, where there are that many."""
    host = trace.host_ops
    normalised: dict[int, str] = {}
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in np.flatnonzero(host.kind == HostKind.ANNOTATION).tolist():
        index = int(host.name[row])
        if index not in normalised:
            normalised[index] = normalised_name(trace.name(index))
        groups[int(host.process[row]), normalised[index]].append(row)
    found = [outermost(trace, np.array(rows, dtype=np.int64)) for rows in groups.values()]
    return [rows for rows in found if least <= len(rows) <= most]


def _held_share(trace: Trace, rows: Ints, *, whole_file: bool) -> float:
    """Share of the launches from the first range's start to the last one's end (or of all) that the ranges hold."""
    start_ns, end_ns = trace.host_ops.start_ns[rows], trace.host_ops.end_ns[rows]
    among = len(trace.launches) if whole_file else int(held_launches(trace, start_ns[:1], end_ns[-1:])[0])
    return int(held_launches(trace, start_ns, end_ns).sum()) / among if among else 0.0


def _best(trace: Trace, groups: list[Ints]) -> Annotated | None:
    """The group that holds most launches; of equal ones the outermost: the one of fewer ranges, then the first."""
    if not groups:
        return None
    host = trace.host_ops

    def rank(rows: Ints) -> tuple[int, int, int]:
        return (-int(held_launches(trace, host.start_ns[rows], host.end_ns[rows]).sum()), len(rows), int(rows[0]))

    rows = min(groups, key=rank)
    return Annotated(rows, host.end_ns[rows])
