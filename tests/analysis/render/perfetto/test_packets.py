"""Columns of fields give the bytes that protobuf's own library gives, message by message."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.render.perfetto.packets import (
    fixed64_field,
    joined,
    message_head,
    same,
    size_of,
    varint_field,
)
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
    DebugAnnotation,
    Trace,
    TracePacket,
    TrackEvent,
)

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)


@given(st.lists(st.tuples(INT64, st.none() | INT64, INT64), min_size=1, max_size=9))
def test_messages_are_those_of_the_library(rows: list[tuple[int, int | None, int]]) -> None:
    value = np.array([value for value, _, _ in rows])
    has_note = np.array([note is not None for _, note, _ in rows])
    note = [
        same(DebugAnnotation(name_iid=7).SerializeToString(), len(rows)),
        varint_field(4, np.array([note or 0 for _, note, _ in rows])),
    ]
    event = [part.where(has_note) for part in (message_head(4, size_of(note)), *note)]
    event += [varint_field(30, value), fixed64_field(47, np.array([flow for _, _, flow in rows]))]
    packet = [message_head(11, size_of(event)), *event]
    expected = Trace()
    for counter, number, flow in rows:
        event_of_it = TrackEvent(counter_value=counter, flow_ids=[flow % 2**64])
        if number is not None:
            event_of_it.debug_annotations.add(name_iid=7, int_value=number)
        expected.packet.append(TracePacket(track_event=event_of_it))
    data = joined([message_head(1, size_of(packet)), *packet])
    assert Trace.FromString(data) == expected
    assert len(data) == expected.ByteSize()


def test_no_message_is_no_bytes() -> None:
    assert joined([varint_field(1, np.zeros(0, np.int64))]) == b""


def test_narrow_columns_are_taken_as_they_are() -> None:
    narrow = np.array([-1, 0, 127, 128], np.int32)
    assert joined([varint_field(4, narrow)]) == joined([varint_field(4, narrow.astype(np.int64))])
