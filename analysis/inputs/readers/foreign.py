"""What a file is, by its beginning: which files of a folder are to be read, and of other programs' files that no reader
here reads what to run to get one that is.

A file that is named like a trace is one unless it plainly is something else: a rank whose file was lost, cut or never
written is a row with its reason, not a row less.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from typing import BinaryIO, Final, NamedTuple

import msgspec

from ...model.errors import UnreadableInput
from .json_text import FAULTS, LONGEST_TEXT
from .unpacking import Unpacked

SQLITE: Final = b"SQLite format 3\0"
RECORD: Final = "record with torch.profiler or nsys (docs/recording.md)"
_MAGIC: Final = {
    # its first line: 'NVIDIA Tegra Profiler Report 2026@4@1@191-…'
    b"NVIDIA Tegra Profiler Report": "nsys",
    b"NVR\0": "ncu",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"\x7fELF": "program",
    b"\x89PNG": "image",
    b"%PDF": "image",
}
_SUFFIXES: Final = {
    (".nsys-rep", ".qdrep"): "nsys",
    (".qdstrm",): "qdstrm",
    (".ncu-rep",): "ncu",
    (".xplane.pb",): "xplane",
    (".pftrace", ".perfetto-trace", ".perfetto"): "perfetto",
    (".pt", ".pth", ".pkl", ".pickle"): "pickle",
    (".tar",): "tar",
    (".rpd",): "rpd",
    (".html", ".htm"): "markup",
}
_WORDS: Final = {
    "nsys": "a report of Nsight Systems, whose format only nsys reads: run `nsys export --type sqlite {file}` and give "
    "the .sqlite file that it writes (docs/formats.md)",
    "interrupted": "an interrupted export: an SQLite file whose header was never written; run "
    "`nsys export --type sqlite` on the report again, with room on the disk, and let it end",
    "qdstrm": "a raw recording of Nsight Systems: run `QdstrmImporter -i {file}`, then `nsys export --type sqlite` on "
    "the report that it writes",
    "ncu": "a report of Nsight Compute, which measures kernels one by one and knows no gaps between them: record a "
    "timeline with `nsys profile --trace=cuda,nvtx --cuda-graph-trace=node` (docs/recording.md)",
    "rpd": f"an rpd file by its name, but no SQLite file by its content; copy it again, or {RECORD}",
    "xplane": "an XPlane profile of JAX or TensorFlow, which is not read: record the same program with "
    "`nsys profile --trace=cuda,nvtx --cuda-graph-trace=node` and export it (docs/recording.md)",
    "perfetto": f"a Perfetto trace that launchscope did not write, and no reader for it: {RECORD}",
    "our perfetto": "a Perfetto trace that launchscope export wrote, for ui.perfetto.dev: analyze the capture or trace "
    "that it was made from",
    "our report": "a JSON report of launchscope, which holds figures and no trace: `launchscope check` takes it, any "
    "other command the capture or the trace that it was made from",
    "our baseline": "a baseline, which holds figures and no trace: `launchscope check --baseline` takes it, any other "
    "command the capture or the trace that it was made from",
    "our capture": "the manifest of a capture, without its traces: give the folder that it lies in",
    "our document": "a JSON document that launchscope wrote, not a trace: give the capture or the trace that it was "
    "made from",
    "tensorboard": "a TensorBoard event file, which holds no GPU ops: give the .pt.trace.json that torch.profiler "
    "wrote beside it, or the folder",
    "memory": "a snapshot of torch's memory (torch.cuda.memory), which holds no GPU ops: open it in "
    "https://pytorch.org/memory_viz, and export_chrome_trace the profiler's trace",
    "pickle": "a pickle (torch.save, pickle.dump), which is never opened, as that would run it: give the trace that "
    "torch.profiler's export_chrome_trace wrote",
    "zip": "a .zip inside of another file, or a part of one: unpack it and give the trace inside, or copy it whole",
    "bzip2": "compressed with bzip2: unpack it first (bunzip2)",
    "xz": "compressed with xz: unpack it first (unxz)",
    "7z": "compressed with 7z: unpack it first (7z x)",
    "tar": "a tar archive: unpack it (tar xf) and give the folder",
    "markup": "HTML or XML, perhaps an error page instead of the download: fetch the raw trace file again",
    "program": f"a program, not a trace: {RECORD}",
    "image": f"a picture or a document, not a trace: {RECORD}",
}
_BESIDE: Final = frozenset({"pickle", "markup", "program", "image"})
"""Files that lie in any folder."""

_ZEROS: Final = 16  # bytes of SQLite's mark, which its writer puts in place last
_HEAD_BYTES: Final = 4096
_OUR_TRACK: Final = b"host ranges, found by: "  # what analysis.export.perfetto writes beside its first track
_TAR: Final = slice(257, 262)
_XPLANE: Final = re.compile(rb"\n[\x80-\xff]{0,4}[\x00-\x7f](\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12.[/#A-Z]", re.S)
_XPLANE_NAMES: Final = (b"/host:", b"/device:", b"#Chip", b"Task Environment")
_OUR_DOCUMENT: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"launchscope\.(\w+)/')
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_MEMORY_NAMES: Final = (b"device_traces", b"segments")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_WIRE_TYPES: Final = (0, 1, 2, 5)  # of a protobuf field; the others are not in use


def recognized(head: bytes, path: str) -> str | None:
    """What a file with this head is and what to do, or None for one that may be a trace.

    ``head`` is the beginning of its content, unpacked; ``path`` names it.
    """
    kind = _kind(head, path)
    return None if kind is None else _words(kind, path)


def profile_of_others(head: bytes, path: str) -> str | None:
    """The same for what may be a profiler's recording, packed or not; None for all that only lies beside one."""
    kind = _kind(head, path)
    return None if kind is None or kind in _BESIDE else _words(kind, path)


