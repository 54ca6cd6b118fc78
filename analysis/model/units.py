"""Figures as people read them (``19.0 ms``, ``89 %``, ``14.0 MiB``; missing is ``–``, zero is ``0``) and write them
(``5us``, ``5.5 GiB``, ``1TB/s``).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

MISSING: Final = "–"

_TIME_UNITS: Final = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_BYTE_UNITS: Final = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))
_SI_UNITS: Final = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"))

_MORE_DIGITS: Final = range(4, 16)
_PERCENT_DIGITS: Final = range(1, 4)

_LONGEST_NAME: Final = 200
"""Characters in a sentence; names of kernels reach 5,000, those of API calls 40."""

_LONGEST_TEXT: Final = 20_000

# Unicode categories that draw nothing, or move the text around them: controls, formats (bidi overrides, zero width),
# surrogates, private use, unassigned, line and paragraph separators.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_GITHUBS: Final = re.compile(r"^([\t ]*)::", re.MULTILINE)
_AZURES: Final = re.compile(r"##(?=\[|vso\[)")


def duration(ns: float | None) -> str:
    """Nanoseconds to three significant digits in the unit that suits: ``25.8 µs``."""
    if ns is None or not math.isfinite(ns):
        return MISSING
    if ns == 0:
        return "0"
    scale, unit = _pick(abs(ns), _TIME_UNITS)
    figure = f"{abs(ns):.0f}" if unit == "ns" and float(ns).is_integer() else _digits(abs(ns) / scale)
    return f"{_sign(ns)}{figure} {unit}"


def duration_interval(ns: float | None, low: float | None, high: float | None) -> str:
    """A median with its interval in the same unit and decimals: ``19.0 ms (17.8–20.1)``."""
    if low is None or high is None or ns is None or not math.isfinite(ns) or ns == 0:
        return duration(ns)
    scale, _ = _pick(abs(ns), _TIME_UNITS)
    decimals = _decimals(abs(ns) / scale)
    if low < high and f"{low / scale:.{decimals}f}" == f"{high / scale:.{decimals}f}":
        decimals += 1
    return f"{duration(ns)} ({low / scale:.{decimals}f}–{high / scale:.{decimals}f})"


def duration_pm(ns: float | None, uncertainty: float | None) -> str:
    """A difference with its uncertainty in the same unit: ``17.0 ±0.1 ms``; the decimals are the uncertainty's."""
    if ns is None or uncertainty is None or uncertainty <= 0 or not math.isfinite(ns):
        return duration(ns)
    scale, unit = _pick(max(abs(ns), uncertainty), _TIME_UNITS)
    decimals = _decimals(uncertainty / scale, significant=1)
    return f"{_sign(ns)}{abs(ns) / scale:.{decimals}f} ±{uncertainty / scale:.{decimals}f} {unit}"


def seconds(value: float | None) -> str:
    """Wall-clock seconds, whole from ten on: ``96 s``, ``4.6 s``, ``3 min 20 s``."""
    if value is None or not math.isfinite(value):
        return MISSING
    if round(value) >= 120:
        return f"{round(value) // 60} min {round(value) % 60} s"
    return f"{value:.0f} s" if value >= 9.95 else f"{value:.1f} s"


def share(fraction: float | None) -> str:
    """A fraction in per cent. Never ``0 %`` for something nor ``100 %`` for less than all."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    percent, sign = abs(fraction) * 100, _sign(fraction)
    if percent == 0:
        return "0 %"
    if percent < 0.1:
        return f"{sign}<0.1 %"
    if percent < 0.95:
        return f"{sign}{percent:.1f} %"
    if 99.5 <= percent < 100:
        return f"{sign}{min(math.floor(percent * 10) / 10, 99.9):.1f} %"
    return f"{sign}{percent:.0f} %"


def percents(*changes: float, unit: str = "%") -> list[str]:
    """Changes in per cent with their sign, ``+5.1 %``: with digits, three at most, that tell them apart."""
    texts: list[str] = []
    for digits in _PERCENT_DIGITS:
        texts = [f"{_signed(change, digits)} {unit}" for change in changes]
        if len(set(texts)) == len(set(changes)):
            break
    return texts


def _signed(change: float, digits: int) -> str:
    text = f"{abs(change) * 100:.{digits}f}" if abs(change) < 1 else f"{abs(change) * 100:,.0f}"
    return f"{'−' if change < 0 else '+'}{text}"


def written(value: float | None, unit: str) -> str:
    """A figure of any unit: ``300``, ``95 %``, ``2.29 ms``, ``14.0 MiB``."""
    return {"share": share, "ns": duration, "bytes": byte_size}.get(unit, number)(value)


def apart(value: float | None, other: float | None, unit: str) -> str:
    """The value written so that it does not read as another one that it is not: ``94.96 %`` beside 95 %."""
    text = written(value, unit)
    if value is None or other is None or value == other or text != written(other, unit):
        return text
    scale, sign = 1.0, ""
    if unit == "share":
        scale, sign = 0.01, " %"
    elif unit == "ns":
        scale, sign = _pick(abs(value), _TIME_UNITS)
        sign = f" {sign}"
    elif unit == "bytes":
        sign = " B"
    texts = ((f"{value / scale:,.{n}g}", f"{other / scale:,.{n}g}") for n in _MORE_DIGITS)
    return next((f"{mine}{sign}" for mine, its in texts if mine != its), text)


def part(count: int, total: int) -> str:
    """How many of how many, and the share: ``75 of 355 (21 %)``."""
    return f"{count:,} of {total:,} ({share(count / max(total, 1))})"


def ratio(part: float | None, whole: float | None) -> str:
    """``part ÷ whole`` in per cent; missing where either is, or where the whole is nothing."""
    return MISSING if part is None or whole is None or whole == 0 else share(part / whole)


def times(factor: float | None) -> str:
    """A speedup or an observer effect: ``8.3×``, ``1.07×``."""
    if factor is None or not math.isfinite(factor):
        return MISSING
    return f"{factor:.2f}×" if abs(factor) < 1.995 else f"{factor:.1f}×"


def number(value: float | None) -> str:
    """A count, or a median or mean of counts: ``64,335``, ``1.5``, ``0.25``. Never ``0`` for something."""
    if value is None or not math.isfinite(value):
        return MISSING
    if float(value).is_integer() or abs(value) >= 10:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}".rstrip("0").rstrip(".")


def plural(count: float, noun: str, nouns: str | None = None) -> str:
    """``1 kernel``, ``2 kernels``, ``735 launches``."""
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {nouns or noun + 's'}"


def byte_size(count: float | None) -> str:
    """Bytes in binary units: ``14.0 MiB``."""
    if count is None or not math.isfinite(count):
        return MISSING
    scale, unit = _pick(abs(count), _BYTE_UNITS)
    return f"{number(count)} B" if unit == "B" else f"{_sign(count)}{_digits(abs(count) / scale)} {unit}"


def rate(per_second: float | None, unit: str) -> str:
    """Something per second in decimal units: ``4.26 TB/s``, ``790 TFLOP/s``."""
    if per_second is None or not math.isfinite(per_second):
        return MISSING
    scale, prefix = _pick(abs(per_second), _SI_UNITS)
    return f"{_digits(per_second / scale)} {prefix}{unit}/s"


def error(value: float | None) -> str:
    """A numerical error: ``2e-3``, ``0.31``; zero is ``0``."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    if value >= 0.01:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def error_share(fraction: float) -> str:
    """A numerical error relative to what it is an error of: ``3.9 %``, ``2e-3 %``, ``150 %``."""
    return share(fraction) if fraction >= 0.995 else f"{error(fraction * 100)} %"


