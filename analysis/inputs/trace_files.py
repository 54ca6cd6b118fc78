"""Where traces lie: single files, folders and .zip files of them, patterns that name several."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, cast

from ..model.capture import MANIFEST, MAX_MEMBERS, is_capture, is_zip, read_member, safe_zip
from ..model.errors import UnreadableInput
from ..model.paths import exists, is_device, is_folder
from ..model.trace import Trace, utf8_text
from .readers import Progress, open_trace, read_trace
from .readers.peek import Peek, is_named_like_a_trace, peek
from .trace_cache import open_cached

if TYPE_CHECKING:
    from typing import BinaryIO

_NUMBER: Final = re.compile(r"([0-9]+)")
_RANK: Final = re.compile(r"(?<![a-z])rank[-_.=]?([0-9]{1,6})(?![0-9])", re.IGNORECASE)
"""vLLM's rank0.1234.pt.trace.json.gz, rank_0.json, rank-3/trace.json"""
_PARALLEL: Final = re.compile(r"(?<![a-z])(TP|DP|PP|EP)[-_]?([0-9]{1,6})(?![0-9])", re.IGNORECASE)
"""SGLang's 1700000000.5-TP-0-DP-1.trace.json.gz"""

_LINK: Final = "a link to a folder, which is not followed"
_NO_FILE: Final = "no plain file"


@dataclass(frozen=True)
class TraceFile:
    """One trace, not read yet."""

    path: Path  # the file, or the .zip that holds it
    name: str  # what tells it from its siblings
    member: str | None = None  # its name in the .zip

    @property
    def source(self) -> str:
        """Where it lies, for messages."""
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    def open(self, progress: Progress | None = None, *, cache: bool) -> Trace:
        """Read it, or take it from the cache. Its rank is the file's own, else the one that its name tells, else null.

        UnreadableInput when it can't be read, or is a capture that lies among traces.
        """
        if self.member is None and is_capture(self.path):
            raise UnreadableInput(f"{self.source}: a capture of launchscope profile: analyze it by itself")
        if self.member is None:
            trace = (open_cached if cache else open_trace)(self.path, progress=progress)
        else:
            with safe_zip(self.path) as archive:
                trace = read_trace(read_member(self.path, archive, self.member), self.source, progress=progress)
        return trace if trace.rank is not None else replace(trace, rank=rank_of(self.name))


def rank_of(name: str) -> int | None:
    """The rank that a trace's name tells; a place in one kind of parallelism is a rank where it is the only one."""
    for part in reversed(PurePath(name).parts):
        if found := _RANK.findall(part):
            return int(found[-1])
        places = {kind.upper(): int(place) for kind, place in _PARALLEL.findall(part)}
        if len(places) == 1 or (places and not any(places.values())):
            return next(iter(places.values()))
    return None


def expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """The paths, with each that names no file and is a pattern replaced by what it matches."""
    for path in paths:
        if not glob.has_magic(str(path)) or os.path.lexists(path):
            yield path
            continue
        found = sorted(glob.glob(str(path), recursive=True), key=natural_order)  # noqa: PTH207  # Path's takes no / first
        if not found:
            raise UnreadableInput(f"{path}: no file matches this pattern; check it")
        yield from map(Path, found)


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts rank_2 before rank_10."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in _NUMBER.split(name)]


@dataclass(frozen=True)
class Found:
    """The traces at a path, and the files beside them that plainly are none: (name, reason)."""

    traces: list[TraceFile]
    skipped: list[tuple[str, str]]


def trace_files(path: Path) -> list[TraceFile]:
    """The traces at a path that is no capture: of a folder or .zip all that lie in it, else the file itself.

    UnreadableInput when there is nothing at the path, or no trace in it.
    """
    return found_at(path).traces


def found_at(path: Path) -> Found:
    """The same, with the files that are not read. Hidden ones don't count."""
    check_is_there(path)
    if is_folder(path):
        return _in_folder(path)
    return _in_zip(path) if is_zip(path) else Found([TraceFile(path, utf8_text(path.name))], [])


