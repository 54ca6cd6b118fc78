"""Where the time goes, as charts: idle time, kernel durations against τ, and the step against what bounds it.

Every function takes what was opened and gives plotly's JSON as plain dicts; every number is the report's own. What
is measured is drawn solid, what a model says hollow; what the data can't support is absent, with its reason.
"""

from .bound_chart import bound_figure
from .durations_chart import durations_figure
from .idle_chart import idle_figure

__all__ = ["bound_figure", "durations_figure", "idle_figure"]
