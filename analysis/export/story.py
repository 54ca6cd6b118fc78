"""A report document as a story: blocks in reading order, the same for every output that people read."""

from __future__ import annotations

from ..document import ReportDocument
from .blocks import Block, Headline
from .profile_story import profile_story
from .trace_story import trace_story, traces_overview


def tell(document: ReportDocument, *, verbose: bool) -> list[Block]:
    """The whole story. A profile's recordings are told one by one only with ``verbose``."""
    if document.profile is not None:
        story = profile_story(document, document.profile, verbose=verbose)
        if verbose:
            story += [part for trace in document.traces for part in trace_story(trace, verbose=True, divides=True)]
        return story
    if not document.traces:
        return [Headline("nothing to report: no trace was given")]
    several = len(document.traces) > 1
    story = list(traces_overview(document.traces)) if several else []
    return story + [part for t in document.traces for part in trace_story(t, verbose=verbose, divides=several)]
