from __future__ import annotations

import pickle

import numpy as np
import pytest
from launchscope.analysis.facts.collectives import NO_TIME
from launchscope.analysis.facts.context import Context
from launchscope.analysis.model.names import kind_of_collective, kind_of_kernel
from launchscope.fixtures.builder import trace

from .ranks.ranks_by_hand import ALL_GATHER, ALL_REDUCE, BROADCAST, analysed, collectives, rank_trace


def test_collectives_of_steps_in_order() -> None:
    found = collectives(rank_trace(1, [[(200, 30), (300, 40)], [(200, 50), (300, 60)]], names=(ALL_REDUCE, ALL_GATHER)))
    assert (found.rank, found.world_size, found.step_source) == (1, 2, "profiler_step")
    assert [found.kinds[k] for k in found.kind] == ["all_reduce", "all_gather"] * 2
    assert found.step.tolist() == [0, 0, 1, 1]
    assert found.ordinal.tolist() == [0, 1, 0, 1]
    assert found.dur_ns.tolist() == [30_000, 40_000, 50_000, 60_000]
    assert (found.start_ns - found.launch_start_ns).tolist() == [10_000] * 4
    assert found.exposed_ns.tolist() == [70_000, 110_000]
    assert found.step_hidden_ns.tolist() == [0, 0]


def test_a_group_is_that_of_the_file_or_the_only_one_listed() -> None:
    told = collectives(rank_trace(0, [[(200, 30)]], group=("tp", "[0, 1]")))
    assert (told.groups, told.group_sizes) == (("tp [0, 1]",), (2,))
    listed = collectives(rank_trace(0, [[(200, 30)]]))
    assert (listed.groups, listed.group_sizes) == (("[0, 1]",), (2,))
    two = [{"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "1", "ranks": [0, 2]}]
    unknown = collectives(rank_trace(0, [[(200, 30)]], world=4, pg_config=two))
    assert (unknown.groups, unknown.group_sizes) == (("",), (None,))
    many = collectives(rank_trace(0, [[(200, 30)]], group=("0", "[0, 1, ..., 63]")))
    assert (many.groups, many.group_sizes) == (("0 [0, 1, ..., 63]",), (None,))


@pytest.mark.parametrize(
    ("name", "ranks", "groups"),
    [
        ("tp", [0, 1], ("tp [0, 1]",)),  # a list, as it may be written one day
        (3, "[0, 1]", ("3 [0, 1]",)),
        ("tp", [[[0]], "x"], ("tp",)),
        (None, None, ("[0, 1]",)),
        ({"odd": 1}, 7, ("[0, 1]",)),
    ],
)
def test_groups_as_odd_files_have_them(name: object, ranks: object, groups: tuple[str, ...]) -> None:
    made = rank_trace(0, [[(200, 30)]])
    made._events[-1]["args"] |= {"Process Group Name": name, "Process Group Ranks": ranks}
    assert collectives(made).groups == groups


def test_hidden_is_what_runs_beside_and_overlapping_collectives_count_once() -> None:
    # on another stream from 80 µs on: 20 µs beside the compute kernel, then two at once from 150 to 180
    found = collectives(rank_trace(0, [[(80, 100), (150, 50)]], stream=20))
    assert found.hidden_ns.tolist() == [20_000, 0]
    assert found.step_hidden_ns.tolist() == [20_000]
    assert found.exposed_ns.tolist() == [100_000]  # 100 to 200


def test_steps_that_do_not_count_are_left_out_and_a_file_without_steps_is_one() -> None:
    made = trace()
    for at in (0, 100):
        made.launch(at, 5).kernel(at + 10, 20, name=ALL_REDUCE)
    found = collectives(made)
    assert (found.step_source, found.steps, found.step.tolist()) == ("none", 1, [0, 0])


def test_a_collective_without_its_launch_has_no_launch_time() -> None:
    made = rank_trace(0, [[(200, 30)]])
    made.kernel(400, 20, name=ALL_REDUCE, launch=False)
    found = collectives(made)
    assert found.launch_start_ns[-1] == NO_TIME


def test_a_trace_without_any_and_one_without_gpu_ops() -> None:
    for made in (trace().launch(0, 5).kernel(10, 5), trace()):
        assert len(collectives(made)) == 0


def test_it_is_small_and_goes_from_process_to_process() -> None:
    found = collectives(rank_trace(0, [[(200 + 10 * i, 5) for i in range(64)]] * 20))
    packed = pickle.dumps(found)
    assert len(packed) < 64 * 20 * 50 + 4000
    again = pickle.loads(packed)
    assert np.array_equal(again.start_ns, found.start_ns)


def test_a_file_tells_what_a_shared_kernel_does() -> None:
    """NCCL runs sends, receives and all-to-alls in one kernel."""
    made = rank_trace(0, [[(200, 30)]], names=("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",))
    assert collectives(made).kinds == ("send_recv",)
    made._events[-1]["args"]["Collective name"] = "all_to_allv"
    assert collectives(made).kinds == ("all_to_all",)
    assert analysed(made).context.trace.collectives == ('["all_to_allv",null,null]',)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (ALL_REDUCE, "all_reduce"),
        (BROADCAST, "broadcast"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(…)", "reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(…)", "reduce_scatter"),
        ("ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum(…)", "all_reduce"),
        ("ncclKernel_AllReduce_RING_LL_Sum_half(…)", "all_reduce"),
        ("ncclDevKernel_Generic_4(…)", "communication"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(…)", "all_reduce"),
        ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<…>", "all_reduce"),
        ("multimem_one_shot_all_reduce_kernel<…>", "all_reduce"),
        ("deep_ep::internode_ll::combine<…>(…)", "all_to_all"),
        ("void at::native::reduce_kernel<512, 1, …>", None),
        ("void at::native::vectorized_gather_kernel<16, long>(…)", None),
        ("splitKreduce_kernel<32, 16, …>", None),
        ("triton_red_fused_all_reduce_add_0", None),
    ],
)
def test_kinds_by_the_names_of_kernels(name: str, kind: str | None) -> None:
    assert kind_of_kernel(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("send 0->1", "send_recv"),
        ("odd", "communication"),
    ],
)
def test_kinds_by_torch_names(name: str, kind: str) -> None:
    assert kind_of_collective(name) == kind


def test_sends_and_receives_of_an_all_to_all_are_one() -> None:
    """NCCL has no kernel of its own for it; the operator around the launch names it."""
    builder = trace()
    for step in range(3):
        at = 1000 * step
        builder.step(step, at, 990).op("nccl:all_to_all", at + 10, 20).launch(at + 12, 5)
        builder.kernel(at + 40, 100, name="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)")
        builder.launch(at + 200, 5).kernel(
            at + 210, 50, name="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
        )
    found = Context(builder.build()).collectives
    assert [found.kinds[kind] for kind in found.kind.tolist()] == ["all_to_all", "send_recv"] * 3


@pytest.mark.parametrize("name", ["deep_ep::intranode::dispatch<8>", "void dpsk::ep::internode::combine<4, true>(int)"])
def test_kernels_of_deep_ep_are_all_to_alls(name: str) -> None:
    assert kind_of_kernel(name) == "all_to_all"
