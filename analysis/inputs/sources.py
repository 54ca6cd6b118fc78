"""What a user names becomes sources, found but not read: the one place that tells a capture, a trace, a folder or .zip
of traces, a pattern and a URL apart. Every command takes its sources from here, and looks at no path to find out again.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from ..model.capture import MANIFEST, MAX_MEMBERS, Capture, is_capture, is_zip, open_capture, read_member, safe_zip
from ..model.errors import UnreadableInput
from ..model.paths import exists, is_device, is_folder, natural_order
from ..model.secrets import without_secrets
from ..model.trace import Trace, utf8_text
from .readers import Progress, open_trace, opened_soon, read_trace
from .readers.foreign import Peek, is_named_like_a_trace, peek
from .storage import fetched, is_url, listed, local_path
from .trace_cache import is_kept, open_cached

if TYPE_CHECKING:
    from os import PathLike
    from typing import BinaryIO

_RANK: Final = re.compile(r"(?<![a-z])rank[-_.=]?([0-9]{1,6})(?![0-9])", re.IGNORECASE)
"""vLLM's rank0.1234.pt.trace.json.gz, rank_0.json, rank-3/trace.json"""
_PARALLEL: Final = re.compile(r"(?<![a-z])(TP|DP|PP|EP)[-_]?([0-9]{1,6})(?![0-9])", re.IGNORECASE)
"""SGLang's 1700000000.5-TP-0-DP-1.trace.json.gz"""
_HOST: Final = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)_[0-9]+\.[0-9]+\.pt\.trace\.json(\.gz)?")
"""``<host>_<pid>.<time>.pt.trace.json``, as torch's tensorboard_trace_handler names files."""

_LINK: Final = "a link to a folder, which is not followed"
_NO_FILE: Final = "no plain file"
_MEMBER_FAULTS: Final = (RuntimeError, NotImplementedError, EOFError, zlib.error, zipfile.BadZipFile)

Kind = Literal["trace", "capture", "capture_among_traces", "stored"]
"""``stored``: a file in storage. Once it is here its content tells whether it is a trace, a capture or a .zip."""


class Source(msgspec.Struct, frozen=True):
    """One thing to read; what a worker is given."""

    path: str  # of the file or capture, or its URL: what it holds of secrets is for its storage alone
    name: str  # what tells it from its siblings
    bytes: int | None = None  # of the file; None: nobody knows
    version: str | None = None  # changes when the file does: modification time, ETag; None where nothing tells
    member: str | None = None  # its name in the .zip at ``path``
    kind: Kind = "trace"
    shown: str | None = None  # of a temporary copy: where people know it to lie

    @property
    def where(self) -> str:
        """Where it lies, for people."""
        if self.shown is not None:
            return self.shown
        return without_secrets(self.path) if self.member is None else f"{self.path}/{self.member}"

    @property
    def rank(self) -> int | None:
        """The one that its name tells; of the copy of a file, else the one that its place tells."""
        found = rank_of(self.name)
        return rank_of(self.shown) if found is None and self.shown is not None and self.member is None else found

    @property
    def host(self) -> str | None:
        """The host that its name tells, where torch's own handler named it."""
        match = _HOST.fullmatch(PurePosixPath(self.name).name)
        return None if match is None else match[1]

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[Source]:
        """The source on this machine for as long as the ``with`` block lasts. LaunchscopeError as for ``fetched``."""
        if self.kind != "stored":
            yield self
            return
        with fetched(self.path) as copy:
            kind: Kind = "capture_among_traces" if is_capture(copy) else "trace"
            yield msgspec.structs.replace(self, path=str(copy), kind=kind, shown=self.where)

    def open(self, progress: Progress | None = None, *, cache: bool) -> Trace:
        """Read the trace at hand, or take it from the cache. Its rank is its own, else the source's.

        UnreadableInput when it can't be read, or is a capture.
        """
        assert self.kind != "stored", "at hand by now"
        if self.kind != "trace":
            raise UnreadableInput(f"{self.where}: a capture of launchscope profile: analyze it by itself")
        path = Path(self.path)
        with self._named_as_shown():
            if self.member is None:
                trace = (open_cached if cache and self.shown is None else open_trace)(path, progress=progress)
            else:
                with safe_zip(path) as archive:
                    trace = read_trace(read_member(path, archive, self.member), self.where, progress=progress)
        if self.shown is not None:
            trace = replace(trace, source=replace(trace.source, path=self.shown))
        return trace if trace.rank is not None else replace(trace, rank=self.rank)

    def open_capture(self) -> Capture:
        """The capture at hand. UnreadableInput for one that can't be trusted."""
        with self._named_as_shown():
            return open_capture(Path(self.path))

    def open_in(self, capture: Capture, relative: str, progress: Progress | None) -> Trace:
        """A trace of the source's capture, by its path in there. UnreadableInput when it can't be read."""
        with self._named_as_shown():
            name = f"{PurePath(self.where).name}/{relative}"
            return read_trace(capture.trace_bytes(relative), name, progress=progress)

    @contextlib.contextmanager
    def _named_as_shown(self) -> Iterator[None]:
        """What is wrong with a copy is told of what it is a copy of."""
        try:
            yield
        except UnreadableInput as error:
            if self.shown is None:
                raise
            shown = self.shown if self.member is None else self.shown.removesuffix(f"/{self.member}")
            raise UnreadableInput(str(error).replace(self.path, shown)) from error.__cause__


