"""A story for a terminal: at most ``width`` columns, as good without colour as with it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..model.units import one_line, printable, share, without_commands
from ..story import Bars, Block, Fact, Heading, Headline, Listing, superscript
from . import table_layout
from .table_layout import middle, pad, wrap

LABEL: Final = 15  # cells of the label column; a longer label, such as 'bound, fused_graph', pushes its line on
MIN_WIDTH: Final = 60
BAR_ROOM: Final = 48  # cells of the longest bar: more does not tell shares apart better
BAR_FIGURES: Final = 12  # cells beside a bar: its share in per cent, and blanks
BAR: Final = "█"
PARTS: Final = " ▏▎▍▌▋▊▉"

STYLES: Final = {"head": "dim", "row": "", "strong": "bold", "span": "red", "label": "dim", "concern": "dark_orange3"}

Line = list[tuple[str, str]]
"""Pieces of one line, each with its style."""


def render(blocks: Iterable[Block], *, width: int, color: bool) -> str:
    """A story as text, ``width`` columns at most (60 at least); colour only where it repeats what words say.

    No line of it is a command to a CI runner that reads along.
    """
    width = max(width, MIN_WIDTH)
    lines: list[Line] = []
    before: Block | None = None
    for block in blocks:
        if before is not None and not _joins(before, block):
            lines.append([])
        lines += _draw(block, width)
        before = block
    return without_commands(_write(lines, width, color=color))


def _label(text: str) -> str:
    text = one_line(text)
    return pad(text, LABEL) if len(text) < LABEL else f"{text} "


def _joins(before: Block, block: Block) -> bool:
    """Facts stand close to what they follow, tables and headlines have air around them."""
    return isinstance(block, Fact | Bars) and isinstance(before, Fact | Bars | Heading)


def _draw(block: Block, width: int) -> Iterator[Line]:
    match block:
        case Heading():
            yield from _heading(block, width)
        case Headline():
            style = {True: "bold green", False: "bold dark_orange3", None: "bold"}[block.good]
            yield from ([(text, style)] for text in wrap(one_line(block.text), width))
        case Fact():
            yield from _fact(block, width)
        case Bars():
            yield from _bars(block, width)
        case Listing():
            yield from _listing(block, width)


def _heading(block: Heading, width: int) -> Iterator[Line]:
    left, right = one_line(block.left), one_line(block.right)
    if block.divides:
        yield [("─" * width, "dim")]
    if cell_len(left) + cell_len(right) + 4 <= width:
        yield [(left, "bold"), (pad(right, width - cell_len(left), right=True), "dim")]
        return
    yield from ([(text, "bold")] for text in wrap(left, width))
    yield from ([(text, "dim")] for text in wrap(right, width) if right)


def _fact(block: Fact, width: int) -> Iterator[Line]:
    style = "concern" if block.concern else "label"
    bullet = "! " if block.concern else ""
    label = _label(block.label)
    for line in block.lines:
        for number, text in enumerate(wrap(one_line(line), max(width - cell_len(label) - len(bullet), 1))):
            yield [(label, style), ((" " * len(bullet) if number else bullet) + text, "")]
            label = " " * LABEL


def _bars(block: Bars, width: int) -> Iterator[Line]:
    label = _label(block.label)
    indent = cell_len(label)  # a longer label pushes every bar on: they stay comparable
    name_width = max(cell_len(bar.name) for bar in block.bars)
    detail_width = max(cell_len(bar.detail) for bar in block.bars)
    room = min(max(width - indent - name_width - detail_width - BAR_FIGURES, 0), BAR_ROOM)
    for bar in block.bars:
        drawn = pad(_bar(bar.fraction, room), room) if room else ""
        figures = f" {share(bar.fraction):>7}  {middle(bar.detail, width - indent - name_width - BAR_FIGURES)}"
        yield [(label, "label"), (f"{pad(bar.name, name_width)}  ", ""), (drawn, "cyan"), (figures, "")]
        label = " " * indent
    yield from ([(" " * indent + text, "")] for text in wrap(block.rest, width - indent) if block.rest)


def _bar(fraction: float, room: int) -> str:
    eighths = max(round(fraction * room * 8), 1)
    return BAR * (eighths // 8) + PARTS[eighths % 8].strip()


def _listing(block: Listing, width: int) -> Iterator[Line]:
    table = block.table.map(printable)
    for number, layout in enumerate(table_layout.fold(table, width)):
        if number:
            yield []
        yield from ([(text, role)] for text, role in table_layout.lines(table, layout, width, spans=not number))
    if table.more:
        yield [(f"… {table.more} more", "dim")]
    for number, note in enumerate(block.notes, 1):
        mark = f"{superscript(number)} " if not note.startswith("*") else ""
        yield from ([(text, "concern")] for text in wrap(f"{mark}{one_line(note)}", width))


def _write(lines: Sequence[Line], width: int, *, color: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for line in lines:
        text = Text(no_wrap=True, overflow="ignore", end="")
        for piece, style in line:
            text.append(printable(piece), STYLES.get(style, style))
        text.rstrip()
        console.print(text, soft_wrap=True)
    return out.getvalue()
