"""Skips the tests marked ``gpu`` where there is no GPU, and says why; lets Ctrl-C reach what the tests start."""

from __future__ import annotations

import os
import shutil
import signal
from functools import cache

import pytest


def pytest_configure() -> None:
    """A shell starts a background job with SIGINT ignored, and its children inherit that; a handler undoes both.

    pytest-xdist sets COLUMNS for its workers, whatever the terminal.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("COLUMNS", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two tests at a time; one where there is a GPU, on which they would measure one another."""
    return 1 if shutil.which("nvidia-smi") else 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None and (reason := _why_no_gpu()):
        pytest.skip(reason)


@cache
def _why_no_gpu() -> str:
    try:
        import torch
    except ImportError:
        return "needs an NVIDIA GPU, and torch is not installed"
    return "" if torch.cuda.is_available() else "needs an NVIDIA GPU, and torch finds none"
