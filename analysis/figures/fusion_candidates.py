"""What could be one kernel; found where a recording has the shapes of operators' inputs (profile/fusion_advice.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..model.document import TraceDoc
from ..model.fusion_document import FusionDoc
from ..story.blocks import Block
from .figure import Figure
from .fusion.fusion_story import fusion_story


def _tables(trace: TraceDoc, verbose: bool) -> Iterable[Block]:
    """Of a bare trace: a profile tells its own."""
    return fusion_story(trace.fusion, verbose=verbose) if trace.trace_pass is None else ()


FUSION: Final[Figure[FusionDoc]] = Figure(
    "fusion", "operators that could be one kernel", FusionDoc, None, tables=_tables
)
