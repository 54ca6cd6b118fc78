"""The table of modes: one row each; what failed has its reason in the row; notes are numbered where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..model import units
from ..model.capture import AS_WRITTEN
from ..model.document import TAX_FIELDS, ModeDoc, ProfileDoc, baseline
from ..model.units import MISSING, duration, duration_interval, duration_pm, number, share
from ..story import Column, Listing, Row, Table, marked

# A tax is told with W's uncertainty from this share of itself on: below, it is under the last digit.
UNCERTAIN_FROM: Final = 0.02

TAX_TITLES: Final = {
    "launch": "launch\ntax",
    "stall": "stall\ntax",
    "node": "node\ntax",
    "sync": "sync\ntax",
    "between_steps": "between\nsteps",
    "other": "other\nidle",
}
ALWAYS_TOLD: Final = ("launch", "node")

FIRST: Final = (
    Column("step T (95 %)", right=False, rank=0),
    Column("GPU\nwork", rank=1),
    Column("without\nwaiting", rank=1),
    Column("waiting", rank=2),
    Column("launches", rank=2),
    Column("kernels", rank=8),
)
LAST: Final = (
    Column("idle\n÷ T", rank=3),
    Column("speedup", rank=3),
    Column("output\nvs eager", right=False, rank=6),
)


def shown_name(mode: str) -> str:
    """A mode as people read it."""
    return "as written" if mode == AS_WRITTEN else mode


def mode_table(profile: ProfileDoc) -> Listing:
    """A row per mode, with the notes on its figures."""
    taxes = {
        TAX_FIELDS[tax]: title
        for tax, title in TAX_TITLES.items()
        if tax in ALWAYS_TOLD or any(getattr(mode, TAX_FIELDS[tax]) for mode in profile.modes.values())
    }
    passes = list(dict.fromkeys(name for mode in profile.modes.values() for name in mode.observer_effect))
    columns = [
        Column("mode", right=False),
        *FIRST,
        *[Column(title, rank=4 if field == "launch_tax_ns" else 5) for field, title in taxes.items()],
        *LAST,
        *[Column(title, behind=True, rank=order) for order, title in enumerate(_behind(passes))],
    ]
    notes: list[str] = []
    first = baseline(profile.modes)
    rows = [_row(name, mode, list(taxes), passes, notes, strong=name == first) for name, mode in profile.modes.items()]
    return Listing(Table(columns, rows).without_empty_columns(MISSING), notes)


def _behind(passes: list[str]) -> list[str]:
    observer = [f"observer ×\n{name}" for name in passes]
    return ["T − W", *observer, "capture", "compile", "graph\nmemory"]


def _row(name: str, mode: ModeDoc, taxes: list[str], passes: list[str], notes: list[str], *, strong: bool) -> Row:
    marks = _notes(name, mode, notes)
    shown = marked(shown_name(name), marks.get("", []))
    if mode.step_ns is None:
        reason = units.one_line(mode.error or "no reason was recorded")
        return Row([shown], span=reason if "fail" in reason.lower() else f"failed: {reason}")
    step = mode.step_ns
    observer = [_observer(mode, trace_pass) for trace_pass in passes]
    figures = {
        "step_ns": duration_interval(step.median, step.ci_low, step.ci_high),
        "gpu_work_ns": duration(mode.gpu_work_ns),
        "gpu_work_without_waiting_ns": duration(mode.gpu_work_without_waiting_ns),
        "waiting_ns": duration(mode.waiting_ns),
        "launches": number(mode.launches),
        "kernels": number(mode.kernels),
        **{field: _tax(mode, field) for field in taxes},
        "true_idle_fraction": share(mode.true_idle_fraction),
        "speedup": units.times(mode.speedup),
        "output_matches_eager": _output(mode),
        "exposed_idle_ns": duration_pm(mode.exposed_idle_ns, mode.gpu_work_uncertainty_ns),
        **{f"observer_effect.{trace_pass}": text for trace_pass, text in zip(passes, observer, strict=True)},
        "capture_ns": duration(mode.capture_ns),
        "compile_ns": duration(mode.compile_ns),
        "graph_memory_bytes": units.byte_size(mode.graph_memory_bytes),
    }
    cells = [marked(text, marks.get(field, [])) for field, text in figures.items()]
    return Row([shown, *cells], strong=strong)


def _notes(name: str, mode: ModeDoc, notes: list[str]) -> Mapping[str, list[int]]:
    """Adds what must be known to read this row; returns the numbers of the notes by the figure they concern."""
    marks: dict[str, list[int]] = {}
    for warning in mode.warnings:
        notes.append(f"{shown_name(name)}: {units.one_line(warning.message)} [{warning.code}]")
        marks.setdefault(CONCERNS.get(warning.code, ""), []).append(len(notes))
    reasons: dict[str, list[str]] = {}
    for figure in WORTH_A_REASON:
        if figure in mode.withheld and mode.step_ns is not None:
            reasons.setdefault(mode.withheld[figure], []).append(figure)
    for reason, figures in reasons.items():
        notes.append(f"{shown_name(name)}: {WORTH_A_REASON[figures[0]]} withheld: {units.one_line(reason)}")
        marks.setdefault(figures[0], []).append(len(notes))
    return marks


# The figure that a warning changes the reading of, by the warning's code; any other concerns the whole row.
CONCERNS: Final[Mapping[str, str]] = {
    "noisy_host": "step_ns",
    "shared_gpu": "step_ns",
    "work_over_step": "exposed_idle_ns",
    "floor_over_work": "gpu_work_ns",
    "graph_not_engaged": "launches",
    "output_check": "output_matches_eager",
}

# Figures whose absence needs its reason beside the table; the first of several with one reason carries the mark.
WORTH_A_REASON: Final[Mapping[str, str]] = {
    "gpu_work_ns": "GPU work",
    "launches": "launches",
    "true_idle_fraction": "idle time",
    "launch_tax_ns": "taxes",
}


def _tax(mode: ModeDoc, field: str) -> str:
    """A tax, with its part of W's uncertainty where that is worth telling."""
    tax: float | None = getattr(mode, field)
    if not tax or not mode.gpu_work_uncertainty_ns or not mode.exposed_idle_ns:
        return duration(tax)
    relative = mode.gpu_work_uncertainty_ns / abs(mode.exposed_idle_ns)
    return duration_pm(tax, tax * relative) if relative >= UNCERTAIN_FROM else duration(tax)


def _output(mode: ModeDoc) -> str:
    if mode.output_matches_eager is None:
        return MISSING
    error = f", {units.error(mode.max_abs_error)}" if mode.max_abs_error else ""
    if mode.max_relative_error and mode.output_tolerance is not None:
        sign = "≤" if mode.max_relative_error <= mode.output_tolerance else ">"
        error = f", {units.error_share(mode.max_relative_error)} {sign} {units.error_share(mode.output_tolerance)}"
    return f"equal{error}" if mode.output_matches_eager else f"DIFFERS{error}"


def _observer(mode: ModeDoc, trace_pass: str) -> str:
    effect = mode.observer_effect.get(trace_pass)
    if effect is None:
        return MISSING
    if effect.low is None or effect.high is None:
        return f"{effect.median:.2f}"
    return f"{effect.median:.2f} ({effect.low:.2f}–{effect.high:.2f})"
