"""Every error that a user can meet.

    LaunchscopeError            something the user can fix; the message says what, where and what to do
    ├── UnreadableInput         a file or folder that is not what it should be
    ├── BadTarget               the script named on the command line can't be profiled as it stands
    ├── MissingRequirement      no GPU, no driver, no torch, an absent extra
    ├── NothingMeasured         a profile in which no mode ran
    ├── RankFailed              a profile of several ranks of which one failed, and not the others
    └── ConfigError             limits or settings of a check that say nothing, or too much

A command prints the message on stderr and exits with 2. Anything else that is raised is a bug.
"""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 2000
"""Characters of a message: a name in an archive may have 65,535."""


def one_line(text: str) -> str:
    """``text`` without line breaks and control characters, which a file's or member's name may bring along.

    Bytes of a name that are no UTF-8 stay what Python makes of them.
    """
    joined = " ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else _escape(c) for c in joined)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class LaunchscopeError(Exception):
    """Something that the user can fix. The message says what, where and what to do, in one printable line."""

    def __init__(self, message: str) -> None:
        line = one_line(message)
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
        super().__init__(line)


class UnreadableInput(LaunchscopeError):
    """A file or folder that can't be read as what it was given for."""


class BadTarget(LaunchscopeError):
    """A script, function or model that can't be profiled as it stands."""


class MissingRequirement(LaunchscopeError):
    """Hardware, a driver or a package that the command needs and that is not there."""


class NothingMeasured(LaunchscopeError):
    """A profile in which every mode failed."""


class RankFailed(LaunchscopeError):
    """A rank that died, hung or failed while the others did not; the message says which, and what is kept."""


class ConfigError(LaunchscopeError):
    """A limit, a table or a key of a check's configuration that can't be meant; the message says what to write."""
