"""The three outputs of a document that has a story of its own: terminal text, JSON and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from ..story.blocks import Block
from . import markdown, terminal

_Document = TypeVar("_Document", bound=msgspec.Struct)


def story_outputs(
    tell: Callable[[_Document], Iterable[Block]],
) -> tuple[Callable[..., str], Callable[[_Document], str], Callable[[_Document], str]]:
    """``render_terminal``, ``render_json`` and ``render_markdown`` of a document whose blocks ``tell`` yields."""

    def render_terminal(doc: _Document, *, width: int, color: bool, verbose: bool) -> str:
        """As text, ``width`` columns at most."""
        del verbose  # there is no more to tell
        return terminal.render_blocks(tell(doc), width=width, color=color)

    def render_json(doc: _Document) -> str:
        """As one JSON document of its schema."""
        return msgspec.json.format(msgspec.json.encode(doc), indent=2).decode() + "\n"

    def render_markdown(doc: _Document) -> str:
        """As Markdown."""
        return markdown.render_blocks(tell(doc))

    return render_terminal, render_json, render_markdown
