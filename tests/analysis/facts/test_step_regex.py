"""--step-regex is matched as Python matches it, and ends in time whatever it is."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest
from launchscope.analysis.facts import step_sources as step_regex
from launchscope.analysis.facts.step_sources import matching
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.fixtures.builder import trace

ENDLESS = r"(a+)+$"
HARMFUL = "a" * 40 + "b"


@pytest.mark.parametrize(
    ("regex", "names", "places"),
    [
        (r"step \d", ["step 1", "a step 2", "step"], [0, 1]),
        (r"(?i)STEP", ["Step", "ste\0p", "\ud800 step\n"], [0, 2]),
        (r"^τ$", ["τ", "\udcff"], [0]),
        (r"[[a]", ["a"], [0]),  # of which Python warns
        (r"", ["", "x"], [0, 1]),
        (r"x", [], []),
    ],
)
def test_names_that_match(regex: str, names: list[str], places: list[int]) -> None:
    assert matching(regex, names) == places


def test_an_expression_without_end_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_regex, "MATCHING_S", 0.3)
    begun = time.monotonic()
    with pytest.raises(LaunchscopeError, match=r"--step-regex '\(a\+\)\+\$': not done with 1 names after 0.3 s"):
        matching(ENDLESS, [HARMFUL])
    assert time.monotonic() - begun < 10


def test_it_ends_in_a_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_regex, "MATCHING_S", 0.3)
    said: list[str] = []

    def match() -> None:
        try:
            matching(ENDLESS, [HARMFUL])
        except LaunchscopeError as error:
            said.append(str(error))

    thread = threading.Thread(target=match)
    thread.start()
    thread.join(10)
    assert len(said) == 1


def test_kernels_and_api_calls_are_not_tried() -> None:
    """Only what can be a step: the name that would take for ever is a kernel's."""
    builder = trace()
    for step in range(4):
        at = 100 * step
        builder.annotation(f"step {step}", at, 90).launch(at + 10, 5).kernel(at + 20, 5, name=HARMFUL)
    assert find_source(builder.json(), rf"step \d|{ENDLESS}") == "annotation"


def find_source(data: bytes, regex: str) -> str:
    from launchscope.analysis.figures.analyses import analyze_trace
    from launchscope.analysis.inputs.readers import read_trace

    return analyze_trace(read_trace(data, "trace.json"), name="trace", step_regex=regex).context.steps.source


def test_without_a_process_it_is_matched_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert matching("a", ["b", "a"]) == [1]
