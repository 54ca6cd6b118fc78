"""What one step reads and computes at the least: distinct parameter and cache bytes, FLOPs, seen by dispatch modes."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from ...analysis.model.capture import Floor
from ..target.options import short_dtype
from .device import Step

_GATHERS: Final = {
    torch.ops.aten.embedding.default,
    torch.ops.aten.index_select.default,
    torch.ops.aten.index.Tensor,
    torch.ops.aten.gather.default,
}
"""Operators that read only the rows they return: their first tensor counts with the output's bytes."""
_VIEWS_AND_WRITES: Final = ("index_copy", "index_put", "copy_", "scatter", "slice_scatter", "fill_", "zero_")
"""Operators whose first tensor is written, not read (a KV-cache write)."""


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Two matrix products per query head; torch's own formula refuses grouped heads. The arguments are shapes."""
    batch, heads, queries, size = query
    return int(2 * batch * heads * queries * key[-2] * (size + value[-1]))


_ATTENTION: Final = dict.fromkeys(
    (
        torch.ops.aten._scaled_dot_product_flash_attention,
        torch.ops.aten._scaled_dot_product_efficient_attention,
        torch.ops.aten._scaled_dot_product_cudnn_attention,
        torch.ops.aten._scaled_dot_product_fused_attention_overrideable,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu,
    ),
    _attention_flops,
)


def count_floor(step: Step) -> Floor:
    """Run the step once in eager under dispatch modes. Storage that the step itself allocates is not counted."""
    reads = _Reads()
    with reads, FlopCounterMode(display=False, custom_mapping=_ATTENTION) as flops:
        step()
    dtype = reads.dtypes.most_common(1)
    return Floor(bytes=reads.bytes(), flops=flops.get_total_flops(), dtype=short_dtype(dtype[0][0]) if dtype else None)


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Byte ranges of storage from before the step that its operators read."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._own: dict[int, torch.UntypedStorage] = {}  # kept alive, so that an address is not used twice
        self._ranges: dict[int, set[tuple[int, int]]] = {}  # storage → (first, last + 1) byte of views read
        self._gathered: Counter[int] = Counter()
        self.dtypes: Counter[torch.dtype] = Counter()  # of matrix operands, by bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        inputs = _tensors((args, {name: value for name, value in kwargs.items() if name != "out"}))  # out= is written
        addresses = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
        if not func.is_view:
            self._read(func, inputs, outputs)
        for tensor in outputs:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in addresses and storage.data_ptr() not in self._ranges:
                self._own[storage.data_ptr()] = storage
        return result

    def _read(self, func: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        written = any(word in func._schema.name for word in _VIEWS_AND_WRITES)
        for position, tensor in enumerate(inputs):
            address = tensor.untyped_storage().data_ptr()
            if address in self._own or address == 0 or (written and position == 0):
                continue
            if func in _GATHERS and position == 0:
                self._gathered[address] += sum(t.nbytes for t in outputs)
                continue
            self._ranges.setdefault(address, set()).add(_extent(tensor))
            if tensor.is_floating_point():
                self.dtypes[tensor.dtype] += tensor.nbytes

    def bytes(self) -> int:
        """Distinct bytes: overlapping views of one storage count once, gathered rows where nothing read the whole."""
        whole = sum(_union(ranges) for ranges in self._ranges.values())
        return whole + sum(count for address, count in self._gathered.items() if address not in self._ranges)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First and last + 1 byte of a view within its storage; an expanded (stride 0) dimension reads once."""
    begin = int(tensor.storage_offset())
    reach = sum(
        (int(size) - 1) * int(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 0
    )
    return begin * tensor.itemsize, (begin + reach + 1) * tensor.itemsize if tensor.numel() else begin * tensor.itemsize


def _union(ranges: set[tuple[int, int]]) -> int:
    total, reached = 0, -1
    for begin, end in sorted(ranges):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total
