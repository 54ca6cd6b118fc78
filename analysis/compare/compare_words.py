"""A comparison in words: figures with their change, operators, counts; the same on the page and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..figures.launches import stack_line
from ..figures.registry import values
from ..model.document import TAX_FIELDS
from ..model.names import users_line
from ..model.units import MISSING, apart, number, printable, share, times, written
from .compare_document import BlockingChangeDoc, CameDoc, FigureDoc, LaunchChangeDoc, PairedDoc

MANY: Final = 10  # times as much: told as such, not in per cent

INFERRED: Final = "Inferred by aligning a step of each."

BEYOND_SPREAD: Final = (
    "Told where the change is more than the steps of either recording differ by; two processes that run the same "
    "code may differ by more."
)

Row = tuple[str, str, str, str]
"""Label, before, after, change."""


def tax_words(tax: str) -> str:
    """A tax in words."""
    return {"between_steps": "idle between steps", "other": "other idle"}.get(tax, f"{tax} tax")


WORDS: Final = {
    "step_ns": "step, as profiled",
    "window_ns": "recording",
    "busy_ns": "GPU work, as profiled",
    "idle_ns": "idle, as profiled",
    "gpu_ops": "GPU ops",
    "graph_launches": "graph launches",
    "blocking_calls": "blocking calls",
    "memcpys": "memory copies",
    "graph_coverage": "graph coverage",
    "graph_coverage_by_time": "graph coverage by time",
    **{value.name: value.words for _, value in values()},
}
"""Figures whose names are no words; ``idle.<cause>_ns`` and ``tax.<tax>_ns`` are told by their parts."""


OF_MODES: Final = {
    "step_ns": "step T",
    "gpu_work_ns": "GPU work W",
    "gpu_work_without_waiting_ns": "W without waiting",
    "waiting_ns": "waiting",
    "gpu_ops": "GPU ops",
    "exposed_idle_ns": "T − W",
    "true_idle_fraction": "true idle",
    **{field: tax_words(tax) for tax, field in TAX_FIELDS.items()},
    "predicted_graph_ns": "predicted graph time",
    "graph_memory_bytes": "graph memory",
}
"""Figures of modes; others are called by their names."""

_MODES_OWN: Final = {
    "step_ns": "step_ns",
    "busy_ns": "gpu_work_ns",
    "idle_ns": "exposed_idle_ns",
    "gpu_ops": "gpu_ops",
    "kernels": "kernels",
    "launches": "launches",
    **{f"tax.{tax}_ns": field for tax, field in TAX_FIELDS.items()},
}
"""What a recording has of a figure of its mode."""


def side_by_side(modes: Sequence[FigureDoc], recorded: Sequence[FigureDoc], *, verbose: bool) -> list[Row]:
    """Figures that either side has: those of the modes, where there are any, then those of their recordings.

    Without ``verbose`` what recordings have of a figure that is known of both modes is left out, and idle time by
    cause. A count that recordings have is told where it is not the modes'.
    """
    own = {figure.name: figure for figure in modes}
    rows = [_row(OF_MODES.get(figure.name, figure.name), figure) for figure in modes if figure.before or figure.after]
    for figure in recorded:
        its = own.get(_MODES_OWN.get(figure.name, ""))
        known = its is not None and its.change is not None
        same = its is not None and (its.before, its.after) == (figure.before, figure.after)
        left_out = same or known or figure.name.startswith("idle.") if not verbose else same
        if (figure.before or figure.after) and not left_out:
            as_recorded = ", as recorded" if its is not None and figure.unit == "count" else ""
            rows.append(_row(label(figure.name) + as_recorded, figure))
    return rows


def label(name: str) -> str:
    """A recording's figure of this name in words."""
    kind, dot, its = name.removesuffix("_ns").partition(".")
    if not dot:
        return WORDS.get(name, name)
    if kind == "idle":
        return f"idle: {its}"
    return f"{tax_words(its)}, as profiled"


def _row(words: str, figure: FigureDoc) -> Row:
    was, now, unit = figure.before, figure.after, figure.unit
    return words, apart(was, now, unit), apart(now, was, unit), change(was, now, unit)


def change(before: float | None, after: float | None, unit: str) -> str:
    """With its sign: ``−11.2 ms (−83 %)``; of shares in points; a dash where either side is not known."""
    if before is None or after is None:
        return MISSING
    difference = after - before
    if not difference:
        return "0"
    sign = "+" if difference > 0 else ""
    if unit == "share":
        return f"{sign}{number(round(difference * 100, 1)).replace('-', '−')} points"
    text = f"{sign}{written(difference, unit).replace('-', '−')}"
    if not before:
        return text
    return f"{text} ({times(after / before) if after > MANY * before else sign + share(difference / before)})"


def operator(doc: CameDoc | PairedDoc) -> str:
    """The operator, and whether it is known from the other recording alone; a compiled kernel's is its own name."""
    if doc.operator in (None, doc.name if isinstance(doc, CameDoc) else doc.name_after):
        return MISSING
    return printable(doc.operator) + (" (inferred)" if doc.operator_inferred else "")


def place(doc: CameDoc | BlockingChangeDoc) -> str:
    """The user's line that it comes from; without Python frames what encloses the operator."""
    return users_line(doc.stack) or stack_line(doc.stack, doc.operator)


def counts(doc: LaunchChangeDoc | BlockingChangeDoc) -> tuple[str, str, str]:
    """Before, after, change."""
    return number(doc.before), number(doc.after), change(doc.before, doc.after, "count")
