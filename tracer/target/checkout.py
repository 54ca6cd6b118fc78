"""Another revision of the target's repository, in a git worktree of its own that goes however the run ends.

    python -P -m launchscope.tracer.target.checkout REPOSITORY FOLDER

removes the worktree when its standard input closes: at the end of the run, or when the run was killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...analysis.model.errors import BadTarget, LaunchscopeError
from ...analysis.model.paths import exists, is_file, is_folder
from .describe import git, parts_of_target, run_git

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_TRIES: Final = 100
_BETWEEN_S: Final = 0.1
_SHOWN: Final = 3  # modules that a message names


@dataclass(frozen=True)
class Checkout:
    """A revision in a folder of its own."""

    repository: str  # top level of the working tree that the user works in
    folder: str  # top level of the revision
    commit: str

    def counterpart(self, path: str | Path) -> Path | None:
        """The same place in the revision; null for what lies outside of the repository, or was installed into it."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.repository) or _INSTALLED & set(real.parts):
            return None
        return Path(self.folder, real.relative_to(self.repository))

    def enter(self) -> None:
        """From now on this process finds the revision where it found the working tree."""
        here = self.counterpart(Path.cwd())
        if here is not None:
            os.chdir(here if is_folder(here) else self.folder)
        sys.path[:] = [str(self.counterpart(entry) or entry) if entry else entry for entry in sys.path]

    def refuse_strangers(self) -> None:
        """BadTarget if code of the working tree was imported after all, by way of an editable installation."""
        strangers = sorted(
            name
            for name, module in list(sys.modules.items())
            if (file := getattr(module, "__file__", None))
            and self.counterpart(file)
            and (name.partition(".")[0] != "launchscope" or name.startswith("launchscope.fixtures.models"))
        )
        if strangers:
            more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
            raise BadTarget(
                f"git:{self.commit[:12]}: {', '.join(strangers[:_SHOWN])}{more} came from the working tree "
                f"{self.repository}, not from that revision (installed with pip -e?): both sides would run the same "
                "code; uninstall it, and import it from the target's own folder"
            )


@contextmanager
def checked_out(revision: str, target: str) -> Iterator[tuple[Checkout, str]]:
    """The revision of the repository that the target lies in, and the target there, until the end of the block.

    Hooks don't run and submodules stay empty. LaunchscopeError outside of git, for a revision that isn't there, and
    for one without the target.
    """
    place, name = parts_of_target(target)
    file = Path(place)
    is_script = file.suffix == ".py" or exists(file)
    home = Path(os.path.realpath(file)).parent if is_script else Path.cwd()
    repository = os.path.realpath(_top(home, revision))
    commit = git(home, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        raise LaunchscopeError(
            f"--against git:{revision}: no such revision in {repository}; a CI's checkout may need more depth"
        )
    parent = tempfile.mkdtemp(prefix="launchscope-revision-")
    checkout = Checkout(repository, str(Path(parent, commit[:12])), commit)
    with _removed_at_the_end(checkout):
        _add(checkout, revision)
        if not is_script:
            yield checkout, target
            return
        there = checkout.counterpart(file)
        if there is None or not is_file(there):
            raise LaunchscopeError(f"--against git:{revision}: that revision has no {file}")
        yield checkout, str(there) if name is None else f"{there}:{name}"


def _top(home: Path, revision: str) -> str:
    done = run_git(home, "rev-parse", "--show-toplevel")
    if done is None:
        raise LaunchscopeError(f"--against git:{revision}: git isn't installed, or doesn't answer")
    if done.returncode:
        why = done.stderr.strip().removeprefix("fatal: ")
        raise LaunchscopeError(f"--against git:{revision}: {home} lies in no git repository that can be used: {why}")
    return done.stdout.removesuffix("\n")


@contextmanager
def _removed_at_the_end(checkout: Checkout) -> Iterator[None]:
    """A process of its own waits for our end, of whatever kind, and removes the worktree then."""
    remover = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, checkout.repository, checkout.folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us
    )
    assert remover.stdin is not None
    try:
        yield
    finally:
        remover.stdin.close()
        remover.wait()


def _add(checkout: Checkout, revision: str) -> None:
    add = ("worktree", "add", "--quiet", "--detach", checkout.folder, checkout.commit)
    done = run_git(checkout.repository, "-c", "core.hooksPath=/dev/null", *add, timeout_s=None)
    if done is None or done.returncode:
        why = "git isn't installed" if done is None else done.stderr.strip()
        raise LaunchscopeError(f"--against git:{revision}: it can't be checked out: {why}")


def _remove(repository: str, folder: str) -> None:
    twice = ("--force", "--force")  # once for its changes, once for the lock of one that is still being made
    run_git(repository, "worktree", "remove", *twice, folder, timeout_s=None)
    for _ in range(_TRIES):  # git may outlive a run that was killed, and write on
        shutil.rmtree(Path(folder).parent, ignore_errors=True)
        if not Path(folder).parent.exists():
            break
        time.sleep(_BETWEEN_S)
    run_git(repository, "worktree", "prune", timeout_s=None)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _remove(*sys.argv[1:])
