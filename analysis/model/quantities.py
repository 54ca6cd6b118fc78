"""Quantities as people write them: ``5us``, ``5.5 GiB``, ``1TB/s``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

TIMES: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
SIZES: Final = {
    "B": 1.0,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
}
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
