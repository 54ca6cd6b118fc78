"""Whole files of every format, small: what mutants are made of."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import launchscope
import msgspec
from launchscope.analysis.compare.snapshot import snapshots_of
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import read_trace
from launchscope.analysis.inputs.sources import Sources
from launchscope.analysis.many.document import RankRow
from launchscope.analysis.many.one_file import find_figures, to_bytes
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.model.document import ReportDocument
from launchscope.fixtures.builder import trace

from ..analysis.captures import eager_trace, graph_trace, two_modes
from ..cases import NAMED_CASES
from ..nsys_builder import ExportBuilder, export

TRACES: Final = Path(launchscope.__file__).parent / "fixtures" / "traces"
READERS: Final = ("kineto", "kineto-gzip", "perfetto", "proton", "nsys", "trace-zip", "capture-zip", "results")
KERNELS: Final = 15  # of a recorded trace


@dataclass(frozen=True)
class Seed:
    """One whole file."""

    name: str
    data: bytes


@cache
def seeds(reader: str) -> tuple[Seed, ...]:
    """The files of one of ``READERS``."""
    match reader:
        case "kineto":
            return (
                *_named(),
                *_recorded(),
                Seed("two ranks", _two_ranks()),
                Seed("head", _with_head()),
                Seed("engine", _engine()),
            )
        case "kineto-gzip":
            return tuple(Seed(each.name, gzip.compress(each.data, mtime=0)) for each in seeds("kineto"))
        case "perfetto":
            return tuple(Seed(each.name, converted(each.data)) for each in _named() if each.name != "truncated file")
        case "proton":
            return (Seed("new", proton(new=True)), Seed("old", proton(new=False)))
        case "nsys":
            return tuple(_exports())
        case "trace-zip":
            return tuple(_zips())
        case "results":
            return tuple(_results())
        case _:
            return (Seed("two modes", capture({})), Seed("as files", capture({"eager-0": b"", "graph-1": b"[]"})))


def _named() -> list[Seed]:
    layouts: list[dict[str, Any]] = [{"separators": (",", ":")}, {"indent": 1}, {}]
    made = []
    for number, (name, case) in enumerate(NAMED_CASES.items()):
        text = case().json()
        if name != "truncated file" and number % 2:
            text = json.dumps(json.loads(text), **layouts[number // 2 % 3]).encode()
        made.append(Seed(name, text))
    return made


def _recorded() -> list[Seed]:
    """Parts of recorded traces: some kernels, the calls that launched them, and what the host did meanwhile."""
    made = []
    for path in sorted(TRACES.glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        records = document["traceEvents"]
        calls = {_correlation(each): each for each in records if each.get("cat", "").lower().endswith("runtime")}
        ran = [each for each in records if each.get("cat", "").lower() == "kernel" and _correlation(each) in calls]
        ran = ran[:KERNELS]
        called = [calls[_correlation(each)] for each in ran]
        since, until = (float(edge(called, key=lambda each: float(each["ts"]))["ts"]) for edge in (min, max))
        others = [each for each in records if each.get("ph") == "X" and since <= float(each["ts"]) <= until]
        part = [each for each in (*records[:5], *others[: 2 * KERNELS]) if each not in ran + called]
        head = {key: value for key, value in document.items() if key != "traceEvents"}
        text = json.dumps({**head, "traceEvents": part + called + ran}, indent=2)
        made.append(Seed(path.name, text.encode()))
    return made


def _correlation(record: dict[str, Any]) -> Any:
    args = record.get("args") or {}
    return args.get("correlation", args.get("External id"))


def _two_ranks() -> bytes:
    """Two processes whose correlation ids collide, an operator around each launch."""
    builder = trace(device_names={0: "A", 1: "B"}, base_ns=1_700_000_000_000_000_000)
    for rank in (0, 1):
        for index in range(4):
            at, process = 50 * index + 25 * rank, 100 + rank
            builder.op("aten::mm", at - 1, 9, process=process).launch(at, 5, process=process, correlation=index)
            builder.kernel(at + 9, 4, device=rank, correlation=index, launch=False)
    return builder.json()


def _engine() -> bytes:
    """Steps of a serving engine: what goes in, the model, sampling, what comes out, the wait for it."""
    builder = trace()
    for step in range(3):
        at = 200 * step
        builder.step(step, at, 60).annotation("execute_context_0(0)_generation_4(4)", at + 1, 55)
        builder.op("aten::copy_", at + 5, 10).launch(at + 8, 4, "cudaMemcpyAsync").memcpy(at + 14, 1)
        builder.graph_launch(at + 20, 10).kernel(at + 25, 10, name="gemm").kernel(at + 36, 20, name="gemm")
        builder.op("aten::argmax", at + 62, 8).launch(at + 64, 3).kernel(at + 68, 4, name="argmax")
        builder.op("aten::copy_", at + 72, 6).launch(at + 73, 3, "cudaMemcpyAsync").memcpy(at + 80, 1)
        builder.sync(at + 79, 5)
    return builder.json()


def _with_head() -> bytes:
    """A file of which the profiler says that records are lost, with a rank, text for ids, and arrows."""
    builder = trace(base_ns=1_759_836_030_000_000_000)
    builder.header(distributedInfo={"rank": 3, "backend": "nccl"}, WARNING=["Dropped 12 activity records"], INFO=["x"])
    builder.step(0, 0, 50).launch(1, 2).kernel(5, 3).launch(9, 2).kernel(15, 3).step(1, 60, 50).launch(61, 2).kernel(
        70, 3
    )
    builder.raw({"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"})
    return builder.raw(
        {"ph": "X", "cat": "Kernel", "name": "k", "pid": "0", "tid": "stream 7", "ts": "80", "dur": 2.5}
    ).json()


def converted(text: bytes) -> bytes:
    """What Perfetto's traceconv makes of a Kineto file with whole µs."""
    lines = []
    for event in json.loads(text)["traceEvents"]:
        if event["ph"] == "X":
            args = {"args": event["args"]} if event.get("args") else {}
            lines.append(json.dumps({**event, "args": args}, sort_keys=True, separators=(",", ":")))
    return ('{"traceEvents":[\n' + ",\n".join(lines) + '],\n  "controllerTraceDataKey": "x"\n}').encode()


