"""What slips into a model in silence, recorded on an H200: counting finds and names each, whatever the times are."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.compare.check import check
from launchscope.analysis.compare.documents import FindingDoc
from launchscope.cli import run

RECORDED = Path(__file__).parents[3] / "fixtures" / "captures" / "regressions"  # not in the package


def broken(before: str, after: str) -> tuple[dict[str, FindingDoc], list[str]]:
    """Findings by figure, and causes, of a check without any limits of its own."""
    document = check(RECORDED / f"{after}.zip", RECORDED / f"{before}.zip", limits={})
    (part,) = document.parts
    assert document.exit_code == 1
    return {each.figure: each for each in part.findings if each.outcome == "regression"}, part.causes


@pytest.mark.parametrize("name", ["serve", "serve_item", "compiled", "compiled_residual", "compiled_skip"])
def test_what_is_recorded_holds_against_itself(name: str) -> None:
    assert run(["check", str(RECORDED / f"{name}.zip"), "--baseline", str(RECORDED / f"{name}.zip")]) == 0


def test_a_value_read_in_the_step_costs_the_graph() -> None:
    findings, causes = broken("serve", "serve_item")
    assert (findings["launches"].baseline, findings["launches"].measured) == (4, 731)
    assert (findings["blocking_calls"].baseline, findings["blocking_calls"].measured) == (1, 2)
    assert (findings["graph_coverage"].baseline, findings["graph_coverage"].measured) == (1, 0)
    first, second, *_ = causes
    assert first.startswith(
        "1 blocking call more: cudaStreamSynchronize in aten::_local_scalar_dense, at serve_loop.py"
    )
    assert second.startswith("Graph replays were lost: launches 4 → 731 per step, 100 % → 0 %")
    assert "serve_loop.py(41): check" in (findings["launches"].first_look or "")
    came = [cause for cause in causes if " extra kernel" in cause]
    assert [cause.split(" ")[0] for cause in came] == ["1", "1", "1", "2"], "abs, all, eq; mul and ne"
    assert all(", at serve_loop.py(41): check per step" in cause for cause in came[:3])
    assert not any("fewer" in cause for cause in causes), "the memset has another name in a graph"


def test_require_graph_alone_tells_the_lost_graph() -> None:
    words = ["--require-graph", "--baseline", str(RECORDED / "serve.zip")]
    assert run(["check", str(RECORDED / "serve_item.zip"), *words]) == 1
    assert run(["check", str(RECORDED / "serve.zip"), "--require-graph"]) == 0


def test_residuals_that_are_not_fused_are_kernels_more() -> None:
    findings, causes = broken("compiled", "compiled_residual")
    assert set(findings) == {"launches", "kernels"}
    assert (findings["kernels"].baseline, findings["kernels"].measured) == (246, 280)
    assert "aten::add (32)" in causes[0]
    assert "32 launches per step from aten::add" in (findings["launches"].first_look or "")


def test_what_is_left_out_of_compilation_is_launches_more() -> None:
    findings, causes = broken("compiled", "compiled_skip")
    assert set(findings) == {"launches", "kernels"}
    assert (findings["launches"].baseline, findings["launches"].measured) == (247, 295)
    assert "aten::mul (16), aten::silu (16)" in causes[0]
    assert "a graph break, or skipped code" in causes[0]
