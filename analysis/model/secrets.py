"""What nobody is to see: the names that secrets go by, and what a URL holds of them. One list for captures, tables,
kept rows and messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "…"

_SECRETS: Final = frozenset(
    [
        "apikey",
        "apikeys",
        "authorization",
        "bearer",
        "cookie",
        "cookies",
        "cred",
        "credential",
        "credentials",
        "creds",
        "jwt",
        "oauth",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "pwd",
        "sas",
        "secret",
        "secrets",
        "sig",
        "signature",
    ]
)
_LAST: Final = frozenset(("auth", "key", "token"))
"""Words that tell a secret where a name ends on them: api_key, but not key_value_heads."""
_UNLESS_COUNTED: Final = frozenset(["auth", "pass", "session", "token", "tokens"])
"""Words that tell a secret unless the value is a number: max_new_tokens is none."""
_BEFORE_KEY: Final = frozenset(
    ["access", "account", "api", "encryption", "private", "secret", "shared", "signing", "ssh", "storage"]
)
_BEHIND_KEY: Final = frozenset(("id", "pair"))
_GLUED: Final = re.compile(r"apikey|accesskey|privatekey|bearer|credential|passw|secret|.token$")
"""In a word, where a name is written without separators: hftoken, dbpassword."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,7}(\.[0-9]+)?")

_USER: Final = re.compile(r"(?<=://)[^/?#\s]*(?=@)")
_QUERY: Final = re.compile(r"(?<=[?&;#])([^=&;#\s]+)=([^&;#\s]+)")
_PAIR: Final = re.compile(r"""([A-Za-z][\w.-]*)(["']?\s*[:=]\s*["']?)([^\s"',;&)}\]]+)""")
_HEADER: Final = re.compile(r"(?<=\bbearer )\S+|(?<=\bbasic )[\w+/]{8,}=*", re.IGNORECASE)
_SHAPES: Final = re.compile(
    r"\b(hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[opsu]_[A-Za-z0-9]{16,}|glpat-[\w-]{16,}|A[KS]IA[A-Z0-9]{16}"
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]+)"
)
"""Tokens of Hugging Face, OpenAI, GitHub, GitLab and AWS, and JSON web tokens, whatever they are called."""
_FEWEST: Final = 4  # characters of a secret that is looked for in other words


def is_secret(name: str, value: str = "") -> bool:
    """Whether what has this name is a secret: api_key, hfToken, accessKeyId; not max_new_tokens=8, nor author."""
    words = [word.lower() for word in _WORD.findall(unquote(name))]
    if any(word in _SECRETS or _GLUED.search(word) for word in words) or not _LAST.isdisjoint(words[-1:]):
        return True
    return not _NUMBER.fullmatch(value) and (not _UNLESS_COUNTED.isdisjoint(words) or _has_key(words))


def _has_key(words: list[str]) -> bool:
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    return any(
        word in ("key", "keys") and (before in _BEFORE_KEY or behind in _BEHIND_KEY or (word == "keys" and not behind))
        for before, word, behind in around
    )


def without_secrets(url: str) -> str:
    """The URL as it may be printed and kept; a path stays as it is."""
    return _QUERY.sub(_hidden, _USER.sub(HIDDEN, url)) if "://" in url else url


def _hidden(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if is_secret(match[1], match[2]) else match[0]


def text_without_secrets(text: str) -> str:
    """A text without secrets of URLs and of headers, and without what has the shape of a token."""
    return _SHAPES.sub(HIDDEN, _HEADER.sub(HIDDEN, without_secrets(text)))


def value_without_secrets(value: str) -> str:
    """A setting's value: as a text, and without what it says itself is a secret, as JSON or a header does."""
    return _PAIR.sub(_hidden_pair, text_without_secrets(value))


def _hidden_pair(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{HIDDEN}" if is_secret(match[1], match[3]) else match[0]


def told_without_secrets(text: str, url: str) -> str:
    """What a library says of the URL, without its secrets."""
    shown = text.replace(url, without_secrets(url))
    return without_words(shown, _secrets(url))


def without_words(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, those of a few characters aside, which any text may hold."""
    for secret in sorted({each for each in secrets if len(each) >= _FEWEST}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(url: str) -> Iterator[str]:
    if "://" not in url:
        return
    found = [part for user in _USER.findall(url) for part in (user, *user.split(":", 1))]
    found += [value for name, value in _QUERY.findall(url) if is_secret(name, value)]
    for secret in found:
        yield from (secret, unquote(secret))
