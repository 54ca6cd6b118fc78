"""A worker process: jobs come in on stdin, finished rows go out on a pipe, until nobody sends any more.

Started afresh, not forked, since the caller may hold threads or a CUDA context. It ends at once when the caller does,
however that ends: nobody is left to read for.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import BinaryIO, Final

import msgspec

from ..inputs.readers.second_process import leave_other_cores
from .reading import Job, finish

SIZE_BYTES: Final = 8


def framed(message: bytes) -> bytes:
    """A message with its length before it."""
    return len(message).to_bytes(SIZE_BYTES, "little") + message


def told(job: Job) -> bytes:
    """A job on its way to a worker: a path may hold bytes that are no UTF-8."""
    file = msgspec.structs.replace(job.file, path="")
    return msgspec.msgpack.encode((os.fsencode(job.file.path), msgspec.structs.replace(job, file=file)))


def _understood(message: bytes) -> Job:
    path, job = msgspec.msgpack.decode(message, type=tuple[bytes, Job])
    return msgspec.structs.replace(job, file=msgspec.structs.replace(job.file, path=os.fsdecode(path)))


def serve(pipe: int) -> None:
    """Finish jobs, one at a time. Rows go out by a pipe of their own: anything may print on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told by the caller, who then ends this
    leave_other_cores()
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(sys.stdin.buffer, jobs), daemon=True).start()
    with os.fdopen(pipe, "wb") as results:
        results.write(framed(b""))  # ready
        results.flush()
        while True:
            finished = finish(_understood(jobs.get()))
            results.write(framed(msgspec.msgpack.encode(finished)))
            results.flush()


def _take(stream: BinaryIO, jobs: queue.SimpleQueue[bytes]) -> None:
    """Take jobs as they come in; the end of the stream is the end of the process."""
    while size := int.from_bytes(stream.read(SIZE_BYTES), "little"):
        jobs.put(stream.read(size))
    os._exit(0)
