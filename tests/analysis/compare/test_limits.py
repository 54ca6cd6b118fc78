"""Limits in the words that people write, and every way to get one wrong."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.compare.limits import FIGURES, TIMED, Limit, parse
from launchscope.analysis.model.errors import ConfigError


@pytest.mark.parametrize(
    ("figure", "value", "sign", "amount"),
    [
        ("launches", "<= 300", "<=", 300),
        ("launches", "<300", "<", 300),
        ("launches", 300, "==", 300),
        ("launches", "300", "==", 300),
        ("launches", " == 1 ", "==", 1),
        ("launches", "<= 0.25", "<=", 0.25),
        ("kernels", "+0", "+", 0),
        ("kernels", "+28", "+", 28),
        ("graph_launches", ">= 1", ">=", 1),
        ("graph_launches", "<= 1", "<=", 1),
        ("graph_launches", "-0", "-", 0),
        ("graph_launches", "+2", "+", 2),
        ("graph_coverage", ">= 0.95", ">=", 0.95),
        ("graph_coverage", ">= 95%", ">=", 0.95),
        ("graph_coverage", "> 95 %", ">", 0.95),
        ("graph_coverage", 1, "==", 1),
        ("graph_coverage", "-0.05", "-", 0.05),
        ("true_idle", "<= 20%", "<=", 0.2),
        ("true_idle", "+0.03", "+", 0.03),
        ("step_time", "<= 2.5 ms", "<=", 2.5e6),
        ("step_time", "<= 800us", "<=", 8e5),
        ("step_time", "<= 800 µs", "<=", 8e5),
        ("step_time", "<= 800 μs", "<=", 8e5),  # the Greek letter
        ("step_time", "< 5e3 ns", "<", 5e3),
        ("step_time", "<= .1 s", "<=", 1e8),
        ("gpu_work", "+50 us", "+", 5e4),
        ("launch_tax", "<= 0", "<=", 0),
        ("step_time", "+0", "+", 0),
        ("graph_memory", "<= 64 MiB", "<=", 64 << 20),
        ("graph_memory", "+1 MB", "+", 1e6),
        ("graph_memory", "== 0", "==", 0),
    ],
)
def test_forms(figure: str, value: Any, sign: str, amount: float) -> None:
    limit = parse(figure, value)
    assert (limit.sign, limit.amount, limit.proportional) == (sign, amount, False)
    assert limit.text == str(value).strip()


@pytest.mark.parametrize("figure", ["launches", "kernels", "memcpys", "step_time", "gpu_work", "graph_memory"])
def test_a_share_of_the_baseline(figure: str) -> None:
    limit = parse(figure, "+3%")
    assert (limit.amount, limit.proportional, limit.relative) == (0.03, True, True)
    assert limit.allowed(200.0) == pytest.approx(206.0)


@pytest.mark.parametrize(
    ("figure", "value", "said"),
    [
        ("launches", True, "launches = true is true or false, no limit: write launches = \"<= 300\", say"),
        ("launches", [300], "is a list, no limit"),
        ("launches", None, "is a NoneType, no limit"),
        ("launches", math.nan, "is no number that can be a limit"),
        ("launches", math.inf, "is no number that can be a limit"),
        ("launches", 10**400, "is no number that can be a limit"),
        pytest.param("launches", 16**5000, "is no number that can be a limit", id="thousands of digits"),
        ("launches", "1e400", "is no number that can be a limit"),
        ("launches", "+1e-99999999999999999999%", "is no limit"),
        ("launches", "<= 1,000", "is no limit"),
        ("launches", "nan", "launches = 'nan' is no limit"),
        ("launches", "", "is no limit"),
        ("launches", "about 300", "is no limit"),
        ("launches", "<= 300 <= 400", "is no limit"),
        ("launches", "=> 300", "is no limit"),
        ("launches", "<= -1", "is no limit"),
        ("launches", -1, "is below 0, which nothing is"),
        ("launches", "-3", "sets a lower limit, and of launches per step less is better"),
        ("launches", ">= 300", "sets a lower limit, and of launches per step less is better"),
        ("launches", "<= 300 ms", "has a unit, 'ms'; launches per step have none"),
        ("launches", "<= 300%", "has a unit, '%'"),
        ("graph_coverage", "<= 0.5", "sets an upper limit, and of graph coverage more is better"),
        ("graph_coverage", "+0", "sets an upper limit, and of graph coverage more is better"),
        ("graph_coverage", ">= 95", "is more than all; shares are 0 to 1, or 0% to 100%"),
        ("graph_coverage", "-5%", "could mean two things; of a share, write points: '-0.05'"),
        ("true_idle", "+3%", "could mean two things; of a share, write points: '+0.03'"),
        ("true_idle", 0.2, "means exactly that, and no two measurements are so alike"),
        ("true_idle", ">= 0.2", "of true idle less is better"),
        ("step_time", 3, "means exactly that, and no two measurements are so alike"),
        ("step_time", "== 3 ms", "means exactly that"),
        ("step_time", "<= 2.5", "has no unit; there are ns, us, µs, ms, s: write '<= 2.5 ms', say"),
        ("step_time", "<= 2.5 MS", "has the unit 'MS'; there are ns, us, µs, ms, s: write '<= 2.5 ms', say"),
        ("step_time", "+3", "has no unit"),
        ("step_time", "<= 3%", "has the unit '%'"),
        ("graph_memory", "<= 64 mib", "write '<= 64 MiB', say"),
        ("step_time", "<= 2,5ms", "is no limit"),
        ("graph_memory", "<= 64", "has no unit"),
        ("graph_memory", "<= 1_000", "is no limit"),
    ],
)  # fmt: skip
def test_what_can_not_be_meant_is_refused(figure: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(figure, value, "launchscope.toml [limits.graph]")
    assert str(refused.value).startswith(f"launchscope.toml [limits.graph]: {figure} = ")
    assert said in str(refused.value)


def test_every_figure_takes_its_own_example() -> None:
    assert [parse(name, figure.example).figure for name, figure in FIGURES.items()] == list(FIGURES)


@pytest.mark.parametrize(
    ("limit", "holding", "broken"),
    [("<= 300", 300, 301), ("< 300", 299, 300), ("== 300", 300, 299), ("+0", 298, 299), ("+28", 326, 327),
     ("+50%", 447, 448)],
)  # fmt: skip
def test_what_holds_against_a_baseline_of_298(limit: str, holding: float, broken: float) -> None:
    assert parse("launches", limit).holds(holding, 298.0)
    assert not parse("launches", limit).holds(broken, 298.0)


@pytest.mark.parametrize(
    ("limit", "holding", "broken"),
    [(">= 0.95", 0.95, 0.94), ("> 0.95", 0.96, 0.95), ("-0", 0.98, 0.97), ("-0.05", 0.93, 0.92), ("1", 1.0, 0.99)],
)
def test_what_holds_where_more_is_better(limit: str, holding: float, broken: float) -> None:
    assert parse("graph_coverage", limit).holds(holding, 0.98, noise=1e-12)
    assert not parse("graph_coverage", limit).holds(broken, 0.98, noise=1e-12)


@st.composite
def any_limit(draw: st.DrawFn) -> Limit:
    figure = draw(st.sampled_from(list(FIGURES.values())))
    signs = [] if figure.name in TIMED else ["=="]
    signs += ["<=", "<", "+"] if figure.less_is_better else []
    signs += [">=", ">", "-"] if figure.more_is_better else []
    sign = draw(st.sampled_from(signs))
    is_share = figure.unit == "share"
    proportional = sign in "+-" and not is_share and draw(st.booleans())
    amount = draw(st.floats(0, 1 if is_share else 1e9, allow_subnormal=False))
    return Limit(figure.name, sign, amount, proportional)


def as_written(limit: Limit) -> str:
    amount = repr(limit.amount).removesuffix(".0")
    if limit.proportional:
        amount = f"{Decimal(amount).scaleb(2):f}%"
    elif limit.amount:
        amount += {"ns": " ns", "bytes": " B"}.get(FIGURES[limit.figure].unit, "")
    return f"{limit.sign} {amount}"


@given(any_limit())
def test_what_is_written_is_read_back(limit: Limit) -> None:
    assert parse(limit.figure, as_written(limit)) == limit
    assert as_written(parse(limit.figure, as_written(limit))) == as_written(limit)


@given(st.sampled_from(sorted(FIGURES)), st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()))
def test_anything_else_is_a_limit_or_told(figure: str, value: Any) -> None:
    try:
        limit = parse(figure, value)
    except ConfigError:
        return
    assert 0 <= limit.amount < math.inf
