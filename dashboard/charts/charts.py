"""Where the time goes, as charts: idle time, kernel durations against τ, and the step against what bounds it.

Every function takes what was opened and gives plotly's JSON as plain dicts; every number is the report's own. What
is measured is drawn solid, what a model says hollow; what the data can't support is absent, with its reason.
"""

from __future__ import annotations

from typing import Final

from ..opened import Opened
from .bound_chart import bound_figure
from .durations_chart import durations_figure
from .idle_chart import idle_figure

__all__ = ["bound_figure", "chart_rem", "durations_figure", "idle_figure"]

_AROUND_REM: Final = 10.0  # title, axis and legend
_ROW_REM: Final = 4.6  # two lines of words, and bars
_LEAST_ROWS: Final = 2


def chart_rem(opened: Opened) -> float:
    """Height of these charts in rem: a row per mode or trace."""
    profile = opened.report.document.profile
    rows = max(len(opened.first), 0 if profile is None else len(profile.modes), _LEAST_ROWS)
    return round(_AROUND_REM + _ROW_REM * rows, 1)
