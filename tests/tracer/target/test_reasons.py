"""Why a mode failed, in one line, with the user's own line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from launchscope.tracer.target.reasons import nothing_measured, reason

Run = Callable[..., str]


@pytest.fixture
def told(tmp_path: Path) -> Run:
    """The reason that a script of the user's gives; ``library`` is a file that is not theirs."""

    def run(
        text: str, phase: str = "timing", *, library: str = "", beside: Path | None = tmp_path, **names: Any
    ) -> str:
        installed = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "library.py"
        installed.parent.mkdir(parents=True)
        names["torch"] = torch
        for file, source in ((installed, library), (tmp_path / "model.py", text)):
            file.write_text(source)
            try:
                exec(compile(source, str(file), "exec"), names)
            except Exception as error:
                return reason(error, phase, beside)
        raise AssertionError("nothing went wrong")

    return run


def test_an_error_of_theirs(told: Run) -> None:
    assert told("def decode():\n    return {}['cache']\ndecode()\n") == (
        "KeyError (timing): 'cache', at model.py:2 in decode: return {}['cache']"
    )


def test_the_line_is_theirs_also_where_a_library_beside_it_raised(told: Run) -> None:
    said = told("helper(0)\n", library="def helper(x):\n    return 1 // x\n")
    assert said.endswith(", at model.py:1 in <module>: helper(0)")


def test_their_helper_in_another_folder_is_named_where_nothing_nearer_is(told: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    assert told("1 // 0\n", beside=elsewhere).endswith(", at model.py:1 in <module>: 1 // 0")


@pytest.mark.parametrize("ending", ["", " from error", " from None"])
def test_the_error_that_they_raised_is_told_not_its_cause(told: Run, ending: str) -> None:
    text = f"try:\n    {{}}['a']\nexcept KeyError as error:\n    raise ValueError('no preset a'){ending}"
    assert told(text).startswith("ValueError (timing): no preset a, at model.py")


@pytest.mark.parametrize(
    "error", ["CUDA error: operation not permitted when stream is capturing", "x\ncudaErrorStreamCaptureUnsupported"]
)
def test_a_capture_tells_its_first_error(told: Run, error: str) -> None:
    text = f"""
def step():
    raise RuntimeError({error!r})
try:
    step()
except RuntimeError:
    raise RuntimeError("operation failed due to a previous error during capture")
"""
    said = told(text, "capture")
    assert said.startswith("can't be captured: the step does something that waits for the GPU")
    assert said.endswith(f"— {error.splitlines()[0]}, at model.py:3 in step: raise RuntimeError({error!r})")


def test_a_capture_that_fails_of_something_else(told: Run) -> None:
    assert told("raise ValueError('shape')", "capture").startswith("ValueError (capture): shape")


def test_a_compiler_tells_its_first_error(told: Run) -> None:
    text = "try:\n    raise OSError('no gcc')\nexcept OSError as e:\n    raise RuntimeError('backend raised:') from e"
    assert told(text, "compile").startswith("torch.compile failed: OSError: no gcc, at model.py:2")


def test_out_of_memory(told: Run) -> None:
    said = told("raise torch.OutOfMemoryError('Tried to allocate 2.00 GiB.\\nGPU 0 has …')", "build")
    assert said.startswith("out of GPU memory (build): Tried to allocate 2.00 GiB., at model.py:1")


def test_a_message_is_one_line_of_bearable_length(told: Run) -> None:
    said = told("raise ValueError('\\n\\x1b[31mred\\tx' + 'y' * 1000 + '\\nmore')")
    assert "\n" not in said
    assert "\x1b" not in said
    assert "more" not in said.partition(", at")[0]
    assert len(said.partition(", at")[0]) < 340


def test_no_message_and_no_line() -> None:
    assert reason(ValueError(), "timing", None) == "ValueError (timing): no message"


def test_an_error_that_fails_to_tell_itself_and_one_that_no_file_can_hold() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert reason(Mute(), "capture", None) == "Mute (capture): no message"
    assert reason(ValueError("a\ud800b"), "timing", None) == "ValueError (timing): a\\ud800b"


def test_errors_that_go_round_in_a_circle() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert reason(first, "capture", None) == "ValueError (capture): second"


def test_nothing_measured_tells_each_reason_once() -> None:
    errors = {"eager": "no", "graph": "capture", "fused": "no", "fused_graph": None}
    assert nothing_measured(errors) == "no mode ran: eager, fused: no; graph: capture; fused_graph: interrupted"
