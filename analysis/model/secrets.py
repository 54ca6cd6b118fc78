"""What nobody is to see: the names that secrets go by, and what a URL holds of them. One list for captures, tables,
kept rows and messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "…"

_SECRET: Final = re.compile(
    r"apikeys?|authorization|bearer|cookies?|cred(ential)?s?|jwt|oauth|passphrase|passwd|passwords?|pwd?|sas|secrets?"
    r"|sig(nature)?"
)
_LAST: Final = frozenset(("auth", "dsn", "key", "otp", "pat", "pin", "psk", "salt", "tok"))
"""Words that tell a secret where a name ends on them: api_key, but not key_value_heads."""
_UNLESS_COUNTED: Final = frozenset(["auth", "pass", "session", "token", "tokens"])
"""Words that tell a secret unless the value is a number or a switch: max_new_tokens is none."""
_OF_TEXT: Final = frozenset(["bos", "cls", "eos", "mask", "max", "min", "num", "pad", "sep", "stop", "unk"])
"""In front of tokens that are words of a text."""
_BEFORE_KEY: Final = re.compile("access|account|api|encryption|private|secret|shared|signing|ssh|storage")
_BEHIND_KEY: Final = frozenset(("id", "pair"))
_BEFORE_URL: Final = re.compile("amqp|broker|connection|database|db|mongo|mongodb|mysql|postgres|redis|webhook")
_URLS: Final = frozenset(("string", "uri", "url"))
"""Behind one of those: an address that holds a password, or is one."""
_GLUED: Final = re.compile(
    r"(api|access|account|encryption|private|secret|session|shared|signing|storage)key|bearer|credential|passw|secret"
    r"|sessionid|(connection|database|webhook)(string|uri|url)|pwd$|basicauth$|.(pw|tok|token)$"
    r"|(admin|db|http|key|ldap|mail|proxy|root|smtp|sql|user)pass$"
)
"""In a word, where a name is written without separators: hftoken, dbpassword; not bypass."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERS: Final = re.compile(r"[\[(\s]*[+-]?[0-9]{1,7}(\.[0-9]+)?([,\s]+[+-]?[0-9]{1,7}(\.[0-9]+)?)*[\])\s]*")
_SWITCHES: Final = frozenset(("auto", "false", "none", "null", "off", "on", "true"))

_USER: Final = re.compile(r"(?<=://)[^/?#\s]*(?=@)")
_ODD_USER: Final = re.compile(r"""(?<=//)[^/?#\s:@"']*:(?![/?#]|[0-9]+[/?#])[^\s"']{1,999}(?=@)""")
"""With a password that had to be encoded, or without a protocol; no port, behind which a path may hold an @."""
_QUERY: Final = re.compile(r"(?<=[?&;#])([^=&;#\s]+)=([^&;#\s]+)")
_QUOTED: Final = r"""(?P<quote>\\?["'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\\]))*)|(?P<bare>%s)"""
_PAIR: Final = re.compile(r"""([A-Za-z][\w.-]{0,99})\\?["']?\s*[:=]\s*""")
_PAIRED: Final = re.compile(_QUOTED % r"""[^\s"',;&)}\]]+""", re.DOTALL)
_OPTION: Final = re.compile(r"""(?<![^\s"'])(--?[A-Za-z][\w-]*)\s+(?!-)""")
_OPTED: Final = re.compile(_QUOTED % r"""[^\s"']+""", re.DOTALL)
_LOGIN: Final = re.compile(
    r"""((?:\bcurl\b[^\r\n]{0,999}?\s-[uU]|(?<!\S)--(?:proxy-)?user)[\s=]*["']?[^\s:"'=/]+:)[^\s"']+"""
)
_HEADER: Final = re.compile(r"(?<=\bbearer )\S+|(?<=\bbasic )[\w+/]{8,}=*", re.IGNORECASE)
_CREDENTIALS: Final = re.compile(
    r"""\b((?:proxy-)?authorization\\?["']?\s*[:=]\s*\\?["']?(?:[a-z][\w-]*[ \t]+(?=\S))?)[^\r\n"'\\]+""", re.IGNORECASE
)
"""Of a header: all behind the name of the scheme."""
_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|gh[oprsu]_[A-Za-z0-9]{10,}"
    r"|github_pat_\w{10,}|glpat-[\w-]{16,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{20,}|xox[a-z]-[\w-]{8,}|nvapi-[\w-]{10,}"
    r"|npm_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{16,}|eyJ[\w-]+\.[\w-]+\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)",
    re.DOTALL,
)
"""Tokens of Hugging Face, OpenAI, Stripe, GitHub, GitLab, AWS, Google, Slack, NVIDIA, npm and Replicate, JSON web
tokens and private keys, whatever they are called.
"""
_FEWEST: Final = 4  # characters of a secret that is looked for in other words


def is_secret(name: str, value: str = "") -> bool:
    """Whether what has this name is a secret: api_key, hfToken, accessKeyId; not max_new_tokens=8, nor author."""
    words = [word.lower() for word in _WORD.findall(unquote(name))]
    if any(_SECRET.fullmatch(word) or _GLUED.search(word) for word in words) or not _LAST.isdisjoint(words[-1:]):
        return True
    if _NUMBERS.fullmatch(value) or value.lower() in _SWITCHES:
        return False
    is_of_text = not _OF_TEXT.isdisjoint(words)
    return _has_key(words) or _has_address(words) or not (is_of_text or _UNLESS_COUNTED.isdisjoint(words))


def _has_address(words: list[str]) -> bool:
    return any(_BEFORE_URL.fullmatch(before) and word in _URLS for before, word in pairwise(words))


def _has_key(words: list[str]) -> bool:
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    return any(
        word in ("key", "keys")
        and (_BEFORE_KEY.fullmatch(before) or behind in _BEHIND_KEY or (word == "keys" and not behind))
        for before, word, behind in around
    )


def without_secrets(url: str) -> str:
    """The URL as it may be printed; a path stays as it is."""
    return comparable(_ODD_USER.sub(HIDDEN, url)) if "//" in url else url


def comparable(url: str) -> str:
    """The URL as it may be kept and compared: without its user and the secrets of its query, its host as it is."""
    return _QUERY.sub(_hidden, _USER.sub(HIDDEN, url)) if "://" in url else url


def _hidden(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if is_secret(match[1], match[2]) else match[0]


def text_without_secrets(text: str) -> str:
    """A text without secrets of URLs, of headers and of options, and without what has the shape of a token."""
    text = _CREDENTIALS.sub(rf"\1{HIDDEN}", _SHAPES.sub(HIDDEN, without_secrets(text)))
    return _values_hidden(_LOGIN.sub(rf"\1{HIDDEN}", _HEADER.sub(HIDDEN, text)), _OPTION, _OPTED)


def value_without_secrets(value: str) -> str:
    """A setting's value: as a text, and without what it says itself is a secret, as JSON or a header does."""
    return _values_hidden(text_without_secrets(value), _PAIR, _PAIRED)


def _values_hidden(text: str, names: re.Pattern[str], values: re.Pattern[str]) -> str:
    """The text without the values behind names of secrets; behind any other name there may be more names."""
    shown, at = "", 0
    for name in names.finditer(text):
        if name.start() < at or not is_secret(name[1]):
            continue
        value = values.match(text, name.end())
        if value is not None and is_secret(name[1], value["quoted"] or value["bare"] or ""):
            shown += f"{text[at : name.end()]}{value['quote'] or ''}{HIDDEN}"
            at = value.end()
    return shown + text[at:]


def message_without_secrets(text: str, url: str) -> str:
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
