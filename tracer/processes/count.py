"""A target's step counted on the meta device, in a process of its own that sees no GPU."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Final

import msgspec

from ...analysis.model.counted_step import CountedStep
from ...analysis.model.errors import BadTarget, LaunchscopeError, MissingRequirement
from ..measure import protocol
from ..target.describe import parts_of_target
from ..target.options import ProfileOptions, Progress, TargetOptions
from ..target.reasons import failure, message_of
from .client import ForkServer, ProcessFailed
from .server import Channel
from .worker import describe

ENVIRONMENT: Final = {
    "CUDA_VISIBLE_DEVICES": "",  # a GPU that is there is never touched
    "HIP_VISIBLE_DEVICES": "",
    "TORCHDYNAMO_DISABLE": "1",  # compiled functions run as written: fused steps are predicted, not compiled
}
"""Of a process that counts; to be set before torch is imported."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What the process found: the step, or why it can't be counted."""

    step: CountedStep | None = None
    refusal: str | None = None


def count_step(options: ProfileOptions, progress: Progress) -> CountedStep:
    """Build the target and count its second step. BadTarget says why that can't be done, with the user's line.

    MissingRequirement without torch; no GPU is needed, and one that is there isn't used.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingRequirement("torch is not installed: pip install 'launchscope[torch]'")
    progress("starting")
    try:
        with ForkServer(["torch", "launchscope.tracer.measure.counting"], environment=ENVIRONMENT) as server:
            function = "launchscope.tracer.processes.count:run"
            found = server.run(function, options.of_target, Counted, options.timeout_s, progress)
    except ProcessFailed as error:
        raise BadTarget(f"{options.target}: the process that counts it {error}") from error
    if found.step is None:
        raise BadTarget(found.refusal or "")
    return found.step


def run(argument: bytes, channel: Channel) -> Counted:
    """Count the step of the target that ``argument`` describes, as JSON."""
    options = msgspec.json.decode(argument, type=TargetOptions)
    progress = protocol.Progress(channel)
    try:
        return Counted(step=count_here(options, progress))
    except LaunchscopeError as error:
        return Counted(refusal=str(error))
    except BaseException as error:  # a KeyboardInterrupt is the target's own: Ctrl-C does not reach this process
        return Counted(refusal=f"{options.target}: {_in_words(error, progress.phase, options.target)}")


_NEEDS_A_GPU: Final = (
    (
        r"item\(\) cannot be called on meta|meta device type tensor|Cannot copy out of meta|GPU would have written",
        "the step needs a value (.item(), .tolist(), if tensor:) that only a GPU can tell",
    ),
    (
        r"torch\.nonzero\(\)|data-dependent|DynamicOutputShape",
        "how large a tensor gets depends on values (a mask as index, nonzero) that only a GPU can tell",
    ),
    (
        r"a call to CUDA itself|dummy base class|requires CUDA|not compiled with CUDA|No CUDA GPUs",
        "it calls CUDA itself (a stream, a graph, synchronise, autocast, what a device can do), and here is none",
    ),
    (
        r"no fake impl|Meta kernel",
        "an operator does not say which shape it returns (torch.library's register_fake lets one of your own say so)",
    ),
)
"""What torch says of what can't be done on the meta device → why a step can't be counted."""


def _in_words(error: BaseException, phase: str, target: str) -> str:
    """One line: why the target can't be counted, and at which line of the user's code."""
    found = failure(error, f"{phase}, without a GPU", Path(parts_of_target(target)[0]).parent)
    reason = next((words for said, words in _NEEDS_A_GPU if re.search(said, message_of(error))), found.reason)
    return reason if found.line is None else f"{reason}, at {found.line}"


def count_here(options: TargetOptions, progress: Progress) -> CountedStep:
    """Count in this process. What a first step sets up is not counted."""
    import torch

    from ..measure.counting import Counting, counting_calls, without_gpu
    from ..target.target import resolve
    from ..target.watch import watching

    counting = Counting()
    with torch.no_grad(), without_gpu(), counting_calls(counting):
        progress("build")
        resolved = resolve(options, "meta")
        progress("first step")
        with watching() as watch:
            resolved.target.step()
        watch.refuse()
        progress("count")
        counting.ops.clear()
        resolved.target.step()
    if not counting.ops:
        raise BadTarget(f"{options.target}: its step launches nothing: there is nothing to predict")
    return CountedStep(target=describe(options, resolved), ops=tuple(counting.ops), torch=str(torch.__version__))
