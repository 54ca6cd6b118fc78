"""Names in an export of Nsight Systems: of its table of strings, of copies and sets, of NVTX ranges."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ...model.trace import NONE, Bools, Ints
from .sqlite_file import ABSENT, Database, Rows

STRINGS: Final = "StringIds"
_API_VERSION: Final = re.compile(r"_v\d{4,5}$")
"""cudaLaunchKernel_v7000: the CUDA version that brought the call, which nsys's own reports leave out as well."""

_COPIES: Final = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
"""CUpti_ActivityMemcpyKind, https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html"""

_MIGRATIONS: Final = {11: "HtoD", 12: "DtoH", 13: "DtoD"}  # nsys's own: pages of unified memory
_KINDS: Final = 1 << 8  # more kinds of copies and memory than there are


class Names:
    """The interned names of the trace in the making."""

    def __init__(self, database: Database) -> None:
        strings = database.read(STRINGS, ("id",), text="value")
        known = (*strings.texts, None)  # the last for NONE
        ids, texts = strings.columns["id"].tolist(), strings.text.tolist()
        self._strings = {id: known[text] for id, text in zip(ids, texts, strict=True) if id != ABSENT}
        self._index: dict[str, int] = {}
        self._missing: set[int] = set()

    @property
    def missing(self) -> int:
        """How many ids were asked for that the table of strings lacks, or has with zeros where a disk lost a part."""
        return len(self._missing)

    @property
    def all(self) -> tuple[str, ...]:
        """Every name so far, in the order of their indices."""
        return tuple(self._index)

    def add(self, name: str) -> int:
        """The name's index."""
        return self._index.setdefault(name, len(self._index))

    def of_ids(self, ids: Ints, change: Callable[[str], str] = str) -> Ints:
        """The name of each id of the table of strings, changed; NONE where the table lacks it."""
        distinct, place = np.unique(ids, return_inverse=True)
        texts = [self._strings.get(id) for id in distinct.tolist()]
        self._missing |= {
            id
            for id, text in zip(distinct.tolist(), texts, strict=True)
            if (text is None or "\0" in text) and id != ABSENT
        }
        return np.array([NONE if text is None else self.add(change(text)) for text in texts], np.int64)[place]

    def of_texts(self, rows: Rows, keep: Bools) -> Ints:
        """The name that the kept rows' own text is; NONE where they have none."""
        codes = rows.text[keep]
        name_of = np.full(len(rows.texts) + 1, NONE, np.int64)  # the last for NONE
        for code in np.unique(codes[codes != NONE]).tolist():
            name_of[code] = self.add(rows.texts[code])
        return name_of[codes]


def api_name(name: str) -> str:
    """The call's name without the CUDA version that brought it: cudaLaunchKernel_v7000 is cudaLaunchKernel."""
    return _API_VERSION.sub("", name)


def kernel_names(rows: Rows, names: Names) -> Ints:
    """Demangled names; the short or the mangled one where there is none."""
    found = np.full(len(rows), NONE, np.int64)
    for column in ("demangledName", "shortName", "mangledName"):
        missing = found == NONE
        found[missing] = names.of_ids(rows.columns[column][missing])
    return _or(found, "unnamed kernel", names)


def copy_names(rows: Rows, names: Names, memory: dict[int, str]) -> Ints:
    """As CUPTI's other users call them: Memcpy HtoD (Pageable -> Device), as far as the file knows the kinds."""

    def name(key: int) -> str:
        kind, ends = key // _KINDS**2, [memory.get(end) for end in (key // _KINDS % _KINDS, key % _KINDS)]
        if kind in _MIGRATIONS:
            return f"Memcpy {_MIGRATIONS[kind]} (unified memory)"
        direction = _COPIES[kind] if kind < len(_COPIES) else ""
        return f"Memcpy {direction}".strip() + ("" if None in ends else f" ({ends[0]} -> {ends[1]})")

    return _by_kind(rows, ("copyKind", "srcKind", "dstKind"), name, names)


def set_names(rows: Rows, names: Names, memory: dict[int, str]) -> Ints:
    """Memset (Device), as far as the file knows the kind of memory."""
    return _by_kind(rows, ("memKind",), lambda kind: f"Memset ({memory[kind]})" if kind in memory else "Memset", names)


def memory_kinds(database: Database) -> dict[int, str]:
    """The words for kinds of memory, which nsys numbers in its own way; none in exports before 2021."""
    rows = database.read("ENUM_CUDA_MEM_KIND", ("id",), text="label")
    ids, texts = rows.columns["id"].tolist(), rows.text.tolist()
    return {id: rows.texts[text] for id, text in zip(ids, texts, strict=True) if text != NONE and id < _KINDS - 1}


def range_names(rows: Rows, keep: Bools, domain: Ints, names: Names) -> Ints:
    """Text of the kept ranges, their own or of the table of strings, behind their domain's name: NCCL:ncclAllReduce.

    ``domain`` holds the index into ``rows.texts`` of each kept range's domain, NONE for one without a name.
    """
    found = names.of_texts(rows, keep)
    missing = found == NONE
    found[missing] = names.of_ids(rows.columns["textId"][keep][missing])
    found = _or(found, "?", names)
    inside = np.flatnonzero(domain != NONE)
    texts = names.all
    pairs, place = np.unique(domain[inside] * len(texts) + found[inside], return_inverse=True)
    full = [f"{rows.texts[pair // len(texts)]}:{texts[pair % len(texts)]}" for pair in pairs.tolist()]
    found[inside] = np.array([names.add(name) for name in full], np.int64)[place]
    return found


def _by_kind(rows: Rows, columns: tuple[str, ...], name: Callable[[int], str], names: Names) -> Ints:
    """A name for each combination of the kinds in these columns; a kind that is absent or odd is _KINDS - 1."""
    key = np.zeros(len(rows), np.int64)
    for column in columns:
        kind = rows.columns[column]
        key = key * _KINDS + np.where((kind >= 0) & (kind < _KINDS), kind, _KINDS - 1)
    distinct, place = np.unique(key, return_inverse=True)
    return np.array([names.add(name(k)) for k in distinct.tolist()], np.int64)[place]


def _or(found: Ints, otherwise: str, names: Names) -> Ints:
    return np.where(found == NONE, names.add(otherwise), found) if (found == NONE).any() else found
