"""The fusion advisor: what of one step is fused already, what could be, and what that is worth.

Patterns are searched for from the most specific to the most general, and each operator belongs to one at most, so that
savings add up. Nothing is told without the shapes of operators' inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from ...model.fusion_document import AbstainedDoc, AlreadyFusedDoc, CandidateDoc, FusionDoc
from . import attention as fusion_attention
from . import chains as fusion_chains
from . import layers as fusion_layers
from . import moe as fusion_moe
from . import projections as fusion_projections
from . import quantised as fusion_quantised
from .ops import Abstention, Already, Finding, Occurrence, Pattern, Scan
from .sampling import sampling
from .step import FusionStep, StepOp
from .worth import Prices, Rates

PATTERNS: Final[tuple[Pattern, ...]] = (
    fusion_chains.compiled,
    fusion_layers.norms,
    fusion_moe.mixtures,
    sampling,
    fusion_quantised.weights,
    fusion_quantised.rows,
    fusion_attention.in_parts,
    fusion_projections.gate_up,
    fusion_projections.qkv,
    fusion_projections.merged_gate_up,
    fusion_projections.activation_mul,
    fusion_layers.rope_and_cache,
    fusion_attention.for_fused,
    fusion_chains.chains,
)
"""In this order: what one takes, those behind don't see."""

LINES: Final = 4  # of the model's code, told for each candidate


def findings(step: FusionStep) -> list[Finding]:
    """Everything that is found in a step."""
    scan = Scan(step)
    found: list[Finding] = []
    for pattern in PATTERNS:
        for finding in pattern(scan):
            found.append(finding)
            if isinstance(finding, Occurrence) or (isinstance(finding, Already) and finding.takes):
                scan.take(finding.ops)
    return found


def fusion_doc(step: FusionStep, found: Sequence[Finding], rates: Rates, *, times_from: str | None) -> FusionDoc:
    """The part of the report. ``times_from`` names the recording of the kernels' times, null for the trace's own."""
    prices = Prices(rates, step)
    occurrences = [each for each in found if isinstance(each, Occurrence)]
    groups: dict[tuple[str, str], list[Occurrence]] = {}
    for each in occurrences:
        groups.setdefault((each.kind, each.title), []).append(each)
    candidates = [_candidate(step, prices, group) for group in groups.values()]
    candidates = [each for each in candidates if each.launches_saved > 0]
    kept = {(each.kind, each.title) for each in candidates}
    document = FusionDoc(
        layers=step.layers,
        launches=sum(op.launches for op in step.ops),
        kernels=sum(len(op.gpu_ops) for op in step.ops),
        tau_ns=rates.tau_ns,
        tau_source=rates.tau_source,
        tau_floor_ns=rates.tau_floor_ns,
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        node_gap_ns=rates.node_gap_ns,
        times_from=times_from,
        host_sets_pace=prices.host_sets_pace,
        candidates=sorted(candidates, key=lambda each: (-(each.eager_saves_ns or 0.0), -each.launches_saved)),
        total=prices.worth(each for each in occurrences if (each.kind, each.title) in kept),
        already=_already([each for each in found if isinstance(each, Already)]),
        abstained=_abstained([each for each in found if isinstance(each, Abstention)]),
        withheld={},
    )
    return msgspec.structs.replace(document, withheld=_withheld(document))


def _candidate(step: FusionStep, prices: Prices, group: Sequence[Occurrence]) -> CandidateDoc:
    first = group[0]
    ops = [op for each in group for op in each.ops]
    layers = sorted({layer for each in group if (layer := step.layer_of[each.ops[-1].position]) is not None})
    return CandidateDoc(
        **msgspec.structs.asdict(prices.worth(group)),
        kind=first.kind,
        title=first.title,
        places=len(group),
        layers=layers or None,
        kernels_per_step=sum(len(op.gpu_ops) for op in ops),
        launches_per_step=sum(op.launches for op in ops),
        launches_after=sum(each.launches_after for each in group),
        kernels_ns=sum(op.ns for op in ops),
        operators=names_of(first.ops),
        where=_lines(ops),
        relied_on=first.relied_on,
        how=first.how,
    )


def names_of(ops: Sequence[StepOp]) -> list[str]:
    """Names of operators, in launch order."""
    return [op.name or "?" for op in ops]


def _lines(ops: Sequence[StepOp]) -> list[str]:
    counts = Counter(op.line for op in ops if op.line is not None)
    return [line for line, _ in counts.most_common(LINES)]


def _already(found: Sequence[Already]) -> list[AlreadyFusedDoc]:
    counts = Counter((each.kind, each.what) for each in found)
    return [AlreadyFusedDoc(kind=kind, what=what, places=count) for (kind, what), count in counts.items()]


def _abstained(found: Sequence[Abstention]) -> list[AbstainedDoc]:
    groups: dict[tuple[str, str], list[Abstention]] = {}
    for each in found:
        groups.setdefault((each.kind, each.reason), []).append(each)
    return [
        AbstainedDoc(kind=kind, reason=reason, places=len(group), operators=names_of(group[0].ops))
        for (kind, reason), group in groups.items()
    ]


def _withheld(document: FusionDoc) -> dict[str, str]:
    """Path in the document → why the figure is null."""
    found = {}
    if document.tau_ns is None:
        found["tau_ns"] = "no launch in the file"
    for name in ("tau_floor_ns", "bandwidth_bytes_per_s", "node_gap_ns"):
        if getattr(document, name) is None:
            found[name] = "not calibrated: captures of `launchscope profile` are, other traces are not"
    if document.bandwidth_bytes_per_s is None or document.node_gap_ns is None:
        found["total.graph_saves_ns"] = "bandwidth or ν is not known"
    if document.total.eager_saves_ns is None and document.tau_ns is not None:
        found["total.eager_saves_ns"] = (
            "the GPU sets the pace, and what it would save isn't known without a calibration"
        )
    if document.total.bytes_saved is None:
        found["total.bytes_saved"] = "a tensor has a type whose size is not known"
    if document.total.eager_high_ns is None:
        found["total.eager_high_ns"] = "no recording tells the host's time before each launch"
    return found
