"""``launchscope whatif``: a recorded step simulated with something changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import choices
from .outputs import WHATIF, check_output, hand_over


class _Factor(click.FloatRange):
    """A number above 0: nan, which no comparison finds out of range, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if found != found:
            self.fail("nan is no factor", param, ctx)
        return found


FACTOR = _Factor(0, 1_000_000, min_open=True)


class _ByClass(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer ones alone
    """A factor for all GPU ops, or for those of a class."""

    name = "[CLASS=]FACTOR"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        from ..analysis.predict.whatif.gpu_work import CLASSES

        name, equals, factor = value.rpartition("=")
        if equals and name not in CLASSES:
            self.fail(f"no GPU ops are of class '{name}'; there are {', '.join(CLASSES)}", param, ctx)
        return name or "all", float(FACTOR.convert(factor, param, ctx))  # type: ignore[arg-type,unused-ignore]


class _Weights(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer ones alone
    """A type of weights, or their bytes."""

    name = "TYPE|SIZE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        from ..analysis.step_model.knobs import FORMATS

        if value in FORMATS:
            return value
        if value.isalnum() and not value[:1].isdigit():
            self.fail(f"'{value}' is no type of weights; there are {', '.join(FORMATS)}, or a size", param, ctx)
        return choices.SIZE.convert(value, param, ctx)


BY_CLASS = _ByClass()
WEIGHTS = _Weights()


@click.command("whatif", short_help="Predict the step time with a faster host, other launches, or one CUDA graph.")
@click.argument("path", metavar="PATH", type=choices.PATH)
@click.option("--tau", type=choices.TIME, help="Host time per launch, τ.")
@click.option("--host", metavar="FACTOR", type=FACTOR, help="The host takes so many times as long.")
@click.option("--delay", type=choices.TIME, help="So much more host time before each launch.")
@click.option("--gpu", multiple=True, type=BY_CLASS, help="GPU ops, all or of a class, take so many times as long.")
@click.option("--bandwidth", multiple=True, type=BY_CLASS, help="The GPU's memory is so many times as fast.")
@click.option("--flops", metavar="FACTOR", type=FACTOR, help="The GPU's FLOP rate is so many times as high.")
@click.option("--weights", type=WEIGHTS, help="The weights are of this type, or of this size in all.")
@click.option("--batch", metavar="N", type=click.IntRange(1, 10**9), help="Sequences per step.")
@click.option("--tensor-parallel", metavar="N", type=click.IntRange(1, 4096), help="The model lies on so many GPUs.")
@click.option(
    "--all-reduce",
    type=choices.TIME,
    default="7.6us",
    show_default=True,
    help="Of a GPU's part of a layer, twice a layer, with --tensor-parallel.",
)
@click.option("--fuse", metavar="KIND", multiple=True, help="Do what the fusion advisor proposes; or all.")
@click.option("--graph", is_flag=True, help="The step is launched as one CUDA graph.")
@click.option("--mode", metavar="MODE", help="Start from this mode.  [default: eager where it was timed]")
@choices.step_regex
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
def command(
    path: Path,
    tau: float | None,
    host: float | None,
    delay: float | None,
    gpu: tuple[tuple[str, float], ...],
    bandwidth: tuple[tuple[str, float], ...],
    flops: float | None,
    weights: str | float | None,
    batch: int | None,
    tensor_parallel: int | None,
    all_reduce: float,
    fuse: tuple[str, ...],
    graph: bool,
    mode: str | None,
    step_regex: str | None,
    output: str | None,
    file: Path | None,
) -> None:
    """Simulate the recorded steps of PATH, a capture or a trace, with something changed. Its range is what the
    simulation misses its own start by.
    """
    if tau is not None and host is not None:
        raise click.UsageError("--tau and --host both set the host's time: give one")
    for option, given in (("--gpu", gpu), ("--bandwidth", bandwidth)):
        names = [name for name, _ in given]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise click.UsageError(
                f"{option}: the factor of {'all GPU ops' if twice == 'all' else twice} is given twice"
            )
    check_output(file, (path,))
    from ..analysis.predict.whatif.prediction import whatif

    document = whatif(
        path,
        tau=tau,
        host=host,
        delay=delay,
        gpu=dict(gpu),
        bandwidth=dict(bandwidth),
        flops=flops,
        weights=weights,
        batch=batch,
        tensor_parallel=tensor_parallel,
        all_reduce=all_reduce,
        fuse=fuse,
        graph=graph,
        mode=mode,
        step_regex=step_regex,
    )
    hand_over(document, output, file=file, inputs=(path,), table=WHATIF)
