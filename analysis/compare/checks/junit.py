"""A finished check as JUnit XML, as Jenkins and GitLab read it: a test suite per target and mode, a case per limit.

A regression is a failure, something to fix an error, and what can't be told is skipped: neither passed nor failed.
Jenkins' schema (junit-10.xsd of its xUnit plugin) has properties of suites alone: a case's figures are in its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from ...model.units import one_line
from ..check_document import HOLDS, INCONCLUSIVE, REGRESSION, RUNS, TO_FIX, CheckDoc, FindingDoc, PartDoc, SideDoc
from . import words as check_words

_ELEMENTS: Final = {REGRESSION: "failure", TO_FIX: "error", INCONCLUSIVE: "skipped"}
_COUNTS: Final = {"failures": REGRESSION, "errors": TO_FIX, "skipped": INCONCLUSIVE}


def render(doc: CheckDoc) -> bytes:
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
    suite = ET.Element("testsuite", {"name": one_line(check_words.where(part.current)), **_counts(part.findings)})
    if part.current.created is not None:
        suite.set("timestamp", one_line(part.current.created))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(part):
        ET.SubElement(properties, "property", {"name": one_line(name), "value": one_line(value)})
    for finding in part.findings:
        suite.append(_case(finding, part))
    told = [f"likely cause: {cause}" for cause in part.causes] + [f"note: {note}" for note in notes]
    if told:
        ET.SubElement(suite, "system-out").text = _lines(told)
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


def _of_side(prefix: str, side: SideDoc) -> Iterator[tuple[str, str]]:
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
    told = _lines(check_words.details(finding))
    if finding.outcome != HOLDS:
        attributes = {"type": finding.outcome, "message": one_line(finding.message)}
        ET.SubElement(case, _ELEMENTS[finding.outcome], attributes).text = told
    ET.SubElement(case, "system-out").text = told
    return case


def _lines(texts: list[str]) -> str:
    return "\n".join(one_line(text) for text in texts)
