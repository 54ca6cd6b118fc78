"""Object storage and everything else that fsspec opens: listing it, and fetching one file. Credentials are left to the
libraries, which take them from where each has its own.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..errors import LaunchscopeError, MissingRequirement, UnreadableInput
from ..trace_files import natural_order
from .secrets import told_without_secrets, without_secrets

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_LOCAL: Final = ("file", "local")
_MAGIC: Final = re.compile(r"[*?\[]")
_SUFFIXES: Final = (".json", ".json.gz", ".gz", ".sqlite", ".db")
"""Files of a folder that may be traces: to look into the others costs a request each."""

_VERSIONS: Final = ("ETag", "etag", "md5Hash", "content_md5", "blob_id", "mtime", "LastModified", "last_modified")
_VERSIONS_LAST: Final = ("updated", "created")


class Stored(NamedTuple):
    """A file in storage."""

    url: str
    bytes: int | None
    version: str | None  # changes when the file does; None where the storage tells nothing of the kind


def is_url(path: str) -> bool:
    """``s3://…`` and the like."""
    return _URL.match(path) is not None


def local_path(url: str) -> Path | None:
    """Of a URL that names a local file; None for others."""
    match = _URL.match(url)
    return Path(url[match.end() :]) if match is not None and match[1].lower() in _LOCAL else None


def is_shared(url: str) -> bool:
    """Whether other processes see the same there: ``memory://`` is this one's alone."""
    return not url.startswith("memory://")


def names_several(url: str) -> bool:
    """A pattern or a folder. LaunchscopeError as for ``listed``."""
    system, path = _opened(url)
    with _told(url):
        return bool(_MAGIC.search(path)) or system.isdir(path)


def listed(url: str) -> list[Stored]:
    """What the URL names: the file, what matches the pattern, or all below the folder that may be traces.

    UnreadableInput where that is nothing; MissingRequirement without the package that opens it.
    """
    system, path = _opened(url)
    shown = without_secrets(url)
    with _told(url):
        if _MAGIC.search(path):
            found = {name: info for name, info in system.glob(path, detail=True).items() if info["type"] == "file"}
        elif system.isfile(path):
            found = {path: system.info(path)}
        else:
            everything = system.find(path, detail=True)
            found = {name: info for name, info in everything.items() if _may_be_trace(name, path)}
            if everything and not found:
                raise UnreadableInput(f"{shown}: {len(everything):,} files, none called {', '.join(_SUFFIXES)}")
    if not found:
        raise UnreadableInput(f"{shown}: no such file or folder, and no file matches it; check it")
    return [
        Stored(system.unstrip_protocol(name), _size(found[name]), _version(found[name]))
        for name in sorted(found, key=natural_order)
    ]


@contextlib.contextmanager
def fetched(url: str) -> Iterator[Path]:
    """The file in a temporary folder, under its own name, for as long as the ``with`` block lasts."""
    system, path = _opened(url)
    with tempfile.TemporaryDirectory(prefix="launchscope-") as folder:
        local = Path(folder, PurePosixPath(without_secrets(path)).name or "trace")
        with _told(url):
            system.get_file(path, str(local))
        yield local


def _opened(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system and the path in it. MissingRequirement names the package that is absent."""
    protocol = url.partition("://")[0].rpartition("::")[2]
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
        from fsspec.registry import (  # type: ignore[import-untyped]
            get_filesystem_class,
            known_implementations,
        )
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"{protocol}:// needs the package {error.name}: pip install 'launchscope[cluster]'"
        ) from error
    try:
        get_filesystem_class(protocol)
    except ImportError as error:
        package = known_implementations[protocol]["class"].partition(".")[0]
        raise MissingRequirement(f"{protocol}:// needs the package {package}: pip install {package}") from error
    except ValueError as error:
        raise UnreadableInput(f"{without_secrets(url)}: no storage is called {protocol}://; check the URL") from error
    with _told(url):
        system, path = url_to_fs(url)
    return system, path


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """Whatever a storage's library raises, told as what it is about: each has errors of its own."""
    try:
        yield
    except LaunchscopeError:
        raise
    except FileNotFoundError:
        raise StorageError(f"{without_secrets(url)}: no such file or folder; check it") from None
    except Exception as error:
        why = told_without_secrets(f"{type(error).__name__}: {error}", url)
        raise StorageError(f"{without_secrets(url)}: can't be fetched ({why})") from None


class StorageError(UnreadableInput):
    """A file that can't be fetched now, and perhaps can next time."""


def _may_be_trace(name: str, folder: str) -> bool:
    below = PurePosixPath(name[len(folder) :])
    return name.lower().endswith(_SUFFIXES) and not any(part.startswith(".") for part in below.parts)


def _size(info: Mapping[str, Any]) -> int | None:
    size = info.get("size")
    return size if type(size) is int else None


def _version(info: Mapping[str, Any]) -> str | None:
    found = next((info[key] for key in (*_VERSIONS, *_VERSIONS_LAST) if info.get(key) is not None), None)
    return None if found is None else str(found)
