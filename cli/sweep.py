"""``launchscope sweep``: a profile per batch size, prompt length or number of ranks, and what the step turns into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..analysis.model.errors import LaunchscopeError
from ..tracer.target.options import MIN_STEPS, ProfileOptions
from . import choices
from .outputs import SWEEP, Destination
from .progress import progress_line
from .writing import say


def _sizes(what: str) -> choices.Parsed:
    """Batch sizes, or lengths, with commas between, in order."""

    def parse(text: str) -> tuple[int, ...]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if not words or not all(word.isdigit() and 0 < int(word) < 10**9 for word in words):
            raise ValueError(f"'{text}' is no list of {what}; write 1,2,4,8")
        return tuple(sorted({int(word) for word in words}))

    return choices.Parsed("N,N,…", parse)


_DEFAULT = "1,2,4,8,16,32"


@click.command("sweep", short_help="Measure batch sizes, prompt lengths and numbers of ranks beside one another.")
@click.argument("target")
@click.option(
    "--batch-sizes",
    type=_sizes("batch sizes"),
    help=f"Decode steps of so many sequences.  [default: {_DEFAULT}; with other sizes none]",
)
@click.option(
    "--nproc-per-node",
    type=_sizes("numbers of ranks"),
    help="Runs on so many GPUs of this host, 1 for the one-GPU run beside them.",
)
@click.option("--prompt-lengths", type=_sizes("prompt lengths"), help="Prefills of prompts of so many tokens.")
@click.option("--capture-sizes", type=_sizes("batch sizes"), help="The ladder of batch sizes that have a graph.")
@click.option("--batch-histogram", metavar="FILE", type=choices.PATH, help="CSV of batch size, number of steps.")
@choices.modes("eager,graph")
@click.option("--repeats", type=int, metavar="N", default=1, show_default=True, help="Fresh processes per mode.")
@click.option("--steps", type=int, metavar="N", default=MIN_STEPS + 1, show_default=True, help="Recorded steps.")
@choices.build
@click.option("--captures", metavar="FOLDER", type=choices.PATH, help="Keep a capture per batch size in FOLDER.")
@choices.destination()
def command(
    target: str,
    batch_sizes: tuple[int, ...] | None,
    nproc_per_node: tuple[int, ...] | None,
    prompt_lengths: tuple[int, ...] | None,
    capture_sizes: tuple[int, ...] | None,
    batch_histogram: Path | None,
    captures: Path | None,
    to: Destination,
    **more: Any,
) -> None:
    """Profile TARGET at each batch size and prompt length, and tell step time, graph memory and capture time of each,
    and from which on the GPU is the limit; on each number of ranks, and tell what they send and wait. A sweep that was
    stopped goes on where it was: captures that are there are kept.
    """
    script = Path(target.partition(":")[0])
    to.check(script, *(() if batch_histogram is None else (batch_histogram,)))
    from ..analysis.predict.sweep import Measured, read_histogram, sweep_document
    from ..tracer.processes.sweep import Point, run_sweep
    from ..tracer.target.describe import parts_of_target

    histogram = None if batch_histogram is None else read_histogram(batch_histogram)
    if capture_sizes and histogram is None:
        raise LaunchscopeError("--capture-sizes takes --batch-histogram, which tells how often each size comes")
    options = ProfileOptions(target=target, **more)
    folder = captures or Path("launchscope-out", f"{Path(parts_of_target(target)[0]).stem}-sweep")
    if batch_sizes is prompt_lengths is nproc_per_node is None:
        batch_sizes = tuple(map(int, _DEFAULT.split(",")))
    points = [Point(size) for size in batch_sizes or ()]
    points += [Point(size, "prompt") for size in prompt_lengths or ()]
    points += [Point(size, "ranks") for size in nproc_per_node or ()]
    with progress_line() as progress:
        found = run_sweep(options, points, folder, progress)
        measured = [Measured(point.size, path, error, point.kind) for point, path, error in found]
    say(f"captures are kept in {folder}")
    document = sweep_document(measured, capture_sizes or (), histogram)
    to.write(document, SWEEP)
