"""Why graphs did not engage, from what the profiled processes recorded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest
from launchscope.analysis.model.advisor_documents import FindingDoc
from launchscope.analysis.model.capture import (
    CompileRecord,
    Failure,
    GraphBreak,
    Manifest,
    ModeRecord,
    OutputCheck,
    OwnGraphs,
    ProcessRecord,
    Recompile,
    ReplacedBuffer,
    Target,
)
from launchscope.analysis.profile.graph_reasons import profile_findings
from launchscope.analysis.profile.measured_mode import MeasuredMode

from ..captures import shipped

LINE = "model.py:42 in decode: if x.sum().item() > 0:"


def process(**found: object) -> ProcessRecord:
    return ProcessRecord(repeat=0, started="2026-01-01T00:00:00Z", **found)  # type: ignore[arg-type]


def timed(**found: object) -> ProcessRecord:
    return process(samples_ns=(1_000.0,) * 3, **found)


def findings(batch_size: int | None = 1, **modes: ProcessRecord | Iterable[ProcessRecord]) -> list[FindingDoc]:
    records = {
        name: ModeRecord(processes=(found,) if isinstance(found, ProcessRecord) else tuple(found))
        for name, found in modes.items()
    }
    manifest = Manifest(
        launchscope="0", created="", target=Target(name="model.py", batch_size=batch_size), modes=records
    )
    measured = {name: MeasuredMode(name, record, [], manifest) for name, record in records.items()}
    first = next((name for name, mode in measured.items() if mode.timed), None)
    return profile_findings(measured, first, batch_size)


def only(found: list[FindingDoc]) -> FindingDoc:
    (one,) = found
    return one


def test_nothing_in_the_way_is_nothing_told() -> None:
    check = OutputCheck(matches=True, tolerance=0.01, inputs_compared=3, inputs_change_output=True)
    whole = CompileRecord(unique_graphs=1)
    assert findings(eager=timed(), graph=timed(output=check), fused=timed(output=check, compiler=whole)) == []


def not_captured(operator: str | None = "aten::_local_scalar_dense", line: str | None = LINE) -> ProcessRecord:
    reason = "can't be captured: the step does something that waits for the GPU — CUDA error"
    failure = Failure(phase="capture", reason=reason, line=line, operator=operator)
    return process(error=f"{reason}, at {line}", failure=failure)


def test_a_capture_that_fails_in_two_modes_is_told_once() -> None:
    told = only(findings(eager=timed(), graph=not_captured(), fused_graph=not_captured()))
    assert (told.code, told.mode, told.line) == ("capture_failed", "graph, fused_graph", LINE)
    assert told.what == (
        "the step can't be captured: aten::_local_scalar_dense waits for the GPU or depends on its results"
    )
    assert told.how == "keep the value on the GPU (torch.where, a mask), or read it after the step, from a pinned copy"


@pytest.mark.parametrize(
    ("operator", "line", "how"),
    [
        ("aten::nonzero", None, "its result's size depends on the data"),
        ("aten::_to_copy", None, "copy without waiting"),
        (None, "model.py:3 in step: token = logits.cpu()", "copy without waiting"),
        (None, "model.py:3 in step: torch.cuda.synchronize()", "take the wait out of the step"),
        (None, "model.py:3 in step: values = x.tolist()", "keep the value on the GPU"),
        (None, None, "take what waits for the GPU out of what is captured"),
    ],
)
def test_what_to_do_goes_by_the_operator_then_by_the_line(operator: str | None, line: str | None, how: str) -> None:
    assert only(findings(eager=timed(), graph=not_captured(operator, line))).how.startswith(how)


def test_a_capture_that_is_older_than_the_record_has_its_line_in_words() -> None:
    words = "can't be captured: … (.item(), .cpu(), nonzero, a synchronise) — CUDA error"
    line = "serve_loop.py:105 in step: torch.cuda.current_stream().synchronize()"
    told = only(findings(eager=timed(), graph=process(error=f"{words}, at {line}")))
    assert (told.code, told.line, told.evidence) == ("capture_failed", line, [words])
    assert told.how.startswith("take the wait out of the step")


def test_a_process_that_died_has_its_words() -> None:
    told = only(findings(eager=timed(), graph=process(error="the process died of signal 9 (SIGKILL) (capture)")))
    assert (told.code, told.line) == ("mode_failed", None)
    assert told.what == "the mode failed: the process died of signal 9 (SIGKILL) (capture)"


def test_a_mode_that_fails_otherwise_names_the_line_and_what_to_do() -> None:
    memory = Failure(phase="capture", reason="out of GPU memory (capture): Tried to allocate 2 GiB.", line=LINE)
    told = only(findings(eager=timed(), graph=process(error="out of GPU memory", failure=memory)))
    assert (told.code, told.line) == ("mode_failed", LINE)
    assert told.how.startswith("free memory")


def test_graph_breaks_by_line() -> None:
    breaks = (
        GraphBreak(reason="Unsupported Tensor.item() call", hint="Set capture_scalar_outputs", line=LINE, count=2),
        GraphBreak(reason="logging.Logger method not supported", hint="Add the logging method", line="m.py:1 in f: x"),
    )
    record = CompileRecord(unique_graphs=3, graph_breaks=breaks)
    item, log = findings(eager=timed(), fused=timed(compiler=record), fused_graph=timed(compiler=record))
    assert (item.code, item.mode, item.line) == ("graph_break", "fused, fused_graph", LINE)
    assert item.evidence == ["3 graphs in all; 2 breaks here"]
    assert item.how.startswith("keep the value on the GPU")  # torch's own hint leaves the wait in
    assert log.how == "Add the logging method"


def test_recompiles_and_the_limit() -> None:
    again = Recompile(guard="L['n'] == 3", function="step at model.py:40", line="model.py:41 in step: x + n", count=7)
    told = only(findings(fused=timed(compiler=CompileRecord(recompiles=(again,), limit_reached=True))))
    assert told.what == (
        "torch.compile compiled step at model.py:40 anew 7×, and gave it up at its limit: it runs as written"
    )
    assert (told.evidence, told.line) == (["failed guard: L['n'] == 3"], "model.py:41 in step: x + n")


def test_cuda_graphs_that_torch_compile_left_out() -> None:
    record = CompileRecord(cudagraph_skips=("skipping cudagraphs due to mutated inputs (1 instances)",))
    told = only(findings(as_written=timed(compiler=record)))
    assert (told.code, told.mode) == ("cudagraph_skip", "as_written")
    assert "mutated inputs" in told.what


def test_a_frozen_input_is_named() -> None:
    check = OutputCheck(
        matches=False,
        tolerance=0.01,
        inputs_compared=3,
        inputs_change_output=True,
        note="frozen on its first input: …",
        frozen_inputs=("position",),
    )
    told = only(findings(eager=timed(), graph=timed(output=check)))
    assert (told.code, told.what) == ("frozen_input", "the graph does not read the input 'position'")


def test_a_targets_own_graph_that_reads_another_buffer() -> None:
    own = OwnGraphs(captured=1, replayed=True, unread_inputs=("token",))
    buffer = ReplacedBuffer(variable="buffers.token", line="m.py:9 in step: buffers.token = host.to(device)")
    told = only(findings(as_written=timed(own_graphs=own, replaced=(buffer,))))
    assert (told.code, told.basis, told.line) == ("frozen_input", "measured", buffer.line)
    assert told.how == "overwrite what was captured: buffers.token.copy_(new)"
    alone = only(findings(as_written=timed(own_graphs=own)))
    assert alone.basis == "inferred"


def test_an_input_that_the_step_replaces() -> None:
    buffer = ReplacedBuffer(variable="batch.token", input="token", line="m.py:9 in step: batch.token = x")
    told = only(findings(eager=timed(replaced=(buffer,))))
    assert (told.code, told.line, told.how) == (
        ("replaced_buffer", buffer.line, "overwrite it in place: batch.token.copy_(…)")
    )


@pytest.mark.parametrize(
    ("batch", "how"),
    [
        (3, "pad to 4: 1 of 4 rows are padding then (25 %)"),
        (13, "capture batch 13, or 16 and pad to it: 3 of 16 rows are padding then (19 %)"),
        (16, "capture batch 16, too"),
    ],
)
def test_a_batch_off_the_ladder(batch: int, how: str) -> None:
    own = OwnGraphs(captured=4, table="graphs", sizes=(1, 2, 4, 8))
    told = only(findings(batch, eager=timed(own_graphs=own)))
    assert (told.code, told.how) == ("off_ladder", how)
    assert told.what == f"batch {batch} is not among the captured sizes 1, 2, 4, 8: the step runs without a graph"
    assert told.evidence[1] == "the sizes are the keys of graphs"


@pytest.mark.parametrize(("batch", "sizes"), [(13, ()), (None, (1, 2)), (2, (1, 2))])
def test_without_known_sizes_the_ladder_is_no_reason(batch: int | None, sizes: tuple[int, ...]) -> None:
    told = only(findings(batch, eager=timed(own_graphs=OwnGraphs(captured=2, sizes=sizes))))
    assert (told.code, told.basis) == ("not_replayed", "inferred")


def test_a_capture_that_the_target_swallowed() -> None:
    failed = Failure(phase="capture", reason="can't be captured: … — CUDA error", line=LINE)
    told = only(findings(eager=timed(own_graphs=OwnGraphs(failed=(failed,)))))
    assert (told.code, told.mode, told.line) == ("capture_failed", "eager", LINE)
    assert told.what.startswith("a capture in the target's own code failed, and it went on without a graph")


@cache
def recorded(name: str) -> list[FindingDoc]:
    document = shipped(name).document
    assert document.profile is not None
    return document.profile.graph_findings


@pytest.mark.parametrize("name", ["llama_1b.zip", "live.zip", "serve_graph.zip", "regressions/compiled.zip"])
def test_good_models_on_an_h200_have_nothing_in_the_way(name: str) -> None:
    assert recorded(name) == []


def test_code_that_was_left_out_of_compilation_on_an_h200() -> None:
    told = only(recorded("regressions/compiled_skip.zip"))
    assert (told.code, told.mode) == ("graph_break", "fused")
    assert told.what == "torch.compile cut the step into pieces at 2 places"


def test_an_item_in_a_serving_step_on_an_h200() -> None:
    told = only(recorded("regressions/serve_item.zip"))
    assert (told.code, told.mode, told.line) == ("waits_in_step", "eager", "serve_loop.py(41): check")
    assert told.evidence[1] == (
        "cudaStreamSynchronize in aten::_local_scalar_dense, at serve_loop.py(41): check (1 per step)"
    )
