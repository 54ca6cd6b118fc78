"""Every command and option is documented, and what the documents say can be done as they say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest
from launchscope.cli import COMMANDS
from launchscope.cli import launchscope as program

ROOT = Path(__file__).parent.parent
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def command(name: str) -> click.Command:
    found = program.get_command(click.Context(program), name)
    assert found is not None
    return found


def section(name: str) -> str:
    """The part of docs/cli.md about one command."""
    return CLI.partition(f"## launchscope {name}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    about, shared = section(name), CLI.partition("## Options that several commands share\n")[2].partition("\n## ")[0]
    assert about, f"docs/cli.md has no section about {name}"
    assert f"launchscope {name}" in README
    for parameter in command(name).params:
        for option in parameter.opts if isinstance(parameter, click.Option) else []:
            assert f"`{option}" in about + shared, f"{name} {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_documented_that_is_not_there(name: str) -> None:
    there = {option for parameter in command(name).params for option in parameter.opts} | {"--help"}
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
        placeholders = {"TARGET": "model.py", "PATH": "x", "PATH...": "x", "F": "x.md"}
        arguments = [placeholders.get(word, word) for word in words]
        command(name).make_context(name, arguments)  # raises where an option or an argument is not known


def test_python_snippets_are_python() -> None:
    for page in PAGES:
        for snippet in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            ast.parse(snippet)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_ci_runs_the_readmes_test_command() -> None:
    (tests,) = re.findall(r"^    (.* -m pytest)$", README, re.MULTILINE)
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith(f"\n{tests}")
