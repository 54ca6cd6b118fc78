"""launchscope: why is this decode step slower than the GPU allows?

    launchscope.profile(fn_or_module, ...)   measure a decode step on this machine's GPU
    launchscope.load(path)                   open a capture or a trace: a Report
    launchscope.analyze(*paths)              several of them in one Report
    launchscope.Target(step, inputs, state)  what a `build` function may return

Names load on use: ``import launchscope`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .analysis.report import Report, analyze, load
    from .tracer.api import profile
    from .tracer.target import Target

__version__: Final = "0.1.0"

__all__ = ["Report", "Target", "analyze", "load", "profile"]

_HOMES: Final = {
    "Report": "analysis.report",
    "Target": "tracer.target",
    "analyze": "analysis.report",
    "load": "analysis.report",
    "profile": "tracer.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
