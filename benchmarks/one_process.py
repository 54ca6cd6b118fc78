"""T of each mode where one process measures all four, against a fresh process for each.

    python benchmarks/one_process.py TARGET [--rounds 3] [--order MODES] [--out FILE] [--traces FOLDER]

In each round the fresh processes and the shared one take turns. The shared process builds the model once, takes all
unprofiled times first, and then records one profiler session of all modes; a fresh one records its own mode.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MODES = ("eager", "graph", "fused", "fused_graph")
STEPS = 12


def main() -> None:
    options = _options()
    if options.child is not None:
        print(json.dumps(measure(options.target, options.child.split(","), options.traces)))
        return
    jobs = [[mode] for mode in MODES] + [list(options.order.split(","))]
    found: list[dict[str, Any]] = []
    for round_ in range(options.rounds):
        for modes in jobs if round_ % 2 == 0 else jobs[::-1]:
            folder = None if options.traces is None else options.traces / f"{'+'.join(modes)}-{round_}"
            found.append({"round": round_, "modes": modes, **_in_a_process(options.target, modes, folder)})
            if options.out is not None:
                options.out.write_text(json.dumps(found))
    _print(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--order", default=",".join(MODES), help="of the modes in the shared process")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_a_process(target: str, modes: Sequence[str], traces: Path | None) -> dict[str, Any]:
    command = [sys.executable, __file__, target, "--child", ",".join(modes)]
    if traces is not None:
        traces.mkdir(parents=True, exist_ok=True)
        command += ["--traces", str(traces)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        return {"error": done.stderr[-500:], "seconds": seconds}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "seconds": seconds}


def measure(target: str, modes: Sequence[str], traces: Path | None) -> dict[str, Any]:
    """Of each mode: T, host_submit, the seconds of its phases; then one profiler session of all, into ``traces``."""
    import torch
    from launchscope.tracer.measure import protocol
    from launchscope.tracer.measure.device import CudaDevice
    from launchscope.tracer.target.options import TargetOptions
    from launchscope.tracer.target.target import resolve

    device = CudaDevice()
    progress = protocol.Progress(lambda phase: print(phase, file=sys.stderr))
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    progress("build")
    resolved = resolve(TargetOptions(target=target), device.name)
    protocol.first_steps(resolved.target, device, progress)
    steps, found = {}, {}
    for mode in modes:
        steps[mode], _ = protocol.prepare(mode, resolved.target.step, device, progress)
        timed = protocol.unprofiled(steps[mode], device, progress)
        found[mode] = {name: timed[name] for name in ("samples_ns", "host_submit_ns")}
    result: dict[str, Any] = {"found": found, "phases": progress.seconds}
    if traces is not None:
        progress("profiler session")
        with device.session("cuda") as session:
            marks = {}
            for mode, step in steps.items():
                marks[mode] = protocol.marked_steps(step, STEPS)
                device.synchronize()
        session.export(traces / "trace.json.gz")
        result["marks_ns"] = marks
        (traces / "marks.json").write_text(json.dumps(marks))
    progress("end")
    return result


def _print(found: list[dict[str, Any]]) -> None:
    """Median T of each process, and shared ÷ fresh of each round."""
    print(f"{'mode':12} {'fresh T ms':>28} {'shared T ms':>28}  shared ÷ fresh")
    for mode in MODES:
        times: dict[bool, list[float]] = {False: [], True: []}
        for process in found:
            if mode in process.get("found", {}):
                samples = process["found"][mode]["samples_ns"]
                times[len(process["modes"]) > 1].append(statistics.median(samples) / 1e6)
        fresh, shared = (" ".join(f"{ms:8.4f}" for ms in times[is_shared]) for is_shared in (False, True))
        ratio = (
            statistics.median(times[True]) / statistics.median(times[False]) if all(times.values()) else float("nan")
        )
        print(f"{mode:12} {fresh:>28} {shared:>28}  {ratio:.4f}")
    for is_shared in (False, True):
        seconds = [process["seconds"] for process in found if (len(process["modes"]) > 1) is is_shared]
        print(f"{'shared' if is_shared else 'fresh'}: {sum(seconds):.0f} s in {len(seconds)} processes")


if __name__ == "__main__":
    main()
