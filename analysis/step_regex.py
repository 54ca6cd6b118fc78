"""The regular expression of --step-regex, checked before anything is read."""

from __future__ import annotations

import re
import warnings

from .errors import LaunchscopeError


def step_pattern(step_regex: str) -> re.Pattern[str]:
    """The compiled expression. LaunchscopeError says what is wrong with one that Python can't compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # '[[' may come to mean something else: not the user's concern
            return re.compile(step_regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise LaunchscopeError(f"'{step_regex}' is not a regular expression: {error}") from error
