"""Columns of numbers: following a reference to another table, and numbering rows that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from .trace import NONE, Ints, narrow

Scalar = TypeVar("Scalar", np.signedinteger[Any], np.bool_)
_CLOSE: Final = 4  # places per row up to which a look-up takes less than sorting


def follow(column: NDArray[Scalar], rows: Ints, absent: int = NONE) -> NDArray[Scalar]:
    """The column's values at these rows; ``absent`` where the row is NONE."""
    dtype: Any = np.bool_ if column.dtype == np.bool_ else np.int64
    values = np.full(len(rows), absent, dtype=dtype)
    found = rows != NONE
    values[found] = column[rows[found]]
    return values


def named(names: Sequence[str], indices: Ints) -> list[str | None]:
    """The names at these indices; null where the index is NONE."""
    return [None if index == NONE else names[index] for index in indices.tolist()]


def numbered(*columns: Ints) -> Ints:
    """A number for each row, from 0, equal where all columns are; ascending by the first column, then the next."""
    numbers, count = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        if not len(column) or column.min() == column.max():
            continue
        place, distinct = _places(column)
        numbers, count = _places(numbers * distinct + place) if count > 1 else (place, distinct)
    return numbers


def _places(values: Ints) -> tuple[Ints, int]:
    """The place of each value among the distinct ones, and how many those are: quick for ids, which are close."""
    lowest, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if span > _CLOSE * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return place, len(distinct)
    values = values.astype(np.int64) - lowest
    is_there = np.zeros(span, np.bool_)
    is_there[values] = True
    place = np.cumsum(is_there) - 1
    return place[values], int(place[-1]) + 1


def grouped(numbers: Ints, count: int) -> list[Ints]:
    """The rows of each number below ``count``, ascending."""
    short = numbers.astype(np.min_scalar_type(count))  # numpy sorts short ones the fastest
    order = narrow(np.argsort(short, kind="stable"))
    return np.split(order, np.searchsorted(short[order], np.arange(1, count)))[:count]
