"""The calibration of a machine: kept, reused, measured anew; the figures themselves need a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from launchscope.analysis.model import __version__
from launchscope.analysis.model.errors import LaunchscopeError, MissingRequirement
from launchscope.tracer.measure.device import Environment
from launchscope.tracer.processes.calibrate import _line, kept_path, load_or_measure, probe_machine
from launchscope.tracer.processes.client import ForkServer

from ..conftest import LAYER
from ..fake_device import CALIBRATION

MACHINE: Environment = {"gpu": "Test GPU", "driver": "1", "cpu_cores": 2, "CUDA_VISIBLE_DEVICES": "0"}


def ignore(_: str) -> None:
    """Progress that nobody needs to see."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "launchscope"


def mark(kept: Path, tau_floor_ns: float, **more: object) -> None:
    """Change what is kept, so that a reading of it can be told from a measurement."""
    document = json.loads(kept.read_bytes())
    document["calibration"]["tau_floor_ns"] = tau_floor_ns
    kept.write_text(json.dumps(document | more))


def test_measured_once_and_reused_until_refreshed(server: ForkServer, cache: Path) -> None:
    measured, before, kept = load_or_measure(server, MACHINE, LAYER, ignore)
    assert (measured, before) == (CALIBRATION, False)
    assert list(cache.iterdir()) == [kept]
    mark(kept, 1.0)
    again, before, _ = load_or_measure(server, MACHINE, LAYER, ignore)
    assert (again.tau_floor_ns, before) == (1.0, True)
    anew, before, _ = load_or_measure(server, MACHINE, LAYER, ignore, refresh=True)
    assert (anew, before) == (CALIBRATION, False)
    assert json.loads(kept.read_bytes())["calibration"]["tau_floor_ns"] == CALIBRATION.tau_floor_ns


def test_another_machine_has_a_calibration_of_its_own() -> None:
    assert kept_path(MACHINE) == kept_path(MACHINE | {"CUDA_VISIBLE_DEVICES": "1"})
    others = [kept_path(MACHINE | {name: "other"}) for name in ("gpu", "driver", "torch", "cpu_cores")]
    assert len({kept_path(MACHINE), *others}) == 5


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\xff\xfe", b'{"launchscope": "x"}'])
def test_a_damaged_file_is_measured_over(server: ForkServer, content: bytes) -> None:
    kept = kept_path(MACHINE)
    kept.parent.mkdir()
    kept.write_bytes(content)
    assert load_or_measure(server, MACHINE, LAYER, ignore)[:2] == (CALIBRATION, False)
    assert json.loads(kept.read_bytes())["launchscope"] == __version__


def test_one_of_another_version_is_measured_over(server: ForkServer) -> None:
    kept = load_or_measure(server, MACHINE, LAYER, ignore)[2]
    mark(kept, 1.0, launchscope="0.0.1")
    assert load_or_measure(server, MACHINE, LAYER, ignore)[:2] == (CALIBRATION, False)


def test_a_cache_that_cannot_be_written_is_fine(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load_or_measure(server, MACHINE, LAYER, ignore)[:2] == (CALIBRATION, False)


def test_nothing_partial_stays_behind(server: ForkServer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert load_or_measure(server, MACHINE, LAYER, ignore)[0] == CALIBRATION
    assert list(cache.iterdir()) == []


def test_a_measurement_that_fails_is_told(server: ForkServer) -> None:
    with pytest.raises(LaunchscopeError, match=r"calibration failed: the process failed with exit status 1"):
        load_or_measure(server, MACHINE, "no_such_layer:Device", ignore)


def test_the_machine_is_probed(server: ForkServer) -> None:
    assert probe_machine(server, LAYER)["gpu"] == "Fake GPU"
    with pytest.raises(MissingRequirement, match=r"^nothing to run on \(without a GPU: `launchscope demo`"):
        probe_machine(server, "fake_device:MissingDevice")


def test_a_line_through_two_points_and_through_more() -> None:
    assert _line([100, 200], [30.0, 50.0]) == pytest.approx((10, 0.2))
    assert _line([0, 10, 20], [1.0, 2.0, 3.0]) == pytest.approx((1, 0.1))
    assert _line([1, 3], [1.0, -3.0]) == pytest.approx((3, -2))
