"""``launchscope model``: the textbook's launch-overhead model, for numbers of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import MODEL, check_output, hand_over


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
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
def command(
    path: Path | None,
    weights: tuple[float, ...],
    kernels: tuple[int, ...],
    tau: tuple[float, ...],
    bandwidth: tuple[float, ...],
    node_gap: float | None,
    output: str | None,
    file: Path | None,
) -> None:
    """Predict the step times of a model that reads its weights once per step, launched kernel by kernel and as one
    CUDA graph. Options may be repeated: every combination is a row. With PATH, a capture or a trace, its measured
    values stand where no option is given.
    """
    given = {"--weights": weights, "--kernels": kernels, "--tau": tau, "--bandwidth": bandwidth}
    missing = [name for name, values in given.items() if not values]
    if path is None and missing:
        raise click.UsageError(f"Missing {', '.join(missing)}: give them, or a capture to take them from.")
    check_output(file, () if path is None else (path,))
    from ..analysis.predict.textbook import measured_values, model_document, steps, steps_from

    if path is None:
        document = model_document(steps(weights, kernels, tau, bandwidth, node_gap or 0.0))
    else:
        from ..analysis.report import load

        start = measured_values(load(path))
        document = model_document(steps_from(start, weights, kernels, tau, bandwidth, node_gap), start)
    hand_over(document, output, file=file, inputs=() if path is None else (path,), table=MODEL)
