"""The Report: everything that a person or a program sees comes out of it.

report = analyze("launchscope-out/llama_1b", "step-3.json.gz")
report.document        the JSON report as typed structs (docs/report.md)
report.kernels         pandas DataFrames: kernels, gaps, launches, steps, gpu_ops
report.to_json()       bytes
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .. import __version__
from . import frames
from .analyses import TraceAnalysis, analyze_trace
from .capture import AS_WRITTEN, Capture, Manifest, ProcessRecord, is_capture, open_capture
from .document import ModeDoc, ProfileDoc, ReportDocument, TargetDoc, WarningDoc
from .errors import UnreadableInput
from .inferred import with_inferred_operators
from .measured_mode import submit_ns
from .profile import profile_document
from .readers import open_trace, read_trace
from .trace import utf8_text

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd


@dataclass(frozen=True, eq=False)
class Report:
    """One or more analysed traces, and the profile that they belong to where there is one."""

    document: ReportDocument
    analyses: tuple[TraceAnalysis, ...]

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per trace and GPU op name of the headline device, the longest first."""
        return frames.kernels_frame(self.analyses)

    @property
    def gaps(self) -> pd.DataFrame:
        """One row per gap of the whole trace, with its parts by cause in ns."""
        return frames.gaps_frame(self.analyses)

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch: API, times in ns, operator, step."""
        return frames.launches_frame(self.analyses)

    @property
    def steps(self) -> pd.DataFrame:
        """One row per step found, kept or dropped, with the reason."""
        return frames.steps_frame(self.analyses)

    @property
    def gpu_ops(self) -> pd.DataFrame:
        """One row per GPU op: name, stream, times in ns, its launch (row of ``launches`` of the same trace), step."""
        return frames.gpu_ops_frame(self.analyses)

    def to_json(self) -> bytes:
        """The JSON report: exactly one document."""
        return msgspec.json.format(msgspec.json.encode(self.document), indent=2)

    def show(self) -> None:
        """Print the report as the terminal shows it."""
        from .export.terminal import render

        print(render(self, width=100, color=False, verbose=False))

    def _repr_html_(self) -> str:
        """Shown by a notebook: the verdicts, and the modes as a table."""
        from .export.notebook import render

        return render(self)


def load(path: str | PathLike[str], *, step_regex: str | None = None) -> Report:
    """Open one capture (folder or .zip) or trace file. UnreadableInput says what is wrong with it."""
    return analyze(path, step_regex=step_regex)


def analyze(*paths: str | PathLike[str], step_regex: str | None = None) -> Report:
    """Analyse captures' and other traces into one report; at most one capture. UnreadableInput as for ``load``."""
    if not paths:
        raise UnreadableInput("nothing to analyze: name a capture or a trace file")
    analyses: list[TraceAnalysis] = []
    captures: list[tuple[Capture, ProfileDoc]] = []
    for path in map(Path, paths):
        _check_is_there(path)
        if path.is_dir() or is_capture(path):
            if captures:
                raise UnreadableInput(f"{path}: a second capture; one report holds one: analyze them one at a time")
            capture = open_capture(path)
            found, profile = _analyze_capture(capture, step_regex)
            analyses += found
            captures.append((capture, profile))
        else:
            analyses.append(analyze_trace(open_trace(path), name=utf8_text(path.name), step_regex=step_regex))
    manifest = captures[0][0].manifest if captures else None
    document = ReportDocument(
        launchscope=__version__,
        target=_target_document(manifest) if manifest else None,
        environment=dict(manifest.environment) if manifest else None,
        traces=[analysis.document for analysis in analyses],
        profile=captures[0][1] if captures else None,
    )
    return Report(document, tuple(analyses))


def _check_is_there(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableInput(f"{path}: no such file or folder; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: no path at all, as it holds a null character
        reason = getattr(error, "strerror", None) or error
        raise UnreadableInput(f"{path}: can't be read ({reason}); check the path and its rights") from error
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise UnreadableInput(f"{path}: a device, not a trace file; give a file or a pipe")


def _analyze_capture(capture: Capture, step_regex: str | None) -> tuple[list[TraceAnalysis], ProfileDoc]:
    """Every trace of a capture that can be read; one that can't becomes a warning of its mode."""
    analyses: list[TraceAnalysis] = []
    unreadable: dict[str, list[str]] = {}
    for mode, record in capture.manifest.modes.items():
        submit = submit_ns(record)
        for process in record.processes:
            if process.trace is None:
                continue
            try:
                analyses.append(_analyze_member(capture, mode, process, process.trace, submit, step_regex))
            except UnreadableInput as error:
                unreadable.setdefault(mode, []).append(utf8_text(str(error)))
    analyses = with_inferred_operators(analyses)
    return analyses, _with_warnings(profile_document(capture.manifest, analyses), unreadable)


def _analyze_member(
    capture: Capture,
    mode: str,
    process: ProcessRecord,
    relative: str,
    submit: float | None,
    step_regex: str | None,
) -> TraceAnalysis:
    trace = read_trace(capture.trace_bytes(relative), f"{capture.path.name}/{relative}")
    calibration = capture.manifest.calibration
    return analyze_trace(
        trace,
        name=relative,
        mode=None if mode == AS_WRITTEN else mode,
        trace_pass=process.trace_pass,
        repeat=process.repeat,
        marks_ns=process.marks_ns,
        step_regex=step_regex,
        host_submit_ns=submit,
        node_gap_ns=calibration.node_gap_ns if calibration else None,
    )


def _with_warnings(profile: ProfileDoc, unreadable: dict[str, list[str]]) -> ProfileDoc:
    modes: dict[str, ModeDoc] = {}
    for name, mode in profile.modes.items():
        more = [WarningDoc(code="unreadable_trace", message=message) for message in unreadable.get(name, ())]
        modes[name] = msgspec.structs.replace(mode, warnings=[*mode.warnings, *more])
    return msgspec.structs.replace(profile, modes=modes)


def _target_document(manifest: Manifest) -> TargetDoc:
    target = manifest.target
    return TargetDoc(
        name=target.name,
        revision=target.revision,
        batch_size=target.batch_size,
        dtype=target.dtype,
        context_length=target.context_length,
        parameters=target.parameters,
        settings=dict(target.settings),
        labels=list(target.labels),
    )
