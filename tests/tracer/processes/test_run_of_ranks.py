"""Two ranks over gloo without a GPU: one capture of both, and every way in which one rank or all can fail."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from launchscope.analysis.model.capture import Manifest, ProcessRecord, open_capture
from launchscope.analysis.model.errors import (
    BadTarget,
    LaunchscopeError,
    MissingRequirement,
    NothingMeasured,
    RankFailed,
)
from launchscope.analysis.report import load

from ..conftest import assert_gone
from .conftest import Group

SUM = """
    import os, signal, time
    from pathlib import Path
    import fake_device
    import torch
    from torch import distributed
    from launchscope import Target

    rank = int(os.environ["RANK"])
    with Path(__file__).with_name("pids").open("a") as pids:
        print(os.getpid(), file=pids)

    def wrong():
        {wrong}

    def both_are_here():
        Path(__file__).with_name(f"here-{{rank}}").touch()
        while not Path(__file__).with_name(f"here-{{1 - rank}}").exists():
            time.sleep(0.01)

    def capturing():
        return fake_device._machine.graph is not None

    def recording():
        return fake_device._machine.calls is not None

    def build(batch_size=1):
        distributed.init_process_group("gloo")
        token = torch.ones(batch_size, 4)

        def step():
            fake_device.launch("gemm", 20)
            if {when}:
                wrong()
            y = token * (rank + 1)
            distributed.all_reduce(y)
            fake_device.launch("norm", 5)
            return y

        return Target(step, inputs={{"token": token}})
