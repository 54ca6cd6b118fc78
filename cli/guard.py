"""What the fixture ``launchscope`` is: it measures a step or reads a recording, and fails the test by its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ..analysis.compare import baselines
from ..analysis.compare.check import Reading, look_at, look_at_baseline, look_in
from ..analysis.compare.config import Limits, limits_of_words
from ..analysis.compare.documents import HOLDS, TO_FIX, CheckDoc
from ..analysis.compare.judge import check
from ..analysis.compare.limits import TIMED
from ..analysis.compare.snapshot import TRACE, Snapshot, snapshots_of
from ..analysis.model.errors import ConfigError, LaunchscopeError, MissingRequirement
from ..tracer.target.options import CHECK_REPEATS
from .outputs import CHECKED, renderer

if TYPE_CHECKING:
    from os import PathLike

    from ..analysis.report import Report

NARROWEST: Final = 80
WIDEST: Final = 140

ONCE: Final = (
    "a process can profile a live step once: a second session would give wrong correlation ids and slow launches. "
    "Put the step into a file and profile that, launchscope.profile('model.py:build'): it is measured in fresh "
    "processes. Or run this test in a pytest of its own. Several modes of one step are one call"
)


def why_not(test: str, words: Mapping[str, Any], arguments: tuple[Any, ...]) -> str | None:
    """Why a test's marks can't be understood, naming the test and the word; None when they can."""
    if arguments:
        return f"{test}: limits have names: @pytest.mark.launchscope(launches={arguments[0]!r}), say"
    try:
        limits, _ = limits_of_words(words, test)
    except ConfigError as error:
        return str(error)
    return f"{test}: @pytest.mark.launchscope without a limit checks nothing" if limits.is_empty else None


@dataclass
class Session:
    """What the tests of one run share."""

    save: bool
    compare: bool
    baselines: Path | None  # null: the default folder below pytest's rootdir
    require_gpu: bool
    live: str | None = None  # the test that profiled a live step in this process, which can be done once


@dataclass
class Guard:
    """One test's."""

    session: Session
    test: str
    words: dict[str, Any]  # of its marks
    root: Path  # pytest's rootdir
    folder: Callable[[], Path]  # a new one for a capture
    width: int  # of the terminal
    saved: Callable[[Path], None]  # called with the file of a baseline
    unchecked: Callable[[int], None]  # called with the number of limits that need a baseline
    used: bool = False

    def profile(self, target: Any, **options: Any) -> Report:
        """Measure a step as ``launchscope.profile`` does and check it; the Report.

        A file or module by name is measured in fresh processes, a live step in this one. ``modes`` are those of the
        mark unless given. Skips the test where there is no GPU.
        """
        self.used = True
        limits, modes = limits_of_words(self.words, self.test)
        by_name = isinstance(target, str | Path)
        if modes is not None:
            options.setdefault("modes", modes)
        if by_name and any(limit.figure in TIMED for its in limits.tables.values() for limit in its.values()):
            options.setdefault("repeats", CHECK_REPEATS)
        if "out" not in options:
            options["out"] = self.folder() / "capture"
        saved = self._saved() if self.words else None
        report = self._measure(target, options, live=not by_name)
        snapshots = snapshots_of(report.document, str(options["out"]))
        if self.words:
            self._judge(snapshots, limits, modes, saved)
        return report

    def check(
        self,
        path: str | PathLike[str],
        *,
        baseline: str | PathLike[str] | None = None,
        step_regex: str | None = None,
    ) -> CheckDoc | None:
        """Check a stored capture, trace or report, as a job without a GPU can; ``baseline`` is one of these, too.

        Null where it was only saved as a baseline.
        """
        self.used = True
        limits, modes = limits_of_words(self.words, self.test)
        try:
            reading = Reading(step_regex=step_regex)
            current = look_at(path, reading).snapshots
            saved = self._saved() if baseline is None else look_at_baseline(baseline, reading).snapshots
        except LaunchscopeError as error:
            raise _to_fix(str(error)) from None
        if limits.is_empty and saved is None and not self.session.save:
            raise _to_fix("nothing to check: mark the test with limits, or name a baseline")
        return self._judge(current, limits, modes, saved, named=baseline is not None)

    def _measure(self, target: Any, options: dict[str, Any], *, live: bool) -> Report:
        from ..analysis.report import load
        from ..tracer.processes.api import profile

        if live and self.session.live is not None:
            raise _to_fix(f"{self.session.live} has profiled in this process, and {ONCE}")
        try:
            path = profile(target, **options)
            if live:
                self.session.live = self.test
            return load(path)
        except MissingRequirement as error:
            if self.session.require_gpu:
                raise _to_fix(str(error)) from None
            raise pytest.skip.Exception(str(error)) from None
        except LaunchscopeError as error:
            more = f". In a test: {ONCE}" if live and "profiler has run in this process" in str(error) else ""
            raise _to_fix(f"{error}{more}") from None

    def _saved(self) -> Sequence[Snapshot] | None:
        """The saved baselines, when the run is to compare with them."""
        if not self.session.compare:
            return None
        try:
            return look_in(self._baselines()).snapshots
        except LaunchscopeError as error:
            raise _to_fix(str(error)) from None

    def _baselines(self) -> Path:
        return self.session.baselines or self.root / baselines.FOLDER

    def _judge(
        self,
        snapshots: Sequence[Snapshot],
        limits: Limits,
        modes: tuple[str, ...] | None,
        saved: Sequence[Snapshot] | None,
        *,
        named: bool = False,
    ) -> CheckDoc | None:
        """Fail the test unless every limit holds; save what holds if the run is to, and no baseline was named."""
        saves = self.session.save and not named
        chosen = self._chosen(snapshots, modes)
        if saved is None and not limits.is_empty:
            limits = self._without_relative(limits)
            if limits.is_empty and not saves:
                pytest.skip("every limit of this test needs a baseline: --launchscope-compare checks them")
        doc = None
        try:
            if saved is not None or not limits.is_empty:
                doc = check(chosen, saved, limits, named=named, every_mode=False)
                if doc.outcome != HOLDS:
                    raise pytest.fail.Exception(self._report(doc), pytrace=False)
            if saves:
                for path in baselines.save(chosen, self._baselines(), datetime.now(UTC)):
                    self.saved(path)
        except LaunchscopeError as error:
            raise _to_fix(str(error)) from None
        return doc

    def _chosen(self, snapshots: Sequence[Snapshot], modes: tuple[str, ...] | None) -> list[Snapshot]:
        """Those of the mark's modes; a trace that someone else recorded has none, and is meant by any."""
        have = {each.mode for each in snapshots}
        lacking = [mode for mode in modes or () if mode not in have and TRACE not in have]
        if lacking:
            message = f"{', '.join(lacking)} asked for, but what there is has {', '.join(sorted(have)) or 'nothing'}"
            raise _to_fix(message)
        return [each for each in snapshots if modes is None or each.mode in (*modes, TRACE)]

    def _without_relative(self, limits: Limits) -> Limits:
        """The limits that need no baseline; what is left out is told at the end of the run."""
        kept = {
            about: {figure: limit for figure, limit in its.items() if not limit.relative}
            for about, its in limits.tables.items()
        }
        left_out = sum(map(len, limits.tables.values())) - sum(map(len, kept.values()))
        if left_out:
            self.unchecked(left_out)
        return replace(limits, tables=kept)

    def _report(self, doc: CheckDoc) -> str:
        width = min(max(self.width, NARROWEST), WIDEST)
        text = renderer("terminal", CHECKED)(doc, width=width, color=False, verbose=False)
        assert isinstance(text, str), "what a terminal shows is text"
        save = "pytest --launchscope-save saves baselines of what is profiled and checked."
        return f"{text}\n{save}" if self.session.compare and doc.outcome == TO_FIX else text


def _to_fix(message: str) -> BaseException:
    """What fails a test with these words alone."""
    return pytest.fail.Exception(f"TO FIX: {message}", pytrace=False)
