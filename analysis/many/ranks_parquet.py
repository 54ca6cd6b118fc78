"""The table of ranks as Parquet: a row per rank, a column per figure, none of them nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet

from ..model.document import Summary
from .document import RankRow, RanksDocument
from .outliers import OF_REGISTRY

_SUMMARIES: Final = ("period_ns", "busy_ns")
_OF_A_SUMMARY: Final = ("median", "p10", "p90", "count")
_TYPES: Final = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}


def render(doc: RanksDocument) -> bytes:
    """One Parquet file; its metadata has the rest of the document, so that nothing is lost but the series."""
    columns = {name: pa.array(map(of, doc.rows), kind) for name, kind, of in columns_of_a_row()}
    head = msgspec.json.encode(msgspec.structs.replace(doc, rows=[]))
    table = pa.table(columns).replace_schema_metadata({b"launchscope": head})
    file = BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def columns_of_a_row() -> Iterator[tuple[str, Any, Callable[[RankRow], Any]]]:
    """Each column's name, type and value, in order, the same for any table of ranks.

    Summaries by their parts, warnings by their codes, reasons in one text.
    """
    for field in msgspec.structs.fields(RankRow):
        name = field.name
        if name in _SUMMARIES:
            for part in _OF_A_SUMMARY:
                kind = pa.int64() if part == "count" else pa.float64()
                yield f"{name}_{part}", kind, partial(_of_summary, name, part)
        elif name == "warnings":
            yield name, pa.string(), lambda row: ", ".join(warning.code for warning in row.warnings)
        elif name == "unreliable":
            yield name, pa.string(), lambda row: "; ".join(row.unreliable)
        elif name == "figures":
            for figure in OF_REGISTRY:
                yield figure.name, pa.float64(), partial(_of_registry, figure.name)
        elif name != "series":
            yield name, _type(field.type), attrgetter(name)


def _type(annotation: Any) -> Any:
    """Of ``int | None`` and the like."""
    named = annotation if isinstance(annotation, type) else annotation.__args__[0]
    return _TYPES[named.__name__]


def _of_summary(name: str, part: str, row: RankRow) -> Any:
    summary: Summary | None = getattr(row, name)
    return None if summary is None else getattr(summary, part)


def _of_registry(name: str, row: RankRow) -> float | None:
    return row.figures.get(name)
