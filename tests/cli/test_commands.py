"""Each command from its options to what it leaves on stdout, on stderr and on disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from launchscope.analysis.model.capture import Calibration
from launchscope.analysis.model.errors import MissingRequirement, NothingMeasured
from launchscope.cli import dashboard, outputs, run
from launchscope.fixtures.builder import trace
from launchscope.tracer.target.options import ProfileOptions

Captured = pytest.CaptureFixture[str]
REGRESSIONS = Path(__file__).parents[2] / "fixtures" / "captures" / "regressions"  # not in the package


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    """Five steps of two kernels each; every kernel waits for its launch."""
    building = trace()
    for number in range(5):
        at = number * 100
        building.step(number, at=at, dur=90)
        building.launch(at=at + 10, dur=5).kernel(at=at + 20, dur=10, name="gemm")
        building.launch(at=at + 40, dur=5).kernel(at=at + 50, dur=10, name="norm")
    path = tmp_path / "step.json"
    building.write(path)
    return path


def test_analyze_prints_the_report_and_nothing_else(trace_file: Path, capfd: Captured) -> None:
    assert run(["analyze", str(trace_file)]) == 0
    out, err = capfd.readouterr()
    assert "gemm" in out
    assert err == ""


def test_analyze_json_is_one_document(trace_file: Path, capfd: Captured) -> None:
    assert run(["analyze", str(trace_file), str(trace_file), "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["schema"] == "launchscope.report/1"
    assert [each["coverage"]["kernels"] for each in document["traces"]] == [10, 10]


def test_json_on_stdout_is_utf8_whatever_the_terminal_is(trace_file: Path) -> None:
    renamed = trace_file.rename(trace_file.with_name("schritt-τ.json"))
    done = subprocess.run(
        [sys.executable, "-m", "launchscope", "analyze", str(renamed), "--format", "json"],
        capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert json.loads(done.stdout.decode("utf-8"))["traces"][0]["name"] == "schritt-τ.json"


def test_a_terminal_that_lacks_the_signs_shows_the_report_all_the_same(trace_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launchscope", "analyze", str(trace_file)],
        capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert b"gemm" in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize(("name", "begins"), [("r.json", "{"), ("r.md", "#"), ("r.txt", "")])
def test_the_suffix_of_the_file_chooses_the_output(trace_file: Path, capfd: Captured, name: str, begins: str) -> None:
    file = trace_file.with_name(name)
    assert run(["analyze", str(trace_file), "-o", str(file)]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == f"launchscope: written to {file}"
    assert file.read_text("utf-8").startswith(begins)
    assert "\x1b[" not in file.read_text("utf-8")


def test_format_overrules_the_suffix(trace_file: Path) -> None:
    file = trace_file.with_name("report.md")
    assert run(["analyze", str(trace_file), "--format", "json", "-o", str(file)]) == 0
    assert json.loads(file.read_bytes())["schema"] == "launchscope.report/1"


def test_step_regex_names_the_steps(trace_file: Path, capfd: Captured) -> None:
    assert run(["analyze", str(trace_file), "--step-regex", "ProfilerStep#[23]", "--format", "json"]) == 0
    (analysed,) = json.loads(capfd.readouterr().out)["traces"]
    assert analysed["coverage"]["steps_found"] == 2


def test_an_input_is_never_overwritten(trace_file: Path, capfd: Captured) -> None:
    before = trace_file.read_bytes()
    for command in ("analyze", "export"):
        assert run([command, str(trace_file), "-o", str(trace_file)]) == 2
        assert "is an input; -o would overwrite it" in capfd.readouterr().err
    for path in (trace_file.parent, trace_file.parent / "st*.json"):
        assert run(["analyze", str(path), "-o", str(trace_file)]) == 2
        assert "is an input; -o would overwrite it" in capfd.readouterr().err
    assert trace_file.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"\x1f\x8b\x08", b"PK\x03\x04", b"null", b'{"traceEvents": 3}'])
def test_what_is_no_trace_is_refused_with_its_name(tmp_path: Path, capfd: Captured, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    assert run(["analyze", str(path)]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "broken.json" in err
    assert "internal error" not in err


def test_a_folder_of_traces_is_told_with_what_is_left_out(trace_file: Path, capfd: Captured) -> None:
    trace().op("aten::mm", 0, 5).write(trace_file.with_name("front_end.json"))
    assert run(["analyze", str(trace_file.parent)]) == 0
    out, err = capfd.readouterr()
    assert "1 file not told" in out
    assert out.index("gemm") < out.index("front_end.json")
    assert err == ""
    assert run(["analyze", str(trace_file.parent), "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert [each["path"] for each in json.loads(out)["unread"]] == ["front_end.json"]
    assert "front_end.json: left out: no GPU op" in err


@pytest.mark.parametrize("command", [["analyze"], ["export", "-o", "/dev/null/x.md"]])
def test_without_a_gpu_op_there_is_nothing_to_report(tmp_path: Path, capfd: Captured, command: list[str]) -> None:
    trace().op("aten::mm", 0, 5).write(tmp_path / "cpu.json")
    command = [word.replace("/dev/null/x.md", str(tmp_path / "x.md")) for word in command]
    assert run([*command, str(tmp_path / "cpu.json")]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "cpu.json: no GPU op in the file: it holds the CPU's side alone" in err


def test_strict_refuses_a_cut_file(trace_file: Path, capfd: Captured) -> None:
    trace_file.write_bytes(trace_file.read_bytes()[:-40])
    assert run(["analyze", str(trace_file)]) == 0
    for command in (["analyze"], ["export", "-o", str(trace_file.with_name("x.md"))]):
        capfd.readouterr()
        assert run([*command, "--strict", str(trace_file)]) == 2
        assert "not whole" in capfd.readouterr().err


def test_doctor_tells_what_can_be_trusted(trace_file: Path, capfd: Captured) -> None:
    assert run(["doctor", str(trace_file)]) == 0
    out, err = capfd.readouterr()
    assert re.search(r"figures per step +with care +only 5 steps kept", out)
    assert "found by ProfilerStep" in out
    assert "docs/recording.md shows how" in out
    assert err == ""
    assert run(["doctor", str(trace_file), "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["schema"] == "launchscope.doctor/1"
    file = trace_file.with_name("doctor.md")
    assert run(["doctor", str(trace_file), "-o", str(file)]) == 0
    assert "| figures per step | with care |" in file.read_text("utf-8")


def test_doctor_looks_at_what_can_be_read(tmp_path: Path, capfd: Captured) -> None:
    trace().op("aten::mm", 0, 5).write(tmp_path / "cpu.json")
    (tmp_path / "empty.json").write_bytes(b"")
    assert run(["doctor", str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert "NOT RELIABLE: no GPU op in the file" in out
    assert "1 file not told" in out
    assert run(["doctor", str(tmp_path / "empty.json")]) == 2
    assert "empty.json: empty" in capfd.readouterr().err
    (tmp_path / "cpu.json").write_bytes((tmp_path / "cpu.json").read_bytes()[:-40])
    assert run(["doctor", "--strict", str(tmp_path / "cpu.json")]) == 2


def test_export_writes_what_the_suffix_says(trace_file: Path, capfd: Captured) -> None:
    for name in ("out.pftrace", "out.json", "out.md"):
        file = trace_file.with_name(name)
        assert run(["export", str(trace_file), "-o", str(file)]) == 0
        assert f"written to {file}" in capfd.readouterr().err
        assert file.stat().st_size > 100


def test_warnings_go_to_stderr_where_a_program_reads_stdout(tmp_path: Path, capfd: Captured) -> None:
    lost = tmp_path / "lost.json"
    trace().kernel(at=0, dur=10, launch=False).kernel(at=20, dur=10, launch=False).write(lost)
    assert run(["analyze", str(lost), "--format", "json"]) == 0
    out, err = capfd.readouterr()
    warnings = json.loads(out)["traces"][0]["warnings"]
    assert warnings
    assert [line for line in err.splitlines() if line.startswith("launchscope: lost.json: ")]
    assert len(err.splitlines()) == len(warnings)


def test_an_output_whose_extra_is_absent_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    page = outputs.Output("cli.absent_page:render", ".html", extra="dashboard")
    monkeypatch.setitem(outputs.OUTPUTS, "html", page)

    def absent(name: str) -> types.ModuleType:
        raise ModuleNotFoundError(f"No module named 'plotly', wanted by {name}", name="plotly.express")

    monkeypatch.setattr(outputs, "import_module", absent)
    with pytest.raises(MissingRequirement, match=r"'html' needs the package plotly.*'launchscope\[dashboard\]'"):
        outputs.renderer("html")


@pytest.fixture
def run_profile(monkeypatch: pytest.MonkeyPatch) -> list[ProfileOptions]:
    """A tracer that writes down what it was asked for and measures nothing."""
    asked: list[ProfileOptions] = []

    def measured(options: ProfileOptions, progress: object) -> Path:
        asked.append(options)
        raise NothingMeasured("no mode ran: eager: out of memory")

    monkeypatch.setattr("launchscope.tracer.processes.api.run_profile", measured)
    return asked


def test_profile_hands_its_options_to_the_tracer(run_profile: list[ProfileOptions], capfd: Captured) -> None:
    words = "profile m.py:step --batch-size 4 --dtype bfloat16 --context-length 256 --steps 9 --repeats 2"
    assert run([*words.split(), "--modes", "graph,eager", "--set", "layers=2", "-o", "kept", "--timeout", "60"]) == 2
    assert capfd.readouterr().err == "launchscope: no mode ran: eager: out of memory\n"
    assert run_profile == [
        ProfileOptions(
            target="m.py:step",
            batch_size=4,
            dtype="bf16",
            context_length=256,
            steps=9,
            repeats=2,
            modes=("graph", "eager"),
            settings={"layers": "2"},
            out=Path("kept"),
            timeout_s=60.0,
        )
    ]


def test_profile_without_options_takes_the_defaults(run_profile: list[ProfileOptions]) -> None:
    run(["profile", "m.py"])
    assert run_profile == [ProfileOptions(target="m.py")]


@pytest.mark.parametrize("words", [["--for-check"], ["--repeats", "8", "--for-check"]])
def test_a_profile_for_checks_times_enough_processes(run_profile: list[ProfileOptions], words: list[str]) -> None:
    run(["profile", "m.py", *words])
    assert run_profile == [ProfileOptions(target="m.py", repeats=8, for_check=True)]


def test_a_profile_against_another_prints_what_changed_and_says_last_where_both_are(
    monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    asked: list[tuple[ProfileOptions, str]] = []
    mine, other = (REGRESSIONS / f"{name}.zip" for name in ("compiled_residual", "compiled"))

    def measured(options: ProfileOptions, against: str, progress: object) -> tuple[Path, Path]:
        asked.append((options, against))
        return mine, other

    monkeypatch.setattr("launchscope.tracer.processes.api.run_against", measured)
    assert run(["profile", "m.py", "--against", "git:main"]) == 0
    assert asked == [(ProfileOptions(target="m.py", repeats=8, for_check=True), "git:main")]
    out, err = capfd.readouterr()
    assert "T, unprofiled: 4.91 ms → 8.79 ms" in out
    assert err.splitlines()[-1] == (
        f"launchscope: kept in {mine} and {other} · held against limits: launchscope check {mine} --baseline {other}"
    )


def test_profile_prints_the_report_and_says_last_where_the_capture_is(
    monkeypatch: pytest.MonkeyPatch, trace_file: Path, capfd: Captured
) -> None:
    monkeypatch.setattr("launchscope.tracer.processes.api.run_profile", lambda *_: trace_file)
    assert run(["profile", "m.py"]) == 0
    out, err = capfd.readouterr()
    assert "gemm" in out
    assert err.splitlines()[-1].startswith(f"launchscope: kept in {trace_file} ")


def test_ctrl_c_during_a_profile_reports_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, trace_file: Path, capfd: Captured
) -> None:
    from launchscope.tracer.processes.api import Interrupted

    def stopped(*_: object) -> Path:
        raise Interrupted(trace_file)

    monkeypatch.setattr("launchscope.tracer.processes.api.run_profile", stopped)
    assert run(["profile", "m.py"]) == 130
    out, err = capfd.readouterr()
    assert "gemm" in out
    assert "kept in" in err


@pytest.mark.parametrize("is_measured", [True, False])
def test_ctrl_c_during_a_profile_of_two_tells_where_either_is_kept(
    is_measured: bool, monkeypatch: pytest.MonkeyPatch, trace_file: Path, capfd: Captured
) -> None:
    from launchscope.tracer.processes.api import Interrupted

    def stopped(*_: object) -> Path:
        raise Interrupted(trace_file if is_measured else None, Path("out-against"))

    monkeypatch.setattr("launchscope.tracer.processes.api.run_against", stopped)
    assert run(["profile", "m.py", "--against", "n.py"]) == 130
    out, err = capfd.readouterr()
    assert ("gemm" in out) == is_measured
    assert "kept in out-against: what was measured of n.py\n" in err


def test_calibrate(monkeypatch: pytest.MonkeyPatch, capfd: Captured) -> None:
    calibration = Calibration(tau_floor_ns=4200.0, bandwidth_bytes_per_s=4.26e12, flops_per_s={"bf16": 7e14})
    asked: list[bool] = []

    def calibrate(refresh: bool, *_: object) -> tuple[Calibration, bool, Path]:
        asked.append(refresh)
        return calibration, not refresh, Path("kept.json")

    monkeypatch.setattr("launchscope.tracer.processes.calibrate.calibrate", calibrate)
    assert run(["calibrate"]) == 0
    out, err = capfd.readouterr()
    assert [line.split()[-2:] for line in out.splitlines() if "–" not in line] == [
        ["4.20", "µs"], ["4.26", "TB/s"], ["700.00", "TFLOP/s"],
    ]  # fmt: skip
    assert err == "launchscope: measured before, read from kept.json; --refresh measures anew\n"
    assert run(["calibrate", "--refresh", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["tau_floor_ns"] == 4200.0
    assert err == "launchscope: kept in kept.json\n"
    assert asked == [False, True]


def test_demo_lists_its_captures_the_default_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Captured
) -> None:
    for name in ("hf_llama", "llama_1b", "serve_loop"):
        (tmp_path / f"{name}.zip").touch()
    monkeypatch.setattr(dashboard, "DEMOS", tmp_path)
    assert run(["demo", "--list"]) == 0
    assert capfd.readouterr().out.split() == ["llama_1b", "hf_llama", "serve_loop"]
    assert run(["demo", "nope"]) == 2
    assert "no demo 'nope'; there are: llama_1b, hf_llama, serve_loop" in capfd.readouterr().err


def test_demo_in_an_incomplete_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Captured) -> None:
    monkeypatch.setattr(dashboard, "DEMOS", tmp_path)
    assert run(["demo"]) == 2
    assert "this installation is incomplete" in capfd.readouterr().err


def test_demo_shows_the_report_without_torch(capfd: Captured) -> None:
    code = "import sys; from launchscope.cli import run; assert run(['demo']) == 0; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for mode in ("eager", "graph", "fused", "fused_graph"):
        assert mode in done.stdout.split()
