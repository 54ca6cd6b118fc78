"""The verdict: which one thing holds this step back, the numbers that decided it, and what to do next.

The first class that holds (docs/metrics.md, "Verdict"):

    insufficient         not reliable, no GPU op, or no steps and under 100 GPU ops
    gpu-bound            W ≥ 0.85 T, without what collectives wait or transfer beside nothing else
    wait-bound           waiting for other ranks is the largest part of what the GPU does not work
    communication-bound  transfer is, or both together where they can't be told apart
    launch-bound, node-bound, sync-bound, stall-bound, between-steps-bound
                         the largest tax, if it is at least half of the idle time
    mixed                no tax is
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ..model import units
from ..model.document import ActionDoc, VerdictDoc

HOW: Final = {
    "graph": "g = torch.cuda.CUDAGraph(); with torch.cuda.graph(g): step(); then g.replay() over static inputs",
    "fused": "torch.compile(step)",
    "fused_graph": 'torch.compile(step, mode="reduce-overhead")',
    "next_replay": "replay step n + 1 before the result of step n is read",
    "sync": "copy_(…, non_blocking=True) into pinned memory, and read it one step later",
    "between_steps": "launch step n + 1 before the host reads the token of step n",
    "stall": "gc.freeze() after warm-up; warm up every shape; load data in another process",
    "wait": "look at the rank that arrives last: taskset each process to cores of its own; gc.freeze(); graphs",
    "transfer": "collectives on a stream of their own: torch.distributed with async_op=True, waited for late",
    "before_replay": "copy inputs without waiting into the static buffers of step n + 1 while step n replays",
    "one_kernel": "ncu --set full python model.py",
    "other_ranks": "launchscope analyze RANK0.json RANK1.json …",
    "node": "torch.compile before the capture: half the nodes pay half",
    "less_work": "launchscope whatif CAPTURE --weights int4 --graph, or --batch 8",
}
"""One line that tries each kind of action, by ``ActionDoc.kind``."""

LESS_WORK_UNCOUNTED: Final = "launchscope whatif PATH --gpu matmul=0.5"
"""For ``less_work`` where nothing says what a step reads: weights and batches take that, times of ops don't."""

GPU_BOUND_FRACTION: Final = 0.85  # W ÷ T from which the GPU itself is the bottleneck
MIN_OPS_WITHOUT_STEPS: Final = 100
FEW_STEPS: Final = 3  # fewer than that repeat nothing: one kernel inside a ProfilerStep is no step to judge by
MIN_OPS_IN_FEW_STEPS: Final = 10
EDGE: Final = 0.03  # of T or of the idle time: so near to a threshold the other class is said, too
HALF: Final = 0.5  # of what is not work: the share from which one cause gives the class its name
WORTH_DOING: Final = 0.05  # of T: smaller savings are not proposed
MAX_ACTIONS: Final = 3
MOSTLY_IN_GRAPHS: Final = 0.9  # share of kernels in replays from which no graph is proposed

# A stall is longer than 20 median launch intervals, and one such interval stays when it is gone.
STALL_LEAVES: Final = 1 / 20

# ν without a calibration: NVIDIA H200, CUDA 13.0, torch 2.11, 2026. Least when one kernel repeats in a graph, usual in
# a real decode step, most between null kernels.
REFERENCE_NODE_GAP_NS: Final = (40.0, 350.0, 520.0)

CLASS_OF_TAX: Final = {
    "launch": "launch-bound",
    "node": "node-bound",
    "sync": "sync-bound",
    "stall": "stall-bound",
    "between_steps": "between-steps-bound",
}

TAX_WORDS: Final = {
    "launch": "waiting for launches",
    "node": "spent from one graph node to the next",
    "sync": "waiting for blocking calls inside the step",
    "stall": "waiting while the host did something else",
    "between_steps": "spent between one step and the next",
    "other": "waiting for other streams, copies or what is unknown",
}


