"""``launchscope sweep``: its options, and what it says where nothing can be measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.cli import run
from launchscope.tracer.processes import sweep

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures" / "sweep"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--batch-sizes", "1,two"], "'1,two' is no list of batch sizes; write 1,2,4,8"),
        (["--batch-sizes", "0"], "'0' is no list of batch sizes"),
        (["--prompt-lengths", "-1"], "'-1' is no list of prompt lengths"),
        (["--capture-sizes", "1,2"], "--capture-sizes takes --batch-histogram"),
        (["--batch-histogram", "none.csv"], "none.csv: no such file; check the path"),
        (["--modes", "egaer"], "--modes: no mode 'egaer' (did you mean 'eager'?)"),
    ],
)
def test_what_can_not_be_meant(options: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "model.py", *options]) == 2
    assert said in capfd.readouterr().err


def test_the_table_the_plot_and_the_ladder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What an H200 recorded stands for what would be measured."""

    def recorded(_: object, points: list[sweep.Point], *__: object) -> list[tuple[sweep.Point, Path, None]]:
        return [(point, CAPTURES / point.file, None) for point in points]

    monkeypatch.setattr(sweep, "run_sweep", recorded)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "batches.csv").write_text("1,10\n200,5\n")
    options = ["--batch-sizes", "2048,1,256", "--batch-histogram", str(tmp_path / "batches.csv")]
    assert run(["sweep", "llama_1b.py", *options]) == 0
    out, err = capfd.readouterr()
    assert "batch 256      eager  █" in out
    out = " ".join(out.split())
    assert "eager: the GPU waits below batch 2048, GPU-bound from there on" in out
    assert "graph: GPU-bound from batch 1 on" in out
    assert "every time is of one process, so without an interval" in out
    assert "ladder 1, 256, 2048:" in out
    assert "better: 1, 200:" in out
    assert "without graphs gives back 868 MiB at the most" in out
    assert "captures are kept in launchscope-out/llama_1b-sweep" in err
