"""What a capture says about its target and its machine, with nothing that tells who or where the user is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ...analysis.model import capture
from ...analysis.model.secrets import is_secret, text_without_secrets, value_without_secrets, without_words

MASK: Final = "***"
_NAME_HOSTS: Final = ("--rdzv-endpoint", "--local-addr")
"""Options of ours whose value is the name of a host."""
_GIT_S: Final = 10.0  # longer than git takes for what it looks up
_OF_GIT_HOOKS: Final = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def parts_of_target(spec: str) -> tuple[str, str | None]:
    """File or module of a target, and the name after the colon; null where there is none."""
    place, _, name = spec.rpartition(":")
    return (place, name) if place and name.isidentifier() else (spec, None)


def target_name(spec: str) -> str:
    """`model.py` or `model.py:name`, without the folder."""
    place, name = parts_of_target(spec)
    return _writable(Path(place).name if name is None else f"{Path(place).name}:{name}")


def _writable(text: str) -> str:
    """What JSON can hold: bytes of a path that are not UTF-8 become ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def revision(spec: str) -> str | None:
    """Git commit of the folder that the target lies in, with a + when the folder has changes; null outside git."""
    path = Path(parts_of_target(spec)[0])
    folder = Path(os.path.realpath(path)).parent if path.suffix == ".py" else Path.cwd()
    commit = git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("+" if git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def git(folder: Path, *arguments: str) -> str | None:
    """What git says in the folder; null when it fails, or isn't there."""
    done = run_git(folder, *arguments)
    return done.stdout.removesuffix("\n") if done is not None and done.returncode == 0 else None


def run_git(
    folder: str | Path, *arguments: str, timeout_s: float | None = _GIT_S
) -> subprocess.CompletedProcess[str] | None:
    """How git answered in the folder; null when it isn't there, or takes too long. Paths are as Python has them.

    Without what tells a git hook its repository: a new worktree would be read into that one's index.
    """
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={name: value for name, value in os.environ.items() if name not in _OF_GIT_HOOKS},
            capture_output=True, timeout=timeout_s, check=False,
            encoding=sys.getfilesystemencoding(), errors="surrogateescape",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def masked(settings: Mapping[str, str]) -> dict[str, str]:
    """--set values without secrets, and without the name of the user's home."""
    return {
        key: MASK if is_secret(key, value) else _homeless(value_without_secrets(value))
        for key, value in settings.items()
    }


def masked_text(text: str, settings: Mapping[str, str]) -> str:
    """What a process said, without the secrets that --set gave it and without those that any text may hold."""
    given = [value for key, value in settings.items() if is_secret(key, value)]
    return without_words(text_without_secrets(text), given)


def masked_process(process: capture.ProcessRecord, kept: Callable[[str], str]) -> capture.ProcessRecord:
    """The record, what it quotes of errors as ``kept`` gives it back."""
    failure = process.failure
    if failure is not None:
        line = None if failure.line is None else kept(failure.line)
        failure = msgspec.structs.replace(failure, reason=kept(failure.reason), line=line)
    error = None if process.error is None else kept(process.error)
    notes = tuple(map(kept, process.notes))
    return msgspec.structs.replace(process, error=error, failure=failure, notes=notes)


def without_hosts(text: str, hosts: Mapping[str, str]) -> str:
    """The text, each host by what ``hosts`` calls it, with or without its domain."""
    short = {name.partition(".")[0]: label for name, label in hosts.items()}
    for name, label in [*hosts.items(), *short.items()]:
        if not name.isdecimal():  # the first part of an address
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(\.[\w-]+)*(?![\w-])", label, text)
    return text


def _homeless(text: str) -> str:
    home = str(Path.home())
    return text if home == "/" else re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)


def masked_command(arguments: list[str]) -> tuple[str, ...]:
    """The command line as typed, paths cut to their last part, secrets and names of hosts replaced."""
    program, *rest = arguments or [""]
    name = "launchscope" if Path(program).name == "__main__.py" else Path(program).name  # python -m launchscope
    words = [
        MASK if _is_hidden(before, word) and not word.startswith("-") else _masked_word(word)
        for before, word in zip(["", *rest], rest, strict=False)
    ]
    return (_writable(name), *map(_writable, words))


def _is_hidden(option: str, word: str) -> bool:
    """Whether the word behind this option is nobody's to see: ``--hf-token``, ``--rdzv-endpoint``."""
    return option in _NAME_HOSTS or (option.startswith("-") and "=" not in option and is_secret(option, word))


def _masked_word(argument: str) -> str:
    *keys, value = value_without_secrets(argument).split("=")  # --set=key=value is one word
    for index, key in enumerate(keys):
        if key in _NAME_HOSTS or is_secret(key, "=".join([*keys[index + 1 :], value])):
            return "=".join([*keys[: index + 1], MASK])
    if value.startswith("/") or ("/" in value and not keys):
        value = Path(value).name
    return "=".join([*keys, _homeless(value)])
