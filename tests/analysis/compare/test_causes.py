"""What changed in a step, in words, and where to look first."""

from __future__ import annotations

from launchscope.analysis.compare.causes import causes, look_first
from launchscope.analysis.compare.snapshot import BlockingSite, KernelSite, LaunchSite
from msgspec.structs import replace

from .snapshots import ADD, GEMM, ITEM, MM, SUM, US, eager, graph, trace


def test_nothing_changed() -> None:
    assert causes(eager(), eager()) == []


def test_a_blocking_call_more() -> None:
    now = eager(blocking_calls=1.0, blocking_sites=(ITEM,))
    assert causes(eager(), now) == [
        "1 blocking call more: cudaStreamSynchronize in aten::item, at model.py(42): step (0 → 1 per step)."
    ]
    place = "cudaStreamSynchronize in aten::item, at model.py(42): step (1 per step)"
    assert look_first("blocking_calls", eager(), now) == place
    assert look_first("blocking_calls", None, now) == place


def test_one_in_every_fourth_step() -> None:
    now = eager(blocking_calls=0.25, blocking_sites=(replace(ITEM, per_step=0.25),))
    assert causes(eager(), now) == [
        "0.25 blocking calls more: cudaStreamSynchronize in aten::item, at model.py(42): step (0 → 0.25 per step)."
    ]


def test_a_line_that_moved_is_no_new_call() -> None:
    moved = replace(ITEM, stack=("model.py(48): step", "aten::item"))
    assert causes(eager(blocking_sites=(ITEM,)), eager(blocking_sites=(moved,))) == []
    second = replace(ITEM, stack=("model.py(90): sample", "aten::item"))
    assert causes(eager(blocking_sites=(ITEM,)), eager(blocking_sites=(moved, second))) == [
        "1 blocking call more: cudaStreamSynchronize in aten::item, at model.py(90): sample (0 → 1 per step)."
    ]


def test_blocking_calls_of_which_one_side_knows_no_operator() -> None:
    bare = BlockingSite(api=ITEM.api, operator=None, stack=(), per_step=1.0)
    assert causes(eager(blocking_sites=(bare,)), eager(blocking_sites=(ITEM,))) == []


def test_a_call_that_came_is_told_though_one_side_knows_no_operators() -> None:
    bare = BlockingSite(api=ITEM.api, operator=None, stack=(), per_step=1.0)
    assert causes(eager(blocking_sites=(bare,)), eager(blocking_sites=(bare, ITEM))) == [
        "1 blocking call more: cudaStreamSynchronize in aten::item, at model.py(42): step (0 → 1 per step)."
    ]


def test_numbers_of_compiled_kernels_say_nothing() -> None:
    def compiled(number: int) -> KernelSite:
        name = f"triton_poi_fused_add_{number}"
        return KernelSite(name=name, category="kernel", operator=name, per_step=16.0, ns_per_step=16 * US)

    assert causes(eager(kernel_sites=(compiled(1), compiled(2))), eager(kernel_sites=(compiled(7), compiled(8)))) == []


def test_a_lost_graph() -> None:
    now = graph(launches=300.0, graph_launches=0.0, graph_coverage=0.0, launch_sites=(MM, ADD))
    assert causes(graph(), now) == [
        "Graph replays were lost: launches 1 → 300 per step, 100 % → 0 % of the kernels run in graphs."
    ]
    for figure in ("launches", "graph_coverage", "graph_launches"):
        assert look_first(figure, graph(), now) == "200 launches per step from aten::mm, at model.py(60): forward"
    syncs = replace(now, blocking_sites=(ITEM,))
    assert look_first("launches", graph(), syncs) == (
        "cudaStreamSynchronize in aten::item, at model.py(42): step (1 per step)"
    )


def test_a_graph_beside_which_more_is_launched_was_not_lost() -> None:
    now = graph(launches=5.0, graph_coverage=0.94)
    assert causes(graph(), now) == [
        "Fewer of the kernels run in graphs: 100 % → 94 %, launches 1 → 5 per step.",
    ]
    one_of_two = causes(graph(graph_launches=2.0), graph(graph_launches=1.0, graph_coverage=0.6))
    assert one_of_two[0].startswith("Graph replays were lost: ")


def test_a_memset_is_no_kernel() -> None:
    """By another name in a graph than outside it, it neither came nor went; one that came is called what it is."""
    known, unknown = (
        KernelSite(name=f"Memset ({kind})", category="memset", operator=None, per_step=1.0, ns_per_step=US)
        for kind in ("Device", "Unknown")
    )
    assert causes(eager(kernel_sites=(GEMM, known)), eager(kernel_sites=(GEMM, unknown))) == []
    assert causes(eager(kernel_sites=(GEMM,)), eager(kernel_sites=(GEMM, known))) == [
        "1 extra memset per step, 1.00 µs: Memset."
    ]


