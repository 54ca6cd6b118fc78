"""``launchscope check`` and ``launchscope baseline`` from their options to exit codes, stdout, and files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from launchscope.analysis.compare.documents import EXIT_CODES
from launchscope.cli import run

from ..analysis.captures import two_modes, write_capture
from ..analysis.compare.snapshots import steps

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace of 20 launches per step and a capture, outside of CI."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    steps(20).write(tmp_path / "step.json")
    write_capture(tmp_path / "tiny.zip", two_modes())
    return tmp_path


def limited(limits: str) -> None:
    Path("launchscope.toml").write_text(f"[limits]\n{limits}\n")


@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [
        ("launches = 20", 0, "The only limit holds."),
        ("launches = 19", 1, "REGRESSION: the only limit is broken: "),
        ('launches = "+0"', 2, "TO FIX: the only limit can't be checked: "),
        ('step_time = "<= 3 ms"', 3, "INCONCLUSIVE: the only limit can't be told: "),
        ('launches = 19\nkernels = "+0"\nstep_time = "<= 3 ms"', 1, "REGRESSION: 1 of 3 limits is broken: step.json, "),
    ],
)
def test_exit_codes(limits: str, code: int, said: str, capfd: Captured) -> None:
    limited(limits)
    assert run(["check", "step.json"]) == code
    out, err = capfd.readouterr()
    assert out.startswith(said)
    assert err == ""
    assert code in EXIT_CODES.values()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("check step.json", "nothing to check: no limits and no baseline"),
        ("check", "missing argument 'CURRENT' (see launchscope check --help)"),
        ("check none.json --require-graph", "none.json: no such file or folder"),
        ("check step.json --baseline none", "none: no such baseline; save one with launchscope baseline save"),
        ("check step.json --config none.toml", "none.toml: no such file"),
        ("check step.json --require-graph --mode grpah", "--mode: no mode 'grpah' (did you mean 'graph'?)"),
        ("check step.json --require-graph --mode eager", "step.json: has no mode eager; it has trace"),
        ("check step.json --require-graph --junit step.json", "is an input; -o would overwrite it"),
        ("check step.json --require-graph --markdown no/such.md", "the folder no doesn't exist"),
        ("check --validate", "no launchscope.toml here or above"),
        ("baseline", "Usage: launchscope baseline"),
        ("baseline save none.json", "none.json: no such file"),
        ("baseline list", "launchscope-baselines: no baselines there; save one with launchscope baseline save"),
        ("baseline prune", "missing option '--keep'"),
        ("baseline prune --keep 0", "0 is not in the range"),
    ],
)
def test_what_is_to_fix_is_told_and_exit_2(arguments: str, said: str, capfd: Captured) -> None:
    assert run(arguments.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert "internal error" not in err


def test_validate_looks_at_the_configuration_alone(capfd: Captured) -> None:
    limited("launches = 20\nkernels = 20")
    assert run(["check", "--validate"]) == 0
    assert "launchscope.toml: 2 limits, nothing wrong" in capfd.readouterr().err
    limited("launhes = 20")
    assert run(["check", "--validate"]) == 2
    assert "launchscope.toml [limits]: no figure 'launhes' (did you mean 'launches'?)" in capfd.readouterr().err


def test_json_on_stdout_is_one_document_under_ci_too(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    limited("launches = 19")
    assert run(["check", "step.json", "--format", "json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert (document["schema"], document["outcome"], document["exit_code"]) == ("launchscope.check/1", "regression", 1)


def test_every_file_is_written(capfd: Captured) -> None:
    limited("launches = 19")
    files = {"-o": "r.json", "--junit": "j.xml", "--markdown": "m.md", "--benchmark": "b.json"}
    assert run(["check", "step.json", *(word for pair in files.items() for word in pair)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert [f"launchscope: written to {file}" in err for file in files.values()] == [True] * 4
    assert json.loads(Path("r.json").read_bytes())["exit_code"] == 1
    assert ET.parse("j.xml").getroot().tag == "testsuites"
    assert "REGRESSION" in Path("m.md").read_text("utf-8")
    assert json.loads(Path("b.json").read_bytes())


@pytest.mark.parametrize("option", ["-o", "--junit", "--markdown", "--benchmark"])
def test_what_is_looked_up_is_an_input_too(option: str, capfd: Captured) -> None:
    limited("launches = 20")
    assert run(["baseline", "save", "step.json"]) == 0
    baseline = Path(capfd.readouterr().out.strip())
    for path in (Path("launchscope.toml"), baseline, Path("step.json")):
        before = path.read_bytes()
        assert run(["check", "step.json", option, str(path)]) == 2
        assert "input; -o would overwrite it" in capfd.readouterr().err
        assert path.read_bytes() == before


def test_two_outputs_are_two_files(capfd: Captured) -> None:
    limited("launches = 20")
    assert run(["check", "step.json", "--junit", "out", "--markdown", "./out"]) == 2
    assert "named for two outputs" in capfd.readouterr().err
    assert not Path("out").exists()
    assert run(["check", "step.json", "--junit", "/dev/null", "--markdown", "/dev/null"]) == 0


def test_github_gets_a_summary_and_annotations(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("from the step before\n")
    limited("launches = 19")
    assert run(["check", "step.json"]) == 1
    assert [line[:8] for line in capfd.readouterr().out.splitlines() if line.startswith("::")] == ["::error "]
    summary = Path("summary.md").read_text("utf-8")
    assert summary.startswith("from the step before\n")
    assert "REGRESSION" in summary
    assert run(["check", "step.json", "-o", "r.json"]) == 1  # stdout is free for annotations
    assert capfd.readouterr().out.startswith("::error ")


def test_github_is_told_what_keeps_a_check_from_being_done(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    limited("lanches = 19")
    assert run(["check", "step.json"]) == 2
    told = "launchscope.toml [limits]: no figure 'lanches'"
    out = capfd.readouterr().out
    assert out.startswith("::error title=launchscope::")
    assert told in out
    summary = Path("summary.md").read_text("utf-8")
    assert summary.startswith("**TO FIX:** `")
    assert told in summary
    assert run(["check", "step.json", "--format", "json"]) == 2
    assert capfd.readouterr().out == ""


def test_a_summary_that_can_not_be_written_changes_no_answer(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/summary.md")
    limited("launches = 20")
    assert run(["check", "step.json"]) == 0
    assert "the step's summary can't be written" in capfd.readouterr().err


def test_a_reader_who_has_gone_changes_no_answer() -> None:
    limited("launches = 19")
    code = "import sys, os; r, w = os.pipe(); os.close(r); os.dup2(w, 1); from launchscope.cli import run; "
    done = subprocess.run([sys.executable, "-c", f"{code}os._exit(run(['check', 'step.json']))"], check=False)
    assert done.returncode == 1


def test_require_graph_and_modes(capfd: Captured) -> None:
    assert run(["check", "tiny.zip", "--require-graph"]) == 0
    assert run(["check", "step.json", "--require-graph"]) == 1
    limited("launches = 1")
    assert run(["check", "tiny.zip"]) == 1
    assert run(["check", "tiny.zip", "--mode", "graph"]) == 0


def test_a_baseline_from_save_to_prune(capfd: Captured) -> None:
    assert run(["baseline", "save", "tiny.zip", "--mode", "graph"]) == 0
    out, err = capfd.readouterr()
    (path,) = out.split()
    assert path.startswith("launchscope-baselines/tiny.py/graph/Test-GPU-")
    assert (
        err == "launchscope: commit the folder launchscope-baselines: `launchscope check` compares with what it holds\n"
    )
    assert run(["baseline", "save", "tiny.zip"]) == 0
    capfd.readouterr()

    assert run(["check", "tiny.zip"]) == 0
    assert capfd.readouterr().out.startswith("All 9 limits hold.")

    assert run(["baseline", "list"]) == 0
    table, files = (part.splitlines() for part in capfd.readouterr().out.split("\n\n"))
    assert [line.split()[:2] for line in table] == [
        ["target", "mode"], ["tiny.py", "eager"], ["tiny.py", "graph"], ["tiny.py", "graph"],
    ]  # fmt: skip
    assert files[2].split() == ["tiny.py", path.removeprefix("launchscope-baselines/")]
    assert max(map(len, table + files)) <= 100

    assert run(["baseline", "show", "tiny.py", "--mode", "graph"]) == 0
    shown = capfd.readouterr().out
    assert shown.count("tiny.py · graph") == 1  # the newest alone
    assert "graph_memory    1.00 MiB" in shown
    assert run(["baseline", "show", "other.py"]) == 2
    assert "no baseline of other.py" in capfd.readouterr().err

    assert run(["baseline", "prune", "--keep", "1", "--dry-run"]) == 0
    assert capfd.readouterr().out.split() == [path]
    assert Path(path).exists()
    assert run(["baseline", "prune", "--keep", "1"]) == 0
    assert not Path(path).exists()
    assert len(list(Path("launchscope-baselines").glob("*/*/*.json"))) == 2


def test_names_in_a_baseline_stay_in_their_line_and_are_no_commands(capfd: Captured) -> None:
    assert run(["baseline", "save", "step.json"]) == 0
    path = Path(capfd.readouterr().out.strip())
    for name in ("a\n::error::b.json", "b\n::error::b.json"):
        text = path.read_text().replace('"step.json"', '"::error::x\\u001b[31m"')
        path.with_name(name).write_text(text)
    path.unlink()
    for arguments in (["list"], ["show"], ["prune", "--keep", "1"]):
        assert run(["baseline", *arguments]) == 0
        told = capfd.readouterr().out
        assert "\x1b" not in told
        assert not any(line.strip().startswith("::") for line in told.splitlines()), told


def test_another_folder(capfd: Captured) -> None:
    assert run(["baseline", "save", "step.json", "--dir", "kept"]) == 0
    assert run(["check", "step.json"]) == 2
    assert run(["check", "step.json", "--baseline", "kept"]) == 0


def test_a_damaged_baseline_is_named(capfd: Captured) -> None:
    assert run(["baseline", "save", "step.json"]) == 0
    path = Path(capfd.readouterr().out.strip())
    path.write_bytes(path.read_bytes()[:200])
    for arguments in (["check", "step.json"], ["baseline", "list"], ["check", "step.json", "--baseline", str(path)]):
        assert run(arguments) == 2
        assert f"{path}: a damaged baseline" in capfd.readouterr().err


def test_a_failed_mode_is_refused_as_a_baseline(work: Path, capfd: Captured) -> None:
    from launchscope.analysis.model.capture import ModeRecord

    failed = ModeRecord(error="no graph can be captured")
    write_capture(work / "half.zip", two_modes(modes={**two_modes().modes, "graph": failed}))
    assert run(["baseline", "save", "half.zip"]) == 2
    assert "tiny.py, graph: it failed to run, so it is no baseline" in capfd.readouterr().err
    assert run(["baseline", "save", "half.zip", "--mode", "eager"]) == 0
    assert run(["check", "half.zip", "--require-graph"]) == 1
