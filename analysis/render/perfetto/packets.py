"""Perfetto packets: the tracks, slices and counters of one trace as one packet sequence, written as a stream.

Names are interned, and a track's times are differences: a clock of the sequence's own starts anew where a track begins.
An event costs about 20 bytes. Formats: https://perfetto.dev/docs/reference/trace-packet-proto and
https://perfetto.dev/docs/concepts/clock-sync (sequence-scoped, incremental clocks)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
    BuiltinClock,
    CounterDescriptor,
    DebugAnnotation,
    Trace,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)

from ...model.trace import NONE, Bools, Ints
from .lanes import Lane

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


ABSENT: Final = int(np.iinfo(np.int64).min)
"""In a column of numbers: the slice has none."""

DELTA_CLOCK: Final = 64  # the first of the clock ids that belong to one sequence
EVENTS_AT_ONCE: Final = 1 << 13
"""About that many are encoded together: a MB or two, which a core's cache holds."""

_TEXTS_AT_ONCE: Final = 1 << 10  # of one packet of interned names

Interned = Literal["event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values"]
"""The fields of InternedData that are used."""


class Texts(NamedTuple):
    """A text per slice."""

    place: Ints  # in ``of``; NONE leaves it out
    of: Sequence[str]


class Flows(NamedTuple):
    """The flows that start, or go on, at each of n slices."""

    begin: Ints  # [n + 1] slice i has ids[begin[i] : begin[i + 1]]
    ids: Ints


@dataclass(frozen=True, eq=False)
class Slices:
    """Slices to draw: an entry per slice in every column. Numbers and texts become its debug annotations."""

    start_ns: Ints
    end_ns: Ints
    name: Texts
    category: Texts
    numbers: Mapping[str, Ints] = field(default_factory=dict)  # int64; ABSENT leaves one out
    texts: Mapping[str, Texts] = field(default_factory=dict)
    flows: Flows | None = None
    ends_flow: Ints | None = None  # the flow that ends there, or NONE

    def __len__(self) -> int:
        return len(self.start_ns)


class _Note(NamedTuple):
    """One debug annotation of a table's slices."""

    name: bytes  # the field that holds its name
    field: int  # what holds its value
    value: Ints  # ABSENT, or NONE where it stands for a text, leaves it out
    iids: Ints | None  # of the texts that the values stand for


class _Events(NamedTuple):
    """Events of one track, not encoded yet: where slices of a table open or close."""

    head: bytes  # what has to stand before them
    slices: Slices
    row: Ints
    opens: Bools
    delta_ns: Ints


