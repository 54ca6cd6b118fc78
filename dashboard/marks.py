"""What a search found and what is selected, in one band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np

from ..analysis.columns import follow
from ..analysis.launches import launching_operators
from ..analysis.trace import NONE, Bools, Ints
from .lanes import BandLanes, prepare
from .opened import Band
from .view import View


class Tone(IntEnum):
    """How a rectangle is drawn; a later one goes over an earlier one."""

    PLAIN = 0
    DIM = 1  # other things were searched for
    FOUND = 2
    LIT = 3  # another occurrence of what is selected
    SELECTED = 4


@dataclass(frozen=True, eq=False)
class Marks:
    """The tones of one band's rectangles."""

    found_ops: Bools | None  # [gpu_ops] null: nothing is searched for
    found_names: Bools | None  # [names]
    lit_ops: Bools | None  # [gpu_ops] null: nothing is selected
    selected_op: int  # row of the band's GPU ops, or NONE
    selected_launch: int  # row of its launch, or NONE
    host_names: Ints  # [host_ops]

    @classmethod
    def of(cls, lanes: BandLanes, view: View, selected_name: str | None) -> Self:
        trace = lanes.band.analysis.trace
        found_ops, found_names = _found(lanes, view.search) if view.search else (None, None)
        lit_ops = None
        if selected_name is not None:
            same = np.fromiter((name == selected_name for name in trace.names), np.bool_, len(trace.names))
            lit_ops = same[trace.gpu_ops.name]
        selected = NONE
        if view.selected is not None and view.selected[0] == lanes.band.key and selected_name is not None:
            selected = view.selected[1]
        launch = NONE if selected == NONE else int(trace.gpu_ops.launch_row[selected])
        return cls(found_ops, found_names, lit_ops, selected, launch, trace.host_ops.name)

    def tones(self, kind: str, rows: Ints) -> Ints:
        """[rows] the Tone of each row of the table that ``kind`` names."""
        tone = np.full(len(rows), Tone.PLAIN if self.found_ops is None else Tone.DIM)
        if kind == "host_op" and self.found_names is not None:
            tone[self.found_names[self.host_names[rows]]] = Tone.FOUND
        if kind == "gpu_op":
            if self.found_ops is not None:
                tone[self.found_ops[rows]] = Tone.FOUND
            if self.lit_ops is not None:
                tone[self.lit_ops[rows]] = Tone.LIT
            tone[rows == self.selected_op] = Tone.SELECTED
        if kind == "launch" and self.selected_launch != NONE:
            tone[rows == self.selected_launch] = Tone.SELECTED
        return tone


def selected_name(bands: Sequence[Band], view: View) -> str | None:
    """Name of the GPU op that is selected; None where there is none such."""
    for band in bands:
        if view.selected is not None and view.selected[0] == band.key:
            ops = band.analysis.trace.gpu_ops
            row = view.selected[1]
            return band.analysis.trace.name(int(ops.name[row])) if 0 <= row < len(ops) else None
    return None


def search_count(bands: Sequence[Band], view: View) -> int:
    """How many GPU ops and operators in the steps that are shown the search finds; 0 without one."""
    if not view.search:
        return 0
    found = 0
    for lanes in map(prepare, bands):
        marks = Marks.of(lanes, view, None)
        since, until = lanes.window(view.step)
        for layer in (layer for lane in lanes.lanes for layer in lane.layers):
            if layer.kind in ("gpu_op", "host_op"):
                rows = layer.row[layer.within(since, until)]
                found += int((marks.tones(layer.kind, rows) == Tone.FOUND).sum())
    return found


def _found(lanes: BandLanes, search: str) -> tuple[Bools, Bools]:
    """GPU ops whose own or whose operator's name holds the text, in capitals or not; and the names that do."""
    trace, sought = lanes.band.analysis.trace, search.casefold()
    names = np.fromiter((sought in name for name in lanes.folded_names), np.bool_, len(lanes.folded_names))
    found = names[trace.gpu_ops.name] | follow(names, launching_operators(trace), absent=False)
    inferred = [name for name, operator in lanes.inferred_operators.items() if sought in operator.casefold()]
    if inferred:
        by_operator = np.isin(np.array(trace.names, dtype=object), inferred)
        found |= by_operator[trace.gpu_ops.name] & (trace.gpu_ops.launch_row != NONE)
    return found, names
