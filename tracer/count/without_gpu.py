"""The user's code, run as if there were a GPU and without one: what it asks of CUDA it gets on the meta device.

A tensor on the meta device has a shape and no memory. Whatever needs a value raises, and ``reason`` tells the line.
Parameters go there as modules are made, wherever those are: a model of any size is built in no time, in no memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NoReturn

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

_SET_DATA: Final = torch.Tensor.data.__set__  # type: ignore[attr-defined]
_INTO_NOTHING: Final = "for .*: copying from a non-meta parameter"
"""How torch's warning begins that a checkpoint is read into parameters without memory: that is meant."""


class OnMeta(TorchFunctionMode):
    """Every call that names a CUDA device gets the meta device; memory is never pinned."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _moved(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func == _SET_DATA and args[0].is_meta:
            return func(args[0], args[1].to("meta"))
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return func(*map(_moved, args), **kwargs)


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("meta") if value.type == "cuda" else value
    return "meta" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


class _Parameters:
    """``nn.Module.register_parameter`` that puts each parameter on the meta device; one that is shared stays shared."""

    def __init__(self) -> None:
        self._register: Callable[..., None] = torch.nn.Module.register_parameter
        self._moved = WeakIdKeyDictionary()

    def register(self, module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        self._register(module, name, param if type(param) is not torch.nn.Parameter else self._on_meta(param))

    def _on_meta(self, param: torch.nn.Parameter) -> torch.nn.Parameter:
        if param.is_meta:
            return param
        moved: torch.nn.Parameter | None = self._moved.get(param)  # type: ignore[no-untyped-call]
        if moved is None:
            moved = torch.nn.Parameter(param.detach().to("meta"), requires_grad=param.requires_grad)
            self._moved[param] = moved
        return moved


@contextmanager
def without_gpu() -> Iterator[None]:
    """Inside, CUDA seems to be there, and calls that reach it raise RuntimeError."""
    default: Callable[..., None] = torch.set_default_device
    parameters = _Parameters()

    def register(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        parameters.register(module, name, param)

    with ExitStack() as stack:
        for owner, name, value in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "device_count", lambda: 1),
            (torch.cuda, "current_device", lambda: 0),
            (torch.cuda, "_lazy_init", _refuse),
            (torch, "set_default_device", lambda device: default(_moved(device))),
            (torch.nn.Module, "register_parameter", register),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", _INTO_NOTHING)
        stack.enter_context(OnMeta())
        yield


def _refuse() -> NoReturn:
    raise RuntimeError("a call to CUDA itself")
