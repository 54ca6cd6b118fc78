"""Recordings whose truth is known: the truth is printed, or what is missing has its reason."""

from __future__ import annotations

from typing import Final

import pytest

from .judge import kind_of, wrong

SEEDS: Final = 2500
CHUNK: Final = 50


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_is_printed_is_true(first: int) -> None:
    found = {seed: wrong(seed) for seed in range(first, first + CHUNK)}
    assert not {(seed, kind_of(seed)): what for seed, what in found.items() if what}
