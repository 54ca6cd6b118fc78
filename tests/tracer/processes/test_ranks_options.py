"""How many ranks, and which one this is."""

from __future__ import annotations

from typing import Any

import pytest
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.tracer.processes import api
from launchscope.tracer.target.options import RanksOptions, place_from_environment

TORCHRUN = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "host0",
    "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nproc_per_node": 0}, "--nproc-per-node is 0; it takes 1 or more"),
        ({"nproc_per_node": 2, "nnodes": 2}, "--nnodes takes --rdzv-endpoint HOST:PORT too"),
        ({"nproc_per_node": 2, "rdzv_backend": "etcd"}, "no backend 'etcd'; they are c10d, static"),
        (
            {"nproc_per_node": 2, "nnodes": 2, "rdzv_backend": "static", "rdzv_endpoint": "host0:29400"},
            "static takes --node-rank too",
        ),
        ({"nproc_per_node": 2, "node_rank": 1}, "--node-rank is 1; with --nnodes 1 it is below that"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchscopeError, match=said):
        RanksOptions(**options)


def test_a_process_that_torchrun_started_is_a_rank() -> None:
    place = place_from_environment(TORCHRUN)
    assert place is not None
    assert (place.rank, place.local_rank, place.world_size, place.local_world_size) == (3, 1, 4, 2)
    assert (place.address, place.port, place.has_store) == ("host0", 29500, True)


def test_any_starter_will_do() -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    place = place_from_environment({name: TORCHRUN[name] for name in names})
    assert place is not None
    assert (place.local_world_size, place.has_store) == (4, False)


@pytest.mark.parametrize("without", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_a_process_that_is_told_less_is_alone(without: str) -> None:
    assert place_from_environment({name: value for name, value in TORCHRUN.items() if name != without}) is None


def test_one_rank_is_one_process() -> None:
    assert place_from_environment(TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1"}) is None


def test_nonsense_is_refused() -> None:
    with pytest.raises(LaunchscopeError, match="not numbers where they should be"):
        place_from_environment(TORCHRUN | {"RANK": "first"})
    with pytest.raises(LaunchscopeError, match="RANK is 4 and WORLD_SIZE 4"):
        place_from_environment(TORCHRUN | {"RANK": "4"})


def test_a_live_object_of_one_rank_of_several_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LaunchscopeError, match=r"rank 3 of 4 .*launchscope profile model\.py --nproc-per-node 2"):
        api.profile(lambda: None)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"MASTER_PORT": "99999"}, "MASTER_PORT is 99999: a port is from 1 to 65535"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT is 0: a port"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK is -1: it is 0 or more"),
        ({"TORCHELASTIC_RESTART_COUNT": "once"}, "not numbers where they should be"),
    ],
)
def test_variables_that_no_launcher_sets_so(told: dict[str, str], said: str) -> None:
    with pytest.raises(LaunchscopeError, match=said):
        place_from_environment(TORCHRUN | told)


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("nohost.invalid:29400", "no host is known as 'nohost.invalid' here"),
        ("a..b", "no host is known as 'a..b' here"),
        ("localhost:70000", "'70000' is no port; it takes HOST:PORT"),
        ("localhost:http", "'http' is no port"),
    ],
)
def test_where_hosts_cannot_meet_is_told_before_torch_tries(endpoint: str, said: str) -> None:
    with pytest.raises(LaunchscopeError, match=said):
        RanksOptions(nproc_per_node=1, nnodes=2, rdzv_endpoint=endpoint).require_endpoint(within_s=0)


@pytest.mark.parametrize("endpoint", ["localhost:29400", "localhost", "127.0.0.1:29400", "[::1]:29400", None])
def test_where_they_can(endpoint: str | None) -> None:
    RanksOptions(nproc_per_node=1, rdzv_endpoint=endpoint).require_endpoint(within_s=0)
