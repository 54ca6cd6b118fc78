"""What a report is told in: a story is a list of blocks, and a renderer only knows blocks.

Every text in a block may hold foreign characters; the renderer escapes it for its output. The terminal and Markdown
show the same story.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .tables import Table


@dataclass(frozen=True)
class Heading:
    """What the report, or one part of it, is about: the thing itself, and what it ran on."""

    left: str
    right: str = ""
    divides: bool = False  # starts a new part


@dataclass(frozen=True)
class Headline:
    """The answer in one sentence."""

    text: str
    good: bool | None = None  # True: the GPU is busy; None: no answer


@dataclass(frozen=True)
class Fact:
    """A label and what there is to say under it, one line each."""

    label: str
    lines: Sequence[str]
    concern: bool = False  # changes how to read the figures


@dataclass(frozen=True)
class Bar:
    name: str
    fraction: float
    detail: str


@dataclass(frozen=True)
class Bars:
    """Parts of one whole."""

    label: str
    bars: Sequence[Bar]
    rest: str = ""


@dataclass(frozen=True)
class Listing:
    """A table, and notes on single figures in it, numbered as they are marked there."""

    table: Table
    notes: Sequence[str] = ()


Block = Heading | Headline | Fact | Bars | Listing


def marked(cell: str, marks: Sequence[int]) -> str:
    """A cell with the numbers of the notes that concern it: ``19.0 ms¹``."""
    return cell + "·".join(superscript(mark) for mark in marks)


def superscript(number: int) -> str:
    """A number as a mark: it reads the same beside the figure and before the note."""
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(number))
