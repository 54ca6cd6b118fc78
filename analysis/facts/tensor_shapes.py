"""Tensors as a profiler describes them, by dimensions and type, and what an operator makes of them.

No file says which tensor an input is: only its dimensions and its type. What an operator writes is worked out from
its inputs, by the rules of ATen; None where they don't tell.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

Dims = tuple[int, ...]

BYTES_OF: Final = {
    "double": 8,
    "long int": 8,
    "long": 8,
    "c10::complex<float>": 8,
    "float": 4,
    "int": 4,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "short": 2,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
}
"""Bytes of an element, by the type's name in C++, as torch.profiler writes it."""

# fmt: off
ELEMENTWISE: Final = frozenset({
    "abs", "add", "add_", "addcdiv", "addcmul", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "__and__", "__lshift__", "__or__", "__rshift__", "ceil", "clamp",
    "clamp_", "clamp_max", "clamp_min", "copy_", "cos", "div", "div_", "eq", "erf", "exp", "exp_", "floor",
    "floor_divide", "ge", "gelu", "gt", "hardswish", "isnan", "le", "leaky_relu", "lerp", "log", "log1p",
    "logical_and", "logical_not", "logical_or", "lt", "masked_fill", "masked_fill_", "maximum", "minimum",
    "mul", "mul_", "ne", "neg", "neg_", "pow", "reciprocal", "relu", "relu_", "remainder", "round", "round_",
    "rsqrt", "rsub", "sigmoid", "sign", "silu", "silu_", "sin", "softplus", "sqrt", "square", "sub", "sub_",
    "tanh", "trunc", "where",
})
# fmt: on
"""Operators of ATen that work element by element, as they launch."""

_FLOATS: Final = ("c10::Half", "c10::BFloat16", "float", "double")
_WHOLE: Final = ("bool", "unsigned char", "signed char", "short", "int", "long int")
PACKED_PRODUCTS: Final = ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu", "_weight_int8pack_mm")
"""Products of rows with weights of fewer bits, which they read as they are."""

_LIST: Final = "TensorList"
_MOST_ELEMENTS: Final = 2**48
_COMPARISONS: Final = {"lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not", "isnan", "isin"}
_LAST_DIMENSION: Final = {"mean", "sum", "amax", "amin", "prod", "norm", "linalg_vector_norm", "var", "std"}
_KEEPS: Final = {"_softmax", "softmax", "cumsum", "_log_softmax", "sort", "native_layer_norm", "_fused_rms_norm"}


class Tensor(NamedTuple):
    """One input or output."""

    dims: Dims
    type: str | None  # None where the file doesn't tell, as of the tensors in a list

    @property
    def numel(self) -> int:
        return math.prod(self.dims)

    @property
    def width(self) -> int:
        """Its last dimension; 1 for a scalar."""
        return self.dims[-1] if self.dims else 1

    @property
    def bytes(self) -> int | None:
        """None for a type of unknown size."""
        size = BYTES_OF.get(self.type or "")
        return None if size is None else size * self.numel


Input = Tensor | tuple[Tensor, ...] | None
"""A tensor, a list of tensors, or something else."""


def inputs_of(text: str) -> tuple[Input, ...]:
    """The inputs that a text of Trace.shapes tells of; none where it can't be read."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError, ValueError):
        match msgspec.json.decode(text):
            case [list(dims), list(types)]:
                padded = [*types, *[None] * (len(dims) - len(types))]
                return tuple(_input(sizes, kind) for sizes, kind in zip(dims, padded, strict=False))
    return ()


def _input(dims: Any, kind: Any) -> Input:
    kind = kind if isinstance(kind, str) else None
    if _is_dims(dims):
        return Tensor(tuple(dims), kind) if kind in BYTES_OF else None
    if kind == _LIST and isinstance(dims, list) and all(map(_is_dims, dims)):
        return tuple(Tensor(tuple(sizes), None) for sizes in dims)
    return None


def _is_dims(dims: Any) -> bool:
    """Sizes, of no more elements than a GPU's memory could hold."""
    is_list = isinstance(dims, list) and all(type(size) is int and 0 <= size <= _MOST_ELEMENTS for size in dims)
    return is_list and math.prod(dims) <= _MOST_ELEMENTS


