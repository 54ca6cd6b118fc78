"""The Report: everything that a person or a program sees comes out of it.

report = analyze("launchscope-out/llama_1b", "step-3.json.gz")
report.document        the JSON report as typed structs (docs/report.md)
report.kernels         pandas DataFrames: kernels, gaps, launches, steps, gpu_ops, collectives
report.to_json()       bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from .figures.analyses import TraceAnalysis
from .inputs.readers import Progress
from .inputs.sources import Sources, sources
from .model import __version__
from .model.capture import Manifest
from .model.document import ReportDocument, TargetDoc, UnreadDoc, told_traces
from .model.errors import UnreadableInput
from .model.freed_memory import no_collection
from .profile import frames
from .profile.analysed_traces import analyze_capture, analyze_files, skipped_files, why_no_gpu_ops
from .profile.health import HealthDocument, health_document

_WIDTH: Final = 100  # columns of what show() prints

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd


@dataclass(frozen=True, eq=False)
class Report:
    """One or more analysed traces, and the profile that they belong to where there is one."""

    document: ReportDocument
    analyses: tuple[TraceAnalysis, ...]
    manifest: Manifest | None = None
    """Of the capture among what was analysed; null without one."""

    @property
    def told(self) -> tuple[TraceAnalysis, ...]:
        """The analyses, of a profile of several ranks those of the one that its modes' figures are of."""
        names = {trace.name for trace in told_traces(self.document)}
        return tuple(analysis for analysis in self.analyses if analysis.context.name in names)

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per trace and GPU op name of the headline device, the longest first."""
        return frames.kernels_frame(self.analyses)

    def table(self, name: str) -> pd.DataFrame:
        """The table of a figure by its name in the report, such as "blocking_calls". KeyError: the names there are."""
        return frames.figure_frame(self.analyses, name)

    @property
    def gaps(self) -> pd.DataFrame:
        """One row per gap of the whole trace, with its parts by cause in ns."""
        return frames.gaps_frame(self.analyses)

    @property
    def collectives(self) -> pd.DataFrame:
        """One row per collective of the kept steps: kind, group, times in ns; transfer and waiting where told."""
        return frames.collectives_frame(self.analyses)

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch: API, times in ns, operator, step."""
        return frames.launches_frame(self.analyses)

    @property
    def steps(self) -> pd.DataFrame:
        """One row per step found, kept or dropped, with the reason."""
        return frames.steps_frame(self.analyses)

    @property
    def gpu_ops(self) -> pd.DataFrame:
        """One row per GPU op: name, stream, times in ns, its launch (row of ``launches`` of the same trace), step."""
        return frames.gpu_ops_frame(self.analyses)

    def to_json(self) -> bytes:
        """The JSON report: exactly one document."""
        return msgspec.json.format(msgspec.json.encode(self.document), indent=2)

    def require_gpu_ops(self) -> None:
        """UnreadableInput with the likely reason when no trace of others holds a GPU op."""
        if self.document.profile is None and not any(len(each.context.trace.gpu_ops) for each in self.analyses):
            first = self.analyses[0]
            more = f" (nor do {len(self.analyses) - 1:,} others)" if len(self.analyses) > 1 else ""
            raise UnreadableInput(f"{first.document.source.path}: {why_no_gpu_ops(first)}{more}")

    def health(self) -> HealthDocument:
        """What of each trace can be trusted, what can't, and how to record a better one."""
        modes = {} if self.document.profile is None else self.document.profile.modes
        lost = [
            UnreadDoc(path=name, reason=warning.message)
            for name, mode in modes.items()
            for warning in mode.warnings
            if warning.code == "unreadable_trace"
        ]
        return health_document(__version__, self.analyses, [*lost, *self.document.unread], self.document.skipped)

    def show(self) -> None:
        """Print the report as the terminal shows it."""
        from . import report_story

        print(report_story.render_terminal(self, width=_WIDTH, color=False, verbose=False))

    def _repr_html_(self) -> str:
        """Shown by a notebook: the verdicts, and the modes as a table."""
        from .report_story import notebook_html

        return notebook_html(self)


def load(
    path: str | PathLike[str], *, step_regex: str | None = None, strict: bool = False, cache: bool = True
) -> Report:
    """Open one capture, trace file, or folder or .zip of traces. UnreadableInput says what is wrong with it."""
    return analyze(path, step_regex=step_regex, strict=strict, cache=cache)


def analyze(
    *paths: str | PathLike[str],
    step_regex: str | None = None,
    strict: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Analyse captures' and other traces into one report; at most one capture. UnreadableInput as for ``load``.

    Of several traces, those that can't be read or hold no GPU op are told with the reason in ``document.unread``.
    ``strict`` refuses traces that are cut or damaged instead of reading what is left of them. A large trace file that
    was opened before comes from the ``cache`` (docs/formats.md). ``progress`` is told of what has been read: (path,
    bytes of the file, bytes read since the last call).
    """
    if not paths:
        raise UnreadableInput("nothing to analyze: name a capture or a trace file")
    with sources(paths).at_hand() as found:
        return analyze_sources(found, step_regex=step_regex, strict=strict, cache=cache, progress=progress)


@no_collection()
def analyze_sources(
    found: Sources,
    *,
    step_regex: str | None = None,
    strict: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Report:
    """As ``analyze``, of what has been found and is at hand."""
    captures = [each for each in found.each if each.kind == "capture"]
    if len(captures) > 1:
        raise UnreadableInput(
            f"{captures[1].where}: a second capture; one report holds one: analyze them one at a time"
        )
    files = [each for each in found.each if each.kind != "capture"]
    opened = [(each, each.open_capture()) for each in captures]
    bare, unread, ranks = analyze_files(
        files, step_regex=step_regex, strict=strict, alone=len(found.each) == 1, cache=cache, progress=progress
    )
    of_captures = {source: analyze_capture(source, capture, step_regex, strict, progress) for source, capture in opened}
    manifest = opened[0][1].manifest if opened else None
    analyses: list[TraceAnalysis] = []
    for each in found.each:
        analyses += of_captures[each][0] if each in of_captures else bare.get(each, [])
    document = ReportDocument(
        launchscope=__version__,
        target=_target_document(manifest) if manifest else None,
        environment=dict(manifest.environment) if manifest else None,
        created=manifest.created if manifest else None,
        run=manifest.run if manifest else None,
        traces=[analysis.document for analysis in analyses],
        unread=unread,
        skipped=skipped_files(found.skipped),
        ranks=ranks,
        profile=of_captures[captures[0]][1] if captures else None,
    )
    return Report(document, tuple(analyses), manifest)


def _target_document(manifest: Manifest) -> TargetDoc:
    target = manifest.target
    return TargetDoc(
        name=target.name,
        revision=target.revision,
        batch_size=target.batch_size,
        dtype=target.dtype,
        context_length=target.context_length,
        parameters=target.parameters,
        settings=dict(target.settings),
        labels=list(target.labels),
    )
