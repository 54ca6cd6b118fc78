"""What is said of a machine and its GPU: NVML readings, each of which may be missing, and no more than is listed."""

from __future__ import annotations

import getpass
import platform
import types
from typing import Any

import pytest

pytest.importorskip("pynvml")
pytest.importorskip("torch")

import pynvml
import torch
from launchscope.analysis.model.capture import GpuState
from launchscope.tracer.measure import device
from launchscope.tracer.measure.device import driver_version, gpu_state


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", absent)


@pytest.mark.usefixtures("no_nvml")
def test_without_nvml_there_is_nothing() -> None:
    assert driver_version() is None
    assert gpu_state(None) is None
    assert gpu_state("1234") is None


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A GPU whose every reading is in the dictionary; an absent one raises."""
    readings: dict[str, Any] = {
        "nvmlSystemGetDriverVersion": "580.1",
        "nvmlDeviceGetPowerUsage": 345_678,
        "nvmlDeviceGetTemperature": 61,
        "nvmlDeviceGetClockInfo": 1_980,
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetComputeRunningProcesses": [types.SimpleNamespace(pid=4_000_000)],
    }

    def reading(name: str) -> Any:
        def read(*_: object) -> Any:
            if name not in readings:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return readings[name]

        return read

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda _: object())
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda _: object())
    for name in list(readings):
        monkeypatch.setattr(pynvml, name, reading(name))
    return readings


def test_a_full_reading(nvml: dict[str, Any]) -> None:
    """The one process that runs on it is ours, also under a process id of another namespace."""
    assert driver_version() == "580.1"
    assert gpu_state("1234") == GpuState(
        sm_clock_mhz=1_980, memory_clock_mhz=1_980, power_w=345.678, temperature_c=61, other_processes=0
    )


def test_what_slows_it_down_is_told_in_words(nvml: dict[str, Any]) -> None:
    idle, power, thermal = 0x1, 0x4, 0x20
    nvml["nvmlDeviceGetCurrentClocksEventReasons"] = idle | power | thermal
    nvml["nvmlDeviceGetComputeRunningProcesses"] *= 3
    state = gpu_state("1234")
    assert state is not None
    assert (state.throttle_reasons, state.other_processes) == (("power cap", "software thermal slowdown"), 2)


def test_every_reading_may_be_missing(nvml: dict[str, Any]) -> None:
    nvml.clear()
    assert gpu_state(None) == GpuState()
    assert driver_version() is None


@pytest.mark.gpu
def test_the_real_one() -> None:
    assert driver_version() is not None


def test_the_environment_is_an_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = types.SimpleNamespace(name="Test GPU", total_memory=2**30, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setenv("HF_TOKEN", "hush")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    found = device.environment()
    assert (found["gpu"], found["compute_capability"], found["CUDA_LAUNCH_BLOCKING"]) == ("Test GPU", "9.0", "0")
    assert found["torch"] == torch.__version__
    names = {getpass.getuser(), platform.node()} - {"root", ""}
    assert not names & {str(value) for value in found.values()}
    assert "hush" not in str(found)
    assert {key for key in found if key.isupper()} <= set(device.ENVIRONMENT_VARIABLES)
