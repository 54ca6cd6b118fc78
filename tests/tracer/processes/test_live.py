"""A live object, measured in this process: all timings first, then one session; labelled; once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from launchscope import Target
from launchscope.analysis.model.capture import open_capture
from launchscope.analysis.model.errors import BadTarget, LaunchscopeError, MissingRequirement, NothingMeasured
from launchscope.analysis.report import load
from launchscope.tracer.processes import api
from launchscope.tracer.target.options import ProfileOptions

from .. import fake_device
from ..fake_device import FakeDevice, MissingDevice

Measure = Callable[..., Path]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Profile an object as in a fresh process, on a fresh device."""
    monkeypatch.setattr(api, "_profiled", False)
    monkeypatch.setattr(fake_device, "_machine", fake_device._Machine())

    def run(
        found: Any,
        progress: Callable[[str], None] = lambda _: None,
        device: FakeDevice | None = None,
        example_inputs: Any = None,
        **options: Any,
    ) -> Path:
        chosen = ProfileOptions(target="live", **{"modes": ("eager", "graph"), "steps": 4} | options)
        return api.profile_live(
            found, chosen, example_inputs=example_inputs, out=tmp_path / "capture", device=device or FakeDevice(),
            progress=progress,
        )  # fmt: skip

    return run


def decode() -> Target:
    """Three kernels and one output."""
    x = torch.ones(2)

    def step() -> torch.Tensor:
        for name in ("norm", "gemm", "add"):
            fake_device.launch(name, 20)
        return x * 2

    return Target(step, {"x": x}, model=torch.nn.Linear(2, 3))


def test_all_timings_come_before_the_one_session(measure: Measure) -> None:
    """The fake device itself fails on a timing after a session, and on a second session."""
    said: list[str] = []
    path = measure(decode(), said.append)
    assert said.count("profiler session") == 1
    assert max(i for i, phase in enumerate(said) if phase == "timing") < said.index("profiler session")
    manifest = open_capture(path).manifest
    for record in manifest.modes.values():
        (process,) = record.processes
        assert (len(process.samples_ns), len(process.marks_ns), process.error) == (40, 4, None)
    output = manifest.modes["graph"].processes[0].output
    assert output is not None
    assert output.matches


def test_it_says_that_there_is_no_spread(measure: Measure) -> None:
    document = load(measure(decode())).document
    assert document.target is not None
    assert (document.target.name, document.target.parameters) == ("Target", 9)
    assert "one process: no spread" in document.target.labels
    assert document.profile is not None
    step = document.profile.modes["eager"].step_ns
    assert step is not None
    assert (step.ci_low, step.ci_high) == (None, None)


def test_each_mode_finds_its_own_steps_in_the_one_trace(measure: Measure) -> None:
    document = load(measure(decode())).document
    assert document.profile is not None
    eager, graph = document.profile.modes["eager"], document.profile.modes["graph"]
    assert (eager.launches, eager.kernels, graph.launches, graph.kernels) == (3, 3, 1, 3)
    assert eager.gpu_work_ns == graph.gpu_work_ns == pytest.approx(60_000, abs=10)


def test_a_second_call_is_refused(measure: Measure) -> None:
    measure(decode())
    with pytest.raises(LaunchscopeError, match=r"a profiler has run in this process.*restart Python"):
        measure(decode())


def test_a_profiler_of_theirs_is_noticed(measure: Measure) -> None:
    theirs = torch.autograd.profiler.profile(enabled=False)
    with pytest.raises(LaunchscopeError, match="a profiler has run in this process"):
        measure(decode())
    del theirs
    measure(decode())


def test_a_mode_that_fails_is_a_row(measure: Measure) -> None:
    def step() -> None:
        fake_device.launch("gemm")
        fake_device.wait()

    modes = open_capture(measure(step)).manifest.modes
    assert modes["eager"].error is None
    assert modes["graph"].error is not None
    assert modes["graph"].error.startswith("can't be captured")


def test_when_nothing_ran_nothing_is_kept_and_it_may_be_tried_again(measure: Measure, tmp_path: Path) -> None:
    def step() -> None:
        fake_device.launch("gemm")
        fake_device.wait()

    with pytest.raises(NothingMeasured, match=r"no mode ran: graph: can't be captured"):
        measure(step, modes=("graph",))
    assert list(tmp_path.iterdir()) == []
    measure(decode())


def test_a_module_with_example_inputs(measure: Measure) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            fake_device.launch("gemm")
            return x * 2

    target = open_capture(measure(Net(), example_inputs=torch.ones(1, 2))).manifest.target
    assert target.name == "Net"


def test_a_factory_of_theirs(measure: Measure) -> None:
    def build(batch_size: int, layers: int = 1) -> Callable[[], None]:
        return lambda: [fake_device.launch("gemm") for _ in range(layers)] and None

    document = load(measure(build, settings={"layers": "4"}, batch_size=2)).document
    assert document.profile is not None
    assert document.profile.modes["eager"].launches == 4
    assert document.target is not None
    assert document.target.batch_size == 2


def test_what_is_refused_leaves_nothing(measure: Measure, tmp_path: Path) -> None:
    with pytest.raises(BadTarget, match="the target is a int"):
        measure(3)
    with pytest.raises(MissingRequirement, match=r"nothing to run on \(without a GPU: `launchscope demo`"):
        measure(decode(), device=MissingDevice())
    assert list(tmp_path.iterdir()) == []


def test_gradients_are_off_in_the_step_and_as_before_after_it(measure: Measure) -> None:
    seen: list[bool] = []

    def step() -> None:
        fake_device.launch("gemm")
        seen.append(torch.is_grad_enabled())

    measure(step, modes=("eager",))
    assert set(seen) == {False}
    assert torch.is_grad_enabled()
