"""What to do next, from everything that is known: other modes, taxes, the fusion advisor and the graph doctor.

What other modes measured comes first, in order of effort. Then what is predicted, by what it saves; then what can't be
told in time. Each has its evidence, its range, and one line that tries it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ..figures.verdict import MAX_ACTIONS, WORTH_DOING
from ..model.capture import GRAPH_OF, UNCOMPILED
from ..model.document import ActionDoc, ModeDoc, ProfileDoc, VerdictDoc, baseline
from ..model.fusion_document import CandidateDoc, FusedRunDoc, FusionDoc
from ..model.graph_document import FindingDoc
from ..model.units import duration, plural

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
