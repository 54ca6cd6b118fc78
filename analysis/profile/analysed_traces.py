"""Traces read and analysed: those of a capture with what it knows of them, and bare ones one by one.

Of bare ones those that can't be told come with their reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import msgspec
import numpy as np

from ..facts.alignment import align
from ..facts.processes import by_process
from ..figures.analyses import TraceAnalysis, analyze_trace
from ..inputs.readers import Progress
from ..inputs.sources import Source
from ..model.capture import UNGRAPHED, Capture, Manifest, ProcessRecord
from ..model.columns import follow
from ..model.document import (
    KernelDoc,
    ModeDoc,
    ProfileDoc,
    RanksOfStepDoc,
    SkippedDoc,
    UnreadDoc,
    WarningDoc,
    fusion_of,
)
from ..model.errors import UnreadableInput, one_line
from ..model.trace import NONE, Bools, Ints, Trace, utf8_text
from .advice import with_advice, with_captured_fusion, with_fusion
from .measured_mode import submit_ns
from .profile import profile_document
from .rank_documents import Together, put_together, ranks_document, sets_of_ranks, traces_document
from .select import OPERATORS, TIMES, mode_in_document, mode_of, of_mode, ranked


def analyze_capture(
    source: Source, capture: Capture, step_regex: str | None, strict: bool, progress: Progress | None = None
) -> tuple[list[TraceAnalysis], ProfileDoc]:
    """Every trace of a capture that can be read; one that can't becomes a warning of its mode, unless ``strict``."""
    analyses: list[TraceAnalysis] = []
    unreadable: dict[str, list[str]] = {}
    for path, sessions in groupby(_sessions(capture), key=lambda session: session.trace):
        of_one_file = list(sessions)
        try:
            trace = source.open_in(capture, path, progress)
            found = [_analyze(capture, session, part, step_regex) for session, part in _parts(trace, of_one_file)]
            for each in found if strict else ():
                require_whole(each.context.trace, each.document.warnings)
            analyses += found
        except UnreadableInput as error:
            if strict:
                raise
            for session in of_one_file:
                unreadable.setdefault(session.mode, []).append(utf8_text(str(error)))
    together = _together(capture.manifest, analyses)
    analyses = [analysis for each in together for analysis in each.analyses] if together else analyses
    manifest, main, others = _main_rank(capture.manifest, analyses)
    main, fused_run = with_captured_fusion(with_inferred_operators(main), manifest.calibration)
    profile = msgspec.structs.replace(profile_document(manifest, main), fused_run=fused_run)
    advised = with_advice(profile, fusion_of(each.document for each in main))
    if capture.manifest.ranks:
        ranks = ranks_document(capture.manifest, manifest.ranks[0].rank, together)
        advised = msgspec.structs.replace(advised, ranks=ranks)
    return [*main, *others], _with_warnings(advised, unreadable)


def _together(manifest: Manifest, analyses: Sequence[TraceAnalysis]) -> list[Together]:
    """The recordings of several ranks by mode, pass and repeat; none of a capture of one process."""
    if not manifest.ranks:
        return []
    hosts = {record.rank: record.host for record in manifest.ranks}
    sets: dict[tuple[str | None, str | None, int | None], list[TraceAnalysis]] = {}
    for each in analyses:
        sets.setdefault((each.context.mode, each.context.trace_pass, each.context.repeat), []).append(each)
    return [put_together(each, [hosts.get(rank.context.trace.rank or 0) for rank in each]) for each in sets.values()]


def _main_rank(
    manifest: Manifest, analyses: list[TraceAnalysis]
) -> tuple[Manifest, list[TraceAnalysis], list[TraceAnalysis]]:
    """The rank that the modes' figures are of, the first one: its manifest, its recordings, and those of the others."""
    if not manifest.ranks:
        return manifest, analyses, []
    first = min(record.rank for record in manifest.ranks)
    own_mode = [each for each in analyses if each.context.trace.rank == first]
    others = [each for each in analyses if each.context.trace.rank != first]
    of_first = tuple(record for record in manifest.ranks if record.rank == first)
    return msgspec.structs.replace(manifest.of_rank(first), ranks=of_first), own_mode, others


@dataclass(frozen=True)
class _Session:
    """One mode's steps in one profiler session."""

    mode: str
    process: ProcessRecord
    trace: str


def _sessions(capture: Capture) -> Iterator[_Session]:
    for mode, record in capture.manifest.modes.items():
        for process in record.processes:
            if process.trace is not None:
                yield _Session(mode, process, process.trace)


