"""Files of results, which name other files: tables of ranks, kept rows, reports, baselines, manifests of captures."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from launchscope.analysis.compare.check import Reading, look_at
from launchscope.analysis.inputs.sources import Source, Sources
from launchscope.analysis.many import many_story, ranks
from launchscope.analysis.many.document import RanksDocument
from launchscope.analysis.many.one_file import Job
from launchscope.analysis.many.ranks import KeptRows, analyze_ranks
from launchscope.analysis.model.errors import LaunchscopeError, UnreadableInput
from launchscope.analysis.report import load
from launchscope.dashboard.many.rank_pages import kept_table, places_of, report_of

from ..cases import NAMED_CASES
from . import json_damage
from .bytes_damage import damaged
from .promises import WIDTH, Outcome, require, require_clear, require_finite

ELSEWHERE: Final = (
    *("/etc/passwd", "../../../../etc/passwd", "/dev/zero", "/proc/self/environ", "~/.ssh/id_rsa", "a\0b", "x" * 5000),
    *(
        "https://127.0.0.1:9/x.json",
        "webhdfs://127.0.0.1/x",
        "ftp://127.0.0.1/x",
        "s3://bucket/x.json",
        "file:///etc/passwd",
    ),
    *("reference://::data:application/json;base64,e30=", "simplecache::https://127.0.0.1:9/x", "zip://x::memory://y"),
)


def changed(name: str, data: bytes, chance: random.Random) -> tuple[str, bytes]:
    """The file with odd values, with names of other files, or with damaged bytes."""
    if chance.random() < 0.25:
        return "bytes", damaged(data, chance)
    is_packed = name.endswith(".row")
    document = msgspec.msgpack.decode(data) if is_packed else json.loads(data)
    how = "names of other files" if chance.random() < 0.5 else "values"
    if how == "values":
        text = json_damage.changed(msgspec.json.encode(document), chance)
        if not is_packed:
            return how, text
        try:
            document = json.loads(text)
            return how, msgspec.msgpack.encode(document)
        except (ValueError, RecursionError, OverflowError):
            return how, damaged(data, chance)
    for _ in range(chance.choice((1, 3, 10))):
        _name_another(document, chance)
    return how, msgspec.msgpack.encode(document) if is_packed else msgspec.json.encode(document)


def _name_another(document: Any, chance: random.Random) -> None:
    """One of the document's texts becomes the name of a file elsewhere."""
    places = [(each, key) for each in _containers(document) for key in _keys(each) if isinstance(each[key], str)]
    if places:
        container, key = chance.choice(places)
        container[key] = chance.choice(ELSEWHERE)


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each)


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def keeps(name: str, data: bytes, folder: Path) -> Outcome:
    """What becomes of such a file where it is opened, and that nothing outside of its folder is."""
    place = folder / "results"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    try:
        with nothing_else_opened(folder):
            return _opened(name, data, place)
    except LaunchscopeError as error:
        require_clear(error, place)
        return "refused"


def _opened(name: str, data: bytes, place: Path) -> Outcome:
    path = place / name
    if name.endswith(".row"):
        return _kept_row(data, place)
    path.write_bytes(data)
    match name:
        case "ranks.json":
            doc = kept_table([path])
            if doc is None:
                return "refused"
            _require_told(doc)
            _open_rows(path, doc)
        case "manifest.json":
            require_finite(load(place).to_json())
        case _:
            for each in look_at(path, Reading()).snapshots:
                require(each.schema, "a snapshot without a schema")
    return "read"


def _open_rows(table: Path, doc: RanksDocument) -> None:
    """Each row's file, as the page of the table opens it: its report, or why it is not read. One of them is there."""
    with contextlib.chdir(table.parent):
        Path("rank0.json").write_bytes(NAMED_CASES["eager steps"]().json())
        read = partial(report_of, places=places_of([table], doc), cache=False)
        for row in doc.rows:
            with contextlib.suppress(UnreadableInput):
                require_finite(read([row]).to_json())


def _kept_row(data: bytes, place: Path) -> Outcome:
    """The row of a file that is there, as a folder of finished rows has it."""
    rows = place.parent / "rows"
    with contextlib.chdir(place):  # the row is of a file that was given by its name alone
        trace = Path("rank0.json")
        trace.write_bytes(b"{}")
        job = Job(Source(str(trace), trace.name))
        key = ranks._key(job)
        keeper = KeptRows(rows)
        pack = msgspec.msgpack.encode
        keeper._place(key).write_bytes(b"\x82" + pack("key") + pack(key) + pack("finished") + data)
        if keeper.find(job) is None:
            return "refused"
        _require_told(analyze_ranks(Sources((job.file,), (trace.name,)), resume=rows))
    return "read"


def _require_told(doc: Any) -> None:
    """The table in each of its outputs."""
    text = many_story.render_terminal(doc, width=WIDTH, color=False, verbose=True)
    require(all(line.isprintable() for line in text.split("\n")), "control characters on the terminal")
    require(
        all(line.isprintable() for line in many_story.render_markdown(doc).split("\n")),
        "control characters in Markdown",
    )
    require_finite(many_story.render_json(doc).encode())


_STARTED: Final = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
_CODE: Final = (*sys.path, sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), "/usr/lib", "/proc/self/status")
_LISTENING: Final[list[list[tuple[str, str]]]] = []  # each to be told of what is opened or started


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    for told in _LISTENING:
        if event in _STARTED:
            told.append((event, str(arguments)))
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            told.append((event, os.fsdecode(arguments[0])))


sys.addaudithook(_listen)  # for good: none can be taken away


@contextlib.contextmanager
def nothing_else_opened(folder: Path) -> Iterator[None]:
    """Broken where a file outside of the folder and of installed code is opened, or anything is called or started."""
    opened: list[tuple[str, str]] = []
    _LISTENING.append(opened)
    try:
        yield
    finally:
        _LISTENING.pop()
    ours = [Path(each).resolve() for each in (*_CODE, str(folder)) if each]
    others = [each for each in opened if each[0] != "open" or not _is_below(each[1], ours)]
    require(not others, f"opened: {others[:3]}")


def _is_below(path: str, places: list[Path]) -> bool:
    return any(Path(os.path.realpath(path)).is_relative_to(place) for place in places)
