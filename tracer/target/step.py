"""What everything that the user points at becomes: one decode step, and the setting that it was built with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

DEFAULT_BATCH_SIZE: Final = 1
DEFAULT_CONTEXT_LENGTH: Final = 512
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True, eq=False)
class Target:
    """One decode step and what is needed to check it.

    ``step()`` runs one step and returns its outputs (tensors, or containers of them). ``inputs`` are the static
    buffers that it reads (token ids, positions): launchscope overwrites them in place. ``state`` are tensors that it
    changes (a KV cache): launchscope restores them between runs. ``model`` is counted for its parameters.
    """

    step: Callable[[], Any]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    state: Sequence[torch.Tensor] = ()
    model: torch.nn.Module | None = None


@dataclass(frozen=True)
class Setting:
    """What a target is built with; null = not said, its own default holds."""

    batch_size: int | None
    dtype: str | None
    context_length: int | None
    device: str


def short_dtype(dtype: Any) -> str:
    """'bf16' for torch.bfloat16; other dtypes by torch's own name."""
    long = str(dtype).removeprefix("torch.")
    return next((short for short, name in DTYPES.items() if name == long), long)