@dataclass(frozen=True)
class StepFacts:
    """What a verdict is reached from. Times are per step, or of the whole window where there are no steps."""

    basis: str  # profile, trace
    step_ns: float | None  # T
    gpu_work_ns: float | None  # W
    gpu_ops: float
    launches: float  # N
    tau_ns: float | None
    taxes_ns: Mapping[str, float] | None  # of one step, adding up to its idle time; None when below resolution
    work_uncertainty_ns: float = 0.0
    clock_ns: float = 0.0  # what the trace's times are rounded to
    waiting_ns: float = 0.0  # of W: exposed, inside collectives, for ranks that arrive later
    transfer_ns: float = 0.0  # of W: exposed, inside collectives, when all have arrived
    unsplit_ns: float = 0.0  # of W: exposed, inside collectives of which waiting and transfer can't be told apart
    waits_for: int | None = None  # the rank for which most of that waiting is; null where there is none
    alone: bool = False  # no other rank was given
    host_as_profiled: bool = False  # τ is the trace's though T is not: the profiler made it longer
    observer_ns: float = 0.0  # part of the launch tax, before graph replays, that is mostly the profiler's own
    graph_launches: float = 0.0
    no_node_tax: str | None = None  # why what passes from node to node can't be told
    in_graphs: float | None = None  # share of the step's kernels that run in replays; null where not told
    beside_replays: tuple[str, ...] = ()  # launches of a step outside of replays, in words, the most first
    has_steps: bool = True
    work_at_most: bool = False  # W holds time in which the GPU may have paused
    no_class: str | None = None  # why what is known of the step gives it no class
    steps: int | None = None  # that a trace's times are the medians of; null where they are unprofiled
    unreliable: tuple[str, ...] = ()  # why the trace is not reliable
    floor_ns: float | None = None
    node_gap_ns: float | None = None  # ν of this machine
    predicted_graph_ns: float | None = None
    graph_obstacle: str | None = None  # why the step could not be captured, in words
    blocking: tuple[str, ...] = ()  # blocking calls of the step, in words, the longest first
    measured: tuple[ActionDoc, ...] = ()  # what other modes of the same profile measured

    def working_ns(self, work_ns: float) -> float:
        """Of W, what is neither waiting nor transfer, nor may be."""
        return work_ns - self.waiting_ns - self.transfer_ns - self.unsplit_ns

    def tax_error_ns(self, tax: str) -> float:
        """What the rounding of times may be of a tax: both edges of each gap, seen or swallowed."""
        gaps = max(self.gpu_ops - self.launches, 0.0) if tax == "node" else self.launches
        return 2 * self.clock_ns * gaps


def verdict(facts: StepFacts) -> VerdictDoc:
    """The class of a step with its reason and the most valuable next actions."""
    missing = _missing(facts)
    if missing or facts.step_ns is None or facts.gpu_work_ns is None:
        return VerdictDoc(verdict_class="insufficient", basis=facts.basis, reason=missing or "no step time", actions=[])
    name = _class_of(facts, facts.step_ns, facts.gpu_work_ns)
    edge = _on_the_edge(facts, facts.step_ns, facts.gpu_work_ns, name)
    reason = _reason(facts, facts.step_ns, facts.gpu_work_ns, name)
    if edge is not None:
        reason += f"; on the edge: {edge}"
    return VerdictDoc(
        verdict_class=name,
        basis=facts.basis,
        reason=reason,
        actions=_actions(facts, facts.step_ns, facts.gpu_work_ns, name),
        on_the_edge=edge is not None,
    )


def _missing(facts: StepFacts) -> str | None:
    """Why no class can be told, or None."""
    if facts.gpu_ops == 0:
        return "no GPU op in the file: was CUDA activity recorded?"
    if facts.unreliable:
        return "the trace can't be trusted for this: " + "; ".join(facts.unreliable)
    if not facts.has_steps and facts.gpu_ops < MIN_OPS_WITHOUT_STEPS:
        return (
            f"{facts.gpu_ops:.0f} GPU ops and no steps: too little to judge by "
            f"({MIN_OPS_WITHOUT_STEPS} are needed without steps)"
        )
    if facts.steps is not None and facts.steps < FEW_STEPS and facts.steps * facts.gpu_ops < MIN_OPS_IN_FEW_STEPS:
        return (
            f"{units.plural(round(facts.steps * facts.gpu_ops), 'GPU op')} in {units.plural(facts.steps, 'step')}: too "
            f"little to judge by ({MIN_OPS_IN_FEW_STEPS} are needed in fewer than {FEW_STEPS} steps)"
        )
    if not facts.step_ns:
        return "the step time is not known"
    if facts.no_class is not None:
        return facts.no_class
    working = facts.step_ns if facts.gpu_work_ns is None else facts.working_ns(facts.gpu_work_ns)
    tax, _ = largest_tax(facts.taxes_ns)
    if tax == "node" and facts.no_node_tax is not None and working < GPU_BOUND_FRACTION * facts.step_ns:
        return f"the largest part of its idle time passes between graph nodes, which can't be told: {facts.no_node_tax}"
    error = facts.tax_error_ns(tax)
    if facts.taxes_ns and working < GPU_BOUND_FRACTION * facts.step_ns and 0 < facts.taxes_ns[tax] <= error:
        largest = f"the largest part of its idle time, {units.duration(facts.taxes_ns[tax])} {TAX_WORDS[tax]}"
        return (
            f"times are told to {facts.clock_ns / 1000:g} µs: {largest}, is within the error of {units.duration(error)}"
        )
    return None


