"""The fusion advisor: what of one step is fused already, what could be, and what that is worth.

Patterns are searched for from the most specific to the most general, and each operator belongs to one at most, so that
savings add up. Nothing is told without the shapes of operators' inputs. Fewer launches and fewer bytes are worth:

    eager   launches saved × τ, as long as the host sets the pace: max(W, N·τ) before less after
    graph   bytes saved ÷ bandwidth + launches saved × ν + Σ start − what stays

``start`` is what a kernel takes beyond its bytes: its time − bytes ÷ bandwidth. Of kernels of a few µs that is most,
and one kernel in place of several has it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from ...model.advisor_documents import AbstainedDoc, AlreadyFusedDoc, CandidateDoc, FusionDoc, WorthDoc
from ...model.statistics import known_sum
from ...step_model import bound_ns, least_ns
from . import attention, layers, products
from .scan import Abstention, Already, Finding, Occurrence, Pattern, Scan
from .step import FusionStep, StepOp

PATTERNS: Final[tuple[Pattern, ...]] = (
    layers.compiled,
    layers.norms,
    layers.mixtures,
    layers.sampling,
    products.dequantised_weights,
    products.quantised_rows,
    attention.in_parts,
    products.gate_up,
    products.qkv,
    products.merged_gate_up,
    products.activation_mul,
    attention.rope_and_cache,
    attention.around_fused,
    layers.chains,
)
"""In this order: what one takes, those behind don't see."""

_ONE_LINEAR: Final = "one nn.Linear whose weight is torch.cat([q.weight, k.weight, v.weight]), its output split"
HOW: Final = {
    "attention": "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=…, enable_gqa=…); "
    'in transformers attn_implementation="sdpa"',
    "attention_mask": "make the mask once per step, in the type of q and with -inf in it, and pass that to every layer",
    "repeat_kv": "enable_gqa=True of scaled_dot_product_attention, or an attention that knows groups of heads",
    "rope_kv": "one Triton kernel that turns q and k and writes k and v into the cache, or torch.compile of that part",
    "residual_norm": "torch.nn.functional.rms_norm, or torch.compile of the norm; with the add in front: "
    "a Triton kernel (fused_add_rms_norm, as vLLM, SGLang and Liger have it)",
    "qkv": f"{_ONE_LINEAR}; cache and RoPE stay",
    "projections": _ONE_LINEAR,
    "gate_up": "one nn.Linear whose weight is torch.cat([gate.weight, up.weight]), its output in two with chunk(2, -1)",
    "silu_mul": "one kernel for act(gate) * up: torch.compile of it, or a Triton kernel (silu_and_mul)",
    "dequantise": "a product that reads the quantised weight itself: torch._weight_int8pack_mm, "
    "torch.ops.aten._weight_int4pack_mm, torchao's, Marlin's",
    "quantise": "quantise in the norm's or the activation's kernel before it, and scale in the product's epilogue",
    "moe_routing": "one kernel for softmax, topk and scaling (vLLM's topk_softmax), or torch.compile of the router",
    "moe_experts": "grouped products: torch._grouped_mm, or a fused mixture (vLLM's and SGLang's fused_moe)",
    "sampling": "one sampling kernel (FlashInfer's, vLLM's), or torch.compile of the sampler, in the graph of the step",
    "chain": "torch.compile of the function that these are in",
}
"""By kind: what to do."""

LINES: Final = 4  # of the model's code, told for each candidate
Its = TypeVar("Its")
TAU_STEP: Final = "tau_step"

_BY_INDEX = ("index", "gather", "scatter", "embedding", "slice", "arange", "fill_")
"""Operators whose inputs are read or written in part: what they move is not told by shapes."""


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
    groups = _grouped(occurrences, lambda each: (each.kind, each.title))
    saving = {key: group for key, group in groups.items() if sum(each.launches_saved for each in group) > 0}
    candidates = [_candidate(step, prices, group) for group in saving.values()]
    already = Counter((each.kind, each.what) for each in found if isinstance(each, Already))
    abstentions = (each for each in found if isinstance(each, Abstention))
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
        total=prices.worth(each for each in occurrences if (each.kind, each.title) in saving),
        already=[AlreadyFusedDoc(kind=kind, what=what, places=places) for (kind, what), places in already.items()],
        abstained=[
            AbstainedDoc(kind=kind, reason=reason, places=len(group), operators=_names(group[0].ops))
            for (kind, reason), group in _grouped(abstentions, lambda each: (each.kind, each.reason)).items()
        ],
        withheld={},
    )
    return msgspec.structs.replace(document, withheld=_withheld(document))


def _grouped(found: Iterable[Its], key: Callable[[Its], tuple[str, str]]) -> dict[tuple[str, str], list[Its]]:
    groups: dict[tuple[str, str], list[Its]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return groups


def _candidate(step: FusionStep, prices: Prices, group: Sequence[Occurrence]) -> CandidateDoc:
    first = group[0]
    ops = [op for each in group for op in each.ops]
    lines = Counter(op.line for op in ops if op.line is not None)
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
        operators=_names(first.ops),
        where=[line for line, _ in lines.most_common(LINES)],
        relied_on=first.relied_on,
        how=HOW[first.kind],
    )


def _names(ops: Sequence[StepOp]) -> list[str]:
    return [op.name or "?" for op in ops]


