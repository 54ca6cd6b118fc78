"""A prediction told: what it starts from, how well that was met, and what it says with its range."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.units import MISSING, duration, duration_interval, percents
from ...render.outputs import outputs_of
from ...story.blocks import Block, Fact, Heading, Headline, Listing
from ...story.tables import Column, Row, Table
from .prediction import WhatIfDoc


def _tell(doc: WhatIfDoc, *, verbose: bool) -> Iterator[Block]:
    del verbose  # there is no more to tell
    yield Heading(doc.source, " · ".join(filter(None, [doc.mode, doc.trace, f"{doc.steps} steps"])))
    told = duration_interval(doc.predicted_ns, doc.low_ns, doc.high_ns)
    if doc.knobs:
        yield Headline(f"PREDICTED: {told} with {', '.join(doc.knobs)}; without {duration(doc.simulated_ns)}")
    else:
        yield Headline(f"SIMULATED: {told} with nothing changed; see launchscope whatif --help")
    rows = [
        Row(["as recorded", duration(doc.recorded_ns), _error(doc.recorded_error)]),
        Row(["second half from first", MISSING, _error(doc.half_error)]),
        Row(["T, unprofiled", duration(doc.unprofiled_ns), _error(doc.unprofiled_error)]),
    ]
    yield Listing(Table([Column("the start", right=False), Column("measured"), Column("simulated is off by")], rows))
    if doc.half_difference is not None:
        yield Fact("halves", [f"the recorded halves differ by {_error(doc.half_difference)}"])
    yield Fact("host", [f"as recorded × {doc.host_factor:.2f}: as fast as without the profiler"])
    yield Fact("range", ["as much as the start was missed by, 1 % at the least"])


def _error(share: float | None) -> str:
    return MISSING if share is None else percents(share)[0]


render_terminal, render_json, render_markdown = outputs_of(_tell)
