"""A capture on disk: the way there and back, and every folder and .zip that can't be trusted."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.inputs import readers
from launchscope.analysis.model import capture
from launchscope.analysis.model.capture import CaptureWriter, Manifest, is_capture, open_capture
from launchscope.analysis.model.errors import LaunchscopeError, UnreadableInput
from launchscope.analysis.report import load

from ..captures import two_modes, write_capture

Damage = Callable[[zipfile.ZipFile], None]
MANIFEST = msgspec.json.encode(two_modes())


@pytest.mark.parametrize("name", ["kept", "kept.zip", "deep/er/kept"])
def test_there_and_back(tmp_path: Path, name: str) -> None:
    path = write_capture(tmp_path / name, two_modes())
    assert path == tmp_path / name
    assert is_capture(path)
    opened = open_capture(path)
    assert opened.manifest == two_modes()
    assert opened.trace_bytes("traces/eager-0-cuda.json.gz")[:2] == b"\x1f\x8b"
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    document = load(path).document
    assert document.profile is not None
    assert list(document.profile.modes) == ["eager", "graph"]


def test_a_folder_that_was_zipped_whole_opens_too(tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "kept", two_modes())
    with zipfile.ZipFile(tmp_path / "mailed.zip", "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, f"kept/{file.relative_to(folder)}")
    opened = open_capture(tmp_path / "mailed.zip")
    assert opened.manifest == two_modes()
    assert opened.trace_bytes("traces/graph-0-cuda.json.gz")


def test_later_fields_are_passed_over(tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "kept", two_modes())
    document = json.loads(MANIFEST) | {"mood": "good"}
    (folder / "manifest.json").write_text(json.dumps(document))
    assert open_capture(folder).manifest == two_modes()


def zipped(tmp_path: Path, damage: Damage) -> Path:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", MANIFEST)
        damage(archive)
    return path


def link(archive: zipfile.ZipFile) -> None:
    member = zipfile.ZipInfo("traces/link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(member, "/etc/passwd")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda a: a.writestr("../evil", b""), r"names a file outside of itself \('../evil'\)"),
        (lambda a: a.writestr("traces/../../evil", b""), "names a file outside of itself"),
        (lambda a: a.writestr("/etc/evil", b""), r"names a file outside of itself \('/etc/evil'\)"),
        (lambda a: a.writestr("C:\\evil", b""), "names a file outside of itself"),
        (lambda a: a.writestr("a\\..\\evil", b""), "names a file outside of itself"),
        (link, r"holds a link \('traces/link'\)"),
        (lambda a: a.writestr("other/manifest.json", b"{}"), "2 manifest.json inside; a capture has one"),
        (lambda a: a.filelist.append(a.filelist[0]), "holds two files of one name"),
    ],
)
def test_a_zip_that_no_capture_is(tmp_path: Path, damage: Damage, said: str) -> None:
    with pytest.raises(UnreadableInput, match=said):
        open_capture(zipped(tmp_path, damage))


def test_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_MEMBERS", 5)
    path = zipped(tmp_path, lambda a: [a.writestr(f"traces/{i}", b"") for i in range(5)] and None)
    with pytest.raises(UnreadableInput, match=r"6 entries, more than the 5 of any capture"):
        open_capture(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_zip_of_another_method(tmp_path: Path, method: int) -> None:
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("manifest.json", MANIFEST)
    with pytest.raises(UnreadableInput, match=r"manifest\.json is not packed with deflate; unpack it"):
        open_capture(path)


def test_every_damaged_byte_of_a_zips_own_records_is_refused_or_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "flipped.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", MANIFEST)
    whole = path.read_bytes()
    records = [*range(60), *range(len(whole) - 90, len(whole))]
    for position in records:
        for value in {0, 255, whole[position] ^ 1, whole[position] ^ 128}:
            path.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])
            with contextlib.suppress(UnreadableInput):
                assert open_capture(path).manifest == two_modes()


def test_too_much_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_UNPACKED_BYTES", 1 << 20)

    def bomb(archive: zipfile.ZipFile) -> None:
        archive.writestr("traces/bomb", bytes(2 << 20), zipfile.ZIP_DEFLATED)

    with pytest.raises(UnreadableInput, match=r"unpacks to over 1 MiB; no capture of its size does"):
        open_capture(zipped(tmp_path, bomb))


def test_a_trace_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (2 << 20) + b"[]"))
    with pytest.raises(UnreadableInput, match=r"bomb\.json\.gz: unpacks to over .* MiB; no trace of its size does"):
        load(path)


def test_a_member_that_is_larger_than_it_says(tmp_path: Path) -> None:
    """The sizes of a .zip are only claims."""
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", MANIFEST)
    true, claimed = len(MANIFEST).to_bytes(4, "little"), (10).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(true, claimed))
    with pytest.raises(UnreadableInput):
        open_capture(path)


@pytest.mark.parametrize("cut", [20, 200])
def test_a_zip_that_was_cut_or_damaged(tmp_path: Path, cut: int) -> None:
    whole = write_capture(tmp_path / "kept.zip", two_modes()).read_bytes()
    cut_off, damaged = tmp_path / "cut.zip", tmp_path / "damaged.zip"
    cut_off.write_bytes(whole[:-cut])
    damaged.write_bytes(whole[:cut] + bytes(byte ^ 0xFF for byte in whole[cut : cut + 50]) + whole[cut + 50 :])
    with pytest.raises(UnreadableInput, match=r"cut\.zip: can't be read as a \.zip"):
        open_capture(cut_off)
    with pytest.raises(UnreadableInput, match="damaged"):
        load(damaged)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "manifest.json is damaged"),
        (b"{", "manifest.json is damaged"),
        (b"[]", "manifest.json is damaged"),
        (b'{"schema": "launchscope.capture/2"}', r"its manifest is 'launchscope\.capture/2', this launchscope reads "
         r"'launchscope\.capture/1'; update it"),
        (b"{}", "its manifest is ''"),
        (b'{"schema": "launchscope.capture/1"}', "manifest.json is damaged.*profile again"),
        (MANIFEST.replace(b'"samples_ns":[', b'"samples_ns":["x",'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"samples_ns":[', b'"samples_ns":[1e308,'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"samples_ns":[', b'"samples_ns":[1e-320,'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"samples_ns":[', b'"samples_ns":[NaN,'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"marks_ns":[', b'"marks_ns":[[9223372036854775808,1]'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"repeat":0', b'"repeat":-1'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"trace_pass":"cuda"', b'"trace_pass":"\\u001b[31m"'), "manifest.json is damaged"),
        (MANIFEST.replace(b'"graph":', b'"grpah":'), "manifest.json is damaged"),
        (b'{"a":' * 100_000, "manifest.json is damaged"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_used(tmp_path: Path, content: bytes, said: str) -> None:
    folder = write_capture(tmp_path / "kept", two_modes())
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(UnreadableInput, match=said):
        open_capture(folder)


@pytest.mark.parametrize("trace", ["../secret.json", "/etc/passwd", "traces/../../secret.json"])
def test_a_manifest_that_names_a_trace_elsewhere(tmp_path: Path, trace: str) -> None:
    """It is never opened; what else the capture holds is reported, with a warning."""
    (tmp_path / "secret.json").write_text("{}")
    folder = write_capture(tmp_path / "kept", two_modes())
    text = MANIFEST.replace(b"traces/eager-0-cuda.json.gz", trace.encode())
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(UnreadableInput, match="names a file outside of itself"):
        open_capture(folder).trace_bytes(trace)
    document = load(folder).document
    assert document.profile is not None
    assert any("outside of itself" in w.message for w in document.profile.modes["eager"].warnings)


@pytest.mark.parametrize("name", ["linked", "folder"])
def test_a_link_inside_of_a_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.json").write_text("secret")
    folder = write_capture(tmp_path / "kept", two_modes())
    (folder / "traces" / "linked").symlink_to(tmp_path / "secret" / "x.json")
    (folder / "traces" / "folder").symlink_to(tmp_path / "secret")
    with pytest.raises(UnreadableInput, match="a link to a file outside of the capture"):
        open_capture(folder).trace_bytes(f"traces/{name}" + ("/x.json" if name == "folder" else ""))


def test_what_is_no_file_inside_of_a_folder_is_not_opened(tmp_path: Path) -> None:
    """A pipe would be waited for, a loop of links or a null character is no path."""
    folder = write_capture(tmp_path / "kept", two_modes())
    os.mkfifo(folder / "traces" / "pipe")
    (folder / "traces" / "loop").symlink_to("loop")
    for name in ("pipe", "loop", "", "nu\0ll"):
        with pytest.raises(UnreadableInput):
            open_capture(folder).trace_bytes(f"traces/{name}")


@pytest.mark.parametrize("name", ["kept", "kept.zip"])
def test_an_absent_trace_is_told(tmp_path: Path, name: str) -> None:
    path = write_capture(tmp_path / name, two_modes())
    with pytest.raises(UnreadableInput, match=r"absent\.json"):
        open_capture(path).trace_bytes("traces/absent.json")


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    assert not is_capture(tmp_path)
    with pytest.raises(UnreadableInput, match=r"a folder without manifest\.json, so no capture"):
        open_capture(tmp_path)


@pytest.mark.parametrize("name", ["kept", "kept.zip"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(LaunchscopeError, match="exists already; name another place with -o"):
        CaptureWriter(tmp_path / name)
    (tmp_path / name).unlink()
    writer = CaptureWriter(tmp_path / name)
    (tmp_path / name).write_text("came in between")
    with pytest.raises(LaunchscopeError, match="what was measured is in"):
        writer.finish(two_modes())
    assert (tmp_path / name).read_text() == "came in between"
    assert len(list(tmp_path.iterdir())) == 2  # it, and what was measured


def test_an_unfinished_capture_has_no_name(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "kept")
    assert [file.name.startswith(".kept-") for file in tmp_path.iterdir()] == [True]
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_defaults_of_a_manifest_are_those_of_the_schema() -> None:
    least = {"schema": capture.SCHEMA, "launchscope": "0", "created": "2026-01-01T00:00:00Z", "target": {"name": "m"}}
    assert msgspec.json.decode(json.dumps(least), type=Manifest).modes == {}
