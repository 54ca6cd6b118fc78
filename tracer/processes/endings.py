"""How coordinators tell the agent that started them how they ended, and what it makes of it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model import errors
from ...analysis.model.errors import RankFailed
from .api import Interrupted

INTERRUPTED: Final = "interrupted"
DONE: Final = "done"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a coordinator ended, left in a file for the agent."""

    rank: int
    host: str
    how: str  # DONE, INTERRUPTED, or the name of an error
    message: str = ""
    path: str | None = None  # of the capture


def outcome(ended: Mapping[int, Ended], failures: Mapping[int, Any], interrupted: bool) -> Path | None:
    """What the coordinators left, as if rank 0's had run in this process."""
    own = ended.get(0)
    path = _path(own)
    if interrupted:
        raise Interrupted(path)
    if own is not None and own.how not in (DONE, INTERRUPTED):
        raise _error(own)
    killed = next((rank for rank in failures if rank not in ended), None)
    if killed is not None:
        how = f"what coordinates it was ended by {_how_ended(failures[killed])}"
        raise RankFailed(f"rank {killed} on {socket.gethostname()}: {how}{kept_of(own)}")
    if own is None or own.how == INTERRUPTED:  # by the agent, for another one; or rank 0 is elsewhere
        failed = next((each for each in ended.values() if each.how not in (DONE, INTERRUPTED)), None)
        if failed is not None:
            raise _error(failed)
    if any(each.how == INTERRUPTED for each in ended.values()):
        raise Interrupted(path)
    return path


def _error(ended: Ended) -> Exception:
    kind: type[Exception] = getattr(errors, ended.how, RuntimeError)
    return kind(ended.message)


def _path(ended: Ended | None) -> Path | None:
    return None if ended is None or ended.path is None else Path(ended.path)


def kept_of(ended: Ended | None) -> str:
    """The end of a message: what there is after all."""
    path = _path(ended)
    return "; nothing is kept" if path is None else f"; what was measured until then is in {path}"


def _how_ended(failure: Any) -> str:
    code = int(failure.exitcode)
    return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"


def endings(folder: Path) -> list[Ended]:
    """Of those that came to say it."""
    return [msgspec.json.decode(file.read_bytes(), type=Ended) for file in sorted(folder.glob("ended-*.json"))]
