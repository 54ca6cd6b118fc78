"""The table of outputs: everything that a Report can become. A new output is one renderer and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..analysis.model.errors import MissingRequirement
from .progress import Bar
from .writing import WIDTH, check_writable, print_report, say, terminal_width, wants_color, write_file

if TYPE_CHECKING:
    from ..analysis.report import Report

Content = str | bytes | Iterable[bytes]
"""What a renderer makes of a Report: text, or bytes, which may come piece by piece."""

PACKAGE: Final = __package__.rpartition(".")[0]


@dataclass(frozen=True)
class Output:
    """``renderer`` is 'module:function' below launchscope, resolved on use: ``render(report) -> Content``."""

    renderer: str
    suffix: str | None = None  # of a file that gets this output without being asked for it by name
    styled: bool = False  # the renderer also takes width, color and verbose
    extra: str | None = None  # what to install launchscope with to have it


def story_outputs(module: str) -> dict[str, Output]:
    """What a document of its own becomes, by the three functions of its module."""
    return {
        "terminal": Output(f"{module}:render_terminal", styled=True),
        "json": Output(f"{module}:render_json", ".json"),
        "markdown": Output(f"{module}:render_markdown", ".md"),
    }


OUTPUTS: Final = {
    **story_outputs("analysis.stories.report_story"),
    "perfetto": Output("analysis.render.perfetto.trace_file:render", ".pftrace"),
    "html": Output("dashboard.one_file.html:render", ".html", extra="dashboard"),
}
"""What a Report can become."""

HEALTH: Final = story_outputs("analysis.stories.health")
"""What `launchscope doctor` tells of a Report."""

MODEL: Final = story_outputs("analysis.stories.model_story")
WHATIF: Final = story_outputs("analysis.stories.whatif_story")
SWEEP: Final = story_outputs("analysis.stories.sweep_story")
PREDICT: Final = story_outputs("analysis.stories.predict_story")
"""What the textbook model, a simulated step, a sweep and a step predicted without a GPU can become."""

RANKS: Final = {
    **story_outputs("analysis.stories.many_story"),
    "parquet": Output("analysis.render.ranks_parquet:render", ".parquet", extra="cluster"),
}
"""What the table of many ranks can become."""

COMPARED: Final = story_outputs("analysis.stories.compare_story")
"""What a comparison can become."""

FORMATS: Final = ("terminal", "json", "markdown")  # those that a person or a program reads from stdout


def by_suffix(path: Path, table: Mapping[str, Output] = OUTPUTS) -> str | None:
    """The name of the output that a file of this name gets, or None."""
    return next((name for name, output in table.items() if output.suffix == path.suffix.lower()), None)


def renderer(name: str, table: Mapping[str, Output] = OUTPUTS) -> Callable[..., Content]:
    """Import the renderer of an output. Raises MissingRequirement, naming the extra, when a package of it is absent."""
    output = table[name]
    module, _, function = output.renderer.partition(":")
    try:
        found: Callable[..., Content] = getattr(import_module(f"{PACKAGE}.{module}"), function)
    except ModuleNotFoundError as error:
        if output.extra is None or (error.name or "").partition(".")[0] == PACKAGE:
            raise
        raise MissingRequirement(
            f"the output '{name}' needs the package {error.name}: pip install 'launchscope[{output.extra}]'"
        ) from error
    return found


def deliver(
    report: Report,
    *,
    output: str | None,
    file: Path | None,
    verbose: bool = False,
    table: Mapping[str, Output] = OUTPUTS,
) -> None:
    """Render the report and put it where it was asked for. ``output`` None: by the file's suffix, else terminal."""
    name = _name(output, file, table)
    if not table[name].styled:
        _tell_warnings(report)
    inputs = tuple(Path(trace.source.path) for trace in report.document.traces)  # those of a folder, too
    hand_over(report, name, file=file, inputs=inputs, verbose=verbose, table=table)


def _name(output: str | None, file: Path | None, table: Mapping[str, Output]) -> str:
    return output or (file and by_suffix(file, table)) or "terminal"


def hand_over(
    subject: object,
    output: str | None,
    *,
    file: Path | None,
    inputs: tuple[Path, ...],
    verbose: bool = False,
    table: Mapping[str, Output],
) -> None:
    """Render what the table has a renderer for, and put it into the file, or on stdout without one.

    ``output`` None: by the file's suffix, else terminal.
    """
    check_output(file, inputs)
    name = _name(output, file, table)
    style: dict[str, Any] = {}
    if table[name].styled:
        style = {"width": WIDTH, "color": False} if file else {"width": terminal_width(), "color": wants_color()}
        style["verbose"] = verbose
    content = renderer(name, table)(subject, **style)
    if file is not None:
        with Bar("writing") as progress:
            write_file(file, content if isinstance(content, str | bytes) else _told(content, file, progress))
        say(f"written to {file}")
    else:
        assert isinstance(content, str)  # bytes have a suffix and no --format
        print_report(content, utf8=not table[name].styled)


def _told(content: Iterable[bytes], file: Path, progress: Bar) -> Iterator[bytes]:
    for piece in content:
        progress(str(file), None, len(piece))
        yield piece


def _tell_warnings(report: Report) -> None:
    """On stderr, for outputs whose reader may be a program: the terminal report shows them beside their figures."""
    for trace in report.document.traces:
        for warning in trace.warnings:
            say(f"{trace.name}: {warning.message}")
    for each in report.document.unread:
        say(f"{each.path}: left out: {each.reason}")
    if report.document.profile is not None:
        for mode, row in report.document.profile.modes.items():
            for warning in row.warnings:
                say(f"{mode}: {warning.message}")


def check_output(file: Path | None, inputs: tuple[Path, ...] = ()) -> None:
    """Refuse a file that could not be written before the work for it is done."""
    if file is not None:
        check_writable(file, inputs)
