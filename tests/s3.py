"""An S3 that speaks HTTP, moto's, in this process: read by worker processes as any other would be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NUMBERS = itertools.count()  # what moto holds outlives its server

QUIET = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of boto's own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
"""Marks of a module that uses it."""


@contextmanager
def served_bucket() -> Iterator[tuple[str, Any]]:
    """The URL of an empty bucket, and its file system; address and keys are where boto's users have them: in the
    environment.
    """
    moto_server = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    server = moto_server.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            environment.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        system = s3fs.S3FileSystem()
        name = f"runs-{port}-{next(_NUMBERS)}"
        system.mkdir(name)
        yield f"s3://{name}", system
        server.stop()
        s3fs.S3FileSystem.clear_instance_cache()
