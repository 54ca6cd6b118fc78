"""Figures that the documents tell, worked out anew from the raw JSON of captures, without this package's analysis."""

from __future__ import annotations

import gzip
import json
import math
import re
import zipfile
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "fixtures" / "captures"
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def member(capture: str, name: str) -> bytes:
    with zipfile.ZipFile(CAPTURES / capture) as archive:
        return archive.read(name)


def tells(page: str, *figures: str) -> bool:
    """Whether one sentence of a page has these figures, in this order."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.search(r"[^|]{,80}".join(map(re.escape, figures)), text) is not None


def process_medians(capture: str, mode: str) -> list[float]:
    processes = json.loads(member(capture, "manifest.json"))["modes"][mode]["processes"]
    return [median(process["samples_ns"]) for process in processes if process["samples_ns"]]


def step_ops(trace: str, count: int, capture: str = "llama_1b.zip") -> list[tuple[str, float]]:
    """Of a step: name and median ns of each GPU op over the steps but the first."""
    events: list[dict[str, Any]] = json.loads(gzip.decompress(member(capture, f"traces/{trace}")))["traceEvents"]
    ops = sorted((e for e in events if e.get("cat") in GPU_WORK and e["ph"] == "X"), key=lambda e: float(e["ts"]))
    steps = [ops[at : at + count] for at in range(count, len(ops), count)]
    return [(alike[0]["name"], median(op["dur"] for op in alike) * 1000) for alike in zip(*steps, strict=True)]


def test_merging_by_hand_pair_by_pair() -> None:
    """The median of the means of every two of −31, −1 and −34 %, on a logarithmic scale; their own median is −31 %."""
    merged, plain = (process_medians(f"samples/{name}.zip", "eager") for name in ("handfused", "handfused-against"))
    ratios = [math.log(after / before) for after, before in zip(merged, plain, strict=True)]
    assert [round(100 * math.expm1(ratio)) for ratio in ratios] == [-31, -1, -34]
    means = [(one + two) / 2 for at, one in enumerate(ratios) for two in ratios[at:]]
    assert math.expm1(median(means)) == pytest.approx(-0.253, abs=0.001)
    assert tells("validation.md", "−25 %", "−31", "−1", "−34 %")


def test_kernels_that_the_sample_says_it_launches() -> None:
    names = [name for name, _ in step_ops("eager-0-cuda.json.gz", 718)]
    kernels = len([name for name in names if not name.startswith("Mem")])
    around = 1 + 2 + 1 + 8 + 1  # embedding, cosine and sine, mask, norm, output projection
    source = (ROOT / "fixtures" / "models" / "llama.py").read_text("utf-8")
    told = re.search(r"it launches (\d+) kernels: (\d+) a layer", source)
    assert told is not None
    assert (kernels, (kernels - around) / 16) == (int(told[1]), int(told[2])) == (717, 44)


def test_what_came_of_the_norms_that_torch_compile_fused() -> None:
    """33 norms of eight kernels, 32 with an add in front; compiled, one kernel each, which has a root in its name."""
    eager, fused = step_ops("eager-0-cuda.json.gz", 718), step_ops("fused-0-cuda.json.gz", 247)
    roots = [at for at, (name, _) in enumerate(eager) if "rsqrt" in name]
    norms = [eager[at - (4 if norm == 0 else 5) : at + 4] for norm, at in enumerate(roots)]
    in_one = [ns for name, ns in fused if "rsqrt" in name]
    assert sum(map(len, norms)) - len(in_one) == 263
    assert sum(ns for norm in norms for _, ns in norm) - sum(in_one) == pytest.approx(334_530)


@pytest.mark.parametrize(
    ("capture", "count", "here", "came"), [("llama_1b.zip", 247, 3, 140), ("fusion/hf_llama.zip", 310, 6, 96)]
)
def test_kernels_that_torch_compile_takes_for_rope(capture: str, count: int, here: int, came: int) -> None:
    """In a layer in the middle, behind the products of q and k: those that join halves, write caches, take the mask."""
    names = [name for name, _ in step_ops("fused-0-cuda.json.gz", count, capture)]
    attentions = [at for at, name in enumerate(names) if "sdpa" in name]
    words = ("_cat_", "index_copy", "scaled_dot_product")
    layers = [[name for name in names[one:other] if name.startswith("triton") and any(word in name for word in words)]
              for one, other in pairwise(attentions)]  # fmt: skip
    assert sorted(map(len, layers))[len(layers) // 2] == here
    first = [
        name for name in names[: attentions[0]] if name.startswith("triton") and any(word in name for word in words)
    ]
    assert 192 - len(first) - sum(map(len, layers)) == came


def test_products_beside_their_bytes() -> None:
    """Of q (8 MB of weights) and of k and v (2 MB), behind the norm of each layer; docs/fusion.md has both."""
    step = step_ops("eager-0-cuda.json.gz", 718)
    bandwidth = json.loads(member("llama_1b.zip", "manifest.json"))["calibration"]["bandwidth_bytes_per_s"]
    found: dict[int, list[float]] = {2048: [], 512: []}
    for at in range(len(step) - 2):
        names = [name for name, _ in step[at : at + 3]]
        if names[0].endswith("v_bz_TNT") and names[1] == names[2] and names[1].endswith("v_bz_TNN"):
            for width, (_, ns) in zip((2048, 512, 512), step[at : at + 3], strict=True):
                found[width].append(ns - 2 * (2048 * width + 2048 + width) / bandwidth * 1e9)
    assert [len(each) for each in found.values()] == [16, 32]
    assert [round(sum(each) / len(each) / 1000, 1) for each in found.values()] == [3.7, 4.9]
    assert tells("fusion.md", "8 MB", "3.7 µs", "2 MB", "4.9")


@pytest.mark.parametrize(
    ("capture", "trace", "nodes", "times"),
    [
        ("faults/none.zip", "fused_graph-1-cpu_cuda.json.gz", 52, 6),
        ("regressions/serve.zip", "as_written-2-stacks.json.gz", 722, 200),
    ],
)
def test_how_much_longer_cupti_makes_a_graph_launch(capture: str, trace: str, nodes: int, times: int) -> None:
    """The least and the most of these captures, beside what the calibration says of so many nodes."""
    costs = json.loads(member(capture, "manifest.json"))["calibration"]
    events = json.loads(gzip.decompress(member(capture, f"traces/{trace}")))["traceEvents"]
    took = [event["dur"] * 1000 for event in events if event.get("name") == "cudaGraphLaunch"]
    unprofiled = costs["graph_launch_ns"] + costs["graph_launch_per_node_ns"] * nodes
    assert median(took) / unprofiled == pytest.approx(times, rel=0.05)
    assert tells("graphs.md", "6", "200", "times")
