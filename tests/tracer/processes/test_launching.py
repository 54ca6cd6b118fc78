"""torch's own launcher around two ranks: started by the command, by torchrun, on two hosts, interrupted and killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from launchscope import cli
from launchscope.analysis.model.capture import open_capture

from ..conftest import HERE, assert_gone, python_path
from .conftest import STARTED
from .test_processes import wait_for

pytest.importorskip("torch.distributed")

MODEL = """
import os, subprocess, time
from pathlib import Path
import fake_device
import torch
from torch import distributed

rank = os.environ["RANK"]


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def build():
    distributed.init_process_group("gloo")
    token = torch.ones(4)
    coordinator = parent(os.getppid())

    def step():
        fake_device.launch("gemm")
        if fake_device._machine.graph is not None:
            helper = subprocess.Popen(["sleep", "100"], start_new_session=True)
            pids = f"{coordinator} {os.getppid()} {os.getpid()} {helper.pid}"
            Path(f"pids-{rank}.partial").write_text(pids + "\\n")
            Path(f"pids-{rank}.partial").rename(f"pids-{rank}")
            time.sleep(100)
        distributed.all_reduce(token)
        return token

    return step
"""
CLI = str(HERE / "cli_without_gpu.py")
QUICK = ("--steps", "4", "--repeats", "1", "--format", "json", "-o", "kept")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def start(folder: Path, *words: str, launcher: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """``launchscope profile model.py …``"""
    surroundings = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    surroundings |= {"PYTHONPATH": python_path(), "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, *launcher, CLI, "profile", "model.py", *words],
        cwd=folder, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    STARTED.append(process)
    return process


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, list[str]]:
    """Exit code, stdout and our own lines on stderr."""
    out, err = process.communicate(timeout=100)
    return process.returncode, out.decode(), [x for x in err.decode().splitlines() if x.startswith("launchscope: ")]


def pids_of(folder: Path, process: subprocess.Popen[bytes]) -> list[list[int]]:
    """Of each rank: coordinator, fork server, child and the child's helper, once all hang."""
    return [[int(pid) for pid in wait_for(folder / f"pids-{rank}", process).split()] for rank in (0, 1)]


def everyone(pids: list[list[int]]) -> str:
    return " ".join(str(pid) for of_rank in pids for pid in of_rank)


def ranks_kept(folder: Path) -> list[int | None]:
    """Whose eager timing is in the capture."""
    manifest = open_capture(folder / "kept").manifest
    return [each.rank for each in manifest.modes["eager"].processes if each.samples_ns]


def test_ctrl_c_keeps_and_reports_what_was_measured(folder: Path) -> None:
    process = start(folder, "--modes", "eager,graph", *QUICK, "--nproc-per-node", "2")
    pids = pids_of(folder, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    code, out, said = ended(process)
    assert code == 130, said
    assert json.loads(out)["profile"]["modes"]["graph"]["error"] == "interrupted"
    assert ranks_kept(folder) == [0, 1]
    assert said[-1] == "launchscope: interrupted"
    assert_gone(everyone(pids))
    assert [file.name for file in folder.iterdir() if file.name.startswith(("launchscope-", ".kept"))] == []


def test_sigterm_to_the_command_alone_is_as_ctrl_c(folder: Path) -> None:
    process = start(folder, "--modes", "eager,graph", *QUICK, "--nproc-per-node", "2")
    pids = pids_of(folder, process)
    process.terminate()
    code, _, said = ended(process)
    assert code == 143, said
    assert ranks_kept(folder) == [0, 1]
    assert_gone(everyone(pids))


def test_a_coordinator_that_is_killed_ends_the_others(folder: Path) -> None:
    process = start(folder, "--modes", "eager,graph", *QUICK, "--nproc-per-node", "2")
    pids = pids_of(folder, process)
    os.kill(pids[1][0], signal.SIGKILL)
    code, out, said = ended(process)
    assert (code, out) == (2, ""), said
    assert said[-1].startswith(
        f"launchscope: rank 1 on {socket.gethostname()}: what coordinates it was ended by signal 9"
    )
    assert said[-1].endswith("; what was measured until then is in kept")
    assert ranks_kept(folder) == [0, 1]
    assert_gone(everyone(pids))


def test_the_whole_tree_ends_when_the_command_is_killed(folder: Path) -> None:
    process = start(folder, "--modes", "eager,graph", *QUICK, "--nproc-per-node", "2")
    pids = pids_of(folder, process)
    process.kill()
    process.communicate()
    assert_gone(everyone(pids), within_s=10)


def two_hosts(folder: Path, *words: str) -> list[subprocess.Popen[bytes]]:
    """Both on this one; each has a folder of its own."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    words = (*words, "--nproc-per-node", "1", "--nnodes", "2", "--rdzv-endpoint", f"localhost:{port}")
    return [start(folder, *words, "--local-addr", "localhost") for _ in range(2)]


def test_two_agents_keep_one_capture(folder: Path) -> None:
    results = [ended(process) for process in two_hosts(folder, "--modes", "eager", *QUICK)]
    assert [code for code, *_ in results] == [0, 0], results
    reports = [out for _, out, _ in results if out]
    assert len(reports) == 1
    assert json.loads(reports[0])["profile"]["modes"]["eager"]["step_ns"] is not None
    assert ranks_kept(folder) == [0, 1]
    (other,) = [said for _, out, said in results if not out]
    assert other[-1] == "launchscope: done; rank 0 keeps the capture, on its host"


def test_an_agent_that_is_killed_ends_those_of_other_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOST_S", "5")
    agents = two_hosts(folder, "--modes", "eager,graph", *QUICK)
    pids = pids_of(folder, agents[0])
    of_rank_0 = next(each for each in agents if each.pid == parent(pids[0][0]))
    (other,) = [each for each in agents if each is not of_rank_0]
    other.kill()
    other.communicate()
    code, _, said = ended(of_rank_0)
    assert code == 2, said
    if "the other hosts can't be reached any more" not in said[-1]:  # where they met was at the other one
        assert "rank 1 has not been heard of for 5 s" in said[-1]
    assert said[-1].endswith("what was measured until then is in kept")
    assert_gone(everyone(pids))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_torchrun_starts_the_ranks(folder: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    code, out, said = ended(start(folder, "--modes", "eager", *QUICK, launcher=launcher))
    assert code == 0, said
    assert json.loads(out)["profile"]["modes"]["eager"]["step_ns"] is not None
    assert ranks_kept(folder) == [0, 1]
    assert len([line for line in said if line.startswith("launchscope: kept in")]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nproc-per-node", "2", "--against", "model.py"), "--against measures two targets in turn"),
        (("--nproc-per-node", "2", "--nnodes", "2"), "--nnodes takes --rdzv-endpoint"),
        (("--rdzv-endpoint", "host0:29400"), "--nnodes, --node-rank, --rdzv-… and --local-addr take --nproc-per-node"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    folder: Path, words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["profile", str(folder / "model.py"), *words]) == 2
    assert capfd.readouterr().err.splitlines()[-1].startswith(f"launchscope: {said}")
