"""Does a mode compute what eager computes? The same inputs and state, three input sets, eager's outputs beside its own.

A graph that was frozen on its first input (a host value read during capture, a buffer replaced instead of
overwritten) fails here: its outputs stay the same when the inputs change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

from ...analysis.model.capture import OutputCheck
from ..target.options import Target
from .device import Step

TOLERANCES: Final = {torch.float16: 1e-2, torch.bfloat16: 8e-2}
"""Allowed ‖error‖ ÷ ‖reference‖ of the worst row (last dimension): ten units in the last place of the dtype, which
another order of rounding adds up to over tens of layers. A frozen or wrong row is off by about 1. Others: 1e-3."""
DEFAULT_TOLERANCE: Final = 1e-3
INPUT_SETS: Final = 3


@dataclass(frozen=True, eq=False)
class Reference:
    """Eager's outputs for each input set, and what to put back before each run."""

    input_sets: tuple[dict[str, torch.Tensor], ...]
    state: tuple[torch.Tensor, ...]
    outputs: tuple[tuple[torch.Tensor, ...], ...]
    read: tuple[str, ...] = ()  # inputs that change the outputs when they alone change; empty where nobody looked


def reference(step: Step, target: Target, *, by_input: bool = False) -> Reference:
    """Run the eager step on every input set, and with ``by_input`` on each input's own changes; inputs and state are as
    before afterwards.

    Before a capture alone: an eager step after it may free what the graph reads.
    """
    state = tuple(tensor.clone() for tensor in target.state)
    with _restored(target, state) as original:
        count = INPUT_SETS if original else 1
        sets = tuple({name: _vary(value, index) for name, value in original.items()} for index in range(count))
        outputs = tuple(_run(step, target, inputs, state) for inputs in sets)
    read = tuple(name for name in original if _changes(step, target, name, state)) if by_input else ()
    return Reference(sets, state, outputs, read)


def compare(step: Step, target: Target, expected: Reference) -> OutputCheck | None:
    """Run a mode's step on the same input sets; null when the step returns no tensor. Leaves inputs as they were."""
    with _restored(target, expected.state):
        found = tuple(_run(step, target, inputs, expected.state) for inputs in expected.input_sets)
    if not expected.outputs[0]:
        return None
    pairs = [pair for e, f in zip(expected.outputs, found, strict=True) for pair in zip(e, f, strict=False)]
    same_form = all(
        len(e) == len(f) and all(a.shape == b.shape for a, b in zip(e, f, strict=True))
        for e, f in zip(expected.outputs, found, strict=True)
    )
    floats = [pair for pair in pairs if same_form and pair[0].is_floating_point() and pair[0].numel()]
    tolerances = [TOLERANCES.get(a.dtype, DEFAULT_TOLERANCE) for a, _ in floats]
    errors = [float(_difference(a.double(), b.double()).abs().max()) for a, b in floats]
    worst = [_worst_row(a.double(), b.double()) for a, b in floats]
    close = all(error <= tolerance for error, tolerance in zip(worst, tolerances, strict=True))
    frozen = _differ(expected.outputs) and not _differ(found)
    whole = same_form and all(torch.equal(a, b) for a, b in pairs if not a.is_floating_point())
    return OutputCheck(
        matches=same_form and close and whole and not frozen,
        max_abs_error=max(errors, default=None) if all(e == e for e in errors) else None,
        max_relative_error=max(worst, default=None) if all(e == e for e in worst) else None,
        tolerance=max(tolerances, default=0.0),
        inputs_compared=len(expected.input_sets),
        inputs_change_output=_differ(expected.outputs),
        note=_note(target, expected, same_form, whole, frozen),
    )


def frozen_inputs(step: Step, target: Target, expected: Reference, *, every: bool = False) -> tuple[str, ...]:
    """The inputs that change eager's outputs when they alone change, and not this step's.

    ``every`` input is tried where ranks that read others run the same steps.
    """
    tried = tuple(target.inputs) if every else expected.read
    same = [name for name in tried if not _changes(step, target, name, expected.state)]
    return tuple(name for name in expected.read if name in same)


