"""Object storage by fsspec: what a URL names, what is fetched, and errors in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchscope.analysis.inputs.sources import Source, sources
from launchscope.analysis.inputs.storage import fetched, is_url, listed
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.model.errors import LaunchscopeError, MissingRequirement, UnreadableInput
from launchscope.analysis.report import analyze
from launchscope.fixtures.builder import trace

from ...s3 import QUIET, served_bucket
from ..many.rank_files import rank_trace

s3fs = pytest.importorskip("s3fs")

pytestmark = QUIET


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with served_bucket() as (url, _):
        yield url


@pytest.fixture
def bucket(served: str) -> Iterator[str]:
    """Six ranks, and what else lies beside them."""
    system = s3fs.S3FileSystem()
    for rank in range(6):
        system.pipe(f"{served}/run/rank{rank}.json", rank_trace(rank, world=6, waiting=10 * rank).json())
    system.pipe(f"{served}/run/notes.txt", b"rank 2 was slow")
    system.pipe(f"{served}/run/.hidden/rank7.json", rank_trace(7).json())
    yield f"{served}/run"
    system.rm(f"{served}/run", recursive=True)


def test_a_folder_a_pattern_and_a_file(bucket: str) -> None:
    assert [each.url for each in listed(bucket).files] == [f"{bucket}/rank{rank}.json" for rank in range(6)]
    assert [each.url for each in listed(f"{bucket}/*[35].json").files] == [
        f"{bucket}/rank3.json",
        f"{bucket}/rank5.json",
    ]
    assert [each.url for each in listed(f"{bucket}/notes.txt").files] == [f"{bucket}/notes.txt"]
    assert [listed(f"{bucket}{rest}").is_one for rest in ("", "/*.json", "/rank1.json")] == [False, False, True]


def test_size_and_version_tell_whether_a_file_changed(bucket: str) -> None:
    before = listed(f"{bucket}/rank1.json").files[0]
    s3fs.S3FileSystem().pipe(f"{bucket}/rank1.json", rank_trace(1, kernels=9).json())
    after = listed(f"{bucket}/rank1.json").files[0]
    assert before.version != after.version
    assert before.bytes != after.bytes


def test_the_table_of_a_bucket(bucket: str) -> None:
    document = analyze_ranks(sources([bucket]))
    assert [row.rank for row in document.rows] == [0, 1, 2, 3, 4, 5]
    assert [row.error for row in document.rows] == [None] * 6
    assert [row.communication_waiting_ns for row in document.rows] == [10_000 * rank for rank in range(6)]
    assert all(row.fetch_seconds is not None and row.fetch_seconds <= (row.seconds or 0) for row in document.rows)
    assert document.rows[2].path == f"{bucket}/rank2.json"
    assert document.missing_ranks == []


def test_the_reports_of_a_bucket(bucket: str) -> None:
    """Each is fetched, and told of where it lies; a rank that the folder tells counts where nothing else does."""
    s3fs.S3FileSystem().pipe(f"{bucket}/rank7/trace.json", trace().step(0).launch(0, 5).kernel(10, 20).json())
    report = analyze(f"{bucket}/rank1.json", f"{bucket}/rank7/*.json")
    assert [(each.name, each.source.path, each.rank) for each in report.document.traces] == [
        ("rank1.json", f"{bucket}/rank1.json", 1),
        ("trace.json", f"{bucket}/rank7/trace.json", 7),
    ]


def test_a_bad_file_names_the_url_and_no_temporary_file(bucket: str) -> None:
    s3fs.S3FileSystem().pipe(f"{bucket}/rank3.json", b"{}")
    row = analyze_ranks(sources([bucket])).rows[3]
    assert row.error_kind == "unreadable"
    assert row.error is not None
    assert "/tmp" not in row.error


def test_files_of_one_name_are_told_apart(bucket: str) -> None:
    s3fs.S3FileSystem().pipe(f"{bucket}/again/rank0.json", rank_trace(0).json())
    names = [each.name for each in sources([bucket]).each]
    assert {"rank0.json", "again/rank0.json"} < set(names)


def test_what_is_fetched_is_gone_afterwards(bucket: str) -> None:
    with fetched(f"{bucket}/rank1.json") as path:
        assert path.name == "rank1.json"
        assert path.read_bytes() == rank_trace(1, world=6, waiting=10).json()
    assert not path.parent.exists()


@pytest.mark.parametrize("below", ["", "/*.json"])
def test_a_url_that_names_nothing(served: str, below: str) -> None:
    with pytest.raises(UnreadableInput, match="no such file or folder"):
        listed(f"{served}/nowhere{below}")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nothing://bucket", "nothing:// is not read; local paths, file://, s3://, gs://, "),
        ("memory://run", "memory:// is not read"),
        ("http://host/rank0.json", "http:// is not read"),
        ("ftp://me:hunter2@host/rank0.json", "^ftp://…@host/rank0.json: ftp:// is not read"),
        ("simplecache::s3://bucket/run", "leads through several storages"),
        ("s3://bucket/a.zip::https://host/b", "leads through several storages"),
    ],
)
def test_a_url_that_is_not_read(url: str, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        listed(url)
    with pytest.raises(UnreadableInput, match=words), fetched(url):
        pass


def test_a_folder_without_a_trace(served: str) -> None:
    notes = f"{served}/notes"
    s3fs.S3FileSystem().pipe(f"{notes}/a.txt", b"-")
    with pytest.raises(UnreadableInput, match=r"1 files, none called \.json"):
        listed(notes)


@pytest.mark.parametrize(
    ("protocol", "package"),
    [("gs", "gcsfs"), ("abfs", "adlfs"), ("abfss", "adlfs"), ("https", "aiohttp"), ("hf", "huggingface_hub")],
)
def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch, protocol: str, package: str) -> None:
    for module in ("gcsfs", "adlfs", "aiohttp", "huggingface_hub", "fsspec.implementations.http"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, protocol, raising=False)  # loaded by another test
    with pytest.raises(MissingRequirement, match=f"^{protocol}:// needs the package {package}: pip install {package}$"):
        listed(f"{protocol}://bucket/run")


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingRequirement, match=r"pip install 'launchscope\[cluster\]'"):
        listed("s3://bucket/run")


def test_an_error_of_the_storage_is_a_row_that_is_not_kept(bucket: str, tmp_path: Path) -> None:
    files = sources([bucket])
    s3fs.S3FileSystem().rm(f"{bucket}/rank2.json")
    document = analyze_ranks(files, resume=tmp_path)
    assert document.rows[2].error_kind == "storage"
    assert "no such file" in (document.rows[2].error or "")
    assert len(list(tmp_path.glob("*.row"))) == 5


def test_a_file_url_is_a_local_path(tmp_path: Path) -> None:
    path = rank_trace(0).write(tmp_path / "rank0.json")
    assert sources([f"file://{path}"]).each[0].path == str(path)


def test_what_is_a_url() -> None:
    assert all(map(is_url, ("s3://a", "hf://datasets/a", "a::b://c", "reference://::data:text,", "a://b", "://")))
    assert not any(map(is_url, ("C:\\a", "/a//b", "a.json")))


def test_no_table_of_a_capture(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(LaunchscopeError, match="a capture of launchscope profile"):
        analyze_ranks(sources([tmp_path]))


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node-17_4242.1759836030000.pt.trace.json", "node-17"),
        ("gpu3.example.org_1.17.pt.trace.json.gz", "gpu3.example.org"),
        ("rank0.json", None),
        ("rank0.1234.pt.trace.json.gz", None),
    ],
)
def test_the_host_that_a_name_tells(name: str, host: str | None) -> None:
    assert Source(name, name).host == host
