"""``launchscope model``: figures on stdout, quantities refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import launchscope
import pytest
from launchscope.cli import run

LLAMA = Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip"
TEXTBOOK = ["model", "--weights", "5.5GiB", "--kernels", "430", "--tau", "5us", "--bandwidth", "1TB/s"]


def test_one_document_of_figures(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*TEXTBOOK, "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["schema"] == "launchscope.model/1"
    assert told["gpu_work_ns"] == pytest.approx(5_905_580)
    assert told["serial_ns"] == pytest.approx(8_055_580)
    assert told["bound_ns"] == told["gpu_work_ns"]
    assert told["graph_ns"] == pytest.approx(5_910_580)
    assert told["speedup_serial"] == pytest.approx(1.3629, rel=1e-4)
    assert told["speedup_bound"] == pytest.approx(0.99915, rel=1e-4)
    assert len(told["steps"]) == 1


def test_node_gaps_lengthen_a_graph(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*TEXTBOOK, "--node-gap", "1us", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["graph_ns"] == pytest.approx(5_910_580 + 429_000)


def test_a_capture_gives_what_no_option_does(capfd: pytest.CaptureFixture[str]) -> None:
    """The 1B sample: 718 GPU ops, W 1.95 ms measured, 2.49 GB at 4.30 TB/s, τ 12.7 µs."""
    assert run(["model", str(LLAMA), "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["gpu_work_from"] == "measured"
    assert told["kernels"] == 718
    assert told["tau_ns"] == pytest.approx(12_700, rel=0.001)
    assert told["gpu_work_ns"] == pytest.approx(1.95e6, rel=0.01)
    assert told["graph_ns"] == pytest.approx(told["gpu_work_ns"] + 717 * told["node_gap_ns"] + told["tau_ns"])
    assert told["graph_ns"] == pytest.approx(told["measured_ns"]["graph"], rel=0.02)
    assert [step["gpu_work_from"] for step in told["steps"]] == ["measured", "bytes"]
    assert told["steps"][1]["gpu_work_ns"] == pytest.approx(0.579e6, rel=0.01)
    assert run(["model", str(LLAMA), "--weights", "1GB"]) == 0
    out = capfd.readouterr().out
    assert "measured T" in out
    assert "llama_1b, eager" in out
    assert "measured W" not in out


def test_each_step_is_named_by_what_it_differs_in(capfd: pytest.CaptureFixture[str]) -> None:
    """1 GiB at 1 TB/s is W = 1.07 ms; as a graph 1.18 ms, which is slower than an eager step whose host is hidden."""
    several = ["--kernels", "100", "--kernels", "200", "--tau", "5us", "--tau", "10us", "--node-gap", "1us"]
    assert run(["model", "--weights", "1GiB", "--bandwidth", "1TB/s", *several]) == 0
    head, _, rest = capfd.readouterr().out.partition("\n\n")
    told = " ".join(head.split())
    assert "1.00 GiB, 100 kernels, τ 5.00 µs: a graph is 0.91× to 1.34× as fast; " in told
    assert told.endswith("1.00 GiB, 200 kernels, τ 5.00 µs: a graph is 0.84× to 1.62× as fast; 1 more below")
    assert "1.00 GiB, 200 kernels, τ 10.0 µs serial" in rest
    assert "ν 1.00 µs · nothing here was measured" in rest
    assert run(TEXTBOOK) == 0
    assert "ν 0, as none is known · nothing here was measured" in capfd.readouterr().out


def test_what_a_model_takes_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "--tau", "5us"]) == 2
    assert "missing --weights, --kernels, --bandwidth: give them, or a capture" in capfd.readouterr().err
    serve = LLAMA.with_name("serve_graph.zip")
    assert run(["model", str(serve)]) == 2
    assert "replays graphs already" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--tau", "5", "'5' has no unit"),
        ("--weights", "0 GiB", "'0 GiB' is nothing"),
        ("--bandwidth", "1TB", "'1TB' has the unit TB"),
        ("--kernels", "0", "0 is not in the range 1<=x"),
    ],
)
def test_what_can_not_be_meant(option: str, value: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*TEXTBOOK, option, value]) == 2
    assert said in capfd.readouterr().err