def _parts(trace: Trace, sessions: list[_Session]) -> Iterator[tuple[_Session, Trace]]:
    """Each session's own part of the trace: all of it, or of a shared one from its first step to the next one's."""
    starts = [min((start for start, _ in session.process.marks_ns), default=None) for session in sessions]
    known = sorted(start for start in starts if start is not None)
    for session, start in zip(sessions, starts, strict=True):
        if start is None or len(known) < 2:
            yield session, trace
            continue
        after = next((other for other in known if other > start), None)
        yield session, excerpt(trace, start, after)


def excerpt(trace: Trace, start_ns: int, end_ns: int | None) -> Trace:
    """What the host began in [start, end), to the end of the trace for null, and the GPU ops of its launches; of ops
    without a launch, those that start there.

    The devices and what the reader had to say stay those of the whole file.
    """
    ops, launches, blocking = trace.gpu_ops, trace.launches, trace.blocking_calls
    launched_ns = follow(launches.start_ns, ops.launch_row)
    op = _begun_in(np.where(ops.launch_row == NONE, ops.start_ns, launched_ns), start_ns, end_ns)
    launch = _begun_in(launches.start_ns, start_ns, end_ns)
    call = _begun_in(blocking.start_ns, start_ns, end_ns)
    host_op = _begun_in(trace.host_ops.start_ns, start_ns, end_ns)
    return replace(
        trace,
        gpu_ops=replace(ops.take(op), launch_row=_renumbered(ops.launch_row[op], launch)),
        launches=replace(launches.take(launch), operator_row=_renumbered(launches.operator_row[launch], host_op)),
        blocking_calls=replace(blocking.take(call), operator_row=_renumbered(blocking.operator_row[call], host_op)),
        host_ops=trace.host_ops.take(host_op),
    )


def _begun_in(times_ns: Ints, start_ns: int, end_ns: int | None) -> Bools:
    begun = times_ns >= start_ns
    return begun if end_ns is None else begun & (times_ns < end_ns)


def _renumbered(rows: Ints, kept: Bools) -> Ints:
    """References to the rows of a table of which ``kept`` remain; NONE to one that does not."""
    return follow(np.where(kept, np.cumsum(kept) - 1, NONE), rows)


def _analyze(capture: Capture, session: _Session, trace: Trace, step_regex: str | None) -> TraceAnalysis:
    process = session.process
    manifest = capture.manifest if process.rank is None else capture.manifest.of_rank(process.rank)
    return analyze_trace(
        trace if process.rank is None else replace(trace, rank=process.rank),
        name=session.trace,
        mode=mode_in_document(session.mode),
        trace_pass=process.trace_pass,
        repeat=process.repeat,
        marks_ns=process.marks_ns,
        step_regex=step_regex,
        host_submit_ns=submit_ns(manifest.modes[session.mode]),
        calibration=capture.manifest.calibration,
    )


def _with_warnings(profile: ProfileDoc, unreadable: Mapping[str, list[str]]) -> ProfileDoc:
    modes: dict[str, ModeDoc] = {}
    for name, mode in profile.modes.items():
        more = [WarningDoc(code="unreadable_trace", message=message) for message in unreadable.get(name, ())]
        modes[name] = msgspec.structs.replace(mode, warnings=[*mode.warnings, *more])
    return msgspec.structs.replace(profile, modes=modes)


def with_inferred_operators(analyses: Sequence[TraceAnalysis]) -> list[TraceAnalysis]:
    """The analyses of one capture, in order; kernels without an operator get that of their counterpart."""
    return [_with_operators(analysis, _reference_of(analysis, analyses)) for analysis in analyses]


def _reference_of(analysis: TraceAnalysis, analyses: Sequence[TraceAnalysis]) -> TraceAnalysis | None:
    """The trace that knows the operators of this one's kernels, or None."""
    own_mode = mode_of(analysis) or ""
    for mode in (UNGRAPHED.get(own_mode, own_mode), "eager"):
        others = [
            each for each in of_mode(analyses, mode) if each is not analysis and each.context.trace_pass != TIMES[0]
        ]
        if others:
            return ranked(others, OPERATORS)[0]
    return None


def _with_operators(analysis: TraceAnalysis, reference: TraceAnalysis | None) -> TraceAnalysis:
    lacking = [row for row in analysis.document.kernels if row.operator is None]
    if reference is None or not lacking:
        return analysis
    operators = align(reference.context, analysis.context).operators
    kernels = [_inferred(row, operators.get(row.name)) for row in analysis.document.kernels]
    return replace(analysis, document=msgspec.structs.replace(analysis.document, kernels=kernels))


