"""Limits: what a check allows of each figure, parsed from the words of a configuration file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from ..figures.registry import values
from ..model.errors import ConfigError
from ..model.units import SIZES, TIMES

COUNT: Final = "count"
SHARE: Final = "share"
TIME: Final = "ns"
BYTES: Final = "bytes"


@dataclass(frozen=True)
class Figure:
    """Something that can be limited."""

    name: str
    unit: str
    words: str  # in a sentence; of counts the plural
    example: str  # a limit that makes sense
    one: str = ""  # of counts the singular
    less_is_better: bool = True
    more_is_better: bool = False


FIGURES: Final = {
    figure.name: figure
    for figure in (
        Figure("launches", COUNT, "launches per step", "<= 300", "launch per step"),
        Figure("kernels", COUNT, "kernels per step", "+0", "kernel per step"),
        Figure("graph_launches", COUNT, "graph launches per step", "<= 1", "graph launch per step", True, True),
        Figure("blocking_calls", COUNT, "blocking calls per step", "== 0", "blocking call per step"),
        Figure("memcpys", COUNT, "memory copies per step", "+0", "memory copy per step"),
        Figure("graph_coverage", SHARE, "graph coverage", ">= 0.95", "", False, True),
        Figure("step_time", TIME, "step time", "+3%"),
        Figure("gpu_work", TIME, "GPU work per step", "+3%"),
        Figure("launch_tax", TIME, "launch tax per step", "<= 800 us"),
        Figure("true_idle", SHARE, "true idle", "<= 0.2"),
        Figure("graph_memory", BYTES, "memory held by graphs", "<= 64 MiB"),
        *(
            Figure(its.name, its.kind, its.words, its.limit, "", its.less_is_better, its.more_is_better)
            for _, its in values()
            if its.limit is not None
        ),
    )
}
TIMED: Final = (
    *("step_time", "gpu_work", "launch_tax", "true_idle"),
    *(value.name for _, value in values() if value.kind == TIME),
)
"""Figures that the clock decides: no two measurements agree in them, and only those of one machine are comparable."""
OF_GRAPHS: Final = ("graph_launches", "graph_coverage", "graph_memory")
"""Figures of which a limit that names no mode is about the modes that may replay graphs."""

_UNITS: Final[Mapping[str, Mapping[str, float]]] = {COUNT: {}, SHARE: {}, TIME: TIMES, BYTES: SIZES}

_LIMIT: Final = re.compile(
    r"\s*(<=|>=|==|<|>|\+|-)?\s*(\d+\.?\d*(?:[eE][+-]?\d{1,9})?|\.\d+(?:[eE][+-]?\d{1,9})?)\s*([^\W\d_]*|%)\s*"
)
_LONGEST: Final = 60  # characters of a value in a message
_MOST: Final = 1e18
"""Larger than any count, and 30 years in ns."""


@dataclass(frozen=True)
class Limit:
    """What is allowed of one figure.

    ``sign`` is <=, <, >=, > or == against ``amount``; + or -: from the baseline's value it may grow, or fall, by at
    most ``amount``, which is a share of it where ``proportional``.
    """

    figure: str
    sign: str
    amount: float  # count, share, ns or bytes
    proportional: bool = False
    text: str = field(default="", compare=False)  # as it was written
    where: str = field(default="", compare=False)  # what asked for it

    @property
    def relative(self) -> bool:
        """Whether it needs a baseline."""
        return self.sign in ("+", "-")

    def allowed(self, baseline: float | None) -> float:
        """The value that it comes to; the baseline's is needed where it is relative."""
        if not self.relative:
            return self.amount
        assert baseline is not None, "a relative limit needs the baseline's value"
        by = baseline * self.amount if self.proportional else self.amount
        return baseline + by if self.sign == "+" else baseline - by

    def holds(self, value: float, baseline: float | None, *, noise: float = 0.0) -> bool:
        """Whether the value is allowed; ``noise`` is what it may be off by for how floats are added up."""
        allowed = self.allowed(baseline)
        match self.sign:
            case "<=" | "+":
                return value <= allowed + noise
            case ">=" | "-":
                return value >= allowed - noise
            case "<":
                return value < allowed - noise
            case ">":
                return value > allowed + noise
            case _:
                return abs(value - allowed) <= noise


