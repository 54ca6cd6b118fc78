"""What the pytest plugin and the fixture ``launchscope`` share of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SAVED: Final = "launchscope.saved"  # file of a baseline
UNCHECKED: Final = "launchscope.unchecked"  # number of limits that need a baseline
"""User properties of a test: its report takes them to where the run is told, from the workers of pytest-xdist too."""


@dataclass
class Session:
    """What the tests of one run share."""

    save: bool = False
    compare: bool = False
    baselines: Path | None = None  # null: the default folder below pytest's rootdir
    require_gpu: bool = False
    live: str | None = None  # the test that profiled a live step in this process, which can be done once
