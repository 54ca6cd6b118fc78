"""Every command and option is documented, and what the documents say can be done as they say."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import click
import pytest
from launchscope import load
from launchscope.cli import COMMANDS
from launchscope.cli import launchscope as program

ROOT = Path(__file__).parent.parent
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def command(name: str) -> click.Command:
    found = program.get_command(click.Context(program), name)
    assert found is not None
    return found


def parameters(name: str) -> list[click.Parameter]:
    """Those of a command and of all commands below it."""
    found = command(name)
    below = found.commands.values() if isinstance(found, click.Group) else ()
    return [*found.params, *(parameter for each in below for parameter in each.params)]


def _names(parameter: click.Parameter) -> list[str]:
    """How an option is written, in all its ways; an argument is not."""
    return [*parameter.opts, *parameter.secondary_opts] if isinstance(parameter, click.Option) else []


def section(name: str) -> str:
    """The part of docs/cli.md about one command."""
    return CLI.partition(f"## launchscope {name}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    about, shared = section(name), CLI.partition("## Options that several commands share\n")[2].partition("\n## ")[0]
    assert about, f"docs/cli.md has no section about {name}"
    assert f"launchscope {name}" in README
    for parameter in parameters(name):
        for option in _names(parameter):
            assert f"`{option}" in about + shared, f"{name} {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_documented_that_is_not_there(name: str) -> None:
    there = {option for parameter in parameters(name) for option in _names(parameter)} | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", section(name))) <= there


def test_every_format_and_mode_is_named() -> None:
    for word in ("terminal", "json", "markdown", ".pftrace", "eager", "graph", "fused", "fused_graph", "130"):
        assert word in CLI


def test_every_example_is_a_command_line_that_is_understood() -> None:
    lines = [line for page in PAGES for line in page.read_text("utf-8").splitlines()]
    examples = [found[0] for line in lines if (found := re.findall(r"^\s*launchscope (\w+ .*?)(?:\s{2,}|$)", line))]
    assert len(examples) >= 10
    for example in examples:
        name, *words = example.partition("#")[0].split()
        placeholders = {"TARGET": "model.py", "PATH": "x", "PATH...": "x", "F": "x.md", "CURRENT": "x"}
        arguments = [placeholders.get(word, word) for word in words]
        command(name).make_context(name, arguments)  # raises where an option or an argument is not known


def test_python_snippets_are_python() -> None:
    for page in PAGES:
        for snippet in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            ast.parse(snippet)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
            if "://" not in target:
                linked = page.parent / target if target else page
                assert linked.exists(), f"{page.name}: {target}"
                assert not heading or heading in anchors(linked), f"{page.name}: {target}#{heading}"


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sources() -> list[tuple[Path, str]]:
    return [(f, f.read_text("utf-8")) for room in ("analysis", "cli", "tracer") for f in (ROOT / room).rglob("*.py")]


def test_pages_and_headings_that_the_program_names_are_there() -> None:
    for file, text in sources():
        for page, heading, term in re.findall(r"docs/(\w+\.md)(?:, \"([^\"]+)\"|, ([a-z ]+)\))?", text):
            told = (ROOT / "docs" / page).read_text("utf-8")
            assert term in told, f"{file.name}: {page}, {term}"
            assert not heading or re.search(rf"^#+ {re.escape(heading)}$", told, re.MULTILINE), (
                f"{file.name}: {heading}"
            )


def test_refusals_that_are_documented_are_said() -> None:
    table = (ROOT / "docs" / "targets.md").read_text("utf-8").partition("## What is refused")[2]
    refusals = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(refusals) >= 10
    said = "\n".join(text for _, text in sources())
    assert [refusal for refusal in refusals if refusal not in said] == []


def test_paths_into_the_repository_exist() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        for path in re.findall(
            r"(?<![\w/.])(?:fixtures|benchmarks|docs|tests|cli|tracer|analysis|dashboard)/[\w./-]*\w", text
        ):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_the_readmes_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tour,) = (s for s in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "import launchscope" in s)
    monkeypatch.chdir(ROOT)
    exec(tour, {})
    assert "host_ns" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gpu_ops", "launches", "gaps", "steps"])
def test_the_columns_of_every_dataframe_are_documented(name: str) -> None:
    frame = getattr(load(ROOT / "fixtures" / "traces" / "torchao_quantize_vit_bfloat16.json.gz"), name)
    page = (ROOT / "docs" / "report.md").read_text("utf-8").partition("## From Python\n")[2].partition("\n## ")[0]
    (row,) = re.findall(rf"^\| `{name}` \|[^|]*\| (.*) \|$", page, re.MULTILINE)
    told = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row))
    assert ["trace", "mode", *told] == list(frame.columns)


def test_ci_runs_the_readmes_test_command() -> None:
    (tests,) = re.findall(r"^    (.* -m pytest)$", README, re.MULTILINE)
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith(f"\n{tests}")


def test_the_list_of_figures_is_that_of_the_program() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "figures.py"))["text"]()
    assert (ROOT / "docs" / "figures.md").read_text("utf-8") == made, "run python docs/figures.py"
