"""What to do next, from everything that is known: other modes, taxes, the fusion advisor and the graph doctor.

What other modes measured comes first, in order of effort. Then what is predicted, by what it saves; then what can't be
told in time. Each has its evidence, its range, and one line that tries it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ..figures.analyses import TraceAnalysis
from ..figures.fusion.advisor import TAU_STEP, Rates, findings, fusion_doc
from ..figures.fusion.fused_run import Recorded, fused_run
from ..figures.fusion.scan import Finding, Occurrence
from ..figures.fusion.step import FusionStep, OpTimes, fusion_step, names_of_step, op_times
from ..figures.verdict import MAX_ACTIONS, WORTH_DOING
from ..model.advisor_documents import CandidateDoc, FindingDoc, FusedRunDoc, FusionDoc
from ..model.capture import GRAPH_OF, UNCOMPILED, Calibration
from ..model.document import ActionDoc, ModeDoc, ProfileDoc, VerdictDoc, baseline
from ..model.units import duration, plural
from .select import TIMES, mode_of, of_mode, of_pass, ranked

FUSE: Final = "fuse:"
"""Begins the kind of an action that the fusion advisor proposes; its candidate's kind follows."""

_WHY_NO_GRAPH: Final = ("capture_failed", "waits_in_step", "off_ladder", "not_replayed")
"""Findings that say what stands in the way of a graph: they belong to the action that proposes one."""

_WRONG: Final = ("frozen_input", "replaced_buffer")
"""Findings that say that a replay computes something else: no speed is worth that."""


def with_advice(profile: ProfileDoc, fusion: FusionDoc | None) -> ProfileDoc:
    """The profile with the advisor's and the doctor's proposals among the verdicts' actions."""
    modes = {}
    for name, mode in profile.modes.items():
        about = {name, GRAPH_OF.get(name, name)}
        found = [each for each in profile.graph_findings if about & set((each.mode or "").split(", "))]
        fusible = fusion if name in UNCOMPILED else None
        modes[name] = _advised(name, mode, fusible, profile.fused_run, found)
    base = baseline(modes)
    return replace(profile, modes=modes, verdict=None if base is None else modes[base].verdict)


def _advised(
    name: str, mode: ModeDoc, fusion: FusionDoc | None, run: FusedRunDoc | None, found: Sequence[FindingDoc]
) -> ModeDoc:
    if mode.verdict is None or mode.step_ns is None or mode.verdict.verdict_class == "insufficient":
        return mode
    step_ns = mode.step_ns.median
    fuse = [] if fusion is None else list(_fuse(fusion, step_ns, run, in_graph=name == "graph"))
    return replace(mode, verdict=replace(mode.verdict, actions=_ranked(mode.verdict.actions, fuse, found)))


def with_trace_advice(verdict: VerdictDoc, fusion: FusionDoc | None, step_ns: float | None) -> VerdictDoc:
    """The verdict of a trace with what could be fused in its own step; as profiled."""
    if fusion is None or not step_ns or verdict.verdict_class == "insufficient":
        return verdict
    return replace(verdict, actions=_ranked(verdict.actions, list(_fuse(fusion, step_ns, None, in_graph=False)), ()))


def _ranked(known: Sequence[ActionDoc], fuse: Sequence[ActionDoc], found: Sequence[FindingDoc]) -> list[ActionDoc]:
    """What makes outputs wrong; then measured ones as they are, predicted ones by what they save, the rest."""
    known = [_with_reason(action, found) for action in known]
    more = [*known, *fuse, *_of_findings(known, found)]
    measured = [action for action in more if action.basis == "measured" and action.saves_ns is not None]
    predicted = [action for action in more if action.basis == "predicted" and action.saves_ns is not None]
    open_ended = [action for action in more if action.saves_ns is None]
    wrong = [action for action in open_ended if action.kind in _WRONG]
    rest = [action for action in open_ended if action.kind not in _WRONG]
    return [*wrong, *measured, *sorted(predicted, key=lambda action: -(action.saves_ns or 0.0)), *rest]


def _with_reason(action: ActionDoc, found: Iterable[FindingDoc]) -> ActionDoc:
    """A proposed graph with what stands in its way, and how that goes."""
    reason = next((each for each in found if each.code in _WHY_NO_GRAPH), None)
    if action.kind != "graph" or action.basis == "measured" or reason is None:
        return action
    told_already = (action.detail or "").startswith("first: ")  # why its capture failed
    return replace(action, evidence=None if told_already else _told(reason), how=reason.how)


def _of_findings(known: Sequence[ActionDoc], found: Iterable[FindingDoc]) -> Iterator[ActionDoc]:
    """What the graph doctor proposes beside: with what it costs at most, where that can be told."""
    has_graph = any(action.kind == "graph" and action.basis == "predicted" for action in known)
    for each in found:
        if has_graph and each.code in _WHY_NO_GRAPH:
            continue
        yield ActionDoc(
            what=each.what,
            saves_ns=None,
            share=None,
            low_ns=None if each.cost_ns is None else 0.0,
            high_ns=each.cost_ns,
            kind=each.code,
            evidence=_told(replace(each, what="")),
            how=each.how,
        )


def _told(finding: FindingDoc) -> str:
    line = "" if finding.line is None else f"at {finding.line}"
    return "; ".join(filter(None, [finding.what, *finding.evidence, line]))


