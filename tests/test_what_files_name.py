"""Files that name other files: whatever address stands in them, nothing is opened but what the user named."""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import flask
import msgspec
import pytest
from launchscope.analysis.compare.check import check
from launchscope.analysis.compare.compared_paths import compare
from launchscope.analysis.compare.config import read_config
from launchscope.analysis.inputs import storage
from launchscope.analysis.inputs.sources import Source, sources
from launchscope.analysis.inputs.storage import PROTOCOLS
from launchscope.analysis.many import ranks
from launchscope.analysis.many.document import RankRow, RanksDocument
from launchscope.analysis.many.one_file import Job, finish, from_bytes, to_bytes
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.model.capture import Manifest, open_capture
from launchscope.analysis.model.errors import LaunchscopeError, UnreadableInput
from launchscope.analysis.report import analyze, load
from launchscope.dashboard.many import app
from launchscope.dashboard.many.rank_pages import RankPages, Read, kept_table, places_of, report_of
from launchscope.dashboard.page.server import Access
from werkzeug.test import Client, TestResponse

from .analysis.captures import two_modes, write_capture
from .analysis.compare.snapshots import eager
from .dashboard.many.rows_by_hand import write_traces

pytest.importorskip("fsspec")

import fsspec.spec  # type: ignore[import-untyped]
from fsspec.registry import known_implementations  # type: ignore[import-untyped]

