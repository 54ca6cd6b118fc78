"""``launchscope model``: the textbook's launch-overhead model, for numbers of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import MODEL, by_suffix, check_output, hand_over


@click.command("model", short_help="Predict eager and graph step times from weights, kernels, τ and bandwidth.")
@click.option("--weights", multiple=True, required=True, type=choices.SIZE, help="Bytes read per step.")
@click.option("--kernels", multiple=True, required=True, type=click.IntRange(1), help="Kernels per step.")
@click.option("--tau", multiple=True, required=True, type=choices.TIME, help="Host time per launch, τ.")
@click.option("--bandwidth", multiple=True, required=True, type=choices.RATE, help="Of the GPU's memory.")
@click.option(
    "--node-gap",
    type=choices.TIME,
    default="0",
    show_default=True,
    help="GPU time from one node of a graph to the next, ν.",
)
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
def command(
    weights: tuple[float, ...],
    kernels: tuple[int, ...],
    tau: tuple[float, ...],
    bandwidth: tuple[float, ...],
    node_gap: float,
    output: str | None,
    file: Path | None,
) -> None:
    """Predict the step times of a model that reads its weights once per step, launched kernel by kernel and as one
    CUDA graph. Options may be repeated: every combination is a row. Nothing is measured.
    """
    check_output(file, ())
    from ..analysis.textbook import model_document, steps

    document = model_document(steps(weights, kernels, tau, bandwidth, node_gap))
    name = output or (file and by_suffix(file, MODEL)) or "terminal"
    hand_over(document, name, file=file, inputs=(), verbose=False, table=MODEL)