def _class_of(facts: StepFacts, step_ns: float, work_ns: float) -> str:
    working = facts.working_ns(work_ns)
    if working >= GPU_BOUND_FRACTION * step_ns:
        return "gpu-bound"
    communicating = facts.transfer_ns + facts.unsplit_ns
    idle = max(step_ns - working - facts.waiting_ns - communicating, 0.0)
    if facts.waiting_ns and facts.waiting_ns >= max(communicating, idle):
        return "wait-bound"
    if communicating and facts.waiting_ns + communicating >= idle:
        return "communication-bound"
    tax, share = largest_tax(facts.taxes_ns)
    return CLASS_OF_TAX.get(tax, "mixed") if share >= HALF else "mixed"


def largest_tax(taxes_ns: Mapping[str, float] | None) -> tuple[str, float]:
    """The largest tax and its share of the idle time; ('other', 0) where there is none."""
    idle = sum(taxes_ns.values()) if taxes_ns else 0.0
    if not taxes_ns or idle <= 0:
        return "other", 0.0
    tax = max(taxes_ns, key=lambda name: taxes_ns[name])
    return tax, taxes_ns[tax] / idle


def _on_the_edge(facts: StepFacts, step_ns: float, work_ns: float, name: str) -> str | None:
    """What lies so near to a threshold that the class may be another one, with that class; None where nothing does."""
    working = facts.working_ns(work_ns)
    if abs(working / step_ns - GPU_BOUND_FRACTION) < max(EDGE, facts.work_uncertainty_ns / step_ns):
        told = f"W ÷ T is {working / step_ns:.2f}"
        if name != "gpu-bound":
            return f"{told}, {GPU_BOUND_FRACTION} is gpu-bound"
        below = _class_of(facts, step_ns, min(work_ns, GPU_BOUND_FRACTION * step_ns * (1 - EDGE)))
        return f"{told}, below {GPU_BOUND_FRACTION} it is {below}"
    tax, share = largest_tax(facts.taxes_ns)
    if name in (*CLASS_OF_TAX.values(), "mixed") and tax in CLASS_OF_TAX and abs(share - HALF) < EDGE:
        other = f"below {HALF} it is mixed" if share >= HALF else f"{HALF} is {CLASS_OF_TAX[tax]}"
        return f"{tax.replace('_', ' ')} tax ÷ idle is {share:.2f}, {other}"
    return None


def _reason(facts: StepFacts, step_ns: float, work_ns: float, name: str) -> str:
    """The numbers that decided the class, in plain words."""
    span = "step" if facts.has_steps else "window"
    profiled = ", as profiled" if facts.basis == "trace" else ""
    working = facts.working_ns(work_ns)
    error = f" ± {units.duration(facts.work_uncertainty_ns)}" if facts.clock_ns else ""
    of_step = f"of a {units.duration(step_ns)} {span}{profiled} ({units.share(working / step_ns)})"
    took = f"{'at most ' if facts.work_at_most else ''}{units.duration(working)}{error} {of_step}"
    parts = [f"the GPU works {took}", *_communication_text(facts, step_ns)]
    tax, tax_share = largest_tax(facts.taxes_ns)
    if name in ("wait-bound", "communication-bound"):
        pass
    elif name == "gpu-bound":
        if facts.floor_ns is not None:
            parts.append(f"no kernel can beat the floor of {units.duration(facts.floor_ns)}")
    elif facts.taxes_ns is None:
        parts.append("its idle time is below what can be resolved")
    elif tax_share >= 0.5:
        parts.append(_tax_text(facts.taxes_ns, tax) + (_observer_text(facts) if tax == "launch" else ""))
    else:
        parts.append(f"no cause makes half of its idle time: {_all_taxes(facts.taxes_ns)}")
    host = _host_text(facts)
    return "; ".join([*parts, host] if host else parts)


