"""The configuration of checks: tables of limits by target and mode, and where they are read from."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from ..model.capture import AS_WRITTEN, MODES, UNGRAPHED
from ..model.errors import ConfigError, UnreadableInput
from ..model.paths import content, exists, is_file
from .difference import GPU_PACED_BETWEEN_RUNS, HOST_PACED_BETWEEN_RUNS
from .limits import FIGURES, OF_GRAPHS, Limit, parse, shown
from .snapshot import TRACE

FILE: Final = "launchscope.toml"
PYPROJECT: Final = "pyproject.toml"
CHECKED_MODES: Final = (*MODES, AS_WRITTEN, TRACE)
MAY_REPLAY: Final = (*UNGRAPHED, AS_WRITTEN, TRACE)
"""Modes that may replay graphs: the others launch kernel by kernel, as that is what they measure."""

DEFAULTS: Final = ("launches", "kernels", "memcpys", "blocking_calls", "graph_coverage")
"""What must not get worse where nothing is limited: what is counted, the same on any machine."""
ENOUGH_IN_GRAPHS: Final = ">= 0.95"
"""What --require-graph asks for: a prologue, or the sampling after the model, may be outside."""

_KEYS: Final = ("limits", "noise")
_NOISE: Final = ("gpu_paced", "host_paced")
_CLOSE: Final = 0.7  # difflib's ratio, from which a table's name is a mode's with a slip

_Table = tuple[str | None, str | None]
"""Target and mode that a table is about; None: all."""


@dataclass(frozen=True)
class Limits:
    """Limits by target and mode, the more specific before the others, figure by figure."""

    tables: Mapping[_Table, Mapping[str, Limit]] = field(default_factory=dict)
    gpu_paced: float = GPU_PACED_BETWEEN_RUNS
    host_paced: float = HOST_PACED_BETWEEN_RUNS
    """Share by which the same code's median may differ between two runs, where the GPU or the host sets the pace."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited at all."""
        return not any(self.tables.values())

    @property
    def targets(self) -> list[str]:
        """Targets that have tables of their own."""
        return list(dict.fromkeys(target for target, _ in self.tables if target is not None))

    def modes_of(self, target: str) -> list[str]:
        """Modes that have limits of their own, for this target or for all."""
        found = (mode for (its, mode), limits in self.tables.items() if mode and limits and its in (None, target))
        return list(dict.fromkeys(found))

    def asks_for_graphs(self, target: str) -> str | None:
        """Where a limit on graph coverage stands that names no mode, for this target or for all; null without one."""
        tables = [self.tables.get((its, None), {}) for its in (target, None)]
        return next((table["graph_coverage"].where for table in tables if "graph_coverage" in table), None)

    def of(self, target: str, mode: str) -> list[Limit]:
        """The limits of one target in one mode.

        One on figures of graphs that names no mode is not about modes that launch kernel by kernel.
        """
        found: dict[str, Limit] = {}
        for its_target, its_mode in ((None, None), (None, mode), (target, None), (target, mode)):
            for figure, limit in self.tables.get((its_target, its_mode), {}).items():
                if its_mode is not None or figure not in OF_GRAPHS or _is_told(figure, mode):
                    found[figure] = limit
        return [found[figure] for figure in FIGURES if figure in found]

    def with_defaults(self, target: str, mode: str, *, has_baseline: bool, require_graph: bool) -> list[Limit]:
        """Everything that a target in a mode is checked by."""
        limits = self.of(target, mode)
        defaults = default_limits(mode) if self.is_empty and has_baseline else ()
        required = parse("graph_coverage", ENOUGH_IN_GRAPHS, where="--require-graph")
        as_strict = (
            its.figure == required.figure and not its.relative and its.amount >= required.amount for its in limits
        )
        is_required = require_graph and mode in MAY_REPLAY and not any(as_strict)
        return [*limits, *defaults, *([required] if is_required else [])]


