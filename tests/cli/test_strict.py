"""``--strict`` means one thing: any record lost or unread, any damage, in any format, is exit code 2."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from launchscope.cli import run
from launchscope.fixtures.builder import trace

from ..analysis.many.rank_files import rank_trace
from ..fuzz.seeds import capture, converted, proton
from ..nsys_builder import ExportBuilder, export

Captured = pytest.CaptureFixture[str]

KINETO: Final = rank_trace(0).json()
PACKED: Final = gzip.compress(KINETO)


def lossy() -> bytes:
    """Four replays of five kernels, of which the second lost one."""
    builder = trace()
    for replay in range(4):
        builder.graph_launch(100 * replay, 5)
        for node in range(5):
            if (replay, node) != (1, 2):
                builder.kernel(100 * replay + 10 + 2 * node, 1, name=f"node_{node}")
    return builder.json()


def exported() -> ExportBuilder:
    builder = export()
    for step in range(5):
        at = 1000 * step
        builder.range(f"step {step}", at, 900).launch(at + 5, 5).kernel(at + 20, 40)
    return builder


DAMAGED: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "cut in its records": ("x.json", lambda: KINETO[:-300]),
    "cut behind its records": ("x.json", lambda: KINETO[:-1]),
    "a record without its time": ("x.json", lambda: KINETO.replace(b'"ts":', b'"to":', 1)),
    "records that the profiler dropped": (
        "x.json",
        lambda: rank_trace(0).header(WARNING=["Dropped 3 activity records"]).json(),
    ),
    "one duration below zero": ("x.json", lambda: rank_trace(0).launch(7000, 5).kernel(7010, -5).json()),
    "a launch call that lost its kernel": ("x.json", lambda: rank_trace(0).launch(5500, 5).json()),
    "a replay that lost a kernel": ("x.json", lossy),
    "cut gzip": ("x.json.gz", lambda: PACKED[:-200]),
    "wrong checksum": ("x.json.gz", lambda: PACKED[:-8] + bytes(4) + PACKED[-4:]),
    "wrong length": ("x.json.gz", lambda: PACKED[:-4] + bytes(4)),
    "cut export": ("x.sqlite", lambda: exported().bytes()[:-1]),
    "names gone from an export": ("x.sqlite", lambda: exported().drop("StringIds").bytes()),
    "replays without their nodes": ("x.sqlite", lambda: exported().graph_launch(9000, 5).graph_trace(9010, 80).bytes()),
    "events that nsys may have lost": (
        "x.sqlite",
        lambda: exported().row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might be there").bytes(),
    ),
    "cut Proton": ("x.json", lambda: proton(new=True)[:-1]),
    "cut Perfetto": ("x.json", lambda: converted(rank_trace(0).json().replace(b".000", b""))[:-1]),
    "capture of a trace that lost a kernel": ("x.zip", lambda: capture({"eager-0": gzip.compress(lossy())})),
    "capture with a cut trace": ("x.zip", lambda: capture({"eager-0": gzip.compress(KINETO)[:-100]})),
}
LOSING: Final = ("one duration below zero", "a launch call that lost its kernel", "a replay that lost a kernel")
LIMITS: Final = '[limits]\nlaunches = "<= 300"\n'


@pytest.fixture
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    folder = tmp_path_factory.mktemp("beside")
    (folder / "limits.toml").write_text(LIMITS)
    return [["analyze"], ["doctor"], ["check", "--config", f"{folder}/limits.toml"], ["export", "-o", f"{folder}/x.md"]]


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_exit_code_2(what: str, commands: list[list[str]], tmp_path: Path, capfd: Captured) -> None:
    name, made = DAMAGED[what]
    path = tmp_path / name
    path.write_bytes(made())
    for command in commands:
        assert run([*command, "--strict", str(path)]) == 2, command
        (line,) = capfd.readouterr().err.splitlines()
        assert re.match(rf"launchscope: .*{name}.*: (not whole, so refused as asked|an SQLite file that is cut)", line)


@pytest.mark.parametrize(
    "what", ["cut behind its records", "wrong checksum", "cut export", "capture with a cut trace", *LOSING]
)
def test_one_of_several_is_enough(what: str, tmp_path: Path, capfd: Captured) -> None:
    name, made = DAMAGED[what]
    (tmp_path / name).write_bytes(made())
    rank_trace(0).write(tmp_path / "rank0.json")
    for command in (["analyze"], ["analyze", "--ranks", "--workers", "1"]):
        assert run([*command, "--strict", str(tmp_path)]) == 2
        assert name in capfd.readouterr().err.splitlines()[-1]


def test_whole_files_pass(commands: list[list[str]], tmp_path: Path) -> None:
    rank_trace(0).write(tmp_path / "rank0.json")
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(rank_trace(1).json()))
    exported().write(tmp_path / "x.sqlite")
    (tmp_path / "README.md").write_text("of no kind")
    for command in (*commands, ["analyze", "--ranks"]):
        assert run([*command, "--strict", str(tmp_path)]) == 0
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.write(tmp_path / "rank0.json", "rank0.json")
    assert run(["analyze", "--strict", str(tmp_path / "y.zip")]) == 0


def test_a_table_of_ranks_is_written_and_its_unread_files_are_told(tmp_path: Path, capfd: Captured) -> None:
    run_folder, out = tmp_path / "run", tmp_path / "ranks.json"
    run_folder.mkdir()
    for rank in (0, 1):
        rank_trace(rank, world=3).write(run_folder / f"rank{rank}.json")
    (run_folder / "rank2.json").write_bytes(bytes(1000))
    (run_folder / "config.json").write_text("{}")
    assert run(["analyze", "--ranks", "--strict", "-o", str(out), str(run_folder)]) == 2
    assert "1 of 3 files can't be read whole; the first: rank2.json: not a trace" in capfd.readouterr().err
    told = json.loads(out.read_bytes())
    assert [row["rank"] for row in told["rows"]] == [0, 1, 2]
    assert told["skipped"] == [{"reason": "JSON without a list traceEvents", "count": 1, "first": "config.json"}]
    assert run(["analyze", "--ranks", str(run_folder)]) == 0
    assert "4 files: 2 read, 1 unread, 1 skipped, because: JSON without a list traceEvents (config.json)" in " ".join(
        capfd.readouterr().out.split()
    )


def test_a_saved_report_of_a_trace_that_was_not_whole(tmp_path: Path, capfd: Captured) -> None:
    (tmp_path / "x.json").write_bytes(KINETO[:-1])
    report = tmp_path / "report.json"
    assert run(["analyze", "-o", str(report), str(tmp_path / "x.json")]) == 0
    (tmp_path / "limits.toml").write_text(LIMITS)
    command = ["check", "--config", str(tmp_path / "limits.toml"), str(report)]
    assert run(command) == 2  # no limit can be told of it
    assert run([*command, "--strict"]) == 2
    assert "its x.json was not whole, so refused as asked: the file is cut or damaged outside" in capfd.readouterr().err
