"""A model that is bad in one way each, recorded on an H200: the right diagnosis, and none for a good one."""

from __future__ import annotations

from functools import cache

import pytest
from launchscope.analysis.model.advisor_documents import FusionDoc
from launchscope.analysis.model.document import ReportDocument

from .captures import shipped

GRAPHS = ("graph_break", "item", "host_sampling", "off_ladder", "static_input")
FUSIONS = {"unfused_qkv": "qkv", "unfused_swiglu": "gate_up", "rope_six": "rope_kv"}


@cache
def document(name: str) -> ReportDocument:
    return shipped(f"faults/{name}.zip").document


def codes(name: str) -> dict[str, str | None]:
    """Code of each finding of the graph doctor, and its line."""
    profile = document(name).profile
    assert profile is not None
    return {finding.code: finding.line for finding in profile.graph_findings}


def fusion(name: str) -> FusionDoc:
    found = next((trace.fusion for trace in document(name).traces if trace.fusion is not None), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("graph_break", "graph_break", 'llama_1b_faults.py:121 in debug: LOG.debug("half way: %s"'),
        ("item", "capture_failed", "serve_loop.py:70 in check: if not arguments[0].isfinite().all().item():"),
        ("host_sampling", "capture_failed", "llama_1b_faults.py:153 in step: logits = target.step().float().cpu()"),
        ("off_ladder", "off_ladder", None),
        ("static_input", "frozen_input", "llama_1b_faults.py:208 in step: buffers.token = "),
    ],
)
def test_what_keeps_graphs_away_is_named_with_its_line(name: str, code: str, line: str | None) -> None:
    found = codes(name)
    assert list(found) == [code]
    assert (found[code] or "").startswith(line or "")
    assert (found[code] is None) == (line is None)


@pytest.mark.parametrize(("name", "kind"), FUSIONS.items())
def test_what_is_not_fused_is_named_in_every_layer_and_nothing_else_new(name: str, kind: str) -> None:
    found = {candidate.kind: candidate for candidate in fusion(name).candidates}
    good = {candidate.kind for candidate in fusion("none").candidates}
    assert set(found) - good == {kind}
    assert found[kind].places == 4
    file = "llama.py(124): forward" if kind == "gate_up" else "llama_1b_faults.py("  # the plain MLP is the fault
    assert found[kind].where[0].removeprefix("launchscope/fixtures/models/").startswith(file)
    assert codes(name) == {}


def test_a_good_model_gets_none_of_them() -> None:
    """SiLU and its product, the norm after the residual and the mask are kernels of their own in it: that is told."""
    assert codes("none") == codes("on_ladder") == {}
    found = {candidate.kind for candidate in fusion("none").candidates}
    assert not found & set(FUSIONS.values())
    assert {each.kind for each in fusion("none").already} == {"norm", "qkv", "gate_up", "attention"}


@pytest.mark.parametrize("name", GRAPHS)
def test_faults_of_graphs_are_no_faults_of_fusion(name: str) -> None:
    fusions = [trace.fusion for trace in document(name).traces if trace.fusion is not None]
    assert not {candidate.kind for each in fusions for candidate in each.candidates} & set(FUSIONS.values())


def test_the_first_action_is_the_diagnosis() -> None:
    for name, start in (("item", "keep the value on the GPU"), ("off_ladder", "capture batch 13, or 16 and pad to it")):
        profile = document(name).profile
        assert profile is not None
        assert profile.verdict is not None
        assert profile.verdict.actions[0].kind == "graph"
        assert (profile.verdict.actions[0].how or "").startswith(start)
    profile = document("static_input").profile
    assert profile is not None
    assert profile.verdict is not None
    assert profile.verdict.actions[0].kind == "frozen_input"
