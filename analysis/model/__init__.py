"""What every other room rests on: the Trace, the capture on disk, the documents' types, units, errors and words."""

from typing import Final

__version__: Final = "0.1.0"
"""Documents, captures and caches name it."""
