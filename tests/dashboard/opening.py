"""Reports to draw: the recorded capture, synthetic captures, and each of the named cases."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.report import analyze, load
from launchscope.dashboard.opened_report import OpenedReport, open_bands
from launchscope.dashboard.page.one_file import render
from launchscope.fixtures.builder import TraceBuilder

from ..analysis.captures import two_modes as manifest_of_two
from ..analysis.captures import write_capture
from ..cases import NAMED_CASES

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"  # the package leaves some out


@cache
def capture(name: str = "llama_1b") -> OpenedReport:
    """One of the recorded captures."""
    return open_bands(load(CAPTURES / f"{name}.zip"))


@cache
def case(name: str) -> OpenedReport | None:
    """One of the named cases, from its file; None where there is nothing to open."""
    return built(NAMED_CASES[name])


def built(make: Callable[[], TraceBuilder], name: str = "trace.json") -> OpenedReport | None:
    """A built trace, through its file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        make().write(file)
        try:
            return open_bands(analyze(file, cache=False))
        except LaunchscopeError:
            return None


@cache
def two_modes(**more: object) -> OpenedReport:
    """The synthetic capture of an eager step of 300 µs and a graph of 50 µs."""
    with tempfile.TemporaryDirectory() as folder:
        return open_bands(load(write_capture(Path(folder) / "capture", manifest_of_two(**more))))


@cache
def capture_as_html() -> str:
    """The recorded capture as a report in one file."""
    return render(capture().report)
