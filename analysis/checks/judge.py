"""The check itself: every limit against what was measured, and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ... import __version__
from ..capture import AS_WRITTEN, MODES, UNGRAPHED
from ..errors import ConfigError
from ..units import printable
from .causes import causes, look_first
from .config import MAY_REPLAY, Limits
from .document import (
    EXIT_CODES,
    GRAVEST_FIRST,
    REGRESSION,
    TO_FIX,
    CheckDoc,
    FindingDoc,
    PartDoc,
    SideDoc,
)
from .finding import Pair, Side, finding, judged
from .limits import TIMED, Limit, parse
from .matching import baseline_of, setup_difference, why_none
from .snapshot import Snapshot

DEFAULTS: Final = ("launches", "kernels", "memcpys", "blocking_calls", "graph_coverage")
"""What must not get worse where nothing is limited: what is counted, the same on any machine."""
ENOUGH_IN_GRAPHS: Final = ">= 0.95"
"""What --require-graph asks for: a prologue, or the sampling after the model, may be outside."""

_RUNS: Final = "runs"
"""The figure of a mode that failed, or that is lacking: it was measured at all."""


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
    ``baseline_of``. ``every_mode``: a mode that is
    guarded, by limits of its own or by a baseline, and that was not measured, is something to fix.
    """
    if limits.is_empty and not require_graph and baselines is None:
        raise ConfigError(
            "nothing to check: no limits and no baseline. Write limits into launchscope.toml, save a baseline with "
            "launchscope baseline save, or ask for --require-graph"
        )
    parts, used = [], []
    for snapshot in current:
        base = None if baselines is None else baseline_of(snapshot, current, baselines, named=named)
        used.append(base)
        sides = Pair(
            snapshot, base, limits, same_machine, why_no_baseline="" if base else why_none(snapshot, baselines)
        )
        mode = _guarded_as(snapshot, base, current, limits)
        asked = list(_asked(snapshot.target, mode, limits, baselines is not None, require_graph))
        parts.append(_part(sides, asked, current, [each for each in used if each is not None]))
    if every_mode:
        parts += _lacking(current, baselines or (), [each for each in used if each is not None], limits)
    found = [each.outcome for part in parts for each in part.findings]
    if not found:
        raise ConfigError(_why_nothing(current, limits, require_graph))
    outcome = next(each for each in GRAVEST_FIRST if each in found)
    return CheckDoc(
        launchscope=__version__,
        outcome=outcome,
        exit_code=EXIT_CODES[outcome],
        parts=parts,
        notes=[*_notes(current, baselines, limits, parts), *_other_setups(current, used)],
    )


def _guarded_as(snapshot: Snapshot, base: Snapshot | None, current: Sequence[Snapshot], limits: Limits) -> str:
    """The mode whose limits it is held against: as_written for one that no longer replays graphs by its own hand."""
    guarded = (snapshot.target, AS_WRITTEN) in limits.tables if base is None else base.mode == AS_WRITTEN
    is_alone = not any(each.mode == AS_WRITTEN for each in current)
    return AS_WRITTEN if snapshot.mode == "eager" and guarded and is_alone else snapshot.mode


def _asked(target: str, mode: str, limits: Limits, has_baseline: bool, require_graph: bool) -> Iterator[Limit]:
    """Everything that a target in a mode is checked by."""
    own = limits.of(target, mode)
    yield from own
    if limits.is_empty and has_baseline:
        for figure in DEFAULTS:
            if figure != "graph_coverage" or mode in MAY_REPLAY:
                yield parse(figure, "-0" if figure == "graph_coverage" else "+0", where="default")
    if require_graph and mode in MAY_REPLAY:
        required = parse("graph_coverage", ENOUGH_IN_GRAPHS, where="--require-graph")
        if not any(its.figure == required.figure and not its.relative and its.amount >= required.amount for its in own):
            yield required


def _part(sides: Pair, asked: Sequence[Limit], current: Sequence[Snapshot], used: Sequence[Snapshot]) -> PartDoc:
    now, base = sides.current, sides.baseline
    if now.error is not None:
        findings = [_failed(sides, asked, current, used)] if asked else []
    else:
        findings = [judged(sides, limit) for limit in asked]
    why = causes(base, now) if base is not None and now.error is None and base.error is None else []
    findings = [_with_first_look(each, sides, why) for each in findings]
    return PartDoc(
        current=_side(now),
        baseline=None if base is None else _side(base),
        differs=sides.differs,
        findings=findings,
        causes=why,
    )


def _with_first_look(found: FindingDoc, sides: Pair, why: Sequence[str]) -> FindingDoc:
    if found.outcome != REGRESSION or found.first_look is not None:
        return found
    place, cause = look_first(found.figure, sides.baseline, sides.current), next(iter(why), None)
    first = (cause or place) if found.figure in TIMED else (place or cause)
    return replace(found, first_look=first)


