"""Patterns of the fusion advisor on steps written by hand; bytes are worked out in the comments."""

from __future__ import annotations

import pytest

from .fusion_steps import BF16, Op, abstained, already, occurrences, step_of, summary

F32, INT8, INT64 = "float", "signed char", "long int"
ROW = [1, 8]


def norm(width: int = 8, *, residual: bool = True, cast: bool = True, inside: str | None = None) -> list[Op]:
    """RMSNorm of one row as it is written out: 8 operators, with the add 9; without casts 6 and 7."""
    row, one = [1, width], [1, 1]
    wide = F32 if cast else BF16
    ops = [Op("add", [row, row, []], [BF16, BF16, "Scalar"])] if residual else []
    ops += [Op("copy_", [row, row], [F32, BF16])] if cast else []
    ops += [Op("pow", [row, []], [wide, "Scalar"]), Op("mean", [row, []], [wide, "ScalarList"])]
    ops += [Op("add", [one, []], [wide, "double"]), Op("rsqrt", [one], [wide]), Op("mul", [row, one], [wide] * 2)]
    ops += [Op("copy_", [row, row], [BF16, F32])] if cast else []
    return [*ops, Op("mul", [[width], row])]


def rope(heads: int, width: int = 4) -> list[Op]:
    """RoPE of one token's heads, by halves: five operators."""
    whole, half = [1, heads, 1, width], [1, heads, 1, width // 2]
    turn = [[1, width]]
    return [
        Op("mul", [whole, *turn]),
        Op("neg", [half]),
        Op("cat", [[half, half], []], ["TensorList", "Scalar"]),
        Op("mul", [whole, *turn]),
        Op("add", [whole, whole]),
    ]


def write(heads: int, width: int = 4) -> Op:
    """One row into a cache of 16."""
    shapes = [[1, heads, 16, width], [], [1], [1, heads, 1, width]]
    return Op("index_copy_", shapes, [BF16, "Scalar", INT64, BF16])


def attention(heads: int, kv_heads: int, width: int = 4) -> Op:
    key = [1, kv_heads, 16, width]
    return Op("_flash_attention_forward", [[1, heads, 1, width], key, key], inside="aten::scaled_dot_product_attention")


class TestNorms:
    def test_written_out_with_its_residual_add(self) -> None:
        # written and read again: sum 16 (read only: it is needed), wide 32 twice read once more, square 32, root 4s …
        wide, half, one = 8 * 4, 8 * 2, 4
        reads = half + wide + wide + one + one + wide + one + wide + half
        writes = wide + wide + one + one + one + wide + half
        assert summary(norm()) == [("residual_norm", 9, 1, reads + writes)]

    def test_alone(self) -> None:
        assert [row[:3] for row in summary(norm(residual=False))] == [("residual_norm", 8, 1)]
        assert occurrences(norm(residual=False))[0].title == "RMSNorm"

    def test_without_casts(self) -> None:
        assert [row[:3] for row in summary(norm(cast=False))] == [("residual_norm", 7, 1)]

    def test_a_fused_norm_behind_a_residual_add(self) -> None:
        add, fused = Op("add", [ROW, ROW]), Op("_fused_rms_norm", [ROW, [8]])
        assert summary([add, fused]) == [("residual_norm", 2, 1, 16)]  # the sum is needed, its second read is not
        assert already([Op("silu", [ROW]), fused]) == [("norm", "_fused_rms_norm")]

    def test_a_mean_that_is_none_of_a_norm(self) -> None:
        ops = [*norm(residual=False)[:3], Op("sub", [ROW, [1, 1]], [F32, F32]), Op("neg", [ROW], [F32])]
        assert "residual_norm" not in [kind for kind, *_ in summary(ops)]


class TestProjections:
    def qkv(self, q: int, kv: int, k: int = 8) -> list[Op]:
        return [Op("mm", [[1, k], [k, q]]), Op("mm", [[1, k], [k, kv]]), Op("mm", [[1, k], [k, kv]])]

    def test_three_products_of_one_row_before_their_attention(self) -> None:
        ops = [*self.qkv(8, 4), attention(heads=2, kv_heads=1)]
        assert summary(ops) == [("qkv", 3, 1, 2 * 16)]  # the row of 16 bytes is read once and not three times
        assert "query (8) and of key and value (4)" in occurrences(ops)[0].relied_on

    def test_heads_of_another_size_follow(self) -> None:
        """The second product may as well read what the first wrote: 8 values, as the row has."""
        ops = [*self.qkv(8, 4), attention(heads=4, kv_heads=2)]
        assert (summary(ops), abstained(ops)) == ([], ["qkv"])

    def test_no_attention_but_outputs_that_none_can_read(self) -> None:
        assert summary(self.qkv(16, 4)) == [("projections", 3, 1, 32)]

    def test_two_products_that_may_be_one_behind_the_other(self) -> None:
        ops = [Op("mm", [ROW, [8, 8]]), Op("mm", [ROW, [8, 8]])]
        assert (summary(ops), abstained(ops)) == ([], [])

    def test_an_operator_between_them(self) -> None:
        first, *others = self.qkv(16, 4)
        assert [row[:3] for row in summary([first, Op("silu", [[1, 16]]), *others])] == [("projections", 2, 1)]

    def test_merged(self) -> None:
        ops = [Op("mm", [ROW, [8, 16]]), *rope(2), *rope(1), write(1), write(1), attention(heads=2, kv_heads=1)]
        assert ("qkv", "one projection of 16") in already(ops)


class TestMlp:
    up = Op("mm", [ROW, [8, 32]])
    down = Op("mm", [[1, 32], [32, 8]])
    act = Op("silu", [[1, 32]])
    mul = Op("mul", [[1, 32], [1, 32]])

    @pytest.mark.parametrize("order", ["up last", "up first"])
    def test_gate_up_and_activation(self, order: str) -> None:
        last = order == "up last"
        ops = [self.up, *([self.act, self.up] if last else [self.up, self.act]), self.mul, self.down]
        found = sorted(summary(ops))
        assert found == [("gate_up", 2, 1, 16), ("silu_mul", 2, 1, 2 * 64)]

    def test_an_output_of_the_rows_own_shape(self) -> None:
        square = Op("mm", [ROW, [8, 8]])
        ops = [square, Op("silu", [ROW]), square, Op("mul", [ROW, ROW]), square]
        assert abstained(ops) == ["gate_up"]
        assert [kind for kind, *_ in summary(ops)] == ["silu_mul"]

    def test_merged(self) -> None:
        ops = [Op("mm", [ROW, [8, 64]]), self.act, self.mul, self.down]
        assert already(ops) == [("gate_up", "one projection of 64")]
        assert summary(ops) == [("silu_mul", 2, 1, 128)]

    def test_a_fused_activation(self) -> None:
        assert summary([Op("mm", [ROW, [8, 64]]), Op("silu_and_mul", [[1, 64]]), self.down]) == []


class TestRope:
    def test_of_query_and_key_with_both_writes(self) -> None:
        ops = [*rope(2), *rope(1), write(1), write(1), attention(2, 1)]
        # of 8 values: · cos, · sin, joined 16 B each, half 8 B, written and read; of 4 values half as much and the
        # sum, which the write reads
        query, key = 2 * (16 * 3 + 8), 2 * (8 * 3 + 4) + 2 * 8
        assert summary(ops) == [("rope_kv", 12, 1, query + key)]
        assert occurrences(ops)[0].title == "RoPE + KV-cache write"

    def test_positions_worked_out_between(self) -> None:
        between = [Op("arange", [[], [0]], ["Scalar", INT64]), Op("add", [[1], []], [INT64, INT64])]
        ops = [*rope(2), *rope(1), *between, write(1), write(1), attention(2, 1)]
        assert [row[:3] for row in summary(ops)] == [("rope_kv", 12, 1)]

    def test_without_a_cache(self) -> None:
        assert [row[:3] for row in summary([*rope(2), *rope(1), attention(2, 1)])] == [("rope_kv", 10, 1)]

    def test_with_cosines_in_fp32_and_the_cast_behind(self) -> None:
        def six(heads: int) -> list[Op]:
            whole = [1, heads, 1, 4]
            product, negated, joined, other, added = rope(heads)
            wide = [product._replace(types=[BF16, F32]), other._replace(types=[BF16, F32])]
            cast = Op("copy_", [whole, whole], [BF16, F32])
            return [wide[0], negated, joined, wide[1], added._replace(types=[F32, F32]), cast]

        ops = [*six(2), *six(1), write(1), write(1), attention(2, 1)]
        assert [row[:3] for row in summary(ops)] == [("rope_kv", 14, 1)]

    def test_of_pairs_stacked(self) -> None:
        """As gpt-fast has it: to float, [a · cos − b · sin, b · cos + a · sin] side by side, and back."""

        def pairs(heads: int) -> list[Op]:
            half, whole, part = [1, 1, heads, 2], [1, 1, heads, 4], [1, 1, heads, 2, 1]
            product = Op("mul", [half, [1, 1, 1, 2]], [F32, F32])
            both = [product, product, Op("sub", [half, half], [F32, F32])]
            both += [product, product, Op("add", [half, half], [F32, F32])]
            join = Op("cat", [[part, part], []], ["TensorList", "Scalar"], "aten::stack")
            casts = Op("copy_", [whole, whole], [F32, BF16]), Op("copy_", [whole, whole], [BF16, F32])
            return [casts[0], *both, join, casts[1]]

        ops = [*pairs(2), *pairs(1), write(1), write(1), attention(2, 1)]
        assert [row[:3] for row in summary(ops)] == [("rope_kv", 20, 1)]

    def test_halves_that_do_not_fit(self) -> None:
        ops = rope(2)
        ops[1] = Op("neg", [[1, 2, 1, 4]])
        assert "rope_kv" not in [kind for kind, *_ in summary(ops)]


SCORES = [4, 1, 16]


class TestAttention:
    def parts(self) -> list[Op]:
        return [
            Op("bmm", [[4, 1, 8], [4, 8, 16]]),
            Op("mul", [SCORES, []], [BF16, "double"]),
            Op("add", [SCORES, [1, 1, 16]]),
            Op("_softmax", [SCORES, [], []], [BF16, "Scalar", "Scalar"]),
            Op("bmm", [SCORES, [4, 16, 8]]),
        ]

    def test_in_parts(self) -> None:
        # four tensors of 64 values, 128 bytes each, written and read again
        assert summary(self.parts()) == [("attention", 5, 1, 4 * 2 * 128)]

    def test_without_a_softmax_between(self) -> None:
        ops = [op for op in self.parts() if op.name != "_softmax"]
        assert "attention" not in [kind for kind, *_ in summary(ops)]

    def test_a_softmax_of_something_else(self) -> None:
        ops = self.parts()
        ops[3] = Op("_softmax", [[4, 1, 8], [], []], [BF16, "Scalar", "Scalar"])
        assert "attention" not in [kind for kind, *_ in summary(ops)]

    def test_keys_repeated_for_it(self) -> None:
        repeated = [1, 1, 4, 16, 8]
        copies = [Op("copy_", [repeated, repeated], inside="aten::reshape")] * 2
        assert [row[:3] for row in summary([*copies, *self.parts()])] == [("attention", 7, 1)]

    @pytest.mark.parametrize(
        ("copied", "found"),
        [
            ([1, 2, 4, 16, 8], ["repeat_kv"]),  # two heads, four times each
            ([1, 8, 1, 16, 8], []),  # once
            ([1, 16, 2, 4, 8], []),  # query, key and value put in another order
        ],
    )
    def test_keys_repeated_for_a_fused_attention(self, copied: list[int], found: list[str]) -> None:
        key = [1, 8, 16, 8]
        ops = [Op("copy_", [copied, copied]), Op("_flash_attention_forward", [[1, 8, 1, 8], key, key])]
        assert [kind for kind, *_ in summary(ops)] == found

    def test_a_mask_converted_in_every_layer(self) -> None:
        sdpa = "aten::scaled_dot_product_attention"
        key = [1, 1, 16, 4]
        layer = [
            Op("fill_", [[], []], [BF16, "Scalar"], sdpa),
            Op("where", [[1, 1, 1, 16], [], []], ["bool", BF16, BF16], sdpa),
            Op("_efficient_attention_forward", [[1, 2, 1, 4], key, key, [1, 1, 1, 16]], inside=sdpa),
        ]
        # the first layer needs it; the others' 32 bytes are written and read for nothing, from 16 bytes and two scalars
        assert summary(layer * 3) == [
            ("attention_mask", 2, 2, 0),
            ("attention_mask", 2, 0, 32 + 16 + 2 + 2),
            ("attention_mask", 2, 0, 32 + 16 + 2 + 2),
        ]
        assert abstained(layer) == ["attention_mask"]


class TestMixtures:
    def router(self) -> list[Op]:
        """Two rows, four experts, two for each row."""
        return [
            Op("mm", [[2, 8], [8, 4]]),
            Op("_softmax", [[2, 4], [], []], [BF16, "Scalar", "Scalar"]),
            Op("topk", [[2, 4], [], [], [], []], [BF16, "Scalar", "Scalar", "Scalar", "Scalar"]),
            Op("sum", [[2, 2], [], []], [BF16, "ScalarList", "Scalar"]),
            Op("div", [[2, 2], [2, 1]]),
        ]

    def expert(self) -> list[Op]:
        rows = [1, 8]
        return [
            Op("index", [[2, 8], []], [BF16, ""]),
            Op("mm", [rows, [8, 16]]),
            Op("silu", [[1, 16]]),
            Op("mm", [rows, [8, 16]]),
            Op("mul", [[1, 16], [1, 16]]),
            Op("mm", [[1, 16], [16, 8]]),
            Op("mul", [rows, [1, 1]]),
            Op("index_add_", [[2, 8], [], [1], rows], [BF16, "Scalar", INT64, BF16]),
        ]

    def test_routing_and_experts_one_by_one(self) -> None:
        ops = [*self.router(), *self.expert(), *self.expert(), *norm()]
        found = [row[:3] for row in summary(ops)]
        assert found == [("moe_routing", 4, 1), ("moe_experts", 16, 5), ("residual_norm", 9, 1)]

    def test_gathered_weights_are_read_and_written_once_more(self) -> None:
        gathered = [
            Op("index", [[4, 16, 8], []], [BF16, ""]),
            Op("bmm", [[4, 16, 8], [4, 8, 1]]),
            Op("silu", [[2, 2, 16, 1]]),
            Op("index", [[4, 16, 8], []], [BF16, ""]),
            Op("bmm", [[4, 16, 8], [4, 8, 1]]),
            Op("mul", [[2, 2, 16, 1], [2, 2, 16, 1]]),
        ]
        (experts,) = [o for o in occurrences([*self.router(), *gathered]) if o.kind == "moe_experts"]
        # weights of 4 × 16 × 8 values, 1,024 bytes, twice, written and read; silu's 128 bytes too
        assert (experts.launches, experts.launches_after, experts.bytes_saved) == (6, 5, 2 * 2 * 1024 + 2 * 128)

    def test_grouped(self) -> None:
        grouped = [*self.router(), Op("_grouped_mm", [[4, 8], [4, 8, 16]])]
        assert ("moe_experts", "_grouped_mm") in already(grouped)

    def test_a_topk_without_experts(self) -> None:
        assert abstained(self.router()) == ["moe_routing"]


LOGITS = [Op("mm", [ROW, [8, 16]]), Op("mm", [[1, 16], [16, 1000]])]
VOCABULARY = [1, 1000]


class TestSampling:
    def test_top_p_by_sorting(self) -> None:
        behind = [
            Op("div", [VOCABULARY, []], [BF16, "double"]),
            Op("_softmax", [VOCABULARY, [], []], [BF16, "Scalar", "Scalar"]),
            Op("sort", [VOCABULARY, []], [BF16, "Scalar"]),
            Op("cumsum", [VOCABULARY, []], [BF16, "Scalar"]),
            Op("gt", [VOCABULARY, []], [BF16, "double"]),
            Op("masked_fill_", [VOCABULARY, VOCABULARY, []], [BF16, "bool", "double"]),
            Op("multinomial", [VOCABULARY, []], [BF16, "Scalar"]),
        ]
        assert [row[:3] for row in summary([*LOGITS, *behind])] == [("sampling", 7, 2)]

    def test_gumbel(self) -> None:
        noise = [
            Op("exponential_", [VOCABULARY], [BF16]),
            Op("div", [VOCABULARY, VOCABULARY]),
            Op("argmax", [VOCABULARY]),
        ]
        # the noise and the quotient, 2,000 bytes each, written and read again
        assert summary([*LOGITS, *noise]) == [("sampling", 3, 1, 4 * 2000)]

    def test_the_largest_alone(self) -> None:
        assert already([*LOGITS, Op("argmax", [VOCABULARY])]) == [("sampling", "argmax")]

    def test_logits_alone(self) -> None:
        assert summary([*LOGITS, Op("copy_", [VOCABULARY, VOCABULARY], [F32, BF16])]) == []


class TestQuantised:
    def test_weights_of_8_bits_turned_before_their_product(self) -> None:
        ops = [
            Op("copy_", [[16, 8], [16, 8]], [BF16, INT8]),
            Op("mm", [ROW, [8, 16]]),
            Op("mul", [[1, 16], [16]]),
        ]
        # 128 values of bf16 written and read again
        assert summary(ops) == [("dequantise", 3, 1, 2 * 256)]

    def test_with_their_scales(self) -> None:
        ops = [
            Op("copy_", [[16, 8], [16, 8]], [BF16, INT8]),
            Op("mul", [[16, 8], [16, 1]]),
            Op("mm", [ROW, [8, 16]]),
        ]
        assert summary(ops) == [("dequantise", 3, 1, 2 * 2 * 256)]

    def test_weights_that_were_no_smaller(self) -> None:
        ops = [Op("mul", [[16, 8], [16, 1]]), Op("mm", [ROW, [8, 16]])]
        assert (summary(ops), abstained(ops)) == ([], ["dequantise"])

    def test_packed_weights(self) -> None:
        packed = Op("_weight_int4pack_mm", [[1, 128], [1, 1, 32, 4], [], [1, 16, 2]], [BF16, "int", "Scalar", BF16])
        assert already([packed]) == [("dequantise", "_weight_int4pack_mm")]

    def test_rows_quantised_and_the_product_scaled(self) -> None:
        ops = [
            Op("abs", [ROW]),
            Op("amax", [ROW, []], [BF16, "ScalarList"]),
            Op("div", [[1, 1], []], [BF16, "double"]),
            Op("div", [ROW, [1, 1]]),
            Op("round", [ROW]),
            Op("copy_", [ROW, ROW], [INT8, BF16]),
            Op("_int_mm", [ROW, [8, 16]], [INT8, INT8]),
            Op("copy_", [[1, 16], [1, 16]], [F32, "int"]),
            Op("mul", [[1, 16], [1, 1]], [F32, F32]),
        ]
        assert [row[:3] for row in summary(ops)] == [("quantise", 8, 1)]


class TestChains:
    def test_three_in_a_row(self) -> None:
        ops = [Op("mul", [ROW, ROW]), Op("tanh", [ROW]), Op("add", [ROW, []], [BF16, "double"])]
        assert summary(ops) == [("chain", 3, 1, 2 * 2 * 16)]

    def test_two_are_none(self) -> None:
        assert summary([Op("mul", [ROW, ROW]), Op("tanh", [ROW])]) == []

    def test_others_between_end_it(self) -> None:
        chain = [Op("neg", [ROW]), Op("exp", [ROW])]
        assert summary([*chain, Op("mm", [ROW, [8, 4]]), *chain]) == []

    def test_each_reads_what_one_before_it_wrote(self) -> None:
        assert summary([Op("tanh", [ROW]), Op("tanh", [[1, 9]]), Op("tanh", [[1, 10]])]) == []

    def test_compiled_kernels_are_fused(self) -> None:
        step = [Op("mm", [ROW, [8, 8]])]
        assert already(step) == []
        ops = occurrences([Op("tanh", [ROW]), Op("neg", [ROW]), Op("tanh", [ROW])])
        assert [op.name for op in ops[0].ops] == ["tanh", "neg", "tanh"]


def test_no_operator_belongs_to_two() -> None:
    ops = [*norm(), *rope(2), *rope(1), write(1), write(1), attention(2, 1), *norm(residual=True)] * 4
    positions = [op.position for found in occurrences(ops) for op in found.ops]
    assert len(positions) == len(set(positions))


def test_layers_are_told_from_the_repetition() -> None:
    layer = [*norm(), *rope(2), *rope(1), write(1), write(1), attention(2, 1)]
    found = step_of([Op("embedding", [[100, 8], [1]], [BF16, INT64]), *layer * 4, Op("mm", [ROW, [8, 100]])])
    assert found.layers == 4
    assert found.layer_of[0] is None
    assert found.layer_of[1 : 1 + 2 * len(layer)] == (0,) * len(layer) + (1,) * len(layer)
    assert found.layer_of[-1] is None


def test_layers_go_on_behind_a_break() -> None:
    """A check in the middle of the step: three layers before it, three behind, of which the last still is one."""
    layer = [*norm(), *rope(2), *rope(1), write(1), write(1), attention(2, 1)]
    found = step_of([*layer * 3, Op("isnan", [ROW]), *layer * 3])
    length = len(layer)
    assert found.layers == 6
    assert found.layer_of[: 3 * length] == tuple(at // length for at in range(3 * length))
    assert found.layer_of[-length:] == (5,) * length


def test_layers_that_are_not_alike() -> None:
    """Two kinds in turn, of which one attends to fewer keys: a repetition takes two."""
    other = Op("_flash_attention_forward", [[1, 2, 1, 4], [1, 1, 4, 4], [1, 1, 4, 4]])
    first, second = [*norm(), attention(2, 1)], [*norm(), other]
    found = step_of([*first, *second] * 4)
    assert found.layers == 8
    assert found.layer_of == tuple(layer for layer in range(8) for _ in first)


def test_an_attention_in_parts_counts_as_a_layer() -> None:
    layer = [*norm(), *TestAttention().parts(), Op("mm", [ROW, [8, 4]])]
    found = step_of([Op("embedding", [[100, 8], [1]], [BF16, INT64]), *layer * 2])
    assert found.layers == 2
    assert found.layer_of == (None, *(at // len(layer) for at in range(2 * len(layer))))


def test_an_attention_right_behind_another_tells_no_layers() -> None:
    assert step_of([attention(2, 1), attention(2, 1)]).layers is None
