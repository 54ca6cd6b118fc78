"""Two ranks on two real GPUs: one capture of both, collectives inside the graph, and an end that nothing hangs in."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launchscope.analysis.model.capture import Capture, ProcessRecord, open_capture
from launchscope.analysis.report import load

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
LAYERS, STEPS = 4, 6
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
MARK = "LAUNCHSCOPE_TEST_OF_RANKS"


def two_gpus() -> bool:
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.device_count() >= 2)


pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True, scope="module")
def _needs_two() -> None:
    if not two_gpus():
        pytest.skip("needs two GPUs")


def run(folder: Path, *words: str, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, and nothing of it left behind."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "launchscope", "profile", *words],
        cwd=folder, env=os.environ | NO_MULTICAST | {MARK: mark}, capture_output=True, text=True, timeout=360,
        check=False,
    )  # fmt: skip
    sys.stderr.write(done.stderr)
    deadline = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left
    return done


def marked(mark: str) -> list[str]:
    """Command lines of processes that were started with this mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


MODEL = ("--set", f"layers={LAYERS}", "--modes", "eager,graph", "--repeats", "2", "--steps", str(STEPS))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    folder = tmp_path_factory.mktemp("two")
    began = time.monotonic()
    done = run(folder, str(MODELS / "llama_1b_tp.py"), *MODEL, "--nproc-per-node", "2", "-o", "kept")
    assert done.returncode == 0, done.stderr
    sys.stderr.write(f"two ranks, five jobs: {time.monotonic() - began:.0f} s\n")
    return open_capture(folder / "kept")


def processes(capture: Capture, mode: str, rank: int) -> list[ProcessRecord]:
    return [each for each in capture.manifest.modes[mode].processes if each.rank == rank]


def test_a_capture_holds_both_ranks(two: Capture) -> None:
    assert [(each.rank, each.local_rank) for each in two.manifest.ranks] == [(0, 0), (1, 1)]
    assert "2 ranks on 1 host" in two.manifest.target.labels
    for mode in ("eager", "graph"):
        assert two.manifest.modes[mode].error is None
        first, second = processes(two, mode, 0), processes(two, mode, 1)
        assert [each.trace_pass for each in first] == [each.trace_pass for each in second]
        for one, other in zip(first, second, strict=True):
            assert one.error is None
            assert other.error is None
            assert one.steps_per_sample == other.steps_per_sample
            if one.trace_pass != "stacks":
                assert len(one.samples_ns) == len(other.samples_ns) == 40


def test_the_ranks_take_the_same_time(two: Capture) -> None:
    for mode in ("eager", "graph"):
        medians = [sorted(processes(two, mode, rank)[0].samples_ns)[20] for rank in (0, 1)]
        assert max(medians) < 1.2 * min(medians)


def test_each_rank_has_its_collectives_in_every_mode(two: Capture) -> None:
    for mode in ("eager", "graph"):
        for rank in (0, 1):
            for process in processes(two, mode, rank):
                if process.trace_pass == "stacks":
                    continue
                assert process.trace is not None
                assert f"-rank{rank}" in process.trace
                events = json.loads(gzip.decompress(two.trace_bytes(process.trace)))["traceEvents"]
                count = sum(e.get("cat") == "kernel" and "nccl" in e["name"].lower() for e in events)
                assert (STEPS - 1) * 2 * LAYERS <= count <= STEPS * 2 * LAYERS, (mode, rank, count)


def test_a_graph_computes_what_eager_does_on_each_rank(two: Capture) -> None:
    for rank in (0, 1):
        check = processes(two, "graph", rank)[0].output
        assert check is not None
        assert check.matches, check


def test_the_process_groups_end_in_time(two: Capture) -> None:
    notes = [note for mode in two.manifest.modes.values() for each in mode.processes for note in each.notes]
    assert [note for note in notes if "process group" in note] == []


def test_the_capture_opens(two: Capture) -> None:
    document = load(two.path).document
    assert document.profile is not None
    assert document.profile.modes["graph"].step_ns is not None


def test_torchrun_does_the_same(tmp_path: Path) -> None:
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    words = (str(MODELS / "llama_1b_tp.py"), "--set", f"layers={LAYERS}", "--modes", "graph", "--repeats", "1")
    done = run(tmp_path, *words, "-o", "kept", "--format", "json", launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["profile"]["modes"]["graph"]["step_ns"] is not None
    assert len(open_capture(tmp_path / "kept").manifest.ranks) == 2


def test_a_rank_that_dies_ends_the_run_and_keeps_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(
        f"import os, signal, sys\nsys.path.insert(0, {str(MODELS)!r})\nimport llama_1b_tp, torch\n"
        "def build(batch_size, device, dtype, context_length):\n"
        f"    target = llama_1b_tp.build(batch_size, device, dtype, context_length, layers={LAYERS})\n"
        "    step = target.step\n"
        "    def dies():\n"
        "        if torch.cuda.is_current_stream_capturing() and os.environ['RANK'] == '1':\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return step()\n"
        "    from dataclasses import replace\n"
        "    return replace(target, step=dies)\n"
    )
    began = time.monotonic()
    done = run(tmp_path, "dies.py", "--modes", "eager,graph", "--repeats", "1", "--nproc-per-node", "2", "-o", "kept")
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "rank 1" in last
    assert "SIGKILL" in last
    assert time.monotonic() - began < 150
    manifest = open_capture(tmp_path / "kept").manifest
    assert [each.rank for each in manifest.modes["eager"].processes if each.samples_ns] == [0, 1]
    assert all(each.error for each in manifest.modes["graph"].processes)


def test_a_rank_that_hangs_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(
        f"import os, sys, time\nsys.path.insert(0, {str(MODELS)!r})\nimport llama_1b_tp\ncalls = 0\n"
        "def build(batch_size, device, dtype, context_length):\n"
        f"    target = llama_1b_tp.build(batch_size, device, dtype, context_length, layers={LAYERS})\n"
        "    step = target.step\n"
        "    def hangs():\n"
        "        global calls\n"
        "        calls += 1\n"
        "        if calls > 30 and os.environ['RANK'] == '1':\n"
        "            time.sleep(1000)\n"
        "        return step()\n"
        "    from dataclasses import replace\n"
        "    return replace(target, step=hangs)\n"
    )
    words = ("hangs.py", "--modes", "eager", "--repeats", "1", "--timeout", "60")
    done = run(tmp_path, *words, "--nproc-per-node", "2", "-o", "kept")
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "rank 1" in last
    assert "did not end within 60 s" in last
    assert "hangs.py:12 in hangs: time.sleep(1000)" in last


def test_more_ranks_than_gpus_are_refused_in_words(tmp_path: Path) -> None:
    import torch

    many = torch.cuda.device_count() + 1
    done = run(tmp_path, str(MODELS / "llama_1b_tp.py"), "--nproc-per-node", str(many), "-o", "kept")
    assert done.returncode == 2
    assert f"{many - 1} GPUs are there" in done.stderr.strip().splitlines()[-1]
