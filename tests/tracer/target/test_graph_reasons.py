"""Why graphs don't engage, as it is read in the profiled process."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from launchscope import Target
from launchscope.analysis.model.advisor_documents import FindingDoc
from launchscope.analysis.model.capture import CompileRecord, OwnGraphs, ProcessRecord, ReplacedBuffer, open_capture
from launchscope.analysis.report import load
from launchscope.fixtures.models import llama_1b_faults
from launchscope.tracer.measure.outputs import frozen_inputs, reference, unread_inputs
from launchscope.tracer.measure.protocol import target_graphs
from launchscope.tracer.target import reasons
from launchscope.tracer.target.reasons import Compiler
from launchscope.tracer.target.watch import UNDER_GRAPHS, Buffers, ladder, variables, watching_captures

from ..conftest import Profiler, Write

HERE = Path(__file__).parent
LOG = logging.getLogger(__name__)


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    """Of a process that compiled nothing yet."""
    from torch._dynamo import utils

    def forget() -> None:
        torch._dynamo.reset()
        for records in (utils.counters, utils.graph_break_reasons, utils.guard_failures):
            records.clear()

    forget()
    yield Compiler()
    forget()


def compiled(step: Callable[[], Any]) -> Any:
    return torch.compile(step, dynamic=False, backend="eager")


def record(compiler: Compiler) -> CompileRecord:
    found = compiler.record(HERE)
    assert found is not None
    return found


def test_a_process_that_compiles_nothing_has_no_record(compiler: Compiler) -> None:
    assert compiler.record(HERE) is None


def test_a_step_in_one_piece(compiler: Compiler) -> None:
    x = torch.ones(4)
    compiled(lambda: x * 2 + 1)()
    assert record(compiler) == CompileRecord(unique_graphs=1)


def test_a_graph_break_has_its_reason_and_the_users_line(compiler: Compiler) -> None:
    x = torch.ones(4)

    def inner() -> torch.Tensor:
        LOG.debug("half way")
        return x + 1

    def step() -> torch.Tensor:
        return inner() * (x * 2)

    compiled(step)()
    found = record(compiler)
    (broken,) = found.graph_breaks
    assert "Logger" in broken.reason
    assert broken.line is not None
    assert broken.line.startswith("test_graph_reasons.py:")
    assert broken.line.endswith(' in inner: LOG.debug("half way")')
    assert (found.recompiles, found.limit_reached) == ((), False)


def test_an_item_breaks_the_graph_behind_a_break_too(compiler: Compiler) -> None:
    """The rest behind a break is a function of torch's own name; the line says the user's."""
    x = torch.ones(4)

    def step() -> torch.Tensor:
        LOG.debug("first")
        if x.sum().item() > 9:
            return x
        return x + 1

    compiled(step)()
    lines = [each.line for each in record(compiler).graph_breaks]
    assert any(line is not None and line.endswith("in step: if x.sum().item() > 9:") for line in lines)


def test_a_guard_that_fails_each_step_is_counted_and_named(compiler: Compiler) -> None:
    x, count = torch.ones(4), [0]

    def step() -> torch.Tensor:
        return x + count[0]

    run = compiled(step)
    for count[0] in range(4):
        run()
    found = record(compiler)
    (again,) = found.recompiles
    assert again.count == 3
    assert "count" in again.guard
    assert again.function.startswith("step at test_graph_reasons.py:")
    assert again.line is not None
    assert again.line.endswith("in step: return x + count[0]")
    assert not found.limit_reached


def test_the_limit_of_recompiles_is_told(compiler: Compiler) -> None:
    x, count = torch.ones(4), [0]

    def step() -> torch.Tensor:
        return x + count[0]

    with torch._dynamo.config.patch(recompile_limit=2):
        run = compiled(step)
        for count[0] in range(4):
            run()
    found = record(compiler)
    assert found.limit_reached
    assert found.graph_breaks == ()


@pytest.mark.parametrize("logger", ["__perf_hints", "__cudagraphs"])
def test_cuda_graphs_that_were_left_out(compiler: Compiler, logger: str) -> None:
    x = torch.ones(4)
    compiled(lambda: x * 2)()
    logging.getLogger(f"torch._inductor.cudagraph_utils.{logger}").warning("skipping cudagraphs due to cpu device (x)")
    assert record(compiler).cudagraph_skips == ("skipping cudagraphs due to cpu device (x)",)


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("none", None),
        ("graph_break", 'in debug: LOG.debug("half way: %s", tuple(arguments[0].shape))'),
        ("item", "in check: if not arguments[0].isfinite().all().item():"),
    ],
)
def test_the_break_of_a_model_with_a_fault(
    compiler: Compiler, fault: str, line: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchs = f"site-packages{os.sep}torch{os.sep}"
    monkeypatch.setattr(reasons, "_INSTALLED", (torchs,))  # the samples are somebody's code, wherever they lie
    step = llama_1b_faults.build(1, "cpu", torch.float32, 64, shape="tiny", fault=fault).step
    with torch.no_grad():
        compiled(step)()
    lines = {each.line for each in record(compiler).graph_breaks}
    assert len(lines) == (line is not None)
    assert all(line is not None and each is not None and each.endswith(line) for each in lines)


def test_the_buffer_of_a_model_that_is_replaced() -> None:
    target = llama_1b_faults.build(1, "cpu", torch.float32, 64, shape="tiny", fault="static_input")
    with torch.no_grad():
        buffers = Buffers.of(target.step, {}, others=True)
        target.step()
    (found,) = buffers.replaced(target.step)
    assert found.variable == "buffers.token"
    assert found.line is not None
    assert "in step: buffers.token = host_token.to(" in found.line


def test_variables_are_named_as_the_code_writes_them() -> None:
    class Engine:
        def __init__(self) -> None:
            self.cache = {8: torch.ones(2)}
            self.parts = [torch.ones(1)]

        def step(self, scale: float) -> torch.Tensor:
            return self.cache[8] * scale + self.parts[0] + FIRST

    engine = Engine()
    bound = functools.partial(engine.step, 2.0)

    def step() -> torch.Tensor:
        return bound()

    names = {v.name for v in variables(step) if isinstance(v.value, torch.Tensor)}
    assert {"self.cache[8]", "self.parts[0]", "FIRST"} <= names


FIRST = torch.zeros(2)


def test_an_input_in_whose_place_the_step_puts_a_new_tensor() -> None:
    token, position = torch.tensor([3]), torch.tensor([7])
    buffers = SimpleNamespace(token=token, position=position)

    def step() -> torch.Tensor:
        logits = torch.stack((buffers.token, buffers.position)).float()
        buffers.position += 1
        buffers.token = logits.argmax(0)
        return logits

    held = Buffers.of(step, {"token": token, "position": position}, others=False)
    assert held.replaced(step) == ()
    step()
    (found,) = held.replaced(step)
    assert (found.variable, found.input) == ("buffers.token", "token")
    assert found.line is not None
    assert found.line.startswith("test_graph_reasons.py:")
    assert found.line.endswith(" in step: buffers.token = logits.argmax(0)")


class Graph:
    """Stands for ``torch.cuda.CUDAGraph``, which a CPU build can't make."""

    def replay(self) -> None: ...