KNOWN = sorted({*known_implementations, *PROTOCOLS, "nothing", "S3", ""})
PLAIN = [f"{protocol}://127.0.0.1:9/run/rank0.json" for protocol in KNOWN]
CHAINED = [
    address
    for protocol in KNOWN
    for address in (
        f"{protocol}://::data:application/json;base64,e30=",
        f"{protocol}::s3://bucket/run/rank0.json",
        f"{protocol}::file:///run/rank0.json",
        f"simplecache::{protocol}://bucket/run/rank0.json",
        f"s3://bucket/run/rank0.zip::{protocol}://127.0.0.1:9/run",
    )
]
ADDRESSES = [*PLAIN, *CHAINED]


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Protocols that are looked up in fsspec, what is made of it, and what is connected to: it ends there."""
    found: list[str] = []

    def look_up(protocol: str) -> None:
        found.append(protocol)
        raise ValueError(protocol)

    def make(cls: Any, *_given: object, **_named: object) -> None:
        found.append(f"made: {cls.protocol}")
        raise OSError("not in this test")

    def connect(_: socket.socket, address: object) -> None:
        found.append(f"connected: {address}")
        raise OSError("not in this test")

    for module in ("fsspec", "fsspec.core", "fsspec.registry"):
        monkeypatch.setattr(sys.modules[module], "get_filesystem_class", look_up)
    monkeypatch.setattr(fsspec.spec._Cached, "__call__", make)
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    return found


def row(path: str) -> RankRow:
    return RankRow(path=path, name="rank0.json", rank=0)


def write_table(file: Path, paths: Sequence[str], inputs: Sequence[str]) -> Path:
    """A table whose rows lie at these paths, as somebody else may have written it."""
    doc = write_traces(file.parent)
    doc = msgspec.structs.replace(doc, rows=[row(path) for path in paths], inputs=list(inputs), odd=[])
    file.write_bytes(msgspec.json.encode(doc))
    return file


def opened(table: Path, *beside: Path | str) -> tuple[RanksDocument, Read]:
    """As `launchscope dashboard ranks.json PATH…` opens it."""
    paths = (table, *beside)
    doc = kept_table(paths)
    assert doc is not None
    return doc, partial(report_of, places=places_of(paths, doc), cache=False)


def refusals(doc: RanksDocument, read: Read) -> list[str]:
    """Why each row is not read."""
    found = []
    for each in doc.rows:
        with pytest.raises(LaunchscopeError) as told:
            read([each])
        found.append(str(told.value))
    return found


def test_the_recorder_sees_what_is_touched(touched: list[str]) -> None:
    for path in ("s3://bucket/run/rank0.json", "https://127.0.0.1:9/rank0.json"):
        with pytest.raises(LaunchscopeError):
            report_of([row(path)])
    assert touched == ["s3", "https"]
    with pytest.raises(OSError, match="not in this test"):
        fsspec.spec.AbstractFileSystem()
    with socket.socket() as unconnected, pytest.raises(OSError, match="not in this test"):
        unconnected.connect(("127.0.0.1", 9))
    assert len(touched) == 4


def test_a_table_leads_nowhere_by_itself(touched: list[str], tmp_path: Path) -> None:
    """Whoever writes the rows writes the inputs, too."""
    table = write_table(tmp_path / "ranks.json", ADDRESSES, [*ADDRESSES, "/", *(f"{each}://" for each in KNOWN)])
    told = refusals(*opened(table))
    assert touched == []
    assert all(why.count("\n") == 0 for why in told)


def test_what_is_named_beside_it_opens_that_and_no_more(touched: list[str], tmp_path: Path) -> None:
    table = write_table(tmp_path / "ranks.json", ADDRESSES, ADDRESSES)
    refusals(*opened(table, "s3://127.0.0.1:9/run/"))
    assert touched == ["s3"]
    touched.clear()
    refusals(*opened(table, *(address for address in PLAIN if address.partition("://")[0] in PROTOCOLS)))
    assert sorted(touched) == sorted(PROTOCOLS)


@pytest.mark.parametrize("address", ["S3://bucket/run", "ftp://host/run", "simplecache::s3://bucket/run", *CHAINED[:5]])
def test_nor_may_the_command_line_name_what_is_not_read(address: str, touched: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"is not read|leads through"):
        opened(write_table(tmp_path / "ranks.json", [address], [address]), address)
    assert touched == []


def test_the_command_line_reaches_the_allowed_protocols_alone(touched: list[str]) -> None:
    for address in ADDRESSES:
        if not address.startswith("file:"):
            with pytest.raises(LaunchscopeError):
                sources([address])
    assert sorted(touched) == sorted(PROTOCOLS)


def test_so_does_a_worker_that_is_given_a_row_to_make(touched: list[str]) -> None:
    for address in ADDRESSES:
        assert finish(Job(Source(address, "rank0.json", kind="stored"))).row.error is not None
    assert sorted(touched) == sorted(PROTOCOLS)


def test_a_row_that_was_kept_is_of_the_file_that_was_asked_for(touched: list[str], tmp_path: Path) -> None:
    folder, resume = tmp_path / "run", tmp_path / "rows"
    folder.mkdir()
    write_traces(folder)
    analyze_ranks(sources([folder]), workers=1, resume=resume)
    for number, file in enumerate(sorted(resume.iterdir())):
        kept = from_bytes(file.read_bytes(), ranks._Kept)
        forged = msgspec.structs.replace(kept.finished.row, path=ADDRESSES[number], verdict_reason="forged")
        finished = msgspec.structs.replace(kept.finished, row=forged)
        file.write_bytes(to_bytes(msgspec.structs.replace(kept, finished=finished)))
    again = analyze_ranks(sources([folder]), workers=1, resume=resume)
    assert again.resumed == 0
    assert [each.path for each in again.rows] == [str(folder / f"rank{rank}.json") for rank in range(4)]
    assert "forged" not in {each.verdict_reason for each in again.rows}
    assert touched == []


def test_a_pipe_among_kept_rows_is_none(tmp_path: Path) -> None:
    write_traces(tmp_path)
    job = Job(sources([tmp_path / "rank0.json"]).each[0])
    kept = ranks.KeptRows(tmp_path / "rows")
    os.mkfifo(kept._place(ranks._key(job)))
    assert kept.find(job) is None


def naming(manifest: Manifest, addresses: Sequence[str]) -> Manifest:
    """The manifest, each of its processes with another address for a trace."""
    left = iter(addresses)
    return msgspec.structs.replace(
        manifest,
        modes={
            mode: msgspec.structs.replace(
                record, processes=tuple(msgspec.structs.replace(each, trace=next(left)) for each in record.processes)
            )
            for mode, record in manifest.modes.items()
        },
    )


def test_a_manifest_names_traces_of_its_capture_alone(touched: list[str], tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "kept", two_modes())
    whole = open_capture(folder)
    (folder / "manifest.json").write_bytes(msgspec.json.encode(naming(whole.manifest, CHAINED)))
    zipped = tmp_path / "kept.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    for path in (folder, zipped):
        for address in ADDRESSES:
            with pytest.raises(UnreadableInput):
                open_capture(path).trace_bytes(address)
        assert load(path).document.traces == []
        with pytest.raises(LaunchscopeError):
            compare(path, path)
    assert touched == []


def test_a_manifest_that_is_a_link_out_of_its_folder_is_not_followed(tmp_path: Path) -> None:
    kept = write_capture(tmp_path / "mine", two_modes())
    given = tmp_path / "given"
    given.mkdir()
    (given / "manifest.json").symlink_to(kept / "manifest.json")
    with pytest.raises(UnreadableInput, match="a link to a file outside of the capture"):
        open_capture(given)


def with_addresses(value: Any, address: str) -> Any:
    """JSON, everything in it that names a file made to name this address."""
    if isinstance(value, dict):
        return {
            key: address if key in ("path", "source", "trace", "name") and isinstance(each, str)
            else with_addresses(each, address)
            for key, each in value.items()
        }  # fmt: skip
    return [with_addresses(each, address) for each in value] if isinstance(value, list) else value


def test_reports_and_baselines_name_files_that_nobody_opens(touched: list[str], tmp_path: Path) -> None:
    write_traces(tmp_path)
    document = json.loads(msgspec.json.encode(analyze(tmp_path / "rank0.json").document))
    report, baseline = tmp_path / "report.json", tmp_path / "baseline.json"
    for address in PLAIN:
        report.write_text(json.dumps(with_addresses(document, address)))
        baseline.write_bytes(msgspec.json.encode(eager(source=address, target=address)))
        assert check(report, report, limits={"launches": "<= 5"}).outcome == "holds"
        assert check(baseline, baseline, limits={"launches": "<= 500"}).outcome == "holds"
    assert touched == []


@pytest.mark.parametrize("key", ["baseline", "baselines", "current", "extends", "include"])
def test_a_configuration_names_no_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "launchscope.toml").write_text(f'{key} = "{CHAINED[0]}"\n')
    with pytest.raises(LaunchscopeError, match=f"unknown key '{key}'"):
        read_config(tmp_path / "launchscope.toml")


class Site:
    """The page of a table, as it is served."""

    def __init__(self, table: Path, *beside: Path | str) -> None:
        doc, reading = opened(table, *beside)
        access = Access("127.0.0.1", 8050, None)
        pages = RankPages(doc, reading, lambda report, _: self._page(str(report.document.traces[0].name)))
        self._client = Client(pages.mounted_on(app.build_app(doc, access, pages).server))

    @staticmethod
    def _page(name: str) -> flask.Flask:
        page = flask.Flask("rank")
        page.get("/")(lambda: f"page of {name}")
        return page

    def open(self, number: int) -> TestResponse:
        for _ in range(200):
            answer = self._client.get(f"/rows/{number}/", base_url="http://127.0.0.1:8050")
            if answer.status_code != 202:
                return answer
            time.sleep(0.05)
        raise AssertionError("it is never there")


def renders(command: str) -> str:
    """An address that fsspec before 2026.6 renders as a template, and with that runs a command."""
    template = "{{ cycler.__init__.__globals__.os.system(" + repr(command) + ") }}"
    references = {"version": 1, "gen": [{"key": template, "url": "x", "dimensions": {"i": [0]}}]}
    return "reference://::data:application/json;base64," + base64.b64encode(json.dumps(references).encode()).decode()


def test_no_command_runs_when_a_row_is_opened(touched: list[str], tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    address = renders(f"touch {ran}")
    site = Site(write_table(tmp_path / "ranks.json", [address], [address, "reference://"]))
    answer = site.open(0)
    assert answer.status_code == 422
    assert "leads through several storages" in answer.text
    assert not ran.exists()
    assert touched == []


def test_nor_where_fsspec_is_left_alone(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for path in (renders(f"touch {ran}"), f"x::{renders(f'touch {ran}')}"):
        with pytest.raises(UnreadableInput):
            report_of([row(path)])
        assert finish(Job(Source(path, "rank0.json", kind="stored"))).row.error is not None
    assert not ran.exists()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A folder of traces, a table beside it, and a trace outside of both that is nobody's business."""
    (tmp_path / "mine" / "run").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    write_traces(tmp_path / "mine" / "run")
    write_traces(tmp_path / "secret")
    return tmp_path / "mine" / "ranks.json"


