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
from .progress import progress_bar
from .writing import (
    WIDTH,
    StdoutClosed,
    check_writable,
    discard_stdout,
    print_report,
    say,
    terminal_width,
    wants_color,
    write_file,
)

if TYPE_CHECKING:
    from ..analysis.compare.documents import CheckDoc
    from ..analysis.report import Report

Content = str | bytes | Iterable[bytes]
"""What a renderer makes of a Report: text, or bytes, which may come piece by piece."""

PACKAGE: Final = __package__.rpartition(".")[0]


@dataclass(frozen=True)
class Output:
    """``renderer`` is 'module:function' below launchscope, resolved on use: ``render(report) -> Content``."""

    renderer: str
    suffix: str | None = None  # of files that get this output without --format
    styled: bool = False  # the renderer also takes width, color and verbose
    extra: str | None = None  # what to install launchscope with to have it


def story_outputs(module: str) -> dict[str, Output]:
    """The outputs of a document whose module has these three functions."""
    return {
        "terminal": Output(f"{module}:render_terminal", styled=True),
        "json": Output(f"{module}:render_json", ".json"),
        "markdown": Output(f"{module}:render_markdown", ".md"),
    }


OUTPUTS: Final = {
    **story_outputs("analysis.report_story"),
    "perfetto": Output("analysis.render.perfetto:render", ".pftrace"),
    "html": Output("dashboard.page.one_file:render", ".html", extra="dashboard"),
}
"""What a Report can become; below, what each other document can."""
HEALTH: Final = story_outputs("analysis.profile.health")
MODEL: Final = story_outputs("analysis.predict.textbook")
WHATIF: Final = story_outputs("analysis.predict.whatif")
SWEEP: Final = story_outputs("analysis.predict.sweep_story")
PREDICT: Final = story_outputs("analysis.predict.predict")
RANKS: Final = {
    **story_outputs("analysis.many.many_story"),
    "parquet": Output("analysis.many.many_story:render_parquet", ".parquet", extra="cluster"),
}
COMPARED: Final = story_outputs("analysis.compare.compare_story")
CHECKED: Final = story_outputs("analysis.compare.check_story")
CHECK_FILES: Final = {
    "junit": Output("analysis.compare.outputs_for_ci:render_junit"),
    "markdown": CHECKED["markdown"],
    "benchmark": Output("analysis.compare.outputs_for_ci:render_benchmark"),
    "annotations": Output("analysis.compare.outputs_for_ci:render_annotations"),
    "error": Output("analysis.compare.outputs_for_ci:render_annotated_error"),
}
"""What a finished check can become besides, for CI and for GitHub."""

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


@dataclass(frozen=True)
class Destination:
    """Where the result of a command goes, and in which form."""

    output: str | None = None  # a name in the table; null: by the file's suffix, else terminal
    file: Path | None = None  # null: stdout
    verbose: bool = False

    def check(self, *inputs: Path) -> None:
        """Refuse, before the work for it is done, a file that could not be written, or that is an input."""
        if self.file is not None:
            check_writable(self.file, inputs)

    def form(self, table: Mapping[str, Output]) -> str:
        return self.output or (self.file and by_suffix(self.file, table)) or "terminal"

    def write(self, subject: object, table: Mapping[str, Output], *inputs: Path) -> None:
        """Render what the table has a renderer for, and write it; ``inputs`` are never overwritten."""
        self.check(*inputs)
        name = self.form(table)
        style: dict[str, Any] = {}
        if table[name].styled:
            to_file = self.file is not None
            style = {"width": WIDTH if to_file else terminal_width(), "color": not to_file and wants_color()}
            style["verbose"] = self.verbose
        content = renderer(name, table)(subject, **style)
        if self.file is None:
            assert isinstance(content, str)  # bytes have a suffix and no --format
            print_report(content, utf8=not table[name].styled)
            return
        with progress_bar("writing") as count:
            write_file(self.file, content if isinstance(content, str | bytes) else _counted(content, self.file, count))
        say(f"written to {self.file}")

    def write_report(self, report: Report, table: Mapping[str, Output] = OUTPUTS) -> None:
        """Write a Report; its warnings go to stderr where the output is for programs."""
        if not table[self.form(table)].styled:
            _say_warnings(report)
        inputs = (Path(trace.source.path) for trace in report.document.traces)  # those of a folder, too
        self.write(report, table, *inputs)


def _counted(content: Iterable[bytes], file: Path, count: Callable[[str, int | None, int], None]) -> Iterator[bytes]:
    for piece in content:
        count(str(file), None, len(piece))
        yield piece


def _say_warnings(report: Report) -> None:
    """On stderr; the terminal report shows them next to their figures."""
    for trace in report.document.traces:
        for warning in trace.warnings:
            say(f"{trace.name}: {warning.message}")
    for each in report.document.unread:
        say(f"{each.path}: left out: {each.reason}")
    if report.document.profile is not None:
        for mode, row in report.document.profile.modes.items():
            for warning in row.warnings:
                say(f"{mode}: {warning.message}")


def check_outputs(paths: Sequence[Path], inputs: tuple[Path, ...]) -> None:
    """Refuse, before the check is done, files that could not be written, and one that two outputs would go to."""
    for path in paths:
        check_writable(path, inputs)
    places = [os.path.realpath(path) for path in paths if is_file(path) or not exists(path)]
    for path in paths:
        if places.count(os.path.realpath(path)) > 1:
            raise LaunchscopeError(f"{path}: named for two outputs, of which one would overwrite the other")


def write_check(document: CheckDoc, to: Destination, files: Mapping[str, Path | None]) -> None:
    """Write every output; a reader who closed stdout does not change the exit code."""
    for name, path in files.items():
        if path is not None:
            write_file(path, _content(name, document))
            say(f"written to {path}")
    _add_to_summary(_content("markdown", document))
    try:
        to.write(document, CHECKED)
        if to.file is not None or to.form(CHECKED) == "terminal":
            _annotate("annotations", document)
    except StdoutClosed:
        discard_stdout()


def write_refusal(error: LaunchscopeError, to: Destination) -> None:
    """Tell GitHub why the check can't be done: in the summary of the job, and as an annotation."""
    from ..analysis.model.units import one_line

    _add_to_summary(f"**TO FIX:** `{one_line(str(error)).replace('`', '´')}`\n")
    if to.file is not None or to.output in (None, "terminal"):
        try:
            _annotate("error", str(error))
        except StdoutClosed:
            discard_stdout()


def _annotate(name: str, document: CheckDoc | str) -> None:
    """On stdout, where GitHub's runner reads annotations."""
    if os.environ.get("GITHUB_ACTIONS") == "true" and (annotations := _content(name, document)):
        print_report(annotations, utf8=True)


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
