"""The check as a library: what is opened, which limits and which baseline are looked at.

document = launchscope.check("launchscope-out/llama_1b", limits={"graph": {"launches": "<= 1"}})
document.outcome, document.exit_code, document.parts     docs/guard.md
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..inputs.readers import Progress
from ..model.capture import is_capture
from ..model.document import SCHEMA as REPORT
from ..model.document import ReportDocument
from ..model.errors import ConfigError, UnreadableInput
from ..model.paths import exists, is_file
from ..model.trace import utf8_text
from ..profile.analysed_traces import lost_words
from ..report import Report, analyze
from . import baselines
from . import judge as judging
from .config import FILE, Limits, checked_modes, find_config, limit_tables, read_config
from .documents import CheckDoc
from .snapshot import SCHEMA as BASELINE
from .snapshot import Snapshot, snapshots_of

if TYPE_CHECKING:
    from os import PathLike

_HEAD: Final = 512  # bytes of a file that tell what of ours it is
_OURS: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(launchscope\.[a-z_]+/\d+)"')


@dataclass(frozen=True)
class Looked:
    """Snapshots of what was opened, and what of it could not be read."""

    snapshots: tuple[Snapshot, ...]
    notes: tuple[str, ...] = ()
    is_folder: bool = False  # of baselines, to be looked up in


@dataclass(frozen=True)
class Reading:
    """How traces are read, as ``analyze`` takes it."""

    step_regex: str | None = None
    strict: bool = False
    cache: bool = True
    progress: Progress | None = None


def check(
    current: str | PathLike[str] | Report,
    baseline: str | PathLike[str] | Report | None = None,
    limits: Mapping[str, Any] | None = None,
    *,
    config: str | PathLike[str] | None = None,
    require_graph: bool = False,
    same_machine: bool = False,
    modes: str | Sequence[str] | None = None,
    reading: Reading | None = None,
) -> CheckDoc:
    """Hold a capture, a trace or a saved JSON report against limits, and against a baseline.

    ``limits`` are what a [limits] table may hold: ``{"launches": "<= 300", "graph": {"graph_coverage": 1}}``. Without
    them they come from ``config``, else from the launchscope.toml or pyproject.toml of the current folder or above.
    ``baseline`` is a folder of baselines (without it launchscope-baselines, if it is there), one of its files, or what
    ``current`` may be. UnreadableInput and ConfigError say what is to fix.
    """
    reading = reading or Reading()
    looked = look_at(current, reading)
    base = _usual_baselines() if baseline is None else look_at_baseline(baseline, reading)
    names = {each.target for each in (*looked.snapshots, *(base.snapshots if base is not None else ()))}
    chosen = select(looked.snapshots, modes, looked.snapshots[0].source)
    document = judging.check(
        chosen,
        None if base is None else base.snapshots,
        limits_for(limits, config, names),
        require_graph=require_graph,
        same_machine=same_machine,
        named=base is not None and not base.is_folder,
        every_mode=modes is None,
    )
    return msgspec.structs.replace(document, notes=[*document.notes, *looked.notes, *(base.notes if base else ())])


def limits_for(
    limits: Mapping[str, Any] | None, config: str | PathLike[str] | None, targets: Collection[str] = ()
) -> Limits:
    """The limits given, else those of the file given, else those of the file that is found; none without one."""
    if limits is not None and config is not None:
        raise ConfigError("limits and config are both given: give one of them")
    if limits is not None:
        return Limits(limit_tables(limits, "limits", "limits", targets))
    path = _config_file(config)
    return Limits() if path is None else read_config(path, targets)


def _config_file(config: str | PathLike[str] | None) -> Path | None:
    return find_config(Path()) if config is None else Path(config)


def config_to_validate(config: str | PathLike[str] | None) -> Path:
    """The configuration file given, else the one that is found. ConfigError without any."""
    path = _config_file(config)
    if path is None:
        raise ConfigError(
            f"no {FILE} here or above, and no pyproject.toml with [tool.launchscope]: name one with --config"
        )
    return path


def look_at(path: str | PathLike[str] | Report, reading: Reading) -> Looked:
    """Snapshots of a capture, of traces, of a saved JSON report or of a baseline; errors as of ``analyze``."""
    if isinstance(path, Report):
        return _of_report(path.document, "")
    file = Path(path)
    schema = _schema(file)
    if schema == BASELINE:
        return Looked((baselines.read_file(file),))
    if schema == REPORT:
        saved = _saved_report(file)
        if reading.strict:
            _require_whole(saved, file)
        return _of_report(saved, file.name)
    if schema is not None:
        raise UnreadableInput(f"{file}: is {schema}, which holds no figures of a step: give the capture or the trace")
    report = analyze(
        file, step_regex=reading.step_regex, strict=reading.strict, cache=reading.cache, progress=reading.progress
    )
    report.require_gpu_ops()
    return _of_report(report.document, str(path))


def select(snapshots: Sequence[Snapshot], modes: str | Sequence[str] | None, source: str) -> list[Snapshot]:
    """Those of the modes that are named (all without names). ConfigError for a mode that is not there."""
    if modes is None:
        return list(snapshots)
    named = checked_modes([modes] if isinstance(modes, str) else modes, "--mode")
    there = list(dict.fromkeys(each.mode for each in snapshots))
    for mode in named:
        if mode not in there:
            raise ConfigError(f"{source}: has no mode {mode}; it has {', '.join(there)}")
    return [each for each in snapshots if each.mode in named]


def _usual_baselines() -> Looked | None:
    folder = Path(baselines.FOLDER)
    return look_in(folder) if baselines.is_folder_of_baselines(folder) else None


def look_at_baseline(path: str | PathLike[str] | Report, reading: Reading) -> Looked:
    """As ``look_at``, or all of a folder of baselines; UnreadableInput for what is not there."""
    if not isinstance(path, Report):
        folder = Path(path)
        if baselines.is_folder_of_baselines(folder) and not is_capture(folder):
            return look_in(folder)
        if not exists(folder):
            raise UnreadableInput(f"{path}: no such baseline; save one with launchscope baseline save")
    return look_at(path, reading)


def look_in(folder: Path) -> Looked:
    """All baselines of a folder, each with its own file for a source; errors as ``baselines.read_folder``."""
    found = baselines.read_folder(folder)
    named = (
        msgspec.structs.replace(each.snapshot, source=utf8_text(str(each.path.relative_to(folder.parent))))
        for each in found
    )
    return Looked(tuple(named), is_folder=True)


def _require_whole(document: ReportDocument, file: Path) -> None:
    """UnreadableInput for a saved report of a trace that was not whole."""
    for trace in document.traces:
        if lost := lost_words(trace.warnings):
            raise UnreadableInput(f"{file}: its {trace.name} was not whole, so refused as asked: {lost}")


def _of_report(document: ReportDocument, source: str) -> Looked:
    snapshots = snapshots_of(document, utf8_text(source))
    if not snapshots:
        raise UnreadableInput(f"{source or 'the report'}: holds no mode and no trace, so nothing to check")
    lost = [f"{each.path} was left out: {each.reason}" for each in document.unread]
    if document.profile is not None:
        for mode, doc in document.profile.modes.items():
            lost += [f"{mode}: {each.message}" for each in doc.warnings if each.code == "unreadable_trace"]
    return Looked(tuple(snapshots), tuple(lost))


def _schema(file: Path) -> str | None:
    """The schema of a JSON file that launchscope wrote; None for any other."""
    try:
        if not is_file(file):
            return None
        with file.open("rb") as stream:
            found = _OURS.match(stream.read(_HEAD))
    except (OSError, UnreadableInput):  # who reads it as a trace tells what is wrong
        return None
    return None if found is None else found[1].decode()


def _saved_report(file: Path) -> ReportDocument:
    try:
        return msgspec.json.decode(file.read_bytes(), type=ReportDocument)
    except OSError as error:
        raise UnreadableInput(f"{file}: can't be read ({error.strerror})") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableInput(f"{file}: a damaged report ({error}); write it anew with launchscope analyze") from error