class PacketSequence:
    """The packets of one trace, track by track. Its times are moved by ``shift_ns``; durations stay.

    ``zero_ns`` is the base of the clock: not after any moved time, and the same in all sequences of a file.
    ``uuids`` numbers the tracks of the file. What the methods give makes up a file; files may be joined end to end.
    """

    def __init__(self, sequence_id: int, uuids: Iterator[int], *, zero_ns: int, shift_ns: int) -> None:
        self._id = sequence_id
        self._uuids = uuids
        self._zero_ns = zero_ns
        self._shift_ns = shift_ns
        self._tracks = 0
        self._interned: dict[Interned, dict[str, int]] = {}
        self._unwritten: dict[Interned, dict[str, int]] = {}
        self._tables: WeakKeyDictionary[Slices, tuple[Ints, Ints, list[_Note]]] = WeakKeyDictionary()
        self._heads: list[Any] = [self._first()]
        self._waiting: list[_Events] = []
        self._waiting_edges = 0

    def group(self, name: str, parent: int | None = None, description: str = "") -> int:
        """A track that holds others, in the order in which they are added; returns its uuid."""
        packet = self._track(name, parent, description)
        self._heads.append(packet)
        return int(packet.track_descriptor.uuid)

    def slices(
        self, name: str, parent: int, slices: Slices, lanes: Sequence[Lane], description: str = ""
    ) -> Iterator[bytes]:
        """A track of slices; further lanes are tracks of the same name, which the viewer shows as one."""
        for lane in lanes:
            packet = self._track(name, parent, description)
            packet.track_descriptor.sibling_merge_behavior = TrackDescriptor.SIBLING_MERGE_BEHAVIOR_BY_TRACK_NAME
            self._begin(packet)
            self._intern(slices)
            last_ns = self._zero_ns
            for begin in range(0, len(lane.row), EVENTS_AT_ONCE):
                row, opens = lane.row[begin : begin + EVENTS_AT_ONCE], lane.opens[begin : begin + EVENTS_AT_ONCE]
                # a record that ends before it starts is drawn as a point
                end_ns = np.maximum(slices.end_ns[row], slices.start_ns[row])
                time_ns = np.where(opens, slices.start_ns[row], end_ns) + self._shift_ns
                self._waiting.append(_Events(self._head(), slices, row, opens, np.diff(time_ns, prepend=last_ns)))
                self._waiting_edges += len(row)
                last_ns = int(time_ns[-1])
                if self._waiting_edges >= EVENTS_AT_ONCE:
                    yield from self._encoded()

    def counter(self, name: str, parent: int, time_ns: Ints, value: Ints, description: str = "") -> Iterator[bytes]:
        """A counter; a value holds until the next one's time. Times in order."""
        yield from self._encoded()
        packet = self._track(name, parent, description)
        packet.track_descriptor.counter.unit = CounterDescriptor.UNIT_COUNT
        self._begin(packet)
        yield self._head()
        delta_ns = np.diff(time_ns + self._shift_ns, prepend=self._zero_ns)
        for begin in range(0, len(value), EVENTS_AT_ONCE):
            now = value[begin : begin + EVENTS_AT_ONCE]
            kind = np.full(len(now), TrackEvent.TYPE_COUNTER)
            event = [varint_field(_TYPE, kind), varint_field(_COUNTER_VALUE, now)]
            yield joined(self._packets(delta_ns[begin : begin + EVENTS_AT_ONCE], event, size_of(event)))

    def rest(self) -> Iterator[bytes]:
        """What was not given yet."""
        yield from self._encoded()
        yield self._head()

    def _head(self) -> bytes:
        """What has to stand before the next event, or at the end: tracks, and names that are new."""
        packets, self._heads = [*self._heads, *self._names()], []
        return b"".join(Trace(packet=[packet]).SerializeToString() for packet in packets)

    def _encoded(self) -> Iterator[bytes]:
        """The events that wait, those of one table together, since there may be thousands of tracks with a few each."""
        waiting, self._waiting, self._waiting_edges = self._waiting, [], 0
        of_table: dict[Slices, list[_Events]] = {}
        for events in waiting:
            of_table.setdefault(events.slices, []).append(events)
        encoded = {slices: self._slice_events(slices, alike) for slices, alike in of_table.items()}
        for events in waiting:
            yield events.head
            yield from next(encoded[events.slices])

    def _slice_events(self, slices: Slices, waiting: Sequence[_Events]) -> Iterator[Iterator[bytes]]:
        """For each of these events of one table, packets in which its slices open or close."""
        row, opens, delta_ns = (
            np.concatenate([getattr(events, name) for events in waiting]) for name in ("row", "opens", "delta_ns")
        )
        name, category, notes = self._tables[slices]
        event = [
            varint_field(_TYPE, np.where(opens, TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END)),
            varint_field(_NAME, name[slices.name.place[row]]).where(opens),
            varint_field(_CATEGORY, category[slices.category.place[row]]).where(opens),
        ]
        for note in notes:
            event += _annotation(note, row, opens)
        if slices.ends_flow is not None:
            flow = slices.ends_flow[row]
            event.append(fixed64_field(_ENDS_FLOW, flow).where(opens & (flow != NONE)))
        many, size = np.zeros(0, np.int64), size_of(event)
        if slices.flows is not None:
            begin = slices.flows.begin[row]
            count = np.where(opens, slices.flows.begin[row + 1] - begin, 0)
            event.append(fixed64_field(_FLOW, np.append(slices.flows.ids, 0)[begin]).where(count == 1))
            many = np.flatnonzero(count > 1)
            size = size + count * _FLOW_BYTES
        parts = self._packets(delta_ns, event, size)
        data, edges = joined(parts), np.append(0, np.cumsum(size_of(parts)))

        def with_flows(first: int, until: int) -> Iterator[bytes]:
            """As many flows as GPU ops hang on a graph launch: they follow its other fields."""
            written = int(edges[first])
            for at in many[np.searchsorted(many, first) : np.searchsorted(many, until)].tolist():
                assert slices.flows is not None
                end, flows = int(edges[at + 1]), slices.flows.begin[row[at] : row[at] + 2]
                yield data[written:end]
                yield joined([fixed64_field(_FLOW, slices.flows.ids[slice(*flows.tolist())])])
                written = end
            yield data[written : int(edges[until])]

        starts = np.append(0, np.cumsum([len(events.row) for events in waiting])).tolist()
        yield from (with_flows(first, until) for first, until in pairwise(starts))

    def _packets(self, delta_ns: Ints, event: Sequence[Part], size: Ints) -> list[Part]:
        """Packets of track events, whose ``size`` may be more than what the parts hold."""
        whose = same(self._packet().SerializeToString(), len(delta_ns))
        head = [varint_field(_TIMESTAMP, delta_ns), whose, message_head(_TRACK_EVENT, size)]
        return [message_head(_PACKET, size_of(head) + size), *head, *event]

    def _packet(self) -> Any:
        flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return TracePacket(trusted_packet_sequence_id=self._id, sequence_flags=flags)

    def _track(self, name: str, parent: int | None, description: str) -> Any:
        packet = self._packet()
        track = TrackDescriptor(
            uuid=next(self._uuids),
            parent_uuid=parent,
            name=name,
            description=description or None,
            child_ordering=TrackDescriptor.EXPLICIT,
            sibling_order_rank=self._tracks,
            sibling_merge_behavior=TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE,
        )
        packet.track_descriptor.CopyFrom(track)
        self._tracks += 1
        return packet

    def _begin(self, track: Any) -> None:
        """The events that follow are the track's, their times counted from the clock's base."""
        packet = self._packet()
        self._start_clock(packet)
        packet.trace_packet_defaults.track_event_defaults.track_uuid = track.track_descriptor.uuid
        self._heads += [track, packet]

    def _first(self) -> Any:
        """The first packet: forgets what an earlier sequence of this id said."""
        packet = self._packet()
        packet.first_packet_on_sequence = True
        packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        self._start_clock(packet)
        return packet

    def _start_clock(self, packet: Any) -> None:
        packet.trace_packet_defaults.timestamp_clock_id = DELTA_CLOCK
        clocks = packet.clock_snapshot.clocks
        clocks.add(clock_id=BuiltinClock.BUILTIN_CLOCK_BOOTTIME, timestamp=self._zero_ns)
        clocks.add(clock_id=DELTA_CLOCK, timestamp=self._zero_ns, is_incremental=True)

    def _names(self) -> Iterator[Any]:
        unwritten, self._unwritten = self._unwritten, {}
        for kind, texts in unwritten.items():
            items = list(texts.items())
            for begin in range(0, len(items), _TEXTS_AT_ONCE):
                packet = self._packet()
                entries = getattr(packet.interned_data, kind)
                for text, iid in items[begin : begin + _TEXTS_AT_ONCE]:
                    if kind == "debug_annotation_string_values":
                        entries.add(iid=iid, str=text.encode())
                    else:
                        entries.add(iid=iid, name=text)
                yield packet

    def _iid(self, kind: Interned, text: str) -> int:
        """The number that stands for a text in this sequence."""
        known = self._interned.setdefault(kind, {})
        if text not in known:
            known[text] = len(known) + 1  # 0 is not a valid iid
            self._unwritten.setdefault(kind, {})[text] = known[text]
        return known[text]

    def _iids(self, kind: Interned, texts: Texts) -> Ints:
        """The numbers that stand for the texts of a table, for those that a slice has."""
        used = np.unique(texts.place[texts.place != NONE])
        iids = np.zeros(len(texts.of), np.int64)
        iids[used] = [self._iid(kind, texts.of[place]) for place in used.tolist()]
        return iids

    def _intern(self, slices: Slices) -> None:
        """Give the texts of a table their numbers, once, however many tracks show the table."""
        if slices in self._tables:
            return
        notes = [_Note(self._note_name(name), _INT, number, None) for name, number in slices.numbers.items()]
        for name, texts in slices.texts.items():
            iids = self._iids("debug_annotation_string_values", texts)
            notes.append(_Note(self._note_name(name), _TEXT, texts.place, iids))
        names = self._iids("event_names", slices.name), self._iids("event_categories", slices.category)
        self._tables[slices] = (*names, notes)

    def _note_name(self, name: str) -> bytes:
        return bytes(DebugAnnotation(name_iid=self._iid("debug_annotation_names", name)).SerializeToString())


