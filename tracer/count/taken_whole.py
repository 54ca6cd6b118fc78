"""Attention and the RMS norm: one kernel each on CUDA, and a dozen operators on the meta device.

They are taken where they are called, before they come down to those. A function mode sees calls by whatever name; it is
switched off within a call that it passes on, as of ``multi_head_attention_forward``, so ``torch.nn.functional`` itself
holds stand-ins, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ...analysis.model.counted_step import ATTENTION, COPY, REDUCTION
from .counting import META, Counting


@contextmanager
def counting_whole(counting: Counting) -> Iterator[None]:
    """Inside, ``counting`` counts, and is told of what is taken whole."""
    with ExitStack() as stack:
        for function in _WHOLE:
            stack.callback(setattr, functional, function.__name__, function)
            setattr(functional, function.__name__, _stand_in(counting, function))
        stack.enter_context(_AsCalled(counting))
        stack.enter_context(counting)
        yield


class _AsCalled(TorchFunctionMode):
    """Takes whole calls; sees copies that are not dispatched."""

    def __init__(self, counting: Counting) -> None:
        super().__init__()
        self._counting = counting

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = _stand_in(self._counting, func)(*args, **kwargs) if func in _WHOLE else func(*args, **kwargs)
        if func in _FROM_PYTHON and result.device == META and not isinstance(_first(args, kwargs), torch.Tensor):
            self._counting.add("copy_", COPY, [result])
        return result


def _stand_in(counting: Counting, function: Callable[..., Any]) -> Callable[..., Any]:
    def taken(*args: Any, **kwargs: Any) -> Any:
        if _first(args, kwargs).device != META:
            return function(*args, **kwargs)
        return _WHOLE[function](counting, *args, **kwargs)

    return taken


def _attention(
    counting: Counting,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """One call of attention. A mask of truth values is turned into one of numbers first, by three launches more."""
    del dropout_p, is_causal, scale, enable_gqa
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        minus_infinity = torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=query.device)
        attn_mask = torch.where(attn_mask, 0.0, minus_infinity)
    shape = (*query.shape[:-1], value.shape[-1])
    result = torch.empty_like(query) if shape == query.shape else query.new_empty(shape)
    flops = 2 * query.numel() * key.shape[-2] + 2 * result.numel() * key.shape[-2]
    read = [query, key, value, *([] if attn_mask is None else [attn_mask])]
    counting.add("scaled_dot_product_attention", ATTENTION, [*read, result], flops)
    return result


def _rms_norm(
    counting: Counting,
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    del normalized_shape, eps
    result = torch.empty_like(input)
    counting.add("_fused_rms_norm", REDUCTION, [input, *([] if weight is None else [weight]), result])
    return result


_WHOLE: Final[dict[Callable[..., Any], Callable[..., torch.Tensor]]] = {
    functional.scaled_dot_product_attention: _attention,
    **({functional.rms_norm: _rms_norm} if hasattr(torch.ops.aten, "_fused_rms_norm") else {}),
}
_FROM_PYTHON: Final = (torch.tensor, torch.as_tensor)


def _first(args: Any, kwargs: Any) -> Any:
    return args[0] if args else next(iter(kwargs.values()))