def test_rows_below_the_folder_of_the_table_are_read(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = table.parent / "run" / "rank1.json"
    write_table(table, [str(inside), f"file://{inside}", "run/rank1.json"], [str(table.parent / "run")])
    monkeypatch.chdir(table.parent)
    site = Site(Path("ranks.json"))
    assert [site.open(number).text for number in range(3)] == ["page of rank1.json"] * 3


def test_others_are_where_the_command_line_names_them(table: Path) -> None:
    outside = table.parents[1] / "secret"
    paths = [str(outside / "rank0.json"), str(table.parent / "run/../../secret/rank0.json")]
    write_table(table, paths, ["/"])
    for why in refusals(*opened(table)):
        assert "only the table names it" in why
    for beside in (outside, outside / "rank0.json", f"file://{outside}", str(outside / "*.json")):
        named = Path(beside) if isinstance(beside, str) and "://" not in beside else beside
        doc, reading = opened(table, named)
        assert [reading([each]).document.traces[0].name for each in doc.rows] == ["rank0.json"] * 2


def test_none_is_read_outside_of_what_the_table_was_made_of(table: Path) -> None:
    write_table(table, [str(table.parent / "rank0.json")], [str(table.parent / "run")])
    assert "outside of what the table was made of" in refusals(*opened(table))[0]


def test_links_lead_nowhere_else(table: Path) -> None:
    folder = table.parent / "run"
    (folder / "rank8.json").symlink_to(table.parents[1] / "secret" / "rank0.json")
    (folder / "up").symlink_to("/")
    paths = [str(folder / "rank8.json"), f"{folder}/up{table.parents[1]}/secret/rank0.json"]
    write_table(table, paths, [str(folder)])
    assert all("outside of what the table was made of" in why for why in refusals(*opened(table)))


def test_what_is_no_file_has_no_end_and_is_not_read(table: Path) -> None:
    os.mkfifo(table.parent / "pipe.json")
    (table.parent / "zero.json").symlink_to("/dev/zero")
    names = [
        table.parent / "pipe.json",
        table.parent / "zero.json",
        "/dev/zero",
        "/proc/self/environ",
        "/proc/self/mem",
    ]
    write_table(table, [*map(str, names), "a\0b", "x" * 5_000], ["/"])
    begun = time.monotonic()
    assert len(refusals(*opened(table))) == 7
    assert time.monotonic() - begun < 10
    doc, reading = opened(table, Path("/dev"))
    with pytest.raises(UnreadableInput, match="gone since it was read"):
        reading([doc.rows[2]])


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/run/../private/rank0.json",
        "s3://bucket/run/%2e%2E/private/rank0.json",
        "s3://bucket/run/..%2fprivate/rank0.json",
        "s3://bucket/run/%252e%252e/private/rank0.json",
        "s3://bucket/run/%25252e./private/rank0.json",
        "s3://bucket/run/..%252fprivate/rank0.json",
        "s3://bucket/run/" + "%" + "25" * 1000 + "2e%2e/private/rank0.json",
        "s3://bucket/run/..;/private/rank0.json",
        "s3://bucket/run/%2e%2e%3bv=1/private/rank0.json",
        "s3://bucket/run/.%2509./private/rank0.json",
        "s3://bucket/run/..\\private/rank0.json",
        "s3://bucket/run/.\t./private/rank0.json",
        "s3://bucket/run/..?rank0.json",
        "s3://bucket/running/rank0.json",
        "s3://bucket/rank0.json",
        "s3://other/run/rank0.json",
        "https://bucket/run/rank0.json",
    ],
)
def test_a_url_beside_the_one_that_is_named_is_not_read(path: str, touched: list[str], table: Path) -> None:
    write_table(table, [path], ["s3://bucket", "https://bucket", "s3://other"])
    refusals(*opened(table, "s3://bucket/run"))
    assert touched == []


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("s3://bucket/run/", "s3://bucket/run/4/rank0.json"),
        ("s3://bucket/run/*.json.gz", "s3://bucket/run/rank0.json.gz"),
        ("s3://bucket", "s3://bucket/run/rank0.json"),
        ("s3://bucket", "s3://bucket/run;v=1/step%201/50%/a..b/rank0.json"),
        ("az://traces/run", "abfs://traces/run/rank0.json"),
        ("https://me:hunter2@host/run", "https://…@host/run/rank0.json"),
        ("hf://datasets/us/runs@main", "hf://datasets/us/runs@main/rank0.json"),
    ],
)
def test_what_lies_below_it_is(named: str, path: str, touched: list[str], table: Path) -> None:
    write_table(table, [path], [named.replace("me:hunter2", "…")])
    refusals(*opened(table))
    assert touched == []
    refusals(*opened(table, named))
    assert touched == [path.partition("://")[0]]


