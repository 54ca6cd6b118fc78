"""Where the rows of a table of ranks may be read from.

A table is a file like any other, and whoever wrote it wrote its inputs, too. So what it names is read only where the
command line names the place as well: the folder that the table lies in, and what is given beside it.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from ..model.errors import UnreadableInput
from ..model.secrets import comparable, without_secrets
from .storage import allowed_protocol, local_path

_SAME_STORAGE: Final = {"az": "abfs", "abfss": "abfs"}
_SEPARATORS: Final = re.compile(r"[/\\?#]")
_MOST_SERVERS: Final = 8  # behind one another, each of which decodes a URL


@dataclass(frozen=True)
class Places:
    """Files, folders and URLs. A pattern stands for the folder that it looks into."""

    local: tuple[Path, ...]  # links resolved
    stored: tuple[tuple[str, ...], ...]  # parts of URLs, the protocol first

    @classmethod
    def of(cls, named: Iterable[Path | str]) -> Places:
        """The places of these paths and URLs."""
        local, stored = list[Path](), list[tuple[str, ...]]()
        for each in named:
            here = local_path(each)
            if here is not None:
                local.append(_resolved(_fixed(here)))
            else:
                stored.append(_fixed_parts(str(each)))
        return cls(tuple(local), tuple(parts for parts in stored if len(parts) > 1))

    def hold(self, path: Path | str) -> bool:
        """Whether a local path, links resolved, or a URL lies in one of them."""
        if isinstance(path, Path):
            return any(path.is_relative_to(place) for place in self.local)
        parts = _parts(path)
        return any(parts[: len(place)] == place for place in self.stored)


@dataclass(frozen=True)
class TablePlaces:
    """Where the rows of a table from a file may lie: below what it was made of, and below what the user names."""

    table: Path
    inputs: Places
    named: Places

    @classmethod
    def of(cls, table: Path, inputs: Iterable[str], beside: Iterable[Path | str]) -> TablePlaces:
        """``inputs`` are the table's own, ``beside`` what the command line names with it."""
        try:
            made_of = Places.of(inputs)
        except UnreadableInput as error:
            raise UnreadableInput(f"{table}: a table of ranks of what is no place: {error}; make it anew") from error
        return cls(table, made_of, Places.of([table.absolute().parent, *beside]))

    def allowed(self, path: str) -> Path | str:
        """The local path, links resolved, or the URL of a row. UnreadableInput where it may not be read."""
        here = local_path(path)
        found = path if here is None else _resolved(here)
        if isinstance(found, str):
            _require_plain(found)
        if not self.inputs.hold(found):
            raise UnreadableInput(f"{path}: not read, as it lies outside of what the table was made of; make it anew")
        if not self.named.hold(found):
            raise UnreadableInput(
                f"{path}: not read, as only the table names it; if you know the place, name it, too: "
                f"launchscope dashboard {self.table} FOLDER-or-URL"
            )
        return found

    def may_lead_to(self, url: str) -> bool:
        """Whether the server of a row may redirect to this URL: its owner named no place, so the inputs don't count."""
        try:
            _require_plain(url)
        except UnreadableInput:
            return False
        return self.named.hold(url)


def _resolved(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:  # a null character
        raise UnreadableInput(f"{str(path)!r}: no path ({error})") from error


def _fixed(path: Path) -> Path:
    """The path, of a pattern the folder in front of its first part that is one."""
    if os.path.lexists(path):
        return path
    return next((each.parent for each in reversed([path, *path.parents]) if glob.has_magic(each.name)), path)


def _fixed_parts(url: str) -> tuple[str, ...]:
    parts = _parts(url.rstrip("/"))
    return parts[: next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))]


def _parts(url: str) -> tuple[str, ...]:
    protocol, _, rest = comparable(url).partition("://")
    return (_SAME_STORAGE.get(protocol, protocol), *rest.split("/"))


def _require_plain(url: str) -> None:
    """UnreadableInput for a URL that may lead elsewhere than it reads: to a folder above, or to another protocol."""
    allowed_protocol(url)
    decoded = _decoded(url)
    parts = [part.partition(";")[0] for part in _SEPARATORS.split(decoded)]  # what is behind it many servers pass over
    if not (decoded.isprintable() and {".", ".."}.isdisjoint(parts) and unquote(decoded) == decoded):
        raise UnreadableInput(f"{without_secrets(url)!r}: not read, as it does not name its place plainly")


def _decoded(url: str) -> str:
    """The URL as the last of so many servers reads it."""
    for _ in range(_MOST_SERVERS):
        url = unquote(url)
    return url
