"""The outputs of a check: the report on stdout or in a file, files for CI, and what GitHub shows of itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..analysis.model.errors import LaunchscopeError
from ..analysis.model.paths import exists, is_file
from .outputs import Output, by_suffix, check_output, renderer, story_outputs
from .writing import (
    WIDTH,
    NobodyReads,
    discard_stdout,
    print_report,
    say,
    terminal_width,
    wants_color,
    write_file,
)

if TYPE_CHECKING:
    from ..analysis.compare.check_document import CheckDoc

REPORTS: Final = story_outputs("analysis.stories.check_story")
FILES: Final = {
    "junit": Output("analysis.render.junit:render"),
    "markdown": REPORTS["markdown"],
    "benchmark": Output("analysis.render.benchmark_json:render"),
    "annotations": Output("analysis.render.annotations:render"),
    "error": Output("analysis.render.annotations:render_error"),
}


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
            write_file(path, _content(name, document, FILES))
            say(f"written to {path}")
    _add_to_summary(_content("markdown", document, FILES))
    name = output or (file and by_suffix(file, REPORTS)) or "terminal"
    style: dict[str, Any] = {}
    if REPORTS[name].styled:
        style = {"width": WIDTH, "color": False} if file else {"width": terminal_width(), "color": wants_color()}
        style["verbose"] = verbose
    content = _content(name, document, REPORTS, **style)
    if file is not None:
        write_file(file, content)
        say(f"written to {file}")
    try:
        if file is None:
            print_report(content, utf8=not REPORTS[name].styled)
        if os.environ.get("GITHUB_ACTIONS") == "true" and (file is not None or name == "terminal"):
            annotations = _content("annotations", document, FILES)
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
            print_report(_content("error", str(error), FILES), utf8=True)
        except NobodyReads:
            discard_stdout()


def _content(name: str, document: CheckDoc | str, table: Mapping[str, Output], **style: Any) -> str | bytes:
    content = renderer(name, table)(document, **style)
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
