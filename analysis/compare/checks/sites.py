"""Where the launches, blocking calls and GPU ops of a step come from: by operator, line and stack, per step."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from ...model.document import TraceDoc
from ...model.names import users_line
from ...profile.select import TIMES, of_best_pass
from ..snapshot import BlockingSite, KernelSite, LaunchSite

_LIBRARY: Final = re.compile(r"(?:site-packages|dist-packages|lib/python[\d.]+)/")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[/\\]")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object, another one in every process
_DIGITS: Final = 6  # after the point of counts per step that are split among places

_Place = TypeVar("_Place")
_ByLine = dict[str | None, dict[str | None, float]]


def launch_sites(traces: Sequence[TraceDoc], stacked: Sequence[TraceDoc]) -> tuple[LaunchSite, ...]:
    """By operator and the user's line; counts of ``traces``, lines of ``stacked`` where there are any."""
    launches, kernels = _by_line(traces)
    lines, kernel_lines = _by_line(stacked)
    sites = []
    for operator, own in launches.items():
        of_kernels = _split(sum(kernels[operator].values()), kernel_lines.get(operator, kernels[operator]))
        for line, count in _split(sum(own.values()), lines.get(operator, own)).items():
            ran = of_kernels.get(line, 0.0)
            sites.append(LaunchSite(operator=operator, line=line, per_step=count, kernels_per_step=ran))
    return tuple(sorted(sites, key=lambda site: (-site.per_step, site.operator or "", site.line or "")))


def blocking_sites(traces: Sequence[TraceDoc], stacked: Sequence[TraceDoc]) -> tuple[BlockingSite, ...]:
    """Inside steps alone; counts of ``traces``, stacks of ``stacked`` where there are any."""
    _Key = tuple[str, str | None]
    calls: dict[_Key, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    stacks: dict[_Key, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for found, its_traces in ((calls, traces), (stacks, stacked)):
        for trace, weight in _weights(its_traces):
            for row in trace.blocking_calls:
                if row.count_per_step:
                    stack = tuple(portable(frame) for frame in row.stack)
                    found[row.api, row.operator][stack] += weight * row.count_per_step
    sites = [
        BlockingSite(api=key[0], operator=key[1], stack=stack, per_step=count)
        for key, own in calls.items()
        for stack, count in _split(sum(own.values()), stacks.get(key, own)).items()
    ]
    return tuple(sorted(sites, key=lambda site: (-site.per_step, site.api, site.operator or "", site.stack)))


def kernel_sites(traces: Sequence[TraceDoc]) -> tuple[KernelSite, ...]:
    """By name; times of the `cuda` pass where there is one, which stretches kernels the least."""
    counts: dict[tuple[str, str], float] = defaultdict(float)
    spent_ns: dict[tuple[str, str], float] = defaultdict(float)
    operators: dict[tuple[str, str], tuple[bool, str]] = {}  # a recorded one before an inferred one
    for trace, weight in _weights(traces):
        for row in trace.kernels:
            if row.count_per_step:
                key = row.name, row.category
                counts[key] += weight * row.count_per_step
                if row.operator is not None:
                    its = row.operator_inferred, row.operator
                    operators[key] = min(its, operators.get(key, its))
    for trace, weight in _weights(of_best_pass(traces, TIMES[:1])):
        for row in trace.kernels:
            spent_ns[row.name, row.category] += weight * (row.ns_per_step or 0.0)
    sites = [
        KernelSite(
            name=name,
            category=category,
            operator=operators[name, category][1] if (name, category) in operators else None,
            operator_inferred=operators.get((name, category), (False, ""))[0],
            per_step=round(count, _DIGITS),
            ns_per_step=round(spent_ns[name, category], 1),
        )
        for (name, category), count in counts.items()
    ]
    return tuple(sorted(sites, key=lambda site: (-site.ns_per_step, site.name, site.category)))


def portable(frame: str) -> str:
    """A stack frame without the folders of this machine, but for those that tell a library, and without addresses."""
    frame = _ADDRESS.sub("", frame)
    if not _ABSOLUTE.match(frame):
        return frame
    library = list(_LIBRARY.finditer(frame))
    return frame[library[-1].start() :] if library else re.split(r"[/\\](?=[^/\\(]*(?:\(|$))", frame)[-1]


def _weights(traces: Sequence[TraceDoc]) -> list[tuple[TraceDoc, float]]:
    """Each trace with its share of all kept steps."""
    counts = [trace.steps.count if trace.steps is not None else 0 for trace in traces]
    return [(trace, count / sum(counts)) for trace, count in zip(traces, counts, strict=True) if count]


def _split(total: float, places: Mapping[_Place, float]) -> dict[_Place, float]:
    """The total shared out among places by their weights."""
    among = sum(places.values())
    return {place: round(total * weight / among, _DIGITS) for place, weight in places.items() if weight}


def _by_line(traces: Sequence[TraceDoc]) -> tuple[_ByLine, _ByLine]:
    """Launches and kernels per step of every operator, by the user's line."""
    launches: _ByLine = defaultdict(lambda: defaultdict(float))
    kernels: _ByLine = defaultdict(lambda: defaultdict(float))
    for trace, weight in _weights(traces):
        for row in trace.launches.by_operator:
            if row.launches_per_step:
                line = users_line([portable(frame) for frame in row.stack])
                launches[row.operator][line] += weight * row.launches_per_step
                kernels[row.operator][line] += weight * (row.kernels_per_step or 0.0)
    return launches, kernels
