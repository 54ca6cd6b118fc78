"""Files made to take a reader's time or memory, or to reach what they should not: refused, or read within bounds."""

from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Final

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import open_trace, read_trace
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.report import Report, load
from launchscope.fixtures.builder import trace

from ..cases import NAMED_CASES
from .hostile import HEAD, LARGE, SLOW, kernels

SLOW_BYTES: Final = 150_000
MOST_SECONDS: Final = 5.0
"""They take a tenth of it; a search that begins anew at each of their braces takes minutes."""

LARGE_BYTES: Final = 12 << 20
MOST_MEMORY: Final = 300 << 20
"""The interpreter with numpy takes 60 MiB of it; as Python objects all entries would take another 400."""


@pytest.mark.parametrize("name", SLOW)
def test_time_grows_with_the_size(name: str) -> None:
    data = SLOW[name](SLOW_BYTES)
    began = time.process_time()
    with contextlib.suppress(UnreadableInput):
        analyze_trace(read_trace(data, "x.json"), name="x")
    assert time.process_time() - began < MOST_SECONDS


MEASURE: Final = """
import resource, sys
from pathlib import Path
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.inputs.readers import open_trace
try:
    open_trace(Path(sys.argv[1]))
except UnreadableInput as error:
    assert str(error).isprintable()
status = Path("/proc/self/status")
if status.exists():  # where getrusage tells the most that the process which started this one ever had
    print(int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("name", ["empty objects", "zeros where the disk lost a block", "Proton's empty records"])
def test_memory_stays_within_a_bound(name: str, tmp_path: Path) -> None:
    """The others run with the long campaign."""
    path = tmp_path / "x.json"
    path.write_bytes(LARGE[name](LARGE_BYTES))
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < MOST_MEMORY


def test_what_stands_before_a_hole_in_the_file_is_read() -> None:
    found = read_trace(HEAD + kernels(2000) + b",\n" + b"\0" * 100_000, "x.json")
    assert (len(found.gpu_ops), found.complete) == (kernels(2000).count(b"ph"), False)


def test_a_name_of_10_mb() -> None:
    name = "k" * 10_000_000
    builder = NAMED_CASES["one eager step"]().launch(90, 1).kernel(92, 1, name=name).launch(95, 1).kernel(97, 1)
    found = analyze_trace(builder.build(), name="x")
    assert {kernel.name for kernel in found.document.kernels} == {name, "kernel"}


@pytest.mark.parametrize("part", ["(", "a<", " · ", "\x1b", "λ", "k"])
def test_outputs_of_long_names_take_no_longer_and_are_no_longer(part: str) -> None:
    """Nesting was parsed once for each of its levels, and a word wrapped by going over all of it for each line."""
    name, builder = part * (200_000 // len(part)), trace()
    for step in range(4):
        at = 100 * step
        builder.step(step, at, 90).op(name, at, 80).launch(at + 5, 5, name).kernel(at + 20, 5, name=name)
        builder.sync(at + 30, 5, f"cudaStreamSynchronize{name}")
    analysis = analyze_trace(builder.build(), name="x")
    document = ReportDocument(launchscope="0", target=None, environment=None, traces=[analysis.document], profile=None)
    report = Report(document, (analysis,))
    began = time.process_time()
    texts = [
        report_story.render_terminal(report, width=100, color=False, verbose=True),
        report_story.render_markdown(report),
    ]
    assert time.process_time() - began < MOST_SECONDS
    assert max(map(len, texts)) < 500_000
    assert analysis.document.kernels[0].name == name


class TestBombs:
    """A MiB of blanks packs to a kB."""

    def test_gzip(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json.gz"
        path.write_bytes(gzip.compress(HEAD + indented_by(20_000) + b"]}"))
        with pytest.raises(UnreadableInput, match=r"x\.json\.gz: unpacks to over 64 MiB; no trace of its size does"):
            open_trace(path)

    def test_zip(self, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.json", b" " * (65 << 20))
        with pytest.raises(UnreadableInput, match=r"x\.zip: unpacks to over 64 MiB; no capture of its size does"):
            load(path)

    def test_gzip_in_zip(self, tmp_path: Path) -> None:
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.json.gz", gzip.compress(HEAD + b" " * (2 << 20) + b"]}", compresslevel=0))
        with pytest.raises(UnreadableInput, match=r"x\.json\.gz is packed twice over"):
            load(path)

    def test_a_trace_that_packs_better_than_any_is_read(self, tmp_path: Path) -> None:
        """Records that differ in their times alone, indented by four blanks, pack 52 times: these 100 times."""
        path = tmp_path / "x.json.gz"
        path.write_bytes(gzip.compress(HEAD + indented_by(600) + b"]}", compresslevel=6))
        assert 80 < (64 << 20) / path.stat().st_size < 180
        assert len(open_trace(path).gpu_ops) > 6000


def indented_by(blanks: int) -> bytes:
    """Records of somewhat over 64 MiB, their lines indented."""
    return kernels(66 << 20, lambda record: record.replace(b",", b",\n" + b" " * blanks))
