"""Quantities as people write them."""

from __future__ import annotations

import pytest
from launchscope.analysis.model.quantities import RATES, SIZES, TIMES, quantity


@pytest.mark.parametrize(
    ("text", "units", "value"),
    [
        ("5us", TIMES, 5e3),
        (" 2.5 µs ", TIMES, 2.5e3),
        ("0", TIMES, 0.0),
        ("0.0e9 s", TIMES, 0.0),
        ("1e9s", TIMES, 1e18),
        ("5.5GiB", SIZES, 5.5 * 2**30),
        (".5 GB", SIZES, 5e8),
        ("1TB/s", RATES, 1e12),
        ("4.3e3 GB/s", RATES, 4.3e12),
    ],
)
def test_a_number_with_its_unit(text: str, units: dict[str, float], value: float) -> None:
    assert quantity(text, units) == value


@pytest.mark.parametrize(
    ("text", "units", "said"),
    [
        ("5", TIMES, "'5' has no unit; there are ns, us, µs, ms, s"),
        ("5 gib", SIZES, "'5 gib' has the unit gib; .*; write 5GiB"),
        ("1TB", RATES, "'1TB' has the unit TB; there are B/s, .*"),
        ("-1us", TIMES, "'-1us' is no number with a unit"),
        ("nan us", TIMES, "is no number"),
        ("9e999s", TIMES, "'9e999s' is more than any such quantity"),
        ("1.1e9s", TIMES, "'1.1e9s' is more than any such quantity"),
        ("1e-19B/s", RATES, "'1e-19B/s' is less than any such quantity"),
        ("0.1e-999s", TIMES, "'0.1e-999s' is less than any such quantity"),
    ],
)
def test_what_can_not_be_meant(text: str, units: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quantity(text, units)