@dataclass(frozen=True)
class Sources:
    """What the paths, patterns and URLs name, in their order, and what lies beside it and plainly is no trace."""

    each: tuple[Source, ...]
    named: tuple[str, ...] = ()  # as the user did, for people
    skipped: tuple[tuple[str, str], ...] = ()  # (name, reason); of storage, files are told by their names alone: none
    local: tuple[Path, ...] = ()  # each path, and what each pattern matches
    is_listing: bool = False  # a folder or a pattern in storage is among them

    @property
    def traces(self) -> tuple[Source, ...]:
        """All of them, where none is a capture by itself; a file that is given twice is one. UnreadableInput else."""
        for each in self.each:
            if each.kind == "capture":
                raise UnreadableInput(
                    f"{each.where}: a capture of launchscope profile: analyze it by itself, its ranks are in it"
                )
        return tuple(dict.fromkeys(self.each))

    @contextlib.contextmanager
    def opened_soon(self, *, cache: bool) -> Iterator[None]:
        """Have ready what reads the only trace, which is opened within the block."""
        files = [Path(each.path) for each in self.each if each.kind == "trace" and each.member is None]
        is_one = len(files) == len(self.each) == 1 and not (cache and is_kept(files[0]))
        with opened_soon(files[0]) if is_one else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def at_hand(
        self,
        fetching: Callable[[str], None] | None = None,
        may_lead_to: Callable[[str], bool] = lambda url: True,
    ) -> Iterator[Sources]:
        """All of them on this machine for as long as the ``with`` block lasts; ``fetching`` is told of each before.

        ``may_lead_to``: whether a server may redirect to that URL.
        """
        each, skipped = list[Source](), [*self.skipped]
        with contextlib.ExitStack() as stack:
            for source in self.each:
                if source.kind != "stored":
                    each.append(source)
                    continue
                if fetching is not None:
                    fetching(source.where)
                found = copy_of(stack.enter_context(fetched(source.path, may_lead_to)), source.where, source.name)
                each += found.each
                skipped += found.skipped
            yield replace(self, each=_named_apart(each), skipped=tuple(skipped))


def sources(paths: Iterable[PathLike[str] | str]) -> Sources:
    """What these name. UnreadableInput where one names nothing to read; MissingRequirement as for ``listed``."""
    paths = list(paths)
    each, skipped, local, is_listing = list[Source](), list[tuple[str, str]](), list[Path](), False
    for path in paths:
        here = local_path(path)
        if here is None:
            stored = listed(str(path))
            is_listing |= not stored.is_one
            for file in stored.files:
                name = utf8_text(PurePosixPath(without_secrets(file.url)).name)
                each.append(Source(file.url, name, file.bytes, file.version, kind="stored"))
            continue
        for one in expanded([here]):
            found = _at(one)
            each += found.each
            skipped += found.skipped
            local.append(one)
    named = tuple(utf8_text(without_secrets(str(path))) for path in paths)
    return Sources(_named_apart(each), named, tuple(skipped), tuple(local), is_listing)


