"""The order of the rooms: a module imports its own room and those that stand before it in the list, nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import launchscope
import pytest

PACKAGE = Path(launchscope.__file__).parent
NOT_THE_PACKAGE = {"tests", "benchmarks", "docs", "build", "dist"}

# From the ground up. A room is a folder without its subfolders, or a file. Those of analysis come first.
ANALYSIS = (
    "analysis.model",
    "analysis.inputs.readers",
    "analysis.inputs",
    "analysis.facts",
    "analysis.facts.ranks",
    "analysis.faults",
    "analysis.story",
    "analysis.render",
    "analysis.step_model",
    "analysis.figures.figure",
    "analysis.figures.fusion",
    "analysis.figures.graphs",
    "analysis.figures.serving",
    "analysis.figures",
    "analysis.profile",
    "analysis.report_story",
    "analysis.report",
    "analysis.predict",
    "analysis.compare",
    "analysis.many",
    "analysis.render.perfetto",
    "analysis",
)
TRACER = ("tracer.target", "tracer.measure", "tracer.processes", "tracer")
DASHBOARD = (
    "dashboard",
    "dashboard.timeline",
    "dashboard.charts",
    "dashboard.page",
    "dashboard.many",
    "dashboard.site",
)
ROOMS = (*ANALYSIS, "fixtures", *TRACER, *DASHBOARD, "", "fixtures.models", "cli", "__main__")
MOST_FILES = 25
"""In one room, whose files import each other as they like."""

ONLY = {"fixtures": ("analysis.model", "analysis.inputs.readers"), "tracer": ("analysis.model",)}
"""What these may import besides themselves and each other's subfolders; the dashboard takes nothing of the tracer."""

# Packages from outside: where a module may import them at its top, and where only inside a function.
AT_TOP = {
    "": set[str](),
    "analysis": {"numpy", "msgspec"},
    "analysis.model.errors": set[str](),
    "analysis.model.units": set[str](),
    "analysis.inputs.readers": {"numpy", "msgspec", "isal"},

    "analysis.render": {"msgspec", "rich"},
    "analysis.render.perfetto": {"numpy", "perfetto"},
    "dashboard": {"numpy", "msgspec", "plotly", "dash", "dash_ag_grid", "flask", "flask_compress", "werkzeug",
                  "jinja2", "markupsafe"},
    "tracer": {"numpy", "msgspec", "torch", "pynvml"},
    "tracer.target.options": set[str](),
    "fixtures": {"numpy", "msgspec"},
    "fixtures.models": {"torch", "transformers"},
    "cli": {"click"},
    "cli.pytest_plugin": {"pytest"},
    "cli.guard": {"pytest"},
}  # fmt: skip
INSIDE = {
    "analysis": {"pandas", "isal"},
    "analysis.inputs": {"aiohttp", "fsspec"},
    "analysis.inputs.readers": {"backports", "compression"},
    "analysis.many": {"distributed", "pyarrow"},
    "analysis.render": {"rich", "perfetto"},
    "tracer": {"torch", "transformers", "pynvml"},
    "fixtures.models": {"transformers"},
    "cli": {"rich", "msgspec"},
}


class Import(NamedTuple):
    importer: str  # 'analysis.facts.gaps'
    name: str  # 'analysis.model.trace' of our own, 'numpy' from outside
    ours: bool
    inside: bool  # of a function, or only for the type checker
    where: str
    relative: bool = False


@cache
def modules() -> dict[str, Path]:
    """Dotted name below launchscope → file."""
    files = (f for f in PACKAGE.rglob("*.py") if f.relative_to(PACKAGE).parts[0] not in NOT_THE_PACKAGE)
    found = {}
    for file in files:
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if not any(part.startswith(".") for part in parts):
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports_of(module: str, file: Path) -> Iterator[Import]:
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    yield from _imports(ast.parse(file.read_text()), module, package.split(".") if package else [], inside=False)


