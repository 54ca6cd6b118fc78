"""A model written to be bad in one way gets that diagnosis on a real GPU, and a good one gets none."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.model.advisor_documents import FindingDoc
from launchscope.analysis.report import load
from launchscope.tracer.processes.api import run_profile
from launchscope.tracer.target.options import ProfileOptions

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

MODELS = Path(__file__).parents[2] / "fixtures" / "models"


def diagnosis(folder: Path, file: str, modes: tuple[str, ...], batch: int, **settings: str) -> list[FindingDoc]:
    settings = {"layers": "4"} | settings
    target = str(MODELS / file)
    options = ProfileOptions(
        target=target, modes=modes, batch_size=batch, repeats=1, steps=4, settings=settings, out=folder / "capture"
    )
    document = load(run_profile(options, lambda _: None)).document
    assert document.profile is not None
    return document.profile.graph_findings


@pytest.mark.parametrize(
    ("fault", "modes", "batch", "code", "line"),
    [
        ("graph_break", ("eager", "fused"), 1, "graph_break", "LOG.debug("),
        ("item", ("eager", "graph"), 1, "capture_failed", ".item()"),
        ("host_sampling", ("eager", "graph"), 1, "capture_failed", ".cpu()"),
        ("off_ladder", ("eager",), 13, "off_ladder", None),
        ("static_input", ("eager",), 1, "frozen_input", "buffers.token = "),
    ],
)
def test_a_fault_gets_its_diagnosis(
    tmp_path: Path, fault: str, modes: tuple[str, ...], batch: int, code: str, line: str | None
) -> None:
    found = diagnosis(tmp_path, "llama_1b_faults.py", modes, batch, fault=fault)
    told = next((finding for finding in found if finding.code == code), None)
    assert told is not None, found
    assert line is None or (told.line is not None and line in told.line)
    assert {finding.code for finding in found} <= {code, "waits_in_step"}


def test_the_operator_at_which_a_capture_fails(tmp_path: Path) -> None:
    (told,) = diagnosis(tmp_path, "llama_1b_faults.py", ("eager", "graph"), 1, fault="item")
    assert told.what.startswith("the step can't be captured: aten::_local_scalar_dense")


def test_a_capture_that_an_engine_swallows_is_told(tmp_path: Path) -> None:
    settings = {"graph": "true", "fallback": "true", "item": "true"}
    found = diagnosis(tmp_path, "serve_loop.py", ("eager",), 1, **settings)
    told = next(finding for finding in found if finding.code == "capture_failed")
    assert told.line is not None
    assert ".item()" in told.line


@pytest.mark.parametrize(("fault", "batch"), [("none", 1), ("off_ladder", 8)])
def test_a_good_model_gets_none(tmp_path: Path, fault: str, batch: int) -> None:
    modes = ("eager", "graph", "fused", "fused_graph") if fault == "none" else ("eager",)
    assert diagnosis(tmp_path, "llama_1b_faults.py", modes, batch, fault=fault) == []
