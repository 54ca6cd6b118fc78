"""``launchscope whatif``: a prediction with its range, never dressed as a measurement."""

from __future__ import annotations

import json
from pathlib import Path

import launchscope
import pytest
from launchscope.cli import run

LLAMA = str(Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip")


def test_a_prediction_is_called_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", LLAMA, "--tau", "2us"]) == 0
    out = capfd.readouterr().out
    assert "PREDICTED: 1.95 ms (1.82–2.09) with τ = 2.00 µs; without 9.45 ms" in out
    assert "T, unprofiled" in out
    assert run(["whatif", LLAMA]) == 0
    assert "SIMULATED: 9.45 ms" in capfd.readouterr().out


def test_json_is_one_document(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", LLAMA, "--graph", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["schema"], told["mode"], told["knobs"]) == ("launchscope.whatif/1", "eager", ["one CUDA graph"])
    assert told["low_ns"] < told["predicted_ns"] < told["high_ns"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tau", "2us", "--host", "2"], "--tau and --host both set the host's time: give one"),
        (["--tau", "2us", "--graph"], "tau is of launches one by one, and graph leaves one launch in all: give one"),
        (["--gpu", "0"], "0.0 is not in the range"),
        (["--gpu", "matmul=nan"], "nan is no factor"),
        (["--host", "nan"], "nan is no factor"),
        (["--gpu", "matmul=1", "--gpu", "matmul=2"], "--gpu: the factor of matmul is given twice"),
        (["--bandwidth", "2", "--bandwidth", "3"], "--bandwidth: the factor of all GPU ops is given twice"),
        (["--delay", "1e299s"], "'1e299s' is more than any such quantity"),
        (["--mode", "as_written"], "no mode as_written was measured; there are eager, graph"),
    ],
)
def test_what_can_not_be_meant(options: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", LLAMA, *options]) == 2
    assert said in capfd.readouterr().err
