"""Where text goes: the report to stdout or whole into a file, everything else to stderr."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ..analysis.model.errors import LaunchscopeError, one_line

WIDTH: Final = 100  # columns, where there is no terminal to ask
MANIFEST: Final = "manifest.json"  # of a capture, as analysis.capture writes it; that loads msgspec
NARROWEST: Final = 40
WIDEST: Final = 1000  # COLUMNS may hold anything


class StdoutClosed(Exception):
    """The reader of stdout has closed it, as in ``| head``: no error, and nothing more to write."""


def say(text: str, *, whole: bool = False) -> None:
    """One line on stderr, ``launchscope: …``; ``whole`` keeps the text as it is. A lost stderr is no error."""
    if sys.stderr is None:  # started with stderr closed; print would turn to stdout
        return
    with contextlib.suppress(OSError, ValueError):
        print(text if whole else f"launchscope: {one_line(text)}", file=sys.stderr, flush=True)


def terminal_width() -> int:
    """Columns of the terminal on stdout (or ``COLUMNS``), else 100."""
    from shutil import get_terminal_size

    return min(max(get_terminal_size(fallback=(WIDTH, 24)).columns, NARROWEST), WIDEST)


def wants_color() -> bool:
    """On a terminal only; NO_COLOR and FORCE_COLOR overrule that, in this order (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def prepare_stdout() -> None:
    """Make a terminal whose encoding lacks τ or █ show ``?``, and put a buffer before a stdout without one.

    PYTHONUNBUFFERED and ``python -u`` leave none. A buffer writes until all is written, or fails. Without one Python
    takes a write of which a full disk took a part for a whole one.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.RawIOBase):
            buffer = os.fdopen(sys.stdout.fileno(), "wb", closefd=False)
            sys.stdout = io.TextIOWrapper(buffer, sys.stdout.encoding, sys.stdout.errors, line_buffering=True)
        sys.stdout.reconfigure(errors="replace")


def print_report(text: str | bytes, *, utf8: bool = False) -> None:
    """Write the report to stdout, in the terminal's encoding, or in UTF-8 whatever that is, for programs to read.

    Raises LaunchscopeError when stdout takes no more, StdoutClosed when its reader has gone.
    """
    if sys.stdout is None:  # started with stdout closed
        raise LaunchscopeError("can't write the report: stdout is closed; use -o FILE")
    whole = text if isinstance(text, bytes) or text.endswith("\n") else f"{text}\n"
    with _writing_to_stdout():
        if isinstance(whole, bytes):
            sys.stdout.buffer.write(whole)
        elif utf8:
            sys.stdout.buffer.write(whole.encode())
        else:
            sys.stdout.write(whole)
        sys.stdout.flush()


def flush_stdout() -> None:
    """Write what is still buffered, while an error can be reported: at exit Python could not."""
    if sys.stdout is not None:
        with _writing_to_stdout():
            sys.stdout.flush()


def settle_stdout() -> None:
    """After an error: drop what stdout does not take, or Python would fail again when it flushes at exit."""
    try:
        flush_stdout()
    except (StdoutClosed, LaunchscopeError):
        discard_stdout()


def discard_stdout() -> None:
    """Drop what stdout has not taken yet, and what follows: writing it could wait for a reader for ever."""
    if sys.stdout is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def stdout_is_read() -> bool:
    """False when stdout is a pipe that nobody reads any more."""
    import select

    with contextlib.suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return not any(event & select.POLLERR for _, event in poll.poll(0))
    return True


def check_writable(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse, before any work is done, a place for ``-o`` that can't be written or that is, or is in, an input."""
    with _errors_as(f"{path}: can't be written"):
        is_folder, has_folder, exists = path.is_dir(), path.parent.is_dir(), path.exists()
        is_special = exists and not path.is_file()
        is_allowed = is_special or os.access(Path(os.path.realpath(path)).parent, os.W_OK | os.X_OK)
        is_protected = exists and not os.access(path, os.W_OK)
    if is_folder:
        raise LaunchscopeError(f"{path}: is a folder; name a file for -o")
    if not has_folder:
        raise LaunchscopeError(f"{path}: the folder {path.parent} doesn't exist; make it first")
    for given in _expanded(inputs) if exists else ():
        if what := _overwritten(path, given):
            raise LaunchscopeError(f"{path}: {what}; -o would overwrite it: name another file")
    if is_protected:
        raise LaunchscopeError(f"{path}: is write-protected; name another file for -o")
    if not is_allowed:
        raise LaunchscopeError(f"{path}: can't be written: no right to write in the folder {path.parent}")


def _expanded(inputs: Iterable[Path]) -> Iterator[Path]:
    """The inputs; of a pattern, the files that match."""
    for given in inputs:
        if glob.has_magic(str(given)) and not os.path.lexists(given):
            yield from map(Path, glob.iglob(str(given), recursive=True))  # noqa: PTH207  # Path's takes no / first
        else:
            yield given


def _overwritten(path: Path, given: Path) -> str | None:
    """Why the file counts as an input: it is the input, a part of a capture, or lies in a folder of traces.

    Null otherwise: a report may lie in a capture's folder.
    """
    try:
        if not given.is_dir():
            parts: Iterable[Path] = (given,)
        elif (given / MANIFEST).exists():
            parts = (part for part in (given / MANIFEST, *(given / "traces").rglob("*")) if part.is_file())
        else:
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(given))
            return f"in {given}, which is an input" if inside else None
        return "is an input" if any(path.samefile(part) for part in parts) else None
    except OSError:  # reading the input will report it
        return None


def write_file(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write ``path`` whole or not at all: a temporary name in the same folder, fsync, rename.

    A pipe or a device is written directly, and so is the file that stdout goes to: a rename would replace it.
    Raises LaunchscopeError, StdoutClosed as ``print_report`` does, and whatever making the content raises.
    """
    check_writable(path)
    if isinstance(content, str | bytes):
        content = [content.encode("utf-8") if isinstance(content, str) else content]
    what = f"{path}: can't be written"
    with _errors_as(what):
        try:
            status = path.stat()
        except FileNotFoundError:
            status = None
        final = Path(os.path.realpath(path))  # through a link to the file that it names
    if status is None or (stat.S_ISREG(status.st_mode) and not _is_stdout(status)):
        _replace(final, content, None if status is None else stat.S_IMODE(status.st_mode), what)
    elif not _is_stdout(status):
        with _errors_as(what), path.open("wb") as file:
            file.writelines(content)
    else:
        for piece in content:
            print_report(piece)


def _is_stdout(status: os.stat_result) -> bool:
    """Whether this is what stdout writes to: a file that is redirected to, or a pipe given as /dev/stdout."""
    try:
        return sys.stdout is not None and os.path.samestat(status, os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # a notebook's stdout has no file
        return False


def _replace(final: Path, content: Iterable[bytes], mode: int | None, what: str) -> None:
    temporary = final.with_name(f".launchscope-{os.getpid()}-{os.urandom(4).hex()}.partial")
    try:
        with _errors_as(what):
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.writelines(content)
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                temporary.chmod(mode)
            temporary.replace(final)
    except BaseException:  # Ctrl-C too must not leave half a file behind
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _errors_as(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LaunchscopeError(f"{what}: {error.strerror or error}") from error


@contextlib.contextmanager
def _writing_to_stdout() -> Iterator[None]:
    try:
        with _errors_as("can't write to stdout"):
            yield
    except LaunchscopeError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            raise StdoutClosed from error
        raise
