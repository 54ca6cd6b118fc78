"""What predictions assume of a GPU and its host, each figure with where it is from: measured, published, or neither."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from ..model.capture import Calibration
from ..model.errors import LaunchscopeError, UnreadableInput
from ..model.paths import content

H200_RUN: Final = "measured on an H200, 2026-11-29"
TAU_RUNS: Final = "median of 18 eager steps on H200 hosts, 2026-11-29 and 30"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure in ns, bytes per second or FLOP per second. ``measured`` on this very GPU, else assumed."""

    value: float
    low: float
    high: float
    source: str
    measured: bool


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU in its host, as predictions see it."""

    name: str
    multiprocessors: int
    bandwidth_bytes_per_s: Figure
    flops_per_s: dict[str, Figure]  # by dtype
    tau_ns: Figure  # host time per launch of an eager step, Python and dispatcher included
    node_gap_ns: Figure  # ν
    replay_gap_ns: Figure
    graph_launch_ns: Figure
    graph_launch_per_node_ns: Figure
    kernel_start: Figure  # × what a kernel takes beside its traffic on an H200


class _Published(msgspec.Struct, frozen=True):
    name: str
    multiprocessors: int
    bandwidth_bytes_per_s: float
    flops_per_s: dict[str, float]  # dense, without sparsity
    source: str


def _dense(bf16: float, fp32: float) -> dict[str, float]:
    """FLOP per second by dtype, of so many TFLOP per second."""
    return {"bf16": bf16 * 1e12, "fp16": bf16 * 1e12, "fp32": fp32 * 1e12}


_PUBLISHED: Final = {
    "h200": _Published("NVIDIA H200", 132, 4.8e12, _dense(989, 67), "H200 datasheet"),
    "h100": _Published("NVIDIA H100 SXM", 132, 3.35e12, _dense(989, 67), "H100 datasheet"),
    "a100": _Published("NVIDIA A100 SXM 80 GB", 108, 2.039e12, _dense(312, 19.5), "A100 datasheet"),
    "b200": _Published("NVIDIA B200", 148, 7.7e12, _dense(2250, 75), "HGX B200 datasheet"),
    "l40s": _Published("NVIDIA L40S", 142, 0.864e12, _dense(362, 91.6), "L40S datasheet"),
    "rtx4090": _Published("NVIDIA RTX 4090", 128, 1.008e12, _dense(165, 82.6), "Ada whitepaper"),
}
NAMES: Final = tuple(_PUBLISHED)

_H200: Final = Calibration(
    tau_floor_ns=5861.0,
    graph_launch_ns=2699.0,
    graph_launch_per_node_ns=4.72,
    replay_gap_ns=0.0,
    node_gap_ns=376.0,
    node_gap_few_streams_ns=41.0,
    bandwidth_bytes_per_s=4.30e12,
    flops_per_s={"bf16": 779e12, "fp16": 749e12, "fp32": 50.9e12},
)
"""What ``launchscope calibrate`` measured in the run that docs/validation.md describes."""

_TAU_NS: Final = (16_000.0, 10_000.0, 41_000.0)
"""Host time per launch of eager steps: the median of 18 captures of three runs on H200 hosts (11 to 28 µs), and between
what it was in all runs there, two days of others included."""
_SEEN: Final = {
    "replay_gap_ns": (0.0, 976.0),
    "graph_launch_ns": (637.0, 7_195.0),
    "graph_launch_per_node_ns": (1.0, 35.0),
}
"""Between what 13 calibrations on H200 hosts found, 2026-11-29 and 30: hosts differ more than one is measured wrong."""
_SPREAD_GAP: Final = 0.1
_SPREAD_MEASURED: Final = 0.05
_SPREAD_PUBLISHED: Final = 0.15
"""How far from the figure a GPU may be: as measured, and where the share of the datasheet's figure is assumed."""


