"""A capture on disk: one folder (or one .zip of it) per profile run.

    manifest.json                     a Manifest: schema ``launchscope.capture/1``
    traces/<mode>-<repeat>-<pass>[-rank<n>].json.gz    as the collector wrote them

The manifest keeps the raw unprofiled samples of every process. Nothing in a capture is ever imported or run.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import msgspec

from .errors import LaunchscopeError, UnreadableInput
from .paths import MAX_UNPACKED_BYTES, exists, is_file, is_folder, most_unpacked

SCHEMA: Final = "launchscope.capture/1"
MODES: Final = ("eager", "graph", "fused", "fused_graph")
AS_WRITTEN: Final = "as_written"
"""The mode of a target measured as its author made it (already compiled or under graphs); null in a trace's report."""
GRAPH_OF: Final = {"eager": "graph", "fused": "fused_graph"}
"""The mode that replays as one CUDA graph what the other launches kernel by kernel."""
UNGRAPHED: Final = {graph: mode for mode, graph in GRAPH_OF.items()}
COMPILED: Final = ("fused", "fused_graph")
UNCOMPILED: Final = ("eager", "graph")
"""The modes that run the kernels of the eager step."""
RECORDED_PASSES: Final = ("cuda", "cpu_cuda")
"""The passes that a mode's processes are recorded in, in turn."""
WARM_CACHE_NOTE: Final = "the compile cache was warm"
"""A process's note that its ``compile_ns`` is no cold compilation."""
MANIFEST: Final = "manifest.json"
PARTIAL: Final = ".partial"
"""Ends the hidden name of a capture that is not whole yet."""
MAX_MEMBERS: Final = 10_000
MAX_MANIFEST_BYTES: Final = 256 << 20

_GZIP: Final = b"\x1f\x8b"
_TWICE: Final = 2  # what is compressed already shrinks by a few per cent
_TWICE_BYTES: Final = 1 << 20

_ERA: Final = 2**62
"""ns, 146 years: nothing takes longer, and no sum or difference of what is shorter leaves 64 bits."""

# What a manifest's figures may be: others come from a damaged file, and would turn into infinities further on.
Ns = Annotated[float, msgspec.Meta(ge=-_ERA, le=_ERA)]  # a fitted time may be below zero
StepNs = Annotated[float, msgspec.Meta(ge=1e-3, le=_ERA)]
ClockNs = Annotated[int, msgspec.Meta(ge=-_ERA, le=_ERA)]
Bytes = Annotated[int, msgspec.Meta(ge=-_ERA, le=_ERA)]  # so may a difference of two readings
Count = Annotated[int, msgspec.Meta(ge=0, le=_ERA)]
Rate = Annotated[float, msgspec.Meta(ge=1, le=1e30)]  # per second
Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Mode = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join((*MODES, AS_WRITTEN))})$")]
Pass = Annotated[str, msgspec.Meta(pattern="^(timing|cuda|cpu_cuda|stacks)$")]


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What `launchscope calibrate` measured on this machine; the definitions are in docs/metrics.md."""

    tau_floor_ns: Ns | None = None
    graph_launch_ns: Ns | None = None  # intercept of the host cost of one graph launch
    graph_launch_per_node_ns: Ns | None = None  # its slope
    replay_gap_ns: Ns | None = None  # GPU time from the end of one replay to the start of the next
    node_gap_ns: Ns | None = None  # ν, in a process that has used many streams, as one that serves has
    node_gap_few_streams_ns: Ns | None = None  # ν in a process that has used few
    bandwidth_bytes_per_s: Rate | None = None
    flops_per_s: dict[str, Rate] = {}  # by dtype: 'bf16', 'fp16', 'fp32'


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What was profiled."""

    name: str
    revision: str | None = None  # git commit of the folder the target lies in
    batch_size: Count | None = None
    dtype: str | None = None
    context_length: Count | None = None
    parameters: Count | None = None  # distinct parameters of the model
    settings: dict[str, str] = {}  # --set, secrets masked
    labels: tuple[str, ...] = ()  # 'already compiled', 'one process: no spread', … told beside the figures


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What one step reads and computes at the least, counted while it ran once under a dispatch mode."""

    bytes: Count | None = None
    flops: Count | None = None
    dtype: str | None = None  # of most FLOPs, the key into Calibration.flops_per_s


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """One NVML reading."""

    sm_clock_mhz: Count | None = None
    memory_clock_mhz: Count | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] = ()  # only those that slow the GPU down; idle is not one
    other_processes: Count | None = None


class OutputCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A mode's outputs against eager's in the same process, from the same state and inputs."""

    matches: bool
    max_abs_error: float | None = None  # over floating-point outputs
    max_relative_error: float | None = None  # ‖error‖ ÷ ‖reference‖ of the worst row
    tolerance: float  # allowed max_relative_error
    inputs_compared: Count  # different input sets
    inputs_change_output: bool  # eager's own outputs differ between the input sets
    note: str | None = None
    frozen_inputs: tuple[str, ...] = ()  # of a check that failed: changed by itself each changes eager's outputs alone


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be done, and where: read from the error in the process that met it."""

    phase: str  # 'capture', 'compile', 'timing', …
    reason: str  # in words, without the place
    line: str | None = None  # of the user's: 'model.py:42 in decode: x.item()'
    operator: str | None = None  # dispatched last before a capture failed: 'aten::_local_scalar_dense'


class GraphBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A place where torch.compile cut the step into pieces."""

    reason: str
    hint: str | None = None  # torch's own
    line: str | None = None  # of the user's
    count: Count = 1