def proton(*, new: bool) -> bytes:
    """A chrome trace of Proton: one document, times in µs; or one for each stream, times in ns."""
    lane = 200_000 if new else 0
    lanes: dict[int, list[dict[str, Any]]] = {7: [], 13: []}
    for step in range(4):
        for stream, name, delay, dur in ((7, "gemm", 10, 20), (13, "norm", 40, 10)):
            times: dict[str, float] = {"ts": 100 * step + delay + 0.001, "dur": dur + 0.25}
            times = times if new else {key: round(1000 * us) for key, us in times.items()}
            lanes[stream].append({"name": name, "cat": "kernel", "ph": "X", "pid": 0, "tid": lane + stream, **times})
            lanes[stream][-1]["args"] = {"call_stack": ["ROOT", "decode", name]}
        if new:
            about = {"name": "decode", "cat": "scope", "ph": "X", "pid": 0, "tid": 0, "ts": 100.5 * step, "dur": 90.5}
            lanes[7] += [about, {"name": "launch", "cat": "flow", "ph": "s", "pid": 0, "tid": 0, "ts": 1.5, "id": step}]
    documents = [lanes[7] + lanes[13]] if new else list(lanes.values())
    compact: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    return b"\n".join(
        json.dumps({"displayTimeUnit": "us", "traceEvents": each}, **compact).encode() for each in documents
    )


def _exports() -> list[Seed]:
    return [Seed(f"steps of {year}", _steps(year).bytes()) for year in (2020, 2022, 2025)] + [
        Seed("processes", _processes().bytes()),
        Seed("graphs", _graphs().bytes()),
    ]


