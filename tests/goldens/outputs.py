"""All that people and programs read of the recordings in fixtures/, as text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import launchscope
from launchscope.cli.outputs import COMPARED, HEALTH, OUTPUTS, Output, renderer

ROOT: Final = Path(__file__).parents[2]
_FOLDERS: Final = ("fixtures/captures", "fixtures/traces")
_RECORDINGS: Final = (".zip", ".gz", ".sqlite")
_STYLE: Final[dict[str, Any]] = {"width": 100, "color": False}

WITH_PAGE: Final = ("fixtures/captures/live.zip", "fixtures/traces/leimao_trace_with_manual_capture.json.gz")
"""The one-file page takes seconds: of one capture and one trace."""

PAIRS: Final = {
    "compiled, compiled_skip": ("regressions/compiled.zip", "regressions/compiled_skip.zip"),
    "serve, serve_item": ("regressions/serve.zip", "regressions/serve_item.zip"),
    "half_width, full_width": ("samples/half_width.zip", "samples/full_width.zip"),
    "eager-cuda, graph-cuda": ("serving/eager-cuda.json.gz", "serving/graph-cuda.json.gz"),
}
"""Name → captures or traces that are compared."""


def recordings() -> list[str]:
    """Every capture and trace below fixtures/, by its place in the project."""
    files = (file for folder in _FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in _RECORDINGS)
    return sorted(str(file.relative_to(ROOT)) for file in files)


def of_recording(recording: str) -> dict[str, str]:
    """Output → its text. The working folder must be the project's, as reports name paths."""
    report = launchscope.load(recording, cache=False)
    texts = {
        "json": _rendered(OUTPUTS, "json", report),
        "terminal": _rendered(OUTPUTS, "terminal", report, verbose=False, **_STYLE),
        "terminal in full": _rendered(OUTPUTS, "terminal", report, verbose=True, **_STYLE),
        "markdown": _rendered(OUTPUTS, "markdown", report),
        "doctor": _rendered(HEALTH, "terminal", report, verbose=False, **_STYLE),
    }
    if recording in WITH_PAGE:
        texts["page"] = _words(_rendered(OUTPUTS, "html", report))
    return texts


def of_pair(pair: str) -> dict[str, str]:
    """Output → its text, of the comparison."""
    compared = launchscope.compare(*(f"fixtures/captures/{each}" for each in PAIRS[pair]))
    return {
        "json": _rendered(COMPARED, "json", compared),
        "terminal": _rendered(COMPARED, "terminal", compared, verbose=False, **_STYLE),
        "markdown": _rendered(COMPARED, "markdown", compared),
    }


def everything() -> dict[str, Callable[[], dict[str, str]]]:
    """Name → what makes its texts."""
    made: dict[str, Callable[[], dict[str, str]]] = {
        name: lambda name=name: of_recording(name) for name in recordings()
    }
    return made | {name: lambda name=name: of_pair(name) for name in PAIRS}


def digest(text: str) -> str:
    """Of a text, short enough to be kept."""
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _rendered(table: dict[str, Output], name: str, subject: object, **style: Any) -> str:
    content = renderer(name, table)(subject, **style)
    assert isinstance(content, str)
    return content


def _words(page: str) -> str:
    """The text of a page without its scripts, styles and markup."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]+>", "\n", text))
