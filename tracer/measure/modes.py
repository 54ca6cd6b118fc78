"""The four ways to run one decode step: eager, graph, fused, fused_graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analysis.model.capture import WARM_CACHE_NOTE
from ..target.reasons import failure
from .device import Device, Step

Phase = Callable[[str], None]
"""Called with what begins now: 'compile', 'capture', …"""


class NotCaptured(Exception):
    """A capture failed: its cause says of what."""

    def __init__(self, step: Step) -> None:
        super().__init__("the step can't be captured")
        self.step = step  # as it was to be captured


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step in one mode, ready to run, and what it cost to get there; null where the mode has no such cost."""

    step: Step
    compile_ns: float | None = None
    capture_ns: float | None = None
    graph_memory_bytes: int | None = None
    notes: tuple[str, ...] = ()


def prepare(mode: str, step: Step, device: Device, phase: Phase, warm_up_steps: int) -> Prepared:
    """Compile and capture as the mode asks. The step has run in eager before, so that one-time work is done."""
    compile_ns: float | None = None
    notes: tuple[str, ...] = ()
    if mode in ("fused", "fused_graph"):
        phase("compile")
        step, compile_ns, notes = _compile(step, device)
        device.warm_up(step, warm_up_steps)
    if mode not in ("graph", "fused_graph"):
        return Prepared(step, compile_ns=compile_ns, notes=notes)
    phase("capture")
    free_before = device.free_memory()
    begin = time.perf_counter_ns()
    try:
        replay = device.capture(step)
    except Exception as error:
        raise NotCaptured(step) from error
    capture_ns = float(time.perf_counter_ns() - begin)
    replay()  # the first replay uploads the graph: it belongs to the memory it costs
    graph_memory = max(free_before - device.free_memory(), 0)
    return Prepared(replay, compile_ns, capture_ns, graph_memory, notes)


def _compile(step: Step, device: Device) -> tuple[Step, float, tuple[str, ...]]:
    """torch.compile with its defaults and static shapes; the first call compiles."""
    import torch
    from torch._dynamo import utils
    from torch._dynamo.utils import counters

    counters.clear()
    for name in ("graph_break_reasons", "guard_failures"):  # of what was compiled before
        getattr(utils, name, {}).clear()
    compiled: Any = torch.compile(step, dynamic=False)
    begin = time.perf_counter_ns()
    compiled()
    device.synchronize()
    elapsed = float(time.perf_counter_ns() - begin)
    breaks = sum(counters["graph_break"].values())
    notes: tuple[str, ...] = (f"torch.compile broke the step into pieces at {breaks} places",) if breaks else ()
    if counters["inductor"]["fxgraph_cache_hit"] or counters["aot_autograd"]["autograd_cache_hit"]:
        notes += (WARM_CACHE_NOTE,)
    return compiled, elapsed, notes


def failing_operator(step: Step, device: Device, line: str | None, folder: Path | None) -> str | None:
    """The operator at which a capture fails, 'aten::_local_scalar_dense', found by a second attempt.

    Null where no operator raised the error (a wait by itself is none), or the second attempt fails at another line.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    failed: list[str] = []

    class Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            try:
                return func(*args, **(kwargs or {}))
            except Exception:
                failed.append(str(func._schema.name))
                raise

    def observed() -> Any:
        with Watched():  # type: ignore[no-untyped-call]
            return step()

    try:
        device.capture(observed)
    except Exception as error:
        return failed[0] if failed and failure(error, "capture", folder).line == line else None
    return None
