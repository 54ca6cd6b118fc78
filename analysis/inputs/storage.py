"""Object storage, by fsspec: listing it, and fetching one file. Credentials and endpoints are left to the libraries,
which take them from where each has its own.

fsspec opens far more than storage: caches, archives, templates that it renders, one through another (``a::b://``).
Only what PROTOCOLS names is ever handed to it.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin

from ..model.errors import LaunchscopeError, MissingRequirement, UnreadableInput
from ..model.paths import natural_order
from ..model.secrets import message_without_secrets, without_secrets

if TYPE_CHECKING:
    from os import PathLike

    from fsspec import AbstractFileSystem  # type: ignore[import-untyped]

PROTOCOLS: Final = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "hf": "huggingface_hub",
    "https": "aiohttp",
}
"""What is opened beside local files, and the package that each needs."""

_LOCAL: Final = "file"
_HTTPS: Final = "https"
_CHAIN: Final = "::"
_MAGIC: Final = re.compile(r"[*?\[]")
_SUFFIXES: Final = (".json", ".gz", ".zst", ".sqlite", ".db")
"""Files of a folder that may be traces: to look into the others costs a request each."""

_VERSIONS: Final = (
    *("ETag", "etag", "md5Hash", "content_md5", "blob_id", "mtime", "LastModified", "last_modified"),
    *("updated", "created"),
)


class Stored(NamedTuple):
    """A file in storage."""

    url: str
    bytes: int | None
    version: str | None  # changes when the file does; None where the storage tells nothing of the kind


def is_url(path: str) -> bool:
    """``s3://…`` and whatever else has a protocol, one that nobody opens included."""
    protocol, found, _ = path.partition("://")
    return bool(found) and "/" not in protocol


def local_path(path: PathLike[str] | str) -> Path | None:
    """Of a path, and of a URL that names a local file; None for other URLs."""
    if not isinstance(path, str) or not is_url(path):
        return Path(path)
    protocol, _, rest = path.partition("://")
    return Path(rest) if protocol.lower() == _LOCAL else None


def allowed_protocol(url: str) -> str:
    """The protocol of a URL. UnreadableInput unless it is one of PROTOCOLS, and the URL leads through no other one."""
    protocol = url.partition("://")[0]
    if _CHAIN in url:
        raise UnreadableInput(f"{without_secrets(url)}: leads through several storages ('::'); give the file's own URL")
    if protocol not in PROTOCOLS:
        known = ", ".join(f"{each}://" for each in PROTOCOLS)
        raise UnreadableInput(f"{without_secrets(url)}: {protocol}:// is not read; local paths, file://, {known} are")
    return protocol


class Listing(NamedTuple):
    """What a URL names."""

    files: list[Stored]
    is_one: bool  # the file itself: no folder, no pattern


def listed(url: str) -> Listing:
    """What the URL names: the file, what matches the pattern, or all below the folder that may be traces.

    UnreadableInput where that is nothing; MissingRequirement without the package that opens it.
    """
    system, path = _opened(url)
    shown, is_one = without_secrets(url), False
    with _errors_in_words(url):
        if _MAGIC.search(path):
            found = {name: info for name, info in system.glob(path, detail=True).items() if info["type"] == "file"}
        elif is_one := system.isfile(path):
            found = {path: system.info(path)}
        else:
            everything = system.find(path, detail=True)
            found = {name: info for name, info in everything.items() if _may_be_trace(name, path)}
            if everything and not found:
                raise UnreadableInput(f"{shown}: {len(everything):,} files, none called {', '.join(_SUFFIXES)}")
    if not found:
        raise UnreadableInput(f"{shown}: no such file or folder, and no file matches it; check it")
    files = []
    for name in sorted(found, key=natural_order):
        size = found[name].get("size")
        url = system.unstrip_protocol(name)
        files.append(Stored(url, size if type(size) is int else None, _version(found[name])))
    return Listing(files, is_one)


@contextlib.contextmanager
def fetched(url: str, may_lead_to: Callable[[str], bool] = lambda url: True) -> Iterator[Path]:
    """The file in a temporary folder, under its own name, for as long as the ``with`` block lasts.

    A server that redirects is followed to other ``https`` alone, and where ``may_lead_to`` says so of the URL.
    """
    system, path = _opened(url, may_lead_to)
    with tempfile.TemporaryDirectory(prefix="launchscope-") as folder:
        local = Path(folder, PurePosixPath(without_secrets(path)).name or "trace")
        with _errors_in_words(url):
            system.get_file(path, str(local))
        yield local


def _opened(url: str, may_lead_to: Callable[[str], bool] = lambda url: True) -> tuple[AbstractFileSystem, str]:
    """The file system and the path in it. MissingRequirement names the package that is absent."""
    protocol = allowed_protocol(url)
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
        from fsspec.registry import get_filesystem_class  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"{protocol}:// needs the package {error.name}: pip install 'launchscope[cluster]'"
        ) from error
    try:
        get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:  # ValueError: abfss, of which fsspec knows by adlfs alone
        package = PROTOCOLS[protocol]
        raise MissingRequirement(f"{protocol}:// needs the package {package}: pip install {package}") from error
    options = _redirected(may_lead_to) if protocol == _HTTPS else {}
    with _errors_in_words(url):
        system, path = url_to_fs(url, **options)
    return system, path


def _redirected(may_lead_to: Callable[[str], bool]) -> dict[str, Any]:
    """Options of fsspec's ``https`` that look at where a server leads, before it is gone to."""
    from aiohttp import TraceConfig

    async def look(_session: object, _context: object, redirect: Any) -> None:
        headers = redirect.response.headers
        target = urljoin(str(redirect.url), headers.get("Location") or headers.get("URI") or "")
        if not target.startswith(f"{_HTTPS}://") or not may_lead_to(target):
            redirect.response.close()
            shown = [without_secrets(each) for each in (str(redirect.url), target)]
            raise UnreadableInput(f"{shown[0]}: not read, as its server leads to {shown[1]}; fetch it by hand")

    config = TraceConfig()
    config.on_request_redirect.append(look)
    return {"client_kwargs": {"trace_configs": [config]}, "skip_instance_cache": True}


@contextlib.contextmanager
def _errors_in_words(url: str) -> Iterator[None]:
    """Whatever a storage's library raises, told as what it is about: each has errors of its own."""
    try:
        yield
    except LaunchscopeError:
        raise
    except FileNotFoundError:
        raise StorageError(f"{without_secrets(url)}: no such file or folder; check it") from None
    except Exception as error:
        why = message_without_secrets(f"{type(error).__name__}: {error}", url)
        raise StorageError(f"{without_secrets(url)}: can't be fetched ({why})") from None


class StorageError(UnreadableInput):
    """A file that can't be fetched now, and perhaps can next time."""


def _may_be_trace(name: str, folder: str) -> bool:
    below = PurePosixPath(name[len(folder) :])
    return name.lower().endswith(_SUFFIXES) and not any(part.startswith(".") for part in below.parts)


def _version(info: Mapping[str, Any]) -> str | None:
    found = next((info[key] for key in _VERSIONS if info.get(key) is not None), None)
    return None if found is None else str(found)
