"""What stands in a document where the data can't support a figure, until the report is put together."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

Value = TypeVar("Value")
Document = TypeVar("Document")


class Withheld(msgspec.Struct, frozen=True):
    """A figure that is not told, and why."""

    reason: str


def known(value: Value | None, otherwise: str | None) -> Value | None:
    """The value; withheld for this reason where there is none. Without a reason it just isn't there."""
    return cast("Value", Withheld(otherwise)) if value is None and otherwise is not None else value


def settle(document: Document, path: str = "") -> tuple[Document, dict[str, str]]:
    """The document with null for what is withheld, and the reasons by path: ``queue_depth.max``, ``devices.0.steady``.

    Lists of texts and numbers hold nothing that is withheld.
    """
    reasons: dict[str, str] = {}
    return _settled(document, path, reasons), reasons


def _settled(value: Any, path: str, reasons: dict[str, str]) -> Any:
    if isinstance(value, Withheld):
        reasons[path] = value.reason
        return None
    if isinstance(value, list):
        if not value or not isinstance(value[0], msgspec.Struct):
            return value
        return [_settled(each, f"{path}.{place}", reasons) for place, each in enumerate(value)]
    if not isinstance(value, msgspec.Struct):
        return value
    changed = {}
    for name in value.__struct_fields__:
        was = getattr(value, name)
        if isinstance(was, msgspec.Struct | list):
            now = _settled(was, f"{path}.{name}" if path else name, reasons)
            if now is not was:
                changed[name] = now
    return msgspec.structs.replace(value, **changed) if changed else value
