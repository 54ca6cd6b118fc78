"""One fork server for all tests that profile, and scripts to profile."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from launchscope.tracer.processes import api
from launchscope.tracer.processes.client import ForkServer
from launchscope.tracer.target.options import ProfileOptions

HERE = Path(__file__).parent
RUN_PROFILE = api.run_profile
LAYER = "fake_device:FakeDevice"
PRELOAD = (
    "launchscope.tracer.measure.floor",
    "launchscope.tracer.measure.outputs",
    "fake_device",
)  # else imported in each process

Write = Callable[..., Path]


class Shared:
    """Stands for ``ForkServer`` where a run may use the server that is already there."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server

    def __enter__(self) -> ForkServer:
        return self._server

    def __exit__(self, *_: object) -> None:
        """The server goes on."""


def python_path() -> str:
    """PYTHONPATH with which a process finds ``fake_device``."""
    return os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path())
        started = ForkServer([*api.PRELOAD, *PRELOAD]).__enter__()
    yield started
    started.__exit__()


class Profiler:
    """Profiles scripts on the fake device, in processes of the shared server."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def script(self, text: str, name: str = "model.py") -> Path:
        return write_script(self.folder, text, name)

    def __call__(
        self,
        target: Path | str,
        progress: Callable[[str], None] = lambda _: None,
        layer: str = LAYER,
        **options: Any,
    ) -> Path:
        """By default eager only and one process; the path of the capture."""
        options = {"modes": ("eager",), "repeats": 1, "steps": 4, "out": self.folder / "capture"} | options
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
            patch.setattr(api, "ForkServer", lambda _: Shared(self.server))
            path: Path = RUN_PROFILE(ProfileOptions(target=str(target), **options), progress, layer)
            return path


@pytest.fixture
def profile(server: ForkServer, tmp_path: Path) -> Profiler:
    return Profiler(server, tmp_path)


def write_script(folder: Path, text: str, name: str = "model.py") -> Path:
    """Write a script into the user's folder."""
    path = folder / "user" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture
def script(tmp_path: Path) -> Write:
    return partial(write_script, tmp_path)


def assert_gone(pids: str, within_s: float = 5.0) -> None:
    """None of these processes runs any more."""
    deadline = time.monotonic() + within_s
    left = [int(pid) for pid in pids.split()]
    assert left
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if _runs(pid)]
        time.sleep(0.05)
    assert not left


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
