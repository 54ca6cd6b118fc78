"""What `launchscope predict` is held against: the files fixtures/captures/predicted/counted.json and measured.json.

    python benchmarks/predicted.py counted fixtures/models/llama_1b.py fixtures/models/llama_1b.py@256 … > counted.json
    python benchmarks/predicted.py measured llama_1b.zip qwen2_5_7b.zip … > measured.json

``counted``: steps as predict counts them, without a GPU. `ops` holds each different operator once, `order` the step as
indices into it. @N is a batch size, @shape=… a setting. ``measured``: what captures measured of these steps. Step times
are T, ns; `launching_operators` are the operators of one recorded step that launch something (null without a recording
that has operators).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import msgspec
import numpy as np
from launchscope.analysis.figures.analyses import TraceAnalysis
from launchscope.analysis.model.document import ModeDoc
from launchscope.analysis.model.trace import NONE
from launchscope.analysis.report import load
from launchscope.tracer.processes.count import count_step
from launchscope.tracer.target.options import ProfileOptions, parse_settings


def counted(spec: str) -> dict[str, object]:
    """One target's step."""
    target, _, more = spec.partition("@")
    settings = parse_settings([more] if "=" in more else [])
    batch_size = 1 if settings or not more else int(more)
    step = count_step(ProfileOptions(target=target, batch_size=batch_size, settings=settings), lambda _: None)
    different = list(dict.fromkeys(step.ops))
    return {
        "target": Path(target).name,
        "batch_size": step.target.batch_size,
        "settings": step.target.settings,
        "torch": step.torch,
        "transformers": metadata.version("transformers"),
        "ops": msgspec.to_builtins(different),
        "order": list(map({op: index for index, op in enumerate(different)}.get, step.ops)),
    }


def measured(path: Path) -> dict[str, object]:
    """One capture's figures."""
    report = load(path)
    document = report.document
    assert document.target is not None
    assert document.profile is not None
    with_operators = [
        a
        for a in report.analyses
        if a.document.mode == "eager" and (a.context.trace.launches.operator_row != NONE).any()
    ]
    return {
        "target": document.target.name,
        "batch_size": document.target.batch_size,
        "settings": document.target.settings,
        "context_length": document.target.context_length,
        "environment": {key: (document.environment or {}).get(key) for key in ("gpu", "driver", "cuda", "torch")},
        "launching_operators": launching_operators(with_operators[0]) if with_operators else None,
        "modes": {name: of_mode(mode) for name, mode in document.profile.modes.items()},
    }


def launching_operators(analysis: TraceAnalysis) -> int:
    """Of the last kept step."""
    rows = np.flatnonzero(analysis.context.steps.launch_step == analysis.context.steps.kept_rows[-1])
    return len(np.unique(analysis.context.trace.launches.operator_row[rows]))


def of_mode(mode: ModeDoc) -> dict[str, float | None]:
    return {
        "step_ns": None if mode.step_ns is None else mode.step_ns.median,
        "gpu_work_ns": mode.gpu_work_ns,
        "launches": mode.launches,
        "kernels": mode.kernels,
        "host_submit_ns": mode.host_submit_ns,
    }


def main(what: str, names: Sequence[str]) -> None:
    if what == "counted":
        print("[\n" + ",\n".join(json.dumps(counted(spec), separators=(",", ":")) for spec in names) + "\n]")
    else:
        print(msgspec.json.format(msgspec.json.encode([measured(Path(name)) for name in names])).decode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
