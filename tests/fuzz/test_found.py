"""What mutants found: the essence of each, in the words of its format."""

from __future__ import annotations

import gzip
import sqlite3

import pytest
from launchscope.analysis.inputs.readers import read_trace
from launchscope.fixtures.builder import trace

from ..nsys_builder import export
from .seeds import converted

PERFETTO = converted(trace().launch(0, 2).kernel(5, 3).launch(10, 2).kernel(15, 3).json())


@pytest.mark.parametrize(
    ("whole", "odd"),
    [
        ('"correlation":2', r'"odd\ud83d":0,"correlation":2'),
        ('"correlation":2', r'"odd\x":0,"correlation":2'),
        ('"correlation":2', '"odd":NaN,"correlation":2'),
        ('"correlation":2', '"odd":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}},"correlation":2'),
        ('"correlation":2}', '"correlation":2},"odd":1'),
        ('},\n{"args":{"args":{"correlation":2', '},{"args":{"args":{"correlation":2'),
    ],
    ids=["half a pair", "no escape", "no number", "deep", "beside", "no line break"],
)
def test_a_record_of_perfetto_keeps_its_correlation_id(whole: str, odd: str) -> None:
    """It was left nested where its line was no JSON by itself, and the launch was gone without a word."""
    assert whole.encode() in PERFETTO
    found = read_trace(PERFETTO.replace(whole.encode(), odd.encode()), "x")
    assert found.source.format == "perfetto-json"
    assert (found.gpu_ops.launch_row.tolist(), found.complete) == ([0, 1], True)


def proton(*records: str) -> bytes:
    kernel = '{"cat":"kernel","dur":2.5,"name":"k","ph":"X","pid":0,"tid":200007,"ts":%s.5}'
    return f'{{"displayTimeUnit":"us","traceEvents":[{",".join([kernel % 1, *records, kernel % 9])}]}}'.encode()


def test_a_record_of_proton_without_a_time_costs_no_other_one() -> None:
    """It was told on as ``"ts":,``, which made the file one that is cut."""
    found = read_trace(proton('{"cat":"kernel","dur":2.5,"name":"k","ph":"X","pid":0,"tid":200007}'), "x")
    assert len(found.gpu_ops) == 2
    assert [(notice.code, notice.count) for notice in found.notices] == [("unreadable_times", 1)]


@pytest.mark.parametrize("name", [r"a\ud83d", r"a\x", "a\x01"])
def test_an_odd_name_of_proton_is_no_damage(name: str) -> None:
    odd = f'{{"cat":"kernel","dur":2.5,"name":"{name}","ph":"X","pid":0,"tid":200007,"ts":4.5}}'
    found = read_trace(proton(odd), "x")
    assert (len(found.gpu_ops), found.notices, found.complete) == (3, (), True)


def test_a_string_without_an_id_names_nothing_of_nsys() -> None:
    """Whatever had no name got its text: NULL was found where NULL was looked for."""
    builder = export().launch(0, 1).kernel(2, 1, demangledName=None, shortName=None)
    connection = sqlite3.connect(":memory:")
    connection.deserialize(builder.bytes())
    connection.execute("INSERT INTO StringIds VALUES (NULL, 'x')")
    connection.commit()
    found = read_trace(connection.serialize(), "x")
    assert [found.name(index) for index in found.gpu_ops.name.tolist()] == ["unnamed kernel"]


@pytest.mark.parametrize("first", [b"", b" ", b"{"])
def test_a_first_gzip_member_of_a_byte_hides_no_format(first: bytes) -> None:
    """Perfetto's text was taken for Kineto's, and every launch was gone without a word."""
    text = PERFETTO if first == b"{" else first + PERFETTO
    found = read_trace(gzip.compress(first) + gzip.compress(text[len(first) :]), "x")
    assert (found.source.format, found.gpu_ops.launch_row.tolist()) == ("perfetto-json", [0, 1])