def _annotation(note: _Note, row: Ints, opens: Bools) -> list[Part]:
    """One note of the slices that have it."""
    value = note.value[row]
    present = opens & (value != (ABSENT if note.iids is None else NONE))
    if not present.any():
        return []
    value = np.where(present, value, 0)
    if note.iids is not None:
        value = note.iids[value]
    parts = [same(note.name, len(row)), varint_field(note.field, value)]
    return [part.where(present) for part in (message_head(_NOTES, size_of(parts)), *parts)]


def _number(message: Any, name: str) -> int:
    return int(message.DESCRIPTOR.fields_by_name[name].number)


_PACKET: Final = _number(Trace, "packet")
_TIMESTAMP: Final = _number(TracePacket, "timestamp")
_TRACK_EVENT: Final = _number(TracePacket, "track_event")
_TYPE: Final = _number(TrackEvent, "type")
_NAME: Final = _number(TrackEvent, "name_iid")
_CATEGORY: Final = _number(TrackEvent, "category_iids")
_NOTES: Final = _number(TrackEvent, "debug_annotations")
_FLOW: Final = _number(TrackEvent, "flow_ids")
_ENDS_FLOW: Final = _number(TrackEvent, "terminating_flow_ids")
_COUNTER_VALUE: Final = _number(TrackEvent, "counter_value")
_INT: Final = _number(DebugAnnotation, "int_value")
_TEXT: Final = _number(DebugAnnotation, "string_value_iid")
_FLOW_BYTES: Final = int(size_of([fixed64_field(_FLOW, np.zeros(1, np.int64))])[0])
