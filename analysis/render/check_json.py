"""A finished check as one JSON document: schema ``launchscope.check/1``."""

from __future__ import annotations

from typing import Any

import msgspec

from ..compare.check_document import CheckDoc


def render(doc: CheckDoc) -> str:
    """One document, indented, with a line break at its end. An interval without ends has null in their place."""
    return msgspec.json.format(msgspec.json.encode(encodable(msgspec.to_builtins(doc))), indent=2).decode() + "\n"


def encodable(value: Any) -> Any:
    """The same value with every text fit for UTF-8: names of files may hold bytes that are none."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {encodable(key): encodable(each) for key, each in value.items()}
        case list() | tuple():
            return [encodable(each) for each in value]
        case _:
            return value
