"""One target on several numbers of ranks: what of a rank's step shrinks as they grow, and what does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..model.capture import UNGRAPHED
from ..model.document import ModeDoc, ProfileDoc, RankDoc, StepTimeDoc
from ..profile.measured_mode import median_or_none


class RanksRowDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One mode on one number of ranks. Times in ns per step; T is of all together.

    What is alike on all ranks is the median over them. Of what is not, the largest stands here: the rank that launches
    the slowest pays the launch tax, while the others wait for it.
    """

    ranks: int
    mode: str
    step_ns: StepTimeDoc | None
    gpu_work_ns: float | None  # the largest
    gpu_work_without_waiting_ns: float | None
    kernels: float | None
    launches: float | None
    launch_tax_ns: float | None  # the largest
    launch_share: float | None  # launch tax and waiting of one rank ÷ T: the median over ranks
    waiting_ns: float | None  # the largest, as a part of T
    transfer_ns: float | None  # inside collectives, as recorded; null where none was
    exposed_ns: float | None  # collectives with no other GPU op beside them, waiting included: the largest, as recorded
    graph_speedup: float | None  # T of the mode that launches the same kernels one by one ÷ T
    error: str | None


def ranks_rows(ranks: int, profile: ProfileDoc) -> list[RanksRowDoc]:
    """A row per mode of a profile on so many ranks."""
    times = {name: _step_time(name, mode, profile) for name, mode in profile.modes.items()}
    return [_row(ranks, name, mode, profile, times) for name, mode in profile.modes.items()]


def _step_time(name: str, mode: ModeDoc, profile: ProfileDoc) -> StepTimeDoc | None:
    return mode.step_ns if profile.ranks is None else profile.ranks.modes[name].step_ns


def _row(
    ranks: int, name: str, mode: ModeDoc, profile: ProfileDoc, times: Mapping[str, StepTimeDoc | None]
) -> RanksRowDoc:
    step, before = times[name], times.get(UNGRAPHED.get(name, ""))
    of_all: Sequence[ModeDoc | RankDoc] = [mode] if profile.ranks is None else profile.ranks.modes[name].ranks
    alone = mode.gpu_work_ns if profile.ranks is None else None  # it waits for nobody
    return RanksRowDoc(
        ranks=ranks,
        mode=name,
        step_ns=step,
        gpu_work_ns=max(_known(of_all, "gpu_work_ns"), default=None),
        gpu_work_without_waiting_ns=median_or_none(_known(of_all, "gpu_work_without_waiting_ns")) or alone,
        kernels=median_or_none(_known(of_all, "kernels")),
        launches=median_or_none(_known(of_all, "launches")),
        launch_tax_ns=max(_known(of_all, "launch_tax_ns"), default=None),
        launch_share=None if step is None else median_or_none(_launching(of_all, step.median)),
        waiting_ns=max(_known(of_all, "waiting_of_step_ns"), default=None),
        transfer_ns=median_or_none(_known(of_all, "transfer_ns")),
        exposed_ns=max(_known(of_all, "exposed_ns"), default=None),
        graph_speedup=None if step is None or before is None else before.median / step.median,
        error=next((each.error for each in of_all if each.error is not None), None),
    )


def _launching(ranks: Iterable[ModeDoc | RankDoc], step_ns: float) -> list[float]:
    """The share of T for which each does nothing as its host is launching, or another's is."""
    return [
        (each.launch_tax_ns + (getattr(each, "waiting_of_step_ns", None) or 0.0)) / step_ns
        for each in ranks
        if each.launch_tax_ns is not None
    ]


def _known(ranks: Iterable[ModeDoc | RankDoc], figure: str) -> list[float]:
    """The figure of those that have it."""
    return [value for each in ranks if (value := getattr(each, figure, None)) is not None]