@pytest.fixture
def redirecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """A server in plain HTTP, taken for HTTPS, that leads from /run/ROW?to=URL, in hex, to the URL; and what it was
    asked for.
    """
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(storage, "_HTTPS", "http")
    monkeypatch.setitem(PROTOCOLS, "http", "aiohttp")
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, target = self.path.partition("?to=")
            asked.append(path)
            self.send_response(302 if target else 200)
            if target:
                self.send_header("Location", bytes.fromhex(target).decode())
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("target", "is_followed"),
    [
        ("{}/run/rank1.json", True),
        ("rank1.json", True),
        ("/elsewhere/rank1.json", False),
        ("{}/run/%2e%2e/elsewhere", False),
        ("{}/run/%252e%252e/elsewhere", False),
        ("{}/run/..;/elsewhere", False),
        ("http://localhost:9/run/rank1.json", False),
        ("https://127.0.0.1:9/run/rank1.json", False),  # not what is taken for HTTPS here
    ],
)
def test_no_server_leads_away_from_what_is_named(
    target: str, is_followed: bool, redirecting: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, asked = redirecting
    path = f"{address}/run/rank0.json?to={target.format(address).encode().hex()}"
    table = write_table(tmp_path / "ranks.json", [path], [f"{address}/run/"])
    (told,) = refusals(*opened(table, f"{address}/run/"))
    assert asked == ["/run/rank0.json", *(["/run/rank1.json"] if is_followed else [])]
    assert ("0 bytes" if is_followed else "its server leads to") in told


def test_what_is_typed_leads_to_other_hosts_yet_to_no_other_protocol(redirecting: tuple[str, list[str]]) -> None:
    address, asked = redirecting
    path = f"{address}/run/rank0.json?to="
    with storage.fetched(path + f"{address}/elsewhere".encode().hex()) as copy:
        assert copy.read_bytes() == b""
    with (
        pytest.raises(UnreadableInput, match="its server leads to ftp://"),
        storage.fetched(path + b"ftp://127.0.0.1".hex()),
    ):
        pass
    assert asked == ["/run/rank0.json", "/elsewhere", "/run/rank0.json"]
