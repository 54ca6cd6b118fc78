"""Whatever lies at a path, or keeps it from being looked at: a command says so in one line, whichever option has it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import TypeVar

import pytest
from launchscope.cli import run
from launchscope.fixtures.builder import trace

from ..analysis.captures import two_modes, write_capture
from ..rights import rights_hold

COMMANDS = """
analyze {path}
analyze {trace} {path}
analyze --ranks {path}
analyze --ranks --workers 1 {trace} {path}
analyze {trace} --ranks --resume {path}
analyze {trace} -o {path}
compare {path} {trace}
compare {trace} {path}
compare {trace} {trace} -o {path}
check {path}
check {trace} --baseline {path}
check {trace} --config {path}
check --validate --config {path}
check {trace} --config {config} -o {path}
check {trace} --config {config} --junit {path}
check {trace} --config {config} --markdown {path}
check {trace} --config {config} --benchmark {path}
baseline save {path} --dir {new}
baseline save {trace} --dir {path}
baseline list --dir {path}
baseline show --dir {path}
baseline prune --keep 1 --dir {path}
doctor {path}
doctor {trace} -o {path}
export {path} -o {new}.json
export {trace} -o {path}/out.json
dashboard --no-browser {path}
dashboard --no-browser --ranks {path}
dashboard --no-browser {trace} {path}
model {path}
model {trace} -o {path}
whatif {path} --tau 2us
whatif {trace} --tau 2us -o {path}
profile {path}
profile {path}:build
profile {script} --against {path}
profile {script} -o {path}
predict {script} --calibration {path}
sweep {path}
sweep {script} --batch-histogram {path}
sweep {script} --captures {path}
sweep {script} -o {path}
demo -o {path}
"""

Made = TypeVar("Made", bound=Callable[[Path], Path | str])
ODD: dict[str, Callable[[Path], Path | str]] = {}


def odd(make: Made) -> Made:
    ODD[make.__name__] = make
    return make


@odd
def missing(place: Path) -> Path:
    return place / "missing"


@odd
def empty_folder(place: Path) -> Path:
    (place / "folder").mkdir()
    return place / "folder"


@odd
def text_file(place: Path) -> Path:
    (place / "notes").write_text("not a trace")
    return place / "notes"


@odd
def below_a_file(place: Path) -> Path:
    return text_file(place) / "below"


@odd
def locked_file(place: Path) -> Path:
    trace().step(0).launch(1, 1).kernel(3, 1).write(place / "locked.json")
    (place / "locked.json").chmod(0)
    return place / "locked.json"


@odd
def locked_folder(place: Path) -> Path:
    (place / "locked" / "in").mkdir(parents=True)
    trace().step(0).launch(1, 1).kernel(3, 1).write(place / "locked" / "in" / "trace.json")
    (place / "locked").chmod(0)
    return place / "locked"


@odd
def in_a_locked_folder(place: Path) -> Path:
    return locked_folder(place) / "in" / "trace.json"


@odd
def missing_in_a_locked_folder(place: Path) -> Path:
    return locked_folder(place) / "missing"


@odd
def folder_to_enter_but_not_to_list(place: Path) -> Path:
    locked_folder(place).chmod(0o100)
    return place / "locked"


@odd
def folder_to_list_but_not_to_enter(place: Path) -> Path:
    locked_folder(place).chmod(0o400)
    return place / "locked"


@odd
def folder_with_a_locked_one(place: Path) -> Path:
    return locked_folder(place).parent


@odd
def name_too_long(place: Path) -> Path:
    return place / ("n" * 300)


@odd
def path_too_long(place: Path) -> Path:
    return place.joinpath(*["folder" * 20] * 50)


@odd
def circle_of_links(place: Path) -> Path:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    return place / "a"


@odd
def below_a_circle_of_links(place: Path) -> Path:
    return circle_of_links(place) / "trace.json"


@odd
def link_to_nothing(place: Path) -> Path:
    (place / "link").symlink_to("nothing")
    return place / "link"


@odd
def a_socket(place: Path) -> Path:
    here = Path.cwd()
    os.chdir(place)  # its name may have 107 bytes
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    os.chdir(here)
    return place / "socket"


@odd
def a_device(_: Path) -> Path:
    return Path("/dev/zero")


@odd
def a_device_that_is_full(_: Path) -> Path:
    return Path("/dev/full")


@odd
def bytes_that_are_no_utf8(place: Path) -> Path:
    return place / "name\udcff.json"


@odd
def in_a_folder_that_was_deleted(place: Path) -> Path:
    (place / "gone").mkdir()
    os.chdir(place / "gone")
    (place / "gone").rmdir()
    return Path("trace.json")


@odd
def nothing(_: Path) -> str:
    return ""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder, whose content can be deleted again; it is the current one."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for folder, _, _ in os.walk(tmp_path):
        Path(folder).chmod(0o700)


@pytest.fixture(autouse=True)
def nothing_hangs() -> Iterator[None]:
    def ring(_: int, __: FrameType | None) -> None:
        pytest.fail("hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ODD)
def test_it_is_told_in_a_line(
    kind: str, place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SimpleNamespace(serve=lambda *_, **__: None, serve_many=lambda *_, **__: None)
    monkeypatch.setattr("launchscope.cli.dashboard._server", lambda: server)
    monkeypatch.setattr("launchscope.cli.dashboard.DEMOS", place / "demos")
    write_capture(place / "demos" / "llama_1b.zip", two_modes())
    there = {
        "trace": trace().step(0).launch(1, 1).kernel(3, 1).write(place / "trace.json"),
        "config": place / "limits.toml",
        "script": place / "model.py",
    }
    (place / "limits.toml").write_text("[limits]\nlaunches = 1\n")
    (place / "model.py").write_text("def build(): ...\n")
    wrong = []
    for number, line in enumerate(COMMANDS.split("\n")[1:-1]):
        (place / str(number)).mkdir()
        path = ODD[kind](place / str(number))
        words = [word.format(**there, path=path, new=place / f"new-{number}") for word in line.split()]
        with rights_hold():
            code = run(words)
        out, err = capfd.readouterr()
        is_told = code == 0 or err.startswith("launchscope: ")
        if code not in (0, 2, 3) or not is_told or "internal error" in out + err or "Traceback" in err:
            wrong.append(f"{line}: {code}: {err}")
    assert wrong == []
