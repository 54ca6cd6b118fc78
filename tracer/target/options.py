"""What a profile run is asked for: plain values, checked before anything expensive starts. Loads no torch."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ...analysis.model.errors import LaunchscopeError
from ...analysis.model.paths import exists

MODES: Final = ("eager", "graph", "fused", "fused_graph")  # of capture.MODES, which would load msgspec; a test compares
STEPS: Final = 12
MIN_STEPS: Final = 3  # a sacrifice, a kept step and the one after it, which ends the kept step's period
REPEATS: Final = 3
CHECK_REPEATS: Final = 8  # of analysis.compare.difference, which would load numpy; a test compares
TIMEOUT_S: Final = 600.0

DTYPES: Final = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
}

_HAVE_OPTIONS: Final = {
    "batch_size": "--batch-size",
    "dtype": "--dtype",
    "context_length": "--context-length",
    "device": "CUDA_VISIBLE_DEVICES",
}

Progress = Callable[[str], None]
"""Called with one line that says what is being done now, such as ``eager, process 2 of 3: timing``."""


def no_progress(_: str) -> None:
    """A Progress that nobody needs to see; of several ranks only rank 0 shows its own."""


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """One profile run. ``None`` leaves a value to the target. A value that can't be right raises LaunchscopeError."""

    target: str
    batch_size: int | None = None
    dtype: str | None = None  # 'bf16', 'fp16', 'fp32'; torch's own names are taken too
    context_length: int | None = None  # tokens
    steps: int = STEPS  # recorded in each profiler session, the sacrificed first one included
    repeats: int = REPEATS  # processes per mode
    modes: tuple[str, ...] = MODES  # in the order of the report
    settings: dict[str, str] = field(default_factory=dict)  # --set
    out: Path | None = None  # the capture folder; must not exist yet
    timeout_s: float = TIMEOUT_S  # for one process, compilation included
    for_check: bool = False  # record the first two processes of a mode alone: the others are there for their times

    def __post_init__(self) -> None:
        if not self.target.strip():
            raise LaunchscopeError("TARGET is empty; name a script (model.py), model.py:name or package.module:name")
        _check_text("TARGET", self.target)
        _at_least(1, "--batch-size", self.batch_size)
        _at_least(1, "--context-length", self.context_length)
        _at_least(MIN_STEPS, "--steps", self.steps, why=": the first is a sacrifice and the last only ends a period")
        _at_least(1, "--repeats", self.repeats)
        if not 0 < self.timeout_s < float("inf"):
            raise LaunchscopeError(f"--timeout is {self.timeout_s:g}; it takes a positive number of seconds")
        _check_modes(self.modes)
        _check_settings(self.settings)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", _known_dtype(self.dtype))
        if self.out is not None and (exists(self.out) or self.out.is_symlink()):
            raise LaunchscopeError(f"{self.out}: exists already; captures are never overwritten: name a new folder")

    @property
    def of_target(self) -> dict[str, Any]:
        """The options that another process needs to build the target, by name."""
        return {name: getattr(self, name) for name in ("target", "batch_size", "dtype", "context_length", "settings")}


def parse_modes(text: str) -> tuple[str, ...]:
    """``eager, graph`` → ('eager', 'graph'); whether they are modes is for ProfileOptions to say."""
    return tuple(mode for part in text.split(",") if (mode := part.strip()))


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """``key=value`` words as a dictionary. The value may be empty and may hold further ``=``."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise LaunchscopeError(f"--set {pair}: no '='; write --set key=value")
        if key in settings:
            raise LaunchscopeError(f"--set {key}: given twice")
        settings[key] = value
    return settings


def _at_least(smallest: int, option: str, value: int | None, why: str = "") -> None:
    if value is not None and value < smallest:
        raise LaunchscopeError(f"{option} is {value}; it takes {smallest} or more{why}")


def _check_modes(modes: Sequence[str]) -> None:
    if not modes:
        raise LaunchscopeError(f"--modes is empty; the modes are {', '.join(MODES)}")
    for mode in modes:
        if mode not in MODES:
            raise LaunchscopeError(f"--modes: no mode '{mode}'{_suggestion(mode, MODES)}; they are {', '.join(MODES)}")
        if modes.count(mode) > 1:
            raise LaunchscopeError(f"--modes: '{mode}' is given twice")


def _check_text(option: str, text: str) -> None:
    """Bytes that are no UTF-8 can be kept neither in a capture nor in a report."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaunchscopeError(f"{option}: has bytes that are not UTF-8: {text!a}") from error


def _check_settings(settings: dict[str, str]) -> None:
    for key, value in settings.items():
        _check_text(f"--set {key}", value)
        if key in _HAVE_OPTIONS:
            raise LaunchscopeError(f"--set {key}: use {_HAVE_OPTIONS[key]} for it")
        if not key.isidentifier() or keyword.iskeyword(key):
            raise LaunchscopeError(f"--set {key}: not the name of a parameter")


def _known_dtype(dtype: str) -> str:
    known = DTYPES.get(dtype.lower().removeprefix("torch."))
    if known is None:
        raise LaunchscopeError(f"--dtype: no dtype '{dtype}'{_suggestion(dtype, DTYPES)}; use bf16, fp16 or fp32")
    return known


def _suggestion(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
