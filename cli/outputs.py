"""The tables of outputs: everything that a Report or a finished check can become, and where it is written.

A new output is one renderer and one line here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..analysis.model.errors import LaunchscopeError, MissingRequirement
from ..analysis.model.paths import exists, is_file
from .progress import Bar
from .writing import (
    WIDTH,
    NobodyReads,
    check_writable,
    discard_stdout,
    print_report,
    say,
    terminal_width,
    wants_color,
    write_file,
)

if TYPE_CHECKING:
    from ..analysis.compare.check_document import CheckDoc
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
    **story_outputs("analysis.report_story"),
    "perfetto": Output("analysis.render.perfetto:render", ".pftrace"),
    "html": Output("dashboard.one_file.html:render", ".html", extra="dashboard"),
}
"""What a Report can become."""

HEALTH: Final = story_outputs("analysis.health_story")
"""What `launchscope doctor` tells of a Report."""

MODEL: Final = story_outputs("analysis.predict.model_story")
WHATIF: Final = story_outputs("analysis.predict.whatif.whatif_story")
SWEEP: Final = story_outputs("analysis.predict.sweep_story")
PREDICT: Final = story_outputs("analysis.predict.predict_story")
"""What the textbook model, a simulated step, a sweep and a step predicted without a GPU can become."""

RANKS: Final = {
    **story_outputs("analysis.many.many_story"),
    "parquet": Output("analysis.many.ranks_parquet:render", ".parquet", extra="cluster"),
}
"""What the table of many ranks can become."""

COMPARED: Final = story_outputs("analysis.compare.checks.compare_story")
"""What a comparison can become."""

CHECKED: Final = story_outputs("analysis.compare.checks.check_story")
"""What a finished check can become."""
CHECK_FILES: Final = {
    "junit": Output("analysis.compare.checks.junit:render"),
    "markdown": CHECKED["markdown"],
    "benchmark": Output("analysis.compare.checks.benchmark_json:render"),
    "annotations": Output("analysis.compare.checks.annotations:render"),
    "error": Output("analysis.compare.checks.annotations:render_error"),
}
"""What it can become besides, for CI and for GitHub."""

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
        _say_warnings(report)
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
            write_file(file, content if isinstance(content, str | bytes) else _counted(content, file, progress))
        say(f"written to {file}")
    else:
        assert isinstance(content, str)  # bytes have a suffix and no --format
        print_report(content, utf8=not table[name].styled)


def _counted(content: Iterable[bytes], file: Path, progress: Bar) -> Iterator[bytes]:
    for piece in content:
        progress(str(file), None, len(piece))
        yield piece


def _say_warnings(report: Report) -> None:
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


def check_outputs(paths: Sequence[Path], inputs: tuple[Path, ...]) -> None:
    """Refuse, before the check is done, files that could not be written, and one that two outputs would go to."""
    for path in paths:
        check_output(path, inputs)
    places = [os.path.realpath(path) for path in paths if is_file(path) or not exists(path)]
    for path in paths:
        if places.count(os.path.realpath(path)) > 1:
            raise LaunchscopeError(f"{path}: named for two outputs, of which one would overwrite the other")


def deliver_check(
    document: CheckDoc, *, output: str | None, file: Path | None, files: Mapping[str, Path | None], verbose: bool
) -> None:
    """Write every output that was asked for; a reader of stdout who has gone does not change the answer."""
    for name, path in files.items():
        if path is not None:
            write_file(path, _content(name, document))
            say(f"written to {path}")
    _add_to_summary(_content("markdown", document))
    shown = _name(output, file, CHECKED)
    try:
        hand_over(document, output, file=file, inputs=(), verbose=verbose, table=CHECKED)
        if os.environ.get("GITHUB_ACTIONS") == "true" and (file is not None or shown == "terminal"):
            annotations = _content("annotations", document)
            if annotations:
                print_report(annotations, utf8=True)
    except NobodyReads:
        discard_stdout()


def tell_github(error: LaunchscopeError, *, annotate: bool) -> None:
    """What keeps the check from being done, where GitHub shows what a job has to say; annotations go to stdout."""
    from ..analysis.model.units import one_line

    _add_to_summary(f"**TO FIX:** `{one_line(str(error)).replace('`', '´')}`\n")
    if annotate and os.environ.get("GITHUB_ACTIONS") == "true":
        try:
            print_report(_content("error", str(error)), utf8=True)
        except NobodyReads:
            discard_stdout()


def _content(name: str, document: CheckDoc | str) -> str | bytes:
    content = renderer(name, CHECK_FILES)(document)
    assert isinstance(content, str | bytes), "no output of a check comes piece by piece"
    return content


def _add_to_summary(content: str | bytes) -> None:
    """Add to the page of the job's run, where GitHub names a file for that."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        with Path(path).open("ab") as summary:
            summary.write(data + b"\n")
    except OSError as error:  # the answer is the same without it
        say(f"{path}: the step's summary can't be written ({error.strerror})")
