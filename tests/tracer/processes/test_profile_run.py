"""A whole profile without a GPU: fresh processes, alternating passes, a capture, its report; and every way to fail."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from launchscope import cli
from launchscope.analysis.model.capture import Manifest, open_capture
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.model.errors import BadTarget, LaunchscopeError, MissingRequirement, NothingMeasured
from launchscope.analysis.report import Report, load
from launchscope.tracer.processes import api
from launchscope.tracer.processes.calibrate import probe_machine
from launchscope.tracer.processes.client import ForkServer
from launchscope.tracer.processes.worker import STACK_STEPS

from ..conftest import Profiler, Write, assert_gone

DECODE = """
    import os
    from pathlib import Path

    import fake_device
    import torch
    from launchscope import Target

    with Path(__file__).with_name("pids").open("a") as pids:
        print(os.getpid(), file=pids)


    def build(batch_size=1, layers=2, api_token=None):
        token = torch.ones(batch_size, 4)

        def step():
            for layer in range(layers):
                fake_device.launch("gemm", 20)
                fake_device.launch("norm", 5)
            return token * 2

        return Target(step, inputs={"token": token})
"""
STEP = """
    import fake_device

    def step():
        fake_device.launch("gemm")
"""


def manifest_of(path: Path) -> Manifest:
    return open_capture(path).manifest


class Run:
    """One full profile: two modes, three repeats."""

    def __init__(self, profile: Profiler) -> None:
        self.said: list[str] = []
        script = profile.script(DECODE)
        modes = ("eager", "graph")
        settings = {"layers": "3", "api_token": "hush"}
        self.path = profile(script, self.said.append, modes=modes, repeats=3, steps=5, settings=settings, batch_size=2)
        self.manifest = manifest_of(self.path)
        self.report: Report = load(self.path)
        self.pids = script.with_name("pids").read_text().split()


@pytest.fixture(scope="module")
def run(server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(Profiler(server, tmp_path_factory.mktemp("run")))


def test_passes_alternate_and_stacks_come_last(run: Run) -> None:
    passes = {mode: [p.trace_pass for p in record.processes] for mode, record in run.manifest.modes.items()}
    assert passes == {"eager": ["cuda", "cpu_cuda", "cuda", "stacks"], "graph": ["cuda", "cpu_cuda", "cuda"]}


def test_each_mode_and_repeat_is_a_fresh_process(run: Run) -> None:
    assert len(run.pids) == len(set(run.pids)) == 7


def test_repeats_go_round_the_modes(run: Run) -> None:
    order = [line.rpartition(":")[0] for line in run.said if line.endswith(": build")]
    assert order == [
        "eager, process 1 of 3", "graph, process 1 of 3", "eager, process 2 of 3", "graph, process 2 of 3",
        "eager, process 3 of 3", "graph, process 3 of 3", "eager, with stacks",
    ]  # fmt: skip


def test_every_sample_is_kept_and_none_is_taken_where_stacks_are(run: Run) -> None:
    *timed, stacks = run.manifest.modes["eager"].processes
    for process in timed:
        assert len(process.samples_ns) == 40
        assert len(process.warmup_ns) == 12
        assert len(process.host_submit_ns) == 20
        assert len(process.marks_ns) == 5
        assert process.before is not None
        assert process.error is None
    assert (stacks.samples_ns, stacks.host_submit_ns, len(stacks.marks_ns)) == ((), (), STACK_STEPS)


def test_the_manifest_is_complete(run: Run) -> None:
    manifest = run.manifest
    target = manifest.target
    assert (target.name, target.batch_size, target.settings) == ("model.py", 2, {"layers": "3", "api_token": "***"})
    assert manifest.environment["gpu"] == "Fake GPU"
    assert manifest.calibration is not None
    assert manifest.floor is not None
    assert manifest.floor.bytes == 2 * 4 * 4
    assert {"import torch", "calibrate", "build", "warm up", "timing", "capture", "export", "all"} <= set(
        manifest.seconds
    )
    assert b"hush" not in (run.path / "manifest.json").read_bytes()
    traces = {p.trace for record in manifest.modes.values() for p in record.processes}
    assert traces == {str(file.relative_to(run.path)) for file in (run.path / "traces").iterdir()}


def test_a_graph_costs_and_computes_what_it_should(run: Run) -> None:
    first, *later = run.manifest.modes["graph"].processes
    assert first.graph_memory_bytes == 1 << 20
    assert first.capture_ns is not None
    assert first.output is not None
    assert (first.output.matches, first.output.inputs_compared, first.output.note) == (True, 3, None)
    assert [process.output for process in later] == [None, None]


def test_the_report_knows_both_modes(run: Run) -> None:
    document = msgspec.json.decode(run.report.to_json(), type=ReportDocument)
    assert document.profile is not None
    eager, graph = document.profile.modes["eager"], document.profile.modes["graph"]
    assert (eager.launches, eager.kernels, graph.launches, graph.kernels) == (6, 6, 1, 6)
    assert eager.gpu_work_ns == pytest.approx(75_000, abs=10)
    assert graph.output_matches_eager is True
    assert set(eager.observer_effect) == {"cuda", "cpu_cuda"}
    assert all(trace.coverage.reliable for trace in document.traces)
    assert {trace.coverage.step_source for trace in document.traces} == {"capture"}
    stacks = next(trace for trace in document.traces if trace.trace_pass == "stacks")
    assert any("model.py" in frame for op in stacks.launches.by_operator for frame in op.stack)


def test_a_mode_that_cannot_be_captured_is_a_row_with_the_line(profile: Profiler, script: Write) -> None:
    path = script("""
        import fake_device

        def decode():
            fake_device.launch("gemm")
            fake_device.wait()

        def step():
            decode()
    """)
    modes = manifest_of(profile(path, modes=("graph", "eager"))).modes
    assert modes["eager"].error is None
    error = modes["graph"].error
    assert error is not None
    assert error.startswith("can't be captured: ")
    assert error.endswith(", at model.py:6 in decode: fake_device.wait()")


def test_a_compiler_that_fails_is_a_row_and_the_others_finish(profile: Profiler, script: Write) -> None:
    path = script("""
        import sys
        import fake_device

        sys.modules["torch._inductor"] = None  # as in an installation without it

        def step():
            fake_device.launch("gemm")
    """)
    modes = manifest_of(profile(path, modes=("fused", "eager"))).modes
    assert modes["eager"].error is None
    assert modes["fused"].error is not None
    assert modes["fused"].error.startswith("torch.compile failed: ModuleNotFoundError: ")


def test_when_every_mode_fails_each_reason_is_told_once(profile: Profiler, script: Write, tmp_path: Path) -> None:
    path = script("""
        def step():
            raise ValueError("no weights")
    """)
    with pytest.raises(NothingMeasured) as told:
        profile(path, modes=("eager", "graph"))
    assert str(told.value) == (
        'no mode ran: eager, graph: ValueError (warm up): no weights, at model.py:3 in step: raise ValueError("no '
        'weights")'
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cache", "user"]


def test_no_mode_ran_is_exit_2_and_one_line(
    profile: Profiler, script: Write, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = script("def step():\n    raise ValueError('no weights')\n")
    monkeypatch.setattr(api, "run_profile", lambda options, progress: profile(options.target, progress))
    assert cli.run(["profile", str(path)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("launchscope: no mode ran: eager: ValueError (warm up): no weights")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError (build): No module named 'nothing_of_that_name', at "
         "model.py:1 in <module>"),
        ("x = 1\nraise SystemExit(3)", "SystemExit (build): 3, at model.py:2 in <module>: raise SystemExit(3)"),
        ("def build():\n    return 1 // 0", "ZeroDivisionError (build): integer division or modulo by zero, at "
         "model.py:2 in build: return 1 // 0"),
        ("def build(:", "SyntaxError (build): invalid syntax (model.py, line 1)"),
        ("try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('no preset a')",
         "ValueError (build): no preset a, at model.py"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "the process that builds it died of signal 11 "
         "(SIGSEGV)"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused_once_in_words(profile: Profiler, script: Write, text: str, said: str) -> None:
    lines: list[str] = []
    with pytest.raises(BadTarget) as told:
        profile(script(text), lines.append, modes=("eager", "graph"))
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert len([line for line in lines if line.endswith(": build")]) == 1


def test_a_later_build_that_fails_costs_only_its_mode(profile: Profiler, script: Write) -> None:
    path = script("""
        from pathlib import Path
        import fake_device

        def build():
            if (mark := Path(__file__).with_name("built")).exists():
                raise MemoryError("no room for a second")
            mark.touch()
            return lambda: fake_device.launch("gemm")
    """)
    modes = manifest_of(profile(path, modes=("eager", "graph"))).modes
    assert modes["eager"].error is None
    assert modes["graph"].error is not None
    assert "no room for a second" in modes["graph"].error


def test_a_hang_ends_in_time_and_leaves_nothing(profile: Profiler, script: Write, tmp_path: Path) -> None:
    path = script("""
        import os, subprocess, time
        from pathlib import Path
        import fake_device

        same_group = subprocess.Popen(["sleep", "100"])
        own_group = subprocess.Popen(["sleep", "100"], start_new_session=True)
        Path(__file__).with_name("pids").write_text(f"{os.getpid()} {same_group.pid} {own_group.pid}")

        def step():
            time.sleep(100)
    """)
    began = time.monotonic()
    with pytest.raises(
        NothingMeasured,
        match=r"eager: the process did not end within 0\.5 s and was stopped \(--timeout\) \(warm up\), "
        r"at model\.py:11 in step: time\.sleep",
    ):
        profile(path, timeout_s=0.5)
    assert time.monotonic() - began < 10
    assert_gone(path.with_name("pids").read_text())


def test_what_a_target_leaves_running_ends_with_its_process(profile: Profiler, script: Write) -> None:
    path = script("""
        import subprocess
        from pathlib import Path
        import fake_device

        helper = subprocess.Popen(["sleep", "100"], start_new_session=True)
        Path(__file__).with_name("pids").write_text(str(helper.pid))

        def step():
            fake_device.launch("gemm")
    """)
    profile(path)
    assert_gone(path.with_name("pids").read_text())


def test_a_process_that_dies_of_a_signal_is_a_row(profile: Profiler, script: Write) -> None:
    path = script("""
        import os, signal
        import fake_device

        calls = 0

        def step():
            global calls
            calls += 1
            fake_device.launch("gemm")
            if fake_device._machine.graph is not None:
                os.kill(os.getpid(), signal.SIGKILL)
    """)
    modes = manifest_of(profile(path, modes=("eager", "graph"))).modes
    assert modes["eager"].error is None
    assert modes["graph"].error == "the process died of signal 9 (SIGKILL) (out of host memory?) (capture)"


def test_a_profiler_that_takes_its_process_down_costs_the_trace_and_not_the_timing(
    profile: Profiler, script: Write
) -> None:
    path = script("""
        import os, signal
        import fake_device

        def step():
            fake_device.launch("gemm")
            if fake_device._machine.calls is not None:
                os.kill(os.getpid(), signal.SIGSEGV)
    """)
    manifest = manifest_of(profile(path, repeats=2))
    (process,) = manifest.modes["eager"].processes
    assert manifest.modes["eager"].error is None
    assert len(process.samples_ns) >= 30
    assert process.trace is None
    assert process.error == "the process died of signal 11 (SIGSEGV) (profiler session)"
    assert manifest.target.name == path.name


def test_a_process_that_ends_itself_is_told_though_it_had_kept_its_timing(profile: Profiler, script: Write) -> None:
    path = script("""
        import os
        import fake_device

        def step():
            fake_device.launch("gemm")
            if fake_device._machine.calls is not None:
                os._exit(0)
    """)
    (process,) = manifest_of(profile(path)).modes["eager"].processes
    assert len(process.samples_ns) >= 30
    assert process.error == "the process ended itself before it was done, with exit status 0 (profiler session)"


def test_a_calibration_that_fails_costs_the_predictions_and_not_the_run(profile: Profiler, script: Write) -> None:
    path = profile(script(STEP), layer="fake_device:Uncalibrated")
    manifest = manifest_of(path)
    assert manifest.calibration is None
    assert manifest.modes["eager"].error is None
    assert any(label.startswith("calibration failed: the process failed") for label in manifest.target.labels)
    document = load(path).document
    assert document.profile is not None
    assert document.profile.modes["eager"].predicted_graph_ns is None


def test_the_script_runs_as_it_would_by_itself(profile: Profiler, script: Write) -> None:
    """Its own folder first, its own `analysis` and `tracer` importable and ours untouched, not as __main__."""
    script("name = 'theirs'", "analysis/__init__.py")
    script("name = 'theirs, too'", "tracer.py")
    path = script("""
        import sys
        from pathlib import Path
        import analysis, tracer
        import fake_device
        import launchscope.analysis.model.errors
        import launchscope.tracer.target.target

        assert (analysis.name, tracer.name) == ("theirs", "theirs, too")
        assert sys.path[0] == str(Path(__file__).parent)
        assert sys.argv == [__file__]

        def step():
            fake_device.launch("gemm")

        if __name__ == "__main__":
            raise SystemExit("run as a program")
    """)
    assert manifest_of(profile(path)).modes["eager"].error is None


def test_a_device_that_cannot_be_started_is_told_with_what_else_there_is(server: ForkServer) -> None:
    with pytest.raises(
        MissingRequirement, match=r"the GPU can't be started: .*`launchscope demo`.*`launchscope analyze"
    ):
        probe_machine(server, "no_such_layer:Device")


def test_an_output_that_exists_is_refused(profile: Profiler, script: Write, tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    with pytest.raises(LaunchscopeError, match="capture: exists already"):
        profile(script(STEP))


def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(profile: Profiler, script: Write) -> None:
    path = script(STEP)
    with pytest.raises(LaunchscopeError, match=r"can't write there \(.*\); use -o"):
        profile(path, out=path / "capture")


def test_a_full_disk_is_told_and_the_measurements_stay(
    profile: Profiler, script: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(LaunchscopeError, match=r"can't be written \(No space left on device\); what was measured"):
            profile(script(STEP))
    assert not (tmp_path / "capture").exists()


def test_a_capture_appears_whole(profile: Profiler, script: Write, tmp_path: Path) -> None:
    seen: list[bool] = []
    profile(script(STEP), lambda _: seen.append((tmp_path / "capture").exists()))
    assert seen
    assert not any(seen)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cache", "capture", "user"]


def test_a_capture_can_be_one_zip(profile: Profiler, script: Write, tmp_path: Path) -> None:
    path = profile(script(STEP), out=tmp_path / "capture.zip")
    assert load(path).document.profile is not None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cache", "capture.zip", "user"]