def _steps(year: int) -> ExportBuilder:
    builder = export(year)
    for step in range(3):
        at = 100 * step
        builder.range(f"step {step}", at, 90, by_id=step == 1)
        builder.launch(at + 5, 5).kernel(at + 20, 4, name="gemm").launch(at + 25, 5).kernel(at + 40, 4, name="norm")
        builder.launch(at + 45, 5, "cudaMemcpyAsync_v3020").memcpy(at + 60, 4, kind=2, ends=(2, 1))
        builder.launch(at + 55, 10, "cudaStreamSynchronize_v3020")
    return builder


def _processes() -> ExportBuilder:
    builder = export(device_names={2: "A", 5: "B"}).range("NCCL", 0, None, kind=75, domain=3)
    builder.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000, utcTime="x")
    builder.row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
    for process, gpu in ((100, 2), (101, 5)):
        builder.row("TARGET_INFO_CUDA_DEVICE", pid=process, cudaId=0, gpuId=gpu)
        for index in range(1, 4):
            at = 40 * index + process
            builder.range("all reduce", at - 1, 30, domain=3, process=process)
            builder.launch(at, 5, process=process, correlation=index).kernel(
                at + 10, 4, globalPid=None if index > 2 else process << 24
            )
            builder.launch(at + 12, 2, "cudaMemsetAsync_v3020", process=process).memset(at + 20, 2)
    return builder


def _graphs() -> ExportBuilder:
    builder = export(2025)
    for replay in range(3):
        builder.graph_launch(100 * replay, 8)
        for node in (1, 2):
            builder.kernel(100 * replay + 10 * node, 4, name=f"node_{node}", graphNodeId=6 << 32 | node, graphId=6)
    return builder.graph_launch(400, 5).graph_trace(410, 80)


def _zips() -> list[Seed]:
    files = {each.name: each.data for each in (*_named()[:3], *seeds("proton")[:1], *seeds("nsys")[:1])}
    named = {f"rank{rank}.json": data for rank, data in enumerate(files.values())}
    return [
        Seed("stored", packed(named, zipfile.ZIP_STORED)),
        Seed("deflated", packed({f"a/{name}.gz": gzip.compress(data, mtime=0) for name, data in named.items()})),
        Seed(
            "others", packed({"notes.txt": b"hello", "a.json": files["eager steps"], "b.json": b"", "c/d.json": b"[]"})
        ),
    ]


def _results() -> list[Seed]:
    """A table of ranks, a finished row, a report, a baseline, and a capture's manifest; the same every time."""
    opened = read_trace(NAMED_CASES["eager steps"]().json(), "rank0.json")
    names = ("rank0.json", "run/rank1.json", "s3://bucket/rank2.json")
    bare = [RankRow(path=name, name=name, rank=rank) for rank, name in enumerate(names)]
    found = [find_figures(row, opened) for row in bare]
    rows = [each.row for each in found]
    table = msgspec.structs.replace(analyze_ranks(Sources((), (".",))), seconds=1.0, rows=rows)
    analysis = analyze_trace(opened, name="rank0.json")
    report = ReportDocument(launchscope="0", target=None, environment=None, traces=[analysis.document], profile=None)
    return [
        Seed("ranks.json", msgspec.json.encode(table)),
        Seed("kept.row", to_bytes(found[0])),
        Seed("report.json", msgspec.json.encode(report)),
        Seed("baseline.json", msgspec.json.encode(snapshots_of(report, "run")[0])),
        Seed("manifest.json", msgspec.json.encode(two_modes())),
    ]


def packed(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A .zip, the same for the same files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def capture(changed: dict[str, bytes], manifest: bytes | None = None) -> bytes:
    """A capture as a .zip, some of its traces changed, by the beginning of their names."""
    described = two_modes()
    files = {"manifest.json": msgspec.json.encode(described) if manifest is None else manifest}
    for mode, record in described.modes.items():
        text = (graph_trace if mode == "graph" else eager_trace)().json()
        for process in record.processes:
            assert process.trace is not None
            name = process.trace.removeprefix("traces/")
            data = next(
                (data for begin, data in changed.items() if name.startswith(begin)), gzip.compress(text, mtime=0)
            )
            files[process.trace] = data
    return packed(files)
