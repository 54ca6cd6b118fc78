"""A step of vLLM with piecewise graphs on an AMD GPU, recorded with stacks: its phases, worked out once more by hand.

The second computation reads the file's records itself and looks at every stretch between two times that occur in it:
slow, and written apart from the analysis.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from launchscope.analysis.model.document import ServingKindDoc
from launchscope.analysis.report import load

FILE = Path(__file__).parents[4] / "fixtures" / "captures" / "serving" / "tracelens_vllm_piecewise_graphs_hip.json.gz"

PREPARE = (
    "_update_states",
    "_prepare_inputs",
    "_determine_batch_execution_and_padding",
    "_get_slot_mappings",
    "_build_attention_metadata",
    "_preprocess",
)
FORWARD = ("_model_forward", "compute_logits")

Span = tuple[int, int]


@cache
def kind() -> ServingKindDoc:
    serving = load(FILE).document.traces[0].serving
    assert serving is not None
    assert (serving.engine, serving.steps, serving.idle_scope, serving.kinds_reason) == ("vLLM", 1, "whole", None)
    (found,) = serving.kinds
    return found


def total(figure: str) -> dict[str, float]:
    """ns by phase; phases without any left out."""
    summaries = {phase.phase: getattr(phase, figure) for phase in kind().phases}
    return {phase: summary.total for phase, summary in summaries.items() if summary is not None and summary.total}


@cache
def records() -> list[dict[str, Any]]:
    text = gzip.decompress(FILE.read_bytes())
    return [event for event in json.loads(text, parse_float=Decimal)["traceEvents"] if event.get("ph") == "X"]


def span(event: dict[str, Any]) -> Span:
    start = int(Decimal(event["ts"]) * 1000)
    return start, start + int(Decimal(event["dur"]) * 1000)


def step() -> Span:
    (annotation,) = (event for event in records() if event["cat"] == "user_annotation")
    return span(annotation)


@cache
def frames() -> list[tuple[int, int, str]]:
    found = []
    for event in records():
        name = event["name"].rpartition(": ")[2]
        if event["cat"] == "python_function" and "vllm/" in event["name"] and name in PREPARE + FORWARD:
            found.append((*span(event), "prepare" if name in PREPARE else "forward"))
    return sorted(found)


@cache
def boundary() -> int:
    """From here on the host is in the forward: all of vLLM's preparation comes before."""
    start = next(start for start, _, phase in frames() if phase == "forward")
    assert all(end < start for _, end, phase in frames() if phase == "prepare")
    return start


@cache
def gpu_ops() -> list[tuple[int, int, str, bool]]:
    """Start, end, phase of its launch, whether a graph launch ran it."""
    calls = {
        event["args"]["correlation"]: event
        for event in records()
        if event["cat"] == "cuda_runtime" and "correlation" in event["args"]
    }
    found = []
    for event in records():
        if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            call = calls[event["args"]["correlation"]]
            phase = "prepare" if span(call)[0] < boundary() else "forward"
            found.append((*span(event), phase, "GraphLaunch" in call["name"]))
    return sorted(found)


def test_it_is_one_step_of_prompts_and_generation() -> None:
    """execute_8192_context_9(…)_generation_37(…): nine prompts and 37 sequences that generate."""
    assert (kind().kind, kind().evidence, kind().count, kind().period_ns) == ("mixed", "annotation", 1, None)


def test_host_phases() -> None:
    start, end = step()
    logits = frames()[-1][1]  # behind it nothing of the step was recorded
    expected = {"prepare": boundary() - start, "forward": logits - boundary(), "other": end - logits}
    assert total("host_ns") == expected
    assert kind().host_ns.total == end - start


def test_gpu_work() -> None:
    """Each stretch between two times of GPU ops counts for the op that started first and still runs."""
    ops = gpu_ops()
    times = sorted({time for op in ops for time in op[:2]})
    busy: Counter[str] = Counter()
    replayed = 0
    for since, until in pairwise(times):
        running = [op for op in ops if op[0] <= since and op[1] >= until]
        if running:
            busy[running[0][2]] += until - since
            replayed += (until - since) * running[0][3]
    assert total("gpu_busy_ns") == dict(busy)
    forward = next(phase for phase in kind().phases if phase.phase == "forward")
    assert forward.in_replays is not None
    assert forward.in_replays.gpu_busy_ns.total == replayed
    assert (forward.in_replays.launches.median, forward.in_replays.kernels.median) == (25, 361)


def test_idle_time() -> None:
    """The host is far ahead, so that each gap is the GPU's own: of the op that follows it."""
    idle: Counter[str] = Counter()
    ops = gpu_ops()
    reached = ops[0][1]
    for start, end, phase, _ in ops[1:]:
        if start > reached:
            idle[phase] += start - reached
        reached = max(reached, end)
    assert total("gpu_idle_ns") == dict(idle)


def test_waiting() -> None:
    """One hipEventSynchronize, at the start."""
    waits = [span(event) for event in records() if "Synchronize" in event["name"] and event["cat"] == "cuda_runtime"]
    assert total("blocked_ns") == {"prepare": sum(end - start for start, end in waits)}


def test_what_the_file_can_t_tell() -> None:
    reasons = {phase.phase: phase.reason for phase in kind().phases if phase.host_ns is None}
    assert reasons == {
        "sample": "no sampling operator or kernel after the last matrix product",
        "copy_back": "no copy to the host and no wait after the forward",
        "between_steps": "no step follows, so where the step ends is not known",
    }
