"""A comparison in words: figures with their change, operators, counts; the same on the page and in the terminal."""

from __future__ import annotations

from typing import Final

from ..compare.compare_document import BlockingChangeDoc, CameDoc, FigureDoc, LaunchChangeDoc, PairedDoc
from ..model.units import MISSING, apart, number, printable, share, times, written
from ..model.user_lines import users_line
from .launch_tables import stack_line

MANY: Final = 10  # times as much: told as such, not in per cent

INFERRED: Final = "Inferred by aligning a step of each."

BEYOND_SPREAD: Final = (
    "Told where the change is more than the steps of either recording differ by; two processes that run the same "
    "code may differ by more."
)

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
}
"""Figures whose names are no words; ``idle.<cause>_ns`` and ``tax.<tax>_ns`` are told by their parts."""


def label(name: str) -> str:
    """The figure of this name in words."""
    kind, dot, its = name.removesuffix("_ns").partition(".")
    if not dot:
        return WORDS.get(name, name)
    if kind == "idle":
        return f"idle: {its}"
    words = {"between_steps": "idle between steps", "other": "other idle"}.get(its, f"{its} tax")
    return f"{words}, as profiled"


def side_by_side(figure: FigureDoc) -> tuple[str, str, str, str]:
    """Label, before, after, change."""
    was, now, unit = figure.before, figure.after, figure.unit
    return label(figure.name), apart(was, now, unit), apart(now, was, unit), change(was, now, unit)


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
