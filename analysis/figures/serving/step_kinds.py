"""Prefill or decode: what a step's annotations say, else its attention's shapes, its GPU work and its replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...facts.phase_names import DECODE, KINDS, PREFILL, kind_of
from ...facts.tensor_shapes import Tensor, inputs_of
from ...model.trace import NONE, Bools, HostKind, Ints, Trace
from .launches import ServingSteps

_ATTENTION: Final = "aten::scaled_dot_product_attention"
LEAST_PROMPT: Final = 16
"""Query positions of a prefill, at least: a few more than one are those of speculative decoding, too."""

LEAST_RATIO: Final = 1.2
"""GPU work outside of sampling of the lightest step called prefill ÷ that of the heaviest called decode, at least."""
DECODE_SPREAD: Final = 1.25
"""GPU work outside of sampling of the heaviest step called decode ÷ that of the lightest, at most: their kernels are
the same."""
MOST_SAMPLING: Final = 1.25
"""GPU work of sampling of a step called prefill ÷ the decodes' median, at most: a prefill computes more tokens and
samples no more. A decode of a larger batch does."""


EVIDENCE: Final = ("annotation", "shapes", "structure")


@dataclass(frozen=True, eq=False)
class StepKinds:
    """The kind of each step by its index in ``KINDS``, and what told it in ``EVIDENCE``; NONE where nothing does."""

    kind: Ints
    evidence: Ints
    reason: str | None  # why some are not told apart

    def evidence_of(self, steps: Ints) -> str | None:
        """What told the kind of these steps, in words."""
        return ", ".join(EVIDENCE[e] for e in np.unique(self.evidence[steps]).tolist() if e != NONE) or None


def step_kinds(trace: Trace, steps: ServingSteps, work_ns: Ints, sampling_ns: Ints, replays: Ints) -> StepKinds:
    """Kinds of the steps; reasons are told of those that count.

    ``work_ns`` is the GPU work of each step but for sampling, ``sampling_ns`` that, ``replays`` its graph launches.
    """
    used = steps.used
    kind, told_by = _by_annotation(trace, steps), "annotation"
    is_annotated = (kind[used] != NONE).any()
    if not is_annotated:
        kind, told_by = _by_shapes(trace, steps), "shapes"
    evidence = np.where(kind == NONE, NONE, EVIDENCE.index(told_by))
    untold = used[kind[used] == NONE]
    if is_annotated or not len(untold):
        lacking = f"the annotations of {len(untold):,} of {len(used):,} steps don't tell their kind"
        return StepKinds(kind, evidence, lacking if len(untold) else None)
    with_replay = replays[used] > 0
    names = [] if with_replay.any() and not with_replay.all() else _kernels(trace, steps)
    decodes, reason = _decodes(work_ns[used], sampling_ns[used], with_replay, names)
    if decodes is not None:
        guess = np.where(decodes, KINDS.index(DECODE), KINDS.index(PREFILL))
        if ((kind[used] == NONE) | (kind[used] == guess)).all():
            kind[used] = guess
            evidence[untold] = EVIDENCE.index("structure")
        else:
            reason = "the steps' GPU work and the shapes of their attention tell different kinds"
    return StepKinds(kind, evidence, reason)


def _by_annotation(trace: Trace, steps: ServingSteps) -> Ints:
    """The kind of the first annotation in each range that names one."""
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    kinds = {name: kind_of(trace.name(name)) for name in np.unique(host.name[rows]).tolist()}
    places = {name: KINDS.index(kind) for name, kind in kinds.items() if kind is not None}
    rows = rows[np.isin(host.name[rows], list(places))]
    found = np.full(len(steps), NONE, np.int64)
    first = np.searchsorted(host.start_ns[rows], steps.start_ns)
    inside = np.flatnonzero(first < len(rows))
    inside = inside[host.start_ns[rows[first[inside]]] < steps.end_ns[inside]]
    found[inside] = [places[name] for name in host.name[rows[first[inside]]].tolist()]
    return found


def _by_shapes(trace: Trace, steps: ServingSteps) -> Ints:
    """By the queries of PyTorch's attention, where shapes were recorded: one position is a decode, many a prefill."""
    host = trace.host_ops
    found = np.full(len(steps), NONE, np.int64)
    if _ATTENTION not in trace.names or not trace.shapes:
        return found
    rows = np.flatnonzero((host.name == trace.names.index(_ATTENTION)) & (host.shapes != NONE))
    queries = {shapes: _positions(trace.shapes[shapes]) for shapes in np.unique(host.shapes[rows]).tolist()}
    length = np.array([queries[shapes] for shapes in host.shapes[rows].tolist()], np.int64)
    first, last = (np.searchsorted(host.start_ns[rows], times).tolist() for times in (steps.start_ns, steps.end_ns))
    for step, (since, until) in enumerate(zip(first, last, strict=True)):
        if since < until and (length[since:until] == 1).all():
            found[step] = KINDS.index(DECODE)
        elif since < until and (length[since:until] >= LEAST_PROMPT).all():
            found[step] = KINDS.index(PREFILL)
    return found


def _positions(shapes: str) -> int:
    """Query positions of an attention's inputs [batch, heads, positions, size]; 0 where they are not so."""
    query = next(iter(inputs_of(shapes)), None)
    return query.dims[2] if isinstance(query, Tensor) and len(query.dims) == 4 else 0


def _decodes(
    work: Ints, sampling: Ints, with_replay: Bools, names: Sequence[frozenset[int]]
) -> tuple[Bools | None, str | None]:
    """Which steps are decodes, or why that can't be told; ``names`` are their kernels', none where replays tell.

    Decodes alone replay graphs, or run the kernels of the lightest step; they are alike and lighter than any prefill,
    which samples no more than they do.
    """
    light = with_replay
    if names:
        lightest = names[int(np.argmin(work))]
        light = np.array([each == lightest for each in names], np.bool_)
        if light.all():
            return None, "all steps run the same kernels, so nothing tells prefill from decode"
    if work[~light].min() < LEAST_RATIO * work[light].max() or work[light].max() > DECODE_SPREAD * work[light].min():
        what = "kernels" if names else "replays"
        return None, f"steps differ in their {what}, but too little in GPU work to tell prefill from decode"
    usual = float(np.median(sampling[light]))
    if not usual or sampling[~light].max() > MOST_SAMPLING * usual:
        return None, "steps that do more GPU work sample more, too: their batch may be larger, so no kind is told"
    return light, None


def _kernels(trace: Trace, steps: ServingSteps) -> list[frozenset[int]]:
    """Names of the kernels that were launched in each of the steps that count."""
    ops = trace.gpu_ops
    rows = np.flatnonzero(ops.is_kernel & (ops.launch_row != NONE))
    rows = rows[np.argsort(ops.launch_row[rows], kind="stable")]
    firsts, lasts = (
        np.searchsorted(ops.launch_row[rows], np.searchsorted(trace.launches.start_ns, times[steps.used])).tolist()
        for times in (steps.start_ns, steps.end_ns)
    )
    names = ops.name[rows]
    return [frozenset(names[first:last].tolist()) for first, last in zip(firsts, lasts, strict=True)]
