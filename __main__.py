"""``python -m launchscope``, and the console script: the little that Ctrl-C may meet before it can be told."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """The command line. While it is imported, which takes a moment, Ctrl-C waits; it tells of it then."""
    try:
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        from .cli import main
    except KeyboardInterrupt:  # before the second line
        raise SystemExit(_interrupted()) from None
    main()


def _interrupted() -> int:
    """As the command line tells of it; the exit code."""
    import sys

    if sys.stderr is not None:
        print("launchscope: interrupted", file=sys.stderr)
    return 130


if __name__ == "__main__":
    main()