def copy_of(copy: Path, shown: str, name: str) -> Sources:
    """What a temporary copy of a file holds, under the file's name, and told of where that lies."""
    try:
        found = _at(copy)
    except UnreadableInput as error:
        raise UnreadableInput(str(error).replace(str(copy), shown)) from error
    known = msgspec.structs.replace
    each = (
        known(one, shown=shown, name=name) if one.member is None else known(one, shown=f"{shown}/{one.member}")
        for one in found.each
    )
    return replace(found, each=tuple(each))


def _of_local(path: Path, name: str, member: str | None = None, kind: Kind = "trace") -> Source:
    size = version = None
    with contextlib.suppress(OSError):  # gone since, or closed: its reader will say so
        size, version = (status := path.stat()).st_size, str(status.st_mtime_ns)
    return Source(str(path), utf8_text(name), size, version, member, kind)


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


def _named_apart(found: Iterable[Source]) -> tuple[Source, ...]:
    """The sources, traces of one name named by their places below what holds them all."""
    found = tuple(found)
    count = Counter(each.name for each in found if each.kind != "capture")
    twins = {
        each: Path("/", each.where) if is_url(each.where) else Path(each.where).absolute()
        for each in found
        if each.kind != "capture" and count[each.name] > 1
    }
    if len(set(twins.values())) < 2:
        return found
    top = os.path.commonpath(twins.values())
    named = {each: utf8_text(os.path.relpath(place, top)) for each, place in twins.items()}
    return tuple(msgspec.structs.replace(each, name=named.get(each, each.name)) for each in found)


def _at(path: Path) -> Sources:
    """What lies at a path: a capture; of a folder or .zip all traces that lie in it; else the file itself. Hidden files
    don't count.
    """
    check_is_there(path)
    if is_capture(path):
        return Sources((_of_local(path, path.name, kind="capture"),))
    if is_folder(path):
        return _in_folder(path)
    return _in_zip(path) if is_zip(path) else Sources((_of_local(path, path.name),))


def check_is_there(path: Path) -> None:
    """UnreadableInput for a path at which nothing can be read."""
    if not exists(path):
        raise UnreadableInput(f"{path}: no such file or folder; check the path")
    if is_device(path):
        raise UnreadableInput(f"{path}: a device, not a trace file; give a file or a pipe")


def _in_folder(folder: Path) -> Sources:
    """Every trace below a folder, and every capture and folder that can't be read as one. Links to folders aren't
    followed.
    """
    files: list[Path] = []
    captures: list[Path] = []
    closed: list[OSError] = []
    seen: dict[Path, Peek] = {}

    def order(file: Path) -> list[tuple[int, str]]:
        return natural_order(str(file))

    def name_of(file: Path) -> str:
        return utf8_text(str(file.relative_to(folder)))

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
    seen |= {file: _peek_at(file) for file in sorted(files, key=order) if file not in captures}
    found = [file for file, peeked in seen.items() if peeked.skipped is None] + unlisted
    if not found and captures:
        named = sorted(map(str, captures), key=natural_order)
        listed = ", ".join(named[:3]) + ", …" * (len(named) > 3)
        raise UnreadableInput(f"{folder}: a folder of captures ({listed}): give one of them")
    if not found:
        raise _none(folder, {str(file): peeked for file, peeked in seen.items()}, "folder")

    kinds: dict[Path, Kind] = {file: "trace" for file in found}  # noqa: C420  # mypy would take them for any text
    kinds |= {file: "capture_among_traces" for file in captures}  # noqa: C420
    traces = (_of_local(file, name_of(file), kind=kinds[file]) for file in sorted(kinds, key=order))
    skipped = ((name_of(file), peeked.skipped) for file, peeked in seen.items() if peeked.skipped is not None)
    return Sources(tuple(traces), skipped=tuple(skipped))


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


def _in_zip(path: Path) -> Sources:
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
            except _MEMBER_FAULTS:  # its reader tells why
                seen[name] = Peek()
    traces = tuple(_of_local(path, name, name) for name in names if seen[name].skipped is None)
    if not traces:
        raise _none(path, seen, ".zip")
    skipped = ((utf8_text(name), reason) for name in names if (reason := seen[name].skipped) is not None)
    return Sources(traces, skipped=tuple(skipped))


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
