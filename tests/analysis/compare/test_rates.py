"""How often a check of times errs on real samples: what docs/guard.md says, from fewer draws."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_rates", ROOT / "benchmarks" / "check_rates.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_processes_enough_from_several_starts_of_the_machine(bench: ModuleType) -> None:
    for mode in ("eager", "graph"):
        counts = [len(start.plain) for start in bench.starts(mode)]
        assert len(counts) >= 3
        assert sum(counts) >= 24


def test_the_same_code_is_no_regression_and_a_slower_graph_is_found(bench: ModuleType) -> None:
    graph = {each.kind: each for each in bench.of_mode("graph", 200)}
    for kind, each in graph.items():
        if "the same code" in kind:
            assert each.share(1) <= 0.01, kind
            assert each.share(3) <= 0.2, kind
        else:
            assert 0.045 < each.size < 0.055, kind
            assert each.share(1) >= 0.95, kind
    eager = {each.kind: each for each in bench.of_mode("eager", 200)}
    for kind, each in eager.items():
        if "the same code" in kind or "two starts" in kind:
            assert each.share(1) <= 0.01, kind


def test_the_interval_of_a_rate_by_hand(bench: ModuleType) -> None:
    assert bench.interval(0, 5) == pytest.approx((0.0, 1 - 0.025 ** (1 / 5)))
    assert bench.interval(3, 3) == pytest.approx((0.025 ** (1 / 3), 1.0))
