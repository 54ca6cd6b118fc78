"""A bucket of an S3 that speaks HTTP: read by worker processes, and by Dask's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many.ranks import analyze_ranks

from ...s3 import QUIET, served_bucket
from ..many.rank_files import rank_trace

s3fs = pytest.importorskip("s3fs")

pytestmark = QUIET


@pytest.fixture
def bucket() -> Iterator[str]:
    """Eight ranks in a bucket."""
    with served_bucket() as (url, system):
        for rank in range(8):
            made = rank_trace(rank, kernels=9 if rank == 5 else 4)
            system.pipe(f"{url}/17/rank{rank}.json", made.json() if rank != 3 else made.json()[:40])
        yield f"{url}/17"


def test_a_bucket_is_read_by_two_processes_and_not_again(bucket: str, tmp_path: Path) -> None:
    document = analyze_ranks(sources([bucket]), workers=2, resume=tmp_path)
    assert [row.rank for row in document.rows] == list(range(8))
    assert document.rows[0].path == f"{bucket}/rank0.json"
    assert [row.kernels for row in document.rows] == [4, 4, 4, None, 4, 9, 4, 4]
    assert {(odd.row, odd.kind) for odd in document.odd} >= {(3, "unreadable"), (5, "other_kernels")}
    assert document.workers == 2
    assert analyze_ranks(sources([bucket]), workers=2, resume=tmp_path).resumed == 8


def test_dask_workers_read_the_bucket_themselves(bucket: str) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": ":0"},  # any port: another cluster may run here
        silence_logs=50,
    ) as cluster:
        document = analyze_ranks(sources([bucket]), dask=cluster.scheduler_address)
    assert [row.kernels for row in document.rows] == [4, 4, 4, None, 4, 9, 4, 4]
    assert document.workers == 1
    assert str(document.rows[0].worker).rpartition(":")[2] != str(os.getpid())


def test_an_object_that_was_written_again_has_another_version(bucket: str) -> None:
    before = sources([f"{bucket}/rank1*"]).each[0]
    s3fs.S3FileSystem().pipe(f"{bucket}/rank1.json", rank_trace(1, period=2000).json())
    s3fs.S3FileSystem().invalidate_cache()
    after = sources([f"{bucket}/rank1*"]).each[0]
    assert before.version is not None
    assert before.version != after.version
