"""What ``launchscope calibrate`` measured on a machine, from the file that it was kept in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from ..model.capture import Calibration
from ..model.errors import LaunchscopeError, UnreadableInput
from ..model.paths import content
from .gpus import name_of

_MOST_BYTES: Final = 1 << 20
_HOW: Final = "launchscope calibrate writes one"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it lies in the user's cache."""

    schema: str
    calibration: Calibration
    machine: dict[str, str | int | float | bool | None] = {}


def read_calibration(path: Path, gpu: str) -> Calibration:
    """A file as ``launchscope calibrate`` keeps it, or as its ``--format json`` prints it.

    UnreadableInput for what is none; LaunchscopeError where it is of another GPU of the table than ``gpu``.
    """
    text = content(path, _MOST_BYTES)
    try:
        if "calibration" in msgspec.json.decode(text, type=dict[str, msgspec.Raw]):
            kept = msgspec.json.decode(text, type=_Kept)
        else:  # as printed: it does not say of which machine
            kept = _Kept(schema="", calibration=msgspec.json.decode(text, type=Calibration))
    except msgspec.MsgspecError as error:
        raise UnreadableInput(f"{path}: not a calibration ({error}); {_HOW}") from error
    if kept.calibration == Calibration():
        raise UnreadableInput(f"{path}: no figure of a calibration in it; {_HOW}")
    machine = str(kept.machine.get("gpu"))
    if name_of(machine) not in (None, gpu):
        raise LaunchscopeError(f"{path}: measured on an {machine}, not on an {gpu}: give --gpu {name_of(machine)}")
    return kept.calibration
