"""What the agent makes of how its coordinators ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch.distributed")

from launchscope.analysis.model.errors import BadTarget, RankFailed
from launchscope.tracer.processes.api import Interrupted
from launchscope.tracer.processes.launch import Ended, capture_of_ended

KILLED = SimpleNamespace(exitcode=-9)
ENDED_BADLY = SimpleNamespace(exitcode=2)


def ended(rank: int, how: str, message: str = "", path: str | None = None) -> tuple[int, Ended]:
    return rank, Ended(rank=rank, how=how, message=message, path=path)


def test_rank_0_has_the_capture() -> None:
    assert capture_of_ended(dict([ended(0, "done", path="kept"), ended(1, "done")]), {}, False) == Path("kept")


def test_it_may_be_elsewhere() -> None:
    assert capture_of_ended(dict([ended(2, "done"), ended(3, "done")]), {}, False) is None


def test_an_error_of_rank_0_is_raised_here() -> None:
    both = dict([ended(0, "BadTarget", "no such file"), ended(1, "RankFailed", "rank 0: no such file")])
    with pytest.raises(BadTarget, match=r"^no such file$"):
        capture_of_ended(both, {1: ENDED_BADLY}, False)


def test_a_killed_one_is_named_before_those_that_it_took_along() -> None:
    with pytest.raises(RankFailed, match=r"rank 1 on .* signal 9 \(SIGKILL\); what was measured until then is in kept"):
        capture_of_ended(dict([ended(0, "interrupted", path="kept")]), {1: KILLED}, False)
    with pytest.raises(RankFailed, match=r"rank 0 on .* signal 9 \(SIGKILL\); nothing is kept"):
        capture_of_ended(dict([ended(1, "RankFailed", "rank 0 has not been heard of")]), {0: KILLED}, False)


def test_an_error_of_another_one_is_not_taken_for_ctrl_c() -> None:
    both = dict([ended(0, "interrupted"), ended(1, "internal", "Traceback: KeyError")])
    with pytest.raises(RuntimeError, match="KeyError"):
        capture_of_ended(both, {1: ENDED_BADLY}, False)


def test_ctrl_c_has_what_was_measured() -> None:
    with pytest.raises(Interrupted) as told:
        capture_of_ended(dict([ended(0, "interrupted", path="kept"), ended(1, "interrupted")]), {}, True)
    assert told.value.capture == Path("kept")
