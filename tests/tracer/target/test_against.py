"""Two targets measured in turn in one run, another revision of one among them; and enough processes for a check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from launchscope.analysis.compare import difference
from launchscope.analysis.model.capture import Manifest, open_capture
from launchscope.analysis.model.errors import BadTarget, LaunchscopeError, NothingMeasured
from launchscope.analysis.report import load
from launchscope.tracer.processes import api
from launchscope.tracer.target import checkout, options
from launchscope.tracer.target.options import ProfileOptions

from ..conftest import LAYER, Profiler, Shared, Write

ONE = """
    import fake_device

    def step():
        fake_device.launch("gemm")
"""
TWO = """
    import fake_device

    def step():
        fake_device.launch("gemm")
        fake_device.launch("norm")
"""
COMPILED = """
    import fake_device
    import torch

    @torch.compile(backend="eager")
    def inner(x):
        return x

    def step():
        fake_device.launch("gemm")
        return inner(torch.ones(1))
"""
USES_OPS = """
    from ops import step
"""
RUN_AGAINST = api.run_against


def manifest_of(path: Path) -> Manifest:
    return open_capture(path).manifest


def launches(path: Path, mode: str = "eager") -> float | None:
    profile = load(path).document.profile
    assert profile is not None
    return profile.modes[mode].launches


class Against(Profiler):
    """Profiles one script against another on the fake device."""

    def __init__(self, profiler: Profiler) -> None:
        super().__init__(profiler.server, profiler.folder)
        self.said: list[str] = []

    def pair(self, target: Path | str, against: str, **more: object) -> tuple[Path, Path]:
        chosen = {
            "modes": ("eager",),
            "repeats": 1,
            "steps": 4,
            "out": self.folder / "capture",
            "for_check": True,
        } | more
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
            patch.setattr(api, "ForkServer", lambda _: Shared(self.server))
            return RUN_AGAINST(ProfileOptions(target=str(target), **chosen), against, self.said.append, LAYER)  # type: ignore[arg-type]


@pytest.fixture
def against(profile: Profiler) -> Against:
    return Against(profile)


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, **files: str) -> str:
    """The hash of a commit of these files, by name without suffix."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a step")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, model=USES_OPS, ops=ONE)
    return folder


def test_a_run_for_checks_records_two_processes_of_a_mode_and_times_all(profile: Profiler, script: Write) -> None:
    assert options.CHECK_REPEATS == difference.PROCESSES
    path = profile(script(ONE), modes=("eager", "graph"), repeats=4, for_check=True)
    for mode, record in manifest_of(path).modes.items():
        timed = [process for process in record.processes if process.samples_ns]
        assert len(timed) == 4, mode
        assert [process.trace_pass for process in timed] == ["cuda", "cpu_cuda", None, None], mode
    assert [p.trace_pass for p in manifest_of(path).modes["eager"].processes][4:] == ["stacks"]
    assert launches(path) == 1


def test_two_targets_are_measured_in_turn_and_each_starts_as_often(against: Against, script: Write) -> None:
    mine, other = against.pair(script(ONE), str(script(TWO, "other.py")), repeats=2)
    assert [line.rpartition(",")[0] for line in against.said if line.endswith(": build")] == [
        "target: eager", "against: eager", "against: eager", "target: eager", "target: eager", "against: eager",
    ]  # fmt: skip
    assert (mine.name, other.name) == ("capture", "capture-against")
    assert (launches(mine), launches(other)) == (1, 2)
    assert manifest_of(mine).run == manifest_of(other).run is not None
    assert (manifest_of(mine).target.name, manifest_of(other).target.name) == ("model.py", "other.py")


def test_a_target_only_as_written_is_measured_as_often_as_the_other(against: Against, script: Write) -> None:
    compiled = script(COMPILED)
    mine, other = against.pair(compiled, str(script(TWO, "other.py")), repeats=2)
    for path in (mine, other):
        (record,) = manifest_of(path).modes.values()
        assert sum(bool(process.samples_ns) for process in record.processes) == 2


def test_another_revision_runs_its_own_code(against: Against, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "ops.py").write_text(textwrap.dedent(TWO))  # not committed: the working tree is what is measured
    mine, other = against.pair(repository / "model.py", "git:HEAD")
    assert (launches(mine), launches(other)) == (2, 1)
    assert manifest_of(mine).target.revision == f"{first}+"
    assert manifest_of(other).target.revision == first
    assert git(repository, "worktree", "list").count("\n") == 0


