"""``launchscope whatif``: a recorded step simulated with something changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import choices
from .outputs import WHATIF, Destination


class _Factor(click.FloatRange):
    """A number above 0; nan, which passes every comparison, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if found != found:
            self.fail("nan is no factor", param, ctx)
        return found


FACTOR = _Factor(0, 1_000_000, min_open=True)


def _by_class(text: str) -> tuple[str, float]:
    """A factor for all GPU ops, or for those of a class."""
    from ..analysis.predict.plan_changes import CLASSES

    name, equals, factor = text.rpartition("=")
    if equals and name not in CLASSES:
        raise ValueError(f"no GPU ops are of class '{name}'; there are {', '.join(CLASSES)}")
    return name or "all", FACTOR.convert(factor, None, None)


def _weights(text: str) -> str | float:
    """A type of weights, or their bytes."""
    from ..analysis.step_model import FORMATS

    if text in FORMATS:
        return text
    if text.isalnum() and not text[:1].isdigit():
        raise ValueError(f"'{text}' is no type of weights; there are {', '.join(FORMATS)}, or a size")
    return float(choices.SIZE.parse(text))


BY_CLASS = choices.Parsed("[CLASS=]FACTOR", _by_class)
WEIGHTS = choices.Parsed("TYPE|SIZE", _weights)


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
@choices.destination()
def command(
    path: Path,
    to: Destination,
    tau: float | None,
    host: float | None,
    gpu: tuple[tuple[str, float], ...],
    bandwidth: tuple[tuple[str, float], ...],
    **more: Any,
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
    to.check(path)
    from ..analysis.predict.whatif import whatif

    document = whatif(path, tau=tau, host=host, gpu=dict(gpu), bandwidth=dict(bandwidth), **more)
    to.write(document, WHATIF, path)
