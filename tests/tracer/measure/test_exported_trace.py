"""A trace that torch's profiler exports is there whole, or it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXPORT = """
import resource, signal, sys
from pathlib import Path
import torch
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.tracer.measure.device import Session

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    for _ in range(500):
        torch.ones(4) + 1
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
try:
    Session(profiler).export(Path(sys.argv[1]))
except LaunchscopeError as error:
    print(error)
"""


def exported(file: Path, most: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", EXPORT.format(most=most), str(file)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_it_is_packed_and_whole(tmp_path: Path) -> None:
    import gzip

    assert exported(tmp_path / "trace.json.gz", most=1 << 30) == ""
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json.gz"]
    events = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    assert sum(event.get("name") == "aten::add" for event in events) == 500


def test_a_disk_that_takes_a_part_is_told(tmp_path: Path) -> None:
    """Kineto itself goes on: torch packed what there was, and the capture held half of a trace."""
    told = exported(tmp_path / "trace.json.gz", most=100_000)
    assert told == f"{tmp_path}/trace.json: the profiler could not write all of its trace; is the disk full?"
    assert not (tmp_path / "trace.json.gz").exists()
