"""The answer first: the verdict as a sentence, what to do next, and one card per mode. Words, no markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...analysis.figures import verdict_blocks
from ...analysis.figures.coverage import steps_fact
from ...analysis.figures.verdict_blocks import headline
from ...analysis.model import units
from ...analysis.model.document import ActionDoc, DeviceDoc, ModeDoc, SteadyDoc, TraceDoc, WarningDoc
from ...analysis.profile.mode_figures import MODE_FIGURES
from ...analysis.story import WRITE
from ..band import Band
from ..opened_report import OpenedReport


@dataclass(frozen=True)
class Fact:
    """One figure of a card; ``hint`` says what it is."""

    label: str
    value: str
    hint: str


@dataclass(frozen=True)
class Card:
    """One mode, or one trace. ``failure``: why it has no figures."""

    title: str
    key: str | None  # of its band, null without one
    verdict: str | None
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    failure: str | None = None
    is_baseline: bool = False


@dataclass(frozen=True)
class NextStep:
    """One thing to do, and what it leaves of the step."""

    what: str
    basis: str  # measured, predicted; empty where nobody told the gain
    leaves: str
    detail: str
    reasons: str  # one line that tries it, and what says so; empty for what was measured


def sentence(opened: OpenedReport) -> str:
    """The verdict."""
    profile, base = opened.report.document.profile, opened.baseline
    if profile is not None and profile.verdict is not None:
        return headline(profile.verdict, base.label if base else None).text
    if base is None:
        return "NO VERDICT: no trace holds a GPU op"
    return headline(base.analysis.document.verdict, base.label if len(opened.bands) > 1 else None).text


def next_steps(opened: OpenedReport) -> list[NextStep]:
    """What to do next, in the order of the report."""
    profile, base = opened.report.document.profile, opened.baseline
    verdict = profile.verdict if profile is not None else base.analysis.document.verdict if base else None
    return [] if verdict is None else [_next_step(action) for action in verdict.actions]


def machine(opened: OpenedReport) -> str:
    """What was profiled, and where."""
    document = opened.report.document
    target, environment = document.target, document.environment or {}
    words: list[str] = []
    if target is not None:
        batch = None if target.batch_size is None else f"batch {target.batch_size}"
        context = None if target.context_length is None else f"context {units.number(target.context_length)}"
        words += [word for word in (batch, target.dtype, context) if word]
    elif opened.baseline is not None:
        names = opened.baseline.analysis.context.trace.device_names.values()
        words += [name for name in dict.fromkeys(names) if name]
    known = {"gpu": "{}", "driver": "driver {}", "cuda": "CUDA {}", "torch": "torch {}"}
    words += [form.format(environment[key]) for key, form in known.items() if environment.get(key)]
    return " · ".join(words)


def cards(opened: OpenedReport) -> list[Card]:
    """A card per mode of a profile, failed ones with their reason; else one per trace shown first."""
    profile = opened.report.document.profile
    if profile is None:
        return [_trace_card(band, is_baseline=band is opened.baseline) for band in opened.shown_first]
    found = []
    for name, mode in profile.modes.items():
        band = next((band for band in opened.bands if band.mode is mode), None)
        title = band.label if band is not None else name.replace("_", " ")
        is_baseline = band is not None and band is opened.baseline
        found.append(_mode_card(title, band, mode, is_baseline=is_baseline))
    return found


def notes(opened: OpenedReport) -> list[str]:
    """What concerns the whole report: labels of the target, and files that could not be read."""
    document = opened.report.document
    labels = [] if document.target is None else document.target.labels
    return [*labels, *(f"{each.path}: left out: {each.reason}" for each in document.unread)]


def _mode_card(title: str, band: Band | None, mode: ModeDoc, *, is_baseline: bool) -> Card:
    key = None if band is None else band.key
    warnings = _warnings([*mode.warnings, *([] if band is None else band.analysis.document.warnings)])
    if mode.step_ns is None:
        return Card(title, key, None, (), warnings, mode.error or "no reason was recorded", is_baseline)
    verdict = None if mode.verdict is None else headline(mode.verdict).text
    facts = [*_mode_facts(mode), *([] if band is None else _steps_fact(band.analysis.document))]
    return Card(title, key, verdict, tuple(facts), warnings, None, is_baseline)


def _mode_facts(mode: ModeDoc) -> Iterator[Fact]:
    step = mode.step_ns
    assert step is not None
    written = {
        "step_ns": units.duration_interval(step.median, step.ci_low, step.ci_high),
        "gpu_work_ns": units.duration_pm(mode.gpu_work_ns, mode.gpu_work_uncertainty_ns),
        "speedup": units.times(mode.speedup),
    }
    waiting = () if mode.gpu_work_without_waiting_ns is None else ("gpu_work_without_waiting_ns", "waiting_ns")
    rest = ("launch_tax_ns", "true_idle_fraction", "launches", "kernels", "speedup")
    for name in ("step_ns", "gpu_work_ns", *waiting, *rest):
        figure = MODE_FIGURES[name]
        why = f" Withheld: {mode.withheld[name]}" if name in mode.withheld else ""
        value = written.get(name) or WRITE[figure.kind](figure.of(mode))
        yield Fact(figure.label, value, figure.meaning + why)
    if mode.observer_effect:
        effects = " · ".join(f"{units.times(e.median)}\u00a0{name}" for name, e in mode.observer_effect.items())
        yield Fact("observer effect", effects, "Step time under the profiler ÷ unprofiled, by pass.")


def _trace_card(band: Band, *, is_baseline: bool) -> Card:
    trace = band.analysis.document
    verdict = headline(trace.verdict).text
    warnings = _warnings(trace.warnings)
    if band.device is None:
        return Card(band.label, band.key, None, (), warnings, "no GPU op in it", is_baseline)
    facts = (*_trace_facts(trace), *_steps_fact(trace))
    return Card(band.label, band.key, verdict, facts, warnings, None, is_baseline)


def _steps_fact(trace: TraceDoc) -> Iterator[Fact]:
    """How many steps of the recording were found and kept; how and why not, behind it."""
    found, kept = trace.coverage.steps_found, trace.coverage.steps_found - trace.coverage.steps_dropped
    value = f"{units.number(kept)} of {units.number(found)} kept" if found else "none found"
    yield Fact("steps recorded", value, steps_fact(trace.coverage).lines[0])


def _trace_facts(trace: TraceDoc) -> Iterator[Fact]:
    device = next(each for each in trace.devices if each.device == trace.headline_device)
    scope: DeviceDoc | SteadyDoc = device.steady or device
    steps = trace.steps
    if steps is not None:
        period = None if steps.period_ns is None else steps.period_ns.median
        yield Fact(
            "step", units.duration(period), "First GPU op of a step to the next step's, as profiled; the median."
        )
        work = None if steps.busy_ns is None else steps.busy_ns.median
        yield Fact("GPU work W", units.duration(work), "Time of a step in which the GPU works.")
        shared = trace.communication
        if shared is not None and shared.work_without_waiting_ns is not None:
            without = MODE_FIGURES["gpu_work_without_waiting_ns"]
            yield Fact(without.label, units.duration(shared.work_without_waiting_ns.median), without.meaning)
    else:
        yield Fact("GPU work", units.duration(device.busy_ns), "Time of the whole recording in which the GPU works.")
    gaps = scope.gaps
    tax = units.MISSING if gaps is None or not gaps.total_ns else units.ratio(gaps.taxes_ns["launch"], gaps.total_ns)
    yield Fact("launch tax ÷ idle", tax, "Share of the idle time that waits for launches, as profiled.")
    yield Fact("idle", units.share(scope.idle_fraction), "Of the time as profiled; the profiler slows launches down.")
    launches = units.number(steps.launches.median) if steps is not None else units.number(trace.coverage.launches)
    yield Fact("launches", launches, "Per step." if steps is not None else "In the whole recording.")
    kernels = units.number(steps.kernels.median) if steps is not None else units.number(trace.coverage.kernels)
    yield Fact("kernels", kernels, "Per step." if steps is not None else "In the whole recording.")


def _warnings(warnings: Sequence[WarningDoc]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{warning.message} [{warning.code}]" for warning in warnings))


def _next_step(action: ActionDoc) -> NextStep:
    detail = "; ".join(part for part in (verdict_blocks.saving(action), action.detail) if part)
    leaves = "" if action.step_ns is None else units.duration(action.step_ns)
    reasons = reversed([*verdict_blocks.reasons(action)])  # the line may have no room for all of it
    return NextStep(action.what, verdict_blocks.basis(action), leaves, detail, units.one_line("; ".join(reasons)))
