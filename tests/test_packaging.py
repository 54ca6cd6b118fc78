"""What an installation gets is what the checkout holds."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import launchscope
import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_PACKAGES = {"tests", "benchmarks", "docs", "build", "dist"}


def folders_of_python() -> set[str]:
    """'launchscope.analysis', … for every folder with a .py file that ships."""
    found = set()
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT).parts[:-1]
        if not parts or (parts[0] not in NOT_PACKAGES and not parts[0].startswith(".")):
            found.add(".".join(["launchscope", *parts]))
    return found


def test_packages_are_the_folders() -> None:
    packages = PROJECT["tool"]["setuptools"]["packages"]
    assert packages == sorted(packages)
    assert set(packages) == folders_of_python()
    for package in packages:
        assert (ROOT.joinpath(*package.split(".")[1:]) / "__init__.py").is_file(), package


def test_no_stray_module_at_the_root() -> None:
    """It would ship as a part of the package."""
    assert {file.name for file in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_version_is_said_once() -> None:
    assert PROJECT["project"]["version"] == launchscope.__version__ == version("launchscope")


def test_the_console_script_is_what_tells_of_ctrl_c_first() -> None:
    assert PROJECT["project"]["scripts"] == {"launchscope": "launchscope.__main__:main"}


class Built(NamedTuple):
    files: set[str]  # of the checkout
    wheel: set[str]
    sdist: set[str]  # without the leading folder
    sdist_bytes: int


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """What is in the wheel and the sdist, built from a copy of the tracked files as pip would build them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("needs a git checkout, to know which files are the project's")
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("built")
    for name in files:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_bytes((ROOT / name).read_bytes())
    code = f"from setuptools import build_meta as b; b.build_wheel({str(out)!r}); b.build_sdist({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=checkout, check=True, capture_output=True)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened, tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
        return Built(files, set(opened.namelist()), sources, sdist.stat().st_size)


def test_the_wheel_holds_the_modules_and_the_data(built: Built) -> None:
    rooms = ("analysis/", "cli/", "fixtures/", "tracer/")
    shipped = {name for name in built.files if name.startswith(rooms)} | {"__init__.py", "__main__.py", "py.typed"}
    shipped -= {name for name in shipped if name.startswith("fixtures/captures/") and name.count("/") > 2}  # for tests
    assert {f"launchscope/{name}" for name in shipped} <= built.wheel


def test_the_wheel_holds_nothing_else(built: Built) -> None:
    code = {name.removeprefix("launchscope/") for name in built.wheel if name.startswith("launchscope/")}
    assert code <= built.files
    assert not {name for name in code if name.partition("/")[0] in NOT_PACKAGES}
    assert {name.partition("/")[0].partition("-")[0] for name in built.wheel} == {"launchscope"}


def test_the_licence_is_in_it(built: Built) -> None:
    for text in ("LICENSE", "NOTICE"):
        assert any(name.endswith(f"licenses/{text}") for name in built.wheel)


def test_the_sdist_builds_the_wheel_and_is_small(built: Built) -> None:
    """Tests and what they alone need are in the repository: 20 MB of recorded captures."""
    parts = {name.removeprefix("launchscope/") for name in built.wheel if name.startswith("launchscope/")}
    assert parts | {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md"} <= built.sdist
    assert {name for name in built.files if name.startswith("docs/")} <= built.sdist
    rooms = {name.partition("/")[0] for name in built.sdist if built.files & {name}}
    assert not rooms & {"tests", "benchmarks", ".ci"}
    assert built.sdist_bytes < 5_000_000
