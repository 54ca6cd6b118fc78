"""A finished check as CI reads it: JUnit XML, annotations of GitHub, and the list of github-action-benchmark.

JUnit, as Jenkins and GitLab read it: a test suite per target and mode, a case per limit. A regression is a failure,
something to fix an error, and what can't be told is skipped. Jenkins' schema (junit-10.xsd of its xUnit plugin) has
properties of suites alone: a case's figures are in its output.
Annotations are GitHub workflow commands; their escapes are those of GitHub's toolkit (packages/core/src/command.ts):
data ``%``, CR, LF; properties ``:`` and ``,`` too.
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
The benchmark's tool is ``customSmallerIsBetter``: a list of name, unit, value, and extra, a tooltip. Only figures that
are better when smaller have a place in it: graph coverage is told as what is missing to all, and that a mode does not
run is no figure. https://github.com/benchmark-action/github-action-benchmark
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from ..model.units import one_line
from .check_story import details, gravity, parts_in_order, where
from .documents import HOLDS, INCONCLUSIVE, REGRESSION, RUNS, TO_FIX, CheckDoc, CheckedSideDoc, FindingDoc, PartDoc
from .limits import FIGURES

_ELEMENTS: Final = {REGRESSION: "failure", TO_FIX: "error", INCONCLUSIVE: "skipped"}
_COUNTS: Final = {"failures": REGRESSION, "errors": TO_FIX, "skipped": INCONCLUSIVE}


def render_junit(doc: CheckDoc) -> bytes:
    """One XML 1.0 document in UTF-8; characters that XML forbids stand there as their escapes."""
    findings = [finding for part in doc.parts for finding in part.findings]
    counts = _counts(findings)
    del counts["skipped"]  # the schema has it in suites alone
    root = ET.Element("testsuites", {"name": "launchscope check", **counts})
    for part in doc.parts:
        root.append(_suite(part, doc.notes))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counts(findings: list[FindingDoc]) -> dict[str, str]:
    outcomes = [finding.outcome for finding in findings]
    return {"tests": str(len(findings)), **{name: str(outcomes.count(its)) for name, its in _COUNTS.items()}}


def _suite(part: PartDoc, notes: list[str]) -> ET.Element:
    suite = ET.Element("testsuite", {"name": one_line(where(part.current)), **_counts(part.findings)})
    if part.current.created is not None:
        suite.set("timestamp", one_line(part.current.created))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(part):
        ET.SubElement(properties, "property", {"name": one_line(name), "value": one_line(value)})
    for finding in part.findings:
        suite.append(_case(finding, part))
    lines = [f"likely cause: {cause}" for cause in part.causes] + [f"note: {note}" for note in notes]
    if lines:
        ET.SubElement(suite, "system-out").text = _lines(lines)
    return suite


def _properties(part: PartDoc) -> Iterator[tuple[str, str]]:
    yield from _of_side("", part.current)
    if part.baseline is not None:
        yield from _of_side("baseline.", part.baseline)
    for finding in part.findings:
        for name in ("measured", "allowed", "baseline"):
            value = getattr(finding, name)
            if value is not None:
                yield f"{_name(finding)}: {name}", f"{value:.12g}"


def _of_side(prefix: str, side: CheckedSideDoc) -> Iterator[tuple[str, str]]:
    yield f"{prefix}source", side.source
    yield f"{prefix}processes", str(side.processes)
    for name, value in (("commit", side.commit), ("created", side.created), *side.machine.items()):
        if value is not None:
            yield f"{prefix}{name}", str(value)


def _name(finding: FindingDoc) -> str:
    return one_line(RUNS if finding.figure == RUNS else f"{finding.figure} {finding.limit}")


def _case(finding: FindingDoc, part: PartDoc) -> ET.Element:
    classname = one_line(f"{part.current.target}.{part.current.mode}")
    case = ET.Element("testcase", {"name": _name(finding), "classname": classname})
    output = _lines(details(finding))
    if finding.outcome != HOLDS:
        attributes = {"type": finding.outcome, "message": one_line(finding.message)}
        ET.SubElement(case, _ELEMENTS[finding.outcome], attributes).text = output
    ET.SubElement(case, "system-out").text = output
    return case


def _lines(texts: list[str]) -> str:
    return "\n".join(one_line(text) for text in texts)


MOST: Final = 10
"""GitHub shows so many errors and so many warnings of a step."""

LONGEST: Final = 1000  # characters of one part of a message: names of kernels reach 5,000

_FRAME: Final = re.compile(r"(?:^|[\s'\"(`])((?:[\w.+-]+/)*[\w.+-]+\.py)\((\d+)\): ")
"""A Python frame as Kineto writes it: ``model.py(42): forward``; a path from the root is none of the repository's."""


