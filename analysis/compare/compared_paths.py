"""Two captures, or two traces, compared: every mode that both have, each by recordings of the same pass.

comparison = compare("before.zip", "after.zip")
comparison.document       typed structs (docs/compare.md)
comparison.show()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..figures.analyses import TraceAnalysis
from ..inputs.readers import Progress
from ..model import __version__
from ..model.capture import UNCOMPILED, Manifest
from ..model.document import ModeDoc, ReportDocument, fusion_of
from ..model.errors import LaunchscopeError
from ..model.statistics import known_sum
from ..model.trace import utf8_text
from ..profile.select import OPERATORS, PASS_OF_STACKS, alike, of_mode, of_pass, ranked
from ..report import Report, analyze
from . import compare as traces
from .compare import mode_figures
from .compare_story import Comparison
from .difference import between_runs, change, fewest_processes, in_pairs
from .documents import (
    ComparedDoc,
    ComparedModeDoc,
    ComparedSideDoc,
    ComparisonDoc,
    FigureDoc,
    KeptPromiseDoc,
    UnprofiledDoc,
)
from .snapshot import MACHINE, Timing, timings

if TYPE_CHECKING:
    from os import PathLike

_GONE: Final = 0.5  # of the blocking calls: taken out


@dataclass(frozen=True, eq=False)
class _Side:
    path: Path
    report: Report
    manifest: Manifest | None

    @property
    def names(self) -> list[str]:
        """Modes of a capture; of traces their names."""
        if self.manifest is None:
            return [analysis.context.name for analysis in self.report.analyses]
        return list(self.manifest.modes)

    def recordings(self, name: str) -> list[TraceAnalysis]:
        """A mode's recordings, the best of each pass first; or the one trace of this name."""
        if self.manifest is None:
            return [analysis for analysis in self.report.analyses if analysis.context.name == name]
        return ranked(of_mode(self.report.told, name), OPERATORS, self.timed(name))

    def timed(self, name: str) -> ModeDoc | None:
        """The mode's row of the profile, where it was timed."""
        profile = self.report.document.profile
        mode = None if profile is None else profile.modes.get(name)
        return None if mode is None or mode.step_ns is None else mode

    def timings(self, name: str) -> tuple[Timing, ...]:
        """Unprofiled samples of a mode's processes."""
        mode = self.timed(name)
        return () if mode is None else timings(mode, of_mode(self.report.document.traces, name))

    def document(self) -> ComparedSideDoc:
        manifest = self.manifest
        return ComparedSideDoc(
            path=utf8_text(str(self.path)),
            target=None if manifest is None else manifest.target.name,
            commit=None if manifest is None else manifest.target.revision,
            created=None if manifest is None else manifest.created,
            machine={} if manifest is None else {part: manifest.environment.get(part) for part in MACHINE},
            ranks=None if manifest is None else len(manifest.ranks) or 1,
        )