def _communication_text(facts: StepFacts, step_ns: float) -> Iterator[str]:
    """What of the step is inside collectives without being work, or may be; nothing below what can be resolved."""
    if facts.waiting_ns > facts.work_uncertainty_ns:
        took = f"{units.duration(facts.waiting_ns)} ({units.share(facts.waiting_ns / step_ns)})"
        yield f"it waits {took} inside collectives {_awaited(facts)}"
    if facts.transfer_ns > facts.work_uncertainty_ns:
        took = f"{units.duration(facts.transfer_ns)} ({units.share(facts.transfer_ns / step_ns)})"
        yield f"collectives transfer for {took} beside nothing else"
    if facts.unsplit_ns > facts.work_uncertainty_ns:
        took = f"{units.duration(facts.unsplit_ns)} ({units.share(facts.unsplit_ns / step_ns)})"
        yield f"{took} pass inside collectives, where transfer and waiting for other ranks can't be told apart"


def _awaited(facts: StepFacts) -> str:
    return "for ranks that arrive later" if facts.waits_for is None else f"for rank {facts.waits_for} to arrive"


def _host_text(facts: StepFacts) -> str:
    """N × τ in words; empty without τ."""
    if facts.tau_ns is None or not facts.launches:
        return ""
    host = units.duration(facts.launches * facts.tau_ns)
    profiled = ", as profiled" if facts.host_as_profiled else ""
    if round(facts.launches) == 1:
        return f"1 launch takes {host} of host time{profiled}"
    return f"{facts.launches:,.0f} launches × {units.duration(facts.tau_ns)} = {host} of host time{profiled}"


def _tax_text(taxes_ns: Mapping[str, float], tax: str) -> str:
    idle = sum(taxes_ns.values())
    share = units.share(taxes_ns[tax] / idle)
    return f"{share} of its idle time ({units.duration(taxes_ns[tax])} of {units.duration(idle)}) is {TAX_WORDS[tax]}"


def _observer_text(facts: StepFacts) -> str:
    """How much of the launch tax is the profiler's; empty where none is."""
    if not facts.observer_ns:
        return ""
    before_replays = units.duration(facts.observer_ns)
    return f", but {before_replays} of that stand before graph replays: mostly the profiler's own cost"


def _all_taxes(taxes_ns: Mapping[str, float]) -> str:
    idle = sum(taxes_ns.values()) or 1.0
    ranked = sorted(((ns, tax) for tax, ns in taxes_ns.items() if ns > 0), reverse=True)
    return ", ".join(f"{TAX_WORDS[tax]} {units.share(ns / idle)}" for ns, tax in ranked) or "there is none"


def _actions(facts: StepFacts, step_ns: float, work_ns: float, name: str) -> list[ActionDoc]:
    """What to do next: what was measured first, then what the model predicts, by what it saves."""
    taxes = dict(facts.taxes_ns or {})
    if facts.observer_ns and "launch" in taxes:
        taxes["launch"] = max(taxes["launch"] - facts.observer_ns, 0.0)  # gone without the profiler
    done = {action.mode for action in facts.measured}
    predicted = []
    for tax, ns in taxes.items():
        is_done = tax == "launch" and bool(done & {"graph", "fused_graph"})
        is_done |= tax == "node" and facts.no_node_tax is not None
        if is_done or ns < max(WORTH_DOING * step_ns, facts.tax_error_ns(tax)):
            continue
        action = _action_for(tax, ns, facts, step_ns, work_ns)
        if action is not None:
            predicted.append(action)
    if facts.waiting_ns >= WORTH_DOING * step_ns:
        predicted.append(_less_waiting(facts, step_ns, work_ns))
    if facts.transfer_ns >= WORTH_DOING * step_ns:
        predicted.append(_less_transfer(facts, step_ns, work_ns))
    if facts.alone and facts.unsplit_ns >= WORTH_DOING * step_ns:
        predicted.append(_other_ranks(facts, step_ns))
    predicted.sort(key=lambda action: -(action.saves_ns or 0.0))
    actions = [*facts.measured, *predicted[: max(MAX_ACTIONS - len(facts.measured), 1)]]
    if name == "gpu-bound":
        actions.append(_less_work(facts, step_ns, work_ns))
    return actions


