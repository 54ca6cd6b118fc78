"""Regression checks on a real GPU, by the commands and the plugin that CI would run: what they count is exact."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

MODEL = """
import torch

x = torch.ones(256, 256, device="cuda")


def step():
    y = x + x
    return y + 1
"""
WITH_ANOTHER_KERNEL = MODEL.replace("return y + 1", "return (y + 1) * 2")
WITH_A_WAIT = MODEL.replace("return y + 1", "return y + y.sum().item()")

Done = subprocess.CompletedProcess[str]


def run(folder: Path, *command: str) -> Done:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False, timeout=280
    )


def launchscope(folder: Path, *arguments: str) -> Done:
    return run(folder, "launchscope", *arguments)


def git(folder: Path, *arguments: str) -> str:
    identity = {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | identity, capture_output=True, text=True, check=True
    ).stdout


def findings(done: Done) -> dict[str, tuple[str, float]]:
    """Outcome and measured value by figure, of a check of one mode."""
    (part,) = json.loads(done.stdout)["parts"]
    return {each["figure"]: (each["outcome"], each["measured"]) for each in part["findings"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_a_profile_for_a_check_becomes_a_baseline_that_a_wait_breaks(project: Path) -> None:
    model = project / "model.py"
    for modes, name in (("graph", "before"), ("eager,graph", "after")):
        done = launchscope(project, "profile", "model.py", "--for-check", "--modes", modes, "-o", name)
        assert done.returncode == 0, done.stderr
        if name == "before":
            saved = launchscope(project, "baseline", "save", name)
            assert saved.returncode == 0, saved.stderr
            again = launchscope(project, "check", name, "--require-graph", "--format", "json")
            assert again.returncode == 0, again.stdout
            assert findings(again)["graph_coverage"] == ("holds", 1.0)
            model.write_text(WITH_A_WAIT)
    checked = launchscope(project, "check", "after", "--mode", "graph")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "model.py:9" in checked.stdout, checked.stdout


def test_another_kernel_is_found_against_the_file_and_the_commit_without_it(project: Path) -> None:
    before, model = project / "before.py", project / "model.py"
    shutil.copy(model, before)
    git(project, "init", "-q")
    git(project, "add", "model.py")
    git(project, "commit", "-qm", "a model")
    model.write_text(WITH_ANOTHER_KERNEL)
    for against, name in (("before.py", "file"), ("git:HEAD", "commit")):
        options = ("--against", against, "--repeats", "2", "--modes", "eager", "-o", name)
        done = launchscope(project, "profile", "model.py", *options)
        assert done.returncode == 0, done.stderr
        other = f"{name}-against"
        checked = launchscope(project, "check", name, "--baseline", other, "--format", "json")
        assert checked.returncode == 1, checked.stdout + checked.stderr
        assert findings(checked)["launches"] == ("regression", 3.0)
        assert findings(checked)["kernels"] == ("regression", 3.0)
    assert len(git(project, "worktree", "list").splitlines()) == 1


def test_marked_tests_pass_and_fail_by_what_the_gpu_did(project: Path) -> None:
    (project / "test_step.py").write_text(
        "import pytest\n"
        "@pytest.mark.launchscope(launches='<= 2', blocking_calls=0, modes='eager')\n"
        "def test_that_holds(launchscope):\n"
        "    launchscope.profile('model.py', repeats=1)\n"
        "@pytest.mark.launchscope(launches='<= 1', modes='eager')\n"
        "def test_that_fails(launchscope):\n"
        "    launchscope.profile('model.py', repeats=1)\n"
        "@pytest.mark.launchscope(graph_coverage=1, launches=1, modes='graph')\n"
        "def test_of_a_function(launchscope):\n"
        "    import torch\n"
        "    x = torch.ones(64, 64, device='cuda')\n"
        "    launchscope.profile(lambda: x @ x + 1)\n"
    )
    plugin = ("-p", "launchscope.cli.pytest_plugin", "-p", "no:cacheprovider", "--launchscope-require-gpu")
    done = run(project, "pytest", "-q", *plugin, "test_step.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "test_step.py::test_that_fails" in done.stdout, done.stdout


def test_no_process_is_left_on_the_gpu() -> None:
    done = subprocess.run(
        ["pgrep", "-f", "launchscope.tracer.processes.server"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == ""
