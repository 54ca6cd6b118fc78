"""The table of ranks as Parquet: a row per rank, a column per figure, none of them nested."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet

from ..model.document import Summary
from .document import RankRow, RanksDocument
from .many_story import OF_RANKS

_SUMMARIES: Final = ("period_ns", "busy_ns")
_OF_A_SUMMARY: Final = ("median", "p10", "p90", "count")
_TYPES: Final = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}


def render(doc: RanksDocument) -> bytes:
    """One Parquet file; its metadata has the rest of the document, so that nothing is lost but the series."""
    rows = [_flat(row) for row in doc.rows]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in columns_of_a_row().items()}
    head = msgspec.json.encode(msgspec.structs.replace(doc, rows=[]))
    table = pa.table(columns).replace_schema_metadata({b"launchscope": head})
    file = BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def columns_of_a_row() -> dict[str, Any]:
    """The columns in order, with their types: the same for any table of ranks."""
    columns: dict[str, Any] = {}
    for field in msgspec.structs.fields(RankRow):
        if field.name in _SUMMARIES:
            columns |= {f"{field.name}_{part}": pa.float64() for part in _OF_A_SUMMARY}
            columns[f"{field.name}_count"] = pa.int64()
        elif field.name in ("warnings", "unreliable"):
            columns[field.name] = pa.string()
        elif field.name == "figures":
            columns |= {value.name: pa.float64() for value in OF_RANKS}
        elif field.name != "series":
            columns[field.name] = _type(field.type)
    return columns


def _type(annotation: Any) -> Any:
    """Of ``int | None`` and the like."""
    named = annotation if isinstance(annotation, type) else annotation.__args__[0]
    return _TYPES[named.__name__]


def _flat(row: RankRow) -> dict[str, Any]:
    """Summaries by their parts, warnings by their codes, reasons in one text."""
    flat = {
        name: getattr(row, name) for name in row.__struct_fields__ if name not in ("series", "figures", *_SUMMARIES)
    }
    flat |= {value.name: row.figures.get(value.name) for value in OF_RANKS}
    flat["warnings"] = ", ".join(warning.code for warning in row.warnings)
    flat["unreliable"] = "; ".join(row.unreliable)
    for name in _SUMMARIES:
        summary: Summary | None = getattr(row, name)
        flat |= {f"{name}_{part}": None if summary is None else getattr(summary, part) for part in _OF_A_SUMMARY}
    return flat