def printable(text: str) -> str:
    """Foreign text on one line: every character that draws nothing or moves the text is shown as its escape.

    What is longer than any name of a compiler's loses its middle: a damaged file may have names of MBs.
    """
    text = _without_middle(text, _LONGEST_TEXT)
    if text.isprintable():
        return text
    return "".join(_visible(char) if unicodedata.category(char) in _UNPRINTABLE else char for char in text)


def one_line(text: str) -> str:
    """A foreign sentence on one line: line breaks and runs of blanks become one blank."""
    return printable(" ".join(text.split()))


def without_commands(text: str) -> str:
    """Text for a log that CI runners read: no line of it begins a command of GitHub's, or of Azure's."""
    return _AZURES.sub("# #", _GITHUBS.sub(r"\1: :", text))


def brief(name: str) -> str:
    """A foreign name as a sentence can hold it: a long one loses its middle."""
    return _without_middle(name, _LONGEST_NAME)


def _without_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _sign(value: float) -> str:
    return "−" if value < 0 else ""


def _pick(magnitude: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The largest unit that leaves at least 1 after rounding to three digits."""
    for scale, unit in reversed(units):
        if magnitude / scale >= 0.9995:
            return scale, unit
    return units[0]


def _digits(value: float) -> str:
    return f"{value:,.{_decimals(value)}f}"


def _decimals(value: float, significant: int = 3) -> int:
    """Decimals that show this many significant digits of a value, after rounding."""
    if value == 0:
        return significant - 1
    exponent = math.floor(math.log10(abs(value)))
    if round(abs(value), significant - 1 - exponent) >= 10 ** (exponent + 1):
        exponent += 1
    return max(0, significant - 1 - exponent)


TIMES: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
SIZES: Final = {name: scale for scale, name in _BYTE_UNITS} | {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
RATES: Final = {f"{name}/s": scale for name, scale in SIZES.items()}
"""Units by name: a time in ns, a size in bytes, a rate in bytes per second."""

MOST: Final = 1e18
"""Of any quantity, in ns, bytes or bytes per second; none but 0 is less than one such part of it. Beyond that products
and quotients of two are no numbers any more."""

_QUANTITY: Final = re.compile(
    r"\s*(\d+\.?\d*(?:[eE][+-]?\d{1,3})?|\.\d+(?:[eE][+-]?\d{1,3})?)\s*([^\W\d_]+(?:/s)?)?\s*"
)


def quantity(text: str, units: Mapping[str, float]) -> float:
    """The value in the unit whose scale is 1. ValueError says what is wrong and which units there are.

    A 0 needs no unit; nothing else goes without one.
    """
    found = _QUANTITY.fullmatch(text)
    known = ", ".join(name for name in units if name != "μs")
    if found is None:
        raise ValueError(f"'{text}' is no number with a unit; units are {known}")
    amount, unit = float(found[1]), found[2] or ""
    if unit not in units and (unit or amount):
        meant = next((name for name in units if name.lower() == unit.lower()), None)
        hint = f"; write {found[1]}{meant}" if meant else ""
        raise ValueError(f"'{text}' has {f'the unit {unit}' if unit else 'no unit'}; there are {known}{hint}")
    value = amount * units.get(unit, 1.0)
    if value > MOST:
        raise ValueError(f"'{text}' is more than any such quantity")
    if value < 1 / MOST and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise ValueError(f"'{text}' is less than any such quantity")
    return value
