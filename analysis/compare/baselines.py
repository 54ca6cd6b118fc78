"""Baselines: a folder of saved snapshots that is meant to be committed. One file per save, none is ever changed.

    launchscope-baselines/<target>/<mode>/<machine>-<date>-<commit>-<random>.json

Two jobs that save at once write two files; a file is there whole or not at all.
"""

from __future__ import annotations

import errno
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from typing import Final

import msgspec

from ..model.capture import AS_WRITTEN
from ..model.errors import LaunchscopeError, UnreadableInput
from ..model.paths import content, exists, is_file, is_folder, listed
from ..model.units import printable
from .snapshot import SCHEMA, TRACE, Snapshot, Timing

FOLDER: Final = "launchscope-baselines"
"""Where baselines are kept unless another folder is named."""

_SUFFIX: Final = ".json"
_SLUG: Final = 60  # characters of a name; file systems take 255 bytes
_COMMIT: Final = 12
_ANY_VERSION: Final = SCHEMA.rpartition("/")[0]
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


@dataclass(frozen=True)
class Baseline:
    """A saved snapshot and its file."""

    path: Path
    snapshot: Snapshot


def save(snapshots: Sequence[Snapshot], folder: Path, now: datetime) -> list[Path]:
    """Save each snapshot as a baseline in a file of its own. LaunchscopeError for what no baseline can rest on.

    ``now`` is in UTC. All are looked at before the first is written, and where one can't be written none stays.
    """
    for snapshot in snapshots:
        _require_figures(snapshot)
    written: list[Path] = []
    try:
        for snapshot in snapshots:
            written.append(_write(_lean(snapshot, now), folder, now))
    except BaseException:  # Ctrl-C too must not leave some modes of a capture as if they were all
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written


def read_folder(folder: Path) -> list[Baseline]:
    """All baselines in a folder, by target, mode and age. UnreadableInput names a damaged one."""
    found = [Baseline(path, read_file(path)) for path in _files(folder)]
    return sorted(found, key=lambda each: (each.snapshot.target, each.snapshot.mode, *_age_of(each)))


def read_file(path: Path) -> Snapshot:
    """One baseline. UnreadableInput when it is none, or damaged, or of a later launchscope."""
    if exists(path) and not is_file(path):  # a pipe nobody writes to
        raise UnreadableInput(f"{path}: is no file, so no baseline: delete it")
    return decode(content(path), path)


