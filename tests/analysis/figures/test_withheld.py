"""Every figure that is null has its reason."""

from __future__ import annotations

from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES


def withheld(builder: TraceBuilder) -> dict[str, str]:
    return analyze_trace(builder.build(), name="tiny").document.withheld


def test_no_gpu_op() -> None:
    assert {"headline_device", "bound", "steps"} <= withheld(trace()).keys()


def test_no_launches() -> None:
    reasons = withheld(NAMED_CASES["missing launches"]())
    assert reasons["launches.latency_ns.median"] == "no launches in the file"
    assert reasons["graphs.coverage_by_count"] == "no kernel has its launch in the file"


def test_no_steady_scope() -> None:
    assert "devices.0.steady" in withheld(NAMED_CASES["one eager step"]())
    assert withheld(NAMED_CASES["eager steps"]()) == {}
