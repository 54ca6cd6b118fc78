"""Traces without a capture around them, read and analysed: one by one, those that can't be told with their reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..figures.analyses import TraceAnalysis, analyze_trace
from ..inputs.sources import Source
from ..model.document import RanksOfStepDoc, SkippedDoc, UnreadDoc, WarningDoc
from ..model.errors import UnreadableInput, one_line
from ..model.trace import Trace, utf8_text
from .advice import with_fusion
from .rank_documents import traces_document
from .ranks_together import put_together, sets_of_ranks

LOST: Final = (
    "cut_file",
    "damaged_file",
    "lost_records",
    "graph_level",
    "unreadable_times",
    "impossible_durations",
    "under_recorded",
    "lost_ops",
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
) -> tuple[dict[Source, TraceAnalysis], list[UnreadDoc], list[RanksOfStepDoc]]:
    """What can be told of the files; why not of the others: unreadable ones, and those without GPU ops where others
    have some; and what those of several ranks tell together.

    UnreadableInput when none can be read, for any that can't where it is ``alone`` in its report or ``strict``, and
    for one that is not whole where ``strict``.
    """
    analyses: dict[Source, TraceAnalysis] = {}
    reasons: dict[Source, str] = {}
    for file in files:
        try:
            analysis = analyze_trace(file.open(progress, cache=cache), name=file.name, step_regex=step_regex)
            if strict:
                require_whole(analysis.context.trace, analysis.document.warnings)
        except UnreadableInput as error:
            if strict or alone:
                raise
            reasons[file] = utf8_text(str(error)).removeprefix(f"{utf8_text(one_line(file.where))}: ")
        else:
            analyses[file] = analysis
    if files and not analyses:
        first, reason = next(iter(reasons.items()))
        raise UnreadableInput(f"none of {len(files):,} files can be read; the first: {first.where}: {reason}")
    if any(len(analysis.context.trace.gpu_ops) for analysis in analyses.values()):
        for file in [file for file, analysis in analyses.items() if not len(analysis.context.trace.gpu_ops)]:
            reasons[file] = why_no_gpu_ops(analyses.pop(file))
    together = [put_together(each_set, [None] * len(each_set)) for each_set in sets_of_ranks(list(analyses.values()))]
    ranked = {analysis.context.name: analysis for each in together for analysis in each.analyses}
    found = {file: with_fusion(ranked.get(analysis.context.name, analysis)) for file, analysis in analyses.items()}
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
    return next(w.message for code in ("graph_level", "no_gpu_ops") for w in warnings if w.code == code)


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
