"""The operator at which a capture fails: found by a second attempt under a dispatch mode, once the first has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from ..target.reasons import failure
from .device import Device, Step


class _Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the operator that raised an error: a wait by itself, outside of any, is none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failed: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            self.failed = self.failed or str(func._schema.name)
            raise


def failing_operator(step: Step, device: Device, line: str | None, folder: Path | None) -> str | None:
    """'aten::_local_scalar_dense'; null where none raised it, or the second attempt fails at another line."""
    watched = _Watched()

    def observed() -> Any:
        with watched:
            return step()

    try:
        device.capture(observed)
    except Exception as error:
        return watched.failed if failure(error, "capture", folder).line == line else None
    return None
