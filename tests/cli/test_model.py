"""``launchscope model``: figures on stdout, quantities refused in words."""

from __future__ import annotations

import json

import pytest
from launchscope.cli import run

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


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--tau", "5", "'5' has no unit"),
        ("--weights", "0 GiB", "'0 GiB' is nothing"),
        ("--bandwidth", "1TB", "'1TB' has the unit TB"),
        ("--kernels", "0", "0 is not in the range x>=1"),
    ],
)
def test_what_can_not_be_meant(option: str, value: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*TEXTBOOK, option, value]) == 2
    assert said in capfd.readouterr().err
