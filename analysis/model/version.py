"""The version of launchscope, which documents, captures and caches carry."""

from typing import Final

__version__: Final = "0.1.0"
