"""A story as GitHub-flavoured Markdown: in headings, lists and tables."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

from ..model.units import MISSING, one_line, printable, share
from ..story import Bars, Block, Column, Fact, Heading, Headline, Listing, Table, superscript

# `_` inside a word is no emphasis in GitHub's Markdown: mode names stay readable in the source.
_SPECIAL: Final = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")


def render(blocks: Iterable[Block]) -> str:
    """A story as Markdown; foreign text can't add markup, links, columns or lines to it."""
    sections: list[str] = []
    before: Block | None = None
    for block in blocks:
        text = "\n".join(_write(block, first=before is None))
        if isinstance(block, Fact) and isinstance(before, Fact):
            sections[-1] += "\n" + text
        elif text:
            sections.append(text)
        before = block
    return "\n\n".join(sections) + "\n"


def _write(block: Block, *, first: bool) -> Iterator[str]:
    match block:
        case Heading():
            yield f"{'##' if first else '###'} {escaped(block.left)}"
            if block.right:
                yield f"\n{escaped(block.right)}"
        case Headline():
            verdict, colon, reason = block.text.partition(": ")
            yield f"**{escaped(verdict)}**{colon}{escaped(reason)}"
        case Fact():
            yield from _fact(block)
        case Bars():
            yield f"| {escaped(block.label)} | share | |\n| :-- | --: | :-- |"
            yield from (
                f"| {escaped(bar.name)} | {share(bar.fraction)} | {escaped(bar.detail)} |" for bar in block.bars
            )
            if block.rest:
                yield f"\n{escaped(block.rest)}"
        case Listing():
            if block.table.headless:
                yield from _list(block.table)
            else:
                yield "\n\n".join("\n".join(_table(part)) for part in block.table.parts())
            if block.table.more:
                yield f"\n… {block.table.more} more"
            if block.notes:
                yield ""
                yield from (f"- {escaped(_numbered(note, number))}" for number, note in enumerate(block.notes, 1))


def _numbered(note: str, number: int) -> str:
    return note if note.startswith("*") else f"{superscript(number)} {note}"


def _fact(block: Fact) -> Iterator[str]:
    label = f"- **{escaped(block.label)}:**"
    if len(block.lines) == 1:
        yield f"{label} {escaped(block.lines[0])}"
        return
    yield label
    yield from (f"  - {escaped(line)}" for line in block.lines)


def _list(table: Table) -> Iterator[str]:
    """A table without a head as a numbered list: its first column is the number."""
    for number, row in enumerate(table.rows, 1):
        what, *rest = (cell for cell in row.cells[1:])
        yield f"{number}. **{escaped(what)}** {escaped(', '.join(cell for cell in rest if cell))}".rstrip()


def _table(table: Table) -> Iterator[str]:
    yield _row(escaped(column.title.replace("\n", " ")) for column in table.columns)
    yield _row("--:" if column.right else ":--" for column in table.columns)
    for row in table.rows:
        if row.span is None:
            yield _row(_cell(cell, column) for cell, column in zip(row.cells, table.columns, strict=True))
        else:
            blank = [""] * (len(table.columns) - 2)
            yield _row([_cell(row.cells[0], table.columns[0]), escaped(row.span), *blank])


def _row(cells: Iterator[str] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str, column: Column) -> str:
    return code(text) if column.foreign and text not in ("", MISSING) else escaped(text)


def escaped(text: str) -> str:
    """Foreign text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(lambda match: f"\\{match.group()}", one_line(text))


def code(text: str) -> str:
    """A foreign name as code. A code span can't hold a backtick, nor, in a table, a pipe: such a name goes in HTML."""
    name = printable(text)
    if not re.search(r"[`|]", name) and name.strip():
        return f"`{name}`"
    entities = re.sub(r"[\\`*_\[\]|~$]", lambda match: f"&#{ord(match.group())};", html.escape(name))
    return f"<code>{entities}</code>"
