"""Perfetto packets: the tracks, slices and counters of one trace as one packet sequence.

Names are interned in the sequence's head and timestamps are differences on a clock of its own, so events are written
in time order; one costs about 20 bytes. Formats: https://perfetto.dev/docs/reference/trace-packet-proto and
https://perfetto.dev/docs/concepts/clock-sync (sequence-scoped, incremental clocks)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
    BuiltinClock,
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import TraceProtoBuilder  # type: ignore[import-untyped]

from ..trace import Ints
from .lanes import Lane

DELTA_CLOCK: Final = 64  # the first of the clock ids that belong to one sequence

Interned = Literal["event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values"]
"""The fields of InternedData that are used."""


@dataclass(frozen=True, eq=False)
class Slices:
    """Slices to draw: an entry per slice in every column. Notes are debug annotations; None leaves one out."""

    start_ns: Ints
    end_ns: Ints
    name: Sequence[str]
    category: Sequence[str]
    numbers: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    flows: Mapping[int, Sequence[int]] = field(default_factory=dict)  # slice → flows that start or go on there
    ends_flow: Mapping[int, int] = field(default_factory=dict)  # slice → the flow that ends there


_Note = tuple[int, str, Sequence[int | None]]
"""(iid of its name, field of DebugAnnotation, what to put there for each slice)"""


class _Source(Protocol):
    """The events of one track, in time order."""

    time_ns: Ints

    def write(self, event: int, packet: Any) -> None:
        """Fill the packet, but for its timestamp."""


class PacketSequence:
    """The packets of one trace, gathered track by track. Its times are moved by ``shift_ns``; durations stay.

    ``zero_ns`` is the base of the clock: not after any moved time, and the same in all sequences of a file.
    ``uuids`` numbers the tracks of the file.
    """

    def __init__(self, sequence_id: int, uuids: Iterator[int], *, zero_ns: int, shift_ns: int) -> None:
        self._id = sequence_id
        self._uuids = uuids
        self._zero_ns = zero_ns
        self._shift_ns = shift_ns
        self._interned: dict[Interned, dict[str, int]] = {}
        self._notes_of: dict[Slices, list[_Note]] = {}
        self._tracks: list[Any] = []
        self._sources: list[_Source] = []

    def group(self, name: str, parent: int | None = None, description: str = "") -> int:
        """A track that holds others, in the order in which they are added; returns its uuid."""
        return int(self._track(name, parent, description).uuid)

    def slices(self, name: str, parent: int, slices: Slices, lanes: Sequence[Lane], description: str = "") -> None:
        """A track of slices; further lanes are tracks of the same name, which the viewer shows as one."""
        for lane in lanes:
            track = self._track(name, parent, description)
            track.sibling_merge_behavior = TrackDescriptor.SIBLING_MERGE_BEHAVIOR_BY_TRACK_NAME
            self._sources.append(_SliceSource(self, track.uuid, slices, lane))

    def counter(self, name: str, parent: int, time_ns: Ints, value: Ints, description: str = "") -> None:
        """A counter; a value holds until the next one's time. Times in order."""
        track = self._track(name, parent, description)
        track.counter.unit = CounterDescriptor.UNIT_COUNT
        self._sources.append(_CounterSource(self, track.uuid, time_ns, value))

    def iid(self, kind: Interned, text: str) -> int:
        """The number that stands for a text in this sequence."""
        known = self._interned.setdefault(kind, {})
        return known.setdefault(text, len(known) + 1)  # 0 is not a valid iid

    def notes(self, slices: Slices) -> list[_Note]:
        """The notes of a table as debug annotations; interned once, however many tracks show the table."""
        if slices not in self._notes_of:
            notes: list[_Note] = []
            for name, numbers in slices.numbers.items():
                notes.append((self.iid("debug_annotation_names", name), "int_value", numbers))
            for name, texts in slices.texts.items():
                iids = [None if t is None else self.iid("debug_annotation_string_values", t) for t in texts]
                notes.append((self.iid("debug_annotation_names", name), "string_value_iid", iids))
            self._notes_of[slices] = notes
        return self._notes_of[slices]

    def event(self, kind: int, track: int) -> Any:
        """A packet with an event of the track, to copy and complete."""
        packet = self._packet()
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def serialize(self) -> bytes:
        """The sequence as a file of its own; files may be joined end to end."""
        builder = TraceProtoBuilder()
        for head in (self._clock(), self._names(), *self._tracks):
            builder.add_packet().CopyFrom(head)
        times = [source.time_ns for source in self._sources]
        time_ns = np.concatenate([np.empty(0, dtype=np.int64), *times])
        order = np.argsort(time_ns, kind="stable")  # at one time a track's events keep their order
        delta_ns = np.diff(time_ns[order] + self._shift_ns, prepend=self._zero_ns)
        source_of = np.repeat(np.arange(len(times)), [len(t) for t in times])[order]
        event_of = np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(len(t)) for t in times)])[order]
        for source, event, delta in zip(source_of.tolist(), event_of.tolist(), delta_ns.tolist(), strict=True):
            packet = builder.add_packet()
            self._sources[source].write(event, packet)
            packet.timestamp = delta
        return bytes(builder.serialize())

    def _packet(self) -> Any:
        packet = TracePacket()
        packet.trusted_packet_sequence_id = self._id
        packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return packet

    def _track(self, name: str, parent: int | None, description: str) -> Any:
        packet = self._packet()
        track = packet.track_descriptor
        track.uuid = next(self._uuids)
        track.name = name
        if description:
            track.description = description
        if parent is not None:
            track.parent_uuid = parent
        track.child_ordering = TrackDescriptor.EXPLICIT
        track.sibling_order_rank = len(self._tracks)
        track.sibling_merge_behavior = TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
        self._tracks.append(packet)
        return track

    def _clock(self) -> Any:
        """The first packet: forgets what an earlier sequence of this id said, and starts the clock."""
        packet = self._packet()
        packet.first_packet_on_sequence = True
        packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.trace_packet_defaults.timestamp_clock_id = DELTA_CLOCK
        clocks = packet.clock_snapshot.clocks
        clocks.add(clock_id=BuiltinClock.BUILTIN_CLOCK_BOOTTIME, timestamp=self._zero_ns)
        clocks.add(clock_id=DELTA_CLOCK, timestamp=self._zero_ns, is_incremental=True)
        return packet

    def _names(self) -> Any:
        packet = self._packet()
        for kind, texts in self._interned.items():
            entries = getattr(packet.interned_data, kind)
            for text, iid in texts.items():
                if kind == "debug_annotation_string_values":
                    entries.add(iid=iid, str=text.encode())
                else:
                    entries.add(iid=iid, name=text)
        return packet


