"""Step time of a graph by a plain loop, to hold `launchscope profile`'s T of graph mode against.

    python benchmarks/plain_graph_loop.py fixtures/models/llama_1b.py [few-streams]

Written apart from the tracer, by the recipe of PyTorch's notes on CUDA graphs: warm up on a side stream, capture,
replay back to back between two CUDA events. With ``few-streams`` the warm-up stays on the current stream; on an H200
the same graph then runs faster (docs/validation.md).
"""

from __future__ import annotations

import runpy
import statistics
import sys

import torch


def main() -> None:
    path, few_streams = sys.argv[1], "few-streams" in sys.argv[2:]
    target = runpy.run_path(path)["build"](batch_size=1, device="cuda", dtype=torch.bfloat16, context_length=512)
    with torch.no_grad():
        stream = torch.cuda.current_stream() if few_streams else torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(5):
                target.step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            target.step()
        for _ in range(20):
            graph.replay()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        steps = []
        for _ in range(20):
            begin.record()
            for _ in range(20):
                graph.replay()
            end.record()
            end.synchronize()
            steps.append(begin.elapsed_time(end) / 20)
    print(f"{path}: {statistics.median(steps):.4f} ms a step ({min(steps):.4f} to {max(steps):.4f})")


if __name__ == "__main__":
    main()
