"""The floor of small steps, counted by hand: distinct bytes read, FLOPs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from launchscope.analysis.model.capture import Floor
from launchscope.fixtures.models import llama
from launchscope.tracer.measure.device import Step
from launchscope.tracer.measure.floor import count_floor
from torch.nn import functional

INT64, FP32 = 8, 4


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def bytes_of(step: Step) -> int | None:
    return count_floor(step).bytes


def test_a_linear_layer() -> None:
    x, weight, bias = torch.ones(1, 8), torch.ones(4, 8), torch.ones(4)
    floor = count_floor(lambda: functional.linear(x, weight, bias))
    assert floor == Floor(bytes=(8 + 32 + 4) * FP32, flops=2 * 8 * 4, dtype="fp32")


def test_what_the_step_makes_itself_is_not_counted() -> None:
    x, weight = torch.ones(1, 8), torch.ones(8, 8)
    assert bytes_of(lambda: ((x @ weight + 1) @ weight).relu()) == (8 + 64) * FP32


def test_an_embedding_reads_its_rows() -> None:
    table, token = torch.ones(1000, 16), torch.tensor([[3], [5]])
    assert bytes_of(lambda: functional.embedding(token, table)) == 2 * 16 * FP32 + 2 * INT64
    assert bytes_of(lambda: table[token]) == 2 * 16 * FP32 + 2 * INT64
    assert bytes_of(lambda: table.index_select(0, token[0])) == 16 * FP32 + INT64


def test_a_tied_embedding_is_read_whole_once() -> None:
    table, token = torch.ones(100, 16), torch.tensor([[3]])
    assert bytes_of(lambda: functional.linear(functional.embedding(token, table), table)) == 100 * 16 * FP32 + INT64


def test_weights_read_twice_and_overlapping_views_count_once() -> None:
    x = torch.ones(100)
    assert bytes_of(lambda: (x + 1, x + 2)) == 100 * FP32
    assert bytes_of(lambda: (x[:60] + 1, x[40:] + 1)) == 100 * FP32
    assert bytes_of(lambda: (x[:30] + 1, x[50:70] + 1)) == 50 * FP32


def test_an_expanded_view_reads_what_is_there() -> None:
    x = torch.ones(1, 10)
    assert bytes_of(lambda: x.expand(50, 10) + 1) == 10 * FP32


def test_a_cache_is_read_by_attention_and_not_by_its_write() -> None:
    cache, slot, key = torch.zeros(1, 2, 16, 4), torch.tensor([3]), torch.ones(1, 2, 1, 4)
    assert bytes_of(lambda: cache.index_copy_(2, slot, key)) == INT64 + 8 * FP32
    assert bytes_of(lambda: cache.index_copy_(2, slot, key) + 1) == INT64 + 8 * FP32 + 128 * FP32


def test_an_out_buffer_is_written_not_read() -> None:
    x, y, buffer = torch.ones(2, 4), torch.ones(4, 3), torch.empty(2, 3)
    assert bytes_of(lambda: torch.mm(x, y, out=buffer)) == (8 + 12) * FP32


@pytest.mark.parametrize("options", [{}, {"is_causal": False}])
def test_flops_of_grouped_attention(options: Any) -> None:
    """8 query heads on 2 key heads, one query on 16 positions of size 4: two products of 2·16·4 per query head."""
    query = torch.ones(3, 8, 1, 4)
    key = torch.ones(3, 2, 16, 4)
    attend = lambda: functional.scaled_dot_product_attention(query, key, key, enable_gqa=True, **options)  # noqa: E731
    floor = count_floor(attend)
    assert floor.flops == 3 * 8 * 2 * (2 * 16 * 4)
    assert floor.bytes == (query.numel() + key.numel()) * FP32


def test_a_decoder_reads_its_parameters_and_caches() -> None:
    target = llama.tiny(1, "cpu", torch.bfloat16, 64)
    assert target.model is not None
    floor = count_floor(target.step)
    whole = sum(t.nbytes for t in [*target.model.parameters(), *target.state])
    assert floor.bytes is not None
    assert whole <= floor.bytes <= whole * 1.01  # and the mask's positions, a row of cos and sin
    assert floor.dtype == "bf16"


def test_a_step_that_reads_nothing() -> None:
    assert count_floor(lambda: None) == Floor(bytes=0, flops=0, dtype=None)
