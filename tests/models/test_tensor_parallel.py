"""The tensor-parallel sample: ranks over gloo, on a CPU, compute what one process computes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

pytest.importorskip("torch")

import torch
from launchscope import Target
from launchscope.fixtures.models import llama, llama_1b_tp

CONTEXT = 16
ONE_STEP = f"""
import sys, torch
from launchscope.fixtures.models import llama_1b_tp
torch.set_grad_enabled(False)
target = llama_1b_tp.build(2, "cpu", torch.float32, {CONTEXT}, "tiny")
torch.save([target.step(), target.state, sum(p.numel() for p in target.model.parameters())], sys.argv[1])
"""
LAYER_LINEARS = 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128)
"""Weights of q and o, k and v, gate, up and down in both layers of the smallest shape."""


Rank = tuple[torch.Tensor, list[torch.Tensor], int]
"""Logits, caches and number of parameters."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two processes that share a model."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_STEP, str(folder / f"{rank}.pt")], env={**shared, "RANK": str(rank)}
        )
        for rank in range(2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    return [tuple(torch.load(folder / f"{rank}.pt")) for rank in range(2)]


@pytest.fixture(scope="module")
def whole() -> Target:
    return llama_1b_tp.build(2, "cpu", torch.float32, CONTEXT, "tiny")


@torch.no_grad()
def test_two_ranks_compute_what_one_does(ranks: list[Rank], whole: Target) -> None:
    expected = whole.step()
    for logits, _, _ in ranks:
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    for place, cache in enumerate(whole.state):
        halves = torch.cat([caches[place] for _, caches, _ in ranks], dim=1)
        torch.testing.assert_close(halves, cache, rtol=1e-5, atol=1e-5)


def test_a_rank_holds_its_part_of_the_layers_and_all_the_rest(ranks: list[Rank], whole: Target) -> None:
    parameters = sum(p.numel() for p in whole.model.parameters())
    assert [own for _, _, own in ranks] == [parameters - LAYER_LINEARS // 2] * 2


def test_a_degree_that_does_not_divide_the_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="4 ranks can't share 2 key-value heads"):
        llama.build_decode("tiny", 1, "cpu", torch.float32, CONTEXT, rewrite=llama_1b_tp.sharded(0, 4))


def test_a_shape_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="no shape is called 'huge'"):
        llama_1b_tp.build(1, "cpu", torch.float32, CONTEXT, "huge")


def test_each_layer_has_two_all_reduces(monkeypatch: pytest.MonkeyPatch) -> None:
    reduced: list[tuple[int, ...]] = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda x: reduced.append(tuple(x.shape)))
    with torch.no_grad():
        target = llama.build_decode("tiny", 2, "cpu", torch.float32, CONTEXT, rewrite=llama_1b_tp.sharded(1, 2))
        target.step()
    assert reduced == [(2, 1, 64)] * 4
