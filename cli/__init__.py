"""The command line: ``launchscope COMMAND …``, one command per file, loaded when it is named.

Exit codes: 0 fine · 1 a regression, from a finished `check` alone · 2 something to fix, an internal error too ·
3 a check that can't tell · 130 Ctrl-C · 143 and 129 SIGTERM and SIGHUP.
stdout carries the report and nothing else; everything else goes to stderr.
"""

from __future__ import annotations

import errno
import gc
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Final, NoReturn

import click

from ..analysis.model import __version__
from ..analysis.model.errors import LaunchscopeError
from .writing import (
    StdoutClosed,
    discard_stdout,
    flush_stdout,
    prepare_stdout,
    say,
    settle_stdout,
    stdout_is_read,
)

COMMANDS: Final = {
    "profile": "profile:profile",
    "analyze": "analyze:analyze",
    "compare": "compare:command",
    "check": "check:command",
    "baseline": "baseline:command",
    "doctor": "analyze:doctor",
    "export": "analyze:export",
    "dashboard": "dashboard:dashboard",
    "calibrate": "profile:calibrate",
    "model": "predict:model",
    "predict": "predict:predict",
    "whatif": "whatif:command",
    "sweep": "sweep:command",
    "demo": "dashboard:demo",
}
"""Command → its module, imported on use, and its function there."""

SOMETHING_TO_FIX: Final = 2
INTERRUPTED: Final = 130
_OUT_OF_MEMORY: Final = "out of memory: give it a smaller trace, or a machine with more"
_SOON_S: Final = 0.001
_BY_SIGNAL: Final = 128  # plus the signal's number
_IMPORTING: Final = "<frozen importlib._bootstrap>"  # where Python's import runs


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f".{module}", __name__), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            raise click.UsageError(f"no command '{word}'{_suggestion(word)}; they are {', '.join(COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="No GPU at hand? `launchscope demo` shows a real report, `launchscope predict` a model's step times, "
    "`launchscope analyze` reads your traces.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def launchscope() -> None:
    """Why is this decode step slower than the GPU allows?

    Measures launch overhead, idle gaps, fusion and CUDA graphs of an LLM's decode step, and says what to do next.
    """


def main() -> NoReturn:
    """Run the process's command line, and end the process. SIGTERM and SIGHUP act as Ctrl-C."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)  # a second one does not wait
        if received.count(number) > 1:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt
        _interrupt(number, frame)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # nohup ignores one
            signal.signal(number, interrupt)
    sys.unraisablehook = _interrupt_after_cleanup
    code = run(sys.argv[1:])
    signal.setitimer(signal.ITIMER_REAL, 0)
    if signal.getsignal(signal.SIGINT) == interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to report
    if code == INTERRUPTED:
        discard_stdout()
        code = _BY_SIGNAL + (received[0] if received else signal.SIGINT)
    gc.freeze()  # Python looks for cycles as it ends, among all that a large trace left: 0.1 s
    sys.exit(code)


def _interrupt_after_cleanup(lost: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C during an object's ``__del__``, where Python prints a traceback and goes on."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _interrupt_soon()
    else:
        sys.__unraisablehook__(lost)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, during an import a little later: modules in C would make an ImportError of it."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            _interrupt_soon()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_soon() -> None:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, _SOON_S)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. An error is one line on stderr, never a traceback."""
    prepare_stdout()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # which waited while this was imported
        code = _invoke(list(arguments))
        flush_stdout()
        return code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message(), whole=True)
        return SOMETHING_TO_FIX
    except Exception as error:
        # click's --help meets a pipe without a reader as a plain BrokenPipeError; one from another pipe is a bug
        pipe_left = isinstance(error, StdoutClosed) or (isinstance(error, BrokenPipeError) and not stdout_is_read())
        settle_stdout()
        if pipe_left:
            return 0
        say(_message_of(error, arguments))
        return SOMETHING_TO_FIX


def _message_of(error: Exception, arguments: Sequence[str]) -> str:
    match error:
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "launchscope"
            message = error.format_message().rstrip(".")
            return f"{message[:1].lower()}{message[1:]} (see {path} --help)"
        case LaunchscopeError():
            return str(error)
        case MemoryError() | OSError(errno=errno.ENOMEM):
            return _OUT_OF_MEMORY
        case ImportError() if "failed to map segment" in str(error):  # of a library, for which memory is lacking
            return _OUT_OF_MEMORY
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO | errno.EAGAIN, filename=None):
            return f"can't write to stdout: {error.strerror}"  # click's --help, which writes by itself
        case _:
            return _internal_error(error, arguments)


def _invoke(arguments: list[str]) -> int:
    """Not ``click.Group.main``: that one exits with 1 on a broken pipe, and 1 means a regression here."""
    try:
        with launchscope.make_context("launchscope", arguments) as ctx:
            launchscope.invoke(ctx)
    except click.exceptions.Exit as leave:  # --help and --version
        return leave.exit_code
    return 0


def _suggestion(word: str) -> str:
    if word.partition(":")[0].endswith(".py"):
        return f" (did you mean 'launchscope profile {word}'?)"
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), COMMANDS, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _internal_error(error: Exception, arguments: Sequence[str]) -> str:
    """One line that names the error and the file that holds its traceback."""
    import os
    import tempfile
    import traceback

    line = f"internal error, {type(error).__name__}: {error}"
    command = arguments[0] if arguments else ""  # no more of them: logs get mailed, and --set may hold a secret
    head = f"launchscope {__version__} {command}, Python {sys.version}\n\n"
    try:
        descriptor, path = tempfile.mkstemp(prefix="launchscope-error-", suffix=".log")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write(head + "".join(traceback.format_exception(error)))
    except OSError as failed:
        return f"{line} (its details could not be kept: {failed.strerror})"
    return f"{line} (please report it with {path})"