def broadcast(shapes: Sequence[Dims]) -> Dims | None:
    """The dimensions of an operator on all of these, element by element; None where they don't fit."""
    found: list[int] = []
    for place in range(max(map(len, shapes), default=0)):
        sizes = {shape[-1 - place] for shape in shapes if place < len(shape)} - {1}
        if len(sizes) > 1:
            return None
        found.append(sizes.pop() if sizes else 1)
    return tuple(reversed(found))


def promoted(types: Sequence[str | None]) -> str | None:
    """The type of a result of these; None where one is unknown. Two different halves make a float."""
    kinds = set(types)
    if None in kinds or not kinds:
        return None
    floats = [kind for kind in _FLOATS if kind in kinds]
    if len(floats) > 1:
        return "float" if floats[-1] in ("c10::Half", "c10::BFloat16") else floats[-1]
    if floats:
        return floats[0]
    whole = [kind for kind in _WHOLE if kind in kinds]
    return whole[-1] if whole and len(whole) == len(kinds) else None


def output_of(name: str, inputs: Sequence[Input]) -> Tensor | None:
    """What an operator of ATen (without ``aten::``) writes; None where dimensions and types don't tell."""
    tensors = [given for given in inputs if isinstance(given, Tensor)]
    lists = [given for given in inputs if isinstance(given, tuple) and not isinstance(given, Tensor)]
    if name == "cat" and lists and lists[0]:
        return _joined(lists[0])
    if not tensors:
        return None
    if name.endswith("_") and not name.startswith("_"):
        return tensors[0]
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        return matrix_product(name, tensors)
    if name in PACKED_PRODUCTS:
        return _packed_product(tensors)
    if name in _KEEPS:
        return tensors[0]
    if name in _LAST_DIMENSION:
        return Tensor((*tensors[0].dims[:-1], 1), tensors[0].type)
    return _by_element(name, tensors) if name in ELEMENTWISE else None


def matrix_product(name: str, tensors: Sequence[Tensor]) -> Tensor | None:
    """What a product of matrices writes: the last two tensors, for addmm and baddbmm behind what is added."""
    if len(tensors) < 2:
        return None
    left, right = tensors[1:3] if name in ("addmm", "baddbmm") and len(tensors) > 2 else tensors[:2]
    if len(left.dims) < 2 or len(left.dims) != len(right.dims) or left.dims[-1] != right.dims[-2]:
        return None
    return Tensor((*left.dims[:-1], right.dims[-1]), left.type)


def _packed_product(tensors: Sequence[Tensor]) -> Tensor | None:
    """What a product with packed weights writes: its columns are told by their scales, [n], or [groups, n, 2]."""
    rows, scales = tensors[0], tensors[-1]
    columns = scales.dims[1] if len(scales.dims) == 3 else scales.width
    return Tensor((*rows.dims[:-1], columns), rows.type) if len(tensors) > 2 else None


def _joined(parts: Sequence[Tensor]) -> Tensor | None:
    """Tensors side by side, along the last dimension where all are alike: the file does not tell which."""
    if len({part.dims for part in parts}) > 1 or not parts[0].dims:
        return None
    return Tensor((*parts[0].dims[:-1], parts[0].dims[-1] * len(parts)), parts[0].type)


def _by_element(name: str, tensors: Sequence[Tensor]) -> Tensor | None:
    dims = broadcast([tensor.dims for tensor in tensors])
    if dims is None:
        return None
    if name == "where":
        return Tensor(dims, tensors[-1].type)
    several = [tensor for tensor in tensors if tensor.dims] or tensors  # a scalar doesn't promote
    return Tensor(dims, "bool" if name in _COMPARISONS else promoted([tensor.type for tensor in several]))
