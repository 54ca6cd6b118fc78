"""A Kineto file as one document: its head, and the records of a text that may be cut or broken."""

from __future__ import annotations

import contextlib
from typing import Any, Final, NamedTuple

import msgspec

from ...model.errors import UnreadableInput
from ...model.trace import Source
from .json_text import cut_off, mendings, recover, repair
from .kineto_records import Entry, Event

_NO_VALUE: Final = msgspec.Raw(b"null")
_LONGEST_VALUE: Final = 1 << 20
"""Of what is of use beside the records; deviceProperties of eight GPUs take 3 kB."""


class Head(msgspec.Struct):
    """What the file says beside its records: JSON, to be had by ``value_of``."""

    base_ns: msgspec.Raw = msgspec.field(name="baseTimeNanoseconds", default=_NO_VALUE)
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=_NO_VALUE)
    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=_NO_VALUE)
    remarks: msgspec.Raw = msgspec.field(name="INFO", default=_NO_VALUE)
    warnings: msgspec.Raw = msgspec.field(name="WARNING", default=_NO_VALUE)
    errors: msgspec.Raw = msgspec.field(name="ERROR", default=_NO_VALUE)


class Document(Head):
    """The file."""

    events: list[Entry] | None = msgspec.field(name="traceEvents", default=None)


_DOCUMENT: Final = msgspec.json.Decoder(Document)
_HEAD: Final = msgspec.json.Decoder(Head)
_BESIDE_EVENTS: Final = Head.__struct_fields__
_ENTRY: Final = msgspec.json.Decoder(Event)
_ENTRIES: Final = msgspec.json.Decoder(list[Entry])


class Opened(NamedTuple):
    """What is whole in a text."""

    document: Document
    is_json: bool  # False: cut or damaged
    has_all: bool  # no record is known to be lost


def open_document(text: bytes, source: Source, closing: bytes = b"") -> Opened:
    """Decode a document, mended, cut back to its last whole record, or as many of its records as are whole.

    ``closing`` ends it where it is read to its own end. UnreadableInput when it is no document with a list of records.
    """
    problem: Exception | None = None
    for mended in mendings(text):
        try:
            document = _DOCUMENT.decode(mended + closing)
        except (msgspec.DecodeError, RecursionError) as error:
            problem = error
            if not mended.lstrip().startswith(b"{"):
                break
            cut = cut_off(mended, _DOCUMENT) if "truncated" in str(error) else None
            if cut is not None and cut[0].events:
                return Opened(cut[0], False, cut[1])
        else:
            if document.events is None:
                raise UnreadableInput(
                    f"{source.path}: JSON without a list traceEvents, so not a trace; give the file that "
                    "torch.profiler's export_chrome_trace wrote"
                )
            return Opened(document, True, True)
    assert problem is not None
    return _rescue(text, source, problem)


def decode_head(text: bytes) -> Head | None:
    """What stands before the list of records; None where it is no object."""
    for mended in mendings(text):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return _HEAD.decode(mended)
    return None


def value_of(text: msgspec.Raw) -> Any:
    """A value beside the records, mended; null where it can't be read, or is longer than any of a profiler's."""
    for mended in mendings(bytes(text)) if len(bytes(text)) <= _LONGEST_VALUE else ():
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(mended)
    return None


def _rescue(data: bytes, source: Source, problem: Exception) -> Opened:
    """What is whole in a file that is no JSON."""
    found = recover(repair(data)) if data.lstrip().startswith(b"{") else None
    if found is None:
        raise _no_trace(source, problem) from problem
    if not found.records and not found.whole:
        raise UnreadableInput(f"{source.path}: cut before its first whole record; record or copy it again") from problem
    try:
        head = _HEAD.decode(found.head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableInput(f"{source.path}: broken JSON ({error}); record or export it again") from error
    records = _decode_records(found.records)
    is_whole = found.whole and len(records) == len(found.records)
    document = Document(events=records, **{name: getattr(head, name) for name in _BESIDE_EVENTS})
    return Opened(document, False, is_whole)


def _decode_records(texts: list[bytes]) -> list[Entry]:
    """The records that are JSON."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return _ENTRIES.decode(b"[" + b",".join(texts) + b"]")
    records: list[Entry] = []
    for text in texts:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            records.append(_ENTRY.decode(text))
    return records


def _no_trace(source: Source, error: Exception) -> UnreadableInput:
    return UnreadableInput(
        f"{source.path}: not a trace: neither JSON nor the beginning of one ({error}); give a Kineto trace "
        "(.json or .json.gz) as torch.profiler exports it"
    )
