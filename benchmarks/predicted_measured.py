"""What captures measured of the steps that `launchscope predict` predicts, as one JSON document: the file that
fixtures/captures/predicted/measured.json is.

    python benchmarks/predicted_measured.py llama_1b.zip qwen2_5_7b.zip … > measured.json

Step times are T, ns; `launching_operators` are the operators of one recorded step that launch something (null without a
recording that has operators).
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
from launchscope.analysis.figures.analyses import TraceAnalysis
from launchscope.analysis.model.document import ModeDoc
from launchscope.analysis.model.trace import NONE
from launchscope.analysis.report import load


def launching_operators(analysis: TraceAnalysis) -> int:
    """Of the last kept step."""
    rows = np.flatnonzero(analysis.steps.launch_step == analysis.steps.kept_rows[-1])
    return len(np.unique(analysis.trace.launches.operator_row[rows]))


def of_mode(mode: ModeDoc) -> dict[str, float | None]:
    return {
        "step_ns": None if mode.step_ns is None else mode.step_ns.median,
        "gpu_work_ns": mode.gpu_work_ns,
        "launches": mode.launches,
        "kernels": mode.kernels,
        "host_submit_ns": mode.host_submit_ns,
    }


def of_capture(path: Path) -> dict[str, object]:
    report = load(path)
    document = report.document
    assert document.target is not None
    assert document.profile is not None
    with_operators = [
        a for a in report.analyses if a.document.mode == "eager" and (a.trace.launches.operator_row != NONE).any()
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


if __name__ == "__main__":
    found = [of_capture(Path(path)) for path in sys.argv[1:]]
    print(msgspec.json.format(msgspec.json.encode(found)).decode())
