"""What holds for every command: help is cheap, exit codes, one line on stderr, no traceback ever."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from launchscope.analysis.model import __version__
from launchscope.analysis.model.errors import BadTarget
from launchscope.cli import COMMANDS, run
from launchscope.fixtures.builder import trace

HELP = [["--help"], ["-h"], *([command, "--help"] for command in COMMANDS)]
HEAVY = {"torch", "pandas", "plotly", "dash", "numpy", "rich", "msgspec", "perfetto", "transformers"}


def launchscope(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launchscope", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("arguments", [*HELP, ["--version"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys; from launchscope.cli import run; code = run({arguments}); print(*sys.modules); exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert not HEAVY & loaded
    assert done.stderr == ""


def test_help_of_the_program_names_every_command() -> None:
    shown = launchscope("--help").stdout
    for command in COMMANDS:
        assert f"  {command} " in shown


def test_version() -> None:
    assert launchscope("--version").stdout == f"launchscope {__version__}\n"


def test_a_regex_that_python_warns_about_is_taken_silently(tmp_path: Path) -> None:
    file = trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    code = f"from launchscope.cli import run; exit(run(['analyze', {str(file)!r}, '--step-regex', '[[a]']))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_command_help_is_shown_as_something_to_fix() -> None:
    done = launchscope()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: launchscope")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("analize", "no command 'analize' (did you mean 'analyze'?)"),
        ("model.py", "did you mean 'launchscope profile model.py'?"),
        ("--nope", "no such option '--nope'"),
        ("analyze", "missing argument 'PATH...' (see launchscope analyze --help)"),
        ("analyze x --format html", "'html' is not one of 'terminal', 'json', 'markdown'"),
        ("analyze x --step-regex (", "'(' is not a regular expression"),
        ("analyze x --step-regex a{99999999999}", "not a regular expression: the repetition number is too large"),
        (f"analyze x --step-regex {'(' * 5000 + ')' * 5000}", "is not a regular expression"),
        ("export x", "missing option '-o'"),
        ("export x -o out.foo", "out.foo: the suffix says what to write: .json, .md, .pftrace"),
        ("analyze x -o /", "/: is a folder; name a file for -o"),
        ("analyze x -o no/such/file.md", "no/such/file.md: the folder no/such doesn't exist"),
        ("profile", "missing argument 'TARGET'"),
        ("profile m.py --modes eagre", "no mode 'eagre' (did you mean 'eager'?)"),
        ("profile m.py --set a", "--set a: no '='"),
        ("profile m.py --batch-size 0", "--batch-size is 0; it takes 1 or more"),
        ("profile m.py -o /", "/: exists already"),
    ],
)
def test_a_refusal_is_one_line_and_exit_2(arguments: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("launchscope: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("arguments", [["analyze", ""], ["export", "x", "-o", ""], ["doctor", "x", ""]])
def test_an_empty_path_is_not_the_current_folder(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "an empty path" in capfd.readouterr().err


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(click.Context, "invoke", fail)


def test_an_error_of_ours_is_told_on_one_clean_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, BadTarget("model\x1b[31m.py: no step;\n  name one"))
    assert run(["analyze", "x"]) == 2
    assert capfd.readouterr().err == "launchscope: model\\x1b[31m.py: no step; name one\n"


def test_a_bug_is_one_line_and_its_traceback_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    raising(monkeypatch, KeyError("gpu_ops"))
    assert run(["analyze", "secret=1"]) == 2
    (log,) = tmp_path.iterdir()
    assert capfd.readouterr().err == f"launchscope: internal error, KeyError: 'gpu_ops' (please report it with {log})\n"
    assert "Traceback" in log.read_text()
    assert "secret" not in log.read_text()


def test_a_bug_whose_details_cannot_be_kept_is_still_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    raising(monkeypatch, ValueError("x"))
    assert run(["analyze", "x"]) == 2
    assert "its details could not be kept: No space left on device" in capfd.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        ImportError("libsqlite3.so.0: failed to map segment from shared object"),
    ],
)
def test_out_of_memory_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: Exception
) -> None:
    raising(monkeypatch, error)
    assert run(["analyze", "x"]) == 2
    assert capfd.readouterr().err.startswith("launchscope: out of memory: ")


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert run(["analyze", "x"]) == 130
    assert capfd.readouterr().err == "launchscope: interrupted\n"


def test_a_real_ctrl_c_is_130_too() -> None:
    code = """