def compare(
    before: str | PathLike[str],
    after: str | PathLike[str],
    *,
    mode: str | None = None,
    step_regex: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """What changed from one capture or trace to another.

    Captures are compared in every mode that both have, or in ``mode`` alone; a capture and a trace in ``mode``.
    LaunchscopeError when nothing pairs; UnreadableInput as for ``load``.
    """
    a, b = (_open(Path(path), step_regex, progress) for path in (before, after))
    pairs = list(_pairs(a, b, mode))
    notes = [*_left_out(a, b, mode), *_other_machine(a, b)]
    comparisons = []
    for its, other in pairs:
        found = _compare_mode(a, b, its, other)
        if found is None:
            notes.append(f"{its}: no pass was recorded on both sides, so nothing to compare.")
        else:
            comparisons.append(found)
    if not comparisons:
        raise LaunchscopeError(f"{a.path} and {b.path} have nothing to compare: {' '.join(notes)}")
    document = ComparedDoc(
        launchscope=__version__, before=a.document(), after=b.document(), comparisons=comparisons, notes=notes
    )
    return Comparison(document)


def _open(path: Path, step_regex: str | None, progress: Progress | None) -> _Side:
    report = analyze(path, step_regex=step_regex, progress=progress)
    report.require_gpu_ops()
    side = _Side(path, report, report.manifest)
    if not side.names:
        raise LaunchscopeError(f"{path}: a capture without a mode, so nothing was measured; profile the target again")
    return side


def _pairs(a: _Side, b: _Side, mode: str | None) -> Iterator[tuple[str, str]]:
    """Names of what is compared with what; the only one of each side, whatever they are called."""
    if mode is None and len(a.names) == len(b.names) == 1:
        yield a.names[0], b.names[0]
        return
    if a.manifest is None and b.manifest is None:
        if mode is not None:
            raise LaunchscopeError(f"--mode {mode}: neither {a.path} nor {b.path} is a capture, which has modes")
    elif a.manifest is None or b.manifest is None:
        yield _one(a, mode), _one(b, mode)
        return
    names = [name for name in a.names if name in b.names and mode in (None, name)]
    if not names:
        option = "" if mode is None else f"--mode {mode}: "
        raise LaunchscopeError(
            f"{option}nothing of {a.path} ({', '.join(a.names)}) is in {b.path} ({', '.join(b.names)}) too"
        )
    yield from ((name, name) for name in names)


def _one(side: _Side, mode: str | None) -> str:
    """The one trace of a side that is compared with a capture's mode, or that mode."""
    names = side.names if mode is None or side.manifest is None else [name for name in side.names if name == mode]
    if len(names) == 1:
        return names[0]
    have = ", ".join(side.names)
    if side.manifest is None:
        raise LaunchscopeError(f"{side.path}: several traces ({have}); name one to compare with a capture's mode")
    raise LaunchscopeError(f"{side.path}: compared with a trace, --mode has to name one of its modes: {have}")


def _left_out(a: _Side, b: _Side, mode: str | None) -> Iterator[str]:
    if mode is not None or (a.manifest is None) != (b.manifest is None) or len(a.names) == len(b.names) == 1:
        return
    for side, other in ((a, b), (b, a)):
        alone = [name for name in side.names if name not in other.names]
        if alone:
            yield f"Only in {utf8_text(str(side.path))}: {', '.join(alone)}."


def _other_machine(a: _Side, b: _Side) -> Iterator[str]:
    was, now = a.document().machine, b.document().machine
    differs = [f"{part} {was[part]} → {now[part]}" for part in was if part in now and was[part] != now[part]]
    if differs:
        yield f"Other machines, so times are not comparable: {', '.join(differs)}."


def _compare_mode(a: _Side, b: _Side, its: str, other: str) -> ComparedModeDoc | None:
    ours, theirs = a.recordings(its), b.recordings(other)
    pair = alike(ours, theirs)
    if pair is None:
        return None
    before, after = of_pass(ours, PASS_OF_STACKS), of_pass(theirs, PASS_OF_STACKS)
    stacks = traces.compare(before[0], after[0]) if before and after else None
    comparison, unprofiled = traces.compare(*pair, stacks=stacks), _unprofiled(a, b, its, other)
    return ComparedModeDoc(
        name=_named(a, b, its, other),
        trace_pass=pair[0].context.trace_pass if pair[0].context.trace_pass == pair[1].context.trace_pass else None,
        unprofiled=unprofiled,
        figures=mode_figures(a.timed(its), b.timed(other)),
        comparison=comparison,
        promise=kept_promise(its, other, a.report.document, b.report.document, comparison, unprofiled),
    )


def _named(a: _Side, b: _Side, its: str, other: str) -> str:
    """The mode, where only one side has one or both have the same."""
    if its == other or b.manifest is None:
        return its
    return other if a.manifest is None else f"{its} → {other}"


def _unprofiled(a: _Side, b: _Side, its: str, other: str) -> UnprofiledDoc | None:
    """T of the modes of both sides, by their processes."""
    was, now = a.timed(its), b.timed(other)
    if was is None or now is None or was.step_ns is None or now.step_ns is None:
        return None
    assert a.manifest is not None, "a mode that was timed is a capture's"
    assert b.manifest is not None, "a mode that was timed is a capture's"
    timings_before, timings_after = a.timings(its), b.timings(other)
    before, after = ({each.repeat: each.samples_ns for each in side} for side in (timings_before, timings_after))
    paired = a.manifest.run is not None and a.manifest.run == b.manifest.run
    ours, theirs = in_pairs(after, before) if paired else (list(after.values()), list(before.values()))
    if not ours:
        return None
    between = between_runs(timings_before, timings_after, paired=paired)
    found = change(ours, theirs, paired=paired, between_runs=between)
    return UnprofiledDoc(
        before_ns=was.step_ns.median,
        after_ns=now.step_ns.median,
        change=found.change,
        **found.ends,
        processes_before=found.processes_baseline,
        processes_after=found.processes,
        paired=paired,
        needed_processes=None if found.is_known else fewest_processes(paired=paired),
    )


class _Done(NamedTuple):
    """One action that was taken; ns per step, null where nothing was promised."""

    what: str
    saves_ns: float | None
    low_ns: float | None
    high_ns: float | None
    launches: float = 0.0


def kept_promise(
    mode: str,
    other: str,
    before: ReportDocument,
    after: ReportDocument,
    comparison: ComparisonDoc,
    unprofiled: UnprofiledDoc | None,
) -> KeptPromiseDoc | None:
    """What was promised of a mode by what was done in the other one's; None where nothing was, or was not timed.

    A fusion can be told only where both launch kernel by kernel, or as the graph of such a step.
    """
    if unprofiled is None:
        return None
    alike = mode == other and mode in UNCOMPILED
    done = [*(_fused(mode, before, after) if alike else ()), *_acted(mode, before, comparison)]
    if not done:
        return None
    promised = known_sum(each.saves_ns for each in done)
    came = -unprofiled.change * unprofiled.before_ns
    launches = comparison.figure("launches")
    went = None if launches is None else _fall(launches)
    fewer = sum(each.launches for each in done) if mode == "eager" and went is not None else 0.0
    return KeptPromiseDoc(
        done=[each.what for each in done],
        promised_ns=promised,
        promised_low_ns=known_sum(each.low_ns for each in done),
        promised_high_ns=known_sum(each.high_ns for each in done),
        came_ns=came,
        share=came / promised if promised else None,
        told=unprofiled.low is not None,
        launches_promised=fewer or None,
        launches_came=went if fewer else None,
    )


def _fused(mode: str, before: ReportDocument, after: ReportDocument) -> Iterator[_Done]:
    """Candidates of the one that the other has in fewer places."""
    ours, theirs = fusion_of(before.traces), fusion_of(after.traces)
    if ours is None or theirs is None:
        return
    left = Counter[str]()
    for candidate in theirs.candidates:
        left[candidate.kind] += candidate.places
    for candidate in ours.candidates:
        stays = min(left[candidate.kind], candidate.places)
        left[candidate.kind] -= stays
        share = 1 - stays / candidate.places
        if share > 0:
            saves, low, high = (
                None if ns is None else ns * share for ns in candidate.saves_ns(in_graph=mode == "graph")
            )
            what = f"{candidate.title} in {round(candidate.places * share)} of {candidate.places}"
            yield _Done(what, saves, low, high, candidate.launches_saved * share)


def _acted(mode: str, before: ReportDocument, comparison: ComparisonDoc) -> Iterator[_Done]:
    """Actions of the verdict other than fusions that were predicted, and that the comparison shows as taken."""
    row = None if before.profile is None else before.profile.modes.get(mode)
    blocking = comparison.figure("blocking_calls")
    for action in row.verdict.actions if row is not None and row.verdict is not None else ():
        if action.basis != "predicted":
            continue
        graph = action.kind == "graph" and comparison.graph_coverage == "won"
        sync = action.kind == "sync" and (_fall(blocking) or 0.0) > _GONE * ((blocking and blocking.before) or 0.0)
        if graph or sync:
            yield _Done(action.what, action.saves_ns, action.low_ns, action.high_ns)


def _fall(figure: FigureDoc | None) -> float | None:
    """By how much a figure is smaller than before; None where either side is not known."""
    if figure is None or figure.before is None or figure.after is None:
        return None
    return figure.before - figure.after
