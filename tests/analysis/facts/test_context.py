"""Every fact of a trace is computed once, by its Context, and only when it is asked for."""

from __future__ import annotations

import ast
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import launchscope
import pytest
from launchscope.analysis.facts.context import Context, by_device
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.many.document import RankRow
from launchscope.analysis.many.one_file import find_figures

from ...cases import NAMED_CASES

ANALYSIS = Path(launchscope.__file__).parent / "analysis"
TRACES = Path(launchscope.__file__).parent / "fixtures" / "traces"
RECORDED = sorted(TRACES.glob("*.*"))
USERS = [*sorted((ANALYSIS / "figures").rglob("*.py")), ANALYSIS / "many" / "one_file.py"]
HANDED_ON = {"Steps", "GraphReplays", "CallStacks", "Gaps", "Threads", "TraceFacts", "LaunchTimes"}
"""Facts that a figure asks its Context for; it takes none of them as an argument."""

Calls = Counter[tuple[str, int | None]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """How often each fact, of each device, was computed."""
    counted: Calls = Counter()

    def counting(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
        def count(context: Context, device: int | None = None) -> Any:
            counted[name, device] += 1
            return compute(context) if device is None else compute(context, device)

        count.__name__ = name
        return count

    for name, fact in vars(Context).items():
        if isinstance(fact, cached_property):
            monkeypatch.setattr(fact, "func", counting(name, fact.func))
        elif isinstance(fact, by_device):
            monkeypatch.setattr(fact, "find", counting(name, fact.find))
    return counted


def test_a_fact_is_computed_once(calls: Calls) -> None:
    asked: set[str] = set()
    for path in RECORDED:
        calls.clear()
        analyze_trace(open_trace(path), name="x")
        assert set(calls.values()) == {1}
        asked |= {name for name, _ in calls}
    assert asked == {name for name, fact in vars(Context).items() if isinstance(fact, cached_property | by_device)}


def test_a_row_of_the_table_of_ranks_asks_for_fewer(calls: Calls) -> None:
    find_figures(RankRow(path="a", name="a"), NAMED_CASES["graph replay"]().build())
    assert set(calls.values()) == {1}
    assert {"stacks", "operators", "launches", "graph_kernels"}.isdisjoint(name for name, _ in calls)


def test_what_is_released_is_computed_again(calls: Calls) -> None:
    context = Context(NAMED_CASES["two devices"]().build())
    for _ in range(2):
        assert (context.threads, context.busy[0]) is not None
        context.release("threads", "busy")
    assert (calls["threads", None], calls["busy", 0], calls["busy", 1]) == (2, 2, 0)


def test_a_fact_by_device_has_the_traces_devices() -> None:
    context = Context(NAMED_CASES["two devices"]().build())
    assert (list(context.gaps), len(context.gaps)) == ([0, 1], 2)
    assert [gaps.device for gaps in context.gaps.values()] == [0, 1]
    assert context.gaps[0] is context.gaps[0]
    with pytest.raises(KeyError):
        context.gaps[2]


def test_a_context_goes_with_its_last_user() -> None:
    """Of hundreds of traces in a row none waits for the search for cycles."""
    gc.disable()
    try:
        analysis = analyze_trace(NAMED_CASES["graph replay"]().build(), name="x")
        context = weakref.ref(analysis.context)
        del analysis
        assert context() is None
    finally:
        gc.enable()


def arguments(file: Path) -> Iterator[tuple[str, str]]:
    """Function and annotation of each parameter."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                if each.annotation is not None:
                    yield node.name, ast.unparse(each.annotation)


@pytest.mark.parametrize("file", USERS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_no_figure_takes_a_fact_as_an_argument(file: Path) -> None:
    for function, annotation in arguments(file):
        names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
        assert names.isdisjoint(HANDED_ON), f"{function} takes {annotation}"


def test_none_but_the_context_computes_a_fact() -> None:
    """The functions that it calls are imported by no figure."""
    own = ast.parse((ANALYSIS / "facts" / "context.py").read_text())
    computing = {
        alias.name
        for node in own.body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
        if alias.name.islower()
    }
    assert {"find_steps", "find_gaps", "graph_replays"} <= computing
    for file in USERS:
        imported = {
            alias.name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ImportFrom) and ".facts." in f".{node.module}."
            for alias in node.names
        }
        assert imported.isdisjoint(computing), file
