"""The check itself: every limit against what was measured, and the answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...model import __version__
from ...model.capture import AS_WRITTEN, UNGRAPHED
from ...model.errors import ConfigError
from ...model.units import printable
from ..check_document import EXIT_CODES, GRAVEST_FIRST, REGRESSION, TO_FIX, CheckDoc, FindingDoc, PartDoc
from ..snapshot import Snapshot, side_of
from .asked import asked_of
from .causes import causes, look_first
from .config import Limits
from .finding import judged, of_running
from .limits import TIMED, Limit
from .matching import baseline_of, why_none
from .notes import notes
from .sides import Sides
from .unmeasured import lacking, without_graphs


def check(
    current: Sequence[Snapshot],
    baselines: Sequence[Snapshot] | None,
    limits: Limits,
    *,
    require_graph: bool = False,
    same_machine: bool = False,
    named: bool = False,
    every_mode: bool = True,
) -> CheckDoc:
    """Check every snapshot. ConfigError when there is nothing to check it by.

    Without limits, counts must not get worse than the baseline's. ``require_graph``: modes that may replay graphs have
    to. ``same_machine``: counts too are compared with a baseline of the same kind of machine alone. ``named``: as in
    ``baseline_of``. ``every_mode``: a mode that is guarded, by limits of its own or by a baseline, and that was not
    measured, is something to fix.
    """
    if limits.is_empty and not require_graph and baselines is None:
        raise ConfigError(
            "nothing to check: no limits and no baseline. Write limits into launchscope.toml, save a baseline with "
            "launchscope baseline save, or ask for --require-graph"
        )
    bases = [None if baselines is None else baseline_of(each, current, baselines, named=named) for each in current]
    used = [each for each in bases if each is not None]
    parts = []
    for snapshot, base in zip(current, bases, strict=True):
        sides = Sides(snapshot, base, limits, same_machine, "" if base else why_none(snapshot, baselines))
        mode = _guarded_as(snapshot, base, current, limits)
        asked = list(asked_of(snapshot.target, mode, limits, baselines is not None, require_graph))
        parts.append(_part(sides, asked, current, used))
    if every_mode:
        parts += lacking(current, baselines or (), used, limits)
        parts += without_graphs(current, parts, limits, require_graph)
    found = [each.outcome for part in parts for each in part.findings]
    if not found:
        raise ConfigError(_why_nothing(current, limits, require_graph))
    outcome = next(each for each in GRAVEST_FIRST if each in found)
    return CheckDoc(
        launchscope=__version__,
        outcome=outcome,
        exit_code=EXIT_CODES[outcome],
        parts=parts,
        notes=list(notes(current, bases, limits, parts)),
    )


def _guarded_as(snapshot: Snapshot, base: Snapshot | None, current: Sequence[Snapshot], limits: Limits) -> str:
    """The mode whose limits it is held against: as_written for one that no longer replays graphs by its own hand.

    Limits on as_written that name no target are about one of which eager, as it is written, is all that was measured.
    """
    modes = {each.mode for each in current if each.target == snapshot.target}
    if snapshot.mode != "eager" or AS_WRITTEN in modes:
        return snapshot.mode
    named = (snapshot.target, AS_WRITTEN) in limits.tables
    all_there_is = modes == {"eager"} and AS_WRITTEN in limits.modes_of(snapshot.target)
    guarded = named or all_there_is if base is None else base.mode == AS_WRITTEN
    return AS_WRITTEN if guarded else snapshot.mode


def _part(sides: Sides, asked: Sequence[Limit], current: Sequence[Snapshot], used: Sequence[Snapshot]) -> PartDoc:
    now, base = sides.current, sides.baseline
    if now.error is not None:
        findings = [_failed(sides, asked, current, used)] if asked else []
    else:
        findings = [judged(sides, limit) for limit in asked]
    why = causes(base, now) if base is not None and now.error is None and base.error is None else []
    findings = [_with_first_look(each, sides, why) for each in findings]
    return PartDoc(
        current=side_of(now),
        baseline=None if base is None else side_of(base),
        differs=sides.differs,
        findings=findings,
        causes=why,
    )


def _with_first_look(found: FindingDoc, sides: Sides, why: Sequence[str]) -> FindingDoc:
    if found.outcome != REGRESSION or found.first_look is not None:
        return found
    is_news = _is_worse(found)
    place = look_first(found.figure, sides.baseline if is_news else None, sides.current)
    cause = next(iter(why), None) if is_news else None
    first = (cause or place) if found.figure in TIMED else (place or cause)
    return replace(found, first_look=first)


def _is_worse(found: FindingDoc) -> bool:
    """Whether it moved away from what is allowed; what was as bad before does not come from what changed since."""
    if found.baseline is None or found.measured is None or found.allowed is None:
        return True
    return (found.measured - found.baseline) * (found.measured - found.allowed) > 0


def _failed(sides: Sides, asked: Sequence[Limit], current: Sequence[Snapshot], used: Sequence[Snapshot]) -> FindingDoc:
    """A checked mode that was not measured is a regression: what can't run under a graph has lost it."""
    now, base = sides.current, sides.baseline
    both = base is not None and base.error is not None
    message = f"it failed to run{', in the baseline too' if both else ''}: {printable(now.error or '')}"
    if both:
        return of_running(sides, TO_FIX, message, where=asked[0].where)
    eager = next((each for each in current if each.mode == UNGRAPHED.get(now.mode) and each.target == now.target), None)
    before = next((each for each in used if eager is not None and each.mode == eager.mode), None)
    place = None if eager is None else look_first("blocking_calls", before, eager)
    return of_running(sides, REGRESSION, message, where=asked[0].where, first_look=place)


def _why_nothing(current: Sequence[Snapshot], limits: Limits, require_graph: bool) -> str:
    modes = ", ".join(dict.fromkeys(each.mode for each in current)) or "none"
    if require_graph and limits.is_empty:
        return f"nothing to check: none of these modes may replay graphs: {modes}"
    targets = ", ".join(dict.fromkeys(printable(each.target) for each in current))
    return f"nothing to check: no limit is about what is here (target {targets}; modes: {modes})"
