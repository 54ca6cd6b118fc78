"""Ranks without a launcher and without its four seconds a run: forks of the test that share two fork servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from launchscope.tracer.processes import api, coordinator, launch
from launchscope.tracer.processes.client import ForkServer, Meanwhile
from launchscope.tracer.target.options import ProfileOptions

from ..conftest import LAYER, PRELOAD, python_path

WORLD = 2
STARTED: list[subprocess.Popen[bytes]] = []
"""Command lines of the test that runs."""


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """A test that fails, or waits for too long, leaves no command behind for the next one to wait beside."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


class Shared:
    """Stands for a ``ForkServer`` in a fork of the test: the one that is already there, with results of its own."""

    runs = 0

    def __init__(self, server: ForkServer) -> None:
        self._server = server

    def __call__(self, preload: object, environment: object, meanwhile: Meanwhile) -> Shared:
        self._server._meanwhile = meanwhile
        self._server._jobs = 1000 * Shared.runs
        return self

    def __enter__(self) -> ForkServer:
        return self._server

    def __exit__(self, *_: object) -> None:
        """The server goes on."""


@pytest.fixture(scope="session")
def servers() -> Iterator[list[ForkServer]]:
    pytest.importorskip("torch.distributed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path())
        patch.setenv("OMP_NUM_THREADS", "1")
        started = [ForkServer([*api.PRELOAD, *PRELOAD]) for _ in range(WORLD)]
        with ThreadPoolExecutor() as both:
            list(both.map(ForkServer.__enter__, started))
    yield started
    for server in started:
        server.__exit__()


class Group:
    """Runs a script on two ranks, as torch's agent would, and raises what rank 0 does."""

    hosts: tuple[str, ...] | None = None  # names of the hosts that the ranks take theirs for
    grace_s = coordinator.GRACE_S

    def __init__(self, servers: list[ForkServer], folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        self.said: list[str] = []

    def script(self, text: str) -> Path:
        path = self.folder / "user" / "model.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def __call__(self, target: Path, layer: str = LAYER, **options: Any) -> Path:
        """The path of the capture."""
        options = {"modes": ("eager",), "repeats": 1, "steps": 4, "out": self.folder / "capture"} | options
        asked = ProfileOptions(target=str(target), **options)
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        Shared.runs += 1
        ends = self.folder / f"ends-{Shared.runs}"
        ends.mkdir()
        pids = [self._fork(asked, layer, rank, port, ends) for rank in range(WORLD)]
        failures = {rank: None for rank, pid in enumerate(pids) if os.waitpid(pid, 0)[1]}
        self.said = (ends / "said").read_text().splitlines() if (ends / "said").exists() else []
        path = launch.capture_of_ended(
            {each.rank: each for each in launch.read_endings(ends)}, failures, interrupted=False
        )
        assert path is not None
        return path

    def _fork(self, options: ProfileOptions, layer: str, rank: int, port: int, ends: Path) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12's, of a fork beside torch's threads
            pid = os.fork()
        if pid:
            return pid
        try:
            told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in told.items()})
            os.environ.update({"MASTER_ADDR": "localhost", "XDG_CACHE_HOME": str(self.folder / "cache")})
            if self.hosts is not None:
                name = self.hosts[rank]
                socket.gethostname = lambda: name  # of this fork
            coordinator.GRACE_S = self.grace_s  # type: ignore[misc]
            coordinator.ForkServer = Shared(self.servers[rank])  # type: ignore[assignment, misc]
            handlers: Mapping[signal.Signals, Any] = dict.fromkeys(launch.HANDLED, signal.SIG_DFL)

            def say(line: str) -> None:
                with (ends / "said").open("a") as said:
                    print(line, file=said)

            launch._forked(options, say, layer, ends, dict(handlers))
            os._exit(0)
        finally:
            os._exit(1)


@pytest.fixture
def ranks(servers: list[ForkServer], tmp_path: Path) -> Group:
    return Group(servers, tmp_path)
