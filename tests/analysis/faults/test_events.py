"""``doctor`` names the one event that proves each fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.report import load

from ..test_warnings import CASES, Case, named

WITHOUT_AN_EVENT = {  # of the file as a whole, or of what is not in it
    *("no_gpu_ops", "no_launches", "whole_us", "coarse_times", "stray_work", "several_devices"),
    *("no_steps", "step_regex_unmatched", "marks_disagree", "waiting_unknown", "cut_file", "damaged_file"),
    *("lost_records", "perfetto_json", "unreadable_times", "other_accelerator", "raw_quotes", "second_document"),
}
TOLD_APART = {"several_ranks"}  # a file of two processes is two traces there
PROVEN = [case for case in CASES if case.code not in WITHOUT_AN_EVENT | TOLD_APART and hasattr(case.raises, "write")]


@pytest.mark.parametrize("case", PROVEN, ids=named(PROVEN))
def test_doctor_names_it(case: Case, tmp_path: Path) -> None:
    assert not isinstance(case.raises, bytes)
    path = case.raises.write(tmp_path / ("x.sqlite" if "Export" in type(case.raises).__name__ else "x.json"))  # type: ignore[union-attr]
    (found,) = load(path).health().traces
    (warning,) = (each for each in found.warnings if each.code == case.code)
    assert warning.event is not None
    assert warning.event.name
    assert warning.event.why
