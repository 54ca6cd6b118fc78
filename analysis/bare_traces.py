"""Traces without a capture around them, read and analysed: one by one, those that can't be told with their reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .analyses import TraceAnalysis, analyze_trace
from .document import UnreadDoc
from .errors import UnreadableInput, one_line
from .fusion.advice import with_fusion
from .trace import Trace, utf8_text
from .trace_files import TraceFile


def analyze_files(
    files: Sequence[TraceFile],
    *,
    step_regex: str | None,
    strict: bool,
    alone: bool,
    cache: bool,
    progress: Callable[[str, int | None, int], None] | None = None,
) -> tuple[dict[TraceFile, TraceAnalysis], list[UnreadDoc]]:
    """What can be told of the files, and why not of the others: unreadable ones, and those without GPU ops where
    others have some.

    UnreadableInput when none can be read, for any that can't where it is ``alone`` in its report or ``strict``, and
    for one that is not whole where ``strict``.
    """
    analyses: dict[TraceFile, TraceAnalysis] = {}
    reasons: dict[TraceFile, str] = {}
    for file in files:
        try:
            trace = file.open(progress, cache=cache)
            if strict:
                require_whole(trace)
        except UnreadableInput as error:
            if strict or alone:
                raise
            reasons[file] = utf8_text(str(error)).removeprefix(f"{utf8_text(one_line(file.source))}: ")
        else:
            analyses[file] = with_fusion(analyze_trace(trace, name=file.name, step_regex=step_regex))
    if files and not analyses:
        first, reason = next(iter(reasons.items()))
        raise UnreadableInput(f"none of {len(files):,} files can be read; the first: {first.source}: {reason}")
    if any(len(analysis.trace.gpu_ops) for analysis in analyses.values()):
        for file in [file for file, analysis in analyses.items() if not len(analysis.trace.gpu_ops)]:
            reasons[file] = why_no_gpu_ops(analyses.pop(file))
    return analyses, [UnreadDoc(path=file.name, reason=reasons[file]) for file in files if file in reasons]


def why_no_gpu_ops(analysis: TraceAnalysis) -> str:
    """The likely reason why a trace holds no GPU op."""
    warnings = analysis.document.warnings
    return next(w.message for code in ("graph_level", "no_gpu_ops") for w in warnings if w.code == code)


def require_whole(trace: Trace) -> None:
    """UnreadableInput when records of the trace are known to be lost."""
    if not trace.complete:
        lost = "; ".join(notice.message for notice in trace.notices) or "records are known to be lost"
        raise UnreadableInput(f"{trace.source.path}: not whole, so refused as asked: {lost}")
