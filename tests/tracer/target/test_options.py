"""What a profile run may be asked for, and what it says to the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.model import capture
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.tracer.target.options import MODES, ProfileOptions, parse_modes, parse_settings


def test_modes_are_those_of_a_capture() -> None:
    assert capture.MODES == MODES


def test_defaults() -> None:
    options = ProfileOptions(target="model.py")
    assert (options.modes, options.repeats, options.batch_size, options.settings) == (MODES, 3, None, {})


def test_torchs_names_of_dtypes_are_taken() -> None:
    named = ["bf16", "bfloat16", "torch.bfloat16", "BF16", "half", "float32"]
    assert [ProfileOptions(target="m.py", dtype=name).dtype for name in named] == [
        "bf16", "bf16", "bf16", "bf16", "fp16", "fp32",
    ]  # fmt: skip


def test_words_of_the_command_line() -> None:
    assert parse_modes("graph, eager,") == ("graph", "eager")
    assert parse_settings(["layers=4", "path=a=b", "empty="]) == {"layers": "4", "path": "a=b", "empty": ""}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"target": " "}, "TARGET is empty"),
        ({"modes": ("grph",)}, "no mode 'grph' (did you mean 'graph'?); they are eager, graph, fused, fused_graph"),
        ({"modes": ("quantum",)}, "no mode 'quantum'; they are"),
        ({"modes": ()}, "--modes is empty"),
        ({"modes": ("eager", "eager")}, "'eager' is given twice"),
        ({"dtype": "bf61"}, "no dtype 'bf61' (did you mean 'bf16'?)"),
        ({"batch_size": 0}, "--batch-size is 0; it takes 1 or more"),
        ({"context_length": -1}, "--context-length is -1"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"steps": 2}, "--steps is 2; it takes 3 or more: the first is a sacrifice"),
        ({"timeout_s": 0.0}, "--timeout is 0; it takes a positive number of seconds"),
        ({"timeout_s": float("nan")}, "--timeout is nan"),
        ({"settings": {"batch_size": "4"}}, "--set batch_size: use --batch-size for it"),
        ({"settings": {"path": "a\udcff"}}, r"--set path: has bytes that are not UTF-8: 'a\udcff'"),
        ({"settings": {"a-b": "4"}}, "--set a-b: not the name of a parameter"),
        ({"settings": {"class": "4"}}, "--set class: not the name of a parameter"),
    ],
)
def test_what_can_not_be_right_is_refused_in_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(LaunchscopeError) as raised:
        ProfileOptions(**{"target": "model.py", **given})  # type: ignore[arg-type]
    assert said in str(raised.value)


def test_settings_are_key_value_once() -> None:
    with pytest.raises(LaunchscopeError, match="--set layers: no '='; write --set key=value"):
        parse_settings(["layers"])
    with pytest.raises(LaunchscopeError, match="--set layers: given twice"):
        parse_settings(["layers=1", "layers=2"])


def test_a_capture_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(LaunchscopeError, match="exists already; captures are never overwritten"):
        ProfileOptions(target="model.py", out=tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(LaunchscopeError, match="exists already"):
        ProfileOptions(target="model.py", out=tmp_path / "dangling")