def _action_for(tax: str, ns: float, facts: StepFacts, step_ns: float, work_ns: float) -> ActionDoc | None:
    """The action against one tax, or None where none is known."""
    action = _against(tax, ns, facts, step_ns, work_ns)
    if action is None:
        return None
    evidence = f"{units.duration(ns)} of {units.duration(step_ns)} is {TAX_WORDS[tax]}"
    return replace(action, evidence=evidence, how=HOW.get(action.kind or ""))


def _against(tax: str, ns: float, facts: StepFacts, step_ns: float, work_ns: float) -> ActionDoc | None:
    if tax == "launch" and 0 < facts.launches <= facts.graph_launches:
        what = "launch the next replay while this one still runs"
        low = _host_leaves(facts, ns, step_ns, work_ns)
        return _saving(what, ns, low=low, high=ns, step_ns=step_ns, kind="next_replay")
    if tax == "launch" and (facts.in_graphs or 0.0) >= MOSTLY_IN_GRAPHS:
        listed = ", ".join(facts.beside_replays) or "other launches"
        what = f"start the replay sooner: the host first makes {listed}; prepare that one step ahead"
        low = _host_leaves(facts, ns, step_ns, work_ns)
        return _saving(what, ns, low=low, high=ns, step_ns=step_ns, kind="before_replay")
    if tax == "launch":
        return _replay_as_graph(ns, facts, step_ns)
    if tax == "sync":
        calls = f" ({', '.join(facts.blocking[:2])})" if facts.blocking else ""
        what = f"take the blocking calls out of the step{calls}"
        low = _host_leaves(facts, ns, step_ns, work_ns)
        return _saving(what, ns, low=low, high=ns, step_ns=step_ns, kind="sync")
    if tax == "between_steps":
        what = "prepare the next step while this one runs: sample on the GPU, copy without waiting, schedule ahead"
        low = _host_leaves(facts, ns, step_ns, work_ns)
        return _saving(what, ns, low=low, high=ns, step_ns=step_ns, kind="between_steps")
    if tax == "stall":
        what = "find what the host did in its stalls (data, module loading, garbage collector): no graph removes them"
        saves = ns * (1 - STALL_LEAVES)
        return _saving(what, saves, low=saves, high=ns, step_ns=step_ns, kind="stall")
    if tax == "node":
        what = "fuse kernels: half the nodes pay half the node tax"
        return _saving(what, ns / 2, low=0.0, high=ns, step_ns=step_ns, kind="node")
    return None


def _host_leaves(facts: StepFacts, ns: float, step_ns: float, work_ns: float) -> float:
    """What stays of a saving when the host's own N·τ becomes the limit."""
    host = 0.0 if facts.tau_ns is None else facts.launches * facts.tau_ns
    return min(ns, max(step_ns - max(work_ns, host), 0.0))


def _replay_as_graph(launch_tax: float, facts: StepFacts, step_ns: float) -> ActionDoc:
    """One graph for the step: by the calibration where there is one, else by node gaps measured elsewhere."""
    span = "the step" if facts.has_steps else "each step"
    what = f"replay {span} as one CUDA graph" if not facts.graph_launches else "put all launches into one CUDA graph"
    if facts.predicted_graph_ns is not None:
        saves = max(step_ns - facts.predicted_graph_ns, 0.0)
        spread = facts.work_uncertainty_ns
        low, high = max(saves - spread, 0.0), saves + spread
        return _saving(what, saves, low=low, high=high, step_ns=step_ns, kind="graph", detail=_before_capture(facts))
    least, usual, most = REFERENCE_NODE_GAP_NS if facts.node_gap_ns is None else (facts.node_gap_ns,) * 3
    new_nodes = max(facts.gpu_ops - 1, 0.0)
    saved = [max(launch_tax - new_nodes * gap, 0.0) for gap in (usual, most, least)]
    doubts = ["as profiled"] if facts.basis == "trace" else []
    if facts.node_gap_ns is None:
        doubts.append("node gap as on an H200, not this machine")
    first = _before_capture(facts)
    detail = "; ".join([first, *doubts] if first else doubts) or None
    return _saving(what, saved[0], low=saved[1], high=saved[2], step_ns=step_ns, kind="graph", detail=detail)


