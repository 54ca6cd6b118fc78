"""What of a URL nobody but its storage is to see: a user and a password, signatures and tokens in its query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "…"

_USER: Final = re.compile(r"(?<=://)[^/?#]*(?=@)")
_QUERY: Final = re.compile(r"(?<=[?&;])([^=&;#]+)=([^&;#]+)")
_SECRET: Final = re.compile(r"sig|token|secret|key|pass|pwd|cred|auth|session", re.IGNORECASE)
_FEWEST: Final = 4  # characters of a secret that is looked for in other words


def without_secrets(url: str) -> str:
    """The URL as it may be printed and kept; a path stays as it is."""
    return _QUERY.sub(_hidden, _USER.sub(HIDDEN, url)) if "://" in url else url


def _hidden(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if _SECRET.search(match[1]) else match[0]


def told_without_secrets(text: str, url: str) -> str:
    """What a library says of the URL, without its secrets."""
    shown = text.replace(url, without_secrets(url))
    for secret in sorted(set(_secrets(url)), key=len, reverse=True):
        shown = shown.replace(secret, HIDDEN)
    return shown


def _secrets(url: str) -> Iterator[str]:
    if "://" not in url:
        return
    found = [part for user in _USER.findall(url) for part in (user, *user.split(":", 1))]
    found += [value for name, value in _QUERY.findall(url) if _SECRET.search(name)]
    for secret in found:
        yield from (each for each in (secret, unquote(secret)) if len(each) >= _FEWEST)
