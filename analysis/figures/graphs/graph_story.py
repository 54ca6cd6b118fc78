"""The graph doctor, told: one line where every kernel runs in a replay, and a numbered list of what is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ...model.advisor_documents import BetweenDoc, FindingDoc, GraphDoctorDoc, OutsideDoc
from ...model.units import MISSING, duration, number, part, plural, ratio, share
from ...story import Column, Fact, Listing, Row, Table

MOST: Final = 5  # findings, without --verbose
LABEL: Final = "graph doctor"


def graph_story(
    doctors: Mapping[str, GraphDoctorDoc], findings: Sequence[FindingDoc], *, verbose: bool
) -> Iterator[Fact | Listing]:
    """``doctors`` by mode, or one of a trace under ''. Nothing where nothing replays and nothing is in the way."""
    lines = engaged_lines(doctors, findings)
    if lines:
        yield Fact(LABEL, lines)
    for mode, doctor in _engaged(doctors).items() if verbose else ():
        yield from _tables(f" of {mode}" if mode else "", doctor)
    shown = findings if verbose else findings[:MOST]
    rows = [Row([str(place), what(each), how(each, verbose=verbose)]) for place, each in enumerate(shown, 1)]
    if rows:
        columns = [
            Column("", right=False),
            Column("in the way of graphs", right=False, least=24, wraps=True),
            Column("what to do", right=False, least=22, wraps=True),
        ]
        yield Listing(Table(columns, rows, headless=True, more=len(findings) - len(shown)))


def engaged_lines(doctors: Mapping[str, GraphDoctorDoc], findings: Sequence[FindingDoc]) -> list[str]:
    """How far graphs engaged, a line per mode; one for all where all is well."""
    engaged = _engaged(doctors)
    if len(engaged) > 1 and all(map(_is_well, engaged.values())):
        return [f"{' and '.join(engaged)}: every kernel runs in a graph, and every launch behind the replay before it"]
    if not engaged and findings:
        return ["no kernel runs in a graph replay"]
    return [(f"{mode}: " if mode else "") + " · ".join(_summary(doctor)) for mode, doctor in engaged.items()]


def _engaged(doctors: Mapping[str, GraphDoctorDoc]) -> dict[str, GraphDoctorDoc]:
    return {mode: doctor for mode, doctor in doctors.items() if doctor.engaged in ("all", "part")}


def _is_well(doctor: GraphDoctorDoc) -> bool:
    """Nothing is to be said but that it is so."""
    exposed = None if doctor.graph_launch is None else doctor.graph_launch.exposed_ns
    return doctor.engaged == "all" and exposed == 0 and not (doctor.between or doctor.under_recorded or doctor.findings)


def _summary(doctor: GraphDoctorDoc) -> Iterator[str]:
    """What runs in replays, what launching them takes, waits and copies of a step, and faults of the trace."""
    least, middle, most = doctor.kernels_per_replay
    launch = doctor.graph_launch
    per_step = None if launch is None else launch.per_step
    replays = plural(doctor.replays, "replay") if per_step is None else f"{plural(per_step, 'replay')} per step"
    replays += f" of {number(middle) if least == most else f'{number(least)}–{number(most)}'} kernels"
    if doctor.engaged == "all":
        yield f"every kernel runs in a graph, {replays}"
    else:
        of_time = share(doctor.kernel_ns_in_graphs / max(doctor.kernel_ns, 1))
        in_graphs = part(doctor.kernels_in_graphs, doctor.kernels)
        yield f"{in_graphs} kernels run in graphs, {of_time} of their time; {replays}"
    if launch is not None and launch.host_ns is None:
        yield "host time of a launch withheld: in the recording it is mostly the profiler's, and nothing is calibrated"
    elif launch is not None:
        exposed = f"{duration(launch.exposed_ns)} exposed" if launch.exposed_ns else "none of it exposed"
        source = "unprofiled, calibrated" if launch.source == "calibration" else launch.source
        yield f"a launch takes the host {duration(launch.host_ns)} ({source}), {exposed}"
    counted = []
    for kind, names in {"sync": ("wait", "waits"), "copy": ("copy", "copies"), "set": ("memory set", None)}.items():
        count = sum(row.count_per_step or 0.0 for row in doctor.between if row.what == kind)
        counted += [plural(round(count, 3), *names)] if count else []
    if counted:
        idle = sum(row.idle_ns_per_step or 0.0 for row in doctor.between)
        around = f", the GPU idle for {duration(idle)} around waits" if idle else ""
        yield f"beside it {', '.join(counted)} per step{around}"
    if doctor.under_recorded:
        verb = "lacks" if doctor.under_recorded == 1 else "lack"
        yield f"{plural(doctor.under_recorded, 'replay')} {verb} records: a fault of the trace, no fallback"


def _tables(of_mode: str, doctor: GraphDoctorDoc) -> Iterator[Listing]:
    """All that is outside the replays, and the steps that differ in it."""
    rows = [_row(row.api, row, row.launches_per_step or row.launches, row.kernel_ns) for row in doctor.outside]
    rows += [_row(row.name, row, row.count_per_step or row.count, row.ns) for row in doctor.between]
    if rows:
        columns = [
            Column(f"beside the replays{of_mode}", right=False, least=20, foreign=True),
            Column("operator", right=False, foreign=True),
            Column("line", right=False, rank=1, least=16, foreign=True),
            Column("per step" if doctor.steps else "in all"),
            Column("time in all"),
        ]
        yield Listing(Table(columns, rows).without_empty_columns(MISSING))
    if len({(step.replays, step.kernels, step.kernels_in_graphs) for step in doctor.steps}) > 1:
        columns = [Column(f"step{of_mode}", right=False, least=16, foreign=True)]
        columns += map(Column, ("replays", "kernels", "in graphs", "by time"))
        rows = [
            Row(
                [
                    step.step,
                    number(step.replays),
                    number(step.kernels),
                    ratio(step.kernels_in_graphs, step.kernels),
                    ratio(step.kernel_ns_in_graphs, step.kernel_ns),
                ]
            )
            for step in doctor.steps
        ]
        yield Listing(Table(columns, rows))


def _row(name: str, row: OutsideDoc | BetweenDoc, count: float, ns: int) -> Row:
    return Row([name, row.operator or MISSING, row.line or MISSING, number(round(count, 3)), duration(ns)])


def what(finding: FindingDoc) -> str:
    """What is in the way, where, and its code."""
    mode = f"{finding.mode.replace('_written', ' written')}: " if finding.mode else ""
    doubt = "it seems that " if finding.basis == "inferred" else ""
    line = f", at {finding.line}" if finding.line else ""
    return f"{mode}{doubt}{finding.what}{line} [{finding.code}]"


def how(finding: FindingDoc, *, verbose: bool) -> str:
    """What to do, and what it costs; ``verbose`` adds what says so."""
    cost = "" if finding.cost_ns is None else f"; costs at most {duration(finding.cost_ns)} a step"
    evidence = f" ({'; '.join(finding.evidence)})" if verbose and finding.evidence else ""
    return f"{finding.how}{cost}{evidence}"