def skipped_at(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Files at the paths and patterns that are not read: (name, reason); none of what is gone meanwhile."""
    skipped: list[tuple[str, str]] = []
    for path in paths:
        with contextlib.suppress(UnreadableInput):
            skipped += [each for one in expanded([path]) if not is_capture(one) for each in found_at(one).skipped]
    return skipped


def named_apart(files: Sequence[TraceFile]) -> list[TraceFile]:
    """The files, those of one name named by their places below the folder that holds them all."""
    names = [file.name for file in files]
    twins = [file for file in files if names.count(file.name) > 1]
    if len({file.source for file in twins}) < 2:
        return list(files)
    top = os.path.commonpath([Path(file.source).absolute() for file in twins])
    return [
        replace(file, name=utf8_text(os.path.relpath(Path(file.source).absolute(), top))) if file in twins else file
        for file in files
    ]


def check_is_there(path: Path) -> None:
    """UnreadableInput for a path at which nothing can be read."""
    if not exists(path):
        raise UnreadableInput(f"{path}: no such file or folder; check the path")
    if is_device(path):
        raise UnreadableInput(f"{path}: a device, not a trace file; give a file or a pipe")


def _in_folder(folder: Path) -> Found:
    """Every trace below a folder, and every capture and folder that can't be read as one. Links to folders aren't
    followed.
    """
    files: list[Path] = []
    captures: list[Path] = []
    closed: list[OSError] = []
    seen: dict[Path, Peek] = {}
    for place, below, names in os.walk(folder, onerror=closed.append):
        below[:] = [name for name in below if not name.startswith(".")]
        seen |= {Path(place, name): Peek(_LINK) for name in below if _is_link(Path(place, name))}
        captures += [Path(place, name) for name in below if is_capture(Path(place, name))]
        below[:] = [name for name in below if Path(place, name) not in captures]
        files += [Path(place, name) for name in names if not name.startswith(".")]
        if len(files) > MAX_MEMBERS:
            raise UnreadableInput(f"{folder}: over {MAX_MEMBERS:,} files; name the folder that the traces lie in")
    unlisted = [Path(error.filename) for error in closed]
    if folder in unlisted:
        raise UnreadableInput(f"{folder}: can't be read ({closed[0].strerror}); check the path and its rights")
    captures += [file for file in files if file.suffix == ".zip" and is_capture(file)]
    seen |= {file: _peek_at(file) for file in sorted(files, key=_order) if file not in captures}
    found = [file for file, peeked in seen.items() if peeked.skipped is None] + unlisted
    if not found and captures:
        named = sorted(map(str, captures), key=natural_order)
        listed = ", ".join(named[:3]) + ", …" * (len(named) > 3)
        raise UnreadableInput(f"{folder}: a folder of captures ({listed}): give one of them")
    if not found:
        raise _none(folder, {str(file): peeked for file, peeked in seen.items()}, "folder")

    def name_of(file: Path) -> str:
        return utf8_text(str(file.relative_to(folder)))

    traces = [TraceFile(file, name_of(file)) for file in sorted(found + captures, key=_order)]
    skipped = [(name_of(file), peeked.skipped) for file, peeked in seen.items() if peeked.skipped is not None]
    return Found(traces, skipped)


def _order(file: Path) -> list[tuple[int, str]]:
    return natural_order(str(file))


def _is_link(path: Path) -> bool:
    return os.path.islink(path)  # noqa: PTH114  # Path's raises without the right to look


def _peek_at(file: Path) -> Peek:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return Peek(_NO_FILE)
        with file.open("rb") as stream:
            return peek(stream, str(file))
    except OSError:  # without the right to read it, or a link to nothing: its reader will say so
        return Peek() if not _is_link(file) or is_named_like_a_trace(str(file)) else Peek(_NO_FILE)


def _in_zip(path: Path) -> Found:
    """Every trace in a .zip."""
    seen: dict[str, Peek] = {}
    with safe_zip(path) as archive:
        names = sorted((member.filename for member in archive.infolist() if not member.is_dir()), key=natural_order)
        if any(PurePath(name).name == "data.pkl" for name in names):
            raise UnreadableInput(f"{path}: a file of torch.save, not a trace; give the trace that the profiler wrote")
        for name in names:
            try:
                with archive.open(name) as stream:
                    seen[name] = peek(cast("BinaryIO", stream), name)
            except (
                RuntimeError,
                NotImplementedError,
                EOFError,
                zlib.error,
                zipfile.BadZipFile,
            ):  # its reader tells why
                seen[name] = Peek()
    traces = [TraceFile(path, utf8_text(name), name) for name in names if seen[name].skipped is None]
    if not traces:
        raise _none(path, seen, ".zip")
    skipped = [(utf8_text(name), seen[name].skipped) for name in names]
    return Found(traces, [(name, reason) for name, reason in skipped if reason is not None])


def _none(path: Path, seen: dict[str, Peek], kind: str) -> UnreadableInput:
    """Nothing to read: what else lies there."""
    others = [f"{name}: {peeked.foreign}" for name, peeked in seen.items() if peeked.foreign is not None]
    if others:
        more = f" (and {len(others) - 1:,} more files of other programs)" if len(others) > 1 else ""
        return UnreadableInput(f"{path}: no trace in this {kind} that can be read. {others[0]}{more}")
    return UnreadableInput(
        f"{path}: a {kind} without a trace and without {MANIFEST}, so no capture either ({len(seen):,} files looked at)"
        "; give the one that the profiler wrote to"
    )
