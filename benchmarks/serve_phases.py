"""Serving steps with phases timed by hand, recorded by torch.profiler: what a report's `serving` is held against.

    python benchmarks/serve_phases.py FORM FOLDER

Writes FORM.json.gz, the trace, and FORM.json: for each step its kind and the starts of its phases by the host's clock,
inside the session and, in the same process, before it. One form per process: a process has one profiler session.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from launchscope.fixtures.models.serve_loop import Phases, build_loop
from launchscope.fixtures.models.serve_requests import build_server
from torch.profiler import ProfilerActivity

FORMS: dict[str, dict[str, Any]] = {
    "graph": {"graph": True, "sample_in_graph": False},
    "graph-marked": {"graph": True, "sample_in_graph": False, "marks": True},
    "graph-inside": {"graph": True},
    "graph-cuda": {"graph": True, "sample_in_graph": False, "cuda_only": True},
    "eager": {},
    "eager-marked": {"marks": True},
    "eager-cuda": {"cuda_only": True},
    "requests": {"requests": True},
    "requests-marked": {"requests": True, "marks": True},
    "requests-eager": {"requests": True, "graph": False},
    "requests-shapes": {"requests": True, "shapes": True},
}
LAYERS = 4  # of Llama-3.2-1B, so that a trace stays small
STEPS = 12
TURNS, DECODE_STEPS = 4, 5  # of the forms with prefill
BETWEEN_NS = 200_000  # what a scheduler does between two steps: here a busy wait
WARM_UP = 2


def main() -> None:
    form, folder = sys.argv[1], Path(sys.argv[2])
    settings = dict(FORMS[form])
    phases = Phases(marks=settings.pop("marks", False), timed=True)
    cuda_only, shapes = settings.pop("cuda_only", False), settings.pop("shapes", False)
    kinds = ["decode"] * STEPS
    if settings.pop("requests", False):
        shape = ("llama-3.2-1b", LAYERS, (64, 256, 128, 256), DECODE_STEPS)
        server = build_server(4, "cuda", torch.bfloat16, 512, *shape, phases, settings.get("graph", True))
        step = server.step
        kinds = ["prefill" if server.is_prefill(n) else "decode" for n in range(TURNS * (1 + DECODE_STEPS))]
    else:
        loop = build_loop(1, "cuda", torch.bfloat16, 512, "llama-3.2-1b", LAYERS, 0.1, phases, **settings)
        step = loop.step
    named = not phases.marks and len(set(kinds)) > 1  # steps that differ can't be found by their repetition
    with torch.inference_mode():
        for _ in range(WARM_UP):
            run(step, len(kinds), named=False)
        unprofiled = timed(phases, step, kinds, named=False)
        activities = [ProfilerActivity.CUDA] if cuda_only else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, record_shapes=shapes) as profiler:
            profiled = timed(phases, step, kinds, named)
    profiler.export_chrome_trace(str(folder / f"{form}.json.gz"))
    facts = {
        "form": form,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "recorded": time.strftime("%Y-%m-%d", time.gmtime()),
        "epoch_minus_clock_ns": time.time_ns() - time.perf_counter_ns(),
        "profiled": profiled,
        "unprofiled": unprofiled,
    }
    (folder / f"{form}.json").write_text(json.dumps(facts))


def run(step: Callable[[], torch.Tensor], count: int, named: bool) -> None:
    """So many steps, with a scheduler's work between them."""
    for _ in range(count):
        if named:
            with torch.profiler.record_function("serve step"):
                step()
        else:
            step()
        until = time.perf_counter_ns() + BETWEEN_NS
        while time.perf_counter_ns() < until:
            pass


def timed(phases: Phases, step: Callable[[], torch.Tensor], kinds: list[str], named: bool) -> list[dict[str, Any]]:
    """The kind of each step, and its phases with their starts in ns; phase null is the step's end."""
    torch.cuda.synchronize()
    phases.starts.clear()
    run(step, len(kinds), named)
    ends = [place for place, (phase, _) in enumerate(phases.starts) if phase is None]
    firsts = [0, *(end + 1 for end in ends[:-1])]
    assert len(ends) == len(kinds)
    return [
        {"kind": kind, "phases": phases.starts[first : end + 1]}
        for kind, first, end in zip(kinds, firsts, ends, strict=True)
    ]


if __name__ == "__main__":
    main()
