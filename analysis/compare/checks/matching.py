"""Which baseline a snapshot is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...model.capture import AS_WRITTEN
from ...model.units import printable
from ..snapshot import Snapshot
from .from_report import TRACE

_BY_ITS_OWN_HAND: Final = ("eager", AS_WRITTEN)
"""Modes that run a target as its author made it: which one tells whether it replayed graphs by its own hand."""


def baseline_of(
    current: Snapshot, all_current: Sequence[Snapshot], baselines: Sequence[Snapshot], *, named: bool
) -> Snapshot | None:
    """The baseline of the same target, mode and setup: of the same kind of machine if there is one, else the newest.

    A target that replayed graphs by its own hand (as_written) and no longer does (eager) is compared with itself. A
    trace of others fits another whatever their names are if there is one on each side. ``named``: these baselines
    were given themselves, not looked up in a folder; then the only target's name, and the setup of the only one of
    this mode, need not be the same.
    """
    fitting = [each for each in baselines if each.key == current.key]
    if not fitting and current.mode in _BY_ITS_OWN_HAND:
        modes = {each.mode for each in all_current}
        fitting = [each for each in baselines if _is_the_same_step(each, current) and each.mode not in modes]
    if not fitting and current.mode == TRACE:
        others = [each for each in baselines if each.mode == TRACE]
        alone = sum(each.mode == TRACE for each in all_current) == len({each.target for each in others}) == 1
        fitting = others if alone else []
    if not fitting and named and len({each.target for each in all_current}) == len({b.target for b in baselines}) == 1:
        of_mode = [each for each in baselines if each.mode == current.mode]
        if not of_mode and {each.mode for each in all_current} <= set(_BY_ITS_OWN_HAND):
            of_mode = [each for each in baselines if each.mode in _BY_ITS_OWN_HAND]
        fitting = [each for each in of_mode if (each.mode, each.setup) == (current.mode, current.setup)] or (
            of_mode if len(of_mode) == 1 else []
        )
    same = [each for each in fitting if each.fingerprint == current.fingerprint]
    return max(same or fitting, key=age, default=None)


def _is_the_same_step(base: Snapshot, current: Snapshot) -> bool:
    """One of the two replayed graphs by its own hand, and the other no longer, or not yet, does."""
    same = (base.target, base.setup) == (current.target, current.setup)
    return same and {base.mode, current.mode} == set(_BY_ITS_OWN_HAND)


def age(snapshot: Snapshot) -> tuple[str, str]:
    """When it was saved, else measured: the newest is the largest."""
    return snapshot.saved or snapshot.created or "", snapshot.created or ""


def why_none(current: Snapshot, baselines: Sequence[Snapshot] | None) -> str:
    """Why there is no baseline of it, in words, and the command that saves one."""
    save = f"launchscope baseline save {printable(current.source) or 'CURRENT'}"
    if baselines is None:
        return f"there is no baseline: save one with {save}, or name one with --baseline"
    same = _BY_ITS_OWN_HAND if current.mode in _BY_ITS_OWN_HAND else (current.mode,)
    near = [
        each
        for each in baselines
        if each.target == current.target and each.mode in same and setup_difference(each, current)
    ]
    if not near:
        return f"there is no baseline of {_which(current)}: save one of a good commit with {save}"
    closest = max(near, key=age)
    differs = setup_difference(closest, current)
    return f"the baseline of {_which(closest)} has {differs}: save one of a good commit with {save}"


def _which(snapshot: Snapshot) -> str:
    return f"{printable(snapshot.target)} in mode {snapshot.mode}"


def setup_difference(base: Snapshot, current: Snapshot) -> str:
    """How the baseline's setup is another one, in words; empty where it is the same."""
    was, now = _setup_in_words(base), _setup_in_words(current)
    differs = [name for name in was | now if was.get(name) != now.get(name)]
    return "; ".join(f"{name} {was.get(name, 'unset')}, not {now.get(name, 'unset')}" for name in differs)


def _setup_in_words(snapshot: Snapshot) -> dict[str, str]:
    """``Snapshot.setup`` by name."""
    given = {"batch size": snapshot.batch_size, "dtype": snapshot.dtype, "context length": snapshot.context_length}
    told = {name: "unknown" if value is None else printable(str(value)) for name, value in given.items()}
    told["ranks"] = str(snapshot.ranks)
    return told | {f"--set {printable(key)}": printable(value) for key, value in sorted(snapshot.settings.items())}
