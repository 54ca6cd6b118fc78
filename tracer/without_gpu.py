"""The user's code, run as if there were a GPU and without one: what it asks of CUDA it gets on the meta device.

A tensor on the meta device has a shape and no memory. Whatever needs a value raises, and ``reason`` tells the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode


class OnMeta(TorchFunctionMode):
    """Every call that names a CUDA device gets the meta device; memory is never pinned."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _moved(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        if func is torch.Tensor.pin_memory:
            return args[0]
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return func(*map(_moved, args), **kwargs)


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("meta") if value.type == "cuda" else value
    return "meta" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


@contextmanager
def without_gpu() -> Iterator[None]:
    """Inside, CUDA seems to be there, and calls that reach it raise RuntimeError."""
    default: Callable[..., None] = torch.set_default_device
    with ExitStack() as stack:
        for name, value in (("is_available", True), ("device_count", 1), ("current_device", 0)):
            stack.enter_context(mock.patch.object(torch.cuda, name, lambda value=value: value))
        stack.enter_context(mock.patch.object(torch.cuda, "_lazy_init", _refuse))
        stack.enter_context(mock.patch.object(torch, "set_default_device", lambda device: default(_moved(device))))
        stack.enter_context(OnMeta())
        yield


def _refuse() -> NoReturn:
    raise RuntimeError("a call to CUDA itself: there is no GPU in a prediction")
