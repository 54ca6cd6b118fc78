"""What CI systems read of this repository: the GitHub action and the pre-commit hook do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from launchscope.cli import launchscope as program

ROOT = Path(__file__).parent.parent

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

HOSTILE = "$(touch pwned)\"; touch pwned; '`touch pwned` --help"

EXPRESSION = re.compile(r"\$\{\{ *inputs\.([\w-]+) *\}\}")


def check_options() -> set[str]:
    command = program.get_command(click.Context(program), "check")
    assert command is not None
    return {option for parameter in command.params for option in parameter.opts}


def run_step(step: dict[str, Any], folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """A step's script as GitHub runs it: bash -e, inputs in the environment, a program that notes how it was called."""
    known = {name: str(its.get("default", "")) for name, its in ACTION["inputs"].items()} | inputs
    environment = {name: EXPRESSION.sub(lambda m: known[m[1]], value) for name, value in step["env"].items()}
    github = {"RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": "/the/action", "GITHUB_OUTPUT": str(folder / "output")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder, env={**github, **environment, "PATH": os.environ["PATH"]}, capture_output=True, text=True,
    )  # fmt: skip


def noting(path: Path, code: int = 0) -> None:
    """A program that appends its arguments to ``calls`` beside the folders, and ends with this code."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "import json, sys; open('calls', 'a').write(json.dumps(sys.argv[1:]) + '\\n')"
    path.write_text(f"#!{sys.executable}\n{body}; sys.exit({code})\n")
    path.chmod(0o755)


def calls(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def test_the_action_is_a_composite_one_with_every_input_used_and_described() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(each["description"] for each in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))
    used = set(EXPRESSION.findall(json.dumps(STEPS)))
    assert used == set(ACTION["inputs"])


def test_no_input_is_written_into_a_script() -> None:
    for step in STEPS:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_answer_is_the_exit_code_and_an_output(tmp_path: Path, code: int) -> None:
    noting(tmp_path / "launchscope" / "bin" / "launchscope", code)
    done = run_step(STEPS[1], tmp_path, current="a.zip")
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    assert calls(tmp_path) == [["check", "--", "a.zip"]]


def test_inputs_become_options_that_check_has(tmp_path: Path) -> None:
    noting(tmp_path / "launchscope" / "bin" / "launchscope")
    inputs = {"current": "a.zip", "baseline": "base", "config": "c.toml", "junit": "j.xml", "benchmark": "b.json"}
    run_step(STEPS[1], tmp_path, **inputs, **{"require-graph": "true"})
    (call,) = calls(tmp_path)
    assert call == [
        "check", "--baseline=base", "--config=c.toml", "--require-graph", "--junit=j.xml", "--benchmark=b.json", "--",
        "a.zip",
    ]  # fmt: skip
    assert {word.partition("=")[0] for word in call if word.startswith("--") and word != "--"} <= check_options()


def test_hostile_inputs_stay_what_they_are(tmp_path: Path) -> None:
    noting(tmp_path / "launchscope" / "bin" / "launchscope")
    done = run_step(STEPS[1], tmp_path, current=HOSTILE, baseline=HOSTILE, junit=HOSTILE)
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == [["check", f"--baseline={HOSTILE}", f"--junit={HOSTILE}", "--", HOSTILE]]
    noting(tmp_path / "python")
    noting(tmp_path / "launchscope" / "bin" / "pip")
    done = run_step(STEPS[0], tmp_path, install=HOSTILE, python="./python")
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path)[-1] == ["install", "--quiet", "--", HOSTILE]
    assert not (tmp_path / "pwned").exists()


def test_it_installs_its_own_version_unless_told_otherwise(tmp_path: Path) -> None:
    noting(tmp_path / "python")
    noting(tmp_path / "launchscope" / "bin" / "pip")
    assert run_step(STEPS[0], tmp_path, python="./python").returncode == 0
    assert calls(tmp_path) == [
        ["-m", "venv", f"{tmp_path}/launchscope"],
        ["install", "--quiet", "--", "/the/action"],
    ]


def test_the_action_checks_a_real_trace(tmp_path: Path) -> None:
    program = tmp_path / "launchscope" / "bin" / "launchscope"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m launchscope "$@"\n')
    program.chmod(0o755)
    (tmp_path / "launchscope.toml").write_text('[limits]\nlaunches = "<= 1"\n')
    capture = ROOT / "fixtures" / "captures" / "live.zip"
    done = run_step(STEPS[1], tmp_path, current=str(capture), junit="result.xml")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("REGRESSION: ")
    assert (tmp_path / "result.xml").is_file()


def test_the_hook_checks_each_configuration(tmp_path: Path) -> None:
    assert re.search(HOOK["files"], "a/launchscope.toml")
    assert not re.search(HOOK["files"], "a/launchscope.toml.orig")
    assert set(re.findall(r"--[a-z-]+", HOOK["entry"])) <= check_options()
    noting(tmp_path / "bin" / "launchscope", 0)
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run([*shlex.split(HOOK["entry"]), "a b.toml", "c.toml"], cwd=tmp_path, env=environment, check=True)
    assert calls(tmp_path) == [
        ["check", "--validate", "--config", "a b.toml"],
        ["check", "--validate", "--config", "c.toml"],
    ]
    noting(tmp_path / "bin" / "launchscope", 2)
    done = subprocess.run([*shlex.split(HOOK["entry"]), "a.toml", "c.toml"], cwd=tmp_path, env=environment)
    assert done.returncode == 2
    assert len(calls(tmp_path)) == 3, "the first that is wrong is told"


def test_the_hook_refuses_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "launchscope.toml").write_text("[limits]\nlanches = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "launchscope", "check", "--validate", "--config", str(tmp_path / "launchscope.toml")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "did you mean 'launches'?" in done.stderr
