"""The operator at which a capture fails: found by a second attempt under a dispatch mode, once the first has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from .device import Device, Step
from .reasons import failure


class _Last(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the operator that was dispatched last."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.name = str(func._schema.name)
        return func(*args, **(kwargs or {}))


def failing_operator(step: Step, device: Device, line: str | None, folder: Path | None) -> str | None:
    """'aten::_local_scalar_dense'; null where the second attempt succeeds, or fails at another line."""
    last = _Last()

    def observed() -> Any:
        with last:
            return step()

    try:
        device.capture(observed)
    except Exception as error:
        return last.name if failure(error, "capture", folder).line == line else None
    return None
