"""``launchscope predict``: a decode step counted without a GPU, and what it would take on one."""

from __future__ import annotations

from pathlib import Path

import click

from ..tracer.target.options import TIMEOUT_S, ProfileOptions, parse_settings
from . import choices
from .outputs import PREDICT, check_output, hand_over
from .progress import ProgressLine


class _Gpus(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer ones alone
    """The name of a GPU in the table, which is read when it is asked for."""

    name = "GPU"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ..analysis.predict.gpus import NAMES

        if value.lower() not in NAMES:
            self.fail(f"no GPU '{value}' in the table; there are {', '.join(NAMES)}", param, ctx)
        return value.lower()


@click.command("predict", short_help="Predict a model's step times on a GPU that isn't there.")
@click.argument("target")
@click.option("--gpu", type=_Gpus(), default="h200", show_default=True, help="What to predict for.")
@click.option("--calibration", metavar="FILE", type=choices.PATH, help="Figures of `launchscope calibrate` on it.")
@click.option("--tau", type=choices.TIME, help="Host time per launch, τ, on the host it is for.")
@choices.batch_size
@choices.dtype
@choices.context_length
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="A parameter of the target's build.")
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    default=TIMEOUT_S,
    show_default=True,
    help="Longest that building and counting may take.",
)
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
def command(
    target: str,
    gpu: str,
    calibration: Path | None,
    tau: float | None,
    batch_size: int | None,
    dtype: str | None,
    context_length: int | None,
    pairs: tuple[str, ...],
    timeout: float,
    output: str | None,
    file: Path | None,
) -> None:
    """Count the decode step of TARGET (model.py, model.py:name or package.module:name) without a GPU: launches, bytes
    and FLOPs per operator. Predict from them its step times in each mode, with their range. Nothing is measured.
    """
    options = ProfileOptions(
        target=target,
        batch_size=batch_size,
        dtype=dtype,
        context_length=context_length,
        settings=parse_settings(pairs),
        timeout_s=timeout,
    )
    inputs = () if calibration is None else (calibration,)
    check_output(file, (*inputs, Path(target.partition(":")[0])))  # a script is no place for its report
    from ..analysis.predict import gpus
    from ..analysis.predict.predict import predict_step
    from ..tracer.processes.count import count_step

    own = None if calibration is None else gpus.read_calibration(calibration, gpu)
    with ProgressLine() as progress:
        step = count_step(options, progress)
    document = predict_step(step, gpus.gpu(gpu, own, None if own is None else f"of {calibration}", tau))
    hand_over(document, output, file=file, inputs=inputs, table=PREDICT)