import sys, time
from launchscope.cli import outputs, run
outputs.Destination.check = lambda *_: (print("up", flush=True), time.sleep(30))
sys.exit(run(["analyze", "x"]))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "launchscope: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_ctrl_c_while_an_object_is_cleared_away_is_not_lost(number: signal.Signals) -> None:
    code = f"""
import signal, sys, time
from launchscope.cli import main, outputs

class Interrupted:
    def __del__(self):
        signal.raise_signal({number})

def check(*_):
    Interrupted()
    time.sleep(30)

outputs.Destination.check = check
sys.argv[1:] = ["analyze", "x"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (128 + number, "launchscope: interrupted\n")


WHILE_IMPORTING = """
import signal, sys, time, traceback

class AsModulesInC:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            try:
                for _ in range({times}):
                    signal.raise_signal({number})
            except KeyboardInterrupt:
                traceback.print_exc()
                raise ImportError("failed to import")

sys.meta_path.insert(0, AsModulesInC())
sys.argv[1:] = ["analyze", {trace!r}]
from launchscope.__main__ import main
if {after!r}:
    from launchscope.cli import outputs
    outputs.Destination.write_report = lambda *_: time.sleep(30)
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("module", ["numpy", "launchscope.analysis.report"])
def test_ctrl_c_waits_for_an_import(tmp_path: Path, module: str, number: signal.Signals) -> None:
    """Modules in C, as numpy is, print its traceback and raise another error."""
    file = trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    code = WHILE_IMPORTING.format(module=module, number=number, times=1, trace=str(file), after=True)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "launchscope: interrupted\n")


@pytest.mark.parametrize("module", ["click", "launchscope.cli", "launchscope.analysis.model.errors"])
def test_ctrl_c_before_the_command_line_is_imported_is_told(module: str) -> None:
    code = WHILE_IMPORTING.format(module=module, number=int(signal.SIGINT), times=1, trace="x", after=False)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "launchscope: interrupted\n")


def test_ctrl_c_before_it_can_wait_is_told() -> None:
    code = """
import signal
def interrupted(*_):
    raise KeyboardInterrupt
signal.pthread_sigmask = interrupted
from launchscope.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "launchscope: interrupted\n")


def test_a_second_ctrl_c_does_not_wait_for_an_import(tmp_path: Path) -> None:
    file = trace().step(0).launch(1, 1).kernel(3, 1).write(tmp_path / "trace.json")
    code = WHILE_IMPORTING.format(module="numpy", number=int(signal.SIGINT), times=2, trace=str(file), after=True)
    code = code.replace("except KeyboardInterrupt:", "except ZeroDivisionError:")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (130, "launchscope: interrupted\n")


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"], ["--version"]], ids=" ".join)
def test_a_reader_that_leaves_is_no_error(arguments: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "launchscope", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 0


def test_a_broken_pipe_that_is_not_stdout_is_a_bug(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    raising(monkeypatch, BrokenPipeError(32, "Broken pipe"))
    assert run(["analyze", "x"]) == 2
    assert "internal error, BrokenPipeError" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"]], ids=" ".join)
def test_a_full_disk_behind_stdout_is_told(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "launchscope", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "can't write to stdout: No space left on device" in done.stderr


def test_closed_streams_are_survived() -> None:
    shell = (
        f"{sys.executable} -m launchscope --version >&-; echo $?; {sys.executable} -m launchscope nope 2>&-; echo $?"
    )
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n2\n", "")


def test_help_is_about_as_fast_as_importing_click() -> None:
    """At most 2×, in time of the processor: other tests run beside this. The fastest of alternating runs."""

    def seconds(*arguments: str) -> float:
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime

    click_alone, shown = [], []
    for _ in range(25):
        click_alone.append(seconds("-c", "import click"))
        shown.append(seconds("-m", "launchscope", "--help"))
        if len(shown) >= 5 and min(shown) <= 2 * min(click_alone):
            return
    assert min(shown) <= 2 * min(click_alone)
