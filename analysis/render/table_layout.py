"""Tables that fit: columns that don't fit continue in a further block, by rank; long names lose their middle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, chop_cells

from ..story import Column, Row, Table

GAP: Final = "  "

_UNITS: Final = frozenset({"%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "TB/s"})


@dataclass(frozen=True)
class Layout:
    """Some columns of a table with the width of each."""

    columns: Sequence[int]
    widths: Sequence[int]


def fold(table: Table, width: int) -> list[Layout]:
    """The table in blocks no wider than ``width``; the key column opens each."""
    natural = [_natural(table, index) for index in range(len(table.columns))]
    least = [
        size if column.least is None else min(size, column.least)
        for size, column in zip(natural, table.columns, strict=True)
    ]
    required = [i for i, column in enumerate(table.columns) if not column.optional]
    room = width - sum(len(GAP) + natural[i] for i in required)
    told = required + _affordable([i for i in range(len(table.columns)) if i not in required], natural, room)
    waiting = sorted(told[1:], key=lambda i: (table.columns[i].behind, table.columns[i].rank, i))
    blocks: list[Layout] = []
    while waiting or not blocks:
        chosen, used = [0], least[0]
        for index in list(waiting):
            needed = len(GAP) + least[index]
            late = not blocks and table.columns[index].behind
            if len(chosen) > 1 and (used + needed > width or late):
                break
            chosen.append(index)
            waiting.remove(index)
            used += needed
        waiting = [index for index in waiting if not table.columns[index].spare]
        chosen.sort()
        blocks.append(Layout(chosen, _stretch([natural[i] for i in chosen], [least[i] for i in chosen], width)))
    return blocks


def _affordable(optional: list[int], natural: list[int], room: int) -> list[int]:
    chosen = []
    for index in optional:
        if len(GAP) + natural[index] <= room:
            chosen.append(index)
            room -= len(GAP) + natural[index]
    return chosen


def _natural(table: Table, index: int) -> int:
    cells = [row.cells[index] for row in table.rows if row.span is None or index == 0]
    title = [] if table.headless else table.columns[index].title.split("\n")
    return max((cell_len(text) for text in [*cells, *title]), default=0)


def _stretch(natural: list[int], least: list[int], width: int) -> list[int]:
    """Widths between least and natural: what is left over goes where most is wanted; cut evenly if nothing fits."""
    left = width - len(GAP) * (len(natural) - 1) - sum(least)
    sizes = list(least)
    wanting = [i for i in range(len(sizes)) if natural[i] > sizes[i]]
    while left > 0 and wanting:
        index = min(wanting, key=lambda i: sizes[i] / natural[i])
        sizes[index] += 1
        left -= 1
        wanting = [i for i in wanting if natural[i] > sizes[i]]
    while left < 0 and max(sizes) > 1:
        sizes[sizes.index(max(sizes))] -= 1
        left += 1
    return sizes


def lines(table: Table, layout: Layout, width: int, *, spans: bool = True) -> list[tuple[str, str]]:
    """The block's lines, each with its role: 'head', 'row', 'strong' or 'span'; ``spans`` only once per table."""
    columns = [table.columns[index] for index in layout.columns]
    written: list[tuple[str, str]] = []
    if not table.headless:
        titles = [column.title.split("\n") for column in columns]
        height = max(len(title) for title in titles)
        for level in range(height):
            cells = [title[level - height + len(title)] if level >= height - len(title) else "" for title in titles]
            written.append((_join(cells, columns, layout.widths), "head"))
    told = [row for row in table.rows if row.span is None]
    short = [
        told_apart((row.cells[index] for row in told), size)
        for index, size in zip(layout.columns, layout.widths, strict=True)
    ]
    for row in table.rows:
        if row.span is not None:
            written += [(text, "span") for text in _span(row, layout, width) if spans]
            continue
        cells = [row.cells[index] for index in layout.columns]
        parts = [
            wrap(cell, size) if column.wraps else [its[cell]]
            for cell, column, size, its in zip(cells, columns, layout.widths, short, strict=True)
        ]
        for level in range(max(len(part) for part in parts)):
            texts = [part[level] if level < len(part) else "" for part in parts]
            written.append((_join(texts, columns, layout.widths), "strong" if row.strong else "row"))
    return written


def _span(row: Row, layout: Layout, width: int) -> list[str]:
    indent = layout.widths[0] + len(GAP)
    texts = wrap(row.span or "", max(width - indent, 1))
    key = pad(middle(row.cells[0], layout.widths[0]), layout.widths[0]) + GAP
    return [(key if level == 0 else " " * indent) + text for level, text in enumerate(texts)]


def _join(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = [
        pad(middle(cell, size), size, right=column.right)
        for cell, column, size in zip(cells, columns, widths, strict=True)
    ]
    return GAP.join(padded).rstrip()


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Text filled up to a width in cells."""
    blank = " " * max(width - cell_len(text), 0)
    return blank + text if right else text + blank


def told_apart(texts: Iterable[str], width: int) -> dict[str, str]:
    """Each text no wider than ``width`` cells; those that would read alike lose most of how both begin."""
    alike: dict[str, list[str]] = defaultdict(list)
    for text in dict.fromkeys(texts):
        alike[middle(text, width)].append(text)
    short: dict[str, str] = {}
    for cut, its in alike.items():
        begin = _same_beginning(its) - width // 8
        if len(its) == 1 or begin <= 1:
            short |= dict.fromkeys(its, cut)
        else:
            ends = {text: f"…{text[begin:]}" for text in its}
            again = told_apart(ends.values(), width)
            short |= {text: again[end] for text, end in ends.items()}
    return short


def _same_beginning(texts: Sequence[str]) -> int:
    """Characters that all begin with."""
    first, last = min(texts), max(texts)
    return next((at for at, (its, other) in enumerate(zip(first, last, strict=False)) if its != other), len(first))


def middle(text: str, width: int) -> str:
    """Text no wider than ``width`` cells: the middle goes, as the ends of kernel names tell them apart."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = _end(text, (width - 1) // 2)
    head = chop_cells(text, width - 1 - cell_len(tail))[0] if width - 1 > cell_len(tail) else ""
    return f"{head}…{tail}"


def _end(text: str, width: int) -> str:
    start = len(text)
    while start > 0 and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]


def wrap(text: str, width: int) -> list[str]:
    """Text in lines no wider than ``width`` cells, broken after `` ·`` first, else at blanks; longer words are cut."""
    written: list[str] = []
    line = ""
    for part in _parts(text, width):
        joined = f"{line} {part}" if line else part
        if cell_len(joined) <= width:
            line = joined
            continue
        if line:
            written.append(line)
        *full, line = chop_cells(part, width) or [part]
        written += full
    return [*written, line] if line or not written else written


def _parts(text: str, width: int) -> list[str]:
    """Pieces that should stay together: what stands between `` · `` where that fits on a line, else words."""
    parts: list[str] = []
    items = text.split(" · ")
    for index, item in enumerate(items):
        piece = item if index == len(items) - 1 else f"{item} ·"
        parts += [piece] if len(items) > 1 and cell_len(piece) <= width else _words(piece)
    return parts


def _words(text: str) -> list[str]:
    """Words; a number keeps its unit and a product its factors."""
    words: list[str] = []
    for word in text.split(" "):
        bare = word.rstrip(".,;:)")
        if words and ((words[-1][-1:].isdigit() and bare in _UNITS) or word == "·"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words
