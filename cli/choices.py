"""The options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce, wraps
from pathlib import Path
from typing import Any, Final

import click

from ..analysis.model.errors import LaunchscopeError
from ..analysis.model.units import RATES, SIZES, TIMES, quantity
from .outputs import FORMATS, Destination

_Function = Callable[..., Any]
_Option = Callable[[_Function], _Function]


class _Path(click.Path):
    """A path as it was given; an empty one is a variable that was not set, and would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path", param, ctx)
        return super().convert(value, param, ctx)


class _PathOrUrl(_Path):
    """A path, or a URL as it was given: a Path would take one of its two slashes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


PATH: Final = _Path(path_type=Path)
PATH_OR_URL: Final = _PathOrUrl(path_type=Path)


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer ones alone
    """Text that a function turns into a value; the message of its error is shown."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.parse(str(value))
        except (ValueError, LaunchscopeError) as error:
            self.fail(str(error), param, ctx)


def _positive(text: str, units: Mapping[str, float]) -> float:
    if not (found := quantity(text, units)):
        raise ValueError(f"'{text}' is nothing; it must be more than 0")
    return found


TIME: Final = Parsed("TIME", lambda text: quantity(text, TIMES))  # ns
SIZE: Final = Parsed("SIZE", lambda text: _positive(text, SIZES))  # bytes
RATE: Final = Parsed("RATE", lambda text: _positive(text, RATES))  # bytes per second


def together(*options: _Option) -> _Option:
    """One decorator of several, which --help shows in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _regex(text: str) -> str:
    from ..analysis.facts.step_sources import step_pattern

    step_pattern(text)
    return text


step_regex: Final = click.option(
    "--step-regex",
    type=Parsed("REGEX", _regex),
    help="Annotations or NVTX ranges whose name matches (re.search) are the steps.",
)

reading: Final = together(
    step_regex,
    click.option(
        "--strict",
        is_flag=True,
        help="Refuse a trace that is cut, damaged or lost records, instead of reading what is left.",
    ),
    click.option(
        "--no-cache",
        "cache",
        flag_value=False,
        default=True,
        help="Read a trace file anew, and keep nothing of it in the cache of opened files.",
    ),
)
"""How traces are read: ``step_regex``, ``strict`` and ``cache``, as ``analysis.report.analyze`` takes them."""


_FILE: Final = click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=PATH,
    help="Write the report to FILE, whole or not at all, instead of stdout.",
)
_VERBOSE: Final = click.option(
    "-v", "--verbose", is_flag=True, help="Show every cause, every API and every warning in full."
)


def destination(
    *, default: str = "by FILE's suffix, else terminal", to_file: bool = True, verbose: bool = False
) -> _Option:
    """--format, -o and -v, passed to the command as ``to``; without -o where that option means something else."""
    form = click.option(
        "--format", "output", type=click.Choice(FORMATS), help=f"How to show the report.  [default: {default}]"
    )

    def decorate(command: _Function) -> _Function:
        @wraps(command)
        def with_destination(
            *arguments: Any, output: str | None, file: Path | None = None, verbose: bool = False, **given: Any
        ) -> Any:
            return command(*arguments, to=Destination(output, file, verbose), **given)

        return together(form, *[_FILE] * to_file, *[_VERBOSE] * verbose)(with_destination)

    return decorate


def _modes(_ctx: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    from ..tracer.target.options import parse_modes

    return parse_modes(text)


def _settings(_ctx: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    from ..tracer.target.options import parse_settings

    return parse_settings(pairs)


def modes(default: str) -> _Option:
    """``modes`` of ProfileOptions."""
    return click.option(
        "--modes",
        metavar="MODES",
        default=default,
        show_default=True,
        callback=_modes,
        help="Modes, with commas between.",
    )


def timeout(default_s: float, help: str) -> _Option:
    """``timeout_s`` of ProfileOptions."""
    return click.option(
        "--timeout", "timeout_s", type=float, metavar="SECONDS", default=default_s, show_default=True, help=help
    )


batch_size: Final = click.option(
    "--batch-size", type=int, metavar="N", help="Sequences per step.  [default: the target's]"
)

build: Final = together(
    click.option("--dtype", metavar="DTYPE", help="bf16, fp16 or fp32.  [default: the target's]"),
    click.option("--context-length", type=int, metavar="TOKENS", help="Tokens in the cache.  [default: the target's]"),
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_settings,
        help="A parameter of the target's build; repeatable.",
    ),
)
"""How a target is built: ``dtype``, ``context_length`` and ``settings`` of ProfileOptions."""
