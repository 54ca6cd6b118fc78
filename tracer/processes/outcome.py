"""How a job ended in its fresh process, and of those of several ranks which failed by themselves, and which only
because another one was gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from traceback import FrameSummary
from typing import Final, NamedTuple

import msgspec

from ..target.describe import parts_of_target
from ..target.reasons import user_line
from .client import ForkServer, ProcessFailed
from .worker import Job, Result

_ANOTHER_RANK_IS_GONE: Final = re.compile(
    r"\b(nccl|gloo|ucc|tcpstore|socket)|Dist\w*Error|connection (was )?(closed|reset|refused)|broken pipe",
    re.IGNORECASE,
)
"""How communication libraries put it that another rank is gone."""
_ABORTED: Final = "signal 6 "
"""How NCCL's watchdog ends a process that waits for one that is gone."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the process of a job ended, and what it left."""

    rank: int | None = None  # null for one process alone
    host: str = ""
    result: Result | None = None  # or what it had kept until then
    died: str | None = None  # in words; null for one that ended as it should, a target that failed included
    phase: str = "start"  # its last
    timed_out: bool = False
    waits: bool = False  # of one that took too long: in a call that comes back when others have done their part
    line: str | None = None  # of the user's, where it was
    stopped: bool = False  # since another one had failed
    failure_order: int = 0  # among those that failed: 1 is the first
    has_trace: bool = False  # the trace that its result names follows

    @property
    def error(self) -> str | None:
        """What went wrong, in words; null when nothing did."""
        if self.died is not None:
            return f"the process {self.died} ({self.phase})" + ("" if self.line is None else f", at {self.line}")
        if self.result is None or self.result.refusal is not None:
            return self.result.refusal if self.result else None
        return self.result.process.error if self.result.process else None

    @property
    def trace(self) -> str | None:
        """Of its process, by its name inside the capture."""
        return self.result.process.trace if self.result and self.result.process else None

    @property
    def refused(self) -> bool:
        """The target can't be built there."""
        return (self.died is not None and self.phase == "build") or (
            self.result is not None and self.result.refusal is not None
        )

    def message(self, doing: str) -> str:
        """What failed where."""
        return f"rank {self.rank} on {self.host}: {doing}: {self.error}"


def run_job(
    server: ForkServer, job: Job, timeout_s: float, tell: Callable[[str], None], rank: int | None = None, host: str = ""
) -> Outcome:
    """One fresh process that does the job."""
    phase = "start"

    def on_phase(begun: str) -> None:
        nonlocal phase
        phase = begun
        tell(begun)

    try:
        result = server.run("launchscope.tracer.processes.worker:run", job, Result, timeout_s, on_phase)
        return Outcome(rank=rank, host=host, result=result, phase=phase)
    except ProcessFailed as error:
        script = Path(parts_of_target(job.options.target)[0])
        found = stuck(error.stacks, script.parent) if error.timed_out else None
        return Outcome(
            rank=rank,
            host=host,
            result=msgspec.json.decode(error.kept, type=Result) if error.kept else None,
            died=str(error),
            phase=phase,
            line=None if found is None else found.line,
            waits=found is not None and found.waits,
            timed_out=error.timed_out,
            stopped=error.stopped,
        )


def at_fault(outcomes: Sequence[Outcome], arrived: Mapping[int | None, int]) -> list[Outcome]:
    """Those that failed by themselves, the first first; empty when all went well.

    ``arrived``: how many barriers each rank has come to. Of ranks that took too long, those kept the others waiting
    that wait for none themselves, and that came to the fewest barriers.
    """
    failed = sorted((each for each in outcomes if each.error and not each.stopped), key=lambda each: each.failure_order)
    by_themselves = [each for each in failed if not each.timed_out and not _waited(each, failed[0])]
    if by_themselves:
        return by_themselves
    late = [each for each in failed if each.timed_out]
    if late:
        late = [each for each in late if not each.waits] or late
        fewest = min(arrived.get(each.rank, 0) for each in late)
        return [each for each in late if arrived.get(each.rank, 0) == fewest]
    return failed if len(failed) == len(outcomes) else failed[:1]


def _waited(outcome: Outcome, first: Outcome) -> bool:
    """Whether it failed because another one was gone."""
    if outcome.died is not None:
        return _ABORTED in outcome.died and outcome is not first and first.died != outcome.died
    return _ANOTHER_RANK_IS_GONE.search(outcome.error or "") is not None


_FRAME: Final = re.compile(r'^  File "([^"]+)", line (\d+) in (.+)$', re.MULTILINE)  # as faulthandler writes it
_WAITS: Final = ("/torch/", "/tracer/processes/exchange.py")
"""In a collective, in a synchronise, or in any operator that can't be launched while the GPU's queue is full."""
_MEASURES: Final = "/tracer/processes/worker.py"
_WORKS: Final = ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/torch/fx/")


class Stuck(NamedTuple):
    """``waits``: in a call that comes back when others have done their part."""

    waits: bool
    line: str | None  # of the user's: 'model.py:42 in decode: x.item()'


def stuck(stacks: str, folder: Path | None) -> Stuck | None:
    """From the stacks of all threads, the innermost frame first; null where the one that measures isn't among them."""
    threads = [_frames(thread) for thread in stacks.split("\n\n")]
    measuring = next(
        (frames for frames in threads if any(frame.filename.endswith(_MEASURES) for frame in frames)), None
    )
    if measuring is None:
        return None
    innermost = measuring[0].filename
    waits = any(part in innermost for part in _WAITS) and not any(part in innermost for part in _WORKS)
    return Stuck(waits, user_line(measuring[::-1], folder=folder))


def _frames(thread: str) -> list[FrameSummary]:
    return [FrameSummary(file, int(line), function) for file, line, function in _FRAME.findall(thread)]