def gpu(
    name: str, calibration: Calibration | None = None, source: str | None = None, tau_ns: float | None = None
) -> Gpu:
    """The GPU of the table with this name; a calibration's figures, told as those of ``source``, and τ go before."""
    published, h200 = _PUBLISHED[name], _PUBLISHED["h200"]
    costs = calibration or (_H200 if name == "h200" else Calibration())
    is_h200 = name == "h200" and calibration is None
    origin = source or H200_RUN

    def rate(measured: float | None, of_card: float, of_h200: float | None, of_h200_card: float) -> Figure:
        """As measured, else the share of the published one that an H200 reaches of its own."""
        if measured is not None:
            return _spread(measured, _SPREAD_MEASURED, origin, measured=True)
        assert of_h200 is not None
        reached = of_h200 / of_h200_card
        whence = f"{published.source} × {reached:.2f}, the share that an H200 was measured to reach"
        return _spread(of_card * reached, _SPREAD_PUBLISHED, whence, measured=False)

    def cost(field: str) -> Figure:
        """Of graphs as measured on this machine, else that of an H200 and between what H200 hosts were seen at."""
        measured: float | None = getattr(costs, field)
        value: float = getattr(_H200, field) if measured is None else measured
        low, high = _SEEN[field] if field in _SEEN and (costs is _H200 or measured is None) else (value, value)
        whence = origin if measured is not None else "assumed as on an H200"
        return Figure(value=value, low=low, high=high, source=whence, measured=measured is not None)

    gap = cost("node_gap_ns")
    gap = _spread(gap.value, _SPREAD_GAP, gap.source, measured=gap.measured)
    few = costs.node_gap_few_streams_ns if costs.node_gap_ns is not None else _H200.node_gap_few_streams_ns
    kernel_start = Figure(value=1.0, low=0.7, high=1.5, source="assumed as on an H200", measured=False)
    if name == "h200":
        kernel_start = _spread(1.0, 0.0, f"as in one sample, {H200_RUN}", measured=True)
    launch, of_h200 = costs.tau_floor_ns, _H200.tau_floor_ns
    faster = 1.0 if launch is None or of_h200 is None else launch / of_h200
    tau, low, high = (ns * faster for ns in _TAU_NS)
    whence = TAU_RUNS if is_h200 else f"assumed as on H200 hosts{', × its cheapest launch' if faster != 1 else ''}"
    bandwidths = (published.bandwidth_bytes_per_s, _H200.bandwidth_bytes_per_s, h200.bandwidth_bytes_per_s)
    return Gpu(
        name=published.name,
        multiprocessors=published.multiprocessors,
        bandwidth_bytes_per_s=rate(costs.bandwidth_bytes_per_s, *bandwidths),
        flops_per_s={
            dtype: rate(costs.flops_per_s.get(dtype), of_card, _H200.flops_per_s[dtype], h200.flops_per_s[dtype])
            for dtype, of_card in published.flops_per_s.items()
        },
        tau_ns=Figure(value=tau, low=low, high=high, source=whence, measured=is_h200)
        if tau_ns is None
        else _spread(tau_ns, 0.0, "as given", measured=False),
        node_gap_ns=msgspec.structs.replace(gap, low=gap.low if few is None else min(few, gap.value)),
        replay_gap_ns=cost("replay_gap_ns"),
        graph_launch_ns=cost("graph_launch_ns"),
        graph_launch_per_node_ns=cost("graph_launch_per_node_ns"),
        kernel_start=kernel_start,
    )


def _spread(value: float, spread: float, source: str, *, measured: bool) -> Figure:
    """A figure that may be off by this share."""
    low, high = value * (1 - spread), value * (1 + spread)
    return Figure(value=value, low=low, high=high, source=source, measured=measured)


def name_of(machine: str) -> str | None:
    """The name in the table of a GPU as its driver calls it ('NVIDIA GeForce RTX 4090'); null where it has none."""
    plain = machine.lower().replace(" ", "")
    return next((name for name in NAMES if name in plain), None)


_MOST_BYTES: Final = 1 << 20
_HOW: Final = "launchscope calibrate writes one"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it lies in the user's cache."""

    schema: str
    calibration: Calibration
    machine: dict[str, str | int | float | bool | None] = {}


def read_calibration(path: Path, gpu: str) -> Calibration:
    """A file as ``launchscope calibrate`` keeps it, or as its ``--format json`` prints it.

    UnreadableInput for what is none; LaunchscopeError where it is of another GPU of the table than ``gpu``.
    """
    text = content(path, _MOST_BYTES)
    try:
        if "calibration" in msgspec.json.decode(text, type=dict[str, msgspec.Raw]):
            kept = msgspec.json.decode(text, type=_Kept)
        else:  # as printed: it does not say of which machine
            kept = _Kept(schema="", calibration=msgspec.json.decode(text, type=Calibration))
    except msgspec.MsgspecError as error:
        raise UnreadableInput(f"{path}: not a calibration ({error}); {_HOW}") from error
    if kept.calibration == Calibration():
        raise UnreadableInput(f"{path}: no figure of a calibration in it; {_HOW}")
    machine = str(kept.machine.get("gpu"))
    if name_of(machine) not in (None, gpu):
        raise LaunchscopeError(f"{path}: measured on an {machine}, not on an {gpu}: give --gpu {name_of(machine)}")
    return kept.calibration
