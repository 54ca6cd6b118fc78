"""What holds for any file, whole or damaged: it is refused with one clear line, or read to figures that close."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
from launchscope.analysis import report_story
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.inputs.readers.foreign import NEITHER, NO_EVENTS
from launchscope.analysis.inputs.sources import Source, sources
from launchscope.analysis.many.document import UNREADABLE
from launchscope.analysis.many.one_file import Job, bare_row, find_figures, finish
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.model.errors import LaunchscopeError, UnreadableInput
from launchscope.analysis.model.trace import NONE, OpKind, Table, Trace
from launchscope.analysis.profile.analysed_traces import require_whole
from launchscope.analysis.render import perfetto
from launchscope.analysis.report import Report, load

from .judge import is_other_json, is_proven_whole
from .slow_readers import differences, read_slowly

Outcome = Literal["read", "refused"]

LONGEST_REFUSAL: Final = 2100
WIDTH: Final = 100
_CODE: Final = re.compile(r"`[^`\n]*`")
HTML_TAGS: Final = frozenset({"div", "p", "b", "small", "h3", "table", "tr", "th", "td"})


class Broken(AssertionError):
    """A promise that a file broke."""


def require(holds: Any, what: str) -> None:
    if not holds:
        raise Broken(what)


def keeps(data: bytes, path: Path, *, outputs: bool) -> Outcome:
    """What becomes of a trace file with this content, after everything that can be asked of it was."""
    path.write_bytes(data)
    file = require_found(data, path)
    try:
        trace = open_trace(path)
    except UnreadableInput as error:
        require_clear(error, path)
        require_slow_refusal(data, str(error))
        if outputs and file is not None:
            require(finish(Job(file)).row.error_kind == UNREADABLE, "a file that is refused, and no such row")
        return "refused"
    require_sound(trace)
    slow = _slowly(data, trace)
    if slow is not None:
        told = [*differences(trace, slow)]
        require(not told, f"another trace than the slow reader's: {told[:3]}")
    analysis = analyze_trace(trace, name="mutant\x1b[1m")
    require_closed(analysis)
    require_reliable_if_whole(data, analysis)
    if file is not None:
        find_figures(bare_row(file), trace)
    if outputs and file is not None:
        require(finish(Job(file)).row.error is None, "a file that is read, and no row of it")
        is_refused = finish(Job(file, strict=True)).row.error is not None
        require(is_refused or is_proven_whole(data, trace), "not proven whole, and a row in spite of --strict")
    if outputs:
        document = ReportDocument(
            launchscope="0", target=None, environment=None, traces=[analysis.document], profile=None
        )
        require_plain_outputs(Report(document, (analysis,)))
    return "read"


def archive_keeps(data: bytes, path: Path, *, outputs: bool) -> Outcome:
    """The same of a .zip of traces or a capture."""
    path.write_bytes(data)
    try:
        report = load(path)
    except UnreadableInput as error:
        require_clear(error, path)
        return "refused"
    require_finite(report.to_json())
    for analysis in report.analyses:
        require_sound(analysis.context.trace)
        require_closed(analysis)
    require(all(reason.reason.isprintable() for reason in report.document.unread), "a reason that is not printable")
    if outputs:
        require_plain_outputs(report)
    return "read"


def require_found(data: bytes, path: Path) -> Source | None:
    """Among the files of its folder it is a row, or counted among those that plainly are none; None for such a one."""
    beside = path.parent / "rank0.json"
    if not beside.exists():
        beside.write_bytes(b'{"traceEvents": []}')
    listed = sources([path.parent])
    found = {file.path: file for file in listed.each}
    if str(path) in found:
        return found[str(path)]
    reason = dict(listed.skipped).get(path.name)
    require(reason is not None, "neither a row nor counted")
    require(reason != NEITHER, "named like a trace, and skipped")
    require(reason != NO_EVENTS or is_other_json(data), f"skipped as {reason}, which it is not")
    return None


def require_reliable_if_whole(data: bytes, analysis: TraceAnalysis) -> None:
    """A file that is not proven whole is not reliable, and refused where that is asked for."""
    if is_proven_whole(data, analysis.context.trace):
        return
    require(not analysis.document.coverage.reliable, "not proven whole, and reliable")
    try:
        require_whole(analysis.context.trace, analysis.document.warnings)
    except UnreadableInput:
        return
    raise Broken("not proven whole, and read in spite of --strict")


def require_clear(error: LaunchscopeError, path: Path) -> None:
    """One line with the file's name."""
    text = str(error)
    require(str(path) in text, f"a refusal that does not name the file: {text!r}")
    require(text.isprintable(), f"a refusal with control characters: {text!r}")
    require(len(text) - len(str(path)) < LONGEST_REFUSAL, f"a refusal of {len(text)} characters: {text[:200]!r}")


