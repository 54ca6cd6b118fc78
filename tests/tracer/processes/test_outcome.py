"""Which ranks failed by themselves, and which for want of those."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.model.capture import ProcessRecord

pytest.importorskip("torch")

from launchscope.tracer.processes import worker
from launchscope.tracer.processes.outcome import Outcome, at_fault, stuck
from launchscope.tracer.processes.worker import Result

GLOO = "RuntimeError (warm up): [gloo/transport/tcp/pair.cc:537] Connection closed by peer [127.0.0.1]:14729"
NCCL = "DistBackendError (warm up): NCCL error in: ProcessGroupNCCL.cpp:2914, remote process exited"
BARRIER = "DistStoreError (timing): wait timeout after 600000ms, keys: /launchscope/barrier/3/open"
ITEM = "can't be captured: the step does something that waits for the GPU"


def outcome(rank: int, **found: object) -> Outcome:
    return msgspec.structs.replace(Outcome(rank=rank, host="vm", phase="timing", failure_order=rank + 1), **found)


def fine(rank: int) -> Outcome:
    return outcome(rank, result=Result(process=ProcessRecord(repeat=0, started="")), failure_order=0)


def failed(rank: int, error: str, **found: object) -> Outcome:
    record = ProcessRecord(repeat=0, started="", error=error)
    return outcome(rank, result=Result(process=record), **found)


def died(rank: int, how: str, **found: object) -> Outcome:
    return outcome(rank, died=how, **found)


def late(rank: int, **found: object) -> Outcome:
    return died(rank, "did not end within 600 s and was stopped (--timeout)", timed_out=True, **found)


@pytest.mark.parametrize(
    ("outcomes", "arrived", "ranks"),
    [
        ([fine(0), fine(1)], {}, []),
        ([failed(0, ITEM), failed(1, ITEM)], {}, [0, 1]),
        ([fine(0), failed(1, ITEM)], {}, [1]),
        ([failed(0, GLOO), failed(1, "ValueError (warm up): no")], {}, [1]),
        ([failed(0, NCCL), died(1, "died of signal 9 (SIGKILL)")], {}, [1]),
        ([died(0, "was stopped", stopped=True), died(1, "died of signal 11 (SIGSEGV)")], {}, [1]),
        (
            [
                died(0, "died of signal 6 (SIGABRT)", failure_order=2),
                died(1, "died of signal 9 (SIGKILL)", failure_order=1),
            ],
            {},
            [1],
        ),
        ([died(0, "died of signal 6 (SIGABRT)"), died(1, "died of signal 6 (SIGABRT)")], {}, [0, 1]),
        ([died(0, "died of signal 6 (SIGABRT)", failure_order=1), died(1, "was stopped", stopped=True)], {}, [0]),
        ([failed(0, GLOO), failed(1, GLOO)], {}, [0, 1]),  # the network between them
        ([failed(0, GLOO, failure_order=2), failed(1, GLOO, failure_order=1), fine(2)], {}, [1]),
        ([failed(0, BARRIER), late(1)], {}, [1]),
        ([late(0), late(1)], {0: 7, 1: 6}, [1]),
        ([late(0), late(1)], {0: 7, 1: 7}, [0, 1]),
        ([late(0), late(1)], {0: 7}, [1]),  # that came to none
        ([late(0, waits=True), late(1)], {0: 7, 1: 7}, [1]),
        ([late(0, waits=True), late(1, waits=True)], {0: 7, 1: 7}, [0, 1]),
        ([late(0), failed(1, ITEM)], {0: 7, 1: 6}, [1]),
        ([fine(0), outcome(1, result=Result(refusal="model.py: no such file"))], {}, [1]),
    ],
)
def test_those_at_fault(outcomes: list[Outcome], arrived: dict[int, int], ranks: list[int]) -> None:
    assert sorted(each.rank for each in at_fault(outcomes, arrived)) == ranks


def test_the_first_to_fail_comes_first() -> None:
    outcomes = [failed(0, ITEM, failure_order=2), failed(1, ITEM, failure_order=1)]
    assert [each.rank for each in at_fault(outcomes, {})] == [1, 0]


def test_a_fault_is_told_with_rank_host_job_and_line() -> None:
    fault = late(1, line="model.py:42 in decode: wait()")
    assert fault.message("graph, process 1 of 3") == (
        "rank 1 on vm: graph, process 1 of 3: the process did not end within 600 s and was stopped (--timeout) "
        "(timing), at model.py:42 in decode: wait()"
    )


STACKS = """\
Thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x00007e (most recent call first):
{inner}  File "{script}", line 3 in decode
  File "{script}", line 5 in step
  File "/site-packages/launchscope/tracer/measure/device.py", line 140 in warm_up
  File "{worker}", line 180 in _measure
  File "/site-packages/launchscope/tracer/processes/server.py", line 260 in _child
"""
ALL_REDUCE = '  File "/site-packages/torch/distributed/distributed_c10d.py", line 3005 in all_reduce\n'


LINEAR = '  File "/site-packages/torch/nn/modules/linear.py", line 125 in forward\n'
COMPILE = '  File "/site-packages/torch/_inductor/compile_fx.py", line 800 in compile_fx\n'


@pytest.mark.parametrize(("inner", "waits"), [("", False), (ALL_REDUCE, True), (LINEAR, True), (COMPILE, False)])
def test_where_a_process_was_stuck(tmp_path: Path, inner: str, waits: bool) -> None:
    script = tmp_path / "model.py"
    script.write_text("import time\ndef decode():\n    time.sleep(9)\ndef step():\n    decode()\n")
    found = stuck(STACKS.format(inner=inner, script=script, worker=worker.__file__), tmp_path)
    assert found == (waits, "model.py:3 in decode: time.sleep(9)")


def test_no_stack_says_nothing() -> None:
    assert stuck("", None) is None
