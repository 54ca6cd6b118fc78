"""The output check: three input sets from one state, and what fails it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from launchscope import Target
from launchscope.analysis.model.capture import OutputCheck
from launchscope.tracer.measure import protocol
from launchscope.tracer.measure.device import Step
from launchscope.tracer.measure.outputs import compare, reference

from ..fake_device import FakeDevice


class Decoder:
    """Adds its token to a cache slot and returns the cache: an input, a state and a step."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.token = torch.tensor([7, 9])
        self.cache = torch.arange(8, dtype=dtype).reshape(2, 4)
        self.seen: list[list[int]] = []

    def step(self) -> torch.Tensor:
        self.seen.append(self.token.tolist())
        self.cache += self.token[:, None]
        return self.cache * 2

    def target(self) -> Target:
        return Target(self.step, {"token": self.token}, [self.cache])


def check(target: Target, other: Step) -> OutputCheck:
    found = compare(other, target, reference(target.step, target))
    assert found is not None
    return found


def test_three_input_sets_from_the_same_state_which_is_put_back() -> None:
    decoder = Decoder()
    found = check(decoder.target(), decoder.step)
    assert decoder.seen == [[7, 9], [6, 8], [5, 7]] * 2
    assert decoder.token.tolist() == [7, 9]
    assert decoder.cache.flatten().tolist() == list(range(8))
    assert found == OutputCheck(
        matches=True,
        max_abs_error=0.0,
        max_relative_error=0.0,
        tolerance=1e-3,
        inputs_compared=3,
        inputs_change_output=True,
    )


def test_a_step_frozen_on_its_first_input_fails() -> None:
    decoder = Decoder()
    frozen = decoder.cache * 2 + 2 * decoder.token[:, None]
    found = check(decoder.target(), lambda: frozen)
    assert (found.matches, found.inputs_change_output) == (False, True)
    assert found.note == "frozen on its first input: the outputs stay the same when the inputs change"


def test_a_frozen_step_fails_even_within_the_tolerance() -> None:
    x = torch.ones(4)
    target = Target(lambda: 1_000 + x / 100, {"x": x})
    frozen = target.step()
    found = check(target, lambda: frozen)
    assert found.max_relative_error is not None
    assert found.max_relative_error < found.tolerance
    assert not found.matches


@pytest.mark.parametrize(
    ("dtype", "error", "matches"),
    [
        (torch.float32, 5e-4, True), (torch.float32, 2e-3, False),
        (torch.bfloat16, 4e-2, True), (torch.bfloat16, 0.2, False),
        (torch.float16, 5e-3, True), (torch.float16, 2e-2, False),
    ],
)  # fmt: skip
def test_the_tolerance_is_that_of_the_dtype(dtype: torch.dtype, error: float, matches: bool) -> None:
    x = torch.ones(2, 4, dtype=dtype)
    found = check(Target(lambda: x + 1, {"x": x}), lambda: ((x + 1).double() * (1 + error)).to(dtype))
    assert found.matches is matches
    assert found.max_relative_error == pytest.approx(error, rel=0.5)


def test_the_worst_row_counts_not_the_mean() -> None:
    x = torch.ones(100, 4)
    wrong = torch.ones(100, 1)
    wrong[37] = 1.1
    found = check(Target(lambda: x * 2, {"x": x}), lambda: x * 2 * wrong)
    assert found.matches is False
    assert found.max_relative_error == pytest.approx(0.1)
    assert found.max_abs_error == pytest.approx(0.24)  # of the largest input set, 1.2 × 2


def test_masked_logits_are_equal() -> None:
    x = torch.tensor([[1.0, float("-inf"), 3.0]])
    target = Target(lambda: x * 2, {"x": x})
    assert check(target, target.step).matches is True
    assert check(target, lambda: x.clamp(min=-1e9) * 2).matches is False


def test_nan_is_no_match_and_no_number() -> None:
    x = torch.ones(1, 2)
    found = check(Target(lambda: x * 2, {"x": x}), lambda: x * float("nan"))
    assert (found.matches, found.max_abs_error, found.max_relative_error) == (False, None, None)


def test_tokens_must_be_equal() -> None:
    token = torch.tensor([5])
    found = check(Target(lambda: token + 1, {"token": token}), lambda: token + 2)
    assert (found.matches, found.note) == (False, "whole-number outputs (tokens) differ from eager's")


def test_other_shapes_are_told() -> None:
    x = torch.ones(2)
    for other in (lambda: x[:1], lambda: (x, x)):
        found = check(Target(lambda: x * 2, {"x": x}), other)
        assert (found.matches, found.note) == (False, "the outputs have other shapes than eager's")


def test_a_target_without_named_inputs_is_compared_on_one() -> None:
    x = torch.ones(2)
    found = check(Target(lambda: x * 2), lambda: x * 2)
    assert (found.matches, found.inputs_compared, found.inputs_change_output) == (True, 1, False)
    assert found.note == "one input compared: the target names no inputs"


def test_inputs_that_change_nothing_are_told() -> None:
    x, unused = torch.ones(2), torch.ones(1)
    found = check(Target(lambda: x * 2, {"unused": unused}), lambda: x * 2)
    assert found.note == "eager's own outputs don't change with the inputs, so a frozen graph can't be told"


def test_nothing_returned_is_not_compared() -> None:
    target = Target(lambda: None)
    assert compare(target.step, target, reference(target.step, target)) is None


def test_containers_of_outputs_are_compared() -> None:
    x = torch.ones(2)
    assert check(Target(lambda: {"a": (x, [x * 2])}, {"x": x}), lambda: {"a": (x, [x * 2])}).matches


def test_every_varied_token_is_a_token() -> None:
    """The last of a vocabulary goes down, the first goes up."""
    table = torch.arange(256.0)
    token = torch.tensor([0, 255, 2])
    seen: list[list[int]] = []
    target = Target(lambda: (seen.append(token.tolist()), table[token])[1], {"token": token})
    reference(target.step, target)
    assert seen == [[0, 255, 2], [1, 254, 3], [2, 253, 4]]


def test_varied_reals_change_more_than_their_size() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    found = check(Target(lambda: x / x.norm(), {"x": x}), lambda: torch.tensor([1.0, 2.0, 3.0]) / 14**0.5)
    assert found.max_relative_error is not None
    assert found.max_relative_error > 0.3


def test_a_check_that_fails_costs_the_check_and_not_the_mode() -> None:
    index = torch.tensor([1])
    table = torch.ones(2)
    target = Target(lambda: table[index], {"index": index})
    progress = protocol.Progress(lambda _: None)
    _, costs = protocol.into_mode("graph", target, FakeDevice(), progress, check=True)
    assert "output" not in costs
    assert costs["capture_ns"] is not None
    assert "outputs not compared: eager fails on varied inputs: IndexError" in costs["notes"][0]
    assert index.tolist() == [1]