"""


def script(ranks: Group, wrong: str = "pass", when: str = "False") -> Path:
    return ranks.script(SUM.format(wrong=wrong, when=when))


def manifest_of(path: Path) -> Manifest:
    return open_capture(path).manifest


def of_mode(manifest: Manifest, mode: str) -> list[ProcessRecord]:
    return list(manifest.modes[mode].processes)


def test_a_capture_of_two_ranks(ranks: Group) -> None:
    path = ranks(script(ranks), modes=("eager", "graph"), repeats=2)
    manifest = manifest_of(path)
    assert [(each.rank, each.local_rank, each.device) for each in manifest.ranks] == [
        (0, 0, "Fake GPU"),
        (1, 1, "Fake GPU"),
    ]
    assert manifest.target.labels == ("2 ranks on 1 host",)
    traces = {mode: [each.trace for each in of_mode(manifest, mode)] for mode in manifest.modes}
    passes = {"eager": ["0-cuda", "1-cpu_cuda", "2-stacks"], "graph": ["0-cuda", "1-cpu_cuda"]}
    assert traces == {
        mode: [f"traces/{mode}-{each}-rank{rank}.json.gz" for each in those for rank in (0, 1)]
        for mode, those in passes.items()
    }
    every = [each for mode in manifest.modes for each in of_mode(manifest, mode)]
    assert [each.rank for each in every] == [0, 1] * 5
    assert {each.trace for each in every} == {f"traces/{file.name}" for file in (path / "traces").iterdir()}
    for each in every:
        assert each.error is None
        assert len(each.samples_ns) == (0 if each.trace_pass == "stacks" else 40)
        assert len(each.host_submit_ns) == (0 if each.trace_pass == "stacks" else 20)
    for first, second in zip(every[::2], every[1::2], strict=True):
        assert first.steps_per_sample == second.steps_per_sample
    for first, second in zip(of_mode(manifest, "graph")[:2:2], of_mode(manifest, "graph")[1:2:2], strict=True):
        assert first.output is not None
        assert second.output is not None
        assert first.output.matches
        assert second.output.matches
    assert manifest.floor is not None
    assert manifest.of_rank(1).modes["eager"].processes == tuple(of_mode(manifest, "eager")[1::2])
    assert load(path).document.profile is not None
    assert ranks.said[0] == "starting"
    assert [line for line in ranks.said if line.endswith("build")] == [
        "eager, process 1 of 2: build", "graph, process 1 of 2: build", "eager, process 2 of 2: build",
        "graph, process 2 of 2: build", "eager, with stacks: build",
    ]  # fmt: skip


def test_for_check_records_the_first_two_processes(ranks: Group) -> None:
    manifest = manifest_of(ranks(script(ranks), repeats=3, for_check=True))
    assert [each.trace_pass for each in of_mode(manifest, "eager") if each.rank == 1] == [
        "cuda", "cpu_cuda", None, "stacks",
    ]  # fmt: skip


def test_a_mode_that_fails_on_all_ranks_is_a_row_and_the_others_finish(ranks: Group) -> None:
    path = ranks(script(ranks, "raise ValueError(f'not on {rank}')", "capturing()"), modes=("graph", "eager"))
    modes = manifest_of(path).modes
    assert modes["eager"].error is None
    assert modes["graph"].error is not None
    assert "not on 0" in modes["graph"].error
    assert ["not on 0" in str(each.error) for each in modes["graph"].processes] == [True, False]
    assert ["not on 1" in str(each.error) for each in modes["graph"].processes] == [False, True]


def test_a_capture_holds_no_name_of_a_host_and_no_secret(ranks: Group) -> None:
    ranks.hosts = ("node-a.example.org", "node-b.example.org")
    wrong = "raise ValueError('no route from node-a.example.org to node-b:29400, https://me:hunter2@host, opensesame')"
    settings = {"hfToken": "opensesame"}
    target = script(ranks, wrong, "capturing()")
    target.write_text(target.read_text().replace("build(batch_size=1)", "build(batch_size=1, hfToken='')"))
    path = ranks(target, modes=("graph", "eager"), settings=settings)
    manifest = manifest_of(path)
    assert [each.host for each in manifest.ranks] == ["host 0", "host 1"]
    assert manifest.target.labels == ("2 ranks on 2 hosts",)
    assert "no route from host 0 to host 1:29400, https://…@host, …" in str(manifest.modes["graph"].error)
    for file in path.rglob("*.*"):
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert not [word for word in (b"node-a", b"node-b", b"hunter2", b"opensesame") if word in content], file


FAILURES = {
    "raises": ("raise ValueError('no luck')", "ValueError (capture): no luck, at model.py:14 in wrong"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "the process died of signal 9 (SIGKILL)"),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "the process died of signal 11 (SIGSEGV)"),
    "ends": ("os._exit(0)", "the process ended itself before it was done, with exit status 0"),
    "fails": ("os._exit(3)", "the process failed with exit status 3"),
}


@pytest.mark.parametrize(("how", "rank"), [*((how, 1) for how in FAILURES), ("is killed", 0)])
def test_a_rank_that_fails_alone_ends_the_run_and_what_was_measured_is_kept(ranks: Group, how: str, rank: int) -> None:
    wrong, said = FAILURES[how]
    target = script(ranks, wrong, f"capturing() and rank == {rank}")
    with pytest.raises(RankFailed) as told:
        ranks(target, modes=("eager", "graph", "fused"))
    message = str(told.value)
    assert message.startswith(f"rank {rank} on ")
    assert f": graph, process 1 of 1: {said}" in message
    assert message.endswith(f"; what was measured until then is in {ranks.folder / 'capture'}")
    manifest = manifest_of(ranks.folder / "capture")
    assert [(each.rank, len(each.samples_ns)) for each in of_mode(manifest, "eager")] == [(0, 40), (1, 40)]
    assert [each.rank for each in of_mode(manifest, "graph")] == [0, 1]
    assert said in str(of_mode(manifest, "graph")[rank].error)
    assert of_mode(manifest, "graph")[1 - rank].error is not None
    assert load(ranks.folder / "capture").document.profile is not None
    assert_gone(target.with_name("pids").read_text())


def test_a_rank_that_is_not_at_fault_keeps_what_it_has_measured(ranks: Group) -> None:
    with pytest.raises(RankFailed, match=r"rank 1 .*SIGKILL"):
        ranks(script(ranks, "os.kill(os.getpid(), signal.SIGKILL)", "recording() and rank == 1"))
    first, second = of_mode(manifest_of(ranks.folder / "capture"), "eager")
    assert (len(first.samples_ns), len(second.samples_ns)) == (40, 40)
    assert first.error is not None
    assert second.error is not None


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_hangs_is_told_with_its_line(ranks: Group, rank: int) -> None:
    target = script(ranks, "time.sleep(100)", f"capturing() and rank == {rank}")
    began = time.monotonic()
    with pytest.raises(
        RankFailed, match=rf"rank {rank} on .*: graph, .* did not end within 4 s .*model.py:14 in wrong"
    ):
        ranks(target, modes=("eager", "graph"), timeout_s=4)
    assert time.monotonic() - began < 30
    assert_gone(target.with_name("pids").read_text())


def test_a_mode_that_hangs_on_all_ranks_is_a_row(ranks: Group) -> None:
    target = script(ranks, "time.sleep(100)", "capturing()")
    modes = manifest_of(ranks(target, modes=("eager", "graph"), timeout_s=10)).modes
    assert modes["eager"].error is None
    assert all("did not end within 10 s" in str(each.error) for each in modes["graph"].processes)


def test_what_cannot_be_built_is_refused_once(ranks: Group) -> None:
    with pytest.raises(BadTarget, match=r"ValueError \(build\): no preset, at model.py"):
        ranks(ranks.script("raise ValueError('no preset')"), modes=("eager", "graph"))
    assert len([line for line in ranks.said if line.endswith("build")]) == 1
    assert sorted(file.name for file in ranks.folder.iterdir() if "capture" in file.name) == []


def test_what_one_rank_cannot_build_is_that_ranks_fault(ranks: Group) -> None:
    ranks.grace_s = 1.0  # the other one waits for it until it is stopped
    with pytest.raises(RankFailed, match=r"rank 1 on .*no file.*; nothing had been measured"):
        ranks(ranks.script("import os\nif os.environ['RANK'] == '1': raise ValueError('no file')\nstep = print"))


def test_nothing_measured_is_told_as_with_one_process(ranks: Group) -> None:
    """Both fail once both have met: the first to go would take the other's connection along."""
    with pytest.raises(NothingMeasured, match=r"no mode ran: eager: ValueError \(warm up\): no luck"):
        ranks(script(ranks, "both_are_here(); raise ValueError('no luck')", "True"))