def _is_told(figure: str, mode: str) -> bool:
    """Whether a figure of graphs means anything in this mode; no trace tells the memory that graphs hold."""
    return mode in MAY_REPLAY and (figure != "graph_memory" or mode != TRACE)


def default_limits(mode: str) -> Iterator[Limit]:
    """The limits of a baseline where nothing is limited."""
    for figure in DEFAULTS:
        if figure != "graph_coverage" or mode in MAY_REPLAY:
            yield parse(figure, "-0" if figure == "graph_coverage" else "+0", where="default")


def find_config(folder: Path) -> Path | None:
    """The configuration file of this folder, or of the nearest one above it, up to the root of its repository."""
    try:
        folder = folder.absolute()
    except FileNotFoundError:  # the current folder was deleted
        return None
    above = [folder, *folder.parents]
    root = next((place for place in above if exists(place / ".git")), folder)
    for place in above[: above.index(root) + 1]:
        if is_file(place / FILE):
            return place / FILE
        if is_file(place / PYPROJECT) and _of_pyproject(place / PYPROJECT) is not None:
            return place / PYPROJECT
    return None


def read_config(path: Path, targets: Collection[str] = ()) -> Limits:
    """The limits of a launchscope.toml, or of [tool.launchscope] of a pyproject.toml.

    ``targets`` are names of targets that may look like a mode's. ConfigError says what is wrong, where, and what to
    write.
    """
    prefix = ""
    if path.name != PYPROJECT:
        content = _toml(path)
    else:
        prefix, found = "tool.launchscope.", _of_pyproject(path)
        if found is None:
            raise ConfigError(
                f"{path}: without a table [tool.launchscope], so nothing is limited: add [{prefix}limits]"
            )
        content = found
    for key, value in content.items():
        if key in FIGURES:
            raise ConfigError(f"{path}: {key} stands outside of the table [{prefix}limits]: write it below it")
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key '{key}'{_meant(key, _KEYS)}; there are {' and '.join(_KEYS)}")
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: {key} is no table: write [{prefix}{key}]")
    noise = {name: _noise(path, prefix, name, value) for name, value in content.get("noise", {}).items()}
    tables = limit_tables(content.get("limits", {}), path.name, f"{prefix}limits", targets, at=str(path))
    return Limits(tables, **noise)


def limit_tables(
    tables: Mapping[str, Any], source: str, name: str = "limits", targets: Collection[str] = (), at: str | None = None
) -> dict[_Table, dict[str, Limit]]:
    """The limits of a table and of those in it. ``source`` is told with each, ``at`` in errors."""
    reading = _Reading(source, at or source, targets)
    reading.table(tables, name, None, None)
    return reading.found


def limits_of_words(words: Mapping[str, object], source: str) -> tuple[Limits, tuple[str, ...] | None]:
    """Limits given as keywords (``launches="<= 300"``), and the modes that the word ``modes`` names; None: all.

    ``modes`` is one name or several, in a list or with commas. ConfigError as for a file.
    """
    modes = words.get("modes")
    named = None if modes is None else checked_modes([modes] if isinstance(modes, str) else modes, source)
    tables = limit_tables({name: value for name, value in words.items() if name != "modes"}, source, "")
    return Limits(tables), named


def checked_modes(modes: object, source: str) -> tuple[str, ...]:
    """Names of modes, each alone or with commas between several. ConfigError for what is none."""
    if not isinstance(modes, Iterable) or not all(isinstance(mode, str) for mode in modes):
        raise ConfigError(f"{source}: modes takes names of modes: {', '.join(CHECKED_MODES)}")
    names = [name.strip() for mode in modes for name in str(mode).split(",") if name.strip()]
    if not names:
        raise ConfigError(f"{source}: names no mode; they are {', '.join(CHECKED_MODES)}")
    for name in names:
        if name not in CHECKED_MODES:
            raise ConfigError(
                f"{source}: no mode '{name}'{_meant(name, CHECKED_MODES)}; they are {', '.join(CHECKED_MODES)}"
            )
    return tuple(dict.fromkeys(names))


