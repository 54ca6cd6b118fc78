"""The user's own line in a stack of Python frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_LINE: Final = re.compile(r"\(\d+\): ")  # of a Python frame: 'model.py(42): forward'
_NOT_THE_USERS: Final = re.compile(r"(^|/)(torch|transformers|site-packages|dist-packages|lib/python[\d.]+)/|^<")


def users_line(stack: Sequence[str]) -> str | None:
    """The innermost Python frame of the user's own files, else the innermost one; None without any."""
    frames = [frame for frame in stack if _LINE.search(frame)]
    own = [frame for frame in frames if not _NOT_THE_USERS.search(frame)]
    return next(reversed(own or frames), None)
