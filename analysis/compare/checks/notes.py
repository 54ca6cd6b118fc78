"""What a check tells beside its findings: what it did not look at, and what it compared that has other names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model.capture import AS_WRITTEN
from ...model.units import number, printable
from ..check_document import REGRESSION, PartDoc
from ..snapshot import Snapshot
from .asked import defaults
from .config import Limits
from .finding import judged
from .matching import setup_difference
from .sides import Sides


def notes(
    current: Sequence[Snapshot], used: Sequence[Snapshot | None], limits: Limits, parts: Sequence[PartDoc]
) -> Iterator[str]:
    """What was not checked, and what was compared that has other names. ``used``: the baseline of each current one."""
    if limits.is_empty and any(used):
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
    yield from _unguarded(current, used, parts)
    yield from _other_setups(current, used)


def _unguarded(current: Sequence[Snapshot], used: Sequence[Snapshot | None], parts: Sequence[PartDoc]) -> Iterator[str]:
    """Counts that got worse, and that limits on other figures leave alone: a baseline by itself guards them."""
    for now, base, part in zip(current, used, parts, strict=False):
        limited = {each.figure for each in part.findings}
        if base is None or not limited or now.error is not None:
            continue
        sides = Sides(now, base)
        worse = [judged(sides, limit) for limit in defaults(now.mode) if limit.figure not in limited]
        told = [
            f"{each.figure} {number(each.baseline)} → {number(each.measured)}"
            for each in worse
            if each.outcome == REGRESSION
        ]
        if told:
            yield f"Worse than the baseline, in {now.mode}, and without a limit: {', '.join(told)}."


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