def test_extra_kernels_and_where_they_are_launched() -> None:
    """28 more of the additions, from another line than those before."""
    more = LaunchSite(operator="aten::add", line="model.py(71): residual", per_step=28.0, kernels_per_step=28.0)
    now = eager(
        launches=328.0,
        kernels=328.0,
        launch_sites=(MM, ADD, more),
        kernel_sites=(GEMM, replace(SUM, per_step=128.0, ns_per_step=128 * US)),
    )
    assert causes(eager(), now) == [
        "28 extra kernels from aten::add, at model.py(71): residual per step, 28.0 µs: add.",
    ]
    assert look_first("launches", eager(), now) == "28 launches per step from aten::add, at model.py(71): residual"
    assert look_first("kernels", eager(), now) == "28 × add per step from aten::add, at model.py(71): residual"
    assert causes(now, eager()) == [
        "28 fewer kernels from aten::add, at model.py(71): residual per step, 28.0 µs: add."
    ]


def test_the_operator_of_extra_kernels_is_the_one_that_launches_more() -> None:
    """Of a kernel that two operators share, the table of kernels names the one that has the most of it."""
    other = LaunchSite(operator="aten::mul", line="model.py(80): scale", per_step=28.0, kernels_per_step=28.0)
    now = eager(
        kernels=328.0,
        launch_sites=(MM, ADD, other),
        kernel_sites=(GEMM, replace(SUM, per_step=128.0, ns_per_step=128 * US)),
    )
    assert causes(eager(), now) == ["28 extra kernels from aten::mul, at model.py(80): scale per step, 28.0 µs: add."]


def test_extra_copies() -> None:
    copy = KernelSite(
        name="Memcpy DtoH (Device -> Pageable)", category="memcpy", operator="aten::_to_copy", per_step=5.0,
        ns_per_step=5 * US,
    )  # fmt: skip
    now = eager(memcpys=5.0, kernel_sites=(GEMM, SUM, copy))
    assert causes(eager(), now) == [
        "5 memory copies more per step: Memcpy DtoH (Device -> Pageable) in aten::_to_copy (0 → 5)."
    ]
    assert look_first("memcpys", None, now) == "5 × Memcpy DtoH (Device -> Pageable) per step from aten::_to_copy"


def test_a_compile_skip() -> None:
    fused = KernelSite(
        name="triton_poi_fused_add_0", category="kernel", operator=None, per_step=32.0, ns_per_step=64 * US
    )
    was = eager(mode="fused", kernels=232.0, launch_sites=(), kernel_sites=(GEMM, fused))
    now = eager(mode="fused", kernels=300.0, launch_sites=(), kernel_sites=(GEMM, SUM))
    assert causes(was, now) == [
        "What torch.compile had merged runs on its own: aten::add (100), kernels 232 → 300 per step: a graph break, or "
        "skipped code.",
        "100 extra kernels from aten::add per step, 100 µs: add.",
        "32 fewer kernels per step, 64.0 µs: triton_poi_fused_add_0.",
    ]


def test_launches_that_no_kernel_explains() -> None:
    memset = LaunchSite(operator="aten::zero_", line=None, per_step=16.0, kernels_per_step=0.0)
    now = eager(launches=316.0, launch_sites=(MM, ADD, memset))
    assert causes(eager(), now) == ["16 launches more from aten::zero_ (0 → 16 per step)."]


def test_the_same_kernels_slower_on_the_same_machine_alone() -> None:
    slow = replace(GEMM, ns_per_step=450 * US)
    now = eager(gpu_work_ns=0.55e6, kernel_sites=(slow, SUM))
    (told,) = causes(eager(), now)
    assert told.startswith("The same GPU ops run slower: 500 µs → 550 µs per step, most of it in gemm (+50.0 µs): ")
    assert causes(eager(), replace(now, machine={"gpu": "another"})) == []
    assert causes(eager(), eager(gpu_work_ns=0.503e6)) == []  # the clock alone moves by that


def test_a_step_time_has_no_place_of_its_own() -> None:
    assert look_first("step_time", eager(), eager()) is None
    assert look_first("graph_memory", graph(), graph()) is None
    assert look_first("launches", None, graph()) is None  # a graph launch is not made by an operator


def test_a_trace_without_operators() -> None:
    bare = trace(launch_sites=(LaunchSite(operator=None, per_step=300.0, kernels_per_step=300.0),))
    assert causes(trace(), bare) == []
    assert look_first("launches", trace(), bare) is None
