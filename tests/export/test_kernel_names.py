"""Kernel names: short enough to read, long enough to tell apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.export.kernel_names import short_names

ELEMENTWISE = (
    "void at::native::{}<8, at::native::{}, std::array<char*, 3ul> >(int, at::native::{}, std::array<char*, 3ul>)"
)


def test_kernel_names_keep_what_they_compute() -> None:
    names = [
        ELEMENTWISE.format("vectorized_elementwise_kernel", add := "CUDAFunctor_add<c10::BFloat16>", add),
        "void gemvx::kernel<__nv_bfloat16, float, false, true>(gemvParams<int>)",
        "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(cutlass_80::Params)",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
        "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 8, false>(int)",
        "",
    ]
    assert list(short_names(names).values()) == [
        "vectorized_elementwise_kernel<CUDAFunctor_add<bf16>>",
        "gemvx::kernel<bf16, fp32>",
        "cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
        "softmax_warp_forward<bf16, fp32>",
        "",
    ]


def test_names_that_would_collide_are_told_in_more_detail() -> None:
    copy = (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{{lambda()#3}}::operator()() const::{{lambda({})#1}}, std::array<char*, 2ul> >(int, {{lambda({})#1}})"
    )
    names = [
        copy.format("float", "float"),
        copy.format("long", "long"),
        "void k<1>()",
        "void k<2>()",
        "void f(int)",
        "void f(long)",
    ]
    assert list(short_names(names).values()) == [
        "unrolled_elementwise_kernel<direct_copy_kernel_cuda(fp32)>",
        "unrolled_elementwise_kernel<direct_copy_kernel_cuda(long)>",
        "k<1>",
        "k<2>",
        "void f(int)",
        "void f(long)",
    ]


@given(st.lists(st.text(alphabet="ab<>():, {}#1\x00\\", max_size=20), max_size=8))
def test_different_names_stay_different(names: list[str]) -> None:
    short = short_names(names)
    assert set(short) == set(names)
    assert len(set(short.values())) == len(short)


def test_a_name_that_nests_without_end_stays_whole() -> None:
    name = "a<" * 2000 + ">" * 2000
    assert short_names([name]) == {name: name}
