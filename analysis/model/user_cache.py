"""Where files are kept that can be made again, per user."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """``$XDG_CACHE_HOME/launchscope``, else ``~/.cache/launchscope``; it may not exist. RuntimeError without a home.

    A relative XDG_CACHE_HOME counts as none: https://specifications.freedesktop.org/basedir-spec/latest/
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "launchscope"