def _failed(sides: Pair, asked: Sequence[Limit], current: Sequence[Snapshot], used: Sequence[Snapshot]) -> FindingDoc:
    """A checked mode that was not measured is a regression: what can't run under a graph has lost it."""
    now, base = sides.current, sides.baseline
    limit = Limit("launches", "==", 1.0, text=_RUNS, where=asked[0].where)
    both = base is not None and base.error is not None
    why = printable(now.error or "")
    message = f"it failed to run: {why}" if not both else f"it failed to run, in the baseline too: {why}"
    eager = next((each for each in current if each.mode == UNGRAPHED.get(now.mode) and each.target == now.target), None)
    before = next((each for each in used if eager is not None and each.mode == eager.mode), None)
    return finding(
        sides,
        limit,
        figure=_RUNS,
        outcome=TO_FIX if both else REGRESSION,
        message=message,
        side=Side(measured=0.0, baseline=None if base is None else float(base.error is None)),
        first_look=None if eager is None or both else look_first("blocking_calls", before, eager),
    )


def _lacking(
    current: Sequence[Snapshot], baselines: Sequence[Snapshot], used: Sequence[Snapshot], limits: Limits
) -> Iterator[PartDoc]:
    """Modes of a checked target that are guarded and were not measured: they would be unguarded without a word."""
    have = {each.mode for each in (*current, *used)}
    setups = {_setup(each) for each in used}
    told: set[str] = set()
    for base in baselines:
        asked = list(_asked(base.target, base.mode, limits, True, False))
        if base.mode not in have | told and _setup(base) in setups and base.error is None and asked:
            told.add(base.mode)
            yield _unmeasured(current, base.target, base.mode, base, asked[0].where)
    for target in dict.fromkeys(each.target for each in current if each.mode in MODES):
        for mode in limits.modes_of(target):
            if mode in MODES and mode not in have | told:
                told.add(mode)
                yield _unmeasured(current, target, mode, None, limits.of(target, mode)[0].where)


def _setup(snapshot: Snapshot) -> tuple[object, ...]:
    """The key without its mode."""
    return (snapshot.key[0], *snapshot.key[2:])


def _unmeasured(current: Sequence[Snapshot], target: str, mode: str, base: Snapshot | None, where: str) -> PartDoc:
    now = Snapshot(launchscope=__version__, target=target, mode=mode, source=current[0].source)
    has = f"there are limits on mode {mode}" if base is None else f"the baseline has mode {mode}"
    found = finding(
        Pair(now, base, Limits(), same_machine=False),
        Limit("launches", "==", 1.0, text=_RUNS, where=where),
        figure=_RUNS,
        outcome=TO_FIX,
        message=f"{has}, which was not measured: measure it too, or name what to check with --mode",
        side=Side(measured=0.0, baseline=None if base is None else 1.0),
    )
    before = None if base is None else _side(base)
    return PartDoc(current=_side(now), baseline=before, differs={}, findings=[found], causes=[])


def _side(snapshot: Snapshot) -> SideDoc:
    return SideDoc(
        source=snapshot.source,
        target=snapshot.target,
        mode=snapshot.mode,
        commit=snapshot.commit,
        created=snapshot.created,
        processes=len(snapshot.timings),
        machine={name: value for name, value in snapshot.fingerprint.items() if value is not None},
    )


def _notes(
    current: Sequence[Snapshot], baselines: Sequence[Snapshot] | None, limits: Limits, parts: Sequence[PartDoc]
) -> Iterator[str]:
    """What was not checked, and what was compared that has other names."""
    if limits.is_empty and baselines is not None:
        yield 'Times were not looked at: no limit is on them (step_time = "+3%", say).'
    names = {each.target for each in current}
    unused = [target for target in limits.targets if target not in names]
    if unused:
        told = ", ".join(printable(target) for target in unused)
        yield f"Limits of {told} are about nothing that was checked ({', '.join(map(printable, sorted(names)))})."
    unchecked = [part.current.mode for part in parts if not part.findings]
    if unchecked:
        yield f"No limit is about {', '.join(dict.fromkeys(unchecked))}."
    yield from _other_modes(parts)
    renamed = {
        (part.baseline.target, part.current.target)
        for part in parts
        if part.baseline is not None and part.baseline.target != part.current.target
    }
    for was, now in sorted(renamed):
        yield f"{printable(now)} was compared with {printable(was)}: the only one on either side."


def _other_modes(parts: Sequence[PartDoc]) -> Iterator[str]:
    for part in parts:
        if part.baseline is not None and part.baseline.mode != part.current.mode:
            was, now = part.baseline.mode, part.current.mode
            word = "no longer replays" if was == AS_WRITTEN else "now replays"
            yield f"{printable(part.current.target)} {word} graphs by its own hand: {now} was compared with {was}."


def _other_setups(current: Sequence[Snapshot], used: Sequence[Snapshot | None]) -> Iterator[str]:
    """Comparisons that were asked for though the setup is another one."""
    found: dict[str, list[str]] = {}
    for now, base in zip(current, used, strict=True):
        if base is not None and (differs := setup_difference(base, now)):
            found.setdefault(differs, []).append(now.mode)
    for differs, modes in found.items():
        yield f"The baseline of {', '.join(modes)} has {differs}: what differs may come from that."


def _why_nothing(current: Sequence[Snapshot], limits: Limits, require_graph: bool) -> str:
    modes = ", ".join(dict.fromkeys(each.mode for each in current)) or "none"
    if require_graph and limits.is_empty:
        return f"nothing to check: no mode here may replay graphs (there are: {modes}); profile it with --modes graph"
    targets = ", ".join(dict.fromkeys(printable(each.target) for each in current))
    return f"nothing to check: no limit is about what is here (target {targets}; modes: {modes})"
