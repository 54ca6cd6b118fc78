"""launchscope: why is this decode step slower than the GPU allows?

    launchscope.profile(fn_or_module, ...)   measure a decode step on this machine's GPU
    launchscope.load(path)                   open a capture or a trace: a Report
    launchscope.analyze(*paths)              several of them in one Report
    launchscope.compare(before, after)       what changed from one capture or trace to another
    launchscope.check(current, baseline)     limits and baselines against a capture or a trace
    launchscope.whatif(path, tau="2us")      the step time with something changed: a prediction with its range
    launchscope.Target(step, inputs, state)  what a `build` function may return

Names load on use: ``import launchscope`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .analysis.model import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .analysis.compare.check import check
    from .analysis.compare.compared_paths import compare
    from .analysis.predict.whatif import whatif
    from .analysis.report import Report, analyze, load
    from .tracer.target.options import Target

__all__ = ["Report", "Target", "__version__", "analyze", "check", "compare", "load", "profile", "whatif"]

_HOMES: Final = {
    "Report": "analysis.report",
    "Target": "tracer.target.options",
    "analyze": "analysis.report",
    "check": "analysis.compare.check",
    "compare": "analysis.compare.compared_paths",
    "load": "analysis.report",
    "whatif": "analysis.predict.whatif",
}


def profile(
    target: Any,
    *,
    example_inputs: Any = None,
    batch_size: int | None = None,
    dtype: str | None = None,
    context_length: int | None = None,
    modes: Sequence[str] = ("eager", "graph", "fused", "fused_graph"),
    steps: int = 12,
    repeats: int = 3,
    settings: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Measure a decode step on this machine's GPU: a Report.

    ``target`` is a file or module name as on the command line, measured in fresh processes; or a step function,
    ``nn.Module`` (with ``example_inputs``), Hugging Face model or Target of this process, measured in this process
    and labelled so (no spread). ``out`` names the capture, launchscope-out/… else. Raises LaunchscopeError in words.
    """
    from .analysis.report import load
    from .tracer.processes.api import profile

    return load(
        profile(
            target,
            example_inputs=example_inputs,
            batch_size=batch_size,
            dtype=dtype,
            context_length=context_length,
            modes=modes,
            steps=steps,
            repeats=repeats,
            settings=settings,
            out=out,
            progress=progress,
        )
    )


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