def test_another_revision_is_recorded_into_a_folder_named_from_here(
    against: Against, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    mine, other = against.pair(repository / "model.py", "git:HEAD", out=Path("out"))
    assert (mine, other) == (Path("out"), Path("out-against"))
    assert launches(other) == 1


def test_another_revision_of_a_module_is_found_from_the_current_folder(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "path", ["", str(repository), "/usr/lib"])
    with checkout.checked_out("HEAD", "ops:step") as (found, target):
        found.enter()
        assert target == "ops:step"
        assert Path.cwd() == Path(found.folder)
        assert sys.path == ["", found.folder, "/usr/lib"]


def test_code_of_the_working_tree_is_not_taken_for_the_revisions(against: Against, repository: Path) -> None:
    """As an editable installation does it: by a finder of its own."""
    finder = f"""
        import importlib.util
        import sys

        class Editable:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == "ops":
                    return importlib.util.spec_from_file_location(name, {str(repository / "ops.py")!r})

        sys.meta_path.insert(0, Editable)
        from ops import step
    """
    commit(repository, model=finder)
    with pytest.raises(BadTarget, match=r"ops came from the working tree .*not from that revision"):
        against.pair(repository / "model.py", "git:HEAD")
    assert not (against.folder / "capture").exists()
    assert not list(against.folder.glob(".*partial"))


@pytest.mark.parametrize(
    ("revision", "said"),
    [("nowhere", "no such revision"), ("--help", "no such revision"), ("HEAD^{tree}", "no such revision")],
)
def test_a_revision_that_is_not_there_is_told(against: Against, repository: Path, revision: str, said: str) -> None:
    with pytest.raises(LaunchscopeError, match=said):
        against.pair(repository / "model.py", f"git:{revision}")


def test_a_target_that_the_revision_lacks_is_told(against: Against, repository: Path) -> None:
    (repository / "new.py").write_text(textwrap.dedent(ONE))
    with pytest.raises(LaunchscopeError, match=r"has no .*new\.py"):
        against.pair(repository / "new.py", "git:HEAD")
    assert git(repository, "worktree", "list").count("\n") == 0


def test_a_folder_outside_of_git_is_told(against: Against, script: Write) -> None:
    with pytest.raises(LaunchscopeError, match="lies in no git repository"):
        against.pair(script(ONE), "git:HEAD")


def test_git_that_is_not_there_or_that_refuses_is_told_as_that(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(repository / "model.py")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(LaunchscopeError, match="git isn't installed"), checkout.checked_out("HEAD", model):
            pass
    (repository / ".git" / "config").write_text("[broken")
    with pytest.raises(LaunchscopeError, match="can be used: bad config"), checkout.checked_out("HEAD", model):
        pass


def test_what_a_git_hook_has_staged_stays_staged(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "ops.py").write_text(textwrap.dedent(TWO))
    git(repository, "add", "ops.py")
    monkeypatch.setenv("GIT_DIR", ".git")  # as git sets them for a hook
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git" / "index"))
    with checkout.checked_out("HEAD", str(repository / "model.py")) as (found, _):
        assert "norm" not in Path(found.folder, "ops.py").read_text()
    assert git(repository, "diff", "--cached", "--name-only") == "ops.py"


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"blank "])
def test_a_repository_of_any_name(repository: Path, tmp_path: Path, name: bytes) -> None:
    place = repository.rename(tmp_path / os.fsdecode(name))
    with checkout.checked_out("HEAD", str(place / "model.py")) as (found, target):
        assert found.repository == str(place)
        assert Path(target).is_file()


def test_what_was_measured_beside_a_side_that_fails_is_kept(against: Against, script: Write) -> None:
    broken = script("def step():\n    raise ZeroDivisionError('halfway')\n", "broken.py")
    with pytest.raises(NothingMeasured, match=r"against: .*halfway.*beside it is in .*capture"):
        against.pair(script(ONE), str(broken))
    assert launches(against.folder / "capture") == 1
    assert not list(against.folder.glob("*against*"))


def test_a_worktree_goes_with_a_run_that_is_killed(repository: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom launchscope.tracer.target.checkout import checked_out\n"
        f"with checked_out('HEAD', {str(repository / 'model.py')!r}) as (found, _):\n"
        "    print(found.folder, flush=True)\n    time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    assert (folder / "model.py").exists()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stdout.close()
    deadline = time.monotonic() + 20
    while folder.parent.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.parent.exists()
    while git(repository, "worktree", "list").count("\n") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert git(repository, "worktree", "list").count("\n") == 0


def test_a_worktree_goes_though_git_outlives_the_run_and_writes_on(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "revision" / "0123456789ab"
    folder.mkdir(parents=True)
    code = "import time\nfor n in range(800):\n    open(str(n), 'w').close()\n    time.sleep(0.0005)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=folder, stderr=subprocess.DEVNULL) as writing:
        while not (folder / "9").exists():
            time.sleep(0.001)
        checkout._remove(str(repository), str(folder))
        assert not folder.parent.exists()
        writing.kill()
