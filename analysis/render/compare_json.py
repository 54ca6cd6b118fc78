"""A comparison as one JSON document: schema ``launchscope.comparisons/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..compare.compared_paths import Comparison


def render(comparison: Comparison) -> str:
    """The document, indented, with a line break at its end."""
    return comparison.to_json().decode() + "\n"
