"""Figures as people read and write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model import units
from launchscope.analysis.model.units import RATES, SIZES, TIMES, quantity


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0, "0"),
        (1, "1 ns"),
        (350.0, "350 ns"),
        (1.4, "1.40 ns"),
        (999.7, "1.00 µs"),
        (25_800, "25.8 µs"),
        (999_499, "999 µs"),
        (999_600, "1.00 ms"),
        (2_020_000, "2.02 ms"),
        (19_000_000, "19.0 ms"),
        (31e9, "31.0 s"),
        (-2_100, "−2.10 µs"),
    ],
)
def test_duration(ns: float | None, text: str) -> None:
    assert units.duration(ns) == text


def test_an_interval_shares_unit_and_decimals_with_its_median() -> None:
    assert units.duration_interval(19.0e6, 17.8e6, 20.1e6) == "19.0 ms (17.8–20.1)"
    assert units.duration_interval(999e3, 990e3, 1.2e6) == "999 µs (990–1200)"


def test_a_narrow_interval_gets_one_more_decimal() -> None:
    assert units.duration_interval(2.29e6, 2.288e6, 2.291e6) == "2.29 ms (2.288–2.291)"


def test_no_interval_from_one_process() -> None:
    assert units.duration_interval(19.0e6, None, None) == "19.0 ms"


def test_a_difference_has_the_decimals_of_its_uncertainty() -> None:
    assert units.duration_pm(16.98e6, 95_550) == "17.0 ±0.1 ms"
    assert units.duration_pm(240_000, 95_550) == "240 ±96 µs"
    assert units.duration_pm(20_000, 95_550) == "20 ±96 µs"
    assert units.duration_pm(20_000, None) == "20.0 µs"


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.004, "0.4 %"),
        (0.894, "89 %"),
        (0.9999, "99.9 %"),
        (1.0, "100 %"),
        (-0.31, "−31 %"),
    ],
)
def test_a_share_never_rounds_to_nothing_or_all(fraction: float | None, text: str) -> None:
    assert units.share(fraction) == text


def test_the_rest() -> None:
    assert [units.times(x) for x in (None, 1.07, 8.3, 13.57)] == ["–", "1.07×", "8.3×", "13.6×"]
    assert [units.number(x) for x in (None, 64_335, 1.5, 0.25, 734.2)] == ["–", "64,335", "1.5", "0.25", "734.2"]
    assert [units.number(x) for x in (0.0625, 1 / 11, 0.0004, 9.999)] == ["0.062", "0.091", "0.0004", "10"]
    assert [units.byte_size(x) for x in (None, 64, 14 << 20, 2.3 * 2**30)] == ["–", "64 B", "14.0 MiB", "2.30 GiB"]
    assert units.rate(4.26e12, "B") == "4.26 TB/s"
    assert [units.error(x) for x in (None, 0.0, 0.002, 0.31)] == ["–", "0", "2e-3", "0.31"]
    assert [units.seconds(x) for x in (4.6, 96.4, 200)] == ["4.6 s", "96 s", "3 min 20 s"]
    assert [units.plural(x, "launch", "launches") for x in (1, 735)] == ["1 launch", "735 launches"]
    assert units.ratio(1, 0) == "–"


def test_what_draws_nothing_is_shown_as_its_escape() -> None:
    assert units.printable("a\x1b[31m\n\u202eb\ud800") == "a\\x1b[31m\\n\\u202eb\\ud800"
    assert units.one_line("two\n  lines\x07") == "two lines\\x07"


@given(st.text())
def test_printable_text_is_one_line_that_a_terminal_takes_literally(text: str) -> None:
    shown = units.printable(text)
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable() or all(char.isspace() or char.isprintable() for char in shown)
    assert units.printable(shown) == shown


@given(st.floats(min_value=0.001, max_value=1e13))
def test_a_duration_is_within_its_last_digit(ns: float) -> None:
    figure, unit = units.duration(ns).split(" ")
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(figure.replace(",", "")) * scale == pytest.approx(ns, rel=0.006, abs=0.006)


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
