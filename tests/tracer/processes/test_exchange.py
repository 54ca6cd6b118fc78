"""What coordinators tell each other, over a real store."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("torch.distributed")

from launchscope.tracer.processes import exchange
from launchscope.tracer.processes.exchange import CHUNK_BYTES, Exchange, Lost
from launchscope.tracer.target.options import Place


def place(rank: int, port: int) -> Place:
    return Place(
        rank=rank, local_rank=rank, world_size=2, local_world_size=2, host="vm", address="localhost", port=port
    )  # fmt: skip


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Exchange, Exchange]]:
    monkeypatch.setattr(exchange, "BEAT_S", 0.05)
    monkeypatch.setattr(exchange, "LOST_S", 0.5)
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    leader = Exchange(place(0, port), [1])
    follower = Exchange(place(1, port), [0])
    yield leader, follower
    follower.close()
    leader.close()


def test_data_of_any_length_arrives_once(two: tuple[Exchange, Exchange]) -> None:
    leader, follower = two
    for key, data in (
        ("empty", b""),
        ("short", b"\0\xff"),
        ("long", bytes(range(256)) * (CHUNK_BYTES // 128) + b"end"),
    ):
        follower.put(key, data)
        assert leader.get(key) == data
    assert not leader.has("long/0")


def test_what_all_want_is_kept(two: tuple[Exchange, Exchange]) -> None:
    leader, follower = two
    leader.put("job/1", b"eager")
    assert [follower.get("job/1", keep=True) for _ in range(2)] == [b"eager", b"eager"]


def test_a_wait_ends_with_what_comes_first(two: tuple[Exchange, Exchange]) -> None:
    leader, follower = two
    threading.Timer(0.2, leader.put, ("end", b"")).start()
    assert follower.wait("job/1", "end") == "end"


def test_numbers_are_shared(two: tuple[Exchange, Exchange]) -> None:
    leader, follower = two
    assert [leader.count("bye"), follower.count("bye"), leader.total("bye")] == [1, 2, 2]


def test_who_falls_silent_is_lost(two: tuple[Exchange, Exchange]) -> None:
    leader, follower = two
    time.sleep(0.2)
    leader.raise_if_lost()
    follower.close()
    with pytest.raises(Lost, match=r"rank 1 has not been heard of for 0\.5 s"):
        leader.wait("never")
    follower.raise_if_lost()  # the leader still beats


def test_a_store_that_nobody_hosts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    monkeypatch.setattr(exchange, "_CONNECT", timedelta(seconds=1))
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Lost, match=rf"rank 1 on vm can't reach rank 0's store at localhost:{port}"):
        Exchange(place(1, port), [0])