def _before_capture(facts: StepFacts) -> str | None:
    """What has to be done before the step can be captured at all, or None."""
    if facts.graph_obstacle:
        return f"first: {facts.graph_obstacle}"
    if facts.blocking:
        return f"first: take {', '.join(facts.blocking[:2])} out of the step: no capture holds a call that waits"
    return None


def _less_waiting(facts: StepFacts, step_ns: float, work_ns: float) -> ActionDoc:
    """What makes ranks arrive together: the late one is late by its host's launches, not by this GPU.

    A rank whose own host takes nearly as long to launch gains little by the late one's host alone, and is told.
    """
    waiting = units.duration(facts.waiting_ns)
    alone = _host_leaves(facts, facts.waiting_ns, step_ns, work_ns - facts.waiting_ns)
    return ActionDoc(
        what="make the ranks arrive together: the late one's host, fewer launches, or graphs on every rank",
        saves_ns=None,
        share=None,
        low_ns=0.0,
        high_ns=facts.waiting_ns,
        detail=None if alone >= facts.waiting_ns else _own_host_text(facts, alone),
        kind="wait",
        evidence=f"{waiting} of {units.duration(step_ns)} is waiting inside collectives {_awaited(facts)}",
        how=HOW["wait"],
    )


def _own_host_text(facts: StepFacts, alone_ns: float) -> str:
    """What of waiting is left to gain as long as this rank launches as it does."""
    host = units.duration(facts.launches * (facts.tau_ns or 0.0))
    return f"at most {units.duration(alone_ns)} of it while this rank's own launches take {host} of host time"


def _less_transfer(facts: StepFacts, step_ns: float, work_ns: float) -> ActionDoc:
    """What hides or shrinks transfer: as much as there is computation to hide it behind; sending less, at most all."""
    transfer = units.duration(facts.transfer_ns)
    evidence = f"{transfer} of {units.duration(step_ns)} collectives transfer beside nothing else"
    what = "run computation beside the collectives, or send less: lower precision, fewer and larger messages"
    hidden = min(facts.transfer_ns, facts.working_ns(work_ns))
    action = _saving(what, hidden, low=0.0, high=facts.transfer_ns, step_ns=step_ns, kind="transfer")
    return replace(action, evidence=evidence, how=HOW["transfer"])


def _other_ranks(facts: StepFacts, step_ns: float) -> ActionDoc:
    """What tells waiting from transfer."""
    inside = f"{units.duration(facts.unsplit_ns)} of {units.duration(step_ns)} pass inside collectives"
    return ActionDoc(
        what="look at the other ranks' recordings of the same steps with this one: they tell waiting from transfer",
        saves_ns=None,
        share=None,
        low_ns=None,
        high_ns=None,
        kind="other_ranks",
        evidence=inside,
        how=HOW["other_ranks"],
    )


def _less_work(facts: StepFacts, step_ns: float, work_ns: float) -> ActionDoc:
    """What is left when the GPU is busy: fewer bytes, better kernels, larger batches; at most down to the floor."""
    what = "give the GPU less to do: quantised weights, fused kernels; or more for the same reads: a larger batch"
    if round(facts.gpu_ops) == 1 and facts.has_steps:
        what = "look inside the kernel that makes the step: nothing of it is in the recording"
        return ActionDoc(
            what=what, saves_ns=None, share=None, low_ns=None, high_ns=None, kind="one_kernel", how=HOW["one_kernel"]
        )
    if facts.floor_ns is None:
        return ActionDoc(
            what=what, saves_ns=None, share=None, low_ns=None, high_ns=None, kind="less_work", how=LESS_WORK_UNCOUNTED
        )
    high = max(work_ns - facts.floor_ns, 0.0)
    detail = f"{units.duration(work_ns)} of GPU work over a floor of {units.duration(facts.floor_ns)}"
    return ActionDoc(
        what=what,
        saves_ns=None,
        share=None,
        low_ns=0.0,
        high_ns=min(high, step_ns),
        detail=detail,
        kind="less_work",
        how=HOW["less_work"],
    )


def _saving(
    what: str, saves: float, *, low: float, high: float, step_ns: float, kind: str, detail: str | None = None
) -> ActionDoc:
    return ActionDoc(
        what=what,
        saves_ns=saves,
        share=saves / step_ns,
        low_ns=low,
        high_ns=high,
        step_ns=step_ns - saves,
        detail=detail,
        kind=kind,
    )
