"""The check itself: every limit against what was measured, and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ..model import __version__
from ..model.capture import AS_WRITTEN, MODES, UNGRAPHED
from ..model.errors import ConfigError
from ..model.units import number, printable
from .baselines import baseline_of, setup_difference, why_none
from .causes import causes, look_first
from .config import MAY_REPLAY, Limits, default_limits
from .documents import EXIT_CODES, GRAVEST_FIRST, REGRESSION, RUNS, TO_FIX, CheckDoc, FindingDoc, PartDoc
from .finding import Sides, judged, of_running
from .limits import OF_GRAPHS, TIMED
from .snapshot import Snapshot, side_of

_UNMEASURED: Final = "was not measured: measure it too, or name what to check with --mode"


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
    sides = []
    for each in current:
        base = None if baselines is None else baseline_of(each, current, baselines, named=named)
        sides.append(Sides(each, base, limits, same_machine, "" if base else why_none(each, baselines)))
    judge = _Judge(current, baselines, sides, limits, require_graph)
    parts = [judge.part(its) for its in sides]
    if every_mode:
        parts += judge.unmeasured_modes()
        parts += judge.unmeasured_graphs(parts)
    found = [each.outcome for part in parts for each in part.findings]
    if not found:
        raise ConfigError(_why_nothing(current, limits, require_graph))
    outcome = next(each for each in GRAVEST_FIRST if each in found)
    return CheckDoc(
        launchscope=__version__,
        outcome=outcome,
        exit_code=EXIT_CODES[outcome],
        parts=parts,
        notes=list(_notes(sides, limits, parts)),
    )


def _why_nothing(current: Sequence[Snapshot], limits: Limits, require_graph: bool) -> str:
    modes = ", ".join(dict.fromkeys(each.mode for each in current)) or "none"
    if require_graph and limits.is_empty:
        return f"nothing to check: none of these modes may replay graphs: {modes}"
    targets = ", ".join(dict.fromkeys(printable(each.target) for each in current))
    return f"nothing to check: no limit is about what is here (target {targets}; modes: {modes})"


@dataclass(frozen=True, eq=False)
class _Judge:
    """What is checked by what."""

    current: Sequence[Snapshot]
    baselines: Sequence[Snapshot] | None
    sides: Sequence[Sides]  # of each current one
    limits: Limits
    require_graph: bool

    @property
    def used(self) -> list[Snapshot]:
        """The baselines that something is compared with."""
        return [its.baseline for its in self.sides if its.baseline is not None]

    @property
    def targets(self) -> dict[str, set[str]]:
        """The modes of each target."""
        modes: dict[str, set[str]] = {}
        for each in self.current:
            modes.setdefault(each.target, set()).add(each.mode)
        return modes

    def part(self, sides: Sides) -> PartDoc:
        """One target in one mode."""
        now, base = sides.current, sides.baseline
        limits = self.limits.with_defaults(
            now.target,
            self._guarded_as(now, base),
            has_baseline=self.baselines is not None,
            require_graph=self.require_graph,
        )
        why = causes(base, now) if base is not None and now.error is None and base.error is None else []
        if now.error is None:
            findings = [_with_first_look(judged(sides, limit), sides, why) for limit in limits]
        else:
            findings = [self._failed(sides, limits[0].where)] if limits else []
        return _part(sides, findings, why)

    def _guarded_as(self, snapshot: Snapshot, base: Snapshot | None) -> str:
        """The mode whose limits it is held against: as_written for one that no longer replays graphs by its own hand.

        Limits on as_written that name no target are about one of which eager, as it is written, is all that was
        measured.
        """
        modes = self.targets[snapshot.target]
        if snapshot.mode != "eager" or AS_WRITTEN in modes:
            return snapshot.mode
        named = (snapshot.target, AS_WRITTEN) in self.limits.tables
        all_there_is = modes == {"eager"} and AS_WRITTEN in self.limits.modes_of(snapshot.target)
        guarded = named or all_there_is if base is None else base.mode == AS_WRITTEN
        return AS_WRITTEN if guarded else snapshot.mode

    def _failed(self, sides: Sides, where: str) -> FindingDoc:
        """A checked mode that was not measured is a regression: what can't run under a graph has lost it."""
        now, base = sides.current, sides.baseline
        both = base is not None and base.error is not None
        message = f"it failed to run{', in the baseline too' if both else ''}: {printable(now.error or '')}"
        if both:
            return of_running(sides, TO_FIX, message, where=where)
        launched = (each for each in self.current if each.mode == UNGRAPHED.get(now.mode) and each.target == now.target)
        eager = next(launched, None)
        before = next((each for each in self.used if eager is not None and each.mode == eager.mode), None)
        place = None if eager is None else look_first("blocking_calls", before, eager)
        return of_running(sides, REGRESSION, message, where=where, first_look=place)

    def unmeasured_modes(self) -> Iterator[PartDoc]:
        """Modes of a checked target that its baselines, or limits of their own, guard."""
        seen = {each.mode for each in (*self.current, *self.used)}
        guarded = {(each.target, each.setup) for each in self.used}
        for base in self.baselines or ():
            limits = self.limits.with_defaults(base.target, base.mode, has_baseline=True, require_graph=False)
            if base.mode not in seen and (base.target, base.setup) in guarded and base.error is None and limits:
                seen.add(base.mode)
                message = f"the baseline has mode {base.mode}, which {_UNMEASURED}"
                yield self._unmeasured(base.target, base.mode, base, limits[0].where, message)
        for target, modes in self.targets.items():
            for mode in self.limits.modes_of(target) if modes & set(MODES) else ():
                if mode in MODES and mode not in seen:
                    seen.add(mode)
                    message = f"there are limits on mode {mode}, which {_UNMEASURED}"
                    yield self._unmeasured(target, mode, None, self.limits.of(target, mode)[0].where, message)

    def unmeasured_graphs(self, parts: Sequence[PartDoc]) -> Iterator[PartDoc]:
        """Targets that have to replay graphs, and of which nothing was measured that might."""
        for target, modes in self.targets.items():
            figures = {each.figure for part in parts if part.current.target == target for each in part.findings}
            where = "--require-graph" if self.require_graph else self.limits.asks_for_graphs(target)
            if where and not modes & set(MAY_REPLAY) and not figures & {*OF_GRAPHS, RUNS}:
                message = (
                    "graphs are asked for, and no mode that may replay them was measured: measure one (--modes graph); "
                    f"where {printable(target)} replays graphs by its own hand, it no longer does"
                )
                yield self._unmeasured(target, "graph", None, where, message)

    def _unmeasured(self, target: str, mode: str, base: Snapshot | None, where: str, message: str) -> PartDoc:
        now = Snapshot(launchscope=__version__, target=target, mode=mode, source=self.current[0].source)
        sides = Sides(now, base)
        return _part(sides, [of_running(sides, TO_FIX, message, where=where)], [], differs={})