def _words(kind: str, path: str) -> str:
    return _WORDS[kind].format(file=shlex.quote(path))


def _kind(head: bytes, path: str) -> str | None:
    if head.startswith(bytes(_ZEROS)) and b"CREATE TABLE" in head:
        return "interrupted"
    return _by_content(head) or (None if head.lstrip()[:1] in (b"{", b"[") else _by_name(path))


def _by_name(path: str) -> str | None:
    name = path.rpartition("/")[2].lower()
    if ".tfevents." in name:
        return "tensorboard"
    return next((kind for suffixes, kind in _SUFFIXES.items() if name.endswith(suffixes)), None)


def _by_content(head: bytes) -> str | None:
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head.lstrip().startswith(b"<"):
        return "markup"
    if head[_TAR] == b"ustar":
        return "tar"
    if _PICKLE.match(head):
        return "memory" if any(name in head for name in _MEMORY_NAMES) else "pickle"
    if b"brain.Event:" in head[:64]:  # a TFRecord whose first event tells the file's version
        return "tensorboard"
    if ours := _OUR_DOCUMENT.match(head):
        kind = f"our {ours[1].decode()}"
        return kind if kind in _WORDS else "our document"
    if head.startswith(b"\n") and _CONTROL.search(head[:_HEAD_BYTES]):
        return _protobuf(head)
    return None


def _protobuf(head: bytes) -> str | None:
    """Of the two formats whose message begins with field 1, a message: XSpace.planes and Trace.packet.

    https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto and
    https://perfetto.dev/docs/reference/trace-packet-proto
    """
    if _XPLANE.match(head) and any(name in head[:64] for name in _XPLANE_NAMES):
        return "xplane"
    if _OUR_TRACK in head:
        return "our perfetto"
    length, begin = _varint(head, 1)
    end = begin + length
    is_packet = length > 1 and head[begin] & 7 in _WIRE_TYPES and head[begin] >> 3 > 0
    return "perfetto" if is_packet and (end >= len(head) or head[end : end + 1] == b"\n") else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf number and where it ends; (0, at) for none."""
    value = shift = 0
    for index in range(at, min(at + 5, len(data) - 1)):
        value |= (data[index] & 127) << shift
        shift += 7
        if data[index] < 128:
            return value, index + 1
    return 0, at


NO_EVENTS: Final = "JSON without a list traceEvents"
OTHER_PROGRAM: Final = "a file of another program, or another file of launchscope"
NEITHER: Final = "no trace by name and content"

_TRACE_SUFFIXES: Final = (".json", ".gz", ".zst", ".sqlite", ".sqlite3", ".db", ".trace")
_PACKED_OTHERS: Final = tuple(f".{kind}.{packer}" for kind in ("txt", "log", "csv", "tar") for packer in ("gz", "zst"))
_WITHIN: Final = ".json."  # rank3.json.gz.part
_LONGEST: Final = 1 << 62  # no bound: no more is unpacked than is looked at
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)


class Peek(NamedTuple):
    """What the beginning of a file tells."""

    skipped: str | None = None  # why it is not read; None: a reader here takes it, or has to say what is wrong with it
    foreign: str | None = None  # of a recording of a profiler that no reader here takes: what it is, and what to run


def is_named_like_a_trace(path: str) -> bool:
    """By its suffix."""
    name = path.rpartition("/")[2].lower()
    return (name.endswith(_TRACE_SUFFIXES) or _WITHIN in name) and not name.endswith(_PACKED_OTHERS)


def peek(file: BinaryIO, path: str) -> Peek:
    """Look at the beginning of a file, up to where a trace's records would begin; ``path`` names it."""
    text, is_whole = b"", True
    try:
        for block in Unpacked(file, path, most_bytes=_LONGEST):
            text += block
            if _is_trace(text):
                return Peek()
            if not _may_be_json(text) or len(text) > LONGEST_TEXT:
                is_whole = False
                break
    except UnreadableInput:  # a compressed file that was cut at once
        return Peek()
    foreign = profile_of_others(text, path)
    if foreign is not None and (_may_be_json(text) or not is_named_like_a_trace(path)):
        return Peek(OTHER_PROGRAM, foreign)
    if is_whole and _is_json(text):
        return Peek(NO_EVENTS)
    return Peek() if is_named_like_a_trace(path) else Peek(NEITHER)


def _is_trace(text: bytes) -> bool:
    begin = text.lstrip()[:1]
    is_json = (begin == b"{" and b'"traceEvents"' in text) or (begin == b"[" and b'"ph"' in text)
    return is_json or text.startswith(SQLITE)


def _may_be_json(text: bytes) -> bool:
    return text.lstrip()[:1] in (b"{", b"[", b"")


def _is_json(text: bytes) -> bool:
    with contextlib.suppress(*FAULTS):
        _JSON.decode(text)
        return True
    return False
