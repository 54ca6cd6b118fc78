"""Kernel names: short enough to read, long enough to tell apart."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.kernel_names import short_names

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


def test_what_stands_behind_template_arguments_belongs_to_the_name() -> None:
    names = [
        "void cub::Reduce<cub::Policy<float, int>::Policy600>(float*)",
        "double* std::fill<true>::n<double*, unsigned long>(double*, unsigned long)",
        "void k<at::f<float>::operator()() const::{lambda(at::Half, n::b<int>)#1}, (Kind)1, -2>()",
        "void k<at::f<float>::operator()() const::{lambda(float)#1}, (Kind)1, -2>()",
        "void k<at::f<c10::Half>, g<c10::Half, h<dou",  # cut by the profiler
    ]
    assert list(short_names(names).values()) == [
        "Reduce<Policy::Policy600<fp32>>",
        "fill::n<fp64>",
        "k<f(fp16, b<int>)<fp32>>",
        "k<f(fp32)<fp32>>",
        "k<f<fp16>, g<fp16, h<dou>>>",
    ]


def test_nested_names_are_told_down_to_a_depth_that_no_compiler_reaches() -> None:
    deep, deeper = (("n::a<" * depth + "float" + ">" * depth) for depth in (60, 70))
    assert short_names([deep, deeper]) == {deep: "a<" * 60 + "fp32" + ">" * 60, deeper: deeper}


def test_nesting_costs_no_more_than_length() -> None:
    """CPU time of 300 KB of names, deep and flat: 12 times as much for the deep ones where each level is read anew."""
    flat = ",".join("a" * 9_900)
    deep = "a<" * 6_600 + ">" * 6_600
    repeated = ",".join(["a<" * 60 + "b" * 140 + ">" * 60] * 60)
    took = {}
    for name in (flat, deep, repeated):
        begun = time.process_time()
        short_names(f"k{number}<{name}>" for number in range(15))
        took[name] = time.process_time() - begun
    assert took[deep] < 4 * took[flat]
    assert took[repeated] < 4 * took[flat]


@given(st.lists(st.text(alphabet="ab<>():, {}#1\x00\\", max_size=20), max_size=8))
def test_different_names_stay_different(names: list[str]) -> None:
    short = short_names(names)
    assert set(short) == set(names)
    assert len(set(short.values())) == len(short)


def test_a_name_that_nests_without_end_stays_whole() -> None:
    name = "a<" * 2000 + ">" * 2000
    assert short_names([name]) == {name: name}