def _withheld(document: FusionDoc) -> dict[str, str]:
    """Path in the document → why the figure is null."""
    uncalibrated = "not calibrated: captures of `launchscope profile` are, other traces are not"
    total, known = document.total, document.tau_ns is not None
    figures: list[tuple[str, object, str]] = [
        ("tau_ns", document.tau_ns, "no launch in the file"),
        ("tau_floor_ns", document.tau_floor_ns, uncalibrated),
        ("bandwidth_bytes_per_s", document.bandwidth_bytes_per_s, uncalibrated),
        ("node_gap_ns", document.node_gap_ns, uncalibrated),
        ("total.graph_saves_ns", total.graph_low_ns, "bandwidth or ν is not known"),
        (
            "total.eager_saves_ns",
            total.eager_saves_ns if known else 0,
            "the GPU sets the pace, and what it would save isn't known without a calibration",
        ),
        ("total.bytes_saved", total.bytes_saved, "a tensor has a type whose size is not known"),
        ("total.eager_high_ns", total.eager_high_ns, "no recording tells the host's time before each launch"),
    ]
    return {path: reason for path, value, reason in figures if value is None}


@dataclass(frozen=True)
class Rates:
    """What the machine needs for a launch, a byte and a graph's node; None where it is not known."""

    tau_ns: float | None = None
    tau_source: str | None = None  # TAU_STEP or 'median launch overhead'
    tau_floor_ns: float | None = None
    bandwidth_bytes_per_s: float | None = None
    node_gap_ns: float | None = None
    is_gpu_bound: bool = False  # as profiled: kept to where τ is no whole step's, so that N·τ tells nothing


@dataclass(frozen=True)
class Prices:
    """The rates, with the step that they are applied to."""

    rates: Rates
    step: FusionStep

    def worth(self, found: Iterable[Occurrence]) -> WorthDoc:
        """Of all these together; each operator belongs to one."""
        occurrences = list(found)
        saved = sum(o.launches_saved for o in occurrences)
        moved = self._moved_ns(sum(o.bytes_saved or 0 for o in occurrences))
        starts, most_starts = self._starts_ns(occurrences)
        nodes, floor = _times(saved, self.rates.node_gap_ns), _times(saved, self.rates.tau_floor_ns)
        eager = self._eager_ns(saved, _plus(moved, starts))
        host = self._host_ns(occurrences)
        low = _plus(moved, nodes)
        return WorthDoc(
            launches_saved=saved,
            bytes_saved=known_sum(o.bytes_saved for o in occurrences),
            eager_saves_ns=eager,
            eager_low_ns=None if floor is None or eager is None else min(floor, eager),
            eager_high_ns=None if host is None or eager is None else max(host, eager),
            graph_saves_ns=_plus(low, starts or 0.0),
            graph_low_ns=low,
            graph_high_ns=_plus(low, most_starts),
            gpu_work_ns=_plus(moved, starts or 0.0),
        )

    def _moved_ns(self, moved: float) -> float | None:
        bandwidth = self.rates.bandwidth_bytes_per_s
        return least_ns(moved, bandwidth) if bandwidth else None

    def _eager_ns(self, saved: int, work_saved_ns: float | None) -> float | None:
        """launches × τ; where τ is a whole step's and the kernels' times are known, no more than the bound falls."""
        tau = self.rates.tau_ns
        if tau is None or self.rates.tau_source != TAU_STEP or work_saved_ns is None:
            return _times(saved, tau) if self.host_sets_pace else work_saved_ns
        work, launches = self._step()
        return bound_ns(work, launches, tau) - bound_ns(work - work_saved_ns, launches - saved, tau)

    @property
    def host_sets_pace(self) -> bool:
        """In eager mode: N·τ > W where τ is a whole step's, else whatever the trace's own verdict says."""
        if self.rates.tau_ns is None or self.rates.tau_source != TAU_STEP:
            return not self.rates.is_gpu_bound
        work, launches = self._step()
        return launches * self.rates.tau_ns > work

    def _step(self) -> tuple[float, int]:
        """W and N of the whole step."""
        return sum(op.ns for op in self.step.ops), sum(op.launches for op in self.step.ops)

    def _host_ns(self, found: Sequence[Occurrence]) -> float | None:
        """The host's time before the launches of each place, by the share of them that is saved."""
        before = [(o, known_sum(op.host_ns for op in o.ops)) for o in found]
        return known_sum([0.0, *(None if ns is None else ns * o.launches_saved / o.launches for o, ns in before)])

    def _starts_ns(self, found: Sequence[Occurrence]) -> tuple[float | None, float | None]:
        """What the kernels take beyond their bytes, less what those that stay will; None where that isn't known.

        What stays is as the slowest of them usually, of products as the largest; for the most as the quickest.
        """
        usual = most = 0.0
        for o in found:
            if o.launches_saved <= 0:
                continue
            sizes = [bytes_of(op) for op in o.ops]
            moved = [self._moved_ns(size) for size in sizes]
            starts = [max(op.ns - ns, 0.0) for op, ns in zip(o.ops, moved, strict=True) if ns is not None]
            if len(starts) < len(o.ops):
                return None, None
            kept = min(1 if o.is_product else o.launches_after, len(starts))
            stays = starts[sizes.index(max(sizes))] if o.is_product else max(starts)
            usual += max(sum(starts) - kept * stays, 0.0)
            most += max(sum(starts) - kept * min(starts), 0.0)
        return usual, most


def bytes_of(op: StepOp) -> int:
    """What an operator reads and writes, by its shapes; 0 where these don't tell."""
    if any(word in (op.name or "") for word in _BY_INDEX):
        return 0
    tensors = [*op.reads, *([] if op.output is None else [op.output])]
    return sum(tensor.bytes or 0 for tensor in tensors)


def _times(count: int, each_ns: float | None) -> float | None:
    return None if each_ns is None else count * each_ns


def _plus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