def test_ranks_need_a_device_each(ranks: Group) -> None:
    with pytest.raises(MissingRequirement, match=r"ranks 0, 1 on .* would share one GPU"):
        ranks(script(ranks), layer="fake_device:OneForAll")


def test_a_rank_without_a_device_is_named(ranks: Group) -> None:
    with pytest.raises(MissingRequirement, match=r"rank 1 on .*: only one fake"):
        ranks(script(ranks), layer="fake_device:OnlyOne")


def test_a_target_under_graphs_of_its_own_is_measured_as_written_on_all_ranks(ranks: Group) -> None:
    path = ranks.script("""
        import fake_device
        import torch

        torch.cuda.CUDAGraph.replay = lambda graph: fake_device.launch("graph")
        graph = object.__new__(torch.cuda.CUDAGraph)

        def step():
            graph.replay()
    """)
    manifest = manifest_of(ranks(path, modes=("eager", "graph"), repeats=1))
    assert [(each.rank, each.trace) for each in manifest.modes["as_written"].processes] == [
        (0, "traces/as_written-0-cuda-rank0.json.gz"), (1, "traces/as_written-0-cuda-rank1.json.gz"),
    ]  # fmt: skip
    assert list(manifest.modes) == ["as_written"]


def test_an_output_that_exists_is_refused(ranks: Group) -> None:
    (ranks.folder / "capture").mkdir()
    with pytest.raises(LaunchscopeError, match="exists already"):
        ranks(script(ranks))
