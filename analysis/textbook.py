"""The launch-overhead model of textbooks: one decode step reads its weights once, in N kernels.

    W       weights ÷ bandwidth            GPU work: reading the weights is all that takes time
    serial  W + N·τ                        eager, when host and GPU wait for each other
    bound   max(W, N·τ)                    eager, when they overlap fully
    graph   W + (N − 1)·ν + τ              the step as one CUDA graph: one launch, ν between its nodes

Nothing in it is measured: it says what to expect, and how it moves. ``launchscope whatif`` starts from a recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec

from .. import __version__
from .bound import NS_PER_S, bound_ns, serial_ns


class PredictedStepDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the model. Times in ns."""

    weight_bytes: float
    kernels: float
    tau_ns: float  # host time per launch
    bandwidth_bytes_per_s: float
    node_gap_ns: float  # ν, GPU time from one node of a graph to the next
    gpu_work_ns: float
    launch_ns: float  # N·τ
    serial_ns: float
    bound_ns: float
    graph_ns: float
    speedup_serial: float  # serial ÷ graph
    speedup_bound: float  # bound ÷ graph
    launch_tax_share: float  # of the serial step: N·τ ÷ (W + N·τ)


class ModelDoc(PredictedStepDoc, frozen=True, kw_only=True):
    """The step of the first combination of what was given; ``steps`` has those of all, in their order."""

    schema: str = "launchscope.model/1"
    launchscope: str
    basis: str = "predicted: W is weights ÷ bandwidth, a graph is launched in τ"
    steps: list[PredictedStepDoc]


def model_document(steps: list[PredictedStepDoc]) -> ModelDoc:
    """The document of one step or several."""
    return ModelDoc(**msgspec.structs.asdict(steps[0]), launchscope=__version__, steps=steps)


def steps(
    weights: Sequence[float],
    kernels: Sequence[float],
    taus_ns: Sequence[float],
    bandwidths: Sequence[float],
    node_gap_ns: float = 0.0,
) -> list[PredictedStepDoc]:
    """The model for every combination; bytes, counts, ns and bytes per second, all above 0 (τ and ν may be 0)."""
    return [step(*each, node_gap_ns) for each in product(weights, kernels, taus_ns, bandwidths)]


def step(weight_bytes: float, kernels: float, tau_ns: float, bandwidth: float, node_gap_ns: float) -> PredictedStepDoc:
    work = weight_bytes / bandwidth * NS_PER_S
    serial, bound = serial_ns(work, kernels, tau_ns), bound_ns(work, kernels, tau_ns)
    graph = work + max(kernels - 1, 0) * node_gap_ns + tau_ns
    return PredictedStepDoc(
        weight_bytes=weight_bytes,
        kernels=kernels,
        tau_ns=tau_ns,
        bandwidth_bytes_per_s=bandwidth,
        node_gap_ns=node_gap_ns,
        gpu_work_ns=work,
        launch_ns=kernels * tau_ns,
        serial_ns=serial,
        bound_ns=bound,
        graph_ns=graph,
        speedup_serial=serial / graph,
        speedup_bound=bound / graph,
        launch_tax_share=kernels * tau_ns / serial,
    )
