"""Why graphs did not engage in a profile: from what the profiled processes recorded, and from their traces.

docs/graphs.md says from where each reason is read, and what can't be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec.structs import replace

from ..figures.graphs.findings import remedy, trace_findings
from ..model.advisor_documents import FindingDoc
from ..model.capture import AS_WRITTEN, UNGRAPHED, CompileRecord, Failure, OwnGraphs, ReplacedBuffer
from ..model.units import number, one_line, plural, share
from .measured_mode import MeasuredMode
from .select import LINES, TIMES, ranked

_NO_CAPTURE: Final = "can't be captured"
_PLACE: Final = re.compile(r"\S+:\d+ in ")
_PHASE: Final = re.compile(r"\(([a-z ]+)\)")
_BREAKS: Final = re.compile(r"broke the step into pieces at (\d+) places")
_OVERWRITE: Final = "overwrite the buffer that was captured, instead of making a new one: buffer.copy_(new)"


def profile_findings(modes: Mapping[str, MeasuredMode], first: str | None, batch_size: int | None) -> list[FindingDoc]:
    """The findings of all modes; one that several share is told once. ``first``: the mode that the verdict is about."""

    def of_modes(find: Callable[[MeasuredMode], Iterable[FindingDoc]]) -> list[FindingDoc]:
        return [replace(each, mode=mode.name) for mode in modes.values() for each in find(mode)]

    found = of_modes(_failed) + [replace(each, mode=first) for each in _target(modes, batch_size)]
    found += of_modes(_outputs) + of_modes(_compiled)
    waits_of = None if any(each.code == "capture_failed" for each in found) else first
    found += of_modes(lambda mode: _of_traces(mode, waits=mode.name == waits_of))
    merged: dict[tuple[str, str, str | None], FindingDoc] = {}
    for each in found:
        key = (each.code, each.what, each.line)
        known = merged.setdefault(key, each)
        if each.mode not in (known.mode or "").split(", "):
            merged[key] = replace(known, mode=f"{known.mode}, {each.mode}")
    return list(merged.values())


def _failed(mode: MeasuredMode) -> Iterator[FindingDoc]:
    """Why nothing of a graph mode or a compiled mode was timed."""
    if mode.error is None or mode.name in ("eager", AS_WRITTEN):
        return
    failure = next((p.failure for p in mode.record.processes if p.failure is not None), _from_words(mode.error))
    if failure.reason.startswith(_NO_CAPTURE):
        yield _not_captured(failure, "the step can't be captured")
        return
    how = "mend what the message says; eager runs without it"
    if failure.reason.startswith("out of GPU memory"):
        how = "free memory, or take a smaller batch, context or model: the mode needs more than eager does"
    elif failure.phase == "compile" or failure.reason.startswith("torch.compile failed"):
        how = "run the step under torch.compile by itself: its own message says more (TORCH_LOGS=+dynamo)"
    what = f"the mode failed: {one_line(failure.reason)}"
    yield FindingDoc(code="mode_failed", what=what, line=failure.line, how=how)


def _from_words(error: str) -> Failure:
    """Of a capture that is older than the record of failures, or a process that died: its words have the line."""
    reason, at, line = error.rpartition(", at ")
    known = at and _PLACE.match(line)
    phase = _PHASE.search(error)
    return Failure(phase=phase[1] if phase else "", reason=reason if known else error, line=line if known else None)


def _not_captured(failure: Failure, what: str) -> FindingDoc:
    at = "" if failure.operator is None else f": {failure.operator} waits for the GPU or depends on its results"
    return FindingDoc(
        code="capture_failed",
        what=what + at,
        evidence=[one_line(failure.reason)],
        line=failure.line,
        how=remedy(failure.operator, failure.line),
    )


def _target(modes: Mapping[str, MeasuredMode], batch_size: int | None) -> Iterator[FindingDoc]:
    """What the target did with graphs and buffers of its own: the same in every process."""
    processes = [process for mode in modes.values() for process in mode.record.processes]
    graphs = next((p.own_graphs for p in processes if p.own_graphs is not None), None)
    replaced = next((p.replaced for p in processes if p.replaced), ())
    if graphs is not None:
        what = "a capture in the target's own code failed, and it went on without a graph"
        yield from (_not_captured(failure, what) for failure in graphs.failed)
        if graphs.captured and not graphs.replayed:
            yield _not_replayed(graphs, batch_size)
        if graphs.unread_inputs:
            yield _unread(graphs, [buffer for buffer in replaced if buffer.input is None])
    for buffer in replaced:
        if buffer.input is not None:
            yield FindingDoc(
                code="replaced_buffer",
                what=f"the step puts a new tensor in the place of {buffer.variable}, the input {buffer.input!r}",
                evidence=["a graph goes on reading the tensor that it was captured with"],
                line=buffer.line,
                how=f"overwrite it in place: {buffer.variable}.copy_(…)",
            )


def _not_replayed(graphs: OwnGraphs, batch_size: int | None) -> FindingDoc:
    evidence = [f"{plural(graphs.captured, 'graph')} captured while the target was built; its step replays none"]
    if batch_size is None or not graphs.sizes or batch_size in graphs.sizes:
        return FindingDoc(
            code="not_replayed",
            what="the target captures graphs, but its step replays none",
            evidence=evidence,
            how="find the condition that chooses the replay: a size without a graph, a flag, a stream",
            basis="inferred",
        )
    sizes = ", ".join(map(str, graphs.sizes))
    larger = min((size for size in graphs.sizes if size > batch_size), default=None)
    bucket = larger or 1 << (batch_size - 1).bit_length()
    waste = f"{bucket - batch_size} of {bucket} rows are padding then ({share(1 - batch_size / bucket)})"
    how = f"pad to {bucket}: {waste}" if larger else f"capture batch {batch_size}, or {bucket} and pad to it: {waste}"
    if bucket == batch_size:
        how = f"capture batch {batch_size}, too"
    return FindingDoc(
        code="off_ladder",
        what=f"batch {batch_size} is not among the captured sizes {sizes}: the step runs without a graph",
        evidence=[*evidence, f"the sizes are the keys of {graphs.table}"],
        how=how,
    )


def _unread(graphs: OwnGraphs, replaced: list[ReplacedBuffer]) -> FindingDoc:
    names = ", ".join(repr(name) for name in graphs.unread_inputs)
    evidence = ["changed by itself, it leaves the outputs of the step the same, bit for bit"]
    evidence += [f"the step puts a new tensor in the place of {buffer.variable}" for buffer in replaced]
    variable = replaced[0].variable if len(replaced) == 1 else None
    return FindingDoc(
        code="frozen_input",
        what=f"the target's graph does not read the input {names}",
        evidence=evidence,
        line=next((buffer.line for buffer in replaced if buffer.line is not None), None),
        how=_OVERWRITE if variable is None else f"overwrite what was captured: {variable}.copy_(new)",
        basis="measured" if replaced else "inferred",
    )


def _outputs(mode: MeasuredMode) -> Iterator[FindingDoc]:
    """Inputs that a graph of ours was frozen on."""
    checks = [p.output for p in mode.record.processes if p.output is not None and mode.name in UNGRAPHED]
    for check in checks:
        names = ", ".join(repr(name) for name in check.frozen_inputs)
        if names or (check.note or "").startswith("frozen"):
            reads_not = f"the graph does not read the input {names}"
            yield FindingDoc(
                code="frozen_input",
                what=reads_not if names else "the graph is frozen on its first input",
                evidence=["changed by itself, it changes eager's outputs and not the graph's"] if names else [],
                how="keep it a tensor that the step overwrites: a number read by Python is baked in at the capture",
            )


def _compiled(mode: MeasuredMode) -> Iterator[FindingDoc]:
    """What torch.compile said of itself; of captures that are older than its record, the number of breaks."""
    records = [p.compiler for p in mode.record.processes if p.compiler is not None]
    if records:
        most = max(records, key=lambda r: len(r.graph_breaks) + len(r.recompiles) + len(r.cudagraph_skips))
        yield from _compiler(most)
        return
    notes = chain.from_iterable(p.notes for p in mode.record.processes)
    broken = next((found for note in notes if (found := _BREAKS.search(note))), None)
    if broken is not None:
        yield FindingDoc(
            code="graph_break",
            what=f"torch.compile cut the step into pieces at {plural(int(broken[1]), 'place')}",
            how="TORCH_LOGS=graph_breaks names them; profile again with this launchscope, which does, too",
        )


def _compiler(record: CompileRecord) -> Iterator[FindingDoc]:
    pieces = plural(record.unique_graphs or 0, "graph")
    for each in record.graph_breaks:
        yield FindingDoc(
            code="graph_break",
            what=f"torch.compile cut the step into pieces: {one_line(each.reason)}",
            evidence=[f"{pieces} in all; {plural(each.count, 'break')} here"],
            line=each.line,
            how=_without_break(each.line, each.hint),
        )
    for again in record.recompiles:
        gave_up = ", and gave it up at its limit: it runs as written" if record.limit_reached else ""
        yield FindingDoc(
            code="recompiles",
            what=f"torch.compile compiled {again.function} anew {number(again.count)}×{gave_up}",
            evidence=[f"failed guard: {one_line(again.guard)}"],
            line=again.line,
            how="make what the guard names constant from step to step, or a tensor",
        )
    for reason in record.cudagraph_skips:
        yield FindingDoc(
            code="cudagraph_skip",
            what=f"torch.compile left out the CUDA graphs that it was asked for: {one_line(reason)}",
            how="mend what it names, or capture the compiled step by hand (mode fused_graph)",
        )


def _without_break(line: str | None, hint: str | None) -> str:
    """For what waits for the GPU torch's own hint would not help a capture."""
    known = remedy(line)
    if known != remedy(None):
        return known
    if hint and "file an issue" not in hint:
        return one_line(hint)
    return "move it out of the step, or write it in operators that torch.compile knows"


def _of_traces(mode: MeasuredMode, *, waits: bool) -> list[FindingDoc]:
    """By the `cuda` pass, which slows a step the least; operators and lines from the pass that knows most of them."""
    chosen = next((each.document for each in ranked(mode.cuda, TIMES, mode)), None)
    if chosen is None or chosen.graph_doctor is None:
        return []
    named = ranked(mode.analyses, LINES, mode)[0].document
    period = None if chosen.steps is None else chosen.steps.period_ns
    found = trace_findings(chosen.graph_doctor, named.blocking_calls, period, named.graph_doctor)
    return [each for each in found if waits or each.code != "waits_in_step"]
