"""The figures of a trace, in the order in which people read them. A new figure is a file beside this one and a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .blocking import BLOCKING_CALLS
from .bound import BOUND
from .communication import COMMUNICATION
from .coverage import COVERAGE
from .devices import DEVICES
from .figure import Figure, Value
from .fusion.fusion_story import FUSION
from .graph_doctor import GRAPH_DOCTOR
from .graph_replays import GRAPHS
from .kernels import KERNELS
from .launches import LAUNCHES
from .memory_ops import MEMORY_OPS
from .queue_depth import QUEUE_DEPTH
from .serving.serving_story import SERVING
from .short_kernels import SHORT_KERNELS
from .step_kinds import STEP_KINDS
from .steps import STEPS
from .trace_notices import WARNINGS
from .trace_verdict import VERDICT

FIGURES: Final[tuple[Figure[Any], ...]] = (
    VERDICT,
    WARNINGS,
    COVERAGE,
    BOUND,
    COMMUNICATION,
    SERVING,
    GRAPHS,
    QUEUE_DEPTH,
    MEMORY_OPS,
    GRAPH_DOCTOR,
    SHORT_KERNELS,
    STEP_KINDS,
    STEPS,
    DEVICES,
    KERNELS,
    FUSION,
    LAUNCHES,
    BLOCKING_CALLS,
)


def values() -> Iterator[tuple[Figure[Any], Value[Any]]]:
    """Every number of a figure that compare, check or the table of ranks shows."""
    return ((figure, value) for figure in FIGURES for value in figure.values)
