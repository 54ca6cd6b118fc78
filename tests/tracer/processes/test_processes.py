"""The command line in a process of its own: what reaches stdout, what Ctrl-C keeps, and that no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launchscope.tracer.processes.client import ForkServer

from ..conftest import HERE, Write, assert_gone, python_path
from .conftest import STARTED


def start(script: Path, *words: str) -> subprocess.Popen[bytes]:
    """``launchscope profile script …`` in the script's folder."""
    command = [sys.executable, str(HERE / "cli_without_gpu.py"), "profile", script.name, "--steps", "4", *words]
    surroundings = os.environ | {"PYTHONPATH": python_path(), "XDG_CACHE_HOME": str(script.parent / "cache")}
    process = subprocess.Popen(
        command, cwd=script.parent, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    STARTED.append(process)
    return process


def wait_for(file: Path, process: subprocess.Popen[bytes], within_s: float = 60.0) -> str:
    """What the target wrote there."""
    deadline = time.monotonic() + within_s
    while not (file.exists() and file.read_text().endswith("\n")):
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return file.read_text()


def test_what_a_script_prints_never_reaches_stdout(script: Write) -> None:
    path = script("""
        import ctypes, os, subprocess
        import fake_device

        print("printed at import")

        def step():
            print("printed in the step")
            os.write(1, b"written to descriptor 1\\n")
            fake_device.launch("gemm")

        def build():
            subprocess.run(["echo", "printed by a child"], check=True)
            ctypes.CDLL(None).puts(b"printed by C")
            ctypes.CDLL(None).fflush(None)
            return step
    """)
    process = start(path, "--modes", "eager", "--repeats", "1", "--format", "json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    assert list(json.loads(out)["profile"]["modes"]) == ["eager"]
    for text in (b"at import", b"in the step", b"descriptor 1", b"by a child", b"by C"):
        assert text not in out
        assert text in err


HANGS = """
    import os, subprocess, time
    from pathlib import Path
    import fake_device

    def step():
        fake_device.launch("gemm")
        if (mark := Path("measured")).exists():
            same_group = subprocess.Popen(["sleep", "100"])
            own_group = subprocess.Popen(["sleep", "100"], start_new_session=True)
            Path("pids").write_text(f"{os.getppid()} {os.getpid()} {same_group.pid} {own_group.pid}\\n")
            time.sleep(100)

    def build():
        if os.environ["HANG"] == "now" or Path("built").exists():
            Path("measured").touch()
        Path("built").touch()
        return step
"""


def test_the_whole_tree_ends_when_its_parent_is_killed(script: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANG", "now")
    path = script(HANGS)
    process = start(path, "--modes", "eager", "-o", "kept")
    pids = wait_for(path.with_name("pids"), process)
    process.kill()
    process.communicate()
    assert_gone(pids)
    assert not path.with_name("kept").exists()


def test_ctrl_c_keeps_and_reports_what_was_measured(script: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANG", "later")
    path = script(HANGS)
    process = start(path, "--modes", "eager,graph", "-o", "kept", "--format", "json")
    pids = wait_for(path.with_name("pids"), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err.decode()
    assert_gone(pids)
    modes = json.loads(out)["profile"]["modes"]
    assert modes["eager"]["step_ns"] is not None
    assert modes["graph"]["error"] == "interrupted"
    assert json.loads(path.with_name("kept").joinpath("manifest.json").read_text())["modes"]["eager"]["error"] is None
    assert "kept in kept" in err.decode()


def test_ctrl_c_before_anything_was_measured_leaves_nothing(script: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANG", "now")
    path = script(HANGS)
    process = start(path, "--modes", "eager", "-o", "kept")
    pids = wait_for(path.with_name("pids"), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines()[-1] == "launchscope: interrupted"
    assert_gone(pids)
    assert not [file.name for file in path.parent.iterdir() if "kept" in file.name]


def test_ctrl_c_while_the_server_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ForkServer, "_next_event", interrupted)
    server = ForkServer(["torch"])
    with pytest.raises(KeyboardInterrupt):
        server.__enter__()
    assert server._process.poll() is not None
    assert not Path(server._scratch.name).exists()


def test_a_signal_while_the_server_ends_leaves_neither_it_nor_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ForkServer([]).__enter__()
    wait = server._process.wait

    def interrupted(timeout: float | None = None) -> int:
        monkeypatch.setattr(server._process, "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(server._process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        server.__exit__()
    assert server._process.poll() is not None
    assert not Path(server._scratch.name).exists()
