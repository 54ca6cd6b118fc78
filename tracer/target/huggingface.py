"""Steps for a bare Hugging Face model: one token per sequence over a static KV cache, or the prefill of a prompt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ...analysis.model.errors import BadTarget
from .options import DEFAULT_BATCH_SIZE, DEFAULT_CONTEXT_LENGTH, DTYPES, Setting, Target, short_dtype

_SPARE_SLOTS = 8  # cache slots behind the measured position


def model_target(model: Any, setting: Setting, prompt_length: int | None = None) -> tuple[Target, Setting]:
    """The model's decode step at position ``context_length - 1``, and the setting it runs with.

    With a ``prompt_length`` the step is the prefill of so many tokens, from the first position on, and gives the
    logits of the last.

    The cache is a ``StaticCache``, filled by random tokens up to that position. Its own length counter, which grows
    by one each step, is set back at the start of each step by one multi-tensor copy (one launch, stated as a label by
    the caller): otherwise step n + 1 would not be step n, and the cache would run over.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        raise BadTarget(f"{type(model).__name__}: encoder-decoder models need a step of your own: define build()")
    dtype = getattr(torch, DTYPES[setting.dtype]) if setting.dtype else model.dtype
    model = model.to(device=setting.device).eval()
    if dtype != model.dtype:  # only then: it casts buffers too, RoPE's fp32 frequencies among them
        model = model.to(dtype=dtype)
    batch_size = setting.batch_size or DEFAULT_BATCH_SIZE
    context_length = prompt_length or setting.context_length or DEFAULT_CONTEXT_LENGTH
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and context_length + _SPARE_SLOTS > longest:
        word = "--context-length" if prompt_length is None else "a prompt of"
        raise BadTarget(f"{word} {context_length}: the model's positions end at {longest}")
    cache = {_cache_argument(model): _static_cache(model, context_length + _SPARE_SLOTS)}
    tokens = torch.randint(
        0, model.config.get_text_config().vocab_size, (batch_size, context_length), device=setting.device
    )
    with torch.no_grad():
        model(input_ids=tokens[:, : max(context_length - 1, 1)], use_cache=True, **cache)  # no model takes 0 tokens
    used = Setting(batch_size, short_dtype(dtype), context_length, setting.device)
    if prompt_length is not None:
        prompt, position = tokens.clone(), torch.arange(context_length, device=setting.device)
        return Target(_step(model, cache, prompt, position), {"token": prompt}, _state(*cache.values()), model), used
    token = tokens[:, -1:].clone()
    position = torch.tensor([context_length - 1], device=setting.device)
    step = _step(model, cache, token, position)
    return Target(step, {"token": token, "position": position}, _state(*cache.values()), model), used


def _static_cache(model: Any, length: int) -> Any:
    from transformers import StaticCache

    try:
        return StaticCache(config=model.config, max_cache_len=length)
    except Exception as error:
        raise BadTarget(
            f"{type(model).__name__}: has no static KV cache ({error}); a cache that grows is another step each time: "
            "define build() with a step of your own (docs/targets.md)"
        ) from error


def _cache_argument(model: Any) -> str:
    """The name of forward's cache argument: transformers renames ``past_key_values`` to ``cache``."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def _step(model: Any, cache: dict[str, Any], token: torch.Tensor, position: torch.Tensor) -> Callable[[], torch.Tensor]:
    counters = _counters(*cache.values())
    starts = [position[0]] * len(counters)
    extra: dict[str, Any] = {"position_ids": position.expand(token.shape), **cache}
    parameters = inspect.signature(model.forward).parameters
    if "cache_position" in parameters:
        extra["cache_position"] = position
    if token.shape[1] > 1 and "logits_to_keep" in parameters:
        extra["logits_to_keep"] = 1

    def step() -> torch.Tensor:
        if counters:
            torch._foreach_copy_(counters, starts)
        logits: torch.Tensor = model(input_ids=token, use_cache=True, **extra).logits
        return logits

    return step


def _counters(cache: Any) -> list[torch.Tensor]:
    """The length counters of the cache's layers, in transformers that keep them as tensors."""
    counters = [getattr(layer, "cumulative_length", None) for layer in cache.layers]
    return [counter for counter in counters if isinstance(counter, torch.Tensor)]


def _state(cache: Any) -> tuple[torch.Tensor, ...]:
    tensors = [value for layer in cache.layers for value in vars(layer).values() if isinstance(value, torch.Tensor)]
    return tuple(tensors)