def unread_inputs(step: Step, target: Target) -> tuple[str, ...]:
    """The inputs that leave a step's outputs the same, bit for bit, when they alone change.

    None where it can't be told: outputs that are whole numbers (tokens) may be the same by chance, and those that
    differ between two runs on one input say nothing.
    """
    state = tuple(tensor.clone() for tensor in target.state)
    with _restored(target, state) as original:
        first, again = (_run(step, target, original, state) for _ in range(2))
    if not any(output.is_floating_point() for output in first) or _differ((first, again)):
        return ()
    return tuple(name for name in target.inputs if not _changes(step, target, name, state))


def _changes(step: Step, target: Target, name: str, state: tuple[torch.Tensor, ...]) -> bool:
    """Whether the outputs change with this input alone; inputs and state are as before afterwards."""
    with _restored(target, state) as original:
        sets = [original | {name: _vary(original[name], index)} for index in range(INPUT_SETS)]
        return _differ(tuple(_run(step, target, inputs, state) for inputs in sets))


def _note(target: Target, expected: Reference, same_form: bool, whole: bool, frozen: bool) -> str | None:
    if not same_form:
        return "the outputs have other shapes than eager's"
    if frozen:
        return "frozen on its first input: the outputs stay the same when the inputs change"
    if not whole:
        return "whole-number outputs (tokens) differ from eager's"
    if not target.inputs:
        return "one input compared: the target names no inputs"
    if not _differ(expected.outputs):
        return "eager's own outputs don't change with the inputs, so a frozen graph can't be told"
    return None


def _run(
    step: Step, target: Target, inputs: dict[str, torch.Tensor], state: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    _restore(target, inputs, state)
    torch.manual_seed(0)
    leaves: list[Any] = tree_leaves(step())
    outputs = tuple(leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor))
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call,unused-ignore]
        torch.cuda.synchronize()  # a copy from a host buffer may still be to come, and the next run overwrites that
    return outputs


@contextmanager
def _restored(target: Target, state: tuple[torch.Tensor, ...]) -> Iterator[dict[str, torch.Tensor]]:
    """The inputs as they are; they and the state are so again afterwards."""
    original = {name: tensor.clone() for name, tensor in target.inputs.items()}
    try:
        yield original
    finally:
        _restore(target, original, state)


def _restore(target: Target, inputs: dict[str, torch.Tensor], state: tuple[torch.Tensor, ...]) -> None:
    for name, value in inputs.items():
        target.inputs[name].copy_(value)
    for tensor, value in zip(target.state, state, strict=True):
        tensor.copy_(value)


def _vary(value: torch.Tensor, index: int) -> torch.Tensor:
    """The ``index``-th variation of an input; 0 is the input itself. Each whole number goes down, so that a token or a
    position stays valid, and up only from below the number of variations. Real numbers change places too: a norm takes
    out what only changes their size."""
    if index == 0 or value.dtype is torch.bool:
        return value.clone()
    if value.is_floating_point() or value.is_complex():
        return (value * (1 + 0.1 * index)).roll(index)
    return torch.where(value >= INPUT_SETS, value - index, value + index)


def _worst_row(expected: torch.Tensor, found: torch.Tensor) -> float:
    """Largest ‖error‖ ÷ ‖reference‖ over the rows; NaN where either has one. Masked values (-inf in both) are equal."""
    rows = expected.reshape(-1, expected.shape[-1] if expected.dim() else 1)
    error = _difference(rows, found.reshape(rows.shape)).norm(dim=1)
    reference = torch.where(rows.isinf(), 0.0, rows).norm(dim=1)
    return float((error / reference.clamp_min(torch.finfo(rows.dtype).tiny)).max())


def _difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(a == b, 0.0, a - b)


def _differ(outputs: tuple[tuple[torch.Tensor, ...], ...]) -> bool:
    first = outputs[0]
    return any(not torch.equal(a, b) for other in outputs[1:] for a, b in zip(first, other, strict=False))
