"""docs/targets.md: every snippet is a target that runs, every message is one that is told."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchscope.tracer.target.options import ProfileOptions

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "targets.md").read_text("utf-8")
SNIPPETS = dict(re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
OPTIONS = {"A factory": {"batch_size": 8, "settings": {"layers": "2"}}, "Inputs and state": {"dtype": "fp32"}}
LIVE = "From Python, and in a notebook"
RANKS = "Several ranks"


def test_the_page_has_one_example_of_each_kind() -> None:
    assert list(SNIPPETS) == [
        "A step function", "A factory", "Inputs and state", "A module", "A Hugging Face model", LIVE, RANKS,
    ]  # fmt: skip


@pytest.fixture
def group_of_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What torchrun tells a rank that is alone."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    told = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize("title", [title for title in SNIPPETS if title != LIVE])
def test_every_example_is_a_target(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from launchscope.tracer.target.target import resolve

    if "transformers" in SNIPPETS[title]:
        pytest.importorskip("transformers")
    for name in ("path", "argv"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    script = tmp_path / "page_example.py"
    script.write_text(SNIPPETS[title].replace('"cuda"', '"cpu"'))
    with torch.no_grad():
        target = resolve(ProfileOptions(target=str(script), **OPTIONS.get(title, {})), "cpu").target
        assert torch.equal(target.step(), target.step())
    monkeypatch.delitem(sys.modules, "page_example")


def test_the_live_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Up to the measurement, which needs a GPU."""
    import launchscope

    class Report:
        def show(self) -> None:
            print("the report")

    measured = []
    monkeypatch.setattr(launchscope, "profile", lambda target: measured.append(target()) or Report())
    exec(compile(SNIPPETS[LIVE].replace('"cuda"', '"cpu"'), "docs/targets.md", "exec"), {})
    assert measured[0].shape == (1, 4096)
    assert capsys.readouterr().out == "the report\n"


def test_every_message_of_the_table_is_one_of_ours() -> None:
    sources = " ".join(file.read_text("utf-8") for file in sorted((ROOT / "tracer").rglob("*.py")))
    told = re.sub(r'"\s*f?"', "", sources)  # strings that go on in the next line
    messages = re.findall(r"^\| `([^`]*)` \|", PAGE, re.MULTILINE)
    assert len(messages) == 12
    assert [message for message in messages if message not in told] == []
