"""Protobuf messages by columns: one field of many messages at a time, in numpy.

Wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.trace import Bools, Ints

Bytes = NDArray[np.uint8]

_VARINT: Final = 0  # wire types
_FIXED64: Final = 1
_LENGTH: Final = 2


class Part(NamedTuple):
    """A piece of each of n messages; pieces are strung together in ``joined``."""

    bytes: Bytes  # [n, width]
    length: Ints  # [n] bytes that count, from the left; 0 where a message lacks the piece

    def where(self, present: Bools) -> Part:
        """The piece in these messages only."""
        return Part(self.bytes, np.where(present, self.length, 0))


def same(data: bytes, count: int) -> Part:
    """The same bytes in each of ``count`` messages."""
    piece = np.frombuffer(data, np.uint8)
    return Part(np.broadcast_to(piece, (count, len(piece))), np.full(count, len(piece)))


def varint_field(number: int, values: Ints) -> Part:
    """A field of type int64, uint64 or enum."""
    return _tagged(number, _VARINT, _varints(values))


def fixed64_field(number: int, values: Ints) -> Part:
    """A field of type fixed64."""
    data = np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(len(values), 8)
    return _tagged(number, _FIXED64, Part(data, np.full(len(values), 8)))


def message_head(number: int, size: Ints) -> Part:
    """What stands before a message of this many bytes that is itself a field."""
    return _tagged(number, _LENGTH, _varints(size))


def tag(number: int, wire_type: int) -> bytes:
    """What stands before a field's value."""
    return varint(number << 3 | wire_type)


def varint(value: int) -> bytes:
    """One number ≥ 0."""
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def size_of(parts: Sequence[Part]) -> Ints:
    """[n] bytes of each message."""
    size = parts[0].length.astype(np.int64)
    for part in parts[1:]:
        size += part.length
    return size


def joined(parts: Sequence[Part]) -> bytes:
    """The messages one after the other, each made of its pieces in this order."""
    edges = [0, *accumulate(part.bytes.shape[1] for part in parts)]
    data = np.empty((len(parts[0].length), edges[-1]), np.uint8)
    counts = np.empty(data.shape, np.bool_)
    for part, begin, end in zip(parts, edges, edges[1:], strict=False):
        data[:, begin:end] = part.bytes
        counts[:, begin:end] = np.arange(end - begin) < part.length[:, np.newaxis]
    return data[counts].tobytes()


def _tagged(number: int, wire_type: int, value: Part) -> Part:
    head = np.frombuffer(tag(number, wire_type), np.uint8)
    heads = np.broadcast_to(head, (len(value.length), len(head)))
    return Part(np.concatenate([heads, value.bytes], axis=1), value.length + len(head))


def _varints(values: Ints) -> Part:
    """Seven bits a byte, the lowest first; all but the last byte with the eighth bit set. Negative ones take ten."""
    left = values.astype(np.uint64)
    width = max((int(left.max(initial=0)).bit_length() + 6) // 7, 1)
    data = np.empty((len(left), width), np.uint8)
    length = np.ones(len(left), np.int64)
    for place in range(width):
        data[:, place] = left & 0x7F
        left >>= np.uint64(7)
        more = left > 0
        data[more, place] |= 0x80
        length += more
    return Part(data, length)
