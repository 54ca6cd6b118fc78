"""What the other modes of a profile measured, told as the next steps for one of them; then what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..figures.verdict import HOW, WORTH_DOING
from ..model import units
from ..model.capture import GRAPH_OF
from ..model.document import ActionDoc, StepTimeDoc
from ..step_model import least_ns

MIB: Final = 2**20
GIB: Final = 2**30
_SAME_FLOOR: Final = 1.001  # times: what rounding leaves between a floor and the time of its bytes

ROADS: Final = {
    "eager": (
        ("graph", "replay it as one CUDA graph"),
        ("fused", "torch.compile"),
        ("fused_graph", "torch.compile, then capture"),
    ),
    "fused": (("fused_graph", "capture it as one CUDA graph"),),
    "graph": (("fused_graph", "torch.compile, then capture"),),
}


@dataclass(frozen=True)
class ModeFigures:
    """What a next step tells of the mode that it leads to; None where unknown."""

    step_ns: StepTimeDoc | None
    work_ns: float | None = None
    work_uncertainty_ns: float | None = None
    kernels: float | None = None
    floor_ns: float | None = None
    floor_bytes: int | None = None
    bandwidth: float | None = None
    graph_memory_bytes: float | None = None
    capture_ns: float | None = None
    compile_ns: float | None = None
    predicted_graph_ns: float | None = None  # by this mode's own work
    streams_saving_ns: float | None = None  # predicted, of its graph in a process that uses few streams
    matches: bool = True  # its output is eager's, as far as it was compared


def next_steps(name: str, modes: Mapping[str, ModeFigures]) -> list[ActionDoc]:
    """Measured ways on from one mode, in order of effort, each faster than those before; then what the last leaves,
    and what of that a process that uses few streams would save.

    Compilation alone is left out where it was captured too and is faster so.
    """
    here = modes[name].step_ns
    if here is None or here.median <= 0:
        return []
    found: list[ActionDoc] = []
    fastest = here.median * (1 - WORTH_DOING)
    for target, what in ROADS.get(name, ()):
        there = modes[target].step_ns if target in modes else None
        if there is not None and there.median <= fastest:
            found.append(_measured(what, here, there, target, _detail(name, target, modes)))
            fastest = there.median
    targets = [action.mode for action in found]
    if "fused_graph" in targets:
        found = [action for action in found if action.mode != "fused"]
    best = modes[found[-1].mode or name] if found else modes[name]
    streams = _few_streams(here, best)
    left = _what_is_left(best) if found else None
    return [*found, *([left] if left else []), *([streams] if streams else [])]


def _measured(what: str, here: StepTimeDoc, there: StepTimeDoc, mode: str, detail: str | None) -> ActionDoc:
    """The saving with the corners of both intervals; without them there is no range."""
    saves = here.median - there.median
    low = high = None
    if here.ci_low is not None and here.ci_high is not None and there.ci_low is not None and there.ci_high is not None:
        low, high = here.ci_low - there.ci_high, here.ci_high - there.ci_low
    return ActionDoc(
        what=what,
        saves_ns=saves,
        share=saves / here.median,
        low_ns=low,
        high_ns=high,
        basis="measured",
        step_ns=there.median,
        mode=mode,
        detail=detail,
        kind=mode,
        evidence="both step times are of this run",
        how=HOW.get(mode),
    )


def _detail(name: str, target: str, modes: Mapping[str, ModeFigures]) -> str | None:
    """What was predicted and what the step costs: '2.30 ms predicted, + 14 MiB, 32 ms to capture'."""
    figures, parts = modes[target], []
    predicted = modes[name].predicted_graph_ns
    if predicted is not None and GRAPH_OF.get(name) == target:
        parts.append(f"{units.duration(predicted)} predicted")
    if figures.graph_memory_bytes is not None:
        parts.append(f"{figures.graph_memory_bytes / MIB:,.0f} MiB of graph memory")
    if figures.compile_ns is not None and name != "fused":
        parts.append(f"{units.duration(figures.compile_ns)} to compile")
    elif figures.capture_ns is not None:
        parts.append(f"{units.duration(figures.capture_ns)} to capture")
    if not figures.matches:
        parts.append("its output differs from eager's")
    return ", ".join(parts) or None


def _few_streams(here: StepTimeDoc, best: ModeFigures) -> ActionDoc | None:
    """Where a graph's nodes follow each other faster in a process that uses few streams: what that would save too."""
    if best.step_ns is None or best.streams_saving_ns is None:
        return None
    more, spread = best.streams_saving_ns, best.work_uncertainty_ns or 0.0
    if more < WORTH_DOING * best.step_ns.median:
        return None
    saved = here.median - best.step_ns.median
    doubt = f" ± {units.duration(spread)}" if spread else ""
    less = f"{units.duration(more)}{doubt} less than the {units.duration(best.step_ns.median)} measured"
    return ActionDoc(
        what="replay it from a process that uses few streams",
        saves_ns=saved + more,
        share=(saved + more) / here.median,
        low_ns=saved + max(more - spread, 0.0),
        high_ns=saved + more + spread,
        basis="predicted",
        step_ns=best.step_ns.median - more,
        detail=f"{less}; without a warm-up on a side stream, say (docs/metrics.md, node gap)",
        kind="few_streams",
    )


def _what_is_left(best: ModeFigures) -> ActionDoc | None:
    """Idle time and GPU work over the floor in the best mode, as far as they are known."""
    if best.step_ns is None or best.work_ns is None:
        return None
    between = max(best.step_ns.median - best.work_ns, 0.0)
    doubt = "" if best.work_uncertainty_ns is None else f" ± {units.duration(best.work_uncertainty_ns)}"
    parts = [f"{units.duration(between)}{doubt} between {best.kernels or 0:,.0f} kernels"]
    left = between
    if best.floor_ns is not None:
        left += max(best.work_ns - best.floor_ns, 0.0)
        work, floor = units.duration(best.work_ns), units.duration(best.floor_ns)
        parts.append(f"{work} of GPU work over a floor of {floor}{_floor_source(best, best.floor_ns)}")
    return ActionDoc(
        what="what is left then",
        saves_ns=None,
        share=None,
        low_ns=0.0,
        high_ns=left,
        basis="measured",
        detail="; ".join(parts),
        kind="left",
    )


def _floor_source(best: ModeFigures, floor_ns: float) -> str:
    """What sets the floor: the bytes that a step reads, or what it computes, where that takes longer."""
    if best.floor_bytes is None or not best.bandwidth:
        return ""
    if floor_ns > least_ns(best.floor_bytes, best.bandwidth) * _SAME_FLOOR:
        return " (its FLOPs at the measured matrix rate)"
    return f" ({best.floor_bytes / GIB:.2f} GiB at {best.bandwidth / 1e12:.2f} TB/s)"
