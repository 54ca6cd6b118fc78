"""The recording that speaks for a mode."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import launchscope
from launchscope.analysis.profile.select import (
    LINES,
    OPERATORS,
    TIMES,
    alike,
    behind_figures,
    mode_in_document,
    mode_of,
    of_best_pass,
    of_mode,
    ranked,
    speaks_for,
    timed_processes,
)

PACKAGE = Path(launchscope.__file__).parent


def recording(trace_pass: str | None, repeat: int = 0, *, mode: str | None = "eager", **more: Any) -> Any:
    reliable = more.get("reliable", True)
    steps = None if more.get("without_steps") else object()
    coverage = SimpleNamespace(reliable=reliable)
    return SimpleNamespace(mode=mode, trace_pass=trace_pass, repeat=repeat, steps=steps, coverage=coverage)


def timed(median_ns: float, **samples_ns: float) -> Any:
    """A mode with a process per repeat: r0=100.0."""
    processes = [SimpleNamespace(repeat=int(name[1:]), samples_ns=[ns]) for name, ns in samples_ns.items()]
    return SimpleNamespace(step_ns=SimpleNamespace(median=median_ns), processes=processes)


CUDA, CUDA_1, OTHER, STACKED = (
    recording("cuda", 0),
    recording("cuda", 1),
    recording("cpu_cuda", 2),
    recording("stacks", 3),
)
ALL = [STACKED, OTHER, CUDA, CUDA_1]


def test_each_question_has_its_order_of_passes() -> None:
    assert ranked(ALL, TIMES) == [CUDA, CUDA_1, OTHER, STACKED]
    assert ranked(ALL, OPERATORS) == [OTHER, STACKED, CUDA, CUDA_1]
    assert ranked(ALL, LINES) == [STACKED, OTHER, CUDA, CUDA_1]


def test_of_one_pass_the_process_nearest_to_t_speaks() -> None:
    assert speaks_for(ALL, "eager", timed(100.0, r0=130.0, r1=95.0, r2=100.0)) is CUDA_1
    assert speaks_for(ALL, "eager", None) is CUDA
    assert speaks_for(ALL, "graph", None) is None


def test_steps_come_before_the_pass_and_trust_after_it() -> None:
    empty, doubtful = recording("cuda", 4, without_steps=True), recording("cuda", 5, reliable=False)
    assert ranked([empty, doubtful, OTHER], TIMES) == [doubtful, OTHER, empty]
    assert ranked([doubtful, CUDA], TIMES, timed(100.0, r0=500.0, r5=100.0)) == [CUDA, doubtful]
    assert behind_figures([empty, doubtful, CUDA, OTHER]) == [CUDA]
    assert behind_figures([empty, doubtful, OTHER]) == [doubtful]


def test_as_written_is_null_in_the_document_alone() -> None:
    own, foreign = recording("cuda", mode=None), recording(None, mode=None)
    assert (mode_of(own), mode_of(foreign)) == ("as_written", None)
    assert (mode_in_document("as_written"), mode_in_document("graph")) == (None, "graph")
    assert of_mode([own, foreign], "as_written") == [own]
    assert of_mode([own, foreign], None) == [foreign]


def test_two_sides_are_compared_by_the_same_pass() -> None:
    foreign = recording(None)
    assert alike([CUDA, OTHER], [CUDA_1, OTHER]) == (OTHER, OTHER)
    assert alike([CUDA, OTHER], [CUDA_1]) == (CUDA, CUDA_1)
    assert alike([CUDA, OTHER], [foreign]) == (OTHER, foreign)
    assert alike([CUDA], [OTHER]) is None
    assert alike([STACKED], [foreign]) is None


def test_all_of_the_best_pass_or_all() -> None:
    assert of_best_pass(ALL, ("cuda",)) == [CUDA, CUDA_1]
    assert of_best_pass([STACKED], ("cuda",)) == [STACKED]


def test_the_process_with_stacks_is_none_of_t() -> None:
    mode = timed(100.0, r0=100.0, r1=90.0, r3=300.0)
    assert [process.repeat for process in timed_processes(mode, ALL)] == [0, 1]


def test_nobody_else_chooses_by_pass_or_translates_as_written() -> None:
    chooses = re.compile(r"trace_pass.*\"(?:cuda|stacks)\"|\"cpu_cuda\"|mode or AS_WRITTEN|None if \w+ == AS_WRITTEN")
    free = {"analysis/profile/select.py", "analysis/model/capture.py"}
    found = [
        f"{file.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for room in ("analysis", "dashboard")
        for file in sorted((PACKAGE / room).rglob("*.py"))
        if str(file.relative_to(PACKAGE)) not in free
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if chooses.search(line)
    ]
    assert found == []
