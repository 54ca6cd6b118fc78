"""What torch.compile says of itself: graph breaks, recompiles, CUDA graphs that it left out.

Read from its own records after the fact, and never imported for it: a process that compiled nothing has none.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Any, Final

from ...analysis.model.capture import CompileRecord, GraphBreak, Recompile
from ..target.reasons import first_line, original_name, user_line

_SKIP_LOGGERS: Final = ("torch._inductor.cudagraph_utils.__perf_hints", "torch._inductor.cudagraph_utils.__cudagraphs")
"""Where skips are logged: the first until torch 2.12 or so, the second from then on."""
_SKIP: Final = re.compile(r"skipping cudagraphs|cudagraph", re.IGNORECASE)
_HINT: Final = re.compile(r"^\s*Hint: (.+)$", re.MULTILINE)
_GUARD: Final = re.compile(r"^(\S+/\d+): (.*)", re.DOTALL)  # '4/0: L['n'] == 3  # …'
_GUARDED: Final = re.compile(r"#\s*(?P<code>[^#\n]*?)\s*#\s*(?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")
_LIMIT: Final = re.compile(r"recompile_limit|recompile limit|cache_size_limit")


class Compiler:
    """Listens to what torch.compile logs from now on, and reads the rest of its records when asked."""

    def __init__(self) -> None:
        self._skips: list[str] = []
        handler = _Listener(self._skips)
        for name in _SKIP_LOGGERS:
            logging.getLogger(name).addHandler(handler)

    def record(self, folder: Path | None) -> CompileRecord | None:
        """What it did in this process up to now; null if it compiled nothing. ``folder``: of the target."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        if utils is None or not utils.counters["frames"]["total"]:
            return None
        counters = utils.counters
        guards: dict[CodeType, list[str]] = dict(getattr(utils, "guard_failures", {}))
        unlogged = ("no reason was logged",) if counters["inductor"]["cudagraph_skips"] else ()
        said = [*counters["graph_break"], *counters["unimplemented"]]
        return CompileRecord(
            unique_graphs=counters["stats"].get("unique_graphs"),
            graph_breaks=tuple(_breaks(getattr(utils, "graph_break_reasons", ()), counters["graph_break"], folder)),
            recompiles=tuple(_recompile(code, failed) for code, failed in guards.items() if failed),
            limit_reached=any(_LIMIT.search(text) for text in said),
            cudagraph_skips=tuple(dict.fromkeys(self._skips)) or unlogged,
        )


class _Listener(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if _SKIP.search(text):
            self._heard.append(first_line(text))


def _breaks(reasons: Iterable[Any], counted: Counter[str], folder: Path | None) -> list[GraphBreak]:
    """By reason and line; those that were only counted without a line. The recompile limit is no break."""
    found: Counter[tuple[str, str | None]] = Counter()
    hints: dict[str, str | None] = {}
    for each in reasons:
        text = str(each.reason)
        if _LIMIT.search(text):
            continue
        found[first_line(text), user_line(each.user_stack, folder=folder)] += 1
        hints[first_line(text)] = _hint(text)
    seen = {reason for reason, _ in found}
    for text, count in counted.items():
        if first_line(text) not in seen and not _LIMIT.search(text):
            found[first_line(text), None] += count
            hints[first_line(text)] = _hint(text)
    return [
        GraphBreak(reason=reason, hint=hints[reason], line=line, count=count)
        for (reason, line), count in found.most_common()
    ]


def _hint(text: str) -> str | None:
    found = _HINT.search(text)
    return first_line(found[1]) if found else None


def _recompile(code: CodeType, failed: list[str]) -> Recompile:
    """Each time, every version compiled so far says which of its guards failed: the oldest one was asked each time."""
    parsed = [found for text in failed if (found := _GUARD.match(text))]
    counts = Counter(found[1] for found in parsed)
    last = parsed[-1][2] if parsed else failed[-1]
    about = _GUARDED.search(last)
    guard = first_line(last.partition("  #")[0])
    line = None
    if about is not None:
        function = original_name(about["function"])
        line = f"{Path(about['file']).name}:{about['line']} in {function}: {about['code'].strip()}"
    return Recompile(
        guard=guard,
        function=f"{original_name(code.co_name)} at {Path(code.co_filename).name}:{code.co_firstlineno}",
        line=line,
        count=max(counts.values(), default=len(failed)),
    )
