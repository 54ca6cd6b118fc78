"""A finished check for programs: JSON, JUnit XML, GitHub annotations, github-action-benchmark."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from launchscope.analysis.compare import check_story
from launchscope.analysis.compare.documents import CheckDoc
from launchscope.analysis.compare.outputs_for_ci import render_annotations, render_benchmark, render_junit
from launchscope.analysis.model.units import without_commands
from lxml import etree  # type: ignore[import-untyped]

from . import check_documents
from .check_documents import CHECKS, check, finding, part, slower, undecided

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent / "schemas" / "junit-10.xsd"))


# JSON


@pytest.mark.parametrize("name", CHECKS)
def test_json_is_the_document(name: str) -> None:
    doc = CHECKS[name]()
    read = json.loads(check_story.render_json(doc))
    assert (read["schema"], read["outcome"]) == ("launchscope.check/1", doc.outcome)
    assert [len(each["findings"]) for each in read["parts"]] == [len(each.findings) for each in doc.parts]


def test_json_has_null_for_an_end_that_is_not_there() -> None:
    read = json.loads(check_story.render_json(check_documents.inconclusive()))
    assert read["parts"][0]["findings"][0]["interval"]["low"] is None


# JUnit


@pytest.mark.parametrize("name", CHECKS)
def test_junit_is_valid_by_jenkins_schema(name: str) -> None:
    SCHEMA.assertValid(etree.fromstring(render_junit(CHECKS[name]())))


def test_junit_has_a_case_per_limit() -> None:
    root = ET.fromstring(render_junit(check_documents.regression()))
    assert root.attrib == {"name": "launchscope check", "tests": "4", "failures": "2", "errors": "0"}
    graph = root.findall("testsuite")[1]
    assert graph.get("name") == "llama_1b.py, graph"
    assert [case.get("name") for case in graph.iter("testcase")] == [
        "blocking_calls 0",
        "launches <= 300",
        "graph_coverage >= 0.95",
    ]
    assert {case.get("classname") for case in graph.iter("testcase")} == {"llama_1b.py.graph"}
    (failure, _) = graph.iter("failure")
    assert failure.get("message") == "735 launches per step where at most 300 are allowed"
    assert failure.text is not None
    assert "look first: cudaLaunchKernel" in failure.text
    properties = {each.attrib["name"]: each.attrib["value"] for each in graph.iter("property")}
    assert properties["launches <= 300: measured"] == "735"
    assert properties["launches <= 300: allowed"] == "300"
    assert properties["baseline.commit"] == "0b7e5512ab3f2c"
    assert properties["gpu"] == "NVIDIA H200"
    assert properties["processes"] == "8"
    (lacking,) = ET.fromstring(render_junit(check(part(check_documents.lacking())))).iter("testcase")
    assert lacking.get("name") == "runs"


def test_junit_shows_what_cannot_be_told_neither_as_passed_nor_as_failed() -> None:
    undecided_case = ET.fromstring(render_junit(check_documents.inconclusive())).find(".//testcase")
    assert undecided_case is not None
    assert [child.tag for child in undecided_case] == ["skipped", "system-out"]
    to_fix_case = ET.fromstring(render_junit(check_documents.to_fix())).find(".//testcase")
    assert to_fix_case is not None
    assert [child.tag for child in to_fix_case] == ["error", "system-out"]


@settings(deadline=None, max_examples=40)
@given(check_documents.checks())
def test_junit_holds_any_name(doc: CheckDoc) -> None:
    data = render_junit(doc)
    root = ET.fromstring(data)
    SCHEMA.assertValid(etree.fromstring(data))
    assert len(list(root.iter("testcase"))) == sum(len(each.findings) for each in doc.parts)
    assert {each.tag for each in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped", "system-out",
    }  # fmt: skip


# GitHub


def test_an_annotation_says_what_and_where() -> None:
    lines = render_annotations(check_documents.regression()).splitlines()
    assert lines[0] == (
        "::error file=model.py,line=42,title=launchscope%2C llama_1b.py%2C graph::735 launches per step where at most "
        "300 are allowed%0Ameasured: 735%0Aallowed: <= 300%0Abaseline: 1%0Achange: +734%0Aasked for by: "
        "launchscope.toml [limits.graph]%0Alook first: cudaLaunchKernel from aten::mm, at model.py(42): forward%0A"
        "likely cause: Graph replays were lost: launches 1 → 735 per step, 100 %25 → 0 %25 of the kernels run in "
        "graphs."
    )
    assert len(lines) == 2


def test_annotations_of_what_can_not_be_told_are_warnings() -> None:
    assert render_annotations(check_documents.inconclusive()).startswith("::warning title=")
    assert render_annotations(check_documents.all_holds()) == ""


@pytest.mark.parametrize("place", ["/usr/lib/model.py(42): f", "../model.py(42): f", "C:\\x\\model.py(42): f", "f", ""])
def test_a_place_outside_of_the_repository_is_no_file_of_it(place: str) -> None:
    assert "file=" not in render_annotations(check(part(finding(first_look=place))))


def test_ten_annotations_at_most_the_gravest_first() -> None:
    findings = [undecided(figure=f"u{n}") for n in range(8)] + [finding(figure=f"f{n}") for n in range(8)]
    lines = render_annotations(check(part(*findings))).splitlines()
    assert len(lines) == 10
    assert [line.split()[0] for line in lines] == ["::error"] * 8 + ["::warning"] * 2
    assert lines[-1].endswith("::7 more limits don't hold: they are in the log and in the job's summary.")
    assert len(render_annotations(check(part(*findings[:10]))).splitlines()) == 10


@settings(deadline=None, max_examples=40)
@given(check_documents.checks())
def test_annotations_hold_any_name(doc: CheckDoc) -> None:
    told = render_annotations(doc)
    failed = sum(each.outcome != "holds" for one in doc.parts for each in one.findings)
    assert len(told.splitlines()) == failed
    for line in told.splitlines():
        found = re.fullmatch(r"::(error|warning) ((?:(?:file|line|title)=[^,:]*,?)+)::(.*)", line)
        assert found is not None, line
        assert not re.search(r"%(?!25|0D|0A|3A|2C)", line)


@pytest.mark.parametrize("line", ["::error::x", "  ::add-mask::x", "a ##[command]x", "##vso[task]x"])
def test_a_log_line_is_no_command(line: str) -> None:
    told = without_commands(f"head\n{line}\n")
    assert not re.search(r"^\s*::|##\[|##vso\[", told, re.MULTILINE)
    assert without_commands("at::native::f # x\n") == "at::native::f # x\n"


# github-action-benchmark


def test_benchmark_entries_are_better_when_smaller() -> None:
    unknown = finding(figure="kernels", measured=None)
    lost = finding(figure="graph_coverage", unit="share", measured=0.75, allowed=0.95, baseline=1.0, limit=">= 0.95")
    left_out = [unknown, finding(figure="graph_launches"), check_documents.lacking()]
    findings = [finding(), finding(limit="+0"), lost, slower(), *left_out]
    entries = json.loads(render_benchmark(check(part(*findings))))
    assert [(each["name"], each["unit"], each["value"]) for each in entries] == [
        ("llama_1b.py · graph · launches", "per step", 735.0),
        ("llama_1b.py · graph · kernels outside graphs", "%", 25.0),
        ("llama_1b.py · graph · step_time", "µs", 2407.0),
    ]
    assert "commit: 3f2c1a9d0b7e5512ab" in entries[0]["extra"]
    assert "change: +5.1 % (+3.9 to +6.2 %)" in entries[2]["extra"]


@settings(deadline=None, max_examples=40)
@given(check_documents.checks())
def test_json_outputs_hold_any_name(doc: CheckDoc) -> None:
    assert json.loads(check_story.render_json(doc))["exit_code"] == doc.exit_code
    for entry in json.loads(render_benchmark(doc)):
        assert set(entry) == {"name", "unit", "value", "extra"}
        assert isinstance(entry["value"], float | int)
        assert math.isfinite(entry["value"])
        assert check_documents.draws(entry["name"] + entry["extra"])