def test_a_ladder_is_a_dict_of_graphs_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)

    def replayed(graph: Graph) -> Callable[[], None]:
        return lambda: graph.replay()

    graphs: dict[int, object] = {8: replayed(Graph()), 1: Graph().replay, 4: (Graph(), torch.ones(1))}
    settings = {1: "one", 2: "two"}

    def step() -> object:
        return graphs.get(13), settings

    assert ladder(step) == ("graphs", (1, 4, 8))
    graphs[16] = None
    assert ladder(step) == (None, ())


def test_an_input_that_a_graph_is_frozen_on_is_named() -> None:
    token, position = torch.tensor([3.0]), torch.tensor([7.0])
    eager_steps: list[torch.Tensor] = []

    def step() -> torch.Tensor:
        eager_steps.append(token * position)
        return eager_steps[-1]

    target = Target(step, {"token": token, "position": position})
    baked = float(position)
    expected = reference(target.step, target, by_input=True)
    eager_steps.clear()
    assert frozen_inputs(lambda: token * baked, target, expected) == ("position",)
    assert (float(token), float(position)) == (3.0, 7.0)
    assert not eager_steps  # one that runs after a capture may free what the graph reads


def test_an_input_that_a_step_of_its_own_graphs_does_not_read() -> None:
    token, position, captured = torch.tensor([3.0]), torch.tensor([7.0]), torch.tensor([3.0])
    inputs = {"token": token, "position": position}
    assert unread_inputs(lambda: captured * position, Target(lambda: None, inputs)) == ("token",)
    assert unread_inputs(lambda: token * position, Target(lambda: None, inputs)) == ()


def test_tokens_that_stay_the_same_say_nothing() -> None:
    token = torch.tensor([3])
    assert unread_inputs(lambda: torch.tensor([5]), Target(lambda: None, {"token": token})) == ()


def test_outputs_that_differ_by_themselves_say_nothing() -> None:
    count = iter(range(100))
    assert unread_inputs(lambda: torch.tensor([next(count) * 1.0]), Target(lambda: None, {"x": torch.ones(1)})) == ()


class Block:
    """Stands for ``torch.cuda.graph``."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        torch.cuda.CUDAGraph.capture_end(self.graph)


class Captured:
    """Its capture ends in an error where the step raised one, as CUDA's does."""

    broken = False

    def capture_end(self) -> None:
        if self.broken:
            raise RuntimeError("operation failed due to a previous error during capture")


def test_a_capture_that_fails_and_is_swallowed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Captured)
    monkeypatch.setattr(torch.cuda, "graph", Block)

    def capture(step: Callable[[], object]) -> None:
        graph = Captured()
        try:
            with torch.cuda.graph(graph):  # type: ignore[arg-type]
                step()
        except RuntimeError:
            pass

    def check() -> None:
        Captured.broken = True
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    with watching_captures(HERE) as seen:
        capture(lambda: None)
        capture(check)
    Captured.broken = False
    assert seen.captured == 1
    (failed,) = seen.failed
    assert failed.reason.startswith("can't be captured")
    assert failed.line is not None
    assert failed.line.endswith('raise RuntimeError("CUDA error: operation not permitted when stream is capturing")')
    assert vars(torch.cuda)["graph"] is Block
    assert Block.__exit__.__qualname__ == "Block.__exit__"
    assert Captured.capture_end.__qualname__ == "Captured.capture_end"