class _SliceSource:
    """One lane of slices. An event is a copy of its name's and category's packet, completed with notes and flows."""

    def __init__(self, sequence: PacketSequence, track: int, slices: Slices, lane: Lane) -> None:
        end_ns = np.maximum(slices.end_ns, slices.start_ns)  # a record that ends before it starts is drawn as a point
        self.time_ns = np.where(lane.opens, slices.start_ns[lane.row], end_ns[lane.row])
        self._slices = slices
        self._row: list[int] = lane.row.tolist()
        self._opens: list[bool] = lane.opens.tolist()
        self._notes = sequence.notes(slices)
        end = sequence.event(TrackEvent.TYPE_SLICE_END, track)
        begins: dict[tuple[str, str], Any] = {}
        self._outline = [end] * len(self._row)
        for event in np.flatnonzero(lane.opens).tolist():
            row = self._row[event]
            key = slices.name[row], slices.category[row]
            if key not in begins:
                begins[key] = sequence.event(TrackEvent.TYPE_SLICE_BEGIN, track)
                begins[key].track_event.name_iid = sequence.iid("event_names", key[0])
                begins[key].track_event.category_iids.append(sequence.iid("event_categories", key[1]))
            self._outline[event] = begins[key]

    def write(self, event: int, packet: Any) -> None:
        packet.CopyFrom(self._outline[event])
        if not self._opens[event]:
            return
        row, slices, track_event = self._row[event], self._slices, packet.track_event
        notes = track_event.debug_annotations
        for name_iid, field_name, column in self._notes:
            if (value := column[row]) is not None:
                notes.add(**{"name_iid": name_iid, field_name: value})
        if row in slices.flows:
            track_event.flow_ids.extend(slices.flows[row])
        if row in slices.ends_flow:
            track_event.terminating_flow_ids.append(slices.ends_flow[row])


class _CounterSource:
    """One counter."""

    def __init__(self, sequence: PacketSequence, track: int, time_ns: Ints, value: Ints) -> None:
        self.time_ns = time_ns
        self._value: list[int] = value.tolist()
        self._event = sequence.event(TrackEvent.TYPE_COUNTER, track)

    def write(self, event: int, packet: Any) -> None:
        packet.CopyFrom(self._event)
        packet.track_event.counter_value = self._value[event]
