"""What is printed of each recording stays as it is until somebody means to change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from .outputs import ROOT, digest, everything

KEPT: Final = Path(__file__).with_name("digests.json")
MADE: Final = everything()


@pytest.mark.parametrize("name", MADE)
def test_texts_are_as_they_were(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    kept = json.loads(KEPT.read_text())[name]
    now = {output: digest(text) for output, text in MADE[name]().items()}
    changed = [output for output in now if now[output] != kept.get(output)]
    assert not changed, "see the difference with `python -m tests.goldens FOLDER` on both commits; keep it with --keep"


def test_every_recording_is_kept() -> None:
    assert set(json.loads(KEPT.read_text())) == set(MADE)
