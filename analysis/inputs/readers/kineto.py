"""Kineto: what torch.profiler and every engine on top of it exports. The records' own file is kineto_records.py.

Defined by the writer itself: https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp (traceEvents,
deviceProperties, baseTimeNanoseconds). The text is read as a stream: cut into pieces of whole records, decoded piece
by piece into columns, so that a file of a GB takes a fraction of it in memory. What is left of a file that is cut or
broken is read as one document.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from ...model.errors import UnreadableInput
from ...model.freed_memory import return_freed_memory
from ...model.trace import Ints, Notice, Source, Trace
from .assemble import FileFacts
from .json_text import (
    FAULTS,
    LONGEST_TEXT,
    EventText,
    cut_off,
    mended,
    mendings,
    place_before,
    recover,
    repair,
    requoted,
    whole_records,
)
from .kineto_records import ACCELERATOR, ENTRIES, Entry, decode_piece, records_of, text_of, whole_of
from .kineto_tables import TIMES, Columns
from .second_process import decoded, second_process
from .unpacking import BLOCK_BYTES

_DROPPED: Final = re.compile(r"[Dd]ropped ([0-9]{1,15}) (?:activity )?records")
_STOPPED_EARLY: Final = "CUPTI stopped early? = 1"
_LIST: Final = re.compile(rb'"traceEvents"\s*+:\s*+\[')
_OPENING: Final = b'{"traceEvents":['
_FIRST_OF_TWO: Final = b'{"the first list":['
_MOST_LISTS: Final = 8  # places in the head that look like the list's beginning
_LONGEST_OPENING: Final = 1 << 16  # from the list's name to its bracket
_TRAILING: Final = re.compile(r"trailing characters \(byte ([0-9]+)\)")  # msgspec's words for a second value
_ACCELERATORS: Final = {
    "mtia": "Meta's MTIA",
    "hpu": "Intel's Gaudi (HPU)",
    "xpu": "an Intel GPU (XPU)",
    "npu": "an NPU",
    "tpu": "a TPU",
    "privateuse1": "a device with a backend of its own (PrivateUse1)",
    "glow": "Glow",
}
_NO_VALUE: Final = msgspec.Raw(b"null")
_LONGEST_VALUE: Final = 1 << 20
"""Of what is of use beside the records; deviceProperties of eight GPUs take 3 kB."""


class Head(msgspec.Struct):
    """What the file says beside its records: JSON, to be had by ``value``."""

    base_ns: msgspec.Raw = msgspec.field(name="baseTimeNanoseconds", default=_NO_VALUE)
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=_NO_VALUE)
    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=_NO_VALUE)
    remarks: msgspec.Raw = msgspec.field(name="INFO", default=_NO_VALUE)
    warnings: msgspec.Raw = msgspec.field(name="WARNING", default=_NO_VALUE)
    errors: msgspec.Raw = msgspec.field(name="ERROR", default=_NO_VALUE)

    def value(self, name: str) -> Any:
        """A value, mended; null where it can't be read, or is longer than any of a profiler's."""
        text = bytes(getattr(self, name))
        return mended(text, _VALUE) if len(text) <= _LONGEST_VALUE else None


class Document(Head):
    """The file."""

    events: list[Entry] | None = msgspec.field(name="traceEvents", default=None)


_DOCUMENT: Final = msgspec.json.Decoder(Document)
_HEAD: Final = msgspec.json.Decoder(Head)
_VALUE: Final = msgspec.json.Decoder(Any)


def read_kineto(
    blocks: Iterable[bytes], source: Source, *, expected_bytes: int = 0, piece_bytes: int = BLOCK_BYTES
) -> Trace:
    """Read the text of a Kineto JSON file. UnreadableInput when it holds no list of trace events.

    ``expected_bytes`` is its length as far as that is known: long ones are decoded by two processes, in pieces of
    ``piece_bytes``.
    """
    reading = _Reading(source)
    reading.read(iter(blocks), expected_bytes, piece_bytes)
    columns, head = reading.columns, reading.head
    if columns.entries and not columns.has_event:
        raise UnreadableInput(
            f"{source.path}: JSON, but none of its {columns.entries} entries is a trace event; give the file that "
            "torch.profiler's export_chrome_trace wrote"
        )
    base_ns = whole_of(head.value("base_ns"))
    if base_ns is None or base_ns not in TIMES:
        base_ns = 0
    columns.settle_times(base_ns)
    return_freed_memory(columns.entries)
    notices = [] if reading.is_json else [cut_notice(columns.entries, reading.has_all)]
    lost = _lost_records(head)
    notices += lost
    if columns.untimed:
        text = f"{columns.untimed:,} records have no readable time and were left out; the file's writer is at fault"
        notices.append(Notice("unreadable_times", text, columns.untimed))
    notices += _odd_json(reading)
    if columns.accelerators and not len(columns.device_rows()):
        kinds = {_ACCELERATORS[match[1].lower()] for match in map(ACCELERATOR.match, columns.accelerators) if match}
        found = ", ".join(sorted(columns.accelerators))
        text = (
            f"its events are of {' and '.join(sorted(kinds))} ({found}), and none is a GPU op as torch.profiler "
            "writes it (kernel, gpu_memcpy, gpu_memset): launchscope can't judge that device"
        )
        notices.append(Notice("other_accelerator", text))
    facts = FileFacts(
        source=source,
        events=columns.entries,
        device_names=_device_names(head.value("devices"), columns.device_rows()),
        rank=_count(head.value("distributed"), "rank"),
        notices=tuple(notices),
        complete=reading.is_json and not lost and not columns.untimed,
        world_size=_count(head.value("distributed"), "world_size"),
        group_ranks=_group_ranks(head.value("distributed")),
    )
    trace = columns.trace(facts, base_ns)
    return_freed_memory(columns.entries)
    return trace


@dataclass
class _Reading:
    """One file, as far as it has been read."""

    source: Source
    columns: Columns = field(default_factory=Columns)
    head: Head = field(default_factory=Head)
    is_json: bool = True
    has_all: bool = True  # no record is known to be lost
    behind: int = 0  # bytes behind the document that seem to be another one

    def read(self, blocks: Iterator[bytes], expected_bytes: int, piece_bytes: int) -> None:
        """Read it to its end."""
        begin = _begin(blocks, self.source)
        if begin.head is None:
            self._add(open_document(begin.text, self.source))
            return
        self.head = begin.head
        text = EventText(begin.text, blocks, piece_bytes)
        self._read_pieces(text, expected_bytes)
        rest = text.rest()
        opened = self._open_rest(rest, begin.closing)
        if not opened.is_json:
            opening = b"[" if begin.closing else _OPENING
            first = _before_another(rest, opening + b"{}," if self.columns.entries else opening)
            if first is not None:
                self.behind = len(rest) - len(first) + text.bytes_left()
                opened, rest = self._open_rest(first, begin.closing), first
        second = _second_list(rest) if _LIST.search(rest) else None
        if second is not None:  # JSON's last one counts
            self.columns = Columns()
            opened = opened._replace(document=second)
        self._add(opened)

    def _read_pieces(self, text: EventText, expected_bytes: int) -> None:
        """Read the records up to the last piece of the text."""
        failed: list[bytes] = []
        with second_process(expected_bytes) as other:
            for piece in decoded(text.quick_pieces(), other):
                if failed or piece.records is None:
                    failed.append(piece.text)
                    text.is_stopped = True
                else:
                    self.columns.add(piece.records)
        if not failed and text.is_cuttable:
            return
        text.put_back(failed)
        for exact in text.exact_pieces():
            records = decode_piece(exact)
            if records is None:
                self._add(self._open_more(exact[1:], b"}"))
            else:
                self.columns.add(records)

    def _open_rest(self, rest: bytes, closing: bytes) -> Opened:
        """What is whole in all that stands behind the last piece."""
        if self.columns.entries:
            return self._open_more(rest, closing)
        return open_document(_OPENING + rest, self.source, closing)

    def _open_more(self, text: bytes, closing: bytes) -> Opened:
        """What is whole in a text that goes on behind other records."""
        opened = open_document(_OPENING + b"{}," + text, self.source, closing)
        assert opened.document.events is not None
        del opened.document.events[0]
        return opened

    def _add(self, opened: Opened) -> None:
        document = opened.document
        self.columns.add(msgspec.structs.replace(records_of(document.events or []), requoted=opened.requoted))
        self.is_json = self.is_json and opened.is_json
        self.has_all = self.has_all and opened.has_all
        for name in Head.__struct_fields__:
            if document.value(name) is not None:
                setattr(self.head, name, getattr(document, name))


class _Beginning(NamedTuple):
    """A file up to where its list of records begins."""

    head: Head | None  # None: no such list was found
    text: bytes  # what follows the ``[``; everything where no list was found
    closing: bytes = b""  # what has to follow the file to make it an object


def _begin(blocks: Iterator[bytes], source: Source) -> _Beginning:
    text, searched, left = b"", 0, _MOST_LISTS
    for block in blocks:
        text += block
        begin = text.lstrip()
        if begin.startswith(b"["):  # Chrome's other form: the records alone
            return _Beginning(Head(), begin[1:], b"}")
        if begin and not begin.startswith(b"{"):
            return _Beginning(None, text)
        for found in islice(_LIST.finditer(text, searched), left):
            searched, left = found.end(), left - 1
            before = text[: found.start()].rstrip()
            if before.endswith((b",", b"{")) and (head := mended(before.removesuffix(b",") + b"}", _HEAD)) is not None:
                return _Beginning(head, text[found.end() :])
        searched = max(searched, len(text) - _LONGEST_OPENING)
        if len(text) > LONGEST_TEXT:
            raise UnreadableInput(
                f"{source.path}: no list traceEvents in its first {LONGEST_TEXT >> 20} MiB, so not a trace; give the "
                "file that torch.profiler's export_chrome_trace wrote"
            )
    return _Beginning(None, text)


def _second_list(rest: bytes) -> Document | None:
    """The document behind a first list of records, where it holds another one."""
    with contextlib.suppress(UnreadableInput):
        return open_document(_FIRST_OF_TWO + rest, Source("", "", 0)).document
    return None


def _before_another(rest: bytes, opening: bytes) -> bytes | None:
    """The rest of the document, up to where another one with a list of records seems to begin; None without one."""
    for each in (rest, requoted(rest)[0]):
        try:
            _VALUE.decode(opening + each)
        except FAULTS as error:
            if (found := _TRAILING.search(str(error))) is None:
                continue
            end = int(found[1]) - 1 - len(opening)
            behind = each[end:]
            if (behind.startswith(b"{") and _LIST.search(behind)) or (behind.startswith(b"[") and b'"ph"' in behind):
                return rest[: end if each is rest else place_before(rest, end)]
    return None


def _odd_json(reading: _Reading) -> Iterator[Notice]:
    """What of a file is no JSON document, though no record of it is lost."""
    if count := reading.columns.requoted:
        names = f"{count:,} names hold" if count > 1 else "a name holds"
        text = f"{names} quotes that are not escaped, which is no JSON: repaired, every record was read"
        yield Notice("raw_quotes", f"{text}; a newer torch escapes them", count)
    if reading.behind and reading.is_json:
        text = f"another document begins behind the first one, which is whole and was read: {reading.behind:,} bytes"
        yield Notice("second_document", f"{text} were left out; write each to a file of its own")


def cut_notice(kept: int, is_whole: bool) -> Notice:
    """What to know of a file that is no JSON: how many records were read, and whether those are all."""
    text = f"the file is cut or damaged: {kept:,} whole records were read, the rest is lost; record or copy it again"
    if is_whole:
        text = (
            f"the file is cut or damaged outside its list of records; all {kept:,} were read, but the base time, "
            "devices and ranks beside them may be lost: record or copy it again"
        )
    return Notice("cut_file", text, kept)


def _device_names(properties: Any, devices: Ints) -> dict[int, str | None]:
    """The name of every device that ran a GPU op; null where the file has none or a blank one."""
    listed = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    names = {entry.get("id"): entry.get("name") for entry in listed if isinstance(entry.get("id"), int)}
    return {int(device): text_of(names.get(device) or "").strip() or None for device in devices.tolist()}


def _count(distributed: Any, name: str) -> int | None:
    """The rank, or the number of ranks, as torch.distributed has it."""
    count = distributed.get(name) if isinstance(distributed, dict) else None
    return count if type(count) is int and whole_of(count) is not None else None


def _group_ranks(distributed: Any) -> tuple[tuple[int, ...], ...]:
    """The ranks of each process group that is listed with whole numbers: many ranks are cut short by an ellipsis."""
    groups = distributed.get("pg_config") if isinstance(distributed, dict) else None
    listed = [group.get("ranks") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return tuple(
        tuple(ranks)
        for ranks in listed
        if isinstance(ranks, list) and all(type(rank) is int and whole_of(rank) is not None for rank in ranks)
    )


def _lost_records(head: Head) -> list[Notice]:
    """What the profiler's own log says about records that are not in the file."""
    logs = map(head.value, ("remarks", "warnings", "errors"))
    lines = [line for log in logs if isinstance(log, list) for line in log if isinstance(line, str)]
    dropped = sum(int(found) for line in lines for found in _DROPPED.findall(line))
    notices = []
    if dropped:
        text = f"the profiler says that it dropped {dropped:,} records; record fewer steps"
        notices.append(Notice("lost_records", text, dropped))
    if any(_STOPPED_EARLY in line for line in lines):
        text = "the profiler says that CUPTI stopped early, its buffers full: records are lost; record fewer steps"
        notices.append(Notice("lost_records", text))
    return notices


