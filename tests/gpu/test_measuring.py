"""The measuring code on a real GPU: facts free of the clock, and wide bounds (docs/validation.md has the figures)."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from launchscope.analysis.model.capture import Capture, ProcessRecord, open_capture
from launchscope.analysis.report import Report, load
from launchscope.tracer.measure.device import CUDA
from launchscope.tracer.processes.api import run_profile
from launchscope.tracer.processes.calibrate import calibrate
from launchscope.tracer.target.options import ProfileOptions

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

MODELS = Path(__file__).parents[2] / "fixtures" / "models"


def profile(folder: Path, target: Path | str, **options: object) -> tuple[Capture, Report]:
    path = run_profile(ProfileOptions(target=str(target), out=folder / "capture", **options), lambda _: None)  # type: ignore[arg-type]
    return open_capture(path), load(path)


def processes(capture: Capture, mode: str) -> tuple[ProcessRecord, ...]:
    return capture.manifest.modes[mode].processes


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, Report]:
    folder = tmp_path_factory.mktemp("tiny")
    return profile(folder, f"{MODELS / 'llama.py'}:tiny", repeats=2, steps=6)


def test_all_four_modes_of_a_model_run_and_agree_with_eager(tiny: tuple[Capture, Report]) -> None:
    capture, report = tiny
    assert report.document.profile is not None
    for mode, found in report.document.profile.modes.items():
        assert found.error is None, mode
        if mode != "eager":
            assert found.output_matches_eager is True, mode
    assert processes(capture, "graph")[0].output is not None


def test_a_graph_step_is_one_launch_of_as_many_ops_as_eager_launches(tiny: tuple[Capture, Report]) -> None:
    _, report = tiny
    modes = report.document.profile.modes  # type: ignore[union-attr]
    assert modes["graph"].launches == 1
    assert modes["graph"].gpu_ops == modes["eager"].gpu_ops == modes["eager"].launches
    assert modes["fused"].kernels < modes["eager"].kernels  # type: ignore[operator]


def test_every_kept_step_of_every_recording_has_the_same_launches(tiny: tuple[Capture, Report]) -> None:
    _, report = tiny
    for trace in report.document.traces:
        assert trace.coverage.step_source == "capture", trace.name
        assert trace.coverage.reliable, trace.name
        assert trace.coverage.unlinked == 0, trace.name
        assert trace.steps is not None
        assert trace.steps.launches.p10 == trace.steps.launches.p90, trace.name


def test_the_gpu_s_work_in_a_graph_is_that_of_eager(tiny: tuple[Capture, Report]) -> None:
    modes = tiny[1].document.profile.modes  # type: ignore[union-attr]
    eager, graph = modes["eager"], modes["graph"]
    assert graph.gpu_work_ns == pytest.approx(eager.gpu_work_ns, rel=0.15)  # 1 to 2 µs kernels: CUPTI stretches them


def test_the_step_time_of_graph_mode_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    target = tmp_path / "model.py"
    target.write_text(
        "from launchscope.fixtures.models import llama_1b\n"
        "def build(batch_size, device, dtype, context_length):\n"
        "    return llama_1b.build(batch_size, device, dtype, context_length, layers=4)\n"
    )
    capture, _ = profile(tmp_path, target, repeats=1, modes=("graph",))
    loop = Path(__file__).parents[2] / "benchmarks" / "plain_graph_loop.py"
    done = subprocess.run([sys.executable, str(loop), str(target)], capture_output=True, text=True, check=True)
    plain_ms = float(done.stdout.split(":")[-1].split()[0])
    ours_ms = statistics.median(processes(capture, "graph")[0].samples_ns) / 1e6
    assert ours_ms == pytest.approx(plain_ms, rel=0.02)


def test_a_step_that_reads_back_can_t_be_captured_and_the_other_modes_finish(tmp_path: Path) -> None:
    target = tmp_path / "model.py"
    target.write_text(
        "import torch\n"
        "x = torch.ones(64, 64, device='cuda')\n"
        "def step():\n"
        "    y = x @ x\n"
        "    if y.sum().item() > 0:\n"
        "        y = y + 1\n"
        "    return y\n"
    )
    capture, report = profile(tmp_path, target, repeats=2, modes=("eager", "graph"))
    assert "model.py:5 in step: if y.sum().item() > 0:" in (capture.manifest.modes["graph"].error or "")
    eager = report.document.profile.modes["eager"]  # type: ignore[union-attr]
    assert eager.error is None
    assert eager.sync_tax_ns is not None
    assert eager.sync_tax_ns > 0
    blocking = [trace.steps.blocking_calls.median for trace in report.document.traces if trace.steps]
    assert set(blocking) == {1.0} or min(b for b in blocking if b is not None) >= 1


def test_a_frozen_graph_is_told_from_eager(tmp_path: Path) -> None:
    target = tmp_path / "model.py"
    target.write_text(
        "import torch\n"
        "from launchscope import Target\n"
        "def build(device):\n"
        "    token = torch.tensor([7], device=device)\n"
        "    table = torch.randn(16, 64, device=device)\n"
        "    seen = []\n"
        "    def step():\n"
        "        if not torch.cuda.is_current_stream_capturing():\n"
        "            seen[:] = [token.clone()]\n"
        "        return table[seen[0]] * 2\n"
        "    return Target(step, {'token': token})\n"
    )
    capture, _ = profile(tmp_path, target, repeats=1, modes=("eager", "graph"))
    output = processes(capture, "graph")[0].output
    assert output is not None
    assert not output.matches


def test_a_step_under_a_graph_of_its_own_runs_once_as_written(tmp_path: Path) -> None:
    capture, report = profile(
        tmp_path, MODELS / "serve_loop.py", repeats=1, settings={"graph": "true", "shape": "tiny"}
    )
    assert list(capture.manifest.modes) == ["as_written"]
    (trace,) = report.document.traces
    assert trace.mode is None
    assert trace.steps is not None
    assert trace.steps.graph_launches.median == 1
    steady = trace.devices[0].steady
    assert steady is not None
    assert steady.gaps.by_cause["sync"].boundary_ns == steady.gaps.by_cause["sync"].ns  # its wait ends the step


def test_the_calibration_of_this_machine_is_plausible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured, before, path = calibrate(False, lambda _: None, CUDA)
    assert not before
    assert 1_000 < measured.tau_floor_ns < 100_000  # type: ignore[operator]
    assert -500 < measured.node_gap_ns < 5_000  # type: ignore[operator]
    assert 1e11 < measured.bandwidth_bytes_per_s < 1e13  # type: ignore[operator]
    assert measured.flops_per_s["bf16"] > measured.flops_per_s["fp32"]
    assert calibrate(False, lambda _: None, CUDA) == (measured, True, path)


def test_no_process_is_left_on_the_gpu(tiny: tuple[Capture, Report]) -> None:
    done = subprocess.run(
        ["pgrep", "-f", "launchscope.tracer.processes.server"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == ""


def test_a_live_function_is_measured_here_and_labelled_so(tmp_path: Path) -> None:
    script = tmp_path / "live.py"
    script.write_text(
        "import sys, torch, launchscope\n"
        "x = torch.ones(256, 256, device='cuda')\n"
        "report = launchscope.profile(lambda: x @ x + 1, modes=('eager', 'graph'), out=sys.argv[1])\n"
        "assert 'one process: no spread' in report.document.target.labels, report.document.target\n"
        "assert set(report.document.profile.modes) == {'eager', 'graph'}\n"
        "assert report.document.profile.modes['graph'].launches == 1\n"
        "try:\n"
        "    launchscope.profile(lambda: x @ x, out=sys.argv[1] + '2')\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "capture")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "a profiler has run in this process" in done.stdout
