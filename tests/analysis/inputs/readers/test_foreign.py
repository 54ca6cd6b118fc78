"""Files of other programs: each is recognised by what it holds, and a line says what to run."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from pathlib import Path

import pytest
from launchscope.analysis.inputs.readers import open_trace, read_trace
from launchscope.analysis.inputs.readers.foreign import recognized
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.render import perfetto
from launchscope.analysis.report import load
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace  # type: ignore[import-untyped]

from ....cases import NAMED_CASES

NSYS = b"NVIDIA Tegra Profiler Report 2026@4@1@191-264138605071v0.\n\x0bLocal (CLI)\x12\n"
XPLANE = b"\n\x93\x8f\x04\x08\x01\x12\x0d/device:GPU:0\x1a\x20\x08\x07\x12\x06Stream"
XPLANE_OF_HOST = b"\n\x27\x12\x09/host:CPU\x1a\x1a\x08\x07\x12\x06python"
EVENTS = b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\xc0\x9d\x46\x5b\xda\x41\x1a\x0dbrain.Event:2\xec\x98\x45\x24"
SNAPSHOT = pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1}]]})


def perfetto_trace() -> bytes:
    """Two packets, as any producer writes them."""
    trace = Trace()
    trace.packet.add(trusted_packet_sequence_id=1).trace_config.duration_ms = 10_000
    trace.packet.add(timestamp=5, trusted_packet_sequence_id=1).ftrace_events.cpu = 3
    return bytes(trace.SerializeToString())


def tar_file() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("rank0.json"), io.BytesIO())
    return data.getvalue()


FOREIGN = {
    "nsys report": (NSYS, "run `nsys export --type sqlite some.file`"),
    "ncu report": (b"NVR\0\x34\0\0\0\n\x02", "Nsight Compute"),
    "xplane": (XPLANE, "XPlane profile"),
    "xplane of a host": (XPLANE_OF_HOST, "XPlane profile"),
    "perfetto": (perfetto_trace(), "a Perfetto trace that launchscope did not write"),
    "tensorboard": (EVENTS, "TensorBoard event file"),
    "interrupted export": (bytes(100) + b"\r\0\0\0CREATE TABLE StringIds(id, value)", "an interrupted export"),
    "page": (b"\n<!DOCTYPE html><html>", "HTML or XML"),
    "pickle": (pickle.dumps([1, 2]), "a pickle"),
    "memory snapshot": (SNAPSHOT, "torch's memory"),
    "zip": (b"PK\x03\x04", "a .zip inside"),
    "tar": (tar_file(), "a tar archive"),
    "report": (b'{\n  "schema": "launchscope.report/1"', "a JSON report of launchscope"),
    "baseline": (b'{"schema":"launchscope.baseline/1"', "`launchscope check --baseline` takes it"),
    "manifest": (b'{"schema": "launchscope.capture/1"', "give the folder that it lies in"),
    "comparison": (b'{"schema": "launchscope.comparisons/1"', "a JSON document that launchscope wrote"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_program_is_told_by_its_content(name: str, packed: bool) -> None:
    content, words = FOREIGN[name]
    with pytest.raises(UnreadableInput) as refused:
        read_trace(gzip.compress(content) if packed else content, "some.file")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a b.qdrep", "nsys export --type sqlite '{folder}/a b.qdrep'"),
        ("x.nsys-rep", "nsys export"),
        ("x.qdstrm", "QdstrmImporter"),
        ("x.xplane.pb", "XPlane"),
        ("x.PFTRACE", "Perfetto"),
        ("model.pt", "pickle"),
        ("x.rpd", "rpd file by its name"),
        ("events.out.tfevents.1700000000.host.1.0", "TensorBoard"),
    ],
)
def test_where_the_content_says_nothing_the_name_does(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xaa\xbb\xcc\xdd")
    with pytest.raises(UnreadableInput) as refused:
        open_trace(tmp_path / name)
    assert words.format(folder=tmp_path) in str(refused.value)


def test_a_trace_is_read_under_any_name(tmp_path: Path) -> None:
    for name in ("x.nsys-rep", "x.pt", "x.pftrace", "x.html", "events.out.tfevents.1"):
        assert len(open_trace(NAMED_CASES["graph replay"]().write(tmp_path / name)).gpu_ops) == 20


@pytest.mark.parametrize(
    "head", [b'\n{"traceEvents": [', b"\n\n  [{", b'{"name": "\x01"', b"\n", b"", b"\n\x01", b"\n\xff"]
)
def test_what_may_be_a_trace_is_not_judged(head: bytes) -> None:
    assert recognized(head, "trace.json") is None


@pytest.mark.parametrize("case", ["one eager step", "graph replay", "two devices"])
def test_our_own_perfetto_trace_points_back_at_its_capture(case: str, tmp_path: Path) -> None:
    data = b"".join(perfetto.render(load(NAMED_CASES[case]().write(tmp_path / "step.json"))))
    with pytest.raises(UnreadableInput, match="analyze the capture or trace that it was made from"):
        read_trace(data, "out.pftrace")
