"""The graph doctor: did CUDA graphs engage, and what is in their way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..facts.context import Context
from ..model.advisor_documents import GraphDoctorDoc
from ..model.document import TraceDoc
from ..story import Block
from .blocking import BLOCKING_CALLS
from .figure import Figure
from .graphs.doctor import graph_doctor
from .graphs.findings import trace_findings
from .graphs.graph_story import graph_story


def _compute(context: Context) -> GraphDoctorDoc | None:
    """Null without a GPU op."""
    if context.headline is None:
        return None
    found, steps = graph_doctor(context), context.step_figures
    period = None if steps is None else steps.period_ns
    return msgspec.structs.replace(found, findings=trace_findings(found, BLOCKING_CALLS.of(context) or [], period))


def _facts(trace: TraceDoc, verbose: bool) -> Iterator[Block]:
    if trace.graph_doctor is not None:
        yield from graph_story({"": trace.graph_doctor}, trace.graph_doctor.findings, verbose=verbose)


GRAPH_DOCTOR: Final = Figure(
    "graph_doctor", "whether CUDA graphs engaged, and what is in their way", GraphDoctorDoc, _compute, _facts
)
