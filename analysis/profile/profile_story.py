"""A profiled model, told: the answer, one row per mode, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..figures import verdict_blocks
from ..figures.bound import bound_line
from ..figures.communication import NO_COLLECTIVES
from ..figures.coverage import steps_fact
from ..figures.devices import idle
from ..figures.fusion.fusion_story import fusion_story
from ..figures.graphs.graph_story import graph_story
from ..figures.kernels import longest_kernels
from ..figures.registry import FIGURES
from ..figures.serving.serving_story import serving_story
from ..figures.short_kernels import short_kernel_facts
from ..figures.trace_story import figure_tables, label
from ..model import units
from ..model.advisor_documents import GraphDoctorDoc
from ..model.capture import GRAPH_OF
from ..model.document import (
    ModeDoc,
    ProfileDoc,
    ReportDocument,
    TargetDoc,
    TraceDoc,
    WarningDoc,
    baseline,
    fusion_of,
    told_traces,
)
from ..model.units import MISSING, duration, duration_pm, number, plural, share
from ..story import Block, Column, Fact, Heading, Headline, Listing, Row, Table
from .mode_table import mode_table, shown_name
from .ranks_story import profile_ranks
from .select import OPERATORS, TIMES, of_mode, ranked, speaks_for

KERNELS: Final = 6  # names told without --verbose
WORTH_ITEMISING: Final = 0.04  # of the run: shorter parts of it are told with -v only


def profile_story(document: ReportDocument, profile: ProfileDoc, *, verbose: bool) -> list[Block]:
    """Everything there is to say about several modes of one target."""
    base = baseline(profile.modes)
    traces = told_traces(document)
    trace = None if base is None else speaks_for(traces, base, profile.modes[base])
    story: list[Block] = [*_headings(document, profile, verbose=verbose)]
    if profile.verdict is not None:
        mode = None if base is None else profile.modes[base]
        step_ns = None if mode is None or mode.step_ns is None else mode.step_ns.median
        story.append(verdict_blocks.headline(profile.verdict, base and f"{shown_name(base)}{_of_rank(profile)}"))
        story += [] if trace is None else [Fact("steps recorded", steps_fact(trace.coverage).lines)]
        speedups = {name: mode.speedup for name, mode in profile.modes.items()} if base == "eager" else {}
        story += verdict_blocks.actions(profile.verdict.actions, step_ns, speedups)
    elif base is None:
        story.append(Headline("NOTHING MEASURED: no mode ran; each row has its reason", None))
    story.append(mode_table(profile))
    story += profile_ranks(profile.ranks, verbose=verbose)
    if base is not None:
        story += _bound(profile.modes[base], shown_name(base), profile)
    story += _predictions(profile)
    story += graph_story(graph_doctors(traces, profile), profile.graph_findings, verbose=verbose)
    if trace is not None and base is not None:
        story += idle(trace, f"idle, {shown_name(base)}", verbose=verbose)
        story += serving_story(trace)
        story += short_kernel_facts(trace)
        story += _longest_kernels(traces, base, profile.modes[base], verbose)
        story += _more_figures(traces, base, profile.modes[base], verbose)
    story += fusion_story(fusion_of(traces), profile.fused_run, verbose=verbose)
    story += _trace_warnings(document.traces, verbose=verbose)
    if verbose:
        story += _details(profile)
        story += verdict_blocks.withheld(_reasons(profile), verbose=True)
    return story


def graph_doctors(traces: Sequence[TraceDoc], profile: ProfileDoc) -> dict[str, GraphDoctorDoc]:
    """What the recording of each mode tells, where it replays anything."""
    chosen = {name: speaks_for(traces, name, mode) for name, mode in profile.modes.items()}
    return {
        shown_name(name): trace.graph_doctor
        for name, trace in chosen.items()
        if trace is not None and trace.graph_doctor is not None
    }


def _reasons(profile: ProfileDoc) -> dict[str, str]:
    """Why figures of the modes that ran are missing; a failed mode has one reason for all, in its row."""
    ran = {shown_name(name): mode for name, mode in profile.modes.items() if mode.step_ns is not None}
    reasons = {f"{name}.{path}": reason for name, mode in ran.items() for path, reason in mode.withheld.items()}
    return {path: reason for path, reason in reasons.items() if reason != NO_COLLECTIVES}


def _headings(document: ReportDocument, profile: ProfileDoc, *, verbose: bool) -> Iterator[Heading | Fact]:
    target = document.target
    name = "profile" if target is None else " · ".join(_target_words(target))
    yield Heading(name, " · ".join(_machine_words(document.environment or {})))
    ran = [mode for mode in profile.modes.values() if mode.processes]
    repeats = max((sum(bool(p.samples_ns) for p in mode.processes) for mode in ran), default=0)
    run = f"{plural(len(profile.modes), 'mode')} × {plural(repeats, 'process', 'processes')}"
    run += "" if profile.ranks is None else f" of each of {profile.ranks.count} ranks, figures{_of_rank(profile)}"
    yield Fact("measured", [" · ".join([run, *_where_time_went(profile.seconds, verbose=verbose)])])
    if target is not None and target.labels:
        yield Fact("read with", target.labels, concern=True)


def _of_rank(profile: ProfileDoc) -> str:
    """Which rank of how many the figures are of; empty for one process."""
    return "" if profile.ranks is None else f" of rank {profile.ranks.told}"


def _target_words(target: TargetDoc) -> Iterator[str]:
    yield target.name
    if target.batch_size is not None:
        yield f"batch {target.batch_size}"
    if target.dtype is not None:
        yield target.dtype
    if target.context_length is not None:
        yield f"context {number(target.context_length)}"
    if target.parameters is not None:
        yield f"{target.parameters / 1e9:.2f} B parameters"
    yield from (f"{key}={value}" for key, value in target.settings.items())
    if target.revision is not None:
        yield target.revision[:12]


def _machine_words(environment: Mapping[str, str | int | float | bool | None]) -> Iterator[str]:
    if environment.get("gpu"):
        yield str(environment["gpu"])
    for key, word in (("driver", "driver"), ("cuda", "CUDA"), ("torch", "torch")):
        if environment.get(key):
            yield f"{word} {environment[key]}"


def _where_time_went(seconds: Mapping[str, float], *, verbose: bool) -> Iterator[str]:
    """The run's wall-clock time, itemised; the parts are the program's own names."""
    if "all" in seconds:
        yield f"in {units.seconds(seconds['all'])}"
    ranked = sorted(((value, name) for name, value in seconds.items() if name != "all"), reverse=True)
    least = 0.0 if verbose else WORTH_ITEMISING * seconds.get("all", sum(seconds.values()))
    yield from (f"{name} {units.seconds(value)}" for value, name in ranked if value > 0 and value >= least)


def _bound(mode: ModeDoc, name: str, profile: ProfileDoc) -> Iterator[Fact]:
    lines = []
    if mode.bound is not None:
        lines.append(bound_line(mode.bound, "measured"))
    floor = None if profile.calibration is None else profile.calibration.tau_floor_ns
    taus = [
        (floor, "cheapest launch from Python"),
        (mode.tau_api_ns, "in the median launch call, as traced"),
        (mode.tau_step_ns, f"with Python and dispatcher, {mode.host_submit_source or 'unknown'}"),
    ]
    texts = [f"{_product(mode.launches, tau)} {words}" for tau, words in taus if tau is not None]
    if texts:
        count = "" if mode.launches is None else f"N·τ of {plural(mode.launches, 'launch', 'launches')}: "
        lines.append(count + " · ".join(texts))
    if mode.floor_ns is not None:
        work = mode.gpu_work_ns if mode.gpu_work_without_waiting_ns is None else mode.gpu_work_without_waiting_ns
        over = _over_floor(work, mode.floor_ns)
        lines.append(f"floor {duration(mode.floor_ns)}: what one step must read and compute{over}")
    if mode.bound is not None and mode.bound.note:
        lines.append(mode.bound.note)
    if lines:
        yield Fact(f"bound, {name}", lines)


def _over_floor(work_ns: float | None, floor_ns: float) -> str:
    """How far the GPU work lies above its floor; empty where it isn't known."""
    return (
        "" if work_ns is None or floor_ns <= 0 else f" · GPU work {duration(work_ns)} is {work_ns / floor_ns:.1f}× that"
    )


