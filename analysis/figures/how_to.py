"""One line that tries each kind of action."""

from __future__ import annotations

from typing import Final

HOW: Final = {
    "graph": "g = torch.cuda.CUDAGraph(); with torch.cuda.graph(g): step(); then g.replay() over static inputs",
    "fused": "torch.compile(step)",
    "fused_graph": 'torch.compile(step, mode="reduce-overhead")',
    "next_replay": "replay step n + 1 before the result of step n is read",
    "sync": "copy_(…, non_blocking=True) into pinned memory, and read it one step later",
    "between_steps": "launch step n + 1 before the host reads the token of step n",
    "stall": "gc.freeze() after warm-up; warm up every shape; load data in another process",
    "wait": "look at the rank that arrives last: taskset each process to cores of its own; gc.freeze(); graphs",
    "other_ranks": "launchscope analyze RANK0.json RANK1.json …",
    "node": "torch.compile before the capture: half the nodes pay half",
    "less_work": "launchscope whatif CAPTURE --weights int4 --graph, or --batch 8",
}
"""By ``ActionDoc.kind``."""

LESS_WORK_UNCOUNTED: Final = "launchscope whatif PATH --gpu matmul=0.5"
"""For ``less_work`` where nothing says what a step reads: weights and batches take that, times of ops don't."""