def parse(figure: str, value: object, at: str = "limits", where: str = "") -> Limit:
    """The limit that a configuration's value means; ``at`` tells where it stands. ConfigError says what to write."""
    kind = FIGURES[figure]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refused(kind, at, value, f"is {_kind_of(value)}, no limit")
    if isinstance(value, str):
        found = _LIMIT.fullmatch(value)
        if found is None:
            raise _refused(kind, at, value, "is no limit")
        sign, digits, unit, text = found[1] or "==", found[2], found[3], value.strip()
        amount = _number(kind, at, value, digits)
    else:
        sign, digits, unit = "==", "", ""
        amount, text = _number(kind, at, value, value), str(value)
    _check_sign(kind, at, value, sign)
    proportional = sign in ("+", "-") and unit == "%"
    if proportional and kind.unit == SHARE:
        points = f"{sign}{repr(_of_hundred(digits)).removesuffix('.0')}"
        raise _refused(kind, at, value, f"could mean two things; of a share, write points: '{points}'", example=False)
    is_share = proportional or (unit == "%" and kind.unit == SHARE)
    amount = _of_hundred(digits) if is_share else amount * _scale(kind, at, value, amount, unit)
    if kind.unit == SHARE and amount > 1:
        raise _refused(kind, at, value, "is more than all; shares are 0 to 1, or 0% to 100%")
    return Limit(figure, sign, amount, proportional, text, where)


def _number(kind: Figure, at: str, value: object, digits: str | int | float) -> float:
    try:
        number = float(digits)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number > _MOST:
        raise _refused(kind, at, value, "is no number that can be a limit")
    if number < 0:
        raise _refused(kind, at, value, "is below 0, which nothing is")
    return number


def _check_sign(kind: Figure, at: str, value: object, sign: str) -> None:
    if sign == "==" and kind.name in TIMED:
        raise _refused(kind, at, value, "means exactly that, and no two measurements are so alike")
    if sign in ("<=", "<", "+") and not kind.less_is_better:
        raise _refused(kind, at, value, f"sets an upper limit, and of {kind.words} more is better")
    if sign in (">=", ">", "-") and not kind.more_is_better:
        raise _refused(kind, at, value, f"sets a lower limit, and of {kind.words} less is better")


def _scale(kind: Figure, at: str, value: object, amount: float, unit: str) -> float:
    units = _UNITS[kind.unit]
    if unit in units:
        return units[unit]
    if not unit and (not units or not amount):
        return 1.0
    if not units:
        raise _refused(kind, at, value, f"has a unit, '{unit}'; {kind.words} have none")
    meant = next((known for known in units if known.lower() == unit.lower()), "ms" if kind.unit == TIME else "MiB")
    known = ", ".join(name for name in units if name != "μs")
    fixed = f"{str(value).strip().removesuffix(unit).rstrip()} {meant}"
    has = f"the unit '{unit}'" if unit else "no unit"
    raise _refused(kind, at, value, f"has {has}; there are {known}: write '{fixed}', say", example=False)


def _refused(kind: Figure, at: str, value: object, why: str, *, example: bool = True) -> ConfigError:
    more = f': write {kind.name} = "{kind.example}", say' if example else ""
    return ConfigError(f"{at}: {kind.name} = {shown(value)} {why}{more}")


def shown(value: object) -> str:
    """A configuration's value as a message quotes it."""
    try:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # an integer of more digits than Python writes
        text = "a number of thousands of digits"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"'{text}'" if isinstance(value, str) else text


def _kind_of(value: object) -> str:
    names = {bool: "true or false", list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def _of_hundred(percent: str) -> float:
    """Per cent as a share, by moving the point: what is divided by 100 in binary is not always what was written."""
    return float(Decimal(percent).scaleb(-2))
