"""``launchscope predict``: predictions that say so, for a count that stands for one of a model."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.model.capture import Calibration, Target
from launchscope.analysis.model.counted_step import CountedOp, CountedStep
from launchscope.cli import run
from launchscope.tracer.processes import count
from launchscope.tracer.target.options import ProfileOptions

OPS = (
    CountedOp(operator="aten::mm", kind="matrix", bytes=43_000_000, flops=10**9, dtype="bf16", product=(1, 8192, 2048)),
    *[CountedOp(operator="aten::relu", kind="elementwise", bytes=4096)] * 3,
)
LABEL = "its torch.compile wrapper was taken off"


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[ProfileOptions]:
    """What was asked for; every target is the same one."""
    asked: list[ProfileOptions] = []

    def count_step(options: ProfileOptions, _: object) -> CountedStep:
        asked.append(options)
        target = Target(name="model.py", batch_size=2, dtype="bf16", settings={"layers": "1"}, labels=(LABEL,))
        return CountedStep(target=target, ops=OPS, torch="2.13.0")

    monkeypatch.setattr(count, "count_step", count_step)
    monkeypatch.setenv("COLUMNS", "110")
    return asked


def test_a_prediction_is_called_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "model.py"]) == 0
    out = capfd.readouterr().out
    assert "model.py · batch 2 · bf16 · layers=1" in out
    assert "predicted for one NVIDIA H200 · torch 2.13.0" in out
    assert "PREDICTED: launching is the limit in eager mode: 64.0 µs (40.0–164.0) a step for 17.8 µs" in out
    assert "4 operators that launch, 4 GPU ops · 41.0 MiB read and written" in out
    assert "no kernel ran, and no GPU was used" in out
    assert "measured on an H200" in out
    assert LABEL in out
    assert "aten::relu" in out


def test_assumed_figures_are_called_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "model.py", "--gpu", "L40S"]) == 0
    out = capfd.readouterr().out
    assert "predicted for one NVIDIA L40S" in out
    assert "L40S datasheet × 0.90, the share that an H200 was measured to reach" in out
    assert "assumed as on an H200" in out


def test_json_is_one_document(capfd: pytest.CaptureFixture[str], counted: list[ProfileOptions]) -> None:
    options = ["--batch-size", "2", "--dtype", "bfloat16", "--context-length", "64", "--set", "layers=1"]
    assert run(["predict", "model.py", *options, "--timeout", "5", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["schema"], told["launching_operators"], told["gpu_ops"]) == ("launchscope.predict/1", 4, 4)
    assert told["basis"].startswith("predicted: ")
    assert told["gpu_work_ns"]["predicted"] == pytest.approx(3650 + 10_000 + 3 * 1390, rel=1e-3)
    assert [row["operator"] for row in told["operators"]] == ["aten::mm", "aten::relu"]
    assert told["fused"]["gpu_ops_low"] == 2
    (asked,) = counted
    assert (asked.batch_size, asked.dtype, asked.context_length) == (2, "bf16", 64)
    assert (asked.settings, asked.timeout_s) == ({"layers": "1"}, 5)


def test_a_file_gets_markdown_by_its_suffix(tmp_path: Path) -> None:
    file = tmp_path / "predicted.md"
    assert run(["predict", "model.py", "-o", str(file)]) == 0
    assert "## model.py · batch 2" in file.read_text("utf-8")
    assert "| fused\\_graph |" in file.read_text("utf-8") or "| fused_graph |" in file.read_text("utf-8")


@pytest.mark.parametrize("command", [["predict"], ["sweep", "--batch-sizes", "1"]])
def test_a_report_takes_no_script_s_place(
    command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "model.py"
    script.write_text("def step(): ...\n")
    assert run([command[0], f"{script}:step", *command[1:], "-o", str(script)]) == 2
    assert str(script) in capfd.readouterr().err
    assert script.read_text() == "def step(): ...\n"


def test_a_calibration_of_ones_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.json"
    file.write_bytes(msgspec.json.encode(Calibration(bandwidth_bytes_per_s=2e12)))
    assert run(["predict", "model.py", "--gpu", "h100", "--calibration", str(file)]) == 0
    assert "bandwidth 2.00 TB/s: of" in capfd.readouterr().out
    assert run(["predict", "model.py", "--calibration", str(file), "-o", str(file)]) == 2
    assert "is an input" in capfd.readouterr().err


def test_a_tau_of_ones_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "model.py", "--tau", "5us", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["eager_ns"]["predicted"] == told["eager_ns"]["low"] == 4 * 5000
    assert (told["gpu"]["tau_ns"]["source"], told["gpu"]["tau_ns"]["measured"]) == ("as given", False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gpu", "tpu"], "no GPU 'tpu' in the table; there are h200, h100"),
        (["--calibration", "none.json"], "none.json: no such file; check the path"),
        (["--dtype", "int4"], "--dtype: no dtype 'int4'"),
        (["--batch-size", "0"], "--batch-size is 0; it takes 1 or more"),
        (["--set", "layers"], "--set layers: no '='"),
    ],
)
def test_what_can_not_be_meant(options: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "model.py", *options]) == 2
    assert said in capfd.readouterr().err
