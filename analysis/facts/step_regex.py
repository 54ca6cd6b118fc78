"""The regular expression of --step-regex: checked before anything is read, and matched within a limit of time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Final

from ..model.errors import LaunchscopeError

MATCHING_S: Final = 10.0
"""A million names take 1 s."""

_CHILD: Final = """
import json, re, signal, sys
signal.alarm({seconds})
regex, names = json.load(sys.stdin)
pattern = re.compile(regex)
print(json.dumps([place for place, name in enumerate(names) if pattern.search(name)]))
"""


def step_pattern(step_regex: str) -> re.Pattern[str]:
    """The compiled expression. LaunchscopeError says what is wrong with one that Python can't compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # '[[' may come to mean something else: no concern of a user
            return re.compile(step_regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise LaunchscopeError(f"'{step_regex}' is not a regular expression: {error}") from error


def matching(step_regex: str, names: Sequence[str]) -> list[int]:
    """Places of the names in which the expression is found. LaunchscopeError when that takes longer than any should.

    A process of its own matches: nothing in this one could stop Python's matcher in a notebook or a thread, where it
    may run for hours. Where no process can be started, this one matches.
    """
    pattern = step_pattern(step_regex)
    if not names:
        return []
    code = _CHILD.format(seconds=int(MATCHING_S) + 5)  # it ends by itself when this process is killed
    try:
        if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
            raise OSError("no Python to start")
        done = subprocess.run(
            [sys.executable, "-ISWignore", "-c", code],
            input=json.dumps([step_regex, names]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=MATCHING_S,
            check=True,
        )
    except OSError:
        return [place for place, name in enumerate(names) if pattern.search(name)]
    except subprocess.SubprocessError as error:
        raise LaunchscopeError(
            f"--step-regex {step_regex!r}: not done with {len(names):,} names after {MATCHING_S:g} s: it has too many "
            "ways to match, as '(a+)+b' has; write it without a repetition inside a repetition"
        ) from error
    places: list[int] = json.loads(done.stdout)
    return places
