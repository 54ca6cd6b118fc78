"""Damaged files by number: the same number of the same reader and campaign is the same file."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from . import aimed, bytes_damage, json_damage, results, sqlite_damage
from .promises import Outcome, archive_keeps, keeps
from .seeds import READERS, Seed, capture, packed, seeds

NAMES: Final = {"kineto-gzip": "rank3.pt.trace.json.gz", "nsys": "rank3.sqlite"}


class Mutant(NamedTuple):
    """One damaged file."""

    reader: str
    number: int
    seed: str
    how: str
    data: bytes


def mutant(reader: str, campaign: int, number: int) -> Mutant:
    """The file with this number."""
    chance = random.Random(f"{campaign} {reader} {number}")
    seed = chance.choice(seeds(reader))
    match reader:
        case "kineto" | "perfetto" | "proton":
            how, data = _text(seed, chance)
        case "kineto-gzip":
            how, data = _packed_text(seed, chance)
        case "nsys":
            how, data = _database(seed, chance)
        case "results":
            how, data = results.changed(seed.name, seed.data, chance)
        case _:
            how, data = _archive(reader, seed, chance)
    return Mutant(reader, number, seed.name, how, data)


def outcome(made: Mutant, folder: Path, *, outputs: bool) -> Outcome:
    """What becomes of it. Broken, or whatever it raises, where it breaks a promise."""
    if made.reader.endswith("zip"):
        return archive_keeps(made.data, folder / "mutant.zip", outputs=outputs)
    if made.reader == "results":
        return results.keeps(made.seed, made.data, folder)
    return keeps(made.data, folder / NAMES.get(made.reader, "rank3.json"), outputs=outputs)


def _text(seed: Seed, chance: random.Random) -> tuple[str, bytes]:
    match chance.randrange(11):
        case 0 | 1 | 2:
            return "bytes", bytes_damage.damaged(seed.data, chance)
        case 3:
            return "values, then bytes", bytes_damage.damaged(_changed(seed.data, chance), chance)
        case 4:
            other = chance.choice(seeds(chance.choice(READERS[:4]))).data
            return "spliced", seed.data[: chance.randrange(len(seed.data))] + other[chance.randrange(len(other)) :]
        case 5:
            return "rest of a file", aimed.rest_of_a_file(seed.data, chance)
        case 6 | 7:
            return "head, times, names", aimed.reworked(seed.data, chance, compact=_is_compact(seed.data))
        case _:
            return "values", _changed(seed.data, chance)


def _changed(data: bytes, chance: random.Random) -> bytes:
    """Other values, in a layout of Perfetto's or Proton's where the file has it."""
    if data.startswith(b'{"traceEvents":[\n'):
        lines = data.split(b"\n")
        for _ in range(chance.choice((1, 2, 5))):
            at = chance.randrange(1, len(lines))
            record = lines[at].rstrip(b",]")
            other = json_damage.changed(record, chance, compact=True)
            lines[at] = other + lines[at][len(record) :]
        return b"\n".join(lines)
    return b"\n".join(json_damage.changed(line, chance, compact=b'"us"' in data) for line in _documents(data))


def _is_compact(data: bytes) -> bool:
    return data.startswith((b'{"traceEvents":[\n', b'{"displayTimeUnit":'))


def _documents(data: bytes) -> list[bytes]:
    return data.split(b"\n") if data.startswith(b'{"displayTimeUnit"') else [data]


def _packed_text(seed: Seed, chance: random.Random) -> tuple[str, bytes]:
    text = gzip.decompress(seed.data)
    match chance.randrange(8):
        case 0 | 1:
            return "packed bytes", bytes_damage.damaged(seed.data, chance)
        case 2:
            return "packed values", gzip.compress(_changed(text, chance), mtime=0)
        case 3:
            at = chance.randrange(len(text))
            return "members", gzip.compress(text[:at], mtime=0) + bytes_damage.damaged(
                gzip.compress(text[at:], mtime=0), chance
            )
        case 4:
            return "gzip rest", aimed.gzip_rest(seed.data, chance)
        case 5:
            return "packed head, times, names", gzip.compress(aimed.reworked(text, chance, compact=False), mtime=0)
        case 6:
            return "packed rest of a file", gzip.compress(aimed.rest_of_a_file(text, chance), mtime=0)
        case _:
            stream = zlib.compressobj(wbits=31)
            at = chance.randrange(len(text))
            return "unfinished", stream.compress(text[:at]) + stream.flush(zlib.Z_SYNC_FLUSH)


def _database(seed: Seed, chance: random.Random) -> tuple[str, bytes]:
    match chance.randrange(11):
        case 0 | 1:
            return "pages", sqlite_damage.torn(seed.data, chance)
        case 2:
            return "bytes", seed.data[:16] + bytes_damage.damaged(seed.data[16:], chance)
        case 3:
            return "rows, then pages", sqlite_damage.torn(sqlite_damage.altered(seed.data, chance), chance)
        case 4:
            return "rows, packed", gzip.compress(sqlite_damage.altered(seed.data, chance), mtime=0)
        case 5:
            return "tail", aimed.cut_database(seed.data, chance)
        case 6:
            return "sectors", aimed.without_sector(seed.data, chance)
        case 7:
            return "packed, then rest", aimed.gzip_rest(gzip.compress(seed.data, mtime=0), chance)
        case _:
            return "rows", sqlite_damage.altered(seed.data, chance)


def _archive(reader: str, seed: Seed, chance: random.Random) -> tuple[str, bytes]:
    if chance.random() < 0.4:
        return "bytes", bytes_damage.damaged(seed.data, chance)
    with zipfile.ZipFile(io.BytesIO(seed.data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    if reader == "capture-zip" and chance.random() < 0.6:
        manifest = json_damage.changed(files["manifest.json"], chance)
        if chance.random() < 0.2:
            manifest = bytes_damage.damaged(manifest, chance)
        return "manifest", capture({}, manifest)
    for _ in range(chance.choice((1, 2))):
        name = chance.choice(list(files))
        other = mutant(chance.choice(READERS[:5]), chance.randrange(2**32), 0).data
        match chance.randrange(4):
            case 0:
                files[name] = other
            case 1:
                files["x" + chance.choice(json_damage.NAMES).encode("utf-8", "replace").decode()] = other
            case 2:
                files[chance.choice(("../x", "/etc/x", "a/../../x", "manifest.json", f"{name}/x"))] = files.pop(name)
            case _:
                files[name] = bytes_damage.damaged(files[name], chance)
        if not files:
            break
    return "members", packed(files)