def _product(launches: float | None, tau: float) -> str:
    return f"{duration(tau)} each" if launches is None else f"× {duration(tau)} = {duration(launches * tau)}"


def _predictions(profile: ProfileDoc) -> Iterator[Fact]:
    """Each graph time as predicted from the ungraphed mode, beside the measured one."""
    lines = []
    for source, goal in GRAPH_OF.items():
        found = [profile.modes[name] for name in (source, goal) if name in profile.modes]
        predicted = next((m.predicted_graph_ns for m in found if m.predicted_graph_ns is not None), None)
        if predicted is None:
            continue
        text = f"{goal}: predicted {duration(predicted)} from {source} and the calibration"
        graph = profile.modes.get(goal)
        error = next((m.predicted_graph_error for m in found if m.predicted_graph_error is not None), None)
        if graph is None or graph.step_ns is None:
            text += " · not measured"
        else:
            text += f" · measured {duration(graph.step_ns.median)}"
        if error is not None:
            text += f" · off by {share(abs(error))} of T − W{_base(graph)}, too {'low' if error < 0 else 'high'}"
        lines.append(text)
    if lines:
        yield Fact("graph time", lines)


def _base(graph: ModeDoc | None) -> str:
    """T − W of the graph that was measured, with W's uncertainty: how much a share of it can mean."""
    if graph is None or graph.exposed_idle_ns is None:
        return ""
    return f" ({duration_pm(graph.exposed_idle_ns, graph.gpu_work_uncertainty_ns)})"


