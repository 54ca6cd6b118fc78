"""A figure is one file and one line: that of CONTRIBUTING.md, put into a copy of the package, is in every output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import launchscope
import pytest
from launchscope.fixtures.builder import TraceBuilder, trace

PACKAGE = Path(launchscope.__file__).parent
ROOT = Path(__file__).parents[3]
LEFT_OUT = ("tests", "captures", "traces", "build", "*.egg-info", ".*", "__pycache__", "benchmarks")

LOOK = """
import json, sys
import launchscope
from launchscope.analysis.many.many_story import render_terminal
from launchscope.dashboard import grid_table
from launchscope.dashboard.opened_report import open_bands
from launchscope.dashboard.page.tables import table, table_names

report = launchscope.load(sys.argv[1])
opened = open_bands(report)
data = table("short by operator", opened, opened.bands)
frame = report.table("short_by_operator")
print(json.dumps({
    "tables": table_names(opened, opened.bands),
    "rows": data.rows,
    "csv": grid_table.csv(data),
    "frame": frame.drop(columns=["trace", "mode"]).to_dict("records"),
}))
"""


def steps(short_us: float) -> TraceBuilder:
    """Four steps of 100 µs; in each 30 µs of aten::mm in one kernel, and aten::add in two short ones."""
    made = trace().header(distributedInfo={"rank": 0, "world_size": 8})
    for step in range(4):
        at = 100 * step
        made.step(step, at, 90).op("aten::mm", at, 9).launch(at + 2, 4).kernel(at + 10, 30, name="gemm")
        for place in range(2):
            begin = at + 50 + 20 * place
            made.op("aten::add", begin - 9, 8).launch(begin - 8, 4).kernel(begin, short_us, name="add")
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that has one more figure."""
    folder = tmp_path_factory.mktemp("home")
    copy = folder / "launchscope"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    shutil.copytree(ROOT / "docs", copy / "docs", dirs_exist_ok=True)
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (copy / "analysis" / "figures" / "short_by_operator.py").write_text(source, "utf-8")
    registry = copy / "analysis" / "figures" / "registry.py"
    lines = registry.read_text("utf-8")
    lines = lines.replace(
        "from .steps import STEPS\n", "from .short_by_operator import SHORT_BY_OPERATOR\nfrom .steps import STEPS\n"
    )
    registry.write_text(lines.replace("    KERNELS,\n", "    KERNELS,\n    SHORT_BY_OPERATOR,\n"), "utf-8")
    steps(5).write(folder / "before.json")
    steps(10).write(folder / "after.json")  # 10 µs is not short
    for rank in range(8):
        made = steps(5 if rank else 10).header(distributedInfo={"rank": rank, "world_size": 8})
        made.write(folder / f"rank{rank}.json")
    return folder


def python(home: Path, *arguments: str, status: int = 0) -> str:
    environment = os.environ | {"PYTHONPATH": str(home), "COLUMNS": "140"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout


def launchscope_of(home: Path, *arguments: str, status: int = 0) -> str:
    return python(home, "-m", "launchscope", *arguments, status=status)


def test_the_report_has_it(home: Path) -> None:
    (found,) = json.loads(launchscope_of(home, "analyze", "before.json", "--format", "json"))["traces"]
    assert found["figures"]["short_by_operator"] == {
        "share": 0.25,  # 10 of 40 µs of each step
        "operators": [{"operator": "aten::add", "kernels": 8, "short_ns": 40_000, "share": 0.25}],
    }


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_people_read_it(home: Path, form: str) -> None:
    text = launchscope_of(home, "analyze", "before.json", "--format", form)
    assert "kernels under 10 µs" in text
    lines = [re.sub(r"[|`\s]+", " ", line).strip() for line in text.splitlines()]
    assert "aten::add 8 40.0 µs 25 %" in lines


def test_the_page_its_csv_and_the_dataframe_have_it(home: Path) -> None:
    found: dict[str, Any] = json.loads(python(home, "-c", LOOK, "before.json"))
    assert "short by operator" in found["tables"]
    (row,) = found["rows"]
    assert (row["operator"], row["kernels"], row["short_us"], row["share"]) == ("aten::add", 8, 40.0, 25.0)
    assert "aten::add,8,40.0,25.0" in found["csv"]
    assert found["frame"] == [{"operator": "aten::add", "kernels": 8, "short_ns": 40_000, "share": 0.25}]


def test_the_table_of_ranks_has_it(home: Path) -> None:
    ranks = [f"rank{rank}.json" for rank in range(8)]
    found = json.loads(launchscope_of(home, "analyze", "--ranks", *ranks, "--format", "json"))
    assert [row["figures"]["short_kernel_time"] for row in found["rows"]] == [0.0, *[0.25] * 7]
    assert [each for each in found["distributions"] if each["figure"] == "short_kernel_time" and each["max_at"] == 1]
    assert "kernel time in short kernels" in launchscope_of(home, "analyze", "--ranks", *ranks)


def test_compare_shows_it(home: Path) -> None:
    found = json.loads(launchscope_of(home, "compare", "before.json", "after.json", "--format", "json"))
    figure = next(figures_called(found, "short_kernel_time"))
    assert (figure["unit"], figure["before"], figure["after"], figure["change"]) == ("share", 0.25, 0.0, -0.25)
    assert "kernel time in short kernels" in launchscope_of(home, "compare", "before.json", "after.json")


def figures_called(found: Any, name: str) -> Iterator[dict[str, Any]]:
    """Wherever the document has a figure of this name."""
    if isinstance(found, dict):
        if found.get("name") == name and "change" in found:
            yield found
        for value in found.values():
            yield from figures_called(value, name)
    for value in found if isinstance(found, list) else ():
        yield from figures_called(value, name)


def test_check_limits_it(home: Path) -> None:
    (home / "launchscope.toml").write_text('[limits]\nshort_kernel_time = "<= 0.1"\n')
    assert "kernel time in short kernels" in launchscope_of(home, "check", "before.json", status=1)
    launchscope_of(home, "check", "after.json")


def test_check_limits_it_without_steps(home: Path) -> None:
    trace().launch(0, 5).kernel(10, 5).launch(20, 5).kernel(30, 15).write(home / "no-steps.json")
    (home / "launchscope.toml").write_text('[limits]\nshort_kernel_time = "<= 0.3"\n')
    launchscope_of(home, "check", "no-steps.json")


def test_the_list_of_figures_has_it(home: Path) -> None:
    assert "`traces[].figures.short_by_operator`" in python(home, "launchscope/docs/figures.py") + (
        home / "launchscope" / "docs" / "figures.md"
    ).read_text("utf-8")
