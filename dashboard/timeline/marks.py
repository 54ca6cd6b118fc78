"""What a search found and what is selected, in one band."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np

from ...analysis.model.columns import follow
from ...analysis.model.trace import NONE, Bools, Ints
from ..band import Band
from ..view import View
from .lanes import BandLanes, prepare


class Tone(IntEnum):
    """How a rectangle is drawn; a later one goes over an earlier one."""

    PLAIN = 0
    DIM = 1  # other things were searched for
    FOUND = 2
    LIT = 3  # another occurrence of what is selected
    SELECTED = 4


@dataclass(frozen=True, eq=False)
class Marks:
    """What of one band is found, lit and selected. Null: nothing is searched for, nothing is selected."""

    lanes: BandLanes
    found: Bools | None  # [names] the name holds what is searched for
    found_by_operator: Bools | None  # [names] of kernels whose operator only another recording tells
    lit: Bools | None  # [names] the selected op's
    selected_op: int  # row of the band's GPU ops, or NONE
    selected_launch: int  # row of its launch, or NONE

    @classmethod
    def of(cls, lanes: BandLanes, view: View, selected_name: str | None) -> Self:
        trace = lanes.band.analysis.context.trace
        found = by_operator = lit = None
        if view.search:
            sought = view.search.casefold()
            found = _flags(sought in name for name in lanes.folded_names)
            inferred = {name for name, operator in lanes.inferred_operators.items() if sought in operator.casefold()}
            by_operator = _flags(name in inferred for name in trace.names)
        if selected_name is not None:
            lit = _flags(name == selected_name for name in trace.names)
        selected = NONE
        if view.selected is not None and view.selected[0] == lanes.band.key and selected_name is not None:
            selected = view.selected[1]
        launch = NONE if selected == NONE else int(trace.gpu_ops.launch_row[selected])
        return cls(lanes, found, by_operator, lit, selected, launch)

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of rectangles of which some may be found, lit or selected."""
        found = {"gpu_op", "host_op"} if self.found is not None else set()
        lit = {"gpu_op"} if self.lit is not None else set()
        return frozenset(found | lit | ({"launch"} if self.selected_launch != NONE else set()))

    def tones(self, kind: str, rows: Ints) -> Ints:
        """[rows] the Tone of each row of the table that ``kind`` names."""
        trace = self.lanes.band.analysis.context.trace
        tone = np.full(len(rows), Tone.PLAIN if self.found is None else Tone.DIM)
        if kind == "host_op" and self.found is not None:
            tone[self.found[trace.host_ops.name[rows]]] = Tone.FOUND
        if kind == "gpu_op":
            tone[self._found_ops(rows)] = Tone.FOUND
            if self.lit is not None:
                tone[self.lit[trace.gpu_ops.name[rows]]] = Tone.LIT
            tone[rows == self.selected_op] = Tone.SELECTED
        if kind == "launch" and self.selected_launch != NONE:
            tone[rows == self.selected_launch] = Tone.SELECTED
        return tone

    def _found_ops(self, rows: Ints) -> Bools:
        """GPU ops whose own or whose operator's name is found."""
        if self.found is None or self.found_by_operator is None:
            return np.zeros(len(rows), np.bool_)
        trace = self.lanes.band.analysis.context.trace
        name, launch = trace.gpu_ops.name[rows], trace.gpu_ops.launch_row[rows]
        operator = follow(trace.host_ops.name, follow(trace.launches.operator_row, launch))
        told_elsewhere = self.found_by_operator[name] & (operator == NONE)
        found: Bools = self.found[name] | follow(self.found, operator, absent=False) | told_elsewhere
        return found


def _flags(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, np.bool_)


def selected_name(bands: Sequence[Band], view: View) -> str | None:
    """Name of the GPU op that is selected; None where there is none such."""
    for band in bands:
        if view.selected is not None and view.selected[0] == band.key:
            ops = band.analysis.context.trace.gpu_ops
            row = view.selected[1]
            return band.analysis.context.trace.name(int(ops.name[row])) if 0 <= row < len(ops) else None
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