def test_a_target_with_graphs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph reads the first token for ever; the step puts each new one elsewhere."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Captured)
    monkeypatch.setattr(torch.cuda, "graph", Block)
    host, captured = torch.tensor([3.0]), torch.tensor([3.0])
    buffers = SimpleNamespace(token=captured)

    def step() -> torch.Tensor:
        buffers.token = host.clone()
        return captured * 2

    target = Target(step, {"token": host})
    with watching_captures(HERE) as seen, torch.cuda.graph(Captured()):  # type: ignore[arg-type]
        pass
    own, replaced = target_graphs(seen, target, Buffers.of(step, target.inputs, others=False), UNDER_GRAPHS)
    assert own == OwnGraphs(captured=1, replayed=True, unread_inputs=("token",))
    (found,) = replaced
    assert found == ReplacedBuffer(variable="buffers.token", line=found.line)
    assert (found.line or "").endswith("in step: buffers.token = host.clone()")


def test_without_graphs_of_its_own_nothing_is_run_for_it() -> None:
    def step() -> None:
        raise AssertionError("run")

    with watching_captures(HERE) as seen:
        pass
    assert target_graphs(seen, Target(step), None, None) == (None, ())


def first_process(path: Path, mode: str) -> ProcessRecord:
    return open_capture(path).manifest.modes[mode].processes[0]


def findings(path: Path) -> list[FindingDoc]:
    document = load(path).document
    assert document.profile is not None
    return document.profile.graph_findings


def test_a_capture_that_fails_is_told_with_operator_line_and_what_to_do(profile: Profiler, script: Write) -> None:
    path = script("""
        import fake_device
        import torch

        @torch.library.custom_op("aten_like::item", mutates_args=())
        def read(x: torch.Tensor) -> torch.Tensor:
            fake_device.wait()
            return x.clone()

        x = torch.ones(1)

        def step():
            fake_device.launch("gemm")
            if float(read(x + 1)) < 0:  # x.item()
                return x
            return x * 2
    """)
    capture = profile(path, modes=("eager", "graph"))
    failure = first_process(capture, "graph").failure
    assert failure is not None
    assert (failure.phase, failure.operator) == ("capture", "aten_like::item")
    assert failure.line is not None
    assert failure.line.startswith("model.py:")
    (told,) = findings(capture)
    assert (told.code, told.mode) == ("capture_failed", "graph")
    assert told.what == "the step can't be captured: aten_like::item waits for the GPU or depends on its results"
    assert told.line == failure.line
    assert told.how == "take what waits for the GPU out of what is captured"  # nobody knows this operator


def test_a_wait_outside_of_any_operator_names_none(profile: Profiler, script: Write) -> None:
    path = script("""
        import fake_device
        import torch

        x = torch.ones(1)

        def step():
            fake_device.launch("gemm")
            y = x + 1
            fake_device.wait()  # torch.cuda.synchronize()
            return y
    """)
    capture = profile(path, modes=("eager", "graph"))
    failure = first_process(capture, "graph").failure
    assert failure is not None
    assert (failure.operator, failure.line) == (
        (None, "model.py:10 in step: fake_device.wait()  # torch.cuda.synchronize()")
    )


def test_an_input_that_is_replaced_is_told_with_the_line(profile: Profiler, script: Write) -> None:
    path = script("""
        import fake_device
        import torch
        from launchscope import Target

        class Batch: ...

        def build():
            batch = Batch()
            batch.token = torch.ones(1)

            def step():
                fake_device.launch("gemm")
                logits = batch.token * 2
                batch.token = logits / 2
                return logits

            return Target(step, {"token": batch.token})
    """)
    capture = profile(path)
    assert first_process(capture, "eager").replaced == (
        ReplacedBuffer(variable="batch.token", input="token", line="model.py:15 in step: batch.token = logits / 2"),
    )
    (told,) = findings(capture)
    assert (told.code, told.line) == ("replaced_buffer", "model.py:15 in step: batch.token = logits / 2")
    assert told.how == "overwrite it in place: batch.token.copy_(…)"


def test_a_good_step_has_no_reasons(profile: Profiler, script: Write) -> None:
    path = script("""
        import fake_device
        import torch
        from launchscope import Target

        token = torch.ones(1, 4)

        def step():
            fake_device.launch("gemm", 2_000)
            return token * 2

        def build():
            return Target(step, {"token": token})
    """)
    capture = profile(path, modes=("eager", "graph"))
    for mode in ("eager", "graph"):
        process = first_process(capture, mode)
        assert (process.failure, process.compiler, process.own_graphs, process.replaced) == (None, None, None, ())
    assert findings(capture) == []