class Opened(NamedTuple):
    """What is whole in a text."""

    document: Document
    is_json: bool  # False: cut or damaged
    has_all: bool  # no record is known to be lost
    requoted: int = 0  # names with quotes in them that were not escaped


def open_document(text: bytes, source: Source, closing: bytes = b"") -> Opened:
    """Decode a document, mended, cut back to its last whole record, or as many of its records as are whole.

    ``closing`` ends it where it is read to its own end. UnreadableInput when it is no document with a list of records.
    """
    problem: Exception | None = None
    for each in mendings(text):
        try:
            document = _DOCUMENT.decode(each + closing)
        except FAULTS as error:
            problem = error
            if not each.lstrip().startswith(b"{"):
                break
            cut = cut_off(each, _DOCUMENT) if "truncated" in str(error) else None
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
    quoted, count = requoted(text)
    return open_document(quoted, source, closing)._replace(requoted=count) if count else _rescue(text, source, problem)


def _rescue(data: bytes, source: Source, problem: Exception) -> Opened:
    """What is whole in a file that is no JSON."""
    found = recover(repair(data)) if data.lstrip().startswith(b"{") else None
    if found is None:
        raise UnreadableInput(
            f"{source.path}: not a trace: neither JSON nor the beginning of one ({problem}); give a Kineto trace "
            "(.json or .json.gz) as torch.profiler exports it"
        ) from problem
    if not found.records and not found.whole:
        raise UnreadableInput(f"{source.path}: cut before its first whole record; record or copy it again") from problem
    try:
        head = _HEAD.decode(found.head)
    except FAULTS as error:
        raise UnreadableInput(f"{source.path}: broken JSON ({error}); record or export it again") from error
    records = whole_records(found.records, ENTRIES)
    is_whole = found.whole and len(records) == len(found.records)
    document = Document(events=records, **{name: getattr(head, name) for name in Head.__struct_fields__})
    return Opened(document, False, is_whole)