def require_slow_refusal(data: bytes, told: str) -> None:
    """What is refused as JSON, the slow reader refuses, too."""
    words = ("JSON", "whole record", "none of its")
    if not any(word in told for word in words) or "Proton" in told:
        return
    try:
        slow = read_slowly(data, "kineto-json")
    except (UnreadableInput, UnicodeDecodeError):
        return
    require(slow is None, f"refused, but the slow reader takes it: {told}")


def _slowly(data: bytes, trace: Trace) -> Trace | None:
    """What the slow reader makes of a file that is read; it may refuse one that is cut before its first event."""
    try:
        return read_slowly(data, trace.source.format)
    except UnreadableInput as error:
        require(not trace.events and not trace.complete, f"read, but the slow reader refuses it: {error}")
        return None


def require_sound(trace: Trace) -> None:
    """Tables whose rows are in order and whose references lead somewhere."""
    for name in ("gpu_ops", "launches", "blocking_calls", "host_ops"):
        table: Table = getattr(trace, name)
        require((np.diff(table.start_ns) >= 0).all(), f"{name} is not by start")
    names, launches, host = len(trace.names), len(trace.launches), len(trace.host_ops)
    for column, end in (
        (trace.gpu_ops.name, names),
        (trace.launches.api, names),
        (trace.blocking_calls.api, names),
        (trace.host_ops.name, names),
    ):
        require(((column >= 0) & (column < end)).all(), "a name that is not there")
    for column, end in (
        (trace.gpu_ops.launch_row, launches),
        (trace.launches.operator_row, host),
        (trace.blocking_calls.operator_row, host),
    ):
        require(((column >= NONE) & (column < end)).all(), "a reference that leads nowhere")
    require(sorted(trace.device_names) == list(trace.devices), "devices without a place for a name")


def require_closed(analysis: TraceAnalysis) -> None:
    """Accounting closes, and the figures are those of the plainest way to count them."""
    document, trace = analysis.document, analysis.context.trace
    require_finite(msgspec.json.encode(document))
    covered = document.coverage
    counts = {name: getattr(covered, name) for name in ("gpu_ops", "kernels", "launches", "linked", "unlinked")}
    counts |= {name: getattr(covered, name) for name in ("zero_duration", "negative_latency", "negative_queue")}
    counts["same_stream_overlaps"] = covered.same_stream_overlaps
    require(counts == (wanted := _counts(trace)), f"coverage {counts}, not {wanted}")
    require(covered.linked + covered.unlinked == covered.gpu_ops, "linked and unlinked do not add up")
    for device in document.devices:
        plain = _device(trace, device.device)
        if device.gaps is None:  # withheld
            require((device.window_ns, device.op_sum_ns) == plain[::2], "window and sum")
            require(any(path.startswith("devices.") for path in document.withheld), "no reason")
            continue
        figures = (device.window_ns, device.busy_ns, device.op_sum_ns, device.gaps.count)
        require(figures == plain, f"window, busy, sum, gaps {figures}, not {plain}")
        for scope in (device, device.steady):
            if scope is not None:
                busy_ns, idle_ns, gaps = scope.busy_ns, scope.idle_ns, scope.gaps
                assert busy_ns is not None
                assert idle_ns is not None
                assert gaps is not None
                require(busy_ns + idle_ns == scope.window_ns, "busy and idle do not add up")
                parts = [part for cause in gaps.by_cause.values() for part in (cause.ns, cause.stall_ns, cause.count)]
                require(min([*parts, *gaps.taxes_ns.values(), idle_ns], default=0) >= 0, "a part below zero")
                require(sum(cause.ns for cause in gaps.by_cause.values()) == idle_ns, "causes do not add up")
                require(sum(gaps.taxes_ns.values()) == idle_ns, "taxes do not add up")