def decode(data: bytes, path: Path) -> Snapshot:
    """The baseline that a file's content is; errors as ``read_file``."""
    remedy = "restore it from the repository, or delete it and save another"
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
        if not schema.startswith(_ANY_VERSION):
            raise UnreadableInput(f"{path}: is no baseline, though it lies where they do: move it elsewhere")
        if schema != SCHEMA:
            raise UnreadableInput(f"{path}: its schema is {schema!r}; this launchscope reads {SCHEMA!r}: update it")
        return msgspec.json.decode(data, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableInput(f"{path}: a damaged baseline ({error}); {remedy}") from error


def encode(snapshot: Snapshot) -> bytes:
    """The file of a baseline: a line for each field, so that two can be told apart by a diff, and small."""
    fields = msgspec.json.decode(msgspec.json.encode(snapshot), type=dict[str, msgspec.Raw])
    lines = [msgspec.json.encode(name) + b": " + bytes(value) for name, value in fields.items()]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def is_folder_of_baselines(path: Path) -> bool:
    """Whether files lie in a folder where baselines do; errors as ``read_folder``, but that none is read."""
    return bool(_files(path))


def superseded(baselines: Iterable[Baseline], keep: int) -> list[Baseline]:
    """All but the newest ``keep`` of each target, mode, setup and kind of machine, the oldest first."""
    alike: dict[tuple[object, ...], list[Baseline]] = defaultdict(list)
    for each in baselines:
        alike[*each.snapshot.key, *each.snapshot.fingerprint.values()].append(each)
    old = [each for its in alike.values() for each in sorted(its, key=_age_of)[: max(len(its) - keep, 0)]]
    return sorted(old, key=_age_of)


def remove(baselines: Iterable[Baseline]) -> None:
    """Delete these files. One that is gone already is no error; folders stay, as another job may be saving there."""
    for each in baselines:
        try:
            each.path.unlink(missing_ok=True)
        except OSError as error:
            raise LaunchscopeError(f"{each.path}: can't be deleted ({error.strerror})") from error


def _files(folder: Path) -> list[Path]:
    """Files that lie where baselines do. UnreadableInput for a folder that hides its own: they would be passed over."""
    places = [folder] if is_folder(folder) else []
    for _ in ("target", "mode"):
        places = [path for place in places for path in listed(place) if is_folder(path)]
    files = [path for place in places for path in listed(place) if path.suffix == _SUFFIX]
    return sorted(path for path in files if not path.name.startswith("."))


def _age_of(baseline: Baseline) -> tuple[object, ...]:
    return (*age(baseline.snapshot), baseline.path)


class _Versioned(msgspec.Struct):
    schema: str = ""


def _require_figures(snapshot: Snapshot) -> None:
    what, others = f"{snapshot.target}, {snapshot.mode}", "--mode names those to save"
    if snapshot.error is not None:
        raise LaunchscopeError(f"{what}: it failed to run, so it is no baseline: {snapshot.error}; {others}")
    if snapshot.unreliable:
        reasons = "; ".join(snapshot.unreliable)
        raise LaunchscopeError(f"{what}: the recording can't be trusted, so it is no baseline: {reasons}; {others}")
    if snapshot.launches is None:
        why = snapshot.withheld.get("launches", "nothing was counted")
        raise LaunchscopeError(f"{what}: without counts per step, so it is no baseline: {why}; {others}")


def _lean(snapshot: Snapshot, now: datetime) -> Snapshot:
    """As it is kept: samples in whole ns, and no folder of this machine."""
    timings = tuple(
        Timing(
            repeat=timing.repeat,
            samples_ns=tuple(max(round(ns), 1) for ns in timing.samples_ns),
            host_submit_ns=tuple(round(ns) for ns in timing.host_submit_ns),
        )
        for timing in snapshot.timings
    )
    source = PurePath(snapshot.source).name
    return msgspec.structs.replace(snapshot, timings=timings, source=source, saved=f"{now:%Y-%m-%dT%H:%M:%S.%fZ}")


def _write(snapshot: Snapshot, folder: Path, now: datetime) -> Path:
    """Under a temporary name, which becomes a link to the last one: that never replaces a file."""
    place = folder / _slug(snapshot.target) / _slug(snapshot.mode)
    machine, commit = str(snapshot.machine.get("gpu") or "unknown-gpu"), (snapshot.commit or "")[:_COMMIT]
    name = "-".join(_slug(part) for part in (machine, f"{now:%Y%m%dT%H%M%SZ}", commit) if part)
    try:
        place.mkdir(parents=True, exist_ok=True)
        temporary = place / f".{os.getpid()}-{os.urandom(8).hex()}.partial"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(encode(snapshot))
                file.flush()
                os.fsync(file.fileno())
            while True:
                final = place / f"{name}-{os.urandom(4).hex()}{_SUFFIX}"
                if _name(temporary, final):
                    return final
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise LaunchscopeError(f"{place}: no baseline can be written there ({error.strerror}); use --dir") from error


def _name(temporary: Path, final: Path) -> bool:
    """Give the file its name; False when another has it."""
    try:
        final.hardlink_to(temporary)
    except FileExistsError:
        return False
    except OSError as error:  # a file system without hard links
        if error.errno not in _NO_LINKS:
            raise
        if exists(final):
            return False
        temporary.rename(final)
    return True


def _slug(name: str) -> str:
    """A name that any file system takes, and no folder above its own."""
    return _UNSAFE.sub("-", name).strip(".-")[:_SLUG] or "unnamed"


_BY_ITS_OWN_HAND: Final = ("eager", AS_WRITTEN)
"""Modes that run a target as its author made it: which one tells whether it replayed graphs by its own hand."""


def baseline_of(
    current: Snapshot, all_current: Sequence[Snapshot], baselines: Sequence[Snapshot], *, named: bool
) -> Snapshot | None:
    """The baseline of the same target, mode and setup: of the same kind of machine if there is one, else the newest.

    A target that replayed graphs by its own hand (as_written) and no longer does (eager) is compared with itself. A
    trace of others fits another whatever their names are if there is one on each side. ``named``: these baselines
    were given themselves, not looked up in a folder; then the only target's name, and the setup of the only one of
    this mode, need not be the same.
    """
    fitting = [each for each in baselines if each.key == current.key]
    if not fitting and current.mode in _BY_ITS_OWN_HAND:
        modes = {each.mode for each in all_current}
        fitting = [each for each in baselines if _is_the_same_step(each, current) and each.mode not in modes]
    if not fitting and current.mode == TRACE:
        others = [each for each in baselines if each.mode == TRACE]
        alone = sum(each.mode == TRACE for each in all_current) == len({each.target for each in others}) == 1
        fitting = others if alone else []
    if not fitting and named and len({each.target for each in all_current}) == len({b.target for b in baselines}) == 1:
        of_mode = [each for each in baselines if each.mode == current.mode]
        if not of_mode and {each.mode for each in all_current} <= set(_BY_ITS_OWN_HAND):
            of_mode = [each for each in baselines if each.mode in _BY_ITS_OWN_HAND]
        fitting = [each for each in of_mode if (each.mode, each.setup) == (current.mode, current.setup)] or (
            of_mode if len(of_mode) == 1 else []
        )
    same = [each for each in fitting if each.fingerprint == current.fingerprint]
    return max(same or fitting, key=age, default=None)


def _is_the_same_step(base: Snapshot, current: Snapshot) -> bool:
    """One of the two replayed graphs by its own hand, and the other no longer, or not yet, does."""
    same = (base.target, base.setup) == (current.target, current.setup)
    return same and {base.mode, current.mode} == set(_BY_ITS_OWN_HAND)


def age(snapshot: Snapshot) -> tuple[str, str]:
    """When it was saved, else measured: the newest is the largest."""
    return snapshot.saved or snapshot.created or "", snapshot.created or ""


def why_none(current: Snapshot, baselines: Sequence[Snapshot] | None) -> str:
    """Why there is no baseline of it, in words, and the command that saves one."""
    save = f"launchscope baseline save {printable(current.source) or 'CURRENT'}"
    if baselines is None:
        return f"there is no baseline: save one with {save}, or name one with --baseline"
    same = _BY_ITS_OWN_HAND if current.mode in _BY_ITS_OWN_HAND else (current.mode,)
    near = [
        each
        for each in baselines
        if each.target == current.target and each.mode in same and setup_difference(each, current)
    ]
    if not near:
        return f"there is no baseline of {_which(current)}: save one of a good commit with {save}"
    closest = max(near, key=age)
    differs = setup_difference(closest, current)
    return f"the baseline of {_which(closest)} has {differs}: save one of a good commit with {save}"


def _which(snapshot: Snapshot) -> str:
    return f"{printable(snapshot.target)} in mode {snapshot.mode}"


def setup_difference(base: Snapshot, current: Snapshot) -> str:
    """How the baseline's setup is another one, in words; empty where it is the same."""
    was, now = _setup_in_words(base), _setup_in_words(current)
    differs = [name for name in was | now if was.get(name) != now.get(name)]
    return "; ".join(f"{name} {was.get(name, 'unset')}, not {now.get(name, 'unset')}" for name in differs)


def _setup_in_words(snapshot: Snapshot) -> dict[str, str]:
    """``Snapshot.setup`` by name."""
    given = {"batch size": snapshot.batch_size, "dtype": snapshot.dtype, "context length": snapshot.context_length}
    words = {name: "unknown" if value is None else printable(str(value)) for name, value in given.items()}
    words["ranks"] = str(snapshot.ranks)
    return words | {f"--set {printable(key)}": printable(value) for key, value in sorted(snapshot.settings.items())}
