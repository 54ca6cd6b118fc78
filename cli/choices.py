"""The options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..analysis.facts.step_regex import step_pattern
from ..analysis.model.errors import LaunchscopeError
from ..analysis.model.units import RATES, SIZES, TIMES, quantity
from .outputs import FORMATS

_Decorated = TypeVar("_Decorated", bound="Callable[..., Any] | click.Command")


class _Path(click.Path):
    """A path as it was given; an empty one is a variable that was not set, and would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path", param, ctx)
        return super().convert(value, param, ctx)


PATH: Final = _Path(path_type=Path)


class _PathOrUrl(_Path):
    """A path, or a URL as it was given: a Path would take one of its two slashes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


PATH_OR_URL: Final = _PathOrUrl(path_type=Path)


class Quantity(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer ones alone
    """A number with one of these units, in that whose scale is 1; above 0 unless it may be nothing."""

    def __init__(self, name: str, units: Mapping[str, float], *, may_be_nothing: bool = False) -> None:
        self.name = name
        self.units = units
        self.may_be_nothing = may_be_nothing

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = quantity(str(value), self.units)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not found and not self.may_be_nothing:
            self.fail(f"'{value}' is nothing; it must be more than 0", param, ctx)
        return found


TIME: Final = Quantity("TIME", TIMES, may_be_nothing=True)
SIZE: Final = Quantity("SIZE", SIZES)
RATE: Final = Quantity("RATE", RATES)


def _compiles(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            step_pattern(value)
        except LaunchscopeError as error:
            raise click.BadParameter(str(error)) from error
    return value


step_regex: Final = click.option(
    "--step-regex",
    metavar="REGEX",
    callback=_compiles,
    help="Annotations or NVTX ranges whose name matches (re.search) are the steps.",
)


def output_format(default: str) -> Callable[[_Decorated], _Decorated]:
    """``--format``; ``default`` tells what holds without it."""
    return click.option(
        "--format", "output", type=click.Choice(FORMATS), help=f"How to show the report.  [default: {default}]"
    )


output_file: Final = click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=PATH,
    help="Write the report to FILE, whole or not at all, instead of stdout.",
)

verbose: Final = click.option(
    "-v", "--verbose", is_flag=True, help="Show every cause, every API and every warning in full."
)

strict: Final = click.option(
    "--strict",
    is_flag=True,
    help="Refuse a trace that is cut, damaged or lost records, instead of reading what is left.",
)

no_cache: Final = click.option(
    "--no-cache", is_flag=True, help="Read a trace file anew, and keep nothing of it in the cache of opened files."
)


batch_size: Final = click.option(
    "--batch-size", type=int, metavar="N", help="Sequences per step.  [default: the target's]"
)

dtype: Final = click.option("--dtype", metavar="DTYPE", help="bf16, fp16 or fp32.  [default: the target's]")

context_length: Final = click.option(
    "--context-length", type=int, metavar="TOKENS", help="Tokens in the cache.  [default: the target's]"
)