def _more_figures(traces: Sequence[TraceDoc], name: str, mode: ModeDoc, verbose: bool) -> Iterator[Block]:
    """Figures that only one recording has, of the one that knows operators."""
    for trace in ranked(of_mode(traces, name), OPERATORS, mode)[:1]:
        for figure in FIGURES:
            if not figure.is_of_contract:
                yield from figure.facts(trace, verbose) if figure.facts is not None else ()
                yield from figure_tables(figure, trace, verbose)


def _longest_kernels(traces: Sequence[TraceDoc], name: str, mode: ModeDoc, verbose: bool) -> Iterator[Listing]:
    """Of the recording that speaks for the mode, unless only another one knows the operators."""
    recordings = of_mode(traces, name)
    ways = [ranked(recordings, TIMES, mode), ranked(recordings, OPERATORS, mode)]
    found = [way[0] for way in ways if way]
    chosen = next((each for each in found if any(kernel.operator for kernel in each.kernels)), next(iter(found), None))
    if chosen is not None:
        title = f"longest kernels ({shown_name(name)}, {chosen.trace_pass} pass)"
        yield from longest_kernels(chosen.kernels, title, limit=None if verbose else KERNELS)


def _trace_warnings(traces: Sequence[TraceDoc], *, verbose: bool) -> Iterator[Fact]:
    """Warnings of the recordings; without ``verbose`` one of each kind, that of most records, and how many have it."""
    found: dict[str, list[tuple[int, str]]] = {}
    for trace in traces:
        for warning in trace.warnings:
            found.setdefault(warning.code, []).append((warning.count, f"{label(trace)}: {warning.message}"))
    texts = []
    for code, warned in found.items():
        if verbose:
            texts += [WarningDoc(code=code, message=message) for _, message in warned]
        else:
            also = f"; {plural(len(warned) - 1, 'other recording')} too" if len(warned) > 1 else ""
            texts.append(WarningDoc(code=code, message=f"{max(warned)[1]}{also}"))
    yield from verdict_blocks.warnings(texts, verbose=verbose)


def _details(profile: ProfileDoc) -> Iterator[Fact | Listing]:
    """What only a second look needs: the bound of every mode, every verdict, the calibration."""
    rows = [_bound_row(shown_name(name), mode) for name, mode in profile.modes.items() if mode.bound is not None]
    if rows:
        titles = ("W", "N", "τ per\nlaunch", "N·τ", "max(W,\nN·τ)", "serial", "T", "T ÷\nbound", "floor")
        yield Listing(Table([Column("bound", right=False), *[Column(title) for title in titles]], rows))
    for name, mode in profile.modes.items():
        if mode.verdict is not None and mode.verdict is not profile.verdict:
            yield Fact(shown_name(name), [verdict_blocks.headline(mode.verdict).text])
    calibration = profile.calibration
    if calibration is not None:
        per_node = f"{duration(calibration.graph_launch_per_node_ns)} a node"
        words = [
            f"cheapest launch {duration(calibration.tau_floor_ns)}",
            f"graph launch {duration(calibration.graph_launch_ns)} + {per_node}",
            f"replay gap {duration(calibration.replay_gap_ns)}",
            f"node gap ν {duration(calibration.node_gap_ns)}",
            f"memory {units.rate(calibration.bandwidth_bytes_per_s, 'B')}",
            *(f"{dtype} {units.rate(flops, 'FLOP')}" for dtype, flops in calibration.flops_per_s.items()),
        ]
        yield Fact("calibration", [" · ".join(words)])


def _bound_row(name: str, mode: ModeDoc) -> Row:
    bound = mode.bound
    assert bound is not None
    host = None if bound.tau_ns is None else bound.launches * bound.tau_ns
    over = MISSING if not bound.bound_ns else f"{bound.step_ns / bound.bound_ns:.2f}"
    times = [duration(ns) for ns in (bound.tau_ns, host, bound.bound_ns, bound.serial_ns, bound.step_ns)]
    return Row([name, duration(bound.gpu_work_ns), number(bound.launches), *times, over, duration(mode.floor_ns)])