class Recompile(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that failed, so that torch.compile compiled a function anew."""

    guard: str
    function: str  # 'decode at model.py:40'
    line: str | None = None  # that the guard is about
    count: Count = 1


class CompileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """torch.compile's own counters and records of a process, after its timing."""

    unique_graphs: Count | None = None
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    limit_reached: bool = False  # torch.compile gave a function up: it runs as written from then on
    cudagraph_skips: tuple[str, ...] = ()  # why torch.compile left out the CUDA graphs that it was asked for


class OwnGraphs(msgspec.Struct, frozen=True, kw_only=True):
    """CUDA graphs that the target captured by its own hand, while it was built and took its first steps."""

    captured: Count = 0
    failed: tuple[Failure, ...] = ()  # captures that failed and that the target went on without
    replayed: bool = False  # its step replays one
    table: str | None = None  # the variable that holds them by size: 'graphs'
    sizes: tuple[int, ...] = ()  # its keys
    unread_inputs: tuple[str, ...] = ()  # changed by itself, each leaves the outputs of a step that replays the same


class ReplacedBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that a graph reads, in whose place the step puts another one."""

    variable: str  # as the step names it: 'buffers.token'
    input: str | None = None  # the target's input that it was, where it was one
    line: str | None = None  # where it is replaced, where the source tells


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one fresh process measured: one (mode, repeat), of one rank where there are several."""

    repeat: Count
    rank: Count | None = None  # null in a capture of one process
    started: str  # ISO 8601, UTC
    samples_ns: tuple[StepNs, ...] = ()  # unprofiled step time, one per batch of back-to-back steps
    steps_per_sample: Count = 1
    warmup_ns: tuple[Ns, ...] = ()  # host time of each warm-up step, the first ones with compilation
    host_submit_ns: tuple[Ns, ...] = ()  # unprofiled, queue drained first; one per step
    trace_pass: Pass | None = None  # 'cuda', 'cpu_cuda', 'stacks'
    trace: str | None = None  # path inside the capture
    marks_ns: tuple[tuple[ClockNs, ClockNs], ...] = ()  # host-clock range of each step; the first is a sacrifice
    session_ns: tuple[Ns, ...] = ()  # step times inside the profiler session, by the host clock
    capture_ns: Ns | None = None
    compile_ns: Ns | None = None
    graph_memory_bytes: Bytes | None = None
    output: OutputCheck | None = None
    notes: tuple[str, ...] = ()  # 'graph breaks: 3', 'compile cache was warm', … told beside the figures
    before: GpuState | None = None
    after: GpuState | None = None
    error: str | None = None
    failure: Failure | None = None  # the same by its parts; null in captures that are older than it
    compiler: CompileRecord | None = None  # null where nothing was compiled
    own_graphs: OwnGraphs | None = None  # null where the target captured none
    replaced: tuple[ReplacedBuffer, ...] = ()


class RankRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One of the processes that ran each step together, as torchrun numbers them."""

    rank: Count
    local_rank: Count  # on its host, and the index of its GPU there
    host: str  # 'host 0', 'host 1', …; 'localhost' where all ran on one; older captures have their names
    device: str | None = None  # the name of its GPU


class ModeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report. ``error`` is set when no process of the mode finished its timing."""

    processes: tuple[ProcessRecord, ...] = ()
    error: str | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a capture knows beside its raw traces. ``modes`` keeps the order they were asked for."""

    schema: str = SCHEMA
    launchscope: str
    created: str  # ISO 8601, UTC
    command: tuple[str, ...] = ()
    target: Target
    environment: dict[str, str | int | float | bool | None] = {}
    calibration: Calibration | None = None
    floor: Floor | None = None
    modes: dict[Mode, ModeRecord] = {}
    ranks: tuple[RankRecord, ...] = ()  # those that ran together; empty for a capture of one process
    run: str | None = None  # shared by two captures that were measured in turn: their processes pair by repeat
    seconds: dict[str, Seconds] = {}  # where the run's time went: 'import torch', 'compile', 'timing', …

    def of_rank(self, rank: int) -> Manifest:
        """What it holds of one rank, as a capture of that process alone would."""
        return msgspec.structs.replace(
            self,
            modes={
                mode: msgspec.structs.replace(
                    record, processes=tuple(each for each in record.processes if each.rank == rank)
                )
                for mode, record in self.modes.items()
            },
        )


@dataclass(frozen=True)
class Capture:
    """An opened capture: its manifest, and its traces on demand."""

    path: Path
    manifest: Manifest

    def trace_bytes(self, relative: str) -> bytes:
        """One raw trace file, as the collector wrote it (gzipped or not)."""
        _check_member_name(self.path, relative)
        if is_folder(self.path):
            return _read(self.path, relative)
        with _open_zip(self.path) as (archive, prefix):
            return read_member(self.path, archive, prefix + relative)


def is_capture(path: Path) -> bool:
    """True for a folder and for a .zip that hold a manifest. A pipe, which can be read once, is none."""
    try:
        if is_folder(path):
            return is_file(path / MANIFEST)
        if not is_zip(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return bool(_manifests(archive))
    except (UnreadableInput, OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        return False  # what is wrong is told by who opens it


def is_being_written(path: Path) -> bool:
    """True for a folder that CaptureWriter is still collecting a capture in, or was when its run was killed."""
    return path.name.startswith(".") and path.suffix == PARTIAL and is_folder(path) and not is_capture(path)


def is_zip(path: Path) -> bool:
    """True for a .zip, by its content."""
    return is_file(path) and zipfile.is_zipfile(path)


def open_capture(path: Path) -> Capture:
    """Open a capture folder or .zip; UnreadableInput says what is wrong with one that can't be trusted."""
    if is_folder(path):
        if not is_capture(path):
            raise UnreadableInput(f"{path}: a folder without {MANIFEST}, so no capture; name a trace file in it")
        data = _read(path, MANIFEST)
    else:
        with _open_zip(path) as (archive, prefix):
            data = read_member(path, archive, prefix + MANIFEST, most=MAX_MANIFEST_BYTES)
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
        if schema != SCHEMA:
            raise UnreadableInput(f"{path}: its manifest is {schema!r}, this launchscope reads {SCHEMA!r}; update it")
        return Capture(path, msgspec.json.decode(data, type=Manifest))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableInput(f"{path}: its {MANIFEST} is damaged ({error}); profile again") from error


class CaptureWriter:
    """Collects a capture under a temporary name beside its destination and gives it its name when it is whole.

    ``destination`` ending in .zip makes one file instead of a folder. An existing destination is never overwritten.
    """

    def __init__(self, destination: Path) -> None:
        if exists(destination):
            raise UnreadableInput(f"{destination}: exists already; name another place with -o")
        self.destination = destination
        try:
            destination.parent.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix=f".{destination.stem}-", suffix=PARTIAL, dir=destination.parent))
            (self.folder / "traces").mkdir()
        except OSError as error:
            raise LaunchscopeError(f"{destination.parent}: can't write there ({error.strerror}); use -o") from error
        self.folder.chmod(0o755)

    def finish(self, manifest: Manifest) -> Path:
        """Write the manifest, name the capture, return where it is."""
        try:
            (self.folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
            if self.destination.suffix == ".zip":
                self._zip()
            else:
                self.folder.rename(self.destination)
        except OSError as error:
            raise LaunchscopeError(
                f"{self.destination}: can't be written ({error.strerror}); what was measured is in {self.folder}"
            ) from error
        return self.destination

    def _zip(self) -> None:
        partial = self.folder.with_suffix(".zip")
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                for file in sorted(self.folder.rglob("*")):
                    if is_file(file):
                        archive.write(file, file.relative_to(self.folder).as_posix())
            if exists(self.destination):  # since the run began; a rename would overwrite it
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.destination))
            partial.rename(self.destination)
        finally:
            partial.unlink(missing_ok=True)
        self.discard()

    def discard(self) -> None:
        """Remove what was collected."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Versioned(msgspec.Struct):
    schema: str = ""


def _read(folder: Path, relative: str) -> bytes:
    file = folder / relative
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise UnreadableInput(f"{file}: a link to a file outside of the capture, which no capture holds")
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UnreadableInput(f"{file}: no regular file, which all of a capture's are")
        return file.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{file}: can't be read ({error.strerror})") from error


@contextmanager
def safe_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, after the safety checks: none of its members leaves its folder, and all unpack to a bounded size."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise UnreadableInput(f"{path}: {len(members)} entries, more than the {MAX_MEMBERS} of any capture")
            for member in members:
                _check_member_name(path, member.filename)
                if stat.S_ISLNK(member.external_attr >> 16):
                    raise UnreadableInput(f"{path}: holds a link ({member.filename!r}), which no capture does")
            if len({member.filename for member in members}) < len(members):
                raise UnreadableInput(f"{path}: holds two files of one name, which no capture does")
            most = min(MAX_UNPACKED_BYTES, most_unpacked(path.stat().st_size))
            if sum(member.file_size for member in members) > most:
                raise UnreadableInput(f"{path}: unpacks to over {most >> 20:,} MiB; no capture of its size does")
            yield archive
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        raise UnreadableInput(f"{path}: can't be read as a .zip ({error})") from error


@contextmanager
def _open_zip(path: Path) -> Iterator[tuple[zipfile.ZipFile, str]]:
    """The archive and the folder inside it that holds the capture ('' or 'name/')."""
    with safe_zip(path) as archive:
        manifests = _manifests(archive)
        if len(manifests) != 1:
            raise UnreadableInput(f"{path}: {len(manifests)} {MANIFEST} inside; a capture has one")
        yield archive, manifests[0].removesuffix(MANIFEST)


def _manifests(archive: zipfile.ZipFile) -> list[str]:
    names = archive.namelist()
    return [name for name in names if name.split("/")[-1] == MANIFEST and name.count("/") < 2]


def read_member(path: Path, archive: zipfile.ZipFile, name: str, *, most: int = MAX_UNPACKED_BYTES) -> bytes:
    """One file of a safe archive; UnreadableInput when it is absent, damaged, encrypted or packed otherwise."""
    try:
        if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnreadableInput(f"{path}: {name} is not packed with deflate; unpack it and give the folder")
        with archive.open(name) as stream:
            data = stream.read(most + 1)
    except (KeyError, RuntimeError, NotImplementedError, zlib.error, EOFError) as error:
        raise UnreadableInput(f"{path}: {name} can't be read from it ({error})") from error
    if len(data) > most:
        raise UnreadableInput(f"{path}: {name} unpacks to over {most >> 20:,} MiB, which none of a capture does")
    if data.startswith(_GZIP) and len(data) > _TWICE * archive.getinfo(name).compress_size + _TWICE_BYTES:
        raise UnreadableInput(f"{path}: {name} is packed twice over, which nothing in a capture is; unpack it")
    return data


def _check_member_name(path: Path, name: str) -> None:
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or any(c in name for c in "\\:\0"):
        raise UnreadableInput(f"{path}: names a file outside of itself ({name!r}), which no capture does")
