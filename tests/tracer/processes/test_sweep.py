"""A sweep on the fake device: a capture per batch size, kept and taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.model.capture import open_capture
from launchscope.analysis.model.errors import BadTarget, LaunchscopeError
from launchscope.tracer.processes import api
from launchscope.tracer.processes.sweep import Point, run_sweep
from launchscope.tracer.target.options import ProfileOptions

from ..conftest import LAYER, Profiler, Shared

MODEL = """
    import fake_device

    def build(batch_size=1):
        if batch_size > 4:
            raise RuntimeError("out of memory")
        def step():
            for _ in range(batch_size):
                fake_device.launch("gemm")
        return step
"""


def sweep(
    profile: Profiler, target: Path | str, *sizes: int | Point, **options: object
) -> list[tuple[int, Path | None, str | None]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(profile.folder / "cache"))
        patch.setattr(api, "ForkServer", lambda _: Shared(profile.server))
        folder = profile.folder / str(options.pop("folder", "sweep"))
        chosen = {"modes": ("eager",), "repeats": 1, "steps": 4} | options
        asked = ProfileOptions(target=str(target), **chosen)  # type: ignore[arg-type]
        points = [size if isinstance(size, Point) else Point(size) for size in sizes]
        found = run_sweep(asked, points, folder, profile.said.append, LAYER)  # type: ignore[attr-defined]
        return [(point.size, path, error) for point, path, error in found]


@pytest.fixture
def sweeper(profile: Profiler) -> Profiler:
    profile.said = []  # type: ignore[attr-defined]
    return profile


def test_each_batch_size_is_a_capture_and_what_is_there_is_kept(sweeper: Profiler) -> None:
    model = sweeper.script(MODEL)
    first = sweep(sweeper, model, 1, 2)
    assert [(size, error) for size, _, error in first] == [(1, None), (2, None)]
    for size, path, _ in first:
        assert path is not None
        assert open_capture(path).manifest.target.batch_size == size
    assert any(line.startswith("batch 2 (2 of 2): ") for line in sweeper.said)  # type: ignore[attr-defined]
    before = [path.stat().st_mtime_ns for _, path, _ in first if path]
    again = sweep(sweeper, model, 1, 2, 8)
    assert [path.stat().st_mtime_ns for _, path, _ in again if path] == before
    assert again[2][:2] == (8, None)
    assert "out of memory" in (again[2][2] or "")


def test_a_prompt_length_is_a_parameter_of_the_target_s_build(sweeper: Profiler) -> None:
    prompts = Point(3, kind="prompt"), Point(5, kind="prompt")
    model = sweeper.script(MODEL.replace("batch_size=1", "batch_size=1, prompt_length=1"), "prefill.py")
    measured = sweep(sweeper, model, 2, *prompts)
    assert [path.name for _, path, _ in measured if path] == ["batch-2.zip", "prompt-3.zip", "prompt-5.zip"]
    path = measured[1][1]
    assert path is not None
    assert open_capture(path).manifest.target.settings == {"prompt_length": "3"}
    assert sweep(sweeper, model, 2, *prompts) == measured
    with pytest.raises(BadTarget, match=r"--set prompt_length: build\(\) has no such parameter"):
        sweep(sweeper, sweeper.script(MODEL, "decode.py"), *prompts[1:], folder="other")


def test_a_named_target_goes_on_and_more_repeats_are_measured_anew(sweeper: Profiler) -> None:
    target = f"{sweeper.script(MODEL)}:build"
    assert sweep(sweeper, target, 1) == sweep(sweeper, target, 1)
    with pytest.raises(LaunchscopeError, match="measured before with repeats 1, not 2"):
        sweep(sweeper, target, 1, repeats=2)
    assert sweep(sweeper, target, 2, repeats=2) == sweep(sweeper, target, 2, repeats=2)


def test_a_capture_of_something_else_is_not_taken(sweeper: Profiler) -> None:
    model = sweeper.script(MODEL)
    sweep(sweeper, model, 1)
    other = sweeper.script(MODEL, "other.py")
    with pytest.raises(LaunchscopeError, match=r"batch-1.zip: measured before with target model.py, not other.py"):
        sweep(sweeper, other, 1)