def require_finite(text: bytes) -> None:
    """JSON that every program reads: no NaN, no infinities, no number beyond a double."""

    def refuse(constant: str) -> None:
        raise Broken(f"{constant} in the report")

    def number(text: str) -> float:
        value = float(text)
        require(math.isfinite(value), f"{text} in the report")
        return value

    json.loads(text, parse_constant=refuse, parse_float=number)


def _counts(trace: Trace) -> dict[str, int]:
    ops, launches = trace.gpu_ops, trace.launches
    rows = list(zip(*(c.tolist() for c in (ops.start_ns, ops.end_ns, ops.kind, ops.launch_row)), strict=True))
    called = list(zip(launches.start_ns.tolist(), launches.end_ns.tolist(), strict=True))
    first: dict[int, int] = {}
    for start, _, _, launch in rows:
        first.setdefault(launch, start)
    latest: defaultdict[tuple[int, int], float] = defaultdict(lambda: -math.inf)
    overlaps = 0
    for device, stream, start, end in zip(
        *(c.tolist() for c in (ops.device, ops.stream, ops.start_ns, ops.end_ns)), strict=True
    ):
        overlaps += start < latest[device, stream]
        latest[device, stream] = max(latest[device, stream], end)
    linked = sum(launch != NONE for *_, launch in rows)
    return {
        "gpu_ops": len(rows),
        "kernels": sum(kind == OpKind.KERNEL for _, _, kind, _ in rows),
        "launches": len(called),
        "linked": linked,
        "unlinked": len(rows) - linked,
        "zero_duration": sum(start == end for start, end, _, _ in rows),
        "negative_latency": sum(launch != NONE and start < called[launch][0] for start, _, _, launch in rows),
        "negative_queue": sum(first[launch] < end for launch, (_, end) in enumerate(called)),
        "same_stream_overlaps": overlaps,
    }


def _device(trace: Trace, device: int) -> tuple[int, int, int, int]:
    """Window, busy time, sum of durations and gaps; an op that ends before it starts is a point."""
    ops = trace.gpu_ops
    own = [
        (start, end)
        for start, end, where in zip(ops.start_ns.tolist(), ops.end_ns.tolist(), ops.device.tolist(), strict=True)
        if where == device
    ]
    reached, busy, gaps = own[0][0], 0, 0
    for start, end in own:
        gaps += start > reached
        busy += max(0, end - max(start, reached))
        reached = max(reached, start, end)
    return reached - own[0][0], busy, sum(end - start for start, end in own), gaps


def require_plain_outputs(report: Report) -> None:
    """Every output is made, and no name of the file gets into it as more than text."""
    text = report_story.render_terminal(report, width=WIDTH, color=False, verbose=True)
    require(all(line.isprintable() for line in text.split("\n")), "control characters on the terminal")
    page = report_story.render_markdown(report)
    require(all(line.isprintable() for line in page.split("\n")), "control characters in Markdown")
    require("<script" not in _CODE.sub("", page).replace("\\<", ""), "a tag in Markdown")
    parser = _Tags()
    parser.feed(report_story.notebook_html(report))
    parser.close()
    require(parser.tags <= HTML_TAGS, f"tags in HTML: {parser.tags - HTML_TAGS}")
    require_finite(report_story.render_json(report).encode())
    if report.analyses:
        require(sum(map(len, perfetto.render(report))) > 0, "no trace for Perfetto")


class _Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        require(not attrs, f"attributes in HTML: {attrs}")