class _Reading:
    """Collects the limits of nested tables."""

    def __init__(self, source: str, at: str, targets: Collection[str]) -> None:
        self.source, self.at, self.targets = source, at, targets
        self.found: dict[_Table, dict[str, Limit]] = {}

    def table(self, content: Mapping[str, Any], name: str, target: str | None, mode: str | None) -> None:
        at, where = (f"{file} [{name}]" if name else file for file in (self.at, self.source))
        limits = self.found.setdefault((target, mode), {})
        for key, value in content.items():
            if key in FIGURES:
                if isinstance(value, Mapping):
                    example = FIGURES[key].example
                    raise ConfigError(f'{at}: {key} is a figure, no table: write {key} = "{example}", say')
                limits[key] = parse(key, value, at, where)
            elif isinstance(value, Mapping) and mode is None and name:
                below = f"{name}.{key}" if key.replace("_", "").replace("-", "").isalnum() else f'{name}."{key}"'
                self.table(value, below, *self._about(key, target, at))
            else:
                raise ConfigError(f"{at}: {self._unknown(key, value, mode)}")

    def _about(self, key: str, target: str | None, at: str) -> _Table:
        """Target and mode of the table with this name in one that is about no mode."""
        if key in CHECKED_MODES:
            return target, key
        if target is not None:
            raise ConfigError(f"{at}: no mode '{key}'{_meant(key, CHECKED_MODES)}; they are {', '.join(CHECKED_MODES)}")
        if key not in self.targets and (meant := _meant(key, CHECKED_MODES)):
            raise ConfigError(f"{at}: table '{key}' is about no mode{meant}, nor about a target of this name")
        return key, None

    @staticmethod
    def _unknown(key: str, value: object, mode: str | None) -> str:
        if isinstance(value, Mapping):
            return f"'{key}' is a table in a table of {'a mode' if mode else 'limits'}; those hold figures alone"
        if key in CHECKED_MODES:
            return f"{key} is a mode, so a table: write [limits.{key}]"
        return f"no figure '{key}'{_meant(key, FIGURES)}; there are {', '.join(FIGURES)}"


def _noise(path: Path, prefix: str, name: str, value: object) -> float:
    at = f"{path} [{prefix}noise]"
    if name not in _NOISE:
        raise ConfigError(f"{at}: unknown key '{name}'{_meant(name, _NOISE)}; there are {' and '.join(_NOISE)}")
    digits = value.strip().removesuffix("%") if isinstance(value, str) else value
    try:
        share = float(digits) if isinstance(digits, str | int | float) and not isinstance(digits, bool) else -1.0
    except (ValueError, OverflowError):
        share = -1.0
    share /= 100 if isinstance(value, str) and value.strip().endswith("%") else 1
    if not 0 <= share <= 100:
        raise ConfigError(f'{at}: {name} = {shown(value)} is no share: write {name} = "1%", say, or 0.01')
    return share


def _of_pyproject(path: Path) -> dict[str, Any] | None:
    """[tool.launchscope] of a pyproject.toml; None without any."""
    tool = _toml(path).get("tool")
    found = tool.get("launchscope") if isinstance(tool, Mapping) else None
    if found is not None and not isinstance(found, dict):
        raise ConfigError(f"{path}: tool.launchscope is no table: write [tool.launchscope.limits]")
    return found


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content(path).decode("utf-8-sig"))  # as editors on Windows write it
    except UnreadableInput as error:
        raise ConfigError(str(error)) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise ConfigError(f"{path}: no TOML: {error}") from error


def _meant(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word.lower(), known, n=1, cutoff=_CLOSE)
    return f" (did you mean '{close[0]}'?)" if close else ""
