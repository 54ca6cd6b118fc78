"""The figures of a mode: what each is called wherever it is shown, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..figures.verdict import TAX_WORDS
from ..model.document import TAX_FIELDS, ModeDoc, StepTimeDoc
from ..story import Kind

TAX_LABELS: Final = {"between_steps": "idle between steps", "other": "other idle"}
"""Those that are not called a tax."""


@dataclass(frozen=True)
class ModeFigure:
    """One field of ModeDoc."""

    name: str
    kind: Kind
    label: str
    meaning: str
    compared: bool = True

    def of(self, mode: ModeDoc) -> float | None:
        """Its value; of a time with an interval the median."""
        value: StepTimeDoc | float | None = getattr(mode, self.name)
        return value.median if isinstance(value, StepTimeDoc) else value


MODE_FIGURES: Final = {
    figure.name: figure
    for figure in (
        ModeFigure(
            "step_ns", "ns", "step T", "Unprofiled step time, the median over processes, with its 95 % interval."
        ),
        ModeFigure("gpu_work_ns", "ns", "GPU work W", "Time of a step in which the GPU works, as traced."),
        ModeFigure(
            "gpu_work_without_waiting_ns",
            "ns",
            "W without waiting",
            "W without the time that the GPU waits inside collectives for other ranks: the verdict rests on it.",
        ),
        ModeFigure("waiting_ns", "ns", "waiting", "The part of T inside collectives, for other ranks."),
        ModeFigure("exposed_idle_ns", "ns", "T − W", "Idle time of the GPU per step."),
        ModeFigure(
            "true_idle_fraction", "share", "true idle", "The part of T without GPU work, and without waiting for ranks."
        ),
        *(
            ModeFigure(field, "ns", TAX_LABELS.get(tax, f"{tax} tax"), f"Idle time {TAX_WORDS[tax]}, per step.")
            for tax, field in TAX_FIELDS.items()
        ),
        ModeFigure("predicted_graph_ns", "ns", "predicted graph time", "The step as one CUDA graph, predicted."),
        ModeFigure("graph_memory_bytes", "bytes", "graph memory", "Memory that the captured graphs hold."),
        ModeFigure("gpu_ops", "count", "GPU ops", "Kernels, copies and memory sets per step."),
        ModeFigure("kernels", "count", "kernels", "Kernels per step."),
        ModeFigure("launches", "count", "launches", "Host calls per step that start GPU work."),
        ModeFigure("speedup", "count", "speedup", "Against eager, process by process.", compared=False),
    )
}
"""By name, in the order in which two modes are compared."""
