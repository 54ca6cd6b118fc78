"""``launchscope predict`` and ``model``: step times on a GPU that isn't there, from a counted step or a few numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..tracer.target.options import TIMEOUT_S, ProfileOptions
from . import choices
from .outputs import MODEL, PREDICT, Destination
from .progress import progress_line


def _gpu(text: str) -> str:
    from ..analysis.predict.gpus import NAMES

    if text.lower() not in NAMES:
        raise ValueError(f"no GPU '{text}' in the table; there are {', '.join(NAMES)}")
    return text.lower()


@click.command("predict", short_help="Predict a model's step times on a GPU that isn't there.")
@click.argument("target")
@click.option("--gpu", type=choices.Parsed("GPU", _gpu), default="h200", show_default=True, help="What to predict for.")
@click.option("--calibration", metavar="FILE", type=choices.PATH, help="Figures of `launchscope calibrate` on it.")
@click.option("--tau", type=choices.TIME, help="Host time per launch, τ, on the host it is for.")
@choices.batch_size
@choices.build
@choices.timeout(TIMEOUT_S, "Longest that building and counting may take.")
@choices.destination()
def predict(target: str, gpu: str, calibration: Path | None, tau: float | None, to: Destination, **build: Any) -> None:
    """Count the decode step of TARGET (model.py, model.py:name or package.module:name) without a GPU: launches, bytes
    and FLOPs per operator. Predict from them its step times in each mode, with their range. Nothing is measured.
    """
    options = ProfileOptions(target=target, **build)
    inputs = () if calibration is None else (calibration,)
    to.check(*inputs, Path(target.partition(":")[0]))  # a script is no place for its report
    from ..analysis.predict import gpus
    from ..analysis.predict.predict import predict_step
    from ..tracer.processes.count import count_step

    measured = None if calibration is None else gpus.read_calibration(calibration, gpu)
    with progress_line() as progress:
        step = count_step(options, progress)
    figures = gpus.gpu(gpu, measured, None if calibration is None else f"of {calibration}", tau)
    to.write(predict_step(step, figures), PREDICT, *inputs)


@click.command("model", short_help="Predict eager and graph step times from weights, kernels, τ and bandwidth.")
@click.argument("path", metavar="[PATH]", type=choices.PATH, required=False)
@click.option("--weights", multiple=True, type=choices.SIZE, help="Bytes read per step.")
@click.option("--kernels", multiple=True, type=click.IntRange(1, 10**9), help="Kernels per step.")
@click.option("--tau", multiple=True, type=choices.TIME, help="Host time per launch, τ.")
@click.option("--bandwidth", multiple=True, type=choices.RATE, help="Of the GPU's memory.")
@click.option(
    "--node-gap",
    type=choices.TIME,
    help="GPU time from one node of a graph to the next, ν.  [default: 0; with PATH as measured]",
)
@choices.destination()
def model(
    path: Path | None,
    weights: tuple[float, ...],
    kernels: tuple[int, ...],
    tau: tuple[float, ...],
    bandwidth: tuple[float, ...],
    node_gap: float | None,
    to: Destination,
) -> None:
    """Predict the step times of a model that reads its weights once per step, launched kernel by kernel and as one
    CUDA graph. Options may be repeated: every combination is a row. With PATH, a capture or a trace, its measured
    values stand where no option is given.
    """
    given = {"--weights": weights, "--kernels": kernels, "--tau": tau, "--bandwidth": bandwidth}
    missing = [name for name, values in given.items() if not values]
    if path is None and missing:
        raise click.UsageError(f"Missing {', '.join(missing)}: give them, or a capture to take them from.")
    inputs = () if path is None else (path,)
    to.check(*inputs)
    from ..analysis.predict.textbook import measured_values, model_document, steps, steps_from

    if path is None:
        document = model_document(steps(weights, kernels, tau, bandwidth, node_gap or 0.0))
    else:
        from ..analysis.report import load

        start = measured_values(load(path))
        document = model_document(steps_from(start, weights, kernels, tau, bandwidth, node_gap), start)
    to.write(document, MODEL, *inputs)
