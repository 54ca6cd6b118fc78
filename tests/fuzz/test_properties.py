"""Any rows and any way of packing: the fast readers give what slow ones give, and refuse what they refuse."""

from __future__ import annotations

import gzip
import sqlite3
from itertools import pairwise
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import read_trace
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import Trace

from ..cases import NAMED_CASES
from ..nsys_builder import export
from .promises import require_closed, require_sound
from .seeds import converted
from .slow_readers import differences, read_slowly

ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"
TEXT: Final = NAMED_CASES["eager steps"]().json()

ids = st.integers(-1, 4) | st.sampled_from([None, 2.0, "1", 2**63 - 1, -(2**63), b"\0", 1 << 48 | 3 << 24 | 1, 3 << 24])
times = st.integers(0, 300_000) | st.sampled_from([None, -5, 1.5, 2**61, 2**63 - 1, "soon"])
words = st.sampled_from(
    ["cudaLaunchKernel_v7000", "cudaMemcpy_v3020", "cudaGraphLaunch_v10000", "k", "", None, b"\xff", 7]
)


@st.composite
def rows(draw: Any, table: str, columns: str) -> tuple[str, list[tuple[Any, ...]]]:
    kinds = [
        {"start": times, "end": times, "text": words, "value": words, "label": words}.get(c, ids)
        for c in columns.split()
    ]
    return f"INSERT INTO {table} ({', '.join(columns.split())}) VALUES ({', '.join('?' * len(kinds))})", draw(
        st.lists(st.tuples(*kinds), max_size=8)
    )


tables = st.tuples(
    rows(
        ACTIVITY + "KERNEL",
        "start end deviceId streamId correlationId globalPid demangledName shortName graphNodeId graphId",
    ),
    rows(ACTIVITY + "MEMCPY", "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind"),
    rows(ACTIVITY + "RUNTIME", "start end globalTid correlationId nameId"),
    rows(ACTIVITY + "GRAPH_TRACE", "start end correlationId globalPid"),
    rows("NVTX_EVENTS", "start end eventType text globalTid textId domainId"),
    rows("StringIds", "id value"),
    rows("ENUM_CUDA_MEM_KIND", "id label"),
    rows("TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid"),
)


def whole_export() -> bytes:
    """With a row in every table."""
    builder = export().row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=100).range("a", 0, 9)
    return builder.launch(0, 1).kernel(2, 1).memcpy(4, 1).graph_trace(6, 1).bytes()


EXPORT: Final = whole_export()


@settings(deadline=None, max_examples=50)
@given(tables)
def test_any_rows_of_nsys(inserts: tuple[tuple[str, list[tuple[Any, ...]]], ...]) -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(EXPORT)
    for statement, values in inserts:
        connection.executemany(statement, values)
    connection.commit()
    data = connection.serialize()
    found, wanted = read_trace(data, "x"), read_slowly(data, "nsys-sqlite")
    assert wanted is not None
    assert [*differences(found, wanted)] == []
    require_sound(found)
    require_closed(analyze_trace(found, name="x"))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, len(TEXT)), max_size=4), st.integers(0, 400), st.booleans())
def test_any_members_of_a_gzip_file(places: list[int], lost: int, is_perfetto: bool) -> None:
    """Members strung together are one text; of a cut file what is whole is read, and that it is cut is said."""
    text = converted(TEXT) if is_perfetto else TEXT
    edges = [0, *sorted(place % len(text) for place in places), len(text)]
    packed = b"".join(gzip.compress(text[a:b]) for a, b in pairwise(edges))
    whole = read(packed)
    assert isinstance(whole, Trace)
    assert [*differences(whole, read_trace(text, "x"))] == []
    cut = read(packed[: len(packed) - lost])
    if lost and isinstance(cut, Trace):
        assert not cut.complete or len(cut.gpu_ops) == len(whole.gpu_ops)


def read(data: bytes) -> Trace | str:
    try:
        return read_trace(data, "x")
    except UnreadableInput as error:
        return str(error)