def _part(
    sides: Sides, findings: list[FindingDoc], why: list[str], differs: dict[str, list[str]] | None = None
) -> PartDoc:
    return PartDoc(
        current=side_of(sides.current),
        baseline=None if sides.baseline is None else side_of(sides.baseline),
        differs=sides.differs if differs is None else differs,
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


def _notes(sides: Sequence[Sides], limits: Limits, parts: Sequence[PartDoc]) -> Iterator[str]:
    """What was not checked, and what was compared that has other names. ``parts``: those of the sides first."""
    if limits.is_empty and any(its.baseline for its in sides):
        yield 'Times were not looked at: no limit is on them (step_time = "+3%", say).'
    names = {its.current.target for its in sides}
    unused = ", ".join(printable(target) for target in limits.targets if target not in names)
    if unused:
        yield f"Limits of {unused} are about nothing that was checked ({', '.join(map(printable, sorted(names)))})."
    unchecked = [part.current.mode for part in parts if not part.findings]
    if unchecked:
        yield f"No limit is about {', '.join(dict.fromkeys(unchecked))}."
    compared = [(part.baseline, part.current) for part in parts if part.baseline is not None]
    for base, now in compared:
        if base.mode != now.mode:
            word = "no longer replays" if base.mode == AS_WRITTEN else "now replays"
            yield f"{printable(now.target)} {word} graphs by its own hand: {now.mode} was compared with {base.mode}."
    for was, its in sorted({(base.target, now.target) for base, now in compared if base.target != now.target}):
        yield f"{printable(its)} was compared with {printable(was)}: the only one on either side."
    for each, part in zip(sides, parts, strict=False):
        yield from _unguarded(each, part)
    yield from _other_setups(sides)


def _unguarded(sides: Sides, part: PartDoc) -> Iterator[str]:
    """Counts that got worse, and that limits on other figures leave alone: a baseline by itself guards them."""
    limited = {each.figure for each in part.findings}
    if sides.baseline is None or not limited or sides.current.error is not None:
        return
    alone, mode = Sides(sides.current, sides.baseline), sides.current.mode
    findings = [judged(alone, limit) for limit in default_limits(mode) if limit.figure not in limited]
    worse = [
        f"{each.figure} {number(each.baseline)} → {number(each.measured)}"
        for each in findings
        if each.outcome == REGRESSION
    ]
    if worse:
        yield f"Worse than the baseline, in {mode}, and without a limit: {', '.join(worse)}."


def _other_setups(sides: Sequence[Sides]) -> Iterator[str]:
    """Comparisons that were asked for though the setup is another one."""
    found: dict[str, list[str]] = {}
    for its in sides:
        if its.baseline is not None and (differs := setup_difference(its.baseline, its.current)):
            found.setdefault(differs, []).append(its.current.mode)
    for differs, modes in found.items():
        yield f"The baseline of {', '.join(modes)} has {differs}: what differs may come from that."