def _inferred(row: KernelDoc, operator: str | None) -> KernelDoc:
    if row.operator is not None or operator is None:
        return row
    return msgspec.structs.replace(row, operator=operator, operator_inferred=True)


LOST: Final = (
    "cut_file",
    "damaged_file",
    "lost_records",
    "graph_level",
    "unreadable_times",
    "impossible_durations",
    "under_recorded",
    "lost_ops",
    "lost_first",
    "lost_last",
    "graph_nodes_missing",
)
"""Warnings of a file that is damaged, or lacks records: what ``--strict`` refuses, whatever the format."""


def analyze_files(
    files: Sequence[Source],
    *,
    step_regex: str | None,
    strict: bool,
    alone: bool,
    cache: bool,
    progress: Callable[[str, int | None, int], None] | None = None,
) -> tuple[dict[Source, list[TraceAnalysis]], list[UnreadDoc], list[RanksOfStepDoc]]:
    """What can be told of the files, of each process of those that merge several; why not of the others: unreadable
    ones, and those without GPU ops where others have some; and what those of several ranks tell together.

    UnreadableInput when none can be read, for any that can't where it is ``alone`` in its report or ``strict``, and
    for one that is not whole where ``strict``.
    """
    analyses: dict[Source, list[TraceAnalysis]] = {}
    reasons: dict[Source, str] = {}
    for file in files:
        try:
            parts = by_process(file.open(progress, cache=cache))
            names = [file.name] if len(parts) == 1 else [f"{file.name} · process {n}" for n in range(len(parts))]
            opened = [
                analyze_trace(part, name=name, step_regex=step_regex) for part, name in zip(parts, names, strict=True)
            ]
            for analysis in opened if strict else ():
                require_whole(analysis.context.trace, analysis.document.warnings)
        except UnreadableInput as error:
            if strict or alone:
                raise
            reasons[file] = utf8_text(str(error)).removeprefix(f"{utf8_text(one_line(file.where))}: ")
        else:
            analyses[file] = opened
    if files and not analyses:
        first, reason = next(iter(reasons.items()))
        raise UnreadableInput(f"none of {len(files):,} files can be read; the first: {first.where}: {reason}")
    if any(len(analysis.context.trace.gpu_ops) for opened in analyses.values() for analysis in opened):
        for file in [file for file, (first, *_) in analyses.items() if not len(first.context.trace.gpu_ops)]:
            reasons[file] = why_no_gpu_ops(analyses.pop(file)[0])
    every = [analysis for opened in analyses.values() for analysis in opened]
    together = [put_together(each_set, [None] * len(each_set)) for each_set in sets_of_ranks(every)]
    ranked = {analysis.context.name: analysis for each in together for analysis in each.analyses}
    found = {
        file: [with_fusion(ranked.get(analysis.context.name, analysis)) for analysis in opened]
        for file, opened in analyses.items()
    }
    unread = [UnreadDoc(path=file.name, reason=reasons[file]) for file in files if file in reasons]
    return found, unread, [traces_document(each) for each in together]


def skipped_files(skipped: Iterable[tuple[str, str]]) -> list[SkippedDoc]:
    """Files that are not read, (name, reason), by reason, the most frequent first."""
    names: dict[str, list[str]] = {}
    for name, reason in skipped:
        names.setdefault(reason, []).append(name)
    by_count = sorted(names.items(), key=lambda each: -len(each[1]))
    return [SkippedDoc(reason=reason, count=len(each), first=each[0]) for reason, each in by_count]


def why_no_gpu_ops(analysis: TraceAnalysis) -> str:
    """The likely reason why a trace holds no GPU op."""
    warnings = analysis.document.warnings
    return next(w.message for w in warnings if w.code == "no_gpu_ops")


def require_whole(trace: Trace, warnings: Iterable[WarningDoc]) -> None:
    """UnreadableInput when the file is damaged, records of it are lost or can't be right, or its profiler says that
    some may be lost; ``warnings`` are all of the trace.
    """
    lost = lost_words(warnings)
    if not trace.complete or lost:
        lost = lost or "records are known to be lost"
        raise UnreadableInput(f"{trace.source.path}: not whole, so refused as asked: {lost}")


def lost_words(warnings: Iterable[WarningDoc]) -> str:
    """What they say of damage and of lost records; nothing where they say nothing of it."""
    return "; ".join(warning.message for warning in warnings if warning.code in LOST)
