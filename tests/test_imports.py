"""The arrows between the rooms, as an allow-list: a new arrow is a line here, or it is a mistake."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import launchscope
import pytest

PACKAGE = Path(launchscope.__file__).parent
NOT_THE_PACKAGE = {"tests", "benchmarks", "docs", "build", "dist"}

# (A room is a module or a package; the longest that fits counts.)  room: the rooms it may import
ROOMS = {
    "": {"analysis.report", "analysis.compared_paths", "analysis.check", "analysis.whatif", "tracer"},  # lazily
    "__main__": {"cli"},
    "analysis.errors": set[str](),
    "analysis.graphs.document": set[str](),
    "analysis.fusion.document": set[str](),
    "analysis.document": {"analysis.graphs.document", "analysis.fusion.document"},
    "analysis.step_regex": {"analysis.errors"},
    "analysis.secrets": set[str](),
    "analysis.quantities": set[str](),
    "analysis.unpacked_size": set[str](),
    "analysis.paths": {"analysis.errors"},
    "analysis.capture": {"analysis.errors", "analysis.paths", "analysis.unpacked_size"},
    "analysis.trace": {"analysis.errors"},
    "analysis.nesting": {"analysis.trace"},
    "analysis.freed_memory": set[str](),
    "analysis.readers": {"analysis.errors", "analysis.trace", "analysis.nesting", "analysis.freed_memory",
                         "analysis.unpacked_size", "analysis.readers"},
    "analysis.counted_step": {"analysis.capture"},
    "analysis.textbook": {"", "analysis", "analysis.errors", "analysis.document", "analysis.report"},
    "analysis.gpus": {"analysis.capture"},
    "analysis.predict": {"", "analysis", "analysis.capture", "analysis.counted_step", "analysis.gpus"},
    "analysis.sweep": {"", "analysis", "analysis.errors", "analysis.paths", "analysis.document", "analysis.report"},
    "analysis.whatif": {"", "analysis", "analysis.errors", "analysis.trace", "analysis.document",
                        "analysis.fusion.document", "analysis.quantities", "analysis.capture", "analysis.report",
                        "analysis.whatif"},
    "analysis": {"analysis", "analysis.errors", "analysis.paths", "analysis.trace", "analysis.nesting",
                 "analysis.freed_memory",
                 "analysis.document", "analysis.graphs.document", "analysis.fusion.document",
                 "analysis.capture", "analysis.step_regex", "analysis.trace_files",
                 "analysis.counted_step", "analysis.gpus", "analysis.export.kernel_names"},
    "analysis.trace_files": {"analysis.document", "analysis.errors", "analysis.paths", "analysis.trace",
                             "analysis.capture",
                             "analysis.readers", "analysis.trace_cache"},
    "analysis.trace_cache": {"analysis.trace", "analysis.readers", "analysis.trace_entry", "analysis.user_cache"},
    "analysis.trace_entry": {"analysis.trace"},
    "analysis.user_cache": set[str](),
    "analysis.captured_traces": {"analysis", "analysis.errors", "analysis.trace", "analysis.document",
                                 "analysis.capture", "analysis.readers"},
    "analysis.report": {"", "analysis", "analysis.errors", "analysis.trace", "analysis.document", "analysis.capture",
                        "analysis.freed_memory",
                        "analysis.trace_files", "analysis.captured_traces", "analysis.readers", "analysis.export"},
    "analysis.renamed": {"analysis", "analysis.document", "analysis.trace_files", "analysis.report"},
    "analysis.many": {"", "analysis", "analysis.errors", "analysis.paths", "analysis.trace", "analysis.document", "analysis.capture",
                      "analysis.trace_files", "analysis.freed_memory", "analysis.readers", "analysis.ranks",
                      "analysis.secrets", "analysis.many"},
    "analysis.compared_paths": {"", "analysis", "analysis.errors", "analysis.trace", "analysis.document",
                                "analysis.capture", "analysis.readers", "analysis.report", "analysis.checks",
                                "analysis.export"},
    "analysis.checks": {"", "analysis", "analysis.quantities", "analysis.errors", "analysis.paths", "analysis.trace",
                        "analysis.document", "analysis.capture", "analysis.checks", "analysis.export.kernel_names"},
    "analysis.check": {"", "analysis", "analysis.errors", "analysis.paths", "analysis.trace", "analysis.document",
                       "analysis.capture", "analysis.readers", "analysis.report", "analysis.checks"},
    "analysis.export.kernel_names": {"analysis"},
    "analysis.export.ranks_parquet": {"analysis.document", "analysis.many"},
    "analysis.export": {"analysis", "analysis.errors", "analysis.trace", "analysis.nesting", "analysis.document",
                        "analysis.capture", "analysis.report", "analysis.compared_paths", "analysis.checks",
                        "analysis.textbook", "analysis.whatif", "analysis.sweep", "analysis.predict", "analysis.gpus",
                        "analysis.fusion.document", "analysis.graphs.document", "analysis.many", "analysis.export",
                        "analysis.export.kernel_names"},
    "dashboard": {"analysis", "analysis.errors", "analysis.paths", "analysis.trace", "analysis.nesting",
                  "analysis.document", "analysis.fusion.document", "analysis.graphs.document", "analysis.capture",
                  "analysis.trace_files", "analysis.report", "analysis.renamed", "analysis.whatif", "analysis.ranks",
                  "analysis.many", "analysis.export", "analysis.export.kernel_names", "dashboard"},
    "tracer": {"", "analysis.errors", "analysis.paths", "analysis.capture", "analysis.counted_step",
               "analysis.user_cache", "analysis.secrets", "tracer"},
    "fixtures": {"analysis.errors", "analysis.trace", "analysis.readers", "fixtures"},
    "fixtures.models": {"", "fixtures.models"},
    "cli": {"", "analysis.errors", "analysis.paths", "analysis.capture", "analysis.report", "analysis.renamed",
            "analysis.compared_paths",
            "analysis.step_regex", "analysis.quantities", "analysis.textbook", "analysis.whatif", "analysis.sweep",
            "analysis.predict", "analysis.gpus", "analysis.many", "analysis.secrets", "analysis.trace_files",
            "analysis", "analysis.document", "analysis.check", "analysis.checks", "tracer", "dashboard", "cli"},
}  # fmt: skip

# Packages from outside: where a module may import them at its top, and where only inside a function.
AT_TOP = {
    "": set[str](),
    "analysis": {"numpy", "msgspec"},
    "analysis.errors": set[str](),
    "analysis.step_regex": set[str](),
    "analysis.quantities": set[str](),
    "analysis.export.ranks_parquet": {"msgspec", "pyarrow"},
    "analysis.readers": {"numpy", "msgspec", "isal"},
    "analysis.export": {"numpy", "msgspec", "rich", "perfetto"},
    "dashboard": {"numpy", "msgspec", "plotly", "dash", "dash_ag_grid", "flask", "flask_compress", "werkzeug",
                  "jinja2", "markupsafe"},
    "tracer": {"numpy", "msgspec", "torch", "pynvml"},
    "tracer.options": set[str](),
    "fixtures": {"numpy", "msgspec"},
    "fixtures.models": {"torch", "transformers"},
    "cli": {"click"},
    "cli.pytest_plugin": {"pytest"},
    "cli.guard": {"pytest"},
}  # fmt: skip
INSIDE = {
    "analysis": {"pandas", "isal"},
    "analysis.many": {"fsspec", "distributed"},
    "analysis.export": {"rich", "perfetto"},
    "tracer": {"torch", "transformers", "pynvml"},
    "fixtures.models": {"transformers"},
    "cli": {"rich", "msgspec"},
}


class Import(NamedTuple):
    importer: str  # 'analysis.gaps'
    name: str  # 'analysis.trace' of our own, 'numpy' from outside
    ours: bool
    inside: bool  # of a function, or only for the type checker
    where: str


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
        where = f"{module or '__init__'}:{getattr(child, 'lineno', 0)}"
        if isinstance(child, ast.Import):
            for alias in child.names:
                root, _, rest = alias.name.partition(".")
                yield Import(module, rest if root == "launchscope" else root, root == "launchscope", inside, where)
        elif isinstance(child, ast.ImportFrom) and child.level:
            base = package[: len(package) - child.level + 1] + (child.module.split(".") if child.module else [])
            for alias in child.names:
                yield Import(module, _ours(base, alias.name), True, inside, where)
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


def room_of(module: str, rooms: dict[str, set[str]]) -> str:
    return max((r for r in rooms if r == "" or module == r or module.startswith(f"{r}.")), key=len)


ALL = [each for module, file in sorted(modules().items()) for each in imports_of(module, file)]


def test_the_walk_finds_what_is_there() -> None:
    assert {"", "__main__", "cli.analyze", "analysis.errors", "tracer.options"} <= set(modules())
    assert Import("cli.analyze", "click", False, False, "cli.analyze:7") in ALL
    assert any(each.importer == "cli.many" and each.name == "analysis.report" and each.inside for each in ALL)


def test_every_arrow_between_rooms_is_allowed() -> None:
    wrong = [
        f"{each.where}: {each.name}"
        for each in ALL
        if each.ours and room_of(each.name, ROOMS) not in ROOMS[room_of(each.importer, ROOMS)]
    ]
    assert not wrong, wrong


def test_nothing_imports_the_command_line() -> None:
    wrong = [
        each.where
        for each in ALL
        if each.ours and each.name.split(".")[0] == "cli" and each.importer.split(".")[0] not in ("cli", "__main__")
    ]
    assert not wrong, wrong


def test_our_own_modules_are_imported_relatively() -> None:
    """Except by the sample models, which are written as a user's file would be."""
    wrong = [
        f"{module}:{node.lineno}"
        for module, file in modules().items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("launchscope")
    ]
    assert not [where for where in wrong if not where.startswith("fixtures.models.")]


def test_packages_from_outside_are_where_they_belong() -> None:
    wrong = []
    for each in ALL:
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
        ("import launchscope.tracer.options", {"numpy", "msgspec", "pandas", "torch", "rich"}),
        ("import launchscope.analysis.report", {"torch", "pandas", "plotly", "dash"}),
        ("import launchscope.analysis.check", {"torch", "pandas", "rich", "plotly", "dash"}),
        ("from launchscope import Target", {"torch"}),
    ],
)
def test_importing_stays_cheap(statement: str, absent: set[str]) -> None:
    code = f"{statement}; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not absent & {name.partition(".")[0] for name in loaded}