def _fuse(fusion: FusionDoc, step_ns: float, run: FusedRunDoc | None, *, in_graph: bool) -> Iterator[ActionDoc]:
    """The candidates that are worth doing in this mode, most first; not what torch.compile was seen to do."""
    proposed = []
    tried = {each.kind for each in (run.promises if run else ()) if each.launches_came * 2 >= each.launches_promised}
    for candidate in fusion.candidates:
        saves, low, high = candidate.saves_ns(in_graph=in_graph)
        if saves is not None and saves >= WORTH_DOING * step_ns and candidate.kind not in tried:
            proposed.append(
                ActionDoc(
                    what=f"fuse {candidate.title}",
                    saves_ns=saves,
                    share=saves / step_ns,
                    low_ns=low,
                    high_ns=high,
                    step_ns=max(step_ns - saves, 0.0),
                    kind=f"{FUSE}{candidate.kind}",
                    detail=None if in_graph else _as_graph(candidate),
                    evidence=_evidence(candidate),
                    how=candidate.how.partition(";")[0],
                )
            )
    proposed.sort(key=lambda action: -(action.saves_ns or 0.0))
    yield from proposed[:MAX_ACTIONS]


def _as_graph(candidate: CandidateDoc) -> str | None:
    """What it is worth there: less, and that is worth knowing before the work."""
    return None if candidate.graph_saves_ns is None else f"{duration(candidate.graph_saves_ns)} in a graph"


def _evidence(candidate: CandidateDoc) -> str:
    launches = f"{candidate.launches_per_step} launches for {candidate.launches_after}"
    where = f", {candidate.where[0].rpartition('/')[2]}" if candidate.where else ""
    return f"{launches} in {plural(candidate.places, 'place')}{where}"


_EAGER: Final = "eager"
_FUSED: Final = "fused"
_GPU_BOUND: Final = "gpu-bound"


def with_fusion(analysis: TraceAnalysis) -> TraceAnalysis:
    """A trace outside a capture, by its own times; the advice is among its verdict's actions."""
    step = fusion_step(analysis.context)
    if step is None:
        return analysis
    found = _with(analysis, step, findings(step), _rates(analysis, None), None)
    document = found.document
    step_ns = None if document.bound is None else document.bound.step_ns
    advised = with_trace_advice(document.verdict, document.fusion, step_ns)
    return dataclasses.replace(found, document=replace(document, verdict=advised))


def with_captured_fusion(
    analyses: Sequence[TraceAnalysis], calibration: Calibration | None
) -> tuple[list[TraceAnalysis], FusedRunDoc | None]:
    """The traces of a capture, in order, and what its fused run did of what the eager one's trace promises.

    Null where no eager trace has shapes, or no fused one has steps.
    """
    found: list[TraceAnalysis] = []
    against: FusedRunDoc | None = None
    for analysis in analyses:
        times = _times(analysis, analyses) if analysis.context.trace.shapes else None
        step = None if times is None else fusion_step(analysis.context, times)
        if step is None or times is None:
            found.append(analysis)
            continue
        parts, rates = findings(step), _rates(analysis, calibration)
        found.append(_with(analysis, step, parts, rates, times.source))
        if analysis.context.mode == _EAGER and against is None and (fused := _fused(analyses)) is not None:
            eager = Recorded(analysis.context, times)
            against = fused_run(eager, step, [each for each in parts if isinstance(each, Occurrence)], rates, fused)
    return found, against


def _with(
    analysis: TraceAnalysis, step: FusionStep, found: Sequence[Finding], rates: Rates, times_from: str | None
) -> TraceAnalysis:
    document = fusion_doc(step, found, rates, times_from=times_from)
    return dataclasses.replace(analysis, document=replace(analysis.document, fusion=document))


def _rates(analysis: TraceAnalysis, calibration: Calibration | None) -> Rates:
    """τ as the trace's short kernels have it; the rest as calibrated."""
    short = analysis.document.short_kernels
    is_gpu_bound = analysis.document.verdict.verdict_class == _GPU_BOUND
    costs = calibration or Calibration()
    calibrated = (costs.tau_floor_ns, costs.bandwidth_bytes_per_s, costs.node_gap_ns)
    return Rates(short.tau_ns, short.tau_source, *calibrated, is_gpu_bound)


def _times(analysis: TraceAnalysis, analyses: Sequence[TraceAnalysis]) -> OpTimes | None:
    """From the mode's first `cuda` pass that runs the same ops, else from the trace itself, without the host's."""
    names = names_of_step(analysis.context)
    short, steps = analysis.document.short_kernels, analysis.document.steps
    submit = None
    if short.tau_source == TAU_STEP and short.tau_ns is not None and steps is not None and steps.launches.median:
        submit = short.tau_ns * steps.launches.median
    recordings = of_pass(of_mode(analyses, mode_of(analysis)), TIMES[0])
    of_others = (op_times(other.context, names, submit) for other in recordings)
    return next(filter(None, of_others), None) or op_times(analysis.context, names, None)


def _fused(analyses: Sequence[TraceAnalysis]) -> Recorded | None:
    """The first recording of the compiled step without graphs that has steps: of the `cuda` pass where there is one."""
    for analysis in ranked(of_mode(analyses, _FUSED), TIMES):
        names = names_of_step(analysis.context)
        times = op_times(analysis.context, names, None) if names else None
        if times is not None:
            return Recorded(analysis.context, times)
    return None