def render_annotations(doc: CheckDoc) -> str:
    """One line for each finding that does not hold, the gravest first, ten at most; nothing when all hold."""
    found = [(finding, part) for part in parts_in_order(doc) for finding in part.findings if finding.outcome != HOLDS]
    found.sort(key=lambda each: gravity(each[0]))
    shown = found if len(found) <= MOST else found[: MOST - 1]
    lines = [_annotation(finding, part) for finding, part in shown]
    if len(shown) < len(found):
        rest = f"{len(found) - len(shown)} more limits don't hold: they are in the log and in the job's summary."
        lines.append(_command(_level(found[len(shown)][0]), {"title": "launchscope"}, [rest]))
    return "".join(f"{line}\n" for line in lines)


def render_annotated_error(message: str) -> str:
    """What kept a check from being done, as one line."""
    return f"{_command('error', {'title': 'launchscope'}, [message])}\n"


def _annotation(finding: FindingDoc, part: PartDoc) -> str:
    properties = {**_place(finding.first_look), "title": f"launchscope, {where(part.current)}"}
    lines = [finding.message, *details(finding)]
    lines += [f"likely cause: {cause}" for cause in part.causes[:1]]
    return _command(_level(finding), properties, lines)


def _level(finding: FindingDoc) -> str:
    return "warning" if finding.outcome == INCONCLUSIVE else "error"


def _place(first_look: str | None) -> dict[str, str]:
    """File and line of the first Python frame that is named, where it may be a file of the repository."""
    frame = _FRAME.search(first_look or "")
    if frame is None or ".." in PurePosixPath(frame[1]).parts:
        return {}
    return {"file": frame[1], "line": frame[2]}


def _command(level: str, properties: dict[str, str], lines: list[str]) -> str:
    named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {named}::{_data(chr(10).join(_brief(line) for line in lines))}"


def _brief(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(_brief(text)).replace(":", "%3A").replace(",", "%2C")


SEPARATOR: Final = " · "

_CHART_UNITS: Final = {"count": ("per step", 1.0), "ns": ("µs", 1e3), "bytes": ("MiB", 2.0**20), "share": ("%", 0.01)}
"""One unit per figure, whatever its size: a chart has one axis."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One point of one chart; the name is what later runs are matched by."""

    name: str
    unit: str
    value: float
    extra: str


def render_benchmark(doc: CheckDoc) -> str:
    """A JSON list with an entry for each figure that was measured; one of two limits on a figure is enough."""
    entries: dict[str, Entry] = {}
    for part in doc.parts:
        for finding in part.findings:
            entry = _entry(finding, part)
            if entry is not None:
                entries.setdefault(entry.name, entry)
    return msgspec.json.format(msgspec.json.encode(list(entries.values())), indent=2).decode() + "\n"


def _entry(finding: FindingDoc, part: PartDoc) -> Entry | None:
    figure, value = finding.figure, finding.measured
    kind = FIGURES.get(figure)
    if value is None or figure == RUNS or (kind is not None and kind.less_is_better and kind.more_is_better):
        return None  # one graph launch is better than none, and than two
    if figure == "graph_coverage":
        figure, value = "kernels outside graphs", 1.0 - value
    unit, scale = _CHART_UNITS[finding.unit]
    name = SEPARATOR.join(one_line(text) for text in (part.current.target, part.current.mode, figure))
    commit = [] if part.current.commit is None else [f"commit: {part.current.commit}"]
    extra = "\n".join(one_line(line) for line in [*details(finding), *commit])
    return Entry(name=name, unit=unit, value=round(value / scale, 9), extra=extra)