def _imports(node: ast.AST, module: str, package: list[str], *, inside: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # which holds no statement
            continue
        where = f"{module or '__init__'}:{getattr(child, 'lineno', 0)}"
        if isinstance(child, ast.Import):
            for alias in child.names:
                root, _, rest = alias.name.partition(".")
                yield Import(module, rest if root == "launchscope" else root, root == "launchscope", inside, where)
        elif isinstance(child, ast.ImportFrom) and child.level:
            base = package[: len(package) - child.level + 1] + (child.module.split(".") if child.module else [])
            for alias in child.names:
                yield Import(module, _ours(base, alias.name), True, inside, where, relative=True)
        elif isinstance(child, ast.ImportFrom):
            root, *below = (child.module or "").split(".")
            for alias in child.names:
                ours = root == "launchscope"
                yield Import(module, _ours(below, alias.name) if ours else root, ours, inside, where)
        else:
            deeper = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _for_types_only(child)
            yield from _imports(child, module, package, inside=deeper)


def _ours(base: list[str], name: str) -> str:
    """``from .base import name``: the module ``base.name`` where there is one, else ``base``."""
    return ".".join([*base, name]) if ".".join([*base, name]) in modules() else ".".join(base)


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def room_of(module: str, rooms: Iterable[str]) -> str:
    return max((r for r in rooms if r == "" or module == r or module.startswith(f"{r}.")), key=len)


def house_of(room: str) -> str:
    return room.partition(".")[0]


@cache
def all_imports() -> list[Import]:
    return [each for module, file in sorted(modules().items()) for each in imports_of(module, file)]


def test_the_walk_finds_what_is_there() -> None:
    assert {"", "__main__", "cli.analyze", "analysis.model.errors", "tracer.target.options"} <= set(modules())
    assert Import("cli.analyze", "click", False, False, "cli.analyze:8") in all_imports()
    assert any(each.importer == "cli.many" and each.name == "analysis.report" and each.inside for each in all_imports())


def test_no_import_runs_against_the_order() -> None:
    place = {room: number for number, room in enumerate(ROOMS)}
    wrong = [
        f"{each.where}: {each.name}"
        for each in all_imports()
        if each.ours and place[room_of(each.name, ROOMS)] > place[room_of(each.importer, ROOMS)]
    ]
    assert not wrong, wrong


def test_the_tracer_the_fixtures_and_the_dashboard_keep_apart() -> None:
    wrong = []
    for each in all_imports():
        if each.importer.startswith("fixtures.models"):  # written as a user's file would be
            continue
        ours, theirs = house_of(each.importer), house_of(each.name)
        if not each.ours or ours == theirs:
            continue
        taken = ours in ONLY and room_of(each.name, ROOMS) not in ONLY[ours]
        if taken or (ours == "dashboard" and theirs != "analysis"):
            wrong.append(f"{each.where}: {each.name}")
    assert not wrong, wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for each in all_imports():
        if each.ours and each.name != each.importer and not each.importer.startswith("fixtures.models"):
            graph[each.importer].add(each.name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(error.args[1]) from None


def test_no_room_is_too_large_to_look_over() -> None:
    count = Counter(room_of(module, ROOMS) for module in modules())
    assert not {room: files for room, files in count.items() if files > MOST_FILES}


def test_nothing_imports_the_command_line() -> None:
    wrong = [
        each.where
        for each in all_imports()
        if each.ours and each.name.split(".")[0] == "cli" and each.importer.split(".")[0] not in ("cli", "__main__")
    ]
    assert not wrong, wrong


def test_our_own_modules_are_imported_relatively() -> None:
    """Except by the sample models, which are written as a user's file would be."""
    wrong = [each.where for each in all_imports() if each.ours and not each.relative]
    assert not [where for where in wrong if not where.startswith("fixtures.models.")]


def test_packages_from_outside_are_where_they_belong() -> None:
    wrong = []
    for each in all_imports():
        if each.ours or each.name in sys.stdlib_module_names:
            continue
        allowed = AT_TOP[room_of(each.importer, AT_TOP)]
        if each.inside:
            allowed = allowed | INSIDE.get(room_of(each.importer, INSIDE | {"": set()}), set())
        if each.name not in allowed:
            wrong.append(f"{each.where}: {each.name}{' in a function' if each.inside else ''}")
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import launchscope", {"click", "numpy", "msgspec", "pandas", "torch", "rich"}),
        ("import launchscope.tracer.target.options", {"numpy", "msgspec", "pandas", "torch", "rich"}),
        ("import launchscope.analysis.report", {"torch", "pandas", "plotly", "dash"}),
        ("import launchscope.analysis.compare.check", {"torch", "pandas", "rich", "plotly", "dash"}),
        ("from launchscope import Target", {"torch"}),
    ],
)
def test_importing_stays_cheap(statement: str, absent: set[str]) -> None:
    code = f"{statement}; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not absent & {name.partition(".")[0] for name in loaded}
