"""Blocks and documents as text or bytes: the three outputs of what has a story, terminal text, JSON and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from ..story import Block


class Outputs(NamedTuple):
    """Of one kind of subject."""

    render_terminal: Callable[..., str]
    render_json: Callable[[Any], str]
    render_markdown: Callable[[Any], str]


def json_text(document: object) -> str:
    """One JSON document, indented, with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def outputs_of(
    tell: Callable[..., Iterable[Block]],
    render_json: Callable[[Any], str] = json_text,
    *,
    markdown_in_full: bool = False,
) -> Outputs:
    """Of a subject whose blocks ``tell(subject, verbose=…)`` yields."""

    def render_terminal(subject: Any, *, width: int, color: bool, verbose: bool) -> str:
        """As text, ``width`` columns at most."""
        from . import terminal

        return terminal.render(tell(subject, verbose=verbose), width=width, color=color)

    def render_markdown(subject: Any) -> str:
        """As GitHub-flavoured Markdown."""
        from . import markdown

        return markdown.render(tell(subject, verbose=markdown_in_full))

    return Outputs(render_terminal, render_json, render_markdown)
