"""The operators of one step on the meta device: what each would launch, read, write and compute on a GPU.

The user's code runs as if there were a GPU, and gets the meta device for it: a tensor there has a shape and no memory,
and whatever needs a value raises.

A dispatch mode sees what operators come down to. Attention and the RMS norm are one kernel each on CUDA and come down
to a dozen operators here: they are counted where they are called. A function mode sees calls by whatever name; it is
switched off within a call that it passes on, as of ``multi_head_attention_forward``, so ``torch.nn.functional`` itself
holds stand-ins, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NoReturn

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakIdKeyDictionary

from ...analysis.model.counted_step import ATTENTION, COPY, ELEMENTWISE, MATRIX, OTHER, REDUCTION, CountedOp
from ..target.options import short_dtype

META: Final = torch.device("meta")

_MATRIX: Final = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_grouped_mm", "_scaled_grouped_mm", "_int_mm",
                  "_weight_int4pack_mm", "_weight_int8pack_mm", "convolution", "addmv", "mv", "dot")  # fmt: skip
_REDUCTIONS: Final = ("mean", "sum", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "norm",
                      "linalg_vector_norm", "var", "var_mean", "std", "std_mean", "logsumexp", "_softmax",
                      "_log_softmax", "_safe_softmax", "native_layer_norm", "native_group_norm", "_fused_rms_norm",
                      "cumsum", "cumprod")  # fmt: skip
_CALLED_AS_THEY_ARE: Final = ("sort", "topk", "multinomial", "kthvalue", "searchsorted", "histc")
_ATTENTION: Final = ("_scaled_dot_product_", "_flash_attention_forward", "_efficient_attention_forward",
                     "_cudnn_attention_forward")  # fmt: skip

_LAUNCH_NOTHING: Final = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
                          "_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "_reshape_alias",
                          "lift_fresh", "detach", "detach_", "alias", "resize_", "set_", "_efficientzerotensor",
                          "_pin_memory", "is_pinned")  # fmt: skip
"""Beside views: they allocate, or change what a tensor says about its memory."""

_CLONE_FIRST: Final = ("masked_fill", "masked_scatter", "index_copy", "index_put", "index_fill", "index_add", "scatter",
                       "scatter_add", "slice_scatter", "select_scatter")  # fmt: skip
"""Two launches: out of place, these copy their first tensor and then write into the copy (ATen's own definition)."""
_TWO_LAUNCHES: Final = ("topk", "baddbmm")
"""topk finds the values and then sorts them (ATen's TensorTopK.cu); baddbmm copies what it adds to at first."""

_GATHERS: Final = ("embedding", "index", "index_select", "gather", "take")
"""Of their first tensor they read only what they return."""
_WRITES_INTO: Final = ("index_copy_", "index_put_", "index_fill_", "scatter_", "masked_fill_", "copy_")
"""Of their first tensor they read nothing, and write as much as the others hold."""
_WITHOUT_META: Final = {torch.ops.aten._weight_int4pack_mm.default: lambda x, weight, *_: (len(x), 8 * len(weight))}
"""Shapes of what operators return whose own answer for the meta device fails (torch 2.13); a tile has 8 rows."""
_FILLS: Final = ("fill_", "zero_", "normal_", "uniform_", "exponential_", "random_", "bernoulli_")
"""They write their first tensor without reading it."""


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each operator that launches something. What is copied to the host is told as unknown there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[CountedOp] = []
        self._unknown: dict[int, torch.UntypedStorage] = {}  # memory of the host that would hold what the GPU wrote

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        self._refuse_unknown(func, given)
        result = self._to_host(func, args, kwargs, given)
        if result is None and func in _WITHOUT_META and given[0].device == META:
            result = given[0].new_empty(_WITHOUT_META[func](*args))
        elif result is None:
            result = func(*args, **kwargs)
        returned = _tensors(result)
        if any(tensor.device == META for tensor in (*given, *returned)) and not launches_nothing(func, given, returned):
            self.ops.append(counted(func, args, kwargs, given, returned, result))
        return result

    def add(self, name: str, kind: str, tensors: list[torch.Tensor], flops: int = 0) -> None:
        """One operator that is not dispatched as such."""
        dtype = short_dtype(tensors[0].dtype) if flops else None
        moved = sum(distinct_bytes(tensor) for tensor in tensors)
        self.ops.append(CountedOp(operator=f"aten::{name}", kind=kind, bytes=moved, flops=flops, dtype=dtype))

    def _to_host(self, func: Any, args: Any, kwargs: Any, given: list[torch.Tensor]) -> Any:
        """What a copy to the host returns, null for all else: it can be launched, but what it brings isn't known."""
        name = func._schema.name
        if name == "aten::copy_" and given[0].device != META and given[1].device == META:
            storage = given[0].untyped_storage()
            self._unknown[storage.data_ptr()] = storage
            return given[0]
        if name == "aten::_to_copy" and given[0].device == META and kwargs.get("device", META) != META:
            return func(*args, **{**kwargs, "device": META, "pin_memory": False})  # refuses to be read, as it should
        return None

    def _refuse_unknown(self, func: Any, given: list[torch.Tensor]) -> None:
        if func._schema.name == "aten::_local_scalar_dense":
            tensor = given[0]
            if tensor.device != META and tensor.untyped_storage().data_ptr() in self._unknown:
                raise RuntimeError("a value that the GPU would have written is not known")


def launches_nothing(func: Any, given: list[torch.Tensor], returned: list[torch.Tensor]) -> bool:
    """Views, allocations, questions about a tensor, and whatever has no element to work on."""
    if func.is_view or _name(func) in _LAUNCH_NOTHING or not (returned or func._schema.is_mutable):
        return True
    return all(tensor.numel() == 0 for tensor in (*given, *returned))


def counted(
    func: Any, args: Any, kwargs: Any, given: list[torch.Tensor], returned: list[torch.Tensor], result: Any
) -> CountedOp:
    kind = _kind(func, kwargs, given, returned)
    flops = 0
    if func in _WITHOUT_META:
        flops = 2 * result.numel() * int(given[0].shape[1])
    elif kind in (MATRIX, ATTENTION) and func._overloadpacket in flop_registry:
        flops = int(flop_registry[func._overloadpacket](*args, **kwargs, out_val=result))
    operands = [tensor for tensor in given if tensor.is_floating_point()]
    return CountedOp(
        operator=func._schema.name,
        kind=kind,
        launches=2 if _name(func) in (*_CLONE_FIRST, *_TWO_LAUNCHES) else 1,
        bytes=_moved(func, args, kwargs, returned),
        flops=flops,
        dtype=short_dtype(operands[-1].dtype) if flops and operands else None,
        product=_product(func, given),
    )


def _kind(func: Any, kwargs: Any, given: list[torch.Tensor], returned: list[torch.Tensor]) -> str:
    name = _name(func)
    if func.namespace != "aten" or name in _CALLED_AS_THEY_ARE:
        return OTHER
    if name in ("copy_", "_to_copy"):
        devices = {tensor.device for tensor in (*given, *returned)} | {kwargs.get("device") or META}
        return ELEMENTWISE if devices == {META} else COPY
    if name in _MATRIX:
        return MATRIX
    if name.startswith(_ATTENTION):
        return ATTENTION
    return REDUCTION if name in _REDUCTIONS else ELEMENTWISE


def _product(func: Any, given: list[torch.Tensor]) -> tuple[int, int, int] | None:
    if _name(func) not in ("mm", "addmm"):
        return None
    left, right = given[-2:]
    return int(left.shape[0]), int(right.shape[1]), int(left.shape[1])


def _moved(func: Any, args: Any, kwargs: Any, returned: list[torch.Tensor]) -> int:
    """Bytes read and written."""
    name = _name(func)
    written = sum(map(distinct_bytes, returned))
    read = [tensor for key, value in kwargs.items() if key != "out" for tensor in _tensors(value)]
    first, *others = [*_tensors(args), *read] or [None]  # type: ignore[list-item]
    rest = sum(map(distinct_bytes, others))
    if first is None or name in _FILLS:
        return written
    if name in _GATHERS:
        return written + rest + written
    if name in _WRITES_INTO:
        source = distinct_bytes(others[-1]) if others else written
        return rest + min(source, written)
    return distinct_bytes(first) + rest + written


def distinct_bytes(tensor: torch.Tensor) -> int:
    """Of a tensor; an expanded dimension (stride 0) counts once."""
    count = tensor.itemsize
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= int(size) if stride or not size else 1
    return count


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _name(func: Any) -> str:
    """Without its namespace: 'mm'."""
    return str(func._schema.name).partition("::")[2]


@contextmanager
def counting_calls(counting: Counting) -> Iterator[None]:
    """Inside, ``counting`` counts what is dispatched, and attention and the RMS norm where they are called."""
    with ExitStack() as stack:
        for function in _COUNTED_CALLS:
            stack.callback(setattr, functional, function.__name__, function)
            setattr(functional, function.__name__, _stand_in(counting, function))
        stack.enter_context(_CountsCalls(counting))
        stack.enter_context(counting)
        yield


class _CountsCalls(TorchFunctionMode):
    """Counts attention and the RMS norm as one operator each, and copies that are not dispatched."""

    def __init__(self, counting: Counting) -> None:
        super().__init__()
        self._counting = counting

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = _stand_in(self._counting, func)(*args, **kwargs) if func in _COUNTED_CALLS else func(*args, **kwargs)
        if func in _FROM_PYTHON and result.device == META and not isinstance(_first(args, kwargs), torch.Tensor):
            self._counting.add("copy_", COPY, [result])
        return result


def _stand_in(counting: Counting, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted_call(*args: Any, **kwargs: Any) -> Any:
        if _first(args, kwargs).device != META:
            return function(*args, **kwargs)
        return _COUNTED_CALLS[function](counting, *args, **kwargs)

    return counted_call


def _attention(
    counting: Counting,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    *_: Any,
    **__: Any,
) -> torch.Tensor:
    """One call of attention. A mask of truth values is turned into one of numbers first, by three launches more."""
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


_COUNTED_CALLS: Final[dict[Callable[..., Any], Callable[..., torch.Tensor]]] = {
    functional.scaled_dot_product_attention: _attention,
    **({functional.rms_norm: _rms_norm} if hasattr(torch.ops.aten, "_fused_rms_norm") else {}),
}
_FROM_PYTHON: Final = (torch.tensor, torch.as_tensor)


def _first(args: Any, kwargs: Any) -> Any:
    return args[0] if args else next(iter(kwargs.values()))


_SET_DATA: Final = torch.Tensor.data.__set__  # type: ignore[attr-defined]
_INTO_NOTHING: Final = "for .*: copying from a non-meta parameter"
"""How torch's warning begins that a checkpoint is read into parameters without memory: that is meant."""


class OnMeta(TorchFunctionMode):
    """Every call that names a CUDA device gets the meta device; memory is never pinned."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _device_moved(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func == _SET_DATA and args[0].is_meta:
            return func(args[0], args[1].to("meta"))
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return func(*map(_device_moved, args), **kwargs)


def _device_moved(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("meta") if value.type == "cuda" else value
    return "meta" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


@contextmanager
def without_gpu() -> Iterator[None]:
    """Inside, CUDA seems to be there, and calls that reach it raise RuntimeError.

    Parameters go to the meta device as modules are made, wherever those are: a model of any size is built in no time.
    """
    default: Callable[..., None] = torch.set_default_device
    register: Callable[..., None] = torch.nn.Module.register_parameter
    on_meta = WeakIdKeyDictionary()  # a parameter that is shared stays shared

    def register_on_meta(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        if type(param) is torch.nn.Parameter and not param.is_meta:
            if param not in on_meta:
                on_meta[param] = torch.nn.Parameter(param.detach().to("meta"), requires_grad=param.requires_grad)
            param = on_meta[param]
        register(module, name, param)

    with ExitStack() as stack:
        for owner, name, value in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "device_count", lambda: 1),
            (torch.cuda, "current_device", lambda: 0),
            (torch.cuda, "_lazy_init", _refuse),
            (torch, "set_default_device", lambda device: default(_device_moved(device))),
            (torch.nn.Module, "register_parameter", register_on_meta),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", _INTO_NOTHING)
        stack.enter_context(OnMeta())
        yield


def _refuse() -> NoReturn:
    raise RuntimeError("a call to CUDA itself")
