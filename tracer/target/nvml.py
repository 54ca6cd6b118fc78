"""What NVML says about the GPU: its name, clocks, power, temperature and why it is slowed down.

Every reading may be missing (no NVML, a virtual machine that hides it): null, never an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from ...analysis.model.capture import GpuState

_THROTTLE_REASONS: Final = {
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SyncBoost": "sync boost",
    "SwThermalSlowdown": "software thermal slowdown",
    "HwThermalSlowdown": "hardware thermal slowdown",
    "HwPowerBrakeSlowdown": "power brake",
}
"""Suffix of nvmlClocksEventReason… → our words. Idle, application and display clocks don't slow a running step down.
Source: NVML API reference, nvmlClocksEventReasons."""


@contextmanager
def _nvml() -> Iterator[Any]:
    """The pynvml module, initialised; null where there is no NVML."""
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def driver_version() -> str | None:
    """Version of the NVIDIA driver."""
    with _nvml() as nvml:
        if nvml is None:
            return None
        with suppress(nvml.NVMLError):
            return str(nvml.nvmlSystemGetDriverVersion())
    return None


def gpu_state(uuid: str | None) -> GpuState | None:
    """One reading of the GPU with this UUID (torch's spelling, without the 'GPU-' prefix); null without NVML."""
    with _nvml() as nvml:
        if nvml is None:
            return None
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}") if uuid else nvml.nvmlDeviceGetHandleByIndex(0)
        except nvml.NVMLError:
            return None

        def read(function: str, *arguments: Any) -> Any:
            with suppress(nvml.NVMLError, AttributeError):
                return getattr(nvml, function)(handle, *arguments)
            return None

        power = read("nvmlDeviceGetPowerUsage")
        running = read("nvmlDeviceGetComputeRunningProcesses")
        mask = read("nvmlDeviceGetCurrentClocksEventReasons") or 0
        return GpuState(
            sm_clock_mhz=read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_clock_mhz=read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            power_w=None if power is None else power / 1000,
            temperature_c=read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=tuple(
                words
                for name, words in _THROTTLE_REASONS.items()
                if mask
                & (
                    getattr(nvml, f"nvmlClocksEventReason{name}", 0)
                    or getattr(nvml, f"nvmlClocksThrottleReason{name}", 0)
                )
            ),
            # one of them is ours, under a process id of another namespace where we run in a container
            other_processes=None if running is None else max(len(running) - 1, 0),
        )
