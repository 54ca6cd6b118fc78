"""Rank files, found but not read: local ones, and those that a URL names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from ..model.capture import is_capture
from ..model.errors import UnreadableInput
from ..model.secrets import without_secrets
from ..model.trace import utf8_text
from .storage import is_url, listed, local_path
from .trace_files import TraceFile, check_is_there, expanded, named_apart, trace_files

MANY: Final = 16
"""Trace files up to which each one's report is of use."""

_HOST: Final = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)_[0-9]+\.[0-9]+\.pt\.trace\.json(\.gz)?")
"""``<host>_<pid>.<time>.pt.trace.json``, as torch's tensorboard_trace_handler names files."""


class RankFile(msgspec.Struct, frozen=True):
    """One file as the storage tells of it; what a worker is given."""

    path: str  # of the file, or its URL: what it holds of secrets is for its storage alone
    name: str
    bytes: int | None  # None: nobody knows
    version: str | None  # changes when the file does: modification time, ETag; None where nothing tells
    member: str | None = None  # its name in the .zip at ``path``


def rank_files(paths: Sequence[Path | str]) -> list[RankFile]:
    """Every trace at the paths, patterns and URLs, in order. UnreadableInput where one names nothing to read."""
    local, found = list[TraceFile](), list[RankFile]()
    for path in paths:
        if isinstance(path, str) and is_url(path) and local_path(path) is None:
            found += _remote(path)
        else:
            local += _traces(Path(path) if isinstance(path, Path) else local_path(path) or Path(path))
    return [*map(_of_local, named_apart(local)), *found]


def _traces(path: Path) -> Iterable[TraceFile]:
    for each in expanded([path]):
        check_is_there(each)
        if is_capture(each):
            raise UnreadableInput(
                f"{each}: a capture of launchscope profile: analyze it by itself, its ranks are in it"
            )
        yield from trace_files(each)


def _of_local(file: TraceFile) -> RankFile:
    try:
        status = file.path.stat()
    except OSError:  # gone since: its reader will say so
        return RankFile(str(file.path), file.name, None, None, file.member)
    return RankFile(str(file.path), file.name, status.st_size, str(status.st_mtime_ns), file.member)


def _remote(url: str) -> list[RankFile]:
    found = listed(url)
    shown = [without_secrets(each.url) for each in found]
    names = [PurePosixPath(url).name for url in shown]
    if len(set(names)) < len(names):  # told apart by the places below what holds them all
        shared = _shared_folder(shown)
        names = [url[len(shared) :] for url in shown]
    return [
        RankFile(each.url, utf8_text(name), each.bytes, each.version) for each, name in zip(found, names, strict=True)
    ]


def _shared_folder(urls: Sequence[str]) -> str:
    first, last = min(urls), max(urls)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, same) + 1]


def host_of(name: str) -> str | None:
    """The host that a file's name tells, where torch's own handler named it."""
    match = _HOST.fullmatch(PurePosixPath(name).name)
    return None if match is None else match[1]
